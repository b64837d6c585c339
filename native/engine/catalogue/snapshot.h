/* snapshot.h: the catalogue, written whole now and then, so that its older records can go. Private. */
#ifndef WK_ENGINE_SNAPSHOT_H
#define WK_ENGINE_SNAPSHOT_H
#include "engine/engine.h"

enum {
	WK_SNAPSHOT_PART_MIN = 256 * 1024
}; /* of each of its entries but the last: their payload is at least so large */

/*
 * (locked, dropped while it works) Writes a snapshot where the changes since the last one outgrow it, or pin files
 * that hold nothing else.
 */
bool wk_snapshot_if_due(wk_engine *engine);
/* (locked, dropped) Writes one now. */
wk_status wk_snapshot_write(wk_engine *engine, wk_error *error);
#endif
