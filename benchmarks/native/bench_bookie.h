/*
 * bench_bookie.h: what the drivers that speak to a bookie share: connections that send and receive what is there,
 * entries, and the bookie's own CPU time.
 *
 * A driver is one thread with one epoll: it measures the bookie, so it has to be cheaper than it.
 */
#ifndef BENCH_BOOKIE_H
#define BENCH_BOOKIE_H
#include "bench.h"
#include "core/wire.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { BENCH_DIGEST_SIZE = 4, BENCH_ENTRY_HEAD = WK_WIRE_ENTRY_HEADER_SIZE + BENCH_DIGEST_SIZE };

static const uint8_t BENCH_KEY[WK_MASTER_KEY_SIZE];

typedef struct bench_link {
	int fd;
	bool wants_out, dirty; /* dirty: what was put into `out` has not been offered to the socket yet */
	uint8_t *in, *out;
	size_t in_size, in_room, out_size, out_done, out_room;
} bench_link;

typedef void bench_heard(bench_link *from, const wk_wire_reply *reply, uint64_t now);

static inline int bench_dial(const char *host, const char *port) {
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

static inline void bench_link_open(bench_link *link, const char *host, const char *port, int poller, size_t in_room) {
	*link = (bench_link){.fd = bench_dial(host, port), .in = bench_allocate(in_room), .in_room = in_room};
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
	if (epoll_ctl(poller, EPOLL_CTL_ADD, link->fd, &event) != 0)
		bench_die("epoll: %s", strerror(errno));
}

/* The end of `out`, with room for so many bytes more. */
static inline uint8_t *bench_link_room(bench_link *to, size_t size) {
	if (to->out_size + size > to->out_room) {
		to->out_room = (to->out_size + size) * 2;
		if ((to->out = realloc(to->out, to->out_room)) == NULL)
			bench_die("no memory");
	}
	return to->out + to->out_size;
}

/* Puts a request without its body into `out`. */
static inline void bench_link_ask(bench_link *to, const wk_wire_request *request) {
	to->out_size += wk_wire_request_encode(request, bench_link_room(to, WK_WIRE_HEAD_SIZE_MAX));
}

/* Offers to the socket what is in `out`; what it does not take waits for the socket's word. */
static inline void bench_link_say(bench_link *to, int poller) {
	to->dirty = false;
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
	struct epoll_event event = {.events = EPOLLIN | (wants_out ? (uint32_t)EPOLLOUT : 0), .data.ptr = to};
	if (epoll_ctl(poller, EPOLL_CTL_MOD, to->fd, &event) != 0)
		bench_die("epoll: %s", strerror(errno));
	to->wants_out = wants_out;
}

/* Receives once, and hands over each whole reply with the time of its reception. */
static inline void bench_link_hear(bench_link *from, uint32_t version, bench_heard *heard) {
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
		if (wk_wire_reply_decode(from->in + done + WK_FRAME_PREFIX_SIZE, frame - WK_FRAME_PREFIX_SIZE, version,
		                         &reply) != WK_OK)
			bench_die("the bookie sends no replies of v%" PRIu32, version);
		heard(from, &reply, now);
		done += frame;
	}
	memmove(from->in, from->in + done, from->in_size - done);
	from->in_size -= done;
}

/* Waits until a socket has something or takes something, at most so long, and hears and says it. */
static inline void bench_links_wait(int poller, uint64_t ns, uint32_t version, bench_heard *heard) {
	struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
	struct epoll_event ready[256];
	int count = epoll_pwait2(poller, ready, 256, &timeout, NULL);
	if (count < 0 && errno != EINTR)
		bench_die("epoll: %s", strerror(errno));
	for (int i = 0; i < count; i++) {
		if (ready[i].events & ~(uint32_t)EPOLLOUT)
			bench_link_hear(ready[i].data.ptr, version, heard);
		if (ready[i].events & EPOLLOUT)
			bench_link_say(ready[i].data.ptr, poller);
	}
}

static inline int bench_poller(void) {
	int poller = epoll_create1(EPOLL_CLOEXEC);
	if (poller < 0)
		bench_die("epoll: %s", strerror(errno));
	return poller;
}

/* An entry with header and CRC-32C; BENCH_ENTRY_HEAD + size bytes. */
static inline void bench_entry_put(uint8_t *entry, const wk_wire_entry *header, const uint8_t *payload, size_t size) {
	const int64_t fields[4] = {header->ledger_id, header->entry_id, header->lac, header->length};
	for (int i = 0; i < 4; i++)
		for (int byte = 0; byte < 8; byte++)
			entry[8 * i + byte] = (uint8_t)((uint64_t)fields[i] >> (56 - 8 * byte));
	memcpy(entry + BENCH_ENTRY_HEAD, payload, size);
	wk_wire_digest_put(entry, BENCH_ENTRY_HEAD + size, WK_DIGEST_CRC32C);
}

/* What an entry must be that was asked for; ends the driver otherwise. */
static inline void bench_entry_check(const uint8_t *bytes, size_t size, int64_t ledger_id, int64_t entry_id) {
	wk_wire_entry header;
	if (wk_wire_entry_decode(bytes, size, &header) != WK_OK || header.ledger_id != ledger_id ||
	    header.entry_id != entry_id || !wk_wire_digest_matches(bytes, size, WK_DIGEST_CRC32C))
		bench_die("what was read is not entry %" PRId64 " of ledger %" PRId64, entry_id, ledger_id);
}

/* User and system time of a process, all its threads, the ended ones too; 0 where pid is 0. */
static inline uint64_t bench_cpu_ns_of(uint64_t pid) {
	struct timespec cpu;
	if (pid == 0)
		return 0;
	if (clock_gettime((clockid_t)(~(uint32_t)pid << 3 | 2), &cpu) != 0)
		bench_die("process %" PRIu64 ": %s", pid, strerror(errno));
	return (uint64_t)cpu.tv_sec * 1000000000U + (uint64_t)cpu.tv_nsec;
}
#endif
