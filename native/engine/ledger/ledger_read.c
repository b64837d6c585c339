/* ledger_read.c: what a ledger store answers: entries, and what is known of ledgers. All of it is durable. */
#include <stdlib.h>
#include <string.h>

#include "engine/directory.h"
#include "engine/index.h"
#include "engine/ledger/ledger_block.h"
#include "engine/ledger/ledger_state.h"
#include "walkeeper/ledger.h"

struct wk_entry_batch {
	wk_buffer *buffer; /* what the entries point into, held */
	size_t count;
	wk_stored_entry entries[];
};

static wk_status unknown(const wk_engine *engine, int64_t ledger_id, wk_error *error) {
	return wk_fail(error, WK_NO_LEDGER, "ledger %lld: nothing is stored of it in %s", (long long)ledger_id,
	               engine->path);
}

/* ---- entries ---- */

/* *entry_id: of the last entry where WK_LAST_ENTRY is asked for. */
static wk_status resolve(wk_engine *engine, int64_t ledger_id, int64_t *entry_id, wk_error *error) {
	wk_engine_lock(engine);
	const wk_ledger *ledger = wk_ledger_find(engine, ledger_id);
	bool known = ledger != NULL || wk_ledger_state_find(engine, ledger_id, NULL);
	int64_t last = ledger != NULL ? ledger->last_entry : -1;
	wk_engine_unlock(engine);
	if (!known)
		return unknown(engine, ledger_id, error);
	int64_t asked = *entry_id;
	*entry_id = asked == WK_LAST_ENTRY ? last : asked;
	if (*entry_id < 0 || *entry_id > last)
		return wk_fail(error, WK_NOT_FOUND,
		               asked == WK_LAST_ENTRY ? "ledger %lld has no entries (asked for the last, %lld)"
		                                      : "ledger %lld has no entry %lld",
		               (long long)ledger_id, (long long)asked);
	return WK_OK;
}

static wk_status make_batch(const wk_span *span, uint32_t max_entries, uint64_t max_bytes, wk_entry_batch **made) {
	uint32_t count = 0;
	uint64_t bytes = 0;
	while (count < span->count && count < max_entries) {
		bytes += span->entries[count].size - WK_SUM_SIZE;
		if (count > 0 && bytes > max_bytes)
			break;
		count++;
	}
	wk_entry_batch *batch = malloc(sizeof *batch + count * sizeof *batch->entries);
	if (batch == NULL)
		return WK_NO_MEMORY;
	batch->buffer = span->buffer;
	batch->count = count;
	for (uint32_t i = 0; i < count; i++)
		batch->entries[i] = (wk_stored_entry){.bytes = span->buffer->bytes + span->entries[i].offset + WK_SUM_SIZE,
		                                      .size = span->entries[i].size - WK_SUM_SIZE,
		                                      .entry_id = span->entries[i].entry_id};
	*made = batch;
	return WK_OK;
}

static wk_status read(wk_engine *engine, int64_t ledger_id, int64_t first, uint32_t max_entries, uint64_t max_bytes,
                      wk_entry_batch **batch, wk_error *error) {
	wk_span *span = malloc(sizeof *span);
	if (span == NULL)
		return wk_fail(error, WK_NO_MEMORY, "reading ledger %lld: no memory", (long long)ledger_id);
	/* With room for the checksums, and for what stands before the first entry in its page. */
	uint64_t span_bytes = max_bytes + (uint64_t)max_entries * WK_SUMMED_OVERHEAD + WK_IO_ALIGNMENT;
	int64_t at = first;
	wk_status status = resolve(engine, ledger_id, &at, error);
	while (status == WK_OK) {
		int64_t last = at > INT64_MAX - max_entries ? INT64_MAX : at + max_entries - 1, found = at;
		status = wk_read_entries_ahead(engine, ledger_id, at, last, (size_t)span_bytes, span, error);
		at = first;
		if (status != WK_NOT_FOUND || (status = resolve(engine, ledger_id, &at, error)) != WK_OK)
			break; /* where it was deleted in between, that is what is told */
		if (at == found)
			status = wk_fail(error, WK_NOT_FOUND, "ledger %lld has no entry %lld", (long long)ledger_id, (long long)at);
	}
	if (status == WK_OK) {
		status = make_batch(span, max_entries, max_bytes, batch);
		if (status != WK_OK) {
			wk_buffer_release(span->buffer);
			wk_fail(error, status, "reading ledger %lld: no memory", (long long)ledger_id);
		}
	}
	free(span);
	return status;
}

