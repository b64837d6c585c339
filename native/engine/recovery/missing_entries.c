#include "engine/recovery/missing_entries.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/catalogue.h"
#include "engine/index.h"
#include "engine/recovery/loss.h"

wk_status wk_missing_entries_add(wk_engine *engine, const wk_missing_range *known) {
	if (engine->missing_entries == NULL &&
	    (engine->missing_entries = calloc(1, sizeof *engine->missing_entries)) == NULL)
		return WK_NO_MEMORY;
	wk_missing_entries *entries = engine->missing_entries;
	assert(entries->count == 0 || entries->list[entries->count - 1].ledger_id <= known->ledger_id);
	if (entries->count == entries->capacity) {
		uint32_t capacity = entries->capacity == 0 ? 16 : entries->capacity * 2;
		wk_missing_range *list = realloc(entries->list, capacity * sizeof *list);
		if (list == NULL)
			return WK_NO_MEMORY;
		entries->list = list;
		entries->capacity = capacity;
	}
	entries->list[entries->count++] = *known;
	return WK_OK;
}

void wk_missing_entries_free(wk_engine *engine) {
	if (engine->missing_entries == NULL)
		return;
	free(engine->missing_entries->list);
	free(engine->missing_entries);
	engine->missing_entries = NULL;
}

/* The first range of this ledger, or of a later one. */
static uint32_t first_of(const wk_missing_entries *entries, int64_t ledger_id) {
	uint32_t low = 0, high = entries != NULL ? entries->count : 0;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (entries->list[middle].ledger_id < ledger_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int64_t wk_missing_entries_last(const wk_engine *engine, int64_t ledger_id) {
	const wk_missing_entries *entries = engine->missing_entries;
	int64_t last = -1;
	for (uint32_t i = first_of(entries, ledger_id);
	     entries != NULL && i < entries->count && entries->list[i].ledger_id == ledger_id; i++)
		last = entries->list[i].last_entry > last ? entries->list[i].last_entry : last;
	return last;
}

/* ---- what the index knew, and no file has ---- */

static wk_status report_missing(wk_engine *engine, const wk_log_state *log, const wk_missing_range *known,
                                int64_t first, int64_t end, wk_error *error) {
	bool there = wk_store_file_find(engine, known->file_id) != NULL;
	return wk_fail(error, WK_DAMAGED,
	               "opening %s: %s %s entries %lld to %lld of ledger %lld, which log %.80s needs. Nothing was changed. "
	               "Restore the file from a backup, or salvage the rest into a copy: `walkeeper recover %s "
	               "DESTINATION`",
	               engine->path, wk_file_name_of(known->file_id, known->kind).text,
	               there ? "does not hold" : "is missing, and with it", (long long)first, (long long)end - 1,
	               (long long)known->ledger_id, log->name, engine->path);
}

/*
 * One range of the segment's ledger, of which entries from `needed` to `last` count. What stood in the holes between, another
 * file had: those who read it are told.
 */
static wk_status check_known(wk_engine *engine, const wk_log_state *log, const wk_segment *segment,
                             const wk_missing_range *known, int64_t needed, int64_t last, bool accepts,
                             wk_error *error) {
	int64_t first = known->first_entry > needed ? known->first_entry : needed, end;
	wk_status status = WK_END;
	last = known->last_entry < last ? known->last_entry : last;
	for (; known->dense && (status = wk_hole_find(engine, log, segment, &first, last, &end, NULL)) == WK_OK;
	     first = end) {
		if (!accepts)
			return report_missing(engine, log, known, first, end, error);
		if (engine->loss == NULL && (engine->loss = wk_loss_new()) == NULL)
			return WK_NO_MEMORY;
		engine->report.lost_entries += (uint64_t)(end - first);
	}
	/* Where a page of an index is damaged, those who read it are told. */
	return status == WK_END || status == WK_DAMAGED || status == WK_IO ? WK_OK : status;
}

static wk_status check_segment(wk_engine *engine, const wk_log_state *log, const wk_segment *segment, bool accepts,
                               wk_error *error) {
	const wk_missing_entries *entries = engine->missing_entries;
	const wk_ledger *ledger = wk_ledger_find(engine, segment->ledger_id);
	int64_t needed = log->first->dlsn.segment == segment->segment ? log->first->dlsn.entry_id : 0, last = INT64_MAX;
	if (segment->records_count >= 0)
		last = segment->last_entry;
	else if (accepts) /* what is lost behind that, wk_missing_entries_apply says */
		last = ledger != NULL ? ledger->last_entry : -1;
	wk_status status = log->first->dlsn.segment > segment->segment ? WK_END : WK_OK;
	for (uint32_t i = first_of(entries, segment->ledger_id);
	     status == WK_OK && i < entries->count && entries->list[i].ledger_id == segment->ledger_id; i++)
		status = check_known(engine, log, segment, &entries->list[i], needed, last, accepts, error);
	return status == WK_END ? WK_OK : status;
}

wk_status wk_missing_entries_check(wk_engine *engine, bool accepts, wk_error *error) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; engine->missing_entries != NULL && i < engine->by_id_capacity && status == WK_OK; i++) {
		const wk_log_state *log = engine->logs_by_id[i];
		for (uint32_t s = 0; log != NULL && !log->deleted && s < log->segments_count && status == WK_OK; s++)
			status = check_segment(engine, log, &log->segments[s], accepts, error);
	}
	return status;
}

