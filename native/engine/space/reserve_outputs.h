/*
 * reserve_outputs.h: the space of what frees a full disk: the mover's output, and in a ledger store the next index file,
 * without which a file of state records cannot be given back (storage rule 15). Private; under the engine's lock.
 *
 * Each is used up by one pass, or one index. What that frees pays for the next one first: else it would go to the journal,
 * and on a disk that is full of what is dead nothing could free anything any more.
 */
#ifndef WK_ENGINE_RESERVE_OUTPUTS_H
#define WK_ENGINE_RESERVE_OUTPUTS_H
#include "engine/engine.h"

/* One of them is wanted, and not there at all. */
bool wk_reserve_owes_outputs(const wk_engine *engine);
/*
 * (dropped while it works) Sees to it that they are there, as large as is wanted now; those that an earlier process left
 * count. -errno; *worked: something changed. */
int wk_reserve_outputs(wk_engine *engine, bool *worked);
#endif
