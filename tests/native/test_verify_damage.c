/*
 * test_verify_damage.c: wk_verify_directory finds and names one bit turned in any structure of a real directory, and what
 * is whole by itself and says something wrong.
 */
/* ctest labels: one-thread simulated */
#include "verified_directory.h"

static wk_footer footer_of(const char *name) {
	size_t size;
	uint8_t *bytes = read_file(below(path, name), &size);
	wk_footer footer;
	CHECK_EQ(wk_footer_decode(bytes + size - WK_PAGE_SIZE, &footer), WK_OK);
	free(bytes);
	return footer;
}

/* ---- a bit in each structure ---- */

TEST(a_bit_in_a_block_of_a_sealed_file_is_found) {
	make();
	for (size_t at = 0; at < 4096; at += 37)
		check_flip(sealed, 3 * 4096 + at, "block", 3 * 4096);
	check_flip(sealed, 0, "block", 0);
	check_flip(sealed, 12 * 4096 + 4095, "block", 12 * 4096); /* padding of the last block */
	remove_tree(path);
}

TEST(a_bit_in_a_block_that_later_blocks_call_durable_is_found) {
	make();
	for (size_t at = 0; at < 4096; at += 37)
		check_flip(active, 2 * 4096 + at, "block", 2 * 4096);
	check_flip(active, 100, "block", 0);
	remove_tree(path);
}

TEST(a_bit_in_a_page_of_a_footer_is_found) {
	make();
	wk_footer footer = footer_of(sealed);
	size_t items = wk_footer_item_page(&footer, 0), runs = wk_footer_run_page(&footer, 0),
	       trailer = SMALL_FILE_SIZE - WK_PAGE_SIZE;
	for (size_t at = 0; at < 4096; at += 97) {
		check_flip(sealed, items + at, "items", items);
		check_flip(sealed, runs + at, "runs", runs);
		check_flip(sealed, trailer + at, "last page", trailer);
	}
	remove_tree(path);
}

TEST(a_bit_in_a_slot_of_the_superblock_is_found) {
	make();
	for (size_t at = 0; at < 4096; at += 97) {
		check_flip("superblock", at, "slot 0", 0);
		check_flip("superblock", 4096 + at, "slot 1", 4096);
	}
	flip_bit(below(path, "superblock"), 5);
	flip_bit(below(path, "superblock"), 4096 + 5);
	CHECK_EQ(verify(WK_DAMAGED).damaged, 2);
	remove_tree(path);
}

TEST(two_bits_in_two_files_are_two_damages) {
	make();
	flip_bit(below(path, sealed), 5 * 4096 + 9);
	flip_bit(below(path, active), 1 * 4096 + 9);
	wk_verify_report report = verify(WK_DAMAGED);
	CHECK_EQ(report.damaged, 2);
	CHECK(strstr(report.first_damage, sealed) != NULL);
	remove_tree(path);
}

/* The file before the active one as it is before its footer is written. */
TEST(damage_where_two_files_meet_is_named_in_the_right_one) {
	make();
	const char *full = files[files_count - 2];
	size_t size;
	uint8_t *bytes = read_file(below(path, full), &size);
	memset(bytes + BLOCKS_A_FILE * 4096, 0, size - BLOCKS_A_FILE * 4096);
	write_file(below(path, full), bytes, size);
	free(bytes);
	wk_verify_report relied = verify(WK_DAMAGED);
	CHECK(strstr(relied.first_damage, full) != NULL && strstr(relied.first_damage, "footer") != NULL);
	forget_index();
	verify(WK_OK);
	check_flip(full, 3 * 4096 + 20, "block", 3 * 4096);
	check_flip(full, (BLOCKS_A_FILE - 1) * 4096 + 20, "block", (BLOCKS_A_FILE - 1) * 4096);
	for (size_t at = 0; at < WK_BLOCK_HEADER_SIZE; at++)
		check_flip(active, at, "block", 0);
	bytes = read_file(below(path, active), &size);
	memset(bytes, 0, 4096); /* not even a trace of it */
	write_file(below(path, active), bytes, size);
	free(bytes);
	wk_verify_report report = verify(WK_DAMAGED);
	CHECK_EQ(report.damaged, 1);
	CHECK(strstr(report.first_damage, active) != NULL);
	remove_tree(path);
}

