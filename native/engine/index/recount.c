#include "engine/index/recount.h"

#include <stdlib.h>

#include "engine/index/ledger.h"
#include "engine/index/lookup.h"
#include "engine/index/range.h"
#include "engine/index/store_file.h"

enum {
	RETRY_NS = 1000 * 1000 * 1000, /* where the machine refused */
	PAUSE_NS = 10 * 1000 * 1000    /* a log that is truncated as it goes may ask again at once */
};

/* Of first..last of the range, how many are dead. */
static wk_status count_stretches(wk_engine *engine, int64_t ledger_id, const wk_range *range, int64_t first,
                                 int64_t last, uint32_t *dead) {
	while (first <= last) {
		wk_stretch stretch;
		wk_status status = wk_lookup(engine, ledger_id, first, last, WK_LOOKUP_ALL, NULL, 0, &stretch, NULL);
		if (status != WK_OK)
			return status;
		if (stretch.file == NULL)
			return WK_NOT_FOUND; /* the range went meanwhile */
		if (stretch.file != range->file)
			*dead += (uint32_t)(stretch.last_entry - first + 1);
		first = stretch.last_entry + 1;
		wk_stretch_release(engine, &stretch);
	}
	return WK_OK;
}

/* No lock held. */
static wk_status count_dead(wk_engine *engine, int64_t ledger_id, const wk_range *range, int64_t first_live,
                            uint32_t *dead) {
	wk_run_cursor *cursor = calloc(1, sizeof *cursor);
	if (cursor == NULL)
		return WK_NO_MEMORY;
	cursor->file = range->file;
	cursor->next = range->start;
	cursor->end = range->start + range->runs_count;
	wk_footer_run all = {.first_entry = range->first_entry, .count = range->count};
	const wk_footer_run *run = &all;
	wk_status status = WK_OK;
	if (!wk_range_is_dense(range))
		run = wk_run_next(engine, cursor, &status, NULL);
	while (run != NULL && status == WK_OK) {
		int64_t first = run->first_entry, end = first + run->count;
		if (first < first_live) {
			int64_t live = first_live < end ? first_live : end;
			*dead += (uint32_t)(live - first);
			first = live;
		}
		status = count_stretches(engine, ledger_id, range, first, end - 1, dead);
		run = status == WK_OK && run != &all ? wk_run_next(engine, cursor, &status, NULL) : NULL;
	}
	free(cursor);
	return status;
}

/* The machine refused: once more, behind the others. (locked) */
static void try_later(wk_engine *engine, int64_t ledger_id, wk_range *range) {
	uint32_t last = engine->recounts_count;
	wk_ledger_recount_later(engine, ledger_id, range);
	engine->recount_due_ns = wk_engine_now(engine) + RETRY_NS;
	if (engine->recounts_count == last) /* no memory even for that */
		return;
	uint64_t file_id = engine->recounts[last].file_id;
	engine->recounts[last] = engine->recounts[0];
	engine->recounts[0].ledger_id = ledger_id;
	engine->recounts[0].file_id = file_id;
}

bool wk_recount_step(wk_engine *engine) {
	uint64_t now = wk_engine_now(engine);
	if (engine->recounts_count == 0 || now < engine->recount_due_ns)
		return false;
	engine->recounts_count--;
	int64_t ledger_id = engine->recounts[engine->recounts_count].ledger_id;
	wk_store_file *file = wk_store_file_find(engine, engine->recounts[engine->recounts_count].file_id);
	wk_ledger *ledger = file != NULL ? wk_ledger_find(engine, ledger_id) : NULL;
	wk_range *range = ledger != NULL ? wk_range_in(ledger, file) : NULL;
	if (range == NULL || range->open || !range->uncounted)
		return true;
	range->uncounted = false;
	range->changed = true;
	const wk_range before = *range;
	int64_t first_live = ledger->first_live;
	file->pins++;
	wk_engine_unlock(engine);
	uint32_t dead = 0;
	wk_status status = count_dead(engine, ledger_id, &before, first_live, &dead);
	wk_engine_lock(engine);
	file->pins--;
	engine->recount_due_ns = now + PAUSE_NS;
	ledger = wk_ledger_find(engine, ledger_id);
	range = ledger != NULL ? wk_range_in(ledger, file) : NULL;
	if (range == NULL || range->uncounted)
		return true; /* somebody noted already that it changed */
	if (status == WK_NO_MEMORY || status == WK_IO) {
		try_later(engine, ledger_id, range);
		return true;
	}
	if (status != WK_OK)
		return true; /* a damaged page: it stays as it is */
	if (range->dead == before.dead && range->count == before.count && range->start == before.start)
		wk_ledger_recounted(engine, ledger, range, dead);
	else
		wk_ledger_recount_later(engine, ledger_id, range);
	return true;
}
