#include "engine/journal_walk.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "engine/follower.h"
#include "engine/ledger.h"
#include "engine/store_file.h"

/* ---- one file, block by block ---- */


static wk_status add_entry(wk_engine *engine, wk_store_file *file, const wk_block_header *header, const wk_block_record *record) {
	if (record->size < WK_ENTRY_HEADER_SIZE)
		return WK_CORRUPT;
	int64_t ledger_id = (int64_t)wk_load_be64(record->bytes), entry_id = (int64_t)wk_load_be64(record->bytes + 8);
	wk_ledger *ledger = ledger_id >= 0 && entry_id >= 0 ? wk_ledger_get(engine, ledger_id) : NULL;
	if (ledger == NULL || entry_id <= ledger->last_entry)
		return WK_CORRUPT;
	ledger->length = (int64_t)wk_load_be64(record->bytes + 24);
	if (engine->follower != NULL && wk_follower_note(engine, header->sequence, ledger_id, entry_id) != WK_OK)
		return WK_NO_MEMORY;
	return wk_ledger_add_item(engine, ledger, file, entry_id, (wk_footer_item){(uint32_t)(header->offset + record->offset), record->size});
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

static wk_status add_block(wk_walk *s, wk_store_file *file, const uint8_t *bytes, const wk_block_header *header) {
	uint32_t cursor = WK_BLOCK_HEADER_SIZE;
	wk_block_record record;
	wk_status status;
	while ((status = wk_block_next(bytes, header, &cursor, &record)) == WK_OK) {
		status = record.type == WK_BLOCK_ENTRY ? add_entry(s->engine, file, header, &record) : add_state(file, &record);
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
	if (s->engine->follower != NULL)
		wk_follower_release(s->engine, header->durable_through);
	return status == WK_END ? WK_OK : status;
}

/* Follows the chain through one file as far as it goes. */
wk_status wk_walk_file(wk_walk *s, wk_store_file *file, wk_error *error) {
	if (s->scan.epoch != file->id || s->last != file) /* a follower goes on where it stood */
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
static wk_status gather(wk_walk *s, wk_store_file *file, uint64_t offset, wk_error *error) {
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
static bool is_complete(wk_walk *s, wk_store_file *file) {
	if (file->state == WK_FILE_SEALED)
		return true;
	wk_store_file look = *file; /* its footer is not to be believed about places (ignore_footers), but it tells where the file ended */
	return wk_store_file_read_footer(s->engine, &look) == WK_OK && look.last_sequence == s->scan.sequence && look.last_crc == s->scan.crc;
}

/* May a file whose first block has this number follow the chain? `previous` NULL: nothing is known of what came before. */
static bool chains_on(wk_walk *s, wk_store_file *previous, uint64_t first_sequence, uint32_t previous_crc) {
	if (!s->scan.anchored || previous == NULL)
		return true;
	if (first_sequence == s->scan.sequence + 1)
		return previous_crc == s->scan.crc;
	return first_sequence > s->scan.sequence + 1 && is_complete(s, previous);
}

static void adopt_footer(wk_walk *s, wk_store_file *file) {
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
static bool try_footer(wk_walk *s, wk_store_file *previous, wk_store_file *file) {
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
static wk_status try_blocks(wk_walk *s, wk_store_file *previous, wk_store_file *file, bool *follows, wk_error *error) {
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
	return wk_walk_file(s, file, error);
}

static wk_status report_damage(wk_walk *s, const wk_store_file *file, uint64_t offset, wk_error *error) {
	wk_engine *engine = s->engine;
	return wk_fail(error, WK_DAMAGED,
	               "opening %s: journal file %llu is damaged at offset %llu: block %llu is not whole, but block %llu shows that it was durable. Nothing was changed. "
	               "Restore the file from a backup, or salvage the rest into a copy: `walkeeper recover %s DESTINATION`",
	               engine->path, (unsigned long long)file->id, (unsigned long long)offset, (unsigned long long)s->scan.sequence + 1,
	               (unsigned long long)s->scan.witness, engine->path);
}

/* The chain stopped in `file` (index at): damage, or its end? Blocks behind it are the witnesses. */
static wk_status judge(wk_walk *s, uint32_t at, wk_error *error) {
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
wk_status wk_walk_next(wk_walk *s, uint32_t *at, bool *found, wk_error *error) {
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
wk_status wk_walk_all(wk_walk *s, wk_error *error) {
	wk_engine *engine = s->engine;
	uint32_t at = 0;
	while (at < engine->files_count && engine->files[at]->kind != WK_FILE_JOURNAL)
		at++;
	if (at == engine->files_count)
		return WK_OK;
	wk_status status = WK_OK;
	if (!try_footer(s, NULL, engine->files[at])) {
		engine->report.files_scanned++;
		status = wk_walk_file(s, engine->files[at], error);
	}
	for (bool found = true; status == WK_OK && found;) {
		uint64_t offset = s->scan.offset;
		status = wk_walk_next(s, &at, &found, error);
		if (status != WK_OK || found)
			continue;
		s->scan.epoch = engine->files[at]->id;
		s->scan.offset = engine->files[at]->state == WK_FILE_SEALED ? engine->files[at]->size : offset;
		status = judge(s, at, error);
	}
	return status;
}
