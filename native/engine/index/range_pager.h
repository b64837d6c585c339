/*
 * range_pager.h: ranges of sealed files that stand in the index file need not be in memory as well. Private; under the
 * engine's lock.
 *
 * Of a ledger that is *paged* the ranges in files that the index file names are there only; what came since (the range
 * of the file under way, for one) is in memory beside them. So who appends never waits for a page. The ledger itself
 * stays, and keeps where its ranges stand. One that has only one range has no list of them, and gains nothing.
 *
 * - Out: the keeper does it, and nobody else, when lists of ranges take more than range_bytes: those of ledgers that
 *   nobody looked at lately, and whose ranges are as the index says. Where that is too little, it has the next index
 *   file written first. Every index file takes over what is paged out from the one before it (index_source.c).
 * - In: whoever needs them (wk_ranges_bring), and the keeper for what may not wait.
 * - What happens to a ledger while its ranges are out is not done to them, but when they come in. Until then entries
 *   count as live that are dead: their files are kept longer, and nothing is lost. Truncated: the ledger knows its
 *   first live entry. Deleted: an *orphan* remembers the place, and the keeper reads it to lower the files' live counts.
 *   Moved: the mover empties whole files, and ranges in emptied ones count no more. Written again: where a range in
 *   memory overlaps one that comes in, the older one is counted again (recount.h).
 * - A page that cannot be read is an error to who needs it, as a run page is; nothing else is lost by it. The index file
 *   cannot be replaced then, and stays.
 */
#ifndef WK_ENGINE_RANGE_PAGER_H
#define WK_ENGINE_RANGE_PAGER_H
#include "engine/index/index_source.h"

/*
 * (locked, dropped while it reads) *ledger: it, with all its ranges in memory that reach the entry or lie behind it (-1:
 * all), until the lock is dropped; NULL: there is none. WK_IO, WK_DAMAGED, WK_NO_MEMORY.
 */
wk_status wk_ranges_bring(wk_engine *engine, int64_t ledger_id, int64_t entry_id, wk_ledger **ledger, wk_error *error);
/* Paged, and something happened that its ranges have yet to be told. */
void wk_ranges_fall_behind(wk_engine *engine, wk_ledger *ledger);
/* Paged, and going. */
void wk_ranges_orphan(wk_engine *engine, const wk_ledger *ledger);

/* (locked, dropped while it reads; the keeper's) Catches up, and pages out where there is too much; false: nothing. */
bool wk_range_pager_step(wk_engine *engine);
/* Too much is in memory, and only a new index file helps. */
bool wk_range_pager_wants_index(const wk_engine *engine);

/* ---- for the writer of index files, and who loads one ---- */

typedef struct wk_range_place { /* of one ledger in an index file */
	int64_t ledger_id;
	uint32_t first, count;
	uint32_t limit; /* paged: those are its ranges which are in files that an index up to this one named */
	uint32_t fresh; /* so many of these were in memory when the index was made */
} wk_range_place;

/* While opening: the index file that was loaded. Its ranges are the ledgers', as it says. NULL: no memory for it. */
void wk_range_pager_begin(wk_engine *engine, wk_index_source *source);
/* While opening, behind it: where a ledger stands in that. */
void wk_range_pager_found(wk_engine *engine, const wk_range_place *place);
/*
 * (locked, dropped in between) The superblock names the index file `source` (its own from now on), and what it names
 * has named_from: places are those in it, nothing is read from the one before it any more.
 */
void wk_range_pager_turn(wk_engine *engine, wk_index_source *source, const wk_range_place *places, size_t count);
void wk_range_pager_free(wk_engine *engine);

/* Is this range one that the ledger's place in the index file is about? */
static inline bool wk_range_is_indexed(const wk_ledger *ledger, const wk_range *range) {
	return range->file->named_from != 0 && range->file->named_from <= ledger->ranges.index_limit;
}
#endif
