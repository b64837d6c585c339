/* DistributedLog's record, envelope, record set and DLSN: golden bytes, each rule of validity, every truncation. */
/* ctest labels: one-thread */
#include "check.h"
#include "core/bytes.h"
#include "walkeeper/record.h"
#include <sys/mman.h>

enum { NO_CODEC = 3 }; /* fits the codec's two bits, names none */

static uint8_t bytes[2 * 1024 * 1024];

/* Any numbers, possible or not. */
static size_t write_record(uint64_t metadata, int64_t txid, uint32_t payload_size) {
	wk_store_be64(bytes, metadata);
	wk_store_be64_signed(bytes + 8, txid);
	wk_store_be32(bytes + 16, payload_size);
	return 20 + (size_t)payload_size;
}

static size_t write_envelope(uint8_t version, uint32_t flags, uint32_t original_size, uint32_t stored_size) {
	bytes[0] = version;
	wk_store_be32(bytes + 1, flags);
	wk_store_be32(bytes + 5, original_size);
	wk_store_be32(bytes + 9, stored_size);
	return 13 + (size_t)stored_size;
}

static size_t write_set(uint32_t metadata, uint32_t count, uint32_t original_size, uint32_t stored_size) {
	wk_store_be32(bytes, metadata);
	wk_store_be32(bytes + 4, count);
	wk_store_be32(bytes + 8, original_size);
	wk_store_be32(bytes + 12, stored_size);
	return 16 + (size_t)stored_size;
}

static wk_status decoding_record(size_t size) {
	wk_log_record record = {.txid = 77};
	size_t consumed = 77;
	wk_status status = wk_log_record_decode(bytes, size, &record, &consumed);
	if (status != WK_OK)
		CHECK(record.txid == 77 && consumed == 77);
	return status;
}

static wk_status decoding_envelope(size_t size) {
	wk_envelope envelope = {.codec = 77};
	wk_status status = wk_envelope_decode(bytes, size, &envelope);
	if (status != WK_OK)
		CHECK_EQ(envelope.codec, 77);
	return status;
}

static wk_status decoding_set(size_t size) {
	wk_record_set set = {.codec = 77};
	wk_status status = wk_record_set_decode(bytes, size, &set);
	if (status != WK_OK)
		CHECK_EQ(set.codec, 77);
	return status;
}

TEST(record_has_distributedlogs_bytes) {
	wk_log_record record = {.flags = WK_RECORD_SET, .position = 0x01020304, .txid = 42, .payload_size = 2};
	uint8_t header[20];
	wk_log_record_encode_header(&record, header);
	CHECK_HEX(header, 20, "0000010203040004000000000000002a00000002");
}

TEST(record_decodes_to_what_was_encoded) {
	wk_log_record record = {.flags = 7, .position = UINT32_MAX, .txid = INT64_MAX, .payload_size = 5};
	wk_log_record_encode_header(&record, bytes);
	memcpy(bytes + 20, "hello, and the next record", 26);
	wk_log_record found;
	size_t consumed;
	CHECK_EQ(wk_log_record_decode(bytes, 46, &found, &consumed), WK_OK);
	CHECK_EQ(found.flags, 7);
	CHECK_EQ(found.position, UINT32_MAX);
	CHECK_EQ(found.txid, INT64_MAX);
	CHECK(found.payload == bytes + 20);
	CHECK_EQ(found.payload_size, 5);
	CHECK_EQ(consumed, 25);
}

TEST(record_cut_anywhere_is_refused) {
	size_t size = write_record(0x10000, 1, 9);
	for (size_t kept = 0; kept < size; kept++) {
		uint8_t *exact = check_exact_copy(bytes, kept);
		wk_log_record record;
		size_t consumed;
		CHECK_EQ(wk_log_record_decode(exact, kept, &record, &consumed), WK_CORRUPT);
		free(exact);
	}
	CHECK_EQ(decoding_record(size), WK_OK);
}

TEST(record_of_negative_size_is_refused) {
	write_record(0x10000, 1, UINT32_MAX);
	CHECK_EQ(decoding_record(sizeof bytes), WK_CORRUPT);
	write_record(0x10000, 1, 0x80000000u);
	CHECK_EQ(decoding_record(sizeof bytes), WK_CORRUPT);
}

