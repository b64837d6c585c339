/*
 * test_journal_directory.c: a store whose journal has a directory of its own, on the second device of the faulty disk:
 * what lies where, what is refused, and power cuts while the two are made.
 */
#include "core/owner.h"
#include "ledger_store.h"
#include "sim/faulty.h"
#include <errno.h>

static wk_open_options options_with(const char *journal) {
	wk_open_options options = store_options();
	options.journal = journal;
	return options;
}

static wk_status try_open(wk_io *io, const char *path, const char *journal, wk_namespace **ns, wk_error *error) {
	wk_open_options options = options_with(journal);
	*ns = NULL;
	return wk_open_on(io, path, &options, ns, error);
}

static wk_namespace *must_open(wk_io *io, const char *path, const char *journal) {
	wk_namespace *ns;
	wk_error error = {0};
	check_ok(try_open(io, path, journal, &ns, &error), &error, "the store opens");
	return ns;
}

/* Refused, with these words, and another time in the same way: nothing was changed by it. */
static void must_refuse(wk_io *io, const char *path, const char *journal, wk_status status, const char *words) {
	for (int i = 0; i < 2; i++) {
		wk_namespace *ns;
		wk_error error = {0};
		wk_status found = try_open(io, path, journal, &ns, &error);
		if (found != status || strstr(error.text, words) == NULL)
			printf("%s\n", error.text);
		CHECK_EQ(found, status);
		CHECK(strstr(error.text, words) != NULL);
	}
}

static wk_io *two_devices(uint64_t seed) {
	wk_io *io = new_disk(seed);
	wk_faulty_mount(wk_faulty_of(io), "fast");
	return io;
}

/* Two devices, and a store with some entries on them, closed. */
static wk_io *filled(uint64_t seed) {
	wk_io *io = two_devices(seed);
	wk_namespace *ns = must_open(io, "store", JOURNAL_DIRECTORY);
	fill_ledger(ns, 1, 60);
	close_store(ns);
	return io;
}

static void must_hold_it_all(wk_io *io, const char *path, const char *journal) {
	wk_namespace *ns = must_open(io, path, journal);
	CHECK_EQ(entries_of(ns, 1), 60);
	close_store(ns);
}

static bool exists(wk_io *io, const char *path) {
	wk_file *file;
	if (io->operations->open(io, path, WK_IO_READ, &file) != 0)
		return false;
	io->operations->close(io, file);
	return true;
}

static bool count_name(void *context, const char *name) {
	(void)name;
	++*(int *)context;
	return true;
}

/* -1: there is no such directory. */
static int names_in(wk_io *io, const char *path) {
	int count = 0;
	return io->operations->list(io, path, count_name, &count) == 0 ? count : -1;
}

/* ---- where things are ---- */

TEST(journal_files_stay_in_the_journal_directory_and_all_else_in_the_other) {
	wk_io *io = filled(1);
	CHECK(names_in(io, "fast/journal/journal") >= 3); /* sealed ones too */
	CHECK_EQ(names_in(io, "fast/journal"), 2);
	CHECK(exists(io, "fast/journal/owner"));
	CHECK_EQ(names_in(io, "store/journal"), -1);
	CHECK(exists(io, "store/superblock"));
	CHECK(exists(io, "store/lock"));
	CHECK(names_in(io, "store/entries") >= 0 && names_in(io, "store/index") >= 0);
	must_hold_it_all(io, "store", JOURNAL_DIRECTORY);
	io->operations->destroy(io);
}

TEST(without_one_nothing_of_it_is_there) {
	wk_io *io = new_disk(2);
	close_store(open_store(io));
	CHECK(names_in(io, "store/journal") >= 1);
	CHECK(!exists(io, "store/owner"));
	wk_superblock superblock;
	uint8_t slots[2 * WK_SUPERBLOCK_SLOT_SIZE];
	CHECK_EQ(wk_faulty_read_file(wk_faulty_of(io), "store/superblock", slots, sizeof slots, 0), sizeof slots);
	CHECK(wk_superblock_choose(slots, &superblock) >= 0);
	CHECK_EQ(superblock.journal_path[0], 0);
	io->operations->destroy(io);
}

