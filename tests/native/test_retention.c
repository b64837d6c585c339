/*
 * test_retention.c: what a log lets go of by itself: segments that are older than retention_seconds, and none that it
 * was asked to keep for ever.
 */
#include "manual_directory.h"

enum { RECORDS = 5, TEN_SECONDS_MS = 10000 };

/* A segment a record, or all in one. */
static wk_log *log_that_keeps(wk_namespace *ns, uint64_t retention_seconds, uint64_t segment_seconds) {
	wk_log_options options;
	wk_log_options_init(&options);
	options.segment_bytes = segment_seconds == 0 ? 1 : 1 << 20;
	options.segment_seconds = segment_seconds;
	options.retention_seconds = retention_seconds;
	wk_log *log = NULL;
	wk_error error = {0};
	check_ok(wk_log_open(ns, "log", 3, true, &options, &log, &error), &error, "the log opens");
	return log;
}

static void put_five(wk_writer *writer) {
	for (int i = 0; i < RECORDS; i++)
		put(writer, "record", WK_SYNC);
}

static wk_log_info described(wk_log *log) {
	wk_log_info info;
	wk_error error = {0};
	check_ok(wk_log_describe(log, &info, &error), &error, "the log is described");
	return info;
}

TEST(what_is_older_goes_but_for_the_open_segment) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_that_keeps(ns, 60, 0);
	wk_writer *writer = writer_of(log);
	put_five(writer);
	wait_and_work(io, ns, 50 * 1000);
	CHECK_EQ(count_records(log), RECORDS);
	wait_and_work(io, ns, TEN_SECONDS_MS);
	CHECK_EQ(count_records(log), 1);
	leave(io, ns, log, writer);
}

/* The largest number, and those that come out as a second or as nothing where they are multiplied into 64 bits. */
static const uint64_t for_ever[] = {UINT64_MAX, UINT64_MAX / 1000 + 1, UINT64_MAX / 1000 + 2, (uint64_t)1 << 61};

TEST(what_is_kept_for_ever_is_kept) {
	for (size_t i = 0; i < sizeof for_ever / sizeof *for_ever; i++) {
		wk_io *io = disk_of(1);
		wk_namespace *ns = open_with(io, NULL);
		wk_log *log = log_that_keeps(ns, for_ever[i], 0);
		wk_writer *writer = writer_of(log);
		put_five(writer);
		wait_and_work(io, ns, TEN_SECONDS_MS);
		CHECK_EQ(count_records(log), RECORDS);
		close_all(ns, log, writer);
		ns = open_with(io, NULL); /* as it is stored */
		log = log_named(ns, "log");
		CHECK(described(log).options.retention_seconds == for_ever[i]);
		wait_and_work(io, ns, TEN_SECONDS_MS);
		CHECK_EQ(count_records(log), RECORDS);
		leave(io, ns, log, NULL);
	}
}

TEST(a_segment_that_never_ends_by_its_age_does_not) {
	for (size_t i = 0; i < sizeof for_ever / sizeof *for_ever; i++) {
		wk_io *io = disk_of(1);
		wk_namespace *ns = open_with(io, NULL);
		wk_log *log = log_that_keeps(ns, 0, for_ever[i]);
		wk_writer *writer = writer_of(log);
		for (int k = 0; k < RECORDS; k++) {
			put(writer, "record", WK_SYNC);
			wait_and_work(io, ns, TEN_SECONDS_MS);
		}
		CHECK_EQ(described(log).segments_count, 1);
		leave(io, ns, log, writer);
	}
}

TEST(a_segment_ends_when_it_is_old) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_that_keeps(ns, 0, 10);
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < RECORDS; i++) {
		put(writer, "record", WK_SYNC);
		wait_and_work(io, ns, TEN_SECONDS_MS);
	}
	CHECK_EQ(described(log).segments_count, RECORDS);
	leave(io, ns, log, writer);
}

int main(void) {
	RUN(what_is_older_goes_but_for_the_open_segment);
	RUN(what_is_kept_for_ever_is_kept);
	RUN(a_segment_that_never_ends_by_its_age_does_not);
	RUN(a_segment_ends_when_it_is_old);
	return check_done();
}
