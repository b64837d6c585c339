/*
 * test_verify.c: wk_verify_directory: one bit turned in any structure of a real directory is found and named; what was
 * never acknowledged, and what changes because the directory is in use, is no damage.
 */
#include "small_directory.h"
#include "walkeeper/entry.h"
#include "walkeeper/footer.h"
#include "walkeeper/index_file.h"
#include "walkeeper/inspect.h"
#include "walkeeper/superblock.h"
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { FILES_MAX = 16, BLOCKS_A_FILE = 13 }; /* one record a block, a block a page, three pages of footer */
static const char *path;                     /* of the directory under test */
static char files[FILES_MAX][64];            /* its journal files that hold blocks, in order */
static size_t files_count;
static const char *sealed, *active; /* the second of them, and the last */

static wk_verify_report verify(wk_status expected) {
	wk_verify_report report;
	wk_error error = {0};
	wk_status status = wk_verify_directory(path, 0, NULL, NULL, &report, &error);
	if (status != expected)
		printf("%s\n", report.first_damage);
	CHECK_EQ(status, expected);
	CHECK_EQ(report.damaged > 0, expected == WK_DAMAGED);
	return report;
}

/* Blocks that stand in a file of this name, from its start. */
static size_t count_blocks(const char *name) {
	size_t size, count = 0;
	uint8_t *bytes = read_file(below(path, name), &size);
	wk_block_header header;
	for (size_t at = 0; wk_block_decode(bytes + at, size - at, &header) == WK_OK &&
	                    header.epoch == strtoull(strchr(name, '/') + 1, NULL, 16);
	     at += header.size)
		count++;
	free(bytes);
	return count;
}

static int is_journal_file(const struct dirent *entry) {
	return strstr(entry->d_name, ".wkj") != NULL;
}

/* Ids may skip: the journal does not wait for a file that is being prepared. */
static void list_files(void) {
	struct dirent **names;
	int count = scandir(below(path, "journal"), &names, is_journal_file, alphasort);
	files_count = 0;
	for (int i = 0; i < count; i++) {
		snprintf(files[files_count], sizeof files[0], "journal/%.32s", names[i]->d_name);
		free(names[i]);
		files_count += count_blocks(files[files_count]) > 0;
		CHECK(files_count < FILES_MAX);
	}
	free(names);
}

/* Four files or more that are sealed, and one with room for more that holds some blocks. */
static void make(void) {
	path = temporary();
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	do {
		append_one(writer);
		list_files();
	} while (files_count < 5 || count_blocks(files[files_count - 1]) < 5);
	close_all(ns, log, writer);
	list_files();
	sealed = files[1];
	active = files[files_count - 1];
	CHECK(count_blocks(active) < BLOCKS_A_FILE);
}

/* One bit of the file at `offset` turned: found once, and the file and its place named; turned back: clean again. */
static void check_flip(const char *name, size_t offset, const char *what, size_t named_offset) {
	char number[40];
	snprintf(number, sizeof number, "offset %zu", named_offset);
	flip_bit(below(path, name), offset);
	wk_verify_report report = verify(WK_DAMAGED);
	bool named = strstr(report.first_damage, name) != NULL && strstr(report.first_damage, number) != NULL &&
	             strstr(report.first_damage, what) != NULL;
	if (!named)
		printf("%s at %zu: %s\n", name, offset, report.first_damage);
	CHECK(named);
	CHECK_EQ(report.damaged, 1);
	flip_bit(below(path, name), offset);
	verify(WK_OK);
}

static wk_footer footer_of(const char *name) {
	size_t size;
	uint8_t *bytes = read_file(below(path, name), &size);
	wk_footer footer;
	CHECK_EQ(wk_footer_decode(bytes + size - WK_PAGE_SIZE, &footer), WK_OK);
	free(bytes);
	return footer;
}

