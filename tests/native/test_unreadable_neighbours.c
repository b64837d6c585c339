/*
 * test_unreadable_neighbours.c: reads take many entries at once, and fail for all of them where the disk cannot read one
 * sector. Only what stands in it is lost: to readers, to opens that accept loss, to the catalogue, to the scrub.
 */
#include "engine/engine.h"
#include "unreadable_sector.h"

enum { RECORDS = 1500, SPOILT = 200, LOGS = 40 };

static void large_files(wk_open_options *options) {
	options->file_size_max = options->file_size_min = 4 << 20;
	options->memtable_bytes = 4096;
	options->minor_interval_ns = options->major_interval_ns = UINT64_MAX;
}

static void accept_by(wk_open_options *options, uint32_t policy) {
	large_files(options);
	options->on_damage = policy;
	options->check_all = true;
}

static void skip(wk_open_options *options) {
	accept_by(options, WK_ON_DAMAGE_SKIP);
}

static void point_in_time(wk_open_options *options) {
	accept_by(options, WK_ON_DAMAGE_POINT_IN_TIME);
}

/* A log of lone records, each in a block of its own; one of the blocks is in the sector that will not be read. */
static void many_records(wk_io *io) {
	wk_namespace *ns = open_with(io, large_files);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < RECORDS; i++) {
		put(writer, "a record", WK_SYNC);
		if (i % 50 == 0)
			wait_and_work(io, ns, 10);
	}
	wait_and_work(io, ns, 200);
	close_all(ns, log, writer);
}

/* Who begins at a record: how many can be given it? */
static int count_readable(wk_log *log, const wk_dlsn *places) {
	int count = 0;
	for (int i = 0; i < RECORDS; i++) {
		wk_read_options options;
		wk_read_options_init(&options);
		options.from = WK_FROM_DLSN;
		options.start = places[i];
		wk_reader *reader = NULL;
		wk_batch *batch;
		wk_error error = {0};
		wk_status status = wk_reader_open(log, &options, &reader, &error);
		if (status == WK_OK)
			status = wk_reader_next(reader, 1, 1 << 20, 0, &batch, &error);
		if (status == WK_OK) {
			wk_batch_release(batch);
			count++;
		} else {
			CHECK_EQ(status, WK_IO);
			CHECK_EQ(error.system_error, EIO);
		}
		if (reader != NULL)
			wk_reader_release(reader);
	}
	return count;
}

TEST(a_reader_is_given_what_stands_beside_it) {
	static wk_dlsn places[RECORDS];
	wk_io *io = disk_of(1);
	watch_file(io, "0000000000000001.wkj");
	many_records(io);
	wk_namespace *ns = open_with(io, large_files);
	wk_log *log = log_named(ns, "log");
	wk_reader *reader = NULL;
	wk_batch *batch;
	int seen = 0;
	CHECK_EQ(wk_reader_open(log, NULL, &reader, NULL), WK_OK);
	while (wk_reader_next(reader, 1000, 1 << 20, 0, &batch, NULL) == WK_OK) {
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		for (size_t i = 0; i < count; i++)
			places[seen++] = records[i].at.dlsn;
		wk_batch_release(batch);
	}
	wk_reader_release(reader);
	CHECK_EQ(seen, RECORDS);
	spoil(SPOILT * WK_IO_ALIGNMENT, WK_IO_ALIGNMENT);
	CHECK_EQ(count_readable(log, places), RECORDS - 1);
	wk_log_release(log);
	close_all(ns, NULL, NULL);
	io->operations->destroy(io);
}

/* What is left for ever, where an open accepted the loss. */
static size_t left_by(void (*policy)(wk_open_options *), int result, uint64_t *lost_entries) {
	wk_io *io = disk_of(1);
	watch_file(io, "0000000000000001.wkj");
	many_records(io);
	spoil(SPOILT * WK_IO_ALIGNMENT, WK_IO_ALIGNMENT);
	sector.result = result;
	wk_namespace *ns = open_with(io, policy);
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	*lost_entries = report.lost_entries;
	close_all(ns, NULL, NULL);
	spoil(0, 0);
	wk_log *log = log_named(ns = open_with(io, NULL), "log");
	size_t left = count_records(log);
	wk_log_release(log);
	close_all(ns, NULL, NULL);
	io->operations->destroy(io);
	return left;
}

TEST(an_open_that_accepts_loss_gives_up_what_stands_in_it_and_no_more) {
	uint64_t lost;
	CHECK_EQ(left_by(skip, -EIO, &lost), RECORDS); /* the gap is one */
	CHECK_EQ(lost, 1);
	CHECK_EQ(left_by(skip, -ENODATA, &lost), RECORDS); /* as the kernel says it of a medium */
	CHECK_EQ(lost, 1);
	size_t left = left_by(point_in_time, -EIO, &lost);
	CHECK_EQ(lost, 1);
	CHECK(left >= SPOILT - 2 && left <= SPOILT + 1);
}

