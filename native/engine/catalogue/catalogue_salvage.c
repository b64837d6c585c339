/*
 * catalogue_salvage.c: a catalogue of which some entries cannot be read.
 *
 * What is intact is applied in order. A record that only makes sense together with a lost one is made to fit: a log
 * whose creation was lost gets a name, a name that is taken makes the older log give way, a segment that another one
 * follows is completed. What was lost can only have been newer than what is known: a truncation that was lost shows
 * records again, a deletion a log. Nothing that can be read is dropped because its record is missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/catalogue/catalogue.h"
#include "engine/catalogue/catalogue_recovery.h"
#include "engine/index.h"
#include "engine/recovery.h"

enum { NAME_SIZE = 64, IDS_UNKNOWN = 1 << 20 };

/* ---- names ---- */

/* A name that no log has. */
static void free_name(wk_engine *engine, const char *kind, uint64_t id, char name[NAME_SIZE]) {
	int size = snprintf(name, NAME_SIZE, "recovered-%s-%llu", kind, (unsigned long long)id);
	for (int again = 2; wk_catalogue_find(engine, name, (size_t)size) != NULL; again++)
		size = snprintf(name, NAME_SIZE, "recovered-%s-%llu-%d", kind, (unsigned long long)id, again);
}

static wk_status make_log(wk_engine *engine, const char *kind, uint64_t number, uint64_t log_id, int64_t segment) {
	char name[NAME_SIZE];
	wk_log_options options;
	wk_log_options_init(&options);
	free_name(engine, kind, number, name);
	return wk_catalogue_apply(engine, &(wk_catalogue_record){.type = WK_CATALOGUE_CREATE,
	                                                         .log_id = log_id,
	                                                         .segment_bytes = options.segment_bytes,
	                                                         .segment_seconds = options.segment_seconds,
	                                                         .retention_seconds = options.retention_seconds,
	                                                         .codec = options.codec,
	                                                         .segment = segment,
	                                                         .name = name,
	                                                         .name_size = strlen(name)});
}

/* The log that has this name is another one: its deletion, or its own renaming, was lost. */
static wk_status make_way(wk_engine *engine, const wk_catalogue_record *record) {
	wk_log_state *other = wk_catalogue_find(engine, record->name, record->name_size);
	if (other == NULL || other->id == record->log_id)
		return WK_OK;
	char name[NAME_SIZE];
	free_name(engine, "log", other->id, name);
	return wk_catalogue_apply(
	    engine, &(wk_catalogue_record){
	                .type = WK_CATALOGUE_RENAME, .log_id = other->id, .name = name, .name_size = strlen(name)});
}

/* ---- one record ---- */

/* What is before is gone, and nobody knows where the record before stood. */
static wk_status begin_with(wk_engine *engine, const wk_log_state *log, int64_t segment, int64_t sequence_id) {
	return wk_catalogue_apply(engine, &(wk_catalogue_record){.type = WK_CATALOGUE_TRUNCATE,
	                                                         .log_id = log->id,
	                                                         .segment = segment,
	                                                         .sequence_id = sequence_id,
	                                                         .txid = -1});
}

/*
 * The segment `next` begins. The record that completed the last one was lost, or segments between were: records that
 * none of its entries has stood in one entry more, which no file has, so that they become a gap (loss_gaps.c). Where
 * no segment is known the log begins with the next.
 */
static wk_status complete_before(wk_engine *engine, wk_log_state *log, const wk_catalogue_record *next) {
	wk_segment *last = wk_log_last_segment(log);
	if (last == NULL && log->first->dlsn.segment > 0)
		return begin_with(engine, log, next->segment, next->sequence_id);
	if (last == NULL)
		return WK_OK;
	int64_t count = next->sequence_id - last->first_sequence_id;
	if (last->records_count >= 0) {
		if (last->records_count < count) {
			last->records_count = count;
			last->last_entry++;
			last->last_slot = 0;
		}
		return WK_OK;
	}
	const wk_ledger *ledger = wk_ledger_find(engine, last->ledger_id);
	int64_t last_entry = ledger != NULL ? ledger->last_entry : -1, after, txid;
	wk_gap missing;
	wk_ends ends = {0};
	wk_status status = wk_loss_around(engine, last, log->first, last_entry + 1, last_entry, next->sequence_id, &missing,
	                                  &after, &txid, NULL);
	if (status == WK_OK && last_entry >= 0 && missing.count == 0)
		status = wk_loss_read_ends(engine, last->ledger_id, last_entry, &ends, NULL);
	if (status != WK_OK && status != WK_DAMAGED)
		return status;
	return wk_catalogue_apply(
	    engine, &(wk_catalogue_record){.type = WK_CATALOGUE_COMPLETE,
	                                   .log_id = log->id,
	                                   .segment = last->segment,
	                                   .count = count > 0 ? count : 0,
	                                   .entry_id = last_entry + (missing.count > 0),
	                                   .slot = ends.slot,
	                                   .txid = txid,
	                                   .payload_bytes = wk_loss_payload_before(engine, last, missing.entry_id)});
}

