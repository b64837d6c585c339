/*
 * net_conformance.h: what every implementation of the seam to sockets does.
 *
 *	net_conformance_run(wk_net_epoll_new);
 */
#ifndef NET_CONFORMANCE_H
#define NET_CONFORMANCE_H
#include "net_calls.h"
#include "net_churn.h"
#include "net_crowd.h"
#include "net_door.h"
#include "net_waits.h"
#include <linux/filter.h>
#include <netinet/tcp.h>

TEST(a_connection_is_accepted_heard_answered_and_closed) {
	begin(NULL);
	int fd = dial();
	wk_net_event accepted = expect(WK_NET_ACCEPTED);
	CHECK(accepted.connection != 0);
	CHECK_EQ(accepted.tag, 0);
	CHECK_EQ(ops->set_tag(net, accepted.connection, 77), 0);
	peer_writes(fd, "question", 8);
	wk_net_event received = expect(WK_NET_RECEIVED);
	CHECK_EQ(received.connection, accepted.connection);
	CHECK_EQ(received.tag, 77);
	CHECK_EQ(received.size, 8);
	CHECK(memcmp(received.bytes, "question", 8) == 0);
	struct iovec parts[3] = {{(char[]){"an"}, 2}, {NULL, 0}, {(char[]){"swer"}, 4}};
	CHECK_EQ(ops->send(net, accepted.connection, parts, 3), 0);
	wk_net_event sent = expect(WK_NET_SENT);
	CHECK_EQ(sent.connection, accepted.connection);
	CHECK_EQ(sent.tag, 77);
	peer_reads(fd, "answer", 6);
	close(fd);
	wk_net_event closed = expect(WK_NET_CLOSED);
	CHECK_EQ(closed.connection, accepted.connection);
	CHECK_EQ(closed.tag, 77);
	CHECK_EQ(closed.error, 0);
	expect_nothing_for(0);
	end();
}

TEST(who_calls_on_a_closed_connection_is_told_so) {
	begin(NULL);
	int fd;
	wk_connection_id connection = meet(&fd), strangers[] = {connection, 0, 1, UINT64_MAX, connection + (1 << 24)};
	close(fd);
	expect_closed(connection, 0);
	for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
		wk_net_address peer;
		struct iovec part = {"x", 1};
		CHECK_EQ(ops->set_tag(net, strangers[i], 1), -EBADF);
		CHECK_EQ(ops->peer(net, strangers[i], &peer), -EBADF);
		CHECK_EQ(ops->send(net, strangers[i], &part, 1), -EBADF);
		CHECK_EQ(ops->pause(net, strangers[i]), -EBADF);
		CHECK_EQ(ops->resume(net, strangers[i]), -EBADF);
		CHECK_EQ(ops->close(net, strangers[i]), -EBADF);
	}
	expect_nothing_for(0);
	end();
}

TEST(a_send_of_nothing_is_sent) {
	begin(NULL);
	int fd;
	wk_connection_id connection = meet(&fd);
	CHECK_EQ(ops->send(net, connection, NULL, 0), 0);
	CHECK_EQ(ops->send(net, connection, NULL, 0), -EBUSY);
	CHECK_EQ(expect(WK_NET_SENT).connection, connection);
	send_all(connection, "", 0);
	CHECK_EQ(expect(WK_NET_SENT).connection, connection);
	CHECK_EQ(ops->send(net, connection, NULL, WK_NET_PARTS_MAX + 1), -EINVAL);
	close(fd);
	expect_closed(connection, 0);
	end();
}

TEST(every_part_of_a_send_comes_in_its_place) {
	begin(NULL);
	int fd;
	wk_connection_id connection = meet(&fd);
	char text[WK_NET_PARTS_MAX * 3];
	struct iovec parts[WK_NET_PARTS_MAX];
	for (int i = 0; i < WK_NET_PARTS_MAX; i++) {
		memset(text + 3 * i, 33 + i, 3);
		parts[i] = (struct iovec){text + 3 * i, 3};
	}
	CHECK_EQ(ops->send(net, connection, parts, WK_NET_PARTS_MAX), 0);
	memset(parts, 0, sizeof parts); /* the bytes must stay, the list of them need not */
	CHECK_EQ(expect(WK_NET_SENT).connection, connection);
	peer_reads(fd, text, sizeof text);
	close(fd);
	expect_closed(connection, 0);
	end();
}

