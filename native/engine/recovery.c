#include "engine/recovery.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "engine/catalogue.h"
#include "engine/journal_reader.h"
#include "engine/ledger.h"
#include "engine/read.h"
#include "engine/store_file.h"
#include "walkeeper/journal_scan.h"

/* ---- the files ---- */

typedef struct listing {
	wk_engine *engine;
	const char *folder;
	wk_status status;
} listing;

static bool list_file(void *context, const char *name) {
	listing *list = context;
	uint32_t kind;
	uint64_t id;
	if (wk_store_file_parse(name, &kind, &id) && wk_store_file_add(list->engine, id, kind) == NULL)
		list->status = WK_NO_MEMORY;
	return list->status == WK_OK;
}

static wk_status open_file(wk_engine *engine, wk_store_file *file, wk_error *error) {
	const struct wk_io_operations *io = engine->io->operations;
	char *path = wk_store_file_path(engine, file->id, file->kind);
	if (path == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	int result = io->open(engine->io, path, (engine->read_only ? WK_IO_READ : WK_IO_WRITE) | WK_IO_DIRECT, &file->handle);
	wk_io_stat stat = {0};
	if (result == 0)
		result = io->stat(engine->io, file->handle, &stat);
	file->size = stat.size / WK_BLOCK_ALIGNMENT * WK_BLOCK_ALIGNMENT;
	wk_status status = result < 0 ? wk_fail_io(error, result, "opening %s", path) : WK_OK;
	free(path);
	return status;
}

static wk_status find_files(wk_engine *engine, wk_error *error) {
	static const char *const folders[] = {"journal", "entries"};
	for (uint32_t i = 0; i < 2; i++) {
		char *path = wk_engine_path(engine, "%s", folders[i]);
		listing list = {engine, folders[i], path == NULL ? WK_NO_MEMORY : WK_OK};
		int result = path != NULL ? engine->io->operations->list(engine->io, path, list_file, &list) : 0;
		free(path);
		if (result < 0)
			return wk_fail_io(error, result, "listing %s/%s", engine->path, folders[i]);
		if (list.status != WK_OK)
			return wk_fail(error, list.status, "listing %s/%s: no memory", engine->path, folders[i]);
	}
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_status status = open_file(engine, engine->files[i], error);
		if (status != WK_OK)
			return status;
	}
	return WK_OK;
}

/* ---- one file, block by block ---- */

typedef struct scanner {
	wk_engine *engine;
	wk_scan scan;
	wk_journal_reader reader;
	wk_store_file *last; /* the file of the last accepted block */
	uint64_t cut_bytes;
	wk_scan_verdict end; /* why the chain stopped */
} scanner;

static wk_status add_entry(wk_engine *engine, wk_store_file *file, uint64_t block_offset, const wk_block_record *record) {
	if (record->size < WK_ENTRY_HEADER_SIZE)
		return WK_CORRUPT;
	int64_t ledger_id = (int64_t)wk_load_be64(record->bytes), entry_id = (int64_t)wk_load_be64(record->bytes + 8);
	wk_ledger *ledger = ledger_id >= 0 && entry_id >= 0 ? wk_ledger_get(engine, ledger_id) : NULL;
	if (ledger == NULL || entry_id <= ledger->last_entry)
		return WK_CORRUPT;
	ledger->length = (int64_t)wk_load_be64(record->bytes + 24);
	return wk_ledger_add_item(engine, ledger, file, entry_id, (wk_footer_item){(uint32_t)(block_offset + record->offset), record->size});
}

static wk_status add_state(wk_store_file *file, const wk_block_record *record) {
	if (record->size < 8 || record->size - 8 > WK_STATE_DATA_SIZE || (int64_t)wk_load_le64(record->bytes) < 0)
		return WK_CORRUPT;
	if (file->states_count == file->states_capacity) {
		uint32_t capacity = file->states_capacity == 0 ? 4 : file->states_capacity * 2;
		wk_footer_state *states = realloc(file->states, capacity * sizeof *states);
		if (states == NULL)
			return WK_NO_MEMORY;
		file->states = states;
		file->states_capacity = capacity;
	}
	wk_footer_state *state = &file->states[file->states_count++];
	*state = (wk_footer_state){.ledger_id = (int64_t)wk_load_le64(record->bytes), .type = record->type, .size = record->size - 8};
	memcpy(state->data, record->bytes + 8, record->size - 8);
	return WK_OK;
}

