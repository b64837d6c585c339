/*
 * test_many_ledgers.c: so many ledgers in one journal file that its footer is collected, and its places leave memory,
 * under many holds of the lock. Meanwhile threads add to the same ledgers, read them, delete some, and ask for the
 * stats.
 */
#include "ledger_store.h"
#include "small_directory.h"
#include "watched_threads.h"

enum { LEDGERS = 8000, DELETED_EVERY = 16, ADDS = 500, ENTRIES = 12, SIZE = 64 };

static wk_namespace *ns;
static _Atomic int64_t entries_of_all; /* each ledger has at least so many */
static _Atomic int64_t deleted_below;

static bool is_deleted(int64_t ledger_id) {
	return ledger_id % DELETED_EVERY == 0;
}

static void fill(uint8_t bytes[SIZE], int64_t ledger_id, int64_t entry_id) {
	memset(bytes, (uint8_t)(ledger_id + entry_id), SIZE);
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_store_be64(bytes + 8, (uint64_t)entry_id);
}

/* The entry of every ledger that stays, or of every one. */
static void add_to_all(int64_t entry_id, bool every) {
	static uint8_t bytes[ADDS][SIZE];
	static wk_add adds[ADDS];
	for (int64_t ledger_id = 0; ledger_id < LEDGERS;) {
		size_t count = 0;
		for (; ledger_id < LEDGERS && count < ADDS; ledger_id++) {
			if (!every && is_deleted(ledger_id))
				continue;
			fill(bytes[count], ledger_id, entry_id);
			adds[count] = an_add(bytes[count], SIZE, 0);
			count++;
		}
		wk_error error = {0};
		check_ok(wk_ledger_add(ns, adds, count, UINT64_MAX, true, &error), &error, "the adds");
	}
	atomic_store(&entries_of_all, entry_id + 1);
}

static void check_entry(int64_t ledger_id, int64_t entry_id) {
	uint8_t expected[SIZE];
	wk_entry_batch *batch = NULL;
	wk_error error = {0};
	check_ok(wk_ledger_read(ns, ledger_id, entry_id, 1, SIZE, &batch, &error), &error, "the entry is read");
	size_t count;
	const wk_stored_entry *entries = wk_entry_batch_entries(batch, &count);
	fill(expected, ledger_id, entry_id);
	CHECK_EQ(count, 1);
	CHECK_EQ(entries[0].size, SIZE);
	CHECK(memcmp(entries[0].bytes, expected, SIZE) == 0);
	wk_entry_batch_release(batch);
}

static void *read_some(void *context) {
	(void)context;
	uint64_t seed = 1;
	while (goes_on()) {
		int64_t ledger_id = (int64_t)(check_random(&seed) % LEDGERS);
		int64_t entry_id = (int64_t)(check_random(&seed) % (uint64_t)atomic_load(&entries_of_all));
		if (!is_deleted(ledger_id)) {
			check_entry(ledger_id, entry_id);
			continue;
		}
		wk_entry_batch *batch = NULL;
		wk_error error = {0};
		wk_status status = wk_ledger_read(ns, ledger_id, 0, 1, SIZE, &batch, &error);
		MAY_BE(status, &error, WK_NO_LEDGER);
		if (status == WK_OK)
			wk_entry_batch_release(batch);
	}
	return NULL;
}

static void *delete_some(void *context) {
	(void)context;
	for (int64_t id = 0; id < LEDGERS && goes_on(); id += DELETED_EVERY) {
		wk_error error = {0};
		check_ok(wk_ledger_delete(ns, id, UINT64_MAX, NULL, &error), &error, "the deletion");
		atomic_store(&deleted_below, id + 1);
	}
	return NULL;
}

static void *ask_for_stats(void *context) {
	(void)context;
	while (goes_on()) {
		wk_stats stats;
		wk_namespace_stats(ns, &stats);
		CHECK(stats.memory_logs > 0);
		nap_us(2000);
	}
	return NULL;
}

static void open_store_at(const char *path) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.kind = WK_KIND_LEDGERS;
	options.file_size_min = options.file_size_max = 2 * 1024 * 1024;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
}

static void check_all(void) {
	for (int64_t ledger_id = 1; ledger_id < LEDGERS; ledger_id += 7)
		for (int64_t entry_id = 0; entry_id < ENTRIES && !is_deleted(ledger_id); entry_id++)
			check_entry(ledger_id, entry_id);
}

TEST(a_file_of_many_ledgers_is_sealed_while_they_are_used) {
	char path[64];
	strcpy(path, temporary());
	open_store_at(path);
	add_to_all(0, true);
	start_thread("read", read_some, NULL);
	start_thread("delete", delete_some, NULL);
	start_thread("stats", ask_for_stats, NULL);
	for (int64_t entry_id = 1; entry_id < ENTRIES; entry_id++)
		add_to_all(entry_id, false);
	while (atomic_load(&deleted_below) <= LEDGERS - DELETED_EVERY)
		nap_us(1000);
	watch(0);
	check_all();
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	CHECK(stats.journal_files > 2);
	wk_error error = {0};
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
	open_store_at(path);
	check_all();
	for (int64_t ledger_id = 0; ledger_id < LEDGERS; ledger_id += DELETED_EVERY) {
		wk_entry_batch *batch = NULL;
		CHECK_EQ(wk_ledger_read(ns, ledger_id, 0, 1, SIZE, &batch, &error), WK_NO_LEDGER);
	}
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
	remove_tree(path);
}

int main(void) {
	RUN(a_file_of_many_ledgers_is_sealed_while_they_are_used);
	return check_done();
}
