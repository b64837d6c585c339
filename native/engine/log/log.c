#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/utf8.h"
#include "engine/catalogue.h"
#include "engine/directory.h"
#include "engine/index.h"
#include "engine/journal.h"

enum { SNAPSHOT_LOOK_NS = 100 * 1000 * 1000 };

wk_status wk_log_check(wk_engine *engine, wk_log_state *log, wk_error *error) {
	if (!log->deleted)
		return WK_OK;
	char name[WK_LOG_NAME_MAX + 1]; /* the log may go meanwhile */
	snprintf(name, sizeof name, "%s", log->name);
	wk_status status = wk_catalogue_wait_durable(engine, log, error);
	return status == WK_OK ? wk_fail(error, WK_DELETED, "log %s was deleted", name) : status;
}

wk_status wk_catalogue_wait_durable(wk_engine *engine, wk_log_state *log, wk_error *error) {
	uint64_t ticket = engine->catalogue_ticket;
	if ((log != NULL && !log->not_durable) || ticket <= engine->durable)
		return WK_OK;
	if (log != NULL)
		log->handles++;
	wk_status status = wk_journal_wait_out(engine, ticket, UINT64_MAX, false, error);
	if (log != NULL) {
		log->not_durable &= engine->catalogue_ticket > engine->durable;
		wk_log_state_release(engine, log);
	}
	return status;
}

wk_status wk_log_wait_first_durable(wk_engine *engine, wk_log_state *log, wk_error *error) {
	if (log->first->dlsn.segment == 0)
		return WK_OK;
	wk_status status = wk_catalogue_wait_durable(engine, log, error);
	if (status == WK_OK || !engine->failed)
		return status;
	wk_error_clear(error);
	wk_log_take_back_truncation(engine, log);
	return WK_OK;
}

wk_position wk_log_next(const wk_log_state *log, const wk_position *last) {
	if (last->sequence_id >= 0 && last->dlsn.segment > 0)
		return (wk_position){{last->dlsn.segment, last->dlsn.entry_id, last->dlsn.slot + 1}, last->sequence_id + 1, -1};
	/* A segment whose first entry is not durable yet is where that record will be. */
	int64_t segment = log->segments_count > 0 ? log->segments[0].segment : log->next_segment;
	return (wk_position){{segment, 0, 0}, last->sequence_id + 1, -1};
}

/* (locked, dropped) */
static wk_status wait_for_snapshot(wk_engine *engine, uint64_t deadline_ns, wk_error *error) {
	if (deadline_ns == 0)
		return wk_fail(error, WK_WOULD_BLOCK, "changing the catalogue of %s: a snapshot of it is being written",
		               engine->path);
	if (deadline_ns != UINT64_MAX && wk_engine_now(engine) >= deadline_ns)
		return wk_fail(
		    error, WK_TIMEOUT,
		    "changing the catalogue of %s: a snapshot of it took longer than the time given; nothing was written",
		    engine->path);
	int result = wk_engine_sleep_until(engine, &engine->room, wk_wait_word_look(&engine->room), SNAPSHOT_LOOK_NS,
	                                   deadline_ns);
	return result == -EINTR ? wk_fail(error, WK_INTERRUPTED,
	                                  "changing the catalogue of %s: interrupted while a snapshot of it was being "
	                                  "written; nothing was written",
	                                  engine->path)
	                        : WK_OK;
}

wk_status wk_catalogue_turn_for(wk_engine *engine, enum wk_room purpose, uint64_t deadline_ns, wk_error *error) {
	for (;;) {
		wk_status status = wk_journal_room(engine, WK_CATALOGUE_RECORD_MAX, deadline_ns, purpose, error);
		if (status != WK_OK || !engine->snapshotting)
			return status;
		status = wait_for_snapshot(engine, deadline_ns, error);
		if (status != WK_OK)
			return status;
	}
}

wk_status wk_catalogue_turn(wk_engine *engine, uint64_t deadline_ns, wk_error *error) {
	return wk_catalogue_turn_for(engine, WK_ROOM_CHANGE, deadline_ns, error);
}

