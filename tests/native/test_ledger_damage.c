/*
 * test_ledger_damage.c: a ledger store that is opened with on_damage skip goes on behind damage in its journal: it says that
 * something is lost, has what is whole, takes more, and from then on is a store like any other.
 */
/* ctest labels: one-thread */
#include "ledger_store.h"
#include "sim/faulty.h"
#include "small_directory.h"
#include "walkeeper/inspect.h"

#include <dirent.h>

enum { ENTRIES = 40, SIZE = 3000, FENCED = 7, LATE = 9, KEYED = 11 };

static wk_open_options options_of(uint32_t on_damage) {
	wk_open_options options = store_options();
	options.file_size_min = options.file_size_max = 256 * 1024; /* what make_store writes is not sealed yet */
	options.on_damage = on_damage;
	return options;
}

static wk_status open_as(const char *path, uint32_t on_damage, wk_namespace **ns, wk_error *error) {
	wk_open_options options = options_of(on_damage);
	*ns = NULL;
	return wk_open(path, &options, ns, error);
}

static void put_entry(wk_namespace *ns, int64_t ledger_id, int64_t entry_id, const char *key) {
	static uint8_t bytes[SIZE];
	memset(bytes, (int)entry_id, sizeof bytes);
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_store_be64(bytes + 8, (uint64_t)entry_id);
	wk_add add = {
	    .bytes = bytes, .size = sizeof bytes, .key = key, .key_size = key != NULL ? (uint32_t)strlen(key) : 0};
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
}

/* One entry a block, and a fence in the middle; it ends without being closed. */
static void make_store(const char *path, bool close) {
	wk_namespace *ns;
	wk_error error = {0};
	check_ok(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), &error, "the store opens");
	for (int64_t id = 0; id < ENTRIES; id++) {
		put_entry(ns, 1, id, NULL);
		if (id == ENTRIES / 2)
			CHECK_EQ(wk_ledger_fence(ns, FENCED, KEY, sizeof KEY - 1, UINT64_MAX, NULL, NULL), WK_OK);
	}
	put_entry(ns, KEYED, 0, "a key");
	if (close)
		close_store(ns);
	else
		wk_abandon(ns);
}

static wk_status status_of(wk_namespace *ns, int64_t ledger_id, int64_t entry_id) {
	wk_entry_batch *batch = NULL;
	wk_status status = wk_ledger_read(ns, ledger_id, entry_id, 1, 1 << 20, &batch, NULL);
	size_t count = 0;
	const wk_stored_entry *entries = status == WK_OK ? wk_entry_batch_entries(batch, &count) : NULL;
	if (status == WK_OK && count == 1) {
		CHECK_EQ(entries[0].size, SIZE);
		CHECK_EQ(entries[0].bytes[SIZE - 1], (uint8_t)entry_id);
	}
	wk_entry_batch_release(batch);
	return status;
}

static int64_t entries_left(wk_namespace *ns) {
	int64_t left = 0;
	for (int64_t id = 0; id < ENTRIES; id++) {
		wk_status status = status_of(ns, 1, id);
		CHECK(status == WK_OK || status == WK_NOT_FOUND);
		left += status == WK_OK;
	}
	return left;
}

static bool is_fenced(wk_namespace *ns, int64_t ledger_id) {
	wk_ledger_info info;
	CHECK_EQ(wk_ledger_describe_state(ns, ledger_id, &info, NULL), WK_OK);
	return info.fenced;
}

