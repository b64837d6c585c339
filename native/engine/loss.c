#include "engine/loss.h"

#include <stdlib.h>
#include <string.h>

#include "engine/entry_records.h"
#include "engine/handles.h"
#include "engine/journal_file.h"
#include "engine/ledger.h"
#include "engine/read.h"
#include "engine/store_file.h"

wk_loss *wk_loss_new(void) { return calloc(1, sizeof(wk_loss)); }

void wk_loss_free(wk_loss *loss) {
	if (loss == NULL)
		return;
	free(loss->entries);
	free(loss->records);
	free(loss->entry_logs);
	free(loss);
}

wk_status wk_loss_add(wk_loss *loss, const wk_lost_entry *entry) {
	if (loss->entries_count == loss->entries_capacity) {
		uint32_t capacity = loss->entries_capacity == 0 ? 16 : loss->entries_capacity * 2;
		wk_lost_entry *entries = realloc(loss->entries, capacity * sizeof *entries);
		if (entries == NULL)
			return WK_NO_MEMORY;
		loss->entries = entries;
		loss->entries_capacity = capacity;
	}
	loss->entries[loss->entries_count++] = *entry;
	return WK_OK;
}

int64_t wk_loss_last(const wk_loss *loss, int64_t ledger_id) {
	int64_t last = -1;
	for (uint32_t i = 0; loss != NULL && i < loss->entries_count; i++)
		if (loss->entries[i].ledger_id == ledger_id && loss->entries[i].entry_id > last)
			last = loss->entries[i].entry_id;
	return last;
}

wk_status wk_loss_add_entry_log(wk_loss *loss, uint64_t id) {
	uint64_t *ids = realloc(loss->entry_logs, (loss->entry_logs_count + 1) * sizeof *ids);
	if (ids == NULL)
		return WK_NO_MEMORY;
	loss->entry_logs = ids;
	loss->entry_logs[loss->entry_logs_count++] = id;
	return WK_OK;
}

/* ---- the catalogue ---- */

wk_status wk_loss_check_catalogue(wk_engine *engine, int64_t first, wk_error *error) {
	wk_ledger *catalogue = wk_ledger_find(engine, WK_CATALOGUE_LEDGER);
	int64_t last = catalogue != NULL ? catalogue->last_entry : -1, lost = wk_loss_last(engine->loss, WK_CATALOGUE_LEDGER);
	last = lost > last ? lost : last;
	for (int64_t entry_id = first; entry_id <= last;) {
		const wk_run *run = catalogue != NULL ? wk_ledger_run_of(catalogue, entry_id) : NULL;
		if (run == NULL)
			return wk_fail(error, WK_DAMAGED, "opening %s: entry %lld of the catalogue was in a damaged block and is in no snapshot: which logs there are is not known without it. "
			               "Restore the directory from a backup", engine->path, (long long)entry_id);
		entry_id = run->first_entry + run->count;
	}
	return WK_OK;
}

/* A ledger that no record of the catalogue ever named: its record was lost. */
static wk_status check_ledgers(wk_engine *engine, wk_error *error) {
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++) {
		const wk_ledger *ledger = engine->ledgers[i];
		if (ledger != NULL && ledger->id != WK_CATALOGUE_LEDGER && (uint64_t)ledger->id >= engine->next_ledger_id)
			return wk_fail(error, WK_DAMAGED, "opening %s: ledger %lld has entries, but the catalogue does not know it: the record of it was in a damaged block. "
			               "Restore the directory from a backup", engine->path, (long long)ledger->id);
	}
	return WK_OK;
}

/* ---- the records around a hole ---- */

typedef struct ends {
	int64_t first, last; /* positions in the segment, from 1; 0: no record */
	int64_t slot, txid;  /* of the last */
} ends;