/* The index file that the superblock names; empty: none. */
static const char *index_name(void) {
	static char name[64];
	size_t size;
	uint8_t *slots = read_file(below(path, "superblock"), &size);
	wk_superblock superblock;
	CHECK(wk_superblock_choose(slots, &superblock) >= 0);
	free(slots);
	snprintf(name, sizeof name, "index/%016llx.wki", (unsigned long long)superblock.index_generation);
	return name;
}

/* Footers are no cache any more where the index is believed: without it, one may be missing. */
static void forget_index(void) {
	CHECK_EQ(unlink(below(path, index_name())), 0);
}

/* ---- whole ---- */

TEST(a_directory_closed_in_order_is_clean) {
	make();
	wk_verify_report report = verify(WK_OK);
	CHECK_EQ(report.damaged, 0);
	CHECK_EQ(report.torn_tail_bytes, 0);
	CHECK_EQ(report.first_damage[0], 0);
	CHECK_EQ(report.blocks, 4 * BLOCKS_A_FILE + count_blocks(active));
	CHECK(report.entries >= report.blocks - 5); /* confirm blocks have none */
	CHECK(report.files >= 6);                   /* the superblock, five with blocks, perhaps the next one */
	CHECK(report.bytes >= 5 * SMALL_FILE_SIZE);
	remove_tree(path);
}

