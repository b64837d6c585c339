/* test_wire_v2.c: the binary protocol's requests and replies, in bytes. */
/* ctest labels: one-thread simulated */
#include "wire_bytes.h"

static const uint8_t *key(void) {
	static bytes held;
	held = hex(KEY_HEX);
	return held.at;
}
static const bytes *hello(void) {
	static bytes held;
	held = hex(HELLO_HEX);
	return &held;
}

static wk_wire_request request_of(uint32_t operation) {
	return (wk_wire_request){
	    .version = WK_WIRE_V2, .header_version = 2, .operation = operation, .ledger_id = 1, .entry_id = 0};
}

TEST(an_add_is_the_key_and_the_entry) {
	wk_wire_request add = request_of(WK_WIRE_ADD);
	add.key = key(), add.key_size = 20, add.body = hello()->at, add.body_size = hello()->size;
	CHECK_REQUEST(&add, "00000041 02010000" KEY_HEX HELLO_HEX);
	add.flags = WK_WIRE_RECOVERY | WK_WIRE_HIGH_PRIORITY;
	CHECK_REQUEST(&add, "00000041 02010006" KEY_HEX HELLO_HEX);
}

TEST(a_read_names_a_ledger_and_an_entry) {
	wk_wire_request read = request_of(WK_WIRE_READ);
	read.entry_id = 7;
	CHECK_REQUEST(&read, "00000014 02020000 0000000000000001 0000000000000007");
	read.entry_id = -1, read.flags = WK_WIRE_HIGH_PRIORITY;
	CHECK_REQUEST(&read, "00000014 02020004 0000000000000001 ffffffffffffffff");
}

TEST(a_read_that_fences_carries_the_key) {
	wk_wire_request read = request_of(WK_WIRE_READ);
	read.entry_id = -1, read.flags = WK_WIRE_FENCE, read.key = key(), read.key_size = 20;
	CHECK_REQUEST(&read, "00000028 02020001 0000000000000001 ffffffffffffffff" KEY_HEX);
}

/* Java's client leaves the key out where it has none; who it is then is the ledger's to say. */
TEST(a_fence_without_a_key_is_decoded_as_one) {
	wk_wire_request read = request_of(WK_WIRE_READ);
	read.flags = WK_WIRE_FENCE;
	CHECK_REQUEST(&read, "00000014 02020001 0000000000000001 0000000000000000");
	read.header_version = 1;
	CHECK_REQUEST(&read, "00000014 01020001 0000000000000001 0000000000000000");
}

TEST(a_key_that_nobody_asked_for_is_ignored) {
	bytes frame = hex("02020000 0000000000000001 0000000000000000" KEY_HEX);
	uint32_t version = WK_WIRE_V2;
	wk_wire_request found, read = request_of(WK_WIRE_READ);
	CHECK_EQ(wk_wire_request_decode(frame.at, frame.size, &version, &found), WK_OK);
	CHECK(same_request(&found, &read));
	frame.at[0] = 1, frame.at[3] = WK_WIRE_FENCE; /* a version whose fences have no key */
	read.header_version = 1, read.flags = WK_WIRE_FENCE;
	CHECK_EQ(wk_wire_request_decode(frame.at, frame.size, &version, &found), WK_OK);
	CHECK(same_request(&found, &read));
}

TEST(a_batch_read_says_how_much_it_takes) {
	wk_wire_request batch = request_of(WK_WIRE_BATCH_READ);
	batch.entry_id = 5, batch.txn_id = 0x1122334455667788, batch.max_count = 100, batch.max_size = 1 << 20;
	CHECK_REQUEST(&batch, "00000028 02070000 0000000000000001 0000000000000005 1122334455667788 00000064"
	                      "0000000000100000");
	batch.max_count = -1, batch.max_size = -1, batch.flags = WK_WIRE_FENCE, batch.key = key(), batch.key_size = 20;
	CHECK_REQUEST(&batch, "0000003c 02070001 0000000000000001 0000000000000005 1122334455667788 ffffffff"
	                      "ffffffffffffffff" KEY_HEX);
}

