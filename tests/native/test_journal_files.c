/*
 * test_journal_files.c: the journal's files as they fill up: room for what is accepted, zeros, footers; storage rules
 * 15, 16, 17 and 18 (docs/storage-rules.md).
 */
#include "engine/journal/journal.h"
#include "engine/journal/journal_space.h"
#include "engine/manual.h"
#include "manual_directory.h"
#include "sim/faulty.h"
#include <errno.h>
#include <pthread.h>

enum { LARGEST_RECORD = WK_RECORD_SIZE_MAX - WK_RECORD_HEADER_SIZE };

/* ---- room ---- */

TEST(rule_16_a_record_larger_than_a_file_gets_a_file_of_its_own) {
	static char large[900 * 1024];
	wk_io *io = disk_of(16);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	memset(large, 'x', sizeof large - 1);
	put(writer, "small", WK_SYNC);
	put(writer, large, WK_SYNC);
	put(writer, "small", WK_SYNC);
	CHECK_EQ(count_records(log), 3);
	close_all(ns, log, writer);
	ns = open_with(io, NULL);
	log = log_named(ns, "log");
	CHECK_EQ(count_records(log), 3);
	leave(io, ns, log, NULL);
}

TEST(rule_17_written_zeros_are_counted) {
	wk_io *io = disk_of(17);
	wk_namespace *ns = open_with(io, NULL);
	work(ns);
	wk_stats stats = stats_of(ns);
	CHECK(stats.prepared_files > 0);
	CHECK(stats.written_bytes >= 64 * 1024 * stats.prepared_files);
	leave(io, ns, NULL, NULL);
}

/* Appends of `size` bytes, each a block of its own, until `files` more were begun. How many zeros were written meanwhile. */
static uint64_t zeros_for(wk_namespace *ns, wk_writer *writer, size_t size, uint64_t files) {
	static char payload[400 * 1024];
	memset(payload, 'x', sizeof payload);
	uint64_t before = ns->engine->zero_filled_bytes, last = ns->engine->active->id;
	while (files > 0) {
		payload[size] = 0;
		put(writer, payload, WK_SYNC);
		payload[size] = 'x';
		work(ns);
		files -= ns->engine->active->id != last;
		last = ns->engine->active->id;
	}
	return ns->engine->zero_filled_bytes - before;
}

enum { MEBIBYTE = 1 << 20 };

static void files_of_a_mebibyte(wk_open_options *options) {
	options->file_size_min = options->file_size_max = MEBIBYTE;
}

TEST(rule_17_space_for_small_blocks_is_written_and_that_for_large_ones_only_allocated) {
	wk_io *io = disk_of(170);
	wk_namespace *ns = open_with(io, files_of_a_mebibyte);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	CHECK(zeros_for(ns, writer, 1000, 6) >= 5 * MEBIBYTE);
	zeros_for(ns, writer, 300 * 1024, 3); /* the files of small blocks go, and what was prepared for them */
	CHECK_EQ(zeros_for(ns, writer, 300 * 1024, 6), 0);
	zeros_for(ns, writer, 1000, 3);
	CHECK(zeros_for(ns, writer, 1000, 6) >= 5 * MEBIBYTE);
	leave(io, ns, log, writer);
}

/* In a file whose space was only allocated, as those before it had large blocks. */
static wk_writer *writer_in_allocated_space(wk_namespace *ns, wk_log *log) {
	wk_writer *writer = writer_of(log);
	zeros_for(ns, writer, 300 * 1024, 6);
	CHECK(ns->engine->active->written <= ns->engine->offset);
	return writer;
}

static uint64_t zeros_with(wk_namespace *ns, wk_writer *writer, int blocks, const char *text) {
	uint64_t before = ns->engine->zero_filled_bytes;
	for (int i = 0; i < blocks; i++)
		put(writer, text, WK_SYNC);
	return ns->engine->zero_filled_bytes - before;
}

