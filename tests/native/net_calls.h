/* net_calls.h: what every implementation of the seam to sockets does with addresses, and calls out. Part of net_conformance.h. */
#ifndef NET_CALLS_H
#define NET_CALLS_H
#include "net_peers.h"

TEST(a_call_out_is_answered) {
	begin(NULL);
	wk_connection_id out, in = 0;
	CHECK_EQ(ops->connect(net, "127.0.0.1", bound.port, 5, &out), 0);
	for (int told = 0; told < 2; told++) { /* both ends are ours */
		wk_net_event event;
		CHECK(next_event_within(&event, LONG_WAIT));
		CHECK(event.kind == WK_NET_ACCEPTED || event.kind == WK_NET_CONNECTED);
		if (event.kind == WK_NET_ACCEPTED)
			in = event.connection;
		else
			CHECK(event.connection == out && event.tag == 5);
	}
	CHECK(in != 0 && in != out);
	wk_net_address peer;
	CHECK_EQ(ops->peer(net, out, &peer), 0);
	CHECK(strcmp(peer.host, "127.0.0.1") == 0 && peer.port == bound.port);
	send_all(out, "hello", 5);
	for (int told = 0; told < 2; told++) {
		wk_net_event event;
		CHECK(next_event_within(&event, LONG_WAIT));
		if (event.kind == WK_NET_SENT)
			CHECK_EQ(event.connection, out);
		else
			CHECK(event.kind == WK_NET_RECEIVED && event.connection == in && event.size == 5);
	}
	CHECK_EQ(ops->close(net, in), 0);
	expect_closed(in, -ECANCELED);
	expect_closed(out, 0);
	end();
}

TEST(a_call_that_nobody_takes_is_closed) {
	begin(NULL);
	wk_connection_id connection;
	ops->stop_listening(net);
	CHECK_EQ(ops->connect(net, "127.0.0.1", bound.port, 5, &connection), 0);
	CHECK_EQ(ops->send(net, connection, &(struct iovec){"x", 1}, 1), -ENOTCONN);
	wk_net_event event = expect(WK_NET_CLOSED);
	CHECK_EQ(event.connection, connection);
	CHECK_EQ(event.tag, 5);
	CHECK_EQ(event.error, -ECONNREFUSED);
	CHECK_EQ(ops->connect(net, "127.0.0.1", bound.port, 5, &connection), 0);
	CHECK_EQ(ops->close(net, connection), 0);
	expect_closed(connection, -ECANCELED);
	int error = ops->connect(net, "no-such-host.invalid", 1, 0, &connection);
	CHECK(error == -ENOENT || error == -EAGAIN); /* the second where there is no resolver to ask */
	expect_nothing_for(0);
	end();
}

TEST(addresses_are_found_by_number_and_by_name) {
	begin(NULL);
	wk_net_address second, peer, own;
	CHECK_EQ(ops->listen(net, "127.0.0.1", bound.port, &second), -EADDRINUSE);
	CHECK_EQ(ops->listen(net, "192.0.2.1", 0, &second), -EADDRNOTAVAIL); /* reserved for documents */
	int error = ops->listen(net, "no-such-host.invalid", 0, &second);
	CHECK(error == -ENOENT || error == -EAGAIN);
	int fd;
	wk_connection_id connection = meet(&fd);
	struct sockaddr_in address;
	socklen_t size = sizeof address;
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	CHECK_EQ(ops->peer(net, connection, &peer), 0);
	CHECK(strcmp(peer.host, "127.0.0.1") == 0 && peer.port == ntohs(address.sin_port));
	close(fd);
	expect_closed(connection, 0);
	/* Everywhere: IPv4 is shown as itself. */
	CHECK_EQ(ops->listen(net, NULL, 0, &second), 0);
	fd = dial_at("127.0.0.1", second.port);
	CHECK(fd >= 0);
	connection = expect(WK_NET_ACCEPTED).connection;
	CHECK_EQ(ops->peer(net, connection, &peer), 0);
	CHECK(strcmp(peer.host, "127.0.0.1") == 0);
	close(fd);
	expect_closed(connection, 0);
	CHECK_EQ(ops->listen(net, "localhost", 0, &second), 0);
	CHECK(strcmp(second.host, "127.0.0.1") == 0 || strcmp(second.host, "::1") == 0);
	error = ops->listen(net, "::1", 0, &own);
	if (error != -EADDRNOTAVAIL && error != -EAFNOSUPPORT) { /* this machine has IPv6 */
		CHECK_EQ(error, 0);
		CHECK(strcmp(own.host, "::1") == 0 && own.port != 0);
		fd = dial_at("::1", own.port);
		CHECK(fd >= 0);
		connection = expect(WK_NET_ACCEPTED).connection;
		CHECK_EQ(ops->peer(net, connection, &peer), 0);
		CHECK(strcmp(peer.host, "::1") == 0);
		close(fd);
		expect_closed(connection, 0);
	}
	/* A name with several addresses: the listener is at one of them. */
	CHECK_EQ(ops->connect(net, "localhost", bound.port, 0, &connection), 0);
	wk_net_event event;
	do
		CHECK(next_event_within(&event, LONG_WAIT));
	while (event.kind != WK_NET_CONNECTED);
	CHECK_EQ(event.connection, connection);
	end();
}

TEST(a_bound_socket_refuses_until_it_listens) {
	begin_quietly(NULL);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&address, size), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	CHECK(dial_at("127.0.0.1", ntohs(address.sin_port)) < 0);
	CHECK_EQ(ops->listen(net, "127.0.0.1", ntohs(address.sin_port), &bound), -EADDRINUSE);
	CHECK_EQ(ops->listen_on(net, -1, &bound), -EBADF);
	expect_nothing_for(0);
	CHECK_EQ(ops->listen_on(net, fd, &bound), 0);
	CHECK(strcmp(bound.host, "127.0.0.1") == 0 && bound.port == ntohs(address.sin_port));
	int peer;
	wk_connection_id connection = meet(&peer);
	close(peer);
	expect_closed(connection, 0);
	expect_nothing_for(0); /* an accept there does not wait */
	end();
}

static void net_calls_run(void) {
	RUN(a_call_out_is_answered);
	RUN(a_call_that_nobody_takes_is_closed);
	RUN(addresses_are_found_by_number_and_by_name);
	RUN(a_bound_socket_refuses_until_it_listens);
}
#endif
