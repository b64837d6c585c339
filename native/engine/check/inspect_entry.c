/* inspect_entry.c: one entry, and what it holds: catalogue records in ledger 0, a log's records elsewhere. */
#include <string.h>

#include "core/catalogue_record.h"
#include "engine/check/inspector.h"
#include "engine/ledger.h"
#include "records/buffer.h"
#include "records/entry_records.h"
#include "walkeeper/entry.h"

/* Which members a catalogue record of which types has (catalogue_record.h). All are 64 bits wide. */
#define IN(type) (1u << WK_CATALOGUE_##type)
static const uint32_t of_a_log = ~IN(COUNTERS);
static const struct {
	const char *name;
	size_t offset;
	uint32_t types;
} members[] = {
#define MEMBER(key, field, types) \
	{ key, offsetof(wk_catalogue_record, field), types }
    MEMBER("segment_bytes", segment_bytes, IN(CREATE)),
    MEMBER("segment_seconds", segment_seconds, IN(CREATE)),
    MEMBER("retention_seconds", retention_seconds, IN(CREATE)),
    MEMBER("codec", codec, IN(CREATE)),
    MEMBER("txid_source", txid_source, IN(CREATE) | IN(SOURCE)),
    MEMBER("flags", flags, IN(CREATE) | IN(SOURCE)),
    MEMBER("segment", segment, IN(CREATE) | IN(SEGMENT) | IN(COMPLETE) | IN(TRUNCATE) | IN(CURSOR) | IN(GAP)),
    MEMBER("ledger", ledger_id, IN(SEGMENT)),
    MEMBER("entry", entry_id, IN(COMPLETE) | IN(TRUNCATE) | IN(CURSOR) | IN(GAP)),
    MEMBER("last_entry", last_entry_id, IN(GAP)),
    MEMBER("slot", slot, IN(COMPLETE) | IN(TRUNCATE) | IN(CURSOR)),
    MEMBER("sequence_id", sequence_id, IN(SEGMENT) | IN(TRUNCATE) | IN(CURSOR) | IN(GAP)),
    MEMBER("txid", txid, IN(SEGMENT) | IN(COMPLETE) | IN(TRUNCATE) | IN(CURSOR)),
    MEMBER("count", count, IN(COMPLETE) | IN(GAP)),
    MEMBER("payload_bytes", payload_bytes, IN(COMPLETE)),
    MEMBER("created_ms", created_ms, IN(SEGMENT)),
    MEMBER("next_log", next_log_id, IN(COUNTERS)),
    MEMBER("next_ledger", next_ledger_id, IN(COUNTERS)),
#undef MEMBER
};

static const char *type_name(uint32_t type) {
	static const char *const names[] = {"",         "create", "segment", "complete", "truncate", "cursor",
	                                    "uncursor", "delete", "rename",  "source",   "gap",      "counters"};
	return type < sizeof names / sizeof *names ? names[type] : "unknown";
}

static void put_catalogue_record(wk_json *json, const wk_catalogue_record *record) {
	uint32_t type = 1u << record->type;
	wk_json_open(json, NULL, '{');
	wk_json_string(json, "type", type_name(record->type));
	if (of_a_log & type)
		wk_json_unsigned(json, "log", record->log_id);
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		int64_t value;
		memcpy(&value, (const char *)record + members[i].offset, sizeof value);
		if (members[i].types & type)
			wk_json_integer(json, members[i].name, value);
	}
	if ((IN(CREATE) | IN(CURSOR) | IN(UNCURSOR) | IN(RENAME)) & type)
		wk_json_text(json, "name", record->name, record->name_size);
	wk_json_close(json, '}');
}

static wk_status put_catalogue(wk_json *json, const wk_entry *entry) {
	wk_json_open(json, "catalogue", '[');
	size_t at = 0, consumed;
	wk_catalogue_record record;
	wk_status status;
	while ((status = wk_catalogue_decode(entry->payload + at, entry->payload_size - at, &record, &consumed)) == WK_OK) {
		put_catalogue_record(json, &record);
		at += consumed;
	}
	wk_json_close(json, ']');
	return status == WK_END ? WK_OK : status;
}

/* The entry's bytes in a buffer of its own: what wk_entry_records_open wants. */
static wk_status put_records(wk_json *json, const uint8_t *bytes, size_t size) {
	wk_buffer *buffer = wk_buffer_new(NULL, size);
	if (buffer == NULL)
		return WK_NO_MEMORY;
	memcpy(buffer->bytes, bytes, size);
	wk_entry_records records;
	wk_status status = wk_entry_records_open(&records, buffer, buffer->bytes, size);
	wk_json_open(json, "records", '[');
	wk_log_record record;
	while (status == WK_OK && (status = wk_entry_records_next(&records, &record)) == WK_OK) {
		wk_json_open(json, NULL, '{');
		wk_json_integer(json, "txid", record.txid);
		wk_json_unsigned(json, "position", record.position);
		wk_json_unsigned(json, "size", record.payload_size);
		wk_json_unsigned(json, "flags", record.flags);
		wk_json_close(json, '}');
	}
	wk_json_close(json, ']');
	wk_entry_records_close(&records);
	wk_buffer_release(buffer);
	return status == WK_END ? WK_OK : status;
}

/* An entry of a ledger store: what stands behind its ids is its client's affair. false: it is none. */
static bool put_summed(wk_json *json, uint64_t offset, const uint8_t *bytes, size_t size) {
	int64_t ledger_id, entry_id;
	if (wk_summed_entry_decode(bytes, size, &ledger_id, &entry_id) != WK_OK)
		return false;
	wk_json_integer(json, "entry", entry_id);
	wk_json_integer(json, "ledger", ledger_id);
	wk_json_unsigned(json, "offset", offset);
	wk_json_unsigned(json, "size", size);
	wk_json_string(json, "sum", "ok");
	return true;
}

wk_status wk_inspect_entry(wk_inspector *inspector, uint64_t offset, const uint8_t *bytes, size_t size) {
	wk_json *json = &inspector->json;
	wk_entry entry;
	wk_status status = wk_entry_decode(bytes, size, &entry);
	wk_json_begin(json);
	if (status != WK_OK && put_summed(json, offset, bytes, size))
		return wk_inspector_line(inspector);
	if (status != WK_OK) {
		wk_json_unsigned(json, "entry_at", offset);
		wk_json_unsigned(json, "size", size);
		wk_json_string(json, "digest", "bad");
		wk_inspector_damage(inspector, "the entry at offset %llu differs from its digest", (unsigned long long)offset);
		return wk_inspector_line(inspector);
	}
	wk_json_integer(json, "entry", entry.entry_id);
	wk_json_integer(json, "ledger", entry.ledger_id);
	wk_json_integer(json, "lac", entry.lac);
	wk_json_integer(json, "length", entry.length);
	wk_json_unsigned(json, "offset", offset);
	wk_json_unsigned(json, "size", size);
	wk_json_string(json, "digest", "ok");
	status = entry.ledger_id == 0 ? put_catalogue(json, &entry) : put_records(json, bytes, size);
	if (status == WK_NO_MEMORY)
		return wk_fail(inspector->error, status, "inspecting %s: no memory", inspector->view.path);
	if (status != WK_OK) /* its digest fits: the bytes are what was written, but no records that this version knows */
		wk_json_string(json, "records_end", status == WK_UNSUPPORTED ? "of a newer version" : "not records");
	return wk_inspector_line(inspector);
}
