/*
 * uring.c: the seam over io_uring. The synchronous calls are psync's; a queue is a ring.
 *
 * A ring may be made by one thread and driven by another: it is made disabled, and the thread that first submits or
 * waits enables it and so becomes its only issuer (DEFER_TASKRUN then lets completions run in that thread's own waits,
 * without interrupts). A wake is an eventfd on which the ring always keeps one read armed.
 */
#include "io/uring.h"
#include "io/descriptor.h"
#include <assert.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000 };

static int make_ring(struct io_uring *ring, uint32_t entries);
static int drive(wk_io_queue *queue);
static void arm_wake(wk_io_queue *queue);
static int submit(wk_io_queue *queue);
static int enter(wk_io_queue *queue, uint64_t timeout_ns);
static bool reap(wk_io_queue *queue);

static int queue_new(wk_io *io, uint32_t depth, wk_io_queue **out) {
	(void)io;
	if (depth == 0 || depth > WK_IO_QUEUE_DEPTH_MAX)
		return -EINVAL;
	wk_io_queue *queue = calloc(1, sizeof *queue);
	if (!queue)
		return -ENOMEM;
	/* Two more than the depth: the wake's read, and the timeout that liburing adds on kernels before 5.11. */
	int error = make_ring(&queue->ring, depth + 2);
	if (error == 0 && (queue->wake_fd = wk_descriptor_take(eventfd(0, EFD_CLOEXEC))) < 0) {
		error = queue->wake_fd;
		io_uring_queue_exit(&queue->ring);
	}
	if (error) {
		free(queue);
		return error;
	}
	assert(depth + 2 <= *queue->ring.cq.kring_entries); /* so the completion queue cannot overflow */
	queue->depth = queue->free_count = depth;
	for (uint32_t i = 0; i < depth; i++)
		queue->free_slots[i] = depth - 1 - i;
	atomic_init(&queue->wake_pending, false);
	*out = queue;
	return 0;
}

/* The best set-up this kernel takes: 6.1 has the first, 5.19 the second, 5.10 the last. */
static int make_ring(struct io_uring *ring, uint32_t entries) {
	static const unsigned ladder[] = {
	    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
	    IORING_SETUP_COOP_TASKRUN,
	    0,
	};
	int error = -EINVAL;
	for (size_t rung = 0; rung < sizeof ladder / sizeof *ladder && error == -EINVAL; rung++) {
		struct io_uring_params params = {.flags = ladder[rung] | IORING_SETUP_R_DISABLED};
		error = io_uring_queue_init_params(entries, ring, &params);
		if (error == 0 && !(params.features & IORING_FEAT_NODROP)) {
			io_uring_queue_exit(ring); /* a kernel that may drop completions would let us wait for ever */
			return -ENOSYS;
		}
	}
	return error == 0 ? wk_descriptor_take_ring(ring) : error;
}

/*
 * Buffers the kernel still writes to must not be freed, so this does not return before all is done. Only the driver can
 * wait for it: where that thread has exited, the kernel finishes the requests but completes none that anybody could
 * see.
 */
static void queue_free(wk_io *io, wk_io_queue *queue) {
	(void)io;
	if (queue->rides != NULL) {
		assert(queue->in_flight == queue->finished_count); /* io.h, queue_ride */
		queue->rides->rider = NULL;
		free(queue);
		return;
	}
	bool stranger = queue->enabled && !pthread_equal(queue->driver, pthread_self());
	assert(!stranger || queue->in_flight == queue->finished_count); /* io.h, rule 6 */
	while (queue->in_flight > queue->finished_count) {
		int error = enter(queue, UINT64_MAX);
		assert(error == 0 || error == -EINTR);
		reap(queue);
	}
	if (stranger) {
		/* The registered number means something in the driver's table only; in ours it may name another ring. */
		queue->ring.enter_ring_fd = queue->ring.ring_fd;
		queue->ring.int_flags = 0;
	}
	io_uring_queue_exit(&queue->ring);
	close(queue->wake_fd);
	free(queue);
}

