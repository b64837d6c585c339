/* net_door.h: what every implementation of the seam to sockets lets a crowd at the door take. Part of net_conformance.h. */
#ifndef NET_DOOR_H
#define NET_DOOR_H
#include "child.h"
#include "io/net_door.h"
#include "net_crowd.h"
#include "refused_calls.h"
#include <netinet/tcp.h>

enum { DOOR_CROWD = 3 * WK_NET_DOOR_AT_ONCE + 5 };

static wk_net_base *door(void) {
	return (wk_net_base *)net;
}

static void close_all(const int *fds, int count) {
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

TEST(a_crowd_is_let_in_a_few_at_a_time) {
	begin(NULL);
	int fds[DOOR_CROWD], inside = 0;
	for (int i = 0; i < DOOR_CROWD; i++)
		fds[i] = dial();
	while (inside < DOOR_CROWD) {
		CHECK((batch_count = ops->wait(net, batch, 64, LONG_WAIT)) > 0);
		CHECK(batch_count <= WK_NET_DOOR_AT_ONCE);
		for (int i = 0; i < batch_count; i++)
			CHECK_EQ(batch[i].kind, WK_NET_ACCEPTED);
		inside += batch_count;
	}
	close_all(fds, DOOR_CROWD);
	end();
}

/* How many wait at the door: the kernel tells it of a socket that listens. */
static int outside(void) {
	struct tcp_info info;
	socklen_t size = sizeof info;
	CHECK_EQ(getsockopt(door()->listeners[0], IPPROTO_TCP, TCP_INFO, &info, &size), 0);
	return (int)info.tcpi_unacked;
}

TEST(a_crowd_is_sent_away_a_few_at_a_time) {
	begin(&(wk_net_options){.connections_max = 1});
	int fds[DOOR_CROWD], inside, left = DOOR_CROWD;
	size_t told = 0;
	meet(&inside);
	for (int i = 0; i < DOOR_CROWD; i++)
		fds[i] = dial();
	for (uint64_t until = now_ns() + LONG_WAIT; outside() < left;) /* the kernel may still be about it */
		CHECK(now_ns() < until);
	for (uint64_t until = now_ns() + LONG_WAIT; left > 0 || told < DOOR_CROWD; left = outside()) {
		CHECK(now_ns() < until);
		CHECK((batch_count = ops->wait(net, batch, 64, left > 0 ? 0 : LONG_WAIT)) >= 0);
		CHECK(outside() >= left - WK_NET_DOOR_AT_ONCE);
		for (int i = 0; i < batch_count; i++) {
			CHECK(batch[i].kind == WK_NET_ACCEPT_FAILED && batch[i].error == -EMFILE);
			told += batch[i].size;
		}
	}
	CHECK_EQ(told, DOOR_CROWD);
	uint8_t byte;
	for (int i = 0; i < DOOR_CROWD; i++)
		CHECK_EQ(recv(fds[i], &byte, 1, 0), 0);
	close_all(fds, DOOR_CROWD);
	close(inside);
	end();
}

/* So many come in and go again while the door rests: their ends are told, and their sockets wait. */
static void a_crowd_leaves(int count) {
	int fds[20 * WK_NET_DOOR_AT_ONCE];
	for (int i = 0; i < count; i++)
		meet(&fds[i]);
	door()->rest_until = now_ns() + 2 * LONG_WAIT;
	close_all(fds, count);
	for (int i = 0; i < count; i++)
		expect(WK_NET_CLOSED);
	CHECK_EQ(door()->leaving.count, count);
}

static int dial_and_wait_outside(void) {
	int fd = dial();
	for (uint64_t until = now_ns() + LONG_WAIT; outside() == 0;) /* the kernel may still be about it */
		CHECK(now_ns() < until);
	return fd;
}

/* And who comes meanwhile is let in before the last of them has gone. */
TEST(a_crowd_goes_a_few_at_a_time) {
	begin(NULL);
	a_crowd_leaves(20 * WK_NET_DOOR_AT_ONCE);
	int newcomer = dial_and_wait_outside();
	door()->rest_until = 1; /* long ago */
	expect(WK_NET_ACCEPTED);
	CHECK(door()->leaving.count > 0);
	for (uint32_t left; (left = door()->leaving.count) > 0;) {
		expect_nothing_for(0);
		CHECK(left - door()->leaving.count <= WK_NET_DOOR_AT_ONCE);
	}
	close(newcomer);
	end();
}

TEST(where_descriptors_are_short_all_who_went_are_closed) {
	begin(NULL);
	a_crowd_leaves(20 * WK_NET_DOOR_AT_ONCE);
	int newcomer = dial_and_wait_outside();
	rlim_t before = limit_descriptors(3);
	door()->rest_until = 1;
	CHECK_EQ(expect(WK_NET_ACCEPT_FAILED).error, -EMFILE);
	limit_descriptors(before);
	CHECK_EQ(door()->leaving.count, 0);
	accept_failures_are_known = true;
	expect(WK_NET_ACCEPTED);
	accept_failures_are_known = false;
	close(newcomer);
	end();
}

/* How long depends on how long accepting took, which a busy machine stretches; but not every time. */
TEST(behind_each_few_the_door_rests) {
	begin(NULL);
	bool rested = false;
	int fds[50];
	for (int i = 0; i < 50; i++) {
		meet(&fds[i]);
		uint64_t now = now_ns();
		rested = rested || door()->rest_until > now;
	}
	CHECK(rested);
	close_all(fds, 50);
	end();
}

TEST(nobody_comes_in_while_the_door_rests) {
	begin(NULL);
	int first, second, third;
	wk_connection_id connection = meet(&first), other = meet(&second);
	door()->rest_until = now_ns() + 2 * LONG_WAIT;
	third = dial();
	close(second);
	peer_writes(first, "x", 1);
	for (unsigned told = 0; told != (1 << WK_NET_RECEIVED | 1 << WK_NET_CLOSED);) { /* who is in is served */
		wk_net_event event;
		CHECK(next_event_within(&event, LONG_WAIT));
		CHECK_EQ(event.connection, event.kind == WK_NET_RECEIVED ? connection : other);
		told |= 1u << event.kind;
	}
	expect_nothing_for(2 * MS);
	CHECK_EQ(outside(), 1);
	CHECK_EQ(door()->leaving.count, 1);
	uint64_t until = now_ns() + 20 * MS;
	door()->rest_until = until;
	expect(WK_NET_ACCEPTED);
	CHECK(now_ns() >= until);
	close(first);
	close(third);
	end();
}

/* Where descriptors are short whoever goes is closed at once, and somebody comes in for him. */
TEST(who_goes_lets_somebody_in_where_descriptors_were_short) {
	begin(NULL);
	int first, second;
	wk_connection_id connection = meet(&first);
	door()->rest_until = now_ns() + 2 * LONG_WAIT;
	door()->ran_short = true;
	second = dial();
	expect_nothing_for(2 * MS);
	close(first);
	expect_closed(connection, 0);
	expect(WK_NET_ACCEPTED);
	/* What was short is not short any more: who goes now opens nothing. */
	expect_nothing_for(2 * MS);
	CHECK(!door()->ran_short);
	close(second);
	end();
}

TEST(who_listens_again_while_the_door_rested_lets_people_in) {
	begin(NULL);
	int first, second;
	meet(&first);
	expect_nothing_for(2 * MS); /* the listener is waited for */
	door()->rest_until = now_ns() + 2 * LONG_WAIT;
	ops->stop_listening(net);
	CHECK_EQ(ops->listen(net, "127.0.0.1", bound.port, &bound), 0);
	meet(&second);
	close(first);
	close(second);
	end();
}

static void serve_behind_a_door_that_may_not_be_opened(void) {
	static const long call_numbers[] = {SYS_accept4};
	int inside;
	begin(NULL);
	wk_connection_id connection = meet(&inside);
	dial();
	if (refuse_calls(call_numbers, 1, EPERM) != 0)
		exit(77);
	CHECK_EQ(expect(WK_NET_ACCEPT_FAILED).error, -EPERM);
	CHECK(door()->ran_short);
	accept_failures_are_known = true;
	peer_writes(inside, "x", 1);
	expect_bytes(connection, "x", 1);
}

/* As a security module may say it, of each of those who wait: nothing spins. */
TEST(a_door_that_may_not_be_opened_is_told_and_tried_later) {
	in_a_child(serve_behind_a_door_that_may_not_be_opened);
	CHECK(true);
}

static void net_door_run(void) {
	RUN(a_crowd_is_let_in_a_few_at_a_time);
	RUN(a_crowd_is_sent_away_a_few_at_a_time);
	RUN(a_crowd_goes_a_few_at_a_time);
	RUN(where_descriptors_are_short_all_who_went_are_closed);
	RUN(behind_each_few_the_door_rests);
	RUN(nobody_comes_in_while_the_door_rests);
	RUN(who_goes_lets_somebody_in_where_descriptors_were_short);
	RUN(a_door_that_may_not_be_opened_is_told_and_tried_later);
	RUN(who_listens_again_while_the_door_rested_lets_people_in);
}
#endif
