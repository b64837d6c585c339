/*
 * test_backup.c: wk_namespace_backup: a copy by hard links of a directory. The copy opens with everything that was
 * durable before the call; afterwards both go on, and neither sees a byte of the other (storage rule 21).
 */
#include "copied_directory.h"
#include <errno.h>

TEST(a_copy_of_a_quiet_directory_holds_the_same_records) {
	const char *place = temporary();
	char path[100], copy[100];
	snprintf(path, sizeof path, "%s/wal", place);
	snprintf(copy, sizeof copy, "%s/copy", place);
	make_small(path, 60);
	wk_namespace *ns = open_small(path);
	backup(ns, copy);
	for (int attempt = 1; shared_files(path, copy) < 3;
	     attempt++) { /* by links, once the keeper has sealed the files */
		CHECK(attempt < 500);
		usleep(10000);
		snprintf(copy, sizeof copy, "%s/copy-%d", place, attempt);
		backup(ns, copy);
	}
	verify_clean(copy);
	close_all(ns, NULL, NULL);
	ns = open_small(copy);
	int64_t first, last;
	read_all(ns, &first, &last);
	CHECK_EQ(first, 0);
	CHECK_EQ(last, 59);
	close_all(ns, NULL, NULL);
	remove_tree(place);
}

/* Nothing confirms its last block, and nobody ever held a lock there. */
TEST(a_copy_can_be_read_before_anybody_writes_in_it) {
	const char *place = temporary();
	char path[100], copy[100];
	snprintf(path, sizeof path, "%s/wal", place);
	snprintf(copy, sizeof copy, "%s/copy", place);
	make_small(path, 60);
	wk_open_options options;
	wk_open_options_init(&options);
	options.confirm_delay_ns = 60000000000u;
	wk_namespace *ns = NULL;
	CHECK_EQ(wk_open(path, &options, &ns, NULL), WK_OK);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	CHECK_EQ(append_one(writer), 60);
	backup(ns, copy);
	close_all(ns, log, writer);
	verify_clean(copy);
	options.read_only = true;
	CHECK_EQ(wk_open(copy, &options, &ns, NULL), WK_OK);
	int64_t first, last;
	read_all(ns, &first, &last);
	CHECK_EQ(first, 0);
	CHECK_EQ(last, 60);
	close_all(ns, NULL, NULL);
	remove_tree(place);
}

TEST(a_copy_of_an_empty_directory_opens) {
	const char *place = temporary();
	char path[100], copy[100];
	snprintf(path, sizeof path, "%s/wal", place);
	snprintf(copy, sizeof copy, "%s/copy/", place);
	wk_namespace *ns = open_small(path);
	backup(ns, copy);
	close_all(ns, NULL, NULL);
	ns = open_small(copy);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	CHECK_EQ(append_one(writer), 0);
	close_all(ns, log, writer);
	remove_tree(place);
}

TEST(a_destination_that_exists_is_refused_and_left_alone) {
	const char *place = temporary();
	char path[100], copy[100];
	snprintf(path, sizeof path, "%s/wal", place);
	snprintf(copy, sizeof copy, "%s/copy", place);
	make_small(path, 3);
	CHECK_EQ(mkdir(copy, 0777), 0);
	wk_namespace *ns = open_small(path);
	wk_error error = {0};
	CHECK_EQ(wk_namespace_backup(ns, copy, &error), WK_EXISTS);
	CHECK(strstr(error.text, "copy") != NULL);
	CHECK_EQ(rmdir(copy), 0); /* still empty */
	CHECK_EQ(wk_namespace_backup(ns, below(place, "no/such/place"), &error), WK_IO);
	close_all(ns, NULL, NULL);
	remove_tree(place);
}

/* However the way there is written: by name, through a link, from the working directory. */
TEST(a_destination_in_the_directory_itself_is_refused_and_nothing_is_made) {
	static const char *const inside[] = {"wal",          "wal/",        "wal/copy",           "wal/copy//",
	                                     "wal/./copy",   "link",        "link/copy",          "wal/journal/copy",
	                                     "far/../wal/x", "beside/copy", "wal/journal/deep/x", "wal/journal/../copy"};
	const char *place = temporary();
	char path[100], outside[100];
	snprintf(path, sizeof path, "%s/wal", place);
	snprintf(outside, sizeof outside, "%s/wal-copy", place);
	make_small(path, 3);
	CHECK_EQ(mkdir(below(place, "far"), 0777), 0);
	CHECK_EQ(mkdir(below(path, "journal/deep"), 0700), 0);
	CHECK_EQ(symlink("wal", below(place, "link")), 0);
	CHECK_EQ(symlink("wal/journal", below(place, "beside")), 0);
	wk_namespace *ns = open_small(path);
	wk_error error = {0};
	for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
		CHECK_EQ(wk_namespace_backup(ns, below(place, inside[i]), &error), WK_INVALID);
		CHECK(strstr(error.text, "name a path outside") != NULL && strstr(error.text, inside[i]) != NULL);
		CHECK(access(below(path, "copy"), F_OK) != 0 && access(below(path, "x"), F_OK) != 0);
		CHECK(access(below(path, "journal/copy"), F_OK) != 0 && access(below(path, "journal/deep/x"), F_OK) != 0);
	}
	CHECK_EQ(chdir(path), 0);
	CHECK_EQ(wk_namespace_backup(ns, "copy", &error), WK_INVALID);
	CHECK_EQ(wk_namespace_backup(ns, ".", &error), WK_INVALID);
	CHECK_EQ(wk_namespace_backup(ns, "", &error), WK_INVALID);
	backup(ns, "../copy-beside-it");
	CHECK_EQ(chdir("/"), 0);
	backup(ns, outside);
	backup(ns, below(place, "wal/../link-copy"));
	backup(ns, below(place, "far/wal"));
	close_all(ns, NULL, NULL);
	CHECK_EQ(rmdir(below(path, "journal/deep")), 0);
	verify_clean(below(place, "copy-beside-it"));
	remove_tree(place);
}

TEST(a_file_with_room_is_copied_so_that_neither_side_writes_into_the_others) {
	const char *place = temporary();
	char path[100], copy[100];
	snprintf(path, sizeof path, "%s/wal", place);
	snprintf(copy, sizeof copy, "%s/copy", place);
	wk_namespace *ns = open_small(path), *other;
	wk_log *log = log_named(ns, "log"), *other_log;
	wk_writer *writer = writer_of(log), *other_writer;
	int64_t at, first, last;
	do
		at = append_one(writer);
	while (at < 29);
	backup(ns, copy);
	CHECK_EQ(append_one(writer), 30);
	other = open_small(copy);
	read_all(other, &first, &last);
	CHECK_EQ(last, 29); /* what came later is not in it */
	other_log = log_named(other, "log");
	other_writer = writer_of(other_log);
	CHECK_EQ(append_one(other_writer), 30);
	CHECK_EQ(append_one(other_writer), 31);
	CHECK_EQ(append_one(writer), 31);
	close_all(other, other_log, other_writer);
	close_all(ns, log, writer);
	verify_clean(path);
	verify_clean(copy);
	remove_tree(place);
}

int main(void) {
	RUN(a_copy_of_a_quiet_directory_holds_the_same_records);
	RUN(a_copy_can_be_read_before_anybody_writes_in_it);
	RUN(a_copy_of_an_empty_directory_opens);
	RUN(a_destination_that_exists_is_refused_and_left_alone);
	RUN(a_destination_in_the_directory_itself_is_refused_and_nothing_is_made);
	RUN(a_file_with_room_is_copied_so_that_neither_side_writes_into_the_others);
	return check_done();
}
