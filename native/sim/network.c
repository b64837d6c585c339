/* network.c: see network.h: what is on its way, the time, and what goes wrong. */
#include "sim/network_state.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYN_RETRY_NS 1000000000ull
#define SYN_TIMEOUT_NS 127000000000ull /* Linux gives up then */

uint64_t wk_network_chance(wk_network *network, uint64_t n) {
	return wk_faulty_random(&network->random) % n;
}

uint64_t wk_network_delay(wk_network *network) {
	uint64_t span_ns = network->delay_most_ns - network->delay_least_ns + 1;
	return network->delay_least_ns + wk_network_chance(network, span_ns);
}

static wk_socket *other_end(wk_tcp *tcp, const wk_socket *socket) {
	return &tcp->sockets[socket == &tcp->sockets[0]];
}

/* ---- on the way ---- */

static void put_on_way(wk_network *network, wk_socket *socket, wk_piece *piece) {
	uint64_t arrives_ns = network->now_ns + wk_network_delay(network);
	if (arrives_ns < socket->last_arrival_ns)
		arrives_ns = socket->last_arrival_ns;
	socket->last_arrival_ns = piece->arrives_ns = arrives_ns;
	*socket->end = piece;
	socket->end = &piece->next;
}

static void drop_first(wk_socket *socket) {
	wk_piece *piece = socket->first;
	socket->first = piece->next;
	if (socket->first == NULL)
		socket->end = &socket->first;
	socket->on_way -= piece->size;
	free(piece);
}

static void drop_all(wk_socket *socket) {
	while (socket->first != NULL)
		drop_first(socket);
}

void wk_socket_say(wk_network *network, wk_socket *socket, wk_piece_kind kind) {
	if (socket->finished && kind == WK_PIECE_END)
		return;
	socket->finished = true;
	wk_piece *piece = wk_faulty_allocate(1, sizeof *piece);
	piece->kind = kind;
	put_on_way(network, socket, piece);
}

/* Some more of a send, as the other end has room. */
static void take_some(wk_network *network, wk_socket *socket, const wk_socket *other) {
	while (socket->sends && !socket->sent && socket->takes_at_ns <= network->now_ns && !socket->gone) {
		while (socket->part < socket->parts_count && socket->part_taken == socket->parts[socket->part].iov_len) {
			socket->part++;
			socket->part_taken = 0;
		}
		if (socket->part == socket->parts_count) {
			socket->sent = true;
			return;
		}
		size_t used = socket->on_way + other->received_size;
		if (used >= network->window)
			return;
		size_t size = socket->parts[socket->part].iov_len - socket->part_taken;
		size = size < network->window - used ? size : network->window - used;
		bool cut = wk_network_chance(network, 6) == 0;
		if (cut)
			size = 1 + (size_t)wk_network_chance(network, size);
		wk_piece *piece = wk_faulty_allocate(1, sizeof *piece + size);
		piece->size = size;
		memcpy(piece->bytes, (const uint8_t *)socket->parts[socket->part].iov_base + socket->part_taken, size);
		socket->part_taken += size;
		socket->on_way += size;
		put_on_way(network, socket, piece);
		if (cut)
			socket->takes_at_ns = network->now_ns + wk_network_delay(network);
	}
}

static void receive(wk_socket *socket, const wk_piece *piece) {
	if (socket->received_size + piece->size > socket->received_capacity) {
		size_t capacity = (socket->received_size + piece->size) * 2;
		uint8_t *larger = wk_faulty_allocate(1, capacity);
		if (socket->received_size > 0)
			memcpy(larger, socket->received, socket->received_size);
		free(socket->received);
		socket->received = larger;
		socket->received_capacity = capacity;
	}
	memcpy(socket->received + socket->received_size, piece->bytes, piece->size);
	socket->received_size += piece->size;
}

/* ---- ends ---- */

void wk_socket_end(wk_socket *socket, int error, uint64_t at_ns) {
	socket->closes = true;
	socket->error = error;
	socket->closes_at_ns = at_ns;
}

void wk_socket_leave(wk_network *network, wk_socket *socket) {
	bool was_there = socket->opens && !socket->gone;
	socket->gone = true;
	socket->endpoint = NULL;
	socket->sends = socket->sent = false;
	if (was_there && !socket->without_a_word)
		wk_socket_say(network, socket, socket->received_size > 0 ? WK_PIECE_RESET : WK_PIECE_END);
	socket->received_size = 0;
}