wk_status wk_ledger_read(wk_namespace *ns, int64_t ledger_id, int64_t first, uint32_t max_entries, uint64_t max_bytes,
                         wk_entry_batch **batch, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter_kind(ns, WK_KIND_LEDGERS, error);
	if (status != WK_OK)
		return status;
	bool possible = first >= WK_LAST_ENTRY && max_entries > 0;
	if (max_entries > WK_SPAN_ENTRIES_MAX)
		max_entries = WK_SPAN_ENTRIES_MAX;
	if (max_bytes > UINT32_MAX)
		max_bytes = UINT32_MAX;
	status = possible ? read(ns->engine, ledger_id, first, max_entries, max_bytes, batch, error)
	                  : wk_fail(error, WK_INVALID,
	                            "reading ledger %lld: from entry %lld, at most %u: ids are 0 or more, or WK_LAST_ENTRY",
	                            (long long)ledger_id, (long long)first, max_entries);
	wk_leave(ns);
	return status;
}

/* *first: of the last entry where that is asked for. */
static bool is_stored(wk_engine *engine, int64_t ledger_id, int64_t *first) {
	wk_engine_lock(engine);
	const wk_ledger *ledger = wk_ledger_find(engine, ledger_id);
	if (ledger != NULL && *first == WK_LAST_ENTRY)
		*first = ledger->last_entry;
	bool stored = ledger != NULL && *first >= 0 && *first <= ledger->last_entry;
	wk_engine_unlock(engine);
	return stored;
}

wk_status wk_ledger_read_cached(wk_namespace *ns, int64_t ledger_id, int64_t first, uint32_t max_entries,
                                uint64_t max_bytes, wk_entry_batch **batch) {
	if (max_entries == 0 || wk_enter_kind(ns, WK_KIND_LEDGERS, NULL) != WK_OK)
		return WK_WOULD_BLOCK;
	if (max_entries > WK_SPAN_ENTRIES_MAX)
		max_entries = WK_SPAN_ENTRIES_MAX;
	wk_status status = WK_WOULD_BLOCK;
	wk_span *span = is_stored(ns->engine, ledger_id, &first) ? malloc(sizeof *span) : NULL;
	if (span != NULL) {
		int64_t last = first > INT64_MAX - max_entries ? INT64_MAX : first + max_entries - 1;
		status = wk_read_entries_cached(ns->engine, ledger_id, first, last, span);
		if (status == WK_OK && make_batch(span, max_entries, max_bytes, batch) != WK_OK) {
			wk_buffer_release(span->buffer);
			status = WK_WOULD_BLOCK;
		}
	}
	free(span);
	wk_leave(ns);
	return status;
}

const wk_stored_entry *wk_entry_batch_entries(const wk_entry_batch *batch, size_t *count) {
	*count = batch->count;
	return batch->entries;
}

uint64_t wk_entry_batch_memory(const wk_entry_batch *batch) {
	return sizeof *batch + batch->count * sizeof *batch->entries + batch->buffer->capacity;
}

void wk_entry_batch_release(wk_entry_batch *batch) {
	if (batch == NULL)
		return;
	wk_buffer_release(batch->buffer);
	free(batch);
}

/* ---- ledgers ---- */

static void describe_state(const wk_index_ledger *state, wk_ledger_info *info) {
	info->fenced = (state->bits & WK_LEDGER_FENCED) != 0;
	if ((state->bits & WK_LEDGER_HAS_KEY) != 0) {
		info->key_size = state->key_size;
		memcpy(info->key, state->key, sizeof info->key);
	}
	info->lac_size = state->lac_size;
	memcpy(info->lac, state->lac, sizeof info->lac);
}

static void count_entries(const wk_ledger *ledger, wk_ledger_info *info) {
	for (uint32_t i = 0; i < ledger->ranges_count; i++) {
		const wk_range *range = &wk_ranges(ledger)[i];
		uint64_t live = range->count - range->dead, bytes = range->open ? range->places->bytes : range->bytes;
		info->entries_count += live;
		info->bytes += range->count == 0 ? 0 : bytes * live / range->count - live * WK_SUM_SIZE;
	}
}

static wk_status describe(wk_namespace *ns, int64_t ledger_id, bool counted, wk_ledger_info *info, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter_kind(ns, WK_KIND_LEDGERS, error);
	if (status != WK_OK)
		return status;
	*info = (wk_ledger_info){.ledger_id = ledger_id, .last_entry = -1};
	wk_engine *engine = ns->engine;
	wk_engine_lock(engine);
	wk_ledger *ledger = NULL;
	if (counted)
		status = wk_ranges_bring(engine, ledger_id, -1, &ledger, error);
	else
		ledger = wk_ledger_find(engine, ledger_id);
	wk_index_ledger state;
	bool has_state = wk_ledger_state_find(engine, ledger_id, &state);
	if (status == WK_OK && ledger == NULL && !has_state)
		status = unknown(engine, ledger_id, error);
	if (ledger != NULL)
		info->last_entry = ledger->last_entry;
	if (status == WK_OK && ledger != NULL && counted)
		count_entries(ledger, info);
	if (has_state)
		describe_state(&state, info);
	wk_engine_unlock(engine);
	wk_leave(ns);
	return status;
}