/* WK_DAMAGED where the entry cannot be read. */
static wk_status read_ends(wk_engine *engine, int64_t ledger_id, int64_t entry_id, ends *found, wk_error *error) {
	wk_span *span = malloc(sizeof *span);
	if (span == NULL)
		return wk_fail(error, WK_NO_MEMORY, "looking for what is lost: no memory");
	*found = (ends){0, 0, -1, -1};
	wk_status status = wk_read_entries(engine, ledger_id, entry_id, entry_id, 1 << 20, span, error);
	if (status == WK_OK) {
		wk_entry_records records;
		wk_log_record record;
		status = wk_entry_records_open(&records, span->buffer, span->buffer->bytes + span->entries[0].offset, span->entries[0].size);
		while (status == WK_OK && (status = wk_entry_records_next(&records, &record)) == WK_OK) {
			if (record.position == 0)
				continue;
			found->first = found->first == 0 ? record.position : found->first;
			found->last = record.position;
			found->slot = records.slot - 1;
			found->txid = record.txid;
		}
		wk_entry_records_close(&records);
		wk_buffer_release(span->buffer);
		status = status == WK_END ? WK_OK : WK_DAMAGED;
	}
	free(span);
	return status == WK_NOT_FOUND ? WK_DAMAGED : status;
}

static wk_status around(wk_engine *engine, const wk_segment *segment, const wk_position *log_first, int64_t entry_id, int64_t last, int64_t known_end, wk_gap *gap, int64_t *after,
                        int64_t *txid, wk_error *error) {
	bool cut = log_first->dlsn.segment == segment->segment;
	int64_t low = cut ? log_first->dlsn.entry_id : 0, first = cut ? log_first->sequence_id : segment->first_sequence_id, end = known_end;
	wk_status status = WK_OK;
	ends found;
	*txid = segment->first_txid;
	*gap = (wk_gap){.segment = segment->segment, .entry_id = low};
	for (int64_t at = entry_id - 1; at >= low; at--) {
		status = read_ends(engine, segment->ledger_id, at, &found, error);
		if (status != WK_OK && status != WK_DAMAGED)
			return status;
		if (status == WK_OK && found.last > 0) {
			int64_t behind = segment->first_sequence_id + found.last;
			first = behind > first ? behind : first;
			*txid = found.txid;
			gap->entry_id = at + 1;
			break;
		}
	}
	*after = -1;
	for (int64_t at = entry_id + 1; at <= last; at++) {
		status = read_ends(engine, segment->ledger_id, at, &found, error);
		if (status != WK_OK && status != WK_DAMAGED)
			return status;
		if (status == WK_OK && found.first > 0) {
			*after = at;
			end = segment->first_sequence_id + found.first - 1;
			break;
		}
	}
	gap->first_sequence_id = first;
	gap->count = end > first ? end - first : 0;
	return WK_OK;
}

wk_status wk_loss_around(wk_engine *engine, const wk_segment *segment, const wk_position *log_first, int64_t entry_id, int64_t last, int64_t known_end, wk_gap *gap, int64_t *after,
                         wk_error *error) {
	int64_t txid;
	return around(engine, segment, log_first, entry_id, last, known_end, gap, after, &txid, error);
}

/* ---- from holes to gaps ---- */

static wk_status note(wk_engine *engine, const wk_catalogue_record *record) {
	wk_loss *loss = engine->loss;
	if (loss->records_count == loss->records_capacity) {
		uint32_t capacity = loss->records_capacity == 0 ? 16 : loss->records_capacity * 2;
		wk_catalogue_record *records = realloc(loss->records, capacity * sizeof *records);
		if (records == NULL)
			return WK_NO_MEMORY;
		loss->records = records;
		loss->records_capacity = capacity;
	}
	loss->records[loss->records_count++] = *record;
	return WK_OK;
}

/* What is not in a gap of an earlier open already. `hole_last`: a gap that begins behind an older one in the same hole needs an entry of its own. */
static wk_status note_gap(wk_engine *engine, const wk_log_state *log, const wk_gap *gap, int64_t hole_last) {
	int64_t start = gap->first_sequence_id, end = start + gap->count;
	const wk_gap *known;
	while (start < end && (known = wk_gap_of(log, start)) != NULL)
		start = known->first_sequence_id + known->count;
	/* A lost entry whose records were truncated, all of them: readers pass over it without a word. */
	bool passed = gap->count <= 0 && wk_gap_next_entry(log, gap->segment, gap->entry_id) != gap->entry_id;
	if (start >= end && !passed)
		return WK_OK;
	engine->report.lost_records += (uint64_t)(end - start);
	return note(engine, &(wk_catalogue_record){.type = WK_CATALOGUE_GAP, .log_id = log->id, .sequence_id = start, .count = end - start, .segment = gap->segment,
	                                           .entry_id = start == gap->first_sequence_id ? gap->entry_id : hole_last});
}