static wk_status apply_create(wk_engine *engine, const wk_catalogue_record *record) {
	wk_log_state *log = wk_catalogue_by_id(engine, record->log_id);
	wk_status status = log == NULL || !log->deleted ? make_way(engine, record) : WK_OK;
	if (status != WK_OK || (log != NULL && log->deleted))
		return status;
	if (log == NULL)
		return wk_catalogue_apply(engine, record);
	/* A snapshot says it once more: perhaps by a newer name. */
	if (log->name_size == record->name_size && memcmp(log->name, record->name, record->name_size) == 0)
		return WK_OK;
	wk_catalogue_record renamed = *record;
	renamed.type = WK_CATALOGUE_RENAME;
	return wk_catalogue_apply(engine, &renamed);
}

/* WK_CORRUPT: it fits nothing that is known, and is passed over. */
static wk_status apply_to_log(wk_engine *engine, const wk_catalogue_record *record) {
	wk_log_state *log = wk_catalogue_by_id(engine, record->log_id);
	if (log == NULL && record->type == WK_CATALOGUE_DELETE)
		return WK_CORRUPT;
	if (log == NULL) {
		wk_status status = make_log(engine, "log", record->log_id, record->log_id,
		                            record->type == WK_CATALOGUE_SEGMENT ? record->segment : 1);
		if (status != WK_OK)
			return status;
		log = wk_catalogue_by_id(engine, record->log_id);
	}
	wk_status status = WK_OK;
	if (!log->deleted && record->type == WK_CATALOGUE_RENAME)
		status = make_way(engine, record);
	if (record->type == WK_CATALOGUE_RENAME && log->name_size == record->name_size && log->name != NULL &&
	    memcmp(log->name, record->name, record->name_size) == 0)
		return status;
	if (!log->deleted && record->type == WK_CATALOGUE_SEGMENT && record->segment >= log->next_segment)
		status = complete_before(engine, log, record);
	return status == WK_OK ? wk_catalogue_apply(engine, record) : status;
}

static wk_status apply_records(wk_engine *engine, const uint8_t *payload, size_t size) {
	wk_catalogue_record record;
	size_t consumed;
	for (size_t at = 0; at < size; at += consumed) {
		if (wk_catalogue_decode(payload + at, size - at, &record, &consumed) != WK_OK)
			return WK_OK; /* the entry is as it was written: of another version, then */
		wk_status status = record.type == WK_CATALOGUE_COUNTERS ? wk_catalogue_apply(engine, &record)
		                   : record.type == WK_CATALOGUE_CREATE ? apply_create(engine, &record)
		                                                        : apply_to_log(engine, &record);
		if (status != WK_OK && status != WK_CORRUPT)
			return status;
	}
	return WK_OK;
}

/* ---- all that can be read ---- */

/* More than the number of a segment, which may be the next one's: something was there. */
static bool is_inside(const wk_dlsn *at) {
	return at->entry_id > 0 || at->slot > 0;
}

/* A segment whose record was lost is still spoken of by positions in it: no other one gets its number. */
static void pass_numbers(wk_log_state *log) {
	int64_t highest = is_inside(&log->first->dlsn) ? log->first->dlsn.segment : 0;
	for (uint32_t i = 0; i < log->cursors_count; i++)
		if (log->cursors[i].at.dlsn.segment > highest && is_inside(&log->cursors[i].at.dlsn))
			highest = log->cursors[i].at.dlsn.segment;
	for (uint32_t i = 0; log->gaps != NULL && i < log->gaps->count; i++)
		if (log->gaps->list[i].segment > highest)
			highest = log->gaps->list[i].segment;
	if (log->next_segment <= highest)
		log->next_segment = highest + 1;
}

void wk_catalogue_pass_numbers(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->by_id_capacity; i++)
		if (engine->logs_by_id[i] != NULL)
			pass_numbers(engine->logs_by_id[i]);
}

