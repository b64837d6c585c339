#include "records/buffer.h"

#include <assert.h>
#include <stdlib.h>

#include "core/journal_block.h"

/*
 * Of large ones the alignment is taken out of what was asked for in excess: an allocator that is asked for it (glibc's,
 * until 2.38) does not use again what was freed, and a gigabyte is gone where a few megabytes are in use.
 */
enum { LARGE = 64 * 1024 };

static bool take_memory(wk_buffer *buffer, size_t capacity) {
	bool large = capacity >= LARGE;
	buffer->memory = large ? malloc(capacity + WK_BLOCK_ALIGNMENT) : aligned_alloc(WK_BLOCK_ALIGNMENT, capacity);
	uintptr_t at = (uintptr_t)buffer->memory;
	buffer->bytes = (uint8_t *)((at + WK_BLOCK_ALIGNMENT - 1) & ~(uintptr_t)(WK_BLOCK_ALIGNMENT - 1));
	buffer->capacity = capacity;
	return buffer->memory != NULL;
}

static void free_memory(wk_buffer *buffer) {
	free(buffer->memory);
	free(buffer);
}

wk_buffer_pool *wk_buffer_pool_new(size_t capacity, uint32_t free_max) {
	wk_buffer_pool *pool = calloc(1, sizeof *pool);
	if (pool == NULL)
		return NULL;
	pthread_mutex_init(&pool->lock, NULL);
	atomic_init(&pool->references, 1);
	pool->capacity = (capacity + WK_BLOCK_ALIGNMENT - 1) & ~(size_t)(WK_BLOCK_ALIGNMENT - 1);
	pool->free_max = free_max;
	return pool;
}

void wk_buffer_pool_release(wk_buffer_pool *pool) {
	if (pool == NULL || atomic_fetch_sub(&pool->references, 1) != 1)
		return;
	while (pool->free != NULL) {
		wk_buffer *buffer = pool->free;
		pool->free = buffer->next;
		free_memory(buffer);
	}
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/*
 * Tried, not waited for: in a forked child the lock may be a thread's that is not there, and records may be released
 * there all the same. Who does not get it does without the pool.
 */
static wk_buffer *take_free(wk_buffer_pool *pool) {
	if (pthread_mutex_trylock(&pool->lock) != 0)
		return NULL;
	wk_buffer *buffer = pool->free;
	if (buffer != NULL) {
		pool->free = buffer->next;
		pool->free_count--;
	}
	pthread_mutex_unlock(&pool->lock);
	return buffer;
}

wk_buffer *wk_buffer_new(wk_buffer_pool *pool, size_t size) {
	wk_buffer *buffer = NULL;
	if (pool != NULL && size > pool->capacity)
		pool = NULL;
	if (pool != NULL)
		buffer = take_free(pool);
	if (buffer == NULL) {
		size_t capacity = pool != NULL ? pool->capacity
		                               : (size + WK_BLOCK_ALIGNMENT - 1) & ~(size_t)(WK_BLOCK_ALIGNMENT - 1);
		if (capacity == 0)
			capacity = WK_BLOCK_ALIGNMENT;
		buffer = calloc(1, sizeof *buffer);
		if (buffer == NULL)
			return NULL;
		if (!take_memory(buffer, capacity)) {
			free(buffer);
			return NULL;
		}
	}
	buffer->pool = pool;
	buffer->next = NULL;
	if (pool != NULL)
		atomic_fetch_add(&pool->references, 1);
	atomic_store(&buffer->references, 1);
	return buffer;
}

wk_buffer *wk_buffer_retain(wk_buffer *buffer) {
	uint32_t before = atomic_fetch_add(&buffer->references, 1);
	assert(before > 0);
	(void)before;
	return buffer;
}

void wk_buffer_release(wk_buffer *buffer) {
	if (buffer == NULL)
		return;
	uint32_t before = atomic_fetch_sub(&buffer->references, 1);
	assert(before > 0);
	if (before != 1)
		return;
	wk_buffer_pool *pool = buffer->pool;
	if (pool != NULL && pthread_mutex_trylock(&pool->lock) == 0) {
		if (pool->free_count < pool->free_max) {
			buffer->next = pool->free;
			pool->free = buffer;
			pool->free_count++;
			buffer = NULL;
		}
		pthread_mutex_unlock(&pool->lock);
	}
	if (buffer != NULL) {
		free_memory(buffer);
	}
	wk_buffer_pool_release(pool);
}
