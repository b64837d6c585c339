/* net_base.c: what both implementations of the seam to sockets keep. */
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/net_door.h"
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000 };

int wk_net_base_init(wk_net_base *base, const struct wk_net_operations *operations, const wk_net_options *options) {
	*base = (wk_net_base){.net = {.operations = operations}};
	wk_net_options *chosen = &base->options;
	if (options != NULL)
		*chosen = *options;
	chosen->connections_max = chosen->connections_max != 0 ? chosen->connections_max : 65536;
	chosen->receive_size = chosen->receive_size != 0 ? chosen->receive_size : 65536;
	chosen->receive_buffers = chosen->receive_buffers != 0 ? chosen->receive_buffers : 64;
	chosen->backlog = chosen->backlog != 0 ? chosen->backlog : 4096;
	chosen->peer_timeout_s = chosen->peer_timeout_s != 0 ? chosen->peer_timeout_s : 120;
	if (chosen->connections_max > WK_NET_CONNECTIONS_MAX || chosen->receive_size > 1 << 24 ||
	    chosen->receive_buffers > 1 << 15 || (chosen->receive_buffers & (chosen->receive_buffers - 1)) != 0 ||
	    chosen->backlog > INT32_MAX || chosen->peer_timeout_s < 2 || chosen->peer_timeout_s > 86400)
		return -EINVAL;
	base->table.max = chosen->connections_max;
	if (chosen->connections_per_address_max < chosen->connections_max)
		base->origins.max = chosen->connections_per_address_max;
	if (getrandom(&base->origins.seed, sizeof base->origins.seed, GRND_NONBLOCK) < 0)
		base->origins.seed = wk_clock_monotonic_ns();
	atomic_init(&base->wake_pending, false);
	wk_descriptor_occupy_low();
	base->wake_fd = wk_descriptor_take(eventfd(0, EFD_CLOEXEC));
	return base->wake_fd < 0 ? base->wake_fd : 0;
}

void wk_net_base_free(wk_net_base *base) {
	for (uint32_t i = 0; i < base->listeners_count; i++)
		close(base->listeners[i]);
	close(base->wake_fd);
	wk_net_door_free(base);
	wk_net_table_free(&base->table);
	wk_net_origins_free(&base->origins);
	wk_net_send_pool_free(&base->sends);
}

int wk_net_owned(wk_net_base *base, wk_connection_id id, wk_net_connection **connection) {
	wk_net_connection *found = wk_net_table_find(&base->table, id);
	if (found == NULL || found->closed)
		return -EBADF;
	*connection = found;
	return 0;
}

int wk_net_set_tag(wk_net *net, wk_connection_id id, uint64_t tag) {
	wk_net_connection *connection;
	int error = wk_net_owned((wk_net_base *)net, id, &connection);
	if (error == 0)
		connection->tag = tag;
	return error;
}

int wk_net_peer(wk_net *net, wk_connection_id id, wk_net_address *peer) {
	wk_net_connection *connection;
	int error = wk_net_owned((wk_net_base *)net, id, &connection);
	if (error)
		return error;
	return connection->state == WK_NET_OPEN ? wk_net_socket_peer(connection->fd, peer) : -ENOTCONN;
}

int wk_net_finish(wk_net *net, wk_connection_id id) {
	wk_net_connection *connection;
	int error = wk_net_owned((wk_net_base *)net, id, &connection);
	if (error)
		return error;
	if (connection->state == WK_NET_DIALLING)
		return -ENOTCONN;
	if (connection->send != NULL)
		return -EBUSY;
	if (connection->state == WK_NET_OPEN)
		(void)shutdown(connection->fd, SHUT_WR); /* of one that is over already: its end will be told */
	return 0;
}

void wk_net_wake(wk_net *net) {
	wk_net_base *base = (wk_net_base *)net;
	if (atomic_exchange(&base->wake_pending, true))
		return; /* one is on its way, and the owner looks at its work only after it has taken it */
	int error;
	do
		error = eventfd_write(base->wake_fd, 1);
	while (error != 0 && errno == EINTR);
	assert(error == 0);
}

int wk_net_begin_connect(wk_net_base *base, const char *host, uint16_t port, uint64_t tag, wk_net_connection **out) {
	int error;
	wk_net_connection *connection = wk_net_table_take(&base->table, &error);
	if (connection == NULL)
		return error;
	connection->tag = tag;
	connection->state = WK_NET_DIALLING;
	error = wk_net_dial_new(host, port, &connection->dial);
	if (error)
		wk_net_forget(base, connection);
	else
		*out = connection;
	return error;
}

void wk_net_forget(wk_net_base *base, wk_net_connection *connection) {
	wk_net_origins_leave(&base->origins, connection->origin);
	wk_net_table_give_back(&base->table, connection);
}

int wk_net_set_paused(wk_net_base *base, wk_connection_id id, bool paused, wk_net_connection **out) {
	*out = NULL;
	wk_net_connection *connection;
	int error = wk_net_owned(base, id, &connection);
	if (error || connection->paused == paused)
		return error;
	connection->paused = paused;
	*out = connection;
	return 0;
}

