/*
 * net_peers.h: a wk_net under test, and plain blocking sockets as the other ends of its connections. All is driven by
 * one thread: the kernel's buffers hold what the other side has not looked at yet.
 */
#ifndef NET_PEERS_H
#define NET_PEERS_H
#include "check.h"
#include "io/net_base.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS 1000000ull
#define LONG_WAIT (30000 * MS) /* within this a thing that is to happen has happened, on a busy machine too */

static int (*new_net)(const wk_net_options *options, wk_net **net);
static wk_net *net;
static const struct wk_net_operations *ops;
static wk_net_address bound;
static int fds_before;

/* One batch of events, looked at one by one. */
static wk_net_event batch[64];
static int batch_count, batch_next;
static uint32_t batch_max;
static bool accept_failures_are_known; /* and not told to the test */

static int open_fds(void) {
	DIR *directory = opendir("/proc/self/fd");
	CHECK(directory);
	int count = 0;
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void begin_quietly(const wk_net_options *options) {
	fds_before = open_fds();
	batch_count = batch_next = 0;
	batch_max = 64;
	CHECK_EQ(new_net(options, &net), 0);
	ops = net->operations;
}

static void begin(const wk_net_options *options) {
	begin_quietly(options);
	CHECK_EQ(ops->listen(net, "127.0.0.1", 0, &bound), 0);
	CHECK(strcmp(bound.host, "127.0.0.1") == 0 && bound.port != 0);
}

/* The test has closed its own descriptors. */
static void end(void) {
	ops->destroy(net);
	CHECK_EQ(open_fds(), fds_before);
}

static uint64_t now_ns(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool next_event_within(wk_net_event *event, uint64_t timeout_ns) {
	uint64_t until = now_ns() + timeout_ns;
	do {
		if (batch_next == batch_count) {
			uint64_t now = now_ns();
			batch_next = 0;
			batch_count = ops->wait(net, batch, batch_max, now < until ? until - now : 0);
			CHECK(batch_count >= 0 && batch_count <= (int)batch_max);
			if (batch_count == 0)
				return false;
		}
		*event = batch[batch_next++];
	} while (accept_failures_are_known && event->kind == WK_NET_ACCEPT_FAILED);
	return true;
}

static wk_net_event expect(wk_net_kind kind) {
	wk_net_event event = {0};
	CHECK(next_event_within(&event, LONG_WAIT));
	CHECK_EQ(event.kind, kind);
	return event;
}

/* Nothing is told now; what the kernel was asked for has been handed to it. */
static void expect_nothing_for(uint64_t timeout_ns) {
	wk_net_event event;
	CHECK(!next_event_within(&event, timeout_ns));
}

static void expect_closed(wk_connection_id connection, int error) {
	wk_net_event event = expect(WK_NET_CLOSED);
	CHECK_EQ(event.connection, connection);
	CHECK_EQ(event.error, error);
	CHECK_EQ(ops->close(net, connection), -EBADF);
}

/* The sockets of those who were told to be closed are. Nothing else is told meanwhile. */
static void all_have_gone(void) {
	for (uint64_t until = now_ns() + LONG_WAIT; ((wk_net_base *)net)->leaving.count > 0;) {
		CHECK(now_ns() < until);
		expect_nothing_for(MS);
	}
}

/* `size` bytes from that connection, in as many pieces as they come. */
static void expect_bytes(wk_connection_id connection, const void *bytes, size_t size) {
	size_t done = 0;
	while (done < size) {
		wk_net_event event = expect(WK_NET_RECEIVED);
		CHECK_EQ(event.connection, connection);
		CHECK(event.size > 0 && event.size <= size - done);
		CHECK(memcmp(event.bytes, (const uint8_t *)bytes + done, event.size) == 0);
		done += event.size;
	}
}

static int dial_at(const char *host, uint16_t port) {
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	bool is_four = inet_pton(AF_INET, host, &four.sin_addr) == 1;
	CHECK(is_four || inet_pton(AF_INET6, host, &six.sin6_addr) == 1);
	int fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	int result = is_four ? connect(fd, (struct sockaddr *)&four, sizeof four)
	                     : connect(fd, (struct sockaddr *)&six, sizeof six);
	if (result == 0)
		return fd;
	int error = errno;
	close(fd);
	return -error;
}

/* A connection from our side to the listener; it may not have been accepted yet. */
static int dial(void) {
	int fd = dial_at("127.0.0.1", bound.port);
	CHECK(fd >= 0);
	return fd;
}

/* Both ends of a new connection. */
static wk_connection_id meet(int *fd) {
	*fd = dial();
	return expect(WK_NET_ACCEPTED).connection;
}

static void peer_writes(int fd, const void *bytes, size_t size) {
	for (size_t done = 0; done < size;) {
		ssize_t count = send(fd, (const char *)bytes + done, size - done, MSG_NOSIGNAL);
		CHECK(count > 0);
		done += (size_t)count;
	}
}

/* Without waiting; the bytes that the kernel took. */
static size_t peer_writes_some(int fd, const void *bytes, size_t size) {
	ssize_t count = send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	CHECK(count >= 0 || errno == EAGAIN);
	return count < 0 ? 0 : (size_t)count;
}

static void peer_reads(int fd, const void *bytes, size_t size) {
	uint8_t found[4096];
	for (size_t done = 0; done < size;) {
		size_t most = size - done < sizeof found ? size - done : sizeof found;
		ssize_t count = recv(fd, found, most, 0);
		CHECK(count > 0);
		CHECK(memcmp(found, (const uint8_t *)bytes + done, (size_t)count) == 0);
		done += (size_t)count;
	}
}

static void peer_resets(int fd) {
	struct linger at_once = {.l_onoff = 1, .l_linger = 0};
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
	close(fd);
}

static void send_all(wk_connection_id connection, const void *bytes, size_t size) {
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
	CHECK_EQ(ops->send(net, connection, &part, 1), 0);
}

#endif
