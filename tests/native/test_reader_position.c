/*
 * test_reader_position.c: where a reader stands is kept by whoever goes on there after a crash. It must not stand in a
 * segment that is not durable yet: without it the next records come where the reader never looks.
 */
#include "manual_directory.h"
#include "sim/faulty.h"

TEST(a_reader_does_not_stand_in_a_segment_that_a_power_cut_takes_back) {
	wk_io *io = disk_of(7);
	wk_namespace *ns = open_with(io, NULL);
	wk_log_options options;
	wk_log_options_init(&options);
	options.segment_bytes = 3000;
	options.codec = WK_CODEC_LZ4; /* before an open counts what was given, behind it what is stored */
	wk_log *log = NULL;
	CHECK_EQ(wk_log_open(ns, "log", 3, true, &options, &log, NULL), WK_OK);
	wk_writer *writer = writer_of(log);
	static char text[4000];
	memset(text, 't', sizeof text);
	put_bytes(writer, text, sizeof text, -1, WK_SYNC);
	wait_and_work(io, ns, 1000);
	wk_reader *reader = NULL;
	wk_batch *batch = NULL;
	wk_read_options from;
	wk_read_options_init(&from);
	CHECK_EQ(wk_reader_open(log, &from, &reader, NULL), WK_OK);
	CHECK_EQ(wk_reader_next(reader, 10, 1 << 20, 0, &batch, NULL), WK_OK);
	wk_batch_release(batch);
	put(writer, "begins a segment, and is not durable", WK_DEFERRED);
	CHECK_EQ(wk_reader_next(reader, 10, 1 << 20, 0, &batch, NULL), WK_END);
	wk_dlsn stands;
	wk_reader_position(reader, &stands);
	wk_abandon(ns);
	wk_reader_release(reader);
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
	wk_faulty_crash(wk_faulty_of(io), 3);

	ns = open_with(io, NULL);
	log = log_named(ns, "log");
	writer = writer_of(log);
	wk_position at = put(writer, "the next record", WK_SYNC);
	printf("stood at (%lld, %lld, %lld), the next record is at (%lld, %lld, %lld)\n", (long long)stands.segment,
	       (long long)stands.entry_id, (long long)stands.slot, (long long)at.dlsn.segment, (long long)at.dlsn.entry_id,
	       (long long)at.dlsn.slot);
	from.from = WK_FROM_DLSN;
	from.start = stands;
	CHECK_EQ(wk_reader_open(log, &from, &reader, NULL), WK_OK);
	CHECK_EQ(wk_reader_next(reader, 10, 1 << 20, 0, &batch, NULL), WK_OK);
	size_t count;
	CHECK_EQ(wk_batch_records(batch, &count)[0].at.sequence_id, at.sequence_id);
	wk_batch_release(batch);
	wk_reader_release(reader);
	leave(io, ns, log, writer);
}

int main(void) {
	RUN(a_reader_does_not_stand_in_a_segment_that_a_power_cut_takes_back);
	return check_done();
}
