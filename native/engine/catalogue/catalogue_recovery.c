#include "engine/catalogue/catalogue_recovery.h"

#include <stdlib.h>
#include <string.h>

#include "engine/catalogue/catalogue.h"
#include "engine/catalogue/snapshot.h"
#include "engine/index.h"
#include "engine/recovery.h"

void wk_catalogue_forget(wk_engine *engine) {
	wk_catalogue_free(engine);
	engine->log_options = NULL;
	engine->log_options_count = 0;
	engine->next_log_id = engine->next_ledger_id = 1;
	engine->catalogue_delta = 0;
}

/* ---- entries ---- */

/*
 * A snapshot that the superblock does not name was not finished, or is not the one that is loaded from: the changes
 * before it say the same.
 */
static bool is_passed_over(const wk_engine *engine, int64_t entry_id, const uint8_t *payload, size_t size) {
	return entry_id > engine->catalogue_base.last_entry && wk_catalogue_is_snapshot(payload, size);
}

static wk_status apply_span(wk_engine *engine, const wk_span *span, int64_t *entry_id, wk_error *error) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; i < span->count && status == WK_OK; i++) {
		const uint8_t *payload = span->buffer->bytes + span->entries[i].offset + WK_ENTRY_HEADER_SIZE;
		size_t size = span->entries[i].size - WK_ENTRY_HEADER_SIZE;
		*entry_id = span->entries[i].entry_id + 1;
		if (is_passed_over(engine, span->entries[i].entry_id, payload, size))
			continue;
		wk_engine_lock(engine);
		status = wk_catalogue_replay(engine, payload, size);
		if (status == WK_OK) { /* else a follower comes back to it */
			engine->catalogue_delta += size;
			engine->next_catalogue_entry = *entry_id;
		}
		wk_engine_unlock(engine);
		if (status != WK_OK) {
			status = status == WK_CORRUPT ? WK_DAMAGED : status;
			wk_fail(error, status, "opening %s: entry %lld of the catalogue contradicts what came before it",
			        engine->path, (long long)*entry_id - 1);
		}
	}
	return status;
}

static wk_status load_entries(wk_engine *engine, int64_t first, int64_t last, wk_error *error) {
	wk_span *span = malloc(sizeof *span);
	if (span == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	wk_status status = WK_OK;
	for (int64_t entry_id = first; entry_id <= last && status == WK_OK;) {
		status = wk_read_entries(engine, WK_CATALOGUE_LEDGER, entry_id, last, 1 << 20, span, error);
		if (status == WK_DAMAGED && error != NULL) {
			wk_error found = *error;
			wk_fail(error, status,
			        "the catalogue, without which nobody knows which logs there are, cannot be read: %.400s",
			        found.text);
			error->ledger_id = found.ledger_id;
			error->entry_id = found.entry_id;
		}
		if (status == WK_OK)
			status = apply_span(engine, span, &entry_id, error);
		wk_buffer_release(span->buffer);
		span->buffer = NULL;
	}
	free(span);
	return status;
}

/* Space of what the catalogue says is dead. */
static void reclaim(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->by_id_capacity; i++)
		if (engine->logs_by_id[i] != NULL)
			wk_catalogue_reclaim(engine, engine->logs_by_id[i]);
	wk_catalogue_bury(engine);
}

wk_status wk_catalogue_load(wk_engine *engine, int64_t first, int64_t last, wk_error *error) {
	wk_status status = load_entries(engine, first, last, error);
	wk_engine_lock(engine);
	engine->next_catalogue_entry = status == WK_OK ? last + 1 : engine->next_catalogue_entry;
	reclaim(engine);
	wk_engine_unlock(engine);
	return status;
}

/* ---- all of it ---- */

/* Each of them stands in some file. */
static wk_status check_present(wk_engine *engine, int64_t first, int64_t last, wk_error *error) {
	for (int64_t entry_id = first; entry_id <= last;) {
		wk_stretch found = {0};
		wk_status status = wk_lookup(engine, WK_CATALOGUE_LEDGER, entry_id, last, WK_LOOKUP_ALL, NULL, 0, &found,
		                             error);
		bool here = status == WK_OK && found.file != NULL;
		wk_stretch_release(engine, &found);
		if (status != WK_OK && status != WK_NOT_FOUND)
			return status;
		if (!here)
			return wk_fail(error, WK_DAMAGED,
			               "opening %s: entry %lld of the catalogue is in no file, or was in a damaged block: which "
			               "logs there are is not known without it",
			               engine->path, (long long)entry_id);
		entry_id = found.last_entry + 1;
	}
	return WK_OK;
}