TEST(what_is_not_there_is_said_to_be_so) {
	wk_verify_report report;
	wk_error error = {0};
	CHECK_EQ(wk_verify_directory("/tmp/walkeeper-no-such-directory", 0, NULL, NULL, &report, &error), WK_NOT_FOUND);
	CHECK(strstr(error.text, "does not exist") != NULL);
	path = temporary();
	CHECK_EQ(wk_verify_directory(path, 0, NULL, NULL, &report, &error), WK_NOT_FOUND);
	CHECK(strstr(error.text, "no superblock") != NULL);
	remove_tree(path);
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

/* ---- what is no damage ---- */

/* Where the last block of the active file stands. */
static size_t last_block(size_t *size_of_it) {
	size_t size, last = 0;
	uint8_t *bytes = read_file(below(path, active), &size);
	wk_block_header header;
	for (size_t at = 0; wk_block_decode(bytes + at, size - at, &header) == WK_OK; at += header.size) {
		last = at;
		*size_of_it = header.size;
	}
	free(bytes);
	return last;
}

TEST(a_torn_tail_is_no_damage) {
	make();
	size_t size = 0, at = last_block(&size);
	flip_bit(below(path, active), at + 90);
	wk_verify_report report = verify(WK_OK);
	CHECK_EQ(report.torn_tail_bytes, size);
	CHECK_EQ(report.damaged, 0);
	remove_tree(path);
}

TEST(an_unfinished_last_file_is_no_damage) {
	make();
	size_t size = 0, at = last_block(&size);
	CHECK_EQ(truncate(below(path, active), (off_t)(at + 512)), 0); /* a file that lost its end to a power cut */
	wk_verify_report report = verify(WK_OK);
	CHECK(report.torn_tail_bytes > 0);
	remove_tree(path);
}

TEST(the_bytes_of_prepared_files_do_not_matter) {
	make();
	size_t size;
	uint8_t *bytes = read_file(below(path, sealed), &size);
	write_file(below(path, "journal/prepared-0000000000000077.wkp"), bytes, size); /* as recycling leaves it */
	write_file(below(path, "journal/0000000000000200.wkj"), bytes, size); /* and named, before its first block */
	free(bytes);
	CHECK_EQ(verify(WK_OK).torn_tail_bytes, 0);
	remove_tree(path);
}

TEST(files_between_that_were_recycled_are_no_damage) {
	make();
	CHECK_EQ(unlink(below(path, files[0])), 0);
	CHECK_EQ(unlink(below(path, files[2])), 0);
	verify(WK_OK);
	CHECK_EQ(unlink(below(path, files[3])), 0); /* right before the active one */
	verify(WK_OK);
	remove_tree(path);
}

/* ---- the index ---- */

static wk_index_header index_header(void) {
	size_t size;
	uint8_t *bytes = read_file(below(path, index_name()), &size);
	wk_index_header header;
	CHECK_EQ(wk_index_decode(bytes, &header), WK_OK);
	CHECK_EQ(wk_index_size(header.files_count, header.ledgers_count, header.ranges_count), size);
	free(bytes);
	return header;
}

static void check_warning(const char *what) {
	wk_verify_report report = verify(WK_OK);
	bool named = strstr(report.first_warning, index_name()) != NULL && strstr(report.first_warning, what) != NULL &&
	             strstr(report.first_warning, "Nothing is lost") != NULL;
	if (!named)
		printf("%s\n", report.first_warning);
	CHECK(named);
	CHECK_EQ(report.warnings, 1);
}

TEST(an_index_that_is_whole_is_no_matter_for_a_word) {
	make();
	wk_index_header header = index_header();
	CHECK(header.files_count >= 4 && header.ranges_count >= 4);
	wk_verify_report report = verify(WK_OK);
	CHECK_EQ(report.warnings, 0);
	CHECK_EQ(report.first_warning[0], 0);
	remove_tree(path);
}

TEST(a_bit_in_the_index_is_a_warning_while_every_file_is_there) {
	make();
	wk_index_header header = index_header();
	size_t pages[] = {0, wk_index_file_page(&header, 0), wk_index_range_page(&header, 0)};
	static const char *const words[] = {"header", "page of files at offset 4096", "page of ranges at offset 8192"};
	for (size_t page = 0; page < 3; page++)
		for (size_t at = 0; at < 4096; at += 97) {
			flip_bit(below(path, index_name()), pages[page] + at);
			check_warning(words[page]);
			flip_bit(below(path, index_name()), pages[page] + at);
		}
	verify(WK_OK);
	size_t size;
	uint8_t *bytes = read_file(below(path, index_name()), &size);
	write_file(below(path, index_name()), bytes, size - 4096);
	check_warning("not as long");
	write_file(below(path, index_name()), bytes, 0);
	check_warning("header");
	free(bytes);
	forget_index();
	check_warning("not there");
	remove_tree(path);
}

TEST(an_index_that_cannot_be_read_is_loss_where_states_may_be_nowhere_else) {
	make();
	CHECK_EQ(unlink(below(path, files[0])), 0); /* recycled */
	CHECK_EQ(verify(WK_OK).warnings, 0);
	wk_index_header header = index_header();
	flip_bit(below(path, index_name()), wk_index_range_page(&header, 0));
	check_warning("page of ranges"); /* it holds no states, says its header */
	flip_bit(below(path, index_name()), wk_index_range_page(&header, 0));
	flip_bit(below(path, index_name()), 20);
	wk_verify_report report = verify(WK_DAMAGED);
	CHECK(strstr(report.first_damage, "if there were any, they are lost") != NULL);
	CHECK_EQ(report.damaged, 1);
	forget_index();
	report = verify(WK_DAMAGED);
	CHECK(strstr(report.first_damage, "if there were any, they are lost") != NULL);
	remove_tree(path);
}

/* The index is written again with range `at` shifted by one item, or file 0 with another incarnation. */
static void twist_index(bool range, uint32_t at) {
	size_t size;
	uint8_t *bytes = read_file(below(path, index_name()), &size);
	wk_index_header header = index_header();
	wk_footer files_named[WK_INDEX_PAGE_FILES];
	wk_index_range ranges[WK_INDEX_PAGE_RANGES];
	uint32_t count;
	CHECK(header.files_count <= WK_INDEX_PAGE_FILES && header.ranges_count <= WK_INDEX_PAGE_RANGES);
	CHECK_EQ(header.ledgers_count, 0);
	size_t offset = wk_index_file_page(&header, 0);
	CHECK_EQ(wk_index_files(&header, bytes + offset, offset, files_named, &count), WK_OK);
	offset = wk_index_range_page(&header, 0);
	CHECK_EQ(wk_index_ranges(&header, bytes + offset, offset, ranges, &count), WK_OK);
	if (range)
		ranges[at].start++;
	else
		files_named[at].incarnation++;
	wk_index_encode(&header, files_named, NULL, ranges, bytes);
	write_file(below(path, index_name()), bytes, size);
	free(bytes);
}

TEST(an_index_that_says_something_else_than_the_footers_is_damage) {
	make();
	twist_index(false, 1);
	wk_verify_report report = verify(WK_DAMAGED);
	CHECK_EQ(report.damaged, 1);
	CHECK(strstr(report.first_damage, index_name()) != NULL && strstr(report.first_damage, files[1]) != NULL);
	remove_tree(path);
	make();
	twist_index(true, 1);
	report = verify(WK_DAMAGED);
	CHECK_EQ(report.damaged, 1);
	CHECK(strstr(report.first_damage, index_name()) != NULL && strstr(report.first_damage, "range of ledger") != NULL);
	remove_tree(path);
}

/* ---- a directory in use ---- */

typedef struct busy {
	_Atomic bool stop, started;
} busy;

static void *append_and_truncate(void *context) {
	busy *b = context;
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	while (!atomic_load(&b->stop)) {
		int64_t at = append_one(writer);
		wk_position before;
		wk_error error = {0};
		if (at % 40 != 39)
			continue;
		atomic_store(&b->started, true);
		check_ok(wk_log_find(log, WK_FIND_SEQUENCE_ID, at - 20, NULL, &before, &error), &error, "finding the place");
		check_ok(wk_log_truncate(log, &before.dlsn, false, &error), &error, "truncating");
	}
	close_all(ns, log, writer);
	return NULL;
}

TEST(a_directory_that_is_written_and_recycled_meanwhile_is_clean) {
	make();
	busy b = {false, false};
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, append_and_truncate, &b), 0);
	while (!atomic_load(&b.started))
		usleep(1000);
	for (int i = 0; i < 60; i++)
		verify(WK_OK);
	atomic_store(&b.stop, true);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(verify(WK_OK).torn_tail_bytes, 0);
	remove_tree(path);
}

