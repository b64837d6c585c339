#include "engine/index/page_cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* CLOCK over a fixed table: four ways a set, so a lookup touches one cache line of tags and needs no list. */
enum { WAYS = 4, MEMBERS_SIZE = WK_PAGE_SIZE };
static_assert(WK_PAGE_ITEMS * sizeof(wk_footer_item) <= MEMBERS_SIZE &&
                  WK_PAGE_RUNS * sizeof(wk_footer_run) <= MEMBERS_SIZE,
              "the members of any page fit");

typedef struct cached_page {
	uint64_t file_id; /* 0: empty */
	uint64_t offset;
	uint32_t count;
	bool used;
	uint8_t *members;
} cached_page;

struct wk_page_cache {
	pthread_mutex_t lock;
	cached_page *pages;
	uint64_t sets; /* a power of two */
	uint32_t hand;
	uint64_t bytes;
};

wk_page_cache *wk_page_cache_new(uint64_t bytes_max) {
	wk_page_cache *cache = calloc(1, sizeof *cache);
	if (cache == NULL)
		return NULL;
	uint64_t pages = bytes_max / (MEMBERS_SIZE + sizeof(cached_page));
	cache->sets = 1;
	while (cache->sets * 2 * WAYS <= pages)
		cache->sets *= 2;
	cache->pages = calloc(cache->sets * WAYS, sizeof *cache->pages);
	if (cache->pages == NULL) {
		free(cache);
		return NULL;
	}
	pthread_mutex_init(&cache->lock, NULL);
	return cache;
}

void wk_page_cache_free(wk_page_cache *cache) {
	if (cache == NULL)
		return;
	for (uint64_t i = 0; i < cache->sets * WAYS; i++)
		free(cache->pages[i].members);
	free(cache->pages);
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}

static cached_page *set_of(wk_page_cache *cache, uint64_t file_id, uint64_t offset) {
	uint64_t hash = (file_id * 0x9E3779B97F4A7C15u) ^ ((offset >> 12) * 0xC2B2AE3D27D4EB4Fu);
	return &cache->pages[((hash >> 32) & (cache->sets - 1)) * WAYS];
}

bool wk_page_cache_get(wk_page_cache *cache, uint64_t file_id, uint64_t offset, void *members, size_t size,
                       uint32_t *count) {
	bool found = false;
	pthread_mutex_lock(&cache->lock);
	cached_page *set = set_of(cache, file_id, offset);
	for (uint32_t i = 0; i < WAYS && !found; i++) {
		if (set[i].file_id == file_id && set[i].offset == offset) {
			memcpy(members, set[i].members, set[i].count * size);
			*count = set[i].count;
			set[i].used = found = true;
		}
	}
	pthread_mutex_unlock(&cache->lock);
	return found;
}

static cached_page *victim(wk_page_cache *cache, cached_page *set) {
	for (;;) {
		cached_page *page = &set[cache->hand++ % WAYS];
		if (page->file_id == 0 || !page->used)
			return page;
		page->used = false;
	}
}

void wk_page_cache_put(wk_page_cache *cache, uint64_t file_id, uint64_t offset, const void *members, size_t size,
                       uint32_t count) {
	assert(count * size <= MEMBERS_SIZE);
	pthread_mutex_lock(&cache->lock);
	cached_page *set = set_of(cache, file_id, offset);
	cached_page *page = NULL;
	for (uint32_t i = 0; i < WAYS; i++)
		if (set[i].file_id == file_id && set[i].offset == offset)
			page = &set[i]; /* another reader was quicker */
	if (page == NULL)
		page = victim(cache, set);
	if (page->members == NULL) {
		page->members = malloc(MEMBERS_SIZE);
		if (page->members != NULL)
			cache->bytes += MEMBERS_SIZE;
	}
	if (page->members != NULL) {
		memcpy(page->members, members, count * size);
		page->file_id = file_id;
		page->offset = offset;
		page->count = count;
		page->used = true;
	}
	pthread_mutex_unlock(&cache->lock);
}

void wk_page_cache_drop_file(wk_page_cache *cache, uint64_t file_id) {
	pthread_mutex_lock(&cache->lock);
	for (uint64_t i = 0; i < cache->sets * WAYS; i++)
		if (cache->pages[i].file_id == file_id)
			cache->pages[i].file_id = 0;
	pthread_mutex_unlock(&cache->lock);
}

uint64_t wk_page_cache_bytes(wk_page_cache *cache) {
	pthread_mutex_lock(&cache->lock);
	uint64_t bytes = cache->bytes;
	pthread_mutex_unlock(&cache->lock);
	return bytes;
}
