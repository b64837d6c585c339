/*
 * catalogue_record.c: the changes of a directory's logs, as the entries of ledger 0 hold them.
 *
 * A body is its type's fields, eight bytes each, little-endian, in the order of the tables below, then for some types a
 * name that fills the rest. The tables are the format: encoder and decoder only walk them.
 */
#include "core/catalogue_record.h"
#include "core/bytes.h"
#include <assert.h>

enum { SIZE_AT = 0, TYPE_AT = 4, ZERO_AT = 5, BODY_AT = 8, FIELD_SIZE = 8, FIELDS_MAX = 8, NAME_MAX = 255 };
enum { CODEC_MAX = WK_CODEC_ZSTD, TXID_SOURCE_MAX = 2 }; /* enum wk_txid_source of log.h */

/* A field of wk_catalogue_record (its bits, as uint64) and what it may hold. */
typedef struct field {
	size_t offset;
	uint64_t max;
	bool or_none; /* -1 is allowed too: none, or unknown */
} field;

#define FIELD(member, max_, or_none_) \
	{ offsetof(wk_catalogue_record, member), max_, or_none_ }
#define LOG_ID FIELD(log_id, UINT64_MAX, false)
#define SEGMENT FIELD(segment, INT64_MAX, false)
#define LEDGER FIELD(ledger_id, INT64_MAX, false)
#define ENTRY FIELD(entry_id, INT64_MAX, true)
#define SLOT FIELD(slot, INT64_MAX, true)
#define SEQUENCE FIELD(sequence_id, INT64_MAX, false)
#define SEQUENCE_OR_NONE FIELD(sequence_id, INT64_MAX, true)
#define TXID FIELD(txid, INT64_MAX, true)
#define COUNT FIELD(count, INT64_MAX, false)
#define SOURCE FIELD(txid_source, TXID_SOURCE_MAX, false)
#define FLAGS FIELD(flags, WK_CATALOGUE_FLAG_END_OF_STREAM, false)

typedef struct shape {
	uint32_t fields_count;
	bool named;
	field fields[FIELDS_MAX];
} shape;

/* A line a type: the table is read more often than it is written. */
/* clang-format off */
static const shape shapes[] = {
	[WK_CATALOGUE_CREATE] = {8, true,
		{LOG_ID, FIELD(segment_bytes, UINT64_MAX, false), FIELD(segment_seconds, UINT64_MAX, false),
		 FIELD(retention_seconds, UINT64_MAX, false), FIELD(codec, CODEC_MAX, false), SOURCE, FLAGS, SEGMENT}},
	[WK_CATALOGUE_SEGMENT] = {6, false,
		{LOG_ID, SEGMENT, LEDGER, SEQUENCE, TXID, FIELD(created_ms, UINT64_MAX, false)}},
	[WK_CATALOGUE_COMPLETE] = {7, false,
		{LOG_ID, SEGMENT, COUNT, ENTRY, SLOT, TXID, FIELD(payload_bytes, INT64_MAX, false)}},
	[WK_CATALOGUE_TRUNCATE] = {6, false, {LOG_ID, SEGMENT, ENTRY, SLOT, SEQUENCE_OR_NONE, TXID}},
	[WK_CATALOGUE_CURSOR] = {6, true, {LOG_ID, SEGMENT, ENTRY, SLOT, SEQUENCE_OR_NONE, TXID}},
	[WK_CATALOGUE_UNCURSOR] = {1, true, {LOG_ID}},
	[WK_CATALOGUE_DELETE] = {1, false, {LOG_ID}},
	[WK_CATALOGUE_RENAME] = {1, true, {LOG_ID}},
	[WK_CATALOGUE_SOURCE] = {3, false, {LOG_ID, SOURCE, FLAGS}},
	[WK_CATALOGUE_GAP] = {6, false, {LOG_ID, SEQUENCE, COUNT, SEGMENT, ENTRY, FIELD(last_entry_id, INT64_MAX, false)}},
	[WK_CATALOGUE_COUNTERS] = {2, false,
		{FIELD(next_log_id, UINT64_MAX, false), FIELD(next_ledger_id, INT64_MAX, false)}},
};
/* clang-format on */
enum { TYPE_MAX = sizeof shapes / sizeof shapes[0] - 1 };
static_assert(TYPE_MAX == (int)WK_CATALOGUE_COUNTERS, "every type has its shape");
static_assert(BODY_AT + FIELDS_MAX * FIELD_SIZE + NAME_MAX <= WK_CATALOGUE_RECORD_MAX, "the largest record fits");

