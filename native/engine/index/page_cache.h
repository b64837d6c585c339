/*
 * page_cache.h: the ledger cache: item pages and run pages of footers, with a bound. Private; has its own lock.
 */
#ifndef WK_ENGINE_PAGE_CACHE_H
#define WK_ENGINE_PAGE_CACHE_H
#include "core/footer.h"

typedef struct wk_page_cache wk_page_cache;

wk_page_cache *wk_page_cache_new(uint64_t bytes_max);
void wk_page_cache_free(wk_page_cache *cache);
/* Copies the page's members out, each of `size` bytes; false: not here. */
bool wk_page_cache_get(wk_page_cache *cache, uint64_t file_id, uint64_t offset, void *members, size_t size,
                       uint32_t *count);
void wk_page_cache_put(wk_page_cache *cache, uint64_t file_id, uint64_t offset, const void *members, size_t size,
                       uint32_t count);
void wk_page_cache_drop_file(wk_page_cache *cache, uint64_t file_id);
uint64_t wk_page_cache_bytes(wk_page_cache *cache);
#endif
