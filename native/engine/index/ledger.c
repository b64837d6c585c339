#include "engine/index/ledger.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/id_hash.h"
#include "engine/index/place_list.h"
#include "engine/index/range.h"
#include "engine/index/range_live.h"
#include "engine/index/range_pager.h"
#include "engine/ledger.h"

enum { TABLE_MIN = 64 };

wk_ledger *wk_ledger_find(wk_engine *engine, int64_t ledger_id) {
	if (engine->ledgers_capacity == 0)
		return NULL;
	for (uint32_t at = wk_id_home(engine->id_seed, ledger_id, engine->ledgers_capacity);;
	     at = (at + 1) & (engine->ledgers_capacity - 1)) {
		wk_ledger *ledger = engine->ledgers[at];
		if (ledger == NULL || ledger->id == ledger_id)
			return ledger;
	}
}

static bool grow_table(wk_engine *engine) {
	uint32_t capacity = engine->ledgers_capacity == 0 ? TABLE_MIN : engine->ledgers_capacity * 2;
	wk_ledger **table = calloc(capacity, sizeof *table);
	if (table == NULL)
		return false;
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++) {
		wk_ledger *ledger = engine->ledgers[i];
		if (ledger == NULL)
			continue;
		uint32_t at = wk_id_home(engine->id_seed, ledger->id, capacity);
		while (table[at] != NULL)
			at = (at + 1) & (capacity - 1);
		table[at] = ledger;
	}
	free(engine->ledgers);
	engine->ledgers = table;
	engine->ledgers_capacity = capacity;
	return true;
}

wk_ledger *wk_ledger_get(wk_engine *engine, int64_t ledger_id) {
	wk_ledger *ledger = wk_ledger_find(engine, ledger_id);
	if (ledger != NULL)
		return ledger;
	/* Half full at most: every ledger that a search passes is one that no cache has. */
	if (engine->ledgers_count * (uint64_t)2 >= engine->ledgers_capacity && !grow_table(engine))
		return NULL;
	ledger = calloc(1, sizeof *ledger);
	if (ledger == NULL)
		return NULL;
	ledger->id = ledger_id;
	ledger->last_entry = ledger->durable_entry = -1;
	uint32_t at = wk_id_home(engine->id_seed, ledger_id, engine->ledgers_capacity);
	while (engine->ledgers[at] != NULL)
		at = (at + 1) & (engine->ledgers_capacity - 1);
	engine->ledgers[at] = ledger;
	engine->ledgers_count++;
	return ledger;
}

/* Linear probing without tombstones: what follows the hole moves up where it may. */
static void remove_from_table(wk_engine *engine, wk_ledger *ledger) {
	uint32_t mask = engine->ledgers_capacity - 1;
	uint32_t hole = wk_id_home(engine->id_seed, ledger->id, engine->ledgers_capacity);
	while (engine->ledgers[hole] != ledger)
		hole = (hole + 1) & mask;
	engine->ledgers[hole] = NULL;
	engine->ledgers_count--;
	for (uint32_t at = (hole + 1) & mask; engine->ledgers[at] != NULL; at = (at + 1) & mask) {
		uint32_t home = wk_id_home(engine->id_seed, engine->ledgers[at]->id, engine->ledgers_capacity);
		if (((at - home) & mask) >= ((at - hole) & mask)) {
			engine->ledgers[hole] = engine->ledgers[at];
			engine->ledgers[at] = NULL;
			hole = at;
		}
	}
}

/* ---- live entries (range_live.h) ---- */

/* Somebody has to look which of its entries are dead. A range that is open is looked at once it is sealed. */
void wk_ledger_recount_later(wk_engine *engine, int64_t ledger_id, wk_range *range) {
	bool waits = range->uncounted && !range->open;
	range->uncounted = range->changed = true;
	if (waits || range->open || engine->read_only) /* a follower frees nothing */
		return;
	if (engine->recounts_count == engine->recounts_capacity) {
		uint32_t capacity = engine->recounts_capacity == 0 ? 16 : engine->recounts_capacity * 2;
		void *larger = realloc(engine->recounts, capacity * sizeof *engine->recounts);
		if (larger == NULL)
			return; /* a file may be kept longer than it must */
		engine->recounts = larger;
		engine->recounts_capacity = capacity;
	}
	engine->recounts[engine->recounts_count].ledger_id = ledger_id;
	engine->recounts[engine->recounts_count++].file_id = range->file->id;
}

