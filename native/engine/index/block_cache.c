#include "engine/index/block_cache.h"

#include <stdlib.h>
#include <string.h>

#include "core/journal_block.h"

typedef struct cached_block {
	wk_buffer *buffer; /* NULL: its file is gone */
	uint64_t file_id;
	uint64_t offset;
	size_t size;
} cached_block;

/* Lone appends are small blocks: the memory of the oldest becomes that of the newest. What lies free is not counted: 80 KiB. */
enum { SMALL_SIZES = 4, SMALL_FREE_MAX = 2 };

struct wk_block_cache {
	wk_buffer_pool *small[SMALL_SIZES]; /* of one block alignment, two, ... */
	cached_block *blocks;               /* a ring, oldest first, ordered by (file, offset) */
	uint32_t capacity;                  /* a power of two */
	uint64_t first, end;                /* counters; slot = counter & (capacity - 1) */
	uint64_t bytes, bytes_max;
};

wk_block_cache *wk_block_cache_new(uint64_t bytes_max) {
	wk_block_cache *cache = calloc(1, sizeof *cache);
	if (cache == NULL)
		return NULL;
	cache->bytes_max = bytes_max;
	for (uint32_t i = 0; i < SMALL_SIZES; i++)
		if ((cache->small[i] = wk_buffer_pool_new((i + 1) * (size_t)WK_BLOCK_ALIGNMENT, SMALL_FREE_MAX)) == NULL) {
			wk_block_cache_free(cache);
			return NULL;
		}
	return cache;
}

static cached_block *slot(wk_block_cache *cache, uint64_t counter) {
	return &cache->blocks[counter & (cache->capacity - 1)];
}

static void drop_oldest(wk_block_cache *cache) {
	cached_block *oldest = slot(cache, cache->first++);
	if (oldest->buffer != NULL)
		cache->bytes -= oldest->buffer->capacity;
	wk_buffer_release(oldest->buffer);
}

void wk_block_cache_free(wk_block_cache *cache) {
	if (cache == NULL)
		return;
	while (cache->first < cache->end)
		drop_oldest(cache);
	for (uint32_t i = 0; i < SMALL_SIZES; i++)
		wk_buffer_pool_release(cache->small[i]);
	free(cache->blocks);
	free(cache);
}

static bool grow(wk_block_cache *cache) {
	uint32_t capacity = cache->capacity == 0 ? 64 : cache->capacity * 2;
	cached_block *blocks = calloc(capacity, sizeof *blocks);
	if (blocks == NULL)
		return false;
	for (uint64_t i = cache->first; i < cache->end; i++)
		blocks[i & (capacity - 1)] = *slot(cache, i);
	free(cache->blocks);
	cache->blocks = blocks;
	cache->capacity = capacity;
	return true;
}

/* A small block in a big buffer is to be copied out, so that the memory counted is the memory held. */
static bool is_too_big(const wk_buffer *buffer, size_t size) {
	return size * 2 < buffer->capacity;
}

static wk_buffer *right_sized(wk_block_cache *cache, wk_buffer *buffer, size_t size) {
	if (!is_too_big(buffer, size))
		return buffer;
	size_t which = (size - 1) / WK_BLOCK_ALIGNMENT;
	wk_buffer *small = wk_buffer_new(which < SMALL_SIZES ? cache->small[which] : NULL, size);
	if (small == NULL)
		return buffer;
	memcpy(small->bytes, buffer->bytes, size);
	wk_buffer_release(buffer);
	return small;
}

static void make_room(wk_block_cache *cache, uint64_t bytes) {
	while (cache->first < cache->end && cache->bytes + bytes > cache->bytes_max)
		drop_oldest(cache);
}

void wk_block_cache_put(wk_block_cache *cache, uint64_t file_id, uint64_t offset, wk_buffer *buffer, size_t size) {
	if (size > cache->bytes_max || (cache->end - cache->first == cache->capacity && !grow(cache))) {
		wk_buffer_release(buffer);
		return;
	}
	make_room(cache, is_too_big(buffer, size) ? size : buffer->capacity);
	buffer = right_sized(cache, buffer, size);
	make_room(cache, buffer->capacity);
	*slot(cache, cache->end++) = (cached_block){buffer, file_id, offset, size};
	cache->bytes += buffer->capacity;
}

wk_buffer *wk_block_cache_get(wk_block_cache *cache, uint64_t file_id, uint64_t offset, size_t size, size_t *at,
                              size_t *available) {
	uint64_t low = cache->first, high = cache->end; /* the last block that starts at or before the place */
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		const cached_block *block = slot(cache, middle);
		if (block->file_id < file_id || (block->file_id == file_id && block->offset <= offset))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == cache->first)
		return NULL;
	const cached_block *block = slot(cache, low - 1);
	if (block->buffer == NULL || block->file_id != file_id || offset + size > block->offset + block->size)
		return NULL;
	*at = (size_t)(offset - block->offset);
	*available = block->size - *at;
	return wk_buffer_retain(block->buffer);
}

void wk_block_cache_drop_file(wk_block_cache *cache, uint64_t file_id) {
	for (uint64_t i = cache->first; i < cache->end; i++) {
		cached_block *block = slot(cache, i);
		if (block->file_id == file_id && block->buffer != NULL) {
			cache->bytes -= block->buffer->capacity;
			wk_buffer_release(block->buffer);
			block->buffer = NULL;
		}
	}
	while (cache->first < cache->end && slot(cache, cache->first)->buffer == NULL)
		cache->first++;
}

uint64_t wk_block_cache_bytes(const wk_block_cache *cache) {
	return cache->bytes;
}