static void reset_arrives(wk_network *network, wk_socket *socket) {
	if (socket->gone)
		return;
	drop_all(socket);
	socket->received_size = 0;
	if (!socket->closes)
		wk_socket_end(socket, -ECONNRESET, network->now_ns);
	socket->without_a_word = true; /* the other end has gone */
}

/* ---- who hears whom ---- */

static bool is_open(const wk_network *network, uint32_t from, uint32_t to) {
	return !network->cut[from][to];
}

static bool both_ways(const wk_network *network, const wk_socket *one, const wk_socket *other) {
	return is_open(network, one->host, other->host) && is_open(network, other->host, one->host);
}

/* What is first on its way from `socket` gets there now, or at its time. */
static bool may_arrive(const wk_network *network, const wk_socket *socket, const wk_socket *other) {
	return socket->first != NULL && is_open(network, socket->host, other->host) && !network->down[other->host];
}

static void arrive(wk_network *network, wk_tcp *tcp, wk_socket *socket, wk_socket *other) {
	while (may_arrive(network, socket, other) && socket->first->arrives_ns <= network->now_ns) {
		const wk_piece *piece = socket->first;
		bool nobody = other->gone || (tcp->broken && piece->kind == WK_PIECE_BYTES);
		bool resets = piece->kind == WK_PIECE_RESET || tcp->broken;
		bool answers = nobody && piece->kind == WK_PIECE_BYTES && (tcp->broken || other->first == NULL) &&
		               is_open(network, other->host, socket->host);
		if (!nobody && resets)
			reset_arrives(network, other);
		else if (!nobody && piece->kind == WK_PIECE_BYTES)
			receive(other, piece);
		else if (!nobody)
			other->ended = true;
		drop_first(socket);
		if (answers)
			reset_arrives(network, socket);
	}
}

static void look_for_silence(wk_network *network, wk_socket *socket, const wk_socket *other) {
	bool heard = both_ways(network, socket, other) && (!other->gone || other->first != NULL);
	if (!socket->open || socket->gone || socket->closes || heard)
		socket->unheard_since_ns = UINT64_MAX;
	else if (socket->unheard_since_ns == UINT64_MAX)
		socket->unheard_since_ns = network->now_ns;
	else if (network->now_ns - socket->unheard_since_ns >= network->peer_timeout_ns)
		wk_socket_end(socket, -ETIMEDOUT, network->now_ns);
}

/* ---- connecting ---- */

static wk_endpoint *listener(const wk_network *network, uint32_t host, uint16_t port) {
	for (wk_endpoint *endpoint = network->endpoints; endpoint != NULL; endpoint = endpoint->next)
		for (uint32_t i = 0; i < endpoint->ports_count; i++)
			if (!endpoint->dead && endpoint->host == host && endpoint->ports[i] == port)
				return endpoint;
	return NULL;
}

static void connect_on(wk_network *network, wk_tcp *tcp) {
	wk_socket *caller = &tcp->sockets[0], *called = &tcp->sockets[1];
	if (caller->gone || caller->closes) {
		tcp->connects = false;
		called->gone = true;
		return;
	}
	if (network->down[called->host] || !both_ways(network, caller, called)) {
		tcp->connect_at_ns = network->now_ns + SYN_RETRY_NS;
		if (network->now_ns >= tcp->connect_until_ns)
			wk_socket_end(caller, -ETIMEDOUT, network->now_ns);
		return;
	}
	tcp->connects = false;
	wk_endpoint *endpoint = listener(network, called->host, tcp->port);
	if (endpoint == NULL || network->refuses[called->host]) {
		called->gone = true;
		wk_socket_end(caller, -ECONNREFUSED, network->now_ns + wk_network_delay(network));
		return;
	}
	called->endpoint = endpoint;
	called->id = ++endpoint->last_id;
	called->opens = caller->opens = true;
	called->opens_at_ns = network->now_ns;
	caller->opens_at_ns = network->now_ns + wk_network_delay(network);
}

/* ---- time ---- */