static void goes_on(const char *path, int64_t lost) {
	wk_namespace *ns;
	wk_error error = {0};
	wk_recovery_report report;
	CHECK_EQ(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
	CHECK_EQ(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED); /* that changed nothing */
	check_ok(open_as(path, WK_ON_DAMAGE_SKIP, &ns, &error), &error, "it opens with skip");
	wk_namespace_recovery(ns, &report);
	CHECK_EQ(report.damaged_blocks, lost);
	CHECK_EQ(report.unknown_blocks, lost);
	CHECK_EQ(entries_left(ns), ENTRIES - lost);
	CHECK(is_fenced(ns, FENCED));
	put_entry(ns, LATE, 0, NULL);
	for (int64_t id = 0; id < ENTRIES; id++) /* files are sealed, and an index is written */
		put_entry(ns, LATE, id + 1, NULL);
	wk_abandon(ns);
	for (int round = 0; round < 3; round++) { /* from now on it is whole: killed, closed, and opened again */
		check_ok(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), &error, "it opens as ever");
		wk_namespace_recovery(ns, &report);
		CHECK_EQ(report.damaged_blocks + report.unknown_blocks, 0);
		CHECK_EQ(entries_left(ns), ENTRIES - lost);
		CHECK(is_fenced(ns, FENCED));
		CHECK_EQ(entries_of(ns, LATE), ENTRIES + 1 + round);
		put_entry(ns, LATE, ENTRIES + 1 + round, NULL);
		close_store(ns);
	}
	wk_verify_report verified;
	CHECK_EQ(wk_verify_directory(path, 0, NULL, NULL, &verified, &error), WK_DAMAGED); /* the bytes are still there */
	CHECK(verified.damaged > 0);
	remove_tree(path);
}

/* Block 1 is the first, at offset 0; each has SIZE bytes and a head, in one page of 4096. */
static void spoil_block(const char *path, uint64_t block) {
	flip_bit(below(path, "journal/0000000000000001.wkj"), block * 4096 + 1000);
}

TEST(damage_in_the_middle_of_the_journal_is_passed) {
	const char *path = temporary();
	make_store(path, false);
	spoil_block(path, 5);
	goes_on(path, 1);
}

TEST(damage_of_the_first_block_is_passed) {
	const char *path = temporary();
	make_store(path, false);
	spoil_block(path, 0);
	goes_on(path, 1);
}

TEST(damage_of_several_blocks_is_passed) {
	const char *path = temporary();
	make_store(path, false);
	for (uint64_t block = 3; block < 8; block++)
		spoil_block(path, block);
	goes_on(path, 5);
}

TEST(damage_here_and_there_is_passed) {
	const char *path = temporary();
	make_store(path, false);
	spoil_block(path, 2);
	spoil_block(path, 6);
	goes_on(path, 2);
}

/* The first open with skip may itself be killed: it is done again. */
TEST(who_was_killed_while_it_went_on_goes_on_again) {
	const char *path = temporary();
	make_store(path, false);
	spoil_block(path, 5);
	wk_namespace *ns;
	wk_error error = {0};
	for (int round = 0; round < 3; round++) {
		check_ok(open_as(path, WK_ON_DAMAGE_SKIP, &ns, &error), &error, "it opens with skip");
		CHECK_EQ(entries_left(ns), ENTRIES - 1);
		wk_abandon(ns);
	}
	check_ok(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), &error, "it opens as ever");
	CHECK_EQ(entries_left(ns), ENTRIES - 1);
	close_store(ns);
	remove_tree(path);
}

/* Where nothing is damaged skip is no other open. */
TEST(a_whole_store_is_opened_with_skip_as_ever) {
	for (int close = 0; close < 2; close++) {
		const char *path = temporary();
		make_store(path, close);
		wk_namespace *ns;
		wk_error error = {0};
		wk_recovery_report report;
		for (int round = 0; round < 2; round++) {
			check_ok(open_as(path, WK_ON_DAMAGE_SKIP, &ns, &error), &error, "it opens with skip");
			wk_namespace_recovery(ns, &report);
			CHECK_EQ(report.damaged_blocks + report.unknown_blocks + report.lost_entries + report.lost_files, 0);
			CHECK_EQ(entries_left(ns), ENTRIES);
			CHECK(is_fenced(ns, FENCED));
			close_store(ns);
		}
		remove_tree(path);
	}
}

