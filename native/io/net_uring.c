/*
 * net_uring.c: the seam to sockets over io_uring.
 *
 * Connections receive until that is cancelled, into memory that is lent to the kernel and not to a connection. Listeners
 * are polled: an accept that goes on by itself takes whoever is at the door (net_door.h). In a turn there is one call: it
 * hands over what has gathered and waits for an answer.
 *
 * As in uring.c the ring may be made by one thread and driven by another, the one that first waits; nothing before that
 * needs the kernel's ring.
 */
#include "io/net_uring.h"
#include "io/descriptor.h"
#include "io/net_door.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	ENTRIES = 256,
	ANSWERS = 4096, /* what does not fit waits in the kernel, and receives are begun anew */
	RETRIES_MAX = 100,
	NS_PER_S = 1000000000,
	CANCEL_AGAIN_NS = 10000000,
};

/* ---- entries ---- */

static int submit(wk_uring_net *uring) {
	int result = -EAGAIN;
	for (int tries = 0; tries < RETRIES_MAX && (result == -EAGAIN || result == -EINTR); tries++)
		result = io_uring_submit(&uring->ring);
	return result < 0 ? result : 0;
}

struct io_uring_sqe *wk_uring_entry(wk_uring_net *uring) {
	struct io_uring_sqe *entry = io_uring_get_sqe(&uring->ring);
	if (entry == NULL && submit(uring) == 0)
		entry = io_uring_get_sqe(&uring->ring);
	if (entry != NULL)
		uring->in_flight++;
	return entry;
}

void wk_uring_mark(struct io_uring_sqe *entry, wk_uring_kind kind, uint64_t above) {
	io_uring_sqe_set_data64(entry, above << WK_URING_KIND_BITS | kind);
}

/* ---- what is always armed ---- */

static struct io_uring_sqe *entry_to_arm(wk_uring_net *uring) {
	struct io_uring_sqe *entry = wk_uring_entry(uring);
	uring->unarmed = uring->unarmed || entry == NULL;
	return entry;
}

static void arm_listener(wk_uring_net *uring, uint32_t index) {
	struct io_uring_sqe *entry = entry_to_arm(uring);
	if (entry == NULL)
		return;
	io_uring_prep_poll_add(entry, uring->base.listeners[index], POLLIN);
	wk_uring_mark(entry, WK_URING_LISTENER, uring->listen_round * WK_NET_LISTENERS_MAX + index);
	uring->listening[index] = true;
}

static void arm_watched(wk_uring_net *uring, uint32_t index) {
	struct io_uring_sqe *entry = entry_to_arm(uring);
	if (entry == NULL)
		return;
	io_uring_prep_poll_add(entry, uring->base.watched[index].fd, POLLIN);
	wk_uring_mark(entry, WK_URING_WATCH, index);
	uring->watching[index] = true;
}

static void arm_awake(wk_uring_net *uring) {
	struct io_uring_sqe *entry = entry_to_arm(uring);
	if (entry == NULL)
		return;
	io_uring_prep_read(entry, uring->base.wake_fd, &uring->wake_value, sizeof uring->wake_value, 0);
	wk_uring_mark(entry, WK_URING_AWAKE, 0);
	uring->awake_armed = true;
}

static void arm(wk_uring_net *uring) {
	wk_net_base *base = &uring->base;
	uring->unarmed = false;
	if (!uring->awake_armed)
		arm_awake(uring);
	for (uint32_t i = 0; i < base->watched_count; i++)
		if (!uring->watching[i] && base->watched[i].fd >= 0)
			arm_watched(uring, i);
	bool rests = wk_net_door_turn(base);
	for (uint32_t i = 0; i < base->listeners_count; i++)
		if (!uring->listening[i] && !rests)
			arm_listener(uring, i);
	wk_uring_attend_all(uring);
	if (uring->rideable.rider != NULL)
		wk_uring_ride_on(uring->rideable.rider);
}

/* ---- answers ---- */

