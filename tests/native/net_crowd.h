/* net_crowd.h: what every implementation of the seam to sockets does for many connections. Part of net_conformance.h. */
#ifndef NET_CROWD_H
#define NET_CROWD_H
#include "net_peers.h"
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>

/* ---- echo ---- */

/* What one connection has said and not yet been told back. */
struct echo {
	wk_connection_id connection;
	uint8_t *bytes;
	size_t size, sent, under_way;
	bool closed;
};

static void echo_on(struct echo *echo, uint64_t *seed) {
	if (echo->under_way > 0 || echo->sent == echo->size)
		return;
	struct iovec parts[WK_NET_PARTS_MAX];
	uint32_t count = 0, wanted = (uint32_t)(check_random(seed) % WK_NET_PARTS_MAX) + 1;
	size_t left = echo->size - echo->sent;
	while (left > 0 && count < wanted) {
		size_t size = count + 1 == wanted ? left : check_random(seed) % (left + 1);
		parts[count++] = (struct iovec){echo->bytes + echo->sent + echo->under_way, size};
		echo->under_way += size;
		left -= size;
	}
	if (echo->under_way > 0)
		CHECK_EQ(ops->send(net, echo->connection, parts, count), 0);
}

struct talker {
	int fd;
	uint64_t seed;
	size_t size;
	const uint8_t *bytes;
};

/* Says the bytes in random pieces, and hears them all again. */
static void *talk(void *context) {
	struct talker *talker = context;
	size_t said = 0, heard = 0;
	uint8_t *found = malloc(65536);
	CHECK(found);
	while (heard < talker->size) {
		size_t most = talker->size - said;
		size_t piece = check_random(&talker->seed) % (check_random(&talker->seed) % 4 == 0 ? 100 : 200000) + 1;
		if (most > 0 && said - heard < 8 << 20)
			said += peer_writes_some(talker->fd, talker->bytes + said, piece < most ? piece : most);
		ssize_t count = recv(talker->fd, found, check_random(&talker->seed) % 65536 + 1,
		                     said < talker->size ? MSG_DONTWAIT : 0);
		CHECK(count > 0 || (count < 0 && errno == EAGAIN));
		if (count < 0)
			continue;
		CHECK(memcmp(found, talker->bytes + heard, (size_t)count) == 0);
		heard += (size_t)count;
	}
	free(found);
	CHECK_EQ(shutdown(talker->fd, SHUT_WR), 0);
	return NULL;
}

static void echo_of(size_t size, const uint8_t *bytes, uint64_t *seed) {
	struct echo echo = {.bytes = malloc(size + 1)};
	CHECK(echo.bytes);
	struct talker talker = {.seed = check_random(seed), .size = size, .bytes = bytes};
	echo.connection = meet(&talker.fd);
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, talk, &talker), 0);
	batch_max = (uint32_t)(check_random(seed) % 64) + 1;
	while (!echo.closed) {
		wk_net_event event;
		CHECK(next_event_within(&event, LONG_WAIT));
		CHECK_EQ(event.connection, echo.connection);
		if (event.kind == WK_NET_RECEIVED) {
			CHECK(event.size > 0 && event.size <= size - echo.size);
			memcpy(echo.bytes + echo.size, event.bytes, event.size);
			echo.size += event.size;
		} else if (event.kind == WK_NET_SENT) {
			echo.sent += echo.under_way;
			echo.under_way = 0;
		} else {
			CHECK(event.kind == WK_NET_CLOSED && event.error == 0);
			echo.closed = true;
		}
		if (!echo.closed)
			echo_on(&echo, seed);
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(echo.size, size);
	close(talker.fd);
	free(echo.bytes);
}

TEST(what_is_said_is_heard_whatever_its_size_and_pieces) {
	uint64_t seed = check_seed((uint64_t)time(NULL));
	printf("seed %llu\n", (unsigned long long)seed);
	static uint8_t bytes[(1 << 20) + 4097];
	check_random_bytes(&seed, bytes, sizeof bytes);
	static const size_t sizes[] = {0, 1, 2, 3, 63, 64, 65, 4095, 4096, 65535, 65536, 65537, 1 << 20, (1 << 20) + 4097};
	for (uint32_t receive_size = 0; receive_size <= 4096; receive_size += 4096) {
		begin(&(wk_net_options){.receive_size = receive_size});
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
			echo_of(sizes[i], bytes, &seed);
		for (int i = 0; i < 40; i++)
			echo_of(check_random(&seed) % (i % 2 == 0 ? sizeof bytes : 5000), bytes, &seed);
		end();
	}
}