void wk_ledger_recounted(wk_engine *engine, wk_ledger *ledger, wk_range *range, uint32_t dead) {
	wk_range_kill_to(range, dead);
	if (range->dead == range->count) {
		wk_range_kill_all(range);
		wk_ranges_tidy(engine, ledger);
	}
}

/* ---- whole ledgers ---- */

void wk_ledger_drop(wk_engine *engine, wk_ledger *ledger) {
	wk_range *ranges = wk_ranges_in_memory(ledger);
	for (uint32_t i = 0; i < ledger->ranges_count; i++)
		wk_range_kill_to(&ranges[i], ranges[i].count);
	if (ledger->paged)
		wk_ranges_orphan(engine, ledger);
	remove_from_table(engine, ledger);
	wk_ranges_free(engine, ledger);
	free(ledger);
}

void wk_ledgers_free(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++) {
		if (engine->ledgers[i] == NULL)
			continue;
		wk_ranges_free(engine, engine->ledgers[i]);
		free(engine->ledgers[i]);
	}
	free(engine->ledgers);
	free(engine->recounts);
	engine->ledgers = NULL;
	engine->recounts = NULL;
	engine->ledgers_count = engine->ledgers_capacity = engine->recounts_count = engine->recounts_capacity = 0;
}

/* ---- one entry more ---- */

/* A file not yet sealed must know whose runs to put into its footer. */
static bool note_ledger(wk_store_file *file, int64_t ledger_id) {
	if (file->ledgers_count == file->ledgers_capacity) {
		uint32_t capacity = file->ledgers_capacity == 0 ? 4 : file->ledgers_capacity * 2;
		int64_t *ledgers = realloc(file->ledgers, capacity * sizeof *ledgers);
		if (ledgers == NULL)
			return false;
		file->ledgers = ledgers;
		file->ledgers_capacity = capacity;
	}
	file->ledgers[file->ledgers_count++] = ledger_id;
	return true;
}

static wk_range *begin_range(wk_engine *engine, wk_ledger *ledger, wk_store_file *file, int64_t entry_id) {
	wk_place_list *places = wk_place_list_new();
	wk_range fresh = {.first_entry = entry_id, .last_entry = entry_id, .file = file, .places = places, .open = true};
	bool noted = places != NULL && note_ledger(file, ledger->id);
	wk_range *range = noted ? wk_range_insert(engine, ledger, &fresh) : NULL;
	if (range == NULL)
		wk_place_list_free(places);
	return range;
}

/* Does it hold the entry, which it spans? Of a sealed range with holes nobody knows without reading. */
static bool surely_holds(const wk_range *range, int64_t entry_id) {
	if (!range->open)
		return wk_range_is_dense(range);
	wk_place_cursor cursor;
	const wk_place *place = wk_place_list_seek(range->places, entry_id, &cursor);
	return place != NULL && place->entry_id == entry_id;
}

static bool may_hold(const wk_range *range, int64_t entry_id) {
	return (!range->open && !wk_range_is_dense(range)) || surely_holds(range, entry_id);
}

/*
 * Its copy of a live entry is dead. Where dead entries are not just those before first_live, it may be counted
 * already.
 */
static void kill_one(wk_engine *engine, wk_ledger *ledger, wk_range *range) {
	if (range->dead < range->count && range->dead == wk_range_dead_before(range, ledger->first_live))
		wk_range_kill_to(range, range->dead + 1);
	else if (range->dead < range->count)
		wk_ledger_recount_later(engine, ledger->id, range);
}

