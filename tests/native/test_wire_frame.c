/* test_wire_frame.c: the sizes of frames and of heads, which protocol a connection speaks, and round trips. */
/* ctest labels: one-thread simulated */
#include "wire_bytes.h"

static wk_status size_of(uint32_t length, uint64_t max, uint64_t *frame_size) {
	uint8_t prefix[4] = {(uint8_t)(length >> 24), (uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length};
	return wk_frame_size(prefix, 4, max, frame_size);
}

TEST(a_prefix_that_is_not_whole_says_nothing) {
	uint8_t prefix[4] = {0xff, 0xff, 0xff, 0xff};
	for (size_t size = 0; size < 4; size++) {
		uint8_t *cut = check_exact_copy(prefix, size);
		uint64_t frame_size = 99;
		CHECK_EQ(wk_frame_size(cut, size, WK_FRAME_SIZE_MAX, &frame_size), WK_OK);
		CHECK_EQ(frame_size, 0);
		free(cut);
	}
}

TEST(the_limit_counts_the_prefix) {
	uint64_t size;
	CHECK_EQ(size_of(5242876, WK_FRAME_SIZE_MAX, &size), WK_OK);
	CHECK_EQ(size, 5242880);
	CHECK_EQ(size_of(5242877, WK_FRAME_SIZE_MAX, &size), WK_TOO_LARGE);
	CHECK_EQ(size_of(5253116, 5253120, &size), WK_OK); /* Pulsar's limit */
	CHECK_EQ(size_of(1, WK_FRAME_SIZE_MAX, &size), WK_OK);
	CHECK_EQ(size, 5);
}

TEST(lengths_below_zero_are_too_large_whatever_the_limit) {
	uint64_t size;
	CHECK_EQ(size_of(0x7fffffff, UINT64_MAX, &size), WK_OK);
	CHECK_EQ(size_of(0x80000000, UINT64_MAX, &size), WK_TOO_LARGE);
	CHECK_EQ(size_of(0xffffffff, UINT64_MAX, &size), WK_TOO_LARGE);
	CHECK_EQ(size_of(0xfffffffe, WK_FRAME_SIZE_MAX, &size), WK_TOO_LARGE);
}

TEST(an_empty_frame_is_corrupt) {
	uint64_t size;
	CHECK_EQ(size_of(0, WK_FRAME_SIZE_MAX, &size), WK_CORRUPT);
}

static wk_status decode(const char *payload, uint32_t *version) {
	bytes data = hex(payload);
	wk_wire_request request;
	return wk_wire_request_decode(data.at, data.size, version, &request);
}

#define V2_READ "02020000 0000000000000001 0000000000000007"
#define V3_READ_LAC "0a06 0803 1007 1801 c20602 0801"

TEST(a_connection_speaks_v3_until_a_frame_is_none) {
	uint32_t version = WK_WIRE_V3;
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(decode(V3_READ_LAC, &version), WK_OK);
		CHECK_EQ(version, WK_WIRE_V3);
	}
	CHECK_EQ(decode(V2_READ, &version), WK_OK);
	CHECK_EQ(version, WK_WIRE_V2);
	CHECK_EQ(decode(V3_READ_LAC, &version), WK_CORRUPT);
	CHECK_EQ(version, WK_WIRE_V2);
	CHECK_EQ(decode(V2_READ, &version), WK_OK);
}

TEST(what_is_neither_is_corrupt) {
	static const char *const garbage[] = {"", "00", "ff", "474554202f20485454502f312e31", "16030100", "02", "0a"};
	for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
		uint32_t version = WK_WIRE_V3;
		CHECK_EQ(decode(garbage[i], &version), WK_CORRUPT);
		CHECK_EQ(version, WK_WIRE_V2);
	}
}

