/* wire_v2.c: the binary protocol: a header of four bytes, then fields that stand where they stand. */
#include "core/bytes.h"
#include "core/wire_fields.h"
#include <assert.h>

/* v2's numbers of operations. It has more, which no bookie decodes. */
enum { ADD = 1, READ = 2, AUTH = 3, BATCH_READ = 7 };

enum {
	HEADER_SIZE = 4,
	KEY_SINCE = 2, /* earlier versions fence without a key */
	ADD_ENTRY_AT = HEADER_SIZE + WK_MASTER_KEY_SIZE,
	READ_SIZE = 20,
	BATCH_SIZE = 40,
	REPLY_SIZE = 24,
	BATCH_REPLY_SIZE = 32,
};

/* The only flags there are; their numbers are those of enum wk_wire_flag. */
static uint32_t flags_of(uint32_t operation) {
	return WK_WIRE_HIGH_PRIORITY | (operation == WK_WIRE_ADD ? WK_WIRE_RECOVERY : WK_WIRE_FENCE);
}

static const uint8_t operations[][2] = {
    {ADD, WK_WIRE_ADD}, {READ, WK_WIRE_READ}, {AUTH, WK_WIRE_AUTH}, {BATCH_READ, WK_WIRE_BATCH_READ}};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static const uint16_t codes[][2] = {
    {0, WK_WIRE_OK},
    {1, WK_WIRE_NO_LEDGER},
    {2, WK_WIRE_NO_ENTRY},
    {100, WK_WIRE_BAD_REQUEST},
    {101, WK_WIRE_IO_ERROR},
    {102, WK_WIRE_UNAUTHORIZED},
    {103, WK_WIRE_BAD_VERSION},
    {104, WK_WIRE_FENCED},
    {105, WK_WIRE_READ_ONLY},
    {106, WK_WIRE_TOO_MANY_REQUESTS},
    {107, WK_WIRE_UNKNOWN_STATE},
};
enum { CODES = sizeof codes / sizeof *codes };

/* The oldest version has no flags, and its opcode fills the whole header. */
static bool read_header(const uint8_t *payload, uint32_t *version, uint32_t *operation, uint32_t *flags) {
	uint32_t header = wk_load_be32(payload);
	*version = header >> 24;
	*flags = *version == 0 ? 0 : header & 0xffff;
	uint32_t opcode = *version == 0 ? header : header >> 16 & 0xff;
	for (unsigned i = 0; i < OPERATIONS; i++) {
		if (operations[i][0] == opcode) {
			*operation = operations[i][1];
			return true;
		}
	}
	return false;
}

static uint8_t *put_header(uint8_t *at, uint32_t version, uint32_t operation, uint32_t flags) {
	assert(version <= 0xff);
	unsigned i = 0;
	while (operations[i][1] != operation) {
		i++;
		assert(i < OPERATIONS);
	}
	uint32_t opcode = operations[i][0];
	wk_store_be32(at, version == 0 ? opcode : version << 24 | opcode << 16 | flags);
	return at + HEADER_SIZE;
}

static uint8_t *put_id(uint8_t *at, int64_t id) {
	wk_store_be64_signed(at, id);
	return at + 8;
}

/* Of a read that fences. Where no byte follows no key was given, which is for the ledger to refuse. */
static bool take_key(const uint8_t *payload, size_t size, size_t at, wk_wire_request *request) {
	if (!(request->flags & WK_WIRE_FENCE) || request->header_version < KEY_SINCE || size == at)
		return true;
	if (size < at + WK_MASTER_KEY_SIZE)
		return false;
	request->key = payload + at;
	request->key_size = WK_MASTER_KEY_SIZE;
	return true;
}

