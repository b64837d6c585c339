/* The index file's format: sizes and places of its pages, each field at its place, each rule, every flipped bit of every page. */
/* ctest labels: one-thread */
#include "check.h"
#include "core/bytes.h"
#include "core/index_file.h"

enum {
	FILES = 130,
	LEDGERS = 70,
	RANGES = 200,
	PAGES = 1 + 3 + 3 + 3,
	PAGE = 4096,
	FILE_AT = 72,
	LEDGER_AT = 136,
	RANGE_AT = 56
};
static wk_footer files[FILES];
static wk_index_ledger ledgers[LEDGERS];
static wk_index_range ranges[RANGES];
static uint8_t bytes[PAGES * PAGE];
static wk_index_header header;

/* Results: room for a page of each kind, and what a refused call must leave alone. */
static wk_footer found_files[WK_INDEX_PAGE_FILES];
static wk_index_ledger found_ledgers[WK_INDEX_PAGE_LEDGERS];
static wk_index_range found_ranges[WK_INDEX_PAGE_RANGES];
static uint32_t count;

/* 130 files, every third an entry log; 70 ledgers with keys and LACs of all sizes; 200 ranges. */
static void write_index(void) {
	header = (wk_index_header){.generation = 5,
	                           .replay_epoch = 1000,
	                           .replay_sequence = 4242,
	                           .files_count = FILES,
	                           .ledgers_count = LEDGERS,
	                           .ranges_count = RANGES};
	memcpy(header.directory_id, "directory id 16b", 16);
	for (uint32_t i = 0; i < FILES; i++)
		files[i] = (wk_footer){
		    .file_id = 100 + i * 2,
		    .file_size = 64 * PAGE,
		    .incarnation = 3,
		    .first_sequence = 10 * i + 1,
		    .last_sequence = 10 * i + 9,
		    .end_offset = 9 * PAGE,
		    .first_previous_crc = 0x01020304,
		    .last_crc = 0x05060708,
		    .items_count = 40,
		    .runs_count = 4,
		    .states_count = i % 5,
		    .kind = i % 3 == 0 ? WK_FILE_ENTRY_LOG : WK_FILE_JOURNAL,
		};
	for (uint32_t i = 0; i < LEDGERS; i++) {
		uint32_t bits = i % 8;
		ledgers[i] = (wk_index_ledger){
		    .ledger_id = 3 * i, .last_entry = (int64_t)i - 1, .first_live = i / 2, .length = 1000 * i, .bits = bits};
		ledgers[i].key_size = (uint8_t)((bits & WK_LEDGER_HAS_KEY) != 0 ? i % 49 : 0);
		ledgers[i].lac_size = (uint8_t)((bits & WK_LEDGER_HAS_LAC) != 0 ? 48 - i % 49 : 0);
		memset(ledgers[i].key, 'k', ledgers[i].key_size);
		memset(ledgers[i].lac, 'l', ledgers[i].lac_size);
	}
	for (uint32_t i = 0; i < RANGES; i++)
		ranges[i] = (wk_index_range){.ledger_id = 1000 + i / 3,
		                             .first_entry = 50 * (i % 3),
		                             .last_entry = 50 * (i % 3) + (i % 2 == 0 ? 19 : 999), /* every other has holes */
		                             .bytes = 300 + i,
		                             .file = i % FILES,
		                             .count = 20,
		                             .dead = i % 21,
		                             .runs_count = i % 2 == 0 ? 1 : 2 + i % 19,
		                             .start = i % 20,
		                             .uncounted = i % 5 == 0};
	wk_index_encode(&header, files, ledgers, ranges, bytes);
}

static uint8_t *page_at(uint64_t offset) {
	CHECK(offset + PAGE <= sizeof bytes);
	return bytes + offset;
}

static void mend_header(void) {
	wk_store_le32(bytes + 4, wk_crc32c_extend(wk_crc32c(bytes, 4), bytes + 8, PAGE - 8));
}

