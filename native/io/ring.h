/*
 * ring.h: a ring of sockets (net_uring.c) that a queue for files (uring.c) rides on, so that one call hands over both
 * and waits for both. Private to those two; for everybody else it is a name.
 */
#ifndef WK_IO_RING_H
#define WK_IO_RING_H
#include <liburing.h>

struct wk_io_queue;

typedef struct wk_ring {
	/* An entry to be filled; NULL: none now, and wk_uring_ride_on is called when it is worth another try. */
	struct io_uring_sqe *(*entry)(struct wk_ring *ring);
	uint64_t mark;             /* what the rider's user data have in their low bits ... */
	unsigned mark_bits;        /* ... which are so many; above stands the rider's slot */
	struct wk_io_queue *rider; /* NULL: none */
} wk_ring;

/* For the ring's owner: asks for what found no entry before. */
void wk_uring_ride_on(struct wk_io_queue *rider);
/* The kernel's answer for one of the rider's slots. */
void wk_uring_ride_answer(struct wk_io_queue *rider, uint32_t slot, int result);
/* It holds completions that nobody has taken. */
bool wk_uring_ride_has(const struct wk_io_queue *rider);
#endif
