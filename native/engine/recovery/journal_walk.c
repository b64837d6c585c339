#include "engine/recovery/journal_walk.h"

#include <string.h>

#include "core/bytes.h"
#include "engine/follower.h"
#include "engine/index.h"
#include "engine/ledger.h"
#include "engine/recovery/tail_decision.h"
#include "engine/recovery/tail_scan.h"

/* ---- one file, block by block ---- */

wk_status wk_walk_add_entry(wk_walk *s, wk_store_file *file, uint64_t block_offset, uint64_t sequence,
                            const wk_block_record *record) {
	wk_engine *engine = s->engine;
	if (record->size < WK_ENTRY_HEADER_SIZE)
		return WK_CORRUPT;
	int64_t ledger_id = (int64_t)wk_load_be64(record->bytes), entry_id = (int64_t)wk_load_be64(record->bytes + 8);
	if (ledger_id < 0 || entry_id < 0)
		return WK_CORRUPT;
	wk_ledger *ledger = wk_ledger_get(engine, ledger_id);
	if (ledger == NULL)
		return WK_NO_MEMORY;
	/* Any ids in any order; only the catalogue's make sense in theirs alone. */
	if (ledger_id == WK_CATALOGUE_LEDGER && entry_id <= ledger->last_entry)
		return WK_CORRUPT;
	if (entry_id >= ledger->last_entry)
		ledger->length = (int64_t)wk_load_be64(record->bytes + 24);
	if (engine->follower != NULL && wk_follower_note(engine, sequence, ledger_id, entry_id) != WK_OK)
		return WK_NO_MEMORY;
	return wk_ledger_add_item(engine, ledger, file, entry_id,
	                          (wk_footer_item){(uint32_t)(block_offset + record->offset), record->size});
}

static wk_status add_state(wk_engine *engine, wk_store_file *file, const wk_block_record *record) {
	if (record->size < 8 || record->size - 8 > WK_STATE_DATA_SIZE || (int64_t)wk_load_le64(record->bytes) < 0)
		return WK_CORRUPT;
	wk_footer_state state = {
	    .ledger_id = (int64_t)wk_load_le64(record->bytes), .type = record->type, .size = record->size - 8};
	memcpy(state.data, record->bytes + 8, record->size - 8);
	return wk_ledger_state_record(engine, file, &state);
}

/* An entry of a ledger store: its ids may come in any order, and again. */
static wk_status add_summed_entry(wk_engine *engine, wk_store_file *file, uint64_t block_offset,
                                  const wk_block_record *record) {
	int64_t ledger_id, entry_id;
	if (wk_summed_entry_decode(record->bytes, record->size, &ledger_id, &entry_id) != WK_OK)
		return WK_CORRUPT;
	wk_ledger *ledger = wk_ledger_get(engine, ledger_id);
	if (ledger == NULL)
		return WK_NO_MEMORY;
	return wk_ledger_add_item(engine, ledger, file, entry_id,
	                          (wk_footer_item){(uint32_t)(block_offset + record->offset), record->size});
}

/* A directory holds entries of its own kind only. */
static wk_status add_record(wk_walk *s, wk_store_file *file, const wk_block_header *header,
                            const wk_block_record *record) {
	bool ledgers = wk_engine_holds_ledgers(s->engine);
	if (record->type == WK_BLOCK_SUMMED_ENTRY)
		return ledgers ? add_summed_entry(s->engine, file, header->offset, record) : WK_CORRUPT;
	if (record->type == WK_BLOCK_ENTRY)
		return ledgers ? WK_CORRUPT : wk_walk_add_entry(s, file, header->offset, header->sequence, record);
	return add_state(s->engine, file, record);
}

/* Where it fails, for want of memory perhaps, it keeps how far it came, and goes on there the next time. */
static wk_status add_records(wk_walk *s, wk_store_file *file, const uint8_t *bytes, const wk_block_header *header) {
	uint32_t cursor = WK_BLOCK_HEADER_SIZE, number = 0;
	bool goes_on = s->begun_sequence == header->sequence;
	uint32_t known = goes_on ? s->begun_records : 0;
	if (goes_on && s->begun_crc != header->crc)
		return WK_CORRUPT; /* another block stands there now, and records of the first one are in the index */
	wk_block_record record;
	wk_status status;
	while ((status = wk_block_next(bytes, header, &cursor, &record)) == WK_OK) {
		if (number >= known)
			status = add_record(s, file, header, &record);
		if (status != WK_OK)
			break;
		number++;
	}
	status = status == WK_END ? WK_OK : status;
	s->begun_sequence = status == WK_OK ? 0 : header->sequence;
	s->begun_crc = header->crc;
	s->begun_records = number;
	return status;
}

