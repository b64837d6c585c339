/*
 * test_read_only.c: what an open that may not write shows after its writer went away: all that was acknowledged, and
 * nothing whose sync failed or was never asked for (storage rule 13).
 */
#include "engine/directory.h"
#include "engine/engine.h"
#include "engine/shared_page.h"
#include "small_directory.h"
#include <errno.h>
#include <fcntl.h>

static struct wk_io_operations operations, original;
static bool syncs_fail, page_has_no_room;

static int sync_or_not(wk_io *io, wk_file *file) {
	return syncs_fail ? -EIO : original.sync(io, file);
}

static int allocate_or_not(wk_io *io, wk_file *file, uint64_t size) {
	return page_has_no_room && size == WK_IO_ALIGNMENT ? -ENOSPC : original.allocate(io, file, size);
}

static wk_namespace *open_hooked(const char *path, wk_io **io) {
	CHECK_EQ(wk_io_psync_new(io), 0);
	original = operations = *(*io)->operations;
	operations.sync = sync_or_not;
	operations.allocate = allocate_or_not;
	(*io)->operations = &operations;
	wk_open_options options;
	wk_open_options_init(&options);
	options.manual = true;
	options.sync_method = WK_SYNC_WRITE_THEN_SYNC;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(*io, path, &options, &ns, &error), &error, "the directory opens");
	return ns;
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

static int64_t last_shown(const char *path, uint64_t *unconfirmed) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = true;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the directory opens");
	int64_t first, last;
	read_all(ns, &first, &last);
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	*unconfirmed = report.unconfirmed_blocks;
	CHECK_EQ(wk_close(ns, UINT64_MAX, &error), WK_OK);
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
	wk_shared_page page;
	int fd = open(below(path, "shared"), O_RDWR);
	CHECK(fd >= 0 && pread(fd, &page, sizeof page, 0) == (ssize_t)sizeof page);
	page.boot_id[3] ^= 1;
	CHECK(pwrite(fd, &page, sizeof page, 0) == (ssize_t)sizeof page);
	close(fd);
	uint64_t unconfirmed;
	CHECK_EQ(last_shown(path, &unconfirmed), 5);
	CHECK_EQ(unconfirmed, 0);
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
	RUN(after_a_start_of_the_machine_a_sync_proves_what_is_on_the_disk);
	RUN(all_that_was_acknowledged_before_a_kill_is_shown);
	return check_done();
}