TEST(both_may_be_moved_as_long_as_both_are_named) {
	wk_io *io = filled(3);
	CHECK_EQ(io->operations->rename(io, "store", "elsewhere"), 0);
	CHECK_EQ(io->operations->rename(io, "fast/journal", "fast/moved"), 0);
	must_refuse(io, "elsewhere", JOURNAL_DIRECTORY, WK_NOT_FOUND, "does not exist: is its device mounted?");
	must_hold_it_all(io, "elsewhere", "fast/moved");
	must_refuse(io, "elsewhere", NULL, WK_INVALID, "which was fast/moved when it was last opened");
	io->operations->destroy(io);
}

TEST(a_full_journal_device_and_a_full_other_one_are_two_things) {
	wk_io *io = filled(4);
	wk_faulty *disk = wk_faulty_of(io);
	wk_namespace *ns = must_open(io, "store", JOURNAL_DIRECTORY);
	wk_faulty_set_capacity(disk, 1); /* for the journal there is room */
	fill_ledger(ns, 2, 60);
	CHECK_EQ(entries_of(ns, 2), 60);
	wk_faulty_set_capacity(disk, UINT64_MAX);
	wk_faulty_set_mount_capacity(disk, 1);
	wk_status status = WK_OK;
	for (int64_t id = 0; id < 10000 && status == WK_OK; id++) {
		status = add_version(ns, 3, id, 1, 0, NULL);
		work(ns);
	}
	CHECK_EQ(status, WK_NO_SPACE);
	wk_faulty_set_mount_capacity(disk, UINT64_MAX);
	close_store(ns);
	must_hold_it_all(io, "store", JOURNAL_DIRECTORY);
	io->operations->destroy(io);
}

/* ---- refusals ---- */

TEST(one_without_the_other_is_refused) {
	wk_io *io = filled(10);
	must_refuse(io, "store", NULL, WK_INVALID, "was made with a journal directory, which was fast/journal");
	close_store(must_open(io, "plain", NULL));
	must_refuse(io, "plain", "fast/other", WK_INVALID, "was made without a journal directory");
	CHECK(!exists(io, "fast/other"));
	must_hold_it_all(io, "store", JOURNAL_DIRECTORY);
	io->operations->destroy(io);
}

TEST(the_journal_of_another_directory_is_refused) {
	wk_io *io = filled(11);
	close_store(must_open(io, "other", "fast/other"));
	must_refuse(io, "store", "fast/other", WK_INVALID, "their ids differ");
	must_refuse(io, "other", JOURNAL_DIRECTORY, WK_INVALID, "their ids differ");
	must_refuse(io, "third", JOURNAL_DIRECTORY, WK_DAMAGED, "Name the two directories that belong together");
	must_hold_it_all(io, "store", JOURNAL_DIRECTORY);
	io->operations->destroy(io);
}

static void remove_name(void *context, const char *name) {
	wk_io *io = context;
	char path[300];
	snprintf(path, sizeof path, "fast/journal/journal/%.200s", name);
	CHECK_EQ(io->operations->unlink(io, path), 0);
}

static bool remove_it(void *context, const char *name) {
	remove_name(context, name);
	return true;
}

TEST(a_new_directory_does_not_take_a_journal_directory_that_has_an_owner) {
	wk_io *io = filled(12);
	CHECK_EQ(io->operations->list(io, "fast/journal/journal", remove_it, io), 0);
	must_refuse(io, "third", JOURNAL_DIRECTORY, WK_INVALID, "that has the journal of another directory");
	CHECK(!exists(io, "third/superblock"));
	io->operations->destroy(io);
}

