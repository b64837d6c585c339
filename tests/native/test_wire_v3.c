/* test_wire_v3.c: the requests and replies of the protobuf protocol, in bytes. */
/* ctest labels: one-thread simulated */
#include "core/wire_protobuf.h"
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

static wk_wire_request request_of(uint32_t operation, uint64_t txn_id) {
	return (wk_wire_request){.version = WK_WIRE_V3,
	                         .header_version = 3,
	                         .operation = operation,
	                         .txn_id = txn_id,
	                         .ledger_id = 1,
	                         .entry_id = -1};
}
static wk_wire_reply reply_of(uint32_t operation, uint64_t txn_id, uint32_t code) {
	wk_wire_request request = request_of(operation, txn_id);
	wk_wire_reply reply;
	wk_wire_reply_begin(&request, code, &reply);
	return reply;
}

TEST(an_add_and_its_reply) {
	wk_wire_request add = request_of(WK_WIRE_ADD, 7);
	add.entry_id = 0, add.key = key(), add.key_size = 20, add.body = hello()->at, add.body_size = hello()->size;
	CHECK_REQUEST(&add, "00000050 0a06 0803 1002 1807  aa0645 0801 1000 1a14" KEY_HEX "2229" HELLO_HEX);
	wk_wire_reply reply = reply_of(WK_WIRE_ADD, 7, WK_WIRE_OK);
	reply.entry_id = 0;
	CHECK_REPLY(&reply, "00000013 0a06 0803 1002 1807  1000  aa0606 0800 1001 1800");
	reply.code = WK_WIRE_FENCED, reply.txn_id = UINT64_MAX;
	CHECK_REPLY(&reply, "0000001e 0a0f 0803 1002 18" MINUS_ONE_HEX "10f803 aa0607 08f803 1001 1800");
}

/* What follows the head is the caller's, so the body is the last field, whatever its number. */
TEST(an_add_with_flags_has_its_body_last) {
	wk_wire_request add = request_of(WK_WIRE_ADD, 7);
	add.entry_id = 0, add.key = key(), add.key_size = 20, add.body = hello()->at, add.body_size = hello()->size;
	add.flags = WK_WIRE_DEFERRED | WK_WIRE_RECOVERY | WK_WIRE_HIGH_PRIORITY, add.priority = 100;
	CHECK_REQUEST(&add, "00000057 0a08 0803 1002 1807 2064 aa064a 0801 1000 1a14" KEY_HEX "2801 a00601 2229" HELLO_HEX);
}

TEST(reads_and_their_flags) {
	wk_wire_request read = request_of(WK_WIRE_READ, 8);
	CHECK_REQUEST(&read, "00000018 0a06 0803 1001 1808  a2060d 0801 10" MINUS_ONE_HEX);
	read.txn_id = 9, read.flags = WK_WIRE_FENCE | WK_WIRE_HIGH_PRIORITY, read.priority = 100;
	read.key = key(), read.key_size = 20;
	CHECK_REQUEST(&read, "00000033 0a08 0803 1001 1809 2064  a20626 0801 10" MINUS_ONE_HEX "1a14" KEY_HEX "a00601");
}

TEST(a_read_that_names_the_lac_it_knows_is_a_long_poll) {
	wk_wire_request poll = request_of(WK_WIRE_READ, 8);
	poll.flags = WK_WIRE_LONG_POLL | WK_WIRE_PIGGYBACK, poll.previous_lac = 5;
	poll.has_timeout = true, poll.timeout_ms = 1000;
	CHECK_REQUEST(&poll, "00000020 0a06 0803 1001 1808 a20615 0801 10" MINUS_ONE_HEX "2005 28e807 a00602");
	poll.flags = WK_WIRE_LONG_POLL, poll.previous_lac = -1, poll.has_timeout = false, poll.timeout_ms = 0;
	CHECK_REQUEST(&poll, "00000023 0a06 0803 1001 1808 a20618 0801 10" MINUS_ONE_HEX "20" MINUS_ONE_HEX);
}

/* The LAC that it names beside is of no account, and the flag of a number that nobody knows is none. */
TEST(a_read_that_fences_is_no_long_poll) {
	bytes payload = hex("0a06 0803 1001 1808 a2060b 0801 1000 2005 280a a00601");
	uint32_t version = WK_WIRE_V3;
	wk_wire_request found, expected = request_of(WK_WIRE_READ, 8);
	CHECK_EQ(wk_wire_request_decode(payload.at, payload.size, &version, &found), WK_OK);
	expected.entry_id = 0, expected.flags = WK_WIRE_FENCE;
	CHECK(same_request(&found, &expected));
	payload.at[payload.size - 1] = 3;
	CHECK_EQ(wk_wire_request_decode(payload.at, payload.size, &version, &found), WK_OK);
	CHECK_EQ(found.flags, WK_WIRE_LONG_POLL);
	CHECK_EQ(version, WK_WIRE_V3);
}

