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

/*
 * How new the entries of a file are: by the last block that was durable when they were chosen (an entry log) or
 * written (a journal file). The mover copies from sealed files, and only what stands nowhere newer: so where an entry
 * log and a journal file have the same entry, the copy is the newer one just where the journal file was complete.
 */
typedef struct wk_rank {
	uint64_t last_sequence, kind, id;
} wk_rank;
static const wk_rank wk_rank_highest = {UINT64_MAX, UINT64_MAX, UINT64_MAX};

static inline wk_rank wk_rank_of(const wk_store_file *file) {
	return (wk_rank){file->last_sequence, file->kind, file->id};
}
static_assert(WK_FILE_ENTRY_LOG > WK_FILE_JOURNAL, "of the two with one last block the entry log is newer");

static inline bool wk_rank_is_lower(wk_rank a, wk_rank b) {
	if (a.last_sequence != b.last_sequence)
		return a.last_sequence < b.last_sequence;
	return a.kind != b.kind ? a.kind < b.kind : a.id < b.id;
}

/* How many ranges begin at the entry or before it. */
uint32_t wk_ranges_until(const wk_ledger *ledger, int64_t entry_id);
/*
 * Ranges that span the entry, of files that rank below `below`, the newest first. WK_OVER_MAX of them: there may be
 * more.
 */
uint32_t wk_ranges_over(const wk_ledger *ledger, int64_t entry_id, wk_rank below, wk_range *over[WK_OVER_MAX]);
/* All that span it, the newest first; there is room for ranges_count of them. How many. */
uint32_t wk_ranges_all_over(const wk_ledger *ledger, int64_t entry_id, wk_range **over);
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
