/*
 * wire_payloads.h: what the fuzzers of the two protocols check of any payload, a request's or a reply's: it decodes or
 * is refused, without a read outside it; what decodes points into the payload, and encodes to a payload that decodes to
 * the same again.
 */
#ifndef WIRE_PAYLOADS_H
#define WIRE_PAYLOADS_H
#include "core/wire.h"
#include "core/wire_fields.h"
#include "fuzz.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static inline void wire_is_inside(const uint8_t *part, uint64_t part_size, const uint8_t *bytes, size_t size) {
	assert(part == NULL || (part >= bytes && part_size <= size && part - bytes <= (ptrdiff_t)(size - part_size)));
	assert(part != NULL || part_size == 0);
}

/* The payload of a frame of such a head, whose prefix is left out, and such a body; the caller's. */
static inline uint8_t *wire_payload(const uint8_t *head, size_t head_size, const uint8_t *body, uint64_t body_size) {
	uint8_t *payload = malloc(head_size + body_size - WK_FRAME_PREFIX_SIZE);
	assert(payload != NULL);
	memcpy(payload, head + WK_FRAME_PREFIX_SIZE, head_size - WK_FRAME_PREFIX_SIZE);
	if (body_size > 0)
		memcpy(payload + head_size - WK_FRAME_PREFIX_SIZE, body, body_size);
	return payload;
}

static inline uint8_t *wire_encode_request(const wk_wire_request *request, size_t *size) {
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	size_t head_size = wk_wire_request_encode(request, head);
	*size = head_size + request->body_size - WK_FRAME_PREFIX_SIZE;
	return wire_payload(head, head_size, request->body, request->body_size);
}

static inline uint8_t *wire_encode_reply(const wk_wire_reply *reply, size_t *size) {
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	size_t head_size = wk_wire_reply_encode(reply, head);
	*size = head_size + reply->body_size - WK_FRAME_PREFIX_SIZE;
	return wire_payload(head, head_size, reply->body, reply->body_size);
}

static inline void wire_request_is_sane(const wk_wire_request *request, const uint8_t *bytes, size_t size) {
	assert((request->key == NULL) == (request->key_size == 0) && (request->body == NULL) == (request->body_size == 0));
	assert((request->auth_name == NULL) == (request->auth_name_size == 0));
	wire_is_inside(request->key, request->key_size, bytes, size);
	wire_is_inside(request->body, request->body_size, bytes, size);
	wire_is_inside(request->auth_name, request->auth_name_size, bytes, size);
	bool bare;
	uint32_t code = wk_wire_refusal(request, &bare);
	assert(!bare || code != WK_WIRE_OK);
	/* A refusal can be told, whatever it is. */
	wk_wire_reply reply;
	wk_wire_reply_begin(request, code, &reply);
	reply.bare = bare;
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	size_t head_size = wk_wire_reply_encode(&reply, head);
	assert(wk_wire_reply_decode(head + WK_FRAME_PREFIX_SIZE, head_size - WK_FRAME_PREFIX_SIZE, request->version,
	                            &reply) == WK_OK);
}

/* A request on a connection that is new (v3) or speaks v2. What a new one turns out to speak is the other fuzzer's. */
static inline void wire_check_request(const uint8_t *bytes, size_t size, uint32_t asked) {
	wk_wire_request request, again;
	uint32_t version = asked;
	wk_status status = wk_wire_request_decode(bytes, size, &version, &request);
	if (status != WK_OK) {
		assert(status == WK_CORRUPT && version == WK_WIRE_V2);
		return;
	}
	assert(request.version == version && (version == asked || version == WK_WIRE_V2));
	if (version != asked)
		return;
	wire_request_is_sane(&request, bytes, size);
	if (request.key_size > WK_WIRE_KEY_SIZE_MAX || request.auth_name_size > WK_WIRE_AUTH_NAME_MAX)
		return;
	size_t once_size, twice_size;
	uint8_t *once = wire_encode_request(&request, &once_size);
	assert(wk_wire_request_decode(once, once_size, &version, &again) == WK_OK && version == request.version);
	uint8_t *twice = wire_encode_request(&again, &twice_size);
	assert(twice_size == once_size && memcmp(twice, once, once_size) == 0);
	assert(again.operation == request.operation && again.flags == request.flags && again.txn_id == request.txn_id);
	assert(again.ledger_id == request.ledger_id && again.entry_id == request.entry_id);
	assert(again.key_size == request.key_size && again.body_size == request.body_size && again.bare == request.bare);
	free(once);
	free(twice);
}

static inline void wire_check_reply(const uint8_t *bytes, size_t size, uint32_t version) {
	wk_wire_reply reply, again;
	wk_status status = wk_wire_reply_decode(bytes, size, version, &reply);
	if (status != WK_OK) {
		assert(status == WK_CORRUPT);
		return;
	}
	wire_is_inside(reply.body, reply.body_size, bytes, size);
	wire_is_inside(reply.lac, reply.lac_size, bytes, size);
	wire_is_inside(reply.auth_name, reply.auth_name_size, bytes, size);
	assert(reply.version == version && (reply.has_body || reply.body == NULL));
	if (reply.lac_size > WK_WIRE_LAC_SIZE_MAX || reply.auth_name_size > WK_WIRE_AUTH_NAME_MAX)
		return;
	size_t once_size, twice_size;
	uint8_t *once = wire_encode_reply(&reply, &once_size);
	assert(wk_wire_reply_decode(once, once_size, version, &again) == WK_OK);
	uint8_t *twice = wire_encode_reply(&again, &twice_size);
	assert(twice_size == once_size && memcmp(twice, once, once_size) == 0);
	assert(again.operation == reply.operation && again.txn_id == reply.txn_id && again.bare == reply.bare);
	assert(again.ledger_id == reply.ledger_id && again.entry_id == reply.entry_id);
	assert(again.has_body == reply.has_body && again.body_size == reply.body_size && again.max_lac == reply.max_lac);
	free(once);
	free(twice);
}

/* The same bytes as the beginning of a frame. */
static inline void wire_check_frame(const uint8_t *bytes, size_t size) {
	uint64_t frame_size;
	wk_status status = wk_frame_size(bytes, size, WK_FRAME_SIZE_MAX, &frame_size);
	assert(status != WK_OK || frame_size == 0 ||
	       (frame_size > WK_FRAME_PREFIX_SIZE && frame_size <= WK_FRAME_SIZE_MAX));
}
#endif
