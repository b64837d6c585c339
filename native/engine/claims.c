#include "engine/claims.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/catalogue.h"
#include "engine/hole.h"
#include "engine/ledger.h"
#include "engine/loss.h"
#include "engine/store_file.h"

wk_status wk_claims_add(wk_engine *engine, const wk_claim *claim) {
	if (engine->claims == NULL && (engine->claims = calloc(1, sizeof *engine->claims)) == NULL)
		return WK_NO_MEMORY;
	wk_claims *claims = engine->claims;
	assert(claims->count == 0 || claims->list[claims->count - 1].ledger_id <= claim->ledger_id);
	if (claims->count == claims->capacity) {
		uint32_t capacity = claims->capacity == 0 ? 16 : claims->capacity * 2;
		wk_claim *list = realloc(claims->list, capacity * sizeof *list);
		if (list == NULL)
			return WK_NO_MEMORY;
		claims->list = list;
		claims->capacity = capacity;
	}
	claims->list[claims->count++] = *claim;
	return WK_OK;
}

void wk_claims_free(wk_engine *engine) {
	if (engine->claims == NULL)
		return;
	free(engine->claims->list);
	free(engine->claims);
	engine->claims = NULL;
}

/* The first claim of this ledger, or of a later one. */
static uint32_t first_of(const wk_claims *claims, int64_t ledger_id) {
	uint32_t low = 0, high = claims != NULL ? claims->count : 0;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (claims->list[middle].ledger_id < ledger_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int64_t wk_claims_last(const wk_engine *engine, int64_t ledger_id) {
	const wk_claims *claims = engine->claims;
	int64_t last = -1;
	for (uint32_t i = first_of(claims, ledger_id);
	     claims != NULL && i < claims->count && claims->list[i].ledger_id == ledger_id; i++)
		last = claims->list[i].last_entry > last ? claims->list[i].last_entry : last;
	return last;
}

/* ---- what is claimed, and in no file ---- */

static wk_status report_missing(wk_engine *engine, const wk_log_state *log, const wk_claim *claim, int64_t first,
                                int64_t end, wk_error *error) {
	bool there = wk_store_file_find(engine, claim->file_id) != NULL;
	return wk_fail(error, WK_DAMAGED,
	               "opening %s: %s %s entries %lld to %lld of ledger %lld, which log %.80s needs. Nothing was changed. "
	               "Restore the file from a backup, or salvage the rest into a copy: `walkeeper recover %s "
	               "DESTINATION`",
	               engine->path, wk_file_name_of(claim->file_id, claim->kind).text,
	               there ? "does not hold" : "is missing, and with it", (long long)first, (long long)end - 1,
	               (long long)claim->ledger_id, log->name, engine->path);
}

/*
 * One claim on the segment, of which entries from `needed` to `last` count. What stood in the holes between, another
 * file had: those who read it are told.
 */
static wk_status check_claim(wk_engine *engine, const wk_log_state *log, const wk_segment *segment,
                             const wk_claim *claim, int64_t needed, int64_t last, bool accepts, wk_error *error) {
	int64_t first = claim->first_entry > needed ? claim->first_entry : needed, end;
	wk_status status = WK_END;
	last = claim->last_entry < last ? claim->last_entry : last;
	for (; claim->dense && (status = wk_hole_find(engine, log, segment, &first, last, &end, NULL)) == WK_OK;
	     first = end) {
		if (!accepts)
			return report_missing(engine, log, claim, first, end, error);
		if (engine->loss == NULL && (engine->loss = wk_loss_new()) == NULL)
			return WK_NO_MEMORY;
		engine->report.lost_entries += (uint64_t)(end - first);
	}
	/* Where a page of an index is damaged, those who read it are told. */
	return status == WK_END || status == WK_DAMAGED || status == WK_IO ? WK_OK : status;
}

static wk_status check_segment(wk_engine *engine, const wk_log_state *log, const wk_segment *segment, bool accepts,
                               wk_error *error) {
	const wk_claims *claims = engine->claims;
	const wk_ledger *ledger = wk_ledger_find(engine, segment->ledger_id);
	int64_t needed = log->first->dlsn.segment == segment->segment ? log->first->dlsn.entry_id : 0, last = INT64_MAX;
	if (segment->records_count >= 0)
		last = segment->last_entry;
	else if (accepts) /* what is lost behind that, wk_claims_settle says */
		last = ledger != NULL ? ledger->last_entry : -1;
	wk_status status = log->first->dlsn.segment > segment->segment ? WK_END : WK_OK;
	for (uint32_t i = first_of(claims, segment->ledger_id);
	     status == WK_OK && i < claims->count && claims->list[i].ledger_id == segment->ledger_id; i++)
		status = check_claim(engine, log, segment, &claims->list[i], needed, last, accepts, error);
	return status == WK_END ? WK_OK : status;
}

wk_status wk_claims_check(wk_engine *engine, bool accepts, wk_error *error) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; engine->claims != NULL && i < engine->by_id_capacity && status == WK_OK; i++) {
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
	const wk_claims *claims = engine->claims;
	wk_status status = WK_OK;
	for (uint32_t i = first_of(claims, ledger_id);
	     i < claims->count && claims->list[i].ledger_id == ledger_id && status == WK_OK; i++) {
		const wk_claim *claim = &claims->list[i];
		if (claim->last_entry <= last)
			continue;
		int64_t records = claim->bytes / WK_RECORD_HEADER_SIZE;
		wk_lost_entry lost = {
		    .ledger_id = ledger_id, .entry_id = claim->last_entry, .records_max = records > 0 ? records : 1};
		engine->report.lost_entries++;
		status = wk_loss_add(engine->loss, &lost);
	}
	return status;
}

/* Only the segment under way: of one that is completed the catalogue says where it ends. */
static wk_status settle_log(wk_engine *engine, wk_log_state *log, bool accepts) {
	const wk_segment *open = wk_log_open_segment(log);
	int64_t claimed = open != NULL ? wk_claims_last(engine, open->ledger_id) : -1;
	int64_t needed = 0;
	if (open == NULL || claimed < 0 || log->first->dlsn.segment > open->segment)
		return WK_OK;
	if (log->first->dlsn.segment == open->segment)
		needed = log->first->dlsn.entry_id;
	wk_ledger *ledger = wk_ledger_find(engine, open->ledger_id);
	int64_t last = ledger != NULL ? ledger->last_entry : -1;
	if (claimed <= last || claimed < needed)
		return WK_OK;
	if (accepts)
		return lose_behind(engine, open->ledger_id, last);
	ledger = wk_ledger_get(engine, open->ledger_id);
	if (ledger == NULL)
		return WK_NO_MEMORY;
	ledger->last_entry = ledger->durable_entry = claimed;
	return WK_OK;
}

wk_status wk_claims_settle(wk_engine *engine, bool accepts) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; engine->claims != NULL && i < engine->by_id_capacity && status == WK_OK; i++) {
		wk_log_state *log = engine->logs_by_id[i];
		if (log != NULL && !log->deleted)
			status = settle_log(engine, log, accepts);
	}
	return status;
}
