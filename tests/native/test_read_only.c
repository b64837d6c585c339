/*
 * test_read_only.c: what an open that may not write shows after its writer went away: all that was acknowledged, and
 * nothing whose sync failed or was never asked for (storage rule 13).
 */
#include "engine/directory.h"
#include "engine/engine.h"
#include "engine/follower_renew.h"
#include "engine/handles.h"
#include "small_directory.h"
#include <errno.h>
#include <fcntl.h>
#include <time.h>

static struct wk_io_operations operations, original;
static bool syncs_fail, page_has_no_room, page_is_damaged, boot_is_unknown;
static int page_refusals;    /* opens of the page that are refused */
static uint8_t later_starts; /* of the machine */

static int sync_or_not(wk_io *io, wk_file *file) {
	return syncs_fail ? -EIO : original.sync(io, file);
}

static int allocate_or_not(wk_io *io, wk_file *file, uint64_t size) {
	return page_has_no_room && size == WK_IO_ALIGNMENT ? -ENOSPC : original.allocate(io, file, size);
}

static bool is_page(const char *path) {
	size_t size = strlen(path);
	return size > 7 && strcmp(path + size - 7, "/shared") == 0;
}

static bool is_lock(const char *path) {
	size_t size = strlen(path);
	return size > 5 && strcmp(path + size - 5, "/lock") == 0;
}

static wk_file *page_file, *lock_file;
static bool lock_has_no_room;
static _Atomic uint32_t lists;

static int open_or_not(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	if (is_page(path) && page_refusals > 0) {
		page_refusals--;
		return -EMFILE;
	}
	int result = original.open(io, path, flags, file);
	if (is_page(path))
		page_file = result == 0 && (flags & WK_IO_CREATE) == 0 ? *file : NULL;
	if (is_lock(path))
		lock_file = result == 0 ? *file : NULL;
	return result;
}

static int64_t write_or_not(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset,
                            uint32_t flags) {
	return lock_has_no_room && file == lock_file ? -ENOSPC : original.pwrite(io, file, buffer, size, offset, flags);
}

static int list_counted(wk_io *io, const char *path, wk_io_list_fn fn, void *context) {
	lists++;
	return original.list(io, path, fn, context);
}

static void close_known(wk_io *io, wk_file *file) {
	page_file = page_file == file ? NULL : page_file;
	lock_file = lock_file == file ? NULL : lock_file;
	original.close(io, file);
}

static int64_t read_or_not(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	return page_is_damaged && file == page_file ? -EIO : original.pread(io, file, buffer, size, offset);
}

static bool boot_id(wk_io *io, uint8_t id[16]) {
	bool known = original.boot_id(io, id) && !boot_is_unknown;
	id[3] ^= later_starts;
	if (!known)
		memset(id, 0, 16);
	return known;
}

static wk_namespace *open_hooked_with(const char *path, bool read_only, wk_io **io) {
	CHECK_EQ(wk_io_psync_new(io), 0);
	original = operations = *(*io)->operations;
	operations.sync = sync_or_not;
	operations.allocate = allocate_or_not;
	operations.open = open_or_not;
	operations.close = close_known;
	operations.pread = read_or_not;
	operations.pwrite = write_or_not;
	operations.list = list_counted;
	operations.boot_id = boot_id;
	(*io)->operations = &operations;
	wk_open_options options;
	wk_open_options_init(&options);
	options.manual = !read_only;
	options.read_only = read_only;
	options.sync_method = WK_SYNC_WRITE_THEN_SYNC;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(*io, path, &options, &ns, &error), &error, "the directory opens");
	return ns;
}

static wk_namespace *open_hooked(const char *path, wk_io **io) {
	return open_hooked_with(path, false, io);
}

/* Five records are acknowledged; of the sixth the write succeeds, the sync does not. The process ends. */
static void fail_the_sixth(const char *path) {
	wk_io *io = NULL;
	syncs_fail = false;
	wk_namespace *ns = open_hooked(path, &io);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < 5; i++)
		append_one(writer);
	syncs_fail = true;
	char payload[RECORD_SIZE];
	payload_of(5, payload);
	wk_position at;
	wk_error error = {0};
	CHECK(wk_writer_append(writer, payload, sizeof payload, NULL, &at, &error) != WK_OK);
	wk_abandon(ns);
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
	io->operations->destroy(io);
}

static int64_t shown_by(wk_namespace *ns, uint64_t *unconfirmed) {
	int64_t first, last;
	read_all(ns, &first, &last);
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	*unconfirmed = report.unconfirmed_blocks;
	return last;
}

static int64_t last_shown(const char *path, uint64_t *unconfirmed) {
	wk_io *io = NULL;
	syncs_fail = false;
	wk_namespace *ns = open_hooked_with(path, true, &io);
	int64_t last = shown_by(ns, unconfirmed);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	return last;
}

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
		page_has_no_room = i == 1;
		wk_namespace *ns = open_hooked(path, &io);
		CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
		io->operations->destroy(io);
		CHECK_EQ(access(below(path, "shared"), F_OK), 0);
	}
	page_has_no_room = false;
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
	options.manual = true;
	options.sync_method = WK_SYNC_DSYNC;
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(io, "wal", &options, &ns, &error), &error, "the directory opens");
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < 3; i++)
		append_one(writer);
	options.manual = false;
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
	RUN(after_a_start_of_the_machine_a_sync_proves_what_is_on_the_disk);
	RUN(who_cannot_tell_whether_the_machine_was_started_proves_nothing);
	RUN(a_page_that_cannot_be_had_leaves_nobody_who_knows);
	RUN(a_page_that_the_disk_cannot_read_is_made_anew_by_the_next_writer);
	RUN(a_reader_whose_sync_failed_proves_nothing_by_another);
	RUN(a_writer_whose_lock_has_no_room_leaves_nothing_there_of_an_earlier_one);
	RUN(a_follower_without_a_page_does_not_look_all_the_time);
	RUN(all_that_was_acknowledged_before_a_kill_is_shown);
	RUN(all_that_was_acknowledged_before_a_power_cut_is_shown);
	return check_done();
}