/* An entry came whose id is not the highest: if it has other places, the new one counts, and the others are dead. */
static void shadow(wk_engine *engine, wk_ledger *ledger, const wk_range *own, int64_t entry_id) {
	if (wk_ranges_are_out(ledger, entry_id))
		wk_ranges_fall_behind(engine, ledger);
	wk_range *over[WK_OVER_MAX];
	wk_rank below = wk_rank_highest;
	bool sure = true;
	uint32_t count;
	do {
		count = wk_ranges_over_in_memory(ledger, entry_id, below, over);
		for (uint32_t i = 0; i < count; i++) {
			wk_range *other = over[i];
			below = wk_rank_of(other->file);
			if (other == own || !may_hold(other, entry_id))
				continue;
			bool holds = surely_holds(other, entry_id);
			if (sure && holds)
				kill_one(engine, ledger, other);
			else
				wk_ledger_recount_later(engine, ledger->id, other);
			if (!other->open && other->dead == other->count) { /* a range never outlives its file */
				wk_range_kill_all(other);
				wk_ranges_tidy(engine, ledger);
			}
			if (holds) /* what is older still was dead before */
				return;
			sure = false;
		}
	} while (count == WK_OVER_MAX);
}

/* What may stand in two cache lines. */
static void fetch(const void *at, size_t size) {
	__builtin_prefetch(at, 1);
	__builtin_prefetch((const char *)at + size - 1, 1);
}

void wk_ledger_prefetch(const wk_ledger *ledger, enum wk_ledger_part part) {
	if (part == WK_LEDGER_ITSELF) {
		fetch(ledger, sizeof *ledger);
		return;
	}
	if (ledger->open_range >= ledger->ranges_count)
		return;
	const wk_range *range = &wk_ranges_in_memory(ledger)[ledger->open_range];
	if (part == WK_LEDGER_RANGES)
		fetch(range, sizeof *range);
	else if (range->open && part == WK_LEDGER_LIST)
		fetch(range->places, sizeof *range->places);
	else if (range->open)
		wk_place_list_prefetch(range->places);
}

void wk_ledger_prefetch_slot(const wk_engine *engine, int64_t ledger_id) {
	if (engine->ledgers_capacity > 0)
		__builtin_prefetch(&engine->ledgers[wk_id_home(engine->id_seed, ledger_id, engine->ledgers_capacity)]);
}

void wk_ledger_prefetch_in_slot(const wk_engine *engine, int64_t ledger_id) {
	if (engine->ledgers_capacity == 0)
		return;
	const wk_ledger *ledger = engine->ledgers[wk_id_home(engine->id_seed, ledger_id, engine->ledgers_capacity)];
	if (ledger != NULL)
		wk_ledger_prefetch(ledger, WK_LEDGER_ITSELF);
}

wk_status wk_ledger_add_item(wk_engine *engine, wk_ledger *ledger, wk_store_file *file, int64_t entry_id,
                             wk_footer_item item) {
	assert(file->state != WK_FILE_SEALED && entry_id >= 0);
	wk_range *range = wk_range_in(ledger, file);
	if (range == NULL)
		range = begin_range(engine, ledger, file, entry_id);
	if (range == NULL)
		return WK_NO_MEMORY;
	uint32_t runs = range->places->runs_count;
	wk_footer_item earlier;
	if (!wk_place_list_put(range->places, entry_id, item, &earlier)) {
		wk_ranges_tidy(engine, ledger); /* a range that was begun for it goes again */
		return WK_NO_MEMORY;
	}
	file->live_bytes += item.size;
	if (earlier.size > 0) { /* sent twice: the last one counts */
		file->live_bytes -= earlier.size < file->live_bytes ? earlier.size : file->live_bytes;
		return WK_OK;
	}
	file->runs_count += range->places->runs_count - runs;
	file->live_entries++;
	file->entries_count++;
	range->count++;
	range = wk_range_widen(engine, ledger, range, entry_id);
	if (entry_id < ledger->first_live)
		wk_range_kill_to(range, range->dead + 1);
	else if (entry_id <= ledger->last_entry)
		shadow(engine, ledger, range, entry_id);
	if (entry_id > ledger->last_entry)
		ledger->last_entry = entry_id;
	return WK_OK;
}

/* ---- the runs of a footer ---- */

