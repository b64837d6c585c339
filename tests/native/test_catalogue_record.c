/* The records of ledger 0: each type's bytes, each rule, and every truncation. */
/* ctest labels: one-thread */
#include "check.h"
#include "core/bytes.h"
#include "core/catalogue_record.h"

static uint8_t bytes[WK_CATALOGUE_RECORD_MAX];

/* Fields of eight bytes in the body of each type, and whether a name follows. The header's comment, in numbers. */
static const struct {
	uint32_t type;
	uint32_t fields_count;
	bool named;
} shapes[] = {
    {WK_CATALOGUE_CREATE, 8, true},    {WK_CATALOGUE_SEGMENT, 6, false},  {WK_CATALOGUE_COMPLETE, 7, false},
    {WK_CATALOGUE_TRUNCATE, 6, false}, {WK_CATALOGUE_CURSOR, 6, true},    {WK_CATALOGUE_UNCURSOR, 1, true},
    {WK_CATALOGUE_DELETE, 1, false},   {WK_CATALOGUE_RENAME, 1, true},    {WK_CATALOGUE_SOURCE, 3, false},
    {WK_CATALOGUE_GAP, 6, false},      {WK_CATALOGUE_COUNTERS, 2, false},
};
enum { TYPES = sizeof shapes / sizeof shapes[0] };

static wk_catalogue_record full(uint32_t type) {
	return (wk_catalogue_record){
	    .type = type,
	    .log_id = 1,
	    .segment_bytes = 2,
	    .segment_seconds = 3,
	    .retention_seconds = 4,
	    .codec = 2,
	    .txid_source = 1,
	    .flags = 1,
	    .created_ms = 8,
	    .segment = 9,
	    .ledger_id = 10,
	    .entry_id = 11,
	    .last_entry_id = 19,
	    .slot = 12,
	    .sequence_id = 13,
	    .txid = 14,
	    .count = 15,
	    .payload_bytes = 16,
	    .next_log_id = 17,
	    .next_ledger_id = 18,
	    .name = "flights",
	    .name_size = 7,
	};
}

static size_t encode(wk_catalogue_record record) {
	memset(bytes, 0xee, sizeof bytes);
	return wk_catalogue_encode(&record, bytes);
}

static wk_status decoding(size_t size) {
	static const wk_catalogue_record untouched = {.type = 77};
	wk_catalogue_record record = untouched;
	size_t consumed = 77;
	uint8_t *copy = check_exact_copy(bytes, size);
	wk_status status = wk_catalogue_decode(copy, size, &record, &consumed);
	free(copy);
	if (status != WK_OK)
		CHECK(memcmp(&record, &untouched, sizeof record) == 0 && consumed == 77);
	return status;
}

/* The field number `index` of the body set to `value`. */
static wk_status decoding_with(uint32_t type, uint32_t index, int64_t value) {
	size_t size = encode(full(type));
	CHECK_EQ(decoding(size), WK_OK);
	wk_store_le64_signed(bytes + 8 + 8 * (size_t)index, value);
	return decoding(size);
}

static void has_bytes(uint32_t type, const char *hex) {
	size_t size = encode(full(type));
	CHECK_HEX(bytes, size, hex);
}

#define LE(byte) byte "00000000000000"
TEST(every_field_has_its_place) {
	has_bytes(WK_CATALOGUE_CREATE, "4700000001000000" LE("01") LE("02") LE("03") LE("04") LE("02") LE("01") LE("01")
	                                   LE("09") "666c6967687473");
	has_bytes(WK_CATALOGUE_SEGMENT, "3000000002000000" LE("01") LE("09") LE("0a") LE("0d") LE("0e") LE("08"));
	has_bytes(WK_CATALOGUE_COMPLETE, "3800000003000000" LE("01") LE("09") LE("0f") LE("0b") LE("0c") LE("0e") LE("10"));
	has_bytes(WK_CATALOGUE_TRUNCATE, "3000000004000000" LE("01") LE("09") LE("0b") LE("0c") LE("0d") LE("0e"));
	has_bytes(WK_CATALOGUE_CURSOR,
	          "3700000005000000" LE("01") LE("09") LE("0b") LE("0c") LE("0d") LE("0e") "666c6967687473");
	has_bytes(WK_CATALOGUE_UNCURSOR, "0f00000006000000" LE("01") "666c6967687473");
	has_bytes(WK_CATALOGUE_DELETE, "0800000007000000" LE("01"));
	has_bytes(WK_CATALOGUE_RENAME, "0f00000008000000" LE("01") "666c6967687473");
	has_bytes(WK_CATALOGUE_SOURCE, "1800000009000000" LE("01") LE("01") LE("01"));
	has_bytes(WK_CATALOGUE_GAP, "300000000a000000" LE("01") LE("0d") LE("0f") LE("09") LE("0b") LE("13"));
	has_bytes(WK_CATALOGUE_COUNTERS, "100000000b000000" LE("11") LE("12"));
}