static void mend_page(uint64_t offset) {
	uint8_t place[32];
	memcpy(place, header.directory_id, 16);
	wk_store_le64(place + 16, header.generation);
	wk_store_le64(place + 24, offset);
	uint8_t *page = page_at(offset);
	wk_store_le32(page, wk_crc32c_extend(wk_crc32c(place, 32), page + 4, PAGE - 4));
}

static wk_status decoding(void) {
	static const wk_index_header untouched = {.generation = 77};
	wk_index_header found = untouched;
	wk_status status = wk_index_decode(bytes, &found);
	if (status != WK_OK)
		CHECK(memcmp(&found, &untouched, sizeof found) == 0);
	return status;
}

static void header_refused(void) {
	mend_header();
	CHECK_EQ(decoding(), WK_CORRUPT);
	write_index();
	CHECK_EQ(decoding(), WK_OK);
}

typedef enum kind { AS_FILES, AS_LEDGERS, AS_RANGES } kind;

static wk_status reading(kind as, const uint8_t *page, uint64_t offset) {
	count = 77;
	found_files[0].kind = found_ledgers[0].bits = found_ranges[0].count = 0x77777777;
	wk_status status = as == AS_FILES     ? wk_index_files(&header, page, offset, found_files, &count)
	                   : as == AS_LEDGERS ? wk_index_ledgers(&header, page, offset, found_ledgers, &count)
	                                      : wk_index_ranges(&header, page, offset, found_ranges, &count);
	if (status != WK_OK) {
		CHECK_EQ(count, 77);
		CHECK_EQ(found_files[0].kind, 0x77777777);
		CHECK_EQ(found_ledgers[0].bits, 0x77777777);
		CHECK_EQ(found_ranges[0].count, 0x77777777);
	}
	return status;
}

static wk_status reading_at(kind as, uint64_t offset) {
	return reading(as, page_at(offset), offset);
}

/* The page's checksum is right, so that only the rule under test can refuse. */
static void page_refused(kind as, uint64_t offset) {
	mend_page(offset);
	CHECK_EQ(reading_at(as, offset), WK_CORRUPT);
	write_index();
	CHECK_EQ(reading_at(as, offset), WK_OK);
}

TEST(an_index_takes_a_page_for_each_full_or_part_full_page_of_members) {
	CHECK_EQ(wk_index_size(0, 0, 0), PAGE);
	CHECK_EQ(wk_index_size(56, 30, 73), 4 * PAGE);
	CHECK_EQ(wk_index_size(57, 30, 73), 5 * PAGE);
	CHECK_EQ(wk_index_size(56, 31, 73), 5 * PAGE);
	CHECK_EQ(wk_index_size(56, 30, 74), 5 * PAGE);
	CHECK_EQ(wk_index_size(FILES, LEDGERS, RANGES), sizeof bytes);
}

TEST(the_headers_fields_have_their_places) {
	write_index();
	CHECK_HEX(bytes, 4, "574b4958"); /* WKIX */
	CHECK_EQ(wk_load_le32(bytes + 4), wk_crc32c_extend(wk_crc32c(bytes, 4), bytes + 8, PAGE - 8));
	CHECK_HEX(bytes + 8, 8, "0100000000000000");
	CHECK(memcmp(bytes + 16, "directory id 16b", 16) == 0);
	CHECK_HEX(bytes + 32, 24, "0500000000000000e8030000000000009210000000000000");
	CHECK_HEX(bytes + 56, 12, "8200000046000000c8000000");
	for (size_t i = 68; i < PAGE; i++)
		CHECK_EQ(bytes[i], 0);
}

TEST(the_header_decodes_to_what_was_encoded) {
	write_index();
	wk_index_header found;
	CHECK_EQ(wk_index_decode(bytes, &found), WK_OK);
	CHECK(memcmp(found.directory_id, "directory id 16b", 16) == 0);
	CHECK_EQ(found.generation, 5);
	CHECK_EQ(found.replay_epoch, 1000);
	CHECK_EQ(found.replay_sequence, 4242);
	CHECK_EQ(found.files_count, FILES);
	CHECK_EQ(found.ledgers_count, LEDGERS);
	CHECK_EQ(found.ranges_count, RANGES);
}

