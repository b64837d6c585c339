/*
 * recount.h: counts dead entries of ranges with holes, where other files have some of the same entries. Private.
 *
 * Which entries those are stands in run pages, which nobody reads under the lock. Until somebody has counted, entries
 * count as live that may be dead: their file is kept longer, and nothing is lost.
 */
#ifndef WK_ENGINE_RECOUNT_H
#define WK_ENGINE_RECOUNT_H
#include "engine/engine.h"

/* (locked, dropped while it works; the keeper's) Counts one range; false: none waits, or not yet. */
bool wk_recount_step(wk_engine *engine);
#endif