TEST(requests_about_lacs) {
	bytes packet = hex("0000000000000001 0000000000000000 b64e4ca2");
	wk_wire_request request = request_of(WK_WIRE_WRITE_LAC, 1);
	request.lac = 0, request.key = key(), request.key_size = 20, request.body = packet.at,
	request.body_size = packet.size;
	CHECK_REQUEST(&request, "0000003b 0a06 0803 1006 1801 ba0630 0801 1000 1a14" KEY_HEX
	                        "2214 0000000000000001 0000000000000000 b64e4ca2");
	request = request_of(WK_WIRE_READ_LAC, 1);
	CHECK_REQUEST(&request, "0000000d 0a06 0803 1007 1801 c20602 0801");
}

TEST(requests_about_a_ledger_or_the_bookie) {
	wk_wire_request request = request_of(WK_WIRE_FORCE, 2);
	CHECK_REQUEST(&request, "0000000d 0a06 0803 100a 1802 da0602 0801");
	request.operation = WK_WIRE_LIST_ENTRIES;
	CHECK_REQUEST(&request, "0000000d 0a06 0803 100b 1802 e20602 0801");
	request.operation = WK_WIRE_BOOKIE_INFO, request.ledger_id = -1, request.wanted = 3;
	CHECK_REQUEST(&request, "0000000d 0a06 0803 1008 1802 ca0602 0803");
	request.operation = WK_WIRE_START_TLS, request.wanted = 0;
	CHECK_REQUEST(&request, "0000000b 0a06 0803 1009 1802 d20600");
	request.operation = WK_WIRE_AUTH;
	request.auth_name = (const uint8_t *)"plain", request.auth_name_size = 5;
	request.body = (const uint8_t *)"secret", request.body_size = 6;
	CHECK_REQUEST(&request, "0000001a 0a06 0803 1005 1802 b2060f 0a05 706c61696e 1206 736563726574");
}

TEST(replies_to_reads_carry_the_lac_and_then_the_entry) {
	wk_wire_reply reply = reply_of(WK_WIRE_READ, 8, WK_WIRE_OK);
	reply.has_body = true, reply.body = hello()->at, reply.body_size = hello()->size;
	reply.has_max_lac = true, reply.max_lac = -1, reply.lac_update_ms = 1790000000000;
	CHECK_REPLY(&reply, "00000059 0a06 0803 1001 1808 1000 a2064c 0800 1001 18" MINUS_ONE_HEX "28" MINUS_ONE_HEX
	                    "3080d8c1a28c34 2229" HELLO_HEX);
	reply = reply_of(WK_WIRE_READ, 8, WK_WIRE_NO_ENTRY);
	CHECK_REPLY(&reply, "0000001e 0a06 0803 1001 1808 109303 a20610 089303 1001 18" MINUS_ONE_HEX);
	reply.code = WK_WIRE_OK, reply.has_body = true; /* an entry of no bytes is another answer than none */
	CHECK_REPLY(&reply, "0000001e 0a06 0803 1001 1808 1000 a20611 0800 1001 18" MINUS_ONE_HEX "2200");
}

TEST(a_reply_about_lacs_has_none_one_or_both) {
	bytes packet = hex("0000000000000001 0000000000000000 b64e4ca2");
	wk_wire_reply reply = reply_of(WK_WIRE_READ_LAC, 1, WK_WIRE_NO_ENTRY);
	reply.entry_id = -1;
	CHECK_REPLY(&reply, "00000013 0a06 0803 1007 1801 109303 c20605 089303 1001");
	reply.code = WK_WIRE_OK, reply.lac = packet.at, reply.lac_size = packet.size;
	CHECK_REPLY(&reply, "00000027 0a06 0803 1007 1801 1000 c2061a 0800 1001 1a14 0000000000000001 0000000000000000"
	                    "b64e4ca2");
	reply.has_body = true, reply.body = hello()->at, reply.body_size = hello()->size;
	CHECK_REPLY(&reply, "00000052 0a06 0803 1007 1801 1000 c20645 0800 1001 1a14 0000000000000001 0000000000000000"
	                    "b64e4ca2 2229" HELLO_HEX);
	reply = reply_of(WK_WIRE_WRITE_LAC, 1, WK_WIRE_READ_ONLY);
	CHECK_REPLY(&reply, "00000013 0a06 0803 1006 1801 10f903 ba0605 08f903 1001");
}

