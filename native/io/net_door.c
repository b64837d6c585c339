/* net_door.c: who comes in and who goes, and how much of the loop that may take. */
#include "io/net_door.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SHORT_NS = 100000000 };

/* Behind the rest that is under way, if there is one. */
static void rest(wk_net_base *base, uint64_t since_cpu_ns, uint64_t times) {
	uint64_t now = wk_clock_monotonic_ns(), from = base->rest_until > now ? base->rest_until : now;
	base->rest_until = from + (wk_clock_thread_ns() - since_cpu_ns) * times;
}

/* ---- who goes ---- */

static bool put(wk_net_leaving *leaving, int fd) {
	if (leaving->count == leaving->size) {
		uint32_t size = leaving->size == 0 ? 64 : leaving->size * 2;
		int *fds = malloc(size * sizeof *fds);
		if (fds == NULL)
			return false;
		for (uint32_t i = 0; i < leaving->count; i++)
			fds[i] = leaving->fds[(leaving->first + i) & (leaving->size - 1)];
		free(leaving->fds);
		*leaving = (wk_net_leaving){.fds = fds, .count = leaving->count, .size = size};
	}
	leaving->fds[(leaving->first + leaving->count++) & (leaving->size - 1)] = fd;
	return true;
}

static void close_some(wk_net_leaving *leaving, uint32_t most) {
	for (; most > 0 && leaving->count > 0; most--, leaving->count--)
		close(leaving->fds[leaving->first++ & (leaving->size - 1)]);
}

/* Where descriptors are short nobody who goes waits. */
void wk_net_door_leave(wk_net_base *base, wk_net_connection *connection) {
	if (connection->fd >= 0 && !base->ran_short && put(&base->leaving, connection->fd))
		connection->fd = -1;
	else
		wk_net_close_socket(base, connection);
}

static bool rests(wk_net_base *base) {
	if (base->rest_until == 0)
		return false;
	if (base->rest_until > wk_clock_monotonic_ns())
		return true;
	base->rest_until = 0;
	base->ran_short = false;
	return false;
}

/*
 * The listeners have the same turn: who comes does not wait until all who go have gone. It is asked once whether the door
 * rests, as whoever is left behind must find that it does, or nobody would look again.
 */
bool wk_net_door_turn(wk_net_base *base) {
	bool shut = rests(base);
	if (base->leaving.count == 0 || shut)
		return shut;
	uint64_t began = wk_clock_thread_ns();
	close_some(&base->leaving, WK_NET_DOOR_AT_ONCE);
	rest(base, began, WK_NET_DOOR_REST_TIMES);
	return false;
}

void wk_net_door_shut(wk_net_base *base) {
	base->listeners_count = 0;
	base->rest_until = 0;
	base->ran_short = false;
}

void wk_net_door_free(wk_net_base *base) {
	close_some(&base->leaving, UINT32_MAX);
	free(base->leaving.fds);
}

/* ---- who comes ---- */

/* Out of something: it may be there again when those who wait to go have gone, when another is closed, or later. */
static void run_short(wk_net_base *base, int error, uint64_t since_cpu_ns) {
	base->accept_error = error;
	base->ran_short = true;
	if (base->leaving.count > 0) {
		close_some(&base->leaving, UINT32_MAX);
		rest(base, since_cpu_ns, WK_NET_DOOR_REST_TIMES);
	} else {
		base->rest_until = wk_clock_monotonic_ns() + SHORT_NS;
	}
}

/* A connection for it, counted with its address; NULL with *error -EMFILE (too many, or too many from there) or -ENOMEM. */
static wk_net_connection *admit(wk_net_base *base, int fd, int *error) {
	struct sockaddr_storage address = {0};
	socklen_t size = sizeof address;
	wk_net_origin origin = 0; /* of one that has gone already */
	if (base->origins.max > 0 && getpeername(fd, (struct sockaddr *)&address, &size) == 0)
		origin = wk_net_origin_of((struct sockaddr *)&address);
	*error = wk_net_origins_enter(&base->origins, origin);
	if (*error)
		return NULL;
	wk_net_connection *connection = wk_net_table_take(&base->table, error);
	if (connection != NULL)
		connection->origin = origin;
	else
		wk_net_origins_leave(&base->origins, origin);
	return connection;
}

/* False: it was sent away. */
static bool let_in(wk_net_base *base, int fd, wk_net_welcome welcome) {
	int error;
	wk_net_connection *connection = admit(base, fd, &error);
	if (connection != NULL) {
		connection->fd = fd;
		connection->state = WK_NET_OPEN;
		connection->accepted = true;
		error = welcome != NULL ? welcome(base, connection) : 0;
	}
	if (error == 0) {
		wk_net_note(base, connection, WK_NET_TELL_OPEN);
		return true;
	}
	close(fd);
	base->accept_error = error;
	base->sent_away++;
	if (connection != NULL) {
		connection->fd = -1;
		wk_net_forget(base, connection);
	}
	return false;
}

void wk_net_door_accept(wk_net_base *base, uint32_t listener, int flags, wk_net_welcome welcome) {
	uint64_t began = wk_clock_thread_ns();
	int failures = 0, sent_away = 0;
	for (int tries = 0; tries < WK_NET_DOOR_AT_ONCE; tries++) {
		int fd = wk_descriptor_take(accept4(base->listeners[listener], NULL, NULL, flags));
		if (fd >= 0) {
			sent_away += !let_in(base, fd, welcome);
		} else if (fd == -EAGAIN) {
			break;
		} else if (wk_net_is_shortage(fd) || ++failures == WK_NET_DOOR_AT_ONCE) {
			run_short(base, fd, began);
			return;
		} /* else it is the trouble of one who wanted to come */
	}
	rest(base, began, sent_away > 0 ? WK_NET_DOOR_REST_TIMES : WK_NET_DOOR_REST_TIMES_IN);
}
