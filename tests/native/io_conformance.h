/*
 * io_conformance.h: what every implementation of the I/O seam does. Each TEST gets an empty directory.
 *
 *	conformance_run(io, "/somewhere/empty");
 */
#ifndef IO_CONFORMANCE_H
#define IO_CONFORMANCE_H
#include "check.h"
#include "io/event.h"
#include "io/io.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

enum { BLOCK = WK_IO_ALIGNMENT, MS = 1000000 };

static wk_io *io;
static const struct wk_io_operations *ops;
static const char *directory;

/* A path in the test's directory; good until the fourth next call. */
static const char *at(const char *name) {
	static char paths[4][512];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof paths[0], "%s/%s", directory, name);
	return path;
}

static uint8_t *blocks(size_t count, int fill) {
	uint8_t *bytes = aligned_alloc(BLOCK, count * BLOCK);
	CHECK(bytes);
	memset(bytes, fill, count * BLOCK);
	return bytes;
}

static bool all_are(const uint8_t *bytes, size_t size, int fill) {
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != (uint8_t)fill)
			return false;
	return true;
}

static wk_file *create(const char *name, uint32_t flags) {
	wk_file *file = NULL;
	CHECK_EQ(ops->open(io, at(name), flags | WK_IO_WRITE | WK_IO_CREATE, &file), 0);
	return file;
}

/* Removes the names given, so that the next TEST finds an empty directory. */
static void remove_all(const char *first, const char *second) {
	CHECK_EQ(ops->unlink(io, at(first)), 0);
	if (second)
		CHECK_EQ(ops->unlink(io, at(second)), 0);
}

static wk_io_completion wait_for_one(wk_io_queue *queue) {
	wk_io_completion done = {0};
	int count = 0;
	for (int waits = 0; count == 0 && waits < 1000; waits++) /* a wake may come between */
		count = ops->queue_wait(io, queue, &done, 1, UINT64_MAX);
	CHECK_EQ(count, 1);
	return done;
}

TEST(a_durable_write_is_read_back) {
	wk_file *file = create("file", WK_IO_DIRECT);
	uint8_t *bytes = blocks(3, 'a'), *found = blocks(3, 0);
	CHECK_EQ(ops->pwrite(io, file, bytes, 3 * BLOCK, BLOCK, WK_IO_DSYNC), 3 * BLOCK);
	CHECK_EQ(ops->pread(io, file, found, 3 * BLOCK, BLOCK), 3 * BLOCK);
	CHECK(all_are(found, 3 * BLOCK, 'a'));
	CHECK_EQ(ops->pread(io, file, found, BLOCK, 0), BLOCK);
	CHECK(all_are(found, BLOCK, 0));
	CHECK_EQ(ops->sync(io, file), 0);
	ops->close(io, file);
	free(bytes);
	free(found);
	remove_all("file", NULL);
}

TEST(a_read_stops_at_the_end_of_the_file) {
	wk_file *file = create("file", 0);
	wk_file *direct;
	uint8_t *bytes = blocks(2, 'a');
	CHECK_EQ(ops->pwrite(io, file, bytes, 5000, 0, 0), 5000);
	CHECK_EQ(ops->sync(io, file), 0);
	CHECK_EQ(ops->pread(io, file, bytes, 100, 4950), 50);
	CHECK_EQ(ops->pread(io, file, bytes, 100, 5000), 0);
	CHECK_EQ(ops->pread(io, file, bytes, 100, 1 << 20), 0);
	CHECK_EQ(ops->open(io, at("file"), WK_IO_READ | WK_IO_DIRECT, &direct), 0);
	CHECK_EQ(ops->pread(io, direct, bytes, 2 * BLOCK, 0), 5000);
	ops->close(io, direct);
	ops->close(io, file);
	free(bytes);
	remove_all("file", NULL);
}

