/*
 * test_space.c: how much a directory takes, on the disk and in memory: snapshots, truncation, the mover's passes, and
 * the limits of memtable, index cache and appends in flight; storage rules 19, 22 and 24 (docs/storage-rules.md).
 */
/* ctest labels: one-thread */
#include "engine/manual.h"
#include "manual_directory.h"
#include "sim/faulty.h"
#include <errno.h>

/* ---- on the disk ---- */

TEST(rule_19_a_snapshot_holds_the_catalogue_and_frees_what_stood_before_it) {
	wk_io *io = disk_of(19);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	wk_position at = put(writer, "one", WK_SYNC);
	CHECK_EQ(superblock_of(io).snapshots[0].first_entry, -1);
	for (int i = 0; i < 300; i++) { /* a block a change: the files fill up with the catalogue's entries alone */
		char name[16];
		snprintf(name, sizeof name, "cursor-%d", i % 10);
		CHECK_EQ(wk_cursor_set(log, name, strlen(name), &at, NULL), WK_OK);
		wait_and_work(io, ns, 10);
	}
	CHECK(superblock_of(io).snapshots[0].first_entry > 0);
	CHECK(stats_of(ns).recycled_files > 0);
	CHECK(stats_of(ns).journal_files < 10);
	close_all(ns, log, writer);
	ns = open_with(io, NULL);
	log = log_named(ns, "log");
	CHECK_EQ(wk_cursor_get(log, "cursor-9", 8, &at, NULL), WK_OK);
	CHECK_EQ(count_records(log), 1);
	leave(io, ns, log, NULL);
}

TEST(rule_22_what_is_truncated_gives_its_space_back) {
	wk_io *io = disk_of(22);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	fill_files(io, ns, writer, 200);
	uint64_t before = stats_of(ns).disk_bytes;
	wk_position next;
	wk_writer_next(writer, &next);
	CHECK_EQ(wk_log_truncate(log, &next.dlsn, true, NULL), WK_OK);
	for (int i = 0; i < 100; i++)
		wait_and_work(io, ns, 100);
	CHECK(before > 200 * 8 * 1024);
	/* With files as small as these the reserves are several of them: two blocks with their footer, and the mover's. */
	CHECK(stats_of(ns).disk_bytes <= (8 + 3) * 64 * 1024);
	leave(io, ns, log, writer);
}

/* The minor pass evacuates files of which little is live although each still pins something. */
static void one_keeps_a_file(wk_io *io, wk_namespace *ns, wk_writer *busy, wk_writer *idle) {
	for (int i = 0; i < 20; i++) {
		put(idle, "x", WK_SYNC);
		fill_files(io, ns, busy, 12);
	}
}

TEST(rule_22_thin_files_are_evacuated_at_once) {
	wk_io *io = disk_of(23);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *busy = log_named(ns, "busy"), *idle = log_named(ns, "idle");
	wk_writer *busy_writer = writer_of(busy), *idle_writer = writer_of(idle);
	one_keeps_a_file(io, ns, busy_writer, idle_writer);
	wk_position next;
	wk_writer_next(busy_writer, &next);
	CHECK_EQ(wk_log_truncate(busy, &next.dlsn, true, NULL), WK_OK);
	for (int i = 0; i < 100; i++)
		wait_and_work(io, ns, 100);
	wk_stats stats = stats_of(ns);
	CHECK(stats.compacted_bytes > 0);
	CHECK(stats.disk_bytes <= 10 * 64 * 1024);
	CHECK_EQ(count_records(idle), 20);
	CHECK_EQ(wk_writer_close(idle_writer, UINT64_MAX, NULL), WK_OK);
	wk_log_release(idle);
	leave(io, ns, busy, busy_writer);
}

static bool count_name(void *context, const char *name) {
	*(uint64_t *)context += strstr(name, ".wke") != NULL;
	return true;
}

/*
 * The sync, or change of a folder, after `syncs` others finds no space; what is true then. False: there were not so many. An entry log that has
 * its name, and that nobody knows, would be found by the next open, behind entries that came later.
 */
