/*
 * test_waits.c: waits that end when what they wait for is there, at their deadline, or when a signal comes; and a driver
 * that rests when there is nothing to wait for.
 */
#include "engine/journal/journal.h"
#include "stalling_disk.h"
#include <pthread.h>
#include <signal.h>

enum { RECORD = 70 * 1024, GIVEN_NS = 5000000, LATE_MS = 60, TRIES = 10 };

static char bytes[1000 * 1000];

static void late_deferred(wk_open_options *options) {
	options->deferred_delay_ns = 20000000000u; /* 20 s */
}

static void early_deferred(wk_open_options *options) {
	options->deferred_delay_ns = 300000000;
}

static void little_room(wk_open_options *options) {
	options->in_flight_bytes = 128 * 1024;
}

static void little_room_and_late_deferred(wk_open_options *options) {
	little_room(options);
	late_deferred(options);
}

typedef struct desk {
	char path[64];
	wk_io *io;
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
} desk;

static _Atomic uint64_t looks; /* at the clock */

static uint64_t counting_now(wk_io *io) {
	atomic_fetch_add(&looks, 1);
	return plain_operations->now(io);
}

/* Blocks are of 64 KiB, and two may be in flight. */
static desk open_desk(void (*change)(wk_open_options *)) {
	desk d = {.io = stalling_disk()};
	stalling_operations.now = counting_now;
	wk_open_options options;
	wk_open_options_init(&options);
	options.backend = WK_BACKEND_PSYNC;
	options.file_size_min = options.file_size_max = 4 << 20;
	options.block_size_max = 64 * 1024;
	options.in_flight_bytes = 1 << 20;
	options.blocks_in_flight = 2;
	options.sync_method = WK_SYNC_DSYNC;
	if (change != NULL)
		change(&options);
	wk_error error = {0};
	strcpy(d.path, temporary());
	check_ok(wk_open_on(d.io, d.path, &options, &d.ns, &error), &error, "the directory opens");
	d.log = log_named(d.ns, "log");
	d.writer = writer_of(d.log);
	return d;
}

static void let_rest(void) {
	nap_ms(300); /* the keeper has prepared its files, the last block is confirmed */
}

static void leave_desk(desk *d) {
	close_all(d->ns, d->log, d->writer);
	d->io->operations->destroy(d->io);
	remove_tree(d->path);
}

static wk_status append(wk_writer *writer, size_t size, uint32_t durability, uint64_t timeout_ns, wk_position *at) {
	wk_append_options options;
	wk_append_options_init(&options);
	options.durability = durability;
	options.timeout_ns = timeout_ns;
	return wk_writer_append(writer, bytes, size, &options, at, NULL);
}

/* Its block is full: it is written without sync, and synced when deferred_delay has passed. */
static wk_position append_deferred(desk *d) {
	wk_position at = {0};
	CHECK_EQ(append(d->writer, RECORD, WK_DEFERRED, UINT64_MAX, &at), WK_OK);
	nap_ms(100);
	return at;
}

/* ---- what is deferred, and wanted sooner ---- */

TEST(a_failed_condition_is_answered_without_waiting_for_the_deferred_delay) {
	desk d = open_desk(late_deferred);
	append_one(d.writer);
	let_rest();
	wk_append_options options;
	wk_append_options_init(&options);
	options.expected = append_deferred(&d).sequence_id; /* a retry of the same record */
	options.timeout_ns = 0;
	uint64_t begin = now_ms(), ticket;
	wk_error error = {0};
	CHECK_EQ(wk_writer_submit(d.writer, "again", 5, &options, NULL, &ticket, &error), WK_MISMATCH);
	CHECK_EQ(error.sequence_id, options.expected);
	CHECK(now_ms() - begin < 5000);
	leave_desk(&d);
}

/* An append that does not wait, again and again until there is room. */
static void append_without_waiting(desk *d, size_t size) {
	uint64_t begin = now_ms();
	wk_status status = WK_WOULD_BLOCK;
	wk_position at;
	CHECK_EQ(append(d->writer, size, WK_DEFERRED, 0, &at), WK_WOULD_BLOCK);
	while (status == WK_WOULD_BLOCK && now_ms() - begin < 5000) {
		nap_ms(1);
		status = append(d->writer, size, WK_DEFERRED, 0, &at);
	}
	CHECK_EQ(status, WK_OK);
}

TEST(who_asks_for_room_again_and_again_need_not_wait_until_what_is_open_is_due) {
	desk d = open_desk(little_room_and_late_deferred);
	wk_position at;
	append_one(d.writer);
	let_rest();
	CHECK_EQ(append(d.writer, 40 * 1024, WK_DEFERRED, UINT64_MAX, &at), WK_OK);
	nap_ms(100); /* the driver sleeps until it is due */
	append_without_waiting(&d, 100 * 1024);
	leave_desk(&d);
}

TEST(who_asks_for_room_again_and_again_need_not_wait_until_what_is_written_is_due) {
	desk d = open_desk(late_deferred);
	wk_position at;
	CHECK_EQ(append(d.writer, sizeof bytes, WK_SYNC, UINT64_MAX, &at),
	         WK_OK); /* the reserve covers its size from now on */
	let_rest();
	append_deferred(&d);
	append_without_waiting(&d, sizeof bytes);
	leave_desk(&d);
}

/* ---- the driver at rest ---- */

TEST(the_driver_rests_after_what_was_deferred_became_durable_sooner) {
	desk d = open_desk(early_deferred);
	append_one(d.writer);
	let_rest();
	append_deferred(&d);
	CHECK_EQ(wk_writer_flush(d.writer, UINT64_MAX, NULL, NULL), WK_OK);
	nap_ms(600); /* what was deferred would be due since a while */
	uint64_t before = atomic_load(&looks);
	nap_ms(200);
	CHECK(atomic_load(&looks) - before < 1000);
	leave_desk(&d);
}

