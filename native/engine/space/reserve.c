#include "engine/space/reserve.h"

#include <errno.h>

#include "engine/directory.h"
#include "engine/journal.h"
#include "engine/ledger.h"

enum {
	FREEING_BLOCKS = 16,                     /* lone changes that fit behind what was accepted */
	CHANGE_BLOCKS = FREEING_BLOCKS / 2,      /* of these, for changes that free nothing */
	ENTRIES_BESIDE = 8,                      /* catalogue entries in the block of an append, and a few more */
	HALF_FULL_PAGES = 3,                     /* of items, runs and states */
	SLACK = 256,                             /* as wk_journal_room leaves */
	ENTRY_SIZE_MIN = WK_ENTRY_OVERHEAD + 20, /* an entry of the smallest record; the catalogue's are larger together */
	LOOK_NS = 200 * 1000 * 1000,
};

/* The largest block of usual appends. */
static uint64_t usual_block(const wk_engine *engine) {
	return wk_journal_block_bound(engine->options.block_size_max);
}

/*
 * Beside two blocks: their footer, where they are of the smallest entries, each of a ledger of its own; and changes. In
 * a ledger store a block's part of the footer counts as bytes of the block; what is left are pages half full.
 */
static uint64_t beside_blocks(const wk_engine *engine) {
	if (wk_engine_holds_ledgers(engine))
		return wk_footer_size(ENTRIES_BESIDE, ENTRIES_BESIDE, FREEING_BLOCKS) + HALF_FULL_PAGES * WK_PAGE_SIZE +
		       (uint64_t)FREEING_BLOCKS * WK_BLOCK_ALIGNMENT;
	uint64_t entries = 2 * usual_block(engine) / ENTRY_SIZE_MIN + ENTRIES_BESIDE + FREEING_BLOCKS;
	return wk_footer_size(entries, entries, 0) + (uint64_t)FREEING_BLOCKS * WK_BLOCK_ALIGNMENT;
}

uint64_t wk_reserve_size(const wk_engine *engine, uint64_t payload) {
	uint64_t large = wk_journal_block_bound(payload + SLACK), usual = usual_block(engine);
	uint64_t size = 2 * (large > usual ? large : usual) + beside_blocks(engine);
	return size > engine->options.file_size_min ? size : engine->options.file_size_min;
}

void wk_reserve_count(wk_engine *engine) {
	uint64_t largest = 0;
	for (uint32_t i = 0; i < engine->prepared.count; i++)
		largest = engine->prepared.files[i].size > largest ? engine->prepared.files[i].size : largest;
	uint64_t beside = beside_blocks(engine), block = 0;
	if (largest > beside)
		block = (largest - beside) / 2 / WK_BLOCK_ALIGNMENT * WK_BLOCK_ALIGNMENT;
	bool enough = block >= usual_block(engine) && largest >= engine->options.file_size_min;
	engine->reserve_covers = enough ? block - WK_BLOCK_HEADER_SIZE - SLACK : 0;
}

bool wk_reserve_is_there(const wk_engine *engine, uint32_t except) {
	uint64_t wanted = wk_reserve_size(engine, engine->reserve_wanted);
	for (uint32_t i = 0; i < engine->prepared.count; i++)
		if (i != except && engine->prepared.files[i].size >= wanted)
			return true;
	return false;
}

static bool file_takes(const wk_engine *engine, const wk_store_file *file, uint64_t from, uint64_t bytes,
                       uint32_t entries) {
	if (wk_engine_holds_ledgers(engine))
		return from + bytes + wk_ledger_block_footer(engine, file, &engine->open) + HALF_FULL_PAGES * WK_PAGE_SIZE <=
		       file->size;
	return from + bytes + wk_journal_file_footer(file, entries, entries) <= file->size;
}

bool wk_reserve_is_safe(const wk_engine *engine, uint64_t payload, enum wk_room purpose) {
	if (payload <= engine->reserve_covers)
		return true;
	uint64_t left = purpose == WK_ROOM_FREE ? 0 : purpose == WK_ROOM_APPEND ? FREEING_BLOCKS : CHANGE_BLOCKS;
	uint64_t bytes = engine->unplaced_bytes + wk_journal_block_bound(engine->open.estimate + payload + SLACK) +
	                 left * WK_BLOCK_ALIGNMENT;
	uint32_t entries = engine->unplaced_entries + engine->open.builders_count + ENTRIES_BESIDE + (uint32_t)left;
	return file_takes(engine, engine->active, engine->offset, bytes, entries) ||
	       (engine->next != NULL && file_takes(engine, engine->next, 0, bytes, entries));
}