wk_status wk_catalogue_commit(wk_engine *engine, const wk_catalogue_record *record, wk_error *error) {
	uint64_t ticket = 0;
	assert(!engine->snapshotting);
	wk_status status = wk_catalogue_change(engine, record, &ticket);
	if (status != WK_OK)
		return wk_fail(error, status, "changing the catalogue of %s: %s", engine->path, wk_status_text(status));
	wk_journal_want(engine, true, UINT64_MAX);
	wk_log_state *log = wk_catalogue_by_id(engine, record->log_id);
	log->handles++;
	log->not_durable = true;
	if (record->type == WK_CATALOGUE_TRUNCATE)
		wk_log_truncated(log, ticket);
	engine->catalogue_ticket = ticket;
	status = wk_journal_wait_out(engine, ticket, UINT64_MAX, true, error);
	if (status == WK_OK && record->type == WK_CATALOGUE_TRUNCATE)
		wk_log_truncation_durable(log, record);
	log->not_durable = engine->catalogue_ticket > engine->durable;
	wk_log_state_release(engine, log);
	return status;
}

void wk_log_options_init(wk_log_options *options) {
	*options = (wk_log_options){.segment_bytes = 256 * 1024 * 1024, .segment_seconds = 7200};
}

/* DistributedLog's rules for names, but for its reserved ones. */
static wk_status check_name(const char *name, size_t size, wk_error *error) {
	if (size == 0 || size > WK_LOG_NAME_MAX)
		return wk_fail(error, WK_INVALID, "the name of a log has 1 to %d bytes, not %zu", WK_LOG_NAME_MAX, size);
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)name[i] <= ' ' || name[i] == '<' || name[i] == '>' || name[i] == 0x7f)
			return wk_fail(error, WK_INVALID,
			               "the name of a log may hold no spaces, control characters, '<' or '>'; byte %zu is 0x%02x",
			               i, (unsigned char)name[i]);
	if (!wk_utf8_is_valid(name, size))
		return wk_fail(error, WK_INVALID, "the name of a log is text: its bytes are no UTF-8");
	if (name[0] == '.' || name[size - 1] == '/')
		return wk_fail(error, WK_INVALID, "the name of a log neither starts with '.' nor ends with '/'");
	return WK_OK;
}

static wk_status check_options(const wk_log_options *options, wk_error *error) {
	if (options->codec > WK_CODEC_ZSTD)
		return wk_fail(error, WK_INVALID, "codec %u: 0 none, 1 lz4, 2 zstd", options->codec);
	if (options->segment_bytes == 0)
		return wk_fail(error, WK_INVALID, "segment_bytes must not be 0");
	return WK_OK;
}

/*
 * A recreated name must go on with higher segment numbers, so that a DLSN never means two records (storage rule 3).
 * Log ids are dense, but that a rename takes one for the name it gives away: fewer logs than ids were given means that
 * some were deleted or renamed, perhaps this one. Every segment takes a ledger id, so the next one is above all segment
 * numbers.
 */
static int64_t first_segment(const wk_engine *engine) {
	return engine->logs_count + 1 == engine->next_log_id ? 1 : (int64_t)engine->next_ledger_id;
}

/*
 * (locked, dropped while it waits) There is no such log; said once whatever took it away is durable. It is the answer to
 * the look before this call: what comes to be during the wait is younger.
 */
static wk_status no_such_log(wk_engine *engine, const char *name, size_t name_size, wk_error *error) {
	wk_status status = wk_catalogue_wait_durable(engine, NULL, error);
	return status != WK_OK ? status
	                       : wk_fail(error, WK_NOT_FOUND, "%s has no log %.*s", engine->path, (int)name_size, name);
}

