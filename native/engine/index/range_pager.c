#include "engine/index/range_pager.h"

#include <stdlib.h>
#include <string.h>

#include "engine/directory.h"
#include "engine/index/ledger.h"
#include "engine/index/range.h"
#include "engine/index/range_live.h"
#include "engine/index/store_file.h"

enum { LEDGERS_A_TURN = 1024, CAUGHT_UP_A_STEP = 64, RETRY_NS = 1000 * 1000 * 1000 };

/* Ranges of a ledger that went while they were out. */
typedef struct wk_orphan {
	int64_t ledger_id;
	uint32_t first, count, generation, limit;
} wk_orphan;

static wk_index_source *source_of(const wk_engine *engine, uint32_t generation) {
	wk_index_source *older = engine->pager.older;
	return older != NULL && (uint32_t)older->header.generation == generation ? older : engine->pager.source;
}

/* ---- in ---- */

/* NULL: none that counts. Its file went since, or is empty, or the range is in memory. */
static wk_store_file *file_of(wk_engine *engine, const wk_index_source *source, uint32_t limit,
                              const wk_index_range *range) {
	wk_store_file *file = wk_store_file_find(engine, source->file_ids[range->file]);
	if (file == NULL || file->state != WK_FILE_SEALED || file->emptied)
		return NULL;
	return file->named_from != 0 && file->named_from <= limit ? file : NULL;
}

static wk_range range_of(const wk_index_range *range, wk_store_file *file) {
	return (wk_range){.first_entry = range->first_entry,
	                  .last_entry = range->last_entry,
	                  .file = file,
	                  .start = range->start,
	                  .runs_count = range->runs_count,
	                  .bytes = (uint32_t)range->bytes,
	                  .count = range->count,
	                  .dead = range->dead};
}

/* Entries before first_live died while the ranges were out. */
static void trim(wk_engine *engine, wk_ledger *ledger) {
	wk_range *ranges = wk_ranges(ledger);
	for (uint32_t i = 0; i < ledger->ranges_count && ranges[i].first_entry < ledger->first_live; i++) {
		wk_range *range = &ranges[i];
		if (range->open || !wk_range_is_indexed(ledger, range))
			continue;
		uint32_t dead = wk_range_dead_before(range, ledger->first_live);
		/* Those that were dead otherwise may be among them or not. */
		bool unsure = (range->dead > 0 && !ledger->plain) || !wk_range_is_dense(range);
		wk_range_kill_to(range, dead);
		if (range->dead == range->count)
			wk_range_kill_all(range);
		else if (unsure)
			wk_ledger_recount_later(engine, ledger->id, range);
	}
	wk_ranges_tidy(engine, ledger);
}

/* What came while the ranges were out, of entries that are in those: in the older of the two they are dead. */
static void recount_overlaps(wk_engine *engine, wk_ledger *ledger) {
	wk_range *ranges = wk_ranges(ledger);
	for (uint32_t i = 0; i < ledger->ranges_count && ledger->overlap; i++) {
		wk_range *came = &ranges[i];
		for (uint32_t k = 0; !wk_range_is_indexed(ledger, came) && k < ledger->ranges_count; k++) {
			wk_range *other = &ranges[k];
			if (wk_range_is_indexed(ledger, other) && other->first_entry <= came->last_entry &&
			    other->last_entry >= came->first_entry)
				wk_ledger_recount_later(engine, ledger->id,
				                        wk_rank_is_lower(wk_rank_of(other->file), wk_rank_of(came->file)) ? other
				                                                                                          : came);
		}
	}
}

static void is_whole(wk_engine *engine, wk_ledger *ledger) {
	ledger->paged = false;
	engine->pager.paged--;
}

