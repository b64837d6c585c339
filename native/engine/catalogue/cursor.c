/* cursor.c: named durable positions. They move forwards, and truncation does not pass them unless it is forced. */
#include <string.h>

#include "core/utf8.h"
#include "engine/directory.h"

/* (locked, dropped while it waits) There is no such cursor; said once whatever took it away is durable. */
static wk_status no_such_cursor(wk_engine *engine, wk_log_state *log, const char *name, size_t name_size,
                                wk_error *error) {
	wk_status status = wk_catalogue_wait_durable(engine, log, error);
	if (status == WK_OK)
		status = wk_log_check(engine, log, error);
	return status != WK_OK
	           ? status
	           : wk_fail(error, WK_NOT_FOUND, "log %s has no cursor '%.*s'", log->name, (int)name_size, name);
}

static wk_status check_cursor_name(const char *name, size_t size, wk_error *error) {
	if (size == 0 || size > WK_CURSOR_NAME_MAX || memchr(name, 0, size) != NULL)
		return wk_fail(error, WK_INVALID, "the name of a cursor has 1 to %d bytes, none of them NUL",
		               WK_CURSOR_NAME_MAX);
	return wk_utf8_is_valid(name, size)
	           ? WK_OK
	           : wk_fail(error, WK_INVALID, "the name of a cursor is text: its bytes are no UTF-8");
}

static wk_status check_numbers(const wk_position *at, wk_error *error) {
	if (at->dlsn.segment < 1)
		return wk_fail(error, WK_INVALID, "segment %lld: segments are numbered from 1", (long long)at->dlsn.segment);
	if (at->dlsn.entry_id >= 0 && at->dlsn.slot >= 0 && at->sequence_id >= 0 && at->txid >= -1)
		return WK_OK;
	return wk_fail(
	    error, WK_INVALID,
	    "putting a cursor at record %lld, (%lld, %lld, %lld), txid %lld: no position has such numbers. Was it "
	    "stored, and damaged?",
	    (long long)at->sequence_id, (long long)at->dlsn.segment, (long long)at->dlsn.entry_id, (long long)at->dlsn.slot,
	    (long long)at->txid);
}

/* Not past what was accepted. Behind it stands also who was given all of it: in this entry, the next, or a new segment. */
static wk_status check_end(const wk_log_state *log, const wk_position *at, wk_error *error) {
	wk_position next = wk_log_next(log, &log->tail->last);
	const wk_dlsn *end = &next.dlsn;
	bool past = (at->dlsn.segment == end->segment && at->dlsn.entry_id > end->entry_id + 1) ||
	            (at->dlsn.segment == end->segment + 1 && (at->dlsn.entry_id > 0 || at->dlsn.slot > 0)) ||
	            at->dlsn.segment > end->segment + 1;
	if (!past && at->sequence_id <= next.sequence_id)
		return WK_OK;
	return wk_fail(
	    error, WK_INVALID,
	    "putting a cursor at record %lld, (%lld, %lld, %lld): the next record of %s will be %lld, (%lld, %lld, "
	    "%lld). Is the position another log's?",
	    (long long)at->sequence_id, (long long)at->dlsn.segment, (long long)at->dlsn.entry_id, (long long)at->dlsn.slot,
	    log->name, (long long)next.sequence_id, (long long)end->segment, (long long)end->entry_id,
	    (long long)end->slot);
}

wk_status wk_cursor_set(wk_log *log, const char *name, size_t name_size, const wk_position *at, wk_error *error) {
	wk_error_clear(error);
	wk_status status = check_cursor_name(name, name_size, error);
	if (status == WK_OK)
		status = check_numbers(at, error);
	if (status != WK_OK || (status = wk_enter(log->ns, error)) != WK_OK)
		return status;
	wk_engine *engine = log->ns->engine;
	wk_log_state *state = log->state;
	wk_engine_lock(engine);
	status = wk_log_load_tail(engine, state, error);
	bool end_is_known = status == WK_OK;
	if (end_is_known || status == WK_DAMAGED)
		status = wk_catalogue_turn(engine, UINT64_MAX, error);
	if (status == WK_OK)
		status = wk_log_check(engine, state, error);
	if (status == WK_OK && end_is_known)
		status = check_end(state, at, error);
	const wk_cursor_state *cursor = status == WK_OK ? wk_log_cursor(state, name, name_size) : NULL;
	bool back = cursor != NULL && wk_position_is_before(at, &cursor->at);
	bool cut = status == WK_OK && wk_position_is_before(at, state->first);
	if (back || cut) { /* where it stands, or what was cut, is told once it is durable */
		int64_t stands = back ? cursor->at.sequence_id : state->first->sequence_id;
		status = wk_catalogue_wait_durable(engine, state, error);
		if (status == WK_OK && cut && !back)
			status = wk_fail(error, WK_TRUNCATED, "putting a cursor at record %lld: the log was truncated up to %lld",
			                 (long long)at->sequence_id, (long long)stands);
		else if (status == WK_OK)
			status = wk_fail(
			    error, WK_INVALID,
			    "moving the cursor '%.*s' back from record %lld to %lld: it only moves forward; delete it first",
			    (int)name_size, name, (long long)stands, (long long)at->sequence_id);
	}
	if (status == WK_OK)
		status = wk_catalogue_commit(engine,
		                             &(wk_catalogue_record){.type = WK_CATALOGUE_CURSOR,
		                                                    .log_id = state->id,
		                                                    .segment = at->dlsn.segment,
		                                                    .entry_id = at->dlsn.entry_id,
		                                                    .slot = at->dlsn.slot,
		                                                    .sequence_id = at->sequence_id,
		                                                    .txid = at->txid,
		                                                    .name = name,
		                                                    .name_size = name_size},
		                             error);
	wk_engine_unlock(engine);
	wk_leave(log->ns);
	return status;
}

wk_status wk_cursor_get(wk_log *log, const char *name, size_t name_size, wk_position *at, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter_fresh(log->ns, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = log->ns->engine;
	wk_engine_lock(engine);
	status = wk_log_check(engine, log->state, error);
	const wk_cursor_state *cursor = status == WK_OK ? wk_log_cursor(log->state, name, name_size) : NULL;
	if (cursor != NULL) {
		*at = cursor->at;
		status = wk_catalogue_wait_durable(engine, log->state, error);
	} else if (status == WK_OK) {
		status = no_such_cursor(engine, log->state, name, name_size, error);
	}
	wk_engine_unlock(engine);
	wk_leave(log->ns);
	return status;
}

wk_status wk_cursor_delete(wk_log *log, const char *name, size_t name_size, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter(log->ns, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = log->ns->engine;
	wk_engine_lock(engine);
	status = wk_catalogue_turn(engine, UINT64_MAX, error);
	if (status == WK_OK)
		status = wk_log_check(engine, log->state, error);
	if (status == WK_OK && wk_log_cursor(log->state, name, name_size) == NULL)
		status = no_such_cursor(engine, log->state, name, name_size, error);
	if (status == WK_OK)
		status = wk_catalogue_commit(
		    engine,
		    &(wk_catalogue_record){
		        .type = WK_CATALOGUE_UNCURSOR, .log_id = log->state->id, .name = name, .name_size = name_size},
		    error);
	wk_engine_unlock(engine);
	wk_leave(log->ns);
	return status;
}
