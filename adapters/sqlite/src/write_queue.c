#include "write_queue.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const uint64_t TURN_NS = 50 * 1000 * 1000;
/* Who waits longer than this has the next turn; others take the lock as they come, which costs no change of threads. */
static const uint64_t PATIENCE_NS = 5 * 1000 * 1000;

typedef struct wk_write_waiter {
	struct wk_write_waiter *before, *next;
	pthread_t thread;
	atomic_uint woken; /* so many times: a futex */
	uint64_t since;
	bool has_turn;
} wk_write_waiter;

/* No condition variable: it would be signalled under the lock, for which who is woken would wait again. */
static int futex_wait(atomic_uint *word, unsigned seen, const struct timespec *until) {
	long rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, until, NULL, FUTEX_BITSET_MATCH_ANY);
	return rc == 0 ? 0 : errno;
}

/* The waiter may be gone by then: its address is looked up, and not read. NULL: nobody. */
static void futex_wake(atomic_uint *word) {
	if (word != NULL)
		(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static uint64_t now_ns(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void wk_write_queue_init(wk_write_queue *queue) {
	*queue = (wk_write_queue){0};
	pthread_mutex_init(&queue->lock, NULL);
}

void wk_write_queue_destroy(wk_write_queue *queue) {
	pthread_mutex_destroy(&queue->lock);
}

static bool is_reserved(wk_write_queue *queue, uint64_t now) {
	if (queue->reserved && now >= queue->until)
		queue->reserved = false;
	return queue->reserved;
}

static bool is_held(const wk_write_queue *queue) {
	return queue->moves % 2 == 1;
}

bool wk_write_queue_admits(wk_write_queue *queue, uint64_t *moves) {
	pthread_mutex_lock(&queue->lock);
	*moves = queue->moves;
	bool admitted = !queue->reserved || pthread_equal(queue->turn, pthread_self()) || !is_reserved(queue, now_ns());
	pthread_mutex_unlock(&queue->lock);
	return admitted;
}

bool wk_write_queue_held_since(wk_write_queue *queue, uint64_t moves) {
	pthread_mutex_lock(&queue->lock);
	bool held = is_held(queue) || queue->moves != moves;
	pthread_mutex_unlock(&queue->lock);
	return held;
}

void wk_write_queue_took(wk_write_queue *queue) {
	pthread_mutex_lock(&queue->lock);
	queue->moves++;
	queue->reserved = false;
	pthread_mutex_unlock(&queue->lock);
}

static void reserve(wk_write_queue *queue, wk_write_waiter *waiter, uint64_t now) {
	queue->reserved = true;
	queue->turn = waiter->thread;
	queue->until = now + TURN_NS;
	waiter->has_turn = true;
}

/*
 * Nobody has the lock: the first waiter is to be woken, behind the queue's lock. One that is patient still may find that another came
 * before it. NULL: none.
 */
static atomic_uint *call_first(wk_write_queue *queue) {
	wk_write_waiter *first = queue->first;
	if (first == NULL || is_held(queue))
		return NULL;
	uint64_t now = now_ns();
	if (!is_reserved(queue, now) && now - first->since > PATIENCE_NS)
		reserve(queue, first, now);
	atomic_fetch_add(&first->woken, 1);
	return &first->woken;
}

void wk_write_queue_left(wk_write_queue *queue) {
	pthread_mutex_lock(&queue->lock);
	queue->moves++;
	atomic_uint *called = call_first(queue);
	pthread_mutex_unlock(&queue->lock);
	futex_wake(called);
}

static void join(wk_write_queue *queue, wk_write_waiter *waiter) {
	waiter->before = queue->last;
	*(queue->last != NULL ? &queue->last->next : &queue->first) = waiter;
	queue->last = waiter;
}

static void leave(wk_write_queue *queue, wk_write_waiter *waiter) {
	*(waiter->before != NULL ? &waiter->before->next : &queue->first) = waiter->next;
	*(waiter->next != NULL ? &waiter->next->before : &queue->last) = waiter->before;
}

void wk_write_queue_sleep(wk_write_queue *queue, uint32_t microseconds) {
	uint64_t now = now_ns(), end = now + (uint64_t)microseconds * 1000;
	wk_write_waiter waiter = {.thread = pthread_self(), .since = now};
	const struct timespec until = {.tv_sec = (time_t)(end / 1000000000), .tv_nsec = (long)(end % 1000000000)};
	pthread_mutex_lock(&queue->lock);
	join(queue, &waiter);
	int rc = 0;
	while (!waiter.has_turn && rc != ETIMEDOUT) {
		now = now_ns();
		if (queue->first == &waiter && !is_held(queue) && !is_reserved(queue, now)) {
			reserve(queue, &waiter, now);
			continue;
		}
		unsigned seen = atomic_load(&waiter.woken);
		pthread_mutex_unlock(&queue->lock);
		rc = futex_wait(&waiter.woken, seen, &until);
		pthread_mutex_lock(&queue->lock);
	}
	leave(queue, &waiter);
	atomic_uint *called = waiter.has_turn ? NULL : call_first(queue); /* what it was woken for is for the next one */
	pthread_mutex_unlock(&queue->lock);
	futex_wake(called);
}