static wk_status attach(wk_engine *engine, wk_ledger *ledger, const wk_index_source *source, const wk_index_range *read,
                        uint32_t count, wk_error *error) {
	wk_range *ranges = malloc((count + (size_t)1) * sizeof *ranges);
	uint32_t taken = 0;
	for (uint32_t i = 0; i < count && ranges != NULL; i++) {
		assert(read[i].ledger_id == ledger->id);
		wk_store_file *file = file_of(engine, source, ledger->ranges.index_limit, &read[i]);
		if (file != NULL)
			ranges[taken++] = range_of(&read[i], file);
	}
	bool joined = ranges != NULL && wk_ranges_join(engine, ledger, ranges, taken);
	free(ranges);
	if (!joined)
		return wk_fail(error, WK_NO_MEMORY, "reading the ranges of ledger %lld: no memory", (long long)ledger->id);
	is_whole(engine, ledger);
	ledger->indexed = true;
	engine->counters.range_reads++;
	recount_overlaps(engine, ledger);
	if (ledger->behind)
		trim(engine, ledger);
	ledger->behind = false;
	if (engine->pager.bytes > engine->pager.above)
		wk_keeper_wake(engine);
	return WK_OK;
}

/* (locked, dropped while it reads) */
static wk_status read_in(wk_engine *engine, wk_ledger *ledger, wk_error *error) {
	int64_t ledger_id = ledger->id;
	uint32_t first = ledger->ranges.index_first, count = ledger->ranges.index_count,
	         generation = ledger->ranges.index_generation;
	wk_index_source *source = source_of(engine, generation);
	wk_index_source_begin(source);
	wk_engine_unlock(engine);
	wk_index_range *read = malloc((count + (size_t)1) * sizeof *read);
	wk_status status = read != NULL ? wk_index_source_ranges(engine, source, first, count, read, error)
	                                : wk_fail(error, WK_NO_MEMORY, "reading ranges: no memory");
	wk_engine_lock(engine);
	/* Another thread may have been quicker, or the ledger went, or has its place in another index file now. */
	ledger = wk_ledger_find(engine, ledger_id);
	bool same = ledger != NULL && ledger->paged && ledger->ranges.index_generation == generation;
	if (!same)
		status = WK_OK;
	else if (status == WK_OK)
		status = attach(engine, ledger, source, read, count, error);
	wk_index_source_end(engine, source);
	free(read);
	return status;
}

wk_status wk_ranges_bring(wk_engine *engine, int64_t ledger_id, int64_t entry_id, wk_ledger **ledger, wk_error *error) {
	for (;;) {
		*ledger = wk_ledger_find(engine, ledger_id);
		if (*ledger == NULL)
			return WK_OK;
		if (!wk_ranges_are_out(*ledger, entry_id)) {
			(*ledger)->used = true;
			return WK_OK;
		}
		wk_status status = read_in(engine, *ledger, error);
		if (status != WK_OK)
			return status;
	}
}

/* ---- what is left for the keeper ---- */

void wk_ranges_fall_behind(wk_engine *engine, wk_ledger *ledger) {
	if (ledger->behind)
		return;
	ledger->behind = true;
	if (engine->pager.behind_count == engine->pager.behind_capacity) {
		uint32_t capacity = engine->pager.behind_capacity == 0 ? 16 : engine->pager.behind_capacity * 2;
		int64_t *behind = realloc(engine->pager.behind, capacity * sizeof *behind);
		if (behind == NULL)
			return; /* a file may be kept until somebody reads the ledger */
		engine->pager.behind = behind;
		engine->pager.behind_capacity = capacity;
	}
	engine->pager.behind[engine->pager.behind_count++] = ledger->id;
	wk_keeper_wake(engine);
}

