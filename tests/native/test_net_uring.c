/* test_net_uring.c: the seam to sockets over io_uring, and what it says where the kernel forbids rings. */
#include "net_conformance.h"
#include "refused_calls.h"
#include <sys/wait.h>

/* Runs `body` in a child, for what cannot be taken back. */
static void in_a_child(void (*body)(void)) {
	fflush(stdout);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		body();
		exit(0);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("no system call filter may be installed here");
	CHECK_EQ(status, 0);
}

static void make_a_forbidden_ring(void) {
	static const long call_numbers[] = {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register};
	int before = open_fds();
	if (refuse_calls(call_numbers, 3, EPERM) != 0)
		exit(77);
	CHECK_EQ(wk_net_uring_new(NULL, &net), -EPERM);
	CHECK_EQ(open_fds(), before);
}

TEST(a_forbidden_ring_is_told_at_once) {
	in_a_child(make_a_forbidden_ring);
	CHECK(true);
}

static void make_a_ring_without_its_registers(void) {
	static const long call_numbers[] = {SYS_io_uring_register};
	int before = open_fds();
	if (refuse_calls(call_numbers, 1, EPERM) != 0)
		exit(77);
	CHECK(wk_net_uring_new(NULL, &net) < 0);
	CHECK_EQ(open_fds(), before);
}

TEST(a_ring_that_lacks_what_is_needed_is_told_at_once) {
	in_a_child(make_a_ring_without_its_registers);
	CHECK(true);
}

static void wait_for_a_ring_that_never_answers(void) {
	static const long call_numbers[] = {SYS_io_uring_enter};
	begin(NULL);
	if (refuse_calls(call_numbers, 1, EAGAIN) != 0)
		exit(77);
	CHECK_EQ(ops->wait(net, batch, 1, UINT64_MAX), -EAGAIN);
}

TEST(a_kernel_that_always_says_again_ends_the_wait) {
	in_a_child(wait_for_a_ring_that_never_answers);
	CHECK(true);
}

int main(void) {
	wk_net *uring;
	int error = wk_net_uring_new(NULL, &uring);
	if (error == -EPERM || error == -ENOSYS || error == -EACCES)
		SKIP(error == -ENOSYS ? "this kernel has not enough of io_uring" : "this kernel forbids io_uring");
	CHECK_EQ(error, 0);
	uring->operations->destroy(uring);
	net_conformance_run(wk_net_uring_new);
	RUN(a_forbidden_ring_is_told_at_once);
	RUN(a_ring_that_lacks_what_is_needed_is_told_at_once);
	RUN(a_kernel_that_always_says_again_ends_the_wait);
	return check_done();
}
