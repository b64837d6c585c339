/*
 * test_replay.c: what a replay costs the disk: every byte once, in large reads, and small ones beside a busy writer.
 */
/* ctest labels: one-thread */
#include "engine/directory/directory.h"
#include "io/io.h"
#include "small_directory.h"
#include <stdatomic.h>
#include <time.h>

enum {
	PAYLOAD = 1024,
	RECORDS = 24 * 1024,
	READ_SIZE = 1 << 20,
	READ_SIZE_BESIDE_WRITER = 192 * 1024,
	MIB = 1 << 20,
};

/* The seam, with its reads counted. */
static wk_io *io;
static struct wk_io_operations counting;
static int64_t (*real_pread)(wk_io *, wk_file *, void *, size_t, uint64_t);
static _Atomic uint64_t reads, bytes_read, largest;

static int64_t counted_pread(wk_io *on, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	atomic_fetch_add(&reads, 1);
	atomic_fetch_add(&bytes_read, size);
	if (size > largest)
		atomic_store(&largest, size);
	return real_pread(on, file, buffer, size, offset);
}

static void count_from_here(void) {
	atomic_store(&reads, 0);
	atomic_store(&bytes_read, 0);
	atomic_store(&largest, 0);
}

/* A writer counts as busy for a while after its last write. */
static void nap_past_busy(void) {
	struct timespec time = {0, 150 * 1000 * 1000};
	nanosleep(&time, NULL);
}

static wk_namespace *open_counted(const char *path) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.memtable_bytes = 64 * 1024;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the directory opens");
	return ns;
}

static void write_records(wk_writer *writer) {
	char payload[PAYLOAD] = {0};
	uint64_t ticket;
	wk_error error = {0};
	for (int64_t i = 0; i < RECORDS; i++)
		check_ok(wk_writer_submit(writer, payload, sizeof payload, NULL, NULL, &ticket, &error), &error, "the append");
	check_ok(wk_writer_flush(writer, UINT64_MAX, NULL, &error), &error, "the flush");
}

static void replay(wk_log *log, int64_t records, wk_writer *beside) {
	wk_reader *reader = NULL;
	wk_error error = {0};
	check_ok(wk_reader_open(log, NULL, &reader, &error), &error, "the reader opens");
	wk_batch *batch;
	int64_t next = 0;
	while (next < records) { /* exactly so many are there, or more */
		if (beside != NULL)
			append_one(beside);
		check_ok(wk_reader_next(reader, 100000, MIB, 0, &batch, &error), &error, "reading");
		size_t count;
		CHECK_EQ(wk_batch_records(batch, &count)[0].at.sequence_id, next);
		next += (int64_t)count;
		wk_batch_release(batch);
	}
	wk_reader_release(reader);
}

TEST(a_replay_reads_every_byte_once_and_in_large_pieces) {
	char path[64];
	strcpy(path, temporary());
	wk_namespace *ns = open_counted(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	write_records(writer);
	close_all(ns, log, writer);
	ns = open_counted(path);
	log = log_named(ns, "log");
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	nap_past_busy();
	count_from_here();
	replay(log, RECORDS, NULL);
	uint64_t payload = (uint64_t)RECORDS * PAYLOAD, files = stats.journal_files;
	printf("%llu reads of %llu bytes for %llu of payload in %llu files\n", (unsigned long long)reads,
	       (unsigned long long)bytes_read, (unsigned long long)payload, (unsigned long long)files);
	CHECK(bytes_read >= payload);
	CHECK(bytes_read <= payload + payload / 16 + files * 16 * WK_IO_ALIGNMENT);
	CHECK(largest > READ_SIZE / 2);
	CHECK(reads <= 2 * (payload / READ_SIZE) + 16 * files);
	close_all(ns, log, NULL);
	remove_tree(path);
}

TEST(beside_a_busy_writer_no_read_is_large) {
	char path[64];
	strcpy(path, temporary());
	wk_namespace *ns = open_counted(path);
	wk_log *log = log_named(ns, "log"), *busy = log_named(ns, "busy");
	wk_writer *writer = writer_of(log), *appender = writer_of(busy);
	for (int i = 0; i < 600; i++) /* one a block: an entry is read whole, however large */
		append_one(writer);
	CHECK_EQ(wk_writer_close(writer, UINT64_MAX, NULL), WK_OK);
	count_from_here();
	replay(log, 300, appender);
	CHECK(largest > 0 && largest <= READ_SIZE_BESIDE_WRITER + 2 * WK_IO_ALIGNMENT);
	wk_log_release(log);
	close_all(ns, busy, appender);
	remove_tree(path);
}

int main(void) {
	CHECK_EQ(wk_io_psync_new(&io), 0);
	counting = *io->operations;
	real_pread = counting.pread;
	counting.pread = counted_pread;
	io->operations = &counting;
	RUN(a_replay_reads_every_byte_once_and_in_large_pieces);
	RUN(beside_a_busy_writer_no_read_is_large);
	io->operations->destroy(io);
	return check_done();
}