TEST(record_of_the_largest_size_is_whole_and_one_byte_more_is_refused) {
	CHECK_EQ(decoding_record(write_record(0x10000, 1, WK_RECORD_SIZE_MAX - 20)), WK_OK);
	CHECK_EQ(decoding_record(write_record(0x10000, 1, WK_RECORD_SIZE_MAX - 19)), WK_CORRUPT);
}

TEST(record_with_unused_metadata_bits_is_refused) {
	for (int bit = 48; bit < 64; bit++)
		CHECK_EQ(decoding_record(write_record(0x10000 | UINT64_C(1) << bit, 1, 3)), WK_CORRUPT);
}

TEST(record_with_unknown_flags_is_refused) {
	CHECK_EQ(decoding_record(write_record(0x10007, 1, 3)), WK_OK);
	for (int bit = 3; bit < 16; bit++)
		CHECK_EQ(decoding_record(write_record(0x10000 | UINT64_C(1) << bit, 1, 3)), WK_CORRUPT);
}

TEST(record_of_negative_txid_is_refused) {
	CHECK_EQ(decoding_record(write_record(0x10000, 0, 3)), WK_OK);
	CHECK_EQ(decoding_record(write_record(0x10000, -1, 3)), WK_CORRUPT);
	CHECK_EQ(decoding_record(write_record(0x10000, INT64_MIN, 3)), WK_CORRUPT);
}

TEST(position_zero_is_for_control_records_only) {
	CHECK_EQ(decoding_record(write_record(WK_RECORD_CONTROL, 1, 3)), WK_OK);
	CHECK_EQ(decoding_record(write_record(0, 1, 3)), WK_CORRUPT);
	CHECK_EQ(decoding_record(write_record(WK_RECORD_SET, 1, 3)), WK_CORRUPT);
	CHECK_EQ(decoding_record(write_record(WK_RECORD_END_OF_STREAM, 1, 3)), WK_CORRUPT);
}

TEST(envelope_has_distributedlogs_bytes) {
	wk_envelope envelope = {.codec = WK_CODEC_LZ4, .original_size = 1000, .stored_size = 3};
	uint8_t header[13];
	wk_envelope_encode_header(&envelope, header);
	CHECK_HEX(header, 13, "0100000001000003e800000003");
}

TEST(envelope_decodes_to_what_was_encoded) {
	wk_envelope envelope = {.codec = WK_CODEC_ZSTD, .original_size = WK_ENVELOPE_SIZE_MAX, .stored_size = 70};
	wk_envelope_encode_header(&envelope, bytes);
	wk_envelope found;
	CHECK_EQ(wk_envelope_decode(bytes, 83, &found), WK_OK);
	CHECK_EQ(found.codec, WK_CODEC_ZSTD);
	CHECK_EQ(found.original_size, WK_ENVELOPE_SIZE_MAX);
	CHECK_EQ(found.stored_size, 70);
	CHECK(found.stored == bytes + 13);
}

TEST(envelope_cut_anywhere_is_refused) {
	size_t size = write_envelope(1, WK_CODEC_NONE, 5, 5);
	for (size_t kept = 0; kept < size; kept++) {
		uint8_t *exact = check_exact_copy(bytes, kept);
		wk_envelope envelope;
		CHECK_EQ(wk_envelope_decode(exact, kept, &envelope), WK_CORRUPT);
		free(exact);
	}
	CHECK_EQ(decoding_envelope(size), WK_OK);
	CHECK_EQ(decoding_envelope(size + 1), WK_CORRUPT);
}

TEST(envelope_of_another_version_is_unsupported) {
	for (int version = 0; version < 256; version++)
		CHECK_EQ(decoding_envelope(write_envelope((uint8_t)version, 0, 5, 5)), version == 1 ? WK_OK : WK_UNSUPPORTED);
}

TEST(envelope_of_codec_3_is_unsupported) {
	CHECK_EQ(decoding_envelope(write_envelope(1, WK_CODEC_ZSTD, 5, 5)), WK_OK);
	CHECK_EQ(decoding_envelope(write_envelope(1, NO_CODEC, 5, 5)), WK_UNSUPPORTED);
}

TEST(envelope_with_unknown_flags_is_refused) {
	for (int bit = 2; bit < 32; bit++)
		CHECK_EQ(decoding_envelope(write_envelope(1, UINT32_C(1) << bit, 5, 5)), WK_CORRUPT);
}

