/*
 * test_rules.c: small tests of storage rules that no larger test names (docs/storage-rules.md lists all rules and who
 * attacks each). Most run on the faulty disk in manual mode: nothing happens but what the test does.
 */
#include "engine/directory.h"
#include "engine/probe_grid.h"
#include "io/io.h"
#include "small_directory.h"
#include "walkeeper/superblock.h"
#include <errno.h>
#include <pthread.h>
#include <time.h>

enum { NFS_TYPE = 0x6969, LARGEST_RECORD = WK_RECORD_SIZE_MAX - WK_RECORD_HEADER_SIZE };

static wk_io *disk_of(uint64_t seed) {
	wk_io *io = NULL;
	CHECK_EQ(wk_faulty_new(seed, &io), 0);
	return io;
}

static wk_namespace *open_with(wk_io *io, void (*change)(wk_open_options *)) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.manual = true;
	options.file_size_min = 64 * 1024;
	options.file_size_max = 64 * 1024;
	options.sync_method = WK_SYNC_DSYNC;
	if (change != NULL)
		change(&options);
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(io, "wal", &options, &ns, &error), &error, "the directory opens");
	return ns;
}

static void work(wk_namespace *ns) {
	bool idle = false;
	for (int i = 0; i < 200 && !idle; i++)
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
}

/* ms in the time of the faulty disk, and what is due then. */
static void wait_and_work(wk_io *io, wk_namespace *ns, uint64_t ms) {
	wk_faulty_advance(wk_faulty_of(io), ms * 1000000);
	work(ns);
}

static wk_position put(wk_writer *writer, const char *text, uint32_t durability) {
	wk_append_options options;
	wk_append_options_init(&options);
	options.durability = durability;
	wk_position at;
	wk_error error = {0};
	check_ok(wk_writer_append(writer, text, strlen(text), &options, &at, &error), &error, "the append");
	return at;
}

static size_t count_records(wk_log *log) {
	wk_reader *reader = NULL;
	wk_batch *batch;
	size_t total = 0, count;
	CHECK_EQ(wk_reader_open(log, NULL, &reader, NULL), WK_OK);
	while (wk_reader_next(reader, 1000, 1 << 20, 0, &batch, NULL) == WK_OK) {
		wk_batch_records(batch, &count);
		wk_batch_release(batch);
		total += count;
	}
	wk_reader_release(reader);
	return total;
}

static void leave(wk_io *io, wk_namespace *ns, wk_log *log, wk_writer *writer) {
	close_all(ns, log, writer);
	io->operations->destroy(io);
}