TEST(an_empty_journal_directory_is_a_lost_device_or_one_that_is_not_mounted) {
	wk_io *io = filled(13);
	CHECK_EQ(io->operations->rename(io, "fast/journal", "fast/hidden"), 0);
	CHECK_EQ(io->operations->make_directory(io, JOURNAL_DIRECTORY), 0);
	must_refuse(io, "store", JOURNAL_DIRECTORY, WK_DAMAGED, "Is its device mounted there?");
	CHECK_EQ(names_in(io, JOURNAL_DIRECTORY), 0);
	must_hold_it_all(io, "store", "fast/hidden");
	io->operations->destroy(io);
}

TEST(the_journal_files_alone_are_missed_too) {
	wk_io *io = filled(14);
	CHECK_EQ(io->operations->rename(io, "fast/journal/journal", "fast/hidden"), 0);
	must_refuse(io, "store", JOURNAL_DIRECTORY, WK_DAMAGED, "its folder `journal` is missing");
	CHECK_EQ(io->operations->rename(io, "fast/hidden", "fast/journal/journal"), 0);
	must_hold_it_all(io, "store", JOURNAL_DIRECTORY);
	io->operations->destroy(io);
}

TEST(each_directory_has_its_own_files_alone) {
	wk_io *io = two_devices(15);
	must_refuse(io, "store", "store", WK_INVALID, "lies in it: name one beside it");
	must_refuse(io, "store", "store/fast", WK_INVALID, "lies in it: name one beside it");
	CHECK_EQ(io->operations->make_directory(io, "above"), 0);
	must_refuse(io, "above/store", "above", WK_INVALID, "lies in its journal directory above");
	CHECK(!exists(io, "above/owner") && !exists(io, "store/owner"));
	close_store(must_open(io, "beside", "besides")); /* one name begins with the other */
	io->operations->destroy(io);
}

static void copy_superblock(wk_io *io, const char *from, const char *to) {
	static uint8_t slots[2 * WK_SUPERBLOCK_SLOT_SIZE];
	wk_file *file;
	CHECK_EQ(wk_faulty_read_file(wk_faulty_of(io), from, slots, sizeof slots, 0), sizeof slots);
	CHECK_EQ(io->operations->open(io, to, WK_IO_WRITE | WK_IO_CREATE, &file), 0);
	CHECK_EQ(io->operations->pwrite(io, file, slots, sizeof slots, 0, 0), sizeof slots);
	io->operations->close(io, file);
}

TEST(two_stores_do_not_share_one) {
	wk_io *io = filled(16);
	wk_namespace *ns = must_open(io, "store", JOURNAL_DIRECTORY);
	must_refuse(io, "third", JOURNAL_DIRECTORY, WK_DAMAGED, "Name the two directories that belong together");
	CHECK_EQ(io->operations->make_directory(io, "twin"), 0); /* a second one, of the same id */
	CHECK_EQ(io->operations->make_directory(io, "twin/entries"), 0);
	copy_superblock(io, "store/superblock", "twin/superblock");
	wk_open_options options = options_with(JOURNAL_DIRECTORY);
	options.lock_timeout_ns = 1;
	wk_namespace *twin;
	wk_error error = {0};
	CHECK_EQ(wk_open_on(io, "twin", &options, &twin, &error), WK_LOCKED);
	CHECK(strstr(error.text, "fast/journal is in use, by another directory") != NULL);
	CHECK_EQ(error.holder_pid, -1);
	close_store(ns);
	must_hold_it_all(io, "store", JOURNAL_DIRECTORY);
	io->operations->destroy(io);
}

