#include "engine/claims.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/catalogue.h"
#include "engine/ledger.h"
#include "engine/loss.h"

wk_status wk_claims_add(wk_engine *engine, int64_t ledger_id, int64_t last_entry, uint32_t bytes) {
	if (engine->claims == NULL && (engine->claims = calloc(1, sizeof *engine->claims)) == NULL)
		return WK_NO_MEMORY;
	wk_claims *claims = engine->claims;
	assert(claims->count == 0 || claims->list[claims->count - 1].ledger_id <= ledger_id);
	if (claims->count == claims->capacity) {
		uint32_t capacity = claims->capacity == 0 ? 16 : claims->capacity * 2;
		wk_claim *list = realloc(claims->list, capacity * sizeof *list);
		if (list == NULL)
			return WK_NO_MEMORY;
		claims->list = list;
		claims->capacity = capacity;
	}
	claims->list[claims->count++] = (wk_claim){ledger_id, last_entry, bytes};
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
