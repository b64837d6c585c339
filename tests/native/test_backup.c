/*
 * test_backup.c: wk_namespace_backup: a copy by hard links of a directory in use. The copy opens with everything that
 * was durable before the call; afterwards both go on, and neither sees a byte of the other (storage rule 21).
 */
#include "engine/directory.h"
#include "engine/engine.h"
#include "engine/index_file.h"
#include "engine/ledger_state.h"
#include "engine/store_file.h"
#include "small_directory.h"
#include "walkeeper/inspect.h"
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

static void verify_clean(const char *path) {
	wk_verify_report report;
	wk_error error = {0};
	wk_status status = wk_verify_directory(path, 0, NULL, NULL, &report, &error);
	check_ok(status, &error, "the directory verifies");
}

/* Names that two directories' journals share by inode. */
static int shared_files(const char *a, const char *b) {
	int count = 0;
	DIR *list = opendir(below(a, "journal"));
	CHECK(list != NULL);
	for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
		struct stat one, other;
		char name[300];
		snprintf(name, sizeof name, "journal/%.200s", entry->d_name);
		if (entry->d_name[0] != '.' && stat(below(a, name), &one) == 0 && stat(below(b, name), &other) == 0)
			count += one.st_ino == other.st_ino;
	}
	closedir(list);
	return count;
}

static void backup(wk_namespace *ns, const char *copy) {
	wk_error error = {0};
	check_ok(wk_namespace_backup(ns, copy, &error), &error, "the backup");
}

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

/* ---- in the middle of a call ----
 *
 * The engine's seam to the kernel with one call of it taken over: the test acts between what the engine does before and
 * behind it.
 */

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
	options.manual = true;
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
	file->states = realloc(file->states, (file->states_count + 1) * sizeof *file->states);
	CHECK(file->states != NULL);
	file->states[file->states_count++] = state;
	file->states_capacity = file->states_count;
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
	const wk_index_ledger *state = wk_ledger_state_find(ns->engine, 700);
	CHECK(state != NULL && state->bits == WK_LEDGER_FENCED);
	close_all(ns, NULL, NULL);
	do_all_background_work();
	append_one(hooked_writer);
	close_hooked(); /* the next index replaces the one that the copy shares */
	ns = open_small(hooked_copy);
	CHECK(wk_ledger_state_find(ns->engine, 700) != NULL);
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
	CHECK_EQ(unlink(active), 0); /* as a power cut before its first block leaves it ... */
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

/* ---- a busy directory ---- */

typedef struct busy {
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
	_Atomic int64_t durable;   /* sequence id of the last record known durable */
	_Atomic int64_t truncated; /* records before it may be gone */
	_Atomic bool stop;
} busy;

static void *append_and_truncate(void *context) {
	busy *b = context;
	while (!atomic_load(&b->stop)) {
		int64_t at = append_one(b->writer);
		atomic_store(&b->durable, at);
		if (at % 40 != 39)
			continue;
		wk_position before;
		wk_error error = {0};
		atomic_store(&b->truncated, at - 60);
		check_ok(wk_log_find(b->log, WK_FIND_SEQUENCE_ID, at - 60 < 0 ? 0 : at - 60, NULL, &before, &error), &error,
		         "finding the place");
		check_ok(wk_log_truncate(b->log, &before.dlsn, false, &error), &error, "truncating");
	}
	return NULL;
}

static void start(busy *b, const char *path, pthread_t *thread) {
	b->ns = open_small(path);
	b->log = log_named(b->ns, "log");
	b->writer = writer_of(b->log);
	atomic_store(&b->durable, -1);
	atomic_store(&b->truncated, 0);
	atomic_store(&b->stop, false);
	CHECK_EQ(pthread_create(thread, NULL, append_and_truncate, b), 0);
	while (atomic_load(&b->durable) < 100)
		usleep(1000);
}

static void finish(busy *b, pthread_t thread) {
	atomic_store(&b->stop, true);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	close_all(b->ns, b->log, b->writer);
}