static wk_status add_block(scanner *s, wk_store_file *file, const uint8_t *bytes, const wk_block_header *header) {
	uint32_t cursor = WK_BLOCK_HEADER_SIZE;
	wk_block_record record;
	wk_status status;
	while ((status = wk_block_next(bytes, header, &cursor, &record)) == WK_OK) {
		status = record.type == WK_BLOCK_ENTRY ? add_entry(s->engine, file, header->offset, &record) : add_state(file, &record);
		if (status != WK_OK)
			return status;
	}
	if (file->end_offset == 0) {
		file->first_sequence = header->sequence;
		file->first_previous_crc = header->previous_crc;
	}
	file->last_sequence = header->sequence;
	file->last_crc = header->crc;
	file->incarnation = header->incarnation;
	file->end_offset = header->offset + header->size;
	s->engine->confirm_at_start = (header->flags & WK_BLOCK_CONFIRM) == 0;
	s->engine->report.blocks_accepted++;
	return status == WK_END ? WK_OK : status;
}

/* Follows the chain through one file as far as it goes. */
static wk_status follow(scanner *s, wk_store_file *file, wk_error *error) {
	wk_scan_file(&s->scan, file->id);
	wk_journal_reader_file(&s->reader, file);
	s->end = WK_SCAN_ABSENT;
	while (s->scan.offset < file->size) {
		const uint8_t *bytes;
		size_t available;
		wk_block_header header;
		wk_status status = wk_journal_reader_at(&s->reader, s->scan.offset, &bytes, &available, error);
		if (status != WK_OK)
			return status;
		s->end = wk_scan_block(&s->scan, bytes, available, &header);
		if (s->end != WK_SCAN_ACCEPTED) {
			if (s->end == WK_SCAN_BROKEN)
				s->cut_bytes = wk_block_peek(bytes, available, &header) == WK_OK ? header.size : WK_BLOCK_ALIGNMENT;
			break;
		}
		s->last = file;
		status = add_block(s, file, bytes, &header);
		if (status != WK_OK)
			return wk_fail(error, WK_DAMAGED, "journal file %llu of %s: the block at offset %llu is whole, but its records contradict earlier ones",
			               (unsigned long long)file->id, s->engine->path, (unsigned long long)header.offset);
	}
	return WK_OK;
}

/* Shows every whole block of the file behind `offset` to the scan. */
static wk_status gather(scanner *s, wk_store_file *file, uint64_t offset, wk_error *error) {
	wk_journal_reader_file(&s->reader, file);
	for (uint64_t at = offset; at < file->size;) {
		const uint8_t *bytes;
		size_t available;
		wk_status status = wk_journal_reader_at(&s->reader, at, &bytes, &available, error);
		if (status != WK_OK)
			return status;
		wk_block_header header;
		if (wk_block_decode(bytes, available, &header) == WK_OK && header.epoch == file->id && header.offset == at) {
			wk_scan_later(&s->scan, &header);
			at += header.size;
		} else {
			at += WK_BLOCK_ALIGNMENT;
		}
	}
	return WK_OK;
}

/* ---- the chain through the files ---- */

/* Is every block of the file there, so that a gap in the numbers behind it means that files between were recycled? */
static bool is_complete(scanner *s, wk_store_file *file) {
	if (file->state == WK_FILE_SEALED)
		return true;
	wk_store_file look = *file; /* its footer is not to be believed about places (ignore_footers), but it tells where the file ended */
	return wk_store_file_read_footer(s->engine, &look) == WK_OK && look.last_sequence == s->scan.sequence && look.last_crc == s->scan.crc;
}

/* May a file whose first block has this number follow the chain? `previous` NULL: nothing is known of what came before. */
static bool chains_on(scanner *s, wk_store_file *previous, uint64_t first_sequence, uint32_t previous_crc) {
	if (!s->scan.anchored || previous == NULL)
		return true;
	if (first_sequence == s->scan.sequence + 1)
		return previous_crc == s->scan.crc;
	return first_sequence > s->scan.sequence + 1 && is_complete(s, previous);
}