TEST(rule_17_small_blocks_in_space_that_was_only_allocated_bring_zeros_along) {
	static char large[100 * 1024];
	memset(large, 'x', sizeof large - 1);
	wk_io *io = disk_of(171);
	wk_namespace *ns = open_with(io, files_of_a_mebibyte);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_in_allocated_space(ns, log);
	CHECK_EQ(zeros_with(ns, writer, 7, "small"), 0); /* there may be only a few of them */
	CHECK_EQ(zeros_with(ns, writer, 1, "small"), 64 * 1024);
	CHECK_EQ(ns->engine->active->written, ns->engine->offset + 64 * 1024);
	CHECK_EQ(zeros_with(ns, writer, 16, "small"), 0);
	CHECK_EQ(zeros_with(ns, writer, 1, "small"), 128 * 1024);
	CHECK_EQ(zeros_with(ns, writer, 2, large), 0);
	CHECK_EQ(zeros_with(ns, writer, 7, "small"), 0);
	size_t records = count_records(log);
	close_all(ns, log, writer);
	ns = open_with(io, files_of_a_mebibyte);
	log = log_named(ns, "log");
	CHECK_EQ(count_records(log), records);
	leave(io, ns, log, NULL);
}

/* The next block's place is among the zeros. */
TEST(rule_17_no_block_goes_out_while_zeros_are_being_written_to_its_place) {
	wk_io *io = disk_of(172);
	wk_namespace *ns = open_with(io, files_of_a_mebibyte);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_in_allocated_space(ns, log);
	zeros_with(ns, writer, 7, "small");
	wk_engine *engine = ns->engine;
	uint64_t ticket;
	check_ok(wk_writer_submit(writer, "first", 5, NULL, NULL, &ticket, NULL), NULL, "a record is accepted");
	wk_engine_lock(engine);
	CHECK(wk_journal_can_seal(engine, wk_engine_now(engine)));
	wk_block *block = wk_journal_seal(engine);
	CHECK_EQ(block->zeros, 64 * 1024);
	wk_engine_unlock(engine);
	check_ok(wk_writer_submit(writer, "second", 6, NULL, NULL, &ticket, NULL), NULL, "a record is accepted");
	wk_engine_lock(engine);
	CHECK(!wk_journal_can_seal(engine, wk_engine_now(engine)));
	wk_journal_write(engine, block);
	CHECK(wk_journal_can_seal(engine, wk_engine_now(engine)));
	wk_engine_unlock(engine);
	work(ns);
	size_t records = count_records(log);
	close_all(ns, log, writer);
	ns = open_with(io, files_of_a_mebibyte);
	log = log_named(ns, "log");
	CHECK_EQ(count_records(log), records);
	leave(io, ns, log, NULL);
}

/* What the keeper wrote is known, and so is what was written before a file was recycled. */
TEST(rule_17_no_space_is_written_twice) {
	wk_io *io = disk_of(173);
	wk_namespace *ns = open_with(io, files_of_a_mebibyte);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	uint64_t zeros = zeros_for(ns, writer, 1000, 6);
	CHECK(ns->engine->next != NULL && ns->engine->prepared.count == 1);
	CHECK_EQ(zeros, 7 * MEBIBYTE + ns->engine->prepared.files[0].size); /* files, the next one, and the reserve */
	for (int i = 0; i < 4; i++) { /* those are recycled, and are what comes next */
		wk_position next;
		wk_writer_next(writer, &next);
		CHECK_EQ(wk_log_truncate(log, &next.dlsn, true, NULL), WK_OK);
		work(ns);
		CHECK_EQ(zeros_for(ns, writer, 1000, 1), 0);
	}
	leave(io, ns, log, writer);
}

static void large_files(wk_open_options *options) {
	options->file_size_min = options->file_size_max = 16 * MEBIBYTE;
	options->block_size_max = 2 * MEBIBYTE;
}

static void small_full_blocks(wk_open_options *options) {
	options->file_size_min = options->file_size_max = 4 * MEBIBYTE;
	options->block_size_max = 16 * 1024;
}

