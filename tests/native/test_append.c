/*
 * test_append.c: how records become entries and blocks, and when they are durable: storage rules 1, 6, 11, 31 and 32
 * (docs/storage-rules.md).
 */
#include "manual_directory.h"
#include "sim/faulty.h"
#include <time.h>

/* ---- records, entries and blocks ---- */

TEST(rule_1_records_that_wait_for_one_block_are_one_entry) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int64_t i = 0; i < 3; i++) {
		wk_position at = put(writer, "together", WK_DEFERRED);
		CHECK_EQ(at.dlsn.entry_id, 0);
		CHECK_EQ(at.dlsn.slot, i);
	}
	CHECK_EQ(wk_writer_flush(writer, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(put(writer, "alone", WK_SYNC).dlsn.entry_id, 1);
	leave(io, ns, log, writer);
}

TEST(rule_1_an_atomic_batch_begins_and_ends_an_entry) {
	static const uint32_t sizes[] = {1, 1};
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	wk_append_options options;
	wk_append_options_init(&options);
	options.atomic = true;
	options.durability = WK_DEFERRED;
	wk_position first, last;
	uint64_t ticket;
	put(writer, "before", WK_DEFERRED);
	CHECK_EQ(wk_writer_append_many(writer, "ab", sizes, 2, NULL, &options, true, &first, &last, &ticket, NULL), WK_OK);
	CHECK_EQ(first.dlsn.entry_id, 1);
	CHECK_EQ(last.dlsn.entry_id, 1);
	CHECK_EQ(put(writer, "behind", WK_DEFERRED).dlsn.entry_id, 2);
	leave(io, ns, log, writer);
}

static wk_status put_expecting(wk_writer *writer, int64_t expected) {
	wk_append_options options;
	wk_append_options_init(&options);
	options.expected = expected;
	options.durability = WK_DEFERRED;
	uint64_t ticket;
	return wk_writer_submit(writer, "x", 1, &options, NULL, &ticket, NULL);
}

TEST(rule_6_after_one_failed_condition_later_ones_fail_until_a_flush) {
	wk_io *io = disk_of(6);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	CHECK_EQ(put_expecting(writer, 0), WK_OK);
	CHECK_EQ(put_expecting(writer, 7), WK_MISMATCH);
	CHECK_EQ(put_expecting(writer, 1), WK_MISMATCH); /* it would fit, but its caller built on the one before */
	CHECK_EQ(wk_writer_flush(writer, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(put_expecting(writer, 1), WK_OK);
	leave(io, ns, log, writer);
}

/* ---- confirm blocks ---- */

static void pause_ms(long ms) {
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&time, NULL);
}

/* On a real disk: the driver writes confirm blocks by itself. */
TEST(rule_11_one_confirm_block_follows_when_appends_pause) {
	char path[64];
	strcpy(path, temporary());
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	append_one(writer);
	uint64_t before = stats_of(ns).durable_block;
	for (int i = 0; i < 100 && stats_of(ns).durable_block == before; i++)
		pause_ms(20);
	CHECK_EQ(stats_of(ns).durable_block, before + 1);
	pause_ms(300);
	CHECK_EQ(stats_of(ns).durable_block, before + 1); /* a confirm block is not confirmed in its turn */
	close_all(ns, log, writer);
	remove_tree(path);
}

TEST(rule_11_closing_writes_the_confirm_block) {
	wk_io *io = disk_of(11);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	put(writer, "last", WK_SYNC);
	uint64_t before = stats_of(ns).durable_block;
	close_all(ns, log, writer);
	ns = open_with(io, NULL);
	CHECK_EQ(stats_of(ns).durable_block, before + 1);
	leave(io, ns, NULL, NULL);
}

/* ---- blocks that wait ---- */

TEST(rule_31_a_deferred_record_is_not_read_before_it_is_durable) {
	wk_io *io = disk_of(31);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	put(writer, "later", WK_DEFERRED);
	CHECK_EQ(count_records(log), 0);
	wk_faulty_advance(wk_faulty_of(io), 99 * 1000000);
	work(ns);
	CHECK_EQ(count_records(log), 0);
	wait_and_work(io, ns, 2); /* deferred_delay is 100 ms */
	CHECK_EQ(count_records(log), 1);
	leave(io, ns, log, writer);
}

static void with_commit_wait(wk_open_options *options) {
	options->commit_wait_ns = 5000000;
}

TEST(rule_32_a_block_waits_for_company_no_longer_than_it_may) {
	wk_io *io = disk_of(32);
	wk_namespace *ns = open_with(io, with_commit_wait);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	work(ns);
	uint64_t before = stats_of(ns).blocks_count, ticket;
	CHECK_EQ(wk_writer_submit(writer, "first", 5, NULL, NULL, &ticket, NULL), WK_OK);
	wait_and_work(io, ns, 2);
	CHECK_EQ(wk_writer_submit(writer, "company", 7, NULL, NULL, &ticket, NULL), WK_OK);
	CHECK_EQ(stats_of(ns).blocks_count, before);
	wait_and_work(io, ns, 4);
	CHECK_EQ(stats_of(ns).blocks_count, before + 1);
	CHECK(wk_namespace_durable(ns) >= ticket);
	leave(io, ns, log, writer);
}

int main(void) {
	RUN(rule_1_records_that_wait_for_one_block_are_one_entry);
	RUN(rule_1_an_atomic_batch_begins_and_ends_an_entry);
	RUN(rule_6_after_one_failed_condition_later_ones_fail_until_a_flush);
	RUN(rule_11_one_confirm_block_follows_when_appends_pause);
	RUN(rule_11_closing_writes_the_confirm_block);
	RUN(rule_31_a_deferred_record_is_not_read_before_it_is_durable);
	RUN(rule_32_a_block_waits_for_company_no_longer_than_it_may);
	return check_done();
}
