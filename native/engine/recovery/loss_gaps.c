/* loss_gaps.c: what an open finds lost becomes gaps of logs, by the policy. */
#include <stdlib.h>

#include "engine/directory.h"
#include "engine/index.h"
#include "engine/recovery/loss.h"

/* ---- from holes to gaps ---- */

static wk_status note(wk_engine *engine, const wk_catalogue_record *record) {
	wk_loss *loss = engine->loss;
	if (loss->records_count == loss->records_capacity) {
		uint32_t capacity = loss->records_capacity == 0 ? 16 : loss->records_capacity * 2;
		wk_catalogue_record *records = realloc(loss->records, capacity * sizeof *records);
		if (records == NULL)
			return WK_NO_MEMORY;
		loss->records = records;
		loss->records_capacity = capacity;
	}
	loss->records[loss->records_count++] = *record;
	return WK_OK;
}

/* What is not in a gap of an earlier open already; that one's entries are its own. The hole ends at hole_last. */
static wk_status note_gap(wk_engine *engine, const wk_log_state *log, const wk_gap *gap, int64_t hole_last) {
	int64_t start = gap->first_sequence_id, end = start + gap->count;
	int64_t entry_id = gap->entry_id;
	const wk_gap *known;
	while (start < end && (known = wk_gap_of(log, start)) != NULL) {
		start = known->first_sequence_id + known->count;
		if (known->segment == gap->segment && known->last_entry_id >= entry_id)
			entry_id = known->last_entry_id < hole_last ? known->last_entry_id + 1 : hole_last;
	}
	/* A lost entry whose records were truncated, all of them: readers pass over it without a word. */
	bool passed = gap->count <= 0 && wk_gap_next_entry(log, gap->segment, gap->entry_id) != gap->entry_id;
	if (start >= end && !passed)
		return WK_OK;
	engine->report.lost_records += (uint64_t)(end - start);
	return note(engine, &(wk_catalogue_record){.type = WK_CATALOGUE_GAP,
	                                           .log_id = log->id,
	                                           .sequence_id = start,
	                                           .count = end - start,
	                                           .segment = gap->segment,
	                                           .entry_id = entry_id,
	                                           .last_entry_id = hole_last > entry_id ? hole_last : entry_id});
}

/* At most so many records stood in the lost entries first..last of the ledger. */
static int64_t records_lost(const wk_loss *loss, int64_t ledger_id, int64_t first, int64_t last) {
	int64_t count = 0, named = 0;
	for (uint32_t i = 0; i < loss->entries_count; i++) {
		const wk_lost_entry *entry = &loss->entries[i];
		if (entry->ledger_id == ledger_id && entry->entry_id >= first && entry->entry_id <= last) {
			count += entry->records_max;
			named++;
		}
	}
	return count + (last - first + 1 - named);
}

/* A log's first loss, for point_in_time. */
typedef struct cut {
	bool found;
	wk_gap at;
	int64_t hole_last;
} cut;

/*
 * The end of a segment under way is lost, from entry `lost` on: it is completed with what it held, so that those
 * sequence ids are not given again.
 */
static wk_status complete(wk_engine *engine, const wk_log_state *log, const wk_segment *segment, int64_t lost,
                          int64_t last_entry, int64_t end, int64_t txid) {
	const wk_dlsn *first = &log->first->dlsn; /* where the last entry is the first, the end is not before it */
	bool begins_there = first->segment == segment->segment && first->entry_id == last_entry;
	return note(engine, &(wk_catalogue_record){.type = WK_CATALOGUE_COMPLETE,
	                                           .log_id = log->id,
	                                           .segment = segment->segment,
	                                           .count = end - segment->first_sequence_id,
	                                           .entry_id = last_entry,
	                                           .slot = begins_there ? first->slot : 0,
	                                           .txid = txid,
	                                           .payload_bytes = wk_loss_payload_before(engine, segment, lost)});
}

/* One hole: entries first..last of the segment. */
static wk_status record_hole(wk_engine *engine, wk_log_state *log, wk_segment *segment, int64_t first, int64_t last,
                             int64_t segment_last, cut *pit, wk_error *error) {
	bool open = segment->records_count < 0;
	wk_gap gap;
	int64_t after, txid;
	wk_status status = wk_loss_around(engine, segment, log->first, first, segment_last,
	                                  open ? -1 : segment->first_sequence_id + segment->records_count, &gap, &after,
	                                  &txid, error);
	if (status != WK_OK)
		return status;
	if (after < 0 && open)
		gap.count = records_lost(engine->loss, segment->ledger_id, gap.entry_id, last);
	if (!pit->found)
		*pit = (cut){true, gap, last};
	if (engine->options.on_damage == WK_ON_DAMAGE_SKIP && note_gap(engine, log, &gap, last) != WK_OK)
		return WK_NO_MEMORY;
	int64_t ends = gap.first_sequence_id + gap.count;
	return after < 0 && open ? complete(engine, log, segment, gap.entry_id, last, ends, txid) : WK_OK;
}

