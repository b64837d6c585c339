/* BookKeeper's entry: golden bytes, each rule of validity, every truncation, every flipped bit. */
/* ctest labels: one-thread */
#include "check.h"
#include "core/bytes.h"
#include "walkeeper/entry.h"

static uint8_t bytes[WK_ENTRY_SIZE_MAX + 1];

/* Writes any four numbers, possible or not, with a digest that is right. Returns the entry's size. */
static size_t write_entry(int64_t ledger_id, int64_t entry_id, int64_t lac, int64_t length, const char *payload) {
	size_t size = strlen(payload);
	wk_store_be64_signed(bytes, ledger_id);
	wk_store_be64_signed(bytes + 8, entry_id);
	wk_store_be64_signed(bytes + 16, lac);
	wk_store_be64_signed(bytes + 24, length);
	memcpy(bytes + 36, payload, size);
	wk_store_be32(bytes + 32, wk_crc32c_extend(wk_crc32c(bytes, 32), bytes + 36, size));
	return 36 + size;
}

static wk_status decoding(size_t size) {
	static const wk_entry untouched = {.ledger_id = 77, .entry_id = 77, .lac = 77, .length = 77, .payload_size = 77};
	wk_entry entry = untouched;
	wk_status status = wk_entry_decode(bytes, size, &entry);
	if (status != WK_OK)
		CHECK(memcmp(&entry, &untouched, sizeof entry) == 0);
	return status;
}

TEST(hello_has_bookkeepers_bytes) {
	wk_entry entry = {
	    .ledger_id = 1, .entry_id = 0, .lac = -1, .length = 5, .payload = (const uint8_t *)"hello", .payload_size = 5};
	uint8_t header[36];
	wk_entry_encode_header(&entry, header);
	CHECK_HEX(header, 36, "00000000000000010000000000000000ffffffffffffffff0000000000000005e3a5f74d");
}

TEST(an_entry_decodes_to_what_was_encoded) {
	wk_entry entry = {.ledger_id = INT64_MAX,
	                  .entry_id = 12345678901,
	                  .lac = 12345678900,
	                  .length = INT64_MAX,
	                  .payload = (const uint8_t *)"payload",
	                  .payload_size = 7};
	wk_entry_encode_header(&entry, bytes);
	memcpy(bytes + 36, "payload", 7);
	wk_entry found;
	CHECK_EQ(wk_entry_decode(bytes, 43, &found), WK_OK);
	CHECK_EQ(found.ledger_id, INT64_MAX);
	CHECK_EQ(found.entry_id, 12345678901);
	CHECK_EQ(found.lac, 12345678900);
	CHECK_EQ(found.length, INT64_MAX);
	CHECK(found.payload == bytes + 36);
	CHECK_EQ(found.payload_size, 7);
}

TEST(a_known_checksum_of_the_payload_gives_the_same_header) {
	static const char text[] = "the payload, whose checksum is known already";
	wk_entry entry = {.ledger_id = 7,
	                  .entry_id = 3,
	                  .lac = 2,
	                  .length = 99,
	                  .payload = (const uint8_t *)text,
	                  .payload_size = sizeof text};
	uint8_t plain[WK_ENTRY_HEADER_SIZE], known[WK_ENTRY_HEADER_SIZE];
	wk_entry_encode_header(&entry, plain);
	wk_entry_encode_header_with(&entry, wk_crc32c(text, sizeof text), known);
	CHECK(memcmp(plain, known, sizeof plain) == 0);
}

TEST(an_entry_may_be_empty) {
	wk_entry entry = {.ledger_id = 3, .entry_id = 4, .lac = 2, .length = 9};
	wk_entry_encode_header(&entry, bytes);
	wk_entry found;
	CHECK_EQ(wk_entry_decode(bytes, 36, &found), WK_OK);
	CHECK_EQ(found.payload_size, 0);
	CHECK_EQ(found.length, 9);
}

TEST(the_largest_entry_is_whole_and_one_byte_more_is_refused) {
	memset(bytes, 7, sizeof bytes);
	wk_entry entry = {.ledger_id = 1,
	                  .entry_id = 1,
	                  .lac = 0,
	                  .length = WK_ENTRY_SIZE_MAX,
	                  .payload = bytes + 36,
	                  .payload_size = WK_ENTRY_SIZE_MAX - 36};
	wk_entry_encode_header(&entry, bytes);
	CHECK_EQ(decoding(WK_ENTRY_SIZE_MAX), WK_OK);
	/* one byte more, and the digest right for it */
	wk_store_be32(bytes + 32, wk_crc32c_extend(wk_crc32c(bytes, 32), bytes + 36, WK_ENTRY_SIZE_MAX + 1 - 36));
	CHECK_EQ(decoding(WK_ENTRY_SIZE_MAX + 1), WK_CORRUPT);
}

