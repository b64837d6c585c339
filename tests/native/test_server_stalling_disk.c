/*
 * test_server_stalling_disk.c: the disk stands still under a server: adds wait, and nothing else does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check_status.h"
#include "core/bytes.h"
#include "core/wire.h"
#include "stalling_disk.h"
#include "walkeeper/server.h"

static const uint8_t KEY[20] = "a key of 20 bytes...";

static int connect_to(uint16_t port) {
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
	return fd;
}

static void ask(int fd, wk_wire_request request) {
	uint8_t bytes[WK_WIRE_HEAD_SIZE_MAX + 200];
	request.version = request.header_version = WK_WIRE_V3;
	size_t size = wk_wire_request_encode(&request, bytes);
	memcpy(bytes + size, request.body != NULL ? request.body : bytes, (size_t)request.body_size);
	CHECK_EQ(send(fd, bytes, size + request.body_size, MSG_NOSIGNAL), size + request.body_size);
}

static uint32_t hear(int fd) {
	static uint8_t bytes[1024];
	for (size_t had = 0, size = 4; had < size;) {
		ssize_t count = recv(fd, bytes + had, size - had, 0);
		CHECK(count > 0 || (count < 0 && errno == EINTR));
		had += count > 0 ? (size_t)count : 0;
		if (had == 4)
			size = 4 + wk_load_be32(bytes);
	}
	wk_wire_reply reply;
	CHECK_EQ(wk_wire_reply_decode(bytes + 4, wk_load_be32(bytes), WK_WIRE_V3, &reply), WK_OK);
	return reply.code;
}

static void add(int fd, int64_t entry_id) {
	static uint8_t bytes[100];
	wk_store_be64_signed(bytes, 5);
	wk_store_be64_signed(bytes + 8, entry_id);
	wk_store_be64_signed(bytes + 16, entry_id - 1);
	ask(fd, (wk_wire_request){.operation = WK_WIRE_ADD,
	                          .ledger_id = 5,
	                          .entry_id = entry_id,
	                          .key = KEY,
	                          .key_size = sizeof KEY,
	                          .body = bytes,
	                          .body_size = sizeof bytes});
}

static wk_namespace *ns;
static wk_server *server;
static char path[64];

static void start(void) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.kind = WK_KIND_LEDGERS;
	options.sync_method = WK_SYNC_DSYNC;
	wk_server_options serve;
	wk_server_options_init(&serve);
	wk_error error = {0};
	static wk_io *io; /* one for all the tests: it stays */
	if (io == NULL)
		io = stalling_disk();
	strcpy(path, temporary());
	check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the store opens");
	check_ok(wk_server_start(ns, &serve, &server, &error), &error, "the server starts");
}

TEST(who_reads_does_not_wait_for_a_disk_that_stands_still) {
	start();
	wk_error error = {0};
	int writer = connect_to(wk_server_port(server)), reader = connect_to(wk_server_port(server));
	for (int64_t id = 0; id < 10; id++) {
		add(writer, id);
		CHECK_EQ(hear(writer), WK_WIRE_OK);
	}
	atomic_store(&stalled, true);
	for (int64_t id = 10; id < 30; id++)
		add(writer, id);
	for (int i = 0; i < 50; i++) {
		ask(reader, (wk_wire_request){.operation = WK_WIRE_READ, .ledger_id = 5, .entry_id = 0});
		CHECK_EQ(hear(reader), WK_WIRE_OK);
	}
	uint8_t byte;
	CHECK_EQ(recv(writer, &byte, 1, MSG_DONTWAIT | MSG_PEEK), -1); /* nothing was answered that is not durable */
	go_on_and_notify();
	for (int64_t id = 10; id < 30; id++)
		CHECK_EQ(hear(writer), WK_WIRE_OK);
	close(writer);
	close(reader);
	check_ok(wk_server_stop(server, 30000000000, &error), &error, "the server stops");
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
	remove_tree(path);
}

static uint64_t processor_ns(void) {
	struct timespec used;
	CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static void *stop_soon(void *context) {
	(void)context;
	(void)wk_server_stop(server, 50000000, NULL); /* WK_TIMEOUT: what stands still was not answered in time */
	return NULL;
}

TEST(a_stop_waits_for_a_disk_that_stands_still_without_a_processor) {
	start();
	int writer = connect_to(wk_server_port(server));
	add(writer, 0);
	CHECK_EQ(hear(writer), WK_WIRE_OK);
	atomic_store(&stalled, true);
	add(writer, 1);
	usleep(100000);
	pthread_t stopper;
	CHECK_EQ(pthread_create(&stopper, NULL, stop_soon, NULL), 0);
	usleep(100000);
	uint64_t used = processor_ns();
	usleep(400000);
	CHECK(processor_ns() - used < 200000000);
	go_on_and_notify();
	CHECK_EQ(pthread_join(stopper, NULL), 0);
	close(writer);
	wk_error error = {0};
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
	remove_tree(path);
}

int main(void) {
	RUN(who_reads_does_not_wait_for_a_disk_that_stands_still);
	RUN(a_stop_waits_for_a_disk_that_stands_still_without_a_processor);
	return check_done();
}
