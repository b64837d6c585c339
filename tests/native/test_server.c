/* test_server.c: a server on real sockets and a real directory: it serves, takes orders, drains, and stops. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check_status.h"
#include "core/bytes.h"
#include "core/wire.h"
#include "small_directory.h"
#include "walkeeper/ledger.h"
#include "walkeeper/server.h"

static const uint8_t KEY[20] = "a key of 20 bytes...";
static wk_namespace *ns;
static wk_server *server;
static char path[256];

static void start(uint32_t backend) {
	snprintf(path, sizeof path, "%s/server-%d-%u", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp", getpid(),
	         backend);
	wk_open_options options;
	wk_open_options_init(&options);
	options.kind = WK_KIND_LEDGERS;
	options.file_size_min = 1 << 20;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	wk_server_options serve;
	wk_server_options_init(&serve);
	serve.backend = backend;
	wk_status status = wk_server_start(ns, &serve, &server, &error);
	if (status == WK_UNSUPPORTED)
		SKIP(error.text);
	check_ok(status, &error, "the server starts");
	CHECK(wk_server_port(server) > 0);
}

static void stop(void) {
	wk_error error = {0};
	check_ok(wk_server_stop(server, 30000000000, &error), &error, "the server stops");
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
	char command[300];
	snprintf(command, sizeof command, "rm -rf '%s'", path);
	CHECK_EQ(system(command), 0);
}

static int connect_to_it(void) {
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(wk_server_port(server))};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
	struct timeval patience = {.tv_sec = 60};
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
	return fd;
}

static void send_all(int fd, const void *bytes, size_t size) {
	for (size_t sent = 0; sent < size;) {
		ssize_t count = send(fd, (const char *)bytes + sent, size - sent, MSG_NOSIGNAL);
		CHECK(count > 0 || errno == EINTR);
		sent += count > 0 ? (size_t)count : 0;
	}
}

static void ask(int fd, wk_wire_request request) {
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	request.header_version = request.version;
	send_all(fd, head, wk_wire_request_encode(&request, head));
	send_all(fd, request.body, (size_t)request.body_size);
}

/* A ring's work may interrupt any call of this process. False: the other end closed. */
static bool receive(int fd, uint8_t *bytes, size_t size) {
	for (size_t had = 0; had < size;) {
		ssize_t count = recv(fd, bytes + had, size - had, 0);
		if (count == 0 || (count < 0 && errno != EINTR))
			return false;
		had += count > 0 ? (size_t)count : 0;
	}
	return true;
}

enum { ANSWER_MAX = 6 << 20 };

/* `bytes` has room for ANSWER_MAX, and the reply points into it. */
static wk_wire_reply hear_in(int fd, uint32_t version, uint8_t *bytes) {
	CHECK(receive(fd, bytes, 4));
	uint32_t size = wk_load_be32(bytes);
	CHECK(size <= ANSWER_MAX);
	CHECK(receive(fd, bytes, size));
	wk_wire_reply reply;
	CHECK_EQ(wk_wire_reply_decode(bytes, size, version, &reply), WK_OK);
	return reply;
}

static wk_wire_reply hear(int fd, uint32_t version) {
	static uint8_t bytes[ANSWER_MAX]; /* the main thread's */
	return hear_in(fd, version, bytes);
}

static wk_wire_request an_entry(uint32_t version, int64_t ledger_id, int64_t entry_id, size_t size, uint8_t *bytes) {
	memset(bytes, (int)entry_id, size);
	wk_store_be64_signed(bytes, ledger_id);
	wk_store_be64_signed(bytes + 8, entry_id);
	wk_store_be64_signed(bytes + 16, entry_id - 1);
	wk_store_be64(bytes + 24, size);
	wk_wire_digest_put(bytes, size, WK_DIGEST_CRC32C);
	return (wk_wire_request){.version = version,
	                         .operation = WK_WIRE_ADD,
	                         .txn_id = (uint64_t)entry_id,
	                         .ledger_id = ledger_id,
	                         .entry_id = entry_id,
	                         .key = KEY,
	                         .key_size = sizeof KEY,
	                         .body = bytes,
	                         .body_size = size};
}

enum { CLIENTS = 6, ENTRIES = 300 };