wk_status wk_log_open(wk_namespace *ns, const char *name, size_t name_size, bool create, const wk_log_options *given,
                      wk_log **opened, wk_error *error) {
	wk_error_clear(error);
	wk_log_options options;
	wk_log_options_init(&options);
	if (given != NULL)
		options = *given;
	wk_status status = check_name(name, name_size, error);
	if (status == WK_OK)
		status = check_options(&options, error);
	wk_log *log = status == WK_OK ? calloc(1, sizeof *log) : NULL;
	if (status == WK_OK && log == NULL)
		status = wk_fail(error, WK_NO_MEMORY, "opening a log: no memory");
	if (status != WK_OK || (status = wk_enter_fresh(ns, error)) != WK_OK) {
		free(log);
		return status;
	}
	wk_engine *engine = ns->engine;
	wk_engine_lock(engine);
	wk_log_state *state = wk_catalogue_find(engine, name, name_size);
	if (state == NULL && (!create || engine->read_only))
		status = no_such_log(engine, name, name_size, error);
	while (state == NULL && status == WK_OK) {
		status = wk_catalogue_turn(engine, UINT64_MAX, error); /* drops the lock: somebody may create it meanwhile */
		state = wk_catalogue_find(engine, name, name_size);
		if (status != WK_OK || state != NULL)
			break;
		status = wk_catalogue_commit(engine,
		                             &(wk_catalogue_record){.type = WK_CATALOGUE_CREATE,
		                                                    .log_id = engine->next_log_id,
		                                                    .segment_bytes = options.segment_bytes,
		                                                    .segment_seconds = options.segment_seconds,
		                                                    .retention_seconds = options.retention_seconds,
		                                                    .codec = options.codec,
		                                                    .segment = first_segment(engine),
		                                                    .name = name,
		                                                    .name_size = name_size},
		                             error);
		state = wk_catalogue_find(engine, name, name_size);
	}
	if (status == WK_OK) {
		*log = (wk_log){ns, state, wk_hold_new(ns, state)};
		if (log->hold == NULL)
			status = wk_fail(error, WK_NO_MEMORY, "opening a log: no memory");
		else if ((status = wk_catalogue_wait_durable(engine, state, error)) != WK_OK) { /* who made it may still wait */
			wk_hold_drop(engine, log->hold);
			wk_namespace_release(ns);
		}
	}
	if (status == WK_OK)
		*opened = log;
	else
		free(log);
	wk_engine_unlock(engine);
	wk_leave(ns);
	return status;
}

void wk_log_release(wk_log *log) {
	wk_hold_release(log->ns, log->hold);
	free(log);
}

