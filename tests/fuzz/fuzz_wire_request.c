/*
 * Checked: any payload decodes to a request or is refused, without a read outside it, on a new connection and on one
 * that speaks v2; what decodes points into the payload, and encodes to a payload that decodes to the same again.
 */
#include "core/wire.h"
#include "fuzz.h"
#include "walkeeper/wire.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void is_inside(const uint8_t *part, uint64_t part_size, const uint8_t *bytes, size_t size) {
	assert((part == NULL) == (part_size == 0));
	assert(part == NULL || (part >= bytes && part_size <= size && part - bytes <= (ptrdiff_t)(size - part_size)));
}

static void is_sane(const wk_wire_request *request, const uint8_t *bytes, size_t size) {
	is_inside(request->key, request->key_size, bytes, size);
	is_inside(request->body, request->body_size, bytes, size);
	is_inside(request->auth_name, request->auth_name_size, bytes, size);
	bool bare;
	uint32_t code = wk_wire_refusal(request, &bare);
	assert(!bare || code != WK_WIRE_OK);
	/* A refusal can be told, whatever it is. */
	wk_wire_reply reply;
	wk_wire_reply_begin(request, code, &reply);
	reply.bare = bare;
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	size_t head_size = wk_wire_reply_encode(&reply, head);
	assert(wk_wire_reply_decode(head + 4, head_size - 4, request->version, &reply) == WK_OK);
}

static uint8_t *encode(const wk_wire_request *request, size_t *size) {
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	size_t head_size = wk_wire_request_encode(request, head);
	*size = head_size + request->body_size - 4;
	uint8_t *payload = malloc(*size);
	assert(payload != NULL);
	memcpy(payload, head + 4, head_size - 4);
	if (request->body_size > 0)
		memcpy(payload + head_size - 4, request->body, request->body_size);
	return payload;
}

static void try(const uint8_t *bytes, size_t size, uint32_t version) {
	wk_wire_request request, again;
	wk_status status = wk_wire_request_decode(bytes, size, &version, &request);
	if (status != WK_OK) {
		assert(status == WK_CORRUPT && version == WK_WIRE_V2);
		return;
	}
	assert(request.version == version);
	is_sane(&request, bytes, size);
	if (request.key_size > WK_WIRE_KEY_SIZE_MAX || request.auth_name_size > WK_WIRE_AUTH_NAME_MAX)
		return;
	size_t once_size, twice_size;
	uint8_t *once = encode(&request, &once_size);
	assert(wk_wire_request_decode(once, once_size, &version, &again) == WK_OK && version == request.version);
	uint8_t *twice = encode(&again, &twice_size);
	assert(twice_size == once_size && memcmp(twice, once, once_size) == 0);
	assert(again.operation == request.operation && again.flags == request.flags && again.txn_id == request.txn_id);
	assert(again.ledger_id == request.ledger_id && again.entry_id == request.entry_id);
	assert(again.key_size == request.key_size && again.body_size == request.body_size && again.bare == request.bare);
	free(once);
	free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	try(bytes, size, WK_WIRE_V3);
	try(bytes, size, WK_WIRE_V2);
	uint64_t frame_size;
	wk_status status = wk_frame_size(bytes, size, WK_FRAME_SIZE_MAX, &frame_size);
	assert(status != WK_OK || frame_size == 0 || (frame_size > 4 && frame_size <= WK_FRAME_SIZE_MAX));
	return 0;
}
