/*
 * mover.h: copies live entries out of files that are mostly dead or mostly padding, into entry logs sorted by
 * (ledger, entry). Private.
 *
 * Evacuation: a sealed file that is at most a tenth live goes at once. Minor and major compaction: files below
 * minor_percent and major_percent, once an interval. A pass takes a few files, a step copies a megabyte at most, so
 * that the keeper stays free for what the journal needs; steps keep to compact_rate. The copy is durable, then the
 * index points to it, then the old files are free: a kill at any moment leaves at least one copy.
 *
 * Where no such pass is due, a ledger store's interleaved journal files are sorted (interleaved.h, mover_slice.h): the
 * same pass, by the same rules, but for what is read when. It gives way: to adds, and to a disk that fills.
 */
#ifndef WK_ENGINE_MOVER_H
#define WK_ENGINE_MOVER_H
#include "engine/engine.h"

/* (locked, dropped while it works) One step; false: nothing is due now. */
bool wk_mover_step(wk_engine *engine);
/* (locked) When the next step is due; UINT64_MAX: nothing is known to be. */
uint64_t wk_mover_deadline(wk_engine *engine);
/* (locked) The block that was durable when the pass under way chose what to copy; UINT64_MAX: there is none. */
uint64_t wk_mover_chose_at(const wk_engine *engine);
/* (locked) The id of the entry log that it makes; UINT64_MAX: there is none. */
uint64_t wk_mover_file_id(const wk_engine *engine);
/* (locked) The output of the pass under way is what was kept back for it. */
bool wk_mover_has_reserve(const wk_engine *engine);
/* (locked) Bytes that it holds to sort them. */
uint64_t wk_mover_memory(const wk_engine *engine);
/* Drops a pass half done. */
void wk_mover_free(wk_engine *engine);
#endif