TEST(a_direct_file_takes_only_aligned_transfers) {
	wk_file *file = create("file", WK_IO_DIRECT);
	uint8_t *bytes = blocks(2, 'a');
	wk_io_stat stat;
	CHECK_EQ(ops->stat(io, file, &stat), 0);
	CHECK(stat.alignment >= 1 && stat.alignment <= WK_IO_ALIGNMENT);
	CHECK_EQ(ops->pwrite(io, file, bytes, 512, 0, 0), -EINVAL);
	CHECK_EQ(ops->pwrite(io, file, bytes, BLOCK, 512, 0), -EINVAL);
	CHECK_EQ(ops->pwrite(io, file, bytes + 512, BLOCK, 0, 0), -EINVAL);
	CHECK_EQ(ops->pread(io, file, bytes + 8, BLOCK, 0), -EINVAL);
	CHECK_EQ(ops->stat(io, file, &stat), 0);
	CHECK_EQ(stat.size, 0);
	ops->close(io, file);
	free(bytes);
	remove_all("file", NULL);
}

TEST(a_file_that_is_allocated_reads_as_zeros) {
	wk_file *file = create("file", 0);
	uint8_t *found = blocks(4, 'x');
	wk_io_stat stat;
	CHECK_EQ(ops->allocate(io, file, 4 * BLOCK), 0);
	CHECK_EQ(ops->allocate(io, file, BLOCK), 0);
	CHECK_EQ(ops->stat(io, file, &stat), 0);
	CHECK_EQ(stat.size, 4 * BLOCK);
	CHECK_EQ(ops->pread(io, file, found, 4 * BLOCK, 0), 4 * BLOCK);
	CHECK(all_are(found, 4 * BLOCK, 0));
	memset(found, 'x', 4 * BLOCK);
	CHECK_EQ(ops->pwrite(io, file, found, 4 * BLOCK, 0, 0), 4 * BLOCK);
	CHECK_EQ(ops->truncate(io, file, 100), 0);
	CHECK_EQ(ops->truncate(io, file, 4 * BLOCK), 0);
	CHECK_EQ(ops->pread(io, file, found, 4 * BLOCK, 0), 4 * BLOCK);
	CHECK(all_are(found, 100, 'x') && all_are(found + 100, 4 * BLOCK - 100, 0));
	ops->close(io, file);
	free(found);
	remove_all("file", NULL);
}

TEST(a_locked_file_cannot_be_locked_by_another_open) {
	wk_file *one = create("file", 0), *two, *three;
	CHECK_EQ(ops->open(io, at("file"), WK_IO_WRITE, &two), 0);
	CHECK_EQ(ops->open(io, at("file"), WK_IO_READ, &three), 0);
	CHECK_EQ(ops->lock(io, one, true), 0);
	CHECK_EQ(ops->lock(io, two, true), -EWOULDBLOCK);
	CHECK_EQ(ops->lock(io, three, false), -EWOULDBLOCK);
	ops->close(io, one);
	CHECK_EQ(ops->lock(io, three, false), 0);
	CHECK_EQ(ops->lock(io, two, true), 0); /* a look keeps nothing */
	CHECK_EQ(ops->lock(io, three, false), -EWOULDBLOCK);
	ops->close(io, three);
	ops->close(io, two);
	remove_all("file", NULL);
}

TEST(a_shared_page_is_one_page) {
	wk_file *one = create("file", 0), *two;
	void *here, *there;
	CHECK_EQ(ops->allocate(io, one, BLOCK), 0);
	CHECK_EQ(ops->open(io, at("file"), WK_IO_READ, &two), 0);
	CHECK_EQ(ops->map_shared(io, one, BLOCK, true, &here), 0);
	CHECK_EQ(ops->map_shared(io, two, BLOCK, false, &there), 0);
	CHECK_EQ(*(uint8_t *)there, 0);
	*(volatile uint8_t *)here = 7;
	CHECK_EQ(*(volatile uint8_t *)there, 7);
	ops->unmap(io, here, BLOCK);
	ops->unmap(io, there, BLOCK);
	ops->close(io, one);
	ops->close(io, two);
	remove_all("file", NULL);
}

static bool add_name(void *context, const char *name) {
	strcat(strcat(context, name), " ");
	return true;
}

static bool add_name_and_stop(void *context, const char *name) {
	add_name(context, name);
	return false;
}

