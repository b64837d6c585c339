/*
 * tail_scan.h: what stands in the journal files behind the chain's end: whole blocks, which are witnesses, and what is
 * left of others. Private; for journal_walk.c and tail_decision.c.
 */
#ifndef WK_ENGINE_TAIL_SCAN_H
#define WK_ENGINE_TAIL_SCAN_H
#include "engine/recovery/journal_walk.h"

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
#endif