static void adopt_footer(scanner *s, wk_store_file *file) {
	s->scan.anchored = true;
	s->scan.sequence = file->last_sequence;
	s->scan.crc = file->last_crc;
	s->scan.incarnation = file->incarnation;
	file->state = WK_FILE_SEALED;
	s->last = file;
	s->engine->confirm_at_start = false;
	s->engine->report.footers_read++;
}

/* Tries the footer of a journal file; false: it must be scanned. */
static bool try_footer(scanner *s, wk_store_file *previous, wk_store_file *file) {
	if (s->engine->options.ignore_footers || wk_store_file_read_footer(s->engine, file) != WK_OK)
		return false;
	if (!chains_on(s, previous, file->first_sequence, file->first_previous_crc) || wk_store_file_load_runs(s->engine, file) != WK_OK) {
		file->end_offset = 0;
		return false;
	}
	adopt_footer(s, file);
	return true;
}

/* Does the first block of the file follow the chain? Where files between were recycled, the chain is anchored anew in it. */
static wk_status try_blocks(scanner *s, wk_store_file *previous, wk_store_file *file, bool *follows, wk_error *error) {
	const uint8_t *bytes;
	size_t available;
	wk_block_header first;
	*follows = false;
	wk_journal_reader_file(&s->reader, file);
	wk_status status = wk_journal_reader_at(&s->reader, 0, &bytes, &available, error);
	if (status != WK_OK)
		return status;
	bool whole = wk_block_decode(bytes, available, &first) == WK_OK && first.epoch == file->id && first.offset == 0 &&
	             memcmp(first.directory_id, s->scan.directory_id, sizeof first.directory_id) == 0;
	if (!whole || first.incarnation < s->scan.incarnation || !chains_on(s, previous, first.sequence, first.previous_crc))
		return WK_OK;
	s->scan.anchored = first.sequence == s->scan.sequence + 1;
	*follows = true;
	s->cut_bytes = 0;
	return follow(s, file, error);
}

static wk_status report_damage(scanner *s, const wk_store_file *file, uint64_t offset, wk_error *error) {
	wk_engine *engine = s->engine;
	return wk_fail(error, WK_DAMAGED,
	               "opening %s: journal file %llu is damaged at offset %llu: block %llu is not whole, but block %llu shows that it was durable. Nothing was changed. "
	               "Restore the file from a backup, or salvage the rest into a copy: `walkeeper recover %s DESTINATION`",
	               engine->path, (unsigned long long)file->id, (unsigned long long)offset, (unsigned long long)s->scan.sequence + 1,
	               (unsigned long long)s->scan.witness, engine->path);
}

/* The chain stopped in `file` (index at): damage, or its end? Blocks behind it are the witnesses. */
static wk_status judge(scanner *s, uint32_t at, wk_error *error) {
	wk_engine *engine = s->engine;
	wk_store_file *file = engine->files[at];
	uint64_t offset = s->scan.offset;
	wk_status status = gather(s, file, offset, error); /* of a sealed file nothing is left to look at */
	for (uint32_t i = at + 1; i < engine->files_count && status == WK_OK; i++)
		if (engine->files[i]->kind == WK_FILE_JOURNAL)
			status = gather(s, engine->files[i], 0, error);
	if (status == WK_OK && wk_scan_damaged(&s->scan))
		status = report_damage(s, file, offset, error);
	return status;
}

/* The next journal file that follows the chain, its index in *at; *found false where none does. */
static wk_status next_file(scanner *s, uint32_t *at, bool *found, wk_error *error) {
	wk_engine *engine = s->engine;
	wk_store_file *previous = engine->files[*at];
	*found = false;
	for (uint32_t i = *at + 1; i < engine->files_count && !*found; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind != WK_FILE_JOURNAL)
			continue;
		*found = try_footer(s, previous, file);
		if (*found)
			s->cut_bytes = 0;
		else {
			wk_status status = try_blocks(s, previous, file, found, error);
			if (status != WK_OK)
				return status;
			engine->report.files_scanned += *found;
		}
		*at = *found ? i : *at;
	}
	return WK_OK;
}

