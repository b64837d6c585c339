/*
 * test_backup_busy.c: copies of a directory that others append to, truncate and recycle (storage rule 21).
 */
#include "copied_directory.h"
#include <pthread.h>
#include <stdatomic.h>

typedef struct busy {
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
	_Atomic int64_t durable;   /* sequence id of the last record known durable */
	_Atomic int64_t truncated; /* records before it may be gone */
	_Atomic bool stop;
} busy;

static void *append_and_truncate(void *context) {
	busy *b = context;
	while (!atomic_load(&b->stop)) {
		int64_t at = append_one(b->writer);
		atomic_store(&b->durable, at);
		if (at % 40 != 39)
			continue;
		wk_position before;
		wk_error error = {0};
		atomic_store(&b->truncated, at - 60);
		check_ok(wk_log_find(b->log, WK_FIND_SEQUENCE_ID, at - 60 < 0 ? 0 : at - 60, NULL, &before, &error), &error,
		         "finding the place");
		check_ok(wk_log_truncate(b->log, &before.dlsn, false, &error), &error, "truncating");
	}
	return NULL;
}

static void start(busy *b, const char *path, pthread_t *thread) {
	b->ns = open_small(path);
	b->log = log_named(b->ns, "log");
	b->writer = writer_of(b->log);
	atomic_store(&b->durable, -1);
	atomic_store(&b->truncated, 0);
	atomic_store(&b->stop, false);
	CHECK_EQ(pthread_create(thread, NULL, append_and_truncate, b), 0);
	while (atomic_load(&b->durable) < 100)
		usleep(1000);
}

static void finish(busy *b, pthread_t thread) {
	atomic_store(&b->stop, true);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	close_all(b->ns, b->log, b->writer);
}

/* Appends to a directory until its files have been through recycling. */
static void go_on(const char *path) {
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < 150; i++) {
		int64_t at = append_one(writer);
		wk_position before;
		wk_error error = {0};
		if (i % 30 == 29) {
			check_ok(wk_log_find(log, WK_FIND_SEQUENCE_ID, at - 5, NULL, &before, &error), &error, "finding the place");
			check_ok(wk_log_truncate(log, &before.dlsn, false, &error), &error, "truncating");
		}
	}
	int64_t first, last;
	read_all(ns, &first, &last);
	close_all(ns, log, writer);
}

TEST(what_was_durable_before_the_call_is_in_the_copy_of_a_busy_directory) {
	const char *place = temporary();
	char path[100], copies[6][100];
	snprintf(path, sizeof path, "%s/wal", place);
	busy b;
	pthread_t thread;
	start(&b, path, &thread);
	int64_t before[6], truncated[6];
	for (int i = 0; i < 6; i++) {
		snprintf(copies[i], sizeof copies[i], "%s/copy%d", place, i);
		before[i] = atomic_load(&b.durable);
		backup(b.ns, copies[i]);
		truncated[i] = atomic_load(&b.truncated);
		usleep(30000);
	}
	finish(&b, thread);
	verify_clean(path);
	for (int i = 0; i < 6; i++) { /* long after: what they hold has since been truncated and recycled next door */
		verify_clean(copies[i]);
		wk_namespace *ns = open_small(copies[i]);
		int64_t first, last;
		read_all(ns, &first, &last);
		CHECK(last >= before[i]);
		CHECK(first <= (truncated[i] > 0 ? truncated[i] : 0));
		close_all(ns, NULL, NULL);
	}
	remove_tree(place);
}

TEST(the_directory_and_its_copies_go_on_without_touching_each_other) {
	const char *place = temporary();
	char path[100], copy[100], second[100];
	snprintf(path, sizeof path, "%s/wal", place);
	snprintf(copy, sizeof copy, "%s/copy", place);
	snprintf(second, sizeof second, "%s/second", place);
	busy b;
	pthread_t thread;
	start(&b, path, &thread);
	backup(b.ns, copy);
	backup(b.ns, second);
	finish(&b, thread);
	CHECK(shared_files(copy, second) > 0);
	wk_namespace *ns = open_small(second);
	int64_t first, last, first_then, last_then;
	read_all(ns, &first, &last);
	close_all(ns, NULL, NULL);
	go_on(copy);
	go_on(path);
	go_on(copy);
	verify_clean(path);
	verify_clean(copy);
	verify_clean(second);
	ns = open_small(second); /* it was left alone, and holds what it held */
	read_all(ns, &first_then, &last_then);
	CHECK_EQ(first_then, first);
	CHECK_EQ(last_then, last);
	close_all(ns, NULL, NULL);
	remove_tree(place);
}

int main(void) {
	RUN(what_was_durable_before_the_call_is_in_the_copy_of_a_busy_directory);
	RUN(the_directory_and_its_copies_go_on_without_touching_each_other);
	return check_done();
}
