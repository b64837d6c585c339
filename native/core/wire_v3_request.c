/* wire_v3_request.c: v3's Request, read and written. */
#include "core/wire_fields.h"
#include <assert.h>
#include <string.h>

enum { FLAG_FENCE_LEDGER = 1, FLAG_ENTRY_PIGGYBACK = 2, FLAG_RECOVERY_ADD = 1, WRITE_FLAG_DEFERRED_SYNC = 1 };

static int64_t signed_of(const wk_protobuf_message *message, unsigned field) {
	return (int64_t)wk_protobuf_number(message, field, 0);
}

/* A read that names the last LAC it knows waits for a higher one, unless it fences: then that LAC is of no account. */
static void take_read(const wk_protobuf_message *message, wk_wire_request *request) {
	request->entry_id = signed_of(message, ENTRY_ID);
	request->key = wk_protobuf_bytes(message, READ_KEY, &request->key_size);
	uint32_t flag = (uint32_t)wk_protobuf_number(message, READ_FLAG, 0);
	if (flag == FLAG_FENCE_LEDGER) {
		request->flags |= WK_WIRE_FENCE;
		return;
	}
	if (flag == FLAG_ENTRY_PIGGYBACK)
		request->flags |= WK_WIRE_PIGGYBACK;
	if (wk_protobuf_has(message, READ_PREVIOUS_LAC)) {
		request->flags |= WK_WIRE_LONG_POLL;
		request->previous_lac = signed_of(message, READ_PREVIOUS_LAC);
		request->has_timeout = wk_protobuf_has(message, READ_TIMEOUT);
		request->timeout_ms = signed_of(message, READ_TIMEOUT);
	}
}

static void take_add(const wk_protobuf_message *message, wk_wire_request *request) {
	request->entry_id = signed_of(message, ENTRY_ID);
	request->key = wk_protobuf_bytes(message, ADD_KEY, &request->key_size);
	request->body = wk_protobuf_bytes(message, ADD_BODY, &request->body_size);
	if (wk_protobuf_number(message, ADD_WRITE_FLAGS, 0) & WRITE_FLAG_DEFERRED_SYNC)
		request->flags |= WK_WIRE_DEFERRED;
	if (wk_protobuf_has(message, ADD_FLAG))
		request->flags |= WK_WIRE_RECOVERY;
}

static void take_write_lac(const wk_protobuf_message *message, wk_wire_request *request) {
	request->lac = signed_of(message, WRITE_LAC_LAC);
	request->key = wk_protobuf_bytes(message, WRITE_LAC_KEY, &request->key_size);
	request->body = wk_protobuf_bytes(message, WRITE_LAC_BODY, &request->body_size);
}

static void take_message(unsigned kind, const wk_protobuf_message *message, wk_wire_request *request) {
	if (kind == WK_V3_AUTH) {
		request->auth_name = wk_protobuf_bytes(message, AUTH_NAME, &request->auth_name_size);
		request->body = wk_protobuf_bytes(message, AUTH_PAYLOAD, &request->body_size);
	} else if (kind == WK_V3_BOOKIE_INFO) {
		request->wanted = (uint32_t)wk_protobuf_number(message, INFO_REQUESTED, 0) & 3;
	} else if (kind != WK_V3_START_TLS) {
		request->ledger_id = signed_of(message, LEDGER_ID);
		if (kind == WK_V3_READ)
			take_read(message, request);
		else if (kind == WK_V3_ADD)
			take_add(message, request);
		else if (kind == WK_V3_WRITE_LAC)
			take_write_lac(message, request);
	}
}

bool wk_wire_v3_request_decode(const uint8_t *payload, size_t size, wk_wire_request *request) {
	wk_v3_envelope envelope;
	if (!wk_v3_envelope_read(wk_v3_requests, payload, size, &envelope))
		return false;
	const wk_protobuf_message *header = &envelope.messages[WK_V3_HEADER];
	*request = (wk_wire_request){
	    .version = WK_WIRE_V3,
	    .header_version = (uint32_t)header->values[HEADER_VERSION].number,
	    .operation = (uint32_t)header->values[HEADER_OPERATION].number,
	    .txn_id = header->values[HEADER_TXN_ID].number,
	    .priority = (uint32_t)wk_protobuf_number(header, HEADER_PRIORITY, 0),
	    .ledger_id = -1,
	    .entry_id = -1,
	    .bare = true,
	};
	if (request->priority != 0)
		request->flags |= WK_WIRE_HIGH_PRIORITY;
	unsigned kind = wk_v3_message_of(request->operation);
	if (kind != WK_V3_NO_MESSAGE && envelope.messages[kind].present) {
		request->bare = false;
		take_message(kind, &envelope.messages[kind], request);
	}
	return true;
}

