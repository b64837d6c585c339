/*
 * test_follower_end.c: a reader of a follower comes to the end of a stream behind its last record, also where other
 * threads look at the directory through the same follower: their look may bring both between two steps of the reader.
 */
#include "engine/directory/handles.h"
#include "engine/engine.h"
#include "small_directory.h"
#include <pthread.h>
#include <stdatomic.h>

enum { SECONDS = 20, LOOKERS = 4 };

static wk_namespace *ns, *follower;
static wk_log *looked_at;
static _Atomic bool over;
static _Atomic long turn; /* the number of the log that is to be written and ended */

static wk_log *numbered(wk_namespace *in, long number, bool create) {
	char name[32];
	wk_log *log = NULL;
	snprintf(name, sizeof name, "log-%ld", number);
	CHECK_EQ(wk_log_open(in, name, strlen(name), create, NULL, &log, NULL), WK_OK);
	return log;
}

static void *look(void *context) {
	(void)context;
	wk_log_info info;
	while (!atomic_load(&over))
		CHECK_EQ(wk_log_describe(looked_at, &info, NULL), WK_OK);
	return NULL;
}

static void *write_and_end(void *context) {
	(void)context;
	for (long done = 0; !atomic_load(&over);) {
		if (atomic_load(&turn) == done)
			continue;
		done = atomic_load(&turn);
		wk_log *log = numbered(ns, done, false);
		wk_writer *writer = writer_of(log);
		CHECK_EQ(wk_writer_append(writer, "x", 1, NULL, NULL, NULL), WK_OK);
		CHECK_EQ(wk_writer_end_of_stream(writer, NULL), WK_OK);
		CHECK_EQ(wk_writer_close(writer, UINT64_MAX, NULL), WK_OK);
		wk_log_release(log);
	}
	return NULL;
}

/* How many records a reader is given before it is told of the end. */
static size_t records_before_the_end(long number) {
	wk_log *log = numbered(follower, number, false);
	wk_read_options options;
	wk_read_options_init(&options);
	options.follow = true;
	wk_reader *reader = NULL;
	CHECK_EQ(wk_reader_open(log, &options, &reader, NULL), WK_OK);
	wk_log_release(numbered(ns, number + 1, true));
	atomic_store(&turn, number);
	size_t given = 0, count;
	wk_status status;
	do {
		wk_batch *batch;
		status = wk_reader_next(reader, 10, 1 << 20, 0, &batch, NULL);
		CHECK(status == WK_OK || status == WK_TIMEOUT || status == WK_END);
		if (status != WK_OK)
			continue;
		wk_batch_records(batch, &count);
		given += count;
		wk_batch_release(batch);
	} while (status != WK_END);
	wk_reader_release(reader);
	wk_log_release(log);
	return given;
}

TEST(the_last_record_comes_before_the_end_whoever_else_looks) {
	char path[64];
	strcpy(path, temporary());
	ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_log_release(numbered(ns, 1, true));
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = true;
	CHECK_EQ(wk_open(path, &options, &follower, NULL), WK_OK);
	CHECK_EQ(wk_log_open(follower, "log", 3, false, NULL, &looked_at, NULL), WK_OK);
	pthread_t writer, lookers[LOOKERS];
	CHECK_EQ(pthread_create(&writer, NULL, write_and_end, NULL), 0);
	for (int i = 0; i < LOOKERS; i++)
		CHECK_EQ(pthread_create(&lookers[i], NULL, look, NULL), 0);
	time_t begin = time(NULL);
	for (long number = 1; time(NULL) - begin < SECONDS; number++)
		CHECK_EQ(records_before_the_end(number), 1);
	atomic_store(&over, true);
	CHECK_EQ(pthread_join(writer, NULL), 0);
	for (int i = 0; i < LOOKERS; i++)
		CHECK_EQ(pthread_join(lookers[i], NULL), 0);
	wk_log_release(looked_at);
	CHECK_EQ(wk_close(follower, UINT64_MAX, NULL), WK_OK);
	close_all(ns, log, NULL);
	remove_tree(path);
}

/* Who saw the end asks the wait word of the tail whether another thread's look brought something since. */
TEST(a_look_that_brings_a_record_changes_the_wait_word) {
	char path[64];
	strcpy(path, temporary());
	ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = true;
	CHECK_EQ(wk_open(path, &options, &follower, NULL), WK_OK);
	CHECK_EQ(wk_log_open(follower, "log", 3, false, NULL, &looked_at, NULL), WK_OK);
	wk_writer *writer = writer_of(log);
	for (int64_t next = 1; next <= 3; next++) {
		uint32_t seen = wk_wait_word_look(&follower->engine->tail);
		append_one(writer);
		wk_log_info info = {0};
		while (info.next.sequence_id < next)
			CHECK_EQ(wk_log_describe(looked_at, &info, NULL), WK_OK);
		CHECK(wk_wait_word_look(&follower->engine->tail) != seen);
	}
	wk_log_release(looked_at);
	CHECK_EQ(wk_close(follower, UINT64_MAX, NULL), WK_OK);
	close_all(ns, log, writer);
	remove_tree(path);
}

int main(void) {
	RUN(a_look_that_brings_a_record_changes_the_wait_word);
	RUN(the_last_record_comes_before_the_end_whoever_else_looks);
	return check_done();
}
