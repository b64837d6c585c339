#include "engine/recovery/tail_decision.h"

#include <stdio.h>

#include "engine/recovery/journal_damage.h"
#include "engine/recovery/journal_end.h"
#include "engine/recovery/tail_scan.h"

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