TEST(what_the_machine_refuses_for_another_reason_is_not_lost) {
	wk_io *io = disk_of(1);
	watch_file(io, "0000000000000001.wkj");
	many_records(io);
	spoil(SPOILT * WK_IO_ALIGNMENT, WK_IO_ALIGNMENT);
	sector.result = -EMFILE;
	wk_open_options options = manual_options(4 << 20);
	skip(&options);
	wk_error error = {0};
	wk_namespace *ns;
	CHECK_EQ(wk_open_on(io, "wal", &options, &ns, &error), WK_IO);
	CHECK_EQ(error.system_error, EMFILE);
	spoil(0, 0);
	wk_log *log = log_named(ns = open_with(io, skip), "log");
	CHECK_EQ(count_records(log), RECORDS);
	wk_log_release(log);
	close_all(ns, NULL, NULL);
	io->operations->destroy(io);
}

static void name_of(int i, char name[20]) {
	snprintf(name, 20, "orders-%d", i);
}

/* Logs that are all made, then used; the change that made one of them is in the sector. */
static void many_logs(wk_io *io, uint64_t *made_at) {
	char name[20];
	wk_namespace *ns = open_with(io, large_files);
	for (int i = 0; i < LOGS; i++) {
		if (i == LOGS / 2)
			*made_at = ns->engine->offset;
		name_of(i, name);
		wk_log_release(log_named(ns, name));
	}
	for (int i = 0; i < LOGS; i++) {
		name_of(i, name);
		wk_log *log = log_named(ns, name);
		wk_writer *writer = writer_of(log);
		for (int k = 0; k < 30; k++) /* until the file is full, and has its footer */
			put(writer, "a record", WK_SYNC);
		wk_writer_close(writer, UINT64_MAX, NULL);
		wk_log_release(log);
		wait_and_work(io, ns, 10);
	}
	close_all(ns, NULL, NULL);
}

TEST(the_catalogue_loses_one_change) {
	wk_io *io = disk_of(1);
	watch_file(io, "0000000000000001.wkj");
	uint64_t made_at = 0;
	many_logs(io, &made_at);
	spoil(made_at, WK_IO_ALIGNMENT);
	sector.result = -EMFILE; /* that is no damage: nobody salvages */
	wk_open_options options = manual_options(4 << 20);
	options.on_damage = WK_ON_DAMAGE_SKIP;
	wk_namespace *ns;
	wk_error error = {0};
	CHECK_EQ(wk_open_on(io, "wal", &options, &ns, &error), WK_IO);
	CHECK_EQ(error.system_error, EMFILE);
	CHECK(strstr(error.text, "ulimit -n") != NULL);
	sector.result = -EIO;
	CHECK_EQ(wk_open_on(io, "wal", &options, &ns, NULL), WK_OK);
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	CHECK_EQ(report.catalogue_lost, 1);
	int there = 0;
	for (int i = 0; i < LOGS; i++) {
		char name[20];
		wk_log *log;
		name_of(i, name);
		if (wk_log_open(ns, name, strlen(name), false, NULL, &log, NULL) == WK_OK) {
			wk_log_release(log);
			there++;
		}
	}
	CHECK_EQ(there, LOGS - 1);
	spoil(0, 0);
	close_all(ns, NULL, NULL);
	io->operations->destroy(io);
}

static void scrubbed(wk_open_options *options) {
	large_files(options);
	options->scrub_rate = 1 << 30;
}

TEST(the_scrub_counts_it) {
	wk_io *io = disk_of(1);
	watch_file(io, "0000000000000001.wkj");
	many_records(io);
	wk_namespace *ns = open_with(io, scrubbed);
	spoil(SPOILT * WK_IO_ALIGNMENT, WK_IO_ALIGNMENT);
	wk_stats stats = {0};
	for (int i = 0; i < 100 && stats.scrub_damaged == 0; i++) {
		wait_and_work(io, ns, 20);
		wk_namespace_stats(ns, &stats);
	}
	CHECK_EQ(stats.scrub_damaged, 1);
	spoil(0, 0);
	close_all(ns, NULL, NULL);
	io->operations->destroy(io);
}

int main(void) {
	RUN(a_reader_is_given_what_stands_beside_it);
	RUN(an_open_that_accepts_loss_gives_up_what_stands_in_it_and_no_more);
	RUN(what_the_machine_refuses_for_another_reason_is_not_lost);
	RUN(the_catalogue_loses_one_change);
	RUN(the_scrub_counts_it);
	return check_done();
}
