/*
 * faulty_queue.c: a queue of a simulated disk. Requests complete when they are waited for, in an order of the seed's.
 */
#include "io/event.h"
#include "sim/faulty_state.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { NS_PER_S = 1000000000 };

static uint32_t complete_some(wk_faulty *faulty, wk_io_queue *queue, wk_io_completion *out, uint32_t out_max);
static wk_io_completion complete_one(wk_faulty *faulty, wk_io_queue *queue);
static void sleep_until(wk_faulty *faulty, wk_io_queue *queue, uint64_t timeout_ns);

int wk_faulty_queue_new(wk_io *io, uint32_t depth, wk_io_queue **out) {
	if (depth == 0 || depth > WK_IO_QUEUE_DEPTH_MAX)
		return -EINVAL;
	wk_faulty *faulty = wk_faulty_enter(io);
	wk_io_queue *queue = wk_faulty_allocate(1, sizeof *queue);
	queue->depth = depth;
	queue->event_fd = -1;
	queue->next = faulty->queues;
	queue->link = &faulty->queues;
	if (queue->next)
		queue->next->link = &queue->next;
	faulty->queues = queue;
	wk_faulty_leave(faulty);
	*out = queue;
	return 0;
}

void wk_faulty_queue_free(wk_io *io, wk_io_queue *queue) {
	wk_faulty *faulty = wk_faulty_enter(io);
	while (queue->in_flight > 0)
		complete_one(faulty, queue);
	*queue->link = queue->next;
	if (queue->next)
		queue->next->link = queue->link;
	free(queue);
	wk_faulty_leave(faulty);
}

/* What is in flight completes as soon as it is waited for. */
static void notify(wk_io_queue *queue) {
	if (queue->event_fd >= 0 && queue->in_flight > 0)
		wk_event_signal(queue->event_fd);
}

int wk_faulty_queue_submit(wk_io *io, wk_io_queue *queue, const wk_io_request *request) {
	wk_faulty *faulty = wk_faulty_enter(io);
	int error = queue->in_flight == queue->depth ? -EBUSY : 0;
	if (!error) {
		wk_faulty_request *slot = &queue->requests[queue->in_flight++];
		*slot = (wk_faulty_request){.request = *request};
		wk_faulty_request_begin(faulty, slot);
	}
	notify(queue);
	wk_faulty_leave(faulty);
	return error;
}

/* A poll may find nothing yet, and a wake may come before what is in flight: both by the seed, as both happen. */
int wk_faulty_queue_wait(wk_io *io, wk_io_queue *queue, wk_io_completion *out, uint32_t out_max, uint64_t timeout_ns) {
	assert(out_max > 0);
	wk_faulty *faulty = wk_faulty_enter(io);
	uint32_t count = 0;
	if (queue->in_flight == 0 && !queue->woken && timeout_ns > 0)
		sleep_until(faulty, queue, timeout_ns);
	bool may_be_nothing = queue->woken || timeout_ns == 0;
	if (queue->in_flight > 0 && !(may_be_nothing && wk_faulty_random(&faulty->random_order) & 1))
		count = complete_some(faulty, queue, out, out_max);
	if (count == 0)
		queue->woken = false;
	notify(queue);
	wk_faulty_leave(faulty);
	return (int)count;
}

static uint32_t complete_some(wk_faulty *faulty, wk_io_queue *queue, wk_io_completion *out, uint32_t out_max) {
	uint32_t most = queue->in_flight < out_max ? queue->in_flight : out_max;
	uint32_t count = 1 + (uint32_t)(wk_faulty_random(&faulty->random_order) % most);
	for (uint32_t i = 0; i < count; i++)
		out[i] = complete_one(faulty, queue);
	return count;
}

static wk_io_completion complete_one(wk_faulty *faulty, wk_io_queue *queue) {
	uint32_t chosen = (uint32_t)(wk_faulty_random(&faulty->random_order) % queue->in_flight);
	wk_faulty_request request = queue->requests[chosen];
	queue->requests[chosen] = queue->requests[--queue->in_flight];
	return (wk_io_completion){.tag = request.request.tag, .result = wk_faulty_request_end(faulty, &request)};
}

/*
 * Nothing is in flight, so only another thread can end this: by a wake, or by moving the clock. If none does, the time
 * passes as it does for everybody, and the clock goes with it: a driver alone neither hangs nor spins.
 */
static void sleep_until(wk_faulty *faulty, wk_io_queue *queue, uint64_t timeout_ns) {
	bool limited = timeout_ns < INT64_MAX - faulty->clock_ns;
	uint64_t deadline = faulty->clock_ns + timeout_ns;
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	if (limited) {
		uint64_t ns = (uint64_t)until.tv_nsec + timeout_ns % NS_PER_S;
		until.tv_sec += (time_t)(timeout_ns / NS_PER_S + ns / NS_PER_S);
		until.tv_nsec = (long)(ns % NS_PER_S);
	}
	while (!queue->woken && !(limited && faulty->clock_ns >= deadline)) {
		if (!limited)
			pthread_cond_wait(&faulty->news, &faulty->mutex);
		else if (pthread_cond_timedwait(&faulty->news, &faulty->mutex, &until) == ETIMEDOUT)
			break;
	}
	if (limited && !queue->woken && faulty->clock_ns < deadline)
		faulty->clock_ns = deadline;
}

void wk_faulty_queue_wake(wk_io *io, wk_io_queue *queue) {
	wk_faulty *faulty = wk_faulty_enter(io);
	queue->woken = true;
	pthread_cond_broadcast(&faulty->news);
	wk_faulty_leave(faulty);
}

int wk_faulty_queue_notify(wk_io *io, wk_io_queue *queue, int event_fd) {
	wk_faulty *faulty = wk_faulty_enter(io);
	queue->event_fd = event_fd;
	wk_faulty_leave(faulty);
	return 0;
}