static wk_status add_block(wk_walk *s, wk_store_file *file, const uint8_t *bytes, const wk_block_header *header) {
	wk_status status = add_records(s, file, bytes, header);
	if (status != WK_OK)
		return status;
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
	s->latest[header->sequence % WK_BLOCKS_IN_FLIGHT_MAX] = (wk_walk_block){header->sequence, file, header->offset,
	                                                                        header->size};
	if (s->engine->follower != NULL)
		wk_follower_release(s->engine, header->durable_through);
	return WK_OK;
}

/* Follows the chain through one file as far as it goes. */
wk_status wk_walk_file(wk_walk *s, wk_store_file *file, wk_error *error) {
	bool goes_on = s->scan.epoch == file->id && s->last == file; /* a follower goes on where it stood */
	return wk_walk_from(s, file, goes_on ? s->scan.offset : 0, error);
}

wk_status wk_walk_from(wk_walk *s, wk_store_file *file, uint64_t offset, wk_error *error) {
	wk_scan_file(&s->scan, file->id);
	s->scan.offset = offset;
	wk_journal_reader_file(&s->reader, file);
	s->end = WK_SCAN_ABSENT;
	while (s->scan.offset < file->size) {
		const uint8_t *bytes;
		size_t available;
		wk_block_header header;
		wk_status status = wk_journal_reader_at(&s->reader, s->scan.offset, &bytes, &available, error);
		if (status != WK_OK)
			return status;
		const wk_scan before = s->scan;
		s->end = wk_scan_block(&s->scan, bytes, available, &header);
		if (s->end != WK_SCAN_ACCEPTED) {
			if (s->end == WK_SCAN_BROKEN)
				wk_tail_scan_note_cut(s, file, s->scan.offset, bytes, available);
			break;
		}
		s->last = file;
		status = add_block(s, file, bytes, &header);
		if (status != WK_OK)
			s->scan = before; /* a follower comes back to the block */
		if (status == WK_NO_MEMORY)
			return wk_fail(error, status, "scanning the journal of %s: no memory", s->engine->path);
		if (status != WK_OK)
			return wk_fail(error, WK_DAMAGED,
			               "%s of %s: the block at offset %llu is whole, but its records contradict earlier ones",
			               wk_file_name_of(file->id, file->kind).text, s->engine->path,
			               (unsigned long long)header.offset);
	}
	return WK_OK;
}

/* ---- the chain through the files ---- */

/* Whether there is one. The disk, or memory, may refuse to say: then nothing can be made of a gap. */
static wk_status look_for_footer(wk_walk *s, wk_store_file *file, wk_footer *footer, bool *there, wk_error *error) {
	wk_status status = wk_store_footer_peek(s->engine, file, footer, error);
	*there = status == WK_OK;
	return status == WK_CORRUPT ? WK_OK : status;
}

/* Is every block of the file there, so that a gap in the numbers behind it means that files between were recycled? */
static wk_status look_if_complete(wk_walk *s, wk_store_file *file, bool *complete, wk_error *error) {
	wk_footer footer; /* not to be believed about places (ignore_footers), but it tells where the file ended */
	wk_status status = WK_OK;
	*complete = file->state == WK_FILE_SEALED;
	if (*complete)
		return status;
	status = look_for_footer(s, file, &footer, complete, error);
	*complete = *complete && footer.last_sequence == s->scan.sequence && footer.last_crc == s->scan.crc;
	return status;
}

/*
 * The numbers jump from the chain's end to this one, the first in files[to]: the files between were recycled, or are
 * missing, or one of those that are still there has lost the blocks that come next. Then the scan has its witness; or there
 * is none, and those blocks were never durable, nor was what files[to] begins with: *follows false. A footer is itself a
 * witness of all before it.
 */
