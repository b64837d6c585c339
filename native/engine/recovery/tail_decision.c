#include "engine/recovery/tail_decision.h"

#include <stdio.h>
#include <string.h>

#include "core/bytes.h"
#include "engine/index.h"
#include "engine/recovery/loss.h"
#include "engine/recovery/tail_scan.h"

/* ---- is it the end, or damage? ---- */

/* A block behind the end is known to have been durable, or the files are not as they were: the end was not torn. */
static bool ends_too_early(const wk_walk *s) {
	return wk_journal_end_known(s) > s->scan.sequence || s->short_file != NULL || s->missing_behind != 0;
}

typedef struct remedy_text {
	char text[200];
} remedy_text;

static remedy_text remedy(const wk_engine *engine) {
	remedy_text remedy;
	snprintf(remedy.text, sizeof remedy.text,
	         wk_engine_holds_ledgers(engine) ? WK_LEDGERS_REMEDY
	                                         : "salvage the rest into a copy: `walkeeper recover %s DESTINATION`",
	         engine->path);
	return remedy;
}

/* What the journal's end shows, and which of its files is missing or damaged. */
static void describe_end(const wk_walk *s, char *text, size_t size) {
	const wk_engine *engine = s->engine;
	char behind[96] = "has no block";
	if (s->last != NULL)
		snprintf(behind, sizeof behind, "ends behind block %llu in %s", (unsigned long long)s->scan.sequence,
		         wk_file_name_of(s->last->id, s->last->kind).text);
	if (s->short_file != NULL)
		snprintf(text, size, "%s is shorter than it was: it is cut off behind %llu bytes, and the journal %s",
		         wk_file_name_of(s->short_file->id, s->short_file->kind).text, (unsigned long long)s->short_file->size,
		         behind);
	else if (engine->superblock.clean)
		snprintf(text, size,
		         "the journal %s, but the directory was closed in order behind block %llu: a journal file is missing "
		         "or damaged",
		         behind, (unsigned long long)engine->superblock.closed_sequence);
	else if (s->published > s->scan.sequence)
		snprintf(text, size,
		         "the journal %s, but the file `shared` shows that block %llu was durable: a journal file is missing, "
		         "cut off or damaged (or `shared` is: without it, the journal alone counts)",
		         behind, (unsigned long long)s->published);
	else
		snprintf(text, size, "the journal file behind %s, which is full, is missing or empty; the journal %s",
		         wk_file_name_of(s->missing_behind, WK_FILE_JOURNAL).text, behind);
}

static wk_status report_early_end(wk_walk *s, wk_error *error) {
	char text[400];
	describe_end(s, text, sizeof text);
	return wk_fail(error, WK_DAMAGED, "opening %s: %s. Nothing was changed. Restore the file from a backup, or %s",
	               s->engine->path, text, remedy(s->engine).text);
}

static wk_status report_missing(const wk_walk *s, uint64_t first_sequence, wk_error *error) {
	return wk_fail(error, WK_DAMAGED,
	               "opening %s: a journal file begins with block %llu, and no file has block %llu: one is missing or "
	               "damaged. Nothing was changed. Restore the file from a backup, or %s",
	               s->engine->path, (unsigned long long)first_sequence, (unsigned long long)first_sequence - 1,
	               remedy(s->engine).text);
}

static wk_status report_damage(wk_walk *s, const wk_store_file *file, uint64_t offset, wk_error *error) {
	wk_engine *engine = s->engine;
	if (s->scan.witness == 0)
		return report_early_end(s, error);
	if (s->missing_before != 0)
		return report_missing(s, s->missing_before, error);
	/* A footer shows that its file was whole, so that a later one may begin anywhere. */
	char other[160] = "";
	if (offset == 0 && s->last != NULL && s->last != file && s->last->state != WK_FILE_SEALED)
		snprintf(other, sizeof other,
		         " (or: %s was followed by others that were recycled, and its footer cannot be read)",
		         wk_file_name_of(s->last->id, s->last->kind).text);
	return wk_fail(error, WK_DAMAGED,
	               "opening %s: %s is damaged at offset %llu: block %llu is not whole, but block %llu shows that "
	               "it was durable%s. Nothing was changed. "
	               "Restore the file from a backup, or %s",
	               engine->path, wk_file_name_of(file->id, file->kind).text, (unsigned long long)offset,
	               (unsigned long long)s->scan.sequence + 1, (unsigned long long)s->scan.witness, other,
	               remedy(engine).text);
}

