/*
 * test_moved_directory.c: an open directory stays the one that was opened: the process changes its working directory,
 * or somebody renames the directory and makes another under its old name.
 */
#include "engine/directory/directory.h"
#include "engine/engine.h"
#include "small_directory.h"
#include "walkeeper/inspect.h"
#include <dirent.h>
#include <errno.h>
#include <unistd.h>

enum { BEFORE = 20, AFTER = 200 };

static char place[100], home[1000];

static void in_a_new_place(void) {
	snprintf(place, sizeof place, "%s", temporary());
	CHECK_EQ(mkdir(below(place, "elsewhere"), 0777), 0);
	CHECK(getcwd(home, sizeof home) != NULL);
	CHECK_EQ(chdir(place), 0);
}

static wk_namespace *open_at(const char *path, bool read_only) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.read_only = read_only;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the directory opens");
	return ns;
}

static void append_to(wk_writer *writer, int records) {
	for (int i = 0; i < records; i++)
		append_one(writer);
}

static void holds(const char *path, bool read_only, int records) {
	wk_namespace *ns = open_at(path, read_only);
	int64_t first, last;
	read_all(ns, &first, &last);
	CHECK_EQ(first, 0);
	CHECK_EQ(last, records - 1);
	close_all(ns, NULL, NULL);
}

static void is_empty(const char *path) {
	DIR *list = opendir(path);
	CHECK(list != NULL);
	int names = 0;
	while (readdir(list) != NULL)
		names++;
	closedir(list);
	CHECK_EQ(names, 2); /* . and .. */
}

static void go_home(void) {
	CHECK_EQ(chdir(home), 0);
	remove_tree(place);
}

TEST(a_writer_goes_on_in_its_directory_when_the_process_goes_to_another) {
	in_a_new_place();
	wk_namespace *ns = open_at("wal", false);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	append_to(writer, BEFORE);
	CHECK_EQ(chdir("elsewhere"), 0);
	append_to(writer, AFTER); /* into new files, whose names are synced */
	is_empty(".");
	CHECK_EQ(mkdir("wal", 0777), 0); /* another one */
	wk_error error = {0};
	check_ok(wk_namespace_backup(ns, "wal/copy", &error), &error, "the backup");
	CHECK_EQ(wk_namespace_backup(ns, "../wal/copy", NULL), WK_INVALID);
	close_all(ns, log, writer);
	holds("wal/copy", false, BEFORE + AFTER);
	holds("../wal", false, BEFORE + AFTER);
	go_home();
}

TEST(no_path_is_no_directory) {
	in_a_new_place();
	CHECK_EQ(chdir("elsewhere"), 0);
	wk_open_options options;
	wk_open_options_init(&options);
	wk_namespace *ns = NULL;
	CHECK(wk_open("", &options, &ns, NULL) != WK_OK);
	is_empty(".");
	go_home();
}

/* Its path is too long for the kernel; relative to it, others are not. */
TEST(a_directory_far_below_is_opened) {
	in_a_new_place();
	char name[201];
	memset(name, 'd', sizeof name - 1);
	name[sizeof name - 1] = 0;
	for (int depth = 0; depth < 21; depth++) {
		CHECK_EQ(mkdir(name, 0777), 0);
		CHECK_EQ(chdir(name), 0);
	}
	make_small("wal", BEFORE);
	holds("wal", true, BEFORE);
	go_home();
}

/* Both have the same names in them. */
TEST(directories_of_the_same_relative_path_do_not_meet) {
	in_a_new_place();
	wk_namespace *ns[2];
	wk_log *logs[2];
	wk_writer *writers[2];
	for (int i = 0; i < 2; i++) {
		ns[i] = open_at("./wal/", false);
		logs[i] = log_named(ns[i], "log");
		writers[i] = writer_of(logs[i]);
		append_to(writers[i], BEFORE);
		CHECK_EQ(chdir(i == 0 ? "elsewhere" : ".."), 0);
	}
	for (int i = 0; i < 2; i++)
		append_to(writers[i], AFTER);
	for (int i = 0; i < 2; i++)
		close_all(ns[i], logs[i], writers[i]);
	holds("wal", false, BEFORE + AFTER);
	holds("elsewhere/wal", false, BEFORE + AFTER);
	go_home();
}

TEST(a_reader_finds_its_files_from_another_place) {
	for (int check = 0; check < 2; check++) { /* as it is, and behind a rehearsal */
		in_a_new_place();
		make_small("wal", BEFORE + AFTER);
		wk_open_options options;
		wk_open_options_init(&options);
		options.read_only = true;
		options.check_all = check != 0;
		options.on_damage = check != 0 ? WK_ON_DAMAGE_SKIP : WK_ON_DAMAGE_STOP;
		wk_namespace *ns = NULL;
		wk_error error = {0};
		check_ok(wk_open("wal", &options, &ns, &error), &error, "the directory opens");
		CHECK_EQ(chdir("elsewhere"), 0);
		int64_t first, last;
		read_all(ns, &first, &last);
		CHECK_EQ(last, BEFORE + AFTER - 1);
		close_all(ns, NULL, NULL);
		go_home();
	}
}

