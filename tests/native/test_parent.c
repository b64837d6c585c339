/*
 * test_parent.c: a new directory's name is synced in the directory that has it, however the path is written and through
 * whatever links it leads.
 */
#include "engine/directory/directory.h"
#include "engine/manual.h"
#include "io/io.h"
#include "small_directory.h"
#include <limits.h>

static struct wk_io_operations operations, original;
static char synced[16][PATH_MAX];
static int count;

static int sync_noted(wk_io *io, const char *path) {
	CHECK(count < 16 && realpath(path, synced[count]) != NULL);
	count++;
	return original.sync_directory(io, path);
}

static void make(const char *path) {
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	original = operations = *io->operations;
	operations.sync_directory = sync_noted;
	io->operations = &operations;
	wk_open_options options;
	wk_open_options_init(&options);
	options.create = true;
	options.internal = WK_OPEN_MANUAL;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	count = 0;
	check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the directory is made");
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
}

static bool was_synced(const char *path) {
	char real[PATH_MAX];
	bool found = false;
	CHECK(realpath(path, real) != NULL);
	for (int i = 0; i < count; i++)
		found |= strcmp(synced[i], real) == 0;
	return found;
}

TEST(the_directory_above_is_synced) {
	static const char *const names[] = {"here/new", "here/slash/", "here//two", "here/./dot", "here/dots/../there"};
	const char *path = temporary();
	CHECK_EQ(mkdir(below(path, "here"), 0777), 0);
	CHECK_EQ(mkdir(below(path, "here/dots"), 0777), 0);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		make(below(path, names[i]));
		CHECK(was_synced(below(path, "here")));
	}
	remove_tree(path);
}

TEST(the_directory_above_the_working_directory_is_synced) {
	static const char *const names[] = {".", "./", "../work"};
	char before[PATH_MAX];
	CHECK(getcwd(before, sizeof before) != NULL);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *path = temporary();
		CHECK_EQ(mkdir(below(path, "work"), 0777), 0);
		CHECK_EQ(chdir(below(path, "work")), 0);
		make(names[i]);
		CHECK(was_synced(path));
		CHECK_EQ(chdir(before), 0);
		remove_tree(path);
	}
}

/* The link's own directory does not have the name. */
TEST(of_a_link_it_is_the_one_above_what_it_leads_to) {
	const char *path = temporary();
	CHECK_EQ(mkdir(below(path, "real"), 0777), 0);
	CHECK_EQ(mkdir(below(path, "real/wal"), 0777), 0);
	CHECK_EQ(mkdir(below(path, "links"), 0777), 0);
	CHECK_EQ(symlink("../real/wal", below(path, "links/wal")), 0);
	make(below(path, "links/wal"));
	CHECK(was_synced(below(path, "real")));
	remove_tree(path);
}

int main(void) {
	RUN(the_directory_above_is_synced);
	RUN(the_directory_above_the_working_directory_is_synced);
	RUN(of_a_link_it_is_the_one_above_what_it_leads_to);
	return check_done();
}
