/*
 * test_read_memory.c: what readers hold counts, once, and has a limit at which reading is refused and nobody waits
 * (storage rule 24).
 */
#include "small_directory.h"
#include <pthread.h>
#include <stdatomic.h>

enum {
	LIMIT = 4 * 1024 * 1024,
	PAYLOAD = 1000,
	RECORDS = 16000,
	SPAN_MAX = (1 << 20) + 16 * 1024, /* what a reader holds itself */
	HELD_MAX = 1000,
	THREADS = 4,
};

static const char *path;

static wk_namespace *open_limited(uint64_t read_bytes) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_bytes = read_bytes;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the directory opens");
	return ns;
}

static uint64_t held_by_readers(wk_namespace *ns) {
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	return stats.memory_readers;
}

static void write_records(const char *name, size_t size, int64_t count) {
	wk_namespace *ns = open_limited(LIMIT);
	wk_log *log = log_named(ns, name);
	wk_writer *writer = writer_of(log);
	char payload[PAYLOAD] = {0};
	wk_error error = {0};
	uint64_t ticket;
	for (int64_t i = 0; i < count; i++) {
		memcpy(payload, &i, sizeof i);
		check_ok(wk_writer_submit(writer, payload, size, NULL, NULL, &ticket, &error), &error, "the append");
	}
	close_all(ns, log, writer);
}

static wk_reader *reader_of(wk_log *log) {
	wk_reader *reader = NULL;
	wk_error error = {0};
	check_ok(wk_reader_open(log, NULL, &reader, &error), &error, "the reader opens");
	return reader;
}

static wk_status next_batch(wk_reader *reader, int64_t *next, wk_batch **batch) {
	wk_error error = {0};
	wk_status status = wk_reader_next(reader, 100000, 64 << 20, 0, batch, &error);
	if (status == WK_FULL)
		CHECK(strstr(error.text, "read_bytes is 4194304") != NULL);
	if (status != WK_OK)
		return status;
	size_t count;
	const wk_record *records = wk_batch_records(*batch, &count);
	CHECK(count > 0);
	for (size_t i = 0; i < count; i++, (*next)++) {
		int64_t said;
		memcpy(&said, records[i].payload, sizeof said);
		CHECK_EQ(records[i].at.sequence_id, *next);
		CHECK_EQ(said, *next);
	}
	return WK_OK;
}

TEST(at_the_limit_reading_is_refused_and_goes_on_where_it_was) {
	wk_namespace *ns = open_limited(LIMIT);
	wk_log *log = log_named(ns, "log");
	wk_reader *reader = reader_of(log), *other = reader_of(log);
	wk_batch *held[HELD_MAX], *batch;
	int count = 0;
	int64_t next = 0, others_next = 0;
	wk_status status;
	CHECK_EQ(held_by_readers(ns), 0);
	while ((status = next_batch(reader, &next, &held[count])) == WK_OK)
		CHECK(++count < HELD_MAX);
	CHECK_EQ(status, WK_FULL);
	CHECK(count >= 2);
	uint64_t full = held_by_readers(ns);
	CHECK(full > LIMIT / 2 && full <= LIMIT + SPAN_MAX);  /* the latter is the reader's own */
	CHECK_EQ(next_batch(reader, &next, &batch), WK_FULL); /* it stays so */
	CHECK_EQ(next_batch(other, &others_next, &batch), WK_FULL);
	for (; next < RECORDS; count++) { /* one goes, the next comes */
		wk_batch_release(held[0]);
		memmove(held, held + 1, (size_t)--count * sizeof *held);
		while ((status = next_batch(reader, &next, &held[count])) == WK_OK && next < RECORDS)
			count++;
		if (status != WK_OK)
			count--;
		CHECK(held_by_readers(ns) <= LIMIT + 2 * SPAN_MAX);
	}
	CHECK_EQ(next_batch(reader, &next, &batch), WK_END);
	while (count > 0)
		wk_batch_release(held[--count]);
	CHECK_EQ(next_batch(other, &others_next, &batch), WK_OK);
	wk_reader_release(reader);
	wk_reader_release(other);
	CHECK(held_by_readers(ns) > 0);
	wk_batch_release(batch);
	CHECK_EQ(held_by_readers(ns), 0);
	close_all(ns, log, NULL);
}

/* The usual loops: a batch is released before the next is asked for, or as soon as it is there. */
static void read_in_a_loop(wk_namespace *ns, const char *name, bool keep_one, int64_t records) {
	wk_log *log = log_named(ns, name);
	wk_reader *reader = reader_of(log);
	wk_batch *batch, *before = NULL;
	int64_t next = 0;
	wk_status status;
	while ((status = next_batch(reader, &next, &batch)) == WK_OK) {
		if (before != NULL)
			wk_batch_release(before);
		before = keep_one ? batch : NULL;
		if (!keep_one)
			wk_batch_release(batch);
	}
	if (before != NULL)
		wk_batch_release(before);
	CHECK_EQ(status, WK_END);
	CHECK_EQ(next, records);
	wk_reader_release(reader);
	wk_log_release(log);
}

