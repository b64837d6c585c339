/*
 * range_live.h: how many entries of a range, and of its file, somebody still needs. Private; under the engine's lock.
 *
 * What a range counts as live is part of its file's live counts, also while the range is paged out.
 */
#ifndef WK_ENGINE_RANGE_LIVE_H
#define WK_ENGINE_RANGE_LIVE_H
#include "engine/engine.h"

/* Of so many of its entries. */
uint64_t wk_range_bytes_of(const wk_range *range, uint32_t entries);
void wk_file_less_live(wk_store_file *file, uint64_t entries, uint64_t bytes);
/* At least so many of its entries are dead. */
void wk_range_kill_to(wk_range *range, uint32_t dead);
/* All of it is dead; wk_ranges_tidy takes it away. */
void wk_range_kill_all(wk_range *range);
/* How many of its entries are before first_live; of a sealed range with holes, at least so many. */
uint32_t wk_range_dead_before(const wk_range *range, int64_t first_live);
#endif
