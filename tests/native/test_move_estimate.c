/*
 * test_move_estimate.c: how many bytes of a file are live is told from the average of its entries. Where those that are
 * left are far larger, the mover's passes are not: entry logs keep to the usual size.
 */
#include "engine/engine.h"
#include "engine/index/store_file.h"
#include "manual_directory.h"
#include "sim/faulty.h"
#include <errno.h>

enum { FILE_SIZE = 1 << 20, LARGE = 180 * 1000, LOGS = 8 };

static uint64_t file_size = FILE_SIZE;

static void eager(wk_open_options *options) {
	options->file_size_min = options->file_size_max = file_size;
	options->minor_interval_ns = options->major_interval_ns = 1000 * 1000 * 1000;
	options->compact_rate = (uint64_t)1 << 40;
}

typedef struct mixed { /* a log of small records, then large ones, and small ones until its file is full */
	wk_log *log;
	wk_position first_kept, last;
	int64_t kept;
} mixed;

/* What is kept: from the first large one on. */
static void fill_file(wk_namespace *ns, mixed *m, const char *name, int smalls, int larges, size_t size) {
	static char large[LARGE];
	m->log = log_named(ns, name);
	wk_writer *writer = writer_of(m->log);
	uint64_t file = ns->engine->active->id;
	for (int i = 0; i < smalls; i++)
		put(writer, "small", WK_SYNC);
	wk_position last = {0};
	for (int i = 0; i < larges; i++) {
		last = put_bytes(writer, large, size, -1, WK_SYNC);
		m->first_kept = i == 0 ? last : m->first_kept;
	}
	while (ns->engine->active->id == file)
		last = put(writer, "small", WK_SYNC);
	m->last = last;
	m->kept = last.sequence_id + 1 - m->first_kept.sequence_id;
	wk_writer_close(writer, UINT64_MAX, NULL);
}

static void truncate_log(mixed *m) {
	wk_error error = {0};
	check_ok(wk_log_truncate(m->log, &m->first_kept.dlsn, false, &error), &error, "the truncation");
}

static int count_files(const wk_engine *engine, uint32_t kind, uint64_t *largest) {
	int count = 0;
	for (uint32_t i = 0; i < engine->files_count; i++)
		if (engine->files[i]->kind == kind) {
			*largest = engine->files[i]->size > *largest ? engine->files[i]->size : *largest;
			count++;
		}
	return count;
}

static void check_kept(mixed *logs, int count) {
	for (int k = 0; k < count; k++) {
		CHECK_EQ(count_records(logs[k].log), logs[k].kept);
		wk_log_release(logs[k].log);
	}
}

TEST(an_entry_log_keeps_to_the_usual_size) {
	mixed logs[LOGS];
	file_size = FILE_SIZE;
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, eager);
	for (int k = 0; k < LOGS; k++) {
		char name[] = {(char)('a' + k), 0};
		fill_file(ns, &logs[k], name, 150, 2, LARGE);
		wait_and_work(io, ns, 1);
	}
	for (int k = 0; k < LOGS; k++)
		truncate_log(&logs[k]);
	for (int i = 0; i < 60; i++)
		wait_and_work(io, ns, 1000);
	uint64_t largest = 0, ignored = 0;
	int entry_logs = count_files(ns->engine, WK_FILE_ENTRY_LOG, &largest);
	printf("%d entry logs, of %llu bytes at most\n", entry_logs, (unsigned long long)largest);
	CHECK(entry_logs > 1);
	CHECK(largest <= FILE_SIZE + LARGE + 64 * 1024);
	CHECK(count_files(ns->engine, WK_FILE_JOURNAL, &ignored) <= 4); /* what a pass left, another copied */
	check_kept(logs, LOGS);
	close_all(ns, NULL, NULL);
	io->operations->destroy(io);
}

TEST(a_file_that_is_larger_than_the_usual_is_compacted) {
	mixed logs[LOGS];
	file_size = FILE_SIZE;
	wk_io *io = disk_of(2);
	wk_namespace *ns = open_with(io, eager);
	for (int k = 0; k < LOGS; k++) {
		char name[] = {(char)('a' + k), 0};
		fill_file(ns, &logs[k], name, 150, 2, LARGE);
		wk_log_release(logs[k].log);
	}
	close_all(ns, NULL, NULL);
	file_size = FILE_SIZE / 16;
	ns = open_with(io, eager);
	uint64_t ignored = 0;
	int files = count_files(ns->engine, WK_FILE_JOURNAL, &ignored);
	for (int i = 0; i < 60; i++)
		wait_and_work(io, ns, 1000);
	CHECK(count_files(ns->engine, WK_FILE_JOURNAL, &ignored) < files / 2); /* of padding, above all */
	close_all(ns, NULL, NULL);
	io->operations->destroy(io);
}

