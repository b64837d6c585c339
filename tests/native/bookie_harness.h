/*
 * bookie_harness.h: a bookie without sockets, threads and time: a service over a ledger store on the faulty disk, and
 * connections that are two buffers in memory. Nothing happens but what the test does.
 *
 *	bookie b; bookie_open(&b, new_disk(1));
 *	peer *p = bookie_connect(&b);
 *	ask(p, a_read(7, 0)); bookie_run(&b);
 *	CHECK_EQ(take_reply(p, &reply).code, WK_WIRE_NO_LEDGER);
 */
#ifndef BOOKIE_HARNESS_H
#define BOOKIE_HARNESS_H
#include <poll.h>

#include <errno.h>

#include "engine/manual.h"
#include "ledger_store.h"
#include "server/service.h"
#include "sim/faulty.h"

enum { PEERS_MAX = 16, EVENTS_MAX = 256 };

typedef struct bytes_queue {
	uint8_t *bytes;
	size_t size, capacity, taken;
} bytes_queue;

typedef struct bookie bookie;

typedef struct peer {
	bookie *bookie;
	wk_connection_id id;
	uint64_t tag;
	uint32_t version;
	bool open, paused, deaf; /* deaf: it does not read, and a send does not end */
	bool send_pends;
	bool comes_late; /* it was paused a moment ago: a piece may still come */
	uint64_t txn_id;
	bytes_queue out, in; /* towards the bookie; from it */
} peer;

struct bookie {
	wk_net net; /* first: the service's net is the bookie */
	wk_io *io;
	wk_namespace *ns;
	wk_service *service;
	wk_open_options store;
	wk_server_options options;
	peer peers[PEERS_MAX];
	wk_net_event events[EVENTS_MAX];
	uint32_t events_count;
	wk_connection_id last_id;
	uint64_t now_ns;
	int64_t wall_ms;
	bool late_pieces; /* what was on its way when a connection was paused comes nonetheless */
	bool commits;     /* the turns write blocks, which are under way for a while; else the store does, at each step */
};

static inline void queue_put(bytes_queue *queue, const void *bytes, size_t size) {
	if (queue->size + size > queue->capacity) {
		queue->capacity = (queue->size + size) * 2;
		void *room = NULL;
		for (int tries = 0; room == NULL && tries < 10; tries++) /* a test lets memory run out: not for this */
			room = realloc(queue->bytes, queue->capacity);
		CHECK(room != NULL);
		queue->bytes = room;
	}
	memcpy(queue->bytes + queue->size, bytes, size);
	queue->size += size;
}

static inline void queue_drop(bytes_queue *queue, size_t size) {
	if (size == 0)
		return;
	queue->size -= size;
	memmove(queue->bytes, queue->bytes + size, queue->size);
}

/* ---- the net ---- */

static inline bookie *bookie_of(wk_net *net) {
	return (bookie *)(void *)net;
}

static inline peer *peer_of(wk_net *net, wk_connection_id id) {
	for (int i = 0; i < PEERS_MAX; i++)
		if (bookie_of(net)->peers[i].open && bookie_of(net)->peers[i].id == id)
			return &bookie_of(net)->peers[i];
	return NULL;
}

static inline void tell(bookie *b, wk_net_event event) {
	CHECK(b->events_count < EVENTS_MAX);
	b->events[b->events_count++] = event;
}

static inline int net_set_tag(wk_net *net, wk_connection_id id, uint64_t tag) {
	peer *p = peer_of(net, id);
	CHECK(p != NULL);
	p->tag = tag;
	return 0;
}

static inline int net_send(wk_net *net, wk_connection_id id, const struct iovec *parts, uint32_t count) {
	peer *p = peer_of(net, id);
	if (p == NULL)
		return -EBADF;
	CHECK(!p->send_pends && count > 0 && count <= WK_NET_PARTS_MAX);
	for (uint32_t i = 0; i < count; i++)
		queue_put(&p->in, parts[i].iov_base, parts[i].iov_len);
	p->send_pends = true;
	if (!p->deaf)
		tell(bookie_of(net), (wk_net_event){.kind = WK_NET_SENT, .connection = id});
	return 0;
}

