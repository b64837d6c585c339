/*
 * bookie_tail: how long an entry takes from the writer's ack to a reader that follows the ledger by long polls.
 *
 *   --host 127.0.0.1 --port P --version 2 --ledger 1 --size 1024 --seconds 3 --pings 3000
 *
 * One thread writes without a pause, one add in flight. Another asks over v3 for what comes after what it has, with the
 * entry (piggy-back). An entry may be read when a later one told the bookie that it is acknowledged, so from its own ack
 * to the reader is at least another add; how much of it is left after that add's ack is told apart (`after_lac`, which
 * may be below zero: the reader hears of it before the writer does). The loopback's round trip is 64 bytes there and
 * back between two threads of this process, before and after.
 */
#include "bench_bookie.h"
#include <arpa/inet.h>
#include <pthread.h>

enum { ENTRIES_MAX = 4 << 20, PING_SIZE = 64, ANSWER_MAX = 6 << 20 };

static const char *host, *port;
static uint64_t version, ledger_id, size, seconds, pings;
static uint64_t *acknowledged_ns, *returned_ns; /* by entry */
static int64_t written, returned;               /* how many */
static volatile bool writer_ended;

static void send_all(int fd, const uint8_t *bytes, size_t count) {
	while (count > 0) {
		ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
		if (sent <= 0)
			bench_die("the other side left: %s", strerror(errno));
		bytes += sent;
		count -= (size_t)sent;
	}
}

static void receive_all(int fd, uint8_t *bytes, size_t count) {
	while (count > 0) {
		ssize_t got = recv(fd, bytes, count, 0);
		if (got <= 0)
			bench_die("the other side left: %s", got == 0 ? "closed" : strerror(errno));
		bytes += got;
		count -= (size_t)got;
	}
}

/* The reply, whose body lies in `room`. */
static wk_wire_reply receive_reply(int fd, uint32_t of_version, uint8_t *room) {
	uint64_t frame;
	wk_wire_reply reply;
	receive_all(fd, room, WK_FRAME_PREFIX_SIZE);
	if (wk_frame_size(room, WK_FRAME_PREFIX_SIZE, WK_FRAME_SIZE_MAX, &frame) != WK_OK)
		bench_die("the bookie sends no frames");
	receive_all(fd, room, frame - WK_FRAME_PREFIX_SIZE);
	if (wk_wire_reply_decode(room, frame - WK_FRAME_PREFIX_SIZE, of_version, &reply) != WK_OK)
		bench_die("the bookie sends no replies of v%" PRIu32, of_version);
	return reply;
}

static void *follow(void *nothing) {
	int fd = bench_dial(host, port);
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX], *room = bench_allocate(ANSWER_MAX);
	int64_t have = 0; /* the first entry is read by nobody: it makes the ledger */
	while (!writer_ended && have + 1 < ENTRIES_MAX) {
		const wk_wire_request request = {
		    .version = 3,
		    .header_version = 3,
		    .operation = WK_WIRE_READ,
		    .flags = WK_WIRE_LONG_POLL | WK_WIRE_PIGGYBACK,
		    .txn_id = (uint64_t)have,
		    .ledger_id = (int64_t)ledger_id,
		    .entry_id = -1,
		    .previous_lac = have,
		    .has_timeout = true,
		    .timeout_ms = 200,
		};
		send_all(fd, head, wk_wire_request_encode(&request, head));
		wk_wire_reply reply = receive_reply(fd, 3, room);
		uint64_t now = bench_now_ns();
		if (reply.code != WK_WIRE_OK && reply.code != WK_WIRE_NO_ENTRY)
			bench_die("a long poll was answered with %" PRIu32, reply.code);
		if (reply.code != WK_WIRE_OK || !reply.has_body || reply.entry_id != have + 1)
			continue; /* the poll's time is over */
		bench_entry_check(reply.body, reply.body_size, (int64_t)ledger_id, have + 1);
		returned_ns[++have] = now;
	}
	returned = have + 1;
	close(fd);
	return nothing;
}

static void add(int fd, int64_t entry_id, const uint8_t *payload, uint8_t *out, uint8_t *room) {
	const wk_wire_entry header = {(int64_t)ledger_id, entry_id, entry_id - 1, (entry_id + 1) * (int64_t)size};
	const wk_wire_request request = {
	    .version = (uint32_t)version,
	    .header_version = (uint32_t)version,
	    .operation = WK_WIRE_ADD,
	    .txn_id = (uint64_t)entry_id,
	    .ledger_id = header.ledger_id,
	    .entry_id = entry_id,
	    .key = BENCH_KEY,
	    .key_size = sizeof BENCH_KEY,
	    .body_size = BENCH_ENTRY_HEAD + size,
	};
	size_t head = wk_wire_request_encode(&request, out);
	bench_entry_put(out + head, &header, payload, size);
	send_all(fd, out, head + BENCH_ENTRY_HEAD + size);
	wk_wire_reply reply = receive_reply(fd, (uint32_t)version, room);
	if (reply.operation != WK_WIRE_ADD || reply.code != WK_WIRE_OK || reply.entry_id != entry_id)
		bench_die("add %" PRId64 " was answered with %" PRIu32, entry_id, reply.code);
	acknowledged_ns[entry_id] = bench_now_ns();
}