TEST(replies_about_a_ledger_or_the_bookie) {
	wk_wire_reply reply = reply_of(WK_WIRE_FORCE, 2, WK_WIRE_OK);
	CHECK_REPLY(&reply, "00000011 0a06 0803 100a 1802 1000 da0604 0800 1001");
	reply = reply_of(WK_WIRE_LIST_ENTRIES, 2, WK_WIRE_NO_LEDGER);
	CHECK_REPLY(&reply, "00000013 0a06 0803 100b 1802 109203 e20605 089203 1001");
	reply.code = WK_WIRE_OK, reply.has_body = true, reply.body = (const uint8_t *)"\0\0", reply.body_size = 2;
	CHECK_REPLY(&reply, "00000015 0a06 0803 100b 1802 1000 e20608 0800 1001 1a02 0000");
	reply = reply_of(WK_WIRE_BOOKIE_INFO, 2, WK_WIRE_OK);
	reply.ledger_id = -1;
	CHECK_REPLY(&reply, "0000000f 0a06 0803 1008 1802 1000 ca0602 0800");
	reply.has_space = true, reply.wanted = 1, reply.total_bytes = 1000;
	CHECK_REPLY(&reply, "00000012 0a06 0803 1008 1802 1000 ca0605 0800 10e807");
	reply.wanted = 3, reply.free_bytes = 5;
	CHECK_REPLY(&reply, "00000014 0a06 0803 1008 1802 1000 ca0607 0800 10e807 1805");
	reply.wanted = 2, reply.total_bytes = 0;
	CHECK_REPLY(&reply, "00000011 0a06 0803 1008 1802 1000 ca0604 0800 1805");
}

/* Where nobody asks for a password, Java's bookie says so by this name. */
TEST(a_reply_to_auth_names_a_plugin) {
	wk_wire_reply reply = reply_of(WK_WIRE_AUTH, 1, WK_WIRE_OK);
	reply.ledger_id = -1;
	reply.auth_name = (const uint8_t *)"AuthDisabledPlugin", reply.auth_name_size = 18, reply.has_body = true;
	CHECK_REPLY(&reply, "00000023 0a06 0803 1005 1801 1000 b20616 0a12 4175746844697361626c6564506c7567696e 1200");
}

TEST(a_bare_reply_is_header_and_status) {
	wk_wire_reply reply = reply_of(WK_WIRE_START_TLS, 5, WK_WIRE_BAD_REQUEST);
	reply.ledger_id = -1, reply.bare = true;
	CHECK_REPLY(&reply, "0000000b 0a06 0803 1009 1805 109403");
	reply.bare = false, reply.code = WK_WIRE_OK;
	CHECK_REPLY(&reply, "0000000d 0a06 0803 1009 1805 1000 d20600");
	static const uint32_t nobodys[] = {WK_WIRE_RANGE_READ, WK_WIRE_RANGE_ADD, WK_WIRE_BATCH_READ};
	for (size_t i = 0; i < 3; i++) {
		char text[100];
		snprintf(text, sizeof text, "0000000b 0a06 0803 10%02x 1805 109403", nobodys[i]);
		reply = reply_of(nobodys[i], 5, WK_WIRE_BAD_REQUEST);
		reply.ledger_id = -1, reply.bare = true;
		CHECK_REPLY(&reply, text);
	}
}

/* The client looks at the one for some operations and at the other for the rest; where they differ it failed. */
TEST(a_reply_that_failed_in_either_status_failed) {
	bytes reply = hex("0a06 0803 1002 1807 1000 aa0607 08f803 1001 1800");
	wk_wire_reply found;
	CHECK_EQ(wk_wire_reply_decode(reply.at, reply.size, WK_WIRE_V3, &found), WK_OK);
	CHECK_EQ(found.code, WK_WIRE_FENCED);
	reply = hex("0a06 0803 1002 1807 10f503 aa0606 0800 1001 1800");
	CHECK_EQ(wk_wire_reply_decode(reply.at, reply.size, WK_WIRE_V3, &found), WK_OK);
	CHECK_EQ(found.code, WK_WIRE_IO_ERROR);
}

/* ---- what is refused, and how ---- */