/* ---- ends of logs ---- */

/* Not more records than bytes for their heads stood in the entries behind `last`. */
static wk_status lose_behind(wk_engine *engine, int64_t ledger_id, int64_t last) {
	if (engine->loss == NULL && (engine->loss = wk_loss_new()) == NULL)
		return WK_NO_MEMORY;
	const wk_missing_entries *entries = engine->missing_entries;
	wk_status status = WK_OK;
	for (uint32_t i = first_of(entries, ledger_id);
	     i < entries->count && entries->list[i].ledger_id == ledger_id && status == WK_OK; i++) {
		const wk_missing_range *known = &entries->list[i];
		if (known->last_entry <= last)
			continue;
		int64_t records = known->bytes / WK_RECORD_HEADER_SIZE;
		wk_lost_entry lost = {
		    .ledger_id = ledger_id, .entry_id = known->last_entry, .records_max = records > 0 ? records : 1};
		engine->report.lost_entries++;
		status = wk_loss_add(engine->loss, &lost);
	}
	return status;
}

/* Only the segment under way: of one that is completed the catalogue says where it ends. */
static wk_status apply_log(wk_engine *engine, wk_log_state *log, bool accepts) {
	const wk_segment *open = wk_log_open_segment(log);
	int64_t known_last = open != NULL ? wk_missing_entries_last(engine, open->ledger_id) : -1;
	int64_t needed = 0;
	if (open == NULL || known_last < 0 || log->first->dlsn.segment > open->segment)
		return WK_OK;
	if (log->first->dlsn.segment == open->segment)
		needed = log->first->dlsn.entry_id;
	wk_ledger *ledger = wk_ledger_find(engine, open->ledger_id);
	int64_t last = ledger != NULL ? ledger->last_entry : -1;
	if (known_last <= last || known_last < needed)
		return WK_OK;
	if (accepts)
		return lose_behind(engine, open->ledger_id, last);
	ledger = wk_ledger_get(engine, open->ledger_id);
	if (ledger == NULL)
		return WK_NO_MEMORY;
	ledger->last_entry = ledger->durable_entry = known_last;
	return WK_OK;
}

wk_status wk_missing_entries_apply(wk_engine *engine, bool accepts) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; engine->missing_entries != NULL && i < engine->by_id_capacity && status == WK_OK; i++) {
		wk_log_state *log = engine->logs_by_id[i];
		if (log != NULL && !log->deleted)
			status = apply_log(engine, log, accepts);
	}
	return status;
}
