/*
 * buffer.h: shared, aligned memory. Private.
 *
 * A buffer is counted: blocks in flight, the memtable and readers' batches hold it together. The pool keeps a few big
 * ones, so that the hot path does not pay for fresh pages.
 */
#ifndef WK_ENGINE_BUFFER_H
#define WK_ENGINE_BUFFER_H
#include <pthread.h>
#include <stdatomic.h>

#include "walkeeper/core.h"

typedef struct wk_buffer_pool wk_buffer_pool;

typedef struct wk_buffer {
	_Atomic uint32_t references;
	uint8_t *bytes; /* aligned to 4096 */
	void *memory;   /* what is freed */
	size_t capacity;
	_Atomic uint32_t readers, batches; /* that point into it (read_memory.h) */
	wk_buffer_pool *pool;              /* where it goes when released, NULL: freed */
	struct wk_buffer *next;
} wk_buffer;

/* One size of buffer; counted, as views outlive the engine. */
struct wk_buffer_pool {
	pthread_mutex_t lock;
	_Atomic uint32_t references;
	wk_buffer *free;
	uint32_t free_count;
	uint32_t free_max;
	size_t capacity;
};

wk_buffer_pool *wk_buffer_pool_new(size_t capacity, uint32_t free_max);
void wk_buffer_pool_release(wk_buffer_pool *pool);

/* At least `size` bytes, one reference; from the pool (may be NULL) where it fits. NULL: no memory. */
wk_buffer *wk_buffer_new(wk_buffer_pool *pool, size_t size);
wk_buffer *wk_buffer_retain(wk_buffer *buffer);
void wk_buffer_release(wk_buffer *buffer); /* may be NULL */
#endif