TEST(names_are_made_moved_linked_and_removed) {
	wk_file *file;
	wk_io_stat stat;
	char names[256] = "";
	ops->close(io, create("b", 0));
	ops->close(io, create("a", 0));
	CHECK_EQ(ops->rename(io, at("b"), at("c")), 0);
	CHECK_EQ(ops->link(io, at("c"), at("d")), 0);
	CHECK_EQ(ops->open(io, at("d"), WK_IO_READ, &file), 0);
	CHECK_EQ(ops->stat(io, file, &stat), 0);
	CHECK_EQ(stat.links, 2);
	CHECK_EQ(ops->sync_directory(io, directory), 0);
	CHECK_EQ(ops->list(io, directory, add_name, names), 0);
	CHECK_EQ(strcmp(names, "a c d "), 0);
	names[0] = 0;
	CHECK_EQ(ops->list(io, directory, add_name_and_stop, names), 0);
	CHECK_EQ(strcmp(names, "a "), 0);
	CHECK_EQ(ops->rename(io, at("a"), at("c")), 0); /* over the other */
	remove_all("c", "d");
	CHECK_EQ(ops->stat(io, file, &stat), 0); /* open, so still there */
	CHECK_EQ(stat.links, 0);
	ops->close(io, file);
	names[0] = 0;
	CHECK_EQ(ops->list(io, directory, add_name, names), 0);
	CHECK_EQ(strcmp(names, ""), 0);
}

TEST(names_that_are_not_there_or_already_there_are_told) {
	wk_file *file = create("a", 0);
	ops->close(io, file);
	CHECK_EQ(ops->open(io, at("a"), WK_IO_WRITE | WK_IO_CREATE, &file), -EEXIST);
	CHECK_EQ(ops->open(io, at("none"), WK_IO_READ, &file), -ENOENT);
	CHECK_EQ(ops->open(io, at("none/file"), WK_IO_WRITE | WK_IO_CREATE, &file), -ENOENT);
	CHECK_EQ(ops->open(io, at("a/file"), WK_IO_WRITE | WK_IO_CREATE, &file), -ENOTDIR);
	CHECK_EQ(ops->rename(io, at("none"), at("b")), -ENOENT);
	CHECK_EQ(ops->link(io, at("none"), at("b")), -ENOENT);
	CHECK_EQ(ops->link(io, at("a"), at("a")), -EEXIST);
	CHECK_EQ(ops->unlink(io, at("none")), -ENOENT);
	CHECK_EQ(ops->make_directory(io, directory), -EEXIST);
	CHECK_EQ(ops->sync_directory(io, at("none")), -ENOENT);
	CHECK_EQ(ops->list(io, at("none"), add_name, NULL), -ENOENT);
	CHECK_EQ(ops->list(io, at("a"), add_name, NULL), -ENOTDIR);
	remove_all("a", NULL);
}

TEST(time_passes_and_random_bytes_differ) {
	uint64_t before = ops->now(io), wall = ops->wall(io);
	uint64_t one = 0, two = 0;
	wk_io_space space;
	CHECK(ops->now(io) >= before);
	CHECK(ops->wall(io) >= wall && wall > 1700000000ull * 1000 * MS);
	CHECK_EQ(ops->entropy(io, &one, sizeof one), 0);
	CHECK_EQ(ops->entropy(io, &two, sizeof two), 0);
	CHECK(one != two);
	uint8_t boot[16], again[16];
	CHECK_EQ(ops->boot_id(io, boot), 0);
	CHECK_EQ(ops->boot_id(io, again), 0);
	CHECK(memcmp(boot, again, sizeof boot) == 0);
	CHECK_EQ(ops->space(io, directory, &space), 0);
	CHECK(space.free_bytes > 0 && space.free_bytes <= space.total_bytes && space.type != 0);
}

TEST(all_that_is_submitted_completes_once) {
	enum { REQUESTS = 16 };
	wk_file *file = create("file", WK_IO_DIRECT);
	wk_io_queue *queue;
	uint8_t *bytes[REQUESTS], *found = blocks(1, 0);
	bool seen[REQUESTS] = {false};
	CHECK_EQ(ops->allocate(io, file, REQUESTS * BLOCK), 0);
	CHECK_EQ(ops->queue_new(io, REQUESTS, &queue), 0);
	for (unsigned i = 0; i < REQUESTS; i++) {
		bytes[i] = blocks(1, (int)('a' + i));
		wk_io_request write = {WK_IO_OP_WRITE, file, bytes[i], BLOCK, i * BLOCK, i % 2 ? WK_IO_DSYNC : 0, 100 + i};
		CHECK_EQ(ops->queue_submit(io, queue, &write), 0);
	}
	for (unsigned count = 0; count < REQUESTS;) {
		wk_io_completion done[3];
		int some = ops->queue_wait(io, queue, done, 3, UINT64_MAX);
		CHECK(some >= 1 && some <= 3);
		for (int i = 0; i < some; i++, count++) {
			CHECK_EQ(done[i].result, BLOCK);
			CHECK(done[i].tag >= 100 && done[i].tag < 100 + REQUESTS && !seen[done[i].tag - 100]);
			seen[done[i].tag - 100] = true;
		}
	}
	for (unsigned i = 0; i < REQUESTS; i++) {
		CHECK_EQ(ops->pread(io, file, found, BLOCK, i * BLOCK), BLOCK);
		CHECK(all_are(found, BLOCK, (int)('a' + i)));
		free(bytes[i]);
	}
	ops->queue_free(io, queue);
	ops->close(io, file);
	free(found);
	remove_all("file", NULL);
}