static wk_status check_passed_over(wk_walk *s, uint32_t to, uint64_t first_sequence, bool *follows, wk_error *error) {
	wk_engine *engine = s->engine;
	wk_status status = WK_OK;
	wk_footer footer;
	bool missing = wk_tail_scan_are_missing(s, s->scan.sequence, first_sequence), any = missing, any_broken = false;
	for (uint32_t i = 0; i < to && status == WK_OK; i++) {
		wk_store_file *file = engine->files[i];
		if (!wk_tail_scan_counts(engine, file) || (s->last != NULL && file->id <= s->last->id))
			continue;
		bool broken, whole;
		status = wk_tail_scan_of_next(s, file, 0, &broken, &whole, error);
		any = true;
		any_broken |= broken || whole; /* whole ones behind its first, which is gone */
	}
	bool sealed = false;
	if (status == WK_OK && any)
		status = look_for_footer(s, engine->files[to], &footer, &sealed, error);
	if (status != WK_OK || !any || (sealed && !any_broken && !missing))
		return status;
	status = wk_tail_scan_witness(s, to, error);
	if (sealed && missing && s->scan.witness == 0)
		s->scan.witness = footer.last_sequence;
	*follows = sealed || wk_scan_damaged(&s->scan);
	s->missing_before = missing && !any_broken && wk_scan_damaged(&s->scan) ? first_sequence : 0;
	if (!any_broken && !missing)
		s->scan.witness = 0; /* what was lost was not in those: they are empty */
	return status;
}

/*
 * May files[at], whose first block has this number, follow the chain? `previous` NULL: nothing is known of what came
 * before.
 */
static wk_status chains_on(wk_walk *s, wk_store_file *previous, uint32_t at, uint64_t first_sequence,
                           uint32_t previous_crc, bool *follows, wk_error *error) {
	*follows = true;
	if (previous == NULL)
		return WK_OK;
	if (first_sequence == s->scan.sequence + 1) { /* nothing is missing between */
		*follows = !s->scan.anchored || previous_crc == s->scan.crc;
		return WK_OK;
	}
	wk_status status = WK_OK;
	if (s->scan.anchored) {
		*follows = first_sequence > s->scan.sequence + 1;
		if (*follows)
			status = look_if_complete(s, previous, follows, error);
	}
	if (status == WK_OK && *follows)
		status = check_passed_over(s, at, first_sequence, follows, error);
	*follows &= !wk_scan_damaged(&s->scan);
	return status;
}

/* The chain's end is the end of this file. */
static void stand_behind(wk_walk *s, wk_store_file *file) {
	s->scan.anchored = true;
	s->scan.sequence = file->last_sequence;
	s->scan.crc = file->last_crc;
	if (s->scan.incarnation != file->incarnation)
		s->scan.incarnation_from = file->last_sequence;
	s->scan.incarnation = file->incarnation;
	file->state = WK_FILE_SEALED;
	s->last = file;
	s->engine->confirm_at_start = false;
}

wk_status wk_walk_adopt(wk_walk *s, wk_store_file *file, bool *adopted, wk_error *error) {
	wk_status status = wk_store_footer_load(s->engine, file, error);
	*adopted = status == WK_OK;
	if (*adopted) {
		stand_behind(s, file);
		s->engine->report.footers_read++;
	} else {
		file->end_offset = 0;
	}
	return status == WK_NO_MEMORY ? status : WK_OK;
}

/* Tries the footer of the journal file files[at]; *found false: it must be scanned, as its blocks say the same. */
static wk_status try_footer(wk_walk *s, wk_store_file *previous, uint32_t at, bool *found, wk_error *error) {
	wk_store_file *file = s->engine->files[at];
	*found = false;
	if (s->engine->options.ignore_footers)
		return WK_OK;
	wk_status status = wk_store_footer_read(s->engine, file, error);
	if (status != WK_OK)
		return status == WK_NO_MEMORY ? status : WK_OK;
	if (s->engine->options.on_damage != WK_ON_DAMAGE_STOP) {
		status = wk_store_footer_check(s->engine, file, error);
		file->unreadable_footer = status != WK_OK;
	}
	if (status != WK_OK) {
		file->end_offset = 0;
		return status == WK_NO_MEMORY ? status : WK_OK;
	}
	bool follows;
	status = chains_on(s, previous, at, file->first_sequence, file->first_previous_crc, &follows, error);
	if (status != WK_OK)
		return status;
	if (follows)
		return wk_walk_adopt(s, file, found, error);
	file->end_offset = 0;
	return WK_OK;
}