/* There is no room for enough of them in the buffer, and each would keep the next block waiting. */
TEST(rule_17_small_blocks_that_are_full_bring_no_zeros) {
	static char text[1000];
	memset(text, 'x', sizeof text - 1);
	wk_io *io = disk_of(174);
	wk_namespace *ns = open_with(io, small_full_blocks);
	wk_log *log = log_named(ns, "log");
	work(ns);
	close_all(ns, log, writer_of(log));
	ns = open_with(io, small_full_blocks); /* what there is was written, but nobody knows */
	log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	uint64_t before = ns->engine->zero_filled_bytes;
	for (int i = 0; i < 30 * 16; i++)
		put(writer, text, WK_DEFERRED);
	CHECK(ns->engine->offset > 20 * 16 * 1024);
	CHECK_EQ(ns->engine->active->written, ns->engine->offset);
	CHECK_EQ(ns->engine->zero_filled_bytes, before);
	leave(io, ns, log, writer);
}

/* 64 KiB, 128 KiB and so on, and then half a mebibyte each time. */
TEST(rule_17_zeros_come_in_bounded_pieces) {
	wk_io *io = disk_of(175);
	wk_namespace *ns = open_with(io, large_files);
	wk_log *log = log_named(ns, "log");
	work(ns);
	close_all(ns, log, writer_of(log));
	ns = open_with(io, large_files);
	log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	uint64_t last = ns->engine->zero_filled_bytes, largest = 0;
	for (int i = 0; i < 1000; i++) {
		put(writer, "small", WK_SYNC);
		uint64_t zeros = ns->engine->zero_filled_bytes - last;
		largest = zeros > largest ? zeros : largest;
		last += zeros;
	}
	CHECK_EQ(largest, 512 * 1024);
	leave(io, ns, log, writer);
}

TEST(rule_17_a_slow_disk_gets_smaller_pieces) {
	uint32_t piece = 64 * 1024;
	CHECK_EQ(wk_journal_piece_next(piece, 150000), piece);
	CHECK_EQ(piece = wk_journal_piece_next(piece, 80000), 128 * 1024);
	CHECK_EQ(wk_journal_piece_next(piece, 100000), piece);
	CHECK_EQ(piece = wk_journal_piece_next(piece, 0), 256 * 1024);
	CHECK_EQ(wk_journal_piece_next(piece, 0), piece);
	CHECK_EQ(wk_journal_piece_next(piece, 200000), piece);
	CHECK_EQ(piece = wk_journal_piece_next(piece, 200001), 128 * 1024);
	CHECK_EQ(piece = wk_journal_piece_next(piece, UINT64_MAX), 64 * 1024);
	CHECK_EQ(wk_journal_piece_next(piece, UINT64_MAX), piece);
}

static struct wk_io_operations counted;
static const struct wk_io_operations *uncounted;
static _Atomic uint64_t largest_zeros;

static int64_t pwrite_counted(wk_io *io, wk_file *file, const void *bytes, size_t size, uint64_t offset,
                              uint32_t flags) {
	const uint8_t *first = bytes;
	if (size > WK_BLOCK_ALIGNMENT && first[0] == 0 && memcmp(first, first + 1, size - 1) == 0) {
		largest_zeros = size > largest_zeros ? size : largest_zeros;
		nap_ms(1);
	}
	return uncounted->pwrite(io, file, bytes, size, offset, flags);
}

static uint64_t zeros_of(wk_namespace *ns) {
	return __atomic_load_n(&ns->engine->zero_filled_bytes, __ATOMIC_RELAXED);
}

/* And the keeper has come to rest: the reserve is there, and the file that was taken was made anew, if one was wanted. */
static void fill_a_file(wk_namespace *ns, wk_writer *writer) {
	for (uint64_t first = ns->engine->active->id; ns->engine->active->id == first;)
		put(writer, "small", WK_SYNC);
	for (uint64_t before = UINT64_MAX, now; (now = zeros_of(ns)) != before || stats_of(ns).prepared_files < 2;) {
		before = now;
		nap_ms(100);
	}
}

