/*
 * test_ledger_sort_threads.c: while the keeper sorts interleaved files of a real directory, threads add to their
 * ledgers, read them, delete some, and ask for the stats.
 */
#include "ledger_store.h"
#include "small_directory.h"
#include "watched_threads.h"

enum {
	LEDGERS_MAX = 2400,
	FILES_MAX = 12, /* of the journal: adds wait where the mover does not come after */
	DELETED_EVERY = 16,
	SIZE = 100,
	ADDS = 500,
	READ_AT_ONCE = 40,
	ENTRIES_MAX = 20000,
};

/* In the second one a pass is adopted under more than one hold of the lock. */
static const struct {
	int64_t ledgers;
	uint64_t file_size, sort_memory, enough; /* bytes sorted */
} cases[] = {{64, 256 << 10, 192 << 10, 2 << 20}, {LEDGERS_MAX, 1 << 20, 1 << 20, 4 << 20}};
static size_t number;
static wk_namespace *ns;
static _Atomic int64_t entries_of_all; /* each ledger has so many */
static _Atomic int64_t deleted_below;

static bool is_deleted(int64_t ledger_id) {
	return ledger_id % DELETED_EVERY == 0;
}

static void fill(uint8_t bytes[SIZE], int64_t ledger_id, int64_t entry_id) {
	uint64_t seed = (uint64_t)ledger_id << 32 ^ (uint64_t)entry_id;
	check_random_bytes(&seed, bytes, SIZE);
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_store_be64(bytes + 8, (uint64_t)entry_id);
}

/* The entry of every ledger that stays, or of every one. */
static void add_to_all(int64_t entry_id, bool every) {
	static uint8_t bytes[ADDS][SIZE];
	static wk_add adds[ADDS];
	for (int64_t ledger_id = 0; ledger_id < cases[number].ledgers;) {
		size_t count = 0;
		for (; ledger_id < cases[number].ledgers && count < ADDS; ledger_id++) {
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

/* Some, from this one on; how many. */
static size_t check_entries(int64_t ledger_id, int64_t first) {
	uint8_t expected[SIZE];
	wk_entry_batch *batch = NULL;
	wk_error error = {0};
	check_ok(wk_ledger_read(ns, ledger_id, first, READ_AT_ONCE, READ_AT_ONCE * SIZE, &batch, &error), &error,
	         "entries are read");
	size_t count;
	const wk_stored_entry *entries = wk_entry_batch_entries(batch, &count);
	CHECK(count > 0);
	for (size_t i = 0; i < count; i++) {
		fill(expected, ledger_id, first + (int64_t)i);
		CHECK_EQ(entries[i].size, SIZE);
		CHECK(memcmp(entries[i].bytes, expected, SIZE) == 0);
	}
	wk_entry_batch_release(batch);
	return count;
}

static void *read_some(void *context) {
	uint64_t seed = (uint64_t)(uintptr_t)context;
	while (goes_on()) {
		int64_t ledger_id = (int64_t)(check_random(&seed) % (uint64_t)cases[number].ledgers);
		int64_t entry_id = (int64_t)(check_random(&seed) % (uint64_t)atomic_load(&entries_of_all));
		if (!is_deleted(ledger_id)) {
			check_entries(ledger_id, entry_id);
			continue;
		}
		wk_entry_batch *batch = NULL; /* it has its first entry, or is gone */
		wk_error error = {0};
		wk_status status = wk_ledger_read(ns, ledger_id, 0, 1, SIZE, &batch, &error);
		MAY_BE(status, &error, WK_NO_LEDGER);
		if (status == WK_OK)
			wk_entry_batch_release(batch);
	}
	return NULL;
}

/* One after the other, as what is sorted grows: some of them in the middle of a pass. */
static void *delete_some(void *context) {
	(void)context;
	for (int64_t id = 0; id < cases[number].ledgers && goes_on();) {
		wk_stats stats;
		wk_namespace_stats(ns, &stats);
		if (stats.memory_sort == 0 && stats.sorted_bytes < cases[number].enough)
			continue;
		wk_error error = {0};
		check_ok(wk_ledger_delete(ns, id, UINT64_MAX, NULL, &error), &error, "the deletion");
		id += DELETED_EVERY;
		atomic_store(&deleted_below, id);
	}
	return NULL;
}

static void open_store_at(const char *path) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.kind = WK_KIND_LEDGERS;
	options.file_size_min = options.file_size_max = cases[number].file_size;
	options.memtable_bytes = 256 * 1024;
	options.sort_memory = cases[number].sort_memory;
	options.sort_wait_ns = 1;
	options.compact_rate = 1 << 30;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
}

static void check_all(void) {
	for (int64_t ledger_id = 0; ledger_id < cases[number].ledgers; ledger_id++) {
		for (int64_t id = 0; id < atomic_load(&entries_of_all) && !is_deleted(ledger_id);)
			id += (int64_t)check_entries(ledger_id, id);
		wk_ledger_info info;
		CHECK_EQ(wk_ledger_describe(ns, ledger_id, &info, NULL), is_deleted(ledger_id) ? WK_NO_LEDGER : WK_OK);
	}
}

static void sort_while_used(void) {
	char path[64];
	strcpy(path, temporary());
	atomic_store(&stop, false);
	atomic_store(&deleted_below, 0);
	open_store_at(path);
	add_to_all(0, true);
	start_thread("read", read_some, (void *)1);
	start_thread("read", read_some, (void *)2);
	start_thread("delete", delete_some, NULL);
	wk_stats stats = {0};
	for (int64_t id = 1;
	     stats.sorted_bytes < cases[number].enough || atomic_load(&deleted_below) < cases[number].ledgers;) {
		CHECK(id < ENTRIES_MAX);
		if (stats.journal_files < FILES_MAX)
			add_to_all(id++, false);
		else
			nap_us(1000);
		wk_namespace_stats(ns, &stats);
	}
	watch(0);
	CHECK(stats.entry_logs > 0);
	check_all();
	for (int round = 0; round < 2; round++) {
		wk_error error = {0};
		check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
		open_store_at(path);
		check_all();
	}
	wk_error error = {0};
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
	remove_tree(path);
}

TEST(files_are_sorted_while_their_ledgers_are_used) {
	number = 0;
	sort_while_used();
}

TEST(files_of_thousands_of_ledgers_are_too) {
	number = 1;
	sort_while_used();
}

int main(void) {
	RUN(files_are_sorted_while_their_ledgers_are_used);
	RUN(files_of_thousands_of_ledgers_are_too);
	return check_done();
}