TEST(reads_syncs_and_refusals_come_through_the_queue) {
	wk_file *file = create("file", 0), *direct;
	wk_io_queue *queue;
	uint8_t *bytes = blocks(2, 'a');
	CHECK_EQ(ops->pwrite(io, file, bytes, 5000, 0, 0), 5000);
	CHECK_EQ(ops->open(io, at("file"), WK_IO_WRITE | WK_IO_DIRECT, &direct), 0);
	CHECK_EQ(ops->queue_new(io, 2, &queue), 0);
	wk_io_request sync = {.operation = WK_IO_OP_SYNC, .file = file, .tag = 1};
	CHECK_EQ(ops->queue_submit(io, queue, &sync), 0);
	CHECK_EQ(wait_for_one(queue).result, 0);
	wk_io_request read = {.operation = WK_IO_OP_READ, .file = file, .buffer = bytes, .size = 2 * BLOCK, .tag = 2};
	CHECK_EQ(ops->queue_submit(io, queue, &read), 0);
	CHECK_EQ(wait_for_one(queue).result, 5000);
	read.file = direct;
	CHECK_EQ(ops->queue_submit(io, queue, &read), 0);
	CHECK_EQ(wait_for_one(queue).result, 5000);
	read.offset = 1;
	read.tag = 3;
	CHECK_EQ(ops->queue_submit(io, queue, &read), 0);
	wk_io_completion refused = wait_for_one(queue);
	CHECK_EQ(refused.result, -EINVAL);
	CHECK_EQ(refused.tag, 3);
	ops->queue_free(io, queue);
	ops->close(io, direct);
	ops->close(io, file);
	free(bytes);
	remove_all("file", NULL);
}

TEST(a_full_queue_says_busy) {
	wk_file *file = create("file", 0);
	wk_io_queue *queue;
	wk_io_request sync = {.operation = WK_IO_OP_SYNC, .file = file};
	CHECK_EQ(ops->queue_new(io, 0, &queue), -EINVAL);
	CHECK_EQ(ops->queue_new(io, WK_IO_QUEUE_DEPTH_MAX + 1, &queue), -EINVAL);
	CHECK_EQ(ops->queue_new(io, 2, &queue), 0);
	CHECK_EQ(ops->queue_submit(io, queue, &sync), 0);
	CHECK_EQ(ops->queue_submit(io, queue, &sync), 0);
	CHECK_EQ(ops->queue_submit(io, queue, &sync), -EBUSY);
	wait_for_one(queue);
	CHECK_EQ(ops->queue_submit(io, queue, &sync), 0);
	ops->queue_free(io, queue); /* waits for the two */
	ops->close(io, file);
	remove_all("file", NULL);
}

TEST(a_queue_that_is_freed_finishes_its_writes) {
	wk_file *file = create("file", WK_IO_DIRECT);
	wk_io_queue *queue;
	uint8_t *bytes = blocks(1, 'z'), *found = blocks(1, 0);
	wk_io_request write = {.operation = WK_IO_OP_WRITE, .file = file, .buffer = bytes, .size = BLOCK};
	CHECK_EQ(ops->queue_new(io, 1, &queue), 0);
	CHECK_EQ(ops->queue_submit(io, queue, &write), 0);
	ops->queue_free(io, queue);
	CHECK_EQ(ops->pread(io, file, found, BLOCK, 0), BLOCK);
	CHECK(all_are(found, BLOCK, 'z'));
	ops->close(io, file);
	free(bytes);
	free(found);
	remove_all("file", NULL);
}