/* What nobody else knows is no matter of policy: which ledgers are fenced and deleted. */
TEST(a_damaged_index_is_no_matter_of_policy) {
	const char *path = temporary();
	make_store(path, true);
	wk_namespace *ns;
	wk_error error = {0};
	check_ok(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), &error, "the store opens");
	for (int64_t id = 0; id < 3 * ENTRIES; id++) { /* a file is sealed, and so there is an index */
		put_entry(ns, LATE, id, NULL);
		work(ns);
	}
	close_store(ns);
	DIR *listing = opendir(below(path, "index"));
	CHECK(listing != NULL);
	for (struct dirent *one; (one = readdir(listing)) != NULL;)
		if (one->d_name[0] == '0') {
			char name[300];
			snprintf(name, sizeof name, "index/%.200s", one->d_name);
			CHECK_EQ(unlink(below(path, name)), 0);
		}
	closedir(listing);
	CHECK_EQ(open_as(path, WK_ON_DAMAGE_SKIP, &ns, &error), WK_DAMAGED);
	CHECK(strstr(error.text, "other copies") != NULL);
	remove_tree(path);
}

/* Files of 64 KiB: a sealed one, a full one that has no footer yet, and the active one. Returns how many
 * entries of ledgers LATE and 1 there are. */
static void make_three_files(const char *path, int64_t *late, int64_t *ones) {
	wk_namespace *ns;
	wk_error error = {0};
	wk_open_options options = options_of(WK_ON_DAMAGE_STOP);
	options.file_size_min = options.file_size_max = 64 * 1024;
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	for (*late = 0; ns->engine->active->id == 1; ++*late)
		put_entry(ns, LATE, *late, NULL);
	work(ns);
	*ones = 0;
	for (uint64_t second = ns->engine->active->id; ns->engine->active->id == second; ++*ones)
		put_entry(ns, 1, *ones, NULL);
	CHECK_EQ(wk_ledger_fence(ns, FENCED, KEY, sizeof KEY - 1, UINT64_MAX, NULL, NULL), WK_OK);
	for (int64_t id = 0; id < 6; id++)
		put_entry(ns, KEYED, id, NULL);
	wk_abandon(ns);
}

/* Whole blocks stand behind it in that file, and the file after it goes on with later ones. */
TEST(a_file_whose_first_page_is_gone_is_not_taken_for_an_empty_one) {
	for (int garbage = 0; garbage < 2; garbage++) {
		const char *path = temporary();
		int64_t late, ones, left = 0;
		make_three_files(path, &late, &ones);
		FILE *file = fopen(below(path, "journal/0000000000000002.wkj"), "r+b");
		CHECK(file != NULL);
		for (int i = 0; i < 4096; i++)
			CHECK(fputc(garbage ? i * 77 >> 2 & 0xff : 0, file) != EOF);
		CHECK_EQ(fclose(file), 0);
		wk_namespace *ns;
		wk_error error = {0};
		CHECK_EQ(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
		check_ok(open_as(path, WK_ON_DAMAGE_SKIP, &ns, &error), &error, "it opens with skip");
		for (int64_t id = 0; id < ones; id++)
			left += status_of(ns, 1, id) == WK_OK;
		for (int64_t id = 0; id < late; id++)
			left += status_of(ns, LATE, id) == WK_OK;
		CHECK_EQ(left, ones + late - 1); /* one entry a block */
		CHECK(is_fenced(ns, FENCED));
		wk_abandon(ns);
		check_ok(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), &error, "it is whole");
		close_store(ns);
		remove_tree(path);
	}
}

