/* test_manual_waits.c: manual mode has no threads of its own, and each call is answered all the same. */
#include "engine/manual.h"
#include "manual_directory.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { LONG_ENOUGH_S = 60, WRITE_MS = 200, GIVEN_MS = 20 };

static void too_long(int signal) {
	(void)signal;
	static const char text[] = "failed: still not answered\n";
	(void)!write(1, text, sizeof text - 1);
	_exit(1);
}

/* ---- one thread ---- */

static char bytes[700 * 1024];

static void little_room(wk_open_options *options) {
	options->file_size_min = options->file_size_max = 4 << 20;
	options->block_size_max = 64 * 1024;
	options->in_flight_bytes = 1 << 20;
	options->deferred_delay_ns = 3600000000000u;
}

/* 400 KiB are written and not yet synced, and 700 KiB more find no room: nobody else is there to sync. */
TEST(an_append_that_needs_room_syncs_what_is_written) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, little_room);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	bool idle;
	put(writer, "first", WK_SYNC);
	work(ns);
	put_bytes(writer, bytes, 400 * 1024, -1, WK_DEFERRED);
	CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK); /* its block is full: it is written */
	put_bytes(writer, bytes, sizeof bytes, -1, WK_DEFERRED);
	leave(io, ns, log, writer);
}

/* ---- two threads ---- */

static struct wk_io_operations slow_operations;
static const struct wk_io_operations *plain_operations;
static _Atomic bool slow, writing;

static int64_t slow_pwrite(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset, uint32_t flags) {
	if (atomic_load(&slow)) {
		atomic_store(&writing, true);
		nap_ms(WRITE_MS);
	}
	return plain_operations->pwrite(io, file, buffer, size, offset, flags);
}

typedef struct desk {
	char path[64];
	wk_io *io;
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
	pthread_t thread;
} desk;

static void *append_in_thread(void *writer) {
	put(writer, "record", WK_SYNC);
	return NULL;
}

/* Another thread is in the middle of the write of its block, which takes the one slot there is. */
static void open_desk(desk *d, uint64_t in_flight_bytes) {
	strcpy(d->path, temporary());
	CHECK_EQ(wk_io_psync_new(&d->io), 0);
	plain_operations = d->io->operations;
	slow_operations = *d->io->operations;
	slow_operations.pwrite = slow_pwrite;
	d->io->operations = &slow_operations;
	atomic_store(&slow, false);
	atomic_store(&writing, false);
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.blocks_in_flight = 1;
	options.in_flight_bytes = in_flight_bytes;
	options.sync_method = WK_SYNC_DSYNC;
	wk_error error = {0};
	check_ok(wk_open_on(d->io, d->path, &options, &d->ns, &error), &error, "the directory opens");
	d->log = log_named(d->ns, "log");
	d->writer = writer_of(d->log);
	put(d->writer, "first", WK_SYNC);
	atomic_store(&slow, true);
	CHECK_EQ(pthread_create(&d->thread, NULL, append_in_thread, d->writer), 0);
	while (!atomic_load(&writing))
		nap_ms(1);
}

static void leave_desk(desk *d) {
	pthread_join(d->thread, NULL);
	leave(d->io, d->ns, d->log, d->writer);
	remove_tree(d->path);
}

static wk_status append_in_time(desk *d, wk_error *error) {
	wk_append_options options;
	wk_append_options_init(&options);
	options.timeout_ns = GIVEN_MS * 1000000;
	wk_position at;
	return wk_writer_append(d->writer, "another", 7, &options, &at, error);
}

TEST(an_append_waits_for_the_slot_that_another_thread_has) {
	static desk d;
	open_desk(&d, 1 << 20);
	put(d.writer, "another", WK_SYNC);
	leave_desk(&d);
}

TEST(an_append_waits_for_the_room_that_another_thread_takes) {
	static desk d;
	open_desk(&d, 1);
	put(d.writer, "another", WK_SYNC);
	leave_desk(&d);
}

TEST(the_wait_for_a_slot_that_another_thread_has_ends_in_time) {
	static desk d;
	wk_error error = {0};
	open_desk(&d, 1 << 20);
	CHECK_EQ(append_in_time(&d, &error), WK_TIMEOUT);
	CHECK(error.outcome_unknown);
	leave_desk(&d);
}

TEST(the_wait_for_room_that_another_thread_takes_ends_in_time) {
	static desk d;
	wk_error error = {0};
	open_desk(&d, 1);
	CHECK_EQ(append_in_time(&d, &error), WK_TIMEOUT);
	CHECK(!error.outcome_unknown);
	leave_desk(&d);
}

int main(void) {
	signal(SIGALRM, too_long);
	alarm(LONG_ENOUGH_S);
	RUN(an_append_that_needs_room_syncs_what_is_written);
	RUN(an_append_waits_for_the_slot_that_another_thread_has);
	RUN(an_append_waits_for_the_room_that_another_thread_takes);
	RUN(the_wait_for_a_slot_that_another_thread_has_ends_in_time);
	RUN(the_wait_for_room_that_another_thread_takes_ends_in_time);
	return check_done();
}
