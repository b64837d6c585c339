#include "engine/scrub.h"

#include <stdlib.h>

#include "engine/lookup.h"
#include "engine/range.h"
#include "engine/read.h"

enum { SCRUB_BYTES = 256 * 1024, IDLE_NS = 1000 * 1000 * 1000 };

uint64_t wk_scrub_deadline(const wk_engine *engine) {
	return engine->options.scrub_rate != 0 && !engine->failed ? engine->scrub.due_ns : UINT64_MAX;
}

/*
 * The next ledger in id order, from `from` on; NULL behind the last. Entries are visited by ledger: that reads what
 * is live, wherever it was moved to. (locked)
 */
static const wk_ledger *next_ledger(const wk_engine *engine, int64_t from) {
	const wk_ledger *best = NULL;
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++) {
		const wk_ledger *ledger = engine->ledgers[i];
		if (ledger != NULL && ledger->id >= from && ledger->durable_entry >= ledger->first_live &&
		    (best == NULL || ledger->id < best->id))
			best = ledger;
	}
	return best;
}

/* Entries of sealed files only: the rest was written a moment ago, and is still in the memtable. (locked) */
static bool place(const wk_engine *engine, int64_t *ledger_id, int64_t *first, int64_t *last) {
	for (int64_t from = engine->scrub.ledger_id;; from++) {
		const wk_ledger *ledger = next_ledger(engine, from);
		if (ledger == NULL)
			return false;
		int64_t start = ledger->id == engine->scrub.ledger_id && engine->scrub.entry_id > ledger->first_live
		                    ? engine->scrub.entry_id
		                    : ledger->first_live;
		const wk_range *ranges = wk_ranges(ledger);
		for (uint32_t r = 0; r < ledger->ranges_count; r++) {
			const wk_range *range = &ranges[r];
			if (range->file->state != WK_FILE_SEALED || range->last_entry < start)
				continue;
			*ledger_id = ledger->id;
			*first = start > range->first_entry ? start : range->first_entry;
			*last = range->last_entry;
			return true;
		}
		from = ledger->id;
	}
}

bool wk_scrub_step(wk_engine *engine) {
	uint64_t now = wk_engine_now(engine);
	if (engine->options.scrub_rate == 0 || engine->failed || engine->closing || now < engine->scrub.due_ns)
		return false;
	int64_t ledger_id, first, last;
	if (!place(engine, &ledger_id, &first, &last)) {
		engine->scrub.ledger_id = engine->scrub.entry_id = 0; /* all of it was read: again, from the start */
		engine->scrub.due_ns = now + IDLE_NS;
		return false;
	}
	wk_engine_unlock(engine);
	wk_span *span = malloc(sizeof *span);
	wk_error error;
	wk_status status = span != NULL ? wk_read_entries(engine, ledger_id, first, last, SCRUB_BYTES, span, &error)
	                                : WK_NO_MEMORY;
	uint64_t bytes = 0;
	int64_t next = first + 1;
	if (status == WK_OK) {
		for (uint32_t i = 0; i < span->count; i++)
			bytes += span->entries[i].size;
		next = span->entries[span->count - 1].entry_id + 1;
		wk_buffer_release(span->buffer);
	} else if (status == WK_NOT_FOUND) {
		wk_stretch hole; /* truncated meanwhile, or other bookies have it */
		if (wk_lookup(engine, ledger_id, first, last, WK_LOOKUP_ALL, NULL, 0, &hole, NULL) == WK_OK &&
		    hole.file == NULL)
			next = hole.last_entry < last ? hole.last_entry + 1 : last + 1;
		wk_stretch_release(engine, &hole);
	}
	free(span);
	wk_engine_lock(engine);
	if (status == WK_DAMAGED)
		engine->counters.scrub_damaged++;
	engine->scrub.ledger_id = ledger_id;
	engine->scrub.entry_id = next;
	engine->counters.scrubbed_bytes += bytes;
	engine->scrub.due_ns = now + (bytes + WK_IO_ALIGNMENT) * 1000000000u / engine->options.scrub_rate;
	return true;
}