/* Nothing of an earlier request is left in the next one. */
TEST(a_reply_begins_with_what_the_request_says) {
	wk_wire_request request = {.version = WK_WIRE_V3,
	                           .header_version = 3,
	                           .operation = WK_WIRE_BOOKIE_INFO,
	                           .txn_id = 5,
	                           .ledger_id = -1,
	                           .entry_id = -1,
	                           .wanted = 2};
	wk_wire_reply reply;
	memset(&reply, 0xee, sizeof reply);
	wk_wire_reply_begin(&request, WK_WIRE_IO_ERROR, &reply);
	wk_wire_reply expected = {.version = WK_WIRE_V3,
	                          .header_version = 3,
	                          .operation = WK_WIRE_BOOKIE_INFO,
	                          .code = WK_WIRE_IO_ERROR,
	                          .txn_id = 5,
	                          .ledger_id = -1,
	                          .entry_id = -1,
	                          .wanted = 2};
	CHECK(same_reply(&reply, &expected));
	request.bare = true;
	wk_wire_reply_begin(&request, WK_WIRE_BAD_REQUEST, &reply);
	CHECK(reply.bare);
}

/* ---- heads: the longest of each kind ---- */

static const uint32_t operations_v3[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const uint32_t operations_v2[] = {WK_WIRE_READ, WK_WIRE_ADD, WK_WIRE_AUTH, WK_WIRE_BATCH_READ};
enum { BODY_MAX = 0x7fffff00 };

static bool has_message(uint32_t version, uint32_t operation) {
	return version == WK_WIRE_V2 ||
	       !(operation == WK_WIRE_RANGE_READ || operation == WK_WIRE_RANGE_ADD || operation == WK_WIRE_BATCH_READ);
}

static bool request_has_body(uint32_t version, uint32_t operation) {
	return operation == WK_WIRE_ADD || operation == WK_WIRE_AUTH ||
	       (version == WK_WIRE_V3 && operation == WK_WIRE_WRITE_LAC);
}

static bool reply_has_body(uint32_t version, uint32_t operation) {
	return has_message(version, operation) &&
	       (operation == WK_WIRE_READ || operation == WK_WIRE_AUTH || operation == WK_WIRE_READ_LAC ||
	        operation == WK_WIRE_LIST_ENTRIES || operation == WK_WIRE_BATCH_READ);
}

static void check_head(const uint8_t *head, size_t room, size_t size, uint64_t body_size) {
	CHECK(size <= WK_WIRE_HEAD_SIZE_MAX);
	for (size_t i = size; i < room; i++)
		CHECK_EQ(head[i], 0xee);
	bytes prefix = {.size = 4};
	memcpy(prefix.at, head, 4);
	uint64_t frame_size;
	CHECK_EQ(wk_frame_size(prefix.at, 4, UINT64_MAX, &frame_size), WK_OK);
	CHECK_EQ(frame_size, size + body_size);
}

static size_t longest_request(uint32_t version, uint32_t operation) {
	static const uint8_t text[1000];
	wk_wire_request request = {
	    .version = version,
	    .header_version = version,
	    .operation = operation,
	    .flags = UINT32_MAX & ~(uint32_t)WK_WIRE_FENCE,
	    .txn_id = UINT64_MAX,
	    .priority = UINT32_MAX,
	    .has_timeout = true,
	    .ledger_id = -1,
	    .entry_id = -1,
	    .lac = -1,
	    .previous_lac = -1,
	    .timeout_ms = -1,
	    .max_size = -1,
	    .max_count = -1,
	    .wanted = UINT32_MAX,
	    .key = text,
	    .key_size = version == WK_WIRE_V2 ? 20 : 48,
	    .body_size = request_has_body(version, operation) ? BODY_MAX : 0,
	    .auth_name = text,
	    .auth_name_size = sizeof text,
	};
	if (version == WK_WIRE_V2)
		request.flags |= WK_WIRE_FENCE;
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX + 64];
	memset(head, 0xee, sizeof head);
	size_t size = wk_wire_request_encode(&request, head);
	check_head(head, sizeof head, size, request.body_size);
	return size;
}

