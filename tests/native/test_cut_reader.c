/* test_cut_reader.c: a reader in the middle of an entry is given nothing of what was truncated, or deleted, meanwhile. */
#include "small_directory.h"

static wk_reader *reader_at_the_first(wk_log *log) {
	wk_reader *reader = NULL;
	wk_batch *batch;
	size_t count;
	CHECK_EQ(wk_reader_open(log, NULL, &reader, NULL), WK_OK);
	CHECK_EQ(wk_reader_next(reader, 1, 1 << 20, 0, &batch, NULL), WK_OK);
	wk_batch_records(batch, &count);
	CHECK_EQ(count, 1);
	wk_batch_release(batch);
	return reader;
}

/* Ten records in one entry, and one in another behind it. */
static wk_position two_entries(wk_writer *writer) {
	static const uint32_t sizes[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	wk_append_options options;
	wk_append_options_init(&options);
	options.atomic = true;
	wk_position first, last;
	uint64_t ticket;
	CHECK_EQ(wk_writer_append_many(writer, "0123456789", sizes, 10, NULL, &options, true, &first, &last, &ticket, NULL),
	         WK_OK);
	CHECK_EQ(wk_writer_append(writer, "x", 1, NULL, &last, NULL), WK_OK);
	CHECK(last.dlsn.entry_id > first.dlsn.entry_id);
	return last;
}

TEST(truncated_records_of_an_entry_that_a_reader_has_open_are_gone) {
	const char *path = temporary();
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	wk_position last = two_entries(writer);
	wk_reader *reader = reader_at_the_first(log);
	wk_error error = {0};
	check_ok(wk_log_truncate(log, &last.dlsn, false, &error), &error, "the truncation");
	wk_batch *batch;
	CHECK_EQ(wk_reader_next(reader, 1, 1 << 20, 0, &batch, &error), WK_TRUNCATED);
	wk_reader_release(reader);
	close_all(ns, log, writer);
	remove_tree(path);
}

TEST(records_of_a_deleted_log_are_gone_for_a_reader_that_has_their_entry_open) {
	const char *path = temporary();
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	two_entries(writer);
	wk_reader *reader = reader_at_the_first(log);
	wk_error error = {0};
	check_ok(wk_log_delete(ns, "log", 3, &error), &error, "the delete");
	wk_batch *batch;
	CHECK_EQ(wk_reader_next(reader, 1, 1 << 20, 0, &batch, &error), WK_DELETED);
	wk_reader_release(reader);
	close_all(ns, log, writer);
	remove_tree(path);
}

int main(void) {
	RUN(truncated_records_of_an_entry_that_a_reader_has_open_are_gone);
	RUN(records_of_a_deleted_log_are_gone_for_a_reader_that_has_their_entry_open);
	return check_done();
}
