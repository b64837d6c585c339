/*
 * test_index.c: the index file and LastLogMark, on the faulty disk.
 *
 * A directory of journal files of 64 KiB with two logs: "log", whose records make most of each file, and "thin", which gets one record a file. A record's payload is its sequence id in
 * digits, then as many dots as make it RECORD_SIZE bytes.
 */
#include "check.h"
#include "engine/directory.h"
#include "engine/index_file.h"
#include "engine/ledger_state.h"
#include "engine/store_file.h"
#include "io/io.h"
#include "walkeeper/log.h"
#include <errno.h>

enum { FILE_BYTES = 64 * 1024, RECORD_SIZE = 3000, RECORDS_A_FILE = 12 };

typedef struct directory {
	wk_io *io;
	wk_faulty *disk;
	wk_namespace *ns;
	wk_log *logs[2];
	wk_writer *writers[2];
	int64_t first[2], next[2]; /* what each log holds */
} directory;
enum { LOG, THIN };
static const char *const names[2] = {"log", "thin"};

/* ---- the words ---- */

static void check_ok(wk_status status, const wk_error *error, const char *what) {
	check_count();
	if (status != WK_OK) {
		printf("%s: status %d: %s\n", what, (int)status, error->text);
		check_failed(__FILE__, __LINE__, what);
	}
}

static wk_open_options small_files(void) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.manual = true;
	options.file_size_min = options.file_size_max = FILE_BYTES;
	options.sync_method = WK_SYNC_DSYNC;
	return options;
}

static wk_engine *engine_of(const directory *d) {
	return d->ns->engine;
}

static void open_it_with(directory *d, const wk_open_options *options) {
	wk_error error = {0};
	check_ok(wk_open_on(d->io, "wal", options, &d->ns, &error), &error, "the directory opens");
	for (int i = 0; i < 2; i++) {
		check_ok(wk_log_open(d->ns, names[i], strlen(names[i]), true, NULL, &d->logs[i], &error), &error,
		         "the log opens");
		d->writers[i] = NULL;
		if (!options->read_only)
			check_ok(wk_writer_open(d->logs[i], &d->writers[i], &error), &error, "the writer opens");
	}
}

static void open_it(directory *d) {
	wk_open_options options = small_files();
	open_it_with(d, &options);
}

static void let_go(directory *d) {
	for (int i = 0; i < 2; i++) {
		if (d->writers[i] != NULL)
			wk_writer_close(d->writers[i], 0, NULL);
		wk_log_release(d->logs[i]);
	}
}

static void close_it(directory *d) {
	let_go(d);
	wk_error error = {0};
	check_ok(wk_close(d->ns, UINT64_MAX, &error), &error, "the directory closes");
}

static void kill_it(directory *d) {
	wk_abandon(d->ns);
	let_go(d);
	wk_faulty_kill(d->disk);
}

static directory new_directory(uint64_t seed) {
	directory d = {0};
	CHECK_EQ(wk_faulty_new(seed, &d.io), 0);
	d.disk = wk_faulty_of(d.io);
	open_it(&d);
	return d;
}

static void destroy(directory *d) {
	d->io->operations->destroy(d->io);
}

static void payload_of(int64_t sequence_id, char payload[RECORD_SIZE]) {
	int digits = snprintf(payload, RECORD_SIZE, "%lld", (long long)sequence_id);
	memset(payload + digits, '.', (size_t)(RECORD_SIZE - digits));
}

static void append(directory *d, int log) {
	char payload[RECORD_SIZE];
	payload_of(d->next[log], payload);
	wk_position at;
	wk_error error = {0};
	check_ok(wk_writer_append(d->writers[log], payload, sizeof payload, NULL, &at, &error), &error, "the append");
	CHECK_EQ(at.sequence_id, d->next[log]);
	d->next[log]++;
}

static void work(directory *d) {
	bool idle = false;
	wk_error error = {0};
	while (!idle)
		check_ok(wk_namespace_step(d->ns, &idle, &error), &error, "background work");
}