void wk_ranges_orphan(wk_engine *engine, const wk_ledger *ledger) {
	engine->pager.paged--;
	if (engine->pager.orphans_count == engine->pager.orphans_capacity) {
		uint32_t capacity = engine->pager.orphans_capacity == 0 ? 16 : engine->pager.orphans_capacity * 2;
		wk_orphan *orphans = realloc(engine->pager.orphans, capacity * sizeof *orphans);
		if (orphans == NULL)
			return; /* files may be kept until the next open */
		engine->pager.orphans = orphans;
		engine->pager.orphans_capacity = capacity;
	}
	engine->pager.orphans[engine->pager.orphans_count++] = (wk_orphan){.ledger_id = ledger->id,
	                                                                   .first = ledger->ranges.index_first,
	                                                                   .count = ledger->ranges.index_count,
	                                                                   .generation = ledger->ranges.index_generation,
	                                                                   .limit = ledger->ranges.index_limit};
	wk_keeper_wake(engine);
}

/*
 * (locked, dropped while it reads) What the orphan counted as live is dead; it is no longer in the list. Its page is
 * damaged, or not read: it counts until the next open. False: the machine is short of something.
 */
static bool bury(wk_engine *engine, uint32_t number, wk_orphan *buried) {
	wk_orphan orphan = *buried = engine->pager.orphans[number];
	engine->pager.orphans[number] = engine->pager.orphans[--engine->pager.orphans_count];
	wk_index_source *source = source_of(engine, orphan.generation);
	wk_index_source_begin(source);
	wk_engine_unlock(engine);
	wk_index_range *read = malloc((orphan.count + (size_t)1) * sizeof *read);
	wk_error error = {0};
	wk_status status = read != NULL ? wk_index_source_ranges(engine, source, orphan.first, orphan.count, read, &error)
	                                : wk_fail(&error, WK_NO_MEMORY, "reading ranges: no memory");
	wk_engine_lock(engine);
	for (uint32_t i = 0; status == WK_OK && i < orphan.count; i++) {
		wk_store_file *file = file_of(engine, source, orphan.limit, &read[i]);
		if (file == NULL)
			continue;
		wk_range range = range_of(&read[i], file);
		wk_range_kill_all(&range);
	}
	wk_index_source_end(engine, source);
	free(read);
	return status == WK_OK || (status != WK_NO_MEMORY && !wk_error_is_shortage(&error));
}

/* The next orphan. One that cannot be read now is tried again later, behind the others. */
static void bury_one(wk_engine *engine) {
	wk_orphan orphan;
	if (bury(engine, engine->pager.orphans_count - 1, &orphan))
		return;
	engine->pager.behind_ns = wk_engine_now(engine) + RETRY_NS;
	if (engine->pager.orphans_count == engine->pager.orphans_capacity)
		return; /* others came meanwhile: files may be kept until the next open */
	engine->pager.orphans[engine->pager.orphans_count++] = engine->pager.orphans[0];
	engine->pager.orphans[0] = orphan;
}

static bool catch_up(wk_engine *engine) {
	if (engine->pager.orphans_count + engine->pager.behind_count == 0 ||
	    wk_engine_now(engine) < engine->pager.behind_ns)
		return false;
	if (engine->pager.orphans_count > 0) {
		bury_one(engine);
		return true;
	}
	int64_t ledger_id = engine->pager.behind[--engine->pager.behind_count];
	wk_ledger *ledger = wk_ledger_find(engine, ledger_id);
	if (ledger == NULL || !ledger->behind)
		return true;
	if (wk_ranges_bring(engine, ledger_id, -1, &ledger, NULL) == WK_OK)
		return true;
	/* Its page cannot be read: the others first, and later again. */
	engine->pager.behind_ns = wk_engine_now(engine) + RETRY_NS;
	if (engine->pager.behind_count < engine->pager.behind_capacity) {
		engine->pager.behind[engine->pager.behind_count++] = engine->pager.behind[0];
		engine->pager.behind[0] = ledger_id;
	}
	return true;
}

/* ---- out ---- */

static bool goes_out(const wk_ledger *ledger, const wk_range *range) {
	return wk_range_is_indexed(ledger, range);
}

/* What becomes of a ledger that loses these. */
typedef struct leaving {
	uint32_t count;
	int64_t last;
	bool same;  /* they are as the index file says */
	bool plain; /* what is dead in them is before the first live entry */
} leaving;

