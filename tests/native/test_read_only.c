/*
 * test_read_only.c: what an open that may not write shows after its writer went away: all that was acknowledged, and
 * nothing whose sync failed or was never asked for (storage rule 13).
 */
/* ctest labels: one-thread */
#include "engine/manual.h"
#include "read_only_hooks.h"
#include "sim/faulty.h"

TEST(what_a_failed_sync_left_is_not_shown_and_is_said_to_be_there) {
	const char *path = temporary();
	fail_the_sixth(path);
	uint64_t unconfirmed;
	CHECK_EQ(last_shown(path, &unconfirmed), 4);
	CHECK_EQ(unconfirmed, 1);
	int64_t first, last; /* a writer may write it again: then it is durable, and there */
	wk_namespace *ns = open_small(path);
	read_all(ns, &first, &last);
	CHECK_EQ(last, 5);
	close_all(ns, NULL, NULL);
	CHECK_EQ(last_shown(path, &unconfirmed), 5);
	CHECK_EQ(unconfirmed, 0);
	remove_tree(path);
}

TEST(what_a_failed_sync_left_is_not_shown_where_the_page_has_another_name) {
	const char *path = temporary();
	fail_the_sixth(path);
	char page[100];
	snprintf(page, sizeof page, "%s", below(path, "shared"));
	CHECK_EQ(link(page, below(path, "shared-of-a-copy")), 0);
	uint64_t unconfirmed;
	CHECK_EQ(last_shown(path, &unconfirmed), 4);
	CHECK_EQ(unconfirmed, 1);
	remove_tree(path);
}

TEST(what_a_failed_sync_left_is_not_shown_where_there_was_no_room_for_a_page) {
	const char *path = temporary();
	page_has_no_room = true;
	fail_the_sixth(path);
	page_has_no_room = false;
	CHECK(access(below(path, "shared"), F_OK) != 0);
	uint64_t unconfirmed;
	CHECK(last_shown(path, &unconfirmed) <= 4); /* nor what nobody can confirm */
	CHECK(unconfirmed > 0);
	remove_tree(path);
}

/* xfs on a nearly full disk wants room for it also where it has its block. */
TEST(a_page_that_is_there_stays_where_none_could_be_had) {
	const char *path = temporary();
	syncs_fail = false;
	for (int i = 0; i < 2; i++) {
		wk_io *io = NULL;
		page_has_no_room = i > 0;
		wk_namespace *ns = open_hooked(path, &io);
		CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
		io->operations->destroy(io);
		CHECK_EQ(access(below(path, "shared"), F_OK), 0);
	}
	page_has_no_room = false;
	remove_tree(path);
}

/* Where nothing can be allocated and what is there is not written in place (nilfs2), a store to it would be refused, too. */
TEST(a_page_that_cannot_be_written_over_is_none) {
	const char *path = temporary();
	syncs_fail = false;
	for (int i = 0; i < 2; i++) {
		wk_io *io = NULL;
		page_has_no_room = allocate_is_unknown = i > 0;
		wk_namespace *ns = open_hooked(path, &io);
		CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
		io->operations->destroy(io);
		CHECK_EQ(access(below(path, "shared"), F_OK), i == 0 ? 0 : -1);
	}
	page_has_no_room = allocate_is_unknown = false;
	remove_tree(path);
}

/* As much of it was copied as is not zero (`cp --sparse`, on blocks of 1 KiB). */
TEST(a_page_without_all_of_its_room_gets_it_or_is_none) {
	const char *path = temporary();
	syncs_fail = false;
	for (int i = 0; i < 2; i++) {
		wk_io *io = NULL;
		page_has_no_room = page_is_sparse = i == 1;
		wk_namespace *ns = open_hooked(path, &io);
		CHECK_EQ(access(below(path, "shared"), F_OK), i == 0 ? 0 : -1);
		CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
		io->operations->destroy(io);
	}
	page_has_no_room = page_is_sparse = false;
	remove_tree(path);
}

TEST(after_a_start_of_the_machine_a_sync_proves_what_is_on_the_disk) {
	const char *path = temporary();
	fail_the_sixth(path);
	uint64_t unconfirmed;
	later_starts = 1;
	CHECK_EQ(last_shown(path, &unconfirmed), 5);
	CHECK_EQ(unconfirmed, 0);
	later_starts = 0;
	remove_tree(path);
}

