/* reader_entries.c: which entries stand where the reader is, and reading them. */
#include "engine/follower.h"
#include "engine/index.h"
#include "engine/log/reader.h"
#include "engine/recovery.h"

enum { READ_BYTES = 1 << 20 };

void wk_reader_drop_span(wk_reader *reader) {
	if (reader->open)
		wk_entry_records_close(&reader->records);
	reader->open = false;
	wk_read_memory_drop(reader->memory, reader->span.buffer);
	wk_buffer_release(reader->span.buffer);
	reader->span.buffer = NULL;
	reader->span.count = reader->span_next = 0;
}

static wk_status truncated(const wk_reader *reader, wk_error *error) {
	const wk_position *first = reader->state->first;
	wk_fail(error, WK_TRUNCATED,
	        "reading log %s at (%lld, %lld, %lld): it was truncated, its first record is %lld at (%lld, %lld, %lld)",
	        reader->state->name, (long long)reader->at.segment, (long long)reader->at.entry_id,
	        (long long)reader->at.slot, (long long)first->sequence_id, (long long)first->dlsn.segment,
	        (long long)first->dlsn.entry_id, (long long)first->dlsn.slot);
	if (error != NULL)
		error->sequence_id = first->sequence_id;
	return WK_TRUNCATED;
}

/*
 * (locked) All before this first record of the log was given already (a reader behind a segment's last record stands in
 * another place by its DLSN), or below what the reader asked for: it misses nothing. Several records may have one txid.
 */
static bool is_below(const wk_reader *reader, const wk_position *first) {
	if (reader->next_sequence_id >= first->sequence_id)
		return true;
	if (!reader->skips)
		return false;
	return reader->wanted_by == WK_FROM_SEQUENCE_ID ? first->sequence_id <= reader->wanted
	                                                : first->txid >= 0 && first->txid < reader->wanted;
}

/*
 * (locked) Segments begin and end when their record is accepted. Where a reader stands is told, so it goes into one only
 * once a crash does not take it back: it would stand behind the records that then come in the segment before.
 */
static bool is_begun(const wk_engine *engine, const wk_log_state *log, const wk_segment *segment) {
	if (engine->read_only || log->tail == NULL)
		return true;
	return segment < log->segments + log->segments_count ? segment->segment <= log->tail->durable_segment
	                                                     : log->tail->last_ticket <= engine->durable;
}

/*
 * (locked) Which entries to read next. WK_END: nothing more now. Moves reader->at over the ends of segments.
 */
static wk_status next_entries(wk_engine *engine, wk_reader *reader, wk_segment *segment, int64_t *last,
                              wk_error *error) {
	wk_log_state *log = reader->state;
	wk_status status = wk_log_check(engine, log, error);
	while (status == WK_OK && wk_dlsn_compare(&reader->at, &log->first->dlsn) < 0) {
		wk_dlsn first = log->first->dlsn;
		status = wk_log_wait_first_durable(engine, log, error); /* no crash brings back what it passes over */
		bool still = wk_dlsn_compare(&first, &log->first->dlsn) == 0;
		if (status == WK_OK && still && !reader->fresh && !is_below(reader, log->first))
			return truncated(reader, error);
		if (status == WK_OK && still)
			reader->at = first;
		if (status == WK_OK)
			status = wk_log_check(engine, log, error);
	}
	if (status != WK_OK)
		return status;
	for (;;) {
		const wk_segment *found = wk_log_segment_at(log, reader->at.segment);
		if (found == NULL || (found->segment > reader->at.segment && !is_begun(engine, log, found)))
			return WK_END;
		if (found->segment > reader->at.segment)
			reader->at = (wk_dlsn){found->segment, 0, 0};
		reader->in_gap = wk_gap_at(engine, log, &reader->at, &reader->gap, &reader->gap_end) != NULL;
		if (reader->in_gap)
			return WK_OK;
		found = wk_log_segment_at(log, reader->at.segment); /* looking for a gap may have dropped the lock */
		if (found == NULL || found->segment > reader->at.segment)
			continue;
		const wk_ledger *ledger = wk_ledger_find(engine, found->ledger_id);
		int64_t durable = ledger != NULL ? ledger->durable_entry : -1;
		bool completed = found->records_count >= 0;
		*last = completed ? found->last_entry : durable;
		bool behind_last = reader->at.entry_id == found->last_entry && reader->at.slot > found->last_slot;
		if (completed && (reader->at.entry_id > found->last_entry || behind_last)) {
			if (!is_begun(engine, log, found + 1))
				return WK_END;
			reader->at = (wk_dlsn){found->segment + 1, 0, 0};
			continue;
		}
		if (reader->at.entry_id > durable)
			return WK_END;
		int64_t lost = wk_gap_next_entry(log, found->segment, reader->at.entry_id);
		if (lost <= *last) /* what stands behind the start of a gap may have been given up, and still be there */
			*last = lost - 1;
		*segment = *found;
		return WK_OK;
	}
}

/*
 * Accepted loss that nobody recorded, met under on_damage=skip: the entry cannot be read. WK_NOT_FOUND: where it ends
 * is not known.
 */