/* More than the kernel's buffers of both ends can hold. */
enum { MUCH = 1 << 20, MUCH_PARTS = 64 };

static void send_very_much(wk_connection_id connection, void *bytes) {
	struct iovec parts[MUCH_PARTS];
	for (int i = 0; i < MUCH_PARTS; i++)
		parts[i] = (struct iovec){bytes, MUCH};
	CHECK_EQ(ops->send(net, connection, parts, MUCH_PARTS), 0);
}

/* Until the end, in order or not. */
static void hears_only_zeros(int fd) {
	static uint8_t found[65536];
	ssize_t count;
	while ((count = recv(fd, found, sizeof found, 0)) > 0)
		for (ssize_t i = 0; i < count; i++)
			if (found[i] != 0)
				check_failed(__FILE__, __LINE__, "only zeros are heard");
}

TEST(a_peer_that_does_not_read_holds_up_nobody_else) {
	begin(NULL);
	uint64_t seed = 1;
	uint8_t *bytes = malloc(MUCH);
	CHECK(bytes);
	check_random_bytes(&seed, bytes, MUCH);
	int lazy, other;
	wk_connection_id to_lazy = meet(&lazy), to_other = meet(&other);
	send_very_much(to_lazy, bytes);
	CHECK_EQ(ops->send(net, to_lazy, &(struct iovec){bytes, 1}, 1), -EBUSY);
	for (int i = 0; i < 20; i++) {
		peer_writes(other, "ping", 4);
		expect_bytes(to_other, "ping", 4);
		send_all(to_other, "pong", 4);
		CHECK_EQ(expect(WK_NET_SENT).connection, to_other);
		peer_reads(other, "pong", 4);
	}
	peer_writes(lazy, "still here", 10);
	expect_bytes(to_lazy, "still here", 10);
	for (int i = 0; i < MUCH_PARTS; i++) { /* a little at a time, and the seam must send on between */
		for (size_t done = 0; done < MUCH;) {
			uint8_t found[65536];
			size_t most = MUCH - done < sizeof found ? MUCH - done : sizeof found;
			ssize_t count = recv(lazy, found, most, MSG_DONTWAIT);
			CHECK(count > 0 || (count < 0 && errno == EAGAIN));
			if (count > 0) {
				CHECK(memcmp(found, bytes + done, (size_t)count) == 0);
				done += (size_t)count;
			} else {
				batch_count = ops->wait(net, batch, 1, MS);
				batch_next = 0;
				CHECK(batch_count == 0 || (batch_count == 1 && batch->kind == WK_NET_SENT && i >= MUCH_PARTS - 16));
			}
		}
	}
	if (batch_count == 0)
		CHECK_EQ(expect(WK_NET_SENT).connection, to_lazy);
	batch_next = batch_count;
	close(lazy);
	expect_closed(to_lazy, 0);
	close(other);
	expect_closed(to_other, 0);
	free(bytes);
	end();
}

TEST(a_paused_connection_is_not_read_until_it_resumes) {
	begin(NULL);
	int fd, other;
	wk_connection_id connection = meet(&fd), second = meet(&other);
	peer_writes(fd, "before", 6);
	expect_bytes(connection, "before", 6);
	CHECK_EQ(ops->pause(net, connection), 0);
	CHECK_EQ(ops->pause(net, connection), 0);
	expect_nothing_for(0);
	static uint8_t bytes[MUCH];
	uint64_t seed = 2;
	check_random_bytes(&seed, bytes, sizeof bytes);
	size_t written = 0;
	for (int refused = 0; refused < 20 && written < 64 * sizeof bytes;) { /* until the kernel takes no more */
		size_t size = peer_writes_some(fd, bytes + written % MUCH, MUCH - written % MUCH);
		written += size;
		refused = size == 0 ? refused + 1 : 0;
		expect_nothing_for(MS);
	}
	CHECK(written < 64 * sizeof bytes); /* who sends too much feels it */
	send_all(connection, "answers go on", 13);
	CHECK_EQ(expect(WK_NET_SENT).connection, connection);
	peer_reads(fd, "answers go on", 13);
	peer_writes(other, "x", 1);
	expect_bytes(second, "x", 1);
	CHECK_EQ(ops->resume(net, connection), 0);
	CHECK_EQ(ops->resume(net, connection), 0);
	for (size_t done = 0; done < written;) {
		wk_net_event event = expect(WK_NET_RECEIVED);
		CHECK(event.connection == connection && event.size <= written - done);
		for (size_t i = 0; i < event.size; i++, done++)
			if (event.bytes[i] != bytes[done % MUCH])
				check_failed(__FILE__, __LINE__, "what waited comes in its order");
	}
	/* And over again, without a wait between. */
	CHECK_EQ(ops->pause(net, connection), 0);
	CHECK_EQ(ops->resume(net, connection), 0);
	peer_writes(fd, "after", 5);
	expect_bytes(connection, "after", 5);
	CHECK_EQ(ops->pause(net, connection), 0);
	expect_nothing_for(0);
	CHECK_EQ(ops->close(net, connection), 0);
	expect_closed(connection, -ECANCELED);
	close(fd);
	close(other);
	expect_closed(second, 0);
	end();
}