/* Adds with a window, of sizes from nothing to the frame's limit, then reads everything. */
static void *client(void *context) {
	int64_t ledger_id = (int64_t)(intptr_t)context;
	uint32_t version = ledger_id % 2 == 0 ? WK_WIRE_V2 : WK_WIRE_V3;
	uint8_t *bytes = malloc(ANSWER_MAX), *answer = malloc(ANSWER_MAX); /* a thread's stack is small */
	CHECK(bytes != NULL && answer != NULL);
	int fd = connect_to_it();
	uint64_t random = (uint64_t)ledger_id + 1;
	int64_t acked = 0;
	for (int64_t id = 0; id < ENTRIES; id++) {
		size_t size = 40 + check_random(&random) % (id % 100 == 99 ? 4000000 : 3000);
		ask(fd, an_entry(version, ledger_id, id, size, bytes));
		for (; id - acked >= 20; acked++) {
			wk_wire_reply reply = hear_in(fd, version, answer);
			CHECK_EQ(reply.code, WK_WIRE_OK);
			CHECK_EQ(reply.entry_id, acked);
		}
	}
	for (; acked < ENTRIES; acked++)
		CHECK_EQ(hear_in(fd, version, answer).code, WK_WIRE_OK);
	random = (uint64_t)ledger_id + 1;
	for (int64_t id = 0; id < ENTRIES; id++) {
		size_t size = 40 + check_random(&random) % (id % 100 == 99 ? 4000000 : 3000);
		ask(fd,
		    (wk_wire_request){.version = version, .operation = WK_WIRE_READ, .ledger_id = ledger_id, .entry_id = id});
		wk_wire_reply reply = hear_in(fd, version, answer);
		CHECK_EQ(reply.code, WK_WIRE_OK);
		CHECK_EQ(reply.body_size, size);
		CHECK(wk_wire_digest_matches(reply.body, size, WK_DIGEST_CRC32C));
		CHECK_EQ(reply.body[size - 1], size > 40 ? (uint8_t)id : reply.body[size - 1]);
	}
	close(fd);
	free(bytes);
	free(answer);
	return NULL;
}

static void serves(uint32_t backend) {
	start(backend);
	pthread_t threads[CLIENTS];
	for (intptr_t i = 0; i < CLIENTS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, client, (void *)i), 0);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
	wk_server_stats stats;
	wk_server_stats_get(server, &stats);
	CHECK_EQ(stats.requests[WK_WIRE_ADD], CLIENTS * ENTRIES);
	CHECK_EQ(stats.failures[WK_WIRE_ADD], 0);
	CHECK_EQ(stats.requests[WK_WIRE_READ], CLIENTS * ENTRIES);
	CHECK_EQ(stats.add_ns.count, CLIENTS * ENTRIES);
	CHECK_EQ(stats.connections_total, CLIENTS);
	stop();
}

TEST(clients_side_by_side_get_what_they_gave) {
	serves(WK_BACKEND_PSYNC);
	serves(WK_BACKEND_AUTO);
}

TEST(orders_of_other_threads_are_obeyed_at_once) {
	start(WK_BACKEND_AUTO);
	int fd = connect_to_it();
	uint8_t bytes[100];
	ask(fd, an_entry(WK_WIRE_V3, 5, 0, sizeof bytes, bytes));
	CHECK_EQ(hear(fd, WK_WIRE_V3).code, WK_WIRE_OK);
	CHECK_EQ(wk_server_set_limbo(server, false, (int64_t[]){7}, 1, NULL), WK_OK);
	ask(fd, (wk_wire_request){.version = WK_WIRE_V3, .operation = WK_WIRE_READ, .ledger_id = 7, .entry_id = 0});
	CHECK_EQ(hear(fd, WK_WIRE_V3).code, WK_WIRE_UNKNOWN_STATE);
	CHECK_EQ(wk_server_set_limbo(server, false, NULL, 0, NULL), WK_OK);
	ask(fd, (wk_wire_request){.version = WK_WIRE_V3, .operation = WK_WIRE_READ, .ledger_id = 7, .entry_id = 0});
	CHECK_EQ(hear(fd, WK_WIRE_V3).code, WK_WIRE_NO_LEDGER);
	CHECK_EQ(wk_server_set_deleted(server, (int64_t[]){9, 5}, 2, NULL), WK_OK);
	ask(fd, an_entry(WK_WIRE_V3, 5, 1, sizeof bytes, bytes));
	CHECK_EQ(hear(fd, WK_WIRE_V3).code, WK_WIRE_FENCED);
	wk_server_set_read_only(server, true, false);
	wk_server_stats stats;
	wk_server_stats_get(server, &stats); /* behind the order */
	ask(fd, an_entry(WK_WIRE_V3, 6, 1, sizeof bytes, bytes));
	CHECK_EQ(hear(fd, WK_WIRE_V3).code, WK_WIRE_READ_ONLY);
	close(fd);
	stop();
}