TEST(members_fields_have_their_places) {
	write_index();
	CHECK_HEX(bytes + PAGE + 4, 4, "38000400");
	CHECK_HEX(bytes + PAGE + 8 + FILE_AT, FILE_AT,
	          "66000000000000000000040000000000"
	          "03000000000000000b00000000000000"
	          "13000000000000000090000000000000"
	          "0403020108070605"
	          "28000000040000000100000001000000");
	CHECK_HEX(bytes + 4 * PAGE + 4, 4, "1e000500");
	CHECK_HEX(bytes + 4 * PAGE + 8 + 7 * LEDGER_AT, 48,
	          "15000000000000000600000000000000"
	          "0300000000000000581b000000000000"
	          "0700000007290000"
	          "6b6b6b6b6b6b6b00");
	CHECK_HEX(bytes + 4 * PAGE + 8 + 7 * LEDGER_AT + 88, 48,
	          "6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c"
	          "6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c00000000000000");
	CHECK_HEX(bytes + 7 * PAGE + 4, 4, "49000600");
	CHECK_HEX(bytes + 7 * PAGE + 8 + 2 * RANGE_AT, RANGE_AT,
	          "e803000000000000640000000000000077000000000000002e01000000000000"
	          "020000001400000002000000010000000200000000000000");
}

TEST(every_member_comes_back_from_the_page_that_is_named_for_it) {
	write_index();
	for (uint32_t i = 0; i < FILES; i++) {
		CHECK_EQ(reading_at(AS_FILES, wk_index_file_page(&header, i)), WK_OK);
		CHECK_EQ(count, i / 56 < 2 ? 56 : FILES - 2 * 56);
		wk_footer expected = files[i];
		memcpy(expected.directory_id, header.directory_id, 16);
		CHECK(memcmp(&found_files[i % 56], &expected, sizeof expected) == 0);
	}
	for (uint32_t i = 0; i < LEDGERS; i++) {
		CHECK_EQ(reading_at(AS_LEDGERS, wk_index_ledger_page(&header, i)), WK_OK);
		CHECK_EQ(count, i / 30 < 2 ? 30 : LEDGERS - 2 * 30);
		const wk_index_ledger *found = &found_ledgers[i % 30];
		CHECK_EQ(found->ledger_id, ledgers[i].ledger_id);
		CHECK_EQ(found->last_entry, ledgers[i].last_entry);
		CHECK_EQ(found->first_live, ledgers[i].first_live);
		CHECK_EQ(found->length, ledgers[i].length);
		CHECK_EQ(found->bits, ledgers[i].bits);
		CHECK_EQ(found->key_size, ledgers[i].key_size);
		CHECK_EQ(found->lac_size, ledgers[i].lac_size);
		CHECK(memcmp(found->key, ledgers[i].key, 48) == 0);
		CHECK(memcmp(found->lac, ledgers[i].lac, 48) == 0);
	}
	for (uint32_t i = 0; i < RANGES; i++) {
		CHECK_EQ(reading_at(AS_RANGES, wk_index_range_page(&header, i)), WK_OK);
		CHECK_EQ(count, i / 73 < 2 ? 73 : RANGES - 2 * 73);
		CHECK(memcmp(&found_ranges[i % 73], &ranges[i], sizeof ranges[i]) == 0);
	}
}

TEST(an_index_may_hold_nothing_but_a_header) {
	wk_index_header empty = {.generation = 1, .replay_epoch = 1}, found;
	wk_index_encode(&empty, NULL, NULL, NULL, bytes);
	CHECK_EQ(wk_index_decode(bytes, &found), WK_OK);
	CHECK_EQ(found.files_count, 0);
}

TEST(a_header_has_a_generation_and_a_mark) {
	write_index();
	wk_store_le64(bytes + 32, 0);
	header_refused();
	wk_store_le64(bytes + 40, 0);
	header_refused();
}