TEST(who_is_paused_when_accepted_is_not_read) {
	begin(NULL);
	int fd = dial();
	peer_writes(fd, "early", 5);
	wk_connection_id connection = expect(WK_NET_ACCEPTED).connection;
	CHECK_EQ(ops->pause(net, connection), 0);
	expect_nothing_for(20 * MS);
	CHECK_EQ(ops->resume(net, connection), 0);
	expect_bytes(connection, "early", 5);
	close(fd);
	expect_closed(connection, 0);
	end();
}

TEST(the_last_words_come_before_the_end) {
	begin(NULL);
	int fd;
	wk_connection_id connection = meet(&fd);
	peer_writes(fd, "last words", 10);
	CHECK_EQ(shutdown(fd, SHUT_WR), 0); /* half-open: taken for the end */
	expect_bytes(connection, "last words", 10);
	expect_closed(connection, 0);
	all_have_gone();
	uint8_t byte;
	CHECK_EQ(recv(fd, &byte, 1, 0), 0);
	close(fd);
	end();
}

static void hears_to_the_end(int fd, const void *bytes, size_t size) {
	peer_reads(fd, bytes, size);
	uint8_t byte;
	CHECK_EQ(recv(fd, &byte, 1, 0), 0); /* and not a failure */
	close(fd);
}

TEST(who_is_finished_hears_all_answers_and_an_end_in_order) {
	begin(NULL);
	static const uint8_t unread[100000];
	int fd, other;
	wk_connection_id connection = meet(&fd), second = meet(&other);
	CHECK_EQ(ops->pause(net, connection), 0);
	expect_nothing_for(0);
	peer_writes(fd, unread, sizeof unread);
	send_all(connection, "an answer", 9);
	CHECK_EQ(expect(WK_NET_SENT).connection, connection);
	CHECK_EQ(ops->finish(net, connection), 0);
	CHECK_EQ(ops->finish(net, connection), 0);
	CHECK_EQ(ops->resume(net, connection), 0);
	expect_bytes(connection, unread, sizeof unread); /* what came nonetheless is received */
	hears_to_the_end(fd, "an answer", 9);
	expect_closed(connection, 0);
	CHECK_EQ(ops->finish(net, connection), -EBADF);
	uint8_t *bytes = calloc(1, MUCH);
	CHECK(bytes);
	send_very_much(second, bytes);
	CHECK_EQ(ops->finish(net, second), -EBUSY);
	CHECK_EQ(ops->close(net, second), 0);
	expect_closed(second, -ECANCELED);
	free(bytes);
	close(other);
	end();
}

TEST(a_reset_is_told_with_its_errno) {
	begin(NULL);
	int fd;
	wk_connection_id connection = meet(&fd);
	peer_resets(fd);
	expect_closed(connection, -ECONNRESET);
	expect_nothing_for(0);
	end();
}

TEST(a_send_to_one_who_has_gone_ends_the_connection) {
	begin(NULL);
	int fd;
	wk_connection_id connection = meet(&fd);
	CHECK_EQ(ops->pause(net, connection), 0); /* so that only the send can notice */
	expect_nothing_for(0);
	close(fd);
	static uint8_t bytes[MUCH];
	wk_net_event event;
	do {
		CHECK_EQ(ops->send(net, connection, &(struct iovec){bytes, sizeof bytes}, 1), 0);
		CHECK(next_event_within(&event, LONG_WAIT));
	} while (event.kind == WK_NET_SENT);
	CHECK_EQ(event.kind, WK_NET_CLOSED);
	CHECK(event.error == -EPIPE || event.error == -ECONNRESET);
	expect_nothing_for(0);
	end();
}

