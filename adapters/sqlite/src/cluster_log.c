/* cluster_log.c: a log on bookies, as a database sees it: C's writer takes records, and the control plane does the rest. */
#include <stdlib.h>

#include "error.h"
#include "walkeeper/cluster.h"
#include "walkeeper/sqlite.h"

typedef struct wk_cluster_log {
	wk_cluster_log_control control;
	wk_cluster_writer *writer; /* NULL: only read */
} wk_cluster_log;

static wk_status log_take_over(void *context, wk_error *error) {
	wk_cluster_log *self = context;
	return self->control.take_over(self->control.context, &self->writer, error);
}

/* In as many calls as they have segments: the writer accepts the records before it wants the next one. */
static wk_status append_all(const wk_cluster_log *self, const uint8_t *bytes, const uint32_t *sizes, size_t count,
                            bool wait, int64_t *last, uint64_t *ticket, wk_error *error) {
	wk_append_options options;
	wk_append_options_init(&options);
	wk_position from, to;
	while (true) {
		wk_status status = wk_cluster_writer_append_many(self->writer, bytes, sizes, count, NULL, &options, wait, &from,
		                                                 &to, ticket, error);
		if (*ticket != 0)
			*last = to.sequence_id;
		if (status != WK_NEEDS_SEGMENT)
			return status;
		for (int64_t accepted = *ticket != 0 ? to.sequence_id - from.sequence_id + 1 : 0; accepted > 0; accepted--) {
			bytes += *sizes++;
			count--;
		}
		status = self->control.next_segment(self->control.context, error->txid, error);
		if (status != WK_OK)
			return status;
	}
}

/* A status of the writer, or what the control plane knows of it: what became of the records of a fenced one. */
static wk_status explained(const wk_cluster_log *self, wk_status status, wk_error *error) {
	return status == WK_OK ? WK_OK : self->control.explain(self->control.context, status, error);
}

static wk_status log_append(void *context, const uint8_t *bytes, const uint32_t *sizes, size_t count, int64_t *last,
                            wk_error *error) {
	wk_cluster_log *self = context;
	uint64_t ticket;
	wk_status status = append_all(self, bytes, sizes, count, true, last, &ticket, error);
	while (status == WK_INTERRUPTED && error->outcome_unknown) /* it was accepted: its end is awaited */
		status = wk_cluster_writer_wait(self->writer, ticket, UINT64_MAX, error);
	return explained(self, status, error);
}

static wk_status log_submit(void *context, const uint8_t *bytes, const uint32_t *sizes, size_t count, int64_t *last,
                            uint64_t *ticket, wk_error *error) {
	wk_cluster_log *self = context;
	return explained(self, append_all(self, bytes, sizes, count, false, last, ticket, error), error);
}

static wk_status log_wait(void *context, uint64_t ticket, wk_error *error) {
	wk_cluster_log *self = context;
	wk_status status;
	do
		status = wk_cluster_writer_wait(self->writer, ticket, UINT64_MAX, error);
	while (status == WK_INTERRUPTED);
	return explained(self, status, error);
}

static wk_status log_read(void *context, int64_t from, wk_database_record_fn record, void *record_context,
                          wk_error *error) {
	const wk_cluster_log *self = context;
	return self->control.read(self->control.context, from, record, record_context, error);
}

static wk_status log_range(void *context, int64_t *first, int64_t *next, wk_error *error) {
	const wk_cluster_log *self = context;
	return self->control.range(self->control.context, first, next, error);
}

static void log_close(void *context) {
	wk_cluster_log *self = context;
	self->control.close(self->control.context);
	free(self);
}

wk_status wk_database_log_on_bookies(const wk_cluster_log_control *control, uint64_t log_id, wk_database_log *log,
                                     wk_error *error) {
	wk_cluster_log *self = calloc(1, sizeof *self);
	if (self == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "opening a log on bookies: no memory");
	self->control = *control;
	bool write = control->take_over != NULL;
	*log = (wk_database_log){
	    .context = self,
	    .log_id = log_id,
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
