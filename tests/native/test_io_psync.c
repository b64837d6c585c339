/*
 * test_io_psync.c: the seam over plain system calls.
 */
#include "io/posix.h"
#include "io_machine.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

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

TEST(a_pipe_is_no_file_and_is_not_waited_for) {
	wk_file *file = NULL;
	CHECK_EQ(mkfifo(at("pipe"), 0600), 0);
	CHECK_EQ(ops->open(io, at("pipe"), WK_IO_READ, &file), -ENXIO);
	CHECK_EQ(ops->open(io, at("pipe"), WK_IO_WRITE | WK_IO_DIRECT, &file), -ENXIO);
	CHECK_EQ(ops->open(io, "/dev/null", WK_IO_WRITE, &file), -ENXIO);
	remove_all("pipe", NULL);
}

TEST(a_link_is_followed_to_a_directory_alone) {
	wk_file *file = NULL;
	CHECK_EQ(ops->open(io, at("named"), WK_IO_WRITE | WK_IO_CREATE, &file), 0);
	ops->close(io, file);
	CHECK_EQ(symlink(".", at("here")), 0);
	CHECK_EQ(ops->open(io, at("here"), WK_IO_READ, &file), 0);
	ops->close(io, file);
	CHECK_EQ(ops->open(io, at("here/named"), WK_IO_READ, &file), 0);
	ops->close(io, file);
	CHECK_EQ(symlink("named", at("link")), 0);
	CHECK_EQ(ops->open(io, at("link"), WK_IO_READ, &file), -ELOOP);
	CHECK_EQ(ops->open(io, at("link"), WK_IO_WRITE | WK_IO_DIRECT, &file), -ELOOP);
	CHECK_EQ(ops->open(io, at("link"), WK_IO_WRITE | WK_IO_CREATE, &file), -EEXIST);
	CHECK_EQ(symlink("nowhere", at("dangling")), 0);
	CHECK_EQ(ops->open(io, at("dangling"), WK_IO_READ, &file), -ENOENT);
	remove_all("link", "named");
	remove_all("here", "dangling");
}

static int leased;

static void give_back(int number) {
	(void)number;
	int before = errno;
	fcntl(leased, F_SETLEASE, F_UNLCK);
	errno = before;
}

/* As a file server takes one: a file that is opened without waiting would be refused. */
TEST(a_lease_of_somebody_else_is_waited_for) {
	wk_file *file = create("file", 0);
	ops->close(io, file);
	leased = open(at("file"), O_RDWR | O_CLOEXEC);
	CHECK(leased >= 0);
	signal(SIGIO, give_back);
#ifdef __SANITIZE_THREAD__ /* signals wait there until openat() returns, and that waits for this one */
	bool told = false;
#else
	bool told = true;
#endif
	if (told && fcntl(leased, F_SETLEASE, F_WRLCK) == 0) { /* not every file system has them */
		CHECK_EQ(ops->open(io, at("file"), WK_IO_WRITE, &file), 0);
		ops->close(io, file);
	}
	signal(SIGIO, SIG_DFL);
	close(leased);
	remove_all("file", NULL);
}

static uint32_t word;

static void *change_the_word(void *context) {
	(void)context;
	__atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
	wk_futex_wake(&word, 1);
	return NULL;
}

/* Container managers put a file of theirs over it. */
TEST(a_boot_id_that_is_not_the_kernels_is_none) {
	static const char text[] = "01234567-89ab-cdef-0123-456789abcdef\n";
	wk_file *file = create("boot_id", 0);
	uint8_t id[16], again[16];
	CHECK_EQ(ops->pwrite(io, file, text, sizeof text - 1, 0, 0), sizeof text - 1);
	ops->close(io, file);
	static const char genuine[] = "/proc/sys/kernel/random/boot_id";
	CHECK_EQ(wk_posix_read_boot_id(at("boot_id"), id), -ENODATA);
	CHECK_EQ(wk_posix_read_boot_id(at("missing"), id), -ENODATA);
	CHECK_EQ(wk_posix_read_boot_id("/proc/sys/kernel/random/poolsize", id), -ENODATA); /* too few digits */
	CHECK_EQ(wk_posix_read_boot_id(genuine, id), 0);
	CHECK_EQ(ops->boot_id(io, again), 0);
	CHECK(memcmp(id, again, sizeof id) == 0);
	struct rlimit before, none = {0};
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	CHECK_EQ(wk_posix_read_boot_id(genuine, id), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
	remove_all("boot_id", NULL);
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
	io = implementation;
	ops = io->operations;
	directory = empty_directory;
	RUN(a_pipe_is_no_file_and_is_not_waited_for);
	RUN(a_link_is_followed_to_a_directory_alone);
	RUN(a_lease_of_somebody_else_is_waited_for);
	RUN(a_boot_id_that_is_not_the_kernels_is_none);
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
