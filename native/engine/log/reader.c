#include <errno.h>
#include <stdlib.h>

#include "engine/follower.h"
#include "engine/log/reader.h"
#include "records/batch.h"

enum { FOLLOW_SLICE_NS = 100 * 1000 * 1000 };

void wk_read_options_init(wk_read_options *options) {
	*options = (wk_read_options){.from = WK_FROM_START};
}

static wk_status start_at(wk_log *log, const wk_read_options *options, wk_reader *reader, wk_error *error) {
	static const uint32_t ways[] = {[WK_FROM_DLSN] = WK_FIND_DLSN,
	                                [WK_FROM_SEQUENCE_ID] = WK_FIND_SEQUENCE_ID,
	                                [WK_FROM_TXID] = WK_FIND_TXID,
	                                [WK_FROM_TIME_MS] = WK_FIND_TIME_MS};
	wk_log_info info;
	wk_status status = wk_log_describe(log, &info, error);
	if (status != WK_OK)
		return status;
	if (options->from == WK_FROM_START) {
		reader->at = info.first.dlsn;
		reader->fresh = true;
		return WK_OK;
	}
	if (options->from == WK_FROM_END) {
		reader->at = info.next.dlsn;
		reader->next_sequence_id = info.next.sequence_id;
		return WK_OK;
	}
	if (options->from > WK_FROM_TIME_MS)
		return wk_fail(error, WK_INVALID, "reading from %u: from start, end, DLSN, sequence id, txid or time",
		               options->from);
	wk_position at;
	status = wk_log_find(log, ways[options->from], options->value, &options->start, &at, error);
	/* The log may end, or lack what is lost, before what is asked for. */
	reader->skips = status == WK_OK && options->from != WK_FROM_DLSN &&
	                (options->from == WK_FROM_SEQUENCE_ID ? at.sequence_id : at.txid) < options->value;
	reader->wanted_by = options->from;
	reader->wanted = options->value;
	if (status != WK_OK)
		return status;
	reader->at = at.dlsn;
	/* By whichever way: no record before this one is asked for, also where the log begins in another segment later. */
	reader->next_sequence_id = at.sequence_id;
	if (options->from == WK_FROM_DLSN && wk_dlsn_compare(&options->start, &at.dlsn) > 0)
		reader->at =
		    options->start; /* behind the end, where a follower wants to start: `at` is where the log ends now */
	return WK_OK;
}

