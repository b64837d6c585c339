/*
 * test_ledger_remedies.c: what is said of a damaged ledger store is true of one: its index file is no cache, and
 * `walkeeper recover` and ignore_footers are for logs.
 */
#include "ledger_store.h"
#include "small_directory.h"
#include "walkeeper/inspect.h"

#include <dirent.h>

enum { ENTRIES = 60, SIZE = 3000 };

static wk_status open_real(const char *path, wk_namespace **ns, wk_error *error) {
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	*ns = NULL;
	return wk_open(path, &options, ns, error);
}

/* A store with so many entries, one a block; none of its ledgers has a key. */
static wk_namespace *fill(const char *path, int64_t entries) {
	static uint8_t bytes[SIZE];
	wk_namespace *ns;
	wk_error error = {0};
	check_ok(open_real(path, &ns, &error), &error, "the store opens");
	for (int64_t id = 0; id < entries; id++) {
		wk_store_be64(bytes, 1);
		wk_store_be64(bytes + 8, (uint64_t)id);
		wk_add add = {.bytes = bytes, .size = sizeof bytes};
		CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
		work(ns);
	}
	return ns;
}

/* A closed store of a few files. */
static void make_store(const char *path) {
	close_store(fill(path, ENTRIES));
}

/* The one file in this folder that has the highest name; good until the next call. */
static const char *last_in(const char *path, const char *folder) {
	static char found[300];
	char last[256] = "";
	DIR *listing = opendir(below(path, folder));
	CHECK(listing != NULL);
	for (struct dirent *one; (one = readdir(listing)) != NULL;)
		if (one->d_name[0] == '0' && strcmp(one->d_name, last) > 0)
			snprintf(last, sizeof last, "%s", one->d_name);
	closedir(listing);
	CHECK(last[0] != 0);
	snprintf(found, sizeof found, "%s/%s/%.100s", path, folder, last);
	return found;
}

static bool names_what_is_for_logs(const char *text) {
	return strstr(text, "walkeeper recover") != NULL || strstr(text, "ignore_footers") != NULL ||
	       strstr(text, "footers are read") != NULL || strstr(text, "cache") != NULL;
}

/* It cannot be opened, and verify says so. */
static void is_told(const char *path) {
	wk_verify_report report;
	wk_error error = {0};
	wk_namespace *ns;
	CHECK_EQ(wk_verify_directory(path, 0, NULL, NULL, &report, &error), WK_DAMAGED);
	CHECK(report.damaged > 0);
	CHECK(strstr(report.first_damage, "other copies") != NULL);
	CHECK(!names_what_is_for_logs(report.first_damage));
	CHECK_EQ(open_real(path, &ns, &error), WK_DAMAGED);
	CHECK(strstr(error.text, "other copies") != NULL);
	CHECK(!names_what_is_for_logs(error.text));
}

TEST(an_index_that_is_missing_is_damage) {
	const char *path = temporary();
	make_store(path);
	CHECK_EQ(unlink(last_in(path, "index")), 0);
	is_told(path);
	remove_tree(path);
}

TEST(an_index_that_is_not_whole_is_damage) {
	const char *path = temporary();
	make_store(path);
	flip_bit(last_in(path, "index"), 4096 + 100);
	is_told(path);
	remove_tree(path);
}

TEST(a_damaged_entry_is_told_with_what_helps) {
	const char *path = temporary();
	make_store(path);
	flip_bit(below(path, "journal/0000000000000001.wkj"), 1000);
	wk_namespace *ns;
	wk_error error = {0};
	wk_status status = open_real(path, &ns, &error);
	for (int64_t id = 0; status == WK_OK && id < ENTRIES; id++) {
		wk_entry_batch *batch = NULL;
		status = wk_ledger_read(ns, 1, id, 1, 1 << 20, &batch, &error);
		wk_entry_batch_release(batch);
	}
	CHECK_EQ(status, WK_DAMAGED);
	CHECK(strstr(error.text, "other copies") != NULL);
	CHECK(!names_what_is_for_logs(error.text));
	if (ns != NULL)
		close_store(ns);
	remove_tree(path);
}

TEST(a_damaged_block_in_the_journal_is_told_with_what_helps) {
	const char *path = temporary();
	wk_abandon(fill(path, 5));
	flip_bit(below(path, "journal/0000000000000001.wkj"), 4096 + 1000);
	wk_namespace *ns;
	wk_error error = {0};
	CHECK_EQ(open_real(path, &ns, &error), WK_DAMAGED);
	CHECK(strstr(error.text, "other copies") != NULL);
	CHECK(!names_what_is_for_logs(error.text));
	remove_tree(path);
}

/* A page of items: the last page of the file is the trailer. */
TEST(a_damaged_page_of_an_index_is_told_with_what_helps) {
	const char *path = temporary();
	make_store(path);
	char first[300];
	snprintf(first, sizeof first, "%s", below(path, "journal/0000000000000001.wkj"));
	size_t size;
	free(read_file(first, &size));
	for (size_t page = 2; page <= 3; page++)
		flip_bit(first, size - page * 4096 + 100);
	wk_namespace *ns;
	wk_error error = {0};
	check_ok(open_real(path, &ns, &error), &error, "the store opens: its index knows the file");
	wk_entry_batch *batch = NULL;
	CHECK_EQ(wk_ledger_read(ns, 1, 0, 1, 1 << 20, &batch, &error), WK_DAMAGED);
	CHECK(strstr(error.text, "other copies") != NULL);
	CHECK(!names_what_is_for_logs(error.text));
	close_store(ns);
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	options.ignore_footers = true;
	CHECK_EQ(wk_open(path, &options, &ns, &error), WK_OK);
	CHECK_EQ(wk_ledger_read(ns, 1, 0, 1, 1 << 20, &batch, &error), WK_DAMAGED); /* as is said: it does not help */
	close_store(ns);
	remove_tree(path);
}

int main(void) {
	RUN(an_index_that_is_missing_is_damage);
	RUN(an_index_that_is_not_whole_is_damage);
	RUN(a_damaged_entry_is_told_with_what_helps);
	RUN(a_damaged_block_in_the_journal_is_told_with_what_helps);
	RUN(a_damaged_page_of_an_index_is_told_with_what_helps);
	return check_done();
}
