/* batch.h: records handed to a caller, and the memory they point into. Private. */
#ifndef WK_ENGINE_BATCH_H
#define WK_ENGINE_BATCH_H
#include "engine/buffer.h"
#include "walkeeper/log.h"

struct wk_batch {
	wk_record *records;
	size_t count, capacity;
	uint64_t bytes;      /* of payload */
	wk_buffer **buffers; /* held */
	size_t buffers_count, buffers_capacity;
};

wk_batch *wk_batch_new(void);
/* false: no memory. */
bool wk_batch_add(wk_batch *batch, const wk_record *record);
/* Holds the buffer, once in a row. */
bool wk_batch_hold(wk_batch *batch, wk_buffer *buffer);
/* As Arrow C structures; the batch may be released afterwards. */
wk_status wk_batch_to_arrow(const wk_batch *batch, void *schema, void *array);
#endif