/* Walks all journal files; on return the chain's end is in s->scan, its file in s->last. */
static wk_status walk(scanner *s, wk_error *error) {
	wk_engine *engine = s->engine;
	uint32_t at = 0;
	while (at < engine->files_count && engine->files[at]->kind != WK_FILE_JOURNAL)
		at++;
	if (at == engine->files_count)
		return WK_OK;
	wk_status status = WK_OK;
	if (!try_footer(s, NULL, engine->files[at])) {
		engine->report.files_scanned++;
		status = follow(s, engine->files[at], error);
	}
	for (bool found = true; status == WK_OK && found;) {
		uint64_t offset = s->scan.offset;
		status = next_file(s, &at, &found, error);
		if (status != WK_OK || found)
			continue;
		s->scan.epoch = engine->files[at]->id;
		s->scan.offset = engine->files[at]->state == WK_FILE_SEALED ? engine->files[at]->size : offset;
		status = judge(s, at, error);
	}
	return status;
}

/* ---- what comes out of it ---- */

/* Which file goes on, which wait for a footer, which are empty. */
static void assign_roles(scanner *s) {
	wk_engine *engine = s->engine;
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind != WK_FILE_JOURNAL || file->state == WK_FILE_SEALED)
			continue;
		if (s->last != NULL && file == s->last)
			file->state = WK_FILE_ACTIVE;
		else if (file->end_offset > 0)
			file->state = WK_FILE_FULL;
		else if (engine->next == NULL && (s->last == NULL || file->id > s->last->id) && file->size >= engine->options.file_size_min) {
			file->state = WK_FILE_NEXT;
			engine->next = file;
		} else {
			file->state = WK_FILE_SEALED; /* empty: recycled */
		}
	}
	if (s->last != NULL && s->last->state == WK_FILE_ACTIVE) {
		engine->active = s->last;
		engine->offset = s->last->end_offset;
	}
	engine->last_crc = s->scan.crc;
	if (s->cut_bytes > 0 && s->last != NULL) {
		engine->report.cut_bytes = s->cut_bytes;
		engine->report.cut_file = s->scan.epoch;
		engine->report.cut_offset = s->scan.offset;
	}
}

/* What a kill left in the drive's cache must be durable before anybody hears of it (storage rule 13). */
static wk_status sync_accepted(wk_engine *engine, wk_error *error) {
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind != WK_FILE_JOURNAL || file->state == WK_FILE_SEALED || file->end_offset == 0)
			continue;
		int result = engine->io->operations->sync(engine->io, file->handle);
		if (result < 0)
			return wk_fail_io(error, result, "syncing journal file %llu of %s", (unsigned long long)file->id, engine->path);
	}
	return WK_OK;
}

static wk_status load_entry_logs(wk_engine *engine, wk_error *error) {
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind != WK_FILE_ENTRY_LOG)
			continue;
		file->state = WK_FILE_SEALED;
		wk_status status = wk_store_file_read_footer(engine, file);
		if (status == WK_OK)
			status = wk_store_file_load_runs(engine, file);
		if (status != WK_OK)
			return wk_fail(error, WK_DAMAGED, "entry log %llu of %s has a damaged footer: restore it from a backup, or salvage the rest with `walkeeper recover`",
			               (unsigned long long)file->id, engine->path);
	}
	return WK_OK;
}