/* Sealed files 1 to 4, of 64 KiB, and the active one, with one entry a block. Returns how many. */
static int64_t make_sealed_files(const char *path, int64_t *of_the_second) {
	wk_namespace *ns;
	wk_error error = {0};
	wk_open_options options = options_of(WK_ON_DAMAGE_STOP);
	options.file_size_min = options.file_size_max = 64 * 1024;
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	int64_t count = 0;
	for (*of_the_second = 0; ns->engine->active->id < 5; count++) {
		*of_the_second += ns->engine->active->id == 2;
		put_entry(ns, LATE, count, NULL);
		work(ns);
	}
	for (uint32_t i = 0; i < ns->engine->files_count; i++)
		CHECK(ns->engine->files[i]->id > 4 || ns->engine->files[i]->state == WK_FILE_SEALED);
	wk_abandon(ns);
	return count;
}

/* The last page before the trailer, which reads well: what the file holds is only known of its blocks. */
static void spoil_footer(const char *path, int number) {
	char name[64];
	snprintf(name, sizeof name, "journal/000000000000000%d.wkj", number);
	flip_bit(below(path, name), 64 * 1024 - 2 * 4096 + 100);
}

static void spoil_pages(const char *path, int number, int from, int to) {
	char name[64];
	snprintf(name, sizeof name, "journal/000000000000000%d.wkj", number);
	for (int page = from; page < to; page++)
		flip_bit(below(path, name), (size_t)page * 4096 + 1000);
}

static void passes(const char *path, int64_t count, int64_t lost) {
	wk_namespace *ns;
	wk_error error = {0};
	wk_recovery_report report;
	int64_t left = 0;
	check_ok(open_as(path, WK_ON_DAMAGE_SKIP, &ns, &error), &error, "it opens with skip");
	wk_namespace_recovery(ns, &report);
	CHECK_EQ(report.damaged_blocks, lost);
	for (int64_t id = 0; id < count; id++)
		left += status_of(ns, LATE, id) == WK_OK;
	CHECK_EQ(left, count - lost);
	wk_abandon(ns);
	remove_tree(path);
}

/*
 * Nothing is left of the second one; the third one shows that, and nobody looks farther: the fourth is to be passed by its
 * footer, and is walked block by block after all.
 */
TEST(damage_in_a_file_whose_footer_is_found_to_be_damaged_later_takes_its_block_alone) {
	const char *path = temporary();
	int64_t lost, count = make_sealed_files(path, &lost);
	spoil_pages(path, 2, 0, 16);
	spoil_pages(path, 4, 3, 4);
	spoil_footer(path, 4);
	passes(path, count, lost + 1);
}

TEST(a_damaged_footer_behind_damage_leaves_the_blocks_of_its_file) {
	const char *path = temporary();
	int64_t lost, count = make_sealed_files(path, &lost);
	spoil_pages(path, 2, 0, 16);
	spoil_footer(path, 3);
	passes(path, count, lost);
}

/* Numbers of blocks tell: nothing was recycled yet. The third one is the end, which may not have been there. */
TEST(a_file_that_is_gone_is_not_taken_for_a_recycled_one) {
	for (int gone = 1; gone <= 2; gone++) {
		const char *path = temporary();
		int64_t late, ones;
		make_three_files(path, &late, &ones);
		wk_namespace *ns;
		wk_error error = {0};
		wk_recovery_report report;
		wk_verify_report verified;
		CHECK_EQ(wk_verify_directory(path, 0, NULL, NULL, &verified, &error), WK_OK);
		CHECK_EQ(unlink(below(path, gone == 1 ? "journal/0000000000000001.wkj" : "journal/0000000000000002.wkj")), 0);
		CHECK_EQ(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
		CHECK(strstr(error.text, "missing") != NULL);
		CHECK_EQ(wk_verify_directory(path, 0, NULL, NULL, &verified, &error), WK_DAMAGED);
		check_ok(open_as(path, WK_ON_DAMAGE_SKIP, &ns, &error), &error, "it opens with skip");
		wk_namespace_recovery(ns, &report);
		CHECK_EQ(report.unknown_blocks,
		         gone == 1 ? late - 1 : ones); /* one entry a block, the last of each in the next file */
		CHECK_EQ(status_of(ns, gone == 1 ? 1 : LATE, 0), WK_OK);
		CHECK(is_fenced(ns, FENCED));
		wk_abandon(ns);
		for (int round = 0; round < 2; round++) { /* that was accepted once and for all */
			check_ok(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), &error, "it opens as ever");
			put_entry(ns, KEYED, 100 + round, NULL);
			close_store(ns);
		}
		CHECK_EQ(wk_verify_directory(path, 0, NULL, NULL, &verified, &error), WK_OK);
		remove_tree(path);
	}
}