static void is_answered(const char *payload, uint32_t code, bool expected_bare) {
	bool bare = !expected_bare;
	uint32_t found = refusal_of(payload, &bare);
	if (found != code || bare != expected_bare)
		printf("%s: %u%s\n", payload, found, bare ? " bare" : "");
	CHECK_EQ(found, code);
	CHECK_EQ(bare, expected_bare);
}

TEST(cluster_rule_10_operations_that_nobody_serves_are_refused_bare) {
	is_answered("0a06 0803 1009 1802 d20600", WK_WIRE_BAD_REQUEST, true); /* START_TLS, until there is TLS */
	is_answered("0a06 0803 1009 1802", WK_WIRE_BAD_REQUEST, true);
	is_answered("0a06 0803 1003 1802", WK_WIRE_BAD_REQUEST, true);
	is_answered("0a06 0803 1004 1802", WK_WIRE_BAD_REQUEST, true);
	is_answered("0a06 0803 100c 1802", WK_WIRE_BAD_REQUEST, true);
}

/* Java's would serve ledger 0, entry 0: the values of fields that are not there. */
TEST(an_operation_without_its_message_is_refused_bare) {
	static const char *const operations[] = {"01", "02", "05", "06", "07", "08", "0a", "0b"};
	for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
		char payload[100];
		snprintf(payload, sizeof payload, "0a06 0803 10%s 1802 d20600", operations[i]);
		is_answered(payload, WK_WIRE_BAD_REQUEST, true);
	}
	is_answered("0a06 0803 1007 1801 c20602 0801", WK_WIRE_OK, false);
	is_answered("0a06 0803 1007 1801 da0602 0801", WK_WIRE_BAD_REQUEST, true); /* another operation's */
}

TEST(the_earlier_versions_are_told_that_they_are_bad) {
	is_answered("0a06 0801 1007 1801 c20602 0801", WK_WIRE_BAD_VERSION, false);
	is_answered("0a06 0802 1007 1801 c20602 0801", WK_WIRE_BAD_VERSION, false);
	is_answered("0a06 0802 1009 1801 d20600", WK_WIRE_BAD_VERSION, true);
}

TEST(an_add_whose_entry_says_otherwise_is_refused) {
#define ADD_HEX(ledger, entry, size, body) \
	"0a06 0803 1002 1807 aa06" size "08" ledger "10" entry "1a14" KEY_HEX "22" body
#define HEADER_HEX "0000000000000001 0000000000000000 ffffffffffffffff 0000000000000005"
	is_answered(ADD_HEX("01", "00", "3c", "20" HEADER_HEX), WK_WIRE_OK, false);
	is_answered(ADD_HEX("02", "00", "3c", "20" HEADER_HEX), WK_WIRE_BAD_REQUEST, false);
	is_answered(ADD_HEX("01", "01", "3c", "20" HEADER_HEX), WK_WIRE_BAD_REQUEST, false);
	is_answered(ADD_HEX("01", "00", "3b", "1f 0000000000000001 0000000000000000 ffffffffffffffff 00000000000000"),
	            WK_WIRE_BAD_REQUEST, false);
	is_answered(ADD_HEX("01", "00", "1c", "00"), WK_WIRE_BAD_REQUEST, false);
	is_answered(
	    ADD_HEX("01", MINUS_ONE_HEX, "45", "20 0000000000000001 ffffffffffffffff ffffffffffffffff 0000000000000005"),
	    WK_WIRE_BAD_REQUEST, false);
	is_answered(
	    ADD_HEX(MINUS_ONE_HEX, "00", "45", "20 ffffffffffffffff 0000000000000000 ffffffffffffffff 0000000000000005"),
	    WK_WIRE_BAD_REQUEST, false);
}

TEST(a_lac_whose_packet_is_of_another_ledger_or_no_packet_is_refused) {
#define LAC_HEX(ledger, lac, size, body) "0a06 0803 1006 1801 ba06" size "08" ledger "10" lac "1a00 22" body
	is_answered(LAC_HEX("01", "05", "18", "10 0000000000000001 0000000000000005"), WK_WIRE_OK, false);
	is_answered(LAC_HEX("02", "05", "18", "10 0000000000000001 0000000000000005"), WK_WIRE_BAD_REQUEST, false);
	is_answered(LAC_HEX("01", "04", "18", "10 0000000000000001 0000000000000005"), WK_WIRE_OK, false); /* it grew */
	is_answered(LAC_HEX("01", "05", "17", "0f 0000000000000001 00000000000000"), WK_WIRE_BAD_REQUEST, false);
	is_answered(LAC_HEX(MINUS_ONE_HEX, "05", "21", "10 ffffffffffffffff 0000000000000005"), WK_WIRE_BAD_REQUEST, false);
#define SIXTEEN_HEX "00000000000000000000000000000000"
	is_answered(LAC_HEX("01", "05", "38", "30 0000000000000001 0000000000000005" SIXTEEN_HEX SIXTEEN_HEX), WK_WIRE_OK,
	            false);
	is_answered(LAC_HEX("01", "05", "39", "31 0000000000000001 0000000000000005" SIXTEEN_HEX SIXTEEN_HEX "00"),
	            WK_WIRE_BAD_REQUEST, false);
}

