/*
 * tail_scan.h: the search behind the end of the chain, for tail_decision.c. It finds whole blocks, which are witnesses, and
 * what is left of others; other evidence that the journal was longer; and the places where the chain may go on behind
 * damage. Private.
 */
#ifndef WK_ENGINE_TAIL_SCAN_H
#define WK_ENGINE_TAIL_SCAN_H
#include "engine/recovery/journal_walk.h"

/* ---- what stands behind the end of the chain ---- */

/*
 * Is this a journal file to be looked at? One below the mark that the index does not name was recycled before, and a power
 * cut brought its name back: what killed its entries may be gone by now.
 */
bool wk_tail_scan_counts(const wk_engine *engine, const wk_store_file *file);
/* A block that is not whole stands here, where the chain ended. */
void wk_tail_scan_note_cut(wk_walk *walk, const wk_store_file *file, uint64_t offset, const uint8_t *bytes,
                           size_t available);
/* Shows the whole blocks of the file from `offset` on to the scan, until it has found its witness among them. */
wk_status wk_tail_scan_gather(wk_walk *walk, wk_store_file *file, uint64_t offset, wk_error *error);
/*
 * *broken: what the next block left behind stands at `offset`. *whole (may be NULL: not looked for): a whole block
 * with a higher number stands somewhere behind it.
 */
wk_status wk_tail_scan_of_next(wk_walk *walk, wk_store_file *file, uint64_t offset, bool *broken, bool *whole,
                               wk_error *error);
/* Looks from files[at] on for a block that shows that the one behind the chain's end was durable: the scan is damaged then. */
wk_status wk_tail_scan_witness(wk_walk *walk, uint32_t at, wk_error *error);
/*
 * Do blocks between `last` and `first` have to be somewhere? Of a ledger store no file from the mark on was recycled
 * (index_file.h): up to the mark, and where a loss was accepted, blocks may be missing; no others.
 */
bool wk_tail_scan_are_missing(const wk_walk *walk, uint64_t last, uint64_t first);

/* ---- what shows that the journal was longer, where no block behind the end does ---- */

/*
 * The highest block that is known to have been durable by what stands outside the journal: the closed sequence of a
 * directory that was closed in order, else the file `shared`. 0: nothing is known.
 */
uint64_t wk_journal_end_known(const wk_walk *walk);
/*
 * Nothing follows the chain, which ends at `offset` of files[at]. Where a file is shorter than it was prepared, or the last
 * one is missing, walk->short_file or walk->missing_behind says so; in a directory that was closed in order neither counts.
 */
wk_status wk_journal_end_look(wk_walk *walk, uint32_t at, uint64_t offset, wk_error *error);

/* ---- where the chain may go on behind damage ---- */

/* A whole block in its place; or a sealed file as a whole, by its footer. */
typedef struct wk_candidate {
	uint32_t at; /* of the engine's files */
	bool by_footer;
	uint64_t offset, sequence, incarnation;
} wk_candidate;

/* A whole block that stands where it says that it does, in a file of this directory. */
bool wk_candidates_in_place(const wk_walk *walk, const wk_store_file *file, uint64_t offset,
                            const wk_block_header *header);
/*
 * The first from `offset` of files[at] on that goes on behind the chain's end, NULL: none. A footer may have damage that
 * this did not look at; where it has, the file is marked, and wk_candidates_forget makes the next call look again. What the
 * walk met of the highest numbers is noted in walk->highest.
 */
wk_status wk_candidates_choose(wk_walk *walk, uint32_t at, uint64_t offset, wk_candidate *chosen, bool *found,
                               wk_error *error);
void wk_candidates_forget(wk_walk *walk);
/* The walk is over. */
void wk_candidates_free(wk_walk *walk);
#endif
