/*
 * The journal's block (storage rule 8): each field at its place, each rule of validity, every truncation, every flipped
 * bit.
 */
/* ctest labels: one-thread */
#include "check.h"
#include "core/bytes.h"
#include "core/journal_block.h"

static uint8_t block[WK_BLOCK_SIZE_MAX];

static wk_block_header a_header(void) {
	wk_block_header header = {
	    .previous_crc = 0x01020304,
	    .size = 4096,
	    .used = 80,
	    .epoch = 5,
	    .offset = 8192,
	    .sequence = 42,
	    .incarnation = 3,
	    .durable_through = 40,
	    .in_flight_max = 2,
	};
	memcpy(header.directory_id, "directory id 16b", 16);
	return header;
}

static void append(wk_block_header *header, uint32_t type, const char *text) {
	uint32_t size = (uint32_t)strlen(text);
	wk_block_put_record_header(block + header->used, type, size);
	memcpy(block + header->used + 4, text, size);
	header->used += 4 + size;
}

/* Two records in a block of 4096 bytes. */
static wk_block_header write_block(void) {
	wk_block_header header = a_header();
	append(&header, WK_BLOCK_ENTRY, "an entry");
	append(&header, WK_BLOCK_FENCE, "ledger 8");
	wk_block_seal(block, &header);
	return header;
}

/* The checksum made right again, so that only the rule under test can refuse the block. */
static void mend(uint32_t size) {
	wk_store_le32(block + 4, wk_crc32c(block + 8, size - 8));
}

static wk_status decoding(size_t available) {
	static const wk_block_header untouched = {.crc = 77, .size = 77, .sequence = 77};
	wk_block_header header = untouched;
	uint8_t *copy = check_exact_copy(block, available);
	wk_status status = wk_block_decode(copy, available, &header);
	free(copy);
	if (status != WK_OK)
		CHECK(memcmp(&header, &untouched, sizeof header) == 0);
	return status;
}

static wk_status peeking(void) {
	wk_block_header header;
	return wk_block_peek(block, 80, &header);
}

/* Peek, and decode with a right checksum, must both refuse. */
static void refused(void) {
	mend(4096);
	CHECK_EQ(peeking(), WK_CORRUPT);
	CHECK_EQ(decoding(4096), WK_CORRUPT);
	write_block();
	CHECK_EQ(decoding(4096), WK_OK);
}

TEST(every_field_has_its_place) {
	wk_block_header header = a_header();
	append(&header, WK_BLOCK_FENCE, "12345678");
	header.flags = WK_BLOCK_DEFERRED;
	wk_block_seal(block, &header);
	CHECK_HEX(block, 4, "574b4a42"); /* WKJB */
	CHECK_EQ(wk_load_le32(block + 4), wk_crc32c(block + 8, 4088));
	CHECK_EQ(header.crc, wk_load_le32(block + 4));
	CHECK_HEX(block + 8, 8, "0403020100100000");
	CHECK(memcmp(block + 16, "directory id 16b", 16) == 0);
	CHECK_HEX(block + 32, 16, "05000000000000000020000000000000");
	CHECK_HEX(block + 48, 16, "2a000000000000000300000000000000");
	CHECK_HEX(block + 64, 16, "28000000000000005c00000002000200");
	CHECK_HEX(block + 80, 12, "080000203132333435363738");
}

TEST(a_block_decodes_to_what_was_sealed) {
	wk_block_header header = write_block(), found;
	CHECK_EQ(wk_block_decode(block, 4096, &found), WK_OK);
	CHECK_EQ(found.crc, header.crc);
	CHECK_EQ(found.previous_crc, 0x01020304);
	CHECK_EQ(found.size, 4096);
	CHECK_EQ(found.used, header.used);
	CHECK(memcmp(found.directory_id, "directory id 16b", 16) == 0);
	CHECK_EQ(found.epoch, 5);
	CHECK_EQ(found.offset, 8192);
	CHECK_EQ(found.sequence, 42);
	CHECK_EQ(found.incarnation, 3);
	CHECK_EQ(found.durable_through, 40);
	CHECK_EQ(found.in_flight_max, 2);
	CHECK_EQ(found.flags, 0);
}

TEST(records_come_back_in_order) {
	wk_block_header header = write_block();
	wk_block_record record;
	uint32_t cursor = WK_BLOCK_HEADER_SIZE;
	CHECK_EQ(wk_block_next(block, &header, &cursor, &record), WK_OK);
	CHECK_EQ(record.type, WK_BLOCK_ENTRY);
	CHECK_EQ(record.size, 8);
	CHECK_EQ(record.offset, 84);
	CHECK(record.bytes == block + 84 && memcmp(record.bytes, "an entry", 8) == 0);
	CHECK_EQ(wk_block_next(block, &header, &cursor, &record), WK_OK);
	CHECK_EQ(record.type, WK_BLOCK_FENCE);
	CHECK(memcmp(record.bytes, "ledger 8", 8) == 0);
	CHECK_EQ(wk_block_next(block, &header, &cursor, &record), WK_END);
	CHECK_EQ(wk_block_next(block, &header, &cursor, &record), WK_END);
}