TEST(unused_bytes_of_the_header_are_zero) {
	write_index();
	for (size_t i = 12; i < PAGE; i = i == 15 ? 68 : i + 1) {
		bytes[i] = 1;
		mend_header();
		CHECK_EQ(decoding(), WK_CORRUPT);
		bytes[i] = 0;
	}
	mend_header();
	CHECK_EQ(decoding(), WK_OK);
}

TEST(a_newer_version_is_unsupported_but_a_broken_version_is_corrupt) {
	write_index();
	wk_store_le32(bytes + 8, 2);
	CHECK_EQ(decoding(), WK_CORRUPT);
	mend_header();
	CHECK_EQ(decoding(), WK_UNSUPPORTED);
	wk_store_le32(bytes + 8, 0);
	header_refused();
}

TEST(a_page_in_another_place_never_counts) {
	write_index();
	uint64_t first = wk_index_file_page(&header, 0), second = wk_index_file_page(&header, 56);
	CHECK_EQ(reading(AS_FILES, page_at(first), second), WK_CORRUPT);
	CHECK_EQ(reading(AS_FILES, page_at(second), first), WK_CORRUPT);
	CHECK_EQ(reading(AS_FILES, page_at(first), first + 1), WK_CORRUPT);
	CHECK_EQ(reading(AS_FILES, bytes, 0), WK_CORRUPT);
	CHECK_EQ(reading(AS_LEDGERS, page_at(first), first), WK_CORRUPT);
	CHECK_EQ(reading(AS_RANGES, page_at(first), PAGES * PAGE), WK_CORRUPT);
}

TEST(a_page_of_another_generation_or_directory_never_counts) {
	write_index();
	uint64_t first = wk_index_file_page(&header, 0);
	header.generation = 6;
	CHECK_EQ(reading_at(AS_FILES, first), WK_CORRUPT);
	header.generation = 5;
	header.directory_id[0] ^= 1;
	CHECK_EQ(reading_at(AS_FILES, first), WK_CORRUPT);
	header.directory_id[0] ^= 1;
	CHECK_EQ(reading_at(AS_FILES, first), WK_OK);
}

TEST(a_page_has_the_kind_and_the_count_of_its_place) {
	write_index();
	uint64_t first = wk_index_file_page(&header, 0);
	wk_store_le16(page_at(first) + 4, 55);
	page_refused(AS_FILES, first);
	wk_store_le16(page_at(first) + 4, 57);
	page_refused(AS_FILES, first);
	wk_store_le16(page_at(first) + 6, 2); /* a footer's runs */
	page_refused(AS_FILES, first);
	uint64_t last = wk_index_range_page(&header, RANGES - 1);
	wk_store_le16(page_at(last) + 4, 0);
	page_refused(AS_RANGES, last);
}

TEST(bytes_behind_the_members_are_zero) {
	write_index();
	uint64_t last[] = {wk_index_file_page(&header, 0), wk_index_ledger_page(&header, LEDGERS - 1),
	                   wk_index_range_page(&header, 0)};
	for (kind as = AS_FILES; as <= AS_RANGES; as++) {
		page_at(last[as])[PAGE - 1] = 1;
		page_refused(as, last[as]);
	}
}

TEST(a_file_lies_below_the_mark_and_has_an_id) {
	write_index();
	uint64_t page = wk_index_file_page(&header, FILES - 1);
	uint8_t *last = page_at(page) + 8 + (FILES - 1) % 56 * FILE_AT;
	wk_store_le64(last, 999);
	mend_page(page);
	CHECK_EQ(reading_at(AS_FILES, page), WK_OK);
	wk_store_le64(last, 1000);
	page_refused(AS_FILES, page);
	wk_store_le64(page_at(PAGE) + 8, 0);
	page_refused(AS_FILES, PAGE);
}

TEST(a_file_keeps_the_rules_of_a_trailer) {
	write_index();
	wk_store_le32(page_at(PAGE) + 8 + 68, 3); /* kind */
	page_refused(AS_FILES, PAGE);
	wk_store_le64(page_at(PAGE) + 8 + 8, 64 * PAGE + 512); /* size */
	page_refused(AS_FILES, PAGE);
	wk_store_le64(page_at(PAGE) + 8 + 40, 63 * PAGE); /* end, in the footer */
	page_refused(AS_FILES, PAGE);
	wk_store_le32(page_at(PAGE) + 8 + 60, 41); /* more runs than items */
	page_refused(AS_FILES, PAGE);
	wk_store_le64(page_at(PAGE) + 8 + FILE_AT + 24, 0); /* first sequence of a journal file */
	page_refused(AS_FILES, PAGE);
}

