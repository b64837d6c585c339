/*
 * test_truncation_on_its_way.c: while a truncation is not durable, a reader that was opened at the start of the log and a
 * search by txid either wait for it or go by what is durable. They must not go on behind the records that a crash brings
 * back. (test_truncation_told.c has a reader in the middle of the log, and a search by sequence id.)
 */
#include "stalling_disk.h"
#include <pthread.h>

enum { RECORDS = 10, CUT = 5 };

typedef struct desk {
	wk_log *log;
	wk_reader *reader;
	wk_dlsn before;
	_Atomic int64_t read, found; /* sequence ids; -1: no answer yet */
} desk;

static void *truncate_it(void *context) {
	desk *d = context;
	CHECK_EQ(wk_log_truncate(d->log, &d->before, false, NULL), WK_OK);
	return NULL;
}

static void *read_it(void *context) {
	desk *d = context;
	wk_batch *batch;
	size_t count;
	CHECK_EQ(wk_reader_next(d->reader, 1, 1 << 20, 0, &batch, NULL), WK_OK);
	atomic_store(&d->read, wk_batch_records(batch, &count)[0].at.sequence_id);
	wk_batch_release(batch);
	return NULL;
}

static void *search_it(void *context) {
	desk *d = context;
	wk_position at;
	CHECK_EQ(wk_log_find(d->log, WK_FIND_TXID, 0, NULL, &at, NULL), WK_OK);
	atomic_store(&d->found, at.sequence_id);
	return NULL;
}

/* What `ask` answered while the truncation stood still; -1 where it waited. */
static int64_t answer_during(void *(*ask)(void *), desk *d, const _Atomic int64_t *answer) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.sync_method = WK_SYNC_DSYNC;
	wk_namespace *ns = NULL;
	char path[64];
	strcpy(path, temporary());
	wk_io *io = stalling_disk();
	CHECK_EQ(wk_open_on(io, path, &options, &ns, NULL), WK_OK);
	d->log = log_named(ns, "log");
	wk_writer *writer = writer_of(d->log);
	for (int i = 0; i < RECORDS; i++)
		append_one(writer);
	wk_position at;
	CHECK_EQ(wk_log_find(d->log, WK_FIND_SEQUENCE_ID, CUT, NULL, &at, NULL), WK_OK);
	d->before = at.dlsn;
	atomic_store(&d->read, -1);
	atomic_store(&d->found, -1);
	CHECK_EQ(wk_reader_open(d->log, NULL, &d->reader, NULL), WK_OK);
	nap_ms(300);
	atomic_store(&stalled, true);
	pthread_t threads[2];
	CHECK_EQ(pthread_create(&threads[0], NULL, truncate_it, d), 0);
	nap_ms(100);
	CHECK_EQ(pthread_create(&threads[1], NULL, ask, d), 0);
	nap_ms(200);
	int64_t answered = atomic_load(answer);
	atomic_store(&stalled, false);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	wk_reader_release(d->reader);
	close_all(ns, d->log, writer);
	io->operations->destroy(io);
	remove_tree(path);
	return answered;
}

TEST(a_reader_at_the_start_does_not_pass_over_what_is_not_yet_truncated) {
	static desk d;
	CHECK(answer_during(read_it, &d, &d.read) <= 0);
}

TEST(a_search_by_txid_does_not_pass_over_what_is_not_yet_truncated) {
	static desk d;
	CHECK(answer_during(search_it, &d, &d.found) <= 0);
}

int main(void) {
	RUN(a_reader_at_the_start_does_not_pass_over_what_is_not_yet_truncated);
	RUN(a_search_by_txid_does_not_pass_over_what_is_not_yet_truncated);
	return check_done();
}