static wk_status replay_catalogue(wk_engine *engine, wk_error *error) {
	wk_ledger *ledger = wk_ledger_find(engine, WK_CATALOGUE_LEDGER);
	if (ledger == NULL)
		return WK_OK;
	int64_t first = engine->superblock.snapshots[0].first_entry;
	wk_span *span = malloc(sizeof *span);
	if (span == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	wk_status status = WK_OK;
	for (int64_t entry_id = first < 0 ? 0 : first; entry_id <= ledger->last_entry && status == WK_OK;) {
		status = wk_read_entries(engine, WK_CATALOGUE_LEDGER, entry_id, ledger->last_entry, 1 << 20, span, error);
		for (uint32_t i = 0; i < span->count && status == WK_OK; i++) {
			const uint8_t *payload = span->buffer->bytes + span->entries[i].offset + WK_ENTRY_HEADER_SIZE;
			size_t size = span->entries[i].size - WK_ENTRY_HEADER_SIZE;
			/* A snapshot that the superblock does not name was not finished, or not known to be: the changes before it say the same. */
			if (span->entries[i].entry_id > engine->superblock.snapshots[0].last_entry && wk_catalogue_is_snapshot(payload, size))
				status = WK_OK;
			else
				status = wk_catalogue_replay(engine, payload, size);
			if (status != WK_OK)
				wk_fail(error, status == WK_CORRUPT ? WK_DAMAGED : status, "opening %s: entry %lld of the catalogue contradicts what came before it",
				        engine->path, (long long)span->entries[i].entry_id);
			status = status == WK_CORRUPT ? WK_DAMAGED : status;
			entry_id = span->entries[i].entry_id + 1;
			engine->catalogue_delta += span->entries[i].size;
		}
		wk_buffer_release(span->buffer);
		span->buffer = NULL;
	}
	free(span);
	wk_ledger_trim(engine, ledger, first);
	engine->next_catalogue_entry = ledger->last_entry + 1;
	return status;
}

/* Ledgers that no log names any more: deleted, or truncated away. */
static wk_status drop_unnamed(wk_engine *engine) {
	uint32_t count = 0;
	wk_ledger **unnamed = malloc((engine->ledgers_count + 1) * sizeof *unnamed);
	if (unnamed == NULL)
		return WK_NO_MEMORY;
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++)
		if (engine->ledgers[i] != NULL && engine->ledgers[i]->id != WK_CATALOGUE_LEDGER) {
			engine->ledgers[i]->named = false;
			unnamed[count++] = engine->ledgers[i];
		}
	for (uint32_t i = 0; i < engine->by_id_capacity; i++) {
		wk_log_state *log = engine->logs_by_id[i];
		for (uint32_t s = 0; log != NULL && !log->deleted && s < log->segments_count; s++) {
			wk_ledger *ledger = wk_ledger_find(engine, log->segments[s].ledger_id);
			if (ledger != NULL)
				ledger->named = true;
		}
	}
	for (uint32_t i = 0; i < count; i++)
		if (!unnamed[i]->named)
			wk_ledger_drop(engine, unnamed[i]);
	free(unnamed);
	return WK_OK;
}

static void all_durable(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++)
		if (engine->ledgers[i] != NULL)
			engine->ledgers[i]->durable_entry = engine->ledgers[i]->last_entry;
}

wk_status wk_recover(wk_engine *engine, wk_error *error) {
	uint64_t begin = wk_engine_now(engine);
	wk_status status = find_files(engine, error);
	if (status != WK_OK)
		return status;
	scanner s = {.engine = engine};
	wk_scan_init(&s.scan, engine->superblock.directory_id);
	status = wk_journal_reader_init(&s.reader, engine, error);
	if (status != WK_OK)
		return status;
	status = walk(&s, error);
	engine->report.bytes_scanned = s.reader.read_bytes;
	wk_journal_reader_free(&s.reader);
	if (status == WK_OK)
		assign_roles(&s);
	if (status == WK_OK && !engine->read_only)
		status = sync_accepted(engine, error);
	if (status == WK_OK)
		status = load_entry_logs(engine, error);
	if (status != WK_OK)
		return status;
	all_durable(engine);
	engine->open.sequence = s.scan.sequence + 1;
	engine->durable = s.scan.sequence;
	if (wk_block_window_init(&engine->window, s.scan.sequence + 1, engine->options.blocks_in_flight) != WK_OK)
		return wk_fail(error, WK_INVALID, "opening %s: blocks_in_flight must be 1 to %d", engine->path, WK_BLOCKS_IN_FLIGHT_MAX);
	status = replay_catalogue(engine, error);
	if (status != WK_OK)
		return status;
	for (uint32_t i = 0; i < engine->by_id_capacity; i++)
		if (engine->logs_by_id[i] != NULL)
			wk_catalogue_reclaim(engine, engine->logs_by_id[i]);
	wk_catalogue_bury(engine);
	status = drop_unnamed(engine);
	if (status != WK_OK)
		return wk_fail(error, status, "opening %s: no memory", engine->path);
	engine->next_file_id = engine->superblock.file_id_ceiling > 0 ? engine->superblock.file_id_ceiling : 1;
	if (engine->files_count > 0 && engine->files[engine->files_count - 1]->id >= engine->next_file_id)
		engine->next_file_id = engine->files[engine->files_count - 1]->id + 1;
	engine->confirm_pending = engine->confirm_at_start && s.last != NULL;
	engine->report.elapsed_ns = wk_engine_now(engine) - begin;
	return WK_OK;
}