/* Blocks chosen at random are spoilt: every gap is counted, neighbours being one, and none twice. */
TEST(every_gap_in_the_chain_is_counted_once) {
	make();
	uint64_t seed = 7;
	for (int round = 0; round < 20; round++) {
		bool bad[4 * BLOCKS_A_FILE] = {false};
		uint64_t gaps = 0;
		for (int i = 0; i <= round; i++)
			bad[check_random(&seed) % (4 * BLOCKS_A_FILE)] = true;
		for (size_t i = 0; i < 4 * BLOCKS_A_FILE; i++) {
			gaps += bad[i] && (i % BLOCKS_A_FILE == 0 || !bad[i - 1]);
			if (bad[i])
				flip_bit(below(path, files[i / BLOCKS_A_FILE]), i % BLOCKS_A_FILE * 4096 + 200);
		}
		CHECK_EQ(verify(WK_DAMAGED).damaged, gaps);
		for (size_t i = 0; i < 4 * BLOCKS_A_FILE; i++)
			if (bad[i])
				flip_bit(below(path, files[i / BLOCKS_A_FILE]), i % BLOCKS_A_FILE * 4096 + 200);
	}
	verify(WK_OK);
	remove_tree(path);
}

/* ---- structures that are whole by themselves, and wrong ---- */

/* The last block of the active file with one byte of an entry changed and the block's CRC made to fit. */
TEST(an_entry_that_differs_from_its_digest_is_found_in_a_whole_block) {
	make();
	size_t size, at = 0, last = 0;
	uint8_t *bytes = read_file(below(path, active), &size);
	wk_block_header header, found = {0};
	for (; wk_block_decode(bytes + at, size - at, &header) == WK_OK; at += header.size)
		if ((header.flags & WK_BLOCK_CONFIRM) == 0) {
			last = at;
			found = header;
		}
	CHECK(found.sequence > 0);
	memset(bytes + last + found.size, 0, size - last - found.size); /* what chained to it goes */
	bytes[last + 1000] ^= 1;
	wk_block_seal(bytes + last, &found);
	write_file(below(path, active), bytes, size);
	free(bytes);
	wk_verify_report report = verify(WK_DAMAGED);
	CHECK_EQ(report.damaged, 1);
	CHECK(strstr(report.first_damage, "digest") != NULL);
	remove_tree(path);
}

/* The footer written anew with one run or item changed: every page of it is whole. */
static void reseal(wk_footer_item *items, wk_footer_run *runs, wk_footer *footer, const uint8_t *whole, size_t size) {
	uint8_t *bytes = malloc(size);
	CHECK(bytes != NULL);
	memcpy(bytes, whole, size);
	uint64_t footer_size = wk_footer_size(footer->items_count, footer->runs_count, 0);
	wk_footer_encode(footer, items, runs, NULL, bytes + size - footer_size);
	write_file(below(path, sealed), bytes, size);
	free(bytes);
}

TEST(a_footer_that_says_something_else_than_the_blocks_is_found) {
	make();
	wk_footer footer = footer_of(sealed), changed;
	size_t size;
	uint8_t *whole = read_file(below(path, sealed), &size);
	static wk_footer_item items[WK_PAGE_ITEMS];
	static wk_footer_run runs[WK_PAGE_RUNS];
	uint32_t count;
	uint64_t item_page = wk_footer_item_page(&footer, 0), run_page = wk_footer_run_page(&footer, 0);
	CHECK_EQ(wk_footer_items(&footer, whole + item_page, item_page, items, &count), WK_OK);
	CHECK_EQ(wk_footer_runs(&footer, whole + run_page, run_page, runs, &count), WK_OK);
	reseal(items, runs, &footer, whole, size);
	verify(WK_OK);

	items[3].offset += 4;
	reseal(items, runs, &footer, whole, size);
	CHECK(strstr(verify(WK_DAMAGED).first_damage, "run of ledger") != NULL);
	items[3].offset -= 4;

	runs[0].first_entry += 1;
	reseal(items, runs, &footer, whole, size);
	CHECK(strstr(verify(WK_DAMAGED).first_damage, "run of ledger") != NULL);
	runs[0].first_entry -= 1;

	changed = footer; /* the last entry is missing */
	changed.items_count--;
	runs[footer.runs_count - 1].count--;
	runs[footer.runs_count - 1].bytes -= items[footer.items_count - 1].size;
	reseal(items, runs, &changed, whole, size);
	CHECK(strstr(verify(WK_DAMAGED).first_damage, "the blocks hold") != NULL);
	runs[footer.runs_count - 1].count++;
	runs[footer.runs_count - 1].bytes += items[footer.items_count - 1].size;

	changed = footer;
	changed.last_crc ^= 1;
	reseal(items, runs, &changed, whole, size);
	CHECK(strstr(verify(WK_DAMAGED).first_damage, "footer ends with block") != NULL);

	changed = footer;
	changed.first_previous_crc ^= 1;
	reseal(items, runs, &changed, whole, size);
	CHECK(verify(WK_DAMAGED).damaged >= 1);
	free(whole);
	remove_tree(path);
}

