/*
 * range.h: the ranges of one ledger: for each file that holds entries of it, which span of ids they are in. Private;
 * under the engine's lock.
 *
 * Sorted by first entry, then file. As a rule ranges follow one another; where entries come out of order across two
 * files, or were moved, they overlap, and an entry may be in any of those that span its id. Then a tree over their
 * last entries finds these without looking at the others.
 *
 * Ranges of sealed files may be paged out (range_pager.h). Who looks at all ranges of a ledger has them brought in first
 * (wk_ranges_bring), and uses them before the lock is dropped; wk_ranges asserts it. Who needs no more than what is in
 * memory (the range of a file that is not sealed is) says so: wk_ranges_in_memory.
 */
#ifndef WK_ENGINE_RANGE_H
#define WK_ENGINE_RANGE_H
#include "engine/engine.h"

enum { WK_OVER_MAX = 8 };

static inline wk_range *wk_ranges_in_memory(const wk_ledger *ledger) {
	return ledger->listed ? ledger->ranges.list : (wk_range *)&ledger->range;
}

/* Is the entry, or any behind it, in a range that is paged out? Any entry: -1. */
static inline bool wk_ranges_are_out(const wk_ledger *ledger, int64_t entry_id) {
	return ledger->paged && entry_id <= ledger->ranges.paged_last;
}

static inline wk_range *wk_ranges(const wk_ledger *ledger) {
	assert(!ledger->paged);
	return wk_ranges_in_memory(ledger);
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

/* How many ranges in memory begin at the entry or before it. */
uint32_t wk_ranges_until_in_memory(const wk_ledger *ledger, int64_t entry_id);
/*
 * Ranges in memory that span the entry, of files that rank below `below`, the newest first. WK_OVER_MAX of them: there
 * may be more.
 */
uint32_t wk_ranges_over_in_memory(const wk_ledger *ledger, int64_t entry_id, wk_rank below,
                                  wk_range *over[WK_OVER_MAX]);
/* All that span it, the newest first; there is room for ranges_count of them. How many. They are all in memory. */
uint32_t wk_ranges_all_over(const wk_ledger *ledger, int64_t entry_id, wk_range **over);
/* Those that span the entry are all in memory. */
static inline uint32_t wk_ranges_over(const wk_ledger *ledger, int64_t entry_id, wk_rank below,
                                      wk_range *over[WK_OVER_MAX]) {
	assert(!wk_ranges_are_out(ledger, entry_id));
	return wk_ranges_over_in_memory(ledger, entry_id, below, over);
}
/* The first one that begins behind the entry; NULL: none. */
static inline const wk_range *wk_range_behind(const wk_ledger *ledger, int64_t entry_id) {
	assert(!wk_ranges_are_out(ledger, entry_id));
	uint32_t until = wk_ranges_until_in_memory(ledger, entry_id);
	return until < ledger->ranges_count ? &wk_ranges_in_memory(ledger)[until] : NULL;
}
/* The ledger's range in the file, NULL: none in memory. */
wk_range *wk_range_in(wk_ledger *ledger, const wk_store_file *file);
/* A copy of *fresh in its place, NULL: no memory. Other ranges may move. */
wk_range *wk_range_insert(wk_engine *engine, wk_ledger *ledger, const wk_range *fresh);
/* The range's first or last entry is another now: it has its place, and the ledger knows what overlaps. */
wk_range *wk_range_widen(wk_engine *engine, wk_ledger *ledger, wk_range *range, int64_t entry_id);
/* Ranges whose count is 0 go, the rest is put in order: after changes to several of them. */
void wk_ranges_tidy(wk_engine *engine, wk_ledger *ledger);
void wk_ranges_free(wk_engine *engine, wk_ledger *ledger);
/* These too, in any order. False: no memory, nothing has changed. */
bool wk_ranges_join(wk_engine *engine, wk_ledger *ledger, const wk_range *ranges, uint32_t count);
/* Those for which it is true go, without a word to anybody. False: no memory for the others, nothing has changed. */
bool wk_ranges_part(wk_engine *engine, wk_ledger *ledger, bool (*goes)(const wk_ledger *, const wk_range *));
/* Their memory, all of it: that of the places in files that are not sealed included. */
uint64_t wk_ranges_memory(const wk_ledger *ledger);
#endif
