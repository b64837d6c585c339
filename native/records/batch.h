/*
 * batch.h: records handed to a caller, and the memory they point into. Private.
 *
 * What a batch holds counts against read_bytes (read_memory.h). A batch takes at most half of that limit, however much
 * was asked for, but always its first buffer; and the first buffer only while it fits beside what other batches hold,
 * or they hold nothing. So a caller who lets go of a batch before, or as soon as it has the next, is never refused.
 */
#ifndef WK_ENGINE_BATCH_H
#define WK_ENGINE_BATCH_H
#include "records/read_memory.h"
#include "walkeeper/log.h"

struct wk_batch {
	wk_read_memory *memory;
	wk_record *records;
	size_t count, capacity;
	uint64_t bytes;      /* of payload */
	wk_buffer **buffers; /* held */
	size_t buffers_count, buffers_capacity;
	uint64_t held; /* bytes of its buffers and of its list */
};

wk_batch *wk_batch_new(wk_read_memory *memory);
/*
 * Room for one more record, which points into `buffer` (NULL: into nothing). WK_FULL: the limit is reached; nothing
 * was changed. WK_NO_MEMORY.
 */
wk_status wk_batch_reserve(wk_batch *batch, wk_buffer *buffer);
/* After wk_batch_reserve. */
void wk_batch_add(wk_batch *batch, const wk_record *record);
#endif