/* About so many journal files, the last of them under way. */
static void fill_files(directory *d, int files) {
	for (int i = 0; i < files; i++) {
		append(d, THIN);
		for (int k = 0; k < RECORDS_A_FILE; k++)
			append(d, LOG);
		work(d);
	}
}

static void truncate_to(directory *d, int log, int64_t first) {
	wk_position at;
	wk_error error = {0};
	check_ok(wk_log_find(d->logs[log], WK_FIND_SEQUENCE_ID, first, NULL, &at, &error), &error, "the record is found");
	check_ok(wk_log_truncate(d->logs[log], &at.dlsn, true, &error), &error, "truncation");
	d->first[log] = first;
}

static void reads_everything(const directory *d) {
	for (int i = 0; i < 2; i++) {
		wk_read_options options;
		wk_read_options_init(&options);
		wk_reader *reader = NULL;
		wk_error error = {0};
		check_ok(wk_reader_open(d->logs[i], &options, &reader, &error), &error, "the reader opens");
		int64_t expected = d->first[i];
		wk_batch *batch;
		wk_status status;
		while ((status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, &error)) == WK_OK) {
			size_t count;
			const wk_record *records = wk_batch_records(batch, &count);
			for (size_t k = 0; k < count; k++, expected++) {
				char payload[RECORD_SIZE];
				payload_of(expected, payload);
				CHECK_EQ(records[k].at.sequence_id, expected);
				CHECK_EQ(records[k].size, RECORD_SIZE);
				CHECK(memcmp(records[k].payload, payload, RECORD_SIZE) == 0);
			}
			wk_batch_release(batch);
		}
		if (status != WK_END)
			check_ok(status, &error, "reading to the end");
		CHECK_EQ(expected, d->next[i]);
		wk_reader_release(reader);
	}
}

static wk_recovery_report report_of(const directory *d) {
	wk_recovery_report report;
	wk_namespace_recovery(d->ns, &report);
	return report;
}

static uint32_t sealed_files(const directory *d) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < engine_of(d)->files_count; i++)
		count += engine_of(d)->files[i]->state == WK_FILE_SEALED && engine_of(d)->files[i]->end_offset > 0;
	return count;
}

static const char *index_path(const directory *d) {
	static char path[64];
	snprintf(path, sizeof path, "wal/index/%016llx.wki", (unsigned long long)engine_of(d)->superblock.index_generation);
	return path;
}

static bool write_index(directory *d) {
	wk_engine_lock(engine_of(d));
	bool written = wk_index_write(engine_of(d));
	wk_engine_unlock(engine_of(d));
	return written;
}

/* The same directory on another disk. */
static directory on(const directory *d, wk_io *io) {
	directory copy = *d;
	copy.io = io;
	copy.disk = wk_faulty_of(io);
	return copy;
}

/* ---- what is read ---- */

