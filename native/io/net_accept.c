/* net_accept.c: who is let in, and how much of the loop that may take. */
#include "io/net_accept.h"
#include "io/clock.h"
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000, SHORT_NS = 100000000 };

/* To be told if it is the first within a second. */
static void failed(wk_net_base *base, int error) {
	uint64_t now = wk_clock_monotonic_ns();
	if (base->accept_told_at != 0 && now - base->accept_told_at < NS_PER_S)
		return;
	base->accept_told_at = now;
	base->accept_error = error;
}

static void rest(wk_net_base *base, uint64_t until) {
	base->rest_until = until > base->rest_until ? until : base->rest_until;
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

static void let_in(wk_net_base *base, int fd, wk_net_welcome welcome) {
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
		return;
	}
	close(fd);
	failed(base, error);
	if (connection != NULL) {
		connection->fd = -1;
		wk_net_forget(base, connection);
	}
}

void wk_net_accept_some(wk_net_base *base, uint32_t listener, int flags, wk_net_welcome welcome) {
	uint64_t began = wk_clock_monotonic_ns();
	for (int i = 0; i < WK_NET_ACCEPTS_AT_ONCE; i++) {
		int fd = accept4(base->listeners[listener], NULL, NULL, flags);
		if (fd >= 0) {
			let_in(base, fd, welcome);
		} else if (errno == EAGAIN) {
			break;
		} else if (wk_net_is_shortage(-errno)) {
			failed(base, -errno);
			base->ran_short = true;
			rest(base, wk_clock_monotonic_ns() + SHORT_NS);
			return;
		} /* else it is the trouble of one who wanted to come */
	}
	uint64_t now = wk_clock_monotonic_ns(), pause = (now - began) * WK_NET_REST_TIMES;
	rest(base, now + (pause < WK_NET_REST_NS_MAX ? pause : WK_NET_REST_NS_MAX));
}

bool wk_net_accept_rests(wk_net_base *base) {
	if (base->rest_until == 0)
		return false;
	if (base->rest_until > wk_clock_monotonic_ns())
		return true;
	base->rest_until = 0;
	base->ran_short = false;
	return false;
}