static void put_and_seal(wk_namespace *ns, int64_t ledger_id, int64_t entries) {
	for (int64_t id = 0; id < entries; id++) {
		put_entry(ns, ledger_id, id, NULL);
		work(ns);
	}
}

/* The last one is gone, which the superblock tells. Who accepts that and is killed gives no number twice afterwards. */
TEST(behind_an_accepted_loss_another_one_is_missed) {
	const char *path = temporary();
	wk_namespace *ns;
	wk_error error = {0};
	wk_verify_report verified;
	wk_open_options options = options_of(WK_ON_DAMAGE_STOP);
	options.file_size_min = options.file_size_max = 64 * 1024;
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	put_and_seal(ns, 1, 60);
	char last[80], lost[80];
	snprintf(last, sizeof last, "journal/%016llx.wkj", (unsigned long long)ns->engine->active->id);
	close_store(ns);
	CHECK_EQ(unlink(below(path, last)), 0);
	CHECK_EQ(wk_verify_directory(path, 0, NULL, NULL, &verified, &error), WK_DAMAGED);
	CHECK_EQ(wk_open(path, &options, &ns, &error), WK_DAMAGED);
	options.on_damage = WK_ON_DAMAGE_SKIP;
	check_ok(wk_open(path, &options, &ns, &error), &error, "it opens with skip");
	uint64_t number = ns->engine->open.sequence;
	wk_abandon(ns); /* it wrote nothing */
	options.on_damage = WK_ON_DAMAGE_STOP;
	check_ok(wk_open(path, &options, &ns, &error), &error, "it opens as ever");
	CHECK(ns->engine->open.sequence >= number);
	snprintf(lost, sizeof lost, "journal/%016llx.wkj", (unsigned long long)ns->engine->active->id);
	put_and_seal(ns, 7, 60);
	wk_abandon(ns);
	CHECK_EQ(unlink(below(path, lost)), 0);
	CHECK_EQ(wk_open(path, &options, &ns, &error), WK_DAMAGED);
	remove_tree(path);
}

/* One more block, and it is damaged: only the page `shared` shows that it was durable. */
static void lose_one_more(const char *path, uint64_t *number) {
	wk_namespace *ns;
	wk_error error = {0};
	char last[80];
	check_ok(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), &error, "it opens as ever");
	put_entry(ns, 1, ENTRIES, NULL);
	*number = ns->engine->durable;
	snprintf(last, sizeof last, "journal/%016llx.wkj", (unsigned long long)ns->engine->active->id);
	size_t end = (size_t)ns->engine->offset;
	wk_abandon(ns);
	flip_bit(below(path, last), end - 4096 + 1000);
}

/*
 * An open with skip records in the superblock that a loss is accepted, and later the page `shared` forgets the lost block. A
 * kill between the two leaves a page that names the block. Here the test puts the old page back. A loss behind that one is a
 * loss again.
 */
