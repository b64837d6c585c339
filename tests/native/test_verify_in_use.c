/*
 * test_verify_in_use.c: what changes while wk_verify_directory reads, because somebody writes to the directory, is no
 * damage.
 */
#include "engine/manual.h"
#include "verified_directory.h"
#include <pthread.h>
#include <stdatomic.h>

typedef struct busy {
	_Atomic bool stop, started;
} busy;

static void *append_and_truncate(void *context) {
	busy *b = context;
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	while (!atomic_load(&b->stop)) {
		int64_t at = append_one(writer);
		wk_position before;
		wk_error error = {0};
		if (at % 40 != 39)
			continue;
		atomic_store(&b->started, true);
		check_ok(wk_log_find(log, WK_FIND_SEQUENCE_ID, at - 20, NULL, &before, &error), &error, "finding the place");
		check_ok(wk_log_truncate(log, &before.dlsn, false, &error), &error, "truncating");
	}
	close_all(ns, log, writer);
	return NULL;
}

TEST(a_directory_that_is_written_and_recycled_meanwhile_is_clean) {
	make();
	busy b = {false, false};
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, append_and_truncate, &b), 0);
	while (!atomic_load(&b.started))
		usleep(1000);
	for (int i = 0; i < 60; i++)
		verify(WK_OK);
	atomic_store(&b.stop, true);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(verify(WK_OK).torn_tail_bytes, 0);
	remove_tree(path);
}

/* Work that is done between two reads of a verify. */
typedef struct burst {
	uint64_t calls, at;
	int records;
	bool truncates;
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
} burst;

static void work_until_idle(wk_namespace *ns) {
	bool idle = false;
	wk_error error = {0};
	for (int i = 0; i < 50 && !idle; i++)
		check_ok(wk_namespace_step(ns, &idle, &error), &error, "background work");
}

static void truncate_to_last(burst *b) {
	wk_position at;
	wk_error error = {0};
	wk_writer_next(b->writer, &at);
	check_ok(wk_log_find(b->log, WK_FIND_SEQUENCE_ID, at.sequence_id - 1, NULL, &at, &error), &error, "finding it");
	check_ok(wk_log_truncate(b->log, &at.dlsn, true, &error), &error, "truncating");
	work_until_idle(b->ns);
}

static bool on_the_way(void *context, uint64_t done, uint64_t total) {
	burst *b = context;
	(void)done;
	(void)total;
	if (b->calls++ != b->at)
		return true;
	for (int i = 0; i < b->records; i++) {
		append_one(b->writer);
		if (i % 5 == 0)
			work_until_idle(b->ns);
	}
	work_until_idle(b->ns);
	if (b->truncates)
		truncate_to_last(b);
	return true;
}

static void open_for_bursts(burst *b) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.internal = WK_OPEN_MANUAL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &b->ns, &error), &error, "the directory opens");
	b->log = log_named(b->ns, "log");
	b->writer = writer_of(b->log);
}

/* Some files, the last with so many blocks, and behind it one that is prepared. */
static void fill_up_to(burst *b, size_t blocks) {
	truncate_to_last(b);
	for (int i = 0; i < 2 * BLOCKS_A_FILE; i++)
		append_one(b->writer);
	for (list_files(); count_blocks(files[files_count - 1]) != blocks; list_files())
		append_one(b->writer);
	work_until_idle(b->ns);
}

/* Whenever it happens: files that fill up, get footers, are let go or are used again while the others are read. */
TEST(whatever_is_written_between_two_reads_is_no_damage) {
	unsigned moments = 0;
	for (int i = 0; i < 2; i++) {
		make();
		burst b = {.records = BLOCKS_A_FILE + 3, .truncates = i == 1};
		open_for_bursts(&b);
		for (bool done = false; !done; b.at++, moments++) {
			wk_verify_report report;
			wk_error error = {0};
			fill_up_to(&b, BLOCKS_A_FILE - 1);
			b.calls = 0;
			wk_status status = wk_verify_directory(path, 0, on_the_way, &b, &report, &error);
			check_findings(&report);
			if (status != WK_OK)
				printf("%d records after %llu reads: %s\n", b.records, (unsigned long long)b.at, error.text);
			CHECK_EQ(status, WK_OK);
			done = b.calls <= b.at || b.at > 100;
		}
		close_all(b.ns, b.log, b.writer);
		verify(WK_OK);
		remove_tree(path);
	}
	CHECK(moments > 20);
}

int main(void) {
	RUN(a_directory_that_is_written_and_recycled_meanwhile_is_clean);
	RUN(whatever_is_written_between_two_reads_is_no_damage);
	return check_done();
}