TEST(a_key_that_is_longer_than_any_is_refused) {
#define READ_HEX(size, key) "0a06 0803 1001 1808 a206" size "0801 1000 1a" key
	is_answered(READ_HEX("36", "30" SIXTEEN_HEX SIXTEEN_HEX SIXTEEN_HEX), WK_WIRE_OK, false);
	is_answered(READ_HEX("37", "31" SIXTEEN_HEX SIXTEEN_HEX SIXTEEN_HEX "00"), WK_WIRE_BAD_REQUEST, false);
	is_answered(READ_HEX("07", "01 00"), WK_WIRE_OK, false); /* the ledger refuses it */
}

TEST(a_piggy_backed_entry_cannot_be_chosen) {
	is_answered("0a06 0803 1001 1808 a20612 0801 10" MINUS_ONE_HEX "2005 a00602", WK_WIRE_OK, false);
	is_answered("0a06 0803 1001 1808 a20609 0801 1000 2005 a00602", WK_WIRE_BAD_REQUEST, false);
	is_answered("0a06 0803 1001 1808 a20610 0801 10" MINUS_ONE_HEX "a00602", WK_WIRE_BAD_REQUEST, false);
}

TEST(ledgers_that_cannot_exist_are_refused) {
	is_answered("0a06 0803 1001 1808 a2060d 08" MINUS_ONE_HEX "1000", WK_WIRE_BAD_REQUEST, false);
	is_answered("0a06 0803 1007 1801 c2060b 08" MINUS_ONE_HEX, WK_WIRE_BAD_REQUEST, false);
	is_answered("0a06 0803 100a 1801 da060b 08" MINUS_ONE_HEX, WK_WIRE_BAD_REQUEST, false);
	is_answered("0a06 0803 100b 1801 e2060b 08" MINUS_ONE_HEX, WK_WIRE_BAD_REQUEST, false);
	is_answered("0a06 0803 1001 1808 a2060d 0801 10 feffffffffffffffff01", WK_WIRE_BAD_REQUEST, false);
}

/* ---- protobuf ---- */

static bool is_v3(const char *payload) {
	bytes data = hex(payload);
	uint8_t *exact = check_exact_copy(data.at, data.size);
	uint32_t version = WK_WIRE_V3;
	wk_wire_request request;
	wk_status status = wk_wire_request_decode(exact, data.size, &version, &request);
	free(exact);
	CHECK(status == WK_OK || version == WK_WIRE_V2);
	return version == WK_WIRE_V3;
}

TEST(every_truncation_of_a_request_is_no_request) {
	static const char *const requests[] = {
	    "0a06 0803 1002 1807  aa0645 0801 1000 1a14" KEY_HEX "2229" HELLO_HEX,
	    "0a08 0803 1001 1809 2064  a20626 0801 10" MINUS_ONE_HEX "1a14" KEY_HEX "a00601",
	    "0a06 0803 1001 1808 a20615 0801 10" MINUS_ONE_HEX "2005 28e807 a00602",
	    "0a06 0803 1006 1801 ba0630 0801 1000 1a14" KEY_HEX "2214 0000000000000001 0000000000000000 b64e4ca2",
	    "0a06 0803 1007 1801 c20602 0801",
	    "0a06 0803 100a 1802 da0602 0801",
	    "0a06 0803 100b 1802 e20602 0801",
	    "0a06 0803 1008 1802 ca0602 0803",
	    "0a06 0803 1009 1802 d20600",
	    "0a06 0803 1005 1802 b2060f 0a05 706c61696e 1206 736563726574",
	};
	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
		bytes whole = hex(requests[i]);
		CHECK(is_v3(requests[i]));
		for (size_t size = 0; size < whole.size; size++) {
			uint8_t *cut = check_exact_copy(whole.at, size);
			uint32_t version = WK_WIRE_V3;
			wk_wire_request request;
			wk_status status = wk_wire_request_decode(cut, size, &version, &request);
			bool header_alone = size == whole.at[1] + 2u;
			CHECK_EQ(status, header_alone ? WK_OK : WK_CORRUPT);
			CHECK_EQ(version, header_alone ? WK_WIRE_V3 : WK_WIRE_V2);
			free(cut);
		}
	}
}

