/*
 * test_backup_meanwhile.c: what happens in the middle of wk_namespace_backup. The engine's seam to the kernel has one
 * call of it taken over: the test acts between what the engine does before and behind it.
 */
#include "copied_directory.h"
#include "engine/directory/directory.h"
#include "engine/engine.h"
#include "engine/index/index_file.h"
#include "engine/index/store_file.h"
#include "engine/ledger/ledger_state.h"
#include "engine/manual.h"
#include <errno.h>

static struct wk_io_operations operations, original;
static wk_namespace *hooked;
static wk_log *hooked_log;
static wk_writer *hooked_writer;
static char hooked_path[100], hooked_copy[100];
static bool hook_is_set;

static void open_hooked(const char *place, uint32_t sync_method) {
	snprintf(hooked_path, sizeof hooked_path, "%s/wal", place);
	snprintf(hooked_copy, sizeof hooked_copy, "%s/copy", place);
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	original = operations = *io->operations;
	io->operations = &operations;
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.sync_method = sync_method;
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	wk_error error = {0};
	check_ok(wk_open_on(io, hooked_path, &options, &hooked, &error), &error, "the directory opens");
	hooked_log = log_named(hooked, "log");
	hooked_writer = writer_of(hooked_log);
	hook_is_set = false;
}

static void close_hooked(void) {
	wk_io *io = hooked->engine->io;
	close_all(hooked, hooked_log, hooked_writer);
	io->operations->destroy(io);
}

static void do_all_background_work(void) {
	wk_error error = {0};
	for (bool idle = false; !idle;)
		check_ok(wk_namespace_step(hooked, &idle, &error), &error, "a step of background work");
}

/* Everything but the last record goes, and what held it is recycled where that may be; then the link is made. */
static int recycle_then_link(wk_io *io, const char *from, const char *to) {
	if (hook_is_set) {
		hook_is_set = false;
		wk_position last;
		wk_error error = {0};
		check_ok(wk_log_find(hooked_log, WK_FIND_SEQUENCE_ID, append_one(hooked_writer), NULL, &last, &error), &error,
		         "finding the last record");
		check_ok(wk_log_truncate(hooked_log, &last.dlsn, false, &error), &error, "truncating");
		for (int i = 0; i < 40; i++)
			append_one(hooked_writer);
		do_all_background_work();
	}
	return original.link(io, from, to);
}

TEST(what_is_truncated_while_the_copy_is_made_stays_in_it) {
	const char *place = temporary();
	open_hooked(place, WK_SYNC_DSYNC);
	while (append_one(hooked_writer) < 59)
		do_all_background_work();
	operations.link = recycle_then_link;
	hook_is_set = true;
	backup(hooked, hooked_copy);
	CHECK(!hook_is_set);
	wk_namespace *ns = open_small(hooked_copy);
	int64_t first, last;
	read_all(ns, &first, &last);
	CHECK_EQ(first, 0);
	CHECK_EQ(last, 59);
	close_all(ns, NULL, NULL);
	wk_stats stats;
	do_all_background_work(); /* the pins are gone: now it is recycled */
	wk_namespace_stats(hooked, &stats);
	CHECK(stats.recycled_files >= 3);
	verify_clean(hooked_copy);
	close_hooked();
	remove_tree(place);
}

/* As a state record in the block written last would have left it. */
static void note_fence(int64_t ledger_id) {
	wk_engine *engine = hooked->engine;
	wk_store_file *file = engine->active;
	wk_footer_state state = {.ledger_id = ledger_id, .type = WK_BLOCK_FENCE};
	CHECK(wk_state_list_put(&file->states, &state));
	CHECK_EQ(wk_ledger_state_apply(engine, &state), WK_OK);
}

static void truncate_to_last(void) {
	wk_position last;
	wk_error error = {0};
	check_ok(wk_log_find(hooked_log, WK_FIND_SEQUENCE_ID, append_one(hooked_writer), NULL, &last, &error), &error,
	         "finding the last record");
	check_ok(wk_log_truncate(hooked_log, &last.dlsn, false, &error), &error, "truncating");
}

TEST(states_whose_journal_file_was_recycled_are_in_the_copy) {
	const char *place = temporary();
	open_hooked(place, WK_SYNC_DSYNC);
	while (append_one(hooked_writer) < 19) /* behind the file with the catalogue in it */
		do_all_background_work();
	note_fence(700);
	uint64_t held_in = hooked->engine->active->id;
	while (append_one(hooked_writer) < 59)
		do_all_background_work();
	truncate_to_last();
	for (int i = 0; i < 40; i++) {
		append_one(hooked_writer);
		do_all_background_work();
	}
	CHECK(wk_store_file_find(hooked->engine, held_in) == NULL);
	CHECK(hooked->engine->superblock.index_generation > 0);
	backup(hooked, hooked_copy);
	verify_clean(hooked_copy);
	wk_namespace *ns = open_small(hooked_copy);
	wk_index_ledger state;
	CHECK(wk_ledger_state_find(ns->engine, 700, &state) && state.bits == WK_LEDGER_FENCED);
	close_all(ns, NULL, NULL);
	do_all_background_work();
	append_one(hooked_writer);
	close_hooked(); /* the next index replaces the one that the copy shares */
	ns = open_small(hooked_copy);
	CHECK(wk_ledger_state_find(ns->engine, 700, NULL));
	close_all(ns, NULL, NULL);
	remove_tree(place);
}

/* Another index takes the place of the one that was noted, before that is linked. */
static bool index_was_replaced;
static int replace_index_then_link(wk_io *io, const char *from, const char *to) {
	if (hook_is_set && strstr(from, "/journal/") != NULL) {
		hook_is_set = false;
		wk_engine_lock(hooked->engine);
		index_was_replaced = wk_index_write(hooked->engine);
		wk_engine_unlock(hooked->engine);
	}
	return original.link(io, from, to);
}