static wk_status report_rival(wk_walk *s, wk_error *error) {
	return wk_fail(
	    error, WK_DAMAGED,
	    "opening %s: two processes wrote it at once: block %llu of one of them contradicts the journal of the "
	    "other, which ends with block %llu. What one of them acknowledged is lost. Nothing was changed. Restore "
	    "it from a backup, or %s",
	    s->engine->path, (unsigned long long)s->scan.rival, (unsigned long long)s->scan.sequence,
	    remedy(s->engine).text);
}

/*
 * Where the block that is missing (or, without damage, torn) stood: behind the chain's end in files[*at], or at the
 * start of a later file.
 */
static wk_status find_place(wk_walk *s, bool damaged, uint32_t *at, uint64_t *offset, wk_error *error) {
	wk_engine *engine = s->engine;
	for (uint32_t i = *at; i < engine->files_count; i++) {
		bool broken, whole = false;
		uint64_t from = i == *at ? *offset : 0;
		if (!wk_tail_scan_counts(engine, engine->files[i]) ||
		    (i == *at && !damaged)) /* without damage the walk has looked there already */
			continue;
		wk_status status = wk_tail_scan_of_next(s, engine->files[i], from, &broken, damaged ? &whole : NULL, error);
		if (status != WK_OK)
			return status;
		if (broken || whole) {
			*at = i;
			*offset = from;
			return WK_OK;
		}
	}
	return WK_OK;
}

/* No block to come gets the number of one that was there. */
static void pass_known(wk_walk *s) {
	uint64_t known = wk_journal_end_known(s), marked = s->engine->superblock.replay_sequence;
	known = known > marked ? known : marked;
	s->highest = known > s->highest ? known : s->highest;
}

wk_status wk_tail_decision_reach(wk_walk *s, uint32_t *at, bool *found, wk_error *error) {
	wk_engine *engine = s->engine;
	bool sealed = engine->files[*at]->state == WK_FILE_SEALED;
	uint64_t offset = sealed ? engine->files[*at]->size
	                         : s->scan.offset; /* of a sealed file nothing is left to look at */
	if (s->last != engine->files[*at] && !sealed && s->scan.epoch != engine->files[*at]->id)
		offset = 0;
	s->scan.epoch = engine->files[*at]->id;
	s->scan.offset = offset;
	wk_status status = wk_tail_scan_gather(s, engine->files[*at], offset, error);
	s->leftovers_count = 0;
	if (status == WK_OK)
		status = wk_tail_scan_witness(s, *at + 1, error);
	if (status == WK_OK && s->scan.rival != 0) {
		if (engine->options.on_damage == WK_ON_DAMAGE_STOP || engine->read_only)
			return report_rival(s, error);
		engine->report.unknown_blocks++; /* its records are in no log, and nobody knows how many there were */
		engine->report.damaged_blocks++;
		s->scan.rival = 0;
	}
	if (status == WK_OK)
		status = wk_journal_end_look(s, *at, offset, error);
	bool damaged = wk_scan_damaged(&s->scan) || ends_too_early(s);
	if (status == WK_OK && (damaged || s->cut_bytes == 0)) /* the first block of the next file may be torn, too */
		status = find_place(s, damaged, at, &offset, error);
	if (status != WK_OK || !damaged)
		return status;
	if (engine->options.on_damage == WK_ON_DAMAGE_STOP || engine->read_only)
		return report_damage(s, engine->files[*at], offset, error);
	pass_known(s);
	return wk_walk_past_damage(s, at, offset, found, error);
}