/* At most so many records stood in the lost entries first..last of the ledger. */
static int64_t records_lost(const wk_loss *loss, int64_t ledger_id, int64_t first, int64_t last) {
	int64_t count = 0, named = 0;
	for (uint32_t i = 0; i < loss->entries_count; i++) {
		const wk_lost_entry *entry = &loss->entries[i];
		if (entry->ledger_id == ledger_id && entry->entry_id >= first && entry->entry_id <= last) {
			count += entry->records_max;
			named++;
		}
	}
	return count + (last - first + 1 - named);
}

/* A log's first loss, for point_in_time. */
typedef struct cut {
	bool found;
	wk_gap at;
	int64_t hole_last;
} cut;

/* The end of a segment under way is lost: it is completed with what it held, so that those sequence ids are not given again. */
static wk_status complete(wk_engine *engine, const wk_log_state *log, const wk_segment *segment, int64_t last_entry, int64_t last_slot, int64_t end, int64_t txid) {
	const wk_ledger *ledger = wk_ledger_find(engine, segment->ledger_id);
	return note(engine, &(wk_catalogue_record){.type = WK_CATALOGUE_COMPLETE, .log_id = log->id, .segment = segment->segment, .count = end - segment->first_sequence_id,
	                                           .entry_id = last_entry, .slot = last_slot, .txid = txid, .payload_bytes = ledger != NULL ? ledger->length : 0});
}

/* One hole: entries first..last of the segment. */
static wk_status settle_hole(wk_engine *engine, wk_log_state *log, wk_segment *segment, int64_t first, int64_t last, int64_t segment_last, cut *pit, wk_error *error) {
	bool open = segment->records_count < 0;
	wk_gap gap;
	int64_t after, txid;
	wk_status status = around(engine, segment, log->first, first, segment_last, open ? -1 : segment->first_sequence_id + segment->records_count, &gap, &after, &txid, error);
	if (status != WK_OK)
		return status;
	if (after < 0 && open)
		gap.count = records_lost(engine->loss, segment->ledger_id, gap.entry_id, last);
	if (!pit->found)
		*pit = (cut){true, gap, last};
	if (engine->options.on_damage == WK_ON_DAMAGE_SKIP && note_gap(engine, log, &gap, last) != WK_OK)
		return WK_NO_MEMORY;
	return after < 0 && open ? complete(engine, log, segment, last, 0, gap.first_sequence_id + gap.count, txid) : WK_OK;
}

static wk_status settle_segment(wk_engine *engine, wk_log_state *log, wk_segment *segment, cut *pit, wk_error *error) {
	wk_ledger *ledger = wk_ledger_find(engine, segment->ledger_id);
	int64_t lost = wk_loss_last(engine->loss, segment->ledger_id), last = ledger != NULL ? ledger->last_entry : -1;
	last = lost > last ? lost : last;
	last = segment->records_count >= 0 ? segment->last_entry : last;
	int64_t at = log->first->dlsn.segment == segment->segment ? log->first->dlsn.entry_id : 0;
	while (at <= last) {
		const wk_run *run = ledger != NULL ? wk_ledger_run_of(ledger, at) : NULL;
		if (run != NULL) {
			at = run->first_entry + run->count;
			continue;
		}
		int64_t end = last + 1; /* of the hole */
		for (uint32_t i = 0; ledger != NULL && i < ledger->runs_count; i++)
			if (ledger->runs[i].first_entry > at && ledger->runs[i].first_entry < end)
				end = ledger->runs[i].first_entry;
		wk_status status = settle_hole(engine, log, segment, at, end - 1, last, pit, error);
		if (status != WK_OK)
			return status;
		at = end;
	}
	return WK_OK;
}

