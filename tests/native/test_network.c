/* test_network.c: the simulated network keeps the rules of sockets (io/net.h), whatever goes wrong on it. */
/* ctest labels: one-thread simulated */
#include <errno.h>

#include "check.h"
#include "sim/network.h"

enum { EVENTS_MAX = 64, HEARD_MAX = 1 << 20, PORT = 3181, BOOKIE = 1, CLIENT = 2, TAG = 77 };

#define MS 1000000ull
#define S 1000000000ull

/* A process with one connection, and what it was told of it. */
typedef struct process {
	wk_net *net;
	wk_connection_id connection;
	uint8_t heard[HEARD_MAX];
	size_t heard_size;
	uint32_t opened, sent, closed;
	int error;
} process;

static wk_network *network;
static process bookie, client;

static void hear(process *p) {
	wk_net_event events[EVENTS_MAX];
	int count = p->net->operations->wait(p->net, events, EVENTS_MAX, 0);
	for (int i = 0; i < count; i++) {
		const wk_net_event *event = &events[i];
		if (event->kind == WK_NET_ACCEPTED || event->kind == WK_NET_CONNECTED) {
			p->connection = event->connection;
			p->opened++;
			continue;
		}
		CHECK_EQ(event->connection, p->connection);
		CHECK(p->closed == 0); /* nothing behind the end */
		if (event->kind == WK_NET_RECEIVED) {
			CHECK(p->heard_size + event->size <= HEARD_MAX);
			memcpy(p->heard + p->heard_size, event->bytes, event->size);
			p->heard_size += event->size;
		} else if (event->kind == WK_NET_SENT) {
			p->sent++;
		} else {
			CHECK_EQ(event->kind, WK_NET_CLOSED);
			p->closed++;
			p->error = event->error;
		}
	}
}

static void run(uint64_t ns) {
	uint64_t until_ns = wk_network_now(network) + ns;
	for (;;) {
		while (bookie.net != NULL && wk_network_tells(bookie.net))
			hear(&bookie);
		while (client.net != NULL && wk_network_tells(client.net))
			hear(&client);
		uint64_t next_ns = wk_network_next(network), now_ns = wk_network_now(network);
		if (next_ns > until_ns)
			break;
		wk_network_advance(network, next_ns > now_ns ? next_ns : now_ns);
	}
	wk_network_advance(network, until_ns);
}

static void begin_process(process *p, uint32_t host) {
	wk_net_address bound;
	memset(p, 0, sizeof *p);
	p->net = wk_network_endpoint(network, host);
	if (host == BOOKIE)
		CHECK_EQ(p->net->operations->listen(p->net, "", PORT, &bound), 0);
}

static void call(void) {
	char host[64];
	wk_network_address(BOOKIE, host);
	CHECK_EQ(client.net->operations->connect(client.net, host, PORT, TAG, &client.connection), 0);
}

static void begin(uint64_t seed) {
	network = wk_network_new(seed);
	begin_process(&bookie, BOOKIE);
	begin_process(&client, CLIENT);
}

static void begin_connected(uint64_t seed) {
	begin(seed);
	call();
	run(10 * MS);
	CHECK_EQ(bookie.opened, 1);
	CHECK_EQ(client.opened, 1);
}

static void end_process(process *p) {
	if (p->net != NULL)
		p->net->operations->destroy(p->net);
	p->net = NULL;
}

static void end(void) {
	end_process(&bookie);
	end_process(&client);
	wk_network_free(network);
}

static int send_bytes(process *p, const void *bytes, size_t size) {
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
	return p->net->operations->send(p->net, p->connection, &part, 1);
}

static const uint8_t *pattern(void) {
	static uint8_t bytes[HEARD_MAX];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 31 >> 3);
	return bytes;
}