TEST(a_required_field_that_is_missing_makes_it_no_request) {
	CHECK(is_v3("0a06 0803 1007 1801"));
	CHECK(!is_v3("c20602 0801"));                               /* no header */
	CHECK(!is_v3("0a04 1007 1801"));                            /* version */
	CHECK(!is_v3("0a04 0803 1801"));                            /* operation */
	CHECK(!is_v3("0a04 0803 1007"));                            /* txnId */
	CHECK(!is_v3("0a06 0803 1007 1801 a20602 0801"));           /* readRequest.entryId, of no account for READ_LAC */
	CHECK(!is_v3("0a06 0803 1007 1801 a20602 1001"));           /* readRequest.ledgerId */
	CHECK(!is_v3("0a06 0803 1007 1801 aa0606 0801 1000 2200")); /* addRequest.masterKey */
	CHECK(!is_v3("0a06 0803 1007 1801 aa0606 0801 1000 1a00")); /* addRequest.body */
	CHECK(!is_v3("0a06 0803 1007 1801 aa0606 0801 1a00 2200")); /* addRequest.entryId */
	CHECK(is_v3("0a06 0803 1007 1801 aa0608 0801 1000 1a00 2200"));
	CHECK(!is_v3("0a06 0803 1007 1801 b20602 0a00")); /* authRequest.payload */
	CHECK(!is_v3("0a06 0803 1007 1801 b20602 1200")); /* authRequest.authPluginName */
	CHECK(!is_v3("0a06 0803 1007 1801 ba0606 0801 1000 1a00"));
	CHECK(!is_v3("0a06 0803 1007 1801 c20600"));
	CHECK(!is_v3("0a06 0803 1007 1801 da0600"));
	CHECK(!is_v3("0a06 0803 1007 1801 e20600"));
	CHECK(is_v3("0a06 0803 1007 1801 ca0600")); /* everything of it is optional */
	CHECK(is_v3("0a06 0803 1007 1801 c20c04 0a00 1200"));
	CHECK(!is_v3("0a06 0803 1007 1801 c20c02 0a00"));             /* requestContext.value */
	CHECK(!is_v3("0a06 0803 1007 1801 c20c02 0a00 c20c02 1200")); /* two of them are not one */
}

TEST(an_enum_of_an_unknown_number_counts_as_missing) {
	CHECK(!is_v3("0a06 0804 1007 1801"));
	CHECK(!is_v3("0a06 0800 1007 1801"));
	CHECK(!is_v3("0a06 0803 1000 1801"));
	CHECK(!is_v3("0a06 0803 100d 1801"));
	CHECK(is_v3("0a06 0803 100c 1801"));
	CHECK(is_v3("0a0a 0803 1087808080 10 1801")); /* of its 64 bits the low 32 count */
	CHECK(is_v3("0a08 0803 1007 1063 1801"));     /* the one that is known counts */
}

TEST(fields_may_come_in_any_order_and_twice) {
	bytes payload = hex("c20602 0809 0a02 0801 c20602 0801 0a0a 1801 1001 1007 0803 1802");
	uint32_t version = WK_WIRE_V3;
	wk_wire_request found, expected = request_of(WK_WIRE_READ_LAC, 2);
	CHECK_EQ(wk_wire_request_decode(payload.at, payload.size, &version, &found), WK_OK);
	CHECK(same_request(&found, &expected));
}

TEST(unknown_fields_are_skipped) {
	CHECK(is_v3("0807 0a06 0803 1007 1801"));                /* field 1 as a number */
	CHECK(is_v3("1202 ffff 0a06 0803 1007 1801"));           /* bytes */
	CHECK(is_v3("1d 01020304 0a06 0803 1007 1801"));         /* four bytes */
	CHECK(is_v3("21 0102030405060708 0a06 0803 1007 1801")); /* eight */
	CHECK(is_v3("f8ffffff0f 00 0a06 0803 1007 1801"));       /* the highest number there is */
	CHECK(is_v3("0a0b 0803 7d01020304 1007 1801"));          /* inside of a message */
	CHECK(is_v3("0a06 0803 1007 1801 a00600"));              /* a message as a number is another field */
	CHECK(is_v3("0a0a 0803 1007 1801 1a02 ffff"));           /* and a number as bytes */
	CHECK(!is_v3("1d 010203"));
	CHECK(!is_v3("0a06 0803 1007 1801 1d 010203"));
	CHECK(!is_v3("0a06 0803 1007 1801 21 01020304050607"));
}