void wk_reserve_is_short(wk_engine *engine, const wk_error *error) {
	engine->shortage = error->system_error != 0 ? error->system_error : error->status == WK_NO_MEMORY ? ENOMEM : ENOSPC;
}

static bool is_space(const wk_engine *engine) {
	return engine->shortage == 0 || engine->shortage == ENOSPC || engine->shortage == EDQUOT;
}

wk_status wk_reserve_other_shortage(const wk_engine *engine, wk_error *error) {
	return is_space(engine) ? WK_OK
	                        : wk_fail_io(error, -engine->shortage,
	                                     "append to %s: no journal file could be opened for it; nothing was written. "
	                                     "Appends go on by themselves once one can",
	                                     engine->path);
}

static wk_status refuse(wk_engine *engine, uint64_t payload, enum wk_room purpose, wk_error *error) {
	wk_status status = wk_reserve_other_shortage(engine, error);
	if (status != WK_OK)
		return status;
	if (purpose == WK_ROOM_FREE)
		return wk_fail(
		    error, WK_NO_SPACE,
		    "the disk of %s is full, and so is the reserve for changes that free space; nothing was written. "
		    "Make some room on the disk: the directory goes on by itself then",
		    engine->path);
	return wk_fail(
	    error, WK_NO_SPACE,
	    "append to %s: the disk has no room for %llu bytes beside the reserve that keeps it possible to free "
	    "space; nothing was written. Free space or truncate logs, appends go on by themselves",
	    engine->path, (unsigned long long)payload);
}

void wk_reserve_was_refused(wk_engine *engine) {
	bool usual = engine->reserve_covers > 0;
	engine->reserve_refused = usual ? engine->reserve_wanted : 1;
	engine->reserve_wanted = engine->reserve_covers; /* what there is must do */
	engine->retry_space_ns = wk_engine_now(engine) + LOOK_NS;
	engine->space_low = !usual;
	engine->disk_full |= !usual && is_space(engine); /* else the active file has room, for what is safe there */
	wk_journal_wake_room(engine);
}

/* (locked, dropped) In this thread: there is no keeper, or this is it. */
static wk_status prepare_here(wk_engine *engine, uint64_t payload, enum wk_room purpose, wk_error *error) {
	uint64_t size = wk_reserve_size(engine, engine->reserve_wanted);
	wk_error local;
	error = error != NULL ? error : &local;
	wk_engine_unlock(engine);
	wk_status status = wk_prepared_make(engine, size, WK_SPACE_ALLOCATED, error);
	wk_engine_lock(engine);
	if (status == WK_OK || status == WK_NO_MEMORY ||
	    !wk_error_is_shortage(error)) /* memory: who asks again may have it */
		return status;
	wk_reserve_is_short(engine, error);
	wk_reserve_was_refused(engine);
	return refuse(engine, payload, purpose, error);
}

/*
 * A file is being named, perhaps the reserve: it is not prepared any more, and not active yet. What it leaves for changes
 * is known when it is. (locked, dropped)
 */
static wk_status wait_for_name(wk_engine *engine, uint64_t deadline_ns, wk_error *error) {
	if (deadline_ns == 0)
		return wk_fail(error, WK_WOULD_BLOCK, "changing %s: the next journal file is being named", engine->path);
	return wk_journal_wait_room(engine, deadline_ns, error);
}

wk_status wk_reserve_make_safe(wk_engine *engine, uint64_t payload, enum wk_room purpose, uint64_t deadline_ns,
                               wk_error *error) {
	bool tried = engine->reserve_refused > 0 && payload >= engine->reserve_refused &&
	             wk_engine_now(engine) < engine->retry_space_ns;
	if ((engine->disk_full || tried) && purpose != WK_ROOM_APPEND && engine->naming_next)
		return wait_for_name(engine, deadline_ns, error);
	if (engine->disk_full || tried)
		return refuse(engine, payload, purpose, error);
	if (payload > engine->reserve_wanted)
		engine->reserve_wanted = payload;
	if (!engine->keeper_runs || pthread_equal(pthread_self(), engine->keeper))
		return prepare_here(engine, payload, purpose, error);
	wk_keeper_wake(engine);
	if (deadline_ns == 0)
		return wk_fail(error, WK_WOULD_BLOCK, "append to %s: room for %llu bytes is being prepared", engine->path,
		               (unsigned long long)payload);
	return wk_journal_wait_room(engine, deadline_ns, error);
}