TEST(auth_is_a_message_behind_the_header) {
	wk_wire_request auth = request_of(WK_WIRE_AUTH);
	auth.ledger_id = -1, auth.entry_id = -1;
	auth.auth_name = (const uint8_t *)"plain", auth.auth_name_size = 5;
	auth.body = (const uint8_t *)"secret", auth.body_size = 6;
	CHECK_REQUEST(&auth, "00000013 02030000 0a05 706c61696e 1206 736563726574");
	wk_wire_reply reply = {.version = WK_WIRE_V2,
	                       .header_version = 2,
	                       .operation = WK_WIRE_AUTH,
	                       .ledger_id = -1,
	                       .entry_id = -1,
	                       .has_body = true,
	                       .auth_name = (const uint8_t *)"AuthDisabledPlugin",
	                       .auth_name_size = 18};
	CHECK_REPLY(&reply, "0000001a 02030000 0a12 4175746844697361626c6564506c7567696e 1200");
}

TEST(in_the_oldest_version_the_opcode_is_the_header) {
	wk_wire_request read = request_of(WK_WIRE_READ);
	read.header_version = 0;
	CHECK_REQUEST(&read, "00000014 00000002 0000000000000001 0000000000000000");
	bool bare = true;
	CHECK_EQ(refusal_of("00000002 0000000000000001 0000000000000000", &bare), WK_WIRE_OK);
	CHECK_EQ(bare, false);
	wk_wire_reply reply;
	wk_wire_reply_begin(&read, WK_WIRE_NO_ENTRY, &reply);
	CHECK_REPLY(&reply, "00000018 00000002 00000002 0000000000000001 0000000000000000");
}

/* There is no such request: Java closes the connection, and so has ours to go. */
static void is_refused(const char *payload) {
	bytes data = hex(payload);
	uint32_t version = WK_WIRE_V3;
	wk_wire_request request;
	CHECK_EQ(wk_wire_request_decode(data.at, data.size, &version, &request), WK_CORRUPT);
	CHECK_EQ(version, WK_WIRE_V2);
}

TEST(an_opcode_that_no_bookie_decodes_is_corrupt) {
	static const char *const headers[] = {"02000000", "02040000", "02050000", "02060000", "02080000", "02ff0000",
	                                      "00000000", "00000004", "00010002", "00020000", "09040000"};
	for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
		char payload[200];
		snprintf(payload, sizeof payload, "%s 0000000000000001 0000000000000000" KEY_HEX KEY_HEX, headers[i]);
		is_refused(payload);
	}
}

TEST(what_is_cut_short_is_corrupt) {
	static const struct {
		const char *payload;
		size_t size_min;
		size_t whole_too; /* another size at which it is whole */
	} requests[] = {
	    {"02010000" KEY_HEX HELLO_HEX, 24 + 16, 0},
	    {"02020000 0000000000000001 0000000000000007", 20, 0},
	    {"02020001 0000000000000001 ffffffffffffffff" KEY_HEX, 40, 20},
	    {"02070000 0000000000000001 0000000000000005 1122334455667788 00000064 0000000000100000", 40, 0},
	    {"02070001 0000000000000001 0000000000000005 1122334455667788 00000064 0000000000100000" KEY_HEX, 60, 40},
	    {"02030000 0a05 706c61696e 1206 736563726574", 19, 0},
	};
	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
		bytes whole = hex(requests[i].payload);
		for (size_t size = 0; size <= whole.size; size++) {
			uint8_t *cut = check_exact_copy(whole.at, size);
			uint32_t version = WK_WIRE_V3;
			wk_wire_request request;
			bool fits = size >= requests[i].size_min || (size == requests[i].whole_too && size > 0);
			CHECK_EQ(wk_wire_request_decode(cut, size, &version, &request), fits ? WK_OK : WK_CORRUPT);
			free(cut);
		}
	}
}

TEST(a_version_above_two_is_told_that_it_is_bad) {
	bool bare = true;
	CHECK_EQ(refusal_of("03020000 0000000000000001 0000000000000007", &bare), WK_WIRE_BAD_VERSION);
	CHECK_EQ(bare, false);
	CHECK_EQ(refusal_of("ff020000 0000000000000001 0000000000000007", &bare), WK_WIRE_BAD_VERSION);
	CHECK_EQ(refusal_of("02020000 0000000000000001 0000000000000007", &bare), WK_WIRE_OK);
	CHECK_EQ(refusal_of("05030000 0a00 1200", &bare), WK_WIRE_OK); /* the reply to an AUTH has no code */
	wk_wire_request read = request_of(WK_WIRE_READ);
	read.header_version = 255;
	wk_wire_reply reply;
	wk_wire_reply_begin(&read, WK_WIRE_BAD_VERSION, &reply);
	CHECK_REPLY(&reply, "00000018 ff020000 00000067 0000000000000001 0000000000000000");
}

