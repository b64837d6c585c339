/*
 * test_described_tail.c: a truncation that is accepted while describe() reads where the log ends is not told before it is
 * durable.
 */
#include "stalling_disk.h"
#include <pthread.h>

enum { RECORDS = 10, CUT = 5 };

static _Thread_local bool reads_slowly;
static _Atomic bool reading, may_read;

static int64_t slow_pread(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	if (reads_slowly) {
		atomic_store(&reading, true);
		while (!atomic_load(&may_read))
			nap_ms(1);
	}
	return plain_operations->pread(io, file, buffer, size, offset);
}

typedef struct desk {
	wk_log *log;
	wk_dlsn before;
	_Atomic int64_t first;
} desk;

static void *describe_it(void *context) {
	desk *d = context;
	wk_log_info info;
	reads_slowly = true;
	CHECK_EQ(wk_log_describe(d->log, &info, NULL), WK_OK);
	atomic_store(&d->first, info.first.sequence_id);
	return NULL;
}

static void *truncate_it(void *context) {
	desk *d = context;
	CHECK_EQ(wk_log_truncate(d->log, &d->before, false, NULL), WK_OK);
	return NULL;
}

TEST(a_truncation_that_comes_while_the_tail_is_read_is_not_told_before_it_is_durable) {
	static desk d;
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.sync_method = WK_SYNC_DSYNC;
	wk_namespace *ns = NULL;
	char path[64];
	strcpy(path, temporary());
	make_small(path, RECORDS);
	wk_io *io = stalling_disk();
	stalling_operations.pread = slow_pread;
	CHECK_EQ(wk_open_on(io, path, &options, &ns, NULL), WK_OK);
	wk_log *log = log_named(ns, "log");
	wk_position at;
	CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, CUT, NULL, &at, NULL), WK_OK);
	d.before = at.dlsn;
	wk_log_release(log); /* its tail is forgotten */
	d.log = log_named(ns, "log");
	atomic_store(&d.first, -1);
	nap_ms(300);
	pthread_t describing, truncating;
	CHECK_EQ(pthread_create(&describing, NULL, describe_it, &d), 0);
	while (!atomic_load(&reading))
		nap_ms(1);
	atomic_store(&stalled, true);
	CHECK_EQ(pthread_create(&truncating, NULL, truncate_it, &d), 0);
	nap_ms(200);
	atomic_store(&may_read, true);
	nap_ms(200);
	int64_t told = atomic_load(&d.first);
	atomic_store(&stalled, false);
	CHECK_EQ(pthread_join(describing, NULL), 0);
	CHECK_EQ(pthread_join(truncating, NULL), 0);
	CHECK(told <= 0); /* nothing yet, or what is durable */
	close_all(ns, d.log, NULL);
	io->operations->destroy(io);
	remove_tree(path);
}

int main(void) {
	RUN(a_truncation_that_comes_while_the_tail_is_read_is_not_told_before_it_is_durable);
	return check_done();
}
