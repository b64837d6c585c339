/*
 * range.h: the ranges of one ledger: for each file that holds entries of it, which span of ids they are in. Private;
 * under the engine's lock.
 *
 * Sorted by first entry, then file. As a rule ranges follow one another; where entries come out of order across two
 * files, or were moved, they overlap, and an entry may be in any of those that span its id. Then a tree over their
 * last entries finds these without looking at the others.
 */
#ifndef WK_ENGINE_RANGE_H
#define WK_ENGINE_RANGE_H
#include "engine/engine.h"

enum { WK_OVER_MAX = 8 };

static inline wk_range *wk_ranges(const wk_ledger *ledger) {
	return ledger->ranges_capacity == 0 ? (wk_range *)&ledger->range : ledger->ranges.list;
}

/* Its entries' places follow from its first one's: none but those has to be read. */
static inline bool wk_range_is_dense(const wk_range *range) {
	return !range->open && range->runs_count == 1;
}

/* How many ranges begin at the entry or before it. */
uint32_t wk_ranges_until(const wk_ledger *ledger, int64_t entry_id);
/*
 * Ranges that span the entry, of files with ids below `below`, those with the highest ids first. WK_OVER_MAX of them:
 * there may be more.
 */
uint32_t wk_ranges_over(const wk_ledger *ledger, int64_t entry_id, uint64_t below, wk_range *over[WK_OVER_MAX]);
/* The ledger's range in the file, NULL: none. */
wk_range *wk_range_in(wk_ledger *ledger, const wk_store_file *file);
/* A copy of *fresh in its place, NULL: no memory. Other ranges may move. */
wk_range *wk_range_insert(wk_ledger *ledger, const wk_range *fresh);
/* The range's first or last entry is another now: it has its place, and the ledger knows what overlaps. */
wk_range *wk_range_widen(wk_ledger *ledger, wk_range *range, int64_t entry_id);
/* Ranges whose count is 0 go, the rest is put in order: after changes to several of them. */
void wk_ranges_tidy(wk_ledger *ledger);
void wk_ranges_free(wk_ledger *ledger);
uint64_t wk_ranges_memory(const wk_ledger *ledger);
#endif
