/* snapshot.h: the catalogue, written whole now and then, so that its older records can go. Private. */
#ifndef WK_ENGINE_SNAPSHOT_H
#define WK_ENGINE_SNAPSHOT_H
#include "engine/engine.h"

/*
 * (locked, dropped while it works) Writes a snapshot where the changes since the last one outgrow it, or pin files
 * that hold nothing else.
 */
bool wk_snapshot_if_due(wk_engine *engine);
/* (locked, dropped) Writes one now. */
wk_status wk_snapshot_write(wk_engine *engine, wk_error *error);
#endif