static size_t longest_reply(uint32_t version, uint32_t operation) {
	static const uint8_t text[1000];
	bool has_body = reply_has_body(version, operation);
	wk_wire_reply reply = {
	    .version = version,
	    .header_version = version == WK_WIRE_V2 ? 255 : 3,
	    .operation = operation,
	    .code = WK_WIRE_UNKNOWN_STATE,
	    .txn_id = UINT64_MAX,
	    .ledger_id = -1,
	    .entry_id = -1,
	    .has_body = has_body,
	    .has_max_lac = true,
	    .has_space = true,
	    .wanted = UINT32_MAX,
	    .max_lac = -1,
	    .lac_update_ms = UINT64_MAX,
	    .total_bytes = -1,
	    .free_bytes = -1,
	    .lac = text,
	    .lac_size = 48,
	    .auth_name = text,
	    .auth_name_size = sizeof text,
	    .body_size = has_body ? BODY_MAX : 0,
	};
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX + 64];
	memset(head, 0xee, sizeof head);
	size_t size = wk_wire_reply_encode(&reply, head);
	check_head(head, sizeof head, size, reply.body_size);
	return size;
}

TEST(every_head_has_room) {
	size_t longest = 0;
	for (size_t i = 0; i < sizeof operations_v3 / sizeof *operations_v3; i++) {
		size_t request = longest_request(WK_WIRE_V3, operations_v3[i]);
		size_t reply = longest_reply(WK_WIRE_V3, operations_v3[i]);
		longest = request > longest ? request : longest;
		longest = reply > longest ? reply : longest;
	}
	for (size_t i = 0; i < sizeof operations_v2 / sizeof *operations_v2; i++) {
		size_t request = longest_request(WK_WIRE_V2, operations_v2[i]);
		size_t reply = longest_reply(WK_WIRE_V2, operations_v2[i]);
		longest = request > longest ? request : longest;
		longest = reply > longest ? reply : longest;
	}
	CHECK(longest > 128 && longest <= WK_WIRE_HEAD_SIZE_MAX);
	printf("the longest head: %zu bytes\n", longest);
}

TEST(a_plugins_name_is_cut_to_what_is_echoed) {
	static uint8_t text[300];
	memset(text, 'x', sizeof text);
	wk_wire_reply reply = {.version = WK_WIRE_V3,
	                       .header_version = 3,
	                       .operation = WK_WIRE_AUTH,
	                       .has_body = true,
	                       .auth_name = text,
	                       .auth_name_size = sizeof text};
	wk_wire_reply found;
	bytes frame = frame_of_reply(&reply);
	CHECK_EQ(wk_wire_reply_decode(frame.at + 4, frame.size - 4, WK_WIRE_V3, &found), WK_OK);
	CHECK_EQ(found.auth_name_size, WK_WIRE_AUTH_NAME_MAX);
}

/* ---- round trips ---- */

/* Small and extreme values alike, as the sizes of varints differ. */
static uint64_t any_number(uint64_t *seed) {
	uint64_t random = check_random(seed);
	return random >> (check_random(seed) % 65 == 64 ? 63 : check_random(seed) % 64);
}
static int64_t any_id(uint64_t *seed) {
	return check_random(seed) % 4 == 0 ? -1 : (int64_t)any_number(seed);
}

static wk_wire_request any_request(uint64_t *seed, uint32_t version, uint32_t operation, const uint8_t *text) {
	wk_wire_request request = {.version = version, .header_version = version, .operation = operation};
	request.ledger_id = operation == WK_WIRE_AUTH ? -1 : any_id(seed);
	request.entry_id = operation == WK_WIRE_AUTH ? -1 : any_id(seed);
	if (version == WK_WIRE_V3 || operation == WK_WIRE_BATCH_READ)
		request.txn_id = any_number(seed);
	if (check_random(seed) % 2 == 0) {
		request.flags = WK_WIRE_HIGH_PRIORITY;
		request.priority = version == WK_WIRE_V3 ? 1 + (uint32_t)any_number(seed) % 1000 : 0;
	}
	bool fences = check_random(seed) % 2 == 0;
	if (operation == WK_WIRE_READ || operation == WK_WIRE_BATCH_READ) {
		request.flags |= fences ? WK_WIRE_FENCE : 0;
		if (fences || version == WK_WIRE_V3)
			request.key = text, request.key_size = version == WK_WIRE_V2 ? 20 : 1 + check_random(seed) % 48;
	}
	if (operation == WK_WIRE_ADD) {
		request.flags |= check_random(seed) % 2 == 0 ? WK_WIRE_RECOVERY : 0;
		request.flags |= version == WK_WIRE_V3 && check_random(seed) % 2 == 0 ? WK_WIRE_DEFERRED : 0;
		request.key = text, request.key_size = 20;
	}
	return request;
}