/* ---- many ---- */

enum { CROWD = 1000 };

static size_t heap_in_use(void) {
	return mallinfo2().uordblks; /* 0 under a sanitizer, which has an allocator of its own */
}

TEST(a_thousand_connections_are_told_apart) {
	begin(NULL);
	static int fds[CROWD];
	static wk_connection_id ids[CROWD];
	int warm;
	wk_connection_id first = meet(&warm);
	size_t heap = heap_in_use();
	for (int i = 0; i < CROWD; i++) {
		fds[i] = dial();
		ids[i] = expect(WK_NET_ACCEPTED).connection;
		CHECK_EQ(ops->set_tag(net, ids[i], (uint64_t)i), 0);
	}
	CHECK(heap_in_use() - heap < CROWD * 512);
	for (int round = 0; round < 3; round++) {
		static uint32_t words[CROWD];
		unsigned heard = 0, sent = 0;
		for (uint32_t i = 0; i < CROWD; i++)
			peer_writes(fds[i], &(uint32_t){i * 7 + (uint32_t)round}, 4);
		while (sent < CROWD) {
			wk_net_event event;
			CHECK(next_event_within(&event, LONG_WAIT));
			CHECK(event.tag < CROWD && event.connection == ids[event.tag]);
			if (event.kind == WK_NET_SENT) {
				sent++;
				continue;
			}
			CHECK(event.kind == WK_NET_RECEIVED && event.size == 4);
			memcpy(&words[event.tag], event.bytes, 4);
			CHECK_EQ(words[event.tag], event.tag * 7 + (uint64_t)round);
			heard++;
			send_all(event.connection, &words[event.tag], 4);
		}
		CHECK_EQ(heard, CROWD);
		for (uint32_t i = 0; i < CROWD; i++)
			peer_reads(fds[i], &words[i], 4);
	}
	for (int i = 0; i < CROWD; i++)
		close(fds[i]);
	static bool closed[CROWD];
	memset(closed, 0, sizeof closed);
	for (int i = 0; i < CROWD; i++) {
		wk_net_event event = expect(WK_NET_CLOSED);
		CHECK(event.error == 0 && event.tag < CROWD && !closed[event.tag]);
		closed[event.tag] = true;
	}
	close(warm);
	expect_closed(first, 0);
	end();
}

/* All of them always have more to say than one wait can take; each gets its turn. */
TEST(nobody_is_drowned_out) {
	enum { SPEAKERS = 40, TURNS = 2000 };
	begin(&(wk_net_options){.receive_size = 4096, .receive_buffers = 8});
	static uint8_t noise[1 << 16];
	int fds[SPEAKERS];
	size_t heard[SPEAKERS] = {0}, least = 0;
	for (uint64_t i = 0; i < SPEAKERS; i++)
		CHECK_EQ(ops->set_tag(net, meet(&fds[i]), i), 0);
	for (int turn = 0; turn < TURNS && least < 1 << 15; turn++) {
		for (int i = 0; i < SPEAKERS; i++)
			while (peer_writes_some(fds[i], noise, sizeof noise) > 0)
				;
		CHECK((batch_count = ops->wait(net, batch, 64, LONG_WAIT)) > 0);
		for (int i = 0; i < batch_count; i++) {
			CHECK_EQ(batch[i].kind, WK_NET_RECEIVED);
			heard[batch[i].tag] += batch[i].size;
		}
		least = SIZE_MAX;
		for (int i = 0; i < SPEAKERS; i++)
			least = heard[i] < least ? heard[i] : least;
	}
	CHECK(least >= 1 << 15);
	for (int i = 0; i < SPEAKERS; i++)
		close(fds[i]);
	end();
}