static leaving look_at(const wk_ledger *ledger) {
	leaving found = {.last = -1, .same = true, .plain = true};
	const wk_range *ranges = wk_ranges_in_memory(ledger);
	for (uint32_t i = 0; i < ledger->ranges_count; i++) {
		const wk_range *range = &ranges[i];
		if (!wk_range_is_indexed(ledger, range))
			continue;
		found.count++;
		found.last = range->last_entry > found.last ? range->last_entry : found.last;
		found.same &= !range->changed && !range->uncounted;
		found.plain &= range->dead == wk_range_dead_before(range, ledger->first_live);
	}
	return found;
}

static bool may_go(const wk_engine *engine, const wk_ledger *ledger, leaving *found) {
	if (!ledger->listed || ledger->paged || !ledger->indexed || ledger->ranges.index_count == 0 ||
	    ledger->ranges.index_generation != (uint32_t)engine->pager.source->header.generation)
		return false;
	if (ledger->id == WK_CATALOGUE_LEDGER && !wk_engine_holds_ledgers(engine))
		return false;
	*found = look_at(ledger);
	return found->same && found->count == ledger->ranges.index_count;
}

static void page_out(wk_engine *engine, wk_ledger *ledger, const leaving *those) {
	if (!wk_ranges_part(engine, ledger, goes_out))
		return;
	ledger->paged = true;
	ledger->plain = those->plain;
	ledger->ranges.paged_last = those->last;
	engine->pager.paged++;
}

/* Down to a bit below the limit; twice round, as the first time it may find that all were used. (locked, dropped) */
static void sweep(wk_engine *engine) {
	uint64_t goal = engine->options.range_bytes - engine->options.range_bytes / 8;
	for (uint64_t looks = 0; engine->pager.bytes > goal && looks < 2 * (uint64_t)engine->ledgers_capacity; looks++) {
		if (looks % LEDGERS_A_TURN == LEDGERS_A_TURN - 1) {
			wk_engine_unlock(engine);
			wk_engine_lock(engine);
		}
		wk_ledger *ledger = engine->ledgers[engine->pager.hand++ & (engine->ledgers_capacity - 1)];
		leaving those;
		if (ledger == NULL || !ledger->listed)
			continue;
		if (ledger->used)
			ledger->used = false;
		else if (may_go(engine, ledger, &those))
			page_out(engine, ledger, &those);
	}
}

/* (locked, dropped) */
static bool can_read(wk_engine *engine) {
	wk_index_source *source = engine->pager.source;
	if (source == NULL || source->handle != NULL)
		return source != NULL;
	wk_engine_unlock(engine);
	int result = wk_index_source_open(engine, source);
	wk_engine_lock(engine);
	if (result < 0)
		engine->pager.retry_ns = wk_engine_now(engine) + RETRY_NS;
	return result == 0;
}

/*
 * A sweep that did not get below the limit: a new index file may help, if that is not new already. If it did not help
 * either, ranges are waited for, a sixteenth of the limit.
 */
static bool page_out_some(wk_engine *engine) {
	uint64_t limit = engine->options.range_bytes;
	if (engine->pager.above < limit)
		engine->pager.above = limit;
	if (engine->pager.bytes <= engine->pager.above || engine->pager.index_wanted ||
	    wk_engine_now(engine) < engine->pager.retry_ns)
		return false;
	if (can_read(engine))
		sweep(engine);
	else if (engine->pager.source != NULL)
		return false;
	if (engine->pager.bytes <= limit)
		engine->pager.above = limit;
	else if (engine->pager.index_fresh)
		engine->pager.above = engine->pager.bytes + limit / 16;
	else
		engine->pager.index_wanted = true;
	engine->pager.index_fresh = false;
	return true;
}

bool wk_range_pager_step(wk_engine *engine) {
	if (engine->read_only || engine->failed || engine->closing)
		return false;
	uint32_t caught_up = 0;
	while (caught_up < CAUGHT_UP_A_STEP && !engine->keeper_stop && !engine->failed && catch_up(engine))
		caught_up++;
	return page_out_some(engine) || caught_up > 0;
}