static bool compact_without_space(uint64_t syncs, bool *unknown) {
	wk_io *io = disk_of(23);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *busy = log_named(ns, "busy"), *idle = log_named(ns, "idle");
	wk_writer *busy_writer = writer_of(busy), *idle_writer = writer_of(idle);
	one_keeps_a_file(io, ns, busy_writer, idle_writer);
	wk_position next;
	wk_writer_next(busy_writer, &next);
	CHECK_EQ(wk_log_truncate(busy, &next.dlsn, true, NULL), WK_OK);
	uint64_t before = wk_faulty_calls(wk_faulty_of(io), WK_FAULT_SYNC | WK_FAULT_DIRECTORY);
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_SYNC | WK_FAULT_DIRECTORY, syncs, ENOSPC, false);
	for (int i = 0; i < 30; i++) {
		bool idle_now = false;
		wk_faulty_advance(wk_faulty_of(io), 100 * 1000000);
		for (int step = 0; step < 200 && !idle_now; step++)
			(void)wk_namespace_step(ns, &idle_now, NULL);
	}
	bool met = wk_faulty_calls(wk_faulty_of(io), WK_FAULT_SYNC | WK_FAULT_DIRECTORY) - before > syncs;
	wk_faulty_heal(wk_faulty_of(io));
	uint64_t there = 0;
	CHECK_EQ(io->operations->list(io, "wal/entries", count_name, &there), 0);
	if (there > stats_of(ns).entry_logs) {
		*unknown = true;
		wk_append_options options;
		wk_append_options_init(&options);
		CHECK_EQ(wk_writer_append(busy_writer, "r", 1, &options, &next, NULL), WK_FAILED);
	}
	CHECK_EQ(count_records(idle), 20);
	wk_writer_close(idle_writer, UINT64_MAX, NULL);
	wk_log_release(idle);
	wk_writer_close(busy_writer, UINT64_MAX, NULL);
	wk_log_release(busy);
	wk_close(ns, UINT64_MAX, NULL);
	io->operations->destroy(io);
	return met;
}

TEST(rule_22_an_entry_log_whose_name_may_not_last_stops_the_directory) {
	bool unknown = false;
	uint64_t syncs = 0;
	while (compact_without_space(syncs, &unknown))
		syncs++;
	CHECK(syncs > 3 && unknown);
}

static void often(wk_open_options *options) {
	CHECK_EQ(options->minor_interval_ns, 3600 * (uint64_t)1000000000);
	CHECK_EQ(options->major_interval_ns, 86400 * (uint64_t)1000000000);
	options->minor_interval_ns = options->major_interval_ns = 1000000000;
}

TEST(rule_22_no_pass_is_made_that_wins_nothing) {
	wk_io *io = disk_of(25);
	wk_namespace *ns = open_with(io, often);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < 60; i++) { /* alone: a file is mostly padding, and its copy mostly footer */
		put(writer, "r", WK_SYNC);
		wait_and_work(io, ns, 1);
	}
	for (int i = 0; i < 300; i++)
		wait_and_work(io, ns, 100);
	uint64_t settled = stats_of(ns).compacted_bytes;
	for (int i = 0; i < 300; i++)
		wait_and_work(io, ns, 100);
	CHECK(settled > 0);
	CHECK_EQ(stats_of(ns).compacted_bytes, settled);
	leave(io, ns, log, writer);
}

/* ---- in memory ---- */

static void little_memory(wk_open_options *options) {
	options->memtable_bytes = 128 * 1024;
	options->cache_bytes = 16 * 1024;
	options->block_size_max = 64 * 1024;
}

TEST(rule_24_memtable_and_index_cache_keep_their_limits) {
	wk_io *io = disk_of(24);
	wk_namespace *ns = open_with(io, little_memory);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	uint64_t memtable = 0;
	for (int i = 0; i < 30; i++) {
		fill_files(io, ns, writer, 10);
		CHECK_EQ(count_records(log), (i + 1) * 10);
		wk_stats stats = stats_of(ns);
		memtable = stats.memory_memtable > memtable ? stats.memory_memtable : memtable;
		CHECK(stats.memory_memtable <= 128 * 1024 + 128 * 1024 / 10);
		CHECK(stats.memory_cache <= 16 * 1024 + 16 * 1024 / 10);
		CHECK_EQ(stats.memory_in_flight, 0);
	}
	CHECK(memtable > 64 * 1024); /* it is used */
	leave(io, ns, log, writer);
}

TEST(rule_24_without_room_in_flight_an_append_waits_or_says_so) {
	static char text[6 * 1024];
	wk_io *io = disk_of(24);
	wk_namespace *ns = open_with(io, little_memory);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	wk_append_options options;
	wk_append_options_init(&options);
	options.durability = WK_DEFERRED;
	options.timeout_ns = 0;
	wk_status status = WK_OK;
	uint64_t ticket, accepted = 0;
	for (; status == WK_OK && accepted < 1000; accepted += status == WK_OK)
		status = wk_writer_submit(writer, text, sizeof text, &options, NULL, &ticket, NULL);
	CHECK_EQ(status, WK_WOULD_BLOCK);
	CHECK(accepted >= 4 && accepted <= 5); /* a block of half a file, 32 KiB */
	CHECK(stats_of(ns).memory_in_flight >= accepted * sizeof text);
	CHECK_EQ(wk_writer_flush(writer, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(stats_of(ns).memory_in_flight, 0);
	leave(io, ns, log, writer);
}

int main(void) {
	RUN(rule_19_a_snapshot_holds_the_catalogue_and_frees_what_stood_before_it);
	RUN(rule_22_what_is_truncated_gives_its_space_back);
	RUN(rule_22_thin_files_are_evacuated_at_once);
	RUN(rule_22_an_entry_log_whose_name_may_not_last_stops_the_directory);
	RUN(rule_22_no_pass_is_made_that_wins_nothing);
	RUN(rule_24_memtable_and_index_cache_keep_their_limits);
	RUN(rule_24_without_room_in_flight_an_append_waits_or_says_so);
	return check_done();
}