wk_status wk_reader_open(wk_log *log, const wk_read_options *given, wk_reader **opened, wk_error *error) {
	wk_read_options options;
	wk_read_options_init(&options);
	if (given != NULL)
		options = *given;
	wk_error_clear(error);
	wk_reader *reader = calloc(1, sizeof *reader);
	if (reader == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening a reader: no memory");
	wk_status status = start_at(log, &options, reader, error);
	if (status == WK_OK)
		status = wk_enter(log->ns, error);
	if (status != WK_OK) {
		free(reader);
		return status;
	}
	reader->end = options.end;
	reader->has_end = options.has_end;
	reader->follow = options.follow;
	reader->ns = log->ns;
	reader->memory = wk_read_memory_retain(log->ns->engine->read_memory);
	reader->state = log->state;
	wk_engine_lock(log->ns->engine);
	reader->hold = wk_hold_new(log->ns, log->state);
	wk_engine_unlock(log->ns->engine);
	if (reader->hold == NULL) {
		wk_read_memory_release(reader->memory);
		free(reader);
		status = wk_fail(error, WK_NO_MEMORY, "opening a reader: no memory");
	} else {
		*opened = reader;
	}
	wk_leave(log->ns);
	return status;
}

void wk_reader_release(wk_reader *reader) {
	wk_reader_drop_span(reader);
	wk_hold_release(reader->ns, reader->hold);
	wk_read_memory_release(reader->memory);
	free(reader);
}

void wk_reader_position(wk_reader *reader, wk_dlsn *at) {
	*at = reader->at;
}

static wk_status malformed(const wk_reader *reader, int64_t slot, wk_error *error) {
	return wk_fail(error, WK_DAMAGED, "record %lld of entry %lld of log %llu is malformed", (long long)slot,
	               (long long)reader->at.entry_id, (unsigned long long)reader->state->id);
}

/*
 * Passes over the records of the open entry that are below what was asked for: the first one that is not ends it, for
 * good. Behind the last one the entry is closed.
 */
static wk_status skip_records(wk_engine *engine, wk_reader *reader, wk_error *error) {
	bool by_sequence = reader->wanted_by == WK_FROM_SEQUENCE_ID;
	wk_engine_lock(engine);
	bool by_its_own = reader->state->txid_source == WK_TXID_APPLICATION;
	wk_engine_unlock(engine);
	if (by_its_own && reader->wanted_by == WK_FROM_TIME_MS)
		return wk_fail(error, WK_INVALID,
		               "reading log %llu from a time on: its txids are the application's own; start by txid",
		               (unsigned long long)reader->state->id);
	for (;;) {
		const wk_entry_records before = reader->records;
		wk_log_record record;
		wk_status status = wk_entry_records_next(&reader->records, &record);
		if (status == WK_END) {
			wk_reader_close_entry(reader);
			return WK_OK;
		}
		if (status != WK_OK)
			return malformed(reader, before.slot, error);
		int64_t key = by_sequence ? reader->first_sequence_id + record.position - 1 : record.txid;
		if ((record.flags & (WK_RECORD_END_OF_STREAM | WK_RECORD_CONTROL)) != 0)
			continue;
		if (key < reader->wanted) {
			reader->next_sequence_id = reader->first_sequence_id + record.position;
			continue;
		}
		reader->records = before;
		reader->skips = false;
		return WK_OK;
	}
}

/* Room in the batch for a record that points into this buffer. What does not fit stays to be read. */
static wk_status make_room(wk_reader *reader, wk_batch *batch, wk_buffer *buffer, wk_error *error) {
	wk_status status = wk_batch_reserve(batch, buffer);
	if (status == WK_FULL)
		return wk_fail(error, status,
		               "reading log %llu: records that were read and are still held take %llu bytes, and read_bytes "
		               "is %llu: let go of some, copy what you keep, or open with a larger read_bytes",
		               (unsigned long long)reader->state->id, (unsigned long long)reader->memory->given,
		               (unsigned long long)reader->memory->limit);
	return status == WK_OK
	           ? WK_OK
	           : wk_fail(error, status, "reading log %llu: no memory", (unsigned long long)reader->state->id);
}

/* Adds the records of the open entry from reader->at on. */
static wk_status take_records(wk_reader *reader, wk_batch *batch, size_t max_records, size_t max_bytes,
                              wk_error *error) {
	wk_log_record record;
	wk_status status = WK_OK;
	while (batch->count < max_records && (batch->count == 0 || batch->bytes < max_bytes)) {
		int64_t slot = reader->records.slot;
		wk_dlsn here = {reader->at.segment, reader->at.entry_id, slot};
		if (reader->has_end && wk_dlsn_compare(&here, &reader->end) >= 0) {
			reader->ended = true;
			return WK_END;
		}
		status = make_room(reader, batch, reader->records.buffer, error);
		if (status != WK_OK)
			return status;
		status = wk_entry_records_next(&reader->records, &record);
		if (status == WK_END) {
			wk_reader_close_entry(reader);
			return WK_OK;
		}
		if (status != WK_OK)
			return malformed(reader, slot, error);
		if ((record.flags & (WK_RECORD_END_OF_STREAM | WK_RECORD_CONTROL)) != 0 || slot < reader->at.slot)
			continue;
		wk_record out = {
		    .payload = record.payload,
		    .size = record.payload_size,
		    .at = {here, reader->first_sequence_id + record.position - 1, record.txid},
		    .next = {here.segment, here.entry_id, slot + 1},
		};
		wk_batch_add(batch, &out);
		reader->at.slot = slot + 1;
		reader->next_sequence_id = out.at.sequence_id + 1;
		reader->fresh = false;
	}
	return WK_OK;
}

/*
 * What was truncated meanwhile is not part of it any more; nor is what the reader gave out, and what cannot be read by
 * now.
 */
static wk_status take_gap(wk_engine *engine, wk_reader *reader, wk_batch *batch, wk_error *error) {
	wk_gap *gap = &reader->gap;
	wk_engine_lock(engine);
	int64_t begin = reader->state->first->sequence_id;
	wk_engine_unlock(engine);
	begin = begin > reader->next_sequence_id ? begin : reader->next_sequence_id;
	int64_t cut = begin - gap->first_sequence_id;
	if (cut > 0)
		*gap = (wk_gap){gap->segment, gap->entry_id, gap->last_entry_id, gap->first_sequence_id + cut,
		                gap->count - cut};
	/* By a txid what is asked for may be what is lost. */
	bool below = reader->skips && reader->wanted_by == WK_FROM_SEQUENCE_ID &&
	             gap->first_sequence_id + gap->count <= reader->wanted;
	if (gap->count <= 0 || below) { /* nothing of it is left, or wanted */
		reader->at = reader->gap_end;
		reader->in_gap = false;
		return WK_OK;
	}
	if (reader->records_only)
		return wk_fail(error, WK_DAMAGED,
		               "reading log %llu: %lld records from %lld on are lost, which an open accepted. An Arrow batch "
		               "has no place for that: take the gap with a plain read, then go on",
		               (unsigned long long)reader->state->id, (long long)gap->count, (long long)gap->first_sequence_id);
	wk_record out = {
	    .at = {reader->at, gap->first_sequence_id, -1},
	    .next = reader->gap_end,
	    .gap_count = (uint64_t)gap->count,
	    .kind = WK_RECORD_GAP,
	};
	wk_status status = make_room(reader, batch, NULL, error);
	if (status != WK_OK)
		return status;
	wk_batch_add(batch, &out);
	reader->next_sequence_id = gap->first_sequence_id + gap->count;
	reader->at = reader->gap_end;
	reader->in_gap = reader->fresh = false;
	return WK_OK;
}

static bool is_ended(wk_engine *engine, wk_reader *reader) {
	wk_engine_lock(engine);
	/* The mark is set when its record is accepted; the records before it may not be durable yet. */
	const wk_log_tail *tail = reader->state->tail;
	bool end_of_stream = reader->state->end_of_stream && (tail == NULL || tail->last_ticket <= engine->durable);
	wk_engine_unlock(engine);
	return reader->ended || !reader->follow || end_of_stream ||
	       (reader->has_end && wk_dlsn_compare(&reader->at, &reader->end) >= 0);
}

/* Waits for the durable point to move. */
static wk_status wait_for_more(wk_engine *engine, wk_reader *reader, uint32_t seen, uint64_t deadline_ns,
                               wk_error *error) {
	if (atomic_load(&reader->ns->closed))
		return wk_fail(error, WK_CLOSED, "the namespace was closed");
	uint64_t left = UINT64_MAX;
	if (deadline_ns != UINT64_MAX) {
		uint64_t now = wk_engine_now(engine);
		if (deadline_ns <= now)
			return wk_fail(error, WK_TIMEOUT, "following log %llu: nothing came within the time given",
			               (unsigned long long)reader->state->id);
		left = deadline_ns - now;
	}
	if (engine->follower != NULL) { /* the writer is another process: look, rather than be woken */
		wk_status status = wk_follower_wait(engine, left < FOLLOW_SLICE_NS ? left : FOLLOW_SLICE_NS);
		return status == WK_INTERRUPTED ? wk_fail(error, WK_INTERRUPTED, "following a log: interrupted") : WK_OK;
	}
	int result = wk_wait_word_sleep(&engine->tail, seen, left);
	return result == -EINTR ? wk_fail(error, WK_INTERRUPTED, "following a log: interrupted") : WK_OK;
}

static wk_status fill(wk_engine *engine, wk_reader *reader, wk_batch *batch, size_t max_records, size_t max_bytes,
                      wk_error *error) {
	wk_status status = WK_OK;
	if (reader->open) { /* an entry that the last call did not give to its end: the log may have been cut in it since */
		wk_engine_lock(engine);
		bool gone = wk_reader_is_gone(reader);
		wk_engine_unlock(engine);
		if (gone)
			wk_reader_drop_span(reader);
	}
	while (status == WK_OK && batch->count < max_records && (batch->count == 0 || batch->bytes < max_bytes)) {
		if (reader->has_end && wk_dlsn_compare(&reader->at, &reader->end) >= 0)
			return WK_END;
		if (!reader->open)
			status = wk_reader_open_entry(engine, reader, error);
		if (status == WK_OK && reader->skips && !reader->in_gap) {
			status = skip_records(engine, reader, error);
			if (status != WK_OK || !reader->open)
				continue;
		}
		if (status == WK_OK && reader->in_gap)
			status = take_gap(engine, reader, batch, error);
		else if (status == WK_OK)
			status = take_records(reader, batch, max_records, max_bytes, error);
	}
	return status;
}

wk_status wk_reader_next(wk_reader *reader, size_t max_records, size_t max_bytes, uint64_t timeout_ns, wk_batch **out,
                         wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter(reader->ns, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = reader->ns->engine;
	wk_batch *batch = wk_batch_new(engine->read_memory);
	uint64_t deadline = timeout_ns == 0 ? 0 : wk_deadline(engine, timeout_ns);
	max_records = max_records > 0 ? max_records : 1;
	for (;;) {
		if (batch == NULL) {
			status = wk_fail(error, WK_NO_MEMORY, "reading a log: no memory");
			break;
		}
		uint32_t seen = wk_wait_word_look(&engine->tail);
		bool looked = !reader->open;
		if (looked)
			status = wk_follower_refresh(engine, error);
		if (status == WK_OK)
			status = fill(engine, reader, batch, max_records, max_bytes, error);
		if (batch->count > 0) { /* what is there comes first; a failure is met again */
			status = WK_OK;
			break;
		}
		if (status != WK_END)
			break;
		if (!looked && !reader->open) /* there was nothing more in the entry: now it is time to look */
			continue;
		if (is_ended(engine, reader)) {
			/* the end of the stream may have come after the last look */
			status = wk_wait_word_look(&engine->tail) == seen || !reader->follow ? WK_END : WK_OK;
			if (status == WK_END)
				break;
			continue;
		}
		status = wait_for_more(engine, reader, seen, deadline, error);
		if (status != WK_OK)
			break;
	}
	wk_leave(reader->ns);
	if (status == WK_OK) {
		wk_error_clear(error);
		*out = batch;
	} else if (batch != NULL) {
		wk_batch_release(batch);
	}
	return status;
}

wk_status wk_reader_next_records(wk_reader *reader, size_t max_records, size_t max_bytes, uint64_t timeout_ns,
                                 wk_batch **batch, wk_error *error) {
	reader->records_only = true;
	wk_status status = wk_reader_next(reader, max_records, max_bytes, timeout_ns, batch, error);
	reader->records_only = false;
	return status;
}

wk_status wk_reader_next_arrow(wk_reader *reader, size_t max_records, size_t max_bytes, uint64_t timeout_ns,
                               void *schema, void *array, wk_error *error) {
	wk_batch *batch;
	wk_dlsn before = reader->at;
	bool fresh = reader->fresh, skips = reader->skips;
	int64_t next_sequence_id = reader->next_sequence_id;
	wk_status status = wk_reader_next_records(reader, max_records, max_bytes, timeout_ns, &batch, error);
	if (status != WK_OK)
		return status;
	status = wk_batch_to_arrow(batch, schema, array);
	wk_batch_release(batch);
	if (status == WK_OK)
		return WK_OK;
	wk_reader_drop_span(reader); /* nobody was given them: they come the next time */
	reader->at = before;
	reader->fresh = fresh;
	reader->skips = skips;
	reader->next_sequence_id = next_sequence_id;
	reader->ended = false;
	return wk_fail(error, status, "building an Arrow batch: %s", wk_status_text(status));
}