/* A READ_LAC of ledger 2 in six fields, and so many more: behind its messages, or in its header. */
static bool is_request_with(uint32_t more, bool in_header) {
	static uint8_t payload[16 * 1024];
	static const uint8_t header[] = {0x08, 0x03, 0x10, 0x07, 0x18, 0x01}, message[] = {0xc2, 0x06, 0x02, 0x08, 0x02};
	size_t header_size = sizeof header + (in_header ? 3 * (size_t)more : 0);
	uint8_t *at = wk_protobuf_put_size(payload, 1, header_size);
	memcpy(at, header, sizeof header);
	at += sizeof header;
	if (!in_header)
		at = mempcpy(at, message, sizeof message);
	for (uint32_t i = 0; i < more; i++)
		at = wk_protobuf_put_number(at, 100, 1);
	if (in_header)
		at = mempcpy(at, message, sizeof message);
	uint32_t version = WK_WIRE_V3;
	wk_wire_request found;
	return wk_wire_request_decode(payload, (size_t)(at - payload), &version, &found) == WK_OK;
}

TEST(a_thousand_fields_are_a_request_and_one_more_is_none) {
	for (int in_header = 0; in_header < 2; in_header++) {
		CHECK(is_request_with(0, in_header));
		CHECK(is_request_with(1000 - 6, in_header));
		CHECK(!is_request_with(1000 - 5, in_header));
		CHECK(!is_request_with(4000, in_header));
	}
}

TEST(what_is_no_field_makes_it_no_request) {
	CHECK(!is_v3("0a06 0803 1007 1801 0000")); /* field 0 */
	CHECK(!is_v3("0a06 0803 1007 1801 0200")); /* field 0, as v2 begins */
	CHECK(!is_v3("0a06 0803 1007 1801 1b1c")); /* a group */
	CHECK(!is_v3("0a06 0803 1007 1801 1c"));   /* the end of one */
	CHECK(!is_v3("0a06 0803 1007 1801 1e00")); /* types that do not exist */
	CHECK(!is_v3("0a06 0803 1007 1801 1f00"));
	CHECK(!is_v3("0a06 0803 1007 1801 f8ffffff1f 00"));    /* a number above 2^29 - 1 */
	CHECK(!is_v3("0a06 0803 1007 1801 9080808080 00 00")); /* a tag of six bytes */
	CHECK(!is_v3("0a06 0803 1007 1801 12ffffffff07"));     /* a size that is not there */
	CHECK(!is_v3("0a06 0803 1007 1801 12ffffffff0f"));     /* above 2^31 - 1 */
	CHECK(!is_v3("0a06 0803 1007 1801 12ffffffffffffffffff01"));
	CHECK(!is_v3("0a06 0803 1007 1801 128080808080 00")); /* a size of six bytes */
}

TEST(a_varint_has_ten_bytes_at_most) {
	CHECK(is_v3("0a0f 0803 1007 18" MINUS_ONE_HEX));
	CHECK(is_v3("0a0f 0803 1007 18 ffffffffffffffffff7f")); /* bits beyond the 64th are dropped */
	CHECK(is_v3("0a0f 0803 1007 18 80808080808080808000"));
	CHECK(!is_v3("0a10 0803 1007 18 8080808080808080808000"));
	bytes payload = hex("0a0f 0803 1007 18 ffffffffffffffffff7f");
	uint32_t version = WK_WIRE_V3;
	wk_wire_request found;
	CHECK_EQ(wk_wire_request_decode(payload.at, payload.size, &version, &found), WK_OK);
	CHECK(found.txn_id == UINT64_MAX);
}

