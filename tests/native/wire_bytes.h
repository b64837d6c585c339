/* wire_bytes.h: frames written in hexadecimal, with spaces anywhere, and requests and replies that are compared. */
#ifndef WIRE_BYTES_H
#define WIRE_BYTES_H
#include "check.h"
#include "core/wire.h"
#include <ctype.h>

#define KEY_HEX "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
#define MINUS_ONE_HEX "ffffffffffffffffff01" /* as a varint */
/* Ledger 1, entry 0, LAC -1, length 5, "hello" with CRC32C. */
#define HELLO_HEX "0000000000000001 0000000000000000 ffffffffffffffff 0000000000000005 e3a5f74d 68656c6c6f"

typedef struct bytes {
	size_t size;
	uint8_t at[2048];
} bytes;

static inline unsigned digit_of(char digit) {
	return (unsigned)(isdigit((unsigned char)digit) ? digit - '0' : digit - 'a' + 10);
}

static inline bytes hex(const char *text) {
	bytes result = {0};
	unsigned digits = 0;
	for (; *text != 0; text++) {
		if (*text == ' ')
			continue;
		uint8_t *byte = &result.at[digits++ / 2];
		*byte = (uint8_t)((unsigned)*byte << 4 | digit_of(*text));
	}
	result.size = digits / 2;
	return result;
}

static inline bytes joined(const uint8_t *head, size_t head_size, const uint8_t *body, size_t body_size) {
	bytes result = {.size = head_size + body_size};
	CHECK(result.size <= sizeof result.at);
	memcpy(result.at, head, head_size);
	if (body_size > 0)
		memcpy(result.at + head_size, body, body_size);
	return result;
}

/* The frame of a request, its body behind its head. */
static inline bytes frame_of_request(const wk_wire_request *request) {
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	return joined(head, wk_wire_request_encode(request, head), request->body, request->body_size);
}
static inline bytes frame_of_reply(const wk_wire_reply *reply) {
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	return joined(head, wk_wire_reply_encode(reply, head), reply->body, reply->body_size);
}

static inline bool same_bytes(const uint8_t *left, uint64_t left_size, const uint8_t *right, uint64_t right_size) {
	return left_size == right_size && (left_size == 0 || memcmp(left, right, left_size) == 0);
}

static inline bool same_request(const wk_wire_request *a, const wk_wire_request *b) {
	return a->version == b->version && a->header_version == b->header_version && a->operation == b->operation &&
	       a->flags == b->flags && a->txn_id == b->txn_id && a->priority == b->priority &&
	       a->has_timeout == b->has_timeout && a->ledger_id == b->ledger_id && a->entry_id == b->entry_id &&
	       a->lac == b->lac && a->previous_lac == b->previous_lac && a->timeout_ms == b->timeout_ms &&
	       a->max_size == b->max_size && a->max_count == b->max_count && a->wanted == b->wanted && a->bare == b->bare &&
	       same_bytes(a->key, a->key_size, b->key, b->key_size) &&
	       same_bytes(a->body, a->body_size, b->body, b->body_size) &&
	       same_bytes(a->auth_name, a->auth_name_size, b->auth_name, b->auth_name_size);
}

static inline bool same_reply(const wk_wire_reply *a, const wk_wire_reply *b) {
	return a->version == b->version && a->header_version == b->header_version && a->operation == b->operation &&
	       a->code == b->code && a->txn_id == b->txn_id && a->ledger_id == b->ledger_id && a->entry_id == b->entry_id &&
	       a->has_body == b->has_body && a->has_max_lac == b->has_max_lac && a->has_space == b->has_space &&
	       a->wanted == b->wanted && a->max_lac == b->max_lac && a->lac_update_ms == b->lac_update_ms &&
	       a->total_bytes == b->total_bytes && a->free_bytes == b->free_bytes && a->bare == b->bare &&
	       same_bytes(a->body, a->body_size, b->body, b->body_size) && (a->lac == NULL) == (b->lac == NULL) &&
	       same_bytes(a->lac, a->lac_size, b->lac, b->lac_size) &&
	       same_bytes(a->auth_name, a->auth_name_size, b->auth_name, b->auth_name_size);
}

static inline void check_frame(int line, const bytes *found, const bytes *expected) {
	check_count();
	if (same_bytes(found->at, found->size, expected->at, expected->size))
		return;
	for (size_t i = 0; i < found->size; i++)
		printf("%02x", found->at[i]);
	printf("\n");
	check_failed(__FILE__, line, "the frame, which was found as above");
}

/* The frame has the size that it says. */
static inline void check_frame_size(const bytes *frame) {
	uint64_t size;
	CHECK_EQ(wk_frame_size(frame->at, frame->size, WK_FRAME_SIZE_MAX, &size), WK_OK);
	CHECK_EQ(size, frame->size);
}

static inline void check_request(int line, const wk_wire_request *expected, const char *text) {
	bytes frame = hex(text);
	check_frame_size(&frame);
	uint32_t version = expected->version;
	wk_wire_request found;
	CHECK_EQ(wk_wire_request_decode(frame.at + 4, frame.size - 4, &version, &found), WK_OK);
	CHECK_EQ(version, expected->version);
	if (!same_request(&found, expected))
		check_failed(__FILE__, line, "the bytes decode to this request");
	bytes again = frame_of_request(expected);
	check_frame(line, &again, &frame);
}

static inline void check_reply(int line, const wk_wire_reply *expected, const char *text) {
	bytes frame = hex(text);
	check_frame_size(&frame);
	wk_wire_reply found;
	CHECK_EQ(wk_wire_reply_decode(frame.at + 4, frame.size - 4, expected->version, &found), WK_OK);
	if (!same_reply(&found, expected))
		check_failed(__FILE__, line, "the bytes decode to this reply");
	bytes again = frame_of_reply(expected);
	check_frame(line, &again, &frame);
}

/* `expected` is what the frame says, and what it is made of again. */
#define CHECK_REQUEST(expected, text) check_request(__LINE__, (expected), (text))
#define CHECK_REPLY(expected, text) check_reply(__LINE__, (expected), (text))

/* What a payload on a new connection is refused with; WK_WIRE_OK: it is not. */
static inline uint32_t refusal_of(const char *payload, bool *bare) {
	bytes data = hex(payload);
	uint32_t version = WK_WIRE_V3;
	wk_wire_request request;
	CHECK_EQ(wk_wire_request_decode(data.at, data.size, &version, &request), WK_OK);
	return wk_wire_refusal(&request, bare);
}
#endif
