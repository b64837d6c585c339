/*
 * committer.h: blocks that a thread writes which must not wait for them. Private; a server's calls
 * are in engine/committer.h.
 *
 * Beside a committer the driver (driver.h) leaves the open block alone, unless it must go into another file: a thread
 * that must not wait makes none. It also does what syncs are wanted apart from a write.
 */
#ifndef WK_ENGINE_JOURNAL_COMMITTER_H
#define WK_ENGINE_JOURNAL_COMMITTER_H
#include "engine/committer.h"
#include "engine/engine.h"

/* (locked) The open block, which may go out now, is the committer's affair: it was told. */
bool wk_committer_takes(wk_engine *engine);
/* (locked) Somebody wants the open block durable. False: nobody commits here. */
bool wk_committer_kick(wk_engine *engine);
/* In a forked child. */
void wk_committer_forked(wk_engine *engine);
#endif
