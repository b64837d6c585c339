#include "engine/catalogue/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "engine/catalogue/catalogue.h"
#include "engine/directory.h"
#include "engine/index.h"
#include "engine/journal.h"

enum { CHUNK = WK_SNAPSHOT_PART_MIN, PINNED_FILES_MAX = 2 };

/* Sealed files whose only live entries are the catalogue's. */
static bool pins_files(wk_engine *engine) {
	const wk_ledger *catalogue = wk_ledger_find(engine, WK_CATALOGUE_LEDGER);
	uint64_t bytes = 0, files = 0;
	const wk_range *ranges = catalogue != NULL ? wk_ranges(catalogue) : NULL;
	for (uint32_t i = 0; catalogue != NULL && i < catalogue->ranges_count; i++) {
		const wk_range *range = &ranges[i];
		if (range->file->state == WK_FILE_SEALED && range->dead < range->count &&
		    range->file->live_entries == range->count - range->dead) {
			bytes += range->file->size;
			files++;
		}
	}
	/* A snapshot costs its size: worth it where it frees several times that. */
	return files >= PINNED_FILES_MAX && bytes > 4 * engine->catalogue_snapshot_size;
}

static bool is_due(wk_engine *engine) {
	if (wk_engine_holds_ledgers(engine)) /* it has no catalogue */
		return false;
	if (engine->failed || engine->closing || engine->snapshotting || engine->disk_full || engine->read_only)
		return false;
	if (engine->space_low && wk_engine_now(engine) < engine->retry_space_ns)
		return false;
	uint64_t limit = engine->catalogue_snapshot_size > WK_SNAPSHOT_DELTA_MIN ? engine->catalogue_snapshot_size
	                                                                         : WK_SNAPSHOT_DELTA_MIN;
	return engine->catalogue_delta > limit || pins_files(engine);
}

/*
 * The records in entries of a few hundred KiB. Nobody else adds to the catalogue meanwhile (snapshotting), so they
 * are consecutive. Each entry starts with the counters: that tells it from a change, and recovery passes over those
 * of a snapshot that the superblock does not name.
 */
static wk_status write_chunks(wk_engine *engine, const uint8_t *bytes, size_t size, uint64_t *ticket, wk_error *error) {
	uint8_t *chunk = malloc(CHUNK + 2 * WK_CATALOGUE_RECORD_MAX);
	wk_status status = chunk != NULL ? WK_OK : wk_fail(error, WK_NO_MEMORY, "writing a snapshot: no memory");
	for (size_t at = 0; status == WK_OK && at < size;) {
		size_t part = wk_catalogue_encode(&(wk_catalogue_record){.type = WK_CATALOGUE_COUNTERS,
		                                                         .next_log_id = engine->next_log_id,
		                                                         .next_ledger_id = engine->next_ledger_id},
		                                  chunk);
		size_t consumed;
		wk_catalogue_record record;
		while (at < size && part < CHUNK && wk_catalogue_decode(bytes + at, size - at, &record, &consumed) == WK_OK) {
			memcpy(chunk + part, bytes + at, consumed);
			part += consumed;
			at += consumed;
		}
		status = wk_journal_room(engine, part, UINT64_MAX, WK_ROOM_APPEND, error);
		if (status == WK_OK)
			status = wk_catalogue_append(engine, chunk, part, ticket);
		if (status == WK_OK) {
			engine->open.builders[engine->open.builders_count - 1].closed = true; /* one entry a chunk */
			wk_journal_want(engine, true, UINT64_MAX);
		}
	}
	free(chunk);
	return status;
}

wk_status wk_snapshot_write(wk_engine *engine, wk_error *error) {
	/* Changes that wait in the open block stand before the snapshot: they are in it, and below it. */
	for (uint32_t i = 0; i < engine->open.builders_count; i++)
		if (engine->open.builders[i].log == NULL)
			engine->open.builders[i].closed = true;
	engine->snapshotting = true;
	int64_t first = engine->next_catalogue_entry;
	uint8_t *bytes = NULL;
	size_t size = 0;
	uint64_t ticket = 0;
	wk_status status = wk_catalogue_snapshot(engine, &bytes, &size);
	if (status == WK_OK)
		status = write_chunks(engine, bytes, size, &ticket, error);
	free(bytes);
	int64_t last = engine->next_catalogue_entry - 1;
	if (status == WK_OK)
		engine->catalogue_delta = 0;
	engine->snapshotting = false;
	wk_journal_wake_room(engine);
	if (status == WK_OK)
		status = wk_journal_wait_out(engine, ticket, UINT64_MAX, true, error);
	if (status != WK_OK)
		return status;
	wk_engine_unlock(engine);
	pthread_mutex_lock(&engine->file_id_lock);
	engine->superblock.snapshots[1] = engine->superblock.snapshots[0];
	engine->superblock.snapshots[0] = (wk_snapshot_place){first, last};
	status = wk_superblock_store(engine, error);
	pthread_mutex_unlock(&engine->file_id_lock);
	wk_engine_lock(engine);
	if (status != WK_OK) {
		wk_journal_fail(engine, -5, "writing the superblock", NULL);
		return status;
	}
	engine->catalogue_snapshot_size = size;
	wk_ledger *catalogue = wk_ledger_find(engine, WK_CATALOGUE_LEDGER);
	/* The one before it is kept, and what changed since: should the new one be damaged, they say the same. */
	wk_ledger_trim(engine, catalogue, engine->superblock.snapshots[1].first_entry);
	return WK_OK;
}

bool wk_snapshot_if_due(wk_engine *engine) {
	if (!is_due(engine))
		return false;
	wk_error error;
	return wk_snapshot_write(engine, &error) == WK_OK;
}