wk_status wk_ledger_describe(wk_namespace *ns, int64_t ledger_id, wk_ledger_info *info, wk_error *error) {
	return describe(ns, ledger_id, true, info, error);
}

wk_status wk_ledger_describe_state(wk_namespace *ns, int64_t ledger_id, wk_ledger_info *info, wk_error *error) {
	return describe(ns, ledger_id, false, info, error);
}

/* Adds [first, last] behind the ranges there are; false: they are full. */
static bool add_range(wk_entry_range *ranges, size_t max, size_t *count, int64_t first, int64_t last) {
	if (*count > 0 && ranges[*count - 1].last + 1 == first) {
		ranges[*count - 1].last = last;
		return true;
	}
	if (*count == max)
		return false;
	ranges[(*count)++] = (wk_entry_range){first, last};
	return true;
}

static wk_status list_entries(wk_engine *engine, int64_t ledger_id, int64_t from, wk_entry_range *ranges, size_t max,
                              size_t *count, wk_error *error) {
	wk_status status = WK_OK;
	bool more = true;
	for (int64_t at = from; more && status == WK_OK;) {
		wk_stretch stretch;
		status = wk_lookup(engine, ledger_id, at, INT64_MAX - 1, WK_LOOKUP_ALL, NULL, 0, &stretch, error);
		if (status == WK_NOT_FOUND)
			return WK_OK; /* it has no entries */
		if (status != WK_OK)
			break;
		more = stretch.last_entry < INT64_MAX - 1;
		if (stretch.file != NULL) {
			more &= add_range(ranges, max, count, at, stretch.last_entry);
			wk_stretch_release(engine, &stretch);
		}
		at = stretch.last_entry + more;
	}
	return status;
}

wk_status wk_ledger_entries(wk_namespace *ns, int64_t ledger_id, int64_t from, wk_entry_range *ranges, size_t max,
                            size_t *count, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter_kind(ns, WK_KIND_LEDGERS, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = ns->engine;
	wk_engine_lock(engine);
	bool known = wk_ledger_find(engine, ledger_id) != NULL || wk_ledger_state_find(engine, ledger_id, NULL);
	wk_engine_unlock(engine);
	size_t found = 0;
	status = known ? list_entries(engine, ledger_id, from > 0 ? from : 0, ranges, max, &found, error)
	               : unknown(engine, ledger_id, error);
	if (status == WK_OK)
		*count = found;
	wk_leave(ns);
	return status;
}

/* ---- the list ---- */

/* The smallest ids that were shown to it, as a heap with the largest on top. */
typedef struct smallest {
	int64_t *ids;
	size_t count, max;
} smallest;

static void sift_down(smallest *s, size_t at) {
	for (size_t child; (child = 2 * at + 1) < s->count; at = child) {
		child += child + 1 < s->count && s->ids[child + 1] > s->ids[child];
		if (s->ids[child] <= s->ids[at])
			return;
		int64_t swapped = s->ids[at];
		s->ids[at] = s->ids[child];
		s->ids[child] = swapped;
	}
}

static void show(smallest *s, int64_t id) {
	if (s->count == s->max) {
		if (id < s->ids[0]) {
			s->ids[0] = id;
			sift_down(s, 0);
		}
		return;
	}
	size_t at = s->count++;
	for (; at > 0 && s->ids[(at - 1) / 2] < id; at = (at - 1) / 2)
		s->ids[at] = s->ids[(at - 1) / 2];
	s->ids[at] = id;
}

static int by_number(const void *a, const void *b) {
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

wk_status wk_ledger_list(wk_namespace *ns, int64_t from, int64_t *ledger_ids, size_t max, size_t *count,
                         wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter_kind(ns, WK_KIND_LEDGERS, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = ns->engine;
	smallest found = {.ids = ledger_ids, .max = max};
	wk_engine_lock(engine);
	for (uint32_t i = 0; max > 0 && i < engine->ledgers_capacity; i++)
		if (engine->ledgers[i] != NULL && engine->ledgers[i]->id >= from)
			show(&found, engine->ledgers[i]->id);
	for (uint32_t i = 0; max > 0 && i < engine->states_capacity; i++) {
		const wk_ledger_state *state = engine->states[i];
		if (state != NULL && state->bits != 0 && state->ledger_id >= from &&
		    wk_ledger_find(engine, state->ledger_id) == NULL)
			show(&found, state->ledger_id);
	}
	wk_engine_unlock(engine);
	if (found.count > 1)
		qsort(ledger_ids, found.count, sizeof *ledger_ids, by_number);
	*count = found.count;
	wk_leave(ns);
	return WK_OK;
}
