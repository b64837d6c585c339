/*
 * bookie_load: adds to a bookie, over protocol v2 or v3, and how long each took. One cell a run.
 *
 *   --host 127.0.0.1 --port P --version 2 --connections 1 --ledgers 1 --first-ledger 1 --size 1024
 *   --window 64      closed loop: so many adds under way, over all connections
 *   --rate 0         open loop, where not 0: so many adds a second, each due at its time; the latency counts from then
 *   --warmup 1 --seconds 5
 *
 * A ledger belongs to one connection. What became due in one turn goes to each connection in one send.
 */
#include "bench.h"
#include "walkeeper/wire.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { UNDER_WAY_MAX = 1 << 20, NONE = -1, DIGEST_SIZE = 4 };

typedef struct add {
	uint64_t began_ns;
	int64_t entry_id;
	int32_t next; /* of its ledger, or free */
} add;

typedef struct ledger {
	int64_t next_entry, acknowledged, length;
	int32_t first, last; /* adds under way, in their order, which is also that of the answers */
} ledger;

typedef struct connection {
	int fd;
	bool wants_out;
	uint8_t *in, *out;
	size_t in_size, in_room, out_size, out_done, out_room;
	uint64_t under_way;
	uint64_t next_ledger; /* of its own, counted */
} connection;

static uint64_t version, connections_count, ledgers_count, first_ledger, size, window, rate;
static connection *connections;
static ledger *ledgers;
static add *adds;
static int32_t free_add;
static int poller;
static uint64_t measure_from, measure_to, measured, under_way, refused_turns;
static uint8_t *payload;
static bench_samples samples;

static void begin_add(connection *to, uint64_t connection_index, uint64_t began_ns) {
	static const uint8_t key[WK_MASTER_KEY_SIZE];
	uint64_t own = (ledgers_count - connection_index + connections_count - 1) / connections_count;
	uint64_t index = connection_index + to->next_ledger++ % own * connections_count;
	ledger *ledger_of = &ledgers[index];
	int32_t at = free_add;
	free_add = adds[at].next;
	adds[at] = (add){.began_ns = began_ns, .entry_id = ledger_of->next_entry++, .next = NONE};
	if (ledger_of->first == NONE)
		ledger_of->first = at;
	else
		adds[ledger_of->last].next = at;
	ledger_of->last = at;
	ledger_of->length += (int64_t)size;
	size_t entry_size = WK_WIRE_ENTRY_HEADER_SIZE + DIGEST_SIZE + size;
	size_t needed = to->out_size + WK_WIRE_HEAD_SIZE_MAX + entry_size;
	if (needed > to->out_room) {
		to->out_room = needed * 2;
		if ((to->out = realloc(to->out, to->out_room)) == NULL)
			bench_die("no memory");
	}
	wk_wire_request request = {
	    .version = (uint32_t)version,
	    .header_version = (uint32_t)version,
	    .operation = WK_WIRE_ADD,
	    .txn_id = (uint64_t)at,
	    .ledger_id = (int64_t)(first_ledger + index),
	    .entry_id = adds[at].entry_id,
	    .key = key,
	    .key_size = sizeof key,
	    .body_size = entry_size,
	};
	to->out_size += wk_wire_request_encode(&request, to->out + to->out_size);
	uint8_t *entry = to->out + to->out_size;
	const int64_t header[4] = {request.ledger_id, request.entry_id, ledger_of->acknowledged, ledger_of->length};
	for (int i = 0; i < 4; i++)
		for (int byte = 0; byte < 8; byte++)
			entry[8 * i + byte] = (uint8_t)((uint64_t)header[i] >> (56 - 8 * byte));
	memcpy(entry + WK_WIRE_ENTRY_HEADER_SIZE + DIGEST_SIZE, payload, size);
	wk_wire_digest_put(entry, entry_size, WK_DIGEST_CRC32C);
	to->out_size += entry_size;
	to->under_way++;
	under_way++;
}