/* Appends to a directory until its files have been through recycling. */
static void go_on(const char *path) {
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < 150; i++) {
		int64_t at = append_one(writer);
		wk_position before;
		wk_error error = {0};
		if (i % 30 == 29) {
			check_ok(wk_log_find(log, WK_FIND_SEQUENCE_ID, at - 5, NULL, &before, &error), &error, "finding the place");
			check_ok(wk_log_truncate(log, &before.dlsn, false, &error), &error, "truncating");
		}
	}
	int64_t first, last;
	read_all(ns, &first, &last);
	close_all(ns, log, writer);
}

TEST(what_was_durable_before_the_call_is_in_the_copy_of_a_busy_directory) {
	const char *place = temporary();
	char path[100], copies[6][100];
	snprintf(path, sizeof path, "%s/wal", place);
	busy b;
	pthread_t thread;
	start(&b, path, &thread);
	int64_t before[6], truncated[6];
	for (int i = 0; i < 6; i++) {
		snprintf(copies[i], sizeof copies[i], "%s/copy%d", place, i);
		before[i] = atomic_load(&b.durable);
		backup(b.ns, copies[i]);
		truncated[i] = atomic_load(&b.truncated);
		usleep(30000);
	}
	finish(&b, thread);
	verify_clean(path);
	for (int i = 0; i < 6; i++) { /* long after: what they hold has since been truncated and recycled next door */
		verify_clean(copies[i]);
		wk_namespace *ns = open_small(copies[i]);
		int64_t first, last;
		read_all(ns, &first, &last);
		CHECK(last >= before[i]);
		CHECK(first <= (truncated[i] > 0 ? truncated[i] : 0));
		close_all(ns, NULL, NULL);
	}
	remove_tree(place);
}

TEST(the_directory_and_its_copies_go_on_without_touching_each_other) {
	const char *place = temporary();
	char path[100], copy[100], second[100];
	snprintf(path, sizeof path, "%s/wal", place);
	snprintf(copy, sizeof copy, "%s/copy", place);
	snprintf(second, sizeof second, "%s/second", place);
	busy b;
	pthread_t thread;
	start(&b, path, &thread);
	backup(b.ns, copy);
	backup(b.ns, second);
	finish(&b, thread);
	CHECK(shared_files(copy, second) > 0);
	wk_namespace *ns = open_small(second);
	int64_t first, last, first_then, last_then;
	read_all(ns, &first, &last);
	close_all(ns, NULL, NULL);
	go_on(copy);
	go_on(path);
	go_on(copy);
	verify_clean(path);
	verify_clean(copy);
	verify_clean(second);
	ns = open_small(second); /* it was left alone, and holds what it held */
	read_all(ns, &first_then, &last_then);
	CHECK_EQ(first_then, first);
	CHECK_EQ(last_then, last);
	close_all(ns, NULL, NULL);
	remove_tree(place);
}

int main(void) {
	RUN(a_copy_of_a_quiet_directory_holds_the_same_records);
	RUN(a_copy_can_be_read_before_anybody_writes_in_it);
	RUN(a_copy_of_an_empty_directory_opens);
	RUN(a_destination_that_exists_is_refused_and_left_alone);
	RUN(a_destination_in_the_directory_itself_is_refused_and_nothing_is_made);
	RUN(a_file_with_room_is_copied_so_that_neither_side_writes_into_the_others);
	RUN(what_is_truncated_while_the_copy_is_made_stays_in_it);
	RUN(states_whose_journal_file_was_recycled_are_in_the_copy);
	RUN(an_index_that_is_replaced_while_the_copy_is_made_is_in_it_all_the_same);
	RUN(a_last_file_that_the_index_names_is_copied_with_its_footer);
	RUN(a_block_that_is_written_and_not_yet_durable_is_not_in_the_copy);
	RUN(a_backup_that_fails_holds_no_space_and_is_no_directory);
	RUN(what_was_durable_before_the_call_is_in_the_copy_of_a_busy_directory);
	RUN(the_directory_and_its_copies_go_on_without_touching_each_other);
	return check_done();
}
