#include "engine/mover/mover_pieces.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/index.h"

uint32_t wk_victims_find(const wk_victims *victims, const wk_store_file *file) {
	uint32_t at = 0;
	while (at < victims->count && victims->files[at] != file)
		at++;
	return at;
}

static bool add_piece(wk_pieces *pieces, wk_piece found) {
	if (pieces->count == pieces->capacity) {
		size_t capacity = pieces->capacity == 0 ? 64 : pieces->capacity * 2;
		wk_piece *list = realloc(pieces->list, capacity * sizeof *list);
		if (list == NULL)
			return false;
		pieces->list = list;
		pieces->capacity = capacity;
	}
	pieces->list[pieces->count++] = found;
	return true;
}

static int by_place(const void *a, const void *b) {
	const wk_piece *x = a, *y = b;
	if (x->ledger_id != y->ledger_id)
		return x->ledger_id < y->ledger_id ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

static void put_in_order(wk_pieces *pieces) {
	if (pieces->count > 1)
		qsort(pieces->list, pieces->count, sizeof *pieces->list, by_place);
}

/* ---- by the ranges ---- */

/* Ranges that overlap are one piece: an entry log is written in the order of ids. */
static bool list_ledger(const wk_victims *victims, const wk_ledger *ledger, wk_pieces *pieces) {
	wk_piece *before = NULL;
	const wk_range *ranges = wk_ranges(ledger);
	for (uint32_t i = 0; i < ledger->ranges_count; i++) {
		const wk_range *range = &ranges[i];
		if (range->dead == range->count || wk_victims_find(victims, range->file) == victims->count)
			continue;
		if (before != NULL && range->first_entry <= before->last) {
			before->last = range->last_entry > before->last ? range->last_entry : before->last;
			continue;
		}
		if (!add_piece(pieces, (wk_piece){.ledger_id = ledger->id,
		                                  .first = range->first_entry,
		                                  .last = range->last_entry,
		                                  .next = range->first_entry}))
			return false;
		before = &pieces->list[pieces->count - 1];
	}
	return true;
}

bool wk_pieces_of_ranges(const wk_engine *engine, const wk_victims *victims, wk_pieces *pieces) {
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++)
		if (engine->ledgers[i] != NULL && !list_ledger(victims, engine->ledgers[i], pieces))
			return false;
	put_in_order(pieces);
	return true;
}

/* ---- by the footers ---- */

/* A span of a ledger in one victim. (no lock held) */
static bool list_span(wk_engine *engine, wk_pieces *pieces, int64_t ledger_id, int64_t first, int64_t last) {
	wk_engine_lock(engine);
	const wk_ledger *ledger = wk_ledger_find(engine, ledger_id);
	bool wanted = ledger != NULL && ledger->first_live <= last;
	wk_engine_unlock(engine);
	return !wanted ||
	       add_piece(pieces, (wk_piece){.ledger_id = ledger_id, .first = first, .last = last, .next = first});
}

static wk_status list_victim(wk_engine *engine, wk_store_file *file, wk_pieces *pieces, wk_error *error) {
	wk_run_cursor *cursor = calloc(1, sizeof *cursor);
	if (cursor == NULL)
		return WK_NO_MEMORY;
	cursor->file = file;
	cursor->end = file->footer.runs_count;
	wk_status status = WK_OK;
	const wk_footer_run *run;
	int64_t ledger_id = -1, first = 0, last = 0;
	while (status == WK_OK && (run = wk_run_next(engine, cursor, &status, error)) != NULL) {
		if (run->ledger_id != ledger_id) {
			if (ledger_id >= 0 && !list_span(engine, pieces, ledger_id, first, last))
				status = WK_NO_MEMORY;
			ledger_id = run->ledger_id;
			first = run->first_entry;
		}
		last = run->first_entry + run->count - 1;
	}
	if (status == WK_OK && ledger_id >= 0 && !list_span(engine, pieces, ledger_id, first, last))
		status = WK_NO_MEMORY;
	free(cursor);
	return status;
}

static void join(wk_pieces *pieces) {
	size_t kept = 0;
	put_in_order(pieces);
	for (size_t i = 0; i < pieces->count; i++) {
		const wk_piece *at = &pieces->list[i];
		wk_piece *before = kept > 0 ? &pieces->list[kept - 1] : NULL;
		if (before != NULL && before->ledger_id == at->ledger_id && at->first <= before->last)
			before->last = at->last > before->last ? at->last : before->last;
		else
			pieces->list[kept++] = *at;
	}
	pieces->count = kept;
}

int wk_pieces_of_footers(wk_engine *engine, const wk_victims *victims, wk_pieces *pieces) {
	for (uint32_t i = 0; i < victims->count; i++) {
		wk_error error = {0};
		wk_status status = list_victim(engine, victims->files[i], pieces, &error);
		if (status == WK_OK)
			continue;
		wk_engine_lock(engine);
		victims->files[i]->stuck |= wk_is_unreadable(status, &error);
		wk_engine_unlock(engine);
		return status == WK_NO_MEMORY ? -ENOMEM : -EIO;
	}
	join(pieces);
	return 0;
}

bool wk_piece_is_wanted(wk_engine *engine, wk_piece *piece) {
	wk_engine_lock(engine);
	const wk_ledger *ledger = wk_ledger_find(engine, piece->ledger_id);
	if (ledger != NULL && ledger->first_live > piece->next)
		piece->next = ledger->first_live;
	wk_engine_unlock(engine);
	return ledger != NULL && piece->next <= piece->last;
}

uint64_t wk_pieces_ledgers(const wk_pieces *pieces) {
	uint64_t ledgers = 0;
	for (size_t i = 0; i < pieces->count; i++)
		ledgers += i == 0 || pieces->list[i].ledger_id != pieces->list[i - 1].ledger_id;
	return ledgers;
}
