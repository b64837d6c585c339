/*
 * test_io_psync.c: the seam over plain system calls.
 */
#include "io_machine.h"

static void write_without_the_flag(void) {
	static const long calls[] = {SYS_pwritev2};
	uint8_t *bytes = blocks(1, 'a'), *found = blocks(1, 0);
	wk_file *file = create("file", WK_IO_DIRECT);
	refuse(calls, 1, EOPNOTSUPP);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ops->pwrite(io, file, bytes, BLOCK, 0, WK_IO_DSYNC), BLOCK);
		CHECK_EQ(ops->pread(io, file, found, BLOCK, 0), BLOCK);
		CHECK(all_are(found, BLOCK, 'a'));
	}
	ops->close(io, file);
	remove_all("file", NULL);
	free(bytes);
	free(found);
	ops->destroy(io);
}

TEST(where_the_durable_flag_is_unknown_a_sync_follows) {
	in_a_child(write_without_the_flag);
}

static void write_where_the_sync_fails(void) {
	static const long calls[] = {SYS_pwritev2, SYS_fdatasync};
	uint8_t *bytes = blocks(1, 'a');
	wk_file *file = create("file", WK_IO_DIRECT);
	refuse(calls, 2, EOPNOTSUPP);
	CHECK_EQ(ops->pwrite(io, file, bytes, BLOCK, 0, WK_IO_DSYNC), -EOPNOTSUPP);
	CHECK_EQ(ops->pwrite(io, file, bytes, BLOCK, 0, 0), BLOCK);
	ops->close(io, file);
	remove_all("file", NULL);
	free(bytes);
	ops->destroy(io);
}

TEST(and_where_that_sync_fails_the_write_fails) {
	in_a_child(write_where_the_sync_fails);
}

static uint32_t word;

static void *change_the_word(void *context) {
	(void)context;
	__atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
	wk_futex_wake(&word, 1);
	return NULL;
}

TEST(a_futex_waits_for_its_word) {
	pthread_t thread;
	CHECK_EQ(wk_futex_wait(&word, 1, UINT64_MAX), 0); /* differs already */
	CHECK_EQ(wk_futex_wait(&word, 0, MS), -ETIMEDOUT);
	CHECK_EQ(pthread_create(&thread, NULL, change_the_word, NULL), 0);
	while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0)
		CHECK_EQ(wk_futex_wait(&word, 0, UINT64_MAX), 0);
	pthread_join(thread, NULL);
}

static void psync_run(wk_io *implementation, const char *empty_directory) {
	(void)implementation;
	directory = empty_directory;
	RUN(where_the_durable_flag_is_unknown_a_sync_follows);
	RUN(and_where_that_sync_fails_the_write_fails);
}

int main(void) {
	wk_io *psync;
	CHECK_EQ(wk_io_psync_new(&psync), 0);
	machine_run_everywhere(psync);
	in_empty_directory(psync, "/tmp", psync_run);
	RUN(a_futex_waits_for_its_word);
	psync->operations->destroy(psync);
	return check_done();
}
