/* The footer: sizes and places of its pages, each field at its place, each rule, every flipped bit of every page. */
/* ctest labels: one-thread */
#include "check.h"
#include "core/bytes.h"
#include "core/footer.h"

enum { ITEMS = 1100, RUNS = 300, STATES = 130, PAGES = 3 + 3 + 3 + 1, PAGE = 4096 };
static wk_footer_item items[ITEMS];
static wk_footer_run runs[RUNS];
static wk_footer_state states[STATES];
static uint8_t bytes[PAGES * PAGE];
static wk_footer footer;
static const uint64_t start = 1 << 20; /* of the footer in the file */

/* Results: room for a page of each kind, and what a refused call must leave alone. */
static wk_footer_item found_items[WK_PAGE_ITEMS];
static wk_footer_run found_runs[WK_PAGE_RUNS];
static wk_footer_state found_states[WK_PAGE_STATES];
static uint32_t count;

/* A sealed journal file of 1100 entries in 300 runs, with 130 states. */
static void write_footer(void) {
	footer = (wk_footer){
	    .file_id = 5,
	    .file_size = start + PAGES * PAGE,
	    .incarnation = 3,
	    .first_sequence = 10,
	    .last_sequence = 19,
	    .end_offset = 250 * PAGE,
	    .first_previous_crc = 0x01020304,
	    .last_crc = 0x05060708,
	    .items_count = ITEMS,
	    .runs_count = RUNS,
	    .states_count = STATES,
	    .kind = WK_FILE_JOURNAL,
	};
	memcpy(footer.directory_id, "directory id 16b", 16);
	for (uint32_t i = 0; i < ITEMS; i++)
		items[i] = (wk_footer_item){.offset = 84 + i * 900, .size = 100 + i % 7};
	for (uint32_t i = 0; i < RUNS; i++)
		runs[i] = (wk_footer_run){
		    .ledger_id = 1000 + i / 3, .first_entry = 50 * (i % 3), .bytes = 300 + i, .count = 3, .first_item = 3 * i};
	for (uint32_t i = 0; i < STATES; i++) {
		states[i] = (wk_footer_state){.ledger_id = i, .type = WK_BLOCK_FENCE + i % 4, .size = i % 49};
		memset(states[i].data, (int)('a' + i % 26), states[i].size);
	}
	wk_footer_encode(&footer, items, runs, states, bytes);
}

static uint8_t *page_at(uint64_t offset) {
	CHECK(offset >= start && offset + PAGE <= start + sizeof bytes);
	return bytes + (offset - start);
}

static uint8_t *trailer(void) {
	return bytes + sizeof bytes - PAGE;
}

static void mend_trailer(void) {
	wk_store_le32(trailer() + 4, wk_crc32c_extend(wk_crc32c(trailer(), 4), trailer() + 8, PAGE - 8));
}

static void mend_page(uint64_t offset) {
	uint8_t place[32];
	memcpy(place, footer.directory_id, 16);
	wk_store_le64(place + 16, footer.file_id);
	wk_store_le64(place + 24, offset);
	uint8_t *page = page_at(offset);
	wk_store_le32(page, wk_crc32c_extend(wk_crc32c(place, 32), page + 4, PAGE - 4));
}

static wk_status decoding(void) {
	static const wk_footer untouched = {.file_id = 77};
	wk_footer found = untouched;
	wk_status status = wk_footer_decode(trailer(), &found);
	if (status != WK_OK)
		CHECK(memcmp(&found, &untouched, sizeof found) == 0);
	return status;
}

static void trailer_refused(void) {
	mend_trailer();
	CHECK_EQ(decoding(), WK_CORRUPT);
	write_footer();
	CHECK_EQ(decoding(), WK_OK);
}

typedef enum kind { AS_ITEMS, AS_RUNS, AS_STATES } kind;

