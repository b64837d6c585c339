#include "io/clock.h"

#include <sys/random.h>
#include <time.h>

static uint64_t nanoseconds(clockid_t clock) {
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t wk_clock_monotonic_ns(void) {
	return nanoseconds(CLOCK_MONOTONIC);
}

uint64_t wk_clock_thread_ns(void) {
	return nanoseconds(CLOCK_THREAD_CPUTIME_ID);
}

int64_t wk_clock_wall_ms(void) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint64_t wk_random_number(void) {
	uint64_t number;
	return getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number ? number : wk_clock_monotonic_ns();
}
