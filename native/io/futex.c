/*
 * futex.c: wait on a 32-bit word, and wake those who do. The word may lie in a page shared between processes.
 */
#include "io/io.h"
#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000 };

int wk_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
	struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / NS_PER_S), .tv_nsec = (long)(timeout_ns % NS_PER_S)};
	if (syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL, 0) == 0)
		return 0;
	/* Anything else would be a bad address or a bad time: ours to have got right. */
	assert(errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR);
	return errno == EAGAIN ? 0 : -errno;
}

void wk_futex_wake(uint32_t *word, int count) {
	long woken = syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
	assert(woken >= 0);
	(void)woken;
}

void wk_futex_be_punctual(void) {
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}
