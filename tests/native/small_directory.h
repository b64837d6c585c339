/*
 * small_directory.h: a real directory of small journal files in a temporary place, and the bytes of its files.
 *
 * A record's payload is its sequence id in digits, then as many dots as make it RECORD_SIZE bytes.
 */
#ifndef SMALL_DIRECTORY_H
#define SMALL_DIRECTORY_H
#include "check_status.h"
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORD_SIZE = 3000, SMALL_FILE_SIZE = 64 * 1024 };

static inline int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *where) {
	(void)facts;
	(void)kind;
	(void)where;
	return remove(path);
}

static inline void remove_tree(const char *path) {
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A new temporary directory; its name is good until the next call. */
static inline const char *temporary(void) {
	static char path[64];
	strcpy(path, "/tmp/walkeeper-test-XXXXXX");
	CHECK(mkdtemp(path) != NULL);
	return path;
}

static inline wk_namespace *open_small(const char *path) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the directory opens");
	return ns;
}

static inline wk_log *log_named(wk_namespace *ns, const char *name) {
	wk_log *log = NULL;
	wk_error error = {0};
	check_ok(wk_log_open(ns, name, strlen(name), true, NULL, &log, &error), &error, "the log opens");
	return log;
}

static inline wk_writer *writer_of(wk_log *log) {
	wk_writer *writer = NULL;
	wk_error error = {0};
	check_ok(wk_writer_open(log, &writer, &error), &error, "the writer opens");
	return writer;
}

static inline void payload_of(int64_t sequence_id, char payload[RECORD_SIZE]) {
	int digits = snprintf(payload, RECORD_SIZE, "%lld", (long long)sequence_id);
	memset(payload + digits, '.', (size_t)(RECORD_SIZE - digits));
}

/* The next record, durable; its sequence id. */
static inline int64_t append_one(wk_writer *writer) {
	char payload[RECORD_SIZE];
	wk_position next;
	wk_writer_next(writer, &next);
	payload_of(next.sequence_id, payload);
	wk_append_options options;
	wk_append_options_init(&options);
	wk_position at;
	wk_error error = {0};
	check_ok(wk_writer_append(writer, payload, sizeof payload, &options, &at, &error), &error, "the append");
	CHECK_EQ(at.sequence_id, next.sequence_id);
	return at.sequence_id;
}

static inline void close_all(wk_namespace *ns, wk_log *log, wk_writer *writer) {
	wk_error error = {0};
	if (writer != NULL)
		check_ok(wk_writer_close(writer, UINT64_MAX, &error), &error, "the writer closes");
	if (log != NULL)
		wk_log_release(log);
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the directory closes");
}

/* A directory of one log, "log", with so many records, one a block. */
static inline void make_small(const char *path, int records) {
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < records; i++)
		append_one(writer);
	close_all(ns, log, writer);
}

/* All records of "log" are read, each with its own payload; the first and the last sequence id. */
static inline void read_all(wk_namespace *ns, int64_t *first, int64_t *last) {
	wk_log *log = log_named(ns, "log");
	wk_read_options options;
	wk_read_options_init(&options);
	wk_reader *reader = NULL;
	wk_error error = {0};
	check_ok(wk_reader_open(log, &options, &reader, &error), &error, "the reader opens");
	*first = *last = -1;
	wk_batch *batch;
	wk_status status;
	while ((status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, &error)) == WK_OK) {
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		for (size_t i = 0; i < count; i++) {
			char payload[RECORD_SIZE];
			payload_of(records[i].at.sequence_id, payload);
			CHECK_EQ(records[i].kind, WK_RECORD_DATA);
			CHECK_EQ(records[i].size, RECORD_SIZE);
			CHECK(memcmp(records[i].payload, payload, RECORD_SIZE) == 0);
			CHECK(*first == -1 || records[i].at.sequence_id == *last + 1);
			*first = *first == -1 ? records[i].at.sequence_id : *first;
			*last = records[i].at.sequence_id;
		}
		wk_batch_release(batch);
	}
	if (status != WK_END)
		check_ok(status, &error, "reading to the end");
	wk_reader_release(reader);
	wk_log_release(log);
}

/* ---- bytes of files ---- */

static inline const char *below(const char *directory, const char *name) {
	static char paths[4][300];
	static int turn;
	char *path = paths[turn = (turn + 1) % 4];
	int size = snprintf(path, sizeof paths[0], "%s/%s", directory, name);
	CHECK(size > 0 && size < (int)sizeof paths[0]);
	return path;
}

/* NULL: there is no such file. */
static inline uint8_t *read_if_there(const char *path, size_t *size) {
	FILE *file = fopen(path, "rb");
	if (file == NULL)
		return NULL;
	CHECK(fseek(file, 0, SEEK_END) == 0);
	*size = (size_t)ftell(file);
	rewind(file);
	uint8_t *bytes = malloc(*size + 1);
	CHECK(bytes != NULL && fread(bytes, 1, *size, file) == *size);
	fclose(file);
	return bytes;
}

static inline uint8_t *read_file(const char *path, size_t *size) {
	uint8_t *bytes = read_if_there(path, size);
	CHECK(bytes != NULL);
	return bytes;
}

static inline void write_file(const char *path, const void *bytes, size_t size) {
	FILE *file = fopen(path, "wb");
	CHECK(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

static inline void flip_bit(const char *path, size_t offset) {
	FILE *file = fopen(path, "r+b");
	CHECK(file != NULL && fseek(file, (long)offset, SEEK_SET) == 0);
	int byte = fgetc(file);
	CHECK(byte != EOF && fseek(file, (long)offset, SEEK_SET) == 0);
	CHECK(fputc(byte ^ 4, file) != EOF && fclose(file) == 0);
}
#endif
