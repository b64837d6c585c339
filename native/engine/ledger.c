#include "engine/ledger.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_MIN = 64 };

/* Fibonacci hashing: dense ids spread over the table. */
static uint32_t slot_of(int64_t id, uint32_t capacity) {
	return (uint32_t)(((uint64_t)id * 0x9E3779B97F4A7C15u) >> 32) & (capacity - 1);
}

wk_ledger *wk_ledger_find(wk_engine *engine, int64_t ledger_id) {
	if (engine->ledgers_capacity == 0)
		return NULL;
	for (uint32_t at = slot_of(ledger_id, engine->ledgers_capacity);; at = (at + 1) & (engine->ledgers_capacity - 1)) {
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
		uint32_t at = slot_of(ledger->id, capacity);
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
	if (engine->ledgers_count * 4 >= engine->ledgers_capacity * 3 && !grow_table(engine))
		return NULL;
	ledger = calloc(1, sizeof *ledger);
	if (ledger == NULL)
		return NULL;
	ledger->id = ledger_id;
	ledger->last_entry = ledger->durable_entry = -1;
	uint32_t at = slot_of(ledger_id, engine->ledgers_capacity);
	while (engine->ledgers[at] != NULL)
		at = (at + 1) & (engine->ledgers_capacity - 1);
	engine->ledgers[at] = ledger;
	engine->ledgers_count++;
	return ledger;
}

/* Linear probing without tombstones: what follows the hole moves up where it may. */
static void remove_from_table(wk_engine *engine, wk_ledger *ledger) {
	uint32_t mask = engine->ledgers_capacity - 1;
	uint32_t hole = slot_of(ledger->id, engine->ledgers_capacity);
	while (engine->ledgers[hole] != ledger)
		hole = (hole + 1) & mask;
	engine->ledgers[hole] = NULL;
	engine->ledgers_count--;
	for (uint32_t at = (hole + 1) & mask; engine->ledgers[at] != NULL; at = (at + 1) & mask) {
		uint32_t home = slot_of(engine->ledgers[at]->id, engine->ledgers_capacity);
		if (((at - home) & mask) >= ((at - hole) & mask)) {
			engine->ledgers[hole] = engine->ledgers[at];
			engine->ledgers[at] = NULL;
			hole = at;
		}
	}
}

/* What the entries of a run from `dead` on take, as far as is known without reading the footer. */
static uint64_t bytes_of(const wk_run *run, uint32_t entries) {
	if (entries == run->count)
		return run->bytes;
	return run->count == 0 ? 0 : (uint64_t)((__uint128_t)run->bytes * entries / run->count);
}

static void kill_front(wk_run *run, uint32_t dead) {
	if (dead > run->count)
		dead = run->count;
	if (dead <= run->dead)
		return;
	uint64_t bytes = bytes_of(run, run->count - run->dead) - bytes_of(run, run->count - dead);
	wk_store_file *file = run->file;
	assert(file->live_entries >= dead - run->dead);
	file->live_entries -= dead - run->dead;
	file->live_bytes -= bytes < file->live_bytes ? bytes : file->live_bytes;
	run->dead = dead;
	if (file->live_entries == 0)
		file->live_bytes = 0;
}

static void remove_runs(wk_ledger *ledger, uint32_t at, uint32_t count) {
	if (count == 0)
		return;
	for (uint32_t i = at; i < at + count; i++)
		free(ledger->runs[i].items);
	memmove(&ledger->runs[at], &ledger->runs[at + count], (ledger->runs_count - at - count) * sizeof *ledger->runs);
	ledger->runs_count -= count;
}

void wk_ledger_drop(wk_engine *engine, wk_ledger *ledger) {
	for (uint32_t i = 0; i < ledger->runs_count; i++)
		kill_front(&ledger->runs[i], ledger->runs[i].count);
	remove_runs(ledger, 0, ledger->runs_count);
	remove_from_table(engine, ledger);
	free(ledger->runs);
	free(ledger);
}

void wk_ledgers_free(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++) {
		wk_ledger *ledger = engine->ledgers[i];
		if (ledger == NULL)
			continue;
		remove_runs(ledger, 0, ledger->runs_count);
		free(ledger->runs);
		free(ledger);
	}
	free(engine->ledgers);
	engine->ledgers = NULL;
	engine->ledgers_count = engine->ledgers_capacity = 0;
}