/*
 * The segment that it was truncated in is lost, and no later one is known: the log ends before it begins. It goes on
 * with a new segment behind, and as a record may have stood where it was truncated, with a new sequence id.
 */
static wk_status pass_lost_end(wk_engine *engine, wk_log_state *log) {
	const wk_position first = *log->first;
	wk_segment *last = wk_log_last_segment(log);
	bool open = last != NULL && last->records_count < 0;
	if (!is_inside(&first.dlsn) && !open)
		return WK_OK; /* all of it was truncated, in order */
	wk_catalogue_record next = {.segment = first.dlsn.segment + 1, .sequence_id = first.sequence_id + 1};
	wk_status status = last != NULL ? complete_before(engine, log, &next) : WK_OK;
	if (log->next_segment < next.segment)
		log->next_segment = next.segment;
	return status == WK_OK ? begin_with(engine, log, next.segment, next.sequence_id) : status;
}

/*
 * The segment that it was truncated in is lost, and was known to be only behind the one that comes next: the log begins
 * there, as in complete_before().
 */
static wk_status pass_lost_beginning(wk_engine *engine, wk_log_state *log) {
	const wk_position *first = log->first;
	if (log->deleted || first->dlsn.segment == 0)
		return WK_OK;
	const wk_segment *next = wk_log_segment_at(log, first->dlsn.segment);
	if (next == NULL)
		return pass_lost_end(engine, log);
	if (next->segment == first->dlsn.segment || next->first_sequence_id <= first->sequence_id)
		return WK_OK;
	return begin_with(engine, log, next->segment, next->first_sequence_id);
}

wk_status wk_catalogue_salvage(wk_engine *engine, int64_t first, int64_t last, wk_error *error) {
	wk_span *span = malloc(sizeof *span);
	wk_error found = {0};
	wk_status status = span != NULL ? WK_OK : WK_NO_MEMORY;
	for (int64_t entry_id = first; entry_id <= last && status == WK_OK;) {
		span->buffer = NULL;
		status = wk_read_entries(engine, WK_CATALOGUE_LEDGER, entry_id, last, 1 << 20, span, &found);
		if (status == WK_NOT_FOUND || wk_is_unreadable(status, &found)) {
			engine->report.catalogue_lost++;
			entry_id++;
			status = WK_OK;
			continue;
		}
		for (uint32_t i = 0; i < span->count && status == WK_OK; i++) {
			status = apply_records(engine, span->buffer->bytes + span->entries[i].offset + WK_ENTRY_HEADER_SIZE,
			                       span->entries[i].size - WK_ENTRY_HEADER_SIZE);
			entry_id = span->entries[i].entry_id + 1;
		}
		wk_buffer_release(span->buffer);
	}
	free(span);
	for (uint32_t i = 0; i < engine->by_id_capacity && status == WK_OK; i++)
		if (engine->logs_by_id[i] != NULL)
			status = pass_lost_beginning(engine, engine->logs_by_id[i]);
	/* Lost records may have given away ids: none of them is given twice. */
	engine->next_log_id += IDS_UNKNOWN;
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++)
		if (engine->ledgers[i] != NULL && (uint64_t)engine->ledgers[i]->id >= engine->next_ledger_id)
			engine->next_ledger_id = (uint64_t)engine->ledgers[i]->id + 1;
	engine->next_ledger_id += IDS_UNKNOWN;
	if (status == WK_IO && error != NULL)
		*error = found;
	return status == WK_OK || status == WK_IO ? status : wk_fail(error, status, "opening %s: no memory", engine->path);
}

/* ---- ledgers that no log names ---- */

static bool is_orphan(const wk_engine *engine, const wk_ledger *ledger) {
	return ledger != NULL && ledger->id != WK_CATALOGUE_LEDGER && !ledger->named &&
	       (uint64_t)ledger->id >= engine->catalogue_ledgers_from && ledger->ranges_count > 0;
}

/*
 * Nothing before entry `first` of the segment is in any file: it was truncated, and the record of that was lost. The log
 * begins with what is there.
 */
static wk_status begin_at(wk_engine *engine, const wk_log_state *log, const wk_segment *segment, int64_t first) {
	wk_ends ends;
	if (wk_loss_read_ends(engine, segment->ledger_id, first, &ends, NULL) != WK_OK || ends.first < 1)
		return WK_OK;
	return wk_catalogue_apply(engine, &(wk_catalogue_record){.type = WK_CATALOGUE_TRUNCATE,
	                                                         .log_id = log->id,
	                                                         .segment = segment->segment,
	                                                         .entry_id = first,
	                                                         .slot = 0,
	                                                         .sequence_id = segment->first_sequence_id + ends.first - 1,
	                                                         .txid = -1});
}