/* Are the entries from `at` on lost, and up to where (not included)? What is found damaged only later is not. */
static wk_status look(wk_engine *engine, int64_t ledger_id, int64_t at, int64_t last, bool *lost, int64_t *end) {
	wk_stretch found;
	wk_status status = wk_lookup(engine, ledger_id, at, last, WK_LOOKUP_ALL, NULL, 0, &found, NULL);
	bool here = status == WK_OK ? found.file != NULL : status != WK_NOT_FOUND;
	wk_stretch_release(engine, &found);
	if (status != WK_OK && status != WK_NOT_FOUND && status != WK_DAMAGED && status != WK_IO)
		return status;
	if (status == WK_DAMAGED || status == WK_IO) /* a page of an index */
		found.last_entry = at;
	*end = found.last_entry < last ? found.last_entry + 1 : last + 1;
	*lost = !here;
	int64_t unreadable = here ? wk_loss_next_unreadable(engine->loss, ledger_id, at) : -1;
	if (unreadable == at) {
		*lost = true;
		*end = at + 1;
	} else if (unreadable >= 0 && unreadable < *end) {
		*end = unreadable;
	}
	return WK_OK;
}

static wk_status record_segment(wk_engine *engine, wk_log_state *log, wk_segment *segment, cut *pit, wk_error *error) {
	wk_ledger *ledger = wk_ledger_find(engine, segment->ledger_id);
	int64_t known = wk_loss_last(engine->loss, segment->ledger_id), last = ledger != NULL ? ledger->last_entry : -1;
	last = known > last ? known : last;
	if (wk_log_ends_too_early(log, segment, last))
		last = log->first->dlsn.entry_id; /* which was there */
	last = segment->records_count >= 0 ? segment->last_entry : last;
	int64_t at = log->first->dlsn.segment == segment->segment ? log->first->dlsn.entry_id : 0, end;
	for (int64_t first = -1; at <= last; at = end) {
		bool lost;
		wk_status status = look(engine, segment->ledger_id, at, last, &lost, &end);
		if (status != WK_OK)
			return status;
		if (lost && first < 0)
			first = at;
		if (first >= 0 && (!lost || end > last)) {
			status = record_hole(engine, log, segment, first, lost ? last : at - 1, last, pit, error);
			first = -1;
		}
		if (status != WK_OK)
			return status;
	}
	return WK_OK;
}

/* The whole log from its first loss on is given up; its ids end where they would have. */
static wk_status record_cut(wk_engine *engine, wk_log_state *log, const cut *pit, wk_error *error) {
	const wk_segment *segment = wk_log_last_segment(log);
	const wk_ledger *ledger = wk_ledger_find(engine, segment->ledger_id);
	int64_t end = -1, last = ledger != NULL ? ledger->last_entry : -1;
	wk_loss *loss = engine->loss;
	if (segment->records_count >= 0)
		end = segment->first_sequence_id + segment->records_count;
	for (uint32_t i = 0; i < loss->records_count; i++) /* its end was lost too */
		if (loss->records[i].type == WK_CATALOGUE_COMPLETE && loss->records[i].log_id == log->id)
			end = segment->first_sequence_id + loss->records[i].count;
	if (end < 0) {
		wk_gap behind;
		int64_t after, txid;
		wk_status status = wk_loss_around(engine, segment, log->first, last + 1, last, -1, &behind, &after, &txid,
		                                  error);
		if (status != WK_OK)
			return status;
		end = behind.first_sequence_id;
		status = complete(engine, log, segment, behind.entry_id, last, end, txid);
		if (status != WK_OK)
			return status;
	}
	wk_gap gap = pit->at;
	gap.count = end - gap.first_sequence_id;
	return note_gap(engine, log, &gap, pit->hole_last);
}

wk_status wk_loss_make_gaps(wk_engine *engine, wk_error *error) {
	wk_status status = WK_OK;
	wk_loss_sort(engine->loss);
	for (uint32_t i = 0; i < engine->by_id_capacity && status == WK_OK; i++) {
		wk_log_state *log = engine->logs_by_id[i];
		cut pit = {0};
		for (uint32_t s = 0; log != NULL && !log->deleted && s < log->segments_count && status == WK_OK; s++)
			status = record_segment(engine, log, &log->segments[s], &pit, error);
		if (status == WK_OK && pit.found && engine->options.on_damage == WK_ON_DAMAGE_POINT_IN_TIME)
			status = record_cut(engine, log, &pit, error);
	}
	return status == WK_NO_MEMORY ? wk_fail(error, status, "opening %s: no memory", engine->path) : status;
}