TEST(a_record_may_be_empty) {
	wk_block_header header = a_header();
	append(&header, WK_BLOCK_LAC, "");
	wk_block_seal(block, &header);
	CHECK_EQ(decoding(4096), WK_OK);
}

TEST(sealing_with_a_known_checksum_gives_the_same_block) {
	static uint8_t plain[4096];
	write_block();
	memcpy(plain, block, sizeof plain);
	wk_block_header header = a_header();
	append(&header, WK_BLOCK_ENTRY, "an entry");
	append(&header, WK_BLOCK_FENCE, "ledger 8");
	wk_block_seal_with(block, &header, wk_crc32c(block + 80, header.used - 80));
	CHECK(memcmp(plain, block, sizeof plain) == 0);
}

TEST(padding_is_zeroed_by_seal) {
	memset(block, 0xff, 4096);
	wk_block_header header = write_block();
	for (uint32_t i = header.used; i < 4096; i++)
		CHECK_EQ(block[i], 0);
}

TEST(padding_that_is_not_zero_is_refused) {
	write_block();
	block[4095] = 1;
	mend(4096);
	CHECK_EQ(decoding(4096), WK_CORRUPT);
	wk_block_header header = write_block();
	block[header.used] = 1;
	mend(4096);
	CHECK_EQ(decoding(4096), WK_CORRUPT);
}

TEST(the_largest_block_is_whole_and_one_page_more_is_refused) {
	wk_block_header header = a_header();
	header.size = WK_BLOCK_SIZE_MAX;
	wk_block_put_record_header(block + 80, WK_BLOCK_ENTRY, WK_BLOCK_SIZE_MAX - 84);
	header.used = WK_BLOCK_SIZE_MAX; /* not a byte of padding */
	wk_block_seal(block, &header);
	wk_block_header found;
	CHECK_EQ(wk_block_decode(block, sizeof block, &found), WK_OK);
	CHECK_EQ(found.used, WK_BLOCK_SIZE_MAX);
	wk_store_le32(block + 12, WK_BLOCK_SIZE_MAX + 4096);
	CHECK_EQ(peeking(), WK_CORRUPT);
	wk_store_le32(block + 12, UINT32_MAX & ~4095u);
	CHECK_EQ(peeking(), WK_CORRUPT);
	memset(block, 0, sizeof block);
}

TEST(another_magic_is_refused) {
	write_block();
	block[0] = 'X';
	refused();
}

TEST(a_size_that_is_no_multiple_of_4096_is_refused) {
	write_block();
	wk_store_le32(block + 12, 4096 + 512);
	refused();
	wk_store_le32(block + 12, 0);
	refused();
}

TEST(used_must_hold_the_header_and_fit_the_size) {
	write_block();
	wk_store_le32(block + 72, 79);
	refused();
	wk_store_le32(block + 72, 4097);
	refused();
}

TEST(sequences_start_at_1) {
	write_block();
	wk_store_le64(block + 48, 0);
	refused();
}

TEST(a_block_cannot_know_itself_durable) {
	write_block();
	wk_store_le64(block + 64, 42);
	refused();
	wk_store_le64(block + 64, UINT64_MAX);
	refused();
}

TEST(K_is_1_to_8) {
	write_block();
	wk_store_le16(block + 76, 0);
	refused();
	wk_store_le16(block + 76, 9);
	refused();
	wk_store_le16(block + 76, 8);
	mend(4096);
	CHECK_EQ(decoding(4096), WK_OK);
}

TEST(an_unknown_flag_is_refused) {
	write_block();
	wk_store_le16(block + 78, 4);
	refused();
}

TEST(peek_does_not_look_at_the_checksum) {
	write_block();
	block[4] ^= 1;
	CHECK_EQ(peeking(), WK_OK);
	CHECK_EQ(decoding(4096), WK_CORRUPT);
}

TEST(a_confirm_block_holds_no_records) {
	wk_block_header header = a_header();
	header.flags = WK_BLOCK_CONFIRM;
	wk_block_seal(block, &header);
	CHECK_EQ(decoding(4096), WK_OK);
	write_block();
	wk_store_le16(block + 78, WK_BLOCK_CONFIRM);
	mend(4096);
	CHECK_EQ(decoding(4096), WK_CORRUPT);
}

