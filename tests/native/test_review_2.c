/*
 * test_review_2.c: that a stream has ended is said when it is durable, to appenders and to followers (docs/guarantees.md:
 * "What is said of the catalogue stays"). The disk stands still while the end is on its way.
 */
#include "stalling_disk.h"
#include <pthread.h>

typedef struct desk {
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
	check_ok(wk_open_on(stalling_disk(), path, &options, &d->ns, &error), &error, "the directory opens");
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
	nap_ms(100);
	CHECK_EQ(pthread_create(&appender, NULL, append, &d), 0);
	nap_ms(200);
	bool told = atomic_load(&d.answered);
	atomic_store(&stalled, false);
	CHECK_EQ(pthread_join(ender, NULL), 0);
	CHECK_EQ(pthread_join(appender, NULL), 0);
	CHECK_EQ(d.status, WK_END_OF_STREAM);
	CHECK(!told);
	close_all(d.ns, d.log, d.writer);
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
	nap_ms(100);
	wk_status told = wk_reader_next(reader, 1, 1 << 20, 100000000, &batch, NULL);
	atomic_store(&stalled, false);
	CHECK_EQ(pthread_join(ender, NULL), 0);
	CHECK_EQ(told, WK_TIMEOUT);
	CHECK_EQ(wk_reader_next(reader, 1, 1 << 20, 10000000000u, &batch, NULL), WK_END);
	wk_reader_release(reader);
	close_all(d.ns, d.log, d.writer);
	remove_tree(path);
}

int main(void) {
	RUN(an_append_is_not_told_of_an_end_that_a_crash_may_take_back);
	RUN(a_follower_of_an_empty_log_is_not_told_of_an_end_that_a_crash_may_take_back);
	return check_done();
}
