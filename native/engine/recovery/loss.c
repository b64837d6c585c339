#include "engine/recovery/loss.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "engine/catalogue.h"
#include "engine/directory.h"
#include "engine/index.h"
#include "engine/journal.h"
#include "records/entry_records.h"

wk_loss *wk_loss_new(void) {
	return calloc(1, sizeof(wk_loss));
}

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

int64_t wk_loss_records_in(const uint8_t *entry, size_t entry_size) {
	const uint8_t *payload = entry + WK_ENTRY_HEADER_SIZE;
	size_t size = entry_size - WK_ENTRY_HEADER_SIZE;
	wk_envelope envelope;
	if (wk_envelope_decode(payload, size, &envelope) != WK_OK || envelope.codec != WK_CODEC_NONE) {
		uint32_t original = size >= WK_ENVELOPE_HEADER_SIZE ? wk_load_be32(payload + 5) : 0;
		int64_t most = (original <= WK_ENVELOPE_SIZE_MAX && original > size ? original : (int64_t)size) /
		               WK_RECORD_HEADER_SIZE;
		return most > 0 ? most : 1;
	}
	int64_t count = 0;
	size_t at = 0;
	while (envelope.stored_size - at >= WK_RECORD_HEADER_SIZE) {
		uint32_t payload_size = wk_load_be32(envelope.stored + at + 16);
		if (payload_size > envelope.stored_size - at - WK_RECORD_HEADER_SIZE)
			break;
		at += WK_RECORD_HEADER_SIZE + payload_size;
		count++;
	}
	count += (int64_t)((envelope.stored_size - at) / WK_RECORD_HEADER_SIZE);
	return count > 0 ? count : 1;
}

int64_t wk_loss_last(const wk_loss *loss, int64_t ledger_id) {
	int64_t last = -1;
	for (uint32_t i = 0; loss != NULL && i < loss->entries_count; i++)
		if (loss->entries[i].ledger_id == ledger_id && loss->entries[i].entry_id > last)
			last = loss->entries[i].entry_id;
	return last;
}

static int by_place(const void *a, const void *b) {
	const wk_lost_entry *x = a, *y = b;
	if (x->ledger_id != y->ledger_id)
		return x->ledger_id < y->ledger_id ? -1 : 1;
	return (x->entry_id > y->entry_id) - (x->entry_id < y->entry_id);
}

void wk_loss_sort(wk_loss *loss) {
	if (loss->entries_count > 1)
		qsort(loss->entries, loss->entries_count, sizeof *loss->entries, by_place);
}