TEST(what_is_no_directory_is_none) {
	wk_io *io = two_devices(17);
	wk_file *file;
	CHECK_EQ(io->operations->open(io, "fast/journal", WK_IO_WRITE | WK_IO_CREATE, &file), 0);
	io->operations->close(io, file);
	must_refuse(io, "store", JOURNAL_DIRECTORY, WK_IO, "fast/journal");
	CHECK(!exists(io, "store/superblock"));
	must_refuse(io, "store", "fast/no/such/place", WK_IO, "the directory above it must exist");
	CHECK_EQ(io->operations->make_directory(io, "fast/full"), 0);
	CHECK_EQ(io->operations->make_directory(io, "fast/full/of"), 0);
	must_refuse(io, "store", "fast/full", WK_INVALID, "is not empty, and nothing says whose it is");
	CHECK_EQ(names_in(io, "fast/full"), 1);
	CHECK_EQ(io->operations->make_directory(io, "fast/fresh"), 0); /* as a new file system is */
	CHECK_EQ(io->operations->make_directory(io, "fast/fresh/lost+found"), 0);
	close_store(must_open(io, "store", "fast/fresh"));
	static char path[2 * WK_JOURNAL_PATH_SIZE] = "fast/";
	while (strlen(path) < WK_JOURNAL_PATH_SIZE)
		strcat(path, "./");
	must_refuse(io, "another", path, WK_INVALID, "a path of more than 1023 bytes");
	io->operations->destroy(io);
}

/* The open that fails is that of the file `owner`, as on a file system that was mounted to be read. */
TEST(one_that_cannot_be_written_is_refused_and_named) {
	wk_io *io = filled(18);
	bool named = false;
	for (uint64_t call = 0; call < 30 && !named; call++) {
		wk_namespace *ns;
		wk_error error = {0};
		wk_faulty_fail(wk_faulty_of(io), WK_FAULT_OPEN, call, EROFS, false);
		wk_status status = try_open(io, "store", JOURNAL_DIRECTORY, &ns, &error);
		wk_faulty_heal(wk_faulty_of(io));
		named = status == WK_IO && error.system_error == EROFS && strstr(error.text, "fast/journal/owner") != NULL;
		if (status == WK_OK)
			close_store(ns);
	}
	CHECK(named);
	must_hold_it_all(io, "store", JOURNAL_DIRECTORY);
	io->operations->destroy(io);
}

static void flip(wk_io *io, const char *path, uint64_t slot) {
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), path, slot * WK_SUPERBLOCK_SLOT_SIZE + 20, 3), 0);
}

TEST(a_damaged_owner_file_is_refused) {
	wk_io *io = filled(19);
	flip(io, "fast/journal/owner", 0); /* the older one: nothing is lost */
	wk_namespace *ns;
	wk_error error = {0};
	wk_status status = try_open(io, "store", JOURNAL_DIRECTORY, &ns, &error);
	CHECK_EQ(status, WK_OK);
	close_store(ns);
	flip(io, "fast/journal/owner", 0);
	flip(io, "fast/journal/owner", 1);
	must_refuse(io, "store", JOURNAL_DIRECTORY, WK_DAMAGED, "is damaged, which says whose journal that is");
	flip(io, "fast/journal/owner", 0);
	flip(io, "fast/journal/owner", 1);
	must_hold_it_all(io, "store", JOURNAL_DIRECTORY);
	io->operations->destroy(io);
}

/* The file's bytes as they are now; put_back writes them again, as a copy would that somebody made then. */
static void keep(wk_io *io, const char *path, uint8_t bytes[8192]) {
	CHECK_EQ(wk_faulty_read_file(wk_faulty_of(io), path, bytes, 8192, 0), 8192);
}

static void put_back(wk_io *io, const char *path, const uint8_t bytes[8192]) {
	wk_file *file;
	CHECK_EQ(io->operations->open(io, path, WK_IO_WRITE, &file), 0);
	CHECK_EQ(io->operations->pwrite(io, file, bytes, 8192, 0, 0), 8192);
	io->operations->close(io, file);
}

