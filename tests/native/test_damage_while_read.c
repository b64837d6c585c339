/*
 * test_damage_while_read.c: a directory was whole when it was opened read-only with a policy that accepts loss, and is
 * damaged while it is read. Its readers are given a gap for what is damaged, and the rest as before.
 */
#include "check_status.h"
#include "engine/directory/directory.h"
#include "io/io.h"
#include "manual_options.h"
#include "sim/faulty.h"
#include "walkeeper/log.h"
#include <stdlib.h>

enum { LOGS = 2, RECORDS = 5, FILE_BYTES = 64 * 1024 };

static const char *const names[LOGS] = {"first", "second"};
static const char *const journal = "wal/journal/0000000000000001.wkj";

static wk_namespace *open_with(wk_io *io, bool read_only) {
	wk_open_options options = manual_options(FILE_BYTES);
	options.read_only = read_only;
	options.on_damage = read_only ? WK_ON_DAMAGE_SKIP : WK_ON_DAMAGE_STOP;
	wk_namespace *ns;
	CHECK_EQ(wk_open_on(io, "wal", &options, &ns, NULL), WK_OK);
	return ns;
}

static void make_directory(wk_io *io) {
	wk_namespace *ns = open_with(io, false);
	wk_log *logs[LOGS];
	wk_writer *writers[LOGS];
	for (size_t i = 0; i < LOGS; i++) {
		CHECK_EQ(wk_log_open(ns, names[i], strlen(names[i]), true, NULL, &logs[i], NULL), WK_OK);
		CHECK_EQ(wk_writer_open(logs[i], &writers[i], NULL), WK_OK);
	}
	wk_append_options options;
	wk_append_options_init(&options);
	for (int number = 0; number < RECORDS; number++)
		for (size_t i = 0; i < LOGS; i++) {
			char payload[32];
			wk_position at;
			int size = snprintf(payload, sizeof payload, "%s %d", names[i], number);
			CHECK_EQ(wk_writer_append(writers[i], payload, (size_t)size, &options, &at, NULL), WK_OK);
		}
	for (size_t i = 0; i < LOGS; i++) {
		CHECK_EQ(wk_writer_close(writers[i], UINT64_MAX, NULL), WK_OK);
		wk_log_release(logs[i]);
	}
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
}

/* A bit of the record with this payload. */
static void damage(wk_io *io, const char *payload) {
	uint8_t *bytes = malloc(FILE_BYTES);
	CHECK(bytes != NULL);
	int64_t size = wk_faulty_read_file(wk_faulty_of(io), journal, bytes, FILE_BYTES, 0);
	CHECK(size > 0);
	uint8_t *found = memmem(bytes, (size_t)size, payload, strlen(payload));
	CHECK(found != NULL);
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), journal, (uint64_t)(found - bytes), 1), 0);
	free(bytes);
}

/* How many records there are; of the gaps among them, which stand for one each, `lost` says. */
static size_t read_all(wk_log *log, size_t *lost) {
	wk_reader *reader;
	wk_batch *batch;
	wk_status status;
	size_t all = 0;
	*lost = 0;
	CHECK_EQ(wk_reader_open(log, NULL, &reader, NULL), WK_OK);
	while ((status = wk_reader_next(reader, 100, 1 << 20, 0, &batch, NULL)) == WK_OK) {
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		all += count;
		for (size_t i = 0; i < count; i++)
			*lost += records[i].kind == WK_RECORD_GAP;
		wk_batch_release(batch);
	}
	CHECK_EQ(status, WK_END);
	wk_reader_release(reader);
	return all;
}

static void check_what_is_read(bool with_page) {
	wk_io *io;
	wk_log *logs[LOGS];
	size_t lost;
	CHECK_EQ(wk_faulty_new(1, &io), 0);
	make_directory(io);
	if (!with_page)
		CHECK_EQ(io->operations->unlink(io, "wal/shared"), 0);
	wk_namespace *ns = open_with(io, true);
	for (size_t i = 0; i < LOGS; i++)
		CHECK_EQ(wk_log_open(ns, names[i], strlen(names[i]), false, NULL, &logs[i], NULL), WK_OK);
	damage(io, "first 2");
	for (int again = 0; again < 2; again++) {
		for (size_t i = 0; i < LOGS; i++) {
			CHECK_EQ(read_all(logs[i], &lost), RECORDS);
			CHECK_EQ(lost, i == 0);
		}
	}
	for (size_t i = 0; i < LOGS; i++)
		wk_log_release(logs[i]);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
}

TEST(a_gap_is_all_that_is_missing) {
	check_what_is_read(true);
}

TEST(the_same_without_a_shared_page_as_in_a_backup) {
	check_what_is_read(false);
}

int main(void) {
	RUN(a_gap_is_all_that_is_missing);
	RUN(the_same_without_a_shared_page_as_in_a_backup);
	return check_done();
}
