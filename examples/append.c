/*
 * append.c: the embedded log from C. Appends the lines of its input to the log "lines" of a directory, each durable
 * when its position is printed, then replays the log from its start.
 *
 *	cc examples/append.c -lwalkeeper -o append && printf 'paid 42\n' | ./append /tmp/wal
 */
#include "walkeeper/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(wk_status status, const wk_error *error) {
	if (status == WK_OK)
		return;
	fprintf(stderr, "append: %s (%s)\n", error->text, wk_status_text(status));
	exit(1);
}

int main(int argc, char **argv) {
	if (argc != 2) {
		fprintf(stderr, "usage: append DIRECTORY < LINES\n");
		return 2;
	}
	wk_error error;
	wk_namespace *ns;
	wk_log *log;
	wk_open_options options;
	wk_open_options_init(&options);
	must(wk_open(argv[1], &options, &ns, &error), &error);
	must(wk_log_open(ns, "lines", strlen("lines"), true, NULL, &log, &error), &error);
	wk_writer *writer;
	must(wk_writer_open(log, &writer, &error), &error);
	wk_append_options append;
	wk_append_options_init(&append);
	char line[64 * 1024]; /* a longer line becomes several records */
	while (fgets(line, sizeof line, stdin) != NULL) {
		wk_position at;
		must(wk_writer_append(writer, line, strcspn(line, "\n"), &append, &at, &error), &error);
		fprintf(stderr, "durable: record %lld\n", (long long)at.sequence_id);
	}
	must(wk_writer_close(writer, UINT64_MAX, &error), &error);
	wk_read_options from_start;
	wk_read_options_init(&from_start);
	wk_reader *reader;
	must(wk_reader_open(log, &from_start, &reader, &error), &error);
	wk_batch *batch;
	wk_status status;
	while ((status = wk_reader_next(reader, 1024, 1 << 20, UINT64_MAX, &batch, &error)) == WK_OK) {
		size_t count;
		for (const wk_record *record = wk_batch_records(batch, &count); count > 0; record++, count--)
			printf("%lld %.*s\n", (long long)record->at.sequence_id, (int)record->size, (const char *)record->payload);
		wk_batch_release(batch);
	}
	must(status == WK_END ? WK_OK : status, &error);
	wk_reader_release(reader);
	wk_log_release(log);
	must(wk_close(ns, UINT64_MAX, &error), &error);
	return 0;
}