TEST(files_are_sorted_by_id) {
	write_index();
	wk_store_le64(page_at(PAGE) + 8 + FILE_AT, 99);
	page_refused(AS_FILES, PAGE);
	wk_store_le64(page_at(PAGE) + 8 + FILE_AT, 100); /* twice the same */
	page_refused(AS_FILES, PAGE);
}

TEST(a_ledger_has_numbers_that_can_be) {
	write_index();
	uint64_t page = wk_index_ledger_page(&header, 0);
	uint8_t *first = page_at(page) + 8;
	wk_store_le64_signed(first, -1);
	page_refused(AS_LEDGERS, page);
	wk_store_le64_signed(first + 8, -2); /* last entry; -1 is none */
	page_refused(AS_LEDGERS, page);
	wk_store_le64_signed(first + 16, -1); /* first live */
	page_refused(AS_LEDGERS, page);
	wk_store_le64_signed(first + 24, -1); /* length */
	page_refused(AS_LEDGERS, page);
	wk_store_le32(first + 32, 8); /* an unknown bit */
	page_refused(AS_LEDGERS, page);
	first[38] = 1; /* unused */
	page_refused(AS_LEDGERS, page);
	first[39] = 1;
	page_refused(AS_LEDGERS, page);
}

TEST(a_key_and_a_lac_are_there_only_with_their_bits_and_in_their_size) {
	write_index();
	uint64_t page = wk_index_ledger_page(&header, 0);
	uint8_t *none = page_at(page) + 8, *both = none + 7 * LEDGER_AT;
	none[36] = 1; /* the size of a key */
	page_refused(AS_LEDGERS, page);
	none[37] = 1; /* of a LAC */
	page_refused(AS_LEDGERS, page);
	none[40] = 'k';
	page_refused(AS_LEDGERS, page);
	none[88] = 'l';
	page_refused(AS_LEDGERS, page);
	both[36] = 49;
	page_refused(AS_LEDGERS, page);
	both[37] = 49;
	page_refused(AS_LEDGERS, page);
	both[40 + 7] = 'k'; /* behind seven bytes of key */
	page_refused(AS_LEDGERS, page);
	both[88 + 41] = 'l';
	page_refused(AS_LEDGERS, page);
}

TEST(ledgers_are_sorted_by_id) {
	write_index();
	uint64_t page = wk_index_ledger_page(&header, 0);
	wk_store_le64_signed(page_at(page) + 8 + LEDGER_AT, 0); /* twice the same */
	page_refused(AS_LEDGERS, page);
	wk_store_le64_signed(page_at(page) + 8 + LEDGER_AT, 7); /* the next is 6 */
	page_refused(AS_LEDGERS, page);
}