/* Index of the first run whose entries end behind entry_id. */
static uint32_t run_at_or_after(const wk_ledger *ledger, int64_t entry_id) {
	uint32_t low = 0, high = ledger->runs_count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (ledger->runs[middle].first_entry + ledger->runs[middle].count <= entry_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

wk_run *wk_ledger_run_of(wk_ledger *ledger, int64_t entry_id) {
	uint32_t at = run_at_or_after(ledger, entry_id);
	return at < ledger->runs_count && ledger->runs[at].first_entry <= entry_id ? &ledger->runs[at] : NULL;
}

static wk_run *insert_run(wk_ledger *ledger, uint32_t at) {
	if (ledger->runs_count == ledger->runs_capacity) {
		/* Idle ledgers are many and have one run: grow from one. */
		uint32_t capacity = ledger->runs_capacity == 0 ? 1 : ledger->runs_capacity * 2;
		wk_run *runs = realloc(ledger->runs, capacity * sizeof *runs);
		if (runs == NULL)
			return NULL;
		ledger->runs = runs;
		ledger->runs_capacity = capacity;
	}
	memmove(&ledger->runs[at + 1], &ledger->runs[at], (ledger->runs_count - at) * sizeof *ledger->runs);
	ledger->runs_count++;
	ledger->runs[at] = (wk_run){0};
	return &ledger->runs[at];
}

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

static void count_live(wk_ledger *ledger, wk_run *run) {
	wk_store_file *file = run->file;
	file->live_entries += run->count;
	file->live_bytes += run->bytes;
	if (ledger->first_live > run->first_entry) {
		int64_t dead = ledger->first_live - run->first_entry;
		kill_front(run, dead > run->count ? run->count : (uint32_t)dead);
	}
}

wk_status wk_ledger_add_item(wk_engine *engine, wk_ledger *ledger, wk_store_file *file, int64_t entry_id,
                             wk_footer_item item) {
	(void)engine;
	assert(file->state != WK_FILE_SEALED);
	wk_run *run = ledger->runs_count > 0 ? &ledger->runs[ledger->runs_count - 1] : NULL;
	assert(run == NULL || entry_id >= run->first_entry + run->count); /* a log's entries only grow */
	if (run == NULL || run->file != file || run->items == NULL || run->first_entry + run->count != entry_id) {
		run = insert_run(ledger, ledger->runs_count);
		if (run == NULL || !note_ledger(file, ledger->id))
			return WK_NO_MEMORY;
		*run = (wk_run){.first_entry = entry_id, .file = file};
		file->runs_count++;
	}
	if (run->count == run->capacity) {
		uint32_t capacity = run->capacity == 0 ? 1 : run->capacity * 2;
		wk_footer_item *items = realloc(run->items, capacity * sizeof *items);
		if (items == NULL)
			return WK_NO_MEMORY;
		run->items = items;
		run->capacity = capacity;
	}
	run->items[run->count++] = item;
	run->bytes += item.size;
	file->live_entries++;
	file->live_bytes += item.size;
	file->entries_count++;
	if (ledger->first_live > entry_id)
		kill_front(run, run->count);
	if (entry_id > ledger->last_entry)
		ledger->last_entry = entry_id;
	return WK_OK;
}

/* The first `count` entries of a run, from `skip` on; it keeps its items where they are in memory. */
static bool narrow(wk_run *run, uint32_t skip, uint32_t count) {
	uint64_t bytes = bytes_of(run, count);
	if (run->items != NULL && skip > 0)
		memmove(run->items, run->items + skip, count * sizeof *run->items);
	run->first_entry += skip;
	run->first_item += skip;
	run->bytes = bytes;
	run->count = count;
	run->dead = run->dead > skip ? run->dead - skip : 0;
	run->dead = run->dead < count ? run->dead : count;
	return true;
}

/* What stands behind a hole in the middle of a run, as a run of its own. */
static bool split_tail(wk_run *tail, const wk_run *run, uint32_t skip) {
	*tail = *run;
	tail->items = NULL;
	tail->capacity = 0;
	if (run->items != NULL) {
		tail->items = malloc(run->count * sizeof *tail->items);
		if (tail->items == NULL)
			return false;
		memcpy(tail->items, run->items, run->count * sizeof *tail->items);
		tail->capacity = run->count;
	}
	return narrow(tail, skip, run->count - skip);
}

/* Cuts what [first, end) covers out of older runs: that copy is dead. */
static wk_status cut_out(wk_ledger *ledger, int64_t first, int64_t end) {
	for (uint32_t at = run_at_or_after(ledger, first); at < ledger->runs_count && ledger->runs[at].first_entry < end;) {
		wk_run *old = &ledger->runs[at];
		int64_t old_end = old->first_entry + old->count;
		if (old->first_entry >= first && old_end <= end) { /* wholly covered */
			kill_front(old, old->count);
			remove_runs(ledger, at, 1);
			continue;
		}
		uint32_t live_before = old->count - old->dead, live_after;
		wk_store_file *file = old->file;
		if (old->first_entry < first && old_end > end) { /* covered in the middle */
			wk_run tail;
			if (!split_tail(&tail, old, (uint32_t)(end - old->first_entry)))
				return WK_NO_MEMORY;
			narrow(old, 0, (uint32_t)(first - old->first_entry));
			live_after = old->count - old->dead + tail.count - tail.dead;
			wk_run *inserted = insert_run(ledger, at + 1);
			if (inserted == NULL)
				return WK_NO_MEMORY;
			*inserted = tail;
			at++;
		} else {
			if (old->first_entry < first)
				narrow(old, 0, (uint32_t)(first - old->first_entry));
			else
				narrow(old, (uint32_t)(end - old->first_entry), (uint32_t)(old_end - end));
			live_after = old->count - old->dead;
		}
		file->live_entries -= live_before - live_after;
		at++;
	}
	return WK_OK;
}

/*
 * Runs without live entries at the front go; but not while their file is open, as further entries join the last of
 * them. A run never outlives its file.
 */
static void drop_dead_runs(wk_ledger *ledger) {
	uint32_t gone = 0;
	while (gone < ledger->runs_count && ledger->runs[gone].dead == ledger->runs[gone].count &&
	       ledger->runs[gone].items == NULL)
		gone++;
	remove_runs(ledger, 0, gone);
}

wk_status wk_ledger_add_run(wk_engine *engine, const wk_footer_run *found, wk_store_file *file) {
	wk_ledger *ledger = wk_ledger_get(engine, found->ledger_id);
	if (ledger == NULL)
		return WK_NO_MEMORY;
	int64_t end = found->first_entry + found->count;
	wk_status status = cut_out(ledger, found->first_entry, end);
	if (status != WK_OK)
		return status;
	wk_run *run = insert_run(ledger, run_at_or_after(ledger, found->first_entry));
	if (run == NULL)
		return WK_NO_MEMORY;
	*run = (wk_run){.first_entry = found->first_entry,
	                .file = file,
	                .bytes = found->bytes,
	                .count = found->count,
	                .first_item = found->first_item};
	file->entries_count += found->count;
	count_live(ledger, run);
	if (end - 1 > ledger->last_entry)
		ledger->last_entry = end - 1;
	if (engine->read_only && end - 1 > ledger->durable_entry)
		ledger->durable_entry = end - 1; /* sealed, or moved: durable both ways */
	drop_dead_runs(ledger);              /* what is left of an older run may be dead */
	return WK_OK;
}

void wk_ledger_trim(wk_engine *engine, wk_ledger *ledger, int64_t first_live) {
	(void)engine;
	if (first_live <= ledger->first_live)
		return;
	ledger->first_live = first_live;
	for (uint32_t i = 0; i < ledger->runs_count && ledger->runs[i].first_entry < first_live; i++) {
		int64_t dead = first_live - ledger->runs[i].first_entry;
		kill_front(&ledger->runs[i], dead > ledger->runs[i].count ? ledger->runs[i].count : (uint32_t)dead);
	}
	drop_dead_runs(ledger);
}

void wk_ledger_seal_runs(wk_engine *engine, wk_ledger *ledger, wk_store_file *file) {
	(void)engine;
	for (uint32_t i = 0; i < ledger->runs_count; i++) {
		if (ledger->runs[i].file == file) {
			free(ledger->runs[i].items);
			ledger->runs[i].items = NULL;
			ledger->runs[i].capacity = 0;
		}
	}
	drop_dead_runs(ledger);
}

uint64_t wk_ledgers_memory(const wk_engine *engine) {
	uint64_t bytes = engine->ledgers_capacity * sizeof *engine->ledgers;
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++) {
		const wk_ledger *ledger = engine->ledgers[i];
		if (ledger == NULL)
			continue;
		bytes += sizeof *ledger + ledger->runs_capacity * sizeof *ledger->runs;
		for (uint32_t r = 0; r < ledger->runs_count; r++)
			bytes += ledger->runs[r].capacity * sizeof *ledger->runs[r].items;
	}
	return bytes;
}