TEST(who_holds_one_batch_is_never_refused) {
	wk_namespace *ns = open_limited(LIMIT);
	read_in_a_loop(ns, "log", false, RECORDS);
	read_in_a_loop(ns, "log", true, RECORDS);
	read_in_a_loop(ns, "tiny", false, 10 * RECORDS); /* their list is larger than what they point into */
	read_in_a_loop(ns, "tiny", true, 10 * RECORDS);
	CHECK_EQ(held_by_readers(ns), 0);
	close_all(ns, NULL, NULL);
}

TEST(a_small_read_counts_as_what_it_is) {
	wk_namespace *ns = open_limited(LIMIT);
	wk_log *log = log_named(ns, "lone");
	wk_writer *writer = writer_of(log);
	append_one(writer);
	close_all(ns, log, writer);
	ns = open_limited(LIMIT); /* the memtable is empty again */
	log = log_named(ns, "lone");
	wk_batch *held[200];
	for (int64_t i = 0; i < 200; i++) { /* each by a reader of its own, from the disk */
		wk_read_options options;
		wk_read_options_init(&options);
		options.from = WK_FROM_SEQUENCE_ID;
		options.value = 0;
		wk_reader *reader = NULL;
		wk_error error = {0};
		check_ok(wk_reader_open(log, &options, &reader, &error), &error, "the reader opens");
		check_ok(wk_reader_next(reader, 1, 1, 0, &held[i], &error), &error, "reading");
		wk_reader_release(reader);
	}
	CHECK(held_by_readers(ns) <= 200 * 16 * 1024);
	for (int i = 0; i < 200; i++)
		wk_batch_release(held[i]);
	close_all(ns, log, NULL);
}

TEST(batches_outlive_the_directory_and_count_to_their_end) {
	wk_namespace *ns = open_limited(LIMIT);
	wk_log *log = log_named(ns, "log");
	wk_reader *reader = reader_of(log);
	wk_batch *batch;
	int64_t next = 0;
	CHECK_EQ(next_batch(reader, &next, &batch), WK_OK);
	wk_reader_release(reader);
	close_all(ns, log, NULL);
	size_t count;
	const wk_record *records = wk_batch_records(batch, &count);
	int64_t last;
	memcpy(&last, records[count - 1].payload, sizeof last);
	CHECK_EQ(last, next - 1);
	wk_batch_release(batch);
}

static wk_namespace *shared;
static _Atomic int64_t refused;

static void *read_and_keep(void *context) {
	wk_log *log = log_named(shared, "log");
	wk_reader *reader = reader_of(log);
	wk_batch *held[HELD_MAX];
	int count = 0;
	wk_error error = {0};
	for (int64_t read = 0; read < RECORDS;) {
		wk_status status = wk_reader_next(reader, 500, 1 << 20, 0, &held[count], &error);
		if (status == WK_FULL) { /* what it holds itself it lets go of */
			atomic_fetch_add(&refused, 1);
			while (count > 0)
				wk_batch_release(held[--count]);
			continue;
		}
		check_ok(status, &error, "reading");
		size_t records;
		wk_batch_records(held[count++], &records);
		read += (int64_t)records;
	}
	while (count > 0)
		wk_batch_release(held[--count]);
	wk_reader_release(reader);
	wk_log_release(log);
	return context;
}

TEST(threads_that_keep_what_they_read_do_not_block_each_other) {
	shared = open_limited(LIMIT);
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, read_and_keep, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK(atomic_load(&refused) > 0);
	CHECK_EQ(held_by_readers(shared), 0);
	close_all(shared, NULL, NULL);
}

TEST(a_limit_too_small_for_two_batches_is_refused) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_bytes = LIMIT - 1;
	wk_namespace *ns = NULL;
	CHECK_EQ(wk_open(path, &options, &ns, NULL), WK_INVALID);
	options.read_bytes = 2 * LIMIT;
	options.file_size_min = 2 * LIMIT;
	options.block_size_max = LIMIT;
	CHECK_EQ(wk_open(path, &options, &ns, NULL), WK_INVALID);
}

int main(void) {
	char place[64];
	strcpy(place, temporary());
	path = place;
	write_records("log", PAYLOAD, RECORDS);
	write_records("tiny", sizeof(int64_t), 10 * RECORDS);
	RUN(at_the_limit_reading_is_refused_and_goes_on_where_it_was);
	RUN(who_holds_one_batch_is_never_refused);
	RUN(a_small_read_counts_as_what_it_is);
	RUN(batches_outlive_the_directory_and_count_to_their_end);
	RUN(threads_that_keep_what_they_read_do_not_block_each_other);
	RUN(a_limit_too_small_for_two_batches_is_refused);
	remove_tree(path);
	return check_done();
}
