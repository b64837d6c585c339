#include "write_queue.h"

#include <errno.h>
#include <time.h>

static const uint64_t TURN_NS = 50 * 1000 * 1000;
/* Who waits longer than this has the next turn; others take the lock as they come, which costs no change of threads. */
static const uint64_t PATIENCE_NS = 5 * 1000 * 1000;

typedef struct wk_write_waiter {
	struct wk_write_waiter *before, *next;
	pthread_t thread;
	pthread_cond_t woken;
	uint64_t since;
	bool has_turn;
} wk_write_waiter;

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

/* Nobody has the lock: the first waiter is woken. One that is patient still may find that another came before it. */
static void wake_first(wk_write_queue *queue) {
	wk_write_waiter *first = queue->first;
	if (first == NULL || is_held(queue))
		return;
	uint64_t now = now_ns();
	if (!is_reserved(queue, now) && now - first->since > PATIENCE_NS)
		reserve(queue, first, now);
	pthread_cond_signal(&first->woken);
}

void wk_write_queue_left(wk_write_queue *queue) {
	pthread_mutex_lock(&queue->lock);
	queue->moves++;
	wake_first(queue);
	pthread_mutex_unlock(&queue->lock);
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
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&waiter.woken, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_lock(&queue->lock);
	join(queue, &waiter);
	int rc = 0;
	while (!waiter.has_turn && rc != ETIMEDOUT) {
		now = now_ns();
		if (queue->first == &waiter && !is_held(queue) && !is_reserved(queue, now))
			reserve(queue, &waiter, now);
		else
			rc = pthread_cond_timedwait(&waiter.woken, &queue->lock, &until);
	}
	leave(queue, &waiter);
	if (!waiter.has_turn)
		wake_first(queue); /* what it was woken for is for the next one */
	pthread_mutex_unlock(&queue->lock);
	pthread_cond_destroy(&waiter.woken);
}