/*
 * Where entries are missing that no damaged block held, files were recycled, so a truncation was lost. Under skip the
 * log begins with the first entry that is there: more may be shown than there was, and the holes between are gaps. Under
 * point_in_time, which would cut it at the first hole, it begins behind the last one.
 */
static wk_status find_beginning(wk_engine *engine, const wk_log_state *log) {
	bool behind_last = engine->options.on_damage == WK_ON_DAMAGE_POINT_IN_TIME, hole = false;
	const wk_segment *beginning = NULL;
	wk_dlsn at = {0, 0, 0};
	for (uint32_t i = 0; i < log->segments_count; i++) {
		const wk_segment *segment = &log->segments[i];
		const wk_ledger *ledger = wk_ledger_find(engine, segment->ledger_id);
		int64_t next = log->first->dlsn.segment == segment->segment ? log->first->dlsn.entry_id : 0;
		int64_t last = ledger != NULL ? ledger->last_entry : -1;
		while (next <= last) {
			wk_stretch found;
			wk_status status = wk_lookup(engine, segment->ledger_id, next, last, WK_LOOKUP_ALL, NULL, 0, &found, NULL);
			if (status == WK_NO_MEMORY)
				return status;
			if (status != WK_OK)
				break;
			bool here = found.file != NULL, first = beginning == NULL;
			wk_stretch_release(engine, &found);
			if (here && (first || (hole && behind_last && wk_loss_last(engine->loss, segment->ledger_id) < 0))) {
				beginning = segment;
				at = (wk_dlsn){segment->segment, next, 0};
			}
			hole = !here;
			next = found.last_entry < last ? found.last_entry + 1 : last + 1;
		}
		hole |= segment->records_count >= 0 && next <= segment->last_entry;
	}
	bool later = beginning != NULL && (beginning != &log->segments[0] || at.entry_id > 0) &&
	             wk_dlsn_compare(&at, &log->first->dlsn) > 0;
	return later ? begin_at(engine, log, beginning, at.entry_id) : WK_OK;
}

static wk_status adopt(wk_engine *engine, wk_ledger *ledger) {
	uint64_t log_id = engine->next_log_id;
	wk_status status = make_log(engine, "ledger", (uint64_t)ledger->id, log_id, 1);
	if (status == WK_OK)
		status = wk_catalogue_apply(
		    engine, &(wk_catalogue_record){.type = WK_CATALOGUE_SEGMENT,
		                                   .log_id = log_id,
		                                   .segment = 1,
		                                   .ledger_id = ledger->id,
		                                   .txid = -1,
		                                   .created_ms = engine->io->operations->wall(engine->io) / 1000000});
	engine->report.adopted_ledgers++;
	engine->catalogue_rewrite = true;
	return status;
}

static int by_id(const void *a, const void *b) {
	const wk_ledger *x = *(wk_ledger *const *)a, *y = *(wk_ledger *const *)b;
	return (x->id > y->id) - (x->id < y->id);
}

wk_status wk_catalogue_adopt(wk_engine *engine, wk_error *error) {
	uint32_t count = 0;
	wk_ledger **orphans = malloc((engine->ledgers_count + (size_t)1) * sizeof(wk_ledger *));
	wk_status status = orphans != NULL ? WK_OK : WK_NO_MEMORY;
	for (uint32_t i = 0; status == WK_OK && i < engine->ledgers_capacity; i++)
		if (is_orphan(engine, engine->ledgers[i]))
			orphans[count++] = engine->ledgers[i];
	if (count > 1)
		qsort(orphans, count, sizeof *orphans, by_id);
	for (uint32_t i = 0; i < count && status == WK_OK; i++)
		status = adopt(engine, orphans[i]);
	free(orphans);
	for (uint32_t i = 0; i < engine->by_id_capacity && status == WK_OK && engine->report.catalogue_lost > 0; i++)
		if (engine->logs_by_id[i] != NULL && !engine->logs_by_id[i]->deleted)
			status = find_beginning(engine, engine->logs_by_id[i]);
	return status == WK_OK ? WK_OK : wk_fail(error, status, "opening %s: no memory", engine->path);
}