TEST(an_open_after_300_files_reads_no_footer_below_the_mark) {
	directory d = new_directory(1);
	fill_files(&d, 300);
	uint32_t sealed = sealed_files(&d);
	CHECK(sealed >= 290);
	close_it(&d);
	uint64_t reads = wk_faulty_calls(d.disk, WK_FAULT_READ);
	wk_namespace *ns = NULL;
	wk_open_options options = small_files();
	CHECK_EQ(wk_open_on(d.io, "wal", &options, &ns, NULL), WK_OK);
	reads = wk_faulty_calls(d.disk, WK_FAULT_READ) - reads;
	d.ns = ns;
	CHECK_EQ(report_of(&d).footers_read, 0);
	CHECK(report_of(&d).files_scanned <= 1);
	/* Superblock, index, the active file's pages, the catalogue (footer pages and entries): far from two a file. */
	CHECK(reads <= 40);
	wk_abandon(ns);
	wk_faulty_kill(d.disk);
	options.ignore_footers = true;
	reads = wk_faulty_calls(d.disk, WK_FAULT_READ);
	CHECK_EQ(wk_open_on(d.io, "wal", &options, &ns, NULL), WK_OK);
	CHECK(wk_faulty_calls(d.disk, WK_FAULT_READ) - reads >= sealed);
	wk_abandon(ns);
	wk_faulty_kill(d.disk);
	open_it(&d);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(an_open_after_a_kill_reads_only_the_footers_above_the_mark) {
	directory d = new_directory(2);
	fill_files(&d, 100);
	uint64_t mark = engine_of(&d)->index.mark;
	uint32_t above = 0;
	for (uint32_t i = 0; i < engine_of(&d)->files_count; i++)
		above += engine_of(&d)->files[i]->state == WK_FILE_SEALED && engine_of(&d)->files[i]->id >= mark;
	CHECK(mark > 60);
	CHECK(above > 0 && above <= 32);
	kill_it(&d);
	open_it(&d);
	CHECK(report_of(&d).footers_read <= above);
	CHECK(report_of(&d).footers_read + 2 >= above);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(the_mark_never_moves_back) {
	directory d = new_directory(3);
	uint64_t mark = 0, generation = 0;
	for (int i = 0; i < 6; i++) {
		fill_files(&d, 20);
		truncate_to(&d, LOG, d.next[LOG] - 5 * RECORDS_A_FILE);
		CHECK(engine_of(&d)->superblock.replay_epoch >= mark);
		CHECK(engine_of(&d)->superblock.index_generation >= generation);
		mark = engine_of(&d)->superblock.replay_epoch;
		generation = engine_of(&d)->superblock.index_generation;
		i % 2 == 0 ? close_it(&d) : kill_it(&d);
		open_it(&d);
		CHECK(engine_of(&d)->superblock.replay_epoch >= mark);
	}
	CHECK(mark > 0);
	close_it(&d);
	destroy(&d);
}

TEST(a_follower_uses_the_index) {
	directory d = new_directory(4);
	fill_files(&d, 60);
	close_it(&d);
	wk_open_options options = small_files();
	options.read_only = true;
	open_it_with(&d, &options);
	CHECK_EQ(report_of(&d).footers_read, 0);
	reads_everything(&d);
	close_it(&d);
	open_it(&d);
	append(&d, LOG);
	close_it(&d);
	destroy(&d);
}

/* ---- an index that cannot be used ---- */

static void falls_back_and_recovers(directory *d, uint32_t sealed) {
	open_it(d);
	CHECK(report_of(d).footers_read + 1 >= sealed);
	CHECK_EQ(engine_of(d)->index.mark, 0);
	reads_everything(d);
	fill_files(d, 2); /* the keeper has reason to write a new one */
	CHECK(engine_of(d)->index.mark > 0);
	close_it(d);
	open_it(d);
	CHECK_EQ(report_of(d).footers_read, 0);
	reads_everything(d);
}

TEST(a_damaged_index_is_not_believed_and_written_anew) {
	directory d = new_directory(5);
	fill_files(&d, 70);
	uint32_t sealed = sealed_files(&d);
	close_it(&d);
	open_it(&d);
	CHECK_EQ(report_of(&d).footers_read, 0);
	char path[64];
	strcpy(path, index_path(&d));
	close_it(&d);
	int64_t size = wk_faulty_file_size(d.disk, path);
	CHECK(size >= 4 * 4096);
	for (int64_t page = 0; page < size; page += 4096) {
		wk_io *image;
		CHECK_EQ(wk_faulty_image(d.disk, wk_faulty_trace_length(d.disk), 5, &image), 0);
		directory copy = on(&d, image);
		CHECK_EQ(wk_faulty_flip(copy.disk, path, (uint64_t)page + 50, 3), 0);
		falls_back_and_recovers(&copy, sealed);
		close_it(&copy);
		destroy(&copy);
	}
	destroy(&d);
}

TEST(without_the_index_file_footers_are_read) {
	directory d = new_directory(6);
	fill_files(&d, 40);
	uint32_t sealed = sealed_files(&d);
	char path[64];
	close_it(&d);
	open_it(&d);
	strcpy(path, index_path(&d));
	close_it(&d);
	CHECK_EQ(d.io->operations->unlink(d.io, path), 0);
	falls_back_and_recovers(&d, sealed);
	close_it(&d);
	destroy(&d);
}

TEST(an_index_that_cannot_be_read_is_no_reason_not_to_open) {
	directory d = new_directory(7);
	fill_files(&d, 40);
	close_it(&d);
	wk_faulty_fail(d.disk, WK_FAULT_READ, 2, EIO, false); /* behind lock page and superblock */
	open_it(&d);
	wk_faulty_heal(d.disk);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(an_open_that_ignores_footers_ignores_the_index_and_takes_it_out_of_the_superblock) {
	directory d = new_directory(8);
	fill_files(&d, 50);
	uint32_t sealed = sealed_files(&d);
	close_it(&d);
	wk_open_options options = small_files();
	options.ignore_footers = true;
	open_it_with(&d, &options);
	CHECK_EQ(report_of(&d).footers_read, 0);
	CHECK(report_of(&d).files_scanned >= sealed);
	CHECK_EQ(engine_of(&d)->superblock.index_generation, 0);
	reads_everything(&d);
	/* Dead ledgers and entries are left out of the footers that are written now: the old index would lead astray. */
	truncate_to(&d, LOG, d.next[LOG] / 2);
	kill_it(&d);
	open_it(&d);
	CHECK(report_of(&d).footers_read > 0);
	reads_everything(&d);
	fill_files(&d, 40);
	close_it(&d);
	open_it(&d);
	CHECK_EQ(report_of(&d).footers_read, 0);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(a_file_of_another_size_is_not_the_one_that_the_index_means) {
	directory d = new_directory(9);
	fill_files(&d, 40);
	close_it(&d);
	open_it(&d);
	engine_of(&d)->files[3]->footer.file_size += 4096;
	CHECK(write_index(&d));
	kill_it(&d);
	open_it(&d);
	CHECK_EQ(engine_of(&d)->index.mark, 0);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

/* ---- files that go and come ---- */

TEST(files_recycled_behind_the_index_are_not_missed) {
	directory d = new_directory(10);
	fill_files(&d, 60);
	CHECK(write_index(&d));
	uint64_t mark = engine_of(&d)->index.mark;
	truncate_to(&d, LOG, d.next[LOG] - 3);
	truncate_to(&d, THIN, d.next[THIN] - 3);
	uint64_t recycled = engine_of(&d)->counters.recycled_files;
	for (int i = 0; i < 30; i++) /* too few for another index */
		wk_namespace_step(d.ns, &(bool){false}, NULL);
	CHECK(engine_of(&d)->counters.recycled_files > recycled);
	CHECK_EQ(engine_of(&d)->index.mark, mark);
	kill_it(&d);
	open_it(&d);
	CHECK(engine_of(&d)->index.mark == mark);
	reads_everything(&d);
	fill_files(&d, 10);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

/* Thin entries are all that is left of most files: the mover takes them into an entry log. */
static void thin_out(directory *d) {
	truncate_to(d, LOG, d->next[LOG] - RECORDS_A_FILE);
	for (int i = 0; i < 40 && engine_of(d)->counters.compacted_bytes == 0; i++) {
		work(d);
		wk_faulty_advance(d->disk, 600000000);
		wk_namespace_step(d->ns, &(bool){false}, NULL);
	}
	CHECK(engine_of(d)->counters.compacted_bytes > 0);
}

TEST(entries_moved_behind_the_index_are_read_where_they_are) {
	directory d = new_directory(11);
	fill_files(&d, 25);
	CHECK(write_index(&d));
	thin_out(&d);
	kill_it(&d);
	open_it(&d);
	CHECK(engine_of(&d)->index.mark > 0);
	reads_everything(&d);
	work(&d);
	close_it(&d);
	open_it(&d);
	CHECK_EQ(report_of(&d).footers_read, 0); /* the entry log is named now */
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(entries_moved_twice_behind_the_index_are_read_where_they_are) {
	directory d = new_directory(12);
	for (int round = 0; round < 4; round++) {
		fill_files(&d, 25);
		CHECK(write_index(&d));
		thin_out(&d);
		kill_it(&d);
		open_it(&d);
		reads_everything(&d);
	}
	close_it(&d);
	destroy(&d);
}

static const wk_store_file *an_entry_log(const directory *d) {
	for (uint32_t i = 0; i < engine_of(d)->files_count; i++)
		if (engine_of(d)->files[i]->kind == WK_FILE_ENTRY_LOG)
			return engine_of(d)->files[i];
	return NULL;
}

TEST(an_entry_log_that_was_begun_before_the_index_and_finished_after_it_counts) {
	directory d = new_directory(17);
	wk_open_options slow = small_files();
	close_it(&d);
	slow.compact_rate = 1024; /* a minute passes between the copy and its end */
	open_it_with(&d, &slow);
	fill_files(&d, 25);
	truncate_to(&d, LOG, d.next[LOG] - 2);
	work(&d);
	wk_faulty_advance(d.disk, 600000000);
	work(&d);
	CHECK(engine_of(&d)->mover != NULL);
	fill_files(&d, 4);
	CHECK(write_index(&d));
	CHECK(engine_of(&d)->mover != NULL);
	wk_faulty_advance(d.disk, 200000000000);
	wk_namespace_step(d.ns, &(bool){false}, NULL);
	CHECK(an_entry_log(&d) != NULL);
	CHECK(an_entry_log(&d)->id < engine_of(&d)->index.mark);
	for (int i = 0; i < 10; i++)
		wk_namespace_step(d.ns, &(bool){false}, NULL); /* what was moved is recycled */
	kill_it(&d);
	open_it(&d);
	CHECK(engine_of(&d)->index.mark > 0);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(the_mark_stops_at_a_file_that_has_no_footer_yet) {
	directory d = new_directory(18);
	fill_files(&d, 5);
	for (int k = 0; k < 5 * RECORDS_A_FILE; k++)
		append(&d, LOG); /* and nobody seals */
	uint64_t first_full = 0;
	for (uint32_t i = engine_of(&d)->files_count; i-- > 0;)
		if (engine_of(&d)->files[i]->state == WK_FILE_FULL)
			first_full = engine_of(&d)->files[i]->id;
	CHECK(first_full > 0);
	CHECK(write_index(&d));
	CHECK_EQ(engine_of(&d)->index.mark, first_full);
	kill_it(&d);
	open_it(&d);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

/* ---- a power cut at every step ---- */

static void power_cuts_between(const directory *d, uint64_t from, uint64_t to) {
	CHECK(to > from);
	for (uint64_t at = from; at <= to; at++) {
		for (uint64_t seed = 1; seed <= 6; seed++) {
			wk_io *image;
			CHECK_EQ(wk_faulty_image(d->disk, at, seed, &image), 0);
			directory copy = on(d, image);
			open_it(&copy);
			CHECK(!engine_of(&copy)->index.wanted); /* what the superblock named was there, and whole */
			reads_everything(&copy);
			append(&copy, LOG);
			work(&copy);
			close_it(&copy);
			open_it(&copy);
			CHECK_EQ(report_of(&copy).footers_read, 0);
			reads_everything(&copy);
			close_it(&copy);
			destroy(&copy);
		}
	}
}

TEST(a_power_cut_while_an_index_is_written_leaves_one_that_can_be_used_or_none) {
	directory d = new_directory(13);
	fill_files(&d, 10);
	uint64_t from = wk_faulty_trace_length(d.disk);
	CHECK(write_index(&d)); /* the first */
	power_cuts_between(&d, from, wk_faulty_trace_length(d.disk));
	fill_files(&d, 5);
	truncate_to(&d, LOG, 6 * RECORDS_A_FILE);
	work(&d);
	from = wk_faulty_trace_length(d.disk);
	CHECK(write_index(&d)); /* in the place of another */
	power_cuts_between(&d, from, wk_faulty_trace_length(d.disk));
	kill_it(&d);
	from = wk_faulty_trace_length(d.disk);
	open_it(&d); /* sweeps what the kill left */
	power_cuts_between(&d, from, wk_faulty_trace_length(d.disk));
	close_it(&d);
	destroy(&d);
}

TEST(a_power_cut_while_files_are_moved_and_recycled_behind_the_index_loses_nothing) {
	directory d = new_directory(14);
	fill_files(&d, 12);
	CHECK(write_index(&d));
	truncate_to(&d, LOG, d.next[LOG] - 2);
	uint64_t from = wk_faulty_trace_length(d.disk);
	for (int i = 0; i < 4; i++) {
		work(&d);
		wk_faulty_advance(d.disk, 600000000);
	}
	uint64_t to = wk_faulty_trace_length(d.disk);
	CHECK(engine_of(&d)->counters.compacted_bytes > 0);
	CHECK(engine_of(&d)->counters.recycled_files > 0);
	CHECK(write_index(&d));
	power_cuts_between(&d, from, to);
	kill_it(&d);
	destroy(&d);
}

/* ---- a disk that fails ---- */

TEST(a_full_disk_is_no_reason_to_stop_and_the_index_is_written_later) {
	directory d = new_directory(15);
	fill_files(&d, 10);
	uint64_t mark = engine_of(&d)->index.mark;
	wk_faulty_fail(d.disk, WK_FAULT_WRITE, 0, ENOSPC, false);
	CHECK(!write_index(&d));
	wk_faulty_heal(d.disk);
	CHECK_EQ(engine_of(&d)->index.mark, mark);
	append(&d, LOG);
	CHECK(write_index(&d));
	CHECK(engine_of(&d)->index.mark > mark);
	close_it(&d);
	open_it(&d);
	CHECK_EQ(report_of(&d).footers_read, 0);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(a_failed_write_sync_or_rename_stops_the_journal) {
	static const uint32_t masks[] = {WK_FAULT_WRITE, WK_FAULT_SYNC, WK_FAULT_DIRECTORY, WK_FAULT_OPEN};
	for (size_t m = 0; m < sizeof masks / sizeof masks[0]; m++) {
		for (uint64_t call = 0; call < 2; call++) {
			directory d = new_directory(16 + m);
			fill_files(&d, 10);
			wk_faulty_fail(d.disk, masks[m], call, EIO, false);
			bool written = write_index(&d);
			wk_faulty_heal(d.disk);
			CHECK_EQ(written, !engine_of(&d)->failed);
			CHECK(masks[m] == WK_FAULT_OPEN || !written);
			if (!written) {
				wk_error error = {0};
				CHECK_EQ(wk_writer_append(d.writers[LOG], "x", 1, NULL, NULL, &error), WK_FAILED);
				CHECK(strstr(error.text, "writing the index") != NULL);
				reads_everything(&d);
			}
			wk_abandon(d.ns);
			let_go(&d);
			wk_faulty_crash(d.disk, m * 10 + call);
			open_it(&d);
			reads_everything(&d);
			close_it(&d);
			destroy(&d);
		}
	}
}

/* ---- states ---- */

/* As a writer of state records will: the record is in the active file, and durable. */
static void note_state(directory *d, int64_t ledger_id, uint32_t type, const char *data) {
	wk_engine *engine = engine_of(d);
	wk_footer_state state = {.ledger_id = ledger_id, .type = type, .size = (uint32_t)strlen(data)};
	memcpy(state.data, data, state.size);
	if (type == WK_BLOCK_DELETE) { /* the block that says so: the first */
		state.size = 8;
		state.data[0] = 1;
	}
	wk_store_file *file = engine->active;
	file->states = realloc(file->states, (file->states_count + 1) * sizeof *file->states);
	CHECK(file->states != NULL);
	file->states[file->states_count++] = state;
	file->states_capacity = file->states_count;
	CHECK_EQ(wk_ledger_state_apply(engine, &state), WK_OK);
}

static void check_states(const directory *d) {
	const wk_index_ledger *state = wk_ledger_state_find(engine_of(d), 700);
	CHECK(state != NULL);
	CHECK_EQ(state->bits, WK_LEDGER_FENCED | WK_LEDGER_HAS_KEY | WK_LEDGER_HAS_LAC);
	CHECK_EQ(state->key_size, 20);
	CHECK(memcmp(state->key, "the key of ledger 00", 20) == 0);
	CHECK_EQ(state->lac_size, 3); /* the later one, without the end of the longer one before */
	CHECK(memcmp(state->lac, "new\0", 4) == 0);
	CHECK(wk_ledger_state_find(engine_of(d), 701) == NULL); /* deleted */
}

TEST(states_outlive_the_journal_file_that_held_them) {
	directory d = new_directory(30);
	append(&d, LOG);
	note_state(&d, 700, WK_BLOCK_MASTER_KEY, "the key of ledger 00");
	note_state(&d, 700, WK_BLOCK_LAC, "an old one");
	note_state(&d, 701, WK_BLOCK_FENCE, "");
	uint64_t held_in = engine_of(&d)->active->id;
	fill_files(&d, 3);
	note_state(&d, 700, WK_BLOCK_LAC, "new");
	note_state(&d, 700, WK_BLOCK_FENCE, "");
	note_state(&d, 701, WK_BLOCK_DELETE, "");
	uint64_t last_held_in = engine_of(&d)->active->id;
	fill_files(&d, 3);
	check_states(&d);
	kill_it(&d);
	open_it(&d); /* from footers */
	CHECK(engine_of(&d)->index.mark <= held_in);
	check_states(&d);
	uint64_t from = wk_faulty_trace_length(d.disk);
	truncate_to(&d, LOG, d.next[LOG] - 1);
	truncate_to(&d, THIN, d.next[THIN] - 1);
	engine_of(&d)->index.retry_ns = UINT64_MAX; /* no index can be written */
	fill_files(&d, 3);
	const wk_store_file *file = wk_store_file_find(engine_of(&d), last_held_in);
	CHECK(file != NULL && wk_store_file_find(engine_of(&d), held_in) != NULL);
	CHECK_EQ(file->live_entries, 0);
	engine_of(&d)->index.retry_ns = 0;
	work(&d);
	CHECK(engine_of(&d)->index.mark > last_held_in);
	CHECK(wk_store_file_find(engine_of(&d), last_held_in) == NULL);
	uint64_t to = wk_faulty_trace_length(d.disk);
	kill_it(&d);
	open_it(&d); /* from the index */
	check_states(&d);
	close_it(&d);
	for (uint64_t at = from; at <= to; at++) {
		wk_io *image;
		CHECK_EQ(wk_faulty_image(d.disk, at, at % 3, &image), 0);
		wk_open_options options = small_files();
		directory copy = on(&d, image);
		CHECK_EQ(wk_open_on(image, "wal", &options, &copy.ns, NULL), WK_OK);
		check_states(&copy);
		wk_abandon(copy.ns);
		destroy(&copy);
	}
	destroy(&d);
}

int main(void) {
	RUN(an_open_after_300_files_reads_no_footer_below_the_mark);
	RUN(an_open_after_a_kill_reads_only_the_footers_above_the_mark);
	RUN(the_mark_never_moves_back);
	RUN(a_follower_uses_the_index);
	RUN(a_damaged_index_is_not_believed_and_written_anew);
	RUN(without_the_index_file_footers_are_read);
	RUN(an_index_that_cannot_be_read_is_no_reason_not_to_open);
	RUN(an_open_that_ignores_footers_ignores_the_index_and_takes_it_out_of_the_superblock);
	RUN(a_file_of_another_size_is_not_the_one_that_the_index_means);
	RUN(files_recycled_behind_the_index_are_not_missed);
	RUN(entries_moved_behind_the_index_are_read_where_they_are);
	RUN(entries_moved_twice_behind_the_index_are_read_where_they_are);
	RUN(an_entry_log_that_was_begun_before_the_index_and_finished_after_it_counts);
	RUN(the_mark_stops_at_a_file_that_has_no_footer_yet);
	RUN(a_power_cut_while_an_index_is_written_leaves_one_that_can_be_used_or_none);
	RUN(a_power_cut_while_files_are_moved_and_recycled_behind_the_index_loses_nothing);
	RUN(a_full_disk_is_no_reason_to_stop_and_the_index_is_written_later);
	RUN(a_failed_write_sync_or_rename_stops_the_journal);
	RUN(states_outlive_the_journal_file_that_held_them);
	return check_done();
}