TEST(an_add_that_cannot_be_stored_is_a_bad_request) {
	bool bare;
	CHECK_EQ(
	    refusal_of("02010000" KEY_HEX "0000000000000001 0000000000000000 ffffffffffffffff 0000000000000005", &bare),
	    WK_WIRE_OK);
	CHECK_EQ(refusal_of("02010000" KEY_HEX "0000000000000001 0000000000000000 ffffffffffffffff 00000000000000", &bare),
	         WK_WIRE_BAD_REQUEST);
	CHECK_EQ(
	    refusal_of("02010000" KEY_HEX "ffffffffffffffff 0000000000000000 ffffffffffffffff 0000000000000005", &bare),
	    WK_WIRE_BAD_REQUEST);
	/* Java's bookie would take this for a record of its own journal. */
	CHECK_EQ(
	    refusal_of("02010000" KEY_HEX "0000000000000001 fffffffffffff000 ffffffffffffffff 0000000000000005", &bare),
	    WK_WIRE_BAD_REQUEST);
}

TEST(reads_of_ids_that_cannot_exist_are_bad_requests) {
	bool bare;
	CHECK_EQ(refusal_of("02020000 0000000000000001 ffffffffffffffff", &bare), WK_WIRE_OK);
	CHECK_EQ(refusal_of("02020000 0000000000000001 fffffffffffffffe", &bare), WK_WIRE_BAD_REQUEST);
	CHECK_EQ(refusal_of("02020000 8000000000000000 0000000000000000", &bare), WK_WIRE_BAD_REQUEST);
	const char *const rest = "1122334455667788 00000064 0000000000100000";
	char batch[200];
	snprintf(batch, sizeof batch, "02070000 0000000000000001 0000000000000000 %s", rest);
	CHECK_EQ(refusal_of(batch, &bare), WK_WIRE_OK);
	snprintf(batch, sizeof batch, "02070000 0000000000000001 ffffffffffffffff %s", rest);
	CHECK_EQ(refusal_of(batch, &bare), WK_WIRE_BAD_REQUEST);
	snprintf(batch, sizeof batch, "02070000 ffffffffffffffff 0000000000000000 %s", rest);
	CHECK_EQ(refusal_of(batch, &bare), WK_WIRE_BAD_REQUEST);
}

TEST(a_reply_to_an_add_has_four_fields) {
	wk_wire_request add = request_of(WK_WIRE_ADD);
	wk_wire_reply reply;
	wk_wire_reply_begin(&add, WK_WIRE_OK, &reply);
	CHECK_REPLY(&reply, "00000018 02010000 00000000 0000000000000001 0000000000000000");
}

TEST(a_read_is_answered_with_the_ids_it_asked_for) {
	wk_wire_request read = request_of(WK_WIRE_READ);
	read.entry_id = -1;
	wk_wire_reply reply;
	wk_wire_reply_begin(&read, WK_WIRE_OK, &reply);
	reply.has_body = true, reply.body = hello()->at, reply.body_size = hello()->size;
	CHECK_REPLY(&reply, "00000041 02020000 00000000 0000000000000001 ffffffffffffffff" HELLO_HEX);
}

TEST(a_batch_read_is_answered_with_its_request_id) {
	wk_wire_request batch = request_of(WK_WIRE_BATCH_READ);
	batch.txn_id = 9;
	wk_wire_reply reply;
	wk_wire_reply_begin(&batch, WK_WIRE_NO_ENTRY, &reply);
	CHECK_REPLY(&reply, "00000020 02070000 00000002 0000000000000001 0000000000000000 0000000000000009");
	bytes body = hex("00000003 616263 00000000");
	wk_wire_reply_begin(&batch, WK_WIRE_OK, &reply);
	reply.has_body = true, reply.body = body.at, reply.body_size = body.size;
	CHECK_REPLY(&reply, "0000002b 02070000 00000000 0000000000000001 0000000000000000 0000000000000009"
	                    "00000003 616263 00000000");
}

