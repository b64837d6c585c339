/* recovery.h: from the files of a directory to an engine that knows what it holds. Private. */
#ifndef WK_ENGINE_RECOVERY_H
#define WK_ENGINE_RECOVERY_H
#include "engine/engine.h"

/*
 * Reads footers, scans what has none, cuts a torn tail, syncs what it accepted, replays the catalogue. The superblock
 * is loaded, nothing runs yet. WK_DAMAGED where acknowledged bytes are lost and the policy is to stop.
 */
wk_status wk_recover(wk_engine *engine, wk_error *error);
#endif
