/*
 * Checked: any payload decodes to a reply or is refused, without a read outside it, in both protocols; what decodes
 * points into the payload, and encodes to a payload that decodes to the same again.
 */
#include "core/wire.h"
#include "fuzz.h"
#include "walkeeper/wire.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void is_inside(const uint8_t *part, uint64_t part_size, const uint8_t *bytes, size_t size) {
	assert(part == NULL || (part >= bytes && part_size <= size && part - bytes <= (ptrdiff_t)(size - part_size)));
	assert(part != NULL || part_size == 0);
}

static uint8_t *encode(const wk_wire_reply *reply, size_t *size) {
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	size_t head_size = wk_wire_reply_encode(reply, head);
	*size = head_size + reply->body_size - 4;
	uint8_t *payload = malloc(*size);
	assert(payload != NULL);
	memcpy(payload, head + 4, head_size - 4);
	if (reply->body_size > 0)
		memcpy(payload + head_size - 4, reply->body, reply->body_size);
	return payload;
}

static void try(const uint8_t *bytes, size_t size, uint32_t version) {
	wk_wire_reply reply, again;
	wk_status status = wk_wire_reply_decode(bytes, size, version, &reply);
	if (status != WK_OK) {
		assert(status == WK_CORRUPT);
		return;
	}
	is_inside(reply.body, reply.body_size, bytes, size);
	is_inside(reply.lac, reply.lac_size, bytes, size);
	is_inside(reply.auth_name, reply.auth_name_size, bytes, size);
	assert(reply.version == version && (reply.has_body || reply.body == NULL));
	if (reply.lac_size > WK_WIRE_LAC_SIZE_MAX || reply.auth_name_size > WK_WIRE_AUTH_NAME_MAX)
		return;
	size_t once_size, twice_size;
	uint8_t *once = encode(&reply, &once_size);
	assert(wk_wire_reply_decode(once, once_size, version, &again) == WK_OK);
	uint8_t *twice = encode(&again, &twice_size);
	assert(twice_size == once_size && memcmp(twice, once, once_size) == 0);
	assert(again.operation == reply.operation && again.txn_id == reply.txn_id && again.bare == reply.bare);
	assert(again.ledger_id == reply.ledger_id && again.entry_id == reply.entry_id);
	assert(again.has_body == reply.has_body && again.body_size == reply.body_size && again.max_lac == reply.max_lac);
	free(once);
	free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	try(bytes, size, WK_WIRE_V3);
	try(bytes, size, WK_WIRE_V2);
	return 0;
}