static inline int net_pause(wk_net *net, wk_connection_id id) {
	peer *p = peer_of(net, id);
	if (p == NULL)
		return -EBADF;
	p->paused = true;
	p->comes_late = bookie_of(net)->late_pieces;
	return 0;
}

static inline int net_resume(wk_net *net, wk_connection_id id) {
	peer *p = peer_of(net, id);
	if (p == NULL)
		return -EBADF;
	p->paused = p->comes_late = false;
	return 0;
}

static inline int net_close(wk_net *net, wk_connection_id id) {
	peer *p = peer_of(net, id);
	if (p == NULL)
		return -EBADF;
	tell(bookie_of(net), (wk_net_event){.kind = WK_NET_CLOSED, .connection = id, .error = ECANCELED});
	return 0;
}

static inline struct wk_ring *net_ring(wk_net *net) {
	(void)net;
	return NULL;
}

static const struct wk_net_operations harness_net = {
    .name = "harness",
    .ring = net_ring,
    .set_tag = net_set_tag,
    .send = net_send,
    .pause = net_pause,
    .resume = net_resume,
    .close = net_close,
};

/* ---- a bookie ---- */

static inline void bookie_serve(bookie *b) {
	b->ns = open_store_with(b->io, &b->store);
	CHECK_EQ(wk_service_new(b->ns, &b->net, &b->options, &b->service), WK_OK);
	if (b->commits)
		wk_service_commit(b->service);
	wk_service_begin(b->service, b->now_ns, b->wall_ms);
}

static inline void bookie_prepare(bookie *b, wk_io *io) {
	memset(b, 0, sizeof *b);
	b->net.operations = &harness_net;
	b->io = io;
	b->store = store_options();
	wk_server_options_init(&b->options);
	b->options.reader_threads = 0;
	b->options.reads_max = 64;
	b->now_ns = 1000000000;
	b->wall_ms = 1700000000000;
}

static inline void bookie_open(bookie *b, wk_io *io) {
	bookie_prepare(b, io);
	bookie_serve(b);
}

static inline void forget_peers(bookie *b) {
	for (int i = 0; i < PEERS_MAX; i++) {
		free(b->peers[i].in.bytes);
		free(b->peers[i].out.bytes);
	}
	memset(b->peers, 0, sizeof b->peers);
	b->events_count = 0;
}

static inline void bookie_close(bookie *b) {
	wk_service_free(b->service);
	close_store(b->ns);
	forget_peers(b);
	b->io->operations->destroy(b->io);
}

/* Of a journal that failed: it cannot be closed well. */
static inline void bookie_abandon(bookie *b) {
	wk_service_free(b->service);
	wk_abandon(b->ns);
	forget_peers(b);
	b->io->operations->destroy(b->io);
}

/* As SIGKILL (power: as a power cut) would end it; then it starts again. */
static inline void bookie_restart(bookie *b, bool power, uint64_t seed) {
	if (power)
		wk_faulty_crash(wk_faulty_of(b->io), seed);
	else
		wk_faulty_kill(wk_faulty_of(b->io));
	wk_service_free(b->service); /* what was under way fails */
	wk_abandon(b->ns);
	forget_peers(b);
	bookie_serve(b);
}

static inline peer *bookie_connect(bookie *b) {
	int i = 0;
	while (b->peers[i].open)
		CHECK(++i < PEERS_MAX);
	peer *p = &b->peers[i];
	free(p->in.bytes);
	free(p->out.bytes);
	*p = (peer){.bookie = b, .id = ++b->last_id, .open = true, .version = WK_WIRE_V3};
	tell(b, (wk_net_event){.kind = WK_NET_ACCEPTED, .connection = p->id});
	return p;
}

static inline void hang_up(peer *p) {
	tell(p->bookie, (wk_net_event){.kind = WK_NET_CLOSED, .connection = p->id});
}

static inline void hear(peer *p) {
	p->deaf = false;
	if (p->send_pends)
		tell(p->bookie, (wk_net_event){.kind = WK_NET_SENT, .connection = p->id});
}

