/* test_never.c: a delay of UINT64_MAX is for ever, and not what is left when the sum wraps: nothing. */
#include "manual_directory.h"
#include <time.h>

static void never_deferred(wk_open_options *options) {
	options->deferred_delay_ns = UINT64_MAX;
}

static void never_compacts(wk_open_options *options) {
	options->minor_interval_ns = options->major_interval_ns = UINT64_MAX;
}

TEST(a_deferred_append_without_a_delay_to_be_kept_waits_for_a_flush) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, never_deferred);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	put(writer, "first", WK_SYNC);
	work(ns);
	uint64_t before = wk_namespace_durable(ns);
	put(writer, "deferred", WK_DEFERRED);
	wait_and_work(io, ns, 1000000);
	CHECK_EQ(wk_namespace_durable(ns), before);
	CHECK_EQ(wk_writer_flush(writer, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(wk_namespace_durable(ns), before + 1);
	leave(io, ns, log, writer);
}

TEST(compaction_that_is_never_due_does_not_run) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, never_compacts);
	CHECK_EQ(ns->engine->minor_due_ns, UINT64_MAX);
	CHECK_EQ(ns->engine->major_due_ns, UINT64_MAX);
	leave(io, ns, NULL, NULL);
}

/* Here there is no for ever: even making a log would wait that long. */
TEST(a_wait_for_company_without_end_is_refused) {
	wk_io *io = disk_of(1);
	wk_open_options options;
	wk_open_options_init(&options);
	options.commit_wait_ns = UINT64_MAX;
	wk_namespace *ns = NULL;
	CHECK_EQ(wk_open_on(io, "wal", &options, &ns, NULL), WK_INVALID);
	io->operations->destroy(io);
}

/* Closing a directory of its own threads writes the confirm block in any case; nothing else does. */
TEST(a_confirm_block_that_is_never_due_is_not_written) {
	char path[64];
	strcpy(path, temporary());
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.confirm_delay_ns = UINT64_MAX;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the directory opens");
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	append_one(writer);
	uint64_t before = stats_of(ns).blocks_count;
	append_one(writer);
	nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
	CHECK_EQ(stats_of(ns).blocks_count, before + 1);
	close_all(ns, log, writer);
	remove_tree(path);
}

int main(void) {
	RUN(a_deferred_append_without_a_delay_to_be_kept_waits_for_a_flush);
	RUN(compaction_that_is_never_due_does_not_run);
	RUN(a_wait_for_company_without_end_is_refused);
	RUN(a_confirm_block_that_is_never_due_is_not_written);
	return check_done();
}