static int drive(wk_io_queue *queue) {
	if (queue->enabled) {
		assert(pthread_equal(queue->driver, pthread_self())); /* io.h, rule 6 */
		return 0;
	}
	/* liburing 2.3 declares io_uring_enable_rings, but does not export it. */
	if (syscall(SYS_io_uring_register, queue->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) != 0)
		return -errno;
	queue->enabled = true;
	queue->driver = pthread_self();
	io_uring_register_ring_fd(&queue->ring); /* saves a lookup a call; where it is refused the plain descriptor does */
	arm_wake(queue);
	return 0;
}

static int queue_submit(wk_io *io, wk_io_queue *queue, const wk_io_request *request) {
	(void)io;
	if (queue->in_flight == queue->depth)
		return -EBUSY;
	int error = queue->rides == NULL ? drive(queue) : 0;
	if (error)
		return error;
	wk_uring_begin(queue, request);
	if (queue->rides == NULL)
		submit(queue); /* what the kernel does not take now, the next wait offers again */
	return 0;
}

static void arm_wake(wk_io_queue *queue) {
	struct io_uring_sqe *sqe = io_uring_get_sqe(&queue->ring);
	assert(sqe);
	io_uring_prep_read(sqe, queue->wake_fd, &queue->wake_value, sizeof queue->wake_value, 0);
	io_uring_sqe_set_data64(sqe, WK_URING_WAKE);
	queue->wake_armed = true;
}

static int submit(wk_io_queue *queue) {
	int result = -EAGAIN;
	for (int tries = 0; tries < WK_POSIX_RETRIES_MAX && (result == -EAGAIN || result == -EINTR); tries++)
		result = io_uring_submit(&queue->ring);
	return result < 0 ? result : 0;
}

/* Hands out what is finished. */
static int give(wk_io_queue *queue, wk_io_completion *out, uint32_t out_max) {
	uint32_t count = queue->finished_count < out_max ? queue->finished_count : out_max;
	for (uint32_t i = 0; i < queue->finished_count; i++) {
		if (i < count)
			out[i] = queue->finished[i];
		else
			queue->finished[i - count] = queue->finished[i];
	}
	queue->finished_count -= count;
	queue->in_flight -= count;
	return (int)count;
}

static int queue_wait(wk_io *io, wk_io_queue *queue, wk_io_completion *out, uint32_t out_max, uint64_t timeout_ns) {
	assert(out_max > 0);
	if (queue->rides != NULL)
		return give(queue, out, out_max);
	int error = drive(queue);
	if (error)
		return error;
	uint64_t now = wk_posix_now(io);
	bool limited = timeout_ns < INT64_MAX - now;
	uint64_t deadline = now + timeout_ns;
	bool more = reap(queue) || queue->finished_count > 0;
	/*
	 * The eventfd is signalled once for all that completes before the kernel is entered, and its owner drained it before
	 * this wait: what is left there now would be told by nothing. What fails here fails in the next wait, too.
	 */
	if (more && queue->notifies) {
		(void)enter(queue, 0);
		(void)reap(queue);
	}
	/* One look at the kernel even when no wait is wanted, or a caller that only polls would never see deferred
	 * completions. */
	int retries = 0;
	for (bool first = true; !more && !queue->woken && (first || !limited || now < deadline); first = false) {
		error = enter(queue, !limited ? UINT64_MAX : deadline > now ? deadline - now : 0);
		bool again = error == -EAGAIN || error == -EBUSY; /* no memory for it now */
		retries = again ? retries + 1 : 0;
		if (error && error != -ETIME && error != -EINTR && (!again || retries == WK_POSIX_RETRIES_MAX))
			return error;
		more = reap(queue);
		now = limited ? wk_posix_now(io) : 0;
	}
	int count = give(queue, out, out_max);
	if (count == 0 && queue->woken) {
		queue->woken = false; /* beside completions it stays for the next wait: each wake ends a wait with 0 */
		atomic_exchange(&queue->wake_pending, false); /* reads too, so that we see all the wakers did before */
	}
	return count;
}