/* ---- entry logs ---- */

static void put_entry(uint8_t *at, int64_t entry_id, wk_footer_item *item, uint32_t offset) {
	wk_entry entry = {.ledger_id = 7,
	                  .entry_id = entry_id,
	                  .lac = entry_id - 1,
	                  .length = 5 * (entry_id + 1),
	                  .payload = (const uint8_t *)"hello",
	                  .payload_size = 5};
	wk_entry_encode_header(&entry, at);
	memcpy(at + WK_ENTRY_HEADER_SIZE, "hello", 5);
	*item = (wk_footer_item){offset, WK_ENTRY_HEADER_SIZE + 5};
}

TEST(a_bit_in_an_entry_log_is_found) {
	static const char *const log = "entries/0000000000000300.wke";
	enum { ENTRIES = 3, SIZE = 4 * 4096 };
	make();
	size_t size;
	uint8_t *slots = read_file(below(path, "superblock"), &size), *bytes = calloc(1, SIZE);
	wk_superblock superblock;
	CHECK(bytes != NULL && wk_superblock_choose(slots, &superblock) >= 0);
	wk_footer_item items[ENTRIES];
	uint32_t end = 0;
	for (int i = 0; i < ENTRIES; i++, end += 41)
		put_entry(bytes + end, i, &items[i], end);
	wk_footer_run run = {.ledger_id = 7, .bytes = 41 * ENTRIES, .count = ENTRIES};
	wk_footer footer = {.file_id = 0x300,
	                    .file_size = SIZE,
	                    .end_offset = end,
	                    .items_count = ENTRIES,
	                    .runs_count = 1,
	                    .kind = WK_FILE_ENTRY_LOG};
	memcpy(footer.directory_id, superblock.directory_id, sizeof footer.directory_id);
	wk_footer_encode(&footer, items, &run, NULL, bytes + 4096);
	write_file(below(path, log), bytes, SIZE);
	uint64_t entries = verify(WK_OK).entries;
	for (size_t at = 0; at < 41; at++)
		check_flip(log, 41 + at, "digest", 41);
	check_flip(log, 4096 + 10, "items", 4096);
	check_flip(log, 2 * 4096 + 10, "runs", 2 * 4096);
	check_flip(log, 3 * 4096 + 10, "last page", 3 * 4096);
	CHECK_EQ(unlink(below(path, log)), 0);
	CHECK_EQ(entries, verify(WK_OK).entries + ENTRIES);
	free(slots);
	free(bytes);
	remove_tree(path);
}

int main(void) {
	RUN(a_bit_in_a_block_of_a_sealed_file_is_found);
	RUN(a_bit_in_a_block_that_later_blocks_call_durable_is_found);
	RUN(a_bit_in_a_page_of_a_footer_is_found);
	RUN(a_bit_in_a_slot_of_the_superblock_is_found);
	RUN(two_bits_in_two_files_are_two_damages);
	RUN(every_gap_in_the_chain_is_counted_once);
	RUN(damage_where_two_files_meet_is_named_in_the_right_one);
	RUN(an_entry_that_differs_from_its_digest_is_found_in_a_whole_block);
	RUN(a_footer_that_says_something_else_than_the_blocks_is_found);
	RUN(a_bit_in_an_entry_log_is_found);
	return check_done();
}
