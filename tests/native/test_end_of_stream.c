/*
 * test_end_of_stream.c: that a stream has ended is said when it is durable, to appenders, to followers and of the log
 * (docs/guarantees.md: "What is said of the catalogue stays"). The disk stands still while the end is on its way, or
 * fails under it.
 */
#include "change_on_its_way.h"
#include "manual_directory.h"
#include "sim/faulty.h"
#include "stalling_disk.h"
#include <errno.h>
#include <pthread.h>

/* ---- the disk stands still ---- */

typedef struct desk {
	wk_io *io;
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
	_Atomic bool answered;
	wk_status status;
} desk;

static void open_desk(desk *d, char *path) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.sync_method = WK_SYNC_DSYNC;
	wk_error error = {0};
	strcpy(path, temporary());
	d->io = stalling_disk();
	check_ok(wk_open_on(d->io, path, &options, &d->ns, &error), &error, "the directory opens");
	d->log = log_named(d->ns, "log");
	d->writer = writer_of(d->log);
}

static void *end_the_stream(void *context) {
	desk *d = context;
	CHECK_EQ(wk_writer_end_of_stream(d->writer, NULL), WK_OK);
	return NULL;
}

static void *append(void *context) {
	desk *d = context;
	d->status = wk_writer_append(d->writer, "record", 6, NULL, NULL, NULL);
	atomic_store(&d->answered, true);
	return NULL;
}

TEST(an_append_is_not_told_of_an_end_that_a_crash_may_take_back) {
	desk d = {0};
	char path[64];
	pthread_t ender, appender;
	open_desk(&d, path);
	append_one(d.writer);
	nap_ms(300); /* the keeper has prepared its files, the last block is confirmed */
	atomic_store(&stalled, true);
	CHECK_EQ(pthread_create(&ender, NULL, end_the_stream, &d), 0);
	until_a_change_is_on_its_way(d.ns);
	CHECK_EQ(pthread_create(&appender, NULL, append, &d), 0);
	nap_ms(200);
	bool told = atomic_load(&d.answered);
	atomic_store(&stalled, false);
	CHECK_EQ(pthread_join(ender, NULL), 0);
	CHECK_EQ(pthread_join(appender, NULL), 0);
	CHECK_EQ(d.status, WK_END_OF_STREAM);
	CHECK(!told);
	leave(d.io, d.ns, d.log, d.writer);
	remove_tree(path);
}

TEST(a_follower_of_an_empty_log_is_not_told_of_an_end_that_a_crash_may_take_back) {
	desk d = {0};
	char path[64];
	pthread_t ender;
	open_desk(&d, path);
	wk_read_options options;
	wk_read_options_init(&options);
	options.follow = true;
	wk_reader *reader = NULL;
	wk_batch *batch;
	CHECK_EQ(wk_reader_open(d.log, &options, &reader, NULL), WK_OK);
	nap_ms(300);
	atomic_store(&stalled, true);
	CHECK_EQ(pthread_create(&ender, NULL, end_the_stream, &d), 0);
	until_a_change_is_on_its_way(d.ns);
	wk_status told = wk_reader_next(reader, 1, 1 << 20, 100000000, &batch, NULL);
	atomic_store(&stalled, false);
	CHECK_EQ(pthread_join(ender, NULL), 0);
	CHECK_EQ(told, WK_TIMEOUT);
	CHECK_EQ(wk_reader_next(reader, 1, 1 << 20, 10000000000u, &batch, NULL), WK_END);
	wk_reader_release(reader);
	leave(d.io, d.ns, d.log, d.writer);
	remove_tree(path);
}

/* ---- the disk fails ---- */

static void end_fails(uint64_t seed) {
	wk_io *io = disk_of(seed);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	put(writer, "record", WK_SYNC);
	work(ns);
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_WRITE, 0, EIO, true);
	wk_error error = {0};
	CHECK_EQ(wk_writer_end_of_stream(writer, &error), WK_FAILED);
	wk_log_info told;
	CHECK_EQ(wk_log_describe(log, &told, &error), WK_OK);
	wk_writer_close(writer, UINT64_MAX, NULL);
	wk_log_release(log);
	wk_abandon(ns);
	wk_faulty_heal(wk_faulty_of(io));
	wk_faulty_crash(wk_faulty_of(io), seed);
	ns = open_with(io, NULL);
	log = log_named(ns, "log");
	wk_log_info found;
	CHECK_EQ(wk_log_describe(log, &found, &error), WK_OK);
	CHECK(!told.end_of_stream || found.end_of_stream);
	leave(io, ns, log, NULL);
}

/* A failed write may land or not. */
TEST(a_failed_end_of_stream_is_not_told_for_one) {
	for (uint64_t seed = 1; seed <= 20; seed++)
		end_fails(seed);
}

int main(void) {
	RUN(an_append_is_not_told_of_an_end_that_a_crash_may_take_back);
	RUN(a_follower_of_an_empty_log_is_not_told_of_an_end_that_a_crash_may_take_back);
	RUN(a_failed_end_of_stream_is_not_told_for_one);
	return check_done();
}