TEST(who_is_closed_while_it_sends_is_told_once) {
	begin(NULL);
	int fd;
	wk_connection_id connection = meet(&fd);
	uint8_t *bytes = calloc(1, MUCH);
	CHECK(bytes);
	send_very_much(connection, bytes);
	expect_nothing_for(0);
	peer_writes(fd, "unread", 6);
	CHECK_EQ(ops->close(net, connection), 0);
	CHECK_EQ(ops->close(net, connection), -EBADF);
	CHECK_EQ(ops->resume(net, connection), -EBADF);
	expect_closed(connection, -ECANCELED);
	memset(bytes, 1, MUCH);
	free(bytes); /* the kernel has let go of it */
	expect_nothing_for(0);
	all_have_gone();
	hears_only_zeros(fd); /* what was sent on its way is as it was */
	close(fd);
	end();
}

TEST(nothing_is_told_of_a_connection_that_its_owner_closed) {
	begin(NULL);
	int fds[2];
	wk_connection_id connections[2] = {meet(&fds[0]), meet(&fds[1])};
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ops->pause(net, connections[i]), 0);
		peer_writes(fds[i], "news", 4);
	}
	expect_nothing_for(0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(ops->resume(net, connections[i]), 0);
	batch_max = 1; /* the other's news may wait in the seam */
	wk_net_event event = expect(WK_NET_RECEIVED);
	int other = event.connection == connections[0];
	send_all(connections[other], "x", 1); /* and so may this */
	CHECK_EQ(ops->close(net, connections[other]), 0);
	expect_closed(connections[other], -ECANCELED);
	/* A close beside its peer's end: once. */
	close(fds[!other]);
	nap_ms(1);
	CHECK_EQ(ops->close(net, connections[!other]), 0);
	expect_closed(connections[!other], -ECANCELED);
	expect_nothing_for(10 * MS);
	close(fds[other]);
	end();
}

/* The socket of this process that is connected to that port, but `not_this`. */
static int our_end(uint16_t port, int not_this) {
	for (int fd = 0; fd < 1024; fd++) {
		struct sockaddr_in address;
		socklen_t size = sizeof address;
		if (fd != not_this && getpeername(fd, (struct sockaddr *)&address, &size) == 0 &&
		    ntohs(address.sin_port) == port)
			return fd;
	}
	return -1;
}

TEST(small_sends_do_not_wait_and_dead_peers_are_noticed) {
	begin(NULL);
	int fd;
	wk_connection_id connection = meet(&fd);
	wk_net_address peer;
	CHECK_EQ(ops->peer(net, connection, &peer), 0);
	int own = our_end(peer.port, fd);
	CHECK(own >= 0);
	static const int options[][3] = {
	    {IPPROTO_TCP, TCP_NODELAY, 1},    {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 60},
	    {IPPROTO_TCP, TCP_KEEPINTVL, 10}, {IPPROTO_TCP, TCP_KEEPCNT, 6}, {IPPROTO_TCP, TCP_USER_TIMEOUT, 120000},
	};
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		int value;
		socklen_t size = sizeof value;
		CHECK_EQ(getsockopt(own, options[i][0], options[i][1], &value, &size), 0);
		CHECK_EQ(value, options[i][2]);
	}
	close(fd);
	expect_closed(connection, 0);
	end();
}

/* Nothing that is sent to it arrives, and it says nothing: as if its machine had lost its power. */
static void vanish(int fd) {
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = {.len = 1, .filter = &nothing};
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
}

TEST(cluster_rule_9_a_peer_whose_machine_vanished_is_noticed) {
	begin(&(wk_net_options){.peer_timeout_s = 2});
	int idle_fd, fd;
	wk_connection_id idle = meet(&idle_fd), connection = meet(&fd);
	vanish(idle_fd);
	vanish(fd);
	send_all(connection, "are you there?", 14);
	CHECK_EQ(expect(WK_NET_SENT).connection, connection);
	for (int told = 0; told < 2; told++) {
		wk_net_event event = expect(WK_NET_CLOSED);
		CHECK(event.connection == idle || event.connection == connection);
		CHECK_EQ(event.error, -ETIMEDOUT);
	}
	close(idle_fd);
	close(fd);
	end();
}

