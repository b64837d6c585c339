/*
 * test_verify_index.c: what wk_verify_directory says of the index file: a warning where it is only a cache, damage where
 * states may be lost with it or it says something else than the footers.
 */
#include "engine/catalogue/snapshot.h"
#include "engine/directory/handles.h"
#include "verified_directory.h"

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

/* The log was truncated, so that its first file is not there any more. */
static void make_recycled(void) {
	make();
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	wk_position at;
	CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, 2 * BLOCKS_A_FILE, NULL, &at, NULL), WK_OK);
	wk_engine_lock(ns->engine);
	CHECK_EQ(wk_snapshot_write(ns->engine, NULL), WK_OK);
	CHECK_EQ(wk_snapshot_write(ns->engine, NULL), WK_OK); /* nothing needs the catalogue's first entries */
	wk_engine_unlock(ns->engine);
	CHECK_EQ(wk_log_truncate(log, &at.dlsn, false, NULL), WK_OK);
	for (int tries = 0; access(below(path, files[0]), F_OK) == 0 && tries < 2000; tries++)
		usleep(1000);
	CHECK(access(below(path, files[0]), F_OK) != 0);
	close_all(ns, log, writer);
	list_files();
}

TEST(an_index_that_cannot_be_read_is_loss_where_states_may_be_nowhere_else) {
	make_recycled();
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

int main(void) {
	RUN(an_index_that_is_whole_is_no_matter_for_a_word);
	RUN(a_bit_in_the_index_is_a_warning_while_every_file_is_there);
	RUN(an_index_that_cannot_be_read_is_loss_where_states_may_be_nowhere_else);
	RUN(an_index_that_says_something_else_than_the_footers_is_damage);
	return check_done();
}
