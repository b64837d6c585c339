/*
 * test_follower_refused.c: a follower that was overtaken must look at the directory anew, and the machine refuses it the
 * descriptors for that. What it says then is true: nothing is damaged.
 */
#include "engine/directory/directory.h"
#include "io/io.h"
#include "small_directory.h"
#include <errno.h>

static struct wk_io_operations operations, original;
static int handles, handles_max = 1000;

/* The kernel looks for a descriptor before it looks for the file. */
static int open_or_not(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	if (handles >= handles_max)
		return -EMFILE;
	int result = original.open(io, path, flags, file);
	handles += result == 0;
	return result;
}

static void close_it(wk_io *io, wk_file *file) {
	handles--;
	original.close(io, file);
}

/* Every file that is there now gives way to others. */
static void recycle_all(wk_namespace *ns, wk_log *log, wk_writer *writer) {
	wk_stats before, stats;
	wk_namespace_stats(ns, &before);
	do {
		int64_t last = 0;
		for (int i = 0; i < 40; i++)
			last = append_one(writer);
		wk_position at;
		CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, last - 5, NULL, &at, NULL), WK_OK);
		CHECK_EQ(wk_log_truncate(log, &at.dlsn, false, NULL), WK_OK);
		nap_ms(5);
		wk_namespace_stats(ns, &stats);
	} while (stats.recycled_files < before.recycled_files + 20);
}

TEST(a_follower_without_descriptors_does_not_speak_of_damage) {
	char path[64];
	strcpy(path, temporary());
	wk_namespace *ns = open_small(path), *other = NULL;
	wk_log *log = log_named(ns, "log"), *followed = NULL;
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < 60; i++)
		append_one(writer);
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	original = operations = *io->operations;
	operations.open = open_or_not;
	operations.close = close_it;
	io->operations = &operations;
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = true;
	wk_error error = {0};
	check_ok(wk_open_on(io, path, &options, &other, &error), &error, "the follower opens");
	CHECK_EQ(wk_log_open(other, "log", 3, false, NULL, &followed, NULL), WK_OK);
	wk_reader *reader = NULL;
	CHECK_EQ(wk_reader_open(followed, NULL, &reader, NULL), WK_OK);
	recycle_all(ns, log, writer);
	handles_max = handles + 1; /* enough to read a file, too little to look at the directory anew */
	wk_batch *batch;
	wk_status status = wk_reader_next(reader, 10, 1 << 20, 0, &batch, &error);
	printf("status %d: %s\n", (int)status, error.text);
	handles_max = 1000;
	CHECK(status != WK_DAMAGED);
	CHECK(status != WK_OK);
	wk_reader_release(reader);
	wk_log_release(followed);
	CHECK_EQ(wk_close(other, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	close_all(ns, log, writer);
	remove_tree(path);
}

int main(void) {
	RUN(a_follower_without_descriptors_does_not_speak_of_damage);
	return check_done();
}
