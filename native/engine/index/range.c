#include "engine/index/range.h"

#include <stdlib.h>
#include <string.h>

#include "engine/index/place_list.h"

enum { NONE = UINT32_MAX };

/* All of this is of the ranges in memory: who calls it has the others brought in where they matter. */

/* ---- the tree: node i is the greatest of nodes 2i and 2i + 1; leaves are at reach_size and behind ---- */

static uint64_t list_memory(const wk_ledger *ledger) {
	return !ledger->listed ? 0
	                       : ledger->ranges_capacity * sizeof(wk_range) +
	                             2 * (uint64_t)ledger->ranges.reach_size * sizeof *ledger->ranges.reach;
}

static bool room_for_tree(wk_engine *engine, wk_ledger *ledger) {
	uint32_t size = ledger->ranges.reach_size == 0 ? 4 : ledger->ranges.reach_size;
	while (size <= ledger->ranges_count) /* one leaf more than ranges: `end` below has a leaf too */
		size *= 2;
	if (size == ledger->ranges.reach_size)
		return true;
	engine->pager.bytes -= list_memory(ledger);
	free(ledger->ranges.reach);
	ledger->ranges.reach = malloc(2 * (size_t)size * sizeof *ledger->ranges.reach);
	ledger->ranges.reach_size = ledger->ranges.reach != NULL ? size : 0;
	engine->pager.bytes += list_memory(ledger);
	return ledger->ranges.reach != NULL;
}

static int64_t greater(int64_t a, int64_t b) {
	return a > b ? a : b;
}

static void build_tree(wk_engine *engine, wk_ledger *ledger) {
	if (!room_for_tree(engine, ledger))
		return;
	int64_t *reach = ledger->ranges.reach;
	uint32_t size = ledger->ranges.reach_size;
	for (uint32_t i = 0; i < size; i++)
		reach[size + i] = i < ledger->ranges_count ? ledger->ranges.list[i].last_entry : -1;
	for (uint32_t i = size - 1; i > 0; i--)
		reach[i] = greater(reach[2 * i], reach[2 * i + 1]);
}

static void update_tree(wk_ledger *ledger, uint32_t at, int64_t last_entry) {
	if (ledger->ranges.reach == NULL)
		return;
	int64_t *reach = ledger->ranges.reach;
	uint32_t node = ledger->ranges.reach_size + at;
	reach[node] = last_entry;
	while (node > 1) {
		node /= 2;
		reach[node] = greater(reach[2 * node], reach[2 * node + 1]);
	}
}

/* The last range before number `end` that reaches the entry. */
static uint32_t before(const wk_ledger *ledger, uint32_t end, int64_t entry_id) {
	const int64_t *reach = ledger->ranges.reach;
	if (reach == NULL) { /* no memory for one */
		while (end > 0)
			if (ledger->ranges.list[--end].last_entry >= entry_id)
				return end;
		return NONE;
	}
	for (uint32_t node = ledger->ranges.reach_size + end; node > 1; node /= 2) {
		if (node % 2 == 0 || reach[node - 1] < entry_id)
			continue;
		node--;
		while (node < ledger->ranges.reach_size)
			node = 2 * node + (reach[2 * node + 1] >= entry_id);
		return node - ledger->ranges.reach_size;
	}
	return NONE;
}

/* ---- order ---- */

static bool is_before(const wk_range *a, const wk_range *b) {
	return a->first_entry != b->first_entry ? a->first_entry < b->first_entry : a->file->id < b->file->id;
}

static void survey(wk_engine *engine, wk_ledger *ledger) {
	const wk_range *ranges = wk_ranges_in_memory(ledger);
	int64_t reached = -1;
	ledger->overlap = false;
	for (uint32_t i = 0; i < ledger->ranges_count && !ledger->overlap; i++) {
		ledger->overlap = ranges[i].first_entry <= reached;
		reached = greater(reached, ranges[i].last_entry);
	}
	if (ledger->overlap)
		build_tree(engine, ledger);
}