static wk_status reading(kind as, const uint8_t *page, uint64_t offset) {
	count = 77;
	memset(found_items, 0x77, sizeof found_items);
	memset(found_runs, 0x77, sizeof found_runs);
	memset(found_states, 0x77, sizeof found_states);
	wk_status status = as == AS_ITEMS  ? wk_footer_items(&footer, page, offset, found_items, &count)
	                   : as == AS_RUNS ? wk_footer_runs(&footer, page, offset, found_runs, &count)
	                                   : wk_footer_states(&footer, page, offset, found_states, &count);
	if (status != WK_OK) {
		CHECK_EQ(count, 77);
		CHECK_EQ(found_items[0].size, 0x77777777);
		CHECK_EQ(found_runs[0].count, 0x77777777);
		CHECK_EQ(found_states[0].type, 0x77777777);
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
	write_footer();
	CHECK_EQ(reading_at(as, offset), WK_OK);
}

TEST(a_footer_takes_a_page_for_each_full_or_part_full_page_of_members) {
	CHECK_EQ(wk_footer_size(0, 0, 0), PAGE);
	CHECK_EQ(wk_footer_size(1, 0, 0), 2 * PAGE);
	CHECK_EQ(wk_footer_size(511, 127, 63), 4 * PAGE);
	CHECK_EQ(wk_footer_size(512, 127, 63), 5 * PAGE);
	CHECK_EQ(wk_footer_size(511, 128, 63), 5 * PAGE);
	CHECK_EQ(wk_footer_size(511, 127, 64), 5 * PAGE);
	CHECK_EQ(wk_footer_size(UINT32_MAX, UINT32_MAX, UINT32_MAX), (8405025ull + 33818641 + 68174085 + 1) * PAGE);
}

TEST(the_trailers_fields_have_their_places) {
	write_footer();
	CHECK_HEX(trailer(), 4, "574b4654"); /* WKFT */
	CHECK_EQ(wk_load_le32(trailer() + 4), wk_crc32c_extend(wk_crc32c(trailer(), 4), trailer() + 8, PAGE - 8));
	CHECK_HEX(trailer() + 8, 8, "0100000001000000");
	CHECK(memcmp(trailer() + 16, "directory id 16b", 16) == 0);
	CHECK_HEX(trailer() + 32, 24, "050000000000000000a01000000000000300000000000000");
	CHECK_HEX(trailer() + 56, 24, "0a00000000000000130000000000000000a00f0000000000");
	CHECK_HEX(trailer() + 80, 20, "04030201080706054c0400002c01000082000000");
	for (size_t i = 100; i < PAGE; i++)
		CHECK_EQ(trailer()[i], 0);
}

TEST(the_trailer_decodes_to_what_was_encoded) {
	write_footer();
	wk_footer found;
	memset(&found, 0, sizeof found);
	CHECK_EQ(wk_footer_decode(trailer(), &found), WK_OK);
	CHECK(memcmp(found.directory_id, "directory id 16b", 16) == 0);
	CHECK_EQ(found.file_id, 5);
	CHECK_EQ(found.file_size, start + PAGES * PAGE);
	CHECK_EQ(found.incarnation, 3);
	CHECK_EQ(found.first_sequence, 10);
	CHECK_EQ(found.last_sequence, 19);
	CHECK_EQ(found.end_offset, 250 * PAGE);
	CHECK_EQ(found.first_previous_crc, 0x01020304);
	CHECK_EQ(found.last_crc, 0x05060708);
	CHECK_EQ(found.items_count, ITEMS);
	CHECK_EQ(found.runs_count, RUNS);
	CHECK_EQ(found.states_count, STATES);
	CHECK_EQ(found.kind, WK_FILE_JOURNAL);
}

TEST(members_fields_have_their_places) {
	write_footer();
	CHECK_HEX(bytes + 4, 20,
	          "ff01010054000000"
	          "64000000d8030000"
	          "65000000");
	CHECK_HEX(bytes + 3 * PAGE + 4, 4, "7f000200");
	CHECK_HEX(bytes + 3 * PAGE + 8 + 32, 32,
	          "e803000000000000320000000000000"
	          "02d010000000000000300000003000000");
	CHECK_HEX(bytes + 6 * PAGE + 4, 4, "3f000300");
	CHECK_HEX(bytes + 6 * PAGE + 8 + 64 * 3, 20,
	          "0300000000000000"
	          "0500000003000000"
	          "64646400");
}

TEST(every_member_comes_back_from_the_page_that_is_named_for_it) {
	write_footer();
	for (uint32_t i = 0; i < ITEMS; i++) {
		CHECK_EQ(reading_at(AS_ITEMS, wk_footer_item_page(&footer, i)), WK_OK);
		CHECK_EQ(count, i / 511 < 2 ? 511 : ITEMS - 2 * 511);
		CHECK_EQ(found_items[i % 511].offset, items[i].offset);
		CHECK_EQ(found_items[i % 511].size, items[i].size);
	}
	for (uint32_t i = 0; i < RUNS; i++) {
		CHECK_EQ(reading_at(AS_RUNS, wk_footer_run_page(&footer, i)), WK_OK);
		CHECK_EQ(count, i / 127 < 2 ? 127 : RUNS - 2 * 127);
		CHECK(memcmp(&found_runs[i % 127], &runs[i], sizeof runs[i]) == 0);
	}
	for (uint32_t i = 0; i < STATES; i++) {
		CHECK_EQ(reading_at(AS_STATES, wk_footer_state_page(&footer, i)), WK_OK);
		CHECK_EQ(count, i / 63 < 2 ? 63 : STATES - 2 * 63);
		CHECK(memcmp(&found_states[i % 63], &states[i], sizeof states[i]) == 0);
	}
}

TEST(an_entry_log_may_hold_nothing_but_a_trailer) {
	wk_footer empty = {.file_id = 9, .file_size = PAGE, .kind = WK_FILE_ENTRY_LOG}, found;
	wk_footer_encode(&empty, NULL, NULL, NULL, bytes);
	CHECK_EQ(wk_footer_decode(bytes, &found), WK_OK);
	CHECK_EQ(found.kind, WK_FILE_ENTRY_LOG);
	CHECK_EQ(found.items_count, 0);
}

TEST(counts_that_do_not_fit_the_file_are_refused) {
	write_footer();
	wk_store_le32(trailer() + 88, UINT32_MAX);
	trailer_refused();
	wk_store_le32(trailer() + 96, 63 * 400);
	trailer_refused();
	wk_store_le64(trailer() + 40, 9 * PAGE); /* the file is smaller than its footer */
	trailer_refused();
	wk_store_le64(trailer() + 40, start + PAGES * PAGE + 512);
	trailer_refused();
}

TEST(blocks_end_before_the_footer_starts) {
	write_footer();
	wk_store_le64(trailer() + 72, start);
	mend_trailer();
	CHECK_EQ(decoding(), WK_OK);
	wk_store_le64(trailer() + 72, start + PAGE);
	trailer_refused();
	wk_store_le64(trailer() + 72, 5000); /* blocks end at a multiple of 4096 */
	trailer_refused();
}

TEST(a_run_has_an_item_or_more) {
	write_footer();
	wk_store_le32(trailer() + 88, RUNS - 1);
	trailer_refused();
}

TEST(blocks_of_a_journal_file_are_in_order) {
	write_footer();
	wk_store_le64(trailer() + 64, 9); /* none: the file was sealed empty */
	mend_trailer();
	CHECK_EQ(decoding(), WK_OK);
	wk_store_le64(trailer() + 64, 8);
	trailer_refused();
	wk_store_le64(trailer() + 56, 0);
	trailer_refused();
}

TEST(an_unknown_kind_is_refused) {
	write_footer();
	wk_store_le32(trailer() + 12, 0);
	trailer_refused();
	wk_store_le32(trailer() + 12, 3);
	trailer_refused();
}

TEST(unused_bytes_of_the_trailer_are_zero) {
	write_footer();
	for (size_t i = 100; i < PAGE; i += 7) {
		trailer()[i] = 1;
		trailer_refused();
	}
}

TEST(a_newer_version_is_unsupported_but_a_broken_version_is_corrupt) {
	write_footer();
	wk_store_le32(trailer() + 8, 2);
	CHECK_EQ(decoding(), WK_CORRUPT);
	mend_trailer();
	CHECK_EQ(decoding(), WK_UNSUPPORTED);
	wk_store_le32(trailer() + 8, 0);
	trailer_refused();
}

TEST(a_page_in_another_place_never_counts) {
	write_footer();
	uint64_t first = wk_footer_item_page(&footer, 0), second = wk_footer_item_page(&footer, 511);
	CHECK_EQ(reading(AS_ITEMS, page_at(first), second), WK_CORRUPT);
	CHECK_EQ(reading(AS_ITEMS, page_at(second), first), WK_CORRUPT);
	CHECK_EQ(reading(AS_ITEMS, page_at(first), first + 1), WK_CORRUPT);
	CHECK_EQ(reading(AS_ITEMS, page_at(first), first - PAGE), WK_CORRUPT);
	CHECK_EQ(reading(AS_RUNS, page_at(first), first), WK_CORRUPT);
	CHECK_EQ(reading(AS_STATES, trailer(), start + (PAGES - 1) * PAGE), WK_CORRUPT);
}

TEST(a_page_of_another_file_or_directory_never_counts) {
	write_footer();
	uint64_t first = wk_footer_item_page(&footer, 0);
	footer.file_id = 6;
	CHECK_EQ(reading_at(AS_ITEMS, first), WK_CORRUPT);
	footer.file_id = 5;
	footer.directory_id[0] ^= 1;
	CHECK_EQ(reading_at(AS_ITEMS, first), WK_CORRUPT);
	footer.directory_id[0] ^= 1;
	CHECK_EQ(reading_at(AS_ITEMS, first), WK_OK);
}

TEST(a_page_has_the_kind_and_the_count_of_its_place) {
	write_footer();
	uint64_t first = wk_footer_item_page(&footer, 0);
	wk_store_le16(page_at(first) + 4, 510);
	page_refused(AS_ITEMS, first);
	wk_store_le16(page_at(first) + 4, 512);
	page_refused(AS_ITEMS, first);
	wk_store_le16(page_at(first) + 6, 2);
	page_refused(AS_ITEMS, first);
	uint64_t last = wk_footer_run_page(&footer, RUNS - 1);
	wk_store_le16(page_at(last) + 4, 0);
	page_refused(AS_RUNS, last);
}

TEST(bytes_behind_the_members_are_zero) {
	write_footer();
	uint64_t last = wk_footer_item_page(&footer, ITEMS - 1);
	page_at(last)[PAGE - 1] = 1;
	page_refused(AS_ITEMS, last);
	last = wk_footer_run_page(&footer, 0);
	page_at(last)[PAGE - 1] = 1;
	page_refused(AS_RUNS, last);
	last = wk_footer_state_page(&footer, 0);
	page_at(last)[PAGE - 1] = 1;
	page_refused(AS_STATES, last);
}

TEST(an_item_lies_before_the_end_offset) {
	write_footer();
	uint64_t page = wk_footer_item_page(&footer, 0);
	wk_store_le32(page_at(page) + 8, 250 * PAGE - 100);
	mend_page(page);
	CHECK_EQ(reading_at(AS_ITEMS, page), WK_OK);
	wk_store_le32(page_at(page) + 8, 250 * PAGE - 99);
	page_refused(AS_ITEMS, page);
	wk_store_le32(page_at(page) + 12, UINT32_MAX);
	page_refused(AS_ITEMS, page);
}

TEST(a_run_names_a_ledger_entries_and_items_that_can_be) {
	write_footer();
	uint64_t page = wk_footer_run_page(&footer, 0);
	wk_store_le64_signed(page_at(page) + 8, -1); /* ledger */
	page_refused(AS_RUNS, page);
	wk_store_le64_signed(page_at(page) + 16, -1); /* first entry */
	page_refused(AS_RUNS, page);
	wk_store_le32(page_at(page) + 32, 0); /* count */
	page_refused(AS_RUNS, page);
	wk_store_le32(page_at(page) + 36, ITEMS); /* first item */
	page_refused(AS_RUNS, page);
	wk_store_le32(page_at(page) + 36, ITEMS - 2); /* with three items behind it */
	page_refused(AS_RUNS, page);
	wk_store_le64_signed(page_at(page) + 8 + 126 * 32, 2000);
	wk_store_le64_signed(page_at(page) + 16 + 126 * 32, INT64_MAX - 2); /* its last entry would have no id */
	page_refused(AS_RUNS, page);
}

TEST(runs_are_sorted_by_ledger_and_first_entry) {
	write_footer();
	uint64_t page = wk_footer_run_page(&footer, 0);
	wk_store_le64_signed(page_at(page) + 8 + 32, 999);
	page_refused(AS_RUNS, page);
	wk_store_le64_signed(page_at(page) + 16 + 32, 0); /* twice the same */
	page_refused(AS_RUNS, page);
}

TEST(a_state_has_a_known_type_and_at_most_48_bytes) {
	write_footer();
	uint64_t page = wk_footer_state_page(&footer, 0);
	wk_store_le64_signed(page_at(page) + 8, -1);
	page_refused(AS_STATES, page);
	wk_store_le32(page_at(page) + 16, WK_BLOCK_ENTRY);
	page_refused(AS_STATES, page);
	wk_store_le32(page_at(page) + 16, WK_BLOCK_DELETE + 1);
	page_refused(AS_STATES, page);
	wk_store_le32(page_at(page) + 8 + 48 * 64 + 12, 49);
	page_refused(AS_STATES, page);
	page_at(page)[8 + 64 + 16 + 1] = 1; /* state 1 has one byte of data */
	page_refused(AS_STATES, page);
}

TEST(every_flipped_bit_of_every_page_is_detected) {
	write_footer();
	for (uint32_t page = 0; page < PAGES; page++) {
		uint64_t offset = start + page * PAGE;
		for (uint32_t bit = 0; bit < PAGE * 8; bit++) {
			uint8_t *byte = bytes + page * PAGE + bit / 8;
			*byte ^= (uint8_t)(1u << bit % 8);
			if (page == PAGES - 1)
				CHECK_EQ(decoding(), WK_CORRUPT);
			else
				CHECK_EQ(reading_at((kind)(page / 3), offset), WK_CORRUPT);
			*byte ^= (uint8_t)(1u << bit % 8);
		}
	}
	CHECK_EQ(decoding(), WK_OK);
}

int main(void) {
	RUN(a_footer_takes_a_page_for_each_full_or_part_full_page_of_members);
	RUN(the_trailers_fields_have_their_places);
	RUN(the_trailer_decodes_to_what_was_encoded);
	RUN(members_fields_have_their_places);
	RUN(every_member_comes_back_from_the_page_that_is_named_for_it);
	RUN(an_entry_log_may_hold_nothing_but_a_trailer);
	RUN(counts_that_do_not_fit_the_file_are_refused);
	RUN(blocks_end_before_the_footer_starts);
	RUN(a_run_has_an_item_or_more);
	RUN(blocks_of_a_journal_file_are_in_order);
	RUN(an_unknown_kind_is_refused);
	RUN(unused_bytes_of_the_trailer_are_zero);
	RUN(a_newer_version_is_unsupported_but_a_broken_version_is_corrupt);
	RUN(a_page_in_another_place_never_counts);
	RUN(a_page_of_another_file_or_directory_never_counts);
	RUN(a_page_has_the_kind_and_the_count_of_its_place);
	RUN(bytes_behind_the_members_are_zero);
	RUN(an_item_lies_before_the_end_offset);
	RUN(a_run_names_a_ledger_entries_and_items_that_can_be);
	RUN(runs_are_sorted_by_ledger_and_first_entry);
	RUN(a_state_has_a_known_type_and_at_most_48_bytes);
	RUN(every_flipped_bit_of_every_page_is_detected);
	return check_done();
}