TEST(a_negative_ledger_id_is_refused) {
	CHECK_EQ(decoding(write_entry(0, 0, -1, 5, "hello")), WK_OK);
	CHECK_EQ(decoding(write_entry(-1, 0, -1, 5, "hello")), WK_CORRUPT);
	CHECK_EQ(decoding(write_entry(INT64_MIN, 0, -1, 5, "hello")), WK_CORRUPT);
}

TEST(a_negative_entry_id_is_refused) {
	CHECK_EQ(decoding(write_entry(1, -1, -1, 5, "hello")), WK_CORRUPT);
	CHECK_EQ(decoding(write_entry(1, INT64_MIN, -1, 5, "hello")), WK_CORRUPT);
}

TEST(a_negative_length_is_refused) {
	CHECK_EQ(decoding(write_entry(1, 0, -1, 0, "hello")), WK_OK);
	CHECK_EQ(decoding(write_entry(1, 0, -1, -1, "hello")), WK_CORRUPT);
}

TEST(a_lac_below_minus_one_is_refused) {
	CHECK_EQ(decoding(write_entry(1, 9, -1, 5, "hello")), WK_OK);
	CHECK_EQ(decoding(write_entry(1, 9, -2, 5, "hello")), WK_CORRUPT);
	CHECK_EQ(decoding(write_entry(1, 9, INT64_MIN, 5, "hello")), WK_CORRUPT);
}

TEST(a_lac_that_is_not_before_the_entry_is_refused) {
	CHECK_EQ(decoding(write_entry(1, 9, 8, 5, "hello")), WK_OK);
	CHECK_EQ(decoding(write_entry(1, 9, 9, 5, "hello")), WK_CORRUPT);
	CHECK_EQ(decoding(write_entry(1, 9, 10, 5, "hello")), WK_CORRUPT);
	CHECK_EQ(decoding(write_entry(1, 0, 0, 5, "hello")), WK_CORRUPT);
}

TEST(a_wrong_digest_is_refused) {
	size_t size = write_entry(1, 0, -1, 5, "hello");
	wk_store_be32(bytes + 32, wk_load_be32(bytes + 32) + 1);
	CHECK_EQ(decoding(size), WK_CORRUPT);
}

TEST(every_truncation_is_refused) {
	size_t size = write_entry(1, 9, 8, 500, "a payload of some length");
	for (size_t kept = 0; kept < size; kept++) {
		uint8_t *exact = check_exact_copy(bytes, kept); /* the address sanitizer watches its end */
		wk_entry entry;
		CHECK_EQ(wk_entry_decode(exact, kept, &entry), WK_CORRUPT);
		free(exact);
	}
}

TEST(every_flipped_bit_is_refused) {
	size_t size = write_entry(1, 9, 8, 500, "a payload of some length");
	for (size_t bit = 0; bit < 8 * size; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		CHECK_EQ(decoding(size), WK_CORRUPT);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	CHECK_EQ(decoding(size), WK_OK);
}

TEST(bytes_behind_the_entry_are_refused) {
	size_t size = write_entry(1, 9, 8, 500, "hello");
	bytes[size] = 0;
	CHECK_EQ(decoding(size + 1), WK_CORRUPT);
}

TEST(an_entry_is_read_at_any_alignment) {
	size_t size = write_entry(1, 9, 8, 500, "hello");
	for (size_t at = 1; at < 9; at++) {
		uint8_t shifted[64];
		memcpy(shifted + at, bytes, size);
		wk_entry entry;
		CHECK_EQ(wk_entry_decode(shifted + at, size, &entry), WK_OK);
		CHECK_EQ(entry.lac, 8);
	}
}

int main(void) {
	RUN(hello_has_bookkeepers_bytes);
	RUN(an_entry_decodes_to_what_was_encoded);
	RUN(a_known_checksum_of_the_payload_gives_the_same_header);
	RUN(an_entry_may_be_empty);
	RUN(the_largest_entry_is_whole_and_one_byte_more_is_refused);
	RUN(a_negative_ledger_id_is_refused);
	RUN(a_negative_entry_id_is_refused);
	RUN(a_negative_length_is_refused);
	RUN(a_lac_below_minus_one_is_refused);
	RUN(a_lac_that_is_not_before_the_entry_is_refused);
	RUN(a_wrong_digest_is_refused);
	RUN(every_truncation_is_refused);
	RUN(every_flipped_bit_is_refused);
	RUN(bytes_behind_the_entry_are_refused);
	RUN(an_entry_is_read_at_any_alignment);
	return check_done();
}