TEST(what_is_sent_comes_whole_and_in_order) {
	for (uint64_t seed = 0; seed < 20; seed++) {
		begin_connected(seed);
		wk_network_set_window(network, 1 + (size_t)(seed * 7919));
		CHECK_EQ(send_bytes(&client, pattern(), 200000 % (1 + seed * 20000)), 0);
		run(100 * S);
		CHECK_EQ(client.sent, 1);
		CHECK_EQ(bookie.heard_size, 200000 % (1 + seed * 20000));
		CHECK(memcmp(bookie.heard, pattern(), bookie.heard_size) == 0);
		end();
	}
}

TEST(calls_are_refused_as_by_a_kernel) {
	begin(1);
	call();
	CHECK_EQ(send_bytes(&client, "a", 1), -ENOTCONN);
	run(10 * MS);
	CHECK_EQ(send_bytes(&client, "a", 1), 0);
	CHECK_EQ(send_bytes(&client, "b", 1), -EBUSY);
	CHECK_EQ(client.net->operations->finish(client.net, client.connection), -EBUSY);
	CHECK_EQ(client.net->operations->close(client.net, client.connection), 0);
	CHECK_EQ(send_bytes(&client, "c", 1), -EBADF);
	CHECK_EQ(client.net->operations->close(client.net, client.connection), -EBADF);
	CHECK_EQ(client.net->operations->pause(client.net, 99), -EBADF);
	run(10 * MS);
	CHECK_EQ(client.closed, 1);
	CHECK_EQ(client.error, -ECANCELED);
	CHECK_EQ(bookie.closed, 1);
	end();
}

TEST(who_does_not_read_holds_up_the_sender) {
	begin_connected(1);
	wk_network_set_window(network, 1000);
	CHECK_EQ(bookie.net->operations->pause(bookie.net, bookie.connection), 0);
	CHECK_EQ(send_bytes(&client, pattern(), 5000), 0);
	run(S);
	CHECK_EQ(client.sent, 0);
	CHECK(bookie.heard_size <= 1000);
	CHECK_EQ(bookie.net->operations->resume(bookie.net, bookie.connection), 0);
	run(S);
	CHECK_EQ(client.sent, 1);
	CHECK_EQ(bookie.heard_size, 5000);
	end();
}

TEST(a_cut_holds_one_direction_back_and_loses_nothing) {
	begin_connected(1);
	wk_network_cut(network, CLIENT, BOOKIE);
	CHECK_EQ(send_bytes(&client, "to the bookie", 13), 0);
	CHECK_EQ(send_bytes(&bookie, "to the client", 13), 0);
	run(S);
	CHECK_EQ(bookie.heard_size, 0);
	CHECK_EQ(client.heard_size, 13);
	wk_network_heal(network);
	run(S);
	CHECK_EQ(bookie.heard_size, 13);
	CHECK_EQ(bookie.closed + client.closed, 0);
	end();
}

TEST(who_hears_nothing_for_the_peer_timeout_closes) {
	begin_connected(1);
	wk_network_set_peer_timeout(network, 10 * S);
	wk_network_cut(network, CLIENT, BOOKIE);
	run(9 * S);
	CHECK_EQ(bookie.closed + client.closed, 0);
	run(2 * S);
	CHECK_EQ(bookie.error, -ETIMEDOUT);
	CHECK_EQ(client.error, -ETIMEDOUT);
	end();
}

TEST(a_process_that_ends_cuts_what_it_sends) {
	begin_connected(1);
	wk_network_set_window(network, 1000);
	CHECK_EQ(bookie.net->operations->pause(bookie.net, bookie.connection), 0);
	CHECK_EQ(send_bytes(&client, pattern(), 5000), 0);
	run(S);
	end_process(&client);
	CHECK_EQ(bookie.net->operations->resume(bookie.net, bookie.connection), 0);
	run(S);
	CHECK(bookie.heard_size > 0 && bookie.heard_size <= 1000);
	CHECK_EQ(bookie.closed, 1);
	CHECK_EQ(bookie.error, 0);
	end();
}