/* Work that is done between two reads of a verify. */
typedef struct burst {
	uint64_t calls, at;
	int records;
	bool truncates;
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
} burst;

static void work_until_idle(wk_namespace *ns) {
	bool idle = false;
	wk_error error = {0};
	for (int i = 0; i < 50 && !idle; i++)
		check_ok(wk_namespace_step(ns, &idle, &error), &error, "background work");
}

static void truncate_to_last(burst *b) {
	wk_position at;
	wk_error error = {0};
	wk_writer_next(b->writer, &at);
	check_ok(wk_log_find(b->log, WK_FIND_SEQUENCE_ID, at.sequence_id - 1, NULL, &at, &error), &error, "finding it");
	check_ok(wk_log_truncate(b->log, &at.dlsn, true, &error), &error, "truncating");
	work_until_idle(b->ns);
}

static bool on_the_way(void *context, uint64_t done, uint64_t total) {
	burst *b = context;
	(void)done;
	(void)total;
	if (b->calls++ != b->at)
		return true;
	for (int i = 0; i < b->records; i++) {
		append_one(b->writer);
		if (i % 5 == 0)
			work_until_idle(b->ns);
	}
	work_until_idle(b->ns);
	if (b->truncates)
		truncate_to_last(b);
	return true;
}

static void open_for_bursts(burst *b) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.manual = true;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &b->ns, &error), &error, "the directory opens");
	b->log = log_named(b->ns, "log");
	b->writer = writer_of(b->log);
}

