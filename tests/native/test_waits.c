/*
 * test_waits.c: waits that end when what they wait for is there, at their deadline, or when a signal comes; and a driver
 * that rests when there is nothing to wait for.
 */
#include "stalling_disk.h"

enum { RECORD = 70 * 1024 };

static char bytes[1000 * 1000];

static void late_deferred(wk_open_options *options) {
	options->deferred_delay_ns = 20000000000u; /* 20 s */
}

static void early_deferred(wk_open_options *options) {
	options->deferred_delay_ns = 300000000;
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

int main(void) {
	RUN(a_failed_condition_is_answered_without_waiting_for_the_deferred_delay);
	RUN(the_driver_rests_after_what_was_deferred_became_durable_sooner);
	return check_done();
}
