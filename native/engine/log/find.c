/* find.c: from a number to a place: by binary search over segments, then over the entries of one. */
#include <stdlib.h>

#include "engine/catalogue.h"
#include "engine/directory.h"
#include "engine/follower.h"
#include "engine/index.h"
#include "engine/journal.h"
#include "engine/recovery.h"
#include "records/entry_records.h"

/* What is looked for: the first record whose key is at least `value`. */
typedef struct key {
	uint32_t by;
	int64_t value; /* by DLSN: the sequence id that goes with it; 0: not known */
	wk_dlsn dlsn;
} key;

typedef struct place { /* a segment's readable entries */
	wk_segment segment;
	int64_t first_entry, last_entry;
	wk_position log_first;
	bool skips; /* unreadable entries are accepted loss */
} place;

static int compare(const key *wanted, const wk_position *at) {
	if (wanted->by == WK_FIND_DLSN)
		return wk_dlsn_compare(&at->dlsn, &wanted->dlsn);
	int64_t value = wanted->by == WK_FIND_SEQUENCE_ID ? at->sequence_id : at->txid;
	return (value > wanted->value) - (value < wanted->value);
}

/*
 * The search need not look before `first`, a place's first record. Several records may have one txid, and the first of
 * them may stand in an earlier place; other keys are unique, and damage before the record that has the key is no reason
 * not to find it.
 */
static bool starts_at(const key *wanted, const wk_position *first) {
	bool unique = wanted->by != WK_FIND_TXID && wanted->by != WK_FIND_TIME_MS;
	return compare(wanted, first) < (unique ? 1 : 0);
}

/*
 * Reads one entry: *found is its first record at or after the key, or its last record with WK_END; *first its first
 * record.
 */
static wk_status search_entry(wk_engine *engine, const place *in, int64_t entry_id, const key *wanted,
                              wk_position *first, wk_position *found, wk_error *error) {
	wk_span *span = malloc(sizeof *span);
	if (span == NULL)
		return wk_fail(error, WK_NO_MEMORY, "searching a log: no memory");
	wk_status status = wk_read_entries(engine, in->segment.ledger_id, entry_id, entry_id, 1 << 20, span, error);
	if (status == WK_OK) {
		wk_entry_records records;
		wk_log_record record;
		bool hit = false, any = false;
		status = wk_entry_records_open(&records, span->buffer, span->buffer->bytes + span->entries[0].offset,
		                               span->entries[0].size);
		while (status == WK_OK && !hit && (status = wk_entry_records_next(&records, &record)) == WK_OK) {
			*found = (wk_position){{in->segment.segment, entry_id, records.slot - 1},
			                       in->segment.first_sequence_id + record.position - 1,
			                       record.txid};
			if (!any)
				*first = *found;
			any = true;
			hit = compare(wanted, found) >= 0;
		}
		wk_entry_records_close(&records);
		wk_buffer_release(span->buffer);
		if (status == WK_NO_MEMORY)
			wk_fail(error, status, "searching a log: no memory");
		else if (status != WK_OK && status != WK_END)
			status = wk_fail(error, WK_DAMAGED, "entry %lld of ledger %lld does not hold records of a log",
			                 (long long)entry_id, (long long)in->segment.ledger_id);
		else
			status = hit ? WK_OK : WK_END;
	}
	free(span);
	return status;
}

/*
 * Reads the entry at *at, or the next readable one up to `last`: damage elsewhere is no reason not to find what is
 * well.
 */
static wk_status probe(wk_engine *engine, const place *in, int64_t *at, int64_t last, const key *wanted,
                       wk_position *first, wk_position *found, wk_error *error) {
	wk_status status;
	while ((status = search_entry(engine, in, *at, wanted, first, found, error)) == WK_DAMAGED && *at < last)
		(*at)++;
	return status;
}