static inline void deliver_event(bookie *b, wk_net_event event) {
	peer *p = peer_of(&b->net, event.connection);
	if (p == NULL)
		return; /* closed already */
	event.tag = p->tag;
	if (event.kind == WK_NET_SENT)
		p->send_pends = false;
	if (event.kind == WK_NET_CLOSED)
		p->open = false;
	wk_service_event(b->service, &event);
}

static inline bool store_tells(const bookie *b) {
	int store, pool;
	wk_service_descriptors(b->service, &store, &pool);
	struct pollfd told = {.fd = store, .events = POLLIN};
	return poll(&told, 1, 0) == 1;
}

static inline bool may_arrive(const peer *p) {
	return p->open && (!p->paused || p->comes_late) && p->out.size > 0;
}

/* Whether the loop would take a turn now, or sleep. */
static inline bool bookie_is_due(const bookie *b) {
	bool due = b->events_count > 0 || b->service->load.running > 0 || wk_service_deadline(b->service) <= b->now_ns;
	for (int i = 0; i < PEERS_MAX && !due; i++)
		due = may_arrive(&b->peers[i]);
	return due || store_tells(b);
}

/* A round: what was sent arrives, at most `most` bytes of each connection; then the service's turn. */
static inline void bookie_turn(bookie *b, size_t most) {
	b->now_ns += 10000;
	wk_service_begin(b->service, b->now_ns, b->wall_ms);
	uint32_t count = b->events_count;
	wk_net_event events[EVENTS_MAX];
	memcpy(events, b->events, count * sizeof *events);
	b->events_count = 0;
	for (uint32_t i = 0; i < count; i++)
		deliver_event(b, events[i]);
	size_t taken[PEERS_MAX] = {0};
	for (int i = 0; i < PEERS_MAX; i++) {
		peer *p = &b->peers[i];
		if (!may_arrive(p))
			continue;
		p->comes_late = false;
		taken[i] = p->out.size < most ? p->out.size : most;
		deliver_event(
		    b, (wk_net_event){.kind = WK_NET_RECEIVED, .connection = p->id, .bytes = p->out.bytes, .size = taken[i]});
	}
	if (store_tells(b))
		wk_service_store_event(b->service);
	wk_service_turn(b->service);
	for (int i = 0; i < PEERS_MAX; i++)
		if (taken[i] > 0)
			queue_drop(&b->peers[i].out, taken[i]);
}

/* Until nothing more happens: all that was asked is answered, or waits. */
static inline void bookie_run(bookie *b) {
	for (int quiet = 0; quiet < 3;) {
		uint64_t durable = wk_namespace_durable(b->ns);
		size_t before = 0, after = 0;
		for (int i = 0; i < PEERS_MAX; i++)
			before += b->peers[i].in.size + b->peers[i].out.size;
		if (bookie_is_due(b))
			bookie_turn(b, SIZE_MAX);
		bool idle = false;
		wk_status status = wk_namespace_step(b->ns, &idle, NULL);
		(void)status; /* a failing disk is the service's to notice */
		for (int i = 0; i < PEERS_MAX; i++)
			after += b->peers[i].in.size + b->peers[i].out.size;
		bool moved = before != after || bookie_is_due(b) || wk_namespace_durable(b->ns) != durable;
		quiet = moved ? 0 : quiet + 1;
	}
}

static inline void bookie_wait(bookie *b, uint64_t ms) {
	b->now_ns += ms * 1000000;
	b->wall_ms += (int64_t)ms;
	wk_faulty_advance(wk_faulty_of(b->io), ms * 1000000);
}

/* ---- requests ---- */

static const uint8_t MASTER_KEY[20] = "a key of 20 bytes...";
static const uint8_t ANOTHER_KEY[20] = "another of 20 bytes.";

static inline void ask(peer *p, wk_wire_request request) {
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	request.version = p->version;
	request.header_version = p->version;
	if (request.txn_id == 0)
		request.txn_id = ++p->txn_id;
	queue_put(&p->out, head, wk_wire_request_encode(&request, head));
	if (request.body_size > 0)
		queue_put(&p->out, request.body, (size_t)request.body_size);
}

