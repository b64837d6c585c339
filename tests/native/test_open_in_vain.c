/*
 * test_open_in_vain.c: an open for writing that comes to nothing takes nothing from those who only read: what was
 * acknowledged before a power cut is shown behind it, too, though nobody confirmed it since.
 */
#include "read_only_hooks.h"

/* Five records, of which nothing confirms the last but the page; and that is behind a power cut. */
static void cut_behind_five(const char *path, bool page_is_stale) {
	wk_io *io = NULL;
	syncs_fail = false;
	wk_namespace *ns = open_hooked(path, &io);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < 5; i++)
		append_one(writer);
	wk_abandon(ns);
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
	io->operations->destroy(io);
	later_starts = 1;
	if (!page_is_stale) {
		CHECK_EQ(unlink(below(path, "shared")), 0);
		return;
	}
	uint64_t durable = 2;
	int fd = open(below(path, "shared"), O_WRONLY);
	CHECK(fd >= 0 && pwrite(fd, &durable, sizeof durable, offsetof(wk_shared_page, durable)) == sizeof durable);
	close(fd);
}

enum { WRONG_KIND, NO_DESCRIPTOR, LINKED, UNLOCKED, WAYS };

/* What an open for writing meets that comes to nothing, in one of these ways. */
static void fail_to_open(const char *path, int way) {
	wk_io *io = NULL;
	wk_open_options options;
	wk_open_options_init(&options);
	options.kind = way == WRONG_KIND ? WK_KIND_LEDGERS : WK_KIND_LOGS;
	page_refusals = way == NO_DESCRIPTOR ? 1 : 0;
	char from[300];
	snprintf(from, sizeof from, "%s", below(path, way == LINKED ? "superblock" : "lock"));
	if (way == LINKED)
		CHECK_EQ(link(from, below(path, "superblock-of-a-copy")), 0);
	lock_has_no_room = way == UNLOCKED;
	use_hooks(&io);
	wk_namespace *ns = NULL;
	wk_error error = {0};
	CHECK((wk_open_on(io, path, &options, &ns, &error) == WK_OK) == (way == UNLOCKED));
	if (ns != NULL)
		wk_abandon(ns);
	io->operations->destroy(io);
	lock_has_no_room = false;
	page_refusals = 0;
	if (way == LINKED)
		CHECK_EQ(unlink(below(path, "superblock-of-a-copy")), 0);
}

TEST(an_open_that_comes_to_nothing_hides_nothing) {
	for (int way = 0; way < 2 * WAYS; way++) {
		const char *path = temporary();
		uint64_t unconfirmed;
		cut_behind_five(path, way >= WAYS);
		CHECK_EQ(last_shown(path, &unconfirmed), 4);
		fail_to_open(path, way % WAYS);
		CHECK_EQ(last_shown(path, &unconfirmed), 4);
		CHECK_EQ(unconfirmed, 0);
		later_starts = 0;
		remove_tree(path);
	}
}

/* Then those of readers are worth nothing any more under this kernel. */
TEST(an_open_whose_sync_failed_says_which_kernel_has_its_bytes) {
	const char *path = temporary();
	uint64_t unconfirmed;
	cut_behind_five(path, true);
	wk_io *io = NULL;
	wk_open_options options;
	wk_open_options_init(&options);
	use_hooks(&io);
	syncs_fail = true;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	CHECK(wk_open_on(io, path, &options, &ns, &error) != WK_OK);
	io->operations->destroy(io);
	CHECK(last_shown(path, &unconfirmed) < 4);
	CHECK(unconfirmed > 0);
	later_starts = 0;
	remove_tree(path);
}

/* A copy by links has the original's: that is told of nobody who opens the copy. */
TEST(a_lock_of_two_directories_is_left_alone) {
	const char *path = temporary();
	make_small(path, 5);
	char lock[300];
	snprintf(lock, sizeof lock, "%s", below(path, "lock"));
	size_t size;
	CHECK_EQ(link(lock, below(path, "lock-of-a-copy")), 0);
	int fd = open(lock, O_WRONLY);
	CHECK(fd >= 0 && pwrite(fd, "1\n", 2, 0) == 2 && ftruncate(fd, 2) == 0 && ftruncate(fd, 4096) == 0);
	close(fd);
	fail_to_open(path, LINKED);
	uint8_t *bytes = read_file(lock, &size);
	CHECK(size == 4096 && memcmp(bytes, "1\n", 3) == 0);
	free(bytes);
	remove_tree(path);
}

int main(void) {
	RUN(an_open_that_comes_to_nothing_hides_nothing);
	RUN(an_open_whose_sync_failed_says_which_kernel_has_its_bytes);
	RUN(a_lock_of_two_directories_is_left_alone);
	return check_done();
}
