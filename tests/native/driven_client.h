/*
 * driven_client.h: a client on a simulated network whose turns a test takes, and bookies that are nothing but their ends of
 * connections.
 *
 *	driven d; driven_start(&d, 3);
 *	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 2);
 *	... driven_run(&d, 10 * MS); CHECK(driven_asks(&d, 0, &request)); driven_answer(&d, 0, &request, WK_WIRE_OK);
 */
#ifndef DRIVEN_CLIENT_H
#define DRIVEN_CLIENT_H
#include "check.h"
#include "client/driver.h"
#include "core/wire.h"
#include "sim/network.h"
#include "walkeeper/client.h"

enum { DRIVEN_BOOKIES_MAX = 5, DRIVEN_EVENTS_MAX = 64, DRIVEN_PORT = 3181, DRIVEN_HOST = 20, LEDGER = 7 };

#define US 1000ull
#define MS 1000000ull
#define S 1000000000ull

/* Somebody who has a bookie's place: it hears bytes, and says what the test lets it say. */
typedef struct played_bookie {
	wk_net *net;
	wk_connection_id connection; /* the last that was accepted; 0: it is closed */
	uint32_t accepted;
	uint8_t heard[1 << 17], said[WK_WIRE_HEAD_SIZE_MAX + 1024];
	size_t heard_size;
} played_bookie;

typedef struct driven {
	wk_network *network;
	wk_net *net;
	wk_client *client;
	uint64_t deadline_ns;
	played_bookie bookies[DRIVEN_BOOKIES_MAX];
	uint32_t bookies_count;
} driven;

static inline uint64_t driven_clock(void *context) {
	return wk_network_now(context);
}

static inline void play_bookie(driven *d, uint32_t host) {
	wk_net_address bound;
	played_bookie *bookie = &d->bookies[host];
	memset(bookie, 0, sizeof *bookie);
	bookie->net = wk_network_endpoint(d->network, host);
	CHECK_EQ(bookie->net->operations->listen(bookie->net, "", DRIVEN_PORT, &bound), 0);
}

static inline void driven_start(driven *d, uint32_t bookies) {
	memset(d, 0, sizeof *d);
	d->network = wk_network_new(1);
	d->bookies_count = bookies;
	for (uint32_t i = 0; i < bookies; i++)
		play_bookie(d, i);
	wk_client_options options;
	wk_client_options_init(&options);
	options.connect_timeout_ns = options.add_timeout_ns = options.read_timeout_ns = S;
	d->net = wk_network_endpoint(d->network, DRIVEN_HOST);
	CHECK_EQ(wk_client_new(d->net, &options, driven_clock, d->network, &d->client), WK_OK);
	d->deadline_ns = UINT64_MAX;
	for (uint32_t i = 0; i < bookies; i++) {
		char id[32], host[64];
		uint32_t bookie;
		snprintf(id, sizeof id, "bookie-%u", i);
		wk_network_address(i, host);
		CHECK_EQ(wk_client_bookie(d->client, id, host, DRIVEN_PORT, &bookie, NULL), WK_OK);
	}
}

static inline void driven_end(driven *d) {
	wk_client_release(d->client);
	for (uint32_t i = 0; i < d->bookies_count; i++)
		d->bookies[i].net->operations->destroy(d->bookies[i].net);
	wk_network_free(d->network);
}

/* A ledger on the first `ensemble_size` bookies, each of which has every entry. */
static inline wk_handle *driven_open_on(driven *d, uint32_t ensemble_size, uint32_t mode, uint32_t ack_quorum) {
	static const uint32_t bookies[DRIVEN_BOOKIES_MAX] = {0, 1, 2, 3, 4};
	wk_ledger_segment segment = {.bookies = bookies};
	wk_ledger_spec spec = {.ledger_id = LEDGER,
	                       .ensemble_size = ensemble_size,
	                       .write_quorum = ensemble_size,
	                       .ack_quorum = ack_quorum,
	                       .digest_type = WK_DIGEST_TYPE_CRC32C,
	                       .segments = &segment,
	                       .segments_count = 1,
	                       .last_entry = -1};
	wk_handle *handle;
	CHECK_EQ(wk_handle_open(d->client, &spec, mode, &handle, NULL), WK_OK);
	return handle;
}

static inline wk_handle *driven_open(driven *d, uint32_t mode, uint32_t ack_quorum) {
	return driven_open_on(d, d->bookies_count, mode, ack_quorum);
}

static inline void driven_submit(wk_handle *handle, const void *data, size_t size) {
	int64_t entry_id;
	CHECK_EQ(wk_handle_submit(handle, data, size, 0, &entry_id, NULL), WK_OK);
}

