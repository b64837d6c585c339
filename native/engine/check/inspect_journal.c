/* inspect_journal.c: the blocks of one journal file, whole or not. */
#include <string.h>

#include "core/journal_scan.h"
#include "engine/base/file_name.h"
#include "engine/check/inspector.h"

typedef struct walk {
	wk_inspector *inspector;
	wk_scan chain; /* as far as it goes, taken up again behind a break */
	wk_scan judge; /* the chain at its first break, for the blocks behind it to witness */
	bool broken;
	uint64_t broken_at;
} walk;

static wk_status put_file(wk_inspector *inspector, const uint8_t directory_id[16], uint64_t epoch, bool sealed) {
	wk_json *json = &inspector->json;
	wk_json_begin(json);
	wk_json_string(json, "kind", "journal");
	wk_json_unsigned(json, "size", inspector->view.size);
	wk_json_unsigned(json, "epoch", epoch);
	wk_json_string(json, "name", wk_file_name_of(epoch, WK_FILE_JOURNAL).text);
	wk_json_hex(json, "directory_id", directory_id, WK_DIRECTORY_ID_SIZE);
	wk_json_boolean(json, "sealed", sealed);
	return wk_inspector_line(inspector);
}

static uint32_t count_records(const uint8_t *bytes, const wk_block_header *header) {
	uint32_t cursor = WK_BLOCK_HEADER_SIZE, count = 0;
	wk_block_record record;
	while (wk_block_next(bytes, header, &cursor, &record) == WK_OK)
		count++;
	return count;
}

static wk_status put_block(wk_inspector *inspector, const uint8_t *bytes, const wk_block_header *header, bool whole,
                           bool chained) {
	wk_json *json = &inspector->json;
	wk_json_begin(json);
	wk_json_unsigned(json, "block", header->sequence);
	wk_json_unsigned(json, "offset", header->offset);
	wk_json_unsigned(json, "size", header->size);
	wk_json_unsigned(json, "used", header->used);
	wk_json_unsigned(json, "incarnation", header->incarnation);
	wk_json_unsigned(json, "durable_through", header->durable_through);
	wk_json_unsigned(json, "in_flight_max", header->in_flight_max);
	wk_json_unsigned(json, "flags", header->flags);
	wk_json_string(json, "crc", whole ? "ok" : "bad");
	wk_json_boolean(json, "chained", chained);
	wk_json_unsigned(json, "records", whole ? count_records(bytes, header) : 0);
	return wk_inspector_line(inspector);
}

static wk_status put_state_record(wk_inspector *inspector, uint64_t offset, const wk_block_record *record) {
	wk_json_begin(&inspector->json);
	wk_json_unsigned(&inspector->json, "record_at", offset);
	wk_json_unsigned(&inspector->json, "type", record->type);
	wk_json_unsigned(&inspector->json, "size", record->size);
	return wk_inspector_line(inspector);
}

static wk_status put_entries(wk_inspector *inspector, uint64_t at, const wk_block_header *header,
                             const uint8_t *bytes) {
	uint32_t cursor = WK_BLOCK_HEADER_SIZE;
	wk_block_record record;
	wk_status status = WK_OK;
	while (status == WK_OK && wk_block_next(bytes, header, &cursor, &record) == WK_OK) {
		uint64_t offset = at + record.offset;
		bool entry = record.type == WK_BLOCK_ENTRY || record.type == WK_BLOCK_SUMMED_ENTRY;
		status = entry ? wk_inspect_entry(inspector, offset, record.bytes, record.size)
		               : put_state_record(inspector, offset, &record);
	}
	return status;
}

static void note_break(walk *w, uint64_t at) {
	if (w->broken)
		return;
	w->broken = true;
	w->broken_at = at;
	w->judge = w->chain;
}

/* What stands at `at`: the next block of the chain, another one of this file, or nothing of it. *step: how far to go
 * on. */
static wk_status visit(walk *w, uint64_t at, const uint8_t *bytes, size_t available, uint32_t *step) {
	wk_inspector *inspector = w->inspector;
	wk_block_header header;
	*step = WK_BLOCK_ALIGNMENT;
	w->chain.offset = at;
	if (wk_scan_block(&w->chain, bytes, available, &header) == WK_SCAN_ACCEPTED) {
		*step = header.size;
		if (w->broken)
			wk_scan_later(&w->judge, &header);
		wk_status status = put_block(inspector, bytes, &header, true, true);
		return status == WK_OK && inspector->entries ? put_entries(inspector, at, &header, bytes) : status;
	}
	note_break(w, at);
	if (wk_block_peek(bytes, available, &header) != WK_OK || header.offset != at || header.epoch != w->chain.epoch ||
	    memcmp(header.directory_id, w->chain.directory_id, sizeof header.directory_id) != 0)
		return WK_OK;
	bool whole = wk_block_decode(bytes, available, &header) == WK_OK;
	if (whole) {
		*step = header.size;
		wk_scan_later(&w->judge, &header);
		w->chain.anchored = false; /* taken as it is: the chain goes on behind it */
		w->chain.offset = at;
		wk_scan_block(&w->chain, bytes, available, &header);
	}
	wk_status status = put_block(inspector, bytes, &header, whole, false);
	return status == WK_OK && whole && inspector->entries ? put_entries(inspector, at, &header, bytes) : status;
}

static void conclude(walk *w, const wk_footer *footer) {
	unsigned long long at = w->broken_at;
	if (w->broken && (footer != NULL || wk_scan_damaged(&w->judge)))
		wk_inspector_damage(w->inspector, "the block at offset %llu is not whole, and %s", at,
		                    footer != NULL ? "the footer says that it was" : "a later block shows that it was durable");
	else if (footer != NULL && footer->last_sequence >= footer->first_sequence &&
	         (footer->last_sequence != w->chain.sequence || footer->last_crc != w->chain.crc))
		wk_inspector_damage(w->inspector,
		                    "the footer ends with block %llu, but the last block is %llu or another one of that number",
		                    (unsigned long long)footer->last_sequence, (unsigned long long)w->chain.sequence);
}

wk_status wk_inspect_journal(wk_inspector *inspector, const uint8_t directory_id[16], uint64_t epoch,
                             const wk_footer *footer) {
	wk_status status = put_file(inspector, directory_id, epoch, footer != NULL);
	walk w = {.inspector = inspector};
	wk_scan_init(&w.chain, directory_id);
	wk_scan_file(&w.chain, epoch);
	uint64_t end = footer != NULL ? footer->end_offset : inspector->view.size;
	for (uint64_t at = 0; at < end && status == WK_OK;) {
		const uint8_t *bytes;
		size_t available;
		uint32_t step = WK_BLOCK_ALIGNMENT;
		status = wk_file_view_block(&inspector->view, at, &bytes, &available, inspector->error);
		if (status == WK_OK)
			status = visit(&w, at, bytes, available < end - at ? available : (size_t)(end - at), &step);
		at += step;
	}
	if (status == WK_OK && footer != NULL)
		status = wk_inspect_footer(inspector, footer);
	if (status != WK_OK)
		return status;
	conclude(&w, footer);
	if (footer == NULL && wk_file_view_has_broken_footer(&inspector->view, directory_id, epoch))
		wk_inspector_damage(inspector, "the footer's last page, at offset %llu, is not whole",
		                    (unsigned long long)(inspector->view.size - WK_PAGE_SIZE));
	return WK_OK;
}