/* Some files, the last with so many blocks, and behind it one that is prepared. */
static void fill_up_to(burst *b, size_t blocks) {
	truncate_to_last(b);
	for (int i = 0; i < 2 * BLOCKS_A_FILE; i++)
		append_one(b->writer);
	for (list_files(); count_blocks(files[files_count - 1]) != blocks; list_files())
		append_one(b->writer);
	work_until_idle(b->ns);
}

/* Whenever it happens: files that fill up, get footers, are let go or are used again while the others are read. */
TEST(whatever_is_written_between_two_reads_is_no_damage) {
	unsigned moments = 0;
	for (int i = 0; i < 2; i++) {
		make();
		burst b = {.records = BLOCKS_A_FILE + 3, .truncates = i == 1};
		open_for_bursts(&b);
		for (bool done = false; !done; b.at++, moments++) {
			wk_verify_report report;
			wk_error error = {0};
			fill_up_to(&b, BLOCKS_A_FILE - 1);
			b.calls = 0;
			wk_status status = wk_verify_directory(path, 0, on_the_way, &b, &report, &error);
			if (status != WK_OK)
				printf("%d records after %llu reads: %s\n", b.records, (unsigned long long)b.at, error.text);
			CHECK_EQ(status, WK_OK);
			done = b.calls <= b.at || b.at > 100;
		}
		close_all(b.ns, b.log, b.writer);
		verify(WK_OK);
		remove_tree(path);
	}
	CHECK(moments > 20);
}

/* ---- pace ---- */

typedef struct progress {
	uint64_t calls, done, total;
	uint64_t stop_after; /* calls; 0: never */
} progress;

static bool note(void *context, uint64_t done, uint64_t total) {
	progress *p = context;
	CHECK(done >= p->done && done <= total);
	p->calls++;
	p->done = done;
	p->total = total;
	return p->stop_after == 0 || p->calls < p->stop_after;
}

TEST(progress_grows_up_to_the_total) {
	make();
	progress p = {0};
	wk_verify_report report;
	CHECK_EQ(wk_verify_directory(path, 0, note, &p, &report, NULL), WK_OK);
	CHECK(p.calls > 5);
	CHECK(p.total >= 5 * SMALL_FILE_SIZE);
	CHECK_EQ(p.done, p.total);
	p = (progress){.stop_after = 3};
	CHECK_EQ(wk_verify_directory(path, 0, note, &p, &report, NULL), WK_INTERRUPTED);
	CHECK_EQ(p.calls, 3);
	remove_tree(path);
}

static double seconds(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

TEST(a_rate_is_kept) {
	make();
	wk_verify_report report;
	double begin = seconds();
	CHECK_EQ(wk_verify_directory(path, 1000000, NULL, NULL, &report, NULL), WK_OK);
	CHECK(seconds() - begin >= (double)report.bytes / 1e6 * 0.9);
	remove_tree(path);
}

int main(void) {
	RUN(a_directory_closed_in_order_is_clean);
	RUN(what_is_not_there_is_said_to_be_so);
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
	RUN(a_torn_tail_is_no_damage);
	RUN(an_unfinished_last_file_is_no_damage);
	RUN(the_bytes_of_prepared_files_do_not_matter);
	RUN(files_between_that_were_recycled_are_no_damage);
	RUN(an_index_that_is_whole_is_no_matter_for_a_word);
	RUN(a_bit_in_the_index_is_a_warning_while_every_file_is_there);
	RUN(an_index_that_cannot_be_read_is_loss_where_states_may_be_nowhere_else);
	RUN(an_index_that_says_something_else_than_the_footers_is_damage);
	RUN(a_directory_that_is_written_and_recycled_meanwhile_is_clean);
	RUN(whatever_is_written_between_two_reads_is_no_damage);
	RUN(progress_grows_up_to_the_total);
	RUN(a_rate_is_kept);
	return check_done();
}
