/*
 * test_readonly_repair_view.c: a damaged directory that is opened to be read shows what a repair would leave, as of then. Once
 * somebody writes it, that is neither what it was nor what it is: who reads is told, and gets no gap for what moved.
 */
#include "manual_directory.h"
#include "sim/faulty.h"
#include <stdlib.h>

enum { RECORDS = 30, DAMAGED = 3 };

static const char *const journal = "wal/journal/0000000000000001.wkj";

static wk_io *damaged_directory(void) {
	enum { FILE_BYTES = 64 * 1024 };
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	char text[32];
	for (int i = 0; i < RECORDS; i++) {
		snprintf(text, sizeof text, "record %d.", i);
		put(writer, text, WK_SYNC);
	}
	wk_abandon(ns);
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
	wk_faulty_kill(wk_faulty_of(io));
	uint8_t *bytes = malloc(FILE_BYTES);
	CHECK(bytes != NULL);
	int64_t size = wk_faulty_read_file(wk_faulty_of(io), journal, bytes, FILE_BYTES, 0);
	snprintf(text, sizeof text, "record %d.", DAMAGED);
	uint8_t *found = memmem(bytes, (size_t)size, text, strlen(text));
	CHECK(found != NULL);
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), journal, (uint64_t)(found - bytes), 1), 0);
	free(bytes);
	return io;
}

static wk_namespace *open_accepting(wk_io *io, bool read_only) {
	wk_namespace *ns = NULL;
	wk_error error = {0};
	wk_open_options options = manual_options(64 * 1024);
	options.read_only = read_only;
	options.on_damage = WK_ON_DAMAGE_SKIP;
	options.check_all = read_only; /* the damage is met at once */
	check_ok(wk_open_on(io, "wal", &options, &ns, &error), &error, "the directory opens");
	return ns;
}

/* The status of the first read that gives nothing; *records and *gaps of those before. */
static wk_status read_on(wk_reader *reader, size_t *records, size_t *gaps, wk_error *error) {
	wk_batch *batch;
	wk_status status;
	*records = *gaps = 0;
	while ((status = wk_reader_next(reader, 4, 1 << 20, 0, &batch, error)) == WK_OK) {
		size_t count;
		const wk_record *list = wk_batch_records(batch, &count);
		for (size_t i = 0; i < count; i++)
			*(list[i].kind == WK_RECORD_GAP ? gaps : records) += 1;
		wk_batch_release(batch);
	}
	return status;
}

static wk_reader *reader_of(wk_log *log, bool follow) {
	wk_read_options options;
	wk_reader *reader = NULL;
	wk_error error = {0};
	wk_read_options_init(&options);
	options.follow = follow;
	check_ok(wk_reader_open(log, &options, &reader, &error), &error, "the reader opens");
	return reader;
}

TEST(it_is_read_until_somebody_writes) {
	wk_io *io = damaged_directory();
	wk_namespace *view = open_accepting(io, true);
	wk_log *log = log_named(view, "log");
	wk_reader *all = reader_of(log, false), *begun = reader_of(log, false), *waits = reader_of(log, true);
	size_t records, gaps;
	wk_error error = {0};
	wk_batch *batch;
	CHECK_EQ(read_on(all, &records, &gaps, &error), WK_END);
	CHECK_EQ(records, RECORDS - 1);
	CHECK_EQ(gaps, 1);
	CHECK_EQ(wk_reader_next(begun, DAMAGED + 2, 1 << 20, 0, &batch, &error), WK_OK);
	wk_batch_release(batch);
	CHECK_EQ(read_on(waits, &records, &gaps, &error), WK_TIMEOUT);

	wk_namespace *ns = open_accepting(io, false); /* it is repaired, and goes on */
	wk_log *same = log_named(ns, "log");
	wk_writer *writer = writer_of(same);
	fill_files(io, ns, writer, 30);
	wk_position last = put(writer, "the last", WK_SYNC);
	CHECK_EQ(wk_log_truncate(same, &last.dlsn, true, &error), WK_OK);
	fill_files(io, ns, writer, 30); /* over the files that the view read */

	wk_reader *readers[] = {all, begun, waits};
	for (size_t i = 0; i < 3; i++) {
		CHECK_EQ(read_on(readers[i], &records, &gaps, &error), WK_LOCKED);
		CHECK_EQ(gaps, 0); /* records it may have, which it held already */
		CHECK(strstr(error.text, "was opened for writing since") != NULL);
		CHECK(strstr(error.text, "Open it again") != NULL);
		wk_reader_release(readers[i]);
	}
	wk_position at;
	CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, DAMAGED, NULL, &at, &error), WK_LOCKED);
	wk_log_release(log);
	CHECK_EQ(wk_close(view, UINT64_MAX, &error), WK_OK);

	view = open_accepting(io, true); /* as it says */
	log = log_named(view, "log");
	CHECK_EQ(count_records(log), count_records(same));
	wk_log_release(log);
	CHECK_EQ(wk_close(view, UINT64_MAX, &error), WK_OK);
	leave(io, ns, same, writer);
}

int main(void) {
	RUN(it_is_read_until_somebody_writes);
	return check_done();
}