TEST(a_record_decodes_to_the_fields_of_its_type_and_zero_in_the_others) {
	size_t size = encode(full(WK_CATALOGUE_COMPLETE)), consumed;
	wk_catalogue_record found;
	CHECK_EQ(wk_catalogue_decode(bytes, size, &found, &consumed), WK_OK);
	CHECK_EQ(consumed, size);
	CHECK_EQ(found.type, WK_CATALOGUE_COMPLETE);
	CHECK_EQ(found.log_id, 1);
	CHECK_EQ(found.segment, 9);
	CHECK_EQ(found.count, 15);
	CHECK_EQ(found.entry_id, 11);
	CHECK_EQ(found.slot, 12);
	CHECK_EQ(found.txid, 14);
	CHECK_EQ(found.payload_bytes, 16);
	CHECK_EQ(found.codec, 0);
	CHECK_EQ(found.ledger_id, 0);
	CHECK_EQ(found.next_log_id, 0);
	CHECK(found.name == NULL && found.name_size == 0);
}

TEST(encoding_what_was_decoded_gives_the_same_bytes) {
	for (uint32_t i = 0; i < TYPES; i++) {
		size_t size = encode(full(shapes[i].type)), consumed;
		CHECK_EQ(size, 8 + 8 * shapes[i].fields_count + (shapes[i].named ? 7 : 0));
		wk_catalogue_record found;
		CHECK_EQ(wk_catalogue_decode(bytes, size, &found, &consumed), WK_OK);
		CHECK_EQ(consumed, size);
		uint8_t again[WK_CATALOGUE_RECORD_MAX];
		CHECK_EQ(wk_catalogue_encode(&found, again), size);
		CHECK(memcmp(again, bytes, size) == 0);
	}
}

TEST(records_stand_back_to_back) {
	uint8_t payload[2 * WK_CATALOGUE_RECORD_MAX];
	size_t first = encode(full(WK_CATALOGUE_RENAME));
	memcpy(payload, bytes, first);
	size_t second = encode(full(WK_CATALOGUE_DELETE));
	memcpy(payload + first, bytes, second);
	wk_catalogue_record found;
	size_t consumed;
	CHECK_EQ(wk_catalogue_decode(payload, first + second, &found, &consumed), WK_OK);
	CHECK_EQ(consumed, first);
	CHECK_EQ(wk_catalogue_decode(payload + first, second, &found, &consumed), WK_OK);
	CHECK_EQ(found.type, WK_CATALOGUE_DELETE);
	CHECK_EQ(wk_catalogue_decode(payload + first + second, 0, &found, &consumed), WK_END);
}

TEST(a_record_cut_anywhere_is_refused) {
	for (uint32_t i = 0; i < TYPES; i++) {
		size_t size = encode(full(shapes[i].type));
		for (size_t cut = 1; cut < size; cut++)
			CHECK_EQ(decoding(cut), WK_CORRUPT);
		CHECK_EQ(decoding(0), WK_END);
	}
}

TEST(a_body_has_exactly_the_size_of_its_fields) {
	for (uint32_t i = 0; i < TYPES; i++) {
		uint32_t fields_size = 8 * shapes[i].fields_count;
		for (uint32_t body_size = 0; body_size <= fields_size + 300; body_size++) {
			encode(full(shapes[i].type));
			wk_store_le32(bytes, body_size);
			bool whole = shapes[i].named ? body_size > fields_size && body_size <= fields_size + 255
			                             : body_size == fields_size;
			CHECK_EQ(decoding(8 + body_size), whole ? WK_OK : WK_CORRUPT);
		}
	}
}