static wk_status load_range(wk_engine *engine, int64_t first, int64_t last, wk_error *error) {
	wk_status status = check_present(engine, first, last, error);
	return status == WK_OK ? load_entries(engine, first, last, error) : status;
}

/* From this snapshot on (first_entry -1: from the first entry on), without entries `skipped`. */
static wk_status load_from(wk_engine *engine, const wk_snapshot_place *base, const wk_snapshot_place *skipped,
                           int64_t last, wk_error *error) {
	wk_status status = WK_OK;
	wk_catalogue_forget(engine);
	engine->catalogue_base = *base;
	if (base->first_entry >= 0)
		status = load_range(engine, base->first_entry, base->last_entry, error);
	engine->catalogue_ledgers_from = engine->next_ledger_id;
	engine->catalogue_delta = 0;
	int64_t next = base->last_entry + 1;
	if (status == WK_OK && skipped->first_entry >= next) {
		status = load_range(engine, next, skipped->first_entry - 1, error);
		next = skipped->last_entry + 1;
	}
	return status == WK_OK ? load_range(engine, next, last, error) : status;
}

/* Is entry `entry_id` there, and does it hold a part of a snapshot? *size: of its payload. */
static wk_status look_for_part(wk_engine *engine, wk_span *span, int64_t entry_id, bool *part, size_t *size) {
	span->buffer = NULL;
	*part = false;
	wk_error found = {0};
	wk_status status = wk_read_entries(engine, WK_CATALOGUE_LEDGER, entry_id, entry_id, 1 << 20, span, &found);
	if (status == WK_OK && span->count > 0) {
		*size = span->entries[0].size - WK_ENTRY_HEADER_SIZE;
		*part = wk_catalogue_is_snapshot(span->buffer->bytes + span->entries[0].offset + WK_ENTRY_HEADER_SIZE, *size);
	}
	wk_buffer_release(span->buffer);
	return status == WK_OK || status == WK_NOT_FOUND || wk_is_unreadable(status, &found) ? WK_OK : status;
}

/*
 * The superblock names no snapshot, and what came before one is gone: it was rebuilt (rebuild.c). The last two that are
 * whole are looked for. Only the last part of a snapshot is smaller than the others, so that tells where one ends.
 */
static wk_status find_snapshots(wk_engine *engine, int64_t last, bool *found) {
	const wk_ledger *catalogue = wk_ledger_find(engine, WK_CATALOGUE_LEDGER);
	wk_snapshot_place *places = engine->superblock.snapshots;
	wk_span *span = malloc(sizeof *span);
	wk_status status = span != NULL ? WK_OK : WK_NO_MEMORY;
	int64_t entry_id = catalogue != NULL && catalogue->ranges_count > 0 ? wk_ranges(catalogue)->first_entry : 0;
	int64_t begin = -1;
	*found = false;
	for (; entry_id <= last && status == WK_OK; entry_id++) {
		bool part;
		size_t size = 0;
		status = look_for_part(engine, span, entry_id, &part, &size);
		begin = !part ? -1 : begin < 0 ? entry_id : begin;
		if (status != WK_OK || !part || size >= WK_SNAPSHOT_PART_MIN)
			continue;
		places[1] = places[0];
		places[0] = (wk_snapshot_place){begin, entry_id};
		begin = -1;
		*found = true;
	}
	free(span);
	engine->catalogue_rewrite |= *found; /* so that the superblock names one again */
	return status;
}

static wk_status refuse(wk_status status, const wk_error *first, wk_error *error) {
	wk_error found = *first;
	if (error == NULL)
		return status;
	*error = found;
	if (status != WK_DAMAGED)
		return status;
	char *advice = strstr(found.text, ". `walkeeper"); /* another is given here */
	if (advice != NULL)
		*advice = 0;
	wk_fail(error, status,
	        "%.260s. on_damage=skip and point_in_time go on with what is intact of it, and make logs of their own, "
	        "recovered-ledger-..., for data that no log names any more; `walkeeper recover` does so in a copy",
	        found.text);
	error->ledger_id = found.ledger_id;
	error->entry_id = found.entry_id;
	return status;
}