/* The last entry that the search need not look before; then the record in it, or the first of the next entry. */
static wk_status search_segment(wk_engine *engine, const place *in, const key *wanted, wk_position *found,
                                wk_error *error) {
	int64_t low = in->first_entry, high = in->last_entry;
	wk_position first;
	if (wanted->by == WK_FIND_DLSN && wanted->dlsn.segment == in->segment.segment) /* the key says which entry */
		low = high = wanted->dlsn.entry_id < low ? low : wanted->dlsn.entry_id > high ? high : wanted->dlsn.entry_id;
	while (low < high) {
		int64_t middle = low + (high - low + 1) / 2, at = middle;
		wk_status status = probe(engine, in, &at, high, wanted, &first, found, error);
		if (status != WK_OK && status != WK_END && status != WK_DAMAGED)
			return status;
		if (status != WK_DAMAGED && starts_at(wanted, &first))
			low = at;
		else
			high = middle - 1;
	}
	wk_status status = search_entry(engine, in, low, wanted, &first, found, error);
	if (status == WK_END && low < in->last_entry)
		status = search_entry(engine, in, ++low, wanted, &first, found, error);
	if (status == WK_DAMAGED && in->skips) { /* a reader that starts here yields the gap */
		wk_gap gap;
		int64_t after, txid;
		status = wk_loss_around(engine, &in->segment, &in->log_first, low, in->last_entry, -1, &gap, &after, &txid,
		                        error);
		*found = (wk_position){{in->segment.segment, low, 0}, gap.first_sequence_id, -1};
		if (status == WK_OK && after >= 0 && wanted->by == WK_FIND_SEQUENCE_ID &&
		    wanted->value >= gap.first_sequence_id + gap.count)
			status = search_entry(engine, in, after, wanted, &first, found, error);
	}
	return status;
}

/*
 * (locked) The segment where the search starts: the last one that it need not look before, else the first. WK_END:
 * there is none.
 */