TEST(a_name_has_1_to_255_bytes) {
	char name[256];
	memset(name, 'n', sizeof name);
	wk_catalogue_record record = full(WK_CATALOGUE_CREATE), found;
	record.name = name;
	record.name_size = 255;
	size_t size = encode(record), consumed;
	CHECK_EQ(wk_catalogue_decode(bytes, size, &found, &consumed), WK_OK);
	CHECK_EQ(found.name_size, 255);
	CHECK(memcmp(found.name, name, 255) == 0);
	record.name_size = 1;
	CHECK_EQ(decoding(encode(record)), WK_OK);
}

TEST(ids_are_not_negative) {
	CHECK_EQ(decoding_with(WK_CATALOGUE_SEGMENT, 2, 0), WK_OK); /* the ledger */
	CHECK_EQ(decoding_with(WK_CATALOGUE_SEGMENT, 2, -1), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_SEGMENT, 1, -1), WK_CORRUPT); /* the segment */
	CHECK_EQ(decoding_with(WK_CATALOGUE_SEGMENT, 3, -1), WK_CORRUPT); /* its first sequence id */
	CHECK_EQ(decoding_with(WK_CATALOGUE_CREATE, 7, -1), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_COMPLETE, 2, -1), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_COMPLETE, 6, -1), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_GAP, 1, -1), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_GAP, 2, -1), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_GAP, 5, -1), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_COUNTERS, 1, -1), WK_CORRUPT);
}

TEST(minus_1_means_none_where_there_may_be_none) {
	CHECK_EQ(decoding_with(WK_CATALOGUE_SEGMENT, 4, -1), WK_OK);  /* txid unknown */
	CHECK_EQ(decoding_with(WK_CATALOGUE_COMPLETE, 3, -1), WK_OK); /* no entry */
	CHECK_EQ(decoding_with(WK_CATALOGUE_COMPLETE, 4, -1), WK_OK);
	CHECK_EQ(decoding_with(WK_CATALOGUE_CURSOR, 4, -1), WK_OK); /* before the first record */
	CHECK_EQ(decoding_with(WK_CATALOGUE_SEGMENT, 4, -2), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_COMPLETE, 3, -2), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_CURSOR, 4, INT64_MIN), WK_CORRUPT);
}

TEST(an_unknown_codec_source_or_flag_is_refused) {
	CHECK_EQ(decoding_with(WK_CATALOGUE_CREATE, 4, 3), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_CREATE, 5, 3), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_CREATE, 6, 2), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_SOURCE, 1, 3), WK_CORRUPT);
	CHECK_EQ(decoding_with(WK_CATALOGUE_SOURCE, 2, 2), WK_CORRUPT);
}

TEST(type_0_is_corrupt_and_a_type_of_a_newer_version_unsupported) {
	size_t size = encode(full(WK_CATALOGUE_DELETE));
	bytes[4] = 0;
	CHECK_EQ(decoding(size), WK_CORRUPT);
	for (uint32_t type = WK_CATALOGUE_COUNTERS + 1; type < 256; type++) {
		bytes[4] = (uint8_t)type;
		CHECK_EQ(decoding(size), WK_UNSUPPORTED);
		CHECK_EQ(decoding(size - 1), WK_CORRUPT); /* it must be there as a whole all the same */
	}
}

TEST(the_bytes_behind_the_type_are_zero) {
	for (uint32_t at = 5; at < 8; at++) {
		size_t size = encode(full(WK_CATALOGUE_DELETE));
		bytes[at] = 1;
		CHECK_EQ(decoding(size), WK_CORRUPT);
	}
}

int main(void) {
	RUN(every_field_has_its_place);
	RUN(a_record_decodes_to_the_fields_of_its_type_and_zero_in_the_others);
	RUN(encoding_what_was_decoded_gives_the_same_bytes);
	RUN(records_stand_back_to_back);
	RUN(a_record_cut_anywhere_is_refused);
	RUN(a_body_has_exactly_the_size_of_its_fields);
	RUN(a_name_has_1_to_255_bytes);
	RUN(ids_are_not_negative);
	RUN(minus_1_means_none_where_there_may_be_none);
	RUN(an_unknown_codec_source_or_flag_is_refused);
	RUN(type_0_is_corrupt_and_a_type_of_a_newer_version_unsupported);
	RUN(the_bytes_behind_the_type_are_zero);
	return check_done();
}