/* ---- the catalogue's turn, and that of a batch ---- */

static void nothing(int signal) {
	(void)signal;
}

typedef struct appending {
	wk_writer *writer;
	wk_status status;
	_Atomic bool done;
} appending;

static void *append_in_thread(void *context) {
	appending *a = context;
	wk_position at;
	a->status = append(a->writer, 1, WK_SYNC, UINT64_MAX, &at);
	atomic_store(&a->done, true);
	return NULL;
}

static void set_snapshotting(wk_engine *engine, bool on) {
	wk_engine_lock(engine);
	engine->snapshotting = on;
	wk_journal_wake_room(engine);
	wk_engine_unlock(engine);
}

/* The first append of a log makes its segment, which waits while a snapshot is written. */
TEST(a_signal_ends_the_wait_for_a_snapshot) {
	desk d = open_desk(NULL);
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = nothing}, NULL);
	let_rest();
	set_snapshotting(d.ns->engine, true);
	appending a = {.writer = d.writer};
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, append_in_thread, &a), 0);
	nap_ms(50);
	for (int i = 0; i < 200 && !atomic_load(&a.done); i++) {
		pthread_kill(thread, SIGUSR1);
		nap_ms(10);
	}
	bool ended = atomic_load(&a.done);
	set_snapshotting(d.ns->engine, false);
	pthread_join(thread, NULL);
	CHECK(ended);
	CHECK_EQ(a.status, WK_INTERRUPTED);
	leave_desk(&d);
}

/* The shortest of several, as the machine may be busy. */
static uint64_t ms_until_timeout(wk_writer *writer) {
	uint64_t shortest = UINT64_MAX;
	for (int i = 0; i < TRIES; i++) {
		wk_position at;
		uint64_t begin = now_ms();
		CHECK_EQ(append(writer, 1, WK_SYNC, GIVEN_NS, &at), WK_TIMEOUT);
		uint64_t took = now_ms() - begin;
		shortest = took < shortest ? took : shortest;
	}
	return shortest;
}

TEST(the_wait_for_a_snapshot_ends_at_its_deadline) {
	desk d = open_desk(NULL);
	let_rest();
	set_snapshotting(d.ns->engine, true);
	uint64_t took = ms_until_timeout(d.writer);
	set_snapshotting(d.ns->engine, false);
	CHECK(took >= GIVEN_NS / 1000000);
	CHECK(took < LATE_MS);
	leave_desk(&d);
}

static void *append_many_in_thread(void *writer) {
	static uint32_t sizes[1000];
	for (int i = 0; i < 1000; i++)
		sizes[i] = 1000;
	wk_position first, last;
	uint64_t ticket;
	CHECK_EQ(wk_writer_append_many(writer, bytes, sizes, 1000, NULL, NULL, true, &first, &last, &ticket, NULL), WK_OK);
	return NULL;
}

/* Another thread is in the middle of an append_many that waits for room. */
TEST(the_wait_for_another_batch_ends_at_its_deadline) {
	desk d = open_desk(little_room);
	append_one(d.writer);
	let_rest();
	atomic_store(&stalled, true);
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, append_many_in_thread, d.writer), 0);
	nap_ms(200);
	uint64_t took = ms_until_timeout(d.writer);
	atomic_store(&stalled, false);
	pthread_join(thread, NULL);
	CHECK(took >= GIVEN_NS / 1000000);
	CHECK(took < LATE_MS);
	leave_desk(&d);
}

static void long_commit_wait(wk_open_options *options) {
	options->commit_wait_ns = 20000000000u; /* 20 s */
}

/* No signal takes back what is accepted, so its wait must be short (storage rule 30). */
TEST(changes_of_the_catalogue_do_not_wait_for_commit_wait) {
	uint64_t begin = now_ms();
	desk d = open_desk(long_commit_wait);
	wk_append_options options;
	wk_append_options_init(&options);
	options.timeout_ns = GIVEN_NS;
	wk_position at, next;
	CHECK_EQ(wk_writer_append(d.writer, "a record", 8, &options, &at, NULL), WK_TIMEOUT); /* appends do */
	wk_writer_next(d.writer, &next);
	CHECK_EQ(wk_cursor_set(d.log, "cursor", 6, &next, NULL), WK_OK);
	CHECK_EQ(wk_cursor_delete(d.log, "cursor", 6, NULL), WK_OK);
	CHECK_EQ(wk_log_truncate(d.log, &next.dlsn, false, NULL), WK_OK);
	CHECK_EQ(wk_log_rename(d.ns, "log", 3, "other", 5, NULL), WK_OK);
	CHECK_EQ(wk_writer_end_of_stream(d.writer, NULL), WK_OK);
	leave_desk(&d);
	CHECK(now_ms() - begin < 5000);
}

int main(void) {
	RUN(a_failed_condition_is_answered_without_waiting_for_the_deferred_delay);
	RUN(who_asks_for_room_again_and_again_need_not_wait_until_what_is_open_is_due);
	RUN(who_asks_for_room_again_and_again_need_not_wait_until_what_is_written_is_due);
	RUN(the_driver_rests_after_what_was_deferred_became_durable_sooner);
	RUN(a_signal_ends_the_wait_for_a_snapshot);
	RUN(the_wait_for_a_snapshot_ends_at_its_deadline);
	RUN(the_wait_for_another_batch_ends_at_its_deadline);
	RUN(changes_of_the_catalogue_do_not_wait_for_commit_wait);
	return check_done();
}