/* Whatever the poll's result is, an accept tells more. */
static void listened(wk_uring_net *uring, uint64_t which) {
	if (which / WK_NET_LISTENERS_MAX != uring->listen_round)
		return; /* nobody listens there any more */
	uint32_t listener = (uint32_t)(which % WK_NET_LISTENERS_MAX);
	uring->listening[listener] = false;
	wk_net_door_accept(&uring->base, listener, SOCK_CLOEXEC, NULL);
}

static bool watched(wk_uring_net *uring, uint64_t index, int result, wk_net_event *event) {
	uring->watching[index] = false;
	if (result < 0 && result != -ECANCELED)
		uring->base.watched[index].fd = -1; /* its owner closed it */
	if (result <= 0)
		return false;
	*event = (wk_net_event){.kind = WK_NET_READABLE, .tag = uring->base.watched[index].tag};
	return true;
}

/* True if there is an event to tell at once; the rest is noted. */
static bool answer(wk_uring_net *uring, const struct io_uring_cqe *cqe, wk_net_event *event) {
	wk_uring_kind kind = (wk_uring_kind)(cqe->user_data & ((1u << WK_URING_KIND_BITS) - 1));
	uint64_t above = cqe->user_data >> WK_URING_KIND_BITS;
	bool more = cqe->flags & IORING_CQE_F_MORE;
	if (!more) {
		assert(uring->in_flight > 0);
		uring->in_flight--;
	}
	switch (kind) {
	case WK_URING_RECEIVE:
	case WK_URING_SEND:
	case WK_URING_DIAL:
	case WK_URING_CANCEL:
		return wk_uring_answer(uring, kind, above, cqe->res, cqe->flags, event);
	case WK_URING_LISTENER:
		listened(uring, above);
		return false;
	case WK_URING_WATCH:
		return watched(uring, above, cqe->res, event);
	case WK_URING_AWAKE:
		uring->awake_armed = false;
		uring->base.woken = uring->base.woken || cqe->res > 0;
		return false;
	case WK_URING_CANCEL_ALL:
		return false;
	case WK_URING_RIDER:
		wk_uring_ride_answer(uring->rideable.rider, (uint32_t)above, cqe->res);
		return false;
	}
	return false;
}

/* Takes answers as long as there is room for an event of each: the rest keep their buffers, and wait. */
static uint32_t reap(wk_uring_net *uring, wk_net_event *events, uint32_t max) {
	uint32_t count = 0;
	struct io_uring_cqe *cqe;
	unsigned head, seen = 0;
	io_uring_for_each_cqe(&uring->ring, head, cqe) {
		if (count == max)
			break;
		seen++;
		count += answer(uring, cqe, &events[count]);
	}
	io_uring_cq_advance(&uring->ring, seen);
	return count;
}

/* ---- waiting ---- */

/* The number of this thread, which is given once: pthread_self of a thread that has ended is given to another. */
static uint64_t this_thread(void) {
	static _Atomic uint64_t last;
	static _Thread_local uint64_t mine;
	if (mine == 0)
		mine = atomic_fetch_add(&last, 1) + 1;
	return mine;
}

static int drive(wk_uring_net *uring) {
	if (uring->enabled) {
		assert(uring->driver == this_thread()); /* net.h, rule 1 */
		return 0;
	}
	/* liburing 2.3 declares io_uring_enable_rings, but does not export it. */
	if (syscall(SYS_io_uring_register, uring->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) != 0)
		return -errno;
	uring->enabled = true;
	uring->driver = this_thread();
	io_uring_register_ring_fd(&uring->ring); /* saves a lookup a call; where it is refused the plain descriptor does */
	return 0;
}

/* Hands over what has gathered; waits for an answer, but not longer than that. */
static int enter(wk_uring_net *uring, uint64_t timeout_ns) {
	struct io_uring_cqe *cqe;
	int result;
	if (timeout_ns == 0) {
		result = io_uring_submit_and_get_events(&uring->ring);
	} else if (timeout_ns == UINT64_MAX) {
		result = io_uring_submit_and_wait(&uring->ring, 1);
	} else {
		struct __kernel_timespec timeout = {
		    .tv_sec = (int64_t)(timeout_ns / NS_PER_S),
		    .tv_nsec = (long long)(timeout_ns % NS_PER_S),
		};
		result = io_uring_submit_and_wait_timeout(&uring->ring, &cqe, 1, &timeout, NULL);
	}
	return result < 0 && result != -ETIME && result != -EINTR ? result : 0;
}

