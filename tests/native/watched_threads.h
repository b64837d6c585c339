/*
 * watched_threads.h: the threads of a test, and a watchdog over them: each says by goes_on() that it still moves, and
 * ends when that answers false.
 */
#ifndef WATCHED_THREADS_H
#define WATCHED_THREADS_H
#include "check.h"
#include "walkeeper/log.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

enum { STUCK_SECONDS = 60 };
enum { THREADS_MAX = 40 };
static _Atomic bool stop;
static struct {
	const char *name;
	pthread_t thread;
	_Atomic uint64_t steps;
	_Atomic bool done;
} threads[THREADS_MAX];
static int threads_count;
static __thread int self;

typedef void *(*thread_body)(void *);
typedef struct start_of_thread {
	thread_body body;
	void *context;
	int index;
} start_of_thread;

static void *begin_thread(void *context) {
	start_of_thread start = *(start_of_thread *)context;
	free(context);
	self = start.index;
	start.body(start.context);
	atomic_store(&threads[self].done, true);
	return NULL;
}

static void start_thread(const char *name, thread_body body, void *context) {
	start_of_thread *start = malloc(sizeof *start);
	CHECK(start != NULL && threads_count < THREADS_MAX);
	*start = (start_of_thread){body, context, threads_count};
	threads[threads_count].name = name;
	atomic_store(&threads[threads_count].steps, 0);
	atomic_store(&threads[threads_count].done, false);
	CHECK_EQ(pthread_create(&threads[threads_count++].thread, NULL, begin_thread, start), 0);
}

static bool goes_on(void) {
	atomic_fetch_add(&threads[self].steps, 1);
	return !atomic_load(&stop);
}

static void nap_us(long us) {
	struct timespec time = {us / 1000000, us % 1000000 * 1000};
	nanosleep(&time, NULL);
}

/* For so many seconds, then until all are done: every thread must take a step now and then. */
static void watch(int seconds) {
	uint64_t seen[THREADS_MAX];
	int since[THREADS_MAX];
	memset(seen, 0, sizeof seen);
	memset(since, 0, sizeof since);
	for (int second = 0, left = 1; left > 0; second++) {
		nap_us(1000000);
		if (second >= seconds)
			atomic_store(&stop, true);
		left = 0;
		for (int i = 0; i < threads_count; i++) {
			uint64_t steps = atomic_load(&threads[i].steps);
			bool done = atomic_load(&threads[i].done);
			left += !done;
			since[i] = done || steps != seen[i] ? 0 : since[i] + 1;
			seen[i] = steps;
			if (since[i] >= STUCK_SECONDS) {
				printf("thread %d (%s) has not moved for %d s\n", i, threads[i].name, since[i]);
				fflush(stdout);
				abort();
			}
		}
	}
	for (int i = 0; i < threads_count; i++)
		CHECK_EQ(pthread_join(threads[i].thread, NULL), 0);
	threads_count = 0;
}

static inline bool one_of(wk_status status, const wk_error *error, const wk_status *allowed) {
	for (; *allowed != WK_OK; allowed++)
		if (status == *allowed)
			return true;
	printf("status %d: %s\n", (int)status, error->text);
	return false;
}
/* A status that this race may end in, or WK_OK. */
#define MAY_BE(status, error, ...) \
	CHECK((status) == WK_OK || one_of((status), (error), (const wk_status[]){__VA_ARGS__, WK_OK}))
#endif
