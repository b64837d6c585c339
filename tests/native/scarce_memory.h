/*
 * scarce_memory.h: an allocation of the engine that finds no memory. The linker leads the engine's calls here (--wrap),
 * so that it works under the sanitizers too. One thread.
 */
#ifndef SCARCE_MEMORY_H
#define SCARCE_MEMORY_H
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

static long allocations_left = -1; /* until one fails; -1: none does */

static inline void fail_allocation(long number) {
	allocations_left = number;
}

/* Has it failed meanwhile? None does any more. */
static inline bool allocation_failed(void) {
	bool failed = allocations_left < 0;
	allocations_left = -1;
	return failed;
}

static bool is_refused(void) {
	if (allocations_left < 0 || allocations_left-- > 0)
		return false;
	errno = ENOMEM;
	return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size) {
	return is_refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
	return is_refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
	return is_refused() ? NULL : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
	return is_refused() ? NULL : __real_aligned_alloc(alignment, size);
}
#endif