/* The file `lock` says which kernel runs, and says it twice: what was spoiled there is not taken for another one. */
TEST(who_cannot_tell_whether_the_machine_was_started_proves_nothing) {
	const char *path = temporary();
	uint64_t unconfirmed;
	for (int who = 0; who < 2; who++) {
		boot_is_unknown = who == 0;
		fail_the_sixth(path);
		boot_is_unknown = who == 1;
		CHECK_EQ(last_shown(path, &unconfirmed), 4);
		CHECK_EQ(unconfirmed, 1);
		boot_is_unknown = false;
		remove_tree(path);
		CHECK_EQ(mkdir(path, 0777), 0);
	}
	fail_the_sixth(path);
	int fd = open(below(path, "lock"), O_RDWR);
	char text[100] = {0};
	CHECK(fd >= 0 && pread(fd, text, sizeof text - 1, 0) > 0);
	char *digit = strchr(text, '\n') + 7;
	*digit = *digit == '1' ? '2' : '1';
	CHECK(pwrite(fd, text, sizeof text - 1, 0) > 0);
	close(fd);
	CHECK_EQ(last_shown(path, &unconfirmed), 4);
	remove_tree(path);
}

TEST(a_page_that_cannot_be_had_leaves_nobody_who_knows) {
	const char *path = temporary();
	fail_the_sixth(path);
	uint64_t unconfirmed;
	page_refusals = 1;
	CHECK(last_shown(path, &unconfirmed) <= 4);
	CHECK_EQ(page_refusals, 0);
	page_is_damaged = true;
	CHECK(last_shown(path, &unconfirmed) <= 4);
	page_is_damaged = false;
	remove_tree(path);
}

/* Behind the look whether somebody writes it cannot be opened any more. */
TEST(a_lock_that_cannot_be_read_proves_nothing) {
	const char *path = temporary();
	fail_the_sixth(path);
	uint64_t unconfirmed;
	lock_opens_left = 1;
	CHECK_EQ(last_shown(path, &unconfirmed), 4);
	CHECK(lock_opens_left < 0);
	lock_opens_left = INT32_MAX;
	remove_tree(path);
}

TEST(a_sync_beside_which_a_writer_came_proves_nothing) {
	const char *path = temporary();
	fail_the_sixth(path);
	uint64_t unconfirmed;
	later_starts = 1;
	written_during_a_sync = path;
	CHECK_EQ(last_shown(path, &unconfirmed), 4);
	written_during_a_sync = NULL;
	later_starts = 0;
	remove_tree(path);
}

