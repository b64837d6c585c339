/* directory_log.c: a log in a directory, as a database sees it. */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "walkeeper/sqlite.h"

enum { READ_RECORDS = 256, READ_BYTES = 4 * 1024 * 1024 };
static const uint64_t CLOSE_TIMEOUT_NS = 30 * UINT64_C(1000000000);

typedef struct wk_directory_log {
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer; /* NULL: only read */
} wk_directory_log;

static wk_status log_take_over(void *context, wk_error *error) {
	wk_directory_log *self = context;
	return wk_writer_open(self->log, &self->writer, error);
}

static wk_status log_append(void *context, const uint8_t *bytes, const uint32_t *sizes, size_t count, int64_t *last,
                            wk_error *error) {
	wk_directory_log *self = context;
	wk_position first, at;
	wk_append_options options;
	wk_append_options_init(&options);
	wk_status status;
	uint64_t ticket;
	if (count == 1)
		status = wk_writer_append(self->writer, bytes, sizes[0], &options, &at, error);
	else
		status = wk_writer_append_many(self->writer, bytes, sizes, count, NULL, &options, true, &first, &at, &ticket,
		                               error);
	if (status == WK_OK)
		*last = at.sequence_id;
	while (status == WK_INTERRUPTED && error->outcome_unknown) { /* it was accepted: its end is awaited */
		status = wk_writer_flush(self->writer, UINT64_MAX, &at, error);
		*last = at.sequence_id - 1; /* or a record of a snapshot behind it */
	}
	return status;
}

static wk_status log_submit(void *context, const uint8_t *bytes, const uint32_t *sizes, size_t count, int64_t *last,
                            uint64_t *ticket, wk_error *error) {
	wk_directory_log *self = context;
	wk_position first, at;
	wk_append_options options;
	wk_append_options_init(&options);
	wk_status status;
	if (count == 1)
		status = wk_writer_submit(self->writer, bytes, sizes[0], &options, &at, ticket, error);
	else
		status = wk_writer_append_many(self->writer, bytes, sizes, count, NULL, &options, false, &first, &at, ticket,
		                               error);
	*last = at.sequence_id;
	return status;
}

static wk_status log_wait(void *context, uint64_t ticket, wk_error *error) {
	wk_directory_log *self = context;
	wk_status status;
	do
		status = wk_namespace_wait(self->ns, ticket, UINT64_MAX, error);
	while (status == WK_INTERRUPTED);
	return status;
}

static wk_status log_read(void *context, int64_t from, wk_database_record_fn record, void *record_context,
                          wk_error *error) {
	wk_directory_log *self = context;
	wk_read_options options;
	wk_read_options_init(&options);
	options.from = WK_FROM_SEQUENCE_ID;
	options.value = from;
	wk_reader *reader;
	wk_status status = wk_reader_open(self->log, &options, &reader, error);
	if (status != WK_OK)
		return status;
	while (status == WK_OK) {
		wk_batch *batch;
		status = wk_reader_next_records(reader, READ_RECORDS, READ_BYTES, UINT64_MAX, &batch, error);
		if (status != WK_OK)
			break;
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		for (size_t i = 0; status == WK_OK && i < count; i++)
			status = record(record_context, records[i].payload, records[i].size, records[i].at.sequence_id,
			                records[i].at.txid);
		wk_batch_release(batch);
		if (status != WK_OK) {
			wk_reader_release(reader);
			return status;
		}
	}
	wk_reader_release(reader);
	return status == WK_END ? WK_OK : status;
}

static wk_status log_range(void *context, int64_t *first, int64_t *next, wk_error *error) {
	wk_directory_log *self = context;
	wk_log_info info;
	wk_status status = wk_log_describe(self->log, &info, error);
	if (status != WK_OK)
		return status;
	*first = info.first.sequence_id;
	*next = info.next.sequence_id;
	return WK_OK;
}

static void log_close(void *context) {
	wk_directory_log *self = context;
	wk_error error;
	if (self->writer != NULL)
		wk_writer_close(self->writer, CLOSE_TIMEOUT_NS, &error);
	if (self->log != NULL)
		wk_log_release(self->log);
	if (self->ns != NULL)
		wk_close(self->ns, CLOSE_TIMEOUT_NS, &error);
	free(self);
}

wk_status wk_database_log_open(const char *root, const char *name, bool write, wk_database_log *log, wk_error *error) {
	wk_directory_log *self = calloc(1, sizeof *self);
	if (self == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "opening the log %s: no memory", name);
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = !write;
	options.create = write;
	wk_log_info info;
	wk_status status = wk_open(root, &options, &self->ns, error);
	if (status == WK_OK)
		status = wk_log_open(self->ns, name, strlen(name), write, NULL, &self->log, error);
	if (status == WK_OK)
		status = wk_log_describe(self->log, &info, error);
	if (status != WK_OK) {
		log_close(self);
		return status;
	}
	*log = (wk_database_log){
	    .context = self,
	    .log_id = info.log_id,
	    .take_over = write ? log_take_over : NULL,
	    .append = write ? log_append : NULL,
	    .submit = write ? log_submit : NULL,
	    .wait = write ? log_wait : NULL,
	    .read = log_read,
	    .range = log_range,
	    .close = log_close,
	};
	return WK_OK;
}
