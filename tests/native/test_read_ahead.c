/*
 * test_read_ahead.c: a ledger that is read one entry after the other: how often the disk is asked, for how much, and
 * what becomes of damage, failing reads and files that go.
 */
#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"
#include <errno.h>

enum { ENTRIES = 600, SIZE = 3000, CACHE = 8 << 20 };

/* Files of a megabyte, and nothing in the memtable. */
static wk_open_options options_of(uint64_t cache_bytes) {
	wk_open_options options = store_options();
	options.file_size_min = options.file_size_max = 1 << 20;
	options.memtable_bytes = 1;
	options.cache_bytes = cache_bytes;
	return options;
}

static void add_one(wk_namespace *ns, int64_t ledger_id, int64_t entry_id) {
	static uint8_t bytes[SIZE];
	memset(bytes, (int)(uint8_t)((uint64_t)ledger_id * 7 + (uint64_t)entry_id), sizeof bytes);
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_store_be64(bytes + 8, (uint64_t)entry_id);
	wk_add add = an_add(bytes, sizeof bytes, 0);
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
}

/* In turn, `stretch` entries of each; then, opened anew, every file but the last is sealed. */
static wk_namespace *filled_with(wk_io *io, uint64_t cache_bytes, int64_t ledgers, int64_t entries, int64_t stretch) {
	wk_open_options options = options_of(cache_bytes);
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t at = 0; at < entries; at += stretch)
		for (int64_t ledger_id = 1; ledger_id <= ledgers; ledger_id++)
			for (int64_t id = at; id < at + stretch; id++)
				add_one(ns, ledger_id, id);
	work(ns);
	close_store(ns);
	return open_store_with(io, &options);
}

static wk_status try_read(wk_namespace *ns, int64_t ledger_id, int64_t entry_id) {
	wk_entry_batch *batch;
	size_t count;
	wk_status status = wk_ledger_read(ns, ledger_id, entry_id, 1, 1 << 20, &batch, NULL);
	if (status != WK_OK)
		return status;
	const wk_stored_entry *entries = wk_entry_batch_entries(batch, &count);
	CHECK_EQ(count, 1);
	CHECK_EQ(entries[0].size, SIZE);
	CHECK_EQ(wk_load_be64(entries[0].bytes), (uint64_t)ledger_id);
	CHECK_EQ(wk_load_be64(entries[0].bytes + 8), (uint64_t)entry_id);
	for (size_t i = 16; i < SIZE; i++)
		CHECK_EQ(entries[0].bytes[i], (uint8_t)((uint64_t)ledger_id * 7 + (uint64_t)entry_id));
	CHECK(wk_entry_batch_memory(batch) < 16 * 1024); /* it does not hold a window */
	wk_entry_batch_release(batch);
	return WK_OK;
}

static void read_one(wk_namespace *ns, int64_t ledger_id, int64_t entry_id) {
	CHECK_EQ(try_read(ns, ledger_id, entry_id), WK_OK);
}

static uint64_t cached(wk_namespace *ns) {
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	return stats.memory_cache;
}

TEST(who_goes_on_from_entry_to_entry_asks_the_disk_seldom) {
	wk_io *io = new_disk(1);
	wk_namespace *ns = filled_with(io, CACHE, 1, ENTRIES, 1);
	wk_faulty *disk = wk_faulty_of(io);
	uint64_t calls = wk_faulty_calls(disk, WK_FAULT_READ), bytes = wk_faulty_read_bytes(disk);
	for (int64_t id = 0; id < 400; id++)
		read_one(ns, 1, id);
	CHECK(wk_faulty_calls(disk, WK_FAULT_READ) - calls < 30);
	CHECK(wk_faulty_read_bytes(disk) - bytes < 400 * SIZE * 2);
	kill_store(ns, io);
	io->operations->destroy(io);
}

TEST(who_reads_here_and_there_is_given_what_was_asked_for) {
	wk_io *io = new_disk(2);
	wk_namespace *ns = filled_with(io, CACHE, 1, ENTRIES, 1);
	wk_faulty *disk = wk_faulty_of(io);
	uint64_t bytes = wk_faulty_read_bytes(disk);
	for (int64_t i = 0; i < 200; i++)
		read_one(ns, 1, i * 211 % 500);
	CHECK(wk_faulty_read_bytes(disk) - bytes < 200 * 16 * 1024);
	kill_store(ns, io);
	io->operations->destroy(io);
}

/* As several threads read for one client that has many reads under way. */
TEST(reads_that_overtake_each_other_are_one_pattern_too) {
	wk_io *io = new_disk(3);
	wk_namespace *ns = filled_with(io, CACHE, 1, ENTRIES, 1);
	wk_faulty *disk = wk_faulty_of(io);
	uint64_t calls = wk_faulty_calls(disk, WK_FAULT_READ), chance = 3;
	for (int64_t at = 0; at < 400; at += 8) {
		int64_t order[8] = {0, 1, 2, 3, 4, 5, 6, 7};
		for (int i = 7; i > 0; i--) {
			int other = (int)(check_random(&chance) % (uint64_t)(i + 1));
			int64_t kept = order[i];
			order[i] = order[other];
			order[other] = kept;
		}
		for (int i = 0; i < 8; i++)
			read_one(ns, 1, at + order[i]);
	}
	CHECK(wk_faulty_calls(disk, WK_FAULT_READ) - calls < 130);
	kill_store(ns, io);
	io->operations->destroy(io);
}

