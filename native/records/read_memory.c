#include "records/read_memory.h"

#include <assert.h>
#include <stdlib.h>

wk_read_memory *wk_read_memory_new(uint64_t limit) {
	wk_read_memory *memory = calloc(1, sizeof *memory);
	if (memory == NULL)
		return NULL;
	atomic_init(&memory->references, 1);
	memory->limit = limit;
	return memory;
}

wk_read_memory *wk_read_memory_retain(wk_read_memory *memory) {
	atomic_fetch_add(&memory->references, 1);
	return memory;
}

void wk_read_memory_release(wk_read_memory *memory) {
	if (memory == NULL || atomic_fetch_sub(&memory->references, 1) != 1)
		return;
	assert(memory->held == 0 && memory->given == 0);
	free(memory);
}

/* The first of its users counts a buffer, and the last one takes it out. */
static void more(_Atomic uint32_t *users, _Atomic uint64_t *sum, uint64_t bytes) {
	if (atomic_fetch_add(users, 1) == 0)
		atomic_fetch_add(sum, bytes);
}

static void fewer(_Atomic uint32_t *users, _Atomic uint64_t *sum, uint64_t bytes) {
	if (atomic_fetch_sub(users, 1) == 1)
		atomic_fetch_sub(sum, bytes);
}

void wk_read_memory_hold(wk_read_memory *memory, wk_buffer *buffer) {
	if (buffer != NULL)
		more(&buffer->readers, &memory->held, buffer->capacity);
}

void wk_read_memory_drop(wk_read_memory *memory, wk_buffer *buffer) {
	if (buffer != NULL)
		fewer(&buffer->readers, &memory->held, buffer->capacity);
}

void wk_read_memory_give(wk_read_memory *memory, wk_buffer *buffer) {
	more(&buffer->batches, &memory->given, buffer->capacity);
	wk_read_memory_hold(memory, buffer);
}

void wk_read_memory_take(wk_read_memory *memory, wk_buffer *buffer) {
	fewer(&buffer->batches, &memory->given, buffer->capacity);
	wk_read_memory_drop(memory, buffer);
}

void wk_read_memory_give_bytes(wk_read_memory *memory, size_t bytes) {
	atomic_fetch_add(&memory->given, bytes);
	atomic_fetch_add(&memory->held, bytes);
}

void wk_read_memory_take_bytes(wk_read_memory *memory, size_t bytes) {
	atomic_fetch_sub(&memory->given, bytes);
	atomic_fetch_sub(&memory->held, bytes);
}
