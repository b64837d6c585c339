#include "records/batch.h"

#include <stdlib.h>

enum { RECORDS_MIN = 16, BUFFERS_MIN = 4 };

wk_batch *wk_batch_new(wk_read_memory *memory) {
	wk_batch *batch = calloc(1, sizeof(wk_batch));
	if (batch != NULL)
		batch->memory = wk_read_memory_retain(memory);
	return batch;
}

/* May it take so many bytes more? */
static bool fits(const wk_batch *batch, uint64_t bytes, bool first_buffer) {
	const wk_read_memory *memory = batch->memory;
	uint64_t given = memory->given;
	if (first_buffer)
		return given <= batch->held || given + bytes <= memory->limit;
	return batch->count == 0 || batch->held + bytes <= memory->limit / 2;
}

static wk_status reserve_buffer(wk_batch *batch, wk_buffer *buffer) {
	if (buffer == NULL || (batch->buffers_count > 0 && batch->buffers[batch->buffers_count - 1] == buffer))
		return WK_OK;
	if (!fits(batch, buffer->capacity, batch->buffers_count == 0))
		return WK_FULL;
	if (batch->buffers_count == batch->buffers_capacity) {
		size_t capacity = batch->buffers_capacity == 0 ? BUFFERS_MIN : batch->buffers_capacity * 2;
		wk_buffer **buffers = realloc(batch->buffers, capacity * sizeof(wk_buffer *));
		if (buffers == NULL)
			return WK_NO_MEMORY;
		batch->buffers = buffers;
		batch->buffers_capacity = capacity;
	}
	batch->buffers[batch->buffers_count++] = wk_buffer_retain(buffer);
	wk_read_memory_give(batch->memory, buffer);
	batch->held += buffer->capacity;
	return WK_OK;
}

wk_status wk_batch_reserve(wk_batch *batch, wk_buffer *buffer) {
	wk_status status = reserve_buffer(batch, buffer);
	if (status != WK_OK || batch->count < batch->capacity)
		return status;
	size_t capacity = batch->capacity == 0 ? RECORDS_MIN : batch->capacity * 2;
	size_t more = (capacity - batch->capacity) * sizeof *batch->records;
	if (!fits(batch, more, false))
		return WK_FULL;
	wk_record *records = realloc(batch->records, capacity * sizeof *records);
	if (records == NULL)
		return WK_NO_MEMORY;
	batch->records = records;
	batch->capacity = capacity;
	wk_read_memory_give_bytes(batch->memory, more);
	batch->held += more;
	return WK_OK;
}

void wk_batch_add(wk_batch *batch, const wk_record *record) {
	batch->records[batch->count++] = *record;
	batch->bytes += record->size;
}

const wk_record *wk_batch_records(const wk_batch *batch, size_t *count) {
	*count = batch->count;
	return batch->records;
}

void wk_batch_release(wk_batch *batch) {
	for (size_t i = 0; i < batch->buffers_count; i++) {
		wk_read_memory_take(batch->memory, batch->buffers[i]);
		wk_buffer_release(batch->buffers[i]);
	}
	wk_read_memory_take_bytes(batch->memory, batch->capacity * sizeof *batch->records);
	wk_read_memory_release(batch->memory);
	free(batch->buffers);
	free(batch->records);
	free(batch);
}