TEST(every_code_has_its_number) {
	static const uint32_t pairs[][2] = {{0, 0},     {1, 402},   {2, 403},   {100, 404}, {101, 501}, {102, 502},
	                                    {103, 503}, {104, 504}, {105, 505}, {106, 506}, {101, 507}};
	wk_wire_request add = request_of(WK_WIRE_ADD);
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		wk_wire_reply reply, back;
		wk_wire_reply_begin(&add, pairs[i][1], &reply);
		bytes frame = frame_of_reply(&reply);
		CHECK_EQ(frame.at[11] + (frame.at[8] | frame.at[9] | frame.at[10]), pairs[i][0]);
		CHECK_EQ(wk_wire_reply_decode(frame.at + 4, frame.size - 4, WK_WIRE_V2, &back), WK_OK);
		CHECK_EQ(back.code, pairs[i][1] == 507 ? 501 : pairs[i][1]);
	}
}

TEST(a_client_knows_what_javas_bookie_says_of_limbo) {
	bytes reply = hex("02020000 0000006b 0000000000000001 0000000000000000");
	wk_wire_reply found;
	CHECK_EQ(wk_wire_reply_decode(reply.at, reply.size, WK_WIRE_V2, &found), WK_OK);
	CHECK_EQ(found.code, WK_WIRE_UNKNOWN_STATE);
	CHECK_EQ(found.has_body, false);
	reply.at[7] = 0x6c;
	CHECK_EQ(wk_wire_reply_decode(reply.at, reply.size, WK_WIRE_V2, &found), WK_CORRUPT);
}

TEST(replies_that_are_cut_short_are_corrupt) {
	static const struct {
		const char *payload;
		size_t size_min;
	} replies[] = {
	    {"02010000 00000000 0000000000000001 0000000000000000", 24},
	    {"02020000 00000000 0000000000000001 0000000000000000", 24},
	    {"02070000 00000002 0000000000000001 0000000000000000 0000000000000009", 32},
	    {"02070000 00000000 0000000000000001 0000000000000000 0000000000000009 00000003 616263", 39},
	    {"02030000 0a01 61 1201 62", 10},
	    {"02040000 00000000 0000000000000001 0000000000000000", 99},
	};
	for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
		bytes whole = hex(replies[i].payload);
		for (size_t size = 0; size <= whole.size; size++) {
			uint8_t *cut = check_exact_copy(whole.at, size);
			wk_wire_reply reply;
			bool fits = size >= replies[i].size_min || (replies[i].size_min == 39 && size == 32);
			CHECK_EQ(wk_wire_reply_decode(cut, size, WK_WIRE_V2, &reply), fits ? WK_OK : WK_CORRUPT);
			free(cut);
		}
	}
}

int main(void) {
	RUN(an_add_is_the_key_and_the_entry);
	RUN(a_read_names_a_ledger_and_an_entry);
	RUN(a_read_that_fences_carries_the_key);
	RUN(a_fence_without_a_key_is_decoded_as_one);
	RUN(a_key_that_nobody_asked_for_is_ignored);
	RUN(a_batch_read_says_how_much_it_takes);
	RUN(auth_is_a_message_behind_the_header);
	RUN(in_the_oldest_version_the_opcode_is_the_header);
	RUN(an_opcode_that_no_bookie_decodes_is_corrupt);
	RUN(what_is_cut_short_is_corrupt);
	RUN(a_version_above_two_is_told_that_it_is_bad);
	RUN(an_add_that_cannot_be_stored_is_a_bad_request);
	RUN(reads_of_ids_that_cannot_exist_are_bad_requests);
	RUN(a_reply_to_an_add_has_four_fields);
	RUN(a_read_is_answered_with_the_ids_it_asked_for);
	RUN(a_batch_read_is_answered_with_its_request_id);
	RUN(every_code_has_its_number);
	RUN(a_client_knows_what_javas_bookie_says_of_limbo);
	RUN(replies_that_are_cut_short_are_corrupt);
	return check_done();
}
