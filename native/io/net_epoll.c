/*
 * net_epoll.c: the seam to sockets over epoll, level-triggered: what is not taken now is told again.
 *
 * A send is tried at once and its rest when the socket is writable. What is received in one wait stands side by side in
 * one area, each piece as long as it came, so that many small ones take little of the processor's cache. When the area
 * is full the rest waits for the next turn, which begins with another connection.
 */
#include "io/descriptor.h"
#include "io/net_door.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	TURN_MAX = 256, /* descriptors looked at in one wait */
	AREA_PIECES = 16,
	ALIGNMENT = 64,
	NS_PER_MS = 1000000,
	NS_PER_S = 1000000000,
	/* What a descriptor's data says: below, who; above, the number of a connection. */
	LISTENER = 0,
	WATCHED = LISTENER + WK_NET_LISTENERS_MAX,
	WAKE = WATCHED + WK_NET_WATCHED_MAX,
};

typedef struct epoll_net {
	wk_net_base base;
	int epoll_fd;
	bool resting;    /* the listeners are not watched */
	bool without_ns; /* the kernel has no epoll_pwait2 */
	uint32_t turn;   /* with which of the ready ones to begin */
	uint8_t *area;
	size_t area_size;
	size_t area_used;
	struct epoll_event ready[TURN_MAX];
} epoll_net;

static int watch_fd(epoll_net *epoll, int operation, int fd, uint32_t interest, uint64_t data) {
	struct epoll_event event = {.events = interest, .data.u64 = data};
	return epoll_ctl(epoll->epoll_fd, operation, fd, &event) == 0 ? 0 : -errno;
}

/* Nothing more is heard of it; its owner is still to be told. */
static void end(epoll_net *epoll, wk_net_connection *connection, int error) {
	assert(connection->state != WK_NET_ENDED);
	if (connection->fd >= 0)
		watch_fd(epoll, EPOLL_CTL_DEL, connection->fd, 0, 0); /* a child of ours may have the descriptor too */
	wk_net_drop_send(&epoll->base, connection);
	wk_net_dial_free(connection->dial);
	connection->dial = NULL;
	connection->state = WK_NET_ENDED;
	connection->error = error;
	wk_net_door_leave(&epoll->base, connection);
	wk_net_note(&epoll->base, connection, WK_NET_TELL_CLOSED);
}

/* Watches for what the connection waits for. */
static void update(epoll_net *epoll, wk_net_connection *connection) {
	uint32_t interest = EPOLLOUT;
	if (connection->state == WK_NET_OPEN)
		interest = (connection->paused ? 0 : (uint32_t)EPOLLIN) | (connection->send != NULL ? (uint32_t)EPOLLOUT : 0);
	if (interest == connection->interest)
		return;
	int error = watch_fd(epoll, EPOLL_CTL_MOD, connection->fd, interest, connection->id);
	connection->interest = interest;
	if (error)
		end(epoll, connection, error);
}

/* ---- sending ---- */

static void push(epoll_net *epoll, wk_net_connection *connection) {
	wk_net_send *send = connection->send;
	ssize_t size = 0;
	if (send->message.msg_iovlen > 0) {
		do
			size = sendmsg(connection->fd, wk_net_send_piece(send), MSG_NOSIGNAL | MSG_DONTWAIT);
		while (size < 0 && errno == EINTR);
	}
	if (size < 0 && errno != EAGAIN) {
		end(epoll, connection, -errno);
		return;
	}
	if (size >= 0 && wk_net_send_advance(send, (size_t)size)) {
		wk_net_drop_send(&epoll->base, connection);
		wk_net_note(&epoll->base, connection, WK_NET_TELL_SENT);
	}
	update(epoll, connection);
}

static int net_send(wk_net *net, wk_connection_id id, const struct iovec *parts, uint32_t count) {
	wk_net_connection *connection;
	int error = wk_net_begin_send((wk_net_base *)net, id, parts, count, &connection);
	if (connection != NULL)
		push((epoll_net *)net, connection);
	return error;
}

/* ---- beginning ---- */

