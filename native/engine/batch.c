#include "engine/batch.h"

#include <stdlib.h>

wk_batch *wk_batch_new(void) {
	return calloc(1, sizeof(wk_batch));
}

bool wk_batch_add(wk_batch *batch, const wk_record *record) {
	if (batch->count == batch->capacity) {
		size_t capacity = batch->capacity == 0 ? 16 : batch->capacity * 2;
		wk_record *records = realloc(batch->records, capacity * sizeof *records);
		if (records == NULL)
			return false;
		batch->records = records;
		batch->capacity = capacity;
	}
	batch->records[batch->count++] = *record;
	batch->bytes += record->size;
	return true;
}

bool wk_batch_hold(wk_batch *batch, wk_buffer *buffer) {
	if (batch->buffers_count > 0 && batch->buffers[batch->buffers_count - 1] == buffer)
		return true;
	if (batch->buffers_count == batch->buffers_capacity) {
		size_t capacity = batch->buffers_capacity == 0 ? 4 : batch->buffers_capacity * 2;
		wk_buffer **buffers = realloc(batch->buffers, capacity * sizeof(wk_buffer *));
		if (buffers == NULL)
			return false;
		batch->buffers = buffers;
		batch->buffers_capacity = capacity;
	}
	batch->buffers[batch->buffers_count++] = wk_buffer_retain(buffer);
	return true;
}

const wk_record *wk_batch_records(const wk_batch *batch, size_t *count) {
	*count = batch->count;
	return batch->records;
}

void wk_batch_release(wk_batch *batch) {
	for (size_t i = 0; i < batch->buffers_count; i++)
		wk_buffer_release(batch->buffers[i]);
	free(batch->buffers);
	free(batch->records);
	free(batch);
}