static void free_tcp(wk_tcp *tcp) {
	for (int i = 0; i < 2; i++) {
		drop_all(&tcp->sockets[i]);
		free(tcp->sockets[i].received);
	}
	free(tcp);
}

static bool is_over(const wk_tcp *tcp) {
	return tcp->sockets[0].gone && tcp->sockets[1].gone;
}

static void go_on(wk_network *network, wk_tcp *tcp) {
	if (tcp->connects && tcp->connect_at_ns <= network->now_ns)
		connect_on(network, tcp);
	for (int i = 0; i < 2; i++) {
		wk_socket *socket = &tcp->sockets[i], *other = other_end(tcp, socket);
		take_some(network, socket, other);
		arrive(network, tcp, socket, other);
		look_for_silence(network, socket, other);
	}
}

void wk_network_advance(wk_network *network, uint64_t now_ns) {
	assert(now_ns >= network->now_ns);
	network->now_ns = now_ns;
	size_t kept = 0;
	for (size_t i = 0; i < network->tcps_count; i++) {
		wk_tcp *tcp = network->tcps[i];
		go_on(network, tcp);
		if (is_over(tcp))
			free_tcp(tcp);
		else
			network->tcps[kept++] = tcp;
	}
	network->tcps_count = kept;
}

static uint64_t least(uint64_t one_ns, uint64_t other_ns) {
	return one_ns < other_ns ? one_ns : other_ns;
}

/* What is due already waits for its owner. */
static uint64_t if_later(const wk_network *network, uint64_t at_ns) {
	return at_ns > network->now_ns ? at_ns : UINT64_MAX;
}

static uint64_t next_of(const wk_network *network, const wk_tcp *tcp) {
	uint64_t next_ns = tcp->connects ? tcp->connect_at_ns : UINT64_MAX;
	for (int i = 0; i < 2; i++) {
		const wk_socket *socket = &tcp->sockets[i], *other = &tcp->sockets[!i];
		if (may_arrive(network, socket, other))
			next_ns = least(next_ns, socket->first->arrives_ns);
		if (socket->gone)
			continue;
		if (socket->sends && !socket->sent && socket->on_way + other->received_size < network->window)
			next_ns = least(next_ns, socket->takes_at_ns);
		if (socket->opens && !socket->open)
			next_ns = least(next_ns, if_later(network, socket->opens_at_ns));
		if (socket->closes)
			next_ns = least(next_ns, if_later(network, socket->closes_at_ns));
		if (socket->unheard_since_ns != UINT64_MAX)
			next_ns = least(next_ns, socket->unheard_since_ns + network->peer_timeout_ns);
		else if (socket->open && !socket->closes &&
		         !(both_ways(network, socket, other) && (!other->gone || other->first != NULL)))
			next_ns = least(next_ns, network->now_ns); /* silence begins */
	}
	return next_ns;
}

uint64_t wk_network_next(const wk_network *network) {
	uint64_t next_ns = UINT64_MAX;
	for (size_t i = 0; i < network->tcps_count; i++)
		next_ns = least(next_ns, next_of(network, network->tcps[i]));
	return next_ns;
}

uint64_t wk_network_now(const wk_network *network) {
	return network->now_ns;
}

/* ---- what goes wrong ---- */

void wk_network_set_delay(wk_network *network, uint64_t least_ns, uint64_t most_ns) {
	assert(least_ns <= most_ns);
	network->delay_least_ns = least_ns;
	network->delay_most_ns = most_ns;
}

void wk_network_set_window(wk_network *network, size_t bytes) {
	assert(bytes > 0);
	network->window = bytes;
}

void wk_network_set_peer_timeout(wk_network *network, uint64_t timeout_ns) {
	network->peer_timeout_ns = timeout_ns;
}

void wk_network_cut(wk_network *network, uint32_t from, uint32_t to) {
	network->cut[from][to] = true;
}

void wk_network_mend(wk_network *network, uint32_t from, uint32_t to) {
	network->cut[from][to] = false;
}

void wk_network_refuse(wk_network *network, uint32_t host) {
	network->refuses[host] = true;
}

void wk_network_heal(wk_network *network) {
	memset(network->cut, 0, sizeof network->cut);
	memset(network->refuses, 0, sizeof network->refuses);
}

