/*
 * page_map.h: in which frame of the WAL the newest image of a page is: what SQLite's wal-index says too, for the process
 * that writes.
 */
#ifndef WK_SQLITE_PAGE_MAP_H
#define WK_SQLITE_PAGE_MAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wk_page_map {
	struct wk_page_slot {
		uint32_t page, frame; /* page 0: free */
	} * slots;
	size_t size, count; /* size: a power of two */
} wk_page_map;

/* There is room for so many more pages. False: no memory; nothing changed. */
bool wk_page_map_reserve(wk_page_map *map, size_t more);
/* False: no memory; nothing changed. */
bool wk_page_map_copy(wk_page_map *copy, const wk_page_map *map);
/* 0: none. */
uint32_t wk_page_map_get(const wk_page_map *map, uint32_t page);
/* Room for it was reserved. */
void wk_page_map_set(wk_page_map *map, uint32_t page, uint32_t frame);
/* Forgets the pages above `last`. */
void wk_page_map_cut(wk_page_map *map, uint32_t last);
void wk_page_map_clear(wk_page_map *map);
void wk_page_map_free(wk_page_map *map);
#endif