static wk_status choose_segment(wk_engine *engine, wk_log_state *log, const key *wanted, uint32_t skip, place *in) {
	uint32_t at = 0;
	for (uint32_t low = 0, high = log->segments_count; low < high;) {
		uint32_t middle = (low + high) / 2;
		const wk_segment *segment = &log->segments[middle];
		wk_position first = {{segment->segment, 0, 0}, segment->first_sequence_id, segment->first_txid};
		if (starts_at(wanted, &first)) {
			at = middle;
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	for (at += skip; at < log->segments_count; at++) {
		in->segment = log->segments[at];
		const wk_ledger *ledger = wk_ledger_find(engine, in->segment.ledger_id);
		if (ledger == NULL || ledger->durable_entry < 0)
			continue;
		in->first_entry = ledger->first_live;
		in->log_first = *log->first;
		in->skips = engine->options.on_damage == WK_ON_DAMAGE_SKIP || log->gaps != NULL;
		/* A segment is completed when its record is accepted: its last entries may not be durable yet. */
		bool whole = in->segment.records_count >= 0 && in->segment.last_entry <= ledger->durable_entry;
		in->last_entry = whole ? in->segment.last_entry : ledger->durable_entry;
		return WK_OK;
	}
	return WK_END;
}

/* A reader that starts here yields the gap. */
static wk_position start_of(const wk_log_state *log, const wk_gap *gap) {
	bool cut = gap->first_sequence_id < log->first->sequence_id;
	return cut ? (wk_position){log->first->dlsn, log->first->sequence_id, -1}
	           : (wk_position){{gap->segment, gap->entry_id, 0}, gap->first_sequence_id, -1};
}

static wk_status find(wk_engine *engine, wk_log_state *log, const key *wanted, wk_position *at, wk_error *error) {
	wk_status status = wk_log_load_tail(engine, log, error);
	if (status != WK_OK)
		return status;
	if (wanted->by == WK_FIND_TXID || wanted->by == WK_FIND_TIME_MS) {
		if (wanted->by == WK_FIND_TIME_MS && log->txid_source == WK_TXID_APPLICATION)
			return wk_fail(error, WK_INVALID,
			               "finding by time in log %s: its txids are the application's own; find by txid", log->name);
	}
	wk_position first = log->first->dlsn.segment != 0 ? *log->first : (wk_position){{0, 0, 0}, 0, -1};
	bool before = wanted->by == WK_FIND_DLSN
	                  ? log->first->dlsn.segment != 0 && wk_dlsn_compare(&wanted->dlsn, &first.dlsn) < 0 &&
	                        wanted->value != first.sequence_id
	              : wanted->by == WK_FIND_SEQUENCE_ID ? wanted->value < first.sequence_id
	                                                  : false;
	if (before) {
		wk_fail(error, WK_TRUNCATED, "log %s was truncated: its first record is %lld", log->name,
		        (long long)first.sequence_id);
		if (error != NULL)
			error->sequence_id = first.sequence_id;
		return WK_TRUNCATED;
	}
	wk_position next = wk_log_next(log, &log->tail->durable);
	wk_gap covering;
	wk_dlsn end;
	const wk_gap *gap = wanted->by == WK_FIND_DLSN          ? wk_gap_at(engine, log, &wanted->dlsn, &covering, &end)
	                    : wanted->by == WK_FIND_SEQUENCE_ID ? wk_gap_of(log, wanted->value)
	                                                        : NULL;
	if (gap != NULL) {
		*at = start_of(log, gap);
		return WK_OK;
	}
	for (uint32_t skip = 0;; skip++) {
		place in;
		if (choose_segment(engine, log, wanted, skip, &in) != WK_OK)
			break;
		wk_engine_unlock(engine);
		wk_position found;
		status = search_segment(engine, &in, wanted, &found, error);
		wk_engine_lock(engine);
		if (log->deleted)
			return wk_log_check(engine, log, error);
		if (status == WK_NOT_FOUND) { /* truncated meanwhile: look again */
			skip = UINT32_MAX;
			continue;
		}
		if (status != WK_OK && status != WK_END)
			return status;
		if (status == WK_OK) {
			bool cut = wk_dlsn_compare(&found.dlsn, &log->first->dlsn) < 0;
			if (cut && wanted->by != WK_FIND_DLSN) { /* truncated: the first that is not */
				key first_left = {WK_FIND_DLSN, 0, log->first->dlsn};
				return find(engine, log, &first_left, at, error);
			}
			*at = cut ? *log->first : found;
			gap = at->sequence_id > log->first->sequence_id ? wk_gap_of(log, at->sequence_id - 1) : NULL;
			if (wanted->by != WK_FIND_TXID && wanted->by != WK_FIND_TIME_MS)
				gap = NULL; /* else what is looked for may be what is lost */
			if (gap == NULL)
				gap = wk_gap_at(engine, log, &at->dlsn, &covering, &end);
			if (gap != NULL)
				*at = start_of(log, gap);
			return WK_OK;
		}
	}
	wk_error_clear(error);
	*at = next;
	return WK_OK;
}

/* What is found, or is not any more, goes by where the log begins: that is durable, and did not change meanwhile. */
static wk_status find_durable(wk_engine *engine, wk_log_state *log, const key *wanted, wk_position *at,
                              wk_error *error) {
	for (;;) {
		wk_error_clear(error);
		wk_dlsn before = log->first->dlsn;
		wk_status status = find(engine, log, wanted, at, error);
		wk_status durable = WK_OK;
		if (status == WK_OK || status == WK_TRUNCATED)
			durable = wk_log_wait_first_durable(engine, log, status == WK_OK ? error : NULL);
		if (durable != WK_OK)
			return durable;
		if (wk_dlsn_compare(&before, &log->first->dlsn) == 0)
			return status;
	}
}

wk_status wk_log_find(wk_log *log, uint32_t by, int64_t value, const wk_dlsn *dlsn, wk_position *at, wk_error *error) {
	wk_error_clear(error);
	if (by > WK_FIND_DLSN || (by == WK_FIND_DLSN && dlsn == NULL))
		return wk_fail(error, WK_INVALID, "finding by %u: by sequence id, txid, time or DLSN", by);
	wk_status status = wk_enter_fresh(log->ns, error);
	if (status != WK_OK)
		return status;
	key wanted = {by, value, dlsn != NULL ? *dlsn : (wk_dlsn){0, 0, 0}};
	wk_engine *engine = log->ns->engine;
	int attempt = 0;
	do {
		wk_engine_lock(engine);
		log->state->handles++;
		status = find_durable(engine, log->state, &wanted, at, error);
		wk_log_state_release(engine, log->state);
		wk_engine_unlock(engine);
	} while (wk_follower_try_again(engine, &status, &attempt, error));
	wk_leave(log->ns);
	return status;
}