TEST(a_range_names_a_file_a_ledger_and_entries_that_can_be) {
	write_index();
	uint64_t page = wk_index_range_page(&header, 0);
	uint8_t *first = page_at(page) + 8, *second = first + RANGE_AT, *last = first + 72 * RANGE_AT;
	wk_store_le64_signed(first, -1);
	page_refused(AS_RANGES, page);
	wk_store_le64_signed(first + 8, -1);
	page_refused(AS_RANGES, page);
	wk_store_le64_signed(first + 16, 18); /* twenty entries with nineteen ids */
	page_refused(AS_RANGES, page);
	wk_store_le64_signed(first + 16, 20); /* one run with a hole */
	page_refused(AS_RANGES, page);
	wk_store_le64(first + 24, (uint64_t)1 << 32); /* more than a file can hold */
	page_refused(AS_RANGES, page);
	wk_store_le32(first + 32, FILES);
	page_refused(AS_RANGES, page);
	wk_store_le32(first + 36, 0); /* of no entries */
	page_refused(AS_RANGES, page);
	wk_store_le32(first + 40, 21); /* more dead than there are */
	page_refused(AS_RANGES, page);
	wk_store_le32(first + 44, 0); /* of no runs */
	page_refused(AS_RANGES, page);
	wk_store_le32(second + 44, 21); /* of more runs than entries */
	page_refused(AS_RANGES, page);
	wk_store_le32(first + 48, UINT32_MAX - 19); /* items beyond any file's */
	page_refused(AS_RANGES, page);
	wk_store_le32(second + 48, UINT32_MAX - 2); /* runs, the same */
	page_refused(AS_RANGES, page);
	wk_store_le32(first + 52, 2); /* an unknown word */
	page_refused(AS_RANGES, page);
	wk_store_le64_signed(last, 5000);
	wk_store_le64_signed(last + 8, INT64_MAX - 19); /* the id behind its last entry's would be none */
	wk_store_le64_signed(last + 16, INT64_MAX);
	page_refused(AS_RANGES, page);
}

TEST(ranges_are_sorted_and_may_overlap) {
	write_index();
	uint64_t page = wk_index_range_page(&header, 0);
	uint8_t *second = page_at(page) + 8 + RANGE_AT;
	wk_store_le64_signed(second, 999);
	page_refused(AS_RANGES, page);
	wk_store_le64_signed(second + 8, 0); /* two ranges of one ledger that begin at one entry: by file */
	wk_store_le32(second + 32, 0);
	page_refused(AS_RANGES, page);
	wk_store_le64_signed(second + 8, 0);
	mend_page(page);
	CHECK_EQ(reading_at(AS_RANGES, page), WK_OK);
	write_index();
	wk_store_le64_signed(second + 8, 19); /* the first holds entries 0 to 19 */
	mend_page(page);
	CHECK_EQ(reading_at(AS_RANGES, page), WK_OK);
}

TEST(every_flipped_bit_of_every_page_is_detected) {
	write_index();
	for (uint32_t page = 0; page < PAGES; page++) {
		for (uint32_t bit = 0; bit < PAGE * 8; bit++) {
			uint8_t *byte = bytes + page * PAGE + bit / 8;
			*byte ^= (uint8_t)(1u << bit % 8);
			if (page == 0)
				CHECK_EQ(decoding(), WK_CORRUPT);
			else
				CHECK_EQ(reading_at((kind)((page - 1) / 3), page * PAGE), WK_CORRUPT);
			*byte ^= (uint8_t)(1u << bit % 8);
		}
	}
	CHECK_EQ(decoding(), WK_OK);
}

int main(void) {
	RUN(an_index_takes_a_page_for_each_full_or_part_full_page_of_members);
	RUN(the_headers_fields_have_their_places);
	RUN(the_header_decodes_to_what_was_encoded);
	RUN(members_fields_have_their_places);
	RUN(every_member_comes_back_from_the_page_that_is_named_for_it);
	RUN(an_index_may_hold_nothing_but_a_header);
	RUN(a_header_has_a_generation_and_a_mark);
	RUN(unused_bytes_of_the_header_are_zero);
	RUN(a_newer_version_is_unsupported_but_a_broken_version_is_corrupt);
	RUN(a_page_in_another_place_never_counts);
	RUN(a_page_of_another_generation_or_directory_never_counts);
	RUN(a_page_has_the_kind_and_the_count_of_its_place);
	RUN(bytes_behind_the_members_are_zero);
	RUN(a_file_lies_below_the_mark_and_has_an_id);
	RUN(a_file_keeps_the_rules_of_a_trailer);
	RUN(files_are_sorted_by_id);
	RUN(a_ledger_has_numbers_that_can_be);
	RUN(a_key_and_a_lac_are_there_only_with_their_bits_and_in_their_size);
	RUN(ledgers_are_sorted_by_id);
	RUN(a_range_names_a_file_a_ledger_and_entries_that_can_be);
	RUN(ranges_are_sorted_and_may_overlap);
	RUN(every_flipped_bit_of_every_page_is_detected);
	return check_done();
}
