/*
 * psync.c: the seam over plain system calls. A queue is a few threads that each do one blocking call at a time.
 */
#include "io/event.h"
#include "io/posix.h"
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { NS_PER_S = 1000000000 };

/*
 * Requests wait in `requests`, results in `completions`; both are rings of `depth`, which bounds all that is anywhere
 * between submit and wait.
 */
struct wk_io_queue {
	pthread_mutex_t mutex;
	pthread_cond_t work; /* workers sleep here */
	pthread_cond_t news; /* the owner sleeps here: a completion or a wake */
	uint32_t depth;
	uint32_t in_flight; /* submitted and not yet handed out */
	uint32_t requests_start, requests_count;
	uint32_t completions_start, completions_count;
	uint32_t workers_count, workers_idle;
	bool woken;
	bool closing;
	int event_fd; /* -1: none */
	wk_io_request requests[WK_IO_QUEUE_DEPTH_MAX];
	wk_io_completion completions[WK_IO_QUEUE_DEPTH_MAX];
	pthread_t workers[WK_IO_QUEUE_DEPTH_MAX];
};

static int start_worker(wk_io_queue *queue);
static void *work(void *context);
static int64_t carry_out(const wk_io_request *request);

static int queue_new(wk_io *io, uint32_t depth, wk_io_queue **out) {
	(void)io;
	if (depth == 0 || depth > WK_IO_QUEUE_DEPTH_MAX)
		return -EINVAL;
	wk_io_queue *queue = calloc(1, sizeof *queue);
	if (!queue)
		return -ENOMEM;
	queue->depth = depth;
	queue->event_fd = -1;
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&queue->mutex, NULL);
	pthread_cond_init(&queue->work, NULL);
	pthread_cond_init(&queue->news, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*out = queue;
	return 0;
}

static void queue_free(wk_io *io, wk_io_queue *queue) {
	(void)io;
	pthread_mutex_lock(&queue->mutex);
	queue->closing = true; /* workers finish what was submitted, then go */
	pthread_cond_broadcast(&queue->work);
	pthread_mutex_unlock(&queue->mutex);
	for (uint32_t i = 0; i < queue->workers_count; i++)
		pthread_join(queue->workers[i], NULL);
	pthread_cond_destroy(&queue->news);
	pthread_cond_destroy(&queue->work);
	pthread_mutex_destroy(&queue->mutex);
	free(queue);
}

static int queue_submit(wk_io *io, wk_io_queue *queue, const wk_io_request *request) {
	(void)io;
	int error = 0;
	pthread_mutex_lock(&queue->mutex);
	if (queue->in_flight == queue->depth)
		error = -EBUSY;
	else if (queue->workers_idle <= queue->requests_count && queue->workers_count < queue->depth)
		error = start_worker(queue);
	if (error == 0) {
		queue->requests[(queue->requests_start + queue->requests_count++) % queue->depth] = *request;
		queue->in_flight++;
		pthread_cond_signal(&queue->work);
	}
	pthread_mutex_unlock(&queue->mutex);
	return error;
}

/* Fewer workers than wished for are slower; only none at all is a failure. */
static int start_worker(wk_io_queue *queue) {
	int error = wk_thread_start(&queue->workers[queue->workers_count], work, queue);
	if (error)
		return queue->workers_count > 0 ? 0 : error;
	pthread_setname_np(queue->workers[queue->workers_count], "wk-psync");
	queue->workers_count++;
	return 0;
}

static void *work(void *context) {
	wk_io_queue *queue = context;
	pthread_mutex_lock(&queue->mutex);
	for (;;) {
		while (queue->requests_count == 0 && !queue->closing) {
			queue->workers_idle++;
			pthread_cond_wait(&queue->work, &queue->mutex);
			queue->workers_idle--;
		}
		if (queue->requests_count == 0)
			break;
		wk_io_request request = queue->requests[queue->requests_start];
		queue->requests_start = (queue->requests_start + 1) % queue->depth;
		queue->requests_count--;
		pthread_mutex_unlock(&queue->mutex);
		wk_io_completion completion = {.tag = request.tag, .result = carry_out(&request)};
		pthread_mutex_lock(&queue->mutex);
		assert(queue->completions_count < queue->depth);
		queue->completions[(queue->completions_start + queue->completions_count++) % queue->depth] = completion;
		pthread_cond_signal(&queue->news);
		if (queue->event_fd >= 0)
			wk_event_signal(queue->event_fd);
	}
	pthread_mutex_unlock(&queue->mutex);
	return NULL;
}

static int64_t carry_out(const wk_io_request *request) {
	switch (request->operation) {
	case WK_IO_OP_READ:
		return wk_posix_pread(NULL, request->file, request->buffer, request->size, request->offset);
	case WK_IO_OP_WRITE:
		return wk_posix_pwrite(NULL, request->file, request->buffer, request->size, request->offset, request->flags);
	case WK_IO_OP_SYNC:
		return wk_posix_sync(NULL, request->file);
	}
	return -EINVAL;
}

static int queue_wait(wk_io *io, wk_io_queue *queue, wk_io_completion *out, uint32_t out_max, uint64_t timeout_ns) {
	assert(out_max > 0);
	uint64_t now = wk_posix_now(io);
	bool limited = timeout_ns < INT64_MAX - now; /* three hundred years are as good as for ever */
	uint64_t deadline = now + timeout_ns;
	struct timespec until = {0};
	if (limited)
		until = (struct timespec){.tv_sec = (time_t)(deadline / NS_PER_S), .tv_nsec = (long)(deadline % NS_PER_S)};
	uint32_t count = 0;
	pthread_mutex_lock(&queue->mutex);
	while (queue->completions_count == 0 && !queue->woken) {
		if (!limited)
			pthread_cond_wait(&queue->news, &queue->mutex);
		else if (pthread_cond_timedwait(&queue->news, &queue->mutex, &until) == ETIMEDOUT)
			break;
	}
	for (; count < out_max && queue->completions_count > 0; count++) {
		out[count] = queue->completions[queue->completions_start];
		queue->completions_start = (queue->completions_start + 1) % queue->depth;
		queue->completions_count--;
		queue->in_flight--;
	}
	if (count == 0)
		queue->woken = false; /* a wake beside completions stays for the next wait: each ends a wait with 0 */
	pthread_mutex_unlock(&queue->mutex);
	return (int)count;
}

static void queue_wake(wk_io *io, wk_io_queue *queue) {
	(void)io;
	pthread_mutex_lock(&queue->mutex);
	queue->woken = true;
	pthread_cond_signal(&queue->news);
	pthread_mutex_unlock(&queue->mutex);
}

static int queue_notify(wk_io *io, wk_io_queue *queue, int event_fd) {
	(void)io;
	queue->event_fd = event_fd;
	return 0;
}

static void queue_forked(wk_io *io, wk_io_queue *queue) {
	(void)io;
	(void)queue; /* threads only, and they were not copied */
}

static const struct wk_io_operations operations = {
    .name = "psync",
    WK_POSIX_OPERATIONS,
    .queue_new = queue_new,
    .queue_free = queue_free,
    .queue_submit = queue_submit,
    .queue_wait = queue_wait,
    .queue_wake = queue_wake,
    .queue_notify = queue_notify,
    .queue_forked = queue_forked,
};

int wk_io_psync_new(wk_io **io) {
	return wk_posix_new(&operations, io);
}
