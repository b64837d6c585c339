/* names.c: the names of a directory's logs, and of a log's cursors. */
#include <stdlib.h>
#include <string.h>

#include "engine/directory.h"

static int by_bytes(const void *a, const void *b) {
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One allocation, in byte order, each name with its NUL. Names hold no NUL bytes themselves. */
static char *join(const char **names, uint64_t count, size_t bytes) {
	char *out = malloc(bytes + 1);
	if (out == NULL)
		return NULL;
	if (count > 1)
		qsort(names, count, sizeof *names, by_bytes);
	size_t at = 0;
	for (uint64_t i = 0; i < count; i++) {
		size_t size = strlen(names[i]) + 1;
		memcpy(out + at, names[i], size);
		at += size;
	}
	return out;
}

/* The names, where they may be told. */
static wk_status answer(wk_status status, char *joined, char **names) {
	if (status == WK_OK)
		*names = joined;
	else
		free(joined);
	return status;
}

wk_status wk_log_names(wk_namespace *ns, const char *prefix, size_t prefix_size, char **names, size_t *size,
                       uint64_t *count, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter_fresh(ns, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = ns->engine;
	wk_engine_lock(engine);
	const char **found = malloc((engine->logs_count + 1) * sizeof *found);
	uint64_t n = 0;
	size_t bytes = 0;
	for (uint32_t i = 0; found != NULL && i < engine->logs_capacity; i++) {
		const wk_log_state *log = engine->logs[i];
		if (log == NULL || log->name_size < prefix_size || memcmp(log->name, prefix, prefix_size) != 0)
			continue;
		found[n++] = log->name;
		bytes += log->name_size + 1;
	}
	char *joined = found != NULL ? join(found, n, bytes) : NULL;
	*size = bytes;
	*count = n;
	status = joined != NULL
	             ? wk_catalogue_wait_durable(engine, NULL, error) /* what the look saw, and nothing younger */
	             : wk_fail(error, WK_NO_MEMORY, "listing logs: no memory");
	wk_engine_unlock(engine);
	free(found);
	wk_leave(ns);
	return answer(status, joined, names);
}

wk_status wk_cursor_names(wk_log *log, char **names, size_t *size, uint64_t *count, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter_fresh(log->ns, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = log->ns->engine;
	wk_engine_lock(engine);
	status = wk_log_check(engine, log->state, error);
	const char **found = status == WK_OK ? malloc((log->state->cursors_count + 1) * sizeof *found) : NULL;
	size_t bytes = 0;
	for (uint32_t i = 0; found != NULL && i < log->state->cursors_count; i++) {
		found[i] = log->state->cursors[i].name;
		bytes += log->state->cursors[i].name_size + 1;
	}
	char *joined = found != NULL ? join(found, log->state->cursors_count, bytes) : NULL;
	*size = bytes;
	*count = log->state->cursors_count;
	if (status == WK_OK)
		status = joined != NULL ? wk_catalogue_wait_durable(engine, log->state, error) /* as above */
		                        : wk_fail(error, WK_NO_MEMORY, "listing cursors: no memory");
	wk_engine_unlock(engine);
	free(found);
	wk_leave(log->ns);
	return answer(status, joined, names);
}
