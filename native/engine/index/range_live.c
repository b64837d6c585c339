#include "engine/index/range_live.h"

#include <assert.h>

#include "engine/index/place_list.h"

uint64_t wk_range_bytes_of(const wk_range *range, uint32_t entries) {
	uint64_t bytes = range->open ? range->places->bytes : range->bytes;
	return range->count == 0 ? 0 : entries == range->count ? bytes : bytes * entries / range->count;
}

void wk_file_less_live(wk_store_file *file, uint64_t entries, uint64_t bytes) {
	assert(file->live_entries >= entries);
	file->live_entries -= entries;
	file->refused_reserve = 0;
	file->live_bytes -= bytes < file->live_bytes ? bytes : file->live_bytes;
	if (file->live_entries == 0)
		file->live_bytes = 0;
}

void wk_range_kill_to(wk_range *range, uint32_t dead) {
	assert(dead <= range->count);
	if (dead <= range->dead)
		return;
	wk_file_less_live(range->file, dead - range->dead,
	                  wk_range_bytes_of(range, range->count - range->dead) -
	                      wk_range_bytes_of(range, range->count - dead));
	range->dead = dead;
	range->changed = true;
}

void wk_range_kill_all(wk_range *range) {
	wk_range_kill_to(range, range->count);
	range->count = range->dead = 0;
}

uint32_t wk_range_dead_before(const wk_range *range, int64_t first_live) {
	if (first_live <= range->first_entry)
		return 0;
	if (first_live > range->last_entry)
		return range->count;
	if (range->open)
		return wk_place_list_before(range->places, first_live);
	int64_t behind = range->last_entry - first_live + 1;
	return behind < range->count ? range->count - (uint32_t)behind : 0;
}
