/*
 * test_failed_truncation.c: a truncation whose write failed is not durable, and a crash takes it back: who then asks where
 * the log begins, or reads it from its start, must not be told of it.
 */
#include "manual_directory.h"
#include "sim/faulty.h"
#include <errno.h>

enum { RECORDS = 10, CUT = 5 };

typedef struct failed {
	wk_io *io;
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
} failed;

/* Ten durable records; the truncation before the fifth cannot be written. */
static failed fail_a_truncation(void) {
	failed f = {.io = disk_of(7)};
	f.ns = open_with(f.io, NULL);
	f.log = log_named(f.ns, "log");
	f.writer = writer_of(f.log);
	for (int i = 0; i < RECORDS; i++)
		put(f.writer, "record", WK_SYNC);
	wait_and_work(f.io, f.ns, 1000);
	wk_position at;
	wk_error error = {0};
	CHECK_EQ(wk_log_find(f.log, WK_FIND_SEQUENCE_ID, CUT, NULL, &at, NULL), WK_OK);
	wk_faulty_fail(wk_faulty_of(f.io), WK_FAULT_WRITE, 0, EIO, false);
	CHECK_EQ(wk_log_truncate(f.log, &at.dlsn, false, &error), WK_FAILED);
	return f;
}

/* Where the log begins for the next process. */
static int64_t first_after_a_power_cut(failed *f) {
	wk_abandon(f->ns);
	wk_writer_close(f->writer, 0, NULL);
	wk_log_release(f->log);
	wk_faulty_crash(wk_faulty_of(f->io), 3);
	wk_namespace *ns = open_with(f->io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_log_info info;
	CHECK_EQ(wk_log_describe(log, &info, NULL), WK_OK);
	leave(f->io, ns, log, NULL);
	return info.first.sequence_id;
}

TEST(where_a_log_begins_is_not_told_before_its_truncation_is_durable) {
	failed f = fail_a_truncation();
	wk_log_info info = {0};
	wk_status status = wk_log_describe(f.log, &info, NULL);
	int64_t after = first_after_a_power_cut(&f);
	CHECK_EQ(status, WK_OK); /* what is there can be read */
	CHECK_EQ(info.first.sequence_id, after);
}

TEST(a_reader_from_the_start_does_not_pass_over_what_a_failed_truncation_named) {
	failed f = fail_a_truncation();
	wk_reader *reader = NULL;
	wk_batch *batch = NULL;
	wk_status status = wk_reader_open(f.log, NULL, &reader, NULL);
	int64_t given = -1;
	if (status == WK_OK && (status = wk_reader_next(reader, 1, 1 << 20, 0, &batch, NULL)) == WK_OK) {
		size_t count;
		given = wk_batch_records(batch, &count)[0].at.sequence_id;
		wk_batch_release(batch);
	}
	if (reader != NULL)
		wk_reader_release(reader);
	int64_t after = first_after_a_power_cut(&f);
	CHECK_EQ(status, WK_OK);
	CHECK_EQ(given, after);
}

/* One that is durable stays, whatever fails behind it. */
TEST(a_durable_truncation_stays) {
	failed f = {.io = disk_of(7)};
	f.ns = open_with(f.io, NULL);
	f.log = log_named(f.ns, "log");
	f.writer = writer_of(f.log);
	for (int i = 0; i < RECORDS; i++)
		put(f.writer, "record", WK_SYNC);
	wait_and_work(f.io, f.ns, 1000);
	wk_position at;
	wk_log_info info;
	CHECK_EQ(wk_log_find(f.log, WK_FIND_SEQUENCE_ID, CUT, NULL, &at, NULL), WK_OK);
	CHECK_EQ(wk_log_truncate(f.log, &at.dlsn, false, NULL), WK_OK);
	wk_faulty_fail(wk_faulty_of(f.io), WK_FAULT_WRITE, 0, EIO, false);
	CHECK_EQ(wk_cursor_set(f.log, "cursor", 6, &at, NULL), WK_FAILED);
	CHECK_EQ(wk_log_describe(f.log, &info, NULL), WK_OK);
	CHECK_EQ(info.first.sequence_id, CUT);
	CHECK_EQ(first_after_a_power_cut(&f), CUT);
}

int main(void) {
	RUN(a_durable_truncation_stays);
	RUN(where_a_log_begins_is_not_told_before_its_truncation_is_durable);
	RUN(a_reader_from_the_start_does_not_pass_over_what_a_failed_truncation_named);
	return check_done();
}