/* What only some operations have. */
static void complete_request(uint64_t *seed, wk_wire_request *request, const uint8_t *text, uint8_t *entry) {
	uint32_t operation = request->operation;
	if (operation == WK_WIRE_AUTH) {
		request->flags = request->version == WK_WIRE_V2 ? 0 : request->flags;
		request->auth_name = text, request->auth_name_size = 1 + check_random(seed) % WK_WIRE_AUTH_NAME_MAX;
		request->body = text, request->body_size = 1 + check_random(seed) % 300;
	} else if (operation == WK_WIRE_ADD) {
		wk_wire_entry said;
		request->body = entry, request->body_size = 32 + check_random(seed) % 300;
		CHECK_EQ(wk_wire_entry_decode(entry, 32, &said), WK_OK);
		request->ledger_id = said.ledger_id, request->entry_id = said.entry_id;
	} else if (operation == WK_WIRE_BATCH_READ) {
		request->max_count = (int32_t)any_number(seed), request->max_size = any_id(seed);
	} else if (operation == WK_WIRE_READ) {
		if (request->version == WK_WIRE_V3 && !(request->flags & WK_WIRE_FENCE) && check_random(seed) % 2 == 0) {
			request->flags |= WK_WIRE_LONG_POLL | (check_random(seed) % 2 == 0 ? WK_WIRE_PIGGYBACK : 0u);
			request->previous_lac = any_id(seed);
			request->has_timeout = check_random(seed) % 2 == 0;
			request->timeout_ms = request->has_timeout ? any_id(seed) : 0;
		}
	} else {
		request->entry_id = -1;
		if (operation == WK_WIRE_WRITE_LAC) {
			request->lac = any_id(seed), request->key = text, request->key_size = 20;
			request->body = text, request->body_size = 1 + check_random(seed) % 100;
		} else if (operation == WK_WIRE_BOOKIE_INFO || operation == WK_WIRE_START_TLS) {
			request->ledger_id = -1;
			request->wanted = operation == WK_WIRE_BOOKIE_INFO ? check_random(seed) % 4 : 0;
		}
	}
}

TEST(any_request_comes_back_as_it_went) {
	uint64_t seed = check_seed((uint64_t)time(NULL));
	printf("seed %llu\n", (unsigned long long)seed);
	for (int round = 0; round < 20000; round++) {
		uint32_t version = check_random(&seed) % 2 == 0 ? WK_WIRE_V2 : WK_WIRE_V3;
		uint32_t operation = version == WK_WIRE_V2 ? operations_v2[check_random(&seed) % 4]
		                                           : operations_v3[check_random(&seed) % 12];
		if (!has_message(version, operation))
			continue;
		uint8_t text[400], entry[400];
		check_random_bytes(&seed, text, sizeof text);
		check_random_bytes(&seed, entry, sizeof entry);
		wk_wire_request request = any_request(&seed, version, operation, text), found;
		complete_request(&seed, &request, text, entry);
		bytes frame = frame_of_request(&request);
		uint32_t spoken = WK_WIRE_V3;
		uint8_t *payload = check_exact_copy(frame.at + 4, frame.size - 4);
		CHECK_EQ(wk_wire_request_decode(payload, frame.size - 4, &spoken, &found), WK_OK);
		CHECK_EQ(spoken, version);
		CHECK(same_request(&found, &request));
		free(payload);
	}
}

static const uint32_t all_codes[] = {0, 402, 403, 404, 501, 502, 503, 504, 505, 506, 507};