/*
 * Does the first block of files[at] follow the chain? Where files between were recycled, the chain is anchored anew
 * in it.
 */
static wk_status try_blocks(wk_walk *s, wk_store_file *previous, uint32_t at, bool *found, wk_error *error) {
	wk_store_file *file = s->engine->files[at];
	const uint8_t *bytes;
	size_t available;
	wk_block_header first;
	*found = false;
	wk_journal_reader_file(&s->reader, file);
	wk_status status = wk_journal_reader_at(&s->reader, 0, &bytes, &available, error);
	if (status != WK_OK)
		return status;
	bool whole = wk_block_decode(bytes, available, &first) == WK_OK && first.epoch == file->id && first.offset == 0 &&
	             memcmp(first.directory_id, s->scan.directory_id, sizeof first.directory_id) == 0;
	if (!whole || first.incarnation < s->scan.incarnation)
		return WK_OK;
	bool follows;
	status = chains_on(s, previous, at, first.sequence, first.previous_crc, &follows, error);
	if (status != WK_OK || !follows)
		return status;
	const wk_scan before = s->scan;
	s->scan.anchored = first.sequence == s->scan.sequence + 1;
	*found = true;
	s->cut_bytes = 0;
	status = wk_walk_file(s, file, error);
	if (status != WK_OK && s->last != file)
		s->scan = before; /* it stands where it stood, behind `previous` */
	return status;
}

/* The next journal file that follows the chain, its index in *at; *found false where none does. */
wk_status wk_walk_next(wk_walk *s, uint32_t *at, bool *found, wk_error *error) {
	wk_engine *engine = s->engine;
	wk_store_file *previous = engine->files[*at];
	*found = false;
	s->scan.witness = 0;
	for (uint32_t i = *at + 1; i < engine->files_count && !*found && !wk_scan_damaged(&s->scan); i++) {
		if (!wk_tail_scan_counts(engine, engine->files[i]))
			continue;
		wk_status status = try_footer(s, previous, i, found, error);
		if (status == WK_OK && *found) {
			s->cut_bytes = 0;
		} else if (status == WK_OK && !wk_scan_damaged(&s->scan)) {
			status = try_blocks(s, previous, i, found, error);
			engine->report.files_scanned += *found;
		}
		if (status != WK_OK)
			return status;
		*at = *found ? i : *at;
	}
	return WK_OK;
}

/*
 * The last journal file that the index file knows: nothing up to it needs to be looked at. *found false: it knows
 * none that is there.
 */
static uint32_t pass_indexed(wk_walk *s, uint32_t at, bool *found) {
	*found = false;
	for (uint32_t i = at; i < s->engine->files_count; i++) {
		if (s->engine->files[i]->kind != WK_FILE_JOURNAL || s->engine->files[i]->state != WK_FILE_SEALED)
			continue;
		at = i;
		*found = true;
	}
	if (*found)
		stand_behind(s, s->engine->files[at]);
	return at;
}

/* Walks all journal files; on return the chain's end is in s->scan, its file in s->last. */
wk_status wk_walk_all(wk_walk *s, wk_error *error) {
	wk_engine *engine = s->engine;
	uint32_t at = 0;
	while (at < engine->files_count && !wk_tail_scan_counts(engine, engine->files[at]))
		at++;
	if (at == engine->files_count)
		return wk_tail_decision_on_none(s, error);
	bool found;
	at = pass_indexed(s, at, &found);
	wk_status status = found ? WK_OK : try_footer(s, NULL, at, &found, error);
	if (status == WK_OK && !found) {
		engine->report.files_scanned++;
		status = wk_walk_file(s, engine->files[at], error);
	}
	if (status == WK_OK)
		status = wk_tail_decision_on_first(s, error);
	for (found = true; status == WK_OK && found;) {
		status = wk_walk_next(s, &at, &found, error);
		if (status == WK_OK && !found)
			status = wk_tail_decision_reach(s, &at, &found, error);
	}
	return status;
}