static void end_add(connection *from, const wk_wire_reply *reply, uint64_t now) {
	uint64_t index = (uint64_t)reply->ledger_id - first_ledger;
	if (reply->operation != WK_WIRE_ADD || reply->code != WK_WIRE_OK || index >= ledgers_count)
		bench_die("an add to ledger %" PRId64 " was answered with %u", reply->ledger_id, reply->code);
	ledger *ledger_of = &ledgers[index];
	int32_t at = ledger_of->first;
	if (at == NONE || adds[at].entry_id != reply->entry_id)
		bench_die("entry %" PRId64 " of ledger %" PRId64 " was answered out of its order", reply->entry_id,
		          reply->ledger_id);
	ledger_of->first = adds[at].next;
	ledger_of->acknowledged = reply->entry_id;
	if (now >= measure_from && now < measure_to) {
		measured++;
		bench_samples_add(&samples, now - adds[at].began_ns);
	}
	adds[at].next = free_add;
	free_add = at;
	from->under_way--;
	under_way--;
}

static void hear(connection *from) {
	if (from->in_size == from->in_room && (from->in = realloc(from->in, from->in_room *= 2)) == NULL)
		bench_die("no memory");
	ssize_t count = recv(from->fd, from->in + from->in_size, from->in_room - from->in_size, MSG_DONTWAIT);
	if (count == 0 || (count < 0 && errno != EAGAIN))
		bench_die("the bookie left: %s", count == 0 ? "closed" : strerror(errno));
	from->in_size += count > 0 ? (size_t)count : 0;
	uint64_t now = bench_now_ns();
	size_t done = 0;
	for (;;) {
		uint64_t frame;
		wk_wire_reply reply;
		if (wk_frame_size(from->in + done, from->in_size - done, WK_FRAME_SIZE_MAX, &frame) != WK_OK)
			bench_die("the bookie sends no frames");
		if (frame == 0 || frame > from->in_size - done)
			break;
		if (wk_wire_reply_decode(from->in + done + WK_FRAME_PREFIX_SIZE, frame - WK_FRAME_PREFIX_SIZE,
		                         (uint32_t)version, &reply) != WK_OK)
			bench_die("the bookie sends no replies of v%" PRIu64, version);
		end_add(from, &reply, now);
		done += frame;
	}
	memmove(from->in, from->in + done, from->in_size - done);
	from->in_size -= done;
}

static void say(connection *to, uint64_t index) {
	if (to->out_done < to->out_size) {
		ssize_t count = send(to->fd, to->out + to->out_done, to->out_size - to->out_done, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (count < 0 && errno != EAGAIN)
			bench_die("the bookie left: %s", strerror(errno));
		to->out_done += count > 0 ? (size_t)count : 0;
	}
	if (to->out_done == to->out_size)
		to->out_done = to->out_size = 0;
	bool wants_out = to->out_size > 0;
	if (wants_out == to->wants_out)
		return;
	struct epoll_event event = {.events = EPOLLIN | (wants_out ? (uint32_t)EPOLLOUT : 0), .data.u64 = index};
	if (epoll_ctl(poller, EPOLL_CTL_MOD, to->fd, &event) != 0)
		bench_die("epoll: %s", strerror(errno));
	to->wants_out = wants_out;
}

static int dial(const char *host, const char *port) {
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
	if (getaddrinfo(host, port, &hints, &found) != 0)
		bench_die("%s is no host", host);
	int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0)
		bench_die("%s:%s: %s", host, port, strerror(errno));
	freeaddrinfo(found);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	return fd;
}

/* What is due now: whatever the window has room for, or what its time has come for. The time of the next, 0: none. */
static uint64_t begin_due(uint64_t now, uint64_t start, uint64_t *issued) {
	if (rate == 0) {
		for (uint64_t i = 0; i < connections_count; i++) {
			uint64_t share = window / connections_count + (i < window % connections_count);
			while (connections[i].under_way < share)
				begin_add(&connections[i], i, now);
		}
		return 0;
	}
	for (;;) {
		uint64_t due = start + (uint64_t)((double)*issued * 1e9 / (double)rate);
		if (due > now)
			return due;
		if (free_add == NONE) { /* it is hopelessly behind; what is due stays due */
			refused_turns++;
			return 0;
		}
		uint64_t i = (*issued)++ % connections_count;
		begin_add(&connections[i], i, due);
	}
}