static inline void bookie_turn(played_bookie *bookie) {
	wk_net_event events[DRIVEN_EVENTS_MAX];
	int count = bookie->net->operations->wait(bookie->net, events, DRIVEN_EVENTS_MAX, 0);
	for (int i = 0; i < count; i++)
		if (events[i].kind == WK_NET_ACCEPTED) {
			bookie->connection = events[i].connection;
			bookie->accepted++;
			bookie->heard_size = 0;
		} else if (events[i].connection != bookie->connection) {
			continue;
		} else if (events[i].kind == WK_NET_CLOSED) {
			bookie->connection = 0;
		} else if (events[i].kind == WK_NET_RECEIVED) {
			CHECK(bookie->heard_size + events[i].size <= sizeof bookie->heard);
			memcpy(bookie->heard + bookie->heard_size, events[i].bytes, events[i].size);
			bookie->heard_size += events[i].size;
		}
}

static inline void driven_turn(driven *d) {
	wk_net_event events[DRIVEN_EVENTS_MAX];
	int count = d->net->operations->wait(d->net, events, DRIVEN_EVENTS_MAX, 0);
	d->deadline_ns = wk_client_turn(d->client, events, count);
}

/* So much time passes; whoever is told something takes a turn. */
static inline void driven_run(driven *d, uint64_t ns) {
	uint64_t until_ns = wk_network_now(d->network) + ns;
	driven_turn(d);
	for (;;) {
		for (uint32_t i = 0; i < d->bookies_count; i++)
			while (wk_network_tells(d->bookies[i].net))
				bookie_turn(&d->bookies[i]);
		while (wk_network_tells(d->net) || d->deadline_ns <= wk_network_now(d->network))
			driven_turn(d);
		uint64_t next_ns = wk_network_next(d->network);
		next_ns = next_ns < d->deadline_ns ? next_ns : d->deadline_ns;
		if (next_ns > until_ns)
			break;
		wk_network_advance(d->network, next_ns > wk_network_now(d->network) ? next_ns : wk_network_now(d->network));
	}
	wk_network_advance(d->network, until_ns);
}

/* The next whole request that the bookie has heard. */
static inline bool driven_asks(driven *d, uint32_t at, wk_wire_request *request) {
	played_bookie *bookie = &d->bookies[at];
	uint64_t size = 0;
	if (wk_frame_size(bookie->heard, bookie->heard_size, UINT32_MAX, &size) != WK_OK || size == 0 ||
	    size > bookie->heard_size)
		return false;
	uint32_t version = WK_WIRE_V3;
	CHECK_EQ(wk_wire_request_decode(bookie->heard + 4, (size_t)size - 4, &version, request), WK_OK);
	bookie->heard_size -= (size_t)size;
	memmove(bookie->heard, bookie->heard + size, bookie->heard_size);
	return true;
}

static inline void driven_reply(driven *d, uint32_t at, wk_wire_reply *reply, const void *body, size_t body_size) {
	played_bookie *bookie = &d->bookies[at];
	reply->has_body = body_size > 0;
	reply->body_size = body_size;
	size_t size = wk_wire_reply_encode(reply, bookie->said);
	CHECK(size + body_size <= sizeof bookie->said);
	if (body_size > 0)
		memcpy(bookie->said + size, body, body_size);
	struct iovec part = {.iov_base = bookie->said, .iov_len = size + body_size};
	CHECK_EQ(bookie->net->operations->send(bookie->net, bookie->connection, &part, 1), 0);
}

static inline void driven_answer_with(driven *d, uint32_t at, const wk_wire_request *request, uint32_t code,
                                      const void *body, size_t body_size) {
	wk_wire_reply reply;
	wk_wire_reply_begin(request, code, &reply);
	driven_reply(d, at, &reply, body, body_size);
}

/* What a long poll is answered; body_size 0: without an entry. */
static inline void driven_answer_poll(driven *d, uint32_t at, const wk_wire_request *request, int64_t lac,
                                      const void *body, size_t body_size) {
	wk_wire_reply reply;
	wk_wire_reply_begin(request, WK_WIRE_OK, &reply);
	reply.entry_id = body_size > 0 ? request->previous_lac + 1 : -1;
	reply.has_max_lac = true;
	reply.max_lac = lac;
	driven_reply(d, at, &reply, body, body_size);
}

static inline void driven_answer(driven *d, uint32_t at, const wk_wire_request *request, uint32_t code) {
	driven_answer_with(d, at, request, code, NULL, 0);
}
#endif
