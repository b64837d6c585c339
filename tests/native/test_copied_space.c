/*
 * test_copied_space.c: a directory that was copied without the space that its files had (`cp --sparse`, `tar -S`), on a
 * disk that is nearly full: what has a size and no blocks is not counted on.
 */

#include "engine/directory/directory.h"
#include "engine/manual.h"
#include "small_directory.h"
#include <errno.h>

static struct wk_io_operations operations, original;
static bool is_sparse;
static uint32_t refusals, passes; /* of space, behind so many that pass */
static const char *target;        /* only for files whose path has this; NULL: for all of the journal */
static wk_file *handles[64];      /* theirs, as far as they are open */

static int open_known(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	int result = original.open(io, path, flags, file);
	for (uint32_t i = 0; i < 64 && result == 0 && strstr(path, target != NULL ? target : "/journal/") != NULL; i++)
		if (handles[i] == NULL) {
			handles[i] = *file;
			break;
		}
	return result;
}

static bool is_known(const wk_file *file) {
	bool found = false;
	for (uint32_t i = 0; i < 64; i++)
		found |= handles[i] == file;
	return found;
}

static void close_known(wk_io *io, wk_file *file) {
	for (uint32_t i = 0; i < 64; i++)
		handles[i] = handles[i] == file ? NULL : handles[i];
	original.close(io, file);
}

static int stat_sparse(wk_io *io, wk_file *file, wk_io_stat *stat) {
	int result = original.stat(io, file, stat);
	stat->owned = is_sparse && is_known(file) ? 4096 : stat->owned;
	return result;
}

static int allocate_or_not(wk_io *io, wk_file *file, uint64_t size) {
	if (!is_known(file))
		return original.allocate(io, file, size);
	if (passes > 0)
		passes--;
	else if (refusals > 0) {
		refusals--;
		return -ENOSPC;
	}
	return original.allocate(io, file, size);
}

static wk_io *hooked(void) {
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	original = operations = *io->operations;
	operations.open = open_known;
	operations.close = close_known;
	operations.stat = stat_sparse;
	operations.allocate = allocate_or_not;
	io->operations = &operations;
	return io;
}

static wk_status open_manual(wk_io *io, const char *path, wk_namespace **ns, wk_error *error) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.sync_method = WK_SYNC_DSYNC;
	*ns = NULL;
	return wk_open_on(io, path, &options, ns, error);
}

static uint32_t prepared_files(wk_io *io, const char *path) {
	uint32_t count = 0;
	for (int i = 0; i < 16; i++) {
		char name[100];
		wk_file *file = NULL;
		snprintf(name, sizeof name, "%s/journal/prepared-%016x.wkp", path, (unsigned)i);
		if (original.open(io, name, WK_IO_READ, &file) != 0)
			continue;
		original.close(io, file);
		count++;
	}
	return count;
}

/* A directory of five records whose keeper prepared what it likes to. */
static uint32_t make(wk_io *io, const char *path) {
	is_sparse = false;
	refusals = 0;
	wk_namespace *ns;
	wk_error error = {0};
	check_ok(open_manual(io, path, &ns, &error), &error, "the directory opens");
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	bool idle = false;
	for (int i = 0; i < 5; i++)
		append_one(writer);
	for (int i = 0; i < 100 && !idle; i++)
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	wk_writer_close(writer, UINT64_MAX, NULL);
	wk_log_release(log);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	return prepared_files(io, path);
}

static void check_all_there(wk_namespace *ns) {
	int64_t first, last;
	read_all(ns, &first, &last);
	CHECK_EQ(first, 0);
	CHECK_EQ(last, 4);
}

TEST(prepared_files_without_space_of_their_own_are_no_reserve) {
	const char *path = temporary();
	wk_io *io = hooked();
	uint32_t count = make(io, path);
	CHECK(count > 0);
	is_sparse = true;
	refusals = count;
	wk_namespace *ns;
	wk_error error = {0};
	check_ok(open_manual(io, path, &ns, &error), &error, "the copy opens");
	CHECK_EQ(refusals, 0);
	CHECK_EQ(prepared_files(io, path), 0);
	check_all_there(ns);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	remove_tree(path);
}

TEST(prepared_files_are_given_up_for_the_one_that_is_written) {
	const char *path = temporary();
	wk_io *io = hooked();
	uint32_t count = make(io, path);
	is_sparse = true;
	passes = count;
	refusals = 1;
	wk_namespace *ns;
	wk_error error = {0};
	check_ok(open_manual(io, path, &ns, &error), &error, "the copy opens");
	CHECK_EQ(refusals, 0);
	CHECK_EQ(prepared_files(io, path), count - 1);
	check_all_there(ns);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	remove_tree(path);
}