static bool go_elsewhere(void *context, uint64_t done, uint64_t total) {
	(void)context, (void)done, (void)total;
	CHECK(chdir("elsewhere") == 0 || errno == ENOENT); /* it is there already */
	return true;
}

TEST(a_directory_is_verified_to_the_end) {
	in_a_new_place();
	make_small("wal", BEFORE);
	wk_verify_report report;
	wk_error error = {0};
	check_ok(wk_verify_directory("wal", 0, go_elsewhere, NULL, &report, &error), &error, "it is whole");
	CHECK_EQ(access("../elsewhere", F_OK), 0);
	is_empty(".");
	go_home();
}

static struct wk_io_operations operations, original;
static bool fails_once;

/* The process goes elsewhere, and what is being looked at cannot be read just then. */
static int open_and_go(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	if (!fails_once || strstr(path, "/journal/") == NULL)
		return original.open(io, path, flags, file);
	fails_once = false;
	CHECK_EQ(chdir("elsewhere"), 0);
	return -EIO;
}

static int hold_and_go(wk_io *io, const char *path) {
	int result = original.hold(io, path);
	if (!fails_once)
		CHECK(chdir("elsewhere") == 0 || errno == ENOENT); /* it is there already */
	return result;
}

/* An open that looks again, or that repairs in memory first, looks at the one directory that it was told of. */
TEST(a_reader_that_looks_twice_stays_in_one_place) {
	for (int check = 0; check < 2; check++) {
		in_a_new_place();
		make_small("wal", BEFORE);
		make_small("elsewhere/wal", BEFORE + AFTER);
		wk_io *io = NULL;
		CHECK_EQ(wk_io_psync_new(&io), 0);
		original = operations = *io->operations;
		operations.open = open_and_go;
		operations.hold = hold_and_go;
		io->operations = &operations;
		fails_once = check == 0;
		wk_open_options options;
		wk_open_options_init(&options);
		options.read_only = true;
		options.check_all = check != 0;
		options.on_damage = check != 0 ? WK_ON_DAMAGE_SKIP : WK_ON_DAMAGE_STOP;
		wk_namespace *ns = NULL;
		wk_error error = {0};
		check_ok(wk_open_on(io, "wal", &options, &ns, &error), &error, "the directory opens");
		CHECK(!fails_once);
		int64_t first, last;
		read_all(ns, &first, &last);
		CHECK_EQ(last, BEFORE - 1);
		close_all(ns, NULL, NULL);
		io->operations->destroy(io);
		go_home();
	}
}

TEST(a_directory_that_is_renamed_takes_its_writer_along) {
	in_a_new_place();
	char old[150], new[150];
	snprintf(old, sizeof old, "%s/wal", place);
	snprintf(new, sizeof new, "%s/renamed", place);
	wk_namespace *ns = open_at(old, false);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	append_to(writer, BEFORE);
	CHECK_EQ(rename(old, new), 0);
	CHECK_EQ(mkdir(old, 0777), 0);
	append_to(writer, AFTER);
	close_all(ns, log, writer);
	is_empty(old);
	holds(new, false, BEFORE + AFTER);
	go_home();
}

/* What a caller names is what stands there now, and not what stood there when the directory was opened. */
TEST(a_directory_that_was_renamed_is_backed_up_to_where_it_was) {
	in_a_new_place();
	char old[150], new[150], copies[2][200], inside[200];
	snprintf(old, sizeof old, "%s/wal", place);
	snprintf(new, sizeof new, "%s/renamed", place);
	snprintf(copies[0], sizeof copies[0], "%s", old);
	snprintf(copies[1], sizeof copies[1], "%s/journal/copy", old);
	snprintf(inside, sizeof inside, "%s/journal/copy", new);
	wk_namespace *ns = open_at(old, false);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	append_to(writer, BEFORE + AFTER); /* some files are linked, others copied */
	CHECK_EQ(rename(old, new), 0);
	for (int i = 0; i < 2; i++) {
		wk_error error = {0};
		check_ok(wk_namespace_backup(ns, copies[i], &error), &error, "the backup");
		CHECK_EQ(wk_namespace_backup(ns, copies[i], NULL), WK_EXISTS);
		CHECK_EQ(wk_namespace_backup(ns, inside, NULL), WK_INVALID);
	}
	close_all(ns, log, writer);
	CHECK_EQ(access(inside, F_OK), -1);
	holds(copies[1], false, BEFORE + AFTER);
	remove_tree(copies[1]);
	holds(copies[0], false, BEFORE + AFTER);
	holds(new, false, BEFORE + AFTER);
	go_home();
}

int main(void) {
	RUN(a_writer_goes_on_in_its_directory_when_the_process_goes_to_another);
	RUN(no_path_is_no_directory);
	RUN(a_directory_far_below_is_opened);
	RUN(directories_of_the_same_relative_path_do_not_meet);
	RUN(a_reader_finds_its_files_from_another_place);
	RUN(a_directory_is_verified_to_the_end);
	RUN(a_reader_that_looks_twice_stays_in_one_place);
	RUN(a_directory_that_is_renamed_takes_its_writer_along);
	RUN(a_directory_that_was_renamed_is_backed_up_to_where_it_was);
	return check_done();
}