/* What was sent before the stop is answered or not; what is answered is there. Long polls end. */
TEST(a_stop_answers_what_was_accepted) {
	start(WK_BACKEND_AUTO);
	int fd = connect_to_it(), poller = connect_to_it();
	uint8_t bytes[2000];
	ask(fd, an_entry(WK_WIRE_V3, 5, 0, sizeof bytes, bytes));
	CHECK_EQ(hear(fd, WK_WIRE_V3).code, WK_WIRE_OK);
	ask(poller, (wk_wire_request){.version = WK_WIRE_V3,
	                              .operation = WK_WIRE_READ,
	                              .flags = WK_WIRE_LONG_POLL | WK_WIRE_PIGGYBACK,
	                              .ledger_id = 5,
	                              .entry_id = -1,
	                              .previous_lac = 1000,
	                              .has_timeout = true,
	                              .timeout_ms = 60000});
	wk_server_stats stats;
	do
		wk_server_stats_get(server, &stats);
	while (stats.long_polls == 0);
	for (int64_t id = 1; id <= 100; id++)
		ask(fd, an_entry(WK_WIRE_V3, 5, id, sizeof bytes, bytes));
	wk_error error = {0};
	check_ok(wk_server_stop(server, 30000000000, &error), &error, "the server stops");
	CHECK_EQ(hear(poller, WK_WIRE_V3).entry_id, -1);
	int64_t acked = 0;
	uint8_t prefix[4];
	while (receive(fd, prefix, 4)) {
		uint8_t reply_bytes[256];
		wk_wire_reply reply;
		CHECK(receive(fd, reply_bytes, wk_load_be32(prefix)));
		CHECK_EQ(wk_wire_reply_decode(reply_bytes, wk_load_be32(prefix), WK_WIRE_V3, &reply), WK_OK);
		CHECK_EQ(reply.code, WK_WIRE_OK);
		acked = reply.entry_id;
	}
	wk_ledger_info info;
	check_ok(wk_ledger_describe(ns, 5, &info, &error), &error, "the ledger is there");
	CHECK(info.last_entry >= acked);
	close(fd);
	close(poller);
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
	char command[300];
	snprintf(command, sizeof command, "rm -rf '%s'", path);
	CHECK_EQ(system(command), 0);
}

/* Asks and reads without a pause, until the server ends the connection. */
static void *asks_to_the_end(void *context) {
	int fd = *(int *)context;
	enum { AT_ONCE = 1000 }; /* more than the server has looked at when it is told to stop */
	uint8_t requests[AT_ONCE * WK_WIRE_HEAD_SIZE_MAX], answers[65536];
	wk_wire_request request = {.version = WK_WIRE_V3, .header_version = WK_WIRE_V3, .operation = WK_WIRE_AUTH};
	size_t size = 0, sent = 0;
	for (int i = 0; i < AT_ONCE; i++)
		size += wk_wire_request_encode(&request, requests + size);
	for (;;) {
		struct pollfd ready = {.fd = fd, .events = POLLIN | POLLOUT};
		CHECK(poll(&ready, 1, 60000) == 1 || errno == EINTR);
		ssize_t count = send(fd, requests + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		CHECK(count >= 0 || errno == EAGAIN || errno == EINTR); /* ECONNRESET: what was on its way here is lost */
		sent = count > 0 ? (sent + (size_t)count) % size : sent;
		count = recv(fd, answers, sizeof answers, MSG_DONTWAIT);
		CHECK(count >= 0 || errno == EAGAIN || errno == EINTR);
		if (count == 0)
			break;
	}
	close(fd);
	return NULL;
}

static void ends_in_order(uint32_t backend) {
	start(backend);
	int fd = connect_to_it();
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, asks_to_the_end, &fd), 0);
	wk_server_stats stats;
	do
		wk_server_stats_get(server, &stats);
	while (stats.requests[WK_WIRE_AUTH] < 1000);
	stop();
	pthread_join(thread, NULL);
}

