/*
 * scarce_memory.h: memory runs out once, at the allocation that the test chooses. The linker gives the engine's calls
 * to these functions (native/CMakeLists.txt).
 */
#ifndef SCARCE_MEMORY_H
#define SCARCE_MEMORY_H
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static long allocations_left = -1; /* until one fails; -1: none does */

static bool memory_is_short(void) {
	if (allocations_left < 0 || allocations_left-- > 0)
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t size) {
	return memory_is_short() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
	return memory_is_short() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
	return memory_is_short() ? NULL : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
	return memory_is_short() ? NULL : __real_aligned_alloc(alignment, size);
}

/* From here on the allocation of that number, from 0, finds none. */
static void let_memory_run_out(long number) {
	allocations_left = number;
}

/* There is enough again; did one find none? */
static bool memory_ran_out(void) {
	bool ran_out = allocations_left < 0;
	allocations_left = -1;
	return ran_out;
}
#endif
