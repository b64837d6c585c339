/*
 * test_probe.c: the probe of the disk: when it runs, and which method and K it chooses; storage rule 16
 * (docs/storage-rules.md).
 */
/* ctest labels: one-thread */
#include "engine/directory/probe_grid.h"
#include "manual_directory.h"
#include "sim/faulty.h"

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

/* So much is free, and no more; somebody else took the rest. */
static void leave_on_disk(wk_io *io, uint64_t bytes) {
	wk_io_space space;
	CHECK_EQ(io->operations->space(io, "wal", &space), 0);
	wk_faulty_set_capacity(wk_faulty_of(io), space.total_bytes - space.free_bytes + bytes);
}

TEST(a_full_disk_that_was_not_probed_opens) {
	for (uint64_t blocks = 0; blocks < 16; blocks++) {
		wk_io *io = disk_of(6);
		wk_namespace *ns = open_with(io, NULL); /* with a method that was asked for */
		wk_log *log = log_named(ns, "log");
		wk_writer *writer = writer_of(log);
		fill_files(io, ns, writer, 20);
		close_all(ns, log, writer);
		leave_on_disk(io, blocks * WK_IO_ALIGNMENT);
		ns = open_with(io, probes);
		CHECK_EQ(stats_of(ns).sync_method, WK_SYNC_WRITE_THEN_SYNC);
		log = log_named(ns, "log");
		CHECK_EQ(count_records(log), 20);
		leave(io, ns, log, NULL);
	}
}

TEST(a_probe_under_way_gives_its_space_back_to_a_full_disk) {
	wk_io *io = disk_of(7);
	wk_namespace *ns = open_with(io, probes);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	fill_files(io, ns, writer, 20);
	for (int i = 0; i < 60 && !is_probing(io); i++)
		wait_and_work(io, ns, 50);
	CHECK(is_probing(io));
	leave_on_disk(io, 0);
	static char text[8 * 1024];
	wk_append_options options;
	wk_append_options_init(&options);
	wk_status status = WK_OK;
	for (int i = 0; i < 100 && status == WK_OK; i++)
		status = wk_writer_append(writer, text, sizeof text, &options, NULL, NULL);
	CHECK_EQ(status, WK_NO_SPACE);
	wait_and_work(io, ns, 10);
	CHECK(!is_probing(io));
	leave(io, ns, log, writer);
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

int main(void) {
	RUN(rule_16_the_rest_of_the_probe_runs_when_nobody_appends);
	RUN(a_full_disk_that_was_not_probed_opens);
	RUN(a_probe_under_way_gives_its_space_back_to_a_full_disk);
	RUN(rule_16_the_grid_chooses_the_method_and_k);
	return check_done();
}
