#include "engine/index/place_list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { GROWTH = 4 };
static_assert(WK_PLACE_CHUNK == GROWTH * GROWTH * GROWTH * GROWTH, "a chunk that grows from GROWTH places ends full");

wk_place_list *wk_place_list_new(void) {
	wk_place_list *list = calloc(1, sizeof *list);
	if (list != NULL)
		list->last_entry = -1;
	return list;
}

static wk_place_chunk **chunks_of(const wk_place_list *list) {
	return list->chunks_count > 1 ? list->chunks : (wk_place_chunk **)&list->one;
}

/* There is room for so many chunks. */
static uint32_t capacity_for(uint32_t chunks) {
	uint32_t capacity = 1;
	while (capacity < chunks)
		capacity *= GROWTH;
	return capacity;
}

void wk_place_list_free(wk_place_list *list) {
	if (list == NULL)
		return;
	for (uint32_t i = 0; i < list->chunks_count; i++)
		free(chunks_of(list)[i]);
	if (list->chunks_count > 1)
		free(list->chunks);
	free(list);
}

static int64_t last_of(const wk_place_chunk *chunk) {
	return chunk->places[chunk->count - 1].entry_id;
}

/* The first chunk that ends at this id or behind it; chunks_count: none does. */
static uint32_t chunk_of(const wk_place_list *list, int64_t entry_id) {
	if (list->chunks_count == 0 || list->last_entry < entry_id)
		return list->chunks_count; /* the usual case: a new highest id */
	uint32_t low = 0, high = list->chunks_count - 1;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (last_of(chunks_of(list)[middle]) < entry_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint32_t place_in(const wk_place_chunk *chunk, int64_t entry_id) {
	uint32_t low = 0, high = chunk->count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (chunk->places[middle].entry_id < entry_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* An empty chunk before chunk number `at`. */
static wk_place_chunk *insert_chunk(wk_place_list *list, uint32_t at, uint32_t capacity) {
	wk_place_chunk *chunk = malloc(sizeof *chunk + capacity * sizeof *chunk->places);
	if (chunk == NULL)
		return NULL;
	uint32_t room = capacity_for(list->chunks_count);
	wk_place_chunk **chunks = chunks_of(list);
	if (list->chunks_count == room) {
		wk_place_chunk **larger = malloc(GROWTH * (size_t)room * sizeof(wk_place_chunk *));
		if (larger == NULL) {
			free(chunk);
			return NULL;
		}
		memcpy(larger, chunks, list->chunks_count * sizeof(wk_place_chunk *));
		if (list->chunks_count > 1)
			free(chunks);
		list->chunks = chunks = larger;
	}
	memmove(&chunks[at + 1], &chunks[at], (list->chunks_count - at) * sizeof(wk_place_chunk *));
	chunks[at] = chunk;
	list->chunks_count++;
	*chunk = (wk_place_chunk){.capacity = capacity};
	return chunk;
}

/* The upper half of a full chunk becomes one of its own. */
static bool split(wk_place_list *list, uint32_t at) {
	wk_place_chunk *upper = insert_chunk(list, at + 1, WK_PLACE_CHUNK);
	if (upper == NULL)
		return false;
	wk_place_chunk *lower = chunks_of(list)[at];
	upper->count = lower->count / 2;
	lower->count -= upper->count;
	memcpy(upper->places, lower->places + lower->count, upper->count * sizeof *upper->places);
	return true;
}

/* Room for one more behind the last place of all. */
static wk_place_chunk *room_at_end(wk_place_list *list) {
	wk_place_chunk *chunk = chunks_of(list)[list->chunks_count - 1];
	if (chunk->count == WK_PLACE_CHUNK)
		return insert_chunk(list, list->chunks_count, WK_PLACE_CHUNK);
	if (chunk->count < chunk->capacity)
		return chunk;
	uint32_t capacity = chunk->capacity * GROWTH;
	chunk = realloc(chunk, sizeof *chunk + capacity * sizeof *chunk->places);
	if (chunk == NULL)
		return NULL;
	chunk->capacity = capacity;
	return chunks_of(list)[list->chunks_count - 1] = chunk;
}

/* Room in chunk number *at, where *place is to stand; both move where the chunk is split. */
static bool room_in(wk_place_list *list, uint32_t *at, uint32_t *place) {
	wk_place_chunk *chunk = chunks_of(list)[*at];
	if (chunk->count < chunk->capacity)
		return true;
	if (chunk->capacity < WK_PLACE_CHUNK) {
		uint32_t capacity = chunk->capacity * GROWTH;
		chunk = realloc(chunk, sizeof *chunk + capacity * sizeof *chunk->places);
		if (chunk == NULL)
			return false;
		chunk->capacity = capacity;
		chunks_of(list)[*at] = chunk;
		return true;
	}
	if (!split(list, *at))
		return false;
	if (*place > chunks_of(list)[*at]->count) {
		*place -= chunks_of(list)[*at]->count;
		++*at;
	}
	return true;
}

/* The id before the place, whether it is in this chunk or the one before; -2: none. */
static int64_t id_before(const wk_place_list *list, uint32_t at, uint32_t place) {
	if (place > 0)
		return chunks_of(list)[at]->places[place - 1].entry_id;
	return at > 0 ? last_of(chunks_of(list)[at - 1]) : -2;
}

static bool is_single(const wk_place_list *list) {
	return list->chunks_count == 0 && list->count == 1;
}

static wk_place single_of(const wk_place_list *list) {
	return (wk_place){list->last_entry, list->single};
}

/* There is a second one: both stand in a chunk. */
static bool leave_single(wk_place_list *list) {
	wk_place first = single_of(list);
	wk_place_chunk *chunk = insert_chunk(list, 0, GROWTH);
	if (chunk == NULL)
		return false;
	chunk->places[chunk->count++] = first;
	return true;
}

static bool put_single(wk_place_list *list, int64_t entry_id, wk_footer_item item, wk_footer_item *earlier) {
	if (list->count > 0)
		*earlier = list->single;
	list->single = item;
	list->last_entry = entry_id;
	list->count = list->runs_count = 1;
	list->bytes = item.size;
	return true;
}

bool wk_place_list_put(wk_place_list *list, int64_t entry_id, wk_footer_item item, wk_footer_item *earlier) {
	*earlier = (wk_footer_item){0};
	if (list->count == 0 || (is_single(list) && list->last_entry == entry_id))
		return put_single(list, entry_id, item, earlier);
	if (is_single(list) && !leave_single(list))
		return false;
	uint32_t at = chunk_of(list, entry_id);
	if (at == list->chunks_count) {
		wk_place_chunk *chunk = room_at_end(list);
		if (chunk == NULL)
			return false;
		chunk->places[chunk->count++] = (wk_place){entry_id, item};
		list->runs_count += list->last_entry + 1 != entry_id;
		list->last_entry = entry_id;
		list->count++;
		list->bytes += item.size;
		return true;
	}
	uint32_t place = place_in(chunks_of(list)[at], entry_id);
	wk_place *found = &chunks_of(list)[at]->places[place];
	if (found->entry_id == entry_id) {
		*earlier = found->item;
		found->item = item;
		list->bytes += item.size - earlier->size;
		return true;
	}
	bool joins_before = id_before(list, at, place) + 1 == entry_id, joins_after = entry_id + 1 == found->entry_id;
	if (!room_in(list, &at, &place))
		return false;
	wk_place_chunk *chunk = chunks_of(list)[at];
	memmove(&chunk->places[place + 1], &chunk->places[place], (chunk->count - place) * sizeof *chunk->places);
	chunk->places[place] = (wk_place){entry_id, item};
	chunk->count++;
	list->runs_count += 1u - joins_before - joins_after;
	list->count++;
	list->bytes += item.size;
	return true;
}

void wk_place_list_prefetch(const wk_place_list *list) {
	if (list->chunks_count == 0)
		return;
	const wk_place_chunk *chunk = chunks_of(list)[list->chunks_count - 1];
	__builtin_prefetch(chunk, 1);
	/* Exact where ids only grew; its own count would have to be fetched first. */
	__builtin_prefetch(&chunk->places[list->count % WK_PLACE_CHUNK], 1);
}

const wk_place *wk_place_list_seek(const wk_place_list *list, int64_t entry_id, wk_place_cursor *cursor) {
	if (is_single(list) && entry_id <= list->last_entry) {
		cursor->single = single_of(list);
		return &cursor->single;
	}
	cursor->chunk = chunk_of(list, entry_id);
	if (cursor->chunk == list->chunks_count)
		return NULL;
	cursor->at = place_in(chunks_of(list)[cursor->chunk], entry_id);
	return &chunks_of(list)[cursor->chunk]->places[cursor->at];
}

const wk_place *wk_place_list_next(const wk_place_list *list, wk_place_cursor *cursor) {
	if (is_single(list))
		return NULL;
	if (++cursor->at == chunks_of(list)[cursor->chunk]->count) {
		cursor->at = 0;
		if (++cursor->chunk == list->chunks_count)
			return NULL;
	}
	return &chunks_of(list)[cursor->chunk]->places[cursor->at];
}

uint32_t wk_place_list_before(const wk_place_list *list, int64_t entry_id) {
	if (is_single(list))
		return list->last_entry < entry_id;
	uint32_t chunk = chunk_of(list, entry_id), before = 0;
	if (chunk == list->chunks_count)
		return list->count;
	for (uint32_t i = 0; i < chunk; i++)
		before += chunks_of(list)[i]->count;
	return before + place_in(chunks_of(list)[chunk], entry_id);
}

uint64_t wk_place_list_memory(const wk_place_list *list) {
	uint64_t bytes = sizeof *list;
	if (list->chunks_count > 1)
		bytes += capacity_for(list->chunks_count) * sizeof(wk_place_chunk *);
	for (uint32_t i = 0; i < list->chunks_count; i++)
		bytes += sizeof *chunks_of(list)[i] + chunks_of(list)[i]->capacity * sizeof *chunks_of(list)[i]->places;
	return bytes;
}
