/*
 * net_waits.h: what ends a wait of the seam to sockets: time, wakes, descriptors that are watched. Part of
 * net_conformance.h.
 */
#ifndef NET_WAITS_H
#define NET_WAITS_H
#include "net_peers.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

TEST(a_wait_ends_in_time) {
	begin(NULL);
	uint64_t before = now_ns();
	CHECK_EQ(ops->wait(net, batch, 1, 30 * MS + 1), 0);
	CHECK(now_ns() - before >= 30 * MS + 1);
	CHECK_EQ(ops->wait(net, batch, 1, 0), 0);
	CHECK_EQ(ops->wait(net, batch, 1, 1000), 0);
	end();
}

static atomic_uint asked, answers;

static void *call_and_await(void *context) {
	for (unsigned i = 0; i < 2000 / CHECK_PART; i++) {
		unsigned mine = atomic_fetch_add(&asked, 1) + 1;
		ops->wake(net);
		while (atomic_load(&answers) < mine)
			sched_yield();
	}
	return context;
}

TEST(a_wake_is_never_lost) {
	begin(NULL);
	pthread_t threads[3];
	atomic_store(&asked, 0);
	atomic_store(&answers, 0);
	ops->wake(net); /* before the wait: that ends at once */
	CHECK_EQ(ops->wait(net, batch, 1, UINT64_MAX), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, call_and_await, NULL), 0);
	unsigned all = 3 * (2000 / CHECK_PART);
	while (atomic_load(&answers) < all) {
		CHECK_EQ(ops->wait(net, batch, 1, UINT64_MAX), 0);
		atomic_store(&answers, atomic_load(&asked));
	}
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	end();
}

TEST(a_wake_comes_through_a_crowd_of_events) {
	begin(NULL);
	int watched = eventfd(1, 0);
	CHECK_EQ(ops->watch(net, watched, 9), 0); /* always readable */
	pthread_t thread;
	atomic_store(&asked, 0);
	atomic_store(&answers, 0);
	CHECK_EQ(pthread_create(&thread, NULL, call_and_await, NULL), 0);
	while (atomic_load(&answers) < 2000 / CHECK_PART) {
		CHECK(ops->wait(net, batch, 1, UINT64_MAX) >= 0);
		atomic_store(&answers, atomic_load(&asked));
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	close(watched);
	end();
}

TEST(a_watched_descriptor_is_told_while_it_is_readable) {
	begin(NULL);
	int fds[5];
	for (int i = 0; i < 5; i++) {
		fds[i] = eventfd(0, 0);
		CHECK_EQ(ops->watch(net, fds[i], 100 + (uint64_t)i), i < 4 ? 0 : -ENOSPC);
	}
	expect_nothing_for(0);
	CHECK_EQ(eventfd_write(fds[2], 3), 0);
	for (int i = 0; i < 3; i++) {
		wk_net_event event = expect(WK_NET_READABLE);
		CHECK_EQ(event.tag, 102);
	}
	eventfd_t value;
	CHECK_EQ(eventfd_read(fds[2], &value), 0);
	/* It may have been seen before it was read. */
	wk_net_event event;
	if (next_event_within(&event, 0))
		CHECK(event.kind == WK_NET_READABLE && event.tag == 102);
	expect_nothing_for(10 * MS);
	CHECK_EQ(eventfd_write(fds[0], 1), 0);
	CHECK_EQ(expect(WK_NET_READABLE).tag, 100);
	for (int i = 0; i < 5; i++)
		close(fds[i]);
	end();
}

TEST(a_wake_by_a_watched_descriptor_ends_a_wait_that_sleeps) {
	begin(NULL);
	int fd = eventfd(0, 0);
	CHECK_EQ(ops->watch(net, fd, 1), 0);
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(eventfd_write(fd, 1), 0);
		CHECK_EQ(expect(WK_NET_READABLE).tag, 1);
		eventfd_t value;
		CHECK_EQ(eventfd_read(fd, &value), 0);
	}
	close(fd);
	end();
}

static void net_waits_run(void) {
	RUN(a_wait_ends_in_time);
	RUN(a_wake_is_never_lost);
	RUN(a_wake_comes_through_a_crowd_of_events);
	RUN(a_watched_descriptor_is_told_while_it_is_readable);
	RUN(a_wake_by_a_watched_descriptor_ends_a_wait_that_sleeps);
}
#endif