TEST(a_page_that_names_an_accepted_block_shows_no_loss) {
	const char *path = temporary();
	wk_namespace *ns;
	wk_error error = {0};
	make_store(path, true);
	for (int round = 0; round < 2; round++) {
		uint64_t lost;
		size_t size;
		lose_one_more(path, &lost);
		CHECK_EQ(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
		CHECK(strstr(error.text, "`shared` shows") != NULL);
		uint8_t *page = read_file(below(path, "shared"), &size);
		check_ok(open_as(path, WK_ON_DAMAGE_SKIP, &ns, &error), &error, "it opens with skip");
		CHECK(ns->engine->report.damaged_blocks > 0);
		CHECK(ns->engine->superblock.accepted_sequence >= lost);
		wk_abandon(ns);
		write_file(below(path, "shared"), page, size);
		free(page);
		check_ok(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), &error, "the loss is accepted already");
		CHECK(ns->engine->open.sequence > lost);
		CHECK_EQ(entries_left(ns), ENTRIES);
		CHECK_EQ(status_of(ns, 1, ENTRIES), WK_NOT_FOUND);
		wk_abandon(ns);
	}
	check_ok(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), &error, "it opens as ever");
	put_entry(ns, 1, ENTRIES, NULL);
	close_store(ns);
	check_ok(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), &error, "it is a store like any other");
	CHECK_EQ(status_of(ns, 1, ENTRIES), WK_OK);
	close_store(ns);
	remove_tree(path);
}

/* ---- numbers of blocks that the journal has no more ---- */

/* Zeros in all of it. */
static void wipe_file(wk_io *io, const char *name) {
	size_t size = (size_t)wk_faulty_file_size(wk_faulty_of(io), name);
	uint8_t *zeros = calloc(1, size);
	wk_file *file;
	CHECK(zeros != NULL);
	CHECK_EQ(io->operations->open(io, name, WK_IO_WRITE, &file), 0);
	CHECK_EQ(io->operations->pwrite(io, file, zeros, size, 0, 0), (int64_t)size);
	CHECK_EQ(io->operations->sync(io, file), 0);
	io->operations->close(io, file);
	free(zeros);
}

static void kill_and_wipe_the_active(wk_namespace *ns, wk_io *io) {
	char name[80];
	snprintf(name, sizeof name, "store/journal/%016llx.wkj", (unsigned long long)ns->engine->active->id);
	kill_store(ns, io);
	wipe_file(io, name);
}

static void seconds_pass(wk_namespace *ns, wk_io *io) {
	for (int i = 0; i < 20; i++) {
		wk_faulty_advance(wk_faulty_of(io), 2000000000);
		work(ns);
	}
}

static bool has_entry_log(wk_namespace *ns) {
	for (uint32_t i = 0; i < ns->engine->files_count; i++)
		if (ns->engine->files[i]->kind == WK_FILE_ENTRY_LOG)
			return true;
	return false;
}

/*
 * Numbers of blocks tell whether a delete is younger than what an entry log holds. The active file is lost, and what an open
 * with skip gave as numbers is lost with it, as it is killed before it writes. The page `shared` shows the loss. Without a
 * page the entry log alone does: it was made behind blocks of the active file.
 */
static void a_delete_holds(bool has_page) {
	wk_io *io = new_disk(3);
	wk_open_options options = options_of(WK_ON_DAMAGE_STOP);
	options.minor_percent = 60;
	options.minor_interval_ns = 1000000000;
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t id = 0; id < 120; id++) {
		put_entry(ns, 1 + id % 2, id, NULL);
		work(ns);
	}
	CHECK_EQ(wk_ledger_delete(ns, 2, UINT64_MAX, NULL, NULL), WK_OK);
	for (int64_t id = 0; id < 30; id++)
		put_entry(ns, 3, id, NULL);
	seconds_pass(ns, io); /* the mover makes an entry log of ledger 1 */
	CHECK(has_entry_log(ns));
	uint64_t number = ns->engine->open.sequence;
	kill_and_wipe_the_active(ns, io);
	if (!has_page)
		CHECK_EQ(io->operations->unlink(io, "store/shared"), 0);
	wk_error error = {0};
	CHECK_EQ(wk_open_on(io, "store", &options, &ns, &error), WK_DAMAGED);
	CHECK(strstr(error.text, has_page ? "`shared` shows" : "the journal ends behind block") != NULL);
	options.on_damage = WK_ON_DAMAGE_SKIP;
	ns = open_store_with(io, &options);
	CHECK(ns->engine->report.unknown_blocks > 0);
	CHECK(ns->engine->open.sequence >= number);
	kill_store(ns, io);
	options.on_damage = WK_ON_DAMAGE_STOP;
	ns = open_store_with(io, &options);
	CHECK(is_known(ns, 1));
	CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	for (int64_t id = 0; id < 2; id++)
		put_entry(ns, 5, id, NULL);
	kill_store(ns, io);
	ns = open_store_with(io, &options);
	CHECK(!is_known(ns, 1));
	CHECK_EQ(entries_of(ns, 5), 2);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_delete_behind_a_lost_end_holds) {
	for (int has_page = 0; has_page < 2; has_page++)
		a_delete_holds(has_page != 0);
}