static int add_listener(epoll_net *epoll, int fd) {
	wk_net_base *base = &epoll->base;
	int error = watch_fd(epoll, EPOLL_CTL_ADD, fd, epoll->resting ? 0 : EPOLLIN, LISTENER + base->listeners_count);
	if (error == 0)
		base->listeners[base->listeners_count++] = fd;
	return error;
}

static int net_listen(wk_net *net, const char *host, uint16_t port, wk_net_address *bound) {
	wk_net_base *base = (wk_net_base *)net;
	if (base->listeners_count == WK_NET_LISTENERS_MAX)
		return -ENOSPC;
	int fd;
	int error = wk_net_socket_listen(host, port, &base->options, &fd, bound);
	if (error)
		return error;
	error = add_listener((epoll_net *)net, fd);
	if (error)
		close(fd);
	return error;
}

static int net_listen_on(wk_net *net, int fd, wk_net_address *bound) {
	wk_net_base *base = (wk_net_base *)net;
	if (base->listeners_count == WK_NET_LISTENERS_MAX)
		return -ENOSPC;
	int error = wk_net_socket_listen_on(fd, &base->options, bound);
	return error ? error : add_listener((epoll_net *)net, fd);
}

static void net_stop_listening(wk_net *net) {
	epoll_net *epoll = (epoll_net *)net;
	wk_net_base *base = &epoll->base;
	for (uint32_t i = 0; i < base->listeners_count; i++) {
		watch_fd(epoll, EPOLL_CTL_DEL, base->listeners[i], 0, 0);
		close(base->listeners[i]);
	}
	wk_net_door_shut(base);
	epoll->resting = false;
}

/* The listeners rest, or listen again. */
static void set_resting(epoll_net *epoll, bool resting) {
	wk_net_base *base = &epoll->base;
	if (resting == epoll->resting)
		return;
	for (uint32_t i = 0; i < base->listeners_count; i++)
		watch_fd(epoll, EPOLL_CTL_MOD, base->listeners[i], resting ? 0 : EPOLLIN, LISTENER + i);
	epoll->resting = resting;
}

static int welcome(wk_net_base *base, wk_net_connection *connection) {
	connection->interest = EPOLLIN;
	return watch_fd((epoll_net *)base, EPOLL_CTL_ADD, connection->fd, EPOLLIN, connection->id);
}

/* The next address of the name, or the end. */
static void dial_next(epoll_net *epoll, wk_net_connection *connection, int error) {
	if (connection->fd >= 0)
		watch_fd(epoll, EPOLL_CTL_DEL, connection->fd, 0, 0);
	wk_net_close_socket(&epoll->base, connection);
	int result = wk_net_dial_next(connection->dial, epoll->base.options.peer_timeout_s, &connection->fd);
	if (result == 0 || result == -EINPROGRESS) {
		connection->interest = EPOLLOUT; /* writable at once where it is connected already */
		result = watch_fd(epoll, EPOLL_CTL_ADD, connection->fd, EPOLLOUT, connection->id);
	} else if (error != 0 && result == -ENOENT) {
		result = error; /* no address is left: why the last failed */
	}
	if (result)
		end(epoll, connection, result);
}

static int net_connect(wk_net *net, const char *host, uint16_t port, uint64_t tag, wk_connection_id *id) {
	epoll_net *epoll = (epoll_net *)net;
	wk_net_connection *connection;
	int error = wk_net_begin_connect(&epoll->base, host, port, tag, &connection);
	if (error)
		return error;
	*id = connection->id;
	dial_next(epoll, connection, 0);
	return 0;
}

static void dialled(epoll_net *epoll, wk_net_connection *connection) {
	int error = wk_net_socket_error(connection->fd);
	if (error) {
		dial_next(epoll, connection, error);
		return;
	}
	wk_net_dial_free(connection->dial);
	connection->dial = NULL;
	connection->state = WK_NET_OPEN;
	wk_net_note(&epoll->base, connection, WK_NET_TELL_OPEN);
	update(epoll, connection);
}

/* ---- receiving ---- */

