/*
 * scarce_memory.h: memory runs out at the allocation that the test chooses, once or a few times. The linker gives the
 * engine's calls to these functions (native/CMakeLists.txt).
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

static long allocations_left; /* until one fails */
static long refusals_left;    /* from there on */
static int sheltered;         /* > 0: what runs is not the engine, and always finds memory */

static bool memory_is_short(void) {
	if (refusals_left == 0 || sheltered > 0 || allocations_left-- > 0)
		return false;
	allocations_left = 0;
	refusals_left--;
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

/* From here on the allocation of that number, from 0, finds none, and so the next ones, `times` in all. */
static inline void let_memory_run_out(long number, long times) {
	allocations_left = number;
	refusals_left = times;
}

/* There is enough again; did one of those find none that were to? (times = 1) */
static inline bool memory_ran_out(void) {
	bool ran_out = refusals_left == 0;
	refusals_left = 0;
	return ran_out;
}
#endif