TEST(a_machine_without_power_tells_nobody_until_it_is_asked_again) {
	begin_connected(1);
	wk_network_power_cut(bookie.net);
	end_process(&bookie);
	run(S);
	CHECK_EQ(client.closed, 0);
	CHECK_EQ(send_bytes(&client, "is anybody there", 16), 0);
	run(S);
	CHECK_EQ(client.closed, 0);
	begin_process(&bookie, BOOKIE);
	run(S);
	CHECK_EQ(client.closed, 1);
	CHECK_EQ(client.error, -ECONNRESET);
	CHECK_EQ(bookie.opened, 0);
	end();
}

TEST(who_connects_to_nobody_is_refused_and_to_a_dead_machine_waits) {
	begin(1);
	wk_network_refuse(network, BOOKIE);
	call();
	run(S);
	CHECK_EQ(client.error, -ECONNREFUSED);
	end();
	begin(1);
	wk_network_power_cut(bookie.net);
	end_process(&bookie);
	call();
	run(20 * S);
	CHECK_EQ(client.opened + client.closed, 0);
	begin_process(&bookie, BOOKIE);
	run(2 * S);
	CHECK_EQ(client.opened, 1);
	end();
}

TEST(a_reset_loses_what_was_not_read_and_nothing_comes_behind_it) {
	uint32_t one_end = 0;
	for (uint64_t seed = 0; seed < 40; seed++) {
		begin_connected(seed);
		CHECK_EQ(send_bytes(&client, pattern(), 3000), 0);
		wk_network_advance(network, wk_network_now(network));
		wk_network_reset(network, CLIENT, BOOKIE);
		run(MS);
		one_end += client.closed + bookie.closed == 1;
		if (client.closed + bookie.closed > 0)
			CHECK_EQ(bookie.heard_size, 0);
		CHECK(client.closed == 0 || client.error == -ECONNRESET);
		if (client.closed == 0 && client.sent > 0 && bookie.closed > 0) { /* it learns when it sends */
			CHECK_EQ(send_bytes(&client, "more", 4), 0);
			run(S);
			CHECK_EQ(client.error, -ECONNRESET);
		}
		end();
	}
	CHECK(one_end > 0);
}

TEST(nothing_is_told_of_a_connection_that_its_owner_closed) {
	for (uint64_t seed = 0; seed < 20; seed++) {
		begin_connected(seed);
		CHECK_EQ(send_bytes(&bookie, pattern(), 100000), 0);
		run(seed * 50000);
		size_t heard = client.heard_size;
		CHECK_EQ(client.net->operations->close(client.net, client.connection), 0);
		run(S);
		CHECK_EQ(client.heard_size, heard);
		CHECK_EQ(client.closed, 1);
		CHECK_EQ(client.error, -ECANCELED);
		CHECK_EQ(bookie.closed, 1);
		end();
	}
}

TEST(the_same_seed_does_the_same) {
	uint64_t times[2][8];
	for (int round = 0; round < 2; round++) {
		begin_connected(5);
		CHECK_EQ(send_bytes(&client, pattern(), 300000), 0);
		for (uint64_t i = 0; i < 8; i++) {
			times[round][i] = wk_network_next(network);
			run(i * 10000);
			times[round][i] += bookie.heard_size;
		}
		end();
	}
	CHECK(memcmp(times[0], times[1], sizeof times[0]) == 0);
}

int main(void) {
	RUN(what_is_sent_comes_whole_and_in_order);
	RUN(calls_are_refused_as_by_a_kernel);
	RUN(who_does_not_read_holds_up_the_sender);
	RUN(a_cut_holds_one_direction_back_and_loses_nothing);
	RUN(who_hears_nothing_for_the_peer_timeout_closes);
	RUN(a_process_that_ends_cuts_what_it_sends);
	RUN(a_machine_without_power_tells_nobody_until_it_is_asked_again);
	RUN(who_connects_to_nobody_is_refused_and_to_a_dead_machine_waits);
	RUN(a_reset_loses_what_was_not_read_and_nothing_comes_behind_it);
	RUN(nothing_is_told_of_a_connection_that_its_owner_closed);
	RUN(the_same_seed_does_the_same);
	return check_done();
}