static uint32_t files_with_blocks(wk_namespace *ns) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < ns->engine->files_count; i++)
		count += ns->engine->files[i]->kind == WK_FILE_JOURNAL && ns->engine->files[i]->end_offset > 0;
	return count;
}

/*
 * Every sealed file was recycled, as a delete left nothing of it, and no entry log was made. Then the active file is lost,
 * and so is the page. The mark of the index alone shows that there were blocks.
 */
TEST(the_index_alone_shows_that_blocks_were_there) {
	wk_io *io = new_disk(4);
	wk_open_options options = options_of(WK_ON_DAMAGE_STOP);
	wk_namespace *ns = open_store_with(io, &options);
	put_and_seal(ns, 1, 120);
	CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	for (int64_t id = 0; id < ENTRIES || files_with_blocks(ns) > 1; id++) {
		CHECK(id < 120);
		put_entry(ns, 3, id, NULL);
		work(ns);
	}
	CHECK(!has_entry_log(ns));
	CHECK(ns->engine->superblock.replay_sequence > 0);
	CHECK_EQ(ns->engine->superblock.accepted_sequence, 0);
	uint64_t marked = ns->engine->superblock.replay_sequence;
	kill_and_wipe_the_active(ns, io);
	CHECK_EQ(io->operations->unlink(io, "store/shared"), 0);
	wk_error error = {0};
	CHECK_EQ(wk_open_on(io, "store", &options, &ns, &error), WK_DAMAGED);
	CHECK(strstr(error.text, "the journal ends behind block") != NULL);
	options.on_damage = WK_ON_DAMAGE_SKIP;
	ns = open_store_with(io, &options);
	CHECK(ns->engine->report.unknown_blocks > 0);
	CHECK(ns->engine->open.sequence > marked);
	kill_store(ns, io);
	options.on_damage = WK_ON_DAMAGE_STOP;
	ns = open_store_with(io, &options);
	add_entry(ns, 5, 0);
	close_store(ns);
	io->operations->destroy(io);
}

/* ---- by a seed ---- */

static uint64_t state;

static uint64_t below_n(uint64_t n) {
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % n;
}

enum { ADDS_MAX = 200, SEEDS = 60, UNCONFIRMED = 2 };
typedef struct one_add {
	int64_t ledger_id, entry_id;
	wk_status found;
} one_add;
static one_add adds[ADDS_MAX];

static void look_at_all(wk_namespace *ns, int count) {
	for (int i = 0; i < count; i++)
		adds[i].found = status_of(ns, adds[i].ledger_id, adds[i].entry_id);
}

/* Three flipped bits of a file of the journal, or of all of its files but the root. */
static void spoil_something(const char *path) {
	DIR *listing = opendir(below(path, "journal"));
	CHECK(listing != NULL);
	char names[64][256];
	uint64_t count = 0;
	for (struct dirent *one; (one = readdir(listing)) != NULL && count < 64;)
		if (one->d_name[0] == '0')
			snprintf(names[count++], sizeof names[0], "%.240s", one->d_name);
	closedir(listing);
	CHECK(count > 0);
	for (uint64_t flips = 1 + below_n(3); flips > 0; flips--) {
		char name[300];
		size_t size;
		snprintf(name, sizeof name, "journal/%.240s", names[below_n(count)]);
		free(read_file(below(path, name), &size));
		if (size > 0)
			flip_bit(below(path, name), below_n(size));
	}
}