TEST(a_stop_ends_connections_in_order_whatever_comes_in) {
	ends_in_order(WK_BACKEND_PSYNC);
	ends_in_order(WK_BACKEND_AUTO);
}

static uint64_t processor_ns(void) {
	struct timespec used;
	CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

/* Its descriptors to wait by are others', as nothing else makes it fail for good. */
static void break_epoll(void) {
	int null = open("/dev/null", O_RDONLY), broken = 0;
	for (int fd = 3; fd < 256; fd++) {
		char name[64], what[64] = "";
		snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
		if (readlink(name, what, sizeof what - 1) > 0 && strcmp(what, "anon_inode:[eventpoll]") == 0)
			broken += dup2(null, fd) == fd;
	}
	CHECK(broken > 0);
	close(null);
}

TEST(a_wait_that_fails_for_good_takes_no_processor_and_can_be_stopped) {
	start(WK_BACKEND_PSYNC);
	break_epoll();
	close(connect_to_it()); /* ends the wait that is under way */
	uint64_t used = processor_ns();
	usleep(400000);
	CHECK(processor_ns() - used < 200000000);
	wk_server_set_read_only(server, true, false);
	stop();
}

TEST(an_address_that_is_taken_is_told) {
	start(WK_BACKEND_AUTO);
	wk_server_options options;
	wk_server_options_init(&options);
	options.port = wk_server_port(server);
	wk_server *other = NULL;
	wk_error error = {0};
	CHECK_EQ(wk_server_start(ns, &options, &other, &error), WK_IO);
	CHECK_EQ(error.system_error, EADDRINUSE);
	CHECK(strstr(error.text, "another process serves there") != NULL);
	options.port = 0;
	options.frame_size_max = 10;
	CHECK_EQ(wk_server_start(ns, &options, &other, &error), WK_INVALID);
	stop();
}

TEST(what_it_is_told_before_it_listens_holds_from_the_first_connection_on) {
	start(WK_BACKEND_AUTO);
	wk_server_options options;
	wk_server_options_init(&options);
	options.listen_later = options.read_only = options.limbo_all = true;
	wk_error error = {0};
	/* A store has one server: both would read the one eventfd that tells what is durable. */
	check_ok(wk_server_stop(server, 30000000000, &error), &error, "the server stops");
	CHECK_EQ(wk_server_start(ns, &options, &server, &error), WK_OK);
	CHECK_EQ(wk_server_port(server), 0);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int bound = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(wk_server_listen(server, -1, &error), WK_IO);
	CHECK_EQ(error.system_error, EBADF);
	CHECK_EQ(bind(bound, (struct sockaddr *)&address, sizeof address), 0);
	wk_server_set_read_only(server, false, true);
	CHECK_EQ(wk_server_set_limbo(server, false, NULL, 0, &error), WK_OK);
	CHECK_EQ(wk_server_listen(server, bound, &error), WK_OK);
	CHECK(wk_server_port(server) > 0);
	int fd = connect_to_it();
	uint8_t bytes[100];
	ask(fd, an_entry(3, 8, 0, sizeof bytes, bytes));
	CHECK_EQ(hear(fd, 3).code, WK_WIRE_OK);
	close(fd);
	stop();
}

int main(void) {
	RUN(what_it_is_told_before_it_listens_holds_from_the_first_connection_on);
	RUN(clients_side_by_side_get_what_they_gave);
	RUN(orders_of_other_threads_are_obeyed_at_once);
	RUN(a_stop_answers_what_was_accepted);
	RUN(a_stop_ends_connections_in_order_whatever_comes_in);
	RUN(a_wait_that_fails_for_good_takes_no_processor_and_can_be_stopped);
	RUN(an_address_that_is_taken_is_told);
	return check_done();
}
