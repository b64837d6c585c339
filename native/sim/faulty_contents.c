/*
 * faulty_contents.c: the bytes of a simulated file, copied on write, and the instruments' own small tools.
 *
 * The live file, the durable one and the images of a disk mostly hold the same bytes; sharing them makes an image
 * cheap.
 */
#include "sim/faulty_disk.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* All bytes from the file's size to the capacity are zero, so growing a file needs no clearing. */
struct wk_contents_bytes {
	atomic_uint shares;
	uint64_t capacity;
	uint8_t bytes[];
};

static uint8_t *own(wk_contents *contents, uint64_t capacity);

void *wk_faulty_allocate(size_t count, size_t size) {
	void *memory = calloc(count ? count : 1, size);
	if (!memory)
		abort();
	return memory;
}

void *wk_faulty_grow(void *array, size_t count, size_t *capacity, size_t size) {
	if (count < *capacity)
		return array;
	*capacity = *capacity ? 2 * *capacity : 8;
	void *grown = realloc(array, *capacity * size);
	if (!grown)
		abort();
	return grown;
}

uint64_t wk_faulty_random(uint64_t *state) {
	uint64_t x = *state += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint64_t wk_faulty_chance(uint64_t seed, uint64_t which) {
	uint64_t state = seed ^ (which + 1) * 0xd1342543de82ef95u;
	return wk_faulty_random(&state);
}

bool wk_faulty_sector_survives(uint64_t seed, uint64_t sector, uint64_t sectors_count) {
	uint64_t style = wk_faulty_chance(seed, sectors_count);
	if (style & 1)
		return sector < (style >> 1) % (sectors_count + 1);
	return wk_faulty_chance(seed, sector) & 1;
}

wk_contents wk_contents_share(const wk_contents *contents) {
	if (contents->shared)
		atomic_fetch_add(&contents->shared->shares, 1);
	return *contents;
}

void wk_contents_release(wk_contents *contents) {
	if (contents->shared && atomic_fetch_sub(&contents->shared->shares, 1) == 1)
		free(contents->shared);
	*contents = (wk_contents){0};
}

/* The bytes for this copy alone, with room for `capacity`. */
static uint8_t *own(wk_contents *contents, uint64_t capacity) {
	struct wk_contents_bytes *old = contents->shared;
	if (old && atomic_load(&old->shares) == 1 && capacity <= old->capacity)
		return old->bytes;
	uint64_t had = old ? old->capacity : 0;
	if (capacity > had && capacity < 2 * had)
		capacity = 2 * had;
	if (capacity < had)
		capacity = had;
	struct wk_contents_bytes *made = wk_faulty_allocate(1, sizeof *made + capacity);
	atomic_init(&made->shares, 1);
	made->capacity = capacity;
	uint64_t size = contents->size;
	if (old && size > 0)
		memcpy(made->bytes, old->bytes, size);
	wk_contents_release(contents);
	*contents = (wk_contents){.shared = made, .size = size};
	return made->bytes;
}

void wk_contents_resize(wk_contents *contents, uint64_t size) {
	if (size < contents->size)
		memset(own(contents, 0) + size, 0, contents->size - size);
	else if (size > contents->size)
		own(contents, size);
	contents->size = size;
}

void wk_contents_write(wk_contents *contents, uint64_t offset, const uint8_t *bytes, uint64_t size) {
	if (size == 0)
		return;
	if (offset + size > contents->size)
		wk_contents_resize(contents, offset + size);
	uint8_t *at = own(contents, contents->size) + offset;
	if (bytes)
		memcpy(at, bytes, size);
	else
		memset(at, 0, size);
}

size_t wk_contents_read(const wk_contents *contents, uint64_t offset, uint8_t *bytes, size_t size) {
	if (offset >= contents->size || size == 0)
		return 0;
	if (size > contents->size - offset)
		size = contents->size - offset;
	memcpy(bytes, contents->shared->bytes + offset, size);
	return size;
}
