/*
 * io_machine.h: the conformance tests on this machine's file systems, and what only a kernel can do: refuse and run
 * short.
 */
#ifndef IO_MACHINE_H
#define IO_MACHINE_H
#include "child.h"
#include "io_conformance.h"
#include "refused_calls.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `body` in an empty directory below `parent`. */
static void in_empty_directory(wk_io *implementation, const char *parent, void (*body)(wk_io *, const char *)) {
	char path[256];
	snprintf(path, sizeof path, "%s/walkeeper-io-XXXXXX", parent);
	CHECK(mkdtemp(path));
	body(implementation, path);
	CHECK_EQ(rmdir(path), 0);
}

static void refuse(const long *calls, size_t count, int error) {
	if (refuse_calls(calls, count, error) != 0)
		exit(77);
}

static void write_beyond_the_limit(void) {
	struct rlimit limit = {.rlim_cur = 2 * BLOCK, .rlim_max = 2 * BLOCK};
	uint8_t *bytes = blocks(4, 'a');
	wk_io_queue *queue;
	wk_file *file = create("file", WK_IO_DIRECT);
	signal(SIGXFSZ, SIG_IGN);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_EQ(ops->pwrite(io, file, bytes, 4 * BLOCK, 0, WK_IO_DSYNC), -EFBIG);
	CHECK_EQ(ops->pwrite(io, file, bytes, 2 * BLOCK, 0, WK_IO_DSYNC), 2 * BLOCK);
	CHECK_EQ(ops->queue_new(io, 1, &queue), 0);
	wk_io_request write = {.operation = WK_IO_OP_WRITE, .file = file, .buffer = bytes, .size = 4 * BLOCK};
	CHECK_EQ(ops->queue_submit(io, queue, &write), 0);
	CHECK_EQ(wait_for_one(queue).result, -EFBIG);
	ops->queue_free(io, queue);
	ops->close(io, file);
	free(bytes);
	remove_all("file", NULL);
	ops->destroy(io);
}

/* The kernel takes the first half and says so; the implementation asks for the rest and is refused. */
TEST(a_write_that_stops_half_way_fails) {
	in_a_child(write_beyond_the_limit);
}

static void machine_run(wk_io *implementation, const char *empty_directory) {
	conformance_run(implementation, empty_directory);
	RUN(a_write_that_stops_half_way_fails);
}

/* On the temporary directory's file system, and on tmpfs, which may refuse O_DIRECT. */
static void machine_run_everywhere(wk_io *implementation) {
	const char *temporary = getenv("TMPDIR");
	in_empty_directory(implementation, temporary ? temporary : "/tmp", machine_run);
	if (access("/dev/shm", W_OK) == 0)
		in_empty_directory(implementation, "/dev/shm", machine_run);
	else
		printf("# no tmpfs at /dev/shm\n");
}
#endif