TEST(a_copy_that_cannot_be_written_says_so_before_anything_is) {
	const char *path = temporary();
	wk_io *io = hooked();
	make(io, path);
	is_sparse = true;
	refusals = UINT32_MAX;
	wk_namespace *ns;
	wk_error error = {0};
	CHECK_EQ(open_manual(io, path, &ns, &error), WK_NO_SPACE);
	CHECK(strstr(error.text, "copied without the space") != NULL);
	CHECK(strstr(error.text, "0001.wkj") != NULL); /* the one that is written */
	refusals = 0;
	check_ok(open_manual(io, path, &ns, &error), &error, "the copy opens where there is room");
	check_all_there(ns);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	remove_tree(path);
}

/* Fills the journal's first file and goes on in the next one; the first one's footer is not written. */
static void make_full(wk_io *io, const char *path) {
	is_sparse = false;
	refusals = 0;
	wk_namespace *ns;
	wk_error error = {0};
	check_ok(open_manual(io, path, &ns, &error), &error, "the directory opens");
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	bool idle = false;
	for (int i = 0; i < 100 && !idle; i++)
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	for (int i = 0; i < SMALL_FILE_SIZE / 4096; i++)
		append_one(writer);
	wk_abandon(ns);
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
}

/* All that is written to from here on is looked at before anything is: the root, and files that wait for a footer. */
TEST(no_file_without_its_space_is_counted_on) {
	static const char *const targets[] = {"/superblock", "0001.wkj", "0002.wkj"};
	for (int full = 0; full < 2; full++)
		for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
			const char *path = temporary();
			wk_io *io = hooked();
			target = NULL;
			if (full)
				make_full(io, path);
			else
				make(io, path);
			target = targets[i];
			is_sparse = true;
			refusals = UINT32_MAX;
			wk_namespace *ns;
			wk_error error = {0};
			CHECK_EQ(open_manual(io, path, &ns, &error), WK_NO_SPACE);
			CHECK(strstr(error.text, "copied without the space") != NULL);
			CHECK(strstr(error.text, *targets[i] == '/' ? targets[i] + 1 : targets[i]) != NULL);
			target = NULL;
			refusals = 0;
			check_ok(open_manual(io, path, &ns, &error), &error, "the copy opens where there is room");
			CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
			io->operations->destroy(io);
			remove_tree(path);
		}
}

/* xfs refuses to look at what is there already, where it is nearly full. */
TEST(files_that_have_their_space_stay_whatever_the_disk_says) {
	const char *path = temporary();
	wk_io *io = hooked();
	uint32_t count = make(io, path);
	refusals = UINT32_MAX;
	wk_namespace *ns;
	wk_error error = {0};
	check_ok(open_manual(io, path, &ns, &error), &error, "the directory opens");
	CHECK_EQ(prepared_files(io, path), count);
	check_all_there(ns);
	refusals = 0;
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	remove_tree(path);
}

TEST(a_hole_gets_its_blocks) {
	const char *path = temporary();
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	const struct wk_io_operations *ops = io->operations;
	wk_file *file = NULL;
	wk_io_stat stat;
	CHECK_EQ(ops->open(io, below(path, "hole"), WK_IO_WRITE | WK_IO_CREATE, &file), 0);
	CHECK_EQ(ops->truncate(io, file, 1 << 20), 0);
	CHECK_EQ(ops->stat(io, file, &stat), 0);
	CHECK(stat.owned < 1 << 20);
	CHECK_EQ(ops->allocate(io, file, 1 << 20), 0);
	CHECK_EQ(ops->stat(io, file, &stat), 0);
	CHECK(stat.owned >= 1 << 20 && stat.size == 1 << 20);
	ops->close(io, file);
	ops->destroy(io);
	remove_tree(path);
}

int main(void) {
	RUN(prepared_files_without_space_of_their_own_are_no_reserve);
	RUN(prepared_files_are_given_up_for_the_one_that_is_written);
	RUN(a_copy_that_cannot_be_written_says_so_before_anything_is);
	RUN(no_file_without_its_space_is_counted_on);
	RUN(files_that_have_their_space_stay_whatever_the_disk_says);
	RUN(a_hole_gets_its_blocks);
	return check_done();
}
