/*
 * test_open_in_vain.c: an open for writing that comes to nothing takes nothing from those who only read: what was
 * acknowledged before a power cut is shown behind it, too, though nobody confirmed it since.
 */
#include "engine/manual.h"
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

enum {
	WRONG_KIND,
	NO_DESCRIPTOR,
	LINKED,
	NO_ROOM_IN_LOCK,
	NO_LOCK, /* as in a backup */
	UNREADABLE_LOCK,
	NO_PAGE_AND_NO_ROOT,
	WAYS
};

/* What an open for writing meets that comes to nothing, in one of these ways. */
static void fail_to_open(const char *path, int way) {
	wk_io *io = NULL;
	wk_open_options options;
	wk_open_options_init(&options);
	options.kind = way == WRONG_KIND ? WK_KIND_LEDGERS : WK_KIND_LOGS;
	if (way == NO_LOCK)
		CHECK_EQ(unlink(below(path, "lock")), 0);
	page_refusals = way == NO_DESCRIPTOR || way == NO_LOCK || way == UNREADABLE_LOCK;
	page_grants = page_refusals; /* recovery looks at it; the last step of the open does not get it */
	lock_is_unreadable = way == UNREADABLE_LOCK;
	superblock_is_refused = page_has_no_room = way == NO_PAGE_AND_NO_ROOT;
	char from[300];
	snprintf(from, sizeof from, "%s", below(path, way == LINKED ? "superblock" : "lock"));
	if (way == LINKED)
		CHECK_EQ(link(from, below(path, "superblock-of-a-copy")), 0);
	lock_has_no_room = way == NO_ROOM_IN_LOCK;
	use_hooks(&io);
	wk_namespace *ns = NULL;
	wk_error error = {0};
	CHECK((wk_open_on(io, path, &options, &ns, &error) == WK_OK) == (way == NO_ROOM_IN_LOCK));
	if (ns != NULL)
		wk_abandon(ns);
	io->operations->destroy(io);
	lock_has_no_room = lock_is_unreadable = superblock_is_refused = page_has_no_room = false;
	page_refusals = page_grants = 0;
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

static void fail_to_sync(const char *path) {
	wk_io *io = NULL;
	wk_open_options options;
	wk_open_options_init(&options);
	use_hooks(&io);
	syncs_fail = true;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	CHECK(wk_open_on(io, path, &options, &ns, &error) != WK_OK);
	io->operations->destroy(io);
}

/* Nothing was written that a reader's own sync could take for clean. */
TEST(an_open_whose_sync_failed_leaves_readers_theirs) {
	const char *path = temporary();
	uint64_t unconfirmed;
	cut_behind_five(path, true);
	blocks_written = 0;
	fail_to_sync(path);
	CHECK_EQ(blocks_written, 0);
	CHECK_EQ(last_shown(path, &unconfirmed), 4);
	CHECK_EQ(unconfirmed, 0);
	later_starts = 0;
	remove_tree(path);
}

/* A reader that comes then is not to believe its own sync: that of the block may have failed. */
TEST(no_block_is_written_before_the_lock_tells_which_kernel_does) {
	for (int lossy = 0; lossy < 2; lossy++) {
		const char *path = temporary();
		wk_io *io = NULL;
		cut_behind_five(path, true);
		char file[300];
		snprintf(file, sizeof file, "%s", below(path, "journal/0000000000000001.wkj"));
		int fd = open(file, O_WRONLY);
		CHECK(fd >= 0 && (!lossy || pwrite(fd, "damage", 6, 2 * 4096 + 200) == 6));
		close(fd);
		wk_open_options options;
		wk_open_options_init(&options);
		options.internal = WK_OPEN_MANUAL;
		options.on_damage = lossy ? WK_ON_DAMAGE_SKIP : WK_ON_DAMAGE_STOP;
		use_hooks(&io);
		blocks_written = blocks_untold = 0;
		wk_namespace *ns = NULL;
		wk_error error = {0};
		check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the directory opens");
		CHECK(!lossy || blocks_written > 0); /* what was lost is recorded */
		wk_log *log = log_named(ns, "another");
		wk_writer *writer = writer_of(log);
		append_one(writer);
		CHECK(blocks_written > 0);
		CHECK_EQ(blocks_untold, 0);
		close_all(ns, log, writer);
		io->operations->destroy(io);
		later_starts = 0;
		remove_tree(path);
	}
}

/* Its own lock would have told the next one; a new one tells nothing. What the sync lost is written again all the same. */
TEST(what_a_failed_sync_left_is_written_again_where_somebody_removed_the_lock) {
	const char *path = temporary();
	fail_the_sixth(path);
	CHECK_EQ(unlink(below(path, "lock")), 0);
	syncs_fail = false;
	blocks_written = blocks_untold = 0;
	wk_io *io = NULL;
	wk_abandon(open_hooked(path, &io));
	CHECK(blocks_written > 0);
	CHECK_EQ(blocks_untold, 0);
	io->operations->destroy(io);
	remove_tree(path);
}

/* Who cannot tell which kernel writes leaves no other's name there. */
TEST(an_open_without_a_boot_id_leaves_nobody_a_proof) {
	const char *path = temporary();
	uint64_t unconfirmed;
	cut_behind_five(path, true);
	boot_is_unknown = true;
	fail_to_sync(path);
	boot_is_unknown = false;
	CHECK(last_shown(path, &unconfirmed) < 4);
	CHECK(unconfirmed > 0);
	later_starts = 0;
	remove_tree(path);
}

/* A bad sector below the lock keeps nobody out: it is written over. */
TEST(a_lock_that_the_disk_cannot_read_is_told_anew) {
	const char *path = temporary();
	fail_the_sixth(path);
	syncs_fail = false;
	lock_is_unreadable = lock_is_damaged = true;
	blocks_written = 0;
	wk_io *io = NULL;
	wk_namespace *ns = open_hooked(path, &io);
	lock_is_unreadable = lock_is_damaged = false;
	CHECK(blocks_written > 0 && lock_tells_this_kernel(io));
	wk_abandon(ns);
	io->operations->destroy(io);
	remove_tree(path);
}

/* Of that file of the journal which has the newest footer: how full it got depends on how often a block only confirmed. */
static void name_newest_sealed(const char *path, char *name, size_t size) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = true;
	wk_namespace *ns = NULL;
	CHECK_EQ(wk_open(path, &options, &ns, NULL), WK_OK);
	wk_engine_lock(ns->engine);
	name[0] = '\0';
	for (uint32_t i = 0; i < ns->engine->files_count; i++) {
		const wk_store_file *file = ns->engine->files[i];
		if (file->kind == WK_FILE_JOURNAL && file->state == WK_FILE_SEALED && file->end_offset > 0)
			snprintf(name, size, "%s", wk_file_name_of(file->id, file->kind).text);
	}
	wk_engine_unlock(ns->engine);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	CHECK(name[0] != '\0');
}

