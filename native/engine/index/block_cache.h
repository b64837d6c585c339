/*
 * block_cache.h: the memtable: the blocks that were written last, kept whole for readers at the tail. Private; under
 * the engine's lock.
 *
 * It costs no copy where a block fills its buffer, and may drop anything at any time: what it held is on disk.
 */
#ifndef WK_ENGINE_BLOCK_CACHE_H
#define WK_ENGINE_BLOCK_CACHE_H
#include "records/buffer.h"

typedef struct wk_block_cache wk_block_cache;

wk_block_cache *wk_block_cache_new(uint64_t bytes_max);
void wk_block_cache_free(wk_block_cache *cache);
/*
 * Takes over the reference to `buffer`, which holds the `size` bytes at `offset` of the file. Blocks come in the
 * order of (file, offset).
 */
void wk_block_cache_put(wk_block_cache *cache, uint64_t file_id, uint64_t offset, wk_buffer *buffer, size_t size);
/* The buffer that holds [offset, offset + size) of the file, retained, and where in it; NULL: not here. */
wk_buffer *wk_block_cache_get(wk_block_cache *cache, uint64_t file_id, uint64_t offset, size_t size, size_t *at,
                              size_t *available);
/* The file is going: forget its blocks. */
void wk_block_cache_drop_file(wk_block_cache *cache, uint64_t file_id);
uint64_t wk_block_cache_bytes(const wk_block_cache *cache);
#endif