/* One record header at 80, with a checksum that is right. */
static wk_status framed_as(uint32_t used, uint32_t type, uint32_t size) {
	wk_block_header header = a_header();
	wk_block_seal(block, &header);
	wk_store_le32(block + 72, used);
	wk_store_le32(block + 80, type << 28 | size);
	mend(4096);
	wk_status status = decoding(4096);
	CHECK_EQ(wk_block_peek(block, 4096, &header), WK_OK);
	wk_block_record record;
	uint32_t cursor = WK_BLOCK_HEADER_SIZE;
	wk_status next = wk_block_next(block, &header, &cursor, &record);
	if (next == WK_OK) {
		CHECK(cursor <= used && record.offset + record.size == cursor);
		next = wk_block_next(block, &header, &cursor, &record) == WK_END ? WK_OK : WK_CORRUPT;
	}
	CHECK_EQ(next, status);
	return status;
}

TEST(a_record_never_leaves_used) {
	CHECK_EQ(framed_as(100, WK_BLOCK_ENTRY, 16), WK_OK);
	CHECK_EQ(framed_as(100, WK_BLOCK_ENTRY, 17), WK_CORRUPT);
	CHECK_EQ(framed_as(100, WK_BLOCK_ENTRY, 15), WK_CORRUPT); /* a byte is left that is no record */
	CHECK_EQ(framed_as(100, WK_BLOCK_ENTRY, 12), WK_CORRUPT); /* the rest would be of type 0 */
	CHECK_EQ(framed_as(83, WK_BLOCK_ENTRY, 0), WK_CORRUPT);
	CHECK_EQ(framed_as(4096, WK_BLOCK_ENTRY, (1u << 28) - 1), WK_CORRUPT);
}

TEST(a_record_has_a_known_type) {
	CHECK_EQ(framed_as(100, 0, 16), WK_CORRUPT);
	for (uint32_t type = WK_BLOCK_ENTRY; type <= WK_BLOCK_DELETE; type++)
		CHECK_EQ(framed_as(100, type, 16), WK_OK);
	CHECK_EQ(framed_as(100, WK_BLOCK_SUMMED_ENTRY + 1, 16), WK_CORRUPT);
	CHECK_EQ(framed_as(100, 15, 16), WK_CORRUPT);
}

TEST(a_block_cut_anywhere_is_not_whole) {
	write_block();
	for (size_t available = 0; available < 4096; available++)
		CHECK_EQ(decoding(available), WK_END);
}

TEST(every_flipped_bit_is_detected) {
	write_block();
	for (uint32_t bit = 0; bit < 4096 * 8; bit++) {
		wk_block_header header;
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
		/* A size that grew asks for more bytes than there are: that is no acceptance either. */
		wk_status status = wk_block_decode(block, 4096, &header);
		CHECK(status == WK_CORRUPT || (status == WK_END && bit / 8 >= 12 && bit / 8 < 16));
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	CHECK_EQ(decoding(4096), WK_OK);
}

TEST(a_block_torn_at_any_sector_is_detected) {
	wk_block_header header = a_header();
	header.size = 8192;
	wk_block_put_record_header(block + 80, WK_BLOCK_ENTRY, 8192 - 84);
	memset(block + 84, 'x', 8192 - 84);
	header.used = 8192;
	wk_block_seal(block, &header);
	uint8_t whole[8192];
	memcpy(whole, block, 8192);
	for (uint32_t landed = 0; landed < 0xffff; landed++) { /* any subset of the sixteen sectors, but not all */
		for (uint32_t sector = 0; sector < 16; sector++) {
			if ((landed >> sector & 1) != 0)
				memcpy(block + sector * 512, whole + sector * 512, 512);
			else
				memset(block + sector * 512, 0, 512);
		}
		wk_block_header found;
		CHECK_EQ(wk_block_decode(block, 8192, &found), WK_CORRUPT);
	}
	memset(block, 0, sizeof whole);
}

int main(void) {
	RUN(every_field_has_its_place);
	RUN(a_block_decodes_to_what_was_sealed);
	RUN(records_come_back_in_order);
	RUN(a_record_may_be_empty);
	RUN(sealing_with_a_known_checksum_gives_the_same_block);
	RUN(padding_is_zeroed_by_seal);
	RUN(padding_that_is_not_zero_is_refused);
	RUN(the_largest_block_is_whole_and_one_page_more_is_refused);
	RUN(another_magic_is_refused);
	RUN(a_size_that_is_no_multiple_of_4096_is_refused);
	RUN(used_must_hold_the_header_and_fit_the_size);
	RUN(sequences_start_at_1);
	RUN(a_block_cannot_know_itself_durable);
	RUN(K_is_1_to_8);
	RUN(an_unknown_flag_is_refused);
	RUN(peek_does_not_look_at_the_checksum);
	RUN(a_confirm_block_holds_no_records);
	RUN(a_record_never_leaves_used);
	RUN(a_record_has_a_known_type);
	RUN(a_block_cut_anywhere_is_not_whole);
	RUN(every_flipped_bit_is_detected);
	RUN(a_block_torn_at_any_sector_is_detected);
	return check_done();
}
