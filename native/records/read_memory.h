/*
 * read_memory.h: the memory that readers hold, counted against read_bytes. Private. Counted itself, as what was given
 * out outlives the engine; atomics only.
 *
 * *Held* is every buffer that a reader or a batch points into, once however many do, and the lists of records of
 * batches. *Given* is the part of it that batches hold: the caller has it, and nobody but the caller can let it go.
 * So nobody waits for room: what does not fit is refused (batch.h says when).
 */
#ifndef WK_ENGINE_READ_MEMORY_H
#define WK_ENGINE_READ_MEMORY_H
#include "records/buffer.h"

typedef struct wk_read_memory {
	_Atomic uint32_t references;
	_Atomic uint64_t held, given;
	uint64_t limit; /* of what is given */
} wk_read_memory;

wk_read_memory *wk_read_memory_new(uint64_t limit);
wk_read_memory *wk_read_memory_retain(wk_read_memory *memory);
void wk_read_memory_release(wk_read_memory *memory); /* may be NULL */

/* A reader points into the buffer, or no longer does (NULL: nothing). The reference is the caller's. */
void wk_read_memory_hold(wk_read_memory *memory, wk_buffer *buffer);
void wk_read_memory_drop(wk_read_memory *memory, wk_buffer *buffer);
/* A batch does. */
void wk_read_memory_give(wk_read_memory *memory, wk_buffer *buffer);
void wk_read_memory_take(wk_read_memory *memory, wk_buffer *buffer);
/* The list of records of a batch has grown, or is gone. */
void wk_read_memory_give_bytes(wk_read_memory *memory, size_t bytes);
void wk_read_memory_take_bytes(wk_read_memory *memory, size_t bytes);
#endif