/* The whole log from its first loss on is given up; its ids end where they would have. */
static wk_status settle_cut(wk_engine *engine, wk_log_state *log, const cut *pit, wk_error *error) {
	const wk_segment *segment = wk_log_last_segment(log);
	const wk_ledger *ledger = wk_ledger_find(engine, segment->ledger_id);
	int64_t end = -1;
	wk_loss *loss = engine->loss;
	if (segment->records_count >= 0)
		end = segment->first_sequence_id + segment->records_count;
	for (uint32_t i = 0; i < loss->records_count; i++) /* its end was lost too */
		if (loss->records[i].type == WK_CATALOGUE_COMPLETE && loss->records[i].log_id == log->id)
			end = segment->first_sequence_id + loss->records[i].count;
	if (end < 0) {
		ends found;
		wk_status status = read_ends(engine, segment->ledger_id, ledger->last_entry, &found, error);
		if (status != WK_OK)
			return status;
		end = segment->first_sequence_id + found.last;
		status = complete(engine, log, segment, ledger->last_entry, found.slot, end, found.txid);
		if (status != WK_OK)
			return status;
	}
	wk_gap gap = pit->at;
	gap.count = end - gap.first_sequence_id;
	return note_gap(engine, log, &gap, pit->hole_last);
}

wk_status wk_loss_settle(wk_engine *engine, wk_error *error) {
	wk_status status = check_ledgers(engine, error);
	for (uint32_t i = 0; i < engine->by_id_capacity && status == WK_OK; i++) {
		wk_log_state *log = engine->logs_by_id[i];
		cut pit = {0};
		for (uint32_t s = 0; log != NULL && !log->deleted && s < log->segments_count && status == WK_OK; s++)
			status = settle_segment(engine, log, &log->segments[s], &pit, error);
		if (status == WK_OK && pit.found && engine->options.on_damage == WK_ON_DAMAGE_POINT_IN_TIME)
			status = settle_cut(engine, log, &pit, error);
	}
	return status == WK_NO_MEMORY ? wk_fail(error, status, "opening %s: no memory", engine->path) : status;
}

/* ---- recording ---- */

/* A file that was damaged gets its footer now: from then on it is not scanned, and its damage is known. */
static wk_status seal_files(wk_engine *engine, wk_error *error) {
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind != WK_FILE_JOURNAL || file->state != WK_FILE_FULL)
			continue;
		uint64_t need = wk_journal_file_footer(file, 0, 0);
		if (need > file->size - file->end_offset)
			return wk_fail(error, WK_DAMAGED, "opening %s: journal file %llu is damaged, and has no room for the footer that would say what is left of it", engine->path,
			               (unsigned long long)file->id);
		wk_status status = wk_journal_file_seal(engine, file);
		if (status != WK_OK)
			return wk_fail(error, status, "opening %s: writing the footer of journal file %llu failed", engine->path, (unsigned long long)file->id);
	}
	return WK_OK;
}

static wk_status set_aside(wk_engine *engine, uint64_t id, wk_error *error) {
	char *from = wk_store_file_path(engine, id, WK_FILE_ENTRY_LOG), *to = wk_engine_path(engine, "entries/%016llx.damaged", (unsigned long long)id);
	int result = from != NULL && to != NULL ? engine->io->operations->rename(engine->io, from, to) : -12;
	free(from);
	free(to);
	return result < 0 ? wk_fail_io(error, result, "setting entry log %llu of %s aside", (unsigned long long)id, engine->path) : WK_OK;
}

wk_status wk_loss_record(wk_engine *engine, wk_error *error) {
	wk_loss *loss = engine->loss;
	if (loss == NULL)
		return WK_OK;
	wk_status status = WK_OK;
	wk_engine_lock(engine);
	for (uint32_t i = 0; i < loss->records_count && status == WK_OK; i++) {
		status = wk_catalogue_turn(engine, UINT64_MAX, error);
		if (status == WK_OK)
			status = wk_catalogue_commit(engine, &loss->records[i], error);
	}
	wk_engine_unlock(engine);
	if (status == WK_OK)
		status = seal_files(engine, error);
	for (uint32_t i = 0; i < loss->entry_logs_count && status == WK_OK; i++)
		status = set_aside(engine, loss->entry_logs[i], error);
	if (status == WK_OK && loss->entry_logs_count > 0) {
		char *path = wk_engine_path(engine, "entries");
		int result = path != NULL ? engine->io->operations->sync_directory(engine->io, path) : -12;
		free(path);
		status = result < 0 ? wk_fail_io(error, result, "syncing %s/entries", engine->path) : WK_OK;
	}
	wk_loss_free(loss);
	engine->loss = NULL;
	return status;
}