/* The first run that ends behind the entry; count: none does. */
static uint32_t run_until(const wk_footer_run *runs, uint32_t count, int64_t entry_id) {
	uint32_t low = 0, high = count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (runs[middle].first_entry + runs[middle].count <= entry_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Only first..last of a dense range are left: the rest is in a newer file. Dead are those before first_live only. */
static void narrow(wk_ledger *ledger, wk_range *range, int64_t first, int64_t last) {
	uint32_t count = (uint32_t)(last - first + 1), live = range->count - range->dead;
	uint64_t bytes = wk_range_bytes_of(range, count), live_bytes = wk_range_bytes_of(range, live);
	range->changed = true;
	range->start += (uint32_t)(first - range->first_entry);
	range->first_entry = first;
	range->last_entry = last;
	range->bytes = (uint32_t)bytes;
	range->count = count;
	range->dead = wk_range_dead_before(range, ledger->first_live);
	uint32_t left = count - range->dead;
	uint64_t left_bytes = wk_range_bytes_of(range, left);
	wk_file_less_live(range->file, live - left, live_bytes > left_bytes ? live_bytes - left_bytes : 0);
	if (left == 0)
		range->count = range->dead = 0;
}

/* What of an older range these runs of a newer file hold is dead. */
static void cover(wk_engine *engine, wk_ledger *ledger, wk_range *old, const wk_footer_run *runs, uint32_t count) {
	uint32_t at = run_until(runs, count, old->first_entry);
	if (at == count || runs[at].first_entry > old->last_entry)
		return; /* they lie on both sides of it */
	int64_t first = runs[at].first_entry, end = first + runs[at].count;
	if (first <= old->first_entry && end > old->last_entry) {
		if (old->open)
			wk_range_kill_to(old, old->count); /* its file is not sealed yet, and its footer will list it */
		else
			wk_range_kill_all(old);
		return;
	}
	bool more = at + 1 < count && runs[at + 1].first_entry <= old->last_entry;
	bool at_an_end = first <= old->first_entry || end > old->last_entry;
	if (more || !at_an_end || !wk_range_is_dense(old) || old->dead != wk_range_dead_before(old, ledger->first_live))
		wk_ledger_recount_later(engine, ledger->id, old);
	else if (first <= old->first_entry)
		narrow(ledger, old, end, old->last_entry);
	else
		narrow(ledger, old, old->first_entry, first - 1);
}

/* What the ranges that are there and a new one mean for each other. */
static void cover_others(wk_engine *engine, wk_ledger *ledger, wk_range *fresh, const wk_footer_run *runs,
                         uint32_t count) {
	wk_range *ranges = wk_ranges_in_memory(ledger);
	uint32_t end = wk_ranges_until_in_memory(ledger, fresh->last_entry);
	uint32_t at = ledger->overlap ? 0 : wk_ranges_until_in_memory(ledger, fresh->first_entry);
	at -= at > 0;
	bool changed = false;
	for (; at < end; at++) {
		wk_range *other = &ranges[at];
		if (other->last_entry < fresh->first_entry)
			continue;
		changed = true;
		if (other->file == fresh->file) /* read once more */
			wk_range_kill_all(other);
		else if (wk_rank_is_lower(wk_rank_of(other->file), wk_rank_of(fresh->file)))
			cover(engine, ledger, other, runs, count);
		else if (wk_range_is_dense(other) && other->first_entry <= fresh->first_entry &&
		         other->last_entry >= fresh->last_entry)
			fresh->dead = fresh->count;
		else
			fresh->uncounted = true;
	}
	if (changed)
		wk_ranges_tidy(engine, ledger);
}

static wk_status put_range(wk_engine *engine, wk_ledger *ledger, const wk_range *fresh) {
	if (fresh->dead == fresh->count)
		return WK_OK;
	wk_range *range = wk_range_insert(engine, ledger, fresh);
	if (range == NULL)
		return WK_NO_MEMORY;
	fresh->file->live_entries += fresh->count - fresh->dead;
	fresh->file->live_bytes += wk_range_bytes_of(fresh, fresh->count - fresh->dead);
	range->uncounted = false;
	if (fresh->uncounted)
		wk_ledger_recount_later(engine, ledger->id, range);
	return WK_OK;
}

static void note_last(const wk_engine *engine, wk_ledger *ledger, int64_t last) {
	if (last > ledger->last_entry)
		ledger->last_entry = last;
	if (engine->read_only && last > ledger->durable_entry)
		ledger->durable_entry = last; /* sealed, or moved: durable both ways */
}

wk_status wk_ledger_put_range(wk_engine *engine, int64_t ledger_id, const wk_range *range) {
	wk_ledger *ledger = wk_ledger_get(engine, ledger_id);
	wk_status status = ledger == NULL ? WK_NO_MEMORY : put_range(engine, ledger, range);
	if (status != WK_OK)
		return status;
	range->file->entries_count += range->count;
	note_last(engine, ledger, range->last_entry);
	return WK_OK;
}

/* The runs of one ledger; `start` of them are before these in the footer. */
static wk_status add_runs(wk_engine *engine, wk_store_file *file, const wk_footer_run *runs, uint32_t count,
                          uint32_t start) {
	wk_ledger *ledger = wk_ledger_get(engine, runs[0].ledger_id);
	if (ledger == NULL)
		return WK_NO_MEMORY;
	wk_range fresh = {.first_entry = runs[0].first_entry,
	                  .last_entry = runs[count - 1].first_entry + runs[count - 1].count - 1,
	                  .file = file,
	                  .start = count == 1 ? runs[0].first_item : start,
	                  .runs_count = count};
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < count; i++) {
		fresh.count += runs[i].count;
		bytes += runs[i].bytes;
	}
	fresh.bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
	file->entries_count += fresh.count;
	cover_others(engine, ledger, &fresh, runs, count);
	uint32_t dead = wk_range_dead_before(&fresh, ledger->first_live);
	fresh.dead = dead > fresh.dead ? dead : fresh.dead;
	fresh.uncounted |= count > 1 && fresh.dead < fresh.count && fresh.first_entry < ledger->first_live;
	note_last(engine, ledger, fresh.last_entry);
	return put_range(engine, ledger, &fresh);
}

wk_status wk_ledger_add_runs(wk_engine *engine, wk_store_file *file, const wk_footer_run *runs, uint32_t count,
                             bool known_only) {
	wk_status status = WK_OK;
	uint32_t looks = 0;
	for (uint32_t i = 0, of_one; i < count && status == WK_OK; i += of_one) {
		if (known_only && ++looks % WK_LOOKS_AT_ONCE == 0)
			wk_engine_yield_lock(engine);
		for (of_one = 1; i + of_one < count && runs[i + of_one].ledger_id == runs[i].ledger_id;)
			of_one++;
		/* What the mover chose to copy and was deleted since is dead, also where the ledger was written anew. */
		bool dead = file->kind == WK_FILE_ENTRY_LOG &&
		            wk_ledger_deleted_since(engine, runs[i].ledger_id, file->last_sequence);
		if (!dead && (!known_only || wk_ledger_find(engine, runs[i].ledger_id) != NULL))
			status = add_runs(engine, file, runs + i, of_one, i);
	}
	return status;
}

/* ---- fewer ---- */

void wk_ledger_trim(wk_engine *engine, wk_ledger *ledger, int64_t first_live) {
	if (first_live <= ledger->first_live)
		return;
	wk_range *ranges = wk_ranges_in_memory(ledger);
	bool gone = false;
	for (uint32_t i = 0; i < ledger->ranges_count && ranges[i].first_entry < first_live; i++) {
		wk_range *range = &ranges[i];
		uint32_t dead = wk_range_dead_before(range, first_live);
		bool other = range->dead != wk_range_dead_before(range, ledger->first_live); /* among those there, perhaps */
		bool guess = !range->open && !wk_range_is_dense(range);
		wk_range_kill_to(range, dead > range->dead ? dead : range->dead);
		if (range->dead < range->count && (other || guess))
			wk_ledger_recount_later(engine, ledger->id, range);
		/* Further entries may join an open one; a range never outlives its file. */
		if (range->dead == range->count && !range->open) {
			range->count = range->dead = 0;
			gone = true;
		}
	}
	ledger->first_live = first_live;
	if (ledger->paged)
		wk_ranges_fall_behind(engine, ledger);
	if (gone)
		wk_ranges_tidy(engine, ledger);
}

static bool is_one_of(const wk_store_file *file, wk_store_file *const *files, uint32_t files_count) {
	for (uint32_t i = 0; i < files_count; i++)
		if (files[i] == file)
			return true;
	return false;
}

void wk_ledger_moved(wk_engine *engine, int64_t ledger_id, int64_t first, int64_t last, wk_store_file *const *files,
                     uint32_t files_count) {
	wk_ledger *ledger = wk_ledger_find(engine, ledger_id);
	if (ledger == NULL)
		return;
	wk_range *ranges = wk_ranges_in_memory(ledger);
	uint32_t end = wk_ranges_until_in_memory(ledger, last),
	         at = ledger->overlap ? 0 : wk_ranges_until_in_memory(ledger, first);
	bool gone = false;
	for (at -= at > 0; at < end; at++) {
		wk_range *range = &ranges[at];
		if (range->first_entry < first || range->last_entry > last || !is_one_of(range->file, files, files_count))
			continue;
		assert(!range->open);
		wk_range_kill_all(range);
		gone = true;
	}
	if (gone)
		wk_ranges_tidy(engine, ledger);
}

/* ---- sealing ---- */

void wk_ledger_collect(wk_ledger *ledger, const wk_store_file *file, wk_footer *footer, wk_footer_item *items,
                       wk_footer_run *runs) {
	wk_range *range = wk_range_in(ledger, file);
	if (range == NULL)
		return;
	assert(range->open);
	wk_place_list *list = range->places;
	list->first_item = footer->items_count;
	list->first_run = footer->runs_count;
	wk_place_cursor cursor;
	wk_footer_run *run = NULL;
	for (const wk_place *place = wk_place_list_seek(list, 0, &cursor); place != NULL;
	     place = wk_place_list_next(list, &cursor)) {
		if (run == NULL || run->first_entry + run->count != place->entry_id) {
			run = &runs[footer->runs_count++];
			*run = (wk_footer_run){
			    .ledger_id = ledger->id, .first_entry = place->entry_id, .first_item = footer->items_count};
		}
		items[footer->items_count++] = place->item;
		run->count++;
		run->bytes += place->item.size;
	}
	assert(footer->runs_count == list->first_run + list->runs_count);
}

void wk_ledger_seal_runs(wk_engine *engine, wk_ledger *ledger, wk_store_file *file) {
	wk_range *range = wk_range_in(ledger, file);
	if (range == NULL || !range->open)
		return;
	wk_place_list *list = range->places;
	range->bytes = list->bytes;
	range->start = list->runs_count == 1 ? list->first_item : list->first_run;
	range->runs_count = list->runs_count;
	range->open = false;
	wk_place_list_free(list);
	if (range->dead == range->count) {
		range->count = range->dead = 0;
		wk_ranges_tidy(engine, ledger);
	} else if (range->uncounted) {
		range->uncounted = false;
		wk_ledger_recount_later(engine, ledger->id, range);
	}
}

void wk_ledgers_forget_file(wk_engine *engine, const wk_store_file *file) {
	for (uint32_t i = 0; i < file->ledgers_count; i++) {
		wk_ledger *ledger = wk_ledger_find(engine, file->ledgers[i]);
		wk_range *range = ledger != NULL ? wk_range_in(ledger, file) : NULL;
		if (range == NULL)
			continue;
		assert(range->dead == range->count);
		range->count = range->dead = 0;
		wk_ranges_tidy(engine, ledger);
	}
}

uint64_t wk_ledgers_memory(wk_engine *engine) {
	uint64_t bytes = engine->ledgers_capacity * sizeof *engine->ledgers +
	                 engine->recounts_capacity * sizeof *engine->recounts;
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++) {
		if (engine->ledgers[i] != NULL)
			bytes += sizeof *engine->ledgers[i] + wk_ranges_memory(engine->ledgers[i]);
		if (i % WK_LOOKS_AT_ONCE == WK_LOOKS_AT_ONCE - 1)
			wk_engine_yield_lock(engine);
	}
	return bytes;
}