uint32_t wk_ranges_until_in_memory(const wk_ledger *ledger, int64_t entry_id) {
	const wk_range *ranges = wk_ranges_in_memory(ledger);
	uint32_t low = 0, high = ledger->ranges_count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (ranges[middle].first_entry <= entry_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t wk_ranges_over_in_memory(const wk_ledger *ledger, int64_t entry_id, wk_rank below,
                                  wk_range *over[WK_OVER_MAX]) {
	wk_range *ranges = wk_ranges_in_memory(ledger);
	uint32_t end = wk_ranges_until_in_memory(ledger, entry_id), count = 0;
	if (!ledger->overlap) {
		if (end == 0 || ranges[end - 1].last_entry < entry_id ||
		    !wk_rank_is_lower(wk_rank_of(ranges[end - 1].file), below))
			return 0;
		over[0] = &ranges[end - 1];
		return 1;
	}
	while ((end = before(ledger, end, entry_id)) != NONE) {
		wk_range *found = &ranges[end];
		wk_rank rank = wk_rank_of(found->file);
		uint32_t at = count;
		while (at > 0 && wk_rank_is_lower(wk_rank_of(over[at - 1]->file), rank))
			at--;
		if (!wk_rank_is_lower(rank, below) || at == WK_OVER_MAX)
			continue;
		count += count < WK_OVER_MAX;
		memmove(&over[at + 1], &over[at], (count - 1 - at) * sizeof *over);
		over[at] = found;
	}
	return count;
}

static int newest_first(const void *a, const void *b) {
	wk_rank x = wk_rank_of((*(wk_range *const *)a)->file), y = wk_rank_of((*(wk_range *const *)b)->file);
	return wk_rank_is_lower(x, y) - wk_rank_is_lower(y, x);
}

uint32_t wk_ranges_all_over(const wk_ledger *ledger, int64_t entry_id, wk_range **over) {
	assert(!wk_ranges_are_out(ledger, entry_id));
	if (!ledger->overlap)
		return wk_ranges_over_in_memory(ledger, entry_id, wk_rank_highest, over);
	wk_range *ranges = wk_ranges_in_memory(ledger);
	uint32_t end = wk_ranges_until_in_memory(ledger, entry_id), count = 0;
	while ((end = before(ledger, end, entry_id)) != NONE)
		over[count++] = &ranges[end];
	if (count > 1)
		qsort(over, count, sizeof *over, newest_first);
	return count;
}

wk_range *wk_range_in(wk_ledger *ledger, const wk_store_file *file) {
	wk_range *ranges = wk_ranges_in_memory(ledger);
	if (ledger->open_range < ledger->ranges_count && ranges[ledger->open_range].file == file)
		return &ranges[ledger->open_range];
	for (uint32_t i = ledger->ranges_count; i-- > 0;) {
		if (ranges[i].file == file) {
			ledger->open_range = i;
			return &ranges[i];
		}
	}
	return NULL;
}

/* ---- changes ---- */

static bool make_room(wk_engine *engine, wk_ledger *ledger) {
	if (ledger->ranges_count < (ledger->listed ? ledger->ranges_capacity : 1))
		return true;
	/* Where the others are paged out, one is often all there is to come. */
	uint32_t capacity = !ledger->listed ? 2 : ledger->ranges_capacity == 0 ? 1 : ledger->ranges_capacity * 2;
	wk_range *list = realloc(ledger->listed ? ledger->ranges.list : NULL, capacity * sizeof *list);
	if (list == NULL)
		return false;
	if (!ledger->listed) {
		list[0] = ledger->range;
		memset(&ledger->ranges, 0, sizeof ledger->ranges);
		ledger->listed = true;
	}
	engine->pager.bytes += (capacity - ledger->ranges_capacity) * sizeof *list;
	ledger->ranges.list = list;
	ledger->ranges_capacity = capacity;
	return true;
}

/* Swaps a range with its neighbours until it stands where it belongs; where that is. */
static uint32_t move_into_order(wk_ledger *ledger, uint32_t at) {
	wk_range *ranges = wk_ranges_in_memory(ledger);
	for (; at > 0 && is_before(&ranges[at], &ranges[at - 1]); at--) {
		wk_range moved = ranges[at];
		ranges[at] = ranges[at - 1];
		ranges[at - 1] = moved;
	}
	return at;
}

wk_range *wk_range_insert(wk_engine *engine, wk_ledger *ledger, const wk_range *fresh) {
	if (!make_room(engine, ledger))
		return NULL;
	wk_range *ranges = wk_ranges_in_memory(ledger);
	uint32_t last = ledger->ranges_count++;
	engine->pager.ranges_count++;
	ranges[last] = *fresh;
	uint32_t at = move_into_order(ledger, last);
	/* The usual one, behind all others, changes nothing for them. */
	if (ledger->overlap || at != last || (at > 0 && ranges[at - 1].last_entry >= fresh->first_entry))
		survey(engine, ledger);
	ledger->open_range = at;
	return &ranges[at];
}

wk_range *wk_range_widen(wk_engine *engine, wk_ledger *ledger, wk_range *range, int64_t entry_id) {
	wk_range *ranges = wk_ranges_in_memory(ledger);
	uint32_t at = (uint32_t)(range - ranges);
	if (entry_id > range->last_entry) {
		range->last_entry = entry_id;
		if (ledger->overlap)
			update_tree(ledger, at, entry_id);
		else if (at + 1 < ledger->ranges_count && ranges[at + 1].first_entry <= entry_id)
			survey(engine, ledger);
	}
	if (entry_id < range->first_entry) {
		range->first_entry = entry_id;
		uint32_t now_at = move_into_order(ledger, at);
		if (now_at != at || (!ledger->overlap && at > 0 && ranges[at - 1].last_entry >= entry_id))
			survey(engine, ledger);
		ledger->open_range = at = now_at;
	}
	return &ranges[at];
}

void wk_ranges_tidy(wk_engine *engine, wk_ledger *ledger) {
	wk_range *ranges = wk_ranges_in_memory(ledger);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < ledger->ranges_count; i++) {
		if (ranges[i].count == 0) {
			if (ranges[i].open)
				wk_place_list_free(ranges[i].places);
			continue;
		}
		if (kept != i)
			ranges[kept] = ranges[i];
		move_into_order(ledger, kept++);
	}
	engine->pager.ranges_count -= ledger->ranges_count - kept;
	ledger->ranges_count = kept;
	if (ledger->overlap) /* less does not overlap more */
		survey(engine, ledger);
}

void wk_ranges_free(wk_engine *engine, wk_ledger *ledger) {
	wk_range *ranges = wk_ranges_in_memory(ledger);
	for (uint32_t i = 0; i < ledger->ranges_count; i++)
		if (ranges[i].open)
			wk_place_list_free(ranges[i].places);
	engine->pager.bytes -= list_memory(ledger);
	engine->pager.ranges_count -= ledger->ranges_count;
	if (ledger->listed) {
		free(ledger->ranges.list);
		free(ledger->ranges.reach);
	}
	ledger->ranges_count = ledger->ranges_capacity = 0;
	ledger->listed = ledger->paged = ledger->indexed = false;
}

static int in_order(const void *a, const void *b) {
	const wk_range *x = a, *y = b;
	return is_before(y, x) - is_before(x, y);
}

/* They are these now; the list is the ledger's. */
static void take_list(wk_engine *engine, wk_ledger *ledger, wk_range *list, uint32_t count) {
	engine->pager.bytes -= list_memory(ledger);
	free(ledger->ranges.list);
	free(ledger->ranges.reach);
	ledger->ranges.list = list;
	ledger->ranges.reach = NULL;
	ledger->ranges.reach_size = 0;
	engine->pager.ranges_count += count - (uint64_t)ledger->ranges_count;
	ledger->ranges_count = ledger->ranges_capacity = count;
	ledger->open_range = count > 0 ? count - 1 : 0;
	engine->pager.bytes += list_memory(ledger);
	survey(engine, ledger);
}

bool wk_ranges_join(wk_engine *engine, wk_ledger *ledger, const wk_range *ranges, uint32_t count) {
	assert(ledger->listed);
	uint32_t all = ledger->ranges_count + count;
	wk_range *list = all > 0 ? malloc(all * sizeof *list) : NULL;
	if (list == NULL && all > 0)
		return false;
	for (uint32_t i = 0; i < count; i++)
		list[i] = ranges[i];
	for (uint32_t i = 0; i < ledger->ranges_count; i++)
		list[count + i] = ledger->ranges.list[i];
	if (all > 1)
		qsort(list, all, sizeof *list, in_order);
	take_list(engine, ledger, list, all);
	return true;
}

bool wk_ranges_part(wk_engine *engine, wk_ledger *ledger, bool (*goes)(const wk_ledger *, const wk_range *)) {
	assert(ledger->listed);
	uint32_t count = 0;
	for (uint32_t i = 0; i < ledger->ranges_count; i++)
		count += !goes(ledger, &ledger->ranges.list[i]);
	wk_range *list = count > 0 ? malloc(count * sizeof *list) : NULL;
	if (list == NULL && count > 0)
		return false;
	uint32_t kept = 0;
	for (uint32_t i = 0; i < ledger->ranges_count; i++)
		if (!goes(ledger, &ledger->ranges.list[i]))
			list[kept++] = ledger->ranges.list[i];
	take_list(engine, ledger, list, count);
	return true;
}

uint64_t wk_ranges_memory(const wk_ledger *ledger) {
	const wk_range *ranges = wk_ranges_in_memory(ledger);
	uint64_t bytes = list_memory(ledger);
	for (uint32_t i = 0; i < ledger->ranges_count; i++)
		bytes += ranges[i].open ? wk_place_list_memory(ranges[i].places) : 0;
	return bytes;
}