static bool is_between(const wk_tcp *tcp, uint32_t one, uint32_t other) {
	uint32_t caller = tcp->sockets[0].host, called = tcp->sockets[1].host;
	return (caller == one && called == other) || (caller == other && called == one);
}

void wk_network_reset(wk_network *network, uint32_t one, uint32_t other) {
	for (size_t i = 0; i < network->tcps_count; i++) {
		wk_tcp *tcp = network->tcps[i];
		if (!is_between(tcp, one, other) || tcp->connects || wk_network_chance(network, 4) == 0)
			continue;
		uint64_t who = wk_network_chance(network, 4); /* 0 or 1: that end alone learns of it */
		tcp->broken = true;
		for (uint64_t side = 0; side < 2; side++) {
			wk_socket *socket = &tcp->sockets[side];
			drop_all(socket);
			if (socket->gone || socket->closes || (who < 2 && side != who))
				continue;
			wk_socket_end(socket, -ECONNRESET, network->now_ns + wk_network_delay(network));
			socket->received_size = 0;
			socket->without_a_word = true;
		}
	}
}

void wk_network_power_cut(wk_net *net) {
	wk_endpoint *endpoint = (wk_endpoint *)(void *)net;
	wk_network *network = endpoint->network;
	endpoint->dead = true;
	network->down[endpoint->host] = true;
	for (size_t i = 0; i < network->tcps_count; i++)
		for (int side = 0; side < 2; side++) {
			wk_socket *socket = &network->tcps[i]->sockets[side];
			if (socket->endpoint != endpoint)
				continue;
			if (wk_network_chance(network, 2) == 0)
				drop_all(socket);
			socket->without_a_word = true;
			wk_socket_leave(network, socket);
		}
}

/* ---- life ---- */

void wk_network_address(uint32_t host, char text[64]) {
	snprintf(text, 64, "10.0.0.%u", host);
}

wk_network *wk_network_new(uint64_t seed) {
	wk_network *network = wk_faulty_allocate(1, sizeof *network);
	network->random = seed;
	network->delay_least_ns = 20000;
	network->delay_most_ns = 200000;
	network->window = 256 * 1024;
	network->peer_timeout_ns = 120000000000;
	return network;
}

void wk_network_free(wk_network *network) {
	assert(network->endpoints == NULL);
	for (size_t i = 0; i < network->tcps_count; i++)
		free_tcp(network->tcps[i]);
	free(network->tcps);
	free(network);
}

wk_net *wk_network_endpoint(wk_network *network, uint32_t host) {
	assert(host < WK_NETWORK_HOSTS_MAX);
	wk_endpoint *endpoint = wk_faulty_allocate(1, sizeof *endpoint);
	endpoint->net.operations = &wk_network_operations;
	endpoint->network = network;
	endpoint->host = host;
	endpoint->next = network->endpoints;
	endpoint->link = &network->endpoints;
	if (endpoint->next != NULL)
		endpoint->next->link = &endpoint->next;
	network->endpoints = endpoint;
	network->down[host] = false;
	return &endpoint->net;
}

wk_tcp *wk_tcp_new(wk_endpoint *endpoint, uint32_t host, uint16_t port, uint64_t tag) {
	wk_network *network = endpoint->network;
	wk_tcp *tcp = wk_faulty_allocate(1, sizeof *tcp);
	network->tcps = wk_faulty_grow(network->tcps, network->tcps_count, &network->tcps_capacity, sizeof(wk_tcp *));
	network->tcps[network->tcps_count++] = tcp;
	tcp->connects = true;
	tcp->connect_at_ns = network->now_ns + wk_network_delay(network);
	tcp->connect_until_ns = network->now_ns + SYN_TIMEOUT_NS;
	tcp->port = port;
	for (int i = 0; i < 2; i++) {
		tcp->sockets[i].end = &tcp->sockets[i].first;
		tcp->sockets[i].unheard_since_ns = UINT64_MAX;
	}
	tcp->sockets[0].endpoint = endpoint;
	tcp->sockets[0].host = endpoint->host;
	tcp->sockets[0].id = ++endpoint->last_id;
	tcp->sockets[0].tag = tag;
	tcp->sockets[1].host = host;
	return tcp;
}
