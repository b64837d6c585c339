/*
 * test_retention.c: what a log lets go of by itself: segments that are older than retention_seconds, and none that it
 * was asked to keep for ever, or that a cursor needs.
 */
#include "engine/catalogue/catalogue.h"
#include "engine/catalogue/retention.h"
#include "engine/directory/handles.h"
#include "engine/journal/journal.h"
#include "manual_directory.h"
#include "sim/faulty.h"
#include <pthread.h>
#include <time.h>

enum { RECORDS = 5, TEN_SECONDS_MS = 10000 };

/* A segment a record, or all in one. */
static wk_log *log_that_keeps(wk_namespace *ns, uint64_t retention_seconds, uint64_t segment_seconds) {
	wk_log_options options;
	wk_log_options_init(&options);
	options.segment_bytes = segment_seconds == 0 ? 1 : 1 << 20;
	options.segment_seconds = segment_seconds;
	options.retention_seconds = retention_seconds;
	wk_log *log = NULL;
	wk_error error = {0};
	check_ok(wk_log_open(ns, "log", 3, true, &options, &log, &error), &error, "the log opens");
	return log;
}

static void put_five(wk_writer *writer) {
	for (int i = 0; i < RECORDS; i++)
		put(writer, "record", WK_SYNC);
}

static wk_log_info described(wk_log *log) {
	wk_log_info info;
	wk_error error = {0};
	check_ok(wk_log_describe(log, &info, &error), &error, "the log is described");
	return info;
}

TEST(what_is_older_goes_but_for_the_open_segment) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_that_keeps(ns, 60, 0);
	wk_writer *writer = writer_of(log);
	put_five(writer);
	wait_and_work(io, ns, 50 * 1000);
	CHECK_EQ(count_records(log), RECORDS);
	wait_and_work(io, ns, TEN_SECONDS_MS);
	CHECK_EQ(count_records(log), 1);
	leave(io, ns, log, writer);
}

/* A board without a battery boots in another year; or somebody sets a wrong time. */
TEST(a_clock_that_is_set_makes_nothing_old) {
	static const int64_t years[][2] = {{-1, 1}, {0, 1}, {1, -1}};
	const int64_t year_ns = (int64_t)365 * 24 * 3600 * 1000000000;
	for (size_t i = 0; i < sizeof years / sizeof *years; i++) {
		wk_io *io = disk_of(1);
		wk_faulty_shift_wall(wk_faulty_of(io), years[i][0] * year_ns);
		wk_namespace *ns = open_with(io, NULL);
		wk_log *log = log_that_keeps(ns, 60, 0);
		wk_writer *writer = writer_of(log);
		put_five(writer);
		wait_and_work(io, ns, TEN_SECONDS_MS);
		wk_faulty_shift_wall(wk_faulty_of(io), years[i][1] * year_ns);
		put_five(writer);
		wait_and_work(io, ns, TEN_SECONDS_MS);
		CHECK_EQ(count_records(log), 2 * RECORDS);
		wait_and_work(io, ns, 45 * 1000); /* the first ones are old by now, if the clock says so */
		CHECK(count_records(log) >= RECORDS);
		leave(io, ns, log, writer);
	}
}

/* Each is set twice: wrong, then by as much as it takes to make a day of the seconds since the records came. */
TEST(what_this_open_appended_ages_by_no_clock_that_is_set) {
	const int64_t day_ns = (int64_t)24 * 3600 * 1000000000, year_ns = 365 * day_ns;
	const int64_t jumps[][3] = {{0, -day_ns, day_ns}, {-year_ns, year_ns, day_ns}, {year_ns, -year_ns, year_ns}};
	for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
		wk_io *io = disk_of(1);
		wk_faulty_shift_wall(wk_faulty_of(io), jumps[i][0]);
		wk_namespace *ns = open_with(io, NULL);
		wk_log *log = log_that_keeps(ns, 60, 0);
		wk_writer *writer = writer_of(log);
		wait_and_work(io, ns, TEN_SECONDS_MS);
		wk_faulty_shift_wall(wk_faulty_of(io), jumps[i][1]);
		put_five(writer);
		wait_and_work(io, ns, TEN_SECONDS_MS);
		wk_faulty_shift_wall(wk_faulty_of(io), jumps[i][2]);
		wait_and_work(io, ns, TEN_SECONDS_MS);
		CHECK_EQ(count_records(log), RECORDS);
		wait_and_work(io, ns, 45 * 1000);
		CHECK_EQ(count_records(log), 1);
		leave(io, ns, log, writer);
	}
}

