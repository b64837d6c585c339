/* network_endpoint.c: the simulated network as a process sees it: the calls of io/net.h. */
#include "sim/network_state.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECEIVE_SIZE = 65536, EVENTS_A_SOCKET = 3, FIRST_PORT = 40000 };

static wk_endpoint *endpoint_of(const wk_net *net) {
	return (wk_endpoint *)(uintptr_t)net; /* it stands first */
}

/* That of a connection which its owner has, and has not closed; NULL: -EBADF. */
static wk_socket *socket_of(wk_net *net, wk_connection_id id) {
	const wk_endpoint *endpoint = endpoint_of(net);
	const wk_network *network = endpoint->network;
	for (size_t i = 0; i < network->tcps_count; i++)
		for (int side = 0; side < 2; side++) {
			wk_socket *socket = &network->tcps[i]->sockets[side];
			if (socket->endpoint == endpoint && socket->id == id)
				return socket->closes && socket->error == -ECANCELED ? NULL : socket;
		}
	return NULL;
}

/* ---- calls ---- */

static int listen_at(wk_net *net, const char *host, uint16_t port, wk_net_address *bound) {
	(void)host;
	wk_endpoint *endpoint = endpoint_of(net);
	if (endpoint->ports_count == WK_LISTENERS_MAX)
		return -ENOSPC;
	port = port != 0 ? port : (uint16_t)(FIRST_PORT + endpoint->ports_count);
	endpoint->ports[endpoint->ports_count++] = port;
	wk_network_address(endpoint->host, bound->host);
	bound->port = port;
	return 0;
}

static int listen_on(wk_net *net, int fd, wk_net_address *bound) {
	(void)net, (void)fd, (void)bound;
	return -ENOSYS;
}

static void stop_listening(wk_net *net) {
	endpoint_of(net)->ports_count = 0;
}

static int connect_to(wk_net *net, const char *host, uint16_t port, uint64_t tag, wk_connection_id *connection) {
	unsigned number;
	if (sscanf(host, "10.0.0.%u", &number) != 1 || number >= WK_NETWORK_HOSTS_MAX)
		return -ENOENT;
	*connection = wk_tcp_new(endpoint_of(net), number, port, tag)->sockets[0].id;
	return 0;
}

static int set_tag(wk_net *net, wk_connection_id connection, uint64_t tag) {
	wk_socket *socket = socket_of(net, connection);
	if (socket == NULL)
		return -EBADF;
	socket->tag = tag;
	return 0;
}

static int peer_of(wk_net *net, wk_connection_id connection, wk_net_address *address) {
	const wk_network *network = endpoint_of(net)->network;
	const wk_socket *socket = socket_of(net, connection);
	for (size_t i = 0; socket != NULL && i < network->tcps_count; i++)
		for (int side = 0; side < 2; side++)
			if (socket == &network->tcps[i]->sockets[side]) {
				wk_network_address(network->tcps[i]->sockets[!side].host, address->host);
				address->port = network->tcps[i]->port;
			}
	return socket != NULL ? 0 : -EBADF;
}

static int send_parts(wk_net *net, wk_connection_id connection, const struct iovec *parts, uint32_t count) {
	wk_socket *socket = socket_of(net, connection);
	assert(count > 0 && count <= WK_NET_PARTS_MAX);
	if (socket == NULL)
		return -EBADF;
	if (!socket->open)
		return -ENOTCONN;
	if (socket->sends)
		return -EBUSY;
	memcpy(socket->parts, parts, count * sizeof *parts);
	socket->parts_count = count;
	socket->part = 0;
	socket->part_taken = 0;
	socket->sends = true;
	socket->sent = false;
	socket->takes_at_ns = endpoint_of(net)->network->now_ns;
	return 0;
}

static int pause_it(wk_net *net, wk_connection_id connection) {
	wk_socket *socket = socket_of(net, connection);
	if (socket == NULL)
		return -EBADF;
	socket->paused = true;
	socket->comes_late = wk_network_chance(endpoint_of(net)->network, 2) == 0;
	return 0;
}

