/* wire_v3_schema.c: the messages of BookkeeperProtocol.proto, as tables, and the envelope around them. */
#include "core/wire_fields.h"
#include <assert.h>

static bool is_version(uint32_t number) {
	return number >= 1 && number <= 3;
}
static bool is_operation(uint32_t number) {
	return number >= WK_WIRE_READ && number <= WK_WIRE_BATCH_READ;
}
static bool is_read_flag(uint32_t number) {
	return number == 1 || number == 2;
}
static bool is_add_flag(uint32_t number) {
	return number == 1;
}
bool wk_v3_is_status(uint32_t number) {
	return number == WK_WIRE_OK || (number >= WK_WIRE_NO_LEDGER && number <= WK_WIRE_BAD_REQUEST) ||
	       (number >= WK_WIRE_IO_ERROR && number <= WK_WIRE_UNKNOWN_STATE);
}

#define NUMBER(field) WK_PROTOBUF_TAG(field, WK_PROTOBUF_VARINT)
#define BYTES(field) WK_PROTOBUF_TAG(field, WK_PROTOBUF_BYTES)
#define SCHEMA(table) \
	{ table, sizeof(table) / sizeof *(table) }

static const wk_protobuf_field header[] = {
    {NUMBER(1), true, is_version}, {NUMBER(2), true, is_operation}, {NUMBER(3), true, NULL}, {NUMBER(4), false, NULL}};
static const wk_protobuf_field context_pair[] = {{BYTES(1), true, NULL}, {BYTES(2), true, NULL}};
static const wk_protobuf_field auth[] = {{BYTES(1), true, NULL}, {BYTES(2), true, NULL}};
static const wk_protobuf_field ledger[] = {{NUMBER(1), true, NULL}};

static const wk_protobuf_field read_request[] = {{NUMBER(1), true, NULL},  {NUMBER(2), true, NULL},
                                                 {BYTES(3), false, NULL},  {NUMBER(4), false, NULL},
                                                 {NUMBER(5), false, NULL}, {NUMBER(100), false, is_read_flag}};
static const wk_protobuf_field add_request[] = {{NUMBER(1), true, NULL},  {NUMBER(2), true, NULL},
                                                {BYTES(3), true, NULL},   {BYTES(4), true, NULL},
                                                {NUMBER(5), false, NULL}, {NUMBER(100), false, is_add_flag}};
static const wk_protobuf_field write_lac_request[] = {
    {NUMBER(1), true, NULL}, {NUMBER(2), true, NULL}, {BYTES(3), true, NULL}, {BYTES(4), true, NULL}};
static const wk_protobuf_field info_request[] = {{NUMBER(1), false, NULL}};

static const wk_protobuf_field read_reply[] = {
    {NUMBER(1), true, wk_v3_is_status}, {NUMBER(2), true, NULL}, {NUMBER(3), true, NULL}, {BYTES(4), false, NULL},
    {NUMBER(5), false, NULL},           {NUMBER(6), false, NULL}};
static const wk_protobuf_field add_reply[] = {
    {NUMBER(1), true, wk_v3_is_status}, {NUMBER(2), true, NULL}, {NUMBER(3), true, NULL}};
static const wk_protobuf_field ledger_reply[] = {{NUMBER(1), true, wk_v3_is_status}, {NUMBER(2), true, NULL}};
static const wk_protobuf_field read_lac_reply[] = {
    {NUMBER(1), true, wk_v3_is_status}, {NUMBER(2), true, NULL}, {BYTES(3), false, NULL}, {BYTES(4), false, NULL}};
static const wk_protobuf_field info_reply[] = {
    {NUMBER(1), true, wk_v3_is_status}, {NUMBER(2), false, NULL}, {NUMBER(3), false, NULL}};
static const wk_protobuf_field list_reply[] = {
    {NUMBER(1), true, wk_v3_is_status}, {NUMBER(2), true, NULL}, {BYTES(3), false, NULL}};

const wk_protobuf_schema wk_v3_context = SCHEMA(context_pair);
const wk_protobuf_schema wk_v3_requests[WK_V3_MESSAGES] = {
    [WK_V3_HEADER] = SCHEMA(header),
    [WK_V3_READ] = SCHEMA(read_request),
    [WK_V3_ADD] = SCHEMA(add_request),
    [WK_V3_AUTH] = SCHEMA(auth),
    [WK_V3_WRITE_LAC] = SCHEMA(write_lac_request),
    [WK_V3_READ_LAC] = SCHEMA(ledger),
    [WK_V3_BOOKIE_INFO] = SCHEMA(info_request),
    [WK_V3_START_TLS] = {NULL, 0},
    [WK_V3_FORCE] = SCHEMA(ledger),
    [WK_V3_LIST_ENTRIES] = SCHEMA(ledger),
};
const wk_protobuf_schema wk_v3_replies[WK_V3_MESSAGES] = {
    [WK_V3_HEADER] = SCHEMA(header),          [WK_V3_READ] = SCHEMA(read_reply),
    [WK_V3_ADD] = SCHEMA(add_reply),          [WK_V3_AUTH] = SCHEMA(auth),
    [WK_V3_WRITE_LAC] = SCHEMA(ledger_reply), [WK_V3_READ_LAC] = SCHEMA(read_lac_reply),
    [WK_V3_BOOKIE_INFO] = SCHEMA(info_reply), [WK_V3_START_TLS] = {NULL, 0},
    [WK_V3_FORCE] = SCHEMA(ledger_reply),     [WK_V3_LIST_ENTRIES] = SCHEMA(list_reply),
};