TEST(an_index_that_is_replaced_while_the_copy_is_made_is_in_it_all_the_same) {
	const char *place = temporary();
	open_hooked(place, WK_SYNC_DSYNC);
	while (append_one(hooked_writer) < 59)
		do_all_background_work();
	wk_engine_lock(hooked->engine);
	CHECK(wk_index_write(hooked->engine));
	wk_engine_unlock(hooked->engine);
	operations.link = replace_index_then_link;
	hook_is_set = true;
	backup(hooked, hooked_copy);
	CHECK(!hook_is_set && index_was_replaced);
	verify_clean(hooked_copy);
	wk_namespace *ns = open_small(hooked_copy);
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	CHECK(report.footers_read <= 1); /* the rest it knows from the index */
	int64_t first, last;
	read_all(ns, &first, &last);
	CHECK_EQ(last, 59);
	close_all(ns, NULL, NULL);
	close_hooked();
	remove_tree(place);
}

static void forget_closing(const char *directory) {
	size_t size;
	uint8_t *slots = read_file(below(directory, "superblock"), &size);
	for (size_t i = 0; i < 2; i++) {
		wk_superblock superblock;
		if (wk_superblock_decode(slots + i * WK_SUPERBLOCK_SLOT_SIZE, &superblock) != WK_OK)
			continue;
		superblock.clean = false;
		superblock.closed_sequence = 0;
		wk_superblock_encode(&superblock, slots + i * WK_SUPERBLOCK_SLOT_SIZE);
	}
	FILE *file = fopen(below(directory, "superblock"), "r+");
	CHECK(file != NULL && fwrite(slots, 1, size, file) == size && fclose(file) == 0);
	free(slots);
}

TEST(a_last_file_that_the_index_names_is_copied_with_its_footer) {
	const char *place = temporary();
	open_hooked(place, WK_SYNC_DSYNC);
	while (append_one(hooked_writer) < 59)
		do_all_background_work();
	char active[200];
	snprintf(active, sizeof active, "%s/journal/%016llx.wkj", hooked_path,
	         (unsigned long long)hooked->engine->active->id);
	close_hooked();
	CHECK_EQ(truncate(active, 0), 0); /* as a power cut before its first block leaves it ... */
	CHECK_EQ(truncate(active, SMALL_FILE_SIZE), 0);
	CHECK_EQ(unlink(below(hooked_path, "shared")), 0);
	forget_closing(hooked_path); /* ... and therefore not closed in order */
	open_hooked(place, WK_SYNC_DSYNC);
	CHECK_EQ(hooked->engine->active->end_offset, 0);
	wk_engine_lock(hooked->engine);
	CHECK(wk_index_write(hooked->engine));
	wk_engine_unlock(hooked->engine);
	int64_t first, last, first_then, last_then;
	read_all(hooked, &first, &last);
	backup(hooked, hooked_copy);
	verify_clean(hooked_copy);
	wk_namespace *ns = open_small(hooked_copy);
	read_all(ns, &first_then, &last_then);
	CHECK_EQ(first_then, first);
	CHECK_EQ(last_then, last);
	close_all(ns, NULL, NULL);
	close_hooked();
	remove_tree(place);
}

static int64_t write_then_back_up(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset,
                                  uint32_t flags) {
	int64_t result = original.pwrite(io, file, buffer, size, offset, flags);
	if (hook_is_set) {
		hook_is_set = false;
		backup(hooked, hooked_copy);
	}
	return result;
}

TEST(a_block_that_is_written_and_not_yet_durable_is_not_in_the_copy) {
	const char *place = temporary();
	open_hooked(place, WK_SYNC_WRITE_THEN_SYNC);
	while (append_one(hooked_writer) < 29)
		;
	operations.pwrite = write_then_back_up;
	hook_is_set = true;
	CHECK_EQ(append_one(hooked_writer), 30);
	CHECK(!hook_is_set);
	wk_namespace *ns = open_small(hooked_copy);
	int64_t first, last;
	read_all(ns, &first, &last);
	CHECK_EQ(last, 29);
	close_all(ns, NULL, NULL);
	close_hooked();
	remove_tree(place);
}

static int no_link(wk_io *io, const char *from, const char *to) {
	(void)io;
	(void)from;
	(void)to;
	return -EXDEV;
}

TEST(a_backup_that_fails_holds_no_space_and_is_no_directory) {
	const char *place = temporary();
	open_hooked(place, WK_SYNC_DSYNC);
	while (append_one(hooked_writer) < 59)
		do_all_background_work();
	operations.link = no_link;
	wk_error error = {0};
	CHECK_EQ(wk_namespace_backup(hooked, hooked_copy, &error), WK_IO);
	CHECK(strstr(error.text, "file system") != NULL);
	CHECK_EQ(shared_files(hooked_path, hooked_copy), 0);
	CHECK(access(below(hooked_copy, "superblock"), F_OK) != 0);
	CHECK_EQ(append_one(hooked_writer), 60); /* and the directory goes on */
	close_hooked();
	remove_tree(place);
}

int main(void) {
	RUN(what_is_truncated_while_the_copy_is_made_stays_in_it);
	RUN(states_whose_journal_file_was_recycled_are_in_the_copy);
	RUN(an_index_that_is_replaced_while_the_copy_is_made_is_in_it_all_the_same);
	RUN(a_last_file_that_the_index_names_is_copied_with_its_footer);
	RUN(a_block_that_is_written_and_not_yet_durable_is_not_in_the_copy);
	RUN(a_backup_that_fails_holds_no_space_and_is_no_directory);
	return check_done();
}
