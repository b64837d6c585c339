/* net_door.h: what every implementation of the seam to sockets lets a crowd at the door take. Part of net_conformance.h. */
#ifndef NET_DOOR_H
#define NET_DOOR_H
#include "io/net_accept.h"
#include "net_peers.h"

enum { DOOR_CROWD = 3 * WK_NET_ACCEPTS_AT_ONCE + 5 };

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
		CHECK(batch_count <= WK_NET_ACCEPTS_AT_ONCE);
		for (int i = 0; i < batch_count; i++)
			CHECK_EQ(batch[i].kind, WK_NET_ACCEPTED);
		inside += batch_count;
	}
	close_all(fds, DOOR_CROWD);
	end();
}

TEST(a_crowd_is_sent_away_a_few_at_a_time) {
	begin(&(wk_net_options){.connections_max = 1});
	int fds[DOOR_CROWD], inside, gone = 0;
	meet(&inside);
	accept_failures_are_known = true;
	for (int i = 0; i < DOOR_CROWD; i++)
		fds[i] = dial();
	while (gone < DOOR_CROWD) {
		CHECK((batch_count = ops->wait(net, batch, 64, 0)) >= 0);
		uint8_t byte;
		int before = gone;
		for (gone = 0; gone < DOOR_CROWD && recv(fds[gone], &byte, 1, MSG_DONTWAIT) == 0;)
			gone++;
		CHECK(gone - before <= WK_NET_ACCEPTS_AT_ONCE);
	}
	accept_failures_are_known = false;
	close_all(fds, DOOR_CROWD);
	close(inside);
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
		CHECK(door()->rest_until <= now + WK_NET_REST_NS_MAX);
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
	uint64_t until = now_ns() + 200 * MS;
	door()->rest_until = until;
	third = dial();
	peer_writes(first, "x", 1);
	expect_bytes(connection, "x", 1); /* who is in is served */
	close(second);
	expect_closed(other, 0); /* no place was missing: that there is one more changes nothing */
	wk_net_event event = expect(WK_NET_ACCEPTED);
	CHECK(event.connection != other && now_ns() >= until);
	close(first);
	close(third);
	end();
}

static void net_door_run(void) {
	RUN(a_crowd_is_let_in_a_few_at_a_time);
	RUN(a_crowd_is_sent_away_a_few_at_a_time);
	RUN(behind_each_few_the_door_rests);
	RUN(nobody_comes_in_while_the_door_rests);
}
#endif