static bool random_life(uint64_t seed) {
	state = seed * 0x9e3779b97f4a7c15u + 1;
	const char *path = temporary();
	wk_namespace *ns;
	wk_error error = {0};
	int64_t next[4] = {0};
	int count = 20 + (int)below_n(ADDS_MAX - 20);
	bool close = below_n(2) == 0;
	check_ok(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), &error, "the store opens");
	for (int i = 0; i < count; i++) {
		adds[i].ledger_id = (int64_t)below_n(4);
		adds[i].entry_id = next[adds[i].ledger_id]++;
		put_entry(ns, adds[i].ledger_id, adds[i].entry_id, NULL);
		if (below_n(4) == 0)
			work(ns);
	}
	if (close)
		close_store(ns);
	else
		wk_abandon(ns);
	spoil_something(path);
	wk_status status = open_as(path, WK_ON_DAMAGE_STOP, &ns, &error);
	bool skipped = status == WK_DAMAGED;
	if (skipped)
		status = open_as(path, WK_ON_DAMAGE_SKIP, &ns, &error);
	CHECK(status == WK_OK || status == WK_DAMAGED);
	if (status == WK_OK) {
		look_at_all(ns, count);
		for (int i = 0; i < count; i++) { /* without a word nothing is absent, but for what nothing confirmed */
			bool torn = !close && i >= count - UNCONFIRMED;
			CHECK(adds[i].found == WK_OK || adds[i].found == WK_DAMAGED ||
			      (adds[i].found == WK_NOT_FOUND && (skipped || torn)));
		}
		put_entry(ns, LATE, 0, NULL);
		wk_abandon(ns);
		check_ok(open_as(path, WK_ON_DAMAGE_STOP, &ns, &error), &error, "it is a store like any other");
		for (int i = 0; i < count; i++)
			CHECK_EQ(status_of(ns, adds[i].ledger_id, adds[i].entry_id), adds[i].found);
		CHECK_EQ(status_of(ns, LATE, 0), WK_OK);
		close_store(ns);
	}
	remove_tree(path);
	return skipped && status == WK_OK;
}

TEST(whatever_is_spoilt_nothing_is_absent_without_a_word) {
	int skipped = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		skipped += random_life(seed);
	printf("%d of %d went on behind damage\n", skipped, SEEDS);
	CHECK(skipped > SEEDS / 10);
}

int main(void) {
	RUN(damage_in_the_middle_of_the_journal_is_passed);
	RUN(damage_of_the_first_block_is_passed);
	RUN(damage_of_several_blocks_is_passed);
	RUN(damage_here_and_there_is_passed);
	RUN(who_was_killed_while_it_went_on_goes_on_again);
	RUN(a_whole_store_is_opened_with_skip_as_ever);
	RUN(a_damaged_index_is_no_matter_of_policy);
	RUN(a_file_whose_first_page_is_gone_is_not_taken_for_an_empty_one);
	RUN(damage_in_a_file_whose_footer_is_found_to_be_damaged_later_takes_its_block_alone);
	RUN(a_damaged_footer_behind_damage_leaves_the_blocks_of_its_file);
	RUN(a_file_that_is_gone_is_not_taken_for_a_recycled_one);
	RUN(behind_an_accepted_loss_another_one_is_missed);
	RUN(a_page_that_names_an_accepted_block_shows_no_loss);
	RUN(a_delete_behind_a_lost_end_holds);
	RUN(the_index_alone_shows_that_blocks_were_there);
	RUN(whatever_is_spoilt_nothing_is_absent_without_a_word);
	return check_done();
}