TEST(envelope_of_negative_size_is_refused) {
	write_envelope(1, WK_CODEC_LZ4, 5, UINT32_MAX);
	CHECK_EQ(decoding_envelope(18), WK_CORRUPT);
	CHECK_EQ(decoding_envelope(write_envelope(1, WK_CODEC_LZ4, UINT32_MAX, 5)), WK_CORRUPT);
}

TEST(envelope_above_the_largest_original_size_is_refused) {
	CHECK_EQ(decoding_envelope(write_envelope(1, WK_CODEC_LZ4, WK_ENVELOPE_SIZE_MAX, 5)), WK_OK);
	CHECK_EQ(decoding_envelope(write_envelope(1, WK_CODEC_LZ4, WK_ENVELOPE_SIZE_MAX + 1, 5)), WK_CORRUPT);
	CHECK_EQ(decoding_envelope(write_envelope(1, WK_CODEC_NONE, WK_ENVELOPE_SIZE_MAX, WK_ENVELOPE_SIZE_MAX)), WK_OK);
	CHECK_EQ(decoding_envelope(write_envelope(1, WK_CODEC_NONE, WK_ENVELOPE_SIZE_MAX + 1, WK_ENVELOPE_SIZE_MAX + 1)),
	         WK_CORRUPT);
}

TEST(envelope_without_codec_has_one_size) {
	CHECK_EQ(decoding_envelope(write_envelope(1, WK_CODEC_NONE, 5, 5)), WK_OK);
	CHECK_EQ(decoding_envelope(write_envelope(1, WK_CODEC_NONE, 6, 5)), WK_CORRUPT);
	CHECK_EQ(decoding_envelope(write_envelope(1, WK_CODEC_LZ4, 6, 5)), WK_OK);
}

TEST(set_has_distributedlogs_bytes) {
	wk_record_set set = {.codec = WK_CODEC_LZ4, .count = 2, .original_size = 11, .stored_size = 300};
	uint8_t header[16];
	wk_record_set_encode_header(&set, header);
	CHECK_HEX(header, 16, "00001001000000020000000b0000012c");
}

TEST(set_decodes_to_what_was_encoded) {
	wk_record_set set = {.codec = WK_CODEC_ZSTD, .count = 9, .original_size = 100, .stored_size = 70};
	wk_record_set_encode_header(&set, bytes);
	wk_record_set found;
	CHECK_EQ(wk_record_set_decode(bytes, 86, &found), WK_OK);
	CHECK_EQ(found.codec, WK_CODEC_ZSTD);
	CHECK_EQ(found.count, 9);
	CHECK_EQ(found.original_size, 100);
	CHECK_EQ(found.stored_size, 70);
	CHECK(found.stored == bytes + 16);
}

TEST(set_cut_anywhere_is_refused) {
	size_t size = write_set(0x1000, 1, 5, 5);
	for (size_t kept = 0; kept < size; kept++) {
		uint8_t *exact = check_exact_copy(bytes, kept);
		wk_record_set set;
		CHECK_EQ(wk_record_set_decode(exact, kept, &set), WK_CORRUPT);
		free(exact);
	}
	CHECK_EQ(decoding_set(size), WK_OK);
	CHECK_EQ(decoding_set(size + 1), WK_CORRUPT);
}

/* The size is a signed 32 bit integer in Java. Only the header of the two gigabytes is ever touched. */
TEST(set_that_is_really_there_with_a_size_that_is_negative_in_java_is_refused) {
	size_t size = WK_RECORD_SET_HEADER_SIZE + (size_t)INT32_MAX + 1;
	uint8_t *large = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(large != MAP_FAILED);
	wk_record_set set = {.codec = WK_CODEC_LZ4, .count = 1, .original_size = 10, .stored_size = INT32_MAX};
	wk_record_set_encode_header(&set, large);
	wk_record_set found;
	CHECK_EQ(wk_record_set_decode(large, size - 1, &found), WK_OK);
	wk_store_be32(large + 12, (uint32_t)INT32_MAX + 1);
	CHECK_EQ(wk_record_set_decode(large, size, &found), WK_CORRUPT);
	munmap(large, size);
}

