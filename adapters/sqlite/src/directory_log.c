/* directory_log.c: a log in a directory, as a database sees it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "walkeeper/sqlite.h"

enum { READ_RECORDS = 256, READ_BYTES = 4 * 1024 * 1024 };
static const uint64_t CLOSE_TIMEOUT_NS = 30 * UINT64_C(1000000000);

typedef struct wk_directory_log {
	wk_namespace *ns; /* NULL: the log is the caller's */
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

/* The next batch is read from the disk, by a thread, while the records of this one are given out. */
typedef struct wk_read_ahead {
	wk_reader *reader;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool full, stopped;
	wk_batch *batch; /* where full, and status is WK_OK */
	wk_status status;
	wk_error error;
} wk_read_ahead;

static wk_status read_batch(wk_reader *reader, wk_batch **batch, wk_error *error) {
	return wk_reader_next_records(reader, READ_RECORDS, READ_BYTES, UINT64_MAX, batch, error);
}

static void *run_read_ahead(void *context) {
	wk_read_ahead *ahead = context;
	pthread_mutex_lock(&ahead->lock);
	while (!ahead->stopped && ahead->status == WK_OK) {
		pthread_mutex_unlock(&ahead->lock);
		wk_status status = read_batch(ahead->reader, &ahead->batch, &ahead->error);
		pthread_mutex_lock(&ahead->lock);
		ahead->status = status;
		ahead->full = true;
		pthread_cond_signal(&ahead->changed);
		while (ahead->full && !ahead->stopped)
			pthread_cond_wait(&ahead->changed, &ahead->lock);
	}
	pthread_mutex_unlock(&ahead->lock);
	return NULL;
}

static bool begin_read_ahead(wk_read_ahead *ahead, wk_reader *reader) {
	*ahead = (wk_read_ahead){.reader = reader};
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->changed, NULL);
	if (pthread_create(&ahead->thread, NULL, run_read_ahead, ahead) == 0)
		return true;
	pthread_cond_destroy(&ahead->changed);
	pthread_mutex_destroy(&ahead->lock);
	return false;
}

static wk_status next_ahead(wk_read_ahead *ahead, wk_batch **batch, wk_error *error) {
	pthread_mutex_lock(&ahead->lock);
	while (!ahead->full)
		pthread_cond_wait(&ahead->changed, &ahead->lock);
	wk_status status = ahead->status;
	if (status == WK_OK) { /* else it stays the answer */
		*batch = ahead->batch;
		ahead->full = false;
		pthread_cond_signal(&ahead->changed);
	} else if (error != NULL) {
		*error = ahead->error;
	}
	pthread_mutex_unlock(&ahead->lock);
	return status;
}

static void end_read_ahead(wk_read_ahead *ahead) {
	pthread_mutex_lock(&ahead->lock);
	ahead->stopped = true;
	pthread_cond_signal(&ahead->changed);
	pthread_mutex_unlock(&ahead->lock);
	pthread_join(ahead->thread, NULL);
	if (ahead->full && ahead->status == WK_OK)
		wk_batch_release(ahead->batch);
	pthread_cond_destroy(&ahead->changed);
	pthread_mutex_destroy(&ahead->lock);
}

static wk_status give_out(wk_batch *batch, wk_database_record_fn record, void *record_context) {
	size_t count;
	const wk_record *records = wk_batch_records(batch, &count);
	wk_status status = WK_OK;
	for (size_t i = 0; status == WK_OK && i < count; i++)
		status = record(record_context, records[i].payload, records[i].size, records[i].at.sequence_id,
		                records[i].at.txid);
	wk_batch_release(batch);
	return status;
}

/* *ended: behind the last record, and not by an answer of `record`. */
static wk_status read_all(wk_reader *reader, wk_database_record_fn record, void *record_context, bool *ended,
                          wk_error *error) {
	wk_read_ahead ahead;
	wk_batch *batch;
	bool is_ahead = false; /* a few records are read without a thread */
	wk_status status = WK_OK;
	for (int batches = 0; status == WK_OK; batches++) {
		if (batches == 1)
			is_ahead = begin_read_ahead(&ahead, reader);
		status = is_ahead ? next_ahead(&ahead, &batch, error) : read_batch(reader, &batch, error);
		*ended = status != WK_OK;
		if (status == WK_OK)
			status = give_out(batch, record, record_context);
	}
	if (is_ahead)
		end_read_ahead(&ahead);
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
	bool ended;
	status = read_all(reader, record, record_context, &ended, error);
	wk_reader_release(reader);
	return ended && status == WK_END ? WK_OK : status;
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
	if (self->ns != NULL && self->log != NULL)
		wk_log_release(self->log);
	if (self->ns != NULL)
		wk_close(self->ns, CLOSE_TIMEOUT_NS, &error);
	free(self);
}

/* Closes it where this fails. */
static wk_status show(wk_directory_log *self, bool write, wk_database_log *log, wk_error *error) {
	wk_log_info info;
	wk_status status = wk_log_describe(self->log, &info, error);
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

static wk_directory_log *new_log(wk_error *error) {
	wk_directory_log *self = calloc(1, sizeof *self);
	if (self == NULL)
		wk_database_fail(error, WK_NO_MEMORY, "opening the log of a database: no memory");
	return self;
}

wk_status wk_database_log_open(const char *root, const char *name, bool write, wk_database_log *log, wk_error *error) {
	wk_directory_log *self = new_log(error);
	if (self == NULL)
		return WK_NO_MEMORY;
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = !write;
	options.create = write;
	wk_status status = wk_open(root, &options, &self->ns, error);
	if (status == WK_OK)
		status = wk_log_open(self->ns, name, strlen(name), write, NULL, &self->log, error);
	if (status == WK_OK)
		return show(self, write, log, error);
	log_close(self);
	return status;
}

wk_status wk_database_log_of(wk_log *open, wk_database_log *log, wk_error *error) {
	wk_directory_log *self = new_log(error);
	if (self == NULL)
		return WK_NO_MEMORY;
	self->log = open;
	return show(self, false, log, error);
}
