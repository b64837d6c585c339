#include "page_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static size_t slot_of(const wk_page_map *map, uint32_t page) {
	size_t at = (page * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (map->size - 1);
	while (map->slots[at].page != 0 && map->slots[at].page != page)
		at = (at + 1) & (map->size - 1);
	return at;
}

bool wk_page_map_reserve(wk_page_map *map, size_t more) {
	size_t size = map->size > 0 ? map->size : 256;
	while (size < 2 * (map->count + more))
		size *= 2;
	if (size == map->size)
		return true;
	wk_page_map grown = {.slots = calloc(size, sizeof *grown.slots), .size = size};
	if (grown.slots == NULL)
		return false;
	for (size_t i = 0; i < map->size; i++)
		if (map->slots[i].page != 0)
			wk_page_map_set(&grown, map->slots[i].page, map->slots[i].frame);
	free(map->slots);
	*map = grown;
	return true;
}

bool wk_page_map_copy(wk_page_map *copy, const wk_page_map *map) {
	*copy = *map;
	if (map->size == 0)
		return true;
	copy->slots = malloc(map->size * sizeof *map->slots);
	if (copy->slots != NULL)
		memcpy(copy->slots, map->slots, map->size * sizeof *map->slots);
	else
		*copy = (wk_page_map){0};
	return copy->slots != NULL;
}

uint32_t wk_page_map_get(const wk_page_map *map, uint32_t page) {
	return map->size > 0 ? map->slots[slot_of(map, page)].frame : 0;
}

void wk_page_map_set(wk_page_map *map, uint32_t page, uint32_t frame) {
	assert(page > 0 && frame > 0 && 2 * (map->count + 1) <= map->size);
	size_t at = slot_of(map, page);
	map->count += map->slots[at].page == 0;
	map->slots[at] = (struct wk_page_slot){page, frame};
}

void wk_page_map_cut(wk_page_map *map, uint32_t last) {
	wk_page_map kept = {.slots = calloc(map->size, sizeof *map->slots), .size = map->size};
	if (kept.slots == NULL) { /* that a page is not known here costs an image against zeros */
		wk_page_map_clear(map);
		return;
	}
	for (size_t i = 0; i < map->size; i++)
		if (map->slots[i].page != 0 && map->slots[i].page <= last)
			wk_page_map_set(&kept, map->slots[i].page, map->slots[i].frame);
	free(map->slots);
	*map = kept;
}

void wk_page_map_clear(wk_page_map *map) {
	if (map->count > 0)
		memset(map->slots, 0, map->size * sizeof *map->slots);
	map->count = 0;
}

void wk_page_map_free(wk_page_map *map) {
	free(map->slots);
	*map = (wk_page_map){0};
}
