/*
 * test_made_meanwhile.c: somebody else makes the directory between the looks of who opens it: it is opened as it is.
 */
#include "manual_directory.h"
#include <errno.h>

static struct wk_io_operations watching;
static const struct wk_io_operations *plain;
static bool made;

static int open_late(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	int result = plain->open(io, path, flags, file);
	if (result != -ENOENT || strstr(path, "superblock") == NULL || made)
		return result;
	made = true;
	close_all(open_with(io, NULL), NULL, NULL);
	return result;
}

TEST(a_directory_that_is_made_between_two_looks_opens) {
	wk_io *io = disk_of(1);
	plain = io->operations;
	watching = *plain;
	watching.open = open_late;
	io->operations = &watching;
	CHECK_EQ(io->operations->make_directory(io, "wal"), 0);
	wk_namespace *ns = open_with(io, NULL);
	CHECK(made);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	put(writer, "a record", WK_SYNC);
	leave(io, ns, log, writer);
}

int main(void) {
	RUN(a_directory_that_is_made_between_two_looks_opens);
	return check_done();
}