TEST(one_ledgers_window_serves_those_that_stand_between) {
	wk_io *io = new_disk(4);
	wk_namespace *ns = filled_with(io, CACHE, 4, ENTRIES / 4, 1);
	wk_faulty *disk = wk_faulty_of(io);
	uint64_t calls = wk_faulty_calls(disk, WK_FAULT_READ);
	for (int64_t id = 0; id < 100; id++)
		for (int64_t ledger_id = 1; ledger_id <= 4; ledger_id++)
			read_one(ns, ledger_id, id);
	CHECK(wk_faulty_calls(disk, WK_FAULT_READ) - calls < 60);
	kill_store(ns, io);
	io->operations->destroy(io);
}

TEST(all_windows_together_keep_their_limit) {
	enum { LEDGERS = 24, SMALL = 1 << 20 };
	wk_io *io = new_disk(5);
	wk_namespace *ns = filled_with(io, SMALL, LEDGERS, 100, 100);
	uint64_t most = 0;
	for (int64_t id = 0; id < 100; id++)
		for (int64_t ledger_id = 1; ledger_id < LEDGERS; ledger_id++) {
			read_one(ns, ledger_id, id);
			most = cached(ns) > most ? cached(ns) : most;
		}
	CHECK(most > SMALL / 8);
	CHECK(most <= SMALL);
	kill_store(ns, io);
	io->operations->destroy(io);
}

TEST(without_a_cache_nothing_is_read_ahead) {
	wk_io *io = new_disk(6);
	wk_namespace *ns = filled_with(io, 1, 1, ENTRIES, 1);
	uint64_t bytes = wk_faulty_read_bytes(wk_faulty_of(io));
	for (int64_t id = 0; id < 100; id++)
		read_one(ns, 1, id);
	CHECK(wk_faulty_read_bytes(wk_faulty_of(io)) - bytes < 100 * 32 * 1024);
	kill_store(ns, io);
	io->operations->destroy(io);
}

/* Its bytes are still to come. */
TEST(the_file_that_is_written_is_not_read_ahead) {
	wk_io *io = new_disk(7);
	wk_open_options options = options_of(CACHE);
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t id = 0; id < 100; id++) {
		add_one(ns, 1, id);
		read_one(ns, 1, id);
		CHECK_EQ(cached(ns), 0);
	}
	kill_store(ns, io);
	io->operations->destroy(io);
}

TEST(a_window_that_cannot_be_read_is_no_reason_to_fail) {
	wk_io *io = new_disk(8);
	wk_namespace *ns = filled_with(io, CACHE, 1, ENTRIES, 1);
	wk_faulty *disk = wk_faulty_of(io);
	read_one(ns, 1, 0);
	read_one(ns, 1, 1);
	uint64_t before = cached(ns);
	wk_faulty_fail(disk, WK_FAULT_READ, 0, EIO, false);
	read_one(ns, 1, 2); /* the third in a row: its window fails, and it is read alone */
	CHECK_EQ(cached(ns), before);
	read_one(ns, 1, 3);
	CHECK(cached(ns) > before);
	kill_store(ns, io);
	io->operations->destroy(io);
}

/* Which file the entry is in, and where. */
static uint64_t place_of(wk_namespace *ns, wk_io *io, int64_t ledger_id, int64_t entry_id, char path[64]) {
	static uint8_t bytes[1 << 20];
	uint8_t head[16];
	wk_store_be64(head, (uint64_t)ledger_id);
	wk_store_be64(head + 8, (uint64_t)entry_id);
	for (uint32_t i = 0; i < ns->engine->files_count; i++) {
		snprintf(path, 64, "store/%s", wk_file_name_of(ns->engine->files[i]->id, ns->engine->files[i]->kind).text);
		int64_t size = wk_faulty_read_file(wk_faulty_of(io), path, bytes, sizeof bytes, 0);
		const uint8_t *found = size > 0 ? memmem(bytes, (size_t)size, head, sizeof head) : NULL;
		if (found != NULL)
			return (uint64_t)(found - bytes);
	}
	check_failed(__FILE__, __LINE__, "the entry is in a file");
	return 0;
}

TEST(damage_in_a_window_is_told_of_its_entry_alone_and_for_as_long_as_it_is_there) {
	wk_io *io = new_disk(9);
	wk_namespace *ns = filled_with(io, CACHE, 1, ENTRIES, 1);
	char path[64];
	uint64_t at = place_of(ns, io, 1, 20, path) + 100;
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), path, at, 5), 0);
	for (int64_t id = 0; id < 40; id++)
		CHECK_EQ(try_read(ns, 1, id), id == 20 ? WK_DAMAGED : WK_OK);
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), path, at, 5), 0);
	read_one(ns, 1, 20);
	kill_store(ns, io);
	io->operations->destroy(io);
}

