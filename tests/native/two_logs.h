/*
 * two_logs.h: a directory of journal files of 64 KiB on the faulty disk with two logs: "log", whose records make most of
 * each file, and "thin", which gets one record a file; and the words to use it and its index.
 *
 * A record's payload is that of small_directory.h.
 */
#ifndef TWO_LOGS_H
#define TWO_LOGS_H
#include "engine/directory/directory.h"
#include "engine/index/index_file.h"
#include "engine/index/store_file.h"
#include "engine/manual.h"
#include "io/io.h"
#include "manual_options.h"
#include "sim/faulty.h"
#include "small_directory.h"

enum { RECORDS_A_FILE = 12 };

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

static inline wk_open_options small_files(void) {
	wk_open_options options = manual_options(SMALL_FILE_SIZE);
	return options;
}

static inline wk_engine *engine_of(const directory *d) {
	return d->ns->engine;
}

static inline void open_it_with(directory *d, const wk_open_options *options) {
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

static inline void open_it(directory *d) {
	wk_open_options options = small_files();
	open_it_with(d, &options);
}

static inline void let_go(directory *d) {
	for (int i = 0; i < 2; i++) {
		if (d->writers[i] != NULL)
			wk_writer_close(d->writers[i], 0, NULL);
		wk_log_release(d->logs[i]);
	}
}

static inline void close_it(directory *d) {
	let_go(d);
	wk_error error = {0};
	check_ok(wk_close(d->ns, UINT64_MAX, &error), &error, "the directory closes");
}

static inline void kill_it(directory *d) {
	wk_abandon(d->ns);
	let_go(d);
	wk_faulty_kill(d->disk);
}

static inline directory new_directory(uint64_t seed) {
	directory d = {0};
	CHECK_EQ(wk_faulty_new(seed, &d.io), 0);
	d.disk = wk_faulty_of(d.io);
	open_it(&d);
	return d;
}

static inline void destroy(directory *d) {
	d->io->operations->destroy(d->io);
}

static inline void append(directory *d, int log) {
	char payload[RECORD_SIZE];
	payload_of(d->next[log], payload);
	wk_position at;
	wk_error error = {0};
	check_ok(wk_writer_append(d->writers[log], payload, sizeof payload, NULL, &at, &error), &error, "the append");
	CHECK_EQ(at.sequence_id, d->next[log]);
	d->next[log]++;
}

static inline void work(directory *d) {
	bool idle = false;
	wk_error error = {0};
	while (!idle)
		check_ok(wk_namespace_step(d->ns, &idle, &error), &error, "background work");
}

/* About so many journal files, the last of them under way. */
static inline void fill_files(directory *d, int files) {
	for (int i = 0; i < files; i++) {
		append(d, THIN);
		for (int k = 0; k < RECORDS_A_FILE; k++)
			append(d, LOG);
		work(d);
	}
}

static inline void truncate_to(directory *d, int log, int64_t first) {
	wk_position at;
	wk_error error = {0};
	check_ok(wk_log_find(d->logs[log], WK_FIND_SEQUENCE_ID, first, NULL, &at, &error), &error, "the record is found");
	check_ok(wk_log_truncate(d->logs[log], &at.dlsn, true, &error), &error, "truncation");
	d->first[log] = first;
}

static inline void reads_everything(const directory *d) {
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

static inline wk_recovery_report report_of(const directory *d) {
	wk_recovery_report report;
	wk_namespace_recovery(d->ns, &report);
	return report;
}

static inline bool write_index(directory *d) {
	wk_engine_lock(engine_of(d));
	bool written = wk_index_write(engine_of(d));
	wk_engine_unlock(engine_of(d));
	return written;
}

/* The same directory on another disk. */
static inline directory on(const directory *d, wk_io *io) {
	directory copy = *d;
	copy.io = io;
	copy.disk = wk_faulty_of(io);
	return copy;
}
#endif