/* Whoever appends meanwhile waits for a small piece of it at most. */
TEST(rule_17_the_next_file_is_written_little_by_little_while_there_is_time) {
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	uncounted = io->operations;
	counted = *uncounted;
	counted.pwrite = pwrite_counted;
	io->operations = &counted;
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = MEBIBYTE;
	char path[64];
	strcpy(path, temporary());
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the directory opens");
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	fill_a_file(ns, writer);
	largest_zeros = 0; /* what the open made was urgent */
	do
		fill_a_file(ns, writer);
	while (largest_zeros == 0);
	CHECK_EQ(largest_zeros, 64 * 1024);
	close_all(ns, log, writer);
	remove_tree(path);
	io->operations->destroy(io);
}

/* While one append learns that the disk is full, another comes. A real directory, with a disk that says so. */
static struct wk_io_operations watched;
static const struct wk_io_operations *plain;
static bool is_full;
static wk_writer *company; /* who comes; NULL: nobody, or it was here */
static wk_status company_status;

static int open_with_company(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	static uint8_t payload[LARGEST_RECORD];
	if (!is_full || (flags & WK_IO_CREATE) == 0)
		return plain->open(io, path, flags, file);
	wk_writer *writer = company;
	company = NULL;
	if (writer != NULL) {
		wk_append_options options;
		wk_append_options_init(&options);
		options.durability = WK_DEFERRED;
		uint64_t ticket;
		company_status = wk_writer_submit(writer, payload, sizeof payload, &options, NULL, &ticket, NULL);
	}
	return -ENOSPC;
}

TEST(rule_15_what_comes_while_the_disk_turns_out_to_be_full_fits_too) {
	static uint8_t payload[LARGEST_RECORD];
	char path[64];
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	plain = io->operations;
	watched = *plain;
	watched.open = open_with_company;
	io->operations = &watched;
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.file_size_min = options.file_size_max = 64 * 1024;
	strcpy(path, temporary());
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the directory opens");
	wk_log *log = log_named(ns, "log"), *other = log_named(ns, "other");
	wk_writer *writer = writer_of(log);
	check_ok(wk_writer_append(writer, payload, sizeof payload, NULL, NULL, &error), &error, "the first append");
	company = writer_of(other);
	wk_writer *comes = company;
	is_full = true;
	check_ok(wk_writer_append(writer, payload, sizeof payload, NULL, NULL, &error), &error, "the append");
	CHECK(company == NULL);
	CHECK_EQ(company_status, WK_OK);
	check_ok(wk_writer_flush(comes, UINT64_MAX, NULL, &error), &error, "its company becomes durable");
	CHECK_EQ(wk_writer_append(writer, "x", 1, NULL, NULL, &error), WK_NO_SPACE);
	check_ok(wk_writer_close(comes, UINT64_MAX, &error), &error, "the writer closes");
	wk_log_release(other);
	check_ok(wk_log_delete(ns, "other", 5, &error), &error, "deleting on a full disk");
	is_full = false;
	close_all(ns, log, writer);
	remove_tree(path);
	io->operations->destroy(io);
}

/* ---- footers ---- */

/* Files that an open after a kill has to scan: the active one, and those that lack their footer. */
static uint64_t scanned_after_a_kill(wk_io *io, const char *path, const wk_open_options *options) {
	wk_namespace *ns = NULL;
	wk_error error = {0};
	wk_recovery_report report;
	check_ok(wk_open_on(io, path, options, &ns, &error), &error, "the directory opens");
	wk_namespace_recovery(ns, &report);
	wk_abandon(ns);
	return report.files_scanned;
}