/* True if there is an event to tell. */
static bool receive(epoll_net *epoll, wk_net_connection *connection, wk_net_event *event) {
	size_t most = epoll->base.options.receive_size;
	if (epoll->area_used + most > epoll->area_size)
		return false; /* it stays ready */
	uint8_t *bytes = epoll->area + epoll->area_used;
	ssize_t size;
	do
		size = recv(connection->fd, bytes, most, MSG_DONTWAIT);
	while (size < 0 && errno == EINTR);
	if (size <= 0) {
		if (size == 0 || errno != EAGAIN)
			end(epoll, connection, size == 0 ? 0 : -errno);
		return false;
	}
	epoll->area_used += ((size_t)size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	*event = (wk_net_event){
	    .kind = WK_NET_RECEIVED,
	    .connection = connection->id,
	    .tag = connection->tag,
	    .bytes = bytes,
	    .size = (size_t)size,
	};
	return true;
}

static int set_paused(wk_net *net, wk_connection_id id, bool paused) {
	wk_net_connection *connection;
	int error = wk_net_set_paused((wk_net_base *)net, id, paused, &connection);
	if (connection != NULL && connection->state == WK_NET_OPEN)
		update((epoll_net *)net, connection);
	return error;
}

static int net_pause(wk_net *net, wk_connection_id id) {
	return set_paused(net, id, true);
}

static int net_resume(wk_net *net, wk_connection_id id) {
	return set_paused(net, id, false);
}

/* ---- ending ---- */

static int net_close(wk_net *net, wk_connection_id id) {
	epoll_net *epoll = (epoll_net *)net;
	wk_net_connection *connection;
	int error = wk_net_owned(&epoll->base, id, &connection);
	if (error)
		return error;
	if (connection->state != WK_NET_ENDED)
		end(epoll, connection, -ECANCELED);
	connection->error = -ECANCELED;
	connection->closed = true;
	connection->tell = WK_NET_TELL_CLOSED;
	return 0;
}

static void net_destroy(wk_net *net) {
	epoll_net *epoll = (epoll_net *)net;
	wk_net_base *base = &epoll->base;
	for (uint32_t i = 0; i < base->table.made; i++) {
		wk_net_connection *connection = wk_net_table_at(&base->table, i);
		if (connection->state != WK_NET_FREE && connection->state != WK_NET_ENDED)
			end(epoll, connection, -ECANCELED);
	}
	close(epoll->epoll_fd);
	wk_net_base_free(base);
	free(epoll->area);
	free(epoll);
}

/* ---- waiting ---- */

static int net_watch(wk_net *net, int fd, uint64_t tag) {
	epoll_net *epoll = (epoll_net *)net;
	wk_net_base *base = &epoll->base;
	if (base->watched_count == WK_NET_WATCHED_MAX)
		return -ENOSPC;
	int error = watch_fd(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, WATCHED + base->watched_count);
	if (error)
		return error;
	base->watched[base->watched_count].fd = fd;
	base->watched[base->watched_count++].tag = tag;
	return 0;
}

/* The count of those that are ready, or -errno. Without epoll_pwait2 a wait is a part of a millisecond too long. */
static int sleep_until_ready(epoll_net *epoll, int max, uint64_t timeout_ns) {
#ifdef SYS_epoll_pwait2
	if (!epoll->without_ns && timeout_ns != 0 && timeout_ns != UINT64_MAX) {
		struct timespec timeout = {
		    .tv_sec = (time_t)(timeout_ns / NS_PER_S),
		    .tv_nsec = (long)(timeout_ns % NS_PER_S),
		};
		long count = syscall(SYS_epoll_pwait2, epoll->epoll_fd, epoll->ready, max, &timeout, NULL, 0);
		if (count >= 0 || (errno != ENOSYS && errno != EPERM))
			return count >= 0 ? (int)count : -errno;
		epoll->without_ns = true;
	}
#endif
	int timeout_ms = -1;
	if (timeout_ns != UINT64_MAX)
		timeout_ms = timeout_ns / NS_PER_MS < INT32_MAX ? (int)((timeout_ns + NS_PER_MS - 1) / NS_PER_MS) : INT32_MAX;
	int count = epoll_wait(epoll->epoll_fd, epoll->ready, max, timeout_ms);
	return count >= 0 ? count : -errno;
}

/* True if there is an event to tell at once; the rest is noted. */
static bool look(epoll_net *epoll, const struct epoll_event *ready, wk_net_event *event) {
	wk_net_base *base = &epoll->base;
	uint64_t data = ready->data.u64;
	if (data < WATCHED) {
		if (data - LISTENER < base->listeners_count)
			wk_net_door_accept(base, (uint32_t)data - LISTENER, SOCK_NONBLOCK | SOCK_CLOEXEC, welcome);
		return false;
	}
	if (data < WAKE) {
		*event = (wk_net_event){.kind = WK_NET_READABLE, .tag = base->watched[data - WATCHED].tag};
		return true;
	}
	if (data == WAKE) {
		base->woken = true;
		return false;
	}
	wk_net_connection *connection = wk_net_table_find(&base->table, data);
	if (connection == NULL || connection->state == WK_NET_ENDED || wk_net_is_new(base, connection))
		return false;
	if (connection->state == WK_NET_DIALLING) {
		dialled(epoll, connection);
		return false;
	}
	bool broken = ready->events & (EPOLLERR | EPOLLHUP);
	if (ready->events & EPOLLOUT && connection->send != NULL)
		push(epoll, connection);
	if (connection->state == WK_NET_ENDED)
		return false;
	if (!connection->paused)
		return ready->events & EPOLLIN || broken ? receive(epoll, connection, event) : false;
	if (broken)
		end(epoll, connection, wk_net_socket_error(connection->fd));
	return false;
}

static int net_wait(wk_net *net, wk_net_event *events, uint32_t max, uint64_t timeout_ns) {
	epoll_net *epoll = (epoll_net *)net;
	wk_net_base *base = &epoll->base;
	assert(max > 0);
	epoll->area_used = 0;
	base->waits++;
	wk_net_limit limit = wk_net_limit_new(timeout_ns);
	for (;;) {
		set_resting(epoll, wk_net_door_turn(base));
		uint32_t count = wk_net_tell(base, events, max);
		if (count == max)
			return (int)count;
		uint32_t room = max - count < TURN_MAX ? max - count : TURN_MAX;
		int found = sleep_until_ready(epoll, (int)room, count > 0 ? 0 : wk_net_limit_left(&limit, base));
		if (found < 0 && found != -EINTR)
			return count > 0 ? (int)count : found;
		for (int i = 0; i < found; i++)
			count += look(epoll, &epoll->ready[(epoll->turn + (uint32_t)i) % (uint32_t)found], &events[count]);
		epoll->turn += count > 0 ? count : 1;
		count += wk_net_tell(base, events + count, max - count);
		bool woken = wk_net_take_wake(base);
		if (count > 0 || woken || wk_net_limit_reached(&limit))
			return (int)count;
	}
}

static struct wk_ring *net_ring(wk_net *net) {
	(void)net;
	return NULL;
}

static const struct wk_net_operations operations = {
    .name = "epoll",
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

int wk_net_epoll_new(const wk_net_options *options, wk_net **out) {
	epoll_net *epoll = calloc(1, sizeof *epoll);
	if (epoll == NULL)
		return -ENOMEM;
	epoll->epoll_fd = -1;
	int error = wk_net_base_init(&epoll->base, &operations, options);
	if (error) {
		free(epoll);
		return error;
	}
	/* Edge-triggered, the wake's descriptor need not be read: each write is told. */
	epoll->area_size = (size_t)epoll->base.options.receive_size * AREA_PIECES;
	epoll->area = aligned_alloc(ALIGNMENT, (epoll->area_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
	epoll->epoll_fd = wk_descriptor_take(epoll_create1(EPOLL_CLOEXEC));
	if (epoll->area == NULL)
		error = -ENOMEM;
	else if (epoll->epoll_fd < 0)
		error = epoll->epoll_fd;
	else
		error = watch_fd(epoll, EPOLL_CTL_ADD, epoll->base.wake_fd, EPOLLIN | EPOLLET, WAKE);
	if (error == 0) {
		*out = &epoll->base.net;
		return 0;
	}
	if (epoll->epoll_fd >= 0)
		close(epoll->epoll_fd);
	wk_net_base_free(&epoll->base);
	free(epoll->area);
	free(epoll);
	return error;
}