/*
 * Behind a start of the machine as before it: the drive's cache may have it alone. Then recovery does not write it again, and
 * that the superblock is refused keeps the open from doing so later.
 */
TEST(the_newest_footer_is_synced) {
	const char *path = temporary();
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < 50; i++) /* of sixteen blocks a file has room for fifteen */
		append_one(writer);
	for (bool due = true; due;) {
		wk_engine_lock(ns->engine);
		due = ns->engine->footers_due > 0;
		wk_engine_unlock(ns->engine);
	}
	wk_abandon(ns);
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
	char newest[64];
	name_newest_sealed(path, newest, sizeof newest);
	for (later_starts = 0; later_starts < 2; later_starts++) {
		wk_io *io = NULL;
		wk_open_options options;
		wk_open_options_init(&options);
		syncs_fail = false;
		superblock_is_refused = true;
		watched = newest;
		watched_syncs = 0;
		use_hooks(&io);
		wk_namespace *again = NULL;
		CHECK(wk_open_on(io, path, &options, &again, NULL) != WK_OK);
		CHECK(watched_syncs > 0);
		superblock_is_refused = false;
		watched = NULL;
		io->operations->destroy(io);
	}
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
	RUN(an_open_whose_sync_failed_leaves_readers_theirs);
	RUN(no_block_is_written_before_the_lock_tells_which_kernel_does);
	RUN(what_a_failed_sync_left_is_written_again_where_somebody_removed_the_lock);
	RUN(an_open_without_a_boot_id_leaves_nobody_a_proof);
	RUN(a_lock_that_the_disk_cannot_read_is_told_anew);
	RUN(the_newest_footer_is_synced);
	RUN(a_lock_of_two_directories_is_left_alone);
	return check_done();
}
