/*
 * test_io_uring.c: the seam over io_uring, and what it says where the kernel forbids rings.
 */
#include "io_machine.h"

static void make_a_forbidden_ring(void) {
	static const long calls[] = {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register};
	wk_io *none;
	ops->destroy(io);
	refuse(calls, 3, EPERM);
	CHECK_EQ(wk_io_uring_probe(), -EPERM);
	CHECK_EQ(wk_io_uring_new(&none), -EPERM);
}

TEST(a_forbidden_ring_is_told_at_once) {
	in_a_child(make_a_forbidden_ring);
}

static void drive_a_ring_that_never_answers(void) {
	static const long calls[] = {SYS_io_uring_enter};
	wk_io_queue *queue;
	wk_io_completion done;
	CHECK_EQ(ops->queue_new(io, 1, &queue), 0);
	refuse(calls, 1, EAGAIN);
	CHECK_EQ(ops->queue_wait(io, queue, &done, 1, UINT64_MAX), -EAGAIN);
	ops->queue_free(io, queue);
	ops->destroy(io);
}

TEST(a_kernel_that_always_says_again_ends_the_wait) {
	in_a_child(drive_a_ring_that_never_answers);
}

static void write_after_the_ring_broke(void) {
	static const long calls[] = {SYS_io_uring_register};
	wk_io_queue *queue;
	wk_io_completion done;
	CHECK_EQ(ops->queue_new(io, 1, &queue), 0);
	refuse(calls, 1, EPERM);
	CHECK_EQ(ops->queue_wait(io, queue, &done, 1, 0), -EPERM);
	ops->queue_free(io, queue);
	ops->destroy(io);
}

TEST(a_ring_that_cannot_be_enabled_says_so) {
	in_a_child(write_after_the_ring_broke);
}

int main(void) {
	wk_io *uring;
	int error = wk_io_uring_new(&uring);
	if (error == -EPERM || error == -ENOSYS || error == -EACCES)
		SKIP(error == -ENOSYS ? "this kernel has no io_uring" : "this kernel forbids io_uring");
	CHECK_EQ(error, 0);
	CHECK_EQ(wk_io_uring_probe(), 0);
	machine_run_everywhere(uring);
	RUN(a_kernel_that_always_says_again_ends_the_wait);
	RUN(a_ring_that_cannot_be_enabled_says_so);
	RUN(a_forbidden_ring_is_told_at_once);
	uring->operations->destroy(uring);
	return check_done();
}