bool wk_range_pager_wants_index(const wk_engine *engine) {
	return engine->pager.index_wanted;
}

/* ---- another index file ---- */

static void set_place(wk_ledger *ledger, const wk_range_place *place, uint32_t generation) {
	ledger->ranges.index_first = place->first;
	ledger->ranges.index_count = place->count;
	ledger->ranges.index_generation = generation;
}

/* The ranges in memory that this index names for the first time go out to the others, if they are as it says. */
static void send_after(wk_engine *engine, wk_ledger *ledger, uint32_t fresh, uint32_t generation) {
	uint32_t before = ledger->ranges.index_limit;
	ledger->ranges.index_limit = generation;
	leaving those = look_at(ledger);
	if (!those.same || those.count != fresh || !wk_ranges_part(engine, ledger, goes_out)) {
		ledger->ranges.index_limit = before;
		return;
	}
	ledger->plain &= those.plain;
	if (those.last > ledger->ranges.paged_last)
		ledger->ranges.paged_last = those.last;
}

static void move(wk_engine *engine, const wk_range_place *place) {
	uint32_t generation = (uint32_t)engine->pager.source->header.generation;
	wk_ledger *ledger = wk_ledger_find(engine, place->ledger_id);
	if (ledger == NULL || !ledger->listed)
		return;
	set_place(ledger, place, generation);
	if (!ledger->paged) {
		ledger->ranges.index_limit = generation;
		ledger->indexed = true;
	} else if (place->count == 0) { /* all its files went */
		is_whole(engine, ledger);
		ledger->indexed = ledger->behind = false;
	} else if (place->fresh > 0) {
		send_after(engine, ledger, place->fresh, generation);
	}
}

void wk_range_pager_turn(wk_engine *engine, wk_index_source *source, const wk_range_place *places, size_t count) {
	wk_index_source *older = engine->pager.source;
	engine->pager.older = older;
	engine->pager.source = source;
	for (size_t i = 0; i < count && source != NULL; i++) {
		if (i % LEDGERS_A_TURN == LEDGERS_A_TURN - 1) {
			wk_engine_unlock(engine);
			wk_engine_lock(engine);
		}
		move(engine, &places[i]);
	}
	for (uint32_t i = engine->pager.orphans_count; i-- > 0 && older != NULL;) {
		if (engine->pager.orphans[i].generation != (uint32_t)older->header.generation)
			continue;
		wk_orphan orphan; /* unreadable now: nothing is read from that file again, and it counts until the next open */
		bury(engine, i, &orphan);
		i = engine->pager.orphans_count; /* the lock was dropped: others may have come */
	}
	engine->pager.older = NULL;
	wk_index_source_release(engine, older);
	engine->pager.index_fresh = engine->pager.index_wanted; /* the next sweep sees what it is good for */
	engine->pager.index_wanted = false;
	engine->pager.above = engine->options.range_bytes;
}

void wk_range_pager_begin(wk_engine *engine, wk_index_source *source) {
	engine->pager.source = source;
}

void wk_range_pager_found(wk_engine *engine, const wk_range_place *place) {
	wk_ledger *ledger = wk_ledger_find(engine, place->ledger_id);
	if (ledger == NULL || !ledger->listed || engine->pager.source == NULL)
		return;
	uint32_t generation = (uint32_t)engine->pager.source->header.generation;
	set_place(ledger, place, generation);
	ledger->ranges.index_limit = generation;
	ledger->indexed = true;
}

void wk_range_pager_free(wk_engine *engine) {
	wk_index_source_release(engine, engine->pager.source);
	wk_index_source_release(engine, engine->pager.older);
	free(engine->pager.orphans);
	free(engine->pager.behind);
	memset(&engine->pager, 0, sizeof engine->pager);
}