static int resume(wk_net *net, wk_connection_id connection) {
	wk_socket *socket = socket_of(net, connection);
	if (socket == NULL)
		return -EBADF;
	socket->paused = socket->comes_late = false;
	return 0;
}

static int finish(wk_net *net, wk_connection_id connection) {
	wk_socket *socket = socket_of(net, connection);
	if (socket == NULL)
		return -EBADF;
	if (socket->sends)
		return -EBUSY;
	wk_socket_say(endpoint_of(net)->network, socket, WK_PIECE_END);
	return 0;
}

/* The kernel lets go of what is being sent only some time later. */
static int close_it(wk_net *net, wk_connection_id connection) {
	wk_socket *socket = socket_of(net, connection);
	wk_network *network = endpoint_of(net)->network;
	if (socket == NULL)
		return -EBADF;
	uint64_t later_ns = wk_network_chance(network, 2) == 0 ? 0 : wk_network_delay(network);
	wk_socket_end(socket, -ECANCELED, network->now_ns + later_ns);
	return 0;
}

static int watch(wk_net *net, int fd, uint64_t tag) {
	(void)net, (void)fd, (void)tag;
	return -ENOSYS;
}

static struct wk_ring *ring(wk_net *net) {
	(void)net;
	return NULL;
}

static void wake(wk_net *net) {
	endpoint_of(net)->woken = true;
}

/* ---- what is told ---- */

static bool end_is_due(const wk_network *network, const wk_socket *socket) {
	return socket->closes && socket->closes_at_ns <= network->now_ns;
}

static bool may_receive(const wk_socket *socket) {
	return socket->received_size > 0 && (!socket->paused || socket->comes_late);
}

static bool end_in_order_is_due(const wk_socket *socket) {
	return socket->ended && socket->received_size == 0 && (!socket->paused || socket->sends);
}

static bool is_told_nothing_else(const wk_socket *socket) {
	return socket->closes && socket->error == -ECANCELED;
}

static bool opening_is_due(const wk_network *network, const wk_socket *socket) {
	return socket->opens && !socket->open && socket->opens_at_ns <= network->now_ns;
}

static bool socket_tells(const wk_network *network, const wk_socket *socket) {
	if (end_is_due(network, socket))
		return true;
	if (is_told_nothing_else(socket))
		return false;
	if (!socket->open)
		return opening_is_due(network, socket);
	return socket->sent || may_receive(socket) || end_in_order_is_due(socket);
}

bool wk_network_tells(const wk_net *net) {
	const wk_endpoint *endpoint = endpoint_of(net);
	const wk_network *network = endpoint->network;
	for (size_t i = 0; i < network->tcps_count; i++)
		for (int side = 0; side < 2; side++) {
			const wk_socket *socket = &network->tcps[i]->sockets[side];
			if (socket->endpoint == endpoint && socket_tells(network, socket))
				return true;
		}
	return endpoint->woken;
}

static void forget_told(wk_endpoint *endpoint) {
	while (endpoint->told != NULL) {
		wk_told *told = endpoint->told;
		endpoint->told = told->next;
		free(told);
	}
}

static wk_net_event event_of(const wk_socket *socket, wk_net_kind kind) {
	return (wk_net_event){.kind = kind, .connection = socket->id, .tag = socket->tag};
}

static uint32_t tell_received(wk_endpoint *endpoint, wk_socket *socket, wk_net_event *event) {
	wk_network *network = endpoint->network;
	if (!may_receive(socket))
		return 0;
	size_t size = socket->received_size < RECEIVE_SIZE ? socket->received_size : RECEIVE_SIZE;
	if (wk_network_chance(network, 8) == 0)
		size = 1 + (size_t)wk_network_chance(network, size);
	wk_told *told = wk_faulty_allocate(1, sizeof *told + size);
	memcpy(told->bytes, socket->received, size);
	told->next = endpoint->told;
	endpoint->told = told;
	socket->received_size -= size;
	memmove(socket->received, socket->received + size, socket->received_size);
	socket->comes_late = false;
	*event = event_of(socket, WK_NET_RECEIVED);
	event->bytes = told->bytes;
	event->size = size;
	return 1;
}