TEST(set_of_another_version_is_unsupported) {
	for (uint32_t version = 0; version < 16; version++)
		CHECK_EQ(decoding_set(write_set(version << 12, 1, 5, 5)), version == 1 ? WK_OK : WK_UNSUPPORTED);
}

TEST(set_of_codec_3_is_unsupported) {
	CHECK_EQ(decoding_set(write_set(0x1000 | WK_CODEC_ZSTD, 1, 5, 5)), WK_OK);
	CHECK_EQ(decoding_set(write_set(0x1000 | NO_CODEC, 1, 5, 5)), WK_UNSUPPORTED);
}

TEST(set_with_unknown_metadata_bits_is_refused) {
	for (int bit = 2; bit < 32; bit++)
		if (bit < 12 || bit > 15)
			CHECK_EQ(decoding_set(write_set(0x1000 | UINT32_C(1) << bit, 1, 5, 5)), WK_CORRUPT);
}

TEST(set_of_negative_size_is_refused) {
	write_set(0x1001, 1, 5, UINT32_MAX);
	CHECK_EQ(decoding_set(21), WK_CORRUPT);
	CHECK_EQ(decoding_set(write_set(0x1001, 1, UINT32_MAX, 5)), WK_CORRUPT);
}

TEST(set_above_the_largest_record_is_refused) {
	CHECK_EQ(decoding_set(write_set(0x1001, 1, WK_RECORD_SIZE_MAX, 5)), WK_OK);
	CHECK_EQ(decoding_set(write_set(0x1001, 1, WK_RECORD_SIZE_MAX + 1, 5)), WK_CORRUPT);
}

TEST(set_without_codec_has_one_size) {
	CHECK_EQ(decoding_set(write_set(0x1000, 1, 6, 5)), WK_CORRUPT);
	CHECK_EQ(decoding_set(write_set(0x1001, 1, 6, 5)), WK_OK);
}

TEST(set_whose_members_cannot_fit_is_refused) {
	CHECK_EQ(decoding_set(write_set(0x1001, 2, 8, 5)), WK_OK); /* two empty members */
	CHECK_EQ(decoding_set(write_set(0x1001, 3, 8, 5)), WK_CORRUPT);
	CHECK_EQ(decoding_set(write_set(0x1001, UINT32_MAX, 8, 5)), WK_CORRUPT);
}

TEST(members_of_a_set_come_one_by_one) {
	static const uint8_t body[] = {0, 0, 0, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 2, 'b', 'c'};
	const uint8_t *payload;
	size_t offset = 0, payload_size;
	CHECK_EQ(wk_record_set_next(body, sizeof body, &offset, &payload, &payload_size), WK_OK);
	CHECK(payload_size == 1 && payload == body + 4 && offset == 5);
	CHECK_EQ(wk_record_set_next(body, sizeof body, &offset, &payload, &payload_size), WK_OK);
	CHECK(payload_size == 0 && offset == 9);
	CHECK_EQ(wk_record_set_next(body, sizeof body, &offset, &payload, &payload_size), WK_OK);
	CHECK(payload_size == 2 && payload == body + 13 && offset == sizeof body);
	CHECK_EQ(wk_record_set_next(body, sizeof body, &offset, &payload, &payload_size), WK_END);
	CHECK_EQ(offset, sizeof body);
}

TEST(a_member_cut_anywhere_is_refused) {
	static const uint8_t body[] = {0, 0, 0, 3, 'a', 'b', 'c'};
	for (size_t kept = 1; kept < sizeof body; kept++) {
		uint8_t *exact = check_exact_copy(body, kept);
		const uint8_t *payload = NULL;
		size_t offset = 0, payload_size = 77;
		CHECK_EQ(wk_record_set_next(exact, kept, &offset, &payload, &payload_size), WK_CORRUPT);
		CHECK(offset == 0 && payload == NULL && payload_size == 77);
		free(exact);
	}
}

TEST(a_member_of_negative_size_is_refused) {
	static const uint8_t body[] = {0xff, 0xff, 0xff, 0xff, 'a', 'b', 'c'};
	const uint8_t *payload;
	size_t offset = 0, payload_size;
	CHECK_EQ(wk_record_set_next(body, sizeof body, &offset, &payload, &payload_size), WK_CORRUPT);
}