TEST(a_wait_for_nothing_ends_at_its_timeout) {
	wk_io_queue *queue;
	wk_io_completion done;
	CHECK_EQ(ops->queue_new(io, 1, &queue), 0);
	CHECK_EQ(ops->queue_wait(io, queue, &done, 1, 0), 0);
	uint64_t before = ops->now(io);
	CHECK_EQ(ops->queue_wait(io, queue, &done, 1, 5 * MS), 0);
	CHECK(ops->now(io) - before >= 5 * MS);
	ops->queue_free(io, queue);
}

TEST(wakes_before_a_wait_end_it_once) {
	wk_io_queue *queue;
	wk_io_completion done;
	CHECK_EQ(ops->queue_new(io, 1, &queue), 0);
	ops->queue_wake(io, queue);
	ops->queue_wake(io, queue);
	CHECK_EQ(ops->queue_wait(io, queue, &done, 1, UINT64_MAX), 0);
	uint64_t before = ops->now(io);
	CHECK_EQ(ops->queue_wait(io, queue, &done, 1, 5 * MS), 0);
	CHECK(ops->now(io) - before >= 5 * MS);
	ops->queue_wake(io, queue);
	CHECK_EQ(ops->queue_wait(io, queue, &done, 1, UINT64_MAX), 0);
	ops->queue_free(io, queue);
}

TEST(a_wake_beside_completions_is_not_lost) {
	wk_file *file = create("file", 0);
	wk_io_queue *queue;
	wk_io_request sync = {.operation = WK_IO_OP_SYNC, .file = file};
	CHECK_EQ(ops->queue_new(io, 1, &queue), 0);
	for (int i = 0; i < 20; i++) {
		int wakes = 0, completions = 0;
		CHECK_EQ(ops->queue_submit(io, queue, &sync), 0);
		ops->queue_wake(io, queue);
		while (wakes == 0 || completions == 0) {
			wk_io_completion done;
			int count = ops->queue_wait(io, queue, &done, 1, UINT64_MAX);
			wakes += count == 0;
			completions += count == 1;
		}
		CHECK_EQ(wakes, 1);
		CHECK_EQ(completions, 1);
	}
	ops->queue_free(io, queue);
	ops->close(io, file);
	remove_all("file", NULL);
}

struct waker {
	wk_io_queue *queue;
	atomic_int wanted; /* rounds the waiter has begun */
	int rounds;
	int told; /* plain: the wake itself must carry it over */
};

static void *wake_in_rounds(void *context) {
	struct waker *waker = context;
	for (int round = 1; round <= waker->rounds; round++) {
		while (atomic_load(&waker->wanted) < round)
			;
		waker->told = round;
		ops->queue_wake(io, waker->queue);
	}
	return NULL;
}

TEST(another_thread_wakes_the_waiter) {
	struct waker waker = {.rounds = 200};
	pthread_t thread;
	wk_io_completion done;
	CHECK_EQ(ops->queue_new(io, 1, &waker.queue), 0);
	CHECK_EQ(pthread_create(&thread, NULL, wake_in_rounds, &waker), 0);
	for (int round = 1; round <= waker.rounds; round++) {
		atomic_fetch_add(&waker.wanted, 1);
		CHECK_EQ(ops->queue_wait(io, waker.queue, &done, 1, UINT64_MAX), 0);
		CHECK_EQ(waker.told, round);
	}
	pthread_join(thread, NULL);
	ops->queue_free(io, waker.queue);
}

static void *drive(void *context) {
	wk_io_queue *queue = context;
	wk_io_completion done;
	return ops->queue_wait(io, queue, &done, 1, 0) == 0 ? queue : NULL;
}

TEST(a_queue_is_made_and_freed_by_others_than_its_driver) {
	wk_io_queue *queue;
	pthread_t thread;
	void *driven;
	CHECK_EQ(ops->queue_new(io, 4, &queue), 0);
	CHECK_EQ(pthread_create(&thread, NULL, drive, queue), 0);
	pthread_join(thread, &driven);
	CHECK(driven);
	ops->queue_free(io, queue);
}

