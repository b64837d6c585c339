/*
 * test_unfinished_directory.c: a process fails, or is killed, while it makes a directory; the next one finds it, and
 * appends. Then the power goes: what was acknowledged is there, and so are the names that lead to it.
 */
#include <errno.h>

#include "engine/manual.h"
#include "manual_directory.h"
#include "sim/faulty.h"

enum { CUTS = 6, CALLS_MAX = 200 };

/* The process that makes it ends at this call. false: it does not make so many. */
static bool make_up_to(wk_io *io, uint64_t call) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.file_size_min = options.file_size_max = 64 * 1024;
	options.sync_method = WK_SYNC_DSYNC;
	wk_namespace *ns = NULL;
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_ALL, call, EIO, true);
	if (wk_open_on(io, "wal", &options, &ns, NULL) == WK_OK)
		wk_abandon(ns);
	bool met = wk_faulty_calls(wk_faulty_of(io), WK_FAULT_ALL) > call;
	wk_faulty_heal(wk_faulty_of(io));
	wk_faulty_kill(wk_faulty_of(io));
	return met;
}

static const struct wk_io_operations *plain;

/* The directory above may be entered, but not read. */
static int refusing_sync(wk_io *io, const char *path) {
	return strcmp(path, "wal/..") == 0 ? -EACCES : plain->sync_directory(io, path);
}

static void append_and_check(wk_io *io) {
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	put(writer, "acknowledged", WK_SYNC);
	uint64_t at = wk_faulty_trace_length(wk_faulty_of(io));
	for (uint64_t seed = 0; seed < CUTS; seed++) {
		wk_io *image;
		CHECK_EQ(wk_faulty_image(wk_faulty_of(io), at, seed, &image), 0);
		wk_namespace *again = open_with(image, NULL);
		wk_log *found = log_named(again, "log");
		CHECK_EQ(count_records(found), 1);
		leave(image, again, found, NULL);
	}
	close_all(ns, log, writer);
}

TEST(what_is_acknowledged_in_a_directory_that_others_began_to_make_is_there) {
	bool met = true;
	for (uint64_t call = 0; met; call++) {
		wk_io *io = disk_of(call);
		CHECK(call < CALLS_MAX);
		met = make_up_to(io, call);
		append_and_check(io);
		io->operations->destroy(io);
	}
}

/* mkdir is somebody else's, who did not sync it. */
TEST(what_is_acknowledged_in_a_directory_that_was_there_is_there) {
	wk_io *io = disk_of(check_seed(1));
	CHECK_EQ(io->operations->make_directory(io, "wal"), 0);
	append_and_check(io);
	io->operations->destroy(io);
}

static wk_status open_below_unreadable(wk_io *io, wk_error *error) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	static struct wk_io_operations operations;
	plain = io->operations;
	operations = *plain;
	operations.sync_directory = refusing_sync;
	io->operations = &operations;
	wk_namespace *ns = NULL;
	wk_status status = wk_open_on(io, "wal", &options, &ns, error);
	io->operations = plain;
	if (status == WK_OK)
		wk_abandon(ns);
	return status;
}

/* Whose name it cannot sync, nobody may rely on: but one that somebody else made there is used. */
TEST(below_a_directory_that_cannot_be_read_none_is_made_and_one_that_is_there_is_used) {
	wk_io *io = disk_of(check_seed(1));
	wk_error error = {0};
	CHECK_EQ(open_below_unreadable(io, &error), WK_IO);
	CHECK_EQ(error.system_error, EACCES);
	io->operations->destroy(io);
	io = disk_of(check_seed(1));
	CHECK_EQ(io->operations->make_directory(io, "wal"), 0);
	check_ok(open_below_unreadable(io, &error), &error, "the directory opens");
	io->operations->destroy(io);
}

int main(void) {
	RUN(what_is_acknowledged_in_a_directory_that_others_began_to_make_is_there);
	RUN(what_is_acknowledged_in_a_directory_that_was_there_is_there);
	RUN(below_a_directory_that_cannot_be_read_none_is_made_and_one_that_is_there_is_used);
	return check_done();
}