static wk_wire_reply any_reply(uint64_t *seed, uint32_t version, uint32_t operation, const uint8_t *text) {
	wk_wire_request request = {.version = version, .header_version = version, .operation = operation};
	wk_wire_reply reply;
	bool has_code = version == WK_WIRE_V3 || operation != WK_WIRE_AUTH;
	wk_wire_reply_begin(&request, has_code ? all_codes[check_random(seed) % (version == WK_WIRE_V2 ? 10 : 11)] : 0,
	                    &reply);
	reply.txn_id = version == WK_WIRE_V3 || operation == WK_WIRE_BATCH_READ ? any_number(seed) : 0;
	bool has_ledger = operation != WK_WIRE_AUTH && operation != WK_WIRE_BOOKIE_INFO && operation != WK_WIRE_START_TLS;
	bool has_entry = operation == WK_WIRE_READ || operation == WK_WIRE_ADD || operation == WK_WIRE_BATCH_READ;
	reply.ledger_id = has_ledger ? any_id(seed) : -1;
	reply.entry_id = has_entry ? any_id(seed) : -1;
	if (operation == WK_WIRE_READ && version == WK_WIRE_V3) {
		reply.has_max_lac = check_random(seed) % 2 == 0;
		reply.max_lac = reply.has_max_lac ? any_id(seed) : 0;
		reply.lac_update_ms = any_number(seed);
	}
	if (operation == WK_WIRE_BOOKIE_INFO) {
		reply.wanted = check_random(seed) % 4, reply.has_space = reply.wanted != 0;
		reply.total_bytes = reply.wanted & 1 ? any_id(seed) : 0, reply.free_bytes = reply.wanted & 2 ? any_id(seed) : 0;
	}
	if (operation == WK_WIRE_READ_LAC && check_random(seed) % 2 == 0)
		reply.lac = text, reply.lac_size = check_random(seed) % 49;
	if (operation == WK_WIRE_AUTH)
		reply.auth_name = text, reply.auth_name_size = 1 + check_random(seed) % WK_WIRE_AUTH_NAME_MAX;
	bool always = operation == WK_WIRE_AUTH || (version == WK_WIRE_V2 && reply.code == WK_WIRE_OK);
	bool never = version == WK_WIRE_V2 && reply.code != WK_WIRE_OK;
	reply.has_body = reply_has_body(version, operation) && !never && (always || check_random(seed) % 2 == 0);
	if (reply.has_body)
		reply.body = text, reply.body_size = 4;
	return reply;
}

TEST(any_reply_comes_back_as_it_went) {
	uint64_t seed = check_seed((uint64_t)time(NULL));
	printf("seed %llu\n", (unsigned long long)seed);
	for (int round = 0; round < 20000; round++) {
		uint32_t version = check_random(&seed) % 2 == 0 ? WK_WIRE_V2 : WK_WIRE_V3;
		uint32_t operation = version == WK_WIRE_V2 ? operations_v2[check_random(&seed) % 4]
		                                           : operations_v3[check_random(&seed) % 12];
		if (!has_message(version, operation))
			continue;
		uint8_t text[400];
		check_random_bytes(&seed, text, sizeof text);
		memset(text, 0, 4); /* as a batch: one entry of no bytes */
		wk_wire_reply reply = any_reply(&seed, version, operation, text), found;
		bytes frame = frame_of_reply(&reply);
		uint8_t *payload = check_exact_copy(frame.at + 4, frame.size - 4);
		CHECK_EQ(wk_wire_reply_decode(payload, frame.size - 4, version, &found), WK_OK);
		CHECK(same_reply(&found, &reply));
		free(payload);
	}
}

int main(void) {
	RUN(a_prefix_that_is_not_whole_says_nothing);
	RUN(the_limit_counts_the_prefix);
	RUN(lengths_below_zero_are_too_large_whatever_the_limit);
	RUN(an_empty_frame_is_corrupt);
	RUN(a_connection_speaks_v3_until_a_frame_is_none);
	RUN(what_is_neither_is_corrupt);
	RUN(a_reply_begins_with_what_the_request_says);
	RUN(every_head_has_room);
	RUN(a_plugins_name_is_cut_to_what_is_echoed);
	RUN(any_request_comes_back_as_it_went);
	RUN(any_reply_comes_back_as_it_went);
	return check_done();
}