static wk_status step_over(wk_engine *engine, wk_reader *reader, const wk_segment *segment, int64_t last,
                           wk_error *error) {
	wk_log_state *log = reader->state;
	int64_t after, txid, end = -1;
	wk_engine_lock(engine);
	wk_position first = *log->first;
	const struct wk_gaps *gaps = log->gaps;
	reader->gap_end = (wk_dlsn){segment->segment, last + 1, 0};
	for (uint32_t i = 0; gaps != NULL && i < gaps->count; i++)
		if (gaps->list[i].segment == segment->segment && gaps->list[i].entry_id == last + 1)
			end = gaps->list[i].first_sequence_id;
	if (end < 0 && segment->records_count >= 0)
		end = segment->first_sequence_id + segment->records_count;
	else if (end < 0 && log->tail != NULL)
		end = log->tail->durable.sequence_id + 1;
	wk_engine_unlock(engine);
	wk_status status = wk_loss_around(engine, segment, &first, reader->at.entry_id, last, end, &reader->gap, &after,
	                                  &txid, error);
	if (status != WK_OK)
		return status;
	if (after >= 0)
		reader->gap_end.entry_id = after;
	end = reader->gap.first_sequence_id + reader->gap.count;
	wk_engine_lock(engine);
	for (const wk_gap *known; (known = wk_gap_of(log, reader->gap.first_sequence_id)) != NULL;) /* already yielded */
		reader->gap.first_sequence_id = known->first_sequence_id + known->count;
	wk_engine_unlock(engine);
	reader->gap.count = end - reader->gap.first_sequence_id;
	reader->in_gap = reader->gap.count > 0 || after >= 0;
	return reader->in_gap ? WK_OK : WK_NOT_FOUND;
}

/* The last entry of the log may be what is damaged: where the loss ends is where the log does. Whether that is news. */
static bool learns_end(wk_engine *engine, wk_log_state *log, const wk_segment *segment) {
	if (segment->records_count >= 0)
		return false;
	wk_engine_lock(engine);
	bool learnt = log->tail == NULL && wk_log_load_tail(engine, log, NULL) == WK_OK && log->tail != NULL;
	wk_engine_unlock(engine);
	return learnt;
}

/*
 * Reads the entries from reader->at on. What was truncated or moved between the look and the read is looked up again;
 * only what stays unreadable is damage. A follower's look may be an old one: its writer has recycled the file since
 * (storage rule 26).
 */
static wk_status read_ahead(wk_engine *engine, wk_reader *reader, wk_error *error) {
	wk_dlsn before = {-1, -1, -1};
	for (int attempt = 0;;) {
		wk_segment segment;
		int64_t last = -1;
		wk_engine_lock(engine);
		wk_status status = next_entries(engine, reader, &segment, &last, error);
		wk_engine_unlock(engine);
		if (status != WK_OK || reader->in_gap)
			return status;
		status = wk_read_entries(engine, segment.ledger_id, reader->at.entry_id, last, READ_BYTES, &reader->span,
		                         error);
		if (status == WK_OK) {
			wk_read_memory_hold(reader->memory, reader->span.buffer);
			reader->span_next = 0;
			reader->span_segment = segment.segment;
			reader->first_sequence_id = segment.first_sequence_id;
			return WK_OK;
		}
		bool moved = wk_dlsn_compare(&before, &reader->at) != 0;
		before = reader->at;
		attempt = moved ? 0 : attempt;
		if (wk_follower_try_again(engine, &status, &attempt, error)) {
			wk_error_clear(error);
			continue;
		}
		if (status == WK_DAMAGED && engine->options.on_damage == WK_ON_DAMAGE_SKIP) {
			wk_error local;
			if (learns_end(engine, reader->state, &segment))
				continue;
			wk_status stepped = step_over(engine, reader, &segment, last, &local);
			return stepped == WK_OK ? WK_OK : status;
		}
		if (status != WK_NOT_FOUND || !moved)
			return status == WK_NOT_FOUND ? wk_fail(error, WK_DAMAGED, "entry %lld of ledger %lld is missing",
			                                        (long long)reader->at.entry_id, (long long)segment.ledger_id)
			                              : status;
		wk_error_clear(error);
	}
}

bool wk_reader_is_gone(const wk_reader *reader) {
	return reader->state->deleted || wk_dlsn_compare(&reader->at, &reader->state->first->dlsn) < 0;
}

wk_status wk_reader_open_entry(wk_engine *engine, wk_reader *reader, wk_error *error) {
	if (reader->span_next < reader->span.count &&
	    reader->span.entries[reader->span_next].entry_id == reader->at.entry_id &&
	    reader->span_segment == reader->at.segment) {
		/* read ahead already; but not past a truncation */
		wk_engine_lock(engine);
		bool gone = wk_reader_is_gone(reader);
		wk_engine_unlock(engine);
		if (gone)
			wk_reader_drop_span(reader);
	} else {
		wk_reader_drop_span(reader);
	}
	if (reader->span.buffer == NULL) {
		wk_status status = read_ahead(engine, reader, error);
		if (status != WK_OK || reader->in_gap)
			return status;
	}
	const wk_span_entry *entry = &reader->span.entries[reader->span_next];
	wk_status status = wk_entry_records_open(&reader->records, reader->span.buffer,
	                                         reader->span.buffer->bytes + entry->offset, entry->size);
	if (status != WK_OK)
		return wk_fail(error, status == WK_CORRUPT ? WK_DAMAGED : status,
		               "entry %lld of segment %lld of log %llu cannot be opened: %s", (long long)entry->entry_id,
		               (long long)reader->span_segment, (unsigned long long)reader->state->id, wk_status_text(status));
	reader->open = true;
	return WK_OK;
}

void wk_reader_close_entry(wk_reader *reader) {
	wk_entry_records_close(&reader->records);
	reader->open = false;
	reader->span_next++;
	reader->at = (wk_dlsn){reader->at.segment, reader->at.entry_id + 1, 0};
}