/* The ids are the entry's own: there is no answer to an entry that has none. */
static bool take_add(const uint8_t *payload, size_t size, wk_wire_request *request) {
	if (size < ADD_ENTRY_AT + 16)
		return false;
	request->key = payload + HEADER_SIZE;
	request->key_size = WK_MASTER_KEY_SIZE;
	request->body = payload + ADD_ENTRY_AT;
	request->body_size = size - ADD_ENTRY_AT;
	request->ledger_id = wk_load_be64_signed(request->body);
	request->entry_id = wk_load_be64_signed(request->body + 8);
	return true;
}

static bool take_read(const uint8_t *payload, size_t size, wk_wire_request *request) {
	if (size < READ_SIZE)
		return false;
	request->ledger_id = wk_load_be64_signed(payload + 4);
	request->entry_id = wk_load_be64_signed(payload + 12);
	return take_key(payload, size, READ_SIZE, request);
}

static bool take_batch(const uint8_t *payload, size_t size, wk_wire_request *request) {
	if (size < BATCH_SIZE)
		return false;
	request->ledger_id = wk_load_be64_signed(payload + 4);
	request->entry_id = wk_load_be64_signed(payload + 12);
	request->txn_id = wk_load_be64(payload + 20);
	request->max_count = (int32_t)wk_load_be32(payload + 28);
	request->max_size = wk_load_be64_signed(payload + 32);
	return take_key(payload, size, BATCH_SIZE, request);
}

/* The AuthMessage is a bare protobuf, the same in both directions. */
static bool read_auth(const uint8_t *payload, size_t size, wk_protobuf_message *message) {
	const wk_protobuf_schema *schema = &wk_v3_requests[WK_V3_AUTH];
	wk_protobuf_value bytes = {.number = size - HEADER_SIZE, .bytes = payload + HEADER_SIZE};
	uint32_t left = WK_FRAME_FIELDS_MAX;
	*message = (wk_protobuf_message){0};
	return wk_protobuf_merge(schema, &bytes, message, &left) && wk_protobuf_is_complete(schema, message);
}

static uint8_t *put_auth(uint8_t *at, const uint8_t *name, uint64_t name_size, uint64_t body_size) {
	return wk_protobuf_put_size(wk_protobuf_put_bytes(at, 1, name, name_size), 2, body_size);
}

static bool take_auth(const uint8_t *payload, size_t size, wk_wire_request *request) {
	wk_protobuf_message message;
	if (!read_auth(payload, size, &message))
		return false;
	request->flags = 0;
	request->auth_name = wk_protobuf_bytes(&message, AUTH_NAME, &request->auth_name_size);
	request->body = wk_protobuf_bytes(&message, AUTH_PAYLOAD, &request->body_size);
	return true;
}

bool wk_wire_v2_request_decode(const uint8_t *payload, size_t size, wk_wire_request *request) {
	wk_wire_request found = {.version = WK_WIRE_V2, .ledger_id = -1, .entry_id = -1};
	if (size < HEADER_SIZE || !read_header(payload, &found.header_version, &found.operation, &found.flags))
		return false;
	found.flags &= flags_of(found.operation);
	bool whole = found.operation == WK_WIRE_ADD    ? take_add(payload, size, &found)
	             : found.operation == WK_WIRE_READ ? take_read(payload, size, &found)
	             : found.operation == WK_WIRE_AUTH ? take_auth(payload, size, &found)
	                                               : take_batch(payload, size, &found);
	if (whole)
		*request = found;
	return whole;
}

uint8_t *wk_wire_v2_request_put(const wk_wire_request *request, uint8_t *at) {
	uint32_t operation = request->operation;
	at = put_header(at, request->header_version, operation,
	                operation == WK_WIRE_AUTH ? 0 : request->flags & flags_of(operation));
	if (operation == WK_WIRE_AUTH)
		return put_auth(at, request->auth_name, request->auth_name_size, request->body_size);
	if (operation != WK_WIRE_ADD) {
		at = put_id(put_id(at, request->ledger_id), request->entry_id);
		if (operation == WK_WIRE_BATCH_READ) {
			at = put_id(at, (int64_t)request->txn_id);
			wk_store_be32(at, (uint32_t)request->max_count);
			at = put_id(at + 4, request->max_size);
		}
		if (!(request->flags & WK_WIRE_FENCE) || request->key == NULL)
			return at;
	}
	assert(request->key_size == WK_MASTER_KEY_SIZE);
	memcpy(at, request->key, WK_MASTER_KEY_SIZE);
	return at + WK_MASTER_KEY_SIZE;
}

