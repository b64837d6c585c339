#include "engine/check/scrub.h"

#include <stdlib.h>

#include "engine/index.h"

enum { SCRUB_BYTES = 256 * 1024, IDLE_NS = 1000 * 1000 * 1000, LOOKS_MAX = 256 };

uint64_t wk_scrub_deadline(const wk_engine *engine) {
	return engine->options.scrub_rate != 0 && !engine->failed ? engine->scrub.due_ns : UINT64_MAX;
}

typedef enum place { FOUND, LATER, OUT, END } place;

/* The range that is read from `start` on: the newest sealed one over it. Otherwise where there is more, *next. */
static const wk_range *range_from(const wk_ledger *ledger, int64_t start, int64_t *next) {
	wk_range *over[WK_OVER_MAX];
	uint32_t count = wk_ranges_over(ledger, start, wk_rank_highest, over);
	const wk_range *behind = wk_range_behind(ledger, start);
	*next = behind != NULL ? behind->first_entry : INT64_MAX;
	for (uint32_t i = 0; i < count; i++) {
		if (over[i]->file->state == WK_FILE_SEALED)
			return over[i];
		if (over[i]->last_entry < *next)
			*next = over[i]->last_entry + 1;
	}
	return NULL;
}

/* (locked, dropped) The ranges of the ledger that it has come to: in memory now, or damaged, and the next one's turn. */
static void bring(wk_engine *engine) {
	wk_ledger *ledger;
	wk_status status = wk_ranges_bring(engine, engine->scrub.ledger_id, engine->scrub.entry_id, &ledger, NULL);
	if (status == WK_OK)
		return;
	engine->counters.scrub_damaged += status == WK_DAMAGED;
	engine->scrub.slot++;
}

/*
 * The next entries of a sealed file; the rest was written a moment ago, and is still in the memtable. Entries are visited
 * by ledger: that reads what is live, wherever it was moved to. Ledgers are visited as they stand in the table, so that
 * going on where the last step ended costs nothing: one that moves meanwhile (the table grows, another ledger goes) is
 * read again, or in the next round. At most LOOKS_MAX ledgers and ranges are looked at under the lock. (locked)
 */
static place find_place(wk_engine *engine, int64_t *ledger_id, int64_t *first, int64_t *last) {
	uint32_t *looks = &engine->scrub.looks;
	for (*looks = 0; engine->scrub.slot < engine->ledgers_capacity; engine->scrub.slot++) {
		if (++*looks > LOOKS_MAX)
			return LATER;
		const wk_ledger *ledger = engine->ledgers[engine->scrub.slot];
		if (ledger == NULL || ledger->durable_entry < ledger->first_live)
			continue;
		int64_t start = ledger->id == engine->scrub.ledger_id && engine->scrub.entry_id > ledger->first_live
		                    ? engine->scrub.entry_id
		                    : ledger->first_live;
		for (int64_t next; start <= ledger->last_entry; start = next) {
			engine->scrub.ledger_id = ledger->id;
			engine->scrub.entry_id = start;
			if (++*looks > LOOKS_MAX)
				return LATER;
			if (wk_ranges_are_out(ledger, start))
				return OUT;
			const wk_range *range = range_from(ledger, start, &next);
			if (range == NULL)
				continue;
			*ledger_id = ledger->id;
			*first = start;
			*last = range->last_entry;
			return FOUND;
		}
	}
	return END;
}

bool wk_scrub_step(wk_engine *engine) {
	uint64_t now = wk_engine_now(engine);
	if (engine->options.scrub_rate == 0 || engine->failed || engine->closing || now < engine->scrub.due_ns)
		return false;
	int64_t ledger_id, first, last;
	place found;
	while ((found = find_place(engine, &ledger_id, &first, &last)) == OUT)
		bring(engine); /* at once: the keeper's next sweep may have them out again */
	if (found == LATER)
		return true;    /* the lock is let go in between */
	if (found == END) { /* all of it was read: again, from the start */
		engine->scrub.ledger_id = engine->scrub.entry_id = 0;
		engine->scrub.slot = 0;
		engine->scrub.due_ns = now + IDLE_NS;
		return false;
	}
	wk_engine_unlock(engine);
	wk_span *span = malloc(sizeof *span);
	wk_error error = {0};
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
	if (wk_is_unreadable(status, &error))
		engine->counters.scrub_damaged++;
	engine->scrub.ledger_id = ledger_id;
	engine->scrub.entry_id = next;
	engine->counters.scrubbed_bytes += bytes;
	engine->scrub.due_ns = now + (bytes + WK_IO_ALIGNMENT) * 1000000000u / engine->options.scrub_rate;
	return true;
}
