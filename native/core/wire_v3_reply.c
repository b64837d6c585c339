/*
 * wire_v3_reply.c: v3's Response, written and read.
 *
 * The status stands twice, in the Response and in the operation's message, as Java's client looks at the one or the
 * other; and the message with its ids is always there, as a 4.17 client takes it for granted.
 */
#include "core/wire_fields.h"
#include <assert.h>
#include <string.h>

static uint8_t *put_read(const wk_wire_reply *reply, uint8_t *at) {
	at = wk_protobuf_put_number(at, 3, (uint64_t)reply->entry_id);
	if (reply->has_max_lac)
		at = wk_protobuf_put_number(at, 5, (uint64_t)reply->max_lac);
	if (reply->lac_update_ms != 0)
		at = wk_protobuf_put_number(at, 6, reply->lac_update_ms);
	return reply->has_body ? wk_protobuf_put_size(at, 4, reply->body_size) : at;
}

static uint8_t *put_read_lac(const wk_wire_reply *reply, uint8_t *at) {
	assert(reply->lac_size <= WK_WIRE_LAC_SIZE_MAX);
	if (reply->lac != NULL)
		at = wk_protobuf_put_bytes(at, 3, reply->lac, reply->lac_size);
	return reply->has_body ? wk_protobuf_put_size(at, 4, reply->body_size) : at;
}

static uint8_t *put_info(const wk_wire_reply *reply, uint8_t *at) {
	if (reply->has_space && reply->wanted & 1)
		at = wk_protobuf_put_number(at, 2, (uint64_t)reply->total_bytes);
	if (reply->has_space && reply->wanted & 2)
		at = wk_protobuf_put_number(at, 3, (uint64_t)reply->free_bytes);
	return at;
}

/* The body stands last, whatever its number: the caller's bytes follow. */
static uint8_t *put_message(unsigned kind, const wk_wire_reply *reply, uint8_t *at) {
	if (kind == WK_V3_START_TLS)
		return at;
	if (kind == WK_V3_AUTH) {
		at = wk_protobuf_put_bytes(at, 1, reply->auth_name, reply->auth_name_size);
		return wk_protobuf_put_size(at, 2, reply->body_size);
	}
	at = wk_protobuf_put_number(at, 1, reply->code);
	if (kind == WK_V3_BOOKIE_INFO)
		return put_info(reply, at);
	at = wk_protobuf_put_number(at, 2, (uint64_t)reply->ledger_id);
	if (kind == WK_V3_READ)
		return put_read(reply, at);
	if (kind == WK_V3_ADD)
		return wk_protobuf_put_number(at, 3, (uint64_t)reply->entry_id);
	if (kind == WK_V3_READ_LAC)
		return put_read_lac(reply, at);
	if (kind == WK_V3_LIST_ENTRIES && reply->has_body)
		return wk_protobuf_put_size(at, 3, reply->body_size);
	return at;
}

uint8_t *wk_wire_v3_reply_put(const wk_wire_reply *reply, uint8_t *at) {
	assert(wk_v3_is_status(reply->code));
	at = wk_v3_put_header(at, reply->header_version, reply->operation, reply->txn_id, 0);
	at = wk_protobuf_put_number(at, 2, reply->code);
	unsigned kind = wk_v3_message_of(reply->operation);
	if (kind == WK_V3_NO_MESSAGE || reply->bare) {
		assert(reply->body_size == 0);
		return at;
	}
	uint8_t message[WK_WIRE_HEAD_SIZE_MAX];
	size_t size = (size_t)(put_message(kind, reply, message) - message);
	at = wk_protobuf_put_size(at, WK_V3_FIRST_FIELD + kind - 1, size + reply->body_size);
	memcpy(at, message, size);
	return at + size;
}

static void take_body(const wk_protobuf_message *message, unsigned field, wk_wire_reply *reply) {
	reply->has_body = wk_protobuf_has(message, field);
	reply->body = wk_protobuf_bytes(message, field, &reply->body_size);
}

static void take_read(const wk_protobuf_message *message, wk_wire_reply *reply) {
	reply->entry_id = (int64_t)wk_protobuf_number(message, REPLY_ENTRY_ID, 0);
	reply->has_max_lac = wk_protobuf_has(message, READ_MAX_LAC);
	reply->max_lac = (int64_t)wk_protobuf_number(message, READ_MAX_LAC, 0);
	reply->lac_update_ms = wk_protobuf_number(message, READ_LAC_UPDATE, 0);
	take_body(message, READ_BODY, reply);
}

static void take_info(const wk_protobuf_message *message, wk_wire_reply *reply) {
	reply->wanted = (wk_protobuf_has(message, INFO_TOTAL) ? 1u : 0u) | (wk_protobuf_has(message, INFO_FREE) ? 2u : 0u);
	reply->has_space = reply->wanted != 0;
	reply->total_bytes = (int64_t)wk_protobuf_number(message, INFO_TOTAL, 0);
	reply->free_bytes = (int64_t)wk_protobuf_number(message, INFO_FREE, 0);
}

static void take_read_lac(const wk_protobuf_message *message, wk_wire_reply *reply) {
	if (wk_protobuf_has(message, LAC_BODY)) {
		reply->lac = message->values[LAC_BODY].bytes;
		reply->lac_size = message->values[LAC_BODY].number;
	}
	take_body(message, LAST_ENTRY_BODY, reply);
}

static void take_message(unsigned kind, const wk_protobuf_message *message, wk_wire_reply *reply) {
	if (kind == WK_V3_AUTH) {
		reply->auth_name = wk_protobuf_bytes(message, AUTH_NAME, &reply->auth_name_size);
		take_body(message, AUTH_PAYLOAD, reply);
		return;
	}
	if (kind == WK_V3_START_TLS)
		return;
	/* Where the two differ, one of them says that it failed. */
	if (reply->code == WK_WIRE_OK)
		reply->code = (uint32_t)message->values[STATUS].number;
	if (kind == WK_V3_BOOKIE_INFO) {
		take_info(message, reply);
		return;
	}
	reply->ledger_id = (int64_t)wk_protobuf_number(message, REPLY_LEDGER_ID, 0);
	if (kind == WK_V3_READ)
		take_read(message, reply);
	else if (kind == WK_V3_ADD)
		reply->entry_id = (int64_t)wk_protobuf_number(message, REPLY_ENTRY_ID, 0);
	else if (kind == WK_V3_READ_LAC)
		take_read_lac(message, reply);
	else if (kind == WK_V3_LIST_ENTRIES)
		take_body(message, LIST_AVAILABILITY, reply);
}

bool wk_wire_v3_reply_decode(const uint8_t *payload, size_t size, wk_wire_reply *reply) {
	wk_v3_envelope envelope;
	if (!wk_v3_envelope_read(wk_v3_replies, payload, size, &envelope))
		return false;
	const wk_protobuf_message *header = &envelope.messages[WK_V3_HEADER];
	*reply = (wk_wire_reply){
	    .version = WK_WIRE_V3,
	    .header_version = (uint32_t)header->values[HEADER_VERSION].number,
	    .operation = (uint32_t)header->values[HEADER_OPERATION].number,
	    .code = envelope.status,
	    .txn_id = header->values[HEADER_TXN_ID].number,
	    .ledger_id = -1,
	    .entry_id = -1,
	    .bare = true,
	};
	unsigned kind = wk_v3_message_of(reply->operation);
	if (kind != WK_V3_NO_MESSAGE && envelope.messages[kind].present) {
		reply->bare = false;
		take_message(kind, &envelope.messages[kind], reply);
	}
	return true;
}
