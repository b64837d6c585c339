/* log_tail.c: where a log ends, read from its last entry when somebody first uses the log. */
#include <stdlib.h>

#include "core/bytes.h"
#include "engine/directory.h"
#include "engine/follower.h"
#include "engine/index.h"
#include "engine/recovery.h"
#include "records/entry_records.h"

typedef struct last_record {
	int64_t slot, position, txid, length, payload;
} last_record;

static wk_status read_last(wk_engine *engine, int64_t ledger_id, int64_t entry_id, last_record *last, wk_error *error) {
	wk_span *span = malloc(sizeof *span);
	if (span == NULL)
		return wk_fail(error, WK_NO_MEMORY, "reading the end of a log: no memory");
	wk_status status = wk_read_entries(engine, ledger_id, entry_id, entry_id, 1 << 20, span, error);
	if (status == WK_OK) {
		const uint8_t *entry = span->buffer->bytes + span->entries[0].offset;
		last->length = (int64_t)wk_load_be64(entry + 24);
		wk_entry_records records;
		wk_log_record record;
		status = wk_entry_records_open(&records, span->buffer, entry, span->entries[0].size);
		last->slot = -1;
		while (status == WK_OK && (status = wk_entry_records_next(&records, &record)) == WK_OK) {
			last->slot++;
			last->position = record.position;
			last->txid = record.txid;
		}
		last->payload = wk_segment_payload(entry, &records, last->position);
		wk_entry_records_close(&records);
		if (status == WK_NO_MEMORY)
			wk_fail(error, status, "reading the end of a log: no memory");
		else
			status = status == WK_END && last->slot >= 0
			             ? WK_OK
			             : wk_fail(error, status == WK_UNSUPPORTED ? status : WK_DAMAGED,
			                       "entry %lld of ledger %lld of %s does not hold records of a log",
			                       (long long)entry_id, (long long)ledger_id, engine->path);
		wk_buffer_release(span->buffer);
	}
	free(span);
	return status;
}

/* Nothing was ever written, or all of it was truncated together with its segments. */
static wk_position before_first(const wk_log_state *log) {
	bool cut = log->first->dlsn.segment != 0;
	return (wk_position){{0, -1, -1}, cut ? log->first->sequence_id - 1 : -1, cut ? log->first->txid : -1};
}

static wk_position end_of_completed(const wk_segment *segment) {
	return (wk_position){{segment->segment, segment->last_entry, segment->last_slot},
	                     segment->first_sequence_id + segment->records_count - 1,
	                     segment->last_txid};
}

/* A follower's log ends where its writer has got to since. */
static bool is_stale(wk_engine *engine, wk_log_state *log) {
	if (!engine->read_only)
		return false;
	const wk_segment *segment = wk_log_last_segment(log);
	const wk_ledger *ledger = segment != NULL ? wk_ledger_find(engine, segment->ledger_id) : NULL;
	if (segment == NULL)
		return false;
	int64_t entry_id = segment->records_count >= 0 ? segment->last_entry : ledger != NULL ? ledger->durable_entry : -1;
	return log->tail->last.dlsn.segment != segment->segment || log->tail->last.dlsn.entry_id != entry_id;
}

bool wk_log_ends_too_early(const wk_log_state *log, const wk_segment *segment, int64_t last_entry) {
	return segment->records_count < 0 && log->first->dlsn.segment == segment->segment &&
	       last_entry < log->first->dlsn.entry_id;
}

wk_status wk_log_load_tail(wk_engine *engine, wk_log_state *log, wk_error *error) {
	for (int attempt = 0;;) {
		wk_status status = wk_log_check(engine, log, error);
		if (status != WK_OK || (log->tail != NULL && !is_stale(engine, log)))
			return status;
		wk_segment *segment = wk_log_last_segment(log);
		wk_ledger *ledger = segment != NULL ? wk_ledger_find(engine, segment->ledger_id) : NULL;
		bool open = segment != NULL && segment->records_count < 0;
		int64_t last_entry = open && ledger != NULL ? (engine->read_only ? ledger->durable_entry : ledger->last_entry)
		                                            : -1;
		int64_t ledger_id = segment != NULL ? segment->ledger_id : -1;
		if (!engine->read_only && segment != NULL && wk_log_ends_too_early(log, segment, last_entry))
			return wk_fail(error, WK_DAMAGED,
			               "opening log %s: it was truncated at entry %lld of ledger %lld, but ends behind entry %lld: "
			               "a file is missing. Restore it from a backup; on_damage=skip goes on behind what is lost",
			               log->name, (long long)log->first->dlsn.entry_id, (long long)ledger_id,
			               (long long)last_entry);
		last_record last = {.slot = -1};
		if (last_entry >= 0) {
			const wk_segment copy = *segment;
			log->handles++; /* it stays while the lock is away */
			wk_engine_unlock(engine);
			status = read_last(engine, ledger_id, last_entry, &last, error);
			if (status == WK_NOT_FOUND)
				status = wk_fail(error, WK_DAMAGED, "reading the end of a log: entry %lld of ledger %lld is in no file",
				                 (long long)last_entry, (long long)ledger_id);
			if (wk_follower_try_again(engine, &status, &attempt, error)) {
				wk_error_clear(error);
				wk_engine_lock(engine);
				log->handles--;
				continue;
			}
			bool accepts = status == WK_DAMAGED && engine->options.on_damage == WK_ON_DAMAGE_SKIP;
			if (accepts && engine->read_only) { /* what a reader meets there is a gap */
				wk_gap gap;
				accepts = false;
				last = (last_record){.slot = 0};
				status = wk_loss_at_end(engine, log, &copy, last_entry, &gap, &last.txid, error);
				if (status == WK_OK)
					last.position = gap.first_sequence_id + gap.count - copy.first_sequence_id;
			} else if (accepts)
				status = wk_loss_accept_end(engine, log, &copy, last_entry, error);
			wk_engine_lock(engine);
			log->handles--;
			if (status != WK_OK)
				return status;
			if (accepts)
				continue; /* the log ends behind the gap now */
			if ((log->tail != NULL && !engine->read_only) || log->deleted)
				continue; /* somebody else was quicker */
			segment = wk_log_last_segment(log);
			ledger = wk_ledger_find(engine, ledger_id);
			if (segment == NULL || segment->ledger_id != ledger_id || ledger == NULL)
				continue; /* a follower's view has moved on */
		}
		wk_log_tail *tail = calloc(1, sizeof *tail);
		if (tail == NULL)
			return wk_fail(error, WK_NO_MEMORY, "opening log %s: no memory", log->name);
		if (last_entry >= 0) {
			tail->last = (wk_position){
			    {segment->segment, last_entry, last.slot}, segment->first_sequence_id + last.position - 1, last.txid};
			ledger->length = last.length;
			tail->segment_bytes = tail->durable_bytes = last.payload;
		} else if (open) { /* a segment without entries: cannot be written, but may be left by a damaged file */
			tail->last = segment > log->segments ? end_of_completed(segment - 1) : before_first(log);
			tail->last.sequence_id = segment->first_sequence_id - 1;
		} else {
			tail->last = segment != NULL ? end_of_completed(segment) : before_first(log);
		}
		tail->next_entry = last_entry + 1;
		tail->durable = tail->last;
		tail->durable_segment = segment != NULL ? segment->segment : 0;
		free(log->tail); /* a follower's, from before */
		log->tail = tail;
		return WK_OK;
	}
}