static void write_and_follow(void) {
	int fd = bench_dial(host, port);
	uint8_t *payload = bench_allocate(size + 8), *room = bench_allocate(4096);
	uint8_t *out = bench_allocate(WK_WIRE_HEAD_SIZE_MAX + BENCH_ENTRY_HEAD + size);
	bench_fill(payload, size);
	add(fd, written++, payload, out, room);
	pthread_t reader;
	if (pthread_create(&reader, NULL, follow, NULL) != 0)
		bench_die("no thread");
	for (uint64_t until = bench_now_ns() + seconds * 1000000000; bench_now_ns() < until && written < ENTRIES_MAX;)
		add(fd, written++, payload, out, room);
	writer_ended = true;
	pthread_join(reader, NULL);
	close(fd);
}

/* ---- the loopback ---- */

static void *echo(void *listener) {
	uint8_t ping[PING_SIZE];
	int fd = accept(*(int *)listener, NULL, NULL);
	if (fd < 0)
		bench_die("accept: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	for (uint64_t i = 0; i < pings; i++) {
		receive_all(fd, ping, PING_SIZE);
		send_all(fd, ping, PING_SIZE);
	}
	close(fd);
	return NULL;
}

static void ping_loopback(bench_samples *samples) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t address_size = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pthread_t thread;
	if (listener < 0 || fd < 0 || bind(listener, (struct sockaddr *)&address, address_size) != 0 ||
	    listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&address, &address_size) != 0 ||
	    pthread_create(&thread, NULL, echo, &listener) != 0 ||
	    connect(fd, (struct sockaddr *)&address, address_size) != 0)
		bench_die("no loopback: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	uint8_t ping[PING_SIZE] = {0};
	for (uint64_t i = 0; i < pings; i++) {
		uint64_t began = bench_now_ns();
		send_all(fd, ping, PING_SIZE);
		receive_all(fd, ping, PING_SIZE);
		bench_samples_add(samples, bench_now_ns() - began);
	}
	pthread_join(thread, NULL);
	close(fd);
	close(listener);
}

static int compare_signed(const void *a, const void *b) {
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
	return left < right ? -1 : left > right;
}

/* From the ack of the entry `behind` places after each one to that one's return; its first tenth is left out. */
static void print_delays(const char *name, int64_t behind) {
	int64_t last = (returned < written - behind ? returned : written - behind) - 1, count = 0;
	int64_t *delays = bench_allocate((size_t)(last > 0 ? last + 1 : 1) * sizeof *delays);
	for (int64_t entry = 1 + last / 10; entry <= last; entry++)
		delays[count++] = (int64_t)returned_ns[entry] - (int64_t)acknowledged_ns[entry + behind];
	if (count < 100)
		bench_die("the reader got only %" PRId64 " entries", count);
	qsort(delays, (size_t)count, sizeof *delays, compare_signed);
	printf("\"%s_samples\": %" PRId64 ", \"%s_p50_ns\": %" PRId64 ", \"%s_p99_ns\": %" PRId64 ", ", name, count, name,
	       delays[count / 2], name, delays[count * 99 / 100]);
	free(delays);
}

int main(int argc, char **argv) {
	host = bench_text(argc, argv, "host", "127.0.0.1");
	port = bench_text(argc, argv, "port", NULL);
	version = bench_number(argc, argv, "version", 2);
	ledger_id = bench_number(argc, argv, "ledger", 1);
	size = bench_number(argc, argv, "size", 1024);
	seconds = bench_number(argc, argv, "seconds", 3);
	pings = bench_number(argc, argv, "pings", 3000);
	acknowledged_ns = bench_allocate(ENTRIES_MAX * sizeof *acknowledged_ns);
	returned_ns = bench_allocate(ENTRIES_MAX * sizeof *returned_ns);
	bench_samples round_trips;
	bench_samples_init(&round_trips, 2 * pings);
	ping_loopback(&round_trips);
	write_and_follow();
	ping_loopback(&round_trips);
	printf("{\"version\": %" PRIu64 ", \"written\": %" PRId64 ", \"returned\": %" PRId64 ", ", version, written,
	       returned);
	print_delays("ack_to_return", 0);
	print_delays("after_lac", 1);
	printf("\"round_trip_p50_ns\": %u}\n", bench_quantile(&round_trips, 0.5));
	return 0;
}