/* It was the read that was bad, of a bus or of memory: the file has what was written. */
TEST(a_window_that_is_bad_itself_is_read_again) {
	wk_io *io = new_disk(10);
	wk_namespace *ns = filled_with(io, CACHE, 1, ENTRIES, 1);
	char path[64];
	uint64_t at = place_of(ns, io, 1, 20, path) + 100;
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), path, at, 5), 0);
	for (int64_t id = 0; id < 10; id++)
		read_one(ns, 1, id);
	CHECK(cached(ns) > 0);
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), path, at, 5), 0);
	for (int64_t id = 10; id < 40; id++)
		read_one(ns, 1, id);
	kill_store(ns, io);
	io->operations->destroy(io);
}

TEST(the_scrub_sees_the_disk_and_no_window) {
	wk_io *io = new_disk(12);
	wk_open_options options = options_of(CACHE);
	options.scrub_rate = 1 << 30;
	wk_namespace *ns = filled_with(io, CACHE, 60, 16, 16);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	ns = open_store_with(io, &options);
	for (int64_t id = 0; id < 6; id++)
		read_one(ns, 5, id);
	CHECK(cached(ns) > 0);
	char path[64];
	uint64_t at = place_of(ns, io, 5, 10, path) + 100;
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), path, at, 5), 0);
	wk_stats stats = {0};
	for (int i = 0; i < 100000 && stats.scrub_damaged == 0; i++) {
		bool idle;
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
		wk_namespace_stats(ns, &stats);
		if (stats.scrubbed_bytes > 2 * 60 * 16 * SIZE)
			break;
	}
	CHECK(stats.scrub_damaged > 0);
	kill_store(ns, io);
	io->operations->destroy(io);
}

/* Windows would be in vain. */
TEST(a_ledger_with_an_entry_in_each_file_is_not_read_ahead) {
	wk_io *io = new_disk(13);
	wk_open_options options = options_of(CACHE);
	options.sort_memory = UINT64_MAX;
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t id = 0; id < 20; id++)
		for (int64_t ledger_id = 1; ledger_id <= 400; ledger_id++)
			add_one(ns, ledger_id, id);
	work(ns);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	ns = open_store_with(io, &options);
	uint64_t bytes = wk_faulty_read_bytes(wk_faulty_of(io));
	for (int64_t id = 0; id < 20; id++)
		read_one(ns, 7, id);
	CHECK(wk_faulty_read_bytes(wk_faulty_of(io)) - bytes < 512 * 1024);
	kill_store(ns, io);
	io->operations->destroy(io);
}

TEST(the_highest_entry_ids_go_on_too) {
	wk_io *io = new_disk(14);
	wk_open_options options = options_of(CACHE);
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t id = INT64_MAX - 400; id < INT64_MAX; id++)
		add_one(ns, 1, id);
	for (int64_t id = 0; id < ENTRIES; id++)
		add_one(ns, 2, id);
	work(ns);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	ns = open_store_with(io, &options);
	for (int64_t id = INT64_MAX - 400; id < INT64_MAX; id++)
		read_one(ns, 1, id);
	CHECK(cached(ns) > 0);
	kill_store(ns, io);
	io->operations->destroy(io);
}

TEST(what_was_read_ahead_goes_with_its_file) {
	wk_io *io = new_disk(11);
	wk_namespace *ns = filled_with(io, CACHE, 1, ENTRIES, 1);
	for (int64_t id = 0; id < 40; id++)
		read_one(ns, 1, id);
	CHECK(cached(ns) >= 64 * 1024);
	CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	for (int64_t id = 0; id < ENTRIES; id++)
		add_one(ns, 2, id);
	work(ns);
	CHECK(cached(ns) < 64 * 1024);
	for (int64_t id = 0; id < ENTRIES; id++)
		read_one(ns, 2, id);
	CHECK_EQ(try_read(ns, 1, 3), WK_NO_LEDGER);
	kill_store(ns, io);
	io->operations->destroy(io);
}

int main(void) {
	RUN(who_goes_on_from_entry_to_entry_asks_the_disk_seldom);
	RUN(who_reads_here_and_there_is_given_what_was_asked_for);
	RUN(reads_that_overtake_each_other_are_one_pattern_too);
	RUN(one_ledgers_window_serves_those_that_stand_between);
	RUN(all_windows_together_keep_their_limit);
	RUN(without_a_cache_nothing_is_read_ahead);
	RUN(the_file_that_is_written_is_not_read_ahead);
	RUN(a_window_that_cannot_be_read_is_no_reason_to_fail);
	RUN(damage_in_a_window_is_told_of_its_entry_alone_and_for_as_long_as_it_is_there);
	RUN(a_window_that_is_bad_itself_is_read_again);
	RUN(the_scrub_sees_the_disk_and_no_window);
	RUN(a_ledger_with_an_entry_in_each_file_is_not_read_ahead);
	RUN(the_highest_entry_ids_go_on_too);
	RUN(what_was_read_ahead_goes_with_its_file);
	return check_done();
}