int64_t wk_loss_next_unreadable(const wk_loss *loss, int64_t ledger_id, int64_t first) {
	const wk_lost_entry wanted = {.ledger_id = ledger_id, .entry_id = first};
	uint32_t low = 0, high = loss != NULL ? loss->entries_count : 0, end = high;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (by_place(&loss->entries[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < end && loss->entries[low].ledger_id == ledger_id; low++)
		if (loss->entries[low].unreadable)
			return loss->entries[low].entry_id;
	return -1;
}

wk_status wk_loss_add_entry_log(wk_loss *loss, uint64_t id) {
	uint64_t *ids = realloc(loss->entry_logs, (loss->entry_logs_count + 1) * sizeof *ids);
	if (ids == NULL)
		return WK_NO_MEMORY;
	loss->entry_logs = ids;
	loss->entry_logs[loss->entry_logs_count++] = id;
	return WK_OK;
}

/* ---- the records around a hole ---- */

wk_status wk_loss_read_ends(wk_engine *engine, int64_t ledger_id, int64_t entry_id, wk_ends *found, wk_error *error) {
	wk_span *span = malloc(sizeof *span);
	if (span == NULL)
		return wk_fail(error, WK_NO_MEMORY, "looking for what is lost: no memory");
	*found = (wk_ends){.txid = -1};
	wk_status status = WK_DAMAGED;
	if (wk_loss_next_unreadable(engine->loss, ledger_id, entry_id) != entry_id)
		status = wk_read_entries(engine, ledger_id, entry_id, entry_id, 1 << 20, span, error);
	if (status == WK_OK) {
		wk_entry_records records;
		wk_log_record record;
		const uint8_t *entry = span->buffer->bytes + span->entries[0].offset;
		status = wk_entry_records_open(&records, span->buffer, entry, span->entries[0].size);
		while (status == WK_OK && (status = wk_entry_records_next(&records, &record)) == WK_OK) {
			if (record.position == 0)
				continue;
			found->first = found->first == 0 ? record.position : found->first;
			found->last = record.position;
			found->txid = record.txid;
			found->slot = records.slot - 1;
		}
		found->payload = wk_segment_payload(entry, &records, found->last);
		wk_entry_records_close(&records);
		wk_buffer_release(span->buffer);
		if (status == WK_NO_MEMORY)
			wk_fail(error, status, "looking for what is lost: no memory");
		else
			status = status == WK_END ? WK_OK : WK_DAMAGED;
	}
	free(span);
	return status == WK_NOT_FOUND ? WK_DAMAGED : status;
}

int64_t wk_loss_payload_before(wk_engine *engine, const wk_segment *segment, int64_t entry_id) {
	wk_ends ends;
	bool known = entry_id > 0 && wk_loss_read_ends(engine, segment->ledger_id, entry_id - 1, &ends, NULL) == WK_OK;
	return known ? ends.payload : 0;
}

wk_status wk_loss_around(wk_engine *engine, const wk_segment *segment, const wk_position *log_first, int64_t entry_id,
                         int64_t last, int64_t known_end, wk_gap *gap, int64_t *after, int64_t *txid, wk_error *error) {
	bool cut = log_first->dlsn.segment == segment->segment;
	int64_t low = cut ? log_first->dlsn.entry_id : 0, first = cut ? log_first->sequence_id : segment->first_sequence_id,
	        end = known_end;
	wk_status status = WK_OK;
	wk_ends found;
	*txid = segment->first_txid;
	*gap = (wk_gap){.segment = segment->segment, .entry_id = low};
	for (int64_t at = entry_id - 1; at >= low; at--) {
		status = wk_loss_read_ends(engine, segment->ledger_id, at, &found, error);
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
		status = wk_loss_read_ends(engine, segment->ledger_id, at, &found, error);
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

/* ---- recording ---- */

/* A file that somebody cut short may have lost the room for its footer. */
static wk_status make_room(wk_engine *engine, wk_store_file *file, wk_error *error) {
	uint64_t size = file->end_offset + wk_journal_file_footer(file, 0, 0);
	if (size <= file->size)
		return WK_OK;
	int result = engine->io->operations->allocate(engine->io, file->handle, size);
	if (result < 0 && result != -EOPNOTSUPP) /* there: the footer's write makes it longer */
		return wk_fail_io(error, result, "opening %s: making room for the footer of %s, which is damaged", engine->path,
		                  wk_file_name_of(file->id, file->kind).text);
	file->size = size;
	return WK_OK;
}

/* A file that was damaged gets its footer now: from then on it is not scanned, and its damage is known. */
static wk_status seal_files(wk_engine *engine, bool all, wk_error *error) {
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind != WK_FILE_JOURNAL || file->state != WK_FILE_FULL || (!all && !file->unreadable_footer))
			continue;
		wk_status status = make_room(engine, file, error);
		if (status != WK_OK)
			return status;
		status = wk_journal_file_seal(engine, file);
		if (status != WK_OK)
			return wk_fail(error, status, "opening %s: writing the footer of %s failed", engine->path,
			               wk_file_name_of(file->id, file->kind).text);
	}
	return WK_OK;
}

static wk_status set_aside(wk_engine *engine, uint64_t id, wk_error *error) {
	char *from = wk_store_file_path(engine, id, WK_FILE_ENTRY_LOG),
	     *to = wk_engine_path(engine, "entries/%016llx.damaged", (unsigned long long)id);
	int result = from != NULL && to != NULL ? engine->io->operations->rename(engine->io, from, to) : -12;
	free(from);
	free(to);
	return result < 0 ? wk_fail_io(error, result, "setting %s of %s aside", wk_file_name_of(id, WK_FILE_ENTRY_LOG).text,
	                               engine->path)
	                  : WK_OK;
}

/* (locked, dropped) */
static wk_status commit(wk_engine *engine, const wk_catalogue_record *record, wk_error *error) {
	wk_status status = wk_catalogue_turn(engine, UINT64_MAX, error);
	return status == WK_OK ? wk_catalogue_commit(engine, record, error) : status;
}

wk_status wk_loss_record(wk_engine *engine, wk_error *error) {
	wk_loss *loss = engine->loss;
	bool ledgers = wk_engine_holds_ledgers(engine); /* what they lost their owner has noted */
	wk_status status = ledgers ? WK_OK : wk_catalogue_rewrite(engine, error);
	if (status == WK_OK && loss == NULL)
		status = seal_files(engine, false, error); /* the blocks were whole: no open need accept that again */
	if (loss == NULL || status != WK_OK)
		return status;
	wk_engine_lock(engine);
	for (uint32_t i = 0; i < loss->records_count && status == WK_OK; i++)
		status = commit(engine, &loss->records[i], error);
	wk_engine_unlock(engine);
	if (status == WK_OK)
		status = seal_files(engine, true, error);
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

/* ---- the end of a log ---- */

static int64_t records_of(wk_engine *engine, int64_t ledger_id, int64_t entry_id) {
	wk_span *span = malloc(sizeof *span);
	int64_t count = 1;
	if (span != NULL && wk_read_entry_unverified(engine, ledger_id, entry_id, span, NULL) == WK_OK) {
		count = wk_loss_records_in(span->buffer->bytes + span->entries[0].offset, span->entries[0].size);
		wk_buffer_release(span->buffer);
	}
	free(span);
	return count;
}

wk_status wk_loss_at_end(wk_engine *engine, const wk_log_state *log, const wk_segment *segment, int64_t last_entry,
                         wk_gap *gap, int64_t *txid, wk_error *error) {
	int64_t after;
	wk_engine_lock(engine);
	wk_position first = *log->first;
	wk_engine_unlock(engine);
	wk_status status = wk_loss_around(engine, segment, &first, last_entry, last_entry, -1, gap, &after, txid, error);
	for (int64_t at = gap->entry_id; status == WK_OK && at <= last_entry; at++)
		gap->count += records_of(engine, segment->ledger_id, at);
	return status;
}

wk_status wk_loss_accept_end(wk_engine *engine, wk_log_state *log, const wk_segment *segment, int64_t last_entry,
                             wk_error *error) {
	wk_gap gap;
	int64_t txid;
	wk_status status = wk_loss_at_end(engine, log, segment, last_entry, &gap, &txid, error);
	if (status != WK_OK)
		return status;
	int64_t payload = wk_loss_payload_before(engine, segment, gap.entry_id);
	wk_engine_lock(engine);
	const wk_segment *open = wk_log_open_segment(log);
	if (!log->deleted && open != NULL && open->segment == segment->segment)
		status = commit(engine,
		                &(wk_catalogue_record){.type = WK_CATALOGUE_GAP,
		                                       .log_id = log->id,
		                                       .sequence_id = gap.first_sequence_id,
		                                       .count = gap.count,
		                                       .segment = gap.segment,
		                                       .entry_id = gap.entry_id,
		                                       .last_entry_id = last_entry},
		                error);
	open = wk_log_open_segment(log);
	if (status == WK_OK && !log->deleted && open != NULL && open->segment == segment->segment)
		status = commit(engine,
		                &(wk_catalogue_record){.type = WK_CATALOGUE_COMPLETE,
		                                       .log_id = log->id,
		                                       .segment = segment->segment,
		                                       .count = gap.first_sequence_id + gap.count - segment->first_sequence_id,
		                                       .entry_id = last_entry,
		                                       .slot = 0,
		                                       .txid = txid,
		                                       .payload_bytes = payload},
		                error);
	wk_engine_unlock(engine);
	return status;
}