/* An entry with a header, a CRC32C digest and a payload that follows from ids and version. Valid until the next one. */
static inline wk_wire_request an_entry(int64_t ledger_id, int64_t entry_id, int64_t lac, uint64_t version,
                                       size_t payload, uint32_t flags) {
	static uint8_t bytes[64 * 1024];
	CHECK(payload >= 8 && payload + 36 <= sizeof bytes);
	wk_store_be64_signed(bytes, ledger_id);
	wk_store_be64_signed(bytes + 8, entry_id);
	wk_store_be64_signed(bytes + 16, lac);
	wk_store_be64(bytes + 24, payload);
	memset(bytes + 36, (int)(version * 7 + (uint64_t)entry_id), payload);
	wk_store_be64(bytes + 36, version);
	wk_wire_digest_put(bytes, 36 + payload, WK_DIGEST_CRC32C);
	return (wk_wire_request){.operation = WK_WIRE_ADD,
	                         .flags = flags,
	                         .ledger_id = ledger_id,
	                         .entry_id = entry_id,
	                         .key = MASTER_KEY,
	                         .key_size = sizeof MASTER_KEY,
	                         .body = bytes,
	                         .body_size = 36 + payload};
}

static inline wk_wire_request a_read(int64_t ledger_id, int64_t entry_id) {
	return (wk_wire_request){.operation = WK_WIRE_READ, .ledger_id = ledger_id, .entry_id = entry_id};
}

static inline wk_wire_request a_fence(int64_t ledger_id, int64_t entry_id) {
	return (wk_wire_request){.operation = WK_WIRE_READ,
	                         .flags = WK_WIRE_FENCE,
	                         .ledger_id = ledger_id,
	                         .entry_id = entry_id,
	                         .key = MASTER_KEY,
	                         .key_size = sizeof MASTER_KEY};
}

static inline wk_wire_request a_poll(int64_t ledger_id, int64_t previous_lac, int64_t timeout_ms) {
	return (wk_wire_request){.operation = WK_WIRE_READ,
	                         .flags = WK_WIRE_LONG_POLL | WK_WIRE_PIGGYBACK,
	                         .ledger_id = ledger_id,
	                         .entry_id = -1,
	                         .previous_lac = previous_lac,
	                         .timeout_ms = timeout_ms,
	                         .has_timeout = true};
}

static inline wk_wire_request of_ledger(uint32_t operation, int64_t ledger_id) {
	return (wk_wire_request){.operation = operation, .ledger_id = ledger_id, .entry_id = -1};
}

static inline wk_wire_request a_lac(int64_t ledger_id, int64_t lac) {
	static uint8_t packet[20];
	wk_store_be64_signed(packet, ledger_id);
	wk_store_be64_signed(packet + 8, lac);
	return (wk_wire_request){.operation = WK_WIRE_WRITE_LAC,
	                         .ledger_id = ledger_id,
	                         .lac = lac,
	                         .key = MASTER_KEY,
	                         .key_size = sizeof MASTER_KEY,
	                         .body = packet,
	                         .body_size = sizeof packet};
}

/* ---- replies ---- */

static inline bool has_reply(const peer *p) {
	uint64_t size = 0;
	return wk_frame_size(p->in.bytes, p->in.size, UINT32_MAX, &size) == WK_OK && size > 0 && size <= p->in.size;
}

/* The next one; what it points to is good until the next call. */
static inline wk_wire_reply take_reply(peer *p) {
	queue_drop(&p->in, p->in.taken);
	p->in.taken = 0;
	wk_wire_reply reply;
	uint64_t size = 0;
	CHECK(has_reply(p));
	CHECK_EQ(wk_frame_size(p->in.bytes, p->in.size, UINT32_MAX, &size), WK_OK);
	CHECK_EQ(wk_wire_reply_decode(p->in.bytes + 4, (size_t)size - 4, p->version, &reply), WK_OK);
	p->in.taken = (size_t)size;
	return reply;
}

static inline bool more_replies(peer *p) {
	queue_drop(&p->in, p->in.taken);
	p->in.taken = 0;
	return has_reply(p);
}

/* Asked, and answered at once. */
static inline wk_wire_reply answer_to(peer *p, wk_wire_request request) {
	ask(p, request);
	bookie_run(p->bookie);
	return take_reply(p);
}
#endif
