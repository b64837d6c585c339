/*
 * test_review_4.c: the journal fails under the end of a stream. What the log says of itself then is what the next open
 * finds (docs/guarantees.md: "What is said of the catalogue stays").
 */
#include "manual_directory.h"
#include <errno.h>

static void end_fails(uint64_t seed) {
	wk_io *io = disk_of(seed);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	put(writer, "record", WK_SYNC);
	work(ns);
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_WRITE, 0, EIO, true);
	wk_error error = {0};
	CHECK_EQ(wk_writer_end_of_stream(writer, &error), WK_FAILED);
	wk_log_info told;
	CHECK_EQ(wk_log_describe(log, &told, &error), WK_OK);
	wk_writer_close(writer, UINT64_MAX, NULL);
	wk_log_release(log);
	wk_abandon(ns);
	wk_faulty_heal(wk_faulty_of(io));
	wk_faulty_crash(wk_faulty_of(io), seed);
	ns = open_with(io, NULL);
	log = log_named(ns, "log");
	wk_log_info found;
	CHECK_EQ(wk_log_describe(log, &found, &error), WK_OK);
	CHECK(!told.end_of_stream || found.end_of_stream);
	leave(io, ns, log, NULL);
}

/* A failed write may land or not. */
TEST(a_failed_end_of_stream_is_not_told_for_one) {
	for (uint64_t seed = 1; seed <= 20; seed++)
		end_fails(seed);
}

int main(void) {
	RUN(a_failed_end_of_stream_is_not_told_for_one);
	return check_done();
}