TEST(every_truncation_of_a_reply_is_refused) {
	static const char *const replies[] = {
	    "0a06 0803 1001 1808 1000 a20647 0800 1001 18" MINUS_ONE_HEX "28" MINUS_ONE_HEX "3001 2229" HELLO_HEX,
	    "0a06 0803 1002 1807 1000 aa0606 0800 1001 1800",
	    "0a06 0803 1005 1801 1000 b20616 0a12 4175746844697361626c6564506c7567696e 1200",
	    "0a06 0803 1006 1801 10f903 ba0605 08f903 1001",
	    "0a06 0803 1007 1801 1000 c2061a 0800 1001 1a14 0000000000000001 0000000000000000 b64e4ca2",
	    "0a06 0803 1008 1802 1000 ca0607 0800 10e807 1805",
	    "0a06 0803 1009 1805 1000 d20600",
	    "0a06 0803 100a 1802 1000 da0604 0800 1001",
	    "0a06 0803 100b 1802 1000 e20608 0800 1001 1a02 0000",
	};
	for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
		bytes whole = hex(replies[i]);
		size_t bare_size = whole.at[9] >= 0x80 ? 11 : 10;
		for (size_t size = 0; size <= whole.size; size++) {
			uint8_t *cut = check_exact_copy(whole.at, size);
			wk_wire_reply reply;
			bool fits = size == whole.size || size == bare_size;
			CHECK_EQ(wk_wire_reply_decode(cut, size, WK_WIRE_V3, &reply), fits ? WK_OK : WK_CORRUPT);
			if (fits)
				CHECK_EQ(reply.bare, size == bare_size);
			free(cut);
		}
	}
}

TEST(a_reply_of_an_unknown_status_is_refused) {
	bytes reply = hex("0a06 0803 1002 1807 1001 aa0606 0800 1001 1800");
	wk_wire_reply found;
	CHECK_EQ(wk_wire_reply_decode(reply.at, reply.size, WK_WIRE_V3, &found), WK_CORRUPT);
	reply = hex("0a06 0803 1002 1807 1000 aa0606 0801 1001 1800");
	CHECK_EQ(wk_wire_reply_decode(reply.at, reply.size, WK_WIRE_V3, &found), WK_CORRUPT);
	reply = hex("0a06 0803 1002 1807 1000 aa0606 0800 1001 1800");
	CHECK_EQ(wk_wire_reply_decode(reply.at, reply.size, WK_WIRE_V3, &found), WK_OK);
	CHECK_EQ(wk_wire_reply_decode(reply.at, reply.size, WK_WIRE_V2, &found), WK_CORRUPT);
}

TEST(a_client_that_wants_priority_without_a_number_gets_javas) {
	wk_wire_request read = request_of(WK_WIRE_READ, 1);
	read.flags = WK_WIRE_HIGH_PRIORITY;
	bytes frame = frame_of_request(&read);
	uint32_t version = WK_WIRE_V3;
	wk_wire_request found;
	CHECK_EQ(wk_wire_request_decode(frame.at + 4, frame.size - 4, &version, &found), WK_OK);
	CHECK_EQ(found.priority, 100);
}

int main(void) {
	RUN(an_add_and_its_reply);
	RUN(an_add_with_flags_has_its_body_last);
	RUN(reads_and_their_flags);
	RUN(a_read_that_names_the_lac_it_knows_is_a_long_poll);
	RUN(a_read_that_fences_is_no_long_poll);
	RUN(requests_about_lacs);
	RUN(requests_about_a_ledger_or_the_bookie);
	RUN(replies_to_reads_carry_the_lac_and_then_the_entry);
	RUN(a_reply_about_lacs_has_none_one_or_both);
	RUN(replies_about_a_ledger_or_the_bookie);
	RUN(a_reply_to_auth_names_a_plugin);
	RUN(a_bare_reply_is_header_and_status);
	RUN(a_reply_that_failed_in_either_status_failed);
	RUN(cluster_rule_10_operations_that_nobody_serves_are_refused_bare);
	RUN(an_operation_without_its_message_is_refused_bare);
	RUN(the_earlier_versions_are_told_that_they_are_bad);
	RUN(an_add_whose_entry_says_otherwise_is_refused);
	RUN(a_lac_whose_packet_is_of_another_ledger_or_no_packet_is_refused);
	RUN(a_key_that_is_longer_than_any_is_refused);
	RUN(a_piggy_backed_entry_cannot_be_chosen);
	RUN(ledgers_that_cannot_exist_are_refused);
	RUN(every_truncation_of_a_request_is_no_request);
	RUN(a_required_field_that_is_missing_makes_it_no_request);
	RUN(an_enum_of_an_unknown_number_counts_as_missing);
	RUN(fields_may_come_in_any_order_and_twice);
	RUN(unknown_fields_are_skipped);
	RUN(a_thousand_fields_are_a_request_and_one_more_is_none);
	RUN(what_is_no_field_makes_it_no_request);
	RUN(a_varint_has_ten_bytes_at_most);
	RUN(every_truncation_of_a_reply_is_refused);
	RUN(a_reply_of_an_unknown_status_is_refused);
	RUN(a_client_that_wants_priority_without_a_number_gets_javas);
	return check_done();
}