/* Forward by a year; or set right by half a minute that it was ahead when the directory was opened. */
TEST(what_an_open_finds_is_made_old_by_no_clock_that_is_set) {
	const int64_t second_ns = 1000000000, year_ns = 365 * 24 * 3600 * second_ns;
	const int64_t jumps[][2] = {{0, year_ns}, {30 * second_ns, -30 * second_ns}};
	for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
		wk_io *io = disk_of(1);
		wk_namespace *ns = open_with(io, NULL);
		wk_log *log = log_that_keeps(ns, 60, 0);
		wk_writer *writer = writer_of(log);
		put_five(writer);
		close_all(ns, log, writer);
		wk_faulty_shift_wall(wk_faulty_of(io), jumps[i][0]);
		ns = open_with(io, NULL);
		log = log_named(ns, "log");
		work(ns);
		wk_faulty_shift_wall(wk_faulty_of(io), jumps[i][1]);
		wait_and_work(io, ns, 50 * 1000);
		CHECK_EQ(count_records(log), RECORDS);
		wait_and_work(io, ns, TEN_SECONDS_MS);
		CHECK_EQ(count_records(log), 1);
		leave(io, ns, log, NULL);
	}
}

/* It may begin while retention waits for its turn, behind the look that it goes by. */
TEST(what_begins_after_the_look_is_not_old) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_that_keeps(ns, 60, 0);
	wk_writer *writer = writer_of(log);
	put_five(writer);
	for (uint32_t i = 0; i < log->state->segments_count; i++)
		log->state->segments[i].begun_ns += (uint64_t)TEN_SECONDS_MS * 1000000;
	work(ns);
	CHECK_EQ(count_records(log), RECORDS);
	leave(io, ns, log, writer);
}

/* Records of a clock that was right, found by one that is not (yet): they age, and not by what it is set to. */
TEST(what_an_open_finds_in_the_future_ages_by_what_passes) {
	const int64_t year_ns = (int64_t)365 * 24 * 3600 * 1000000000;
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_that_keeps(ns, 60, 0);
	wk_writer *writer = writer_of(log);
	put_five(writer);
	close_all(ns, log, writer);
	wk_faulty_shift_wall(wk_faulty_of(io), -year_ns);
	ns = open_with(io, NULL);
	log = log_named(ns, "log");
	work(ns);
	wait_and_work(io, ns, TEN_SECONDS_MS);
	wk_faulty_shift_wall(wk_faulty_of(io), 2 * year_ns);
	wait_and_work(io, ns, 45 * 1000);
	CHECK_EQ(count_records(log), RECORDS);
	wait_and_work(io, ns, TEN_SECONDS_MS);
	CHECK_EQ(count_records(log), 1);
	leave(io, ns, log, NULL);
}

TEST(behind_a_clock_that_was_set_what_is_older_goes) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_that_keeps(ns, 60, 0);
	wk_writer *writer = writer_of(log);
	wait_and_work(io, ns, TEN_SECONDS_MS);
	wk_faulty_shift_wall(wk_faulty_of(io), (int64_t)365 * 24 * 3600 * 1000000000);
	put_five(writer);
	wait_and_work(io, ns, 50 * 1000);
	CHECK_EQ(count_records(log), RECORDS);
	wait_and_work(io, ns, TEN_SECONDS_MS);
	CHECK_EQ(count_records(log), 1);
	leave(io, ns, log, writer);
}

/* The largest number, and those that come out as a second or as nothing where they are multiplied into 64 bits. */
static const uint64_t for_ever[] = {UINT64_MAX, UINT64_MAX / 1000 + 1, UINT64_MAX / 1000 + 2, (uint64_t)1 << 61};

TEST(what_is_kept_for_ever_is_kept) {
	for (size_t i = 0; i < sizeof for_ever / sizeof *for_ever; i++) {
		wk_io *io = disk_of(1);
		wk_namespace *ns = open_with(io, NULL);
		wk_log *log = log_that_keeps(ns, for_ever[i], 0);
		wk_writer *writer = writer_of(log);
		put_five(writer);
		wait_and_work(io, ns, TEN_SECONDS_MS);
		CHECK_EQ(count_records(log), RECORDS);
		close_all(ns, log, writer);
		ns = open_with(io, NULL); /* as it is stored */
		log = log_named(ns, "log");
		CHECK(described(log).options.retention_seconds == for_ever[i]);
		wait_and_work(io, ns, TEN_SECONDS_MS);
		CHECK_EQ(count_records(log), RECORDS);
		leave(io, ns, log, NULL);
	}
}

TEST(a_segment_that_never_ends_by_its_age_does_not) {
	for (size_t i = 0; i < sizeof for_ever / sizeof *for_ever; i++) {
		wk_io *io = disk_of(1);
		wk_namespace *ns = open_with(io, NULL);
		wk_log *log = log_that_keeps(ns, 0, for_ever[i]);
		wk_writer *writer = writer_of(log);
		for (int k = 0; k < RECORDS; k++) {
			put(writer, "record", WK_SYNC);
			wait_and_work(io, ns, TEN_SECONDS_MS);
		}
		CHECK_EQ(described(log).segments_count, 1);
		leave(io, ns, log, writer);
	}
}

