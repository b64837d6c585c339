/*
 * space.h: files that nobody needs any more. Private.
 */
#ifndef WK_ENGINE_SPACE_H
#define WK_ENGINE_SPACE_H
#include "engine/engine.h"

/* (locked, dropped while it works) Recycles or unlinks one file without live entries; false: there is none. */
bool wk_space_collect(wk_engine *engine);
/* (locked) The file at this place could go if nothing in it were live, used, or waiting for an index. */
bool wk_space_may_go(const wk_engine *engine, uint32_t at);
/*
 * (locked, dropped where ranges are paged out) The id of the file that has been waiting longest with live entries, and
 * one of the ledgers that keep it, -1: not known; 0: there is none.
 */
uint64_t wk_space_oldest_pin(wk_engine *engine, int64_t *ledger_id);
#endif