TEST(an_older_copy_of_either_is_refused) {
	static uint8_t owner[8192], superblock[8192], now[8192];
	wk_io *io = filled(20);
	keep(io, "fast/journal/owner", owner);
	keep(io, "store/superblock", superblock);
	close_store(must_open(io, "store", JOURNAL_DIRECTORY));
	keep(io, "fast/journal/owner", now);
	put_back(io, "fast/journal/owner", owner);
	must_refuse(io, "store", JOURNAL_DIRECTORY, WK_DAMAGED, "fast/journal is an older copy");
	put_back(io, "fast/journal/owner", now);
	close_store(must_open(io, "store", JOURNAL_DIRECTORY));
	keep(io, "store/superblock", now);
	put_back(io, "store/superblock", superblock);
	must_refuse(io, "store", JOURNAL_DIRECTORY, WK_DAMAGED, "opening store: it is an older copy");
	put_back(io, "store/superblock", now);
	must_hold_it_all(io, "store", JOURNAL_DIRECTORY);
	io->operations->destroy(io);
}

/* ---- power cuts while they are made ---- */

static bool has_superblock(wk_io *image) {
	uint8_t slots[2 * WK_SUPERBLOCK_SLOT_SIZE] = {0};
	wk_superblock found;
	return wk_faulty_read_file(wk_faulty_of(image), "store/superblock", slots, sizeof slots, 0) > 0 &&
	       wk_superblock_choose(slots, &found) >= 0;
}

static bool has_owner(wk_io *image) {
	uint8_t slots[WK_OWNER_SIZE] = {0};
	wk_owner found;
	return wk_faulty_read_file(wk_faulty_of(image), "fast/journal/owner", slots, sizeof slots, 0) > 0 &&
	       wk_owner_choose(slots, &found) == WK_OK;
}

static void look_behind_power_cut(wk_faulty *disk, uint64_t at, uint64_t seed) {
	wk_io *image;
	wk_namespace *ns;
	wk_error error = {0};
	CHECK_EQ(wk_faulty_image(disk, at, seed, &image), 0);
	bool made = has_superblock(image);
	CHECK(made || !has_owner(image)); /* an owner that nobody is could never be opened again */
	/* An empty directory is no substitute for the one that it was being made with. */
	wk_status status = try_open(image, "store", "fast/other", &ns, &error);
	if (status == WK_OK) {
		CHECK(!made);
		close_store(ns);
		image->operations->destroy(image);
		return;
	}
	CHECK(status == WK_INVALID || status == WK_DAMAGED || status == WK_NOT_FOUND);
	CHECK(!exists(image, "fast/other/owner"));
	ns = must_open(image, "store", JOURNAL_DIRECTORY);
	add_entry(ns, 1, 0);
	close_store(ns);
	ns = must_open(image, "store", JOURNAL_DIRECTORY);
	CHECK_EQ(entries_of(ns, 1), 1);
	close_store(ns);
	image->operations->destroy(image);
}

static void look_again(wk_faulty *disk, uint64_t at, uint64_t seed) {
	wk_io *image;
	CHECK_EQ(wk_faulty_image(disk, at, seed, &image), 0);
	wk_namespace *ns = must_open(image, "store", JOURNAL_DIRECTORY);
	add_entry(ns, 1, 0);
	wk_abandon(ns);
	wk_faulty_crash(wk_faulty_of(image), seed);
	ns = must_open(image, "store", JOURNAL_DIRECTORY);
	CHECK_EQ(entries_of(ns, 1), 1);
	close_store(ns);
	image->operations->destroy(image);
}

TEST(a_power_cut_at_any_moment_of_the_making_is_made_good) {
	for (uint64_t seed = 0; seed < 12; seed++) {
		wk_io *io = two_devices(seed);
		wk_faulty *disk = wk_faulty_of(io);
		wk_faulty_set_flush_on_dsync(disk, seed % 2 == 0);
		wk_namespace *ns = must_open(io, "store", JOURNAL_DIRECTORY);
		uint64_t length = wk_faulty_trace_length(disk);
		for (uint64_t at = 0; at <= length; at++) {
			look_behind_power_cut(disk, at, seed * 1000 + at);
			look_again(disk, at, seed * 1000 + at);
		}
		wk_abandon(ns);
		io->operations->destroy(io);
	}
}