wk_status wk_log_delete(wk_namespace *ns, const char *name, size_t name_size, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter_kind(ns, WK_KIND_LOGS, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = ns->engine;
	wk_engine_lock(engine);
	status = wk_catalogue_turn_for(engine, WK_ROOM_FREE, UINT64_MAX, error);
	wk_log_state *log = wk_catalogue_find(engine, name, name_size);
	if (status == WK_OK && log == NULL)
		status = no_such_log(engine, name, name_size, error);
	if (status == WK_OK) {
		log->handles++;
		if (log->tail != NULL)
			log->tail
			    ->writer_generation++; /* its writer is fenced; what it had in flight lands before the record of the delete, or with it */
		status = wk_catalogue_commit(
		    engine,
		    &(wk_catalogue_record){.type = WK_CATALOGUE_DELETE, .log_id = log->id, .segment = log->next_segment},
		    error);
		if (status == WK_OK) {
			wk_catalogue_reclaim(engine, log);
			wk_keeper_wake(engine);
		}
		wk_log_state_release(engine, log);
	}
	wk_engine_unlock(engine);
	wk_leave(ns);
	return status;
}

wk_status wk_log_rename(wk_namespace *ns, const char *from, size_t from_size, const char *to, size_t to_size,
                        wk_error *error) {
	wk_error_clear(error);
	wk_status status = check_name(to, to_size, error);
	if (status != WK_OK || (status = wk_enter_kind(ns, WK_KIND_LOGS, error)) != WK_OK)
		return status;
	wk_engine *engine = ns->engine;
	wk_engine_lock(engine);
	status = wk_catalogue_turn(engine, UINT64_MAX, error);
	wk_log_state *log = wk_catalogue_find(engine, from, from_size);
	if (status == WK_OK && log == NULL)
		status = no_such_log(engine, from, from_size, error);
	if (status == WK_OK && wk_catalogue_find(engine, to, to_size) != NULL) {
		status = wk_catalogue_wait_durable(engine, NULL, error);
		if (status == WK_OK)
			status = wk_fail(error, WK_EXISTS, "%s has a log %.*s already", engine->path, (int)to_size, to);
	}
	if (status == WK_OK)
		status = wk_catalogue_commit(
		    engine,
		    &(wk_catalogue_record){.type = WK_CATALOGUE_RENAME, .log_id = log->id, .name = to, .name_size = to_size},
		    error);
	wk_engine_unlock(engine);
	wk_leave(ns);
	return status;
}

/* ---- what a log holds ---- */

/*
 * A segment begins, and the one before it is completed, in the block of its first entry: told of is what is durable.
 */
static bool begun(const wk_log_state *log, const wk_segment *segment) {
	return segment->segment <= log->tail->durable_segment;
}

static uint64_t count_begun(const wk_log_state *log) {
	uint32_t count = log->segments_count;
	while (count > 0 && !begun(log, &log->segments[count - 1]))
		count--;
	return count;
}

/* The first record that can be read, where there is any. */
static wk_position first_of(const wk_log_state *log, const wk_position *next) {
	if (log->first->dlsn.segment != 0)
		return *log->first;
	if (log->segments_count == 0)
		return *next;
	const wk_segment *segment = &log->segments[0];
	return (wk_position){{segment->segment, 0, 0}, segment->first_sequence_id, segment->first_txid};
}

/*
 * Where it begins, and whether its stream has ended, is durable; and so it stays while its end is looked for. A failed
 * journal is no reason not to read what is there.
 */
static wk_status load_durable(wk_engine *engine, wk_log_state *log, wk_error *error) {
	for (;;) {
		wk_catalogue_wait_durable(engine, log, NULL);
		wk_status status = wk_log_wait_first_durable(engine, log, error);
		wk_dlsn before = log->first->dlsn;
		if (status == WK_OK)
			status = wk_log_load_tail(engine, log, error);
		if (status != WK_OK || wk_dlsn_compare(&before, &log->first->dlsn) == 0)
			return status;
	}
}

wk_status wk_log_describe(wk_log *log, wk_log_info *info, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter_fresh(log->ns, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = log->ns->engine;
	wk_log_state *state = log->state;
	wk_engine_lock(engine);
	status = load_durable(engine, state, error);
	if (status == WK_OK) {
		const wk_position *last = &state->tail->durable;
		*info = (wk_log_info){
		    .log_id = state->id,
		    .options = *state->options,
		    .txid_source = state->txid_source,
		    .end_of_stream = state->end_of_stream && state->tail->last_ticket <= engine->durable,
		    .segments_count = count_begun(state),
		    .last = *last,
		    .next = wk_log_next(state, last),
		};
		info->first = first_of(state, &info->next);
		info->count = info->next.sequence_id - info->first.sequence_id -
		              wk_gap_count(state, info->first.sequence_id, info->next.sequence_id);
		if (info->first.sequence_id >= info->next.sequence_id) { /* truncated up to its end, or never written */
			info->count = 0;
			info->first = info->next;
		}
	}
	wk_engine_unlock(engine);
	wk_leave(log->ns);
	return status;
}

wk_status wk_log_segments(wk_log *log, int64_t from, wk_segment_info *segments, size_t max, size_t *count,
                          wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter_fresh(log->ns, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = log->ns->engine;
	wk_log_state *state = log->state;
	wk_engine_lock(engine);
	wk_catalogue_wait_durable(engine, state, NULL);
	status = wk_log_load_tail(engine, state, error);
	*count = 0;
	const wk_segment *end = state->segments + state->segments_count;
	const wk_segment *segment = status == WK_OK ? wk_log_segment_at(state, from) : NULL;
	for (; segment != NULL && segment < end && *count < max && begun(state, segment); segment++) {
		const wk_ledger *ledger = wk_ledger_find(engine, segment->ledger_id);
		bool completed = segment->records_count >= 0 && (segment + 1 == end || begun(state, segment + 1));
		bool tail = state->tail->durable.dlsn.segment == segment->segment;
		segments[(*count)++] = (wk_segment_info){
		    .segment = segment->segment,
		    .ledger_id = segment->ledger_id,
		    .first_sequence_id = segment->first_sequence_id,
		    .first_txid = segment->first_txid,
		    .last_entry_id = completed        ? segment->last_entry
		                     : ledger != NULL ? ledger->durable_entry
		                                      : -1,
		    .records_count = completed ? segment->records_count
		                     : tail    ? state->tail->durable.sequence_id - segment->first_sequence_id + 1
		                               : 0,
		    .payload_bytes = completed ? segment->payload_bytes
		                     : tail    ? state->tail->durable_bytes
		                               : 0,
		    .created_ms = segment->created_ms,
		    .completed = completed,
		};
	}
	wk_engine_unlock(engine);
	wk_leave(log->ns);
	return status;
}

/* ---- truncation and cursors ---- */

const wk_cursor_state *wk_log_cursor_before(const wk_log_state *log, const wk_position *at) {
	for (uint32_t i = 0; i < log->cursors_count; i++)
		if (wk_position_is_before(&log->cursors[i].at, at))
			return &log->cursors[i];
	return NULL;
}

/* (locked, dropped) It was truncated that far already; but perhaps by another thread, and not durably yet. */
static wk_status truncated_already(wk_engine *engine, wk_error *error) {
	return wk_journal_wait_out(engine, wk_journal_flush(engine), UINT64_MAX, true, error);
}

/* (locked, dropped) After wk_catalogue_turn. *again: nothing was done, and another turn is needed. */
static wk_status truncate(wk_engine *engine, wk_log_state *log, const wk_position *at, bool force, bool *again,
                          wk_error *error) {
	*again = false;
	if (log->first->dlsn.segment != 0 && wk_dlsn_compare(&at->dlsn, &log->first->dlsn) <= 0)
		return truncated_already(engine, error);
	const wk_cursor_state *cursor = force ? NULL : wk_log_cursor_before(log, at);
	*again = cursor != NULL && log->not_durable && engine->catalogue_ticket > engine->durable;
	if (*again) /* that it stands there is told once it is durable */
		return wk_catalogue_wait_durable(engine, log, error);
	if (cursor != NULL)
		return wk_fail(error, WK_EXISTS,
		               "truncating before record %lld: the cursor '%s' still needs records from %lld on; advance or "
		               "delete it, or truncate with force",
		               (long long)at->sequence_id, cursor->name, (long long)cursor->at.sequence_id);
	wk_status status = wk_catalogue_commit(engine,
	                                       &(wk_catalogue_record){.type = WK_CATALOGUE_TRUNCATE,
	                                                              .log_id = log->id,
	                                                              .segment = at->dlsn.segment,
	                                                              .entry_id = at->dlsn.entry_id,
	                                                              .slot = at->dlsn.slot,
	                                                              .sequence_id = at->sequence_id,
	                                                              .txid = at->txid},
	                                       error);
	if (status == WK_OK && !log->deleted) {
		/*
		 * Not up to log->first: another thread's truncation may have moved that on, and its record may not be durable
		 * yet.
		 */
		wk_catalogue_reclaim_before(engine, log, &at->dlsn);
		wk_keeper_wake(engine);
	}
	return status;
}

/* Where a reader stands that was given everything up to `end`, in this segment or the next: nothing is between. */
static bool is_behind(const wk_dlsn *dlsn, const wk_dlsn *end) {
	bool next_entry = dlsn->segment == end->segment && dlsn->entry_id == end->entry_id + 1,
	     next_segment = dlsn->segment == end->segment + 1 && dlsn->entry_id == 0;
	return dlsn->slot == 0 && (next_entry || next_segment);
}

wk_status wk_log_truncate(wk_log *log, const wk_dlsn *before, bool force, wk_error *error) {
	wk_error_clear(error);
	wk_position at;
	wk_status status = wk_log_find(log, WK_FIND_DLSN, 0, before, &at, error);
	bool already = status == WK_TRUNCATED;
	if (already)
		wk_error_clear(error);
	else if (status != WK_OK)
		return status;
	if (!already && wk_dlsn_compare(before, &at.dlsn) > 0 && !is_behind(before, &at.dlsn))
		return wk_fail(error, WK_INVALID, "truncating before (%lld, %lld, %lld): the log ends at (%lld, %lld, %lld)",
		               (long long)before->segment, (long long)before->entry_id, (long long)before->slot,
		               (long long)at.dlsn.segment, (long long)at.dlsn.entry_id, (long long)at.dlsn.slot);
	status = wk_enter(log->ns, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = log->ns->engine;
	wk_engine_lock(engine);
	bool again;
	do {
		again = false;
		status = wk_catalogue_turn_for(engine, WK_ROOM_FREE, UINT64_MAX, error);
		if (status == WK_OK)
			status = wk_log_check(engine, log->state, error);
		if (status == WK_OK && already)
			status = truncated_already(engine, error);
		else if (status == WK_OK && log->state->segments_count > 0)
			status = truncate(engine, log->state, &at, force, &again, error);
	} while (status == WK_OK && again);
	wk_engine_unlock(engine);
	wk_leave(log->ns);
	return status;
}