TEST(dlsn_has_distributedlogs_bytes) {
	wk_dlsn first = {1, 0, 0}, invalid = {0, -1, -1};
	uint8_t encoded[25];
	wk_dlsn_encode(&first, encoded);
	CHECK_HEX(encoded, 25, "01000000000000000100000000000000000000000000000000");
	wk_dlsn_encode(&invalid, encoded);
	CHECK_HEX(encoded, 25, "010000000000000000ffffffffffffffffffffffffffffffff");
	wk_dlsn found;
	CHECK_EQ(wk_dlsn_decode(encoded, 25, &found), WK_OK);
	CHECK(found.segment == 0 && found.entry_id == -1 && found.slot == -1);
}

TEST(dlsn_of_another_size_or_version_is_refused) {
	wk_dlsn dlsn = {1, 2, 3}, found = {77, 77, 77};
	wk_dlsn_encode(&dlsn, bytes);
	for (size_t size = 0; size < 210; size++)
		CHECK_EQ(wk_dlsn_decode(bytes, size, &found), size == 25 ? WK_OK : WK_CORRUPT);
	CHECK_EQ(wk_dlsn_compare(&found, &dlsn), 0);
	bytes[0] = 0;
	CHECK_EQ(wk_dlsn_decode(bytes, 25, &found), WK_UNSUPPORTED);
	bytes[0] = 2;
	CHECK_EQ(wk_dlsn_decode(bytes, 25, &found), WK_UNSUPPORTED);
	CHECK_EQ(wk_dlsn_compare(&found, &dlsn), 0);
}

TEST(dlsns_are_ordered_by_segment_then_entry_then_slot) {
	static const wk_dlsn ordered[] = {
	    {INT64_MIN, 0, 0}, {0, -1, -1},        {1, 0, -1},        {1, 0, 0},         {1, 0, 1},         {1, 1, 0},
	    {1, INT64_MAX, 0}, {2, -1, INT64_MAX}, {2, 0, INT64_MIN}, {2, 0, INT64_MAX}, {INT64_MAX, 0, 0},
	};
	int count = (int)(sizeof ordered / sizeof ordered[0]);
	for (int a = 0; a < count; a++)
		for (int b = 0; b < count; b++)
			CHECK_EQ(wk_dlsn_compare(&ordered[a], &ordered[b]), (a > b) - (a < b));
}

int main(void) {
	RUN(record_has_distributedlogs_bytes);
	RUN(record_decodes_to_what_was_encoded);
	RUN(record_cut_anywhere_is_refused);
	RUN(record_of_negative_size_is_refused);
	RUN(record_of_the_largest_size_is_whole_and_one_byte_more_is_refused);
	RUN(record_with_unused_metadata_bits_is_refused);
	RUN(record_with_unknown_flags_is_refused);
	RUN(record_of_negative_txid_is_refused);
	RUN(position_zero_is_for_control_records_only);
	RUN(envelope_has_distributedlogs_bytes);
	RUN(envelope_decodes_to_what_was_encoded);
	RUN(envelope_cut_anywhere_is_refused);
	RUN(envelope_of_another_version_is_unsupported);
	RUN(envelope_of_codec_3_is_unsupported);
	RUN(envelope_with_unknown_flags_is_refused);
	RUN(envelope_of_negative_size_is_refused);
	RUN(envelope_above_the_largest_original_size_is_refused);
	RUN(envelope_without_codec_has_one_size);
	RUN(set_has_distributedlogs_bytes);
	RUN(set_decodes_to_what_was_encoded);
	RUN(set_cut_anywhere_is_refused);
	RUN(set_that_is_really_there_with_a_size_that_is_negative_in_java_is_refused);
	RUN(set_of_another_version_is_unsupported);
	RUN(set_of_codec_3_is_unsupported);
	RUN(set_with_unknown_metadata_bits_is_refused);
	RUN(set_of_negative_size_is_refused);
	RUN(set_above_the_largest_record_is_refused);
	RUN(set_without_codec_has_one_size);
	RUN(set_whose_members_cannot_fit_is_refused);
	RUN(members_of_a_set_come_one_by_one);
	RUN(a_member_cut_anywhere_is_refused);
	RUN(a_member_of_negative_size_is_refused);
	RUN(dlsn_has_distributedlogs_bytes);
	RUN(dlsn_of_another_size_or_version_is_refused);
	RUN(dlsns_are_ordered_by_segment_then_entry_then_slot);
	return check_done();
}