/* What the owner has been told of may receive, if he did not pause it meanwhile. */
static uint32_t tell(wk_uring_net *uring, wk_net_event *events, uint32_t max) {
	uint32_t count = wk_net_tell(&uring->base, events, max);
	for (uint32_t i = 0; i < count; i++) {
		if (events[i].kind != WK_NET_ACCEPTED && events[i].kind != WK_NET_CONNECTED)
			continue;
		wk_net_connection *connection = wk_net_table_find(&uring->base.table, events[i].connection);
		if (connection == NULL)
			continue; /* its end is told in the same batch */
		connection->announced = true;
		wk_uring_attend(uring, connection);
	}
	return count;
}

static uint32_t tell_rider(const wk_uring_net *uring, wk_net_event *events, uint32_t max) {
	if (max == 0 || uring->rideable.rider == NULL || !wk_uring_ride_has(uring->rideable.rider))
		return 0;
	*events = (wk_net_event){.kind = WK_NET_RODE};
	return 1;
}

/* Something is to be asked of the kernel that it had no entry for: nobody sleeps meanwhile. */
static bool unattended(const wk_uring_net *uring) {
	return uring->unarmed || uring->attend_first != NULL || uring->starved_first != NULL;
}

static int net_wait(wk_net *net, wk_net_event *events, uint32_t max, uint64_t timeout_ns) {
	wk_uring_net *uring = (wk_uring_net *)net;
	wk_net_base *base = &uring->base;
	assert(max > 0);
	int error = drive(uring);
	if (error)
		return error;
	wk_uring_buffers_lend_told(&uring->buffers);
	base->waits++;
	wk_net_limit limit = wk_net_limit_new(timeout_ns);
	for (int retries = 0;;) {
		arm(uring);
		uint32_t count = tell_rider(uring, events, max);
		bool rode = count > 0;
		count += tell(uring, events + count, max - count);
		unsigned ready = io_uring_cq_ready(&uring->ring);
		bool busy = count > 0 || ready > 0 || base->woken || unattended(uring);
		uint64_t most = busy ? 0 : wk_net_limit_left(&limit, base);
		if (ready < max - count || io_uring_sq_ready(&uring->ring) > 0)
			error = enter(uring, most);
		bool again = error == -EAGAIN || error == -EBUSY; /* no memory for it now, or first take what is there */
		retries = again ? retries + 1 : 0;
		bool fails = error && (!again || retries == RETRIES_MAX);
		count += reap(uring, events + count, max - count);
		count += rode ? 0 : tell_rider(uring, events + count, max - count);
		count += tell(uring, events + count, max - count);
		bool woken = wk_net_take_wake(base);
		if (count > 0 || woken || (wk_net_limit_reached(&limit) && !unattended(uring)))
			return (int)count;
		if (fails)
			return error;
	}
}

/* ---- operations ---- */

static int net_listen(wk_net *net, const char *host, uint16_t port, wk_net_address *bound) {
	wk_net_base *base = (wk_net_base *)net;
	if (base->listeners_count == WK_NET_LISTENERS_MAX)
		return -ENOSPC;
	int fd;
	int error = wk_net_socket_listen(host, port, &base->options, &fd, bound);
	if (error == 0)
		base->listeners[base->listeners_count++] = fd;
	return error;
}

static int net_listen_on(wk_net *net, int fd, wk_net_address *bound) {
	wk_net_base *base = (wk_net_base *)net;
	if (base->listeners_count == WK_NET_LISTENERS_MAX)
		return -ENOSPC;
	int error = wk_net_socket_listen_on(fd, &base->options, bound);
	if (error == 0)
		base->listeners[base->listeners_count++] = fd;
	return error;
}

/* The kernel may hold the socket until its poll is over; it ends by this, and nobody comes in any more. */
static void net_stop_listening(wk_net *net) {
	wk_uring_net *uring = (wk_uring_net *)net;
	wk_net_base *base = &uring->base;
	for (uint32_t i = 0; i < base->listeners_count; i++) {
		shutdown(base->listeners[i], SHUT_RDWR);
		close(base->listeners[i]);
		uring->listening[i] = false;
	}
	wk_net_door_shut(base);
	uring->listen_round++;
}