bool wk_net_take_wake(wk_net_base *base) {
	bool woken = base->woken;
	base->woken = false;
	if (woken)
		atomic_exchange(&base->wake_pending, false); /* reads too, so that we see all the wakers did before */
	return woken;
}

int wk_net_begin_send(wk_net_base *base, wk_connection_id id, const struct iovec *parts, uint32_t count,
                      wk_net_connection **out) {
	*out = NULL;
	if (count > WK_NET_PARTS_MAX)
		return -EINVAL;
	wk_net_connection *connection;
	int error = wk_net_owned(base, id, &connection);
	if (error)
		return error;
	if (connection->state == WK_NET_DIALLING)
		return -ENOTCONN;
	if (connection->send != NULL || connection->tell & WK_NET_TELL_SENT)
		return -EBUSY;
	if (connection->state == WK_NET_ENDED)
		return 0;
	connection->send = wk_net_send_take(&base->sends);
	if (connection->send == NULL)
		return -ENOMEM;
	wk_net_send_load(connection->send, parts, count);
	*out = connection;
	return 0;
}

void wk_net_drop_send(wk_net_base *base, wk_net_connection *connection) {
	if (connection->send != NULL)
		wk_net_send_give_back(&base->sends, connection->send);
	connection->send = NULL;
}

void wk_net_close_socket(wk_net_base *base, wk_net_connection *connection) {
	if (connection->fd < 0)
		return;
	close(connection->fd);
	connection->fd = -1;
	if (base->ran_short)
		base->rest_until = 1; /* long ago: at the next look */
}

void wk_net_note(wk_net_base *base, wk_net_connection *connection, unsigned what) {
	connection->tell = (uint8_t)(connection->tell | what);
	if (connection->listed)
		return;
	connection->listed = true;
	connection->next = NULL;
	if (base->tell_first == NULL)
		base->tell_first = connection;
	else
		base->tell_last->next = connection;
	base->tell_last = connection;
}

/* The first of what is to be told of it. */
static wk_net_event take_note(wk_net_base *base, wk_net_connection *connection) {
	wk_net_event event = {.connection = connection->id, .tag = connection->tag};
	if (connection->tell & WK_NET_TELL_OPEN) {
		event.kind = connection->accepted ? WK_NET_ACCEPTED : WK_NET_CONNECTED;
		connection->tell &= (uint8_t)~WK_NET_TELL_OPEN;
		connection->opened_in = base->waits;
	} else if (connection->tell & WK_NET_TELL_SENT) {
		event.kind = WK_NET_SENT;
		connection->tell &= (uint8_t)~WK_NET_TELL_SENT;
	} else {
		event.kind = WK_NET_CLOSED;
		event.error = connection->error;
		connection->tell = 0;
		wk_net_forget(base, connection);
	}
	return event;
}

static uint32_t tell_failures(wk_net_base *base, wk_net_event *event) {
	uint64_t now = wk_clock_monotonic_ns();
	if (base->accept_told_at != 0 && now - base->accept_told_at < NS_PER_S)
		return 0;
	base->accept_told_at = now;
	*event = (wk_net_event){.kind = WK_NET_ACCEPT_FAILED, .error = base->accept_error, .size = base->sent_away};
	base->accept_error = 0;
	base->sent_away = 0;
	return 1;
}

uint32_t wk_net_tell(wk_net_base *base, wk_net_event *events, uint32_t max) {
	uint32_t count = 0;
	if (base->accept_error != 0 && count < max)
		count += tell_failures(base, events);
	wk_net_connection *last = base->tell_last; /* what is noted from here on is for the next time */
	while (base->tell_first != NULL && count < max) {
		wk_net_connection *connection = base->tell_first;
		bool is_last = connection == last;
		base->tell_first = connection->next;
		connection->listed = false;
		if (connection->tell != 0 && !wk_net_is_new(base, connection)) /* its owner may have closed it meanwhile */
			events[count++] = take_note(base, connection);
		if (connection->tell != 0)
			wk_net_note(base, connection, 0);
		if (is_last)
			break;
	}
	return count;
}

wk_net_limit wk_net_limit_new(uint64_t timeout_ns) {
	wk_net_limit limit = {.deadline = UINT64_MAX};
	if (timeout_ns != UINT64_MAX) {
		limit.now = wk_clock_monotonic_ns();
		limit.deadline = timeout_ns < UINT64_MAX - limit.now ? limit.now + timeout_ns : UINT64_MAX;
	}
	return limit;
}

uint64_t wk_net_limit_left(wk_net_limit *limit, const wk_net_base *base) {
	assert(base->leaving.count == 0 || base->rest_until != 0); /* somebody waits for the end of a rest */
	uint64_t until = limit->deadline;
	if (base->rest_until != 0 && base->rest_until < until)
		until = base->rest_until;
	if (base->accept_error != 0 && base->accept_told_at + NS_PER_S < until)
		until = base->accept_told_at + NS_PER_S;
	if (until == UINT64_MAX)
		return UINT64_MAX;
	limit->now = wk_clock_monotonic_ns();
	return until > limit->now ? until - limit->now : 0;
}

bool wk_net_limit_reached(const wk_net_limit *limit) {
	return limit->deadline != UINT64_MAX && limit->now >= limit->deadline;
}