unsigned wk_v3_message_of(uint32_t operation) {
	static const uint8_t messages[] = {
	    [WK_WIRE_READ] = WK_V3_READ,
	    [WK_WIRE_ADD] = WK_V3_ADD,
	    [WK_WIRE_RANGE_READ] = WK_V3_NO_MESSAGE,
	    [WK_WIRE_RANGE_ADD] = WK_V3_NO_MESSAGE,
	    [WK_WIRE_AUTH] = WK_V3_AUTH,
	    [WK_WIRE_WRITE_LAC] = WK_V3_WRITE_LAC,
	    [WK_WIRE_READ_LAC] = WK_V3_READ_LAC,
	    [WK_WIRE_BOOKIE_INFO] = WK_V3_BOOKIE_INFO,
	    [WK_WIRE_START_TLS] = WK_V3_START_TLS,
	    [WK_WIRE_FORCE] = WK_V3_FORCE,
	    [WK_WIRE_LIST_ENTRIES] = WK_V3_LIST_ENTRIES,
	    [WK_WIRE_BATCH_READ] = WK_V3_NO_MESSAGE,
	};
	assert(is_operation(operation));
	return messages[operation];
}

/* Which message a field of the envelope is; WK_V3_NO_MESSAGE: none. */
static unsigned message_at(uint32_t tag) {
	if (tag == BYTES(1))
		return WK_V3_HEADER;
	uint32_t number = tag >> 3;
	if ((tag & 7) != WK_PROTOBUF_BYTES || number < WK_V3_FIRST_FIELD ||
	    number >= WK_V3_FIRST_FIELD + WK_V3_MESSAGES - 1)
		return WK_V3_NO_MESSAGE;
	return number - WK_V3_FIRST_FIELD + 1;
}

/* Each pair is a message of its own: unlike the others they are not merged. Nobody here wants to know what they say. */
static bool is_context_pair(const wk_protobuf_value *value, uint32_t *left) {
	wk_protobuf_message pair = {0};
	return wk_protobuf_merge(&wk_v3_context, value, &pair, left) && wk_protobuf_is_complete(&wk_v3_context, &pair);
}

static bool read_field(const wk_protobuf_schema *schemas, uint32_t tag, const wk_protobuf_value *value,
                       wk_v3_envelope *envelope, uint32_t *left) {
	unsigned message = message_at(tag);
	if (message != WK_V3_NO_MESSAGE)
		return wk_protobuf_merge(&schemas[message], value, &envelope->messages[message], left);
	if (schemas == wk_v3_requests)
		return tag != BYTES(WK_V3_CONTEXT_FIELD) || is_context_pair(value, left);
	if (tag == NUMBER(2) && wk_v3_is_status((uint32_t)value->number)) {
		envelope->has_status = true;
		envelope->status = (uint32_t)value->number;
	}
	return true;
}

bool wk_v3_envelope_read(const wk_protobuf_schema *schemas, const uint8_t *payload, size_t size,
                         wk_v3_envelope *envelope) {
	if (size == 0)
		return false;
	envelope->has_status = false;
	for (unsigned i = 0; i < WK_V3_MESSAGES; i++) {
		envelope->messages[i].present = false;
		envelope->messages[i].seen = 0;
	}
	uint32_t left = WK_FRAME_FIELDS_MAX;
	wk_protobuf_reader reader = {.at = payload, .end = payload + size, .left = &left};
	uint32_t tag;
	wk_protobuf_value value;
	while (wk_protobuf_next(&reader, &tag, &value))
		if (!read_field(schemas, tag, &value, envelope, &left))
			return false;
	if (reader.broken || !envelope->messages[WK_V3_HEADER].present)
		return false;
	for (unsigned i = 0; i < WK_V3_MESSAGES; i++)
		if (envelope->messages[i].present && !wk_protobuf_is_complete(&schemas[i], &envelope->messages[i]))
			return false;
	return schemas == wk_v3_requests || envelope->has_status;
}

uint8_t *wk_v3_put_header(uint8_t *at, uint32_t version, uint32_t operation, uint64_t txn_id, uint32_t priority) {
	*at++ = BYTES(1);
	uint8_t *size = at++;
	at = wk_protobuf_put_number(at, 1, version);
	at = wk_protobuf_put_number(at, 2, operation);
	at = wk_protobuf_put_number(at, 3, txn_id);
	if (priority != 0)
		at = wk_protobuf_put_number(at, 4, priority);
	*size = (uint8_t)(at - size - 1); /* at most 2 * 6 + 11 + 6: one byte says it */
	return at;
}
