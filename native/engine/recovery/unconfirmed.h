/*
 * unconfirmed.h: what recovery found at the journal's end and nothing confirms: its last blocks, and the newest footer. Private.
 */
#ifndef WK_ENGINE_UNCONFIRMED_H
#define WK_ENGINE_UNCONFIRMED_H
#include "engine/recovery/journal_walk.h"

/* Which blocks those are. Nothing is appended until they were written again. */
void wk_unconfirmed_note(wk_engine *engine, const wk_walk *walk);
/* All that recovery accepted, the files of these among it. Proves nothing where a sync under this kernel may have failed. */
wk_status wk_unconfirmed_sync(wk_engine *engine, wk_error *error);
/* Writes them once more, so that the sync behind that has something to prove. The second time nothing is done. */
wk_status wk_unconfirmed_write_again(wk_engine *engine, wk_error *error);
#endif