/* A failed sync may have lost what it was for, and the next one succeeds and proves nothing. */
TEST(a_sync_that_failed_while_it_was_made_is_no_reason_to_believe_what_is_seen) {
	for (uint64_t call = 0; call < 4; call++)
		for (uint64_t seed = 0; seed < 8; seed++) {
			wk_io *io = two_devices(100 * call + seed);
			wk_faulty *disk = wk_faulty_of(io);
			wk_namespace *ns;
			wk_error error = {0};
			wk_faulty_fail(disk, WK_FAULT_SYNC, call, EIO, false);
			wk_status status = try_open(io, "store", JOURNAL_DIRECTORY, &ns, &error);
			wk_faulty_heal(disk);
			CHECK_EQ(status, WK_IO);
			ns = must_open(io, "store", JOURNAL_DIRECTORY);
			uint64_t length = wk_faulty_trace_length(disk);
			for (uint64_t at = 0; at <= length; at++)
				look_again(disk, at, seed * 1000 + at);
			wk_abandon(ns);
			io->operations->destroy(io);
		}
}

/* The superblock that an open read may have been in a cache alone: the owner must not be two incarnations ahead of it. */
TEST(a_sync_that_failed_in_an_open_does_not_set_the_two_apart_when_the_power_fails_in_the_next_one) {
	for (uint64_t call = 0; call < 6; call++)
		for (uint64_t seed = 0; seed < 4; seed++) {
			wk_io *io = filled(1000 + 100 * call + seed);
			wk_faulty *disk = wk_faulty_of(io);
			wk_namespace *ns;
			wk_error error = {0};
			wk_faulty_fail(disk, WK_FAULT_SYNC, call, EIO, false);
			if (try_open(io, "store", JOURNAL_DIRECTORY, &ns, &error) == WK_OK)
				wk_abandon(ns);
			wk_faulty_heal(disk);
			wk_faulty_kill(disk);
			uint64_t begin = wk_faulty_trace_length(disk);
			wk_abandon(must_open(io, "store", JOURNAL_DIRECTORY));
			uint64_t length = wk_faulty_trace_length(disk);
			for (uint64_t at = begin; at <= length; at++) {
				wk_io *image;
				CHECK_EQ(wk_faulty_image(disk, at, seed * 1000 + at, &image), 0);
				must_hold_it_all(image, "store", JOURNAL_DIRECTORY);
				image->operations->destroy(image);
			}
			io->operations->destroy(io);
		}
}

int main(void) {
	RUN(journal_files_stay_in_the_journal_directory_and_all_else_in_the_other);
	RUN(without_one_nothing_of_it_is_there);
	RUN(both_may_be_moved_as_long_as_both_are_named);
	RUN(a_full_journal_device_and_a_full_other_one_are_two_things);
	RUN(one_without_the_other_is_refused);
	RUN(the_journal_of_another_directory_is_refused);
	RUN(a_new_directory_does_not_take_a_journal_directory_that_has_an_owner);
	RUN(an_empty_journal_directory_is_a_lost_device_or_one_that_is_not_mounted);
	RUN(the_journal_files_alone_are_missed_too);
	RUN(each_directory_has_its_own_files_alone);
	RUN(two_stores_do_not_share_one);
	RUN(what_is_no_directory_is_none);
	RUN(one_that_cannot_be_written_is_refused_and_named);
	RUN(a_damaged_owner_file_is_refused);
	RUN(an_older_copy_of_either_is_refused);
	RUN(a_power_cut_at_any_moment_of_the_making_is_made_good);
	RUN(a_sync_that_failed_while_it_was_made_is_no_reason_to_believe_what_is_seen);
	RUN(a_sync_that_failed_in_an_open_does_not_set_the_two_apart_when_the_power_fails_in_the_next_one);
	return check_done();
}