wk_status wk_tail_decision_on_none(wk_walk *s, wk_error *error) {
	wk_engine *engine = s->engine;
	wk_status status = wk_journal_end_look(s, engine->files_count, 0, error);
	if (status != WK_OK || !ends_too_early(s))
		return status;
	bool only_entry_logs = s->missing_behind != 0 && wk_journal_end_known(s) == 0;
	if (engine->options.on_damage == WK_ON_DAMAGE_STOP || engine->read_only || !only_entry_logs)
		return report_early_end(s, error);
	pass_known(s);
	engine->report.damaged_blocks++;
	engine->report.unknown_blocks++;
	s->lossy = true;
	return WK_OK;
}

wk_status wk_tail_decision_on_first(wk_walk *s, wk_error *error) {
	uint64_t first = s->last != NULL ? s->last->first_sequence : 0;
	if (!wk_tail_scan_are_missing(s, 0, first))
		return WK_OK;
	if (s->engine->options.on_damage == WK_ON_DAMAGE_STOP)
		return report_missing(s, first, error);
	uint64_t lost = first - 1 - wk_superblock_accounted(&s->engine->superblock);
	s->engine->report.damaged_blocks += lost;
	s->engine->report.unknown_blocks += lost;
	s->lossy = true;
	return WK_OK;
}

/* ---- going on behind accepted damage (storage rule 14) ---- */

/* ---- what the damaged blocks held ---- */

typedef struct examined {
	uint64_t broken;     /* damaged blocks that left a trace */
	uint64_t understood; /* of these, which entries they held is known */
} examined;

enum { DIRECTORY_ID_AT = 16, DAMAGED_BITS_MAX = 16 };

/*
 * A file of another directory was put here: its entries are intact, and none is ours. A damaged id of ours differs from
 * ours in a few of its 128 bits, another's in about half of them.
 */
static bool is_foreign(const wk_walk *walk, const uint8_t *bytes) {
	int differing = 0;
	for (size_t i = 0; i < WK_DIRECTORY_ID_SIZE; i++)
		differing += __builtin_popcount(bytes[DIRECTORY_ID_AT + i] ^ walk->scan.directory_id[i]);
	return differing > DAMAGED_BITS_MAX;
}

/*
 * As in journal_scan.c: what an earlier life of a recycled file left does not count; nor does what a write that went
 * astray put here, which is neither of this place nor the block that comes next.
 */
static bool is_trace(const wk_walk *walk, const wk_store_file *file, uint64_t offset, const uint8_t *bytes) {
	bool magic = memcmp(bytes, "WKJB", 4) == 0,
	     directory = memcmp(bytes + DIRECTORY_ID_AT, walk->scan.directory_id, WK_DIRECTORY_ID_SIZE) == 0;
	bool epoch = wk_load_le64(bytes + 32) == file->id, place = wk_load_le64(bytes + 40) == offset;
	bool sequence = walk->scan.sequence > 0 && wk_load_le64(bytes + 48) == walk->scan.sequence + 1;
	return (epoch || sequence) && (place || sequence) && magic + directory + epoch + place + sequence >= 3 &&
	       !is_foreign(walk, bytes);
}

/* An intact entry is kept, as its own digest vouches for it. *known false: not even its ids can be told. */
static wk_status take_entry(wk_walk *walk, wk_store_file *file, uint64_t offset, const wk_block_record *record,
                            bool *known) {
	wk_engine *engine = walk->engine;
	wk_entry entry;
	int64_t ledger_id = (int64_t)wk_load_be64(record->bytes), entry_id = (int64_t)wk_load_be64(record->bytes + 8);
	const wk_ledger *ledger = ledger_id >= 0 ? wk_ledger_find(engine, ledger_id) : NULL;
	int64_t last = ledger != NULL ? ledger->last_entry : -1, lost = wk_loss_last(engine->loss, ledger_id);
	last = lost > last ? lost : last;
	bool intact = wk_entry_decode(record->bytes, record->size, &entry) == WK_OK;
	*known = ledger_id >= 0 && (intact ? entry_id > last : entry_id == last + 1);
	if (!*known)
		return WK_OK;
	if (intact)
		return wk_walk_add_entry(walk, file, offset, walk->scan.sequence, record);
	int64_t records_max = wk_loss_records_in(record->bytes, record->size);
	engine->report.lost_entries++;
	return wk_loss_add(engine->loss, &(wk_lost_entry){ledger_id, entry_id, records_max, false});
}

