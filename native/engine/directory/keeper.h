/*
 * keeper.h: the background thread that keeps the directory in order: the next file, footers, snapshots, space. Private.
 */
#ifndef WK_ENGINE_KEEPER_H
#define WK_ENGINE_KEEPER_H
#include "engine/engine.h"

int wk_keeper_start(wk_engine *engine);
/*
 * false: it is still at something on a stalled disk when the deadline comes (UINT64_MAX: none), and ends by itself;
 * the engine must stay.
 */
bool wk_keeper_stop(wk_engine *engine, uint64_t deadline_ns);
/* (locked) There is something to do. */
void wk_keeper_wake(wk_engine *engine);
/*
 * (locked, dropped while it works) Writes the footer of the oldest full file, where all its blocks are durable. False:
 * there is none, or somebody is at it. The keeper does this in its rounds; who must roll before helps itself.
 */
bool wk_keeper_seal_oldest(wk_engine *engine);
/*
 * (locked, dropped) Where blocks became durable, and a second has passed since the last look, it looks whether the directory is
 * still ours. For what takes the keeper longer than that.
 */
void wk_keeper_look_at_lock(wk_engine *engine);
/* One round, in the calling thread, no lock held; false: nothing to do. For manual mode and close. */
bool wk_keeper_step(wk_engine *engine);
#endif