static uint32_t tell_sent(wk_socket *socket, wk_net_event *event) {
	if (!socket->sent)
		return 0;
	socket->sends = socket->sent = false;
	*event = event_of(socket, WK_NET_SENT);
	return 1;
}

static uint32_t tell_end(wk_network *network, wk_socket *socket, int error, wk_net_event *event) {
	*event = event_of(socket, WK_NET_CLOSED);
	event->error = error;
	wk_socket_leave(network, socket);
	return 1;
}

/* What there is to tell of the socket; at most EVENTS_A_SOCKET. */
static uint32_t tell(wk_endpoint *endpoint, wk_socket *socket, bool accepted, wk_net_event *events) {
	wk_network *network = endpoint->network;
	if (is_told_nothing_else(socket))
		return end_is_due(network, socket) ? tell_end(network, socket, -ECANCELED, events) : 0;
	if (!socket->open && opening_is_due(network, socket)) {
		socket->open = true;
		socket->opened_in = endpoint->waits;
		*events = event_of(socket, accepted ? WK_NET_ACCEPTED : WK_NET_CONNECTED);
		return 1; /* nothing else in this batch */
	}
	if (!socket->open) /* it could not connect */
		return end_is_due(network, socket) ? tell_end(network, socket, socket->error, events) : 0;
	uint32_t count = 0;
	bool sent_first = wk_network_chance(network, 2) == 0;
	if (sent_first)
		count += tell_sent(socket, events);
	count += tell_received(endpoint, socket, events + count);
	if (!sent_first)
		count += tell_sent(socket, events + count);
	if (end_is_due(network, socket))
		count += tell_end(network, socket, socket->error, events + count);
	else if (end_in_order_is_due(socket))
		count += tell_end(network, socket, 0, events + count);
	return count;
}

static int take_events(wk_net *net, wk_net_event *events, uint32_t max, uint64_t timeout_ns) {
	(void)timeout_ns;
	wk_endpoint *endpoint = endpoint_of(net);
	wk_network *network = endpoint->network;
	uint32_t count = 0;
	forget_told(endpoint);
	endpoint->waits++;
	endpoint->woken = false;
	size_t first = network->tcps_count > 0 ? (size_t)wk_network_chance(network, network->tcps_count) : 0;
	for (size_t i = 0; i < network->tcps_count; i++) {
		wk_tcp *tcp = network->tcps[(first + i) % network->tcps_count];
		for (int side = 0; side < 2 && count + EVENTS_A_SOCKET <= max; side++)
			if (tcp->sockets[side].endpoint == endpoint)
				count += tell(endpoint, &tcp->sockets[side], side == 1, events + count);
	}
	return (int)count;
}

/* ---- the end of a process ---- */

static void destroy(wk_net *net) {
	wk_endpoint *endpoint = endpoint_of(net);
	wk_network *network = endpoint->network;
	for (size_t i = 0; i < network->tcps_count; i++)
		for (int side = 0; side < 2; side++)
			if (network->tcps[i]->sockets[side].endpoint == endpoint)
				wk_socket_leave(network, &network->tcps[i]->sockets[side]);
	forget_told(endpoint);
	*endpoint->link = endpoint->next;
	if (endpoint->next != NULL)
		endpoint->next->link = endpoint->link;
	free(endpoint);
}

const struct wk_net_operations wk_network_operations = {
    .name = "simulated",
    .destroy = destroy,
    .listen = listen_at,
    .listen_on = listen_on,
    .stop_listening = stop_listening,
    .connect = connect_to,
    .set_tag = set_tag,
    .peer = peer_of,
    .send = send_parts,
    .pause = pause_it,
    .resume = resume,
    .finish = finish,
    .close = close_it,
    .watch = watch,
    .ring = ring,
    .wait = take_events,
    .wake = wake,
};