static int net_connect(wk_net *net, const char *host, uint16_t port, uint64_t tag, wk_connection_id *id) {
	wk_uring_net *uring = (wk_uring_net *)net;
	wk_net_connection *connection;
	int error = wk_net_begin_connect(&uring->base, host, port, tag, &connection);
	if (error)
		return error;
	*id = connection->id;
	wk_uring_dial_next(uring, connection, 0);
	return 0;
}

static int net_send(wk_net *net, wk_connection_id id, const struct iovec *parts, uint32_t count) {
	wk_uring_net *uring = (wk_uring_net *)net;
	wk_net_connection *connection;
	int error = wk_net_begin_send(&uring->base, id, parts, count, &connection);
	if (connection == NULL)
		return error;
	if (connection->send->message.msg_iovlen > 0) {
		wk_uring_attend(uring, connection);
	} else {
		wk_net_drop_send(&uring->base, connection);
		wk_net_note(&uring->base, connection, WK_NET_TELL_SENT);
	}
	return 0;
}

static int set_paused(wk_net *net, wk_connection_id id, bool paused) {
	wk_net_connection *connection;
	int error = wk_net_set_paused((wk_net_base *)net, id, paused, &connection);
	if (connection != NULL)
		wk_uring_attend((wk_uring_net *)net, connection);
	return error;
}

static int net_pause(wk_net *net, wk_connection_id id) {
	return set_paused(net, id, true);
}

static int net_resume(wk_net *net, wk_connection_id id) {
	return set_paused(net, id, false);
}

static int net_close(wk_net *net, wk_connection_id id) {
	wk_uring_net *uring = (wk_uring_net *)net;
	wk_net_connection *connection;
	int error = wk_net_owned(&uring->base, id, &connection);
	if (error)
		return error;
	if (connection->state != WK_NET_ENDED)
		wk_uring_end(uring, connection, -ECANCELED);
	connection->error = -ECANCELED;
	connection->closed = true;
	connection->tell &= WK_NET_TELL_CLOSED;
	return 0;
}

static int net_watch(wk_net *net, int fd, uint64_t tag) {
	wk_net_base *base = (wk_net_base *)net;
	if (base->watched_count == WK_NET_WATCHED_MAX)
		return -ENOSPC;
	if (fcntl(fd, F_GETFD) < 0)
		return -errno;
	base->watched[base->watched_count].fd = fd;
	base->watched[base->watched_count++].tag = tag;
	return 0;
}

/* ---- beginning and end ---- */

/* Everything is asked to end, and again where the kernel did not find it, until nothing is left. */
static void cancel_all(wk_uring_net *uring) {
	while (uring->in_flight > 0) {
		struct io_uring_sqe *entry = wk_uring_entry(uring);
		if (entry != NULL) {
			io_uring_prep_cancel64(entry, 0, IORING_ASYNC_CANCEL_ANY);
			wk_uring_mark(entry, WK_URING_CANCEL_ALL, 0);
		}
		int error = enter(uring, CANCEL_AGAIN_NS);
		assert(error == 0 || error == -EAGAIN || error == -EBUSY);
		wk_net_event ignored;
		uint32_t told;
		do
			told = reap(uring, &ignored, 1);
		while (told > 0);
	}
}