/* A client of v2 does not know the last code, and would drop the connection. */
static uint32_t code_put(uint32_t code) {
	if (code == WK_WIRE_UNKNOWN_STATE)
		code = WK_WIRE_IO_ERROR;
	unsigned i = 0;
	while (codes[i][1] != code) {
		i++;
		assert(i < CODES);
	}
	return codes[i][0];
}

uint8_t *wk_wire_v2_reply_put(const wk_wire_reply *reply, uint8_t *at) {
	at = put_header(at, reply->header_version, reply->operation, 0);
	if (reply->operation == WK_WIRE_AUTH)
		return put_auth(at, reply->auth_name, reply->auth_name_size, reply->body_size);
	wk_store_be32(at, code_put(reply->code));
	at = put_id(put_id(at + 4, reply->ledger_id), reply->entry_id);
	return reply->operation == WK_WIRE_BATCH_READ ? put_id(at, (int64_t)reply->txn_id) : at;
}

static bool take_code(const uint8_t *payload, wk_wire_reply *reply) {
	uint32_t code = wk_load_be32(payload + HEADER_SIZE);
	for (unsigned i = 0; i < CODES; i++) {
		if (codes[i][0] == code) {
			reply->code = codes[i][1];
			return true;
		}
	}
	return false;
}

/* Whether the bytes are entries, each behind its size. */
static bool is_batch(const uint8_t *bytes, uint64_t size) {
	while (size >= 4) {
		uint64_t entry_size = wk_load_be32(bytes);
		if (entry_size > size - 4)
			return false;
		bytes += 4 + entry_size;
		size -= 4 + entry_size;
	}
	return size == 0;
}

static bool take_auth_reply(const uint8_t *payload, size_t size, wk_wire_reply *reply) {
	wk_protobuf_message message;
	if (!read_auth(payload, size, &message))
		return false;
	reply->has_body = true;
	reply->auth_name = wk_protobuf_bytes(&message, AUTH_NAME, &reply->auth_name_size);
	reply->body = wk_protobuf_bytes(&message, AUTH_PAYLOAD, &reply->body_size);
	return true;
}

static bool take_answer(const uint8_t *payload, size_t size, wk_wire_reply *reply) {
	size_t head_size = reply->operation == WK_WIRE_BATCH_READ ? BATCH_REPLY_SIZE : REPLY_SIZE;
	if (size < head_size || !take_code(payload, reply))
		return false;
	reply->ledger_id = wk_load_be64_signed(payload + 8);
	reply->entry_id = wk_load_be64_signed(payload + 16);
	if (reply->operation == WK_WIRE_BATCH_READ)
		reply->txn_id = wk_load_be64(payload + REPLY_SIZE);
	if (reply->operation == WK_WIRE_ADD || reply->code != WK_WIRE_OK)
		return true;
	reply->has_body = true;
	reply->body_size = size - head_size;
	reply->body = reply->body_size == 0 ? NULL : payload + head_size;
	return reply->operation == WK_WIRE_READ || is_batch(payload + head_size, reply->body_size);
}

bool wk_wire_v2_reply_decode(const uint8_t *payload, size_t size, wk_wire_reply *reply) {
	wk_wire_reply found = {.version = WK_WIRE_V2, .ledger_id = -1, .entry_id = -1};
	uint32_t flags;
	if (size < HEADER_SIZE || !read_header(payload, &found.header_version, &found.operation, &flags))
		return false;
	bool whole = found.operation == WK_WIRE_AUTH ? take_auth_reply(payload, size, &found)
	                                             : take_answer(payload, size, &found);
	if (whole)
		*reply = found;
	return whole;
}