TEST(a_page_that_the_disk_cannot_read_is_made_anew_by_the_next_writer) {
	const char *path = temporary();
	syncs_fail = false;
	wk_io *io = NULL;
	struct stat before, after;
	CHECK_EQ(wk_close(open_hooked(path, &io), UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	char held[100];
	snprintf(held, sizeof held, "%s", below(path, "held"));
	CHECK_EQ(link(below(path, "shared"), held), 0); /* its inode is not given to another */
	CHECK_EQ(stat(below(path, "shared"), &before), 0);
	page_is_damaged = true;
	wk_namespace *ns = open_hooked(path, &io);
	page_is_damaged = false;
	CHECK_EQ(stat(below(path, "shared"), &after), 0);
	CHECK(before.st_ino != after.st_ino);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	remove_tree(path);
}

TEST(a_reader_whose_sync_failed_proves_nothing_by_another) {
	const char *path = temporary();
	fail_the_sixth(path);
	later_starts = 1;
	uint64_t unconfirmed;
	wk_io *io = NULL;
	syncs_fail = true;
	wk_namespace *ns = open_hooked_with(path, true, &io);
	CHECK_EQ(shown_by(ns, &unconfirmed), 4);
	syncs_fail = false;
	for (int i = 0; i < 4; i++) {
		struct timespec nap = {.tv_nsec = 150 * 1000 * 1000};
		nanosleep(&nap, NULL);
		CHECK_EQ(shown_by(ns, &unconfirmed), 4);
		CHECK_EQ(unconfirmed, 1);
	}
	wk_error error = {0};
	pthread_mutex_lock(&ns->engine->catalogue_lock);
	CHECK_EQ(wk_follower_renew(ns->engine, &error), WK_IO); /* nor by one of a new look */
	pthread_mutex_unlock(&ns->engine->catalogue_lock);
	CHECK_EQ(shown_by(ns, &unconfirmed), 4);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	later_starts = 0;
	remove_tree(path);
}

TEST(a_sync_that_failed_for_a_new_look_is_remembered) {
	const char *path = temporary();
	fail_the_sixth(path);
	later_starts = 1;
	uint64_t unconfirmed;
	wk_io *io = NULL;
	syncs_fail = false;
	somebody_writes = true;
	wk_namespace *ns = open_hooked_with(path, true, &io);
	CHECK_EQ(shown_by(ns, &unconfirmed), 4);
	somebody_writes = false;
	syncs_fail = true;
	wk_error error = {0};
	pthread_mutex_lock(&ns->engine->catalogue_lock);
	check_ok(wk_follower_renew(ns->engine, &error), &error, "a new look");
	pthread_mutex_unlock(&ns->engine->catalogue_lock);
	syncs_fail = false;
	struct timespec nap = {.tv_nsec = 150 * 1000 * 1000};
	nanosleep(&nap, NULL);
	CHECK_EQ(shown_by(ns, &unconfirmed), 4);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	later_starts = 0;
	remove_tree(path);
}

/* Nor where the directory, that looked damaged, is opened once more for that. */
TEST(a_sync_that_failed_is_remembered_by_an_open_that_tries_again) {
	enum { BEFORE = 40 }; /* the catalogue stands in a file that is read again */
	const char *path = temporary();
	make_small(path, BEFORE);
	fail_the_sixth(path);
	later_starts = 1;
	syncs_fail = false;
	wk_io *io = NULL;
	use_hooks(&io);
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = true;
	one_sync_fails = true;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	uint64_t unconfirmed;
	if (wk_open_on(io, path, &options, &ns, &error) == WK_OK) {
		CHECK_EQ(shown_by(ns, &unconfirmed), BEFORE + 4);
		CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	}
	CHECK(!one_sync_fails && !reads_fail);
	io->operations->destroy(io);
	later_starts = 0;
	remove_tree(path);
}

/* What an earlier kernel's writer said would be taken for the last word. */
TEST(a_writer_whose_lock_has_no_room_leaves_nothing_there_of_an_earlier_one) {
	const char *path = temporary();
	wk_io *io = NULL;
	syncs_fail = false;
	later_starts = 1;
	CHECK_EQ(wk_close(open_hooked(path, &io), UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	later_starts = 0;
	lock_has_no_room = true;
	fail_the_sixth(path);
	lock_has_no_room = false;
	uint64_t unconfirmed;
	CHECK_EQ(last_shown(path, &unconfirmed), 4);
	CHECK_EQ(unconfirmed, 1);
	remove_tree(path);
}

TEST(a_follower_without_a_page_does_not_look_all_the_time) {
	enum { WAIT_MS = 500, FOLDERS = 2, POLL_MS = 5 };
	const char *path = temporary();
	make_small(path, 5);
	CHECK_EQ(unlink(below(path, "shared")), 0);
	wk_io *io = NULL;
	wk_namespace *ns = open_hooked_with(path, true, &io);
	wk_log *log = log_named(ns, "log");
	wk_read_options options;
	wk_read_options_init(&options);
	options.follow = true;
	options.from = WK_FROM_END;
	wk_reader *reader = NULL;
	check_ok(wk_reader_open(log, &options, &reader, NULL), NULL, "the reader opens");
	uint32_t before = lists;
	wk_batch *batch;
	CHECK_EQ(wk_reader_next(reader, 1, 1 << 20, (uint64_t)WAIT_MS * 1000 * 1000, &batch, NULL), WK_TIMEOUT);
	CHECK(lists - before <= 2 * FOLDERS * WAIT_MS / POLL_MS);
	wk_reader_release(reader);
	wk_log_release(log);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	remove_tree(path);
}

/* The page's name need not have reached the disk, nor what was stored to it. */
TEST(all_that_was_acknowledged_before_a_power_cut_is_shown) {
	wk_io *io = NULL;
	CHECK_EQ(wk_faulty_new(7, &io), 0);
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.sync_method = WK_SYNC_DSYNC;
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(io, "wal", &options, &ns, &error), &error, "the directory opens");
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < 3; i++)
		append_one(writer);
	options.internal = 0;
	options.read_only = true;
	uint64_t without_page = 0;
	for (uint64_t seed = 1; seed <= 100; seed++) {
		wk_io *image = NULL;
		CHECK_EQ(wk_faulty_image(wk_faulty_of(io), wk_faulty_trace_length(wk_faulty_of(io)), seed, &image), 0);
		without_page += wk_faulty_file_size(wk_faulty_of(image), "wal/shared") < 0;
		wk_namespace *other = NULL;
		check_ok(wk_open_on(image, "wal", &options, &other, &error), &error, "the image opens");
		uint64_t unconfirmed;
		CHECK_EQ(shown_by(other, &unconfirmed), 2);
		CHECK_EQ(wk_close(other, UINT64_MAX, NULL), WK_OK);
		image->operations->destroy(image);
	}
	CHECK(without_page > 0);
	wk_abandon(ns);
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
	io->operations->destroy(io);
}

/* The page promises what the copy does not have: now and then it is looked at anew. */
TEST(a_follower_of_a_copy_by_links_does_not_look_all_the_time) {
	enum { WAIT_MS = 700 };
	const char *path = temporary();
	make_small(path, 5);
	CHECK_EQ(link(below(path, "shared"), below(path, "shared-of-a-copy")), 0);
	uint64_t durable = 1000;
	int fd = open(below(path, "shared"), O_WRONLY);
	CHECK(fd >= 0 && pwrite(fd, &durable, sizeof durable, offsetof(wk_shared_page, durable)) == sizeof durable);
	close(fd);
	wk_io *io = NULL;
	syncs_fail = false;
	wk_namespace *ns = open_hooked_with(path, true, &io);
	uint64_t unconfirmed;
	CHECK_EQ(shown_by(ns, &unconfirmed), 4); /* the first of these looks */
	uint32_t before = page_opens;
	for (int i = 0; i < WAIT_MS / 10; i++) {
		struct timespec nap = {.tv_nsec = 10 * 1000 * 1000};
		nanosleep(&nap, NULL);
		CHECK_EQ(shown_by(ns, &unconfirmed), 4);
	}
	CHECK(page_opens - before <= 4);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	remove_tree(path);
}

TEST(all_that_was_acknowledged_before_a_kill_is_shown) {
	const char *path = temporary();
	wk_io *io = NULL;
	syncs_fail = false;
	wk_namespace *ns = open_hooked(path, &io);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < 5; i++)
		append_one(writer);
	wk_abandon(ns); /* the last block is not confirmed by another */
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
	io->operations->destroy(io);
	uint64_t unconfirmed;
	CHECK_EQ(last_shown(path, &unconfirmed), 4);
	CHECK_EQ(unconfirmed, 0);
	remove_tree(path);
}

int main(void) {
	RUN(what_a_failed_sync_left_is_not_shown_and_is_said_to_be_there);
	RUN(what_a_failed_sync_left_is_not_shown_where_the_page_has_another_name);
	RUN(what_a_failed_sync_left_is_not_shown_where_there_was_no_room_for_a_page);
	RUN(a_page_that_is_there_stays_where_none_could_be_had);
	RUN(a_page_that_cannot_be_written_over_is_none);
	RUN(a_page_without_all_of_its_room_gets_it_or_is_none);
	RUN(after_a_start_of_the_machine_a_sync_proves_what_is_on_the_disk);
	RUN(who_cannot_tell_whether_the_machine_was_started_proves_nothing);
	RUN(a_page_that_cannot_be_had_leaves_nobody_who_knows);
	RUN(a_lock_that_cannot_be_read_proves_nothing);
	RUN(a_sync_beside_which_a_writer_came_proves_nothing);
	RUN(a_page_that_the_disk_cannot_read_is_made_anew_by_the_next_writer);
	RUN(a_reader_whose_sync_failed_proves_nothing_by_another);
	RUN(a_sync_that_failed_for_a_new_look_is_remembered);
	RUN(a_sync_that_failed_is_remembered_by_an_open_that_tries_again);
	RUN(a_writer_whose_lock_has_no_room_leaves_nothing_there_of_an_earlier_one);
	RUN(a_follower_without_a_page_does_not_look_all_the_time);
	RUN(a_follower_of_a_copy_by_links_does_not_look_all_the_time);
	RUN(all_that_was_acknowledged_before_a_kill_is_shown);
	RUN(all_that_was_acknowledged_before_a_power_cut_is_shown);
	return check_done();
}