TEST(a_segment_ends_when_it_is_old) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_that_keeps(ns, 0, 10);
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < RECORDS; i++) {
		put(writer, "record", WK_SYNC);
		wait_and_work(io, ns, TEN_SECONDS_MS);
	}
	CHECK_EQ(described(log).segments_count, RECORDS);
	leave(io, ns, log, writer);
}

static void *retain(void *context) {
	wk_engine *engine = context;
	wk_engine_lock(engine);
	wk_retention_step(engine);
	wk_engine_unlock(engine);
	return NULL;
}

static void wait_for_a_sleeper(wk_engine *engine) {
	while (atomic_load(&engine->room.sleepers) == 0)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* (locked) It is accepted; durable with what the other thread commits: one thread at a time drives in manual mode. */
static void set_cursor_at_once(wk_engine *engine, const wk_log *log, const wk_position *at) {
	uint64_t ticket;
	CHECK_EQ(wk_catalogue_change(engine,
	                             &(wk_catalogue_record){.type = WK_CATALOGUE_CURSOR,
	                                                    .log_id = log->state->id,
	                                                    .segment = at->dlsn.segment,
	                                                    .entry_id = at->dlsn.entry_id,
	                                                    .slot = at->dlsn.slot,
	                                                    .sequence_id = at->sequence_id,
	                                                    .txid = at->txid,
	                                                    .name = "cursor",
	                                                    .name_size = 6},
	                             &ticket),
	         WK_OK);
	wk_journal_want(engine, true, UINT64_MAX);
}

/* The segments that go were chosen; then the catalogue may not change for a while: a snapshot of it is being written. */
TEST(a_cursor_that_came_while_retention_waited_for_its_turn_is_not_passed) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_engine *engine = ns->engine;
	wk_log *log = log_that_keeps(ns, 2, 0);
	wk_writer *writer = writer_of(log);
	put_five(writer);
	wk_faulty_advance(wk_faulty_of(io), TEN_SECONDS_MS * (uint64_t)1000000);
	wk_position third;
	CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, 2, NULL, &third, NULL), WK_OK);
	engine->snapshotting = true; /* as wk_snapshot_write does */
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, retain, engine), 0);
	wait_for_a_sleeper(engine);
	wk_engine_lock(engine);
	engine->snapshotting = false; /* whoever looks first goes on first: here it is the cursor */
	set_cursor_at_once(engine, log, &third);
	wk_engine_unlock(engine);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	wait_and_work(io, ns, TEN_SECONDS_MS);
	CHECK_EQ(described(log).first.sequence_id, 2); /* what the cursor does not need is gone all the same */
	CHECK_EQ(wk_cursor_delete(log, "cursor", 6, NULL), WK_OK);
	wait_and_work(io, ns, TEN_SECONDS_MS);
	CHECK_EQ(described(log).first.sequence_id, RECORDS - 1);
	leave(io, ns, log, writer);
}

typedef struct truncating {
	wk_log *log;
	wk_position before;
	wk_status status;
} truncating;

static void *truncate_log(void *context) {
	truncating *t = context;
	t->status = wk_log_truncate(t->log, &t->before.dlsn, false, NULL);
	return NULL;
}

TEST(a_cursor_that_came_while_a_truncation_waited_for_its_turn_is_not_passed) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_engine *engine = ns->engine;
	wk_log *log = log_that_keeps(ns, 0, 0);
	wk_writer *writer = writer_of(log);
	put_five(writer);
	wk_position third;
	CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, 2, NULL, &third, NULL), WK_OK);
	truncating t = {.log = log};
	wk_writer_next(writer, &t.before);
	engine->snapshotting = true;
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, truncate_log, &t), 0);
	wait_for_a_sleeper(engine);
	wk_engine_lock(engine);
	engine->snapshotting = false;
	set_cursor_at_once(engine, log, &third);
	wk_engine_unlock(engine);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(t.status, WK_EXISTS);
	CHECK_EQ(count_records(log), RECORDS);
	leave(io, ns, log, writer);
}

int main(void) {
	RUN(what_is_older_goes_but_for_the_open_segment);
	RUN(a_clock_that_is_set_makes_nothing_old);
	RUN(what_this_open_appended_ages_by_no_clock_that_is_set);
	RUN(what_an_open_finds_is_made_old_by_no_clock_that_is_set);
	RUN(what_begins_after_the_look_is_not_old);
	RUN(what_an_open_finds_in_the_future_ages_by_what_passes);
	RUN(behind_a_clock_that_was_set_what_is_older_goes);
	RUN(what_is_kept_for_ever_is_kept);
	RUN(a_segment_that_never_ends_by_its_age_does_not);
	RUN(a_segment_ends_when_it_is_old);
	RUN(a_cursor_that_came_while_retention_waited_for_its_turn_is_not_passed);
	RUN(a_cursor_that_came_while_a_truncation_waited_for_its_turn_is_not_passed);
	return check_done();
}