static uint64_t get(const wk_catalogue_record *record, const field *f) {
	uint64_t value;
	memcpy(&value, (const uint8_t *)record + f->offset, sizeof value);
	return value;
}

static void set(wk_catalogue_record *record, const field *f, uint64_t value) {
	memcpy((uint8_t *)record + f->offset, &value, sizeof value);
}

static bool is_possible(const field *f, uint64_t value) {
	return value <= f->max || (f->or_none && value == (uint64_t)-1);
}

static bool is_name_size(const shape *s, size_t size) {
	return s->named ? size >= 1 && size <= NAME_MAX : size == 0;
}

size_t wk_catalogue_encode(const wk_catalogue_record *record, uint8_t *bytes) {
	assert(record->type >= WK_CATALOGUE_CREATE && record->type <= TYPE_MAX);
	const shape *s = &shapes[record->type];
	size_t name_size = s->named ? record->name_size : 0;
	assert(is_name_size(s, name_size));
	size_t fields_size = s->fields_count * (size_t)FIELD_SIZE;
	wk_store_le32(bytes + SIZE_AT, (uint32_t)(fields_size + name_size));
	wk_store_le32(bytes + TYPE_AT, record->type); /* the three bytes behind it are zero */
	for (uint32_t i = 0; i < s->fields_count; i++) {
		uint64_t value = get(record, &s->fields[i]);
		assert(is_possible(&s->fields[i], value));
		wk_store_le64(bytes + BODY_AT + i * (size_t)FIELD_SIZE, value);
	}
	if (name_size > 0)
		memcpy(bytes + BODY_AT + fields_size, record->name, name_size);
	return BODY_AT + fields_size + name_size;
}

wk_status wk_catalogue_decode(const uint8_t *bytes, size_t size, wk_catalogue_record *record, size_t *consumed) {
	if (size == 0)
		return WK_END;
	if (size < BODY_AT)
		return WK_CORRUPT;
	uint32_t body_size = wk_load_le32(bytes + SIZE_AT);
	uint32_t type = bytes[TYPE_AT];
	if (body_size > size - BODY_AT || type == 0)
		return WK_CORRUPT;
	if ((bytes[ZERO_AT] | bytes[ZERO_AT + 1] | bytes[ZERO_AT + 2]) != 0)
		return WK_CORRUPT;
	if (type > TYPE_MAX)
		return WK_UNSUPPORTED;
	const shape *s = &shapes[type];
	size_t fields_size = s->fields_count * (size_t)FIELD_SIZE;
	if (body_size < fields_size || !is_name_size(s, body_size - fields_size))
		return WK_CORRUPT;
	wk_catalogue_record found = {.type = type};
	for (uint32_t i = 0; i < s->fields_count; i++) {
		uint64_t value = wk_load_le64(bytes + BODY_AT + i * (size_t)FIELD_SIZE);
		if (!is_possible(&s->fields[i], value))
			return WK_CORRUPT;
		set(&found, &s->fields[i], value);
	}
	if (s->named) {
		found.name = (const char *)bytes + BODY_AT + fields_size;
		found.name_size = body_size - fields_size;
	}
	*record = found;
	*consumed = BODY_AT + (size_t)body_size;
	return WK_OK;
}