/* Nobody but who appends does anything. */
TEST(rule_18_at_most_one_full_file_lacks_its_footer) {
	wk_open_options options;
	for (uint32_t k = 1; k <= 8; k += 7) {
		wk_io *io = disk_of(18);
		wk_open_options_init(&options);
		options.internal = WK_OPEN_MANUAL;
		options.file_size_min = options.file_size_max = 64 * 1024;
		options.sync_method = k == 1 ? WK_SYNC_DSYNC : WK_SYNC_WRITE_THEN_SYNC;
		options.blocks_in_flight = k;
		wk_namespace *ns = NULL;
		CHECK_EQ(wk_open_on(io, "wal", &options, &ns, NULL), WK_OK);
		wk_log *log = log_named(ns, "log");
		wk_writer *writer = writer_of(log);
		for (int i = 0; i < 100; i++) {
			char payload[RECORD_SIZE] = {0};
			uint64_t ticket;
			CHECK_EQ(wk_writer_submit(writer, payload, sizeof payload, NULL, NULL, &ticket, NULL), WK_OK);
			if (i % 3 == 0)
				CHECK_EQ(wk_namespace_wait(ns, ticket, UINT64_MAX, NULL), WK_OK);
		}
		CHECK(stats_of(ns).journal_files > 4);
		wk_abandon(ns);
		wk_writer_close(writer, 0, NULL);
		wk_log_release(log);
		wk_faulty_kill(wk_faulty_of(io));
		CHECK(scanned_after_a_kill(io, "wal", &options) <= 2);
		io->operations->destroy(io);
	}
}

typedef struct appender {
	wk_namespace *ns;
	wk_writer *writer;
	uint32_t durability;
} appender;

static void *append_200(void *context) {
	static const char payload[16 * 1024];
	appender *a = context;
	wk_append_options options;
	wk_append_options_init(&options);
	options.durability = a->durability;
	uint64_t ticket = 0;
	for (int i = 0; i < 200; i++)
		CHECK_EQ(wk_writer_submit(a->writer, payload, sizeof payload, &options, NULL, &ticket, NULL), WK_OK);
	if (a->durability == WK_SYNC)
		CHECK_EQ(wk_namespace_wait(a->ns, ticket, UINT64_MAX, NULL), WK_OK);
	return NULL;
}

/* Files of 64 KiB, full faster than the keeper can look. */
TEST(rule_18_holds_for_writers_that_are_faster_than_the_keeper) {
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	for (uint32_t round = 0; round < 4; round++) {
		char path[64];
		strcpy(path, temporary());
		wk_open_options options;
		wk_open_options_init(&options);
		options.file_size_min = options.file_size_max = 64 * 1024;
		options.sync_method = round % 2 == 0 ? WK_SYNC_DSYNC : WK_SYNC_WRITE_THEN_SYNC;
		options.blocks_in_flight = 8;
		wk_namespace *ns = NULL;
		wk_error error = {0};
		check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the directory opens");
		wk_log *log = log_named(ns, "log");
		appender a = {ns, writer_of(log), round < 2 ? WK_SYNC : WK_DEFERRED};
		pthread_t threads[2];
		for (int i = 0; i < 2; i++)
			CHECK_EQ(pthread_create(&threads[i], NULL, append_200, &a), 0);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(pthread_join(threads[i], NULL), 0);
		wk_abandon(ns);
		wk_writer_close(a.writer, 0, NULL);
		wk_log_release(log);
		options.internal = WK_OPEN_MANUAL;
		CHECK(scanned_after_a_kill(io, path, &options) <= 2);
		remove_tree(path);
	}
	io->operations->destroy(io);
}

int main(void) {
	RUN(rule_15_what_comes_while_the_disk_turns_out_to_be_full_fits_too);
	RUN(rule_16_a_record_larger_than_a_file_gets_a_file_of_its_own);
	RUN(rule_17_written_zeros_are_counted);
	RUN(rule_17_space_for_small_blocks_is_written_and_that_for_large_ones_only_allocated);
	RUN(rule_17_small_blocks_in_space_that_was_only_allocated_bring_zeros_along);
	RUN(rule_17_no_block_goes_out_while_zeros_are_being_written_to_its_place);
	RUN(rule_17_no_space_is_written_twice);
	RUN(rule_17_small_blocks_that_are_full_bring_no_zeros);
	RUN(rule_17_zeros_come_in_bounded_pieces);
	RUN(rule_17_a_slow_disk_gets_smaller_pieces);
	RUN(rule_17_the_next_file_is_written_little_by_little_while_there_is_time);
	RUN(rule_18_at_most_one_full_file_lacks_its_footer);
	RUN(rule_18_holds_for_writers_that_are_faster_than_the_keeper);
	return check_done();
}
