/* wire_frame.c: frames, and which of the two protocols is in them. */
#include "core/bytes.h"
#include "core/wire_fields.h"
#include <assert.h>

wk_status wk_frame_size(const uint8_t *bytes, size_t size, uint64_t max, uint64_t *frame_size) {
	if (size < WK_FRAME_PREFIX_SIZE) {
		*frame_size = 0;
		return WK_OK;
	}
	uint64_t payload_size = wk_load_be32(bytes);
	if (payload_size == 0)
		return WK_CORRUPT;
	if (payload_size > INT32_MAX || payload_size + WK_FRAME_PREFIX_SIZE > max)
		return WK_TOO_LARGE;
	*frame_size = payload_size + WK_FRAME_PREFIX_SIZE;
	return WK_OK;
}

wk_status wk_wire_request_decode(const uint8_t *payload, size_t size, uint32_t *version, wk_wire_request *request) {
	if (*version == WK_WIRE_V3 && wk_wire_v3_request_decode(payload, size, request))
		return WK_OK;
	*version = WK_WIRE_V2;
	return wk_wire_v2_request_decode(payload, size, request) ? WK_OK : WK_CORRUPT;
}

wk_status wk_wire_reply_decode(const uint8_t *payload, size_t size, uint32_t version, wk_wire_reply *reply) {
	bool decoded = version == WK_WIRE_V3 ? wk_wire_v3_reply_decode(payload, size, reply)
	                                     : wk_wire_v2_reply_decode(payload, size, reply);
	return decoded ? WK_OK : WK_CORRUPT;
}

/* The prefix counts what stands behind it: the head and the caller's bytes. */
static size_t close_frame(uint8_t *head, const uint8_t *end, uint64_t body_size) {
	size_t size = (size_t)(end - head);
	assert(size <= WK_WIRE_HEAD_SIZE_MAX && size - WK_FRAME_PREFIX_SIZE + body_size <= INT32_MAX);
	wk_store_be32(head, (uint32_t)(size - WK_FRAME_PREFIX_SIZE + body_size));
	return size;
}

/* A plugin's name that is too long for a head is cut: a peer chose it. */
static uint64_t name_size(uint64_t size) {
	return size < WK_WIRE_AUTH_NAME_MAX ? size : WK_WIRE_AUTH_NAME_MAX;
}

size_t wk_wire_request_encode(const wk_wire_request *request, uint8_t *head) {
	assert(request->key_size <= WK_WIRE_KEY_SIZE_MAX && request->body_size <= INT32_MAX);
	wk_wire_request said = *request;
	said.auth_name_size = name_size(said.auth_name_size);
	uint8_t *at = head + WK_FRAME_PREFIX_SIZE;
	at = said.version == WK_WIRE_V3 ? wk_wire_v3_request_put(&said, at) : wk_wire_v2_request_put(&said, at);
	return close_frame(head, at, said.body_size);
}

size_t wk_wire_reply_encode(const wk_wire_reply *reply, uint8_t *head) {
	assert((reply->has_body || reply->body_size == 0) && reply->body_size <= INT32_MAX);
	wk_wire_reply said = *reply;
	said.auth_name_size = name_size(said.auth_name_size);
	uint8_t *at = head + WK_FRAME_PREFIX_SIZE;
	at = said.version == WK_WIRE_V3 ? wk_wire_v3_reply_put(&said, at) : wk_wire_v2_reply_put(&said, at);
	return close_frame(head, at, said.body_size);
}

void wk_wire_reply_begin(const wk_wire_request *request, uint32_t code, wk_wire_reply *reply) {
	*reply = (wk_wire_reply){
	    .version = request->version,
	    .header_version = request->header_version,
	    .operation = request->operation,
	    .code = code,
	    .txn_id = request->txn_id,
	    .ledger_id = request->ledger_id,
	    .entry_id = request->entry_id,
	    .wanted = request->wanted,
	    .bare = request->bare,
	};
}