/* Offers what is prepared, and waits for one completion or the timeout. */
static int enter(wk_io_queue *queue, uint64_t timeout_ns) {
	struct io_uring_cqe *cqe;
	if (timeout_ns == UINT64_MAX) {
		int result = io_uring_submit_and_wait(&queue->ring, 1);
		return result < 0 ? result : 0;
	}
	if (timeout_ns == 0) {
		int result = io_uring_submit_and_get_events(&queue->ring);
		return result < 0 ? result : 0;
	}
	struct __kernel_timespec timeout = {
	    .tv_sec = (int64_t)(timeout_ns / NS_PER_S),
	    .tv_nsec = (long long)(timeout_ns % NS_PER_S),
	};
	int result = io_uring_submit_and_wait_timeout(&queue->ring, &cqe, 1, &timeout, NULL);
	return result < 0 ? result : 0;
}

/* Takes all that the kernel has completed; true if a request finished. What came back short is on its way again. */
static bool reap(wk_io_queue *queue) {
	uint32_t before = queue->finished_count;
	struct io_uring_cqe *cqe;
	unsigned head, seen = 0;
	io_uring_for_each_cqe(&queue->ring, head, cqe) {
		seen++;
		if (cqe->user_data == LIBURING_UDATA_TIMEOUT)
			continue;
		if (cqe->user_data == WK_URING_WAKE) {
			queue->wake_armed = false;
			queue->woken = queue->woken || cqe->res == (int)sizeof queue->wake_value;
			continue;
		}
		assert(cqe->user_data < queue->depth);
		wk_uring_advance(queue, (uint32_t)cqe->user_data, cqe->res);
	}
	io_uring_cq_advance(&queue->ring, seen);
	if (io_uring_sq_ready(&queue->ring) > 0)
		submit(queue); /* the rest of a short transfer does not wait until the caller comes back */
	if (!queue->wake_armed)
		arm_wake(queue); /* but this may: it costs no call of its own */
	return queue->finished_count > before;
}

static void queue_wake(wk_io *io, wk_io_queue *queue) {
	(void)io;
	if (atomic_exchange(&queue->wake_pending, true))
		return; /* one is on its way, and the driver looks at its work only after it has taken it */
	int error;
	do
		error = eventfd_write(queue->wake_fd, 1);
	while (error != 0 && errno == EINTR);
	assert(error == 0);
}

static int queue_notify(wk_io *io, wk_io_queue *queue, int event_fd) {
	(void)io;
	int result = io_uring_register_eventfd(&queue->ring, event_fd);
	queue->notifies = result >= 0;
	return result < 0 ? result : 0;
}

static int queue_ride(wk_io *io, wk_io_queue *queue, wk_ring *ring) {
	(void)io;
	assert(!queue->enabled);
	if (ring->rider != NULL)
		return -EBUSY;
	io_uring_queue_exit(&queue->ring);
	close(queue->wake_fd);
	queue->rides = ring;
	ring->rider = queue;
	return 0;
}

void wk_uring_ride_on(wk_io_queue *rider) {
	wk_uring_catch_up(rider);
}

void wk_uring_ride_answer(wk_io_queue *rider, uint32_t slot, int result) {
	assert(slot < rider->depth);
	wk_uring_advance(rider, slot, result);
}

bool wk_uring_ride_has(const wk_io_queue *rider) {
	return rider->finished_count > 0;
}

/* The maps of the ring are left alone: they are the child's own table of pages, and what they show is not written. */
static void queue_forked(wk_io *io, wk_io_queue *queue) {
	(void)io;
	if (queue->rides != NULL)
		return; /* nothing of it is its own */
	close(queue->ring.ring_fd);
	close(queue->wake_fd);
}

static const struct wk_io_operations operations = {
    .name = "io_uring",
    WK_POSIX_OPERATIONS,
    .queue_new = queue_new,
    .queue_free = queue_free,
    .queue_submit = queue_submit,
    .queue_wait = queue_wait,
    .queue_wake = queue_wake,
    .queue_notify = queue_notify,
    .queue_ride = queue_ride,
    .queue_forked = queue_forked,
};

int wk_io_uring_probe(void) {
	struct io_uring ring;
	wk_descriptor_occupy_low();
	int error = make_ring(&ring, 1);
	if (error == 0)
		io_uring_queue_exit(&ring);
	return error;
}

int wk_io_uring_new(wk_io **io) {
	int error = wk_io_uring_probe();
	return error != 0 ? error : wk_posix_new(&operations, io);
}