/* ---- on a full disk, where the output is the reserve, an eighth of a file ---- */

/* Appends until the disk, of which no file gets a byte more, refuses them. */
static void fill_disk(wk_io *io, wk_namespace *ns) {
	static char large[LARGE];
	wk_faulty_set_capacity(wk_faulty_of(io), 1);
	wk_log *filler = log_named(ns, "filler");
	wk_writer *writer = writer_of(filler);
	wk_status status = WK_OK;
	for (int i = 0; i < 100 && status == WK_OK; i++) {
		status = wk_writer_append(writer, large, sizeof large, NULL, NULL, NULL);
		wait_and_work(io, ns, 1);
	}
	CHECK_EQ(status, WK_NO_SPACE);
	wk_writer_close(writer, UINT64_MAX, NULL);
	wk_log_release(filler);
}

static void let_the_mover_work(wk_io *io, wk_namespace *ns) {
	for (int i = 0; i < 20; i++)
		wait_and_work(io, ns, 1000);
}

TEST(files_that_do_not_fit_the_reserve_do_not_keep_back_one_that_does) {
	enum { MIXED = 3 };
	mixed logs[MIXED + 1];
	file_size = FILE_SIZE;
	wk_io *io = disk_of(3);
	wk_namespace *ns = open_with(io, eager);
	uint64_t last = 0;
	for (int k = 0; k <= MIXED; k++) {
		char name[] = {(char)('a' + k), 0};
		last = ns->engine->active->id;
		fill_file(ns, &logs[k], name, k < MIXED ? 155 : 0, k < MIXED ? 2 : 5, LARGE);
		wait_and_work(io, ns, 1);
	}
	fill_disk(io, ns);
	for (int k = 0; k < MIXED; k++)
		truncate_log(&logs[k]);
	let_the_mover_work(io, ns);
	CHECK_EQ(ns->engine->counters.compacted_bytes, 0);
	logs[MIXED].first_kept = logs[MIXED].last; /* the large ones go */
	logs[MIXED].kept = 1;
	truncate_log(&logs[MIXED]);
	let_the_mover_work(io, ns);
	CHECK(wk_store_file_find(ns->engine, last) == NULL);
	check_kept(logs, MIXED + 1);
	close_all(ns, NULL, NULL);
	io->operations->destroy(io);
}

TEST(what_does_not_fit_the_reserve_together_is_moved_by_itself) {
	enum { MIXED = 3 };
	mixed logs[MIXED];
	file_size = FILE_SIZE;
	wk_io *io = disk_of(4);
	wk_namespace *ns = open_with(io, eager);
	for (int k = 0; k < MIXED; k++) {
		char name[] = {(char)('a' + k), 0};
		fill_file(ns, &logs[k], name, 230, 1, 60 * 1000);
		wait_and_work(io, ns, 1);
	}
	fill_disk(io, ns);
	for (int k = 0; k < MIXED; k++)
		truncate_log(&logs[k]);
	CHECK_EQ(ns->engine->counters.compacted_bytes, 0);
	let_the_mover_work(io, ns);
	CHECK(ns->engine->counters.compacted_bytes > 60 * 1000);
	check_kept(logs, MIXED);
	close_all(ns, NULL, NULL);
	io->operations->destroy(io);
}

/* Somebody else's file took the space, and went again. */
TEST(a_pass_that_was_refused_space_once_is_tried_again) {
	mixed m;
	file_size = FILE_SIZE;
	wk_io *io = disk_of(5);
	wk_namespace *ns = open_with(io, eager);
	uint64_t file = ns->engine->active->id;
	fill_file(ns, &m, "a", 0, 5, LARGE);
	wait_and_work(io, ns, 1);
	fill_disk(io, ns);
	m.first_kept = m.last;
	m.kept = 1;
	truncate_log(&m);
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_WRITE, 0, ENOSPC, false);
	wait_and_work(io, ns, 1);
	let_the_mover_work(io, ns);
	CHECK(wk_store_file_find(ns->engine, file) == NULL);
	check_kept(&m, 1);
	close_all(ns, NULL, NULL);
	io->operations->destroy(io);
}

int main(void) {
	RUN(an_entry_log_keeps_to_the_usual_size);
	RUN(a_file_that_is_larger_than_the_usual_is_compacted);
	RUN(files_that_do_not_fit_the_reserve_do_not_keep_back_one_that_does);
	RUN(what_does_not_fit_the_reserve_together_is_moved_by_itself);
	RUN(a_pass_that_was_refused_space_once_is_tried_again);
	return check_done();
}
