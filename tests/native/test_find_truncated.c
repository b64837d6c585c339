/*
 * test_find_truncated.c: what is looked for is truncated while the search reads. The answer is WK_TRUNCATED, as it is a
 * moment later, and not the first record that is left: who asked for one record would go on behind it unawares.
 */
#include "stalling_disk.h"
#include <pthread.h>

enum { RECORDS = 10, WANTED = 2, CUT = 5 };

typedef struct desk {
	wk_log *log;
	wk_dlsn dlsn;
	uint32_t by;
	wk_status status;
	wk_position at;
} desk;

static void *search(void *context) {
	desk *d = context;
	reads_slowly = true;
	d->status = wk_log_find(d->log, d->by, WANTED, &d->dlsn, &d->at, NULL);
	return NULL;
}

static void truncated_during_the_search(uint32_t by) {
	char path[64];
	strcpy(path, temporary());
	make_small(path, RECORDS);
	wk_io *io = stalling_disk();
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(io, path, NULL, &ns, &error), &error, "the directory opens");
	desk d = {.log = log_named(ns, "log"), .by = by};
	wk_position at, wanted;
	CHECK_EQ(wk_log_find(d.log, WK_FIND_SEQUENCE_ID, CUT, NULL, &at, NULL), WK_OK);
	CHECK_EQ(wk_log_find(d.log, WK_FIND_SEQUENCE_ID, WANTED, NULL, &wanted, NULL), WK_OK);
	d.dlsn = wanted.dlsn;
	pthread_t searching;
	CHECK_EQ(pthread_create(&searching, NULL, search, &d), 0);
	while (!atomic_load(&reading))
		nap_ms(1);
	CHECK_EQ(wk_log_truncate(d.log, &at.dlsn, false, NULL), WK_OK);
	atomic_store(&may_read, true);
	CHECK_EQ(pthread_join(searching, NULL), 0);
	if (d.status == WK_OK)
		printf("found %lld\n", (long long)d.at.sequence_id);
	CHECK_EQ(d.status, WK_TRUNCATED);
	close_all(ns, d.log, NULL);
	io->operations->destroy(io);
	remove_tree(path);
}

TEST(by_sequence_id) {
	truncated_during_the_search(WK_FIND_SEQUENCE_ID);
}

TEST(by_dlsn) {
	truncated_during_the_search(WK_FIND_DLSN);
}

int main(void) {
	RUN(by_sequence_id);
	RUN(by_dlsn);
	return check_done();
}