TEST(an_eventfd_tells_of_completions) {
	wk_file *file = create("file", WK_IO_DIRECT);
	wk_io_queue *queue;
	uint8_t *bytes = blocks(1, 'a');
	int event_fd = wk_event_new();
	CHECK_EQ(ops->queue_new(io, 1, &queue), 0);
	CHECK_EQ(ops->queue_notify(io, queue, event_fd), 0);
	struct pollfd told = {.fd = event_fd, .events = POLLIN};
	CHECK_EQ(poll(&told, 1, 0), 0);
	for (int round = 0; round < 50; round++) {
		wk_io_request write = {WK_IO_OP_WRITE, file, bytes, BLOCK, 0, WK_IO_DSYNC, 7};
		wk_io_completion done;
		CHECK_EQ(ops->queue_submit(io, queue, &write), 0);
		int count = 0;
		while (count == 0) {
			CHECK_EQ(poll(&told, 1, 60000), 1);
			wk_event_take(event_fd);
			count = ops->queue_wait(io, queue, &done, 1, 0);
		}
		CHECK_EQ(count, 1);
		CHECK_EQ(done.result, BLOCK);
	}
	ops->queue_free(io, queue);
	wk_event_close(event_fd);
	ops->close(io, file);
	free(bytes);
	remove_all("file", NULL);
}

/* The owner drained the eventfd, and looked: what completed before that is not left for a signal that never comes. */
TEST(what_completed_before_the_eventfd_was_drained_is_found) {
	wk_file *file = create("file", 0);
	uint8_t *bytes = blocks(1, 'q');
	wk_io_queue *queue;
	CHECK_EQ(ops->queue_new(io, 4, &queue), 0);
	int event_fd = wk_event_new();
	CHECK(event_fd >= 0);
	CHECK_EQ(ops->queue_notify(io, queue, event_fd), 0);
	struct pollfd told = {.fd = event_fd, .events = POLLIN};
	const wk_io_request sync = {.operation = WK_IO_OP_SYNC, .file = file, .tag = 1};
	const wk_io_request behind_the_end = {.file = file, .buffer = bytes, .size = BLOCK, .offset = BLOCK, .tag = 2};
	for (int round = 0; round < 100; round++) {
		CHECK_EQ(ops->queue_submit(io, queue, &sync), 0);
		CHECK_EQ(poll(&told, 1, 60000), 1);
		CHECK_EQ(ops->queue_submit(io, queue, &behind_the_end), 0); /* io_uring completes it within this call */
		wk_event_take(event_fd);
		uint64_t tags = 0;
		for (int count = 0; count < 2;) {
			wk_io_completion done[4];
			int more = ops->queue_wait(io, queue, done, 4, 0);
			CHECK(more >= 0);
			for (int i = 0; i < more; i++)
				tags += done[i].tag;
			count += more;
			if (count < 2) {
				CHECK_EQ(poll(&told, 1, 10000), 1);
				wk_event_take(event_fd);
			}
		}
		CHECK_EQ(tags, 3);
	}
	ops->queue_free(io, queue);
	wk_event_close(event_fd);
	ops->close(io, file);
	free(bytes);
	remove_all("file", NULL);
}

static void conformance_run(wk_io *implementation, const char *empty_directory) {
	io = implementation;
	ops = io->operations;
	directory = empty_directory;
	printf("# %s in %s\n", ops->name, directory);
	RUN(a_durable_write_is_read_back);
	RUN(a_read_stops_at_the_end_of_the_file);
	RUN(a_direct_file_takes_only_aligned_transfers);
	RUN(a_file_that_is_allocated_reads_as_zeros);
	RUN(a_locked_file_cannot_be_locked_by_another_open);
	RUN(a_shared_page_is_one_page);
	RUN(names_are_made_moved_linked_and_removed);
	RUN(names_that_are_not_there_or_already_there_are_told);
	RUN(time_passes_and_random_bytes_differ);
	RUN(all_that_is_submitted_completes_once);
	RUN(reads_syncs_and_refusals_come_through_the_queue);
	RUN(a_full_queue_says_busy);
	RUN(a_queue_that_is_freed_finishes_its_writes);
	RUN(a_wait_for_nothing_ends_at_its_timeout);
	RUN(wakes_before_a_wait_end_it_once);
	RUN(a_wake_beside_completions_is_not_lost);
	RUN(another_thread_wakes_the_waiter);
	RUN(a_queue_is_made_and_freed_by_others_than_its_driver);
	RUN(an_eventfd_tells_of_completions);
	RUN(what_completed_before_the_eventfd_was_drained_is_found);
}
#endif