static void turn(bool ending, uint64_t start, uint64_t *issued) {
	uint64_t now = bench_now_ns(), due = ending ? 0 : begin_due(now, start, issued);
	for (uint64_t i = 0; i < connections_count; i++)
		if (connections[i].out_size > 0 && !connections[i].wants_out)
			say(&connections[i], i);
	uint64_t left = due == 0 ? 100000000 : due - now;
	struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
	struct epoll_event ready[256];
	int count = epoll_pwait2(poller, ready, 256, &timeout, NULL);
	if (count < 0 && errno != EINTR)
		bench_die("epoll: %s", strerror(errno));
	for (int i = 0; i < count; i++) {
		connection *which = &connections[ready[i].data.u64];
		if (ready[i].events & ~(uint32_t)EPOLLOUT)
			hear(which);
		if (ready[i].events & EPOLLOUT)
			say(which, ready[i].data.u64);
	}
}

int main(int argc, char **argv) {
	version = bench_number(argc, argv, "version", 2);
	connections_count = bench_number(argc, argv, "connections", 1);
	ledgers_count = bench_number(argc, argv, "ledgers", connections_count);
	first_ledger = bench_number(argc, argv, "first-ledger", 1);
	size = bench_number(argc, argv, "size", 1024);
	window = bench_number(argc, argv, "window", 64);
	rate = bench_number(argc, argv, "rate", 0);
	uint64_t warmup = bench_number(argc, argv, "warmup", 1), seconds = bench_number(argc, argv, "seconds", 5);
	const char *host = bench_text(argc, argv, "host", "127.0.0.1"), *port = bench_text(argc, argv, "port", NULL);
	if ((version != 2 && version != 3) || connections_count == 0 || ledgers_count < connections_count ||
	    window > UNDER_WAY_MAX || window < (rate == 0 ? connections_count : 0) || size > 5000000)
		bench_die("v2 or v3, a ledger and an add under way for each connection at least");
	connections = bench_allocate(connections_count * sizeof *connections);
	ledgers = bench_allocate(ledgers_count * sizeof *ledgers);
	adds = bench_allocate(UNDER_WAY_MAX * sizeof *adds);
	payload = bench_allocate(size + 8);
	bench_fill(payload, size);
	bench_samples_init(&samples, BENCH_SAMPLES_MAX);
	for (uint64_t i = 0; i < ledgers_count; i++)
		ledgers[i] = (ledger){.acknowledged = -1, .first = NONE, .last = NONE};
	for (int32_t i = 0; i < UNDER_WAY_MAX; i++)
		adds[i].next = i + 1 < UNDER_WAY_MAX ? i + 1 : NONE;
	poller = epoll_create1(EPOLL_CLOEXEC);
	for (uint64_t i = 0; i < connections_count; i++) {
		connections[i] = (connection){.fd = dial(host, port), .in = bench_allocate(65536), .in_room = 65536};
		struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
		if (epoll_ctl(poller, EPOLL_CTL_ADD, connections[i].fd, &event) != 0)
			bench_die("epoll: %s", strerror(errno));
	}
	uint64_t start = bench_now_ns(), issued = 0;
	measure_from = start + warmup * 1000000000;
	measure_to = measure_from + seconds * 1000000000;
	while (bench_now_ns() < measure_from)
		turn(false, start, &issued);
	bench_usage before = bench_usage_now("/");
	while (bench_now_ns() < measure_to)
		turn(false, start, &issued);
	bench_usage after = bench_usage_now("/");
	uint64_t late_now = under_way;
	for (uint64_t until = bench_now_ns() + 30000000000; under_way > 0 && bench_now_ns() < until;)
		turn(true, start, &issued);
	if (under_way > 0)
		bench_die("%" PRIu64 " adds were not answered within 30 s", under_way);
	printf("{\"version\": %" PRIu64 ", \"connections\": %" PRIu64 ", \"ledgers\": %" PRIu64 ", \"size\": %" PRIu64
	       ", \"window\": %" PRIu64 ", \"rate\": %" PRIu64 ", \"entries\": %" PRIu64
	       ", \"entries_per_second\": %.1f, \"under_way_at_end\": %" PRIu64 ", \"turns_refused\": %" PRIu64 ", ",
	       version, connections_count, ledgers_count, size, window, rate, measured,
	       (double)measured / bench_seconds(&before, &after), late_now, refused_turns);
	bench_print_quantiles(&samples);
	bench_print_usage(&before, &after);
	printf("\"cpu_seconds\": %.6f}\n", (double)(after.process_cpu_ns - before.process_cpu_ns) / 1e9);
	return 0;
}