static bool is_zero(const uint8_t *bytes, size_t size) {
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

/*
 * What a damaged block left behind, in `size` bytes up to the next whole one. Two of its framing, its size and its
 * used bytes must agree for all of it to be understood.
 */
static wk_status examine_block(wk_walk *walk, wk_store_file *file, uint64_t offset, const uint8_t *bytes, size_t size,
                               uint64_t *end, examined *all) {
	size_t cursor = WK_BLOCK_HEADER_SIZE;
	uint32_t used = wk_load_le32(bytes + 72), whole_size = wk_load_le32(bytes + 12);
	bool understood = true;
	wk_status status = WK_OK;
	while (cursor != used && cursor + WK_BLOCK_RECORD_HEADER_SIZE <= size && wk_load_le32(bytes + cursor) != 0) {
		uint32_t word = wk_load_le32(bytes + cursor), record_size = word & 0x0fffffff, type = word >> 28;
		wk_block_record record = {type, record_size, (uint32_t)cursor + WK_BLOCK_RECORD_HEADER_SIZE,
		                          bytes + cursor + WK_BLOCK_RECORD_HEADER_SIZE};
		bool possible = type == WK_BLOCK_ENTRY && !wk_engine_holds_ledgers(walk->engine) &&
		                record_size >= WK_ENTRY_HEADER_SIZE &&
		                record_size <= size - cursor - WK_BLOCK_RECORD_HEADER_SIZE;
		if (!possible) {
			understood = false; /* where the next record starts cannot be told */
			break;
		}
		bool known;
		status = take_entry(walk, file, offset, &record, &known);
		if (status != WK_OK)
			break;
		understood &= known;
		cursor += WK_BLOCK_RECORD_HEADER_SIZE + record_size;
	}
	size_t round = (cursor + WK_BLOCK_ALIGNMENT - 1) / WK_BLOCK_ALIGNMENT * WK_BLOCK_ALIGNMENT;
	round = round < size ? round : size;
	understood &= cursor == used || (whole_size == round && is_zero(bytes + cursor, round - cursor));
	*end = offset + round;
	all->broken++;
	all->understood += understood;
	if (file->end_offset == 0) { /* as its first block, whole, would have said; no whole one may follow in this file */
		file->first_sequence = walk->scan.sequence + 1;
		file->first_previous_crc = walk->scan.crc;
		file->last_sequence = walk->scan.sequence;
		file->last_crc = walk->scan.crc;
		file->incarnation = walk->scan.incarnation;
	}
	file->end_offset = *end > file->end_offset ? *end : file->end_offset;
	return status;
}

static wk_status examine(wk_walk *walk, wk_store_file *file, uint64_t offset, uint64_t end, examined *all,
                         wk_error *error) {
	if (file->kind != WK_FILE_JOURNAL || file->state == WK_FILE_SEALED)
		return WK_OK;
	wk_journal_reader_file(&walk->reader, file);
	while (offset < end) {
		const uint8_t *bytes;
		size_t available;
		wk_block_header header;
		wk_status status = wk_journal_reader_at(&walk->reader, offset, &bytes, &available, error);
		if (status != WK_OK)
			return status;
		size_t size = available < end - offset ? available : (size_t)(end - offset);
		if (wk_block_decode(bytes, available, &header) == WK_OK &&
		    wk_candidates_in_place(walk, file, offset, &header)) {
			offset += header.size; /* taken back */
		} else if (is_trace(walk, file, offset, bytes)) {
			status = examine_block(walk, file, offset, bytes, size, &offset, all);
			if (status != WK_OK)
				return wk_fail(error, status == WK_CORRUPT ? WK_DAMAGED : status,
				               "opening %s: what is left of the damaged block at offset %llu of %s "
				               "contradicts what came before it",
				               walk->engine->path, (unsigned long long)offset,
				               wk_file_name_of(file->id, file->kind).text);
		} else {
			offset += WK_BLOCK_ALIGNMENT;
		}
	}
	return WK_OK;
}

/* From the damage up to the block where the chain goes on; NULL: all that there is. */
static wk_status examine_all(wk_walk *walk, uint32_t at, uint64_t offset, const wk_candidate *next, wk_error *error) {
	wk_engine *engine = walk->engine;
	examined all = {0};
	uint32_t last = next != NULL ? next->at : engine->files_count - 1;
	wk_status status = WK_OK;
	for (uint32_t i = at; i <= last && status == WK_OK; i++) {
		wk_store_file *file = engine->files[i];
		status = examine(walk, file, i == at ? offset : 0, next != NULL && i == next->at ? next->offset : file->size,
		                 &all, error);
	}
	uint64_t known = wk_journal_end_known(walk), end = walk->scan.sequence;
	uint64_t lost = all.broken > 0 ? all.broken : 1;
	if (next != NULL && end > 0)
		lost = next->sequence - end - 1;
	else if (next == NULL && known > end && known - end > lost)
		lost = known - end;
	engine->report.damaged_blocks += lost;
	engine->report.unknown_blocks += lost > all.understood ? lost - all.understood : 0;
	return status;
}

/* ---- going on ---- */

static wk_status go_on(wk_walk *walk, const wk_candidate *next, wk_error *error) {
	wk_engine *engine = walk->engine;
	wk_store_file *file = engine->files[next->at];
	walk->scan.anchored = false;
	if (!next->by_footer) {
		engine->report.files_scanned += next->offset == 0;
		return wk_walk_from(walk, file, next->offset, error);
	}
	bool adopted = false;
	wk_status status = wk_store_footer_read(engine, file, error);
	if (status == WK_OK)
		status = wk_walk_adopt(walk, file, &adopted, error);
	return status != WK_OK || adopted ? status
	                                  : wk_fail(error, WK_IO, "%s of %s: its footer could not be read a second time",
	                                            wk_file_name_of(file->id, file->kind).text, engine->path);
}

/* A footer whose trailer reads well may still have a damaged page: then the file's blocks are candidates themselves. */
static wk_status check_candidate(wk_engine *engine, const wk_candidate *next, bool *sound, wk_error *error) {
	wk_store_file *file = engine->files[next->at], look = *file;
	wk_status status = next->by_footer ? wk_store_footer_read(engine, &look, error) : WK_OK;
	if (status == WK_OK && next->by_footer)
		status = wk_store_footer_check(engine, &look, error);
	*sound = status == WK_OK;
	file->unreadable_footer |= !*sound;
	return status == WK_NO_MEMORY ? status : WK_OK;
}

wk_status wk_walk_past_damage(wk_walk *walk, uint32_t *at, uint64_t offset, bool *found, wk_error *error) {
	wk_engine *engine = walk->engine;
	wk_candidate next;
	wk_status status;
	bool sound = true;
	if (engine->loss == NULL)
		engine->loss = wk_loss_new();
	if (engine->loss == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	do {
		if (!sound)
			wk_candidates_forget(walk);
		status = wk_candidates_choose(walk, *at, offset, &next, found, error);
		if (status == WK_OK && *found)
			status = check_candidate(engine, &next, &sound, error);
	} while (status == WK_OK && *found && !sound);
	if (status == WK_OK)
		status = examine_all(walk, *at, offset, *found ? &next : NULL, error);
	walk->lossy = true;
	walk->scan.witness = 0;
	walk->cut_bytes = 0;
	if (status != WK_OK || !*found)
		return status;
	*at = next.at;
	return go_on(walk, &next, error);
}