/* Neither snapshot leads to the end. The last one that can be read is the base, or there is none. */
static wk_status salvage(wk_engine *engine, int64_t last, wk_error *error) {
	const wk_snapshot_place none = {-1, -1};
	wk_status status = WK_DAMAGED;
	int64_t first = 0;
	for (int i = 0; i < 2 && wk_is_unreadable(status, error); i++) {
		const wk_snapshot_place *base = &engine->superblock.snapshots[i];
		if (base->first_entry >= 0)
			status = load_from(engine, base, &none, base->last_entry, error);
		first = base->last_entry + 1;
	}
	if (wk_is_unreadable(status, error)) {
		const wk_ledger *catalogue = wk_ledger_find(engine, WK_CATALOGUE_LEDGER);
		wk_catalogue_forget(engine);
		engine->catalogue_base = none;
		engine->catalogue_ledgers_from = 1;
		first = engine->superblock.snapshots[1].first_entry; /* what is kept begins here; older entries may be left */
		first = first >= 0 ? first : 0;
		if (catalogue != NULL && catalogue->ranges_count > 0 && wk_ranges(catalogue)->first_entry < first)
			first = wk_ranges(catalogue)->first_entry;
		status = WK_OK;
	}
	engine->catalogue_rewrite = true;
	return status == WK_OK ? wk_catalogue_salvage(engine, first, last, error) : status;
}

/* Entries without a catalogue: no log was ever used before its first record stood there. (locked) */
static bool is_missing(const wk_engine *engine, int64_t last) {
	bool found = false;
	for (uint32_t i = 0; last < 0 && i < engine->ledgers_capacity && !found; i++)
		found = engine->ledgers[i] != NULL && engine->ledgers[i]->id != WK_CATALOGUE_LEDGER &&
		        engine->ledgers[i]->durable_entry >= 0;
	return found;
}

wk_status wk_catalogue_recover(wk_engine *engine, int64_t last, bool accepts, wk_error *error) {
	const wk_snapshot_place *places = engine->superblock.snapshots, none = {-1, -1};
	wk_error newest = {0}, earlier = {0};
	wk_engine_lock(engine);
	bool missing = is_missing(engine, last);
	wk_engine_unlock(engine);
	wk_status status =
	    missing ? wk_fail(&newest, WK_DAMAGED,
	                      "opening %s: no file has an entry of the catalogue, although there are entries of logs: a "
	                      "file is missing, and which logs there are is not known without it",
	                      engine->path)
	            : load_from(engine, &places[0], &none, last, &newest);
	bool found = false;
	if (!missing && wk_is_unreadable(status, &newest) && places[0].first_entry < 0) {
		wk_status looked = find_snapshots(engine, last, &found);
		if (looked != WK_OK)
			status = wk_fail(&newest, looked, "opening %s: no memory, or its catalogue cannot be read", engine->path);
		else if (found)
			status = load_from(engine, &places[0], &none, last, &newest);
	}
	if (wk_is_unreadable(status, &newest) && places[0].first_entry >= 0) {
		wk_status second = load_from(engine, &places[1], &places[0], last, &earlier);
		if (second == WK_OK) {
			engine->report.catalogue_fallbacks++;
			engine->catalogue_rewrite = true;
			status = WK_OK;
		} else if (!wk_is_unreadable(second, &earlier)) {
			newest = earlier;
			status = second;
		}
	}
	engine->report.catalogue_lost += missing && accepts; /* one at least */
	if (wk_is_unreadable(status, &newest))
		status = accepts ? salvage(engine, last, &newest) : refuse(status, &newest, error);
	if (status != WK_OK && error != NULL && !wk_is_unreadable(status, &newest) && newest.status != WK_OK)
		*error = newest;
	if (status != WK_OK)
		return status;
	wk_engine_lock(engine);
	wk_catalogue_pass_numbers(engine); /* at each open: a catalogue says it only with the next segment */
	engine->next_catalogue_entry = last + 1;
	engine->catalogue_loaded = true;
	reclaim(engine);
	wk_ledger *catalogue = wk_ledger_find(engine, WK_CATALOGUE_LEDGER);
	int64_t kept = places[1].first_entry;
	if (catalogue != NULL && kept > 0)
		wk_ledger_trim(engine, catalogue, kept);
	wk_engine_unlock(engine);
	if (engine->report.catalogue_lost > 0 && engine->loss == NULL && (engine->loss = wk_loss_new()) == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	if (engine->loss == NULL)
		return WK_OK;
	status = wk_catalogue_adopt(engine, error);
	wk_engine_lock(engine);
	reclaim(engine); /* a log may begin later now */
	wk_engine_unlock(engine);
	return status;
}

wk_status wk_catalogue_rewrite(wk_engine *engine, wk_error *error) {
	wk_status status = WK_OK;
	if (!engine->catalogue_rewrite)
		return WK_OK;
	wk_engine_lock(engine);
	for (int i = 0; i < 2 && status == WK_OK; i++)
		status = wk_snapshot_write(engine, error);
	wk_engine_unlock(engine);
	engine->catalogue_rewrite = status != WK_OK;
	return status;
}