TEST(rule_1_records_that_wait_for_one_block_are_one_entry) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int64_t i = 0; i < 3; i++) {
		wk_position at = put(writer, "together", WK_DEFERRED);
		CHECK_EQ(at.dlsn.entry_id, 0);
		CHECK_EQ(at.dlsn.slot, i);
	}
	CHECK_EQ(wk_writer_flush(writer, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(put(writer, "alone", WK_SYNC).dlsn.entry_id, 1);
	leave(io, ns, log, writer);
}

TEST(rule_1_an_atomic_batch_begins_and_ends_an_entry) {
	static const uint32_t sizes[] = {1, 1};
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	wk_append_options options;
	wk_append_options_init(&options);
	options.atomic = true;
	options.durability = WK_DEFERRED;
	wk_position first, last;
	uint64_t ticket;
	put(writer, "before", WK_DEFERRED);
	CHECK_EQ(wk_writer_append_many(writer, "ab", sizes, 2, NULL, &options, true, &first, &last, &ticket, NULL), WK_OK);
	CHECK_EQ(first.dlsn.entry_id, 1);
	CHECK_EQ(last.dlsn.entry_id, 1);
	CHECK_EQ(put(writer, "behind", WK_DEFERRED).dlsn.entry_id, 2);
	leave(io, ns, log, writer);
}

static wk_status put_expecting(wk_writer *writer, int64_t expected) {
	wk_append_options options;
	wk_append_options_init(&options);
	options.expected = expected;
	options.durability = WK_DEFERRED;
	uint64_t ticket;
	return wk_writer_submit(writer, "x", 1, &options, NULL, &ticket, NULL);
}

TEST(rule_6_after_one_failed_condition_later_ones_fail_until_a_flush) {
	wk_io *io = disk_of(6);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	CHECK_EQ(put_expecting(writer, 0), WK_OK);
	CHECK_EQ(put_expecting(writer, 7), WK_MISMATCH);
	CHECK_EQ(put_expecting(writer, 1), WK_MISMATCH); /* it would fit, but its caller built on the one before */
	CHECK_EQ(wk_writer_flush(writer, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(put_expecting(writer, 1), WK_OK);
	leave(io, ns, log, writer);
}

static void pause_ms(long ms) {
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&time, NULL);
}

/* On a real disk: the driver writes confirm blocks by itself. */
TEST(rule_11_one_confirm_block_follows_when_appends_pause) {
	char path[64];
	strcpy(path, temporary());
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	append_one(writer);
	uint64_t before = stats_of(ns).durable_block;
	for (int i = 0; i < 100 && stats_of(ns).durable_block == before; i++)
		pause_ms(20);
	CHECK_EQ(stats_of(ns).durable_block, before + 1);
	pause_ms(300);
	CHECK_EQ(stats_of(ns).durable_block, before + 1); /* a confirm block is not confirmed in its turn */
	close_all(ns, log, writer);
	remove_tree(path);
}

TEST(rule_11_closing_writes_the_confirm_block) {
	wk_io *io = disk_of(11);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	put(writer, "last", WK_SYNC);
	uint64_t before = stats_of(ns).durable_block;
	close_all(ns, log, writer);
	ns = open_with(io, NULL);
	CHECK_EQ(stats_of(ns).durable_block, before + 1);
	leave(io, ns, NULL, NULL);
}

TEST(rule_16_a_record_larger_than_a_file_gets_a_file_of_its_own) {
	static char large[900 * 1024];
	wk_io *io = disk_of(16);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	memset(large, 'x', sizeof large - 1);
	put(writer, "small", WK_SYNC);
	put(writer, large, WK_SYNC);
	put(writer, "small", WK_SYNC);
	CHECK_EQ(count_records(log), 3);
	close_all(ns, log, writer);
	ns = open_with(io, NULL);
	log = log_named(ns, "log");
	CHECK_EQ(count_records(log), 3);
	leave(io, ns, log, NULL);
}

TEST(rule_17_written_zeros_are_counted) {
	wk_io *io = disk_of(17);
	wk_namespace *ns = open_with(io, NULL);
	work(ns);
	wk_stats stats = stats_of(ns);
	CHECK(stats.prepared_files > 0);
	CHECK(stats.written_bytes >= 64 * 1024 * stats.prepared_files);
	leave(io, ns, NULL, NULL);
}

static void fill_files(wk_io *io, wk_namespace *ns, wk_writer *writer, int records) {
	static char text[8 * 1024];
	memset(text, 'r', sizeof text - 1);
	for (int i = 0; i < records; i++) {
		put(writer, text, WK_SYNC);
		if (i % 8 == 0)
			wait_and_work(io, ns, 10);
	}
}

static void without_footers(wk_open_options *options) {
	options->ignore_footers = true;
}

/* While one append learns that the disk is full, another comes. A real directory, with a disk that says so. */
static struct wk_io_operations watched;
static const struct wk_io_operations *plain;
static bool is_full;
static wk_writer *company; /* who comes; NULL: nobody, or it was here */
static wk_status company_status;

static int open_with_company(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	static uint8_t payload[LARGEST_RECORD];
	if (!is_full || (flags & WK_IO_CREATE) == 0)
		return plain->open(io, path, flags, file);
	wk_writer *writer = company;
	company = NULL;
	if (writer != NULL) {
		wk_append_options options;
		wk_append_options_init(&options);
		options.durability = WK_DEFERRED;
		uint64_t ticket;
		company_status = wk_writer_submit(writer, payload, sizeof payload, &options, NULL, &ticket, NULL);
	}
	return -ENOSPC;
}

TEST(rule_15_what_comes_while_the_disk_turns_out_to_be_full_fits_too) {
	static uint8_t payload[LARGEST_RECORD];
	char path[64];
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	plain = io->operations;
	watched = *plain;
	watched.open = open_with_company;
	io->operations = &watched;
	wk_open_options options;
	wk_open_options_init(&options);
	options.manual = true;
	options.file_size_min = options.file_size_max = 64 * 1024;
	strcpy(path, temporary());
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the directory opens");
	wk_log *log = log_named(ns, "log"), *other = log_named(ns, "other");
	wk_writer *writer = writer_of(log);
	check_ok(wk_writer_append(writer, payload, sizeof payload, NULL, NULL, &error), &error, "the first append");
	company = writer_of(other);
	wk_writer *comes = company;
	is_full = true;
	check_ok(wk_writer_append(writer, payload, sizeof payload, NULL, NULL, &error), &error, "the append");
	CHECK(company == NULL);
	CHECK_EQ(company_status, WK_OK);
	check_ok(wk_writer_flush(comes, UINT64_MAX, NULL, &error), &error, "its company becomes durable");
	CHECK_EQ(wk_writer_append(writer, "x", 1, NULL, NULL, &error), WK_NO_SPACE);
	check_ok(wk_writer_close(comes, UINT64_MAX, &error), &error, "the writer closes");
	wk_log_release(other);
	check_ok(wk_log_delete(ns, "other", 5, &error), &error, "deleting on a full disk");
	is_full = false;
	close_all(ns, log, writer);
	remove_tree(path);
	io->operations->destroy(io);
}

TEST(rule_18_without_footers_the_same_is_found) {
	wk_io *io = disk_of(18);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	fill_files(io, ns, writer, 50);
	close_all(ns, log, writer);
	for (int i = 0; i < 2; i++) {
		wk_recovery_report report;
		ns = open_with(io, i == 0 ? NULL : without_footers);
		log = log_named(ns, "log");
		wk_namespace_recovery(ns, &report);
		CHECK_EQ(report.footers_read, 0); /* after a close in order, the index file stands for them */
		CHECK(i == 0 ? report.files_scanned <= 1 : report.files_scanned > 2);
		CHECK_EQ(count_records(log), 50);
		close_all(ns, log, NULL);
	}
	io->operations->destroy(io);
}

/* Files that an open after a kill has to scan: the active one, and those that lack their footer. */
static uint64_t scanned_after_a_kill(wk_io *io, const char *path, const wk_open_options *options) {
	wk_namespace *ns = NULL;
	wk_error error = {0};
	wk_recovery_report report;
	check_ok(wk_open_on(io, path, options, &ns, &error), &error, "the directory opens");
	wk_namespace_recovery(ns, &report);
	wk_abandon(ns);
	return report.files_scanned;
}

/* Nobody but who appends does anything. */
TEST(rule_18_at_most_one_full_file_lacks_its_footer) {
	wk_open_options options;
	for (uint32_t k = 1; k <= 8; k += 7) {
		wk_io *io = disk_of(18);
		wk_open_options_init(&options);
		options.manual = true;
		options.file_size_min = options.file_size_max = 64 * 1024;
		options.sync_method = k == 1 ? WK_SYNC_DSYNC : WK_SYNC_WRITE_THEN_SYNC;
		options.blocks_in_flight = k;
		wk_namespace *ns = NULL;
		CHECK_EQ(wk_open_on(io, "wal", &options, &ns, NULL), WK_OK);
		wk_log *log = log_named(ns, "log");
		wk_writer *writer = writer_of(log);
		for (int i = 0; i < 100; i++) {
			char payload[RECORD_SIZE] = {0};
			uint64_t ticket;
			CHECK_EQ(wk_writer_submit(writer, payload, sizeof payload, NULL, NULL, &ticket, NULL), WK_OK);
			if (i % 3 == 0)
				CHECK_EQ(wk_namespace_wait(ns, ticket, UINT64_MAX, NULL), WK_OK);
		}
		CHECK(stats_of(ns).journal_files > 4);
		wk_abandon(ns);
		wk_writer_close(writer, 0, NULL);
		wk_log_release(log);
		wk_faulty_kill(wk_faulty_of(io));
		CHECK(scanned_after_a_kill(io, "wal", &options) <= 2);
		io->operations->destroy(io);
	}
}

typedef struct appender {
	wk_namespace *ns;
	wk_writer *writer;
	uint32_t durability;
} appender;

static void *append_200(void *context) {
	static const char payload[16 * 1024];
	appender *a = context;
	wk_append_options options;
	wk_append_options_init(&options);
	options.durability = a->durability;
	uint64_t ticket = 0;
	for (int i = 0; i < 200; i++)
		CHECK_EQ(wk_writer_submit(a->writer, payload, sizeof payload, &options, NULL, &ticket, NULL), WK_OK);
	if (a->durability == WK_SYNC)
		CHECK_EQ(wk_namespace_wait(a->ns, ticket, UINT64_MAX, NULL), WK_OK);
	return NULL;
}

/* Files of 64 KiB, full faster than the keeper can look. */
TEST(rule_18_holds_for_writers_that_are_faster_than_the_keeper) {
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	for (uint32_t round = 0; round < 4; round++) {
		char path[64];
		strcpy(path, temporary());
		wk_open_options options;
		wk_open_options_init(&options);
		options.file_size_min = options.file_size_max = 64 * 1024;
		options.sync_method = round % 2 == 0 ? WK_SYNC_DSYNC : WK_SYNC_WRITE_THEN_SYNC;
		options.blocks_in_flight = 8;
		wk_namespace *ns = NULL;
		wk_error error = {0};
		check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the directory opens");
		wk_log *log = log_named(ns, "log");
		appender a = {ns, writer_of(log), round < 2 ? WK_SYNC : WK_DEFERRED};
		pthread_t threads[2];
		for (int i = 0; i < 2; i++)
			CHECK_EQ(pthread_create(&threads[i], NULL, append_200, &a), 0);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(pthread_join(threads[i], NULL), 0);
		wk_abandon(ns);
		wk_writer_close(a.writer, 0, NULL);
		wk_log_release(log);
		options.manual = true;
		CHECK(scanned_after_a_kill(io, path, &options) <= 2);
		remove_tree(path);
	}
	io->operations->destroy(io);
}

static wk_superblock superblock_of(wk_io *io) {
	uint8_t slots[2 * WK_SUPERBLOCK_SLOT_SIZE];
	wk_superblock superblock;
	CHECK_EQ(wk_faulty_read_file(wk_faulty_of(io), "wal/superblock", slots, sizeof slots, 0), sizeof slots);
	CHECK(wk_superblock_choose(slots, &superblock) >= 0);
	return superblock;
}

static void probes(wk_open_options *options) {
	options->sync_method = WK_SYNC_PROBE;
	options->blocks_in_flight = 0;
}

static bool is_probing(wk_io *io) {
	char path[64];
	snprintf(path, sizeof path, "wal/journal/probe-%lld.tmp", (long long)wk_process_id());
	return wk_faulty_file_size(wk_faulty_of(io), path) >= 0;
}

static uint64_t writes(wk_io *io) {
	return wk_faulty_calls(wk_faulty_of(io), WK_FAULT_WRITE);
}

TEST(rule_16_the_rest_of_the_probe_runs_when_nobody_appends) {
	char text[3900] = {0}; /* fills its block, so that the mover has nothing to do */
	memset(text, 'x', sizeof text - 1);
	wk_io *io = disk_of(16);
	wk_namespace *ns = open_with(io, probes);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	work(ns);
	for (int i = 0; i < 50; i++) { /* an append each half second: never idle */
		put(writer, text, WK_SYNC);
		wait_and_work(io, ns, 500);
		CHECK(!is_probing(io));
	}
	for (int i = 0; i < 60; i++) /* idle: a round now and then */
		wait_and_work(io, ns, 50);
	CHECK(is_probing(io));
	CHECK(!stats_of(ns).probed);
	put(writer, text, WK_SYNC); /* an append cuts it short */
	wait_and_work(io, ns, 200);
	uint64_t before = writes(io);
	for (int i = 0; i < 7; i++)
		wait_and_work(io, ns, 100);
	CHECK_EQ(writes(io), before);
	for (int i = 0; i < 400 && !stats_of(ns).probed; i++)
		wait_and_work(io, ns, 1000);
	CHECK(stats_of(ns).probed);
	CHECK(!is_probing(io));
	for (int i = 0; i < 10; i++)
		wait_and_work(io, ns, 2000);
	CHECK(!is_probing(io)); /* once is enough */
	close_all(ns, log, writer);
	wk_superblock superblock = superblock_of(io);
	CHECK(superblock.blocks_in_flight >= 2);
	ns = open_with(io, probes);
	CHECK(stats_of(ns).probed);
	CHECK_EQ(stats_of(ns).blocks_in_flight, superblock.blocks_in_flight);
	CHECK_EQ(stats_of(ns).sync_method, superblock.sync_method);
	leave(io, ns, NULL, NULL);
}

/* Times of a block of 4 and of 64 KiB, 1, 2, 4 and 8 at once; of RWF_DSYNC, then of write and sync. */
static void choice(const uint32_t times[2][4][2], uint32_t method, uint32_t in_flight) {
	wk_probe_grid grid;
	uint32_t found_method, found_in_flight;
	memcpy(grid.block_ns, times, sizeof grid.block_ns);
	wk_probe_choose(&grid, &found_method, &found_in_flight);
	CHECK_EQ(found_method, method);
	CHECK_EQ(found_in_flight, in_flight);
}

TEST(rule_16_the_grid_chooses_the_method_and_k) {
	/* Every sync takes 5 ms, whatever it is for: one for several blocks is worth more than one each. */
	static const uint32_t slow[2][4][2] = {
	    {{5010000, 5060000}, {4500000, 4550000}, {4400000, 4450000}, {4400000, 4450000}},
	    {{5020000, 5070000}, {2520000, 2570000}, {1270000, 1320000}, {640000, 690000}}};
	choice(slow, WK_SYNC_WRITE_THEN_SYNC, 2);
	/* A protected cache, and blocks that pass side by side. */
	static const uint32_t parallel[2][4][2] = {{{12000, 60000}, {6000, 30000}, {3000, 15000}, {1600, 8000}},
	                                           {{16000, 64000}, {9000, 33000}, {5000, 17000}, {3000, 10000}}};
	choice(parallel, WK_SYNC_DSYNC, 8);
	/* A disk that gains nothing from company. */
	static const uint32_t serial[2][4][2] = {{{40000, 66000}, {39000, 65000}, {39000, 65000}, {39000, 65000}},
	                                         {{41000, 67000}, {40000, 66000}, {40000, 66000}, {40000, 66000}}};
	choice(serial, WK_SYNC_DSYNC, 2);
	/* Writing through is slow (a drive without a protected cache). */
	static const uint32_t through[2][4][2] = {
	    {{4020000, 4100000}, {4020000, 4100000}, {4020000, 4100000}, {4020000, 4100000}},
	    {{1680000, 1720000}, {860000, 900000}, {440000, 480000}, {230000, 270000}}};
	choice(through, WK_SYNC_WRITE_THEN_SYNC, 2);
	static const uint32_t nothing[2][4][2] = {{{0}}};
	choice(nothing, WK_SYNC_PROBE, 2);
}

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

/* Which journal files an open reads: by id, the calls. A real directory, watched. */
enum { IDS_MAX = 256 };
static wk_file *watched_handles[IDS_MAX];
static uint32_t reads_by_file[IDS_MAX];

static int open_and_note(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	int result = plain->open(io, path, flags, file);
	const char *name = strrchr(path, '/');
	size_t size = name != NULL ? strlen(name) : 0;
	unsigned long long id = size == 21 && strcmp(name + 17, ".wkj") == 0 ? strtoull(name + 1, NULL, 16) : 0;
	CHECK(id < IDS_MAX);
	if (result == 0 && id != 0)
		watched_handles[id] = *file;
	return result;
}

static int64_t pread_and_count(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	for (uint32_t id = 1; id < IDS_MAX; id++)
		reads_by_file[id] += watched_handles[id] == file;
	return plain->pread(io, file, buffer, size, offset);
}

TEST(rule_20_below_the_mark_nothing_but_the_catalogue_is_read) {
	char path[64];
	strcpy(path, temporary());
	make_small(path, 400);
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	plain = io->operations;
	watched = *plain;
	watched.open = open_and_note;
	watched.pread = pread_and_count;
	io->operations = &watched;
	for (int ignoring = 0; ignoring < 2; ignoring++) {
		memset(watched_handles, 0, sizeof watched_handles);
		memset(reads_by_file, 0, sizeof reads_by_file);
		wk_open_options options;
		wk_open_options_init(&options);
		options.manual = true;
		options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
		options.ignore_footers = ignoring == 1;
		wk_namespace *ns = NULL;
		wk_error error = {0};
		check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the directory opens");
		uint32_t files = 0, read = 0, last = 0;
		for (uint32_t id = 1; id < IDS_MAX; id++) {
			files += watched_handles[id] != NULL;
			last = watched_handles[id] != NULL ? id : last;
		}
		for (uint32_t id = 1; id < IDS_MAX; id++) /* the log's only records in the catalogue stand in the first file */
			read += reads_by_file[id] > 0 && id != 1 && id + 2 < last;
		CHECK(files > 20);
		CHECK(ignoring == 0 ? read == 0 : read > 20);
		wk_abandon(ns);
	}
	remove_tree(path);
	io->operations->destroy(io);
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

static struct wk_io_operations network_operations;

static int network_space(wk_io *io, const char *path, wk_io_space *space) {
	(void)io;
	(void)path;
	*space = (wk_io_space){.free_bytes = 1 << 30, .total_bytes = 1 << 30, .type = NFS_TYPE};
	return 0;
}

TEST(rule_28_a_network_file_system_is_refused_unless_it_is_accepted) {
	char path[64];
	strcpy(path, temporary());
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	network_operations = *io->operations;
	network_operations.space = network_space;
	io->operations = &network_operations;
	wk_open_options options;
	wk_open_options_init(&options);
	options.manual = true;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	CHECK_EQ(wk_open_on(io, path, &options, &ns, &error), WK_UNSUPPORTED);
	CHECK(strstr(error.text, "unsafe_fs") != NULL);
	options.unsafe_fs = true;
	check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "with unsafe_fs");
	leave(io, ns, NULL, NULL);
	remove_tree(path);
}

TEST(rule_31_a_deferred_record_is_not_read_before_it_is_durable) {
	wk_io *io = disk_of(31);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	put(writer, "later", WK_DEFERRED);
	CHECK_EQ(count_records(log), 0);
	wk_faulty_advance(wk_faulty_of(io), 99 * 1000000);
	work(ns);
	CHECK_EQ(count_records(log), 0);
	wait_and_work(io, ns, 2); /* deferred_delay is 100 ms */
	CHECK_EQ(count_records(log), 1);
	leave(io, ns, log, writer);
}

static void with_commit_wait(wk_open_options *options) {
	options->commit_wait_ns = 5000000;
}

TEST(rule_32_a_block_waits_for_company_no_longer_than_it_may) {
	wk_io *io = disk_of(32);
	wk_namespace *ns = open_with(io, with_commit_wait);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	work(ns);
	uint64_t before = stats_of(ns).blocks_count, ticket;
	CHECK_EQ(wk_writer_submit(writer, "first", 5, NULL, NULL, &ticket, NULL), WK_OK);
	wait_and_work(io, ns, 2);
	CHECK_EQ(wk_writer_submit(writer, "company", 7, NULL, NULL, &ticket, NULL), WK_OK);
	CHECK_EQ(stats_of(ns).blocks_count, before);
	wait_and_work(io, ns, 4);
	CHECK_EQ(stats_of(ns).blocks_count, before + 1);
	CHECK(wk_namespace_durable(ns) >= ticket);
	leave(io, ns, log, writer);
}

int main(void) {
	RUN(rule_1_records_that_wait_for_one_block_are_one_entry);
	RUN(rule_1_an_atomic_batch_begins_and_ends_an_entry);
	RUN(rule_6_after_one_failed_condition_later_ones_fail_until_a_flush);
	RUN(rule_11_one_confirm_block_follows_when_appends_pause);
	RUN(rule_11_closing_writes_the_confirm_block);
	RUN(rule_15_what_comes_while_the_disk_turns_out_to_be_full_fits_too);
	RUN(rule_16_a_record_larger_than_a_file_gets_a_file_of_its_own);
	RUN(rule_16_the_rest_of_the_probe_runs_when_nobody_appends);
	RUN(rule_16_the_grid_chooses_the_method_and_k);
	RUN(rule_17_written_zeros_are_counted);
	RUN(rule_18_without_footers_the_same_is_found);
	RUN(rule_18_at_most_one_full_file_lacks_its_footer);
	RUN(rule_18_holds_for_writers_that_are_faster_than_the_keeper);
	RUN(rule_19_a_snapshot_holds_the_catalogue_and_frees_what_stood_before_it);
	RUN(rule_20_below_the_mark_nothing_but_the_catalogue_is_read);
	RUN(rule_22_what_is_truncated_gives_its_space_back);
	RUN(rule_22_thin_files_are_evacuated_at_once);
	RUN(rule_22_no_pass_is_made_that_wins_nothing);
	RUN(rule_24_memtable_and_index_cache_keep_their_limits);
	RUN(rule_24_without_room_in_flight_an_append_waits_or_says_so);
	RUN(rule_28_a_network_file_system_is_refused_unless_it_is_accepted);
	RUN(rule_31_a_deferred_record_is_not_read_before_it_is_durable);
	RUN(rule_32_a_block_waits_for_company_no_longer_than_it_may);
	return check_done();
}
