/*
 * test_truncation_told.c: that records were truncated is told once it is durable: a reader or a search that hears of it goes on
 * behind them, and a crash would bring them back. (Cursors do so: "where it stands, or what was cut, is told once it is
 * durable".)
 */
#include "stalling_disk.h"
#include <pthread.h>

typedef struct desk {
	wk_log *log;
	wk_reader *reader;
	wk_dlsn before;
	_Atomic bool told_reader, told_search;
} desk;

static void *truncate_it(void *context) {
	desk *d = context;
	CHECK_EQ(wk_log_truncate(d->log, &d->before, false, NULL), WK_OK);
	return NULL;
}

static void *read_it(void *context) {
	desk *d = context;
	wk_batch *batch;
	CHECK_EQ(wk_reader_next(d->reader, 1, 1 << 20, 0, &batch, NULL), WK_TRUNCATED);
	atomic_store(&d->told_reader, true);
	return NULL;
}

static void *search_it(void *context) {
	desk *d = context;
	wk_position at;
	CHECK_EQ(wk_log_find(d->log, WK_FIND_SEQUENCE_ID, 1, NULL, &at, NULL), WK_TRUNCATED);
	atomic_store(&d->told_search, true);
	return NULL;
}

TEST(nobody_is_told_of_a_truncation_before_it_is_durable) {
	static desk d;
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.sync_method = WK_SYNC_DSYNC;
	wk_namespace *ns = NULL;
	wk_batch *batch;
	char path[64];
	strcpy(path, temporary());
	wk_io *io = stalling_disk();
	CHECK_EQ(wk_open_on(io, path, &options, &ns, NULL), WK_OK);
	d.log = log_named(ns, "log");
	wk_writer *writer = writer_of(d.log);
	for (int i = 0; i < 10; i++)
		append_one(writer);
	wk_position at;
	CHECK_EQ(wk_log_find(d.log, WK_FIND_SEQUENCE_ID, 5, NULL, &at, NULL), WK_OK);
	d.before = at.dlsn;
	CHECK_EQ(wk_reader_open(d.log, NULL, &d.reader, NULL), WK_OK);
	CHECK_EQ(wk_reader_next(d.reader, 1, 1, 0, &batch, NULL), WK_OK);
	wk_batch_release(batch);
	nap_ms(300);
	atomic_store(&stalled, true);
	pthread_t threads[3];
	CHECK_EQ(pthread_create(&threads[0], NULL, truncate_it, &d), 0);
	nap_ms(100);
	CHECK_EQ(pthread_create(&threads[1], NULL, read_it, &d), 0);
	CHECK_EQ(pthread_create(&threads[2], NULL, search_it, &d), 0);
	nap_ms(200);
	bool told_reader = atomic_load(&d.told_reader), told_search = atomic_load(&d.told_search);
	atomic_store(&stalled, false);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK(!told_reader);
	CHECK(!told_search);
	wk_reader_release(d.reader);
	close_all(ns, d.log, writer);
	io->operations->destroy(io);
	remove_tree(path);
}

int main(void) {
	RUN(nobody_is_told_of_a_truncation_before_it_is_durable);
	return check_done();
}
