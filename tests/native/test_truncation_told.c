/*
 * test_truncation_told.c: that records were truncated is told once it is durable. Until then a reader, a search and
 * describe() wait, or go by what is durable: who heard of it goes on behind the records, and a crash would bring them
 * back. (Cursors do so: "where it stands, or what was cut, is told once it is durable".)
 */
#include "change_on_its_way.h"
#include "stalling_disk.h"
#include <pthread.h>

enum { RECORDS = 10, CUT = 5, TOLD = 1000 };

/* ---- a log, and one truncation of it that stands still ---- */

typedef struct desk {
	char path[64];
	wk_io *io;
	wk_namespace *ns;
	wk_log *log;
	wk_reader *reader;
	wk_dlsn before;
	_Atomic int64_t answer; /* a sequence id, or TOLD; -1: none yet */
} desk;

static void prepare(desk *d, bool opens_reader) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.sync_method = WK_SYNC_DSYNC;
	wk_position at;
	strcpy(d->path, temporary());
	make_small(d->path, RECORDS);
	d->io = stalling_disk();
	CHECK_EQ(wk_open_on(d->io, d->path, &options, &d->ns, NULL), WK_OK);
	wk_log *log = log_named(d->ns, "log");
	CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, CUT, NULL, &at, NULL), WK_OK);
	d->before = at.dlsn;
	wk_log_release(log); /* its tail is forgotten */
	d->log = log_named(d->ns, "log");
	atomic_store(&d->answer, -1);
	d->reader = NULL; /* opening one reads the tail */
	if (opens_reader)
		CHECK_EQ(wk_reader_open(d->log, NULL, &d->reader, NULL), WK_OK);
	nap_ms(300); /* what an open writes in the background is done */
}

static void *truncate_it(void *context) {
	desk *d = context;
	CHECK_EQ(wk_log_truncate(d->log, &d->before, false, NULL), WK_OK);
	return NULL;
}

/* What `ask` answered while the truncation stood still; -1 where it waited. It may have begun before the truncation. */
static int64_t answer_during(void *(*ask)(void *), desk *d, bool begins_before) {
	pthread_t asking, truncating;
	if (begins_before) {
		CHECK_EQ(pthread_create(&asking, NULL, ask, d), 0);
		while (!atomic_load(&reading))
			nap_ms(1);
	}
	atomic_store(&stalled, true);
	CHECK_EQ(pthread_create(&truncating, NULL, truncate_it, d), 0);
	until_a_change_is_on_its_way(d->ns);
	if (!begins_before)
		CHECK_EQ(pthread_create(&asking, NULL, ask, d), 0);
	atomic_store(&may_read, true);
	nap_ms(200);
	int64_t answered = atomic_load(&d->answer);
	atomic_store(&stalled, false);
	CHECK_EQ(pthread_join(asking, NULL), 0);
	CHECK_EQ(pthread_join(truncating, NULL), 0);
	if (d->reader != NULL)
		wk_reader_release(d->reader);
	close_all(d->ns, d->log, NULL);
	d->io->operations->destroy(d->io);
	remove_tree(d->path);
	return answered;
}

/* ---- who asks ---- */

static void *read_on(void *context) {
	desk *d = context;
	wk_batch *batch;
	CHECK_EQ(wk_reader_next(d->reader, 1, 1 << 20, 0, &batch, NULL), WK_TRUNCATED);
	atomic_store(&d->answer, TOLD);
	return NULL;
}

static void *read_first(void *context) {
	desk *d = context;
	wk_batch *batch;
	size_t count;
	CHECK_EQ(wk_reader_next(d->reader, 1, 1 << 20, 0, &batch, NULL), WK_OK);
	atomic_store(&d->answer, wk_batch_records(batch, &count)[0].at.sequence_id);
	wk_batch_release(batch);
	return NULL;
}

static void *search_by_id(void *context) {
	desk *d = context;
	wk_position at;
	CHECK_EQ(wk_log_find(d->log, WK_FIND_SEQUENCE_ID, 1, NULL, &at, NULL), WK_TRUNCATED);
	atomic_store(&d->answer, TOLD);
	return NULL;
}

static void *search_by_txid(void *context) {
	desk *d = context;
	wk_position at;
	CHECK_EQ(wk_log_find(d->log, WK_FIND_TXID, 0, NULL, &at, NULL), WK_OK);
	atomic_store(&d->answer, at.sequence_id);
	return NULL;
}

static void *describe(void *context) {
	desk *d = context;
	wk_log_info info;
	reads_slowly = true;
	CHECK_EQ(wk_log_describe(d->log, &info, NULL), WK_OK);
	atomic_store(&d->answer, info.first.sequence_id);
	return NULL;
}

TEST(a_reader_is_not_told_of_a_truncation_before_it_is_durable) {
	static desk d;
	wk_batch *batch;
	prepare(&d, true);
	CHECK_EQ(wk_reader_next(d.reader, 1, 1, 0, &batch, NULL), WK_OK);
	wk_batch_release(batch);
	CHECK_EQ(answer_during(read_on, &d, false), -1);
}

TEST(a_search_by_sequence_id_is_not_told_before_it_is_durable) {
	static desk d;
	prepare(&d, true);
	CHECK_EQ(answer_during(search_by_id, &d, false), -1);
}

TEST(a_reader_at_the_start_does_not_pass_over_what_is_not_yet_truncated) {
	static desk d;
	prepare(&d, true);
	CHECK(answer_during(read_first, &d, false) <= 0);
}

TEST(a_search_by_txid_does_not_pass_over_what_is_not_yet_truncated) {
	static desk d;
	prepare(&d, true);
	CHECK(answer_during(search_by_txid, &d, false) <= 0);
}

TEST(a_truncation_that_comes_while_describe_reads_the_tail_is_not_told_before_it_is_durable) {
	static desk d;
	prepare(&d, false);
	CHECK(answer_during(describe, &d, true) <= 0);
}

int main(void) {
	RUN(a_reader_is_not_told_of_a_truncation_before_it_is_durable);
	RUN(a_search_by_sequence_id_is_not_told_before_it_is_durable);
	RUN(a_reader_at_the_start_does_not_pass_over_what_is_not_yet_truncated);
	RUN(a_search_by_txid_does_not_pass_over_what_is_not_yet_truncated);
	RUN(a_truncation_that_comes_while_describe_reads_the_tail_is_not_told_before_it_is_durable);
	return check_done();
}