TEST(a_peer_may_be_silent_for_a_day) {
	begin(&(wk_net_options){.peer_timeout_s = 86400});
	int fd;
	wk_connection_id connection = meet(&fd);
	send_all(connection, "good morning", 12);
	CHECK_EQ(expect(WK_NET_SENT).connection, connection);
	close(fd);
	CHECK_EQ(expect(WK_NET_CLOSED).connection, connection);
	end();
}

TEST(nothing_is_left_of_what_is_destroyed) {
	begin(NULL);
	uint8_t *bytes = calloc(1, MUCH);
	CHECK(bytes);
	int fds[8], waiting = -1;
	wk_connection_id connection = 0, ignored;
	for (int i = 0; i < 8; i++)
		connection = meet(&fds[i]);
	send_very_much(connection, bytes);
	CHECK_EQ(ops->connect(net, "127.0.0.1", bound.port, 0, &ignored), 0);
	waiting = dial();
	peer_writes(fds[0], "unread", 6);
	CHECK_EQ(ops->pause(net, connection), 0);
	ops->destroy(net);
	memset(bytes, 1, MUCH);
	free(bytes);
	close(waiting);
	for (int i = 0; i < 8; i++) {
		hears_only_zeros(fds[i]);
		close(fds[i]);
	}
	CHECK_EQ(open_fds(), fds_before);
	begin_quietly(NULL); /* one that never did anything */
	end();
}

static void *destroy_it(void *context) {
	ops->destroy(net);
	return context;
}

TEST(another_thread_may_destroy_what_the_owner_left) {
	begin(NULL);
	uint8_t *bytes = calloc(1, MUCH);
	CHECK(bytes);
	int fd;
	wk_connection_id connection = meet(&fd);
	send_very_much(connection, bytes);
	expect_nothing_for(0);
	peer_writes(fd, "unread", 6);
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, destroy_it, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	memset(bytes, 1, MUCH);
	free(bytes);
	hears_only_zeros(fd);
	close(fd);
	CHECK_EQ(open_fds(), fds_before);
}

TEST(impossible_options_are_refused) {
	static const wk_net_options impossible[] = {{.connections_max = UINT32_MAX}, {.receive_size = UINT32_MAX},
	                                            {.receive_buffers = 3},          {.backlog = UINT32_MAX},
	                                            {.peer_timeout_s = 1},           {.peer_timeout_s = 86401}};
	for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
		int before = open_fds();
		CHECK_EQ(new_net(&impossible[i], &net), -EINVAL);
		CHECK_EQ(open_fds(), before);
	}
}

static void net_conformance_run(int (*implementation)(const wk_net_options *, wk_net **)) {
	new_net = implementation;
	RUN(a_connection_is_accepted_heard_answered_and_closed);
	RUN(who_calls_on_a_closed_connection_is_told_so);
	RUN(a_send_of_nothing_is_sent);
	RUN(every_part_of_a_send_comes_in_its_place);
	RUN(a_peer_that_does_not_read_holds_up_nobody_else);
	RUN(a_paused_connection_is_not_read_until_it_resumes);
	RUN(who_is_paused_when_accepted_is_not_read);
	RUN(the_last_words_come_before_the_end);
	RUN(who_is_finished_hears_all_answers_and_an_end_in_order);
	RUN(a_reset_is_told_with_its_errno);
	RUN(a_send_to_one_who_has_gone_ends_the_connection);
	RUN(who_is_closed_while_it_sends_is_told_once);
	RUN(nothing_is_told_of_a_connection_that_its_owner_closed);
	RUN(small_sends_do_not_wait_and_dead_peers_are_noticed);
	RUN(cluster_rule_9_a_peer_whose_machine_vanished_is_noticed);
	RUN(a_peer_may_be_silent_for_a_day);
	RUN(nothing_is_left_of_what_is_destroyed);
	RUN(another_thread_may_destroy_what_the_owner_left);
	RUN(impossible_options_are_refused);
	net_calls_run();
	net_waits_run();
	net_crowd_run();
	net_door_run();
	RUN(no_order_of_events_confuses_it);
}
#endif