static void net_destroy(wk_net *net) {
	wk_uring_net *uring = (wk_uring_net *)net;
	wk_net_base *base = &uring->base;
	bool stranger = uring->enabled && uring->driver != this_thread();
	assert(uring->rideable.rider == NULL); /* io.h, queue_ride */
	net_stop_listening(net);
	for (uint32_t i = 0; i < base->table.made; i++) {
		wk_net_connection *connection = wk_net_table_at(&base->table, i);
		if (connection->state == WK_NET_FREE)
			continue;
		/* Whatever cannot be waited for fails from here on. */
		if (connection->fd >= 0 && stranger)
			shutdown(connection->fd, SHUT_RDWR);
		if (connection->state != WK_NET_ENDED)
			wk_uring_end(uring, connection, -ECANCELED);
	}
	if (stranger) {
		/* The registered number means something in the driver's table only; in ours it may name another ring. */
		uring->ring.enter_ring_fd = uring->ring.ring_fd;
		uring->ring.int_flags = 0;
		wk_net_event ignored;
		while (reap(uring, &ignored, 1) > 0)
			;
	} else if (uring->enabled) {
		cancel_all(uring);
	}
	io_uring_queue_exit(&uring->ring);
	for (uint32_t i = 0; i < base->table.made; i++) {
		wk_net_connection *connection = wk_net_table_at(&base->table, i);
		if (connection->state == WK_NET_FREE)
			continue;
		wk_net_close_socket(base, connection);
		wk_net_drop_send(base, connection);
		wk_net_dial_free(connection->dial);
		connection->dial = NULL;
	}
	wk_uring_buffers_free(&uring->buffers);
	wk_net_base_free(base);
	free(uring);
}

static struct io_uring_sqe *rider_entry(wk_ring *ring) {
	return wk_uring_entry((wk_uring_net *)((char *)ring - offsetof(wk_uring_net, rideable)));
}

static wk_ring *net_ring(wk_net *net) {
	return &((wk_uring_net *)net)->rideable;
}

static const struct wk_net_operations operations = {
    .name = "io_uring",
    .ring = net_ring,
    .destroy = net_destroy,
    .listen = net_listen,
    .listen_on = net_listen_on,
    .stop_listening = net_stop_listening,
    .connect = net_connect,
    .set_tag = wk_net_set_tag,
    .peer = wk_net_peer,
    .send = net_send,
    .pause = net_pause,
    .resume = net_resume,
    .finish = wk_net_finish,
    .close = net_close,
    .watch = net_watch,
    .wait = net_wait,
    .wake = wk_net_wake,
};

/* What receives until it is cancelled came with 6.0, and nothing tells of it but an operation of the same age. */
static int check_kernel(struct io_uring *ring, uint32_t features) {
	if (!(features & IORING_FEAT_NODROP) || !(features & IORING_FEAT_EXT_ARG))
		return -ENOSYS;
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	bool enough = probe != NULL && io_uring_opcode_supported(probe, IORING_OP_SEND_ZC);
	io_uring_free_probe(probe);
	return enough ? 0 : -ENOSYS;
}

/* The best set-up this kernel takes: 6.1 has the first. */
static int make_ring(struct io_uring *ring) {
	static const unsigned ladder[] = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
	                                  IORING_SETUP_COOP_TASKRUN};
	int error = -EINVAL;
	for (size_t rung = 0; rung < sizeof ladder / sizeof *ladder && error == -EINVAL; rung++) {
		struct io_uring_params params = {
		    .flags = ladder[rung] | IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE,
		    .cq_entries = ANSWERS,
		};
		error = io_uring_queue_init_params(ENTRIES, ring, &params);
		if (error)
			continue;
		error = check_kernel(ring, params.features);
		if (error)
			io_uring_queue_exit(ring);
	}
	if (error == 0)
		return wk_descriptor_take_ring(ring);
	return error == -EINVAL ? -ENOSYS : error;
}

int wk_net_uring_new(const wk_net_options *options, wk_net **out) {
	wk_uring_net *uring = calloc(1, sizeof *uring);
	if (uring == NULL)
		return -ENOMEM;
	int error = wk_net_base_init(&uring->base, &operations, options);
	if (error) {
		free(uring);
		return error;
	}
	uring->rideable = (wk_ring){.entry = rider_entry, .mark = WK_URING_RIDER, .mark_bits = WK_URING_KIND_BITS};
	error = make_ring(&uring->ring);
	if (error == 0) {
		const wk_net_options *chosen = &uring->base.options;
		error = wk_uring_buffers_new(&uring->buffers, &uring->ring, chosen->receive_buffers, chosen->receive_size);
		if (error == 0) {
			*out = &uring->base.net;
			return 0;
		}
		io_uring_queue_exit(&uring->ring);
	}
	wk_net_base_free(&uring->base);
	free(uring);
	return error;
}
