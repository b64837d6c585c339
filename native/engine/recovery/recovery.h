/* recovery.h: from the files of a directory to an engine that knows what it holds. Private. */
#ifndef WK_ENGINE_RECOVERY_H
#define WK_ENGINE_RECOVERY_H
#include "engine/engine.h"

/*
 * Reads footers, scans what has none, cuts a torn tail, syncs what it accepted, replays the catalogue. The superblock
 * is loaded, nothing runs yet. WK_DAMAGED where acknowledged bytes are lost and the policy is to stop.
 */
wk_status wk_recover(wk_engine *engine, wk_error *error);
/*
 * (locked) A completed segment was whole once, and its last entries were durable before the catalogue said so. Where no
 * file shows them, one is missing, and that is damage: readers must not take what is left for all there was. A follower
 * asks once: what is completed later it has seen block by block, or it looks anew. WK_NO_MEMORY.
 */
wk_status wk_recovery_expect_completed(wk_engine *engine);
#endif