TEST(a_caller_that_takes_one_event_at_a_time_misses_none) {
	enum { SPEAKERS = 50 };
	begin(NULL);
	batch_max = 1;
	int fds[SPEAKERS];
	unsigned told[SPEAKERS][8] = {{0}};
	for (int i = 0; i < SPEAKERS; i++) {
		fds[i] = dial();
		peer_writes(fds[i], "hello", 5);
	}
	unsigned left = 4 * SPEAKERS, accepted = 0;
	while (left > 0) {
		wk_net_event event;
		CHECK(next_event_within(&event, LONG_WAIT));
		left--;
		if (event.kind == WK_NET_ACCEPTED) {
			CHECK_EQ(ops->set_tag(net, event.connection, accepted++), 0);
			continue;
		}
		CHECK_EQ(++told[event.tag][event.kind], 1);
		if (event.kind == WK_NET_RECEIVED) {
			CHECK_EQ(event.size, 5);
			send_all(event.connection, "x", 1);
		} else if (event.kind == WK_NET_SENT) {
			CHECK_EQ(told[event.tag][WK_NET_RECEIVED], 1);
			CHECK_EQ(ops->close(net, event.connection), 0);
		} else {
			CHECK_EQ(event.kind, WK_NET_CLOSED);
			CHECK_EQ(told[event.tag][WK_NET_SENT], 1);
		}
	}
	expect_nothing_for(0);
	for (int i = 0; i < SPEAKERS; i++) {
		peer_reads(fds[i], "x", 1);
		close(fds[i]);
	}
	end();
}

TEST(a_number_never_names_another_connection) {
	enum { TIMES = 500 };
	begin(NULL);
	static wk_connection_id ids[TIMES];
	for (int i = 0; i < TIMES; i++) {
		int fd;
		ids[i] = meet(&fd);
		for (int j = 0; j < i; j++)
			CHECK(ids[j] != ids[i]);
		if (i > 0)
			CHECK_EQ(ops->close(net, ids[i - 1]), -EBADF);
		if (i % 2 == 0) {
			CHECK_EQ(ops->close(net, ids[i]), 0);
			expect_closed(ids[i], -ECANCELED);
			close(fd);
		} else {
			close(fd);
			expect_closed(ids[i], 0);
		}
	}
	end();
}

/* ---- too many ---- */

static rlim_t limit_descriptors(rlim_t limit) {
	struct rlimit now;
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
	rlim_t before = now.rlim_cur;
	now.rlim_cur = limit;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
	return before;
}

TEST(who_finds_no_descriptor_waits_until_there_is_one) {
	enum { SPARE = 30 };
	int fillers[SPARE], filled = 0, inside, fds[3];
	int next = dup(0);
	CHECK(next >= 0);
	close(next);
	rlim_t before = limit_descriptors((rlim_t)next + SPARE);
	begin(NULL);
	wk_connection_id connection = meet(&inside);
	for (int i = 0; i < 3; i++)
		fds[i] = dial();
	while ((fillers[filled] = dup(0)) >= 0)
		filled++;
	CHECK_EQ(expect(WK_NET_ACCEPT_FAILED).error, -EMFILE);
	/* Nothing spins: most of the time it sleeps. */
	struct timespec cpu_before, cpu_after;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu_before);
	wk_net_event event = {0};
	uint64_t until = now_ns() + 500 * MS;
	unsigned told = 0;
	while (now_ns() < until)
		told += next_event_within(&event, until - now_ns());
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu_after);
	CHECK(told <= 1 + (now_ns() - until + 500 * MS) / (1000 * MS)); /* once a second at most */
	int64_t cpu = (cpu_after.tv_sec - cpu_before.tv_sec) * 1000000000 + cpu_after.tv_nsec - cpu_before.tv_nsec;
	CHECK(cpu < 250 * (int64_t)MS);
	accept_failures_are_known = true;
	peer_writes(inside, "x", 1);
	expect_bytes(connection, "x", 1); /* who is in is served */
	/* Something is closed: one of them comes in, and no more. */
	CHECK_EQ(ops->close(net, connection), 0);
	expect_closed(connection, -ECANCELED);
	connection = expect(WK_NET_ACCEPTED).connection;
	expect_nothing_for(150 * MS);
	/* There are some again: the others come by themselves. */
	while (filled > 0)
		close(fillers[--filled]);
	for (int i = 0; i < 2; i++)
		expect(WK_NET_ACCEPTED);
	accept_failures_are_known = false;
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close(inside);
	end();
	limit_descriptors(before);
}