static uint8_t *put_read(const wk_wire_request *request, uint8_t *at) {
	at = wk_protobuf_put_number(at, 2, (uint64_t)request->entry_id);
	if (request->key_size > 0)
		at = wk_protobuf_put_bytes(at, 3, request->key, request->key_size);
	if (request->flags & WK_WIRE_LONG_POLL) {
		at = wk_protobuf_put_number(at, 4, (uint64_t)request->previous_lac);
		if (request->has_timeout)
			at = wk_protobuf_put_number(at, 5, (uint64_t)request->timeout_ms);
	}
	if (request->flags & WK_WIRE_FENCE)
		at = wk_protobuf_put_number(at, 100, FLAG_FENCE_LEDGER);
	else if (request->flags & WK_WIRE_PIGGYBACK)
		at = wk_protobuf_put_number(at, 100, FLAG_ENTRY_PIGGYBACK);
	return at;
}

/* The body stands last, whatever its number: the caller's bytes follow. */
static uint8_t *put_add(const wk_wire_request *request, uint8_t *at) {
	at = wk_protobuf_put_number(at, 2, (uint64_t)request->entry_id);
	at = wk_protobuf_put_bytes(at, 3, request->key, request->key_size);
	if (request->flags & WK_WIRE_DEFERRED)
		at = wk_protobuf_put_number(at, 5, WRITE_FLAG_DEFERRED_SYNC);
	if (request->flags & WK_WIRE_RECOVERY)
		at = wk_protobuf_put_number(at, 100, FLAG_RECOVERY_ADD);
	return wk_protobuf_put_size(at, 4, request->body_size);
}

static uint8_t *put_write_lac(const wk_wire_request *request, uint8_t *at) {
	at = wk_protobuf_put_number(at, 2, (uint64_t)request->lac);
	at = wk_protobuf_put_bytes(at, 3, request->key, request->key_size);
	return wk_protobuf_put_size(at, 4, request->body_size);
}

static uint8_t *put_message(unsigned kind, const wk_wire_request *request, uint8_t *at) {
	if (kind == WK_V3_AUTH) {
		at = wk_protobuf_put_bytes(at, 1, request->auth_name, request->auth_name_size);
		return wk_protobuf_put_size(at, 2, request->body_size);
	}
	if (kind == WK_V3_BOOKIE_INFO)
		return wk_protobuf_put_number(at, 1, request->wanted);
	if (kind == WK_V3_START_TLS)
		return at;
	at = wk_protobuf_put_number(at, 1, (uint64_t)request->ledger_id);
	if (kind == WK_V3_READ)
		return put_read(request, at);
	if (kind == WK_V3_ADD)
		return put_add(request, at);
	return kind == WK_V3_WRITE_LAC ? put_write_lac(request, at) : at;
}

uint8_t *wk_wire_v3_request_put(const wk_wire_request *request, uint8_t *at) {
	uint32_t priority = request->priority;
	if (priority == 0 && request->flags & WK_WIRE_HIGH_PRIORITY)
		priority = WK_WIRE_HIGH_PRIORITY_V3;
	at = wk_v3_put_header(at, request->header_version, request->operation, request->txn_id, priority);
	unsigned kind = wk_v3_message_of(request->operation);
	if (kind == WK_V3_NO_MESSAGE || request->bare) {
		assert(request->body_size == 0);
		return at;
	}
	uint8_t message[WK_WIRE_HEAD_SIZE_MAX];
	size_t size = (size_t)(put_message(kind, request, message) - message);
	at = wk_protobuf_put_size(at, WK_V3_FIRST_FIELD + kind - 1, size + request->body_size);
	memcpy(at, message, size);
	return at + size;
}
