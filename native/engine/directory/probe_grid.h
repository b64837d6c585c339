/*
 * probe_grid.h: how fast this device is with several blocks in flight: both ways of making them durable, 1, 2, 4 and 8
 * at once, 4 KiB and 64 KiB each; and what follows from it. Private.
 *
 * Measured in idle time, by the keeper: one round of a few blocks, then a pause; never within a second of an append.
 * What an append falls into does not count. The result stands in the superblock and is used from the next open on: K
 * may not change in the middle of a journal.
 */
#ifndef WK_ENGINE_PROBE_GRID_H
#define WK_ENGINE_PROBE_GRID_H
#include "engine/engine.h"

enum { WK_PROBE_IN_FLIGHT_DEFAULT = 2 };

/* Pure: the method for both kinds of work, and K for it (2, 4 or 8). Of a grid that is not whole: 0, and 2. */
void wk_probe_choose(const wk_probe_grid *grid, uint32_t *sync_method, uint32_t *blocks_in_flight);
bool wk_probe_grid_is_whole(const wk_probe_grid *grid);
/* All of it at once, in the directory `path`; for doctor. */
int wk_probe_grid_measure(wk_io *io, const char *path, wk_probe_grid *grid);

/* (locked, dropped while it works) One round, where the engine is idle and one is due. The keeper's. */
bool wk_probe_grid_step(wk_engine *engine);
/* (locked) When the next one may be due; UINT64_MAX: there is none. */
uint64_t wk_probe_grid_deadline(const wk_engine *engine);
/* No lock held; by the keeper, or where there is none any more. */
void wk_probe_grid_stop(wk_engine *engine);
#endif