TEST(one_too_many_is_sent_away) {
	begin(&(wk_net_options){.connections_max = 2});
	int fds[2];
	wk_connection_id ids[2] = {meet(&fds[0]), meet(&fds[1])}, ignored;
	CHECK_EQ(ops->connect(net, "127.0.0.1", bound.port, 0, &ignored), -EMFILE);
	uint8_t byte;
	for (int i = 0; i < 5; i++) {
		int third = dial();
		if (i == 0)
			CHECK_EQ(expect(WK_NET_ACCEPT_FAILED).error, -EMFILE);
		wk_net_event event;
		while (recv(third, &byte, 1, MSG_DONTWAIT) != 0) {
			CHECK(errno == EAGAIN);
			if (next_event_within(&event, MS)) /* once a second at most */
				CHECK(event.kind == WK_NET_ACCEPT_FAILED && event.error == -EMFILE);
		}
		close(third);
	}
	accept_failures_are_known = true;
	close(fds[0]);
	expect_closed(ids[0], 0);
	int again;
	wk_connection_id id = meet(&again);
	close(again);
	expect_closed(id, 0);
	close(fds[1]);
	expect_closed(ids[1], 0);
	accept_failures_are_known = false;
	end();
}

static int dial_from(const char *source) {
	struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET, .sin_port = htons(bound.port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(inet_pton(AF_INET, source, &from.sin_addr), 1);
	CHECK_EQ(inet_pton(AF_INET, "127.0.0.1", &to.sin_addr), 1);
	CHECK_EQ(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

TEST(an_address_that_has_many_connections_leaves_room_for_others) {
	begin(&(wk_net_options){.connections_max = 4, .connections_per_address_max = 2});
	int fds[2];
	wk_connection_id ids[2] = {meet(&fds[0]), meet(&fds[1])};
	int third = dial();
	CHECK_EQ(expect(WK_NET_ACCEPT_FAILED).error, -EMFILE);
	uint8_t byte;
	CHECK_EQ(recv(third, &byte, 1, 0), 0);
	close(third);
	int other = dial_from("127.0.0.2");
	wk_connection_id other_id = expect(WK_NET_ACCEPTED).connection;
	for (int again = 0; again < 3; again++) { /* who has gone counts no more */
		close(fds[0]);
		expect_closed(ids[0], 0);
		ids[0] = meet(&fds[0]);
	}
	close(other);
	expect_closed(other_id, 0);
	for (int i = 0; i < 2; i++) {
		close(fds[i]);
		expect_closed(ids[i], 0);
	}
	end();
}

TEST(who_came_before_the_first_wait_is_let_in_and_nobody_behind_the_last) {
	enum { EARLY = 100 };
	begin(&(wk_net_options){.backlog = 128});
	int fds[EARLY], late;
	for (int i = 0; i < EARLY; i++)
		fds[i] = dial();
	for (int i = 0; i < EARLY; i++)
		expect(WK_NET_ACCEPTED);
	uint16_t port = bound.port;
	/* Who waits in the backlog, or was not told of yet, is refused. */
	late = dial();
	ops->stop_listening(net);
	ops->stop_listening(net);
	expect_nothing_for(MS);
	uint8_t byte;
	CHECK(recv(late, &byte, 1, 0) <= 0);
	close(late);
	CHECK_EQ(dial_at("127.0.0.1", port), -ECONNREFUSED);
	peer_writes(fds[0], "x", 1);
	CHECK_EQ(expect(WK_NET_RECEIVED).size, 1); /* who is in stays */
	CHECK_EQ(ops->listen(net, "127.0.0.1", port, &bound), 0);
	CHECK_EQ(bound.port, port);
	wk_connection_id again = meet(&late);
	close(late);
	expect_closed(again, 0);
	for (int i = 0; i < EARLY; i++)
		close(fds[i]);
	end();
}

static void net_crowd_run(void) {
	RUN(what_is_said_is_heard_whatever_its_size_and_pieces);
	RUN(a_thousand_connections_are_told_apart);
	RUN(nobody_is_drowned_out);
	RUN(a_caller_that_takes_one_event_at_a_time_misses_none);
	RUN(a_number_never_names_another_connection);
	RUN(who_finds_no_descriptor_waits_until_there_is_one);
	RUN(one_too_many_is_sent_away);
	RUN(an_address_that_has_many_connections_leaves_room_for_others);
	RUN(who_came_before_the_first_wait_is_let_in_and_nobody_behind_the_last);
}
#endif
