/*
 * uring.h: a queue that is a ring. Private to uring.c, which drives the ring, and uring_transfer.c, which fills and
 * empties its slots.
 */
#ifndef WK_IO_URING_H
#define WK_IO_URING_H
#include "io/posix.h"
#include "io/ring.h"
#include <liburing.h>
#include <pthread.h>

enum { WK_URING_WAKE = WK_IO_QUEUE_DEPTH_MAX }; /* user data of the wake's read; below it are the slots */

/* A request on its way. `done` bytes have been transferred; the kernel is at work on the rest. */
struct wk_uring_transfer {
	wk_io_request request;
	size_t done;
	uint32_t retries;
};

struct wk_io_queue {
	struct io_uring ring; /* its own, unless it rides */
	wk_ring *rides;       /* NULL: it has its own */
	uint64_t left_behind; /* slots, a bit each, that found no entry where it rides */
	bool enabled;
	pthread_t driver;
	uint32_t depth;
	uint32_t in_flight;      /* submitted and not yet handed out */
	uint32_t finished_count; /* completions the last wait had no room for */
	uint32_t free_count;
	bool wake_armed;
	bool woken;               /* a wake was heard and not yet told */
	bool notifies;            /* an eventfd is registered */
	atomic_bool wake_pending; /* the eventfd has been written: no need to do it twice */
	int wake_fd;
	uint64_t wake_value; /* where the armed read puts the eventfd's count */
	uint32_t free_slots[WK_IO_QUEUE_DEPTH_MAX];
	wk_io_completion finished[WK_IO_QUEUE_DEPTH_MAX];
	struct wk_uring_transfer slots[WK_IO_QUEUE_DEPTH_MAX];
};

/* Takes a free slot for the request and prepares its entry, or finishes it at once where it breaks a rule. */
void wk_uring_begin(wk_io_queue *queue, const wk_io_request *request);
/* What it left behind is asked for once more. */
void wk_uring_catch_up(wk_io_queue *queue);
/* The kernel's answer for a slot: finished, or prepared once more for the rest. */
void wk_uring_advance(wk_io_queue *queue, uint32_t index, int result);
#endif
