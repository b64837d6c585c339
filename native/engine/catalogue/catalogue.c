#include "engine/catalogue/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "engine/catalogue/gap.h"
#include "engine/catalogue/log_table.h"
#include "engine/index.h"
#include "engine/journal.h"

/* Most logs are never truncated: they share this one. */
static const wk_position NEVER_TRUNCATED;

/* ---- looking up ---- */

wk_segment *wk_log_segment_at(wk_log_state *log, int64_t segment) {
	uint32_t low = 0, high = log->segments_count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (log->segments[middle].segment < segment)
			low = middle + 1;
		else
			high = middle;
	}
	return low < log->segments_count ? &log->segments[low] : NULL;
}

wk_segment *wk_log_last_segment(wk_log_state *log) {
	return log->segments_count > 0 ? &log->segments[log->segments_count - 1] : NULL;
}

wk_segment *wk_log_open_segment(wk_log_state *log) {
	wk_segment *last = wk_log_last_segment(log);
	return last != NULL && last->records_count < 0 ? last : NULL;
}

wk_cursor_state *wk_log_cursor(wk_log_state *log, const char *name, size_t name_size) {
	for (uint32_t i = 0; i < log->cursors_count; i++)
		if (log->cursors[i].name_size == name_size && memcmp(log->cursors[i].name, name, name_size) == 0)
			return &log->cursors[i];
	return NULL;
}

/* ---- applying ---- */

static wk_position position_of(const wk_catalogue_record *record) {
	return (wk_position){{record->segment, record->entry_id, record->slot}, record->sequence_id, record->txid};
}

/* Most logs have the same options: they share them. The list is short, and its members live as long as the engine. */
static const wk_log_options *intern_options(wk_engine *engine, const wk_log_options *options) {
	for (uint32_t i = 0; i < engine->log_options_count; i++) {
		const wk_log_options *known = engine->log_options[i];
		if (known->segment_bytes == options->segment_bytes && known->segment_seconds == options->segment_seconds &&
		    known->retention_seconds == options->retention_seconds && known->codec == options->codec)
			return known;
	}
	wk_log_options **list = realloc(engine->log_options, (engine->log_options_count + 1) * sizeof *list);
	if (list == NULL)
		return NULL;
	engine->log_options = list;
	list[engine->log_options_count] = malloc(sizeof **list);
	if (list[engine->log_options_count] == NULL)
		return NULL;
	*list[engine->log_options_count] = *options;
	return list[engine->log_options_count++];
}

static wk_status apply_create(wk_engine *engine, const wk_catalogue_record *record) {
	if (wk_catalogue_by_id(engine, record->log_id) != NULL ||
	    wk_catalogue_find(engine, record->name, record->name_size) != NULL)
		return WK_CORRUPT;
	wk_log_state *log = calloc(1, sizeof *log);
	if (log == NULL)
		return WK_NO_MEMORY;
	log->id = record->log_id;
	log->next_segment = record->segment;
	log->first = &NEVER_TRUNCATED;
	log->options = intern_options(engine, &(wk_log_options){record->segment_bytes, record->segment_seconds,
	                                                        record->retention_seconds, (uint32_t)record->codec});
	log->txid_source = (uint8_t)record->txid_source;
	log->end_of_stream = (record->flags & WK_CATALOGUE_FLAG_END_OF_STREAM) != 0;
	log->name = malloc(record->name_size + 1);
	if (log->name == NULL || log->options == NULL || !wk_log_table_reserve(engine)) {
		free(log->name);
		free(log);
		return WK_NO_MEMORY;
	}
	memcpy(log->name, record->name, record->name_size);
	log->name[record->name_size] = 0;
	log->name_size = (uint32_t)record->name_size;
	wk_log_table_insert(engine, log);
	if (record->log_id >= engine->next_log_id)
		engine->next_log_id = record->log_id + 1;
	return WK_OK;
}

bool wk_log_reserve_segment(wk_log_state *log) {
	if (log->segments_count < log->segments_capacity)
		return true;
	uint32_t capacity = log->segments_capacity == 0 ? 1 : log->segments_capacity * 2;
	wk_segment *segments = realloc(log->segments, capacity * sizeof *segments);
	if (segments == NULL)
		return false;
	log->segments = segments;
	log->segments_capacity = capacity;
	return true;
}

static wk_status apply_segment(wk_engine *engine, wk_log_state *log, const wk_catalogue_record *record) {
	const wk_segment *last = wk_log_last_segment(log);
	if (record->segment < log->next_segment || (last != NULL && last->records_count < 0))
		return WK_CORRUPT;
	if (!wk_log_reserve_segment(log))
		return WK_NO_MEMORY;
	log->segments[log->segments_count++] = (wk_segment){
	    .segment = record->segment,
	    .ledger_id = record->ledger_id,
	    .first_sequence_id = record->sequence_id,
	    .first_txid = record->txid,
	    .last_txid = -1,
	    .records_count = -1,
	    .last_entry = -1,
	    .last_slot = -1,
	    .created_ms = record->created_ms,
	};
	log->next_segment = record->segment + 1;
	wk_ledger *ledger = wk_ledger_find(engine, record->ledger_id);
	if (ledger != NULL)
		ledger->named = true;
	if ((uint64_t)record->ledger_id >= engine->next_ledger_id)
		engine->next_ledger_id = (uint64_t)record->ledger_id + 1;
	return WK_OK;
}

static wk_status apply_complete(wk_log_state *log, const wk_catalogue_record *record) {
	wk_segment *segment = wk_log_segment_at(log, record->segment);
	if (segment == NULL || segment->segment != record->segment || segment->records_count >= 0)
		return WK_CORRUPT;
	segment->records_count = record->count;
	segment->last_entry = record->entry_id;
	segment->last_slot = record->slot;
	segment->last_txid = record->txid;
	segment->payload_bytes = record->payload_bytes;
	return WK_OK;
}

/* Where a log begins; and where it did, until the change is durable. */
typedef struct truncation {
	wk_position first; /* log->first points here */
	wk_position durable;
	uint64_t ticket;
} truncation;

static truncation *truncation_of(const wk_log_state *log) {
	return log->first != &NEVER_TRUNCATED ? (truncation *)(uintptr_t)log->first : NULL;
}

/* Segments that lie wholly before the truncation point go; their ledgers are forgotten by wk_catalogue_reclaim. */
static wk_status apply_truncate(const wk_engine *engine, wk_log_state *log, const wk_catalogue_record *record) {
	wk_position at = position_of(record);
	truncation *known = truncation_of(log);
	if (known == NULL) {
		known = calloc(1, sizeof *known);
		if (known == NULL)
			return WK_NO_MEMORY;
		log->first = &known->first;
	} else if (wk_dlsn_compare(&at.dlsn, &known->first.dlsn) <= 0) {
		return WK_OK;
	}
	if (known->ticket <= engine->durable)
		known->durable = known->first;
	known->first = at;
	return WK_OK;
}

void wk_log_truncated(wk_log_state *log, uint64_t ticket) {
	truncation_of(log)->ticket = ticket;
}

void wk_log_truncation_durable(wk_log_state *log, const wk_catalogue_record *record) {
	truncation *known = truncation_of(log);
	wk_position at = position_of(record);
	if (wk_dlsn_compare(&known->durable.dlsn, &at.dlsn) < 0)
		known->durable = at;
	if (wk_dlsn_compare(&known->first.dlsn, &at.dlsn) < 0) /* one behind it failed, and took it back, too */
		known->first = at;
}

void wk_log_take_back_truncation(const wk_engine *engine, wk_log_state *log) {
	truncation *known = truncation_of(log);
	if (known == NULL || known->ticket <= engine->durable)
		return;
	known->first = known->durable;
	known->ticket = 0;
}

static wk_status apply_cursor(wk_log_state *log, const wk_catalogue_record *record) {
	wk_cursor_state *cursor = wk_log_cursor(log, record->name, record->name_size);
	if (cursor == NULL) {
		wk_cursor_state *cursors = realloc(log->cursors, (log->cursors_count + 1) * sizeof *cursors);
		if (cursors == NULL)
			return WK_NO_MEMORY;
		log->cursors = cursors;
		cursor = &cursors[log->cursors_count];
		cursor->name = malloc(record->name_size + 1);
		if (cursor->name == NULL)
			return WK_NO_MEMORY;
		memcpy(cursor->name, record->name, record->name_size);
		cursor->name[record->name_size] = 0;
		cursor->name_size = record->name_size;
		log->cursors_count++;
	}
	cursor->at = position_of(record);
	return WK_OK;
}

static wk_status apply_uncursor(wk_log_state *log, const wk_catalogue_record *record) {
	wk_cursor_state *cursor = wk_log_cursor(log, record->name, record->name_size);
	if (cursor == NULL)
		return WK_CORRUPT;
	free(cursor->name);
	*cursor = log->cursors[--log->cursors_count];
	return WK_OK;
}

static wk_status apply_rename(wk_engine *engine, wk_log_state *log, const wk_catalogue_record *record) {
	if (wk_catalogue_find(engine, record->name, record->name_size) != NULL)
		return WK_CORRUPT;
	char *name = malloc(record->name_size + 1);
	if (name == NULL || !wk_log_table_reserve(engine)) {
		free(name);
		return WK_NO_MEMORY;
	}
	wk_log_table_remove_name(engine, log);
	memcpy(name, record->name, record->name_size);
	name[record->name_size] = 0;
	free(log->name);
	log->name = name;
	log->name_size = (uint32_t)record->name_size;
	wk_log_table_insert_name(engine, log);
	engine->next_log_id++; /* the old name counts as a log that was deleted: see first_segment() */
	return WK_OK;
}

wk_status wk_catalogue_apply(wk_engine *engine, const wk_catalogue_record *record) {
	if (record->type == WK_CATALOGUE_COUNTERS) {
		engine->next_log_id = record->next_log_id > engine->next_log_id ? record->next_log_id : engine->next_log_id;
		engine->next_ledger_id = record->next_ledger_id > engine->next_ledger_id ? record->next_ledger_id
		                                                                         : engine->next_ledger_id;
		return WK_OK;
	}
	if (record->type == WK_CATALOGUE_CREATE)
		return apply_create(engine, record);
	wk_log_state *log = wk_catalogue_by_id(engine, record->log_id);
	if (log == NULL || log->deleted)
		return WK_CORRUPT;
	switch (record->type) {
	case WK_CATALOGUE_SEGMENT:
		return apply_segment(engine, log, record);
	case WK_CATALOGUE_COMPLETE:
		return apply_complete(log, record);
	case WK_CATALOGUE_TRUNCATE:
		return apply_truncate(engine, log, record);
	case WK_CATALOGUE_CURSOR:
		return apply_cursor(log, record);
	case WK_CATALOGUE_UNCURSOR:
		return apply_uncursor(log, record);
	case WK_CATALOGUE_RENAME:
		return apply_rename(engine, log, record);
	case WK_CATALOGUE_GAP:
		return wk_gap_add(log, &(wk_gap){record->segment, record->entry_id, record->last_entry_id, record->sequence_id,
		                                 record->count});
	case WK_CATALOGUE_DELETE:
		wk_log_table_remove_name(engine, log);
		log->deleted = true;
		return WK_OK;
	case WK_CATALOGUE_SOURCE:
		log->txid_source = (uint8_t)record->txid_source;
		log->end_of_stream = (record->flags & WK_CATALOGUE_FLAG_END_OF_STREAM) != 0;
		return WK_OK;
	default:
		return WK_UNSUPPORTED;
	}
}

bool wk_catalogue_is_snapshot(const uint8_t *payload, size_t size) {
	wk_catalogue_record record;
	size_t consumed;
	return wk_catalogue_decode(payload, size, &record, &consumed) == WK_OK && record.type == WK_CATALOGUE_COUNTERS;
}

wk_status wk_catalogue_replay(wk_engine *engine, const uint8_t *payload, size_t size) {
	wk_catalogue_record record;
	size_t consumed;
	for (size_t at = 0; at < size; at += consumed) {
		wk_status status = wk_catalogue_decode(payload + at, size - at, &record, &consumed);
		if (status != WK_OK)
			return status == WK_END ? WK_CORRUPT : status;
		status = wk_catalogue_apply(engine, &record);
		if (status != WK_OK)
			return status;
	}
	return WK_OK;
}

/* ---- changing ---- */

/* The catalogue's builder in the open block, where it takes `size` more bytes. */
static wk_builder *open_builder(wk_engine *engine, size_t size) {
	wk_block *open = &engine->open;
	wk_builder *last = open->catalogue_builder > 0 ? &open->builders[open->catalogue_builder - 1] : NULL;
	return last != NULL && !last->closed && last->size + size <= WK_ENVELOPE_SIZE_MAX ? last : NULL;
}

/* That, or a fresh one: its entry ids count up like any ledger's. There is memory for them. */
static wk_builder *catalogue_builder(wk_engine *engine, size_t size) {
	wk_builder *builder = open_builder(engine, size);
	if (builder != NULL)
		return wk_journal_reserve_more(engine, builder, size) ? builder : NULL;
	wk_ledger *ledger = wk_ledger_get(engine, WK_CATALOGUE_LEDGER);
	builder = ledger != NULL ? wk_journal_builder(engine, ledger, NULL, WK_CODEC_NONE, size) : NULL;
	if (builder != NULL) {
		builder->entry_id = engine->next_catalogue_entry++;
		engine->open.catalogue_builder = engine->open.builders_count;
	}
	return builder;
}

bool wk_catalogue_reserve(wk_engine *engine, size_t size, uint32_t ahead, uint32_t *builders) {
	wk_builder *builder = open_builder(engine, size);
	*builders = builder == NULL;
	if (builder != NULL)
		return wk_journal_reserve_more(engine, builder, size);
	if (engine->open.catalogue_builder > 0)
		engine->open.builders[engine->open.catalogue_builder - 1].closed = true; /* none of them goes there */
	return wk_ledger_get(engine, WK_CATALOGUE_LEDGER) != NULL && wk_journal_reserve_builder(engine, ahead, size);
}

wk_status wk_catalogue_append(wk_engine *engine, const uint8_t *bytes, size_t size, uint64_t *ticket) {
	wk_builder *builder = catalogue_builder(engine, size);
	if (builder == NULL)
		return WK_NO_MEMORY;
	memcpy(wk_journal_extend(engine, builder, size, size), bytes, size);
	builder->records++;
	engine->catalogue_delta += size;
	*ticket = engine->open.sequence;
	return WK_OK;
}

wk_status wk_catalogue_change(wk_engine *engine, const wk_catalogue_record *record, uint64_t *ticket) {
	uint8_t bytes[WK_CATALOGUE_RECORD_MAX];
	size_t size = wk_catalogue_encode(record, bytes);
	uint32_t builders;
	/* First the memory: what is applied and not written is there until the next start, and contradicts what follows. */
	wk_status status = wk_catalogue_reserve(engine, size, 0, &builders) ? wk_catalogue_apply(engine, record)
	                                                                    : WK_NO_MEMORY;
	return status == WK_OK ? wk_catalogue_append(engine, bytes, size, ticket) : status;
}

/* ---- snapshot ---- */

typedef struct growing {
	uint8_t *bytes;
	size_t size, capacity;
	bool failed;
} growing;

static void put(growing *out, const wk_catalogue_record *record) {
	if (out->size + WK_CATALOGUE_RECORD_MAX > out->capacity) {
		size_t capacity = out->capacity * 2 + 4096;
		uint8_t *bytes = realloc(out->bytes, capacity);
		out->failed |= bytes == NULL;
		if (bytes == NULL)
			return;
		out->bytes = bytes;
		out->capacity = capacity;
	}
	out->size += wk_catalogue_encode(record, out->bytes + out->size);
}

static void put_log(growing *out, const wk_log_state *log) {
	const wk_segment *first = log->segments_count > 0 ? &log->segments[0] : NULL;
	put(out, &(wk_catalogue_record){.type = WK_CATALOGUE_CREATE,
	                                .log_id = log->id,
	                                .segment_bytes = log->options->segment_bytes,
	                                .segment_seconds = log->options->segment_seconds,
	                                .retention_seconds = log->options->retention_seconds,
	                                .codec = log->options->codec,
	                                .txid_source = log->txid_source,
	                                .flags = log->end_of_stream ? WK_CATALOGUE_FLAG_END_OF_STREAM : 0,
	                                .segment = first != NULL ? first->segment : log->next_segment,
	                                .name = log->name,
	                                .name_size = log->name_size});
	for (uint32_t i = 0; i < log->segments_count; i++) {
		const wk_segment *segment = &log->segments[i];
		put(out, &(wk_catalogue_record){.type = WK_CATALOGUE_SEGMENT,
		                                .log_id = log->id,
		                                .segment = segment->segment,
		                                .ledger_id = segment->ledger_id,
		                                .sequence_id = segment->first_sequence_id,
		                                .txid = segment->first_txid,
		                                .created_ms = segment->created_ms});
		if (segment->records_count >= 0)
			put(out, &(wk_catalogue_record){.type = WK_CATALOGUE_COMPLETE,
			                                .log_id = log->id,
			                                .segment = segment->segment,
			                                .count = segment->records_count,
			                                .entry_id = segment->last_entry,
			                                .slot = segment->last_slot,
			                                .txid = segment->last_txid,
			                                .payload_bytes = segment->payload_bytes});
	}
	if (log->first->dlsn.segment != 0)
		put(out, &(wk_catalogue_record){.type = WK_CATALOGUE_TRUNCATE,
		                                .log_id = log->id,
		                                .segment = log->first->dlsn.segment,
		                                .entry_id = log->first->dlsn.entry_id,
		                                .slot = log->first->dlsn.slot,
		                                .sequence_id = log->first->sequence_id,
		                                .txid = log->first->txid});
	for (uint32_t i = 0; log->gaps != NULL && i < log->gaps->count; i++) {
		const wk_gap *gap = &log->gaps->list[i];
		if (gap->first_sequence_id + gap->count > log->first->sequence_id) /* else it was truncated */
			put(out, &(wk_catalogue_record){.type = WK_CATALOGUE_GAP,
			                                .log_id = log->id,
			                                .sequence_id = gap->first_sequence_id,
			                                .count = gap->count,
			                                .segment = gap->segment,
			                                .entry_id = gap->entry_id,
			                                .last_entry_id = gap->last_entry_id});
	}
	for (uint32_t i = 0; i < log->cursors_count; i++) {
		const wk_cursor_state *cursor = &log->cursors[i];
		put(out, &(wk_catalogue_record){.type = WK_CATALOGUE_CURSOR,
		                                .log_id = log->id,
		                                .segment = cursor->at.dlsn.segment,
		                                .entry_id = cursor->at.dlsn.entry_id,
		                                .slot = cursor->at.dlsn.slot,
		                                .sequence_id = cursor->at.sequence_id,
		                                .txid = cursor->at.txid,
		                                .name = cursor->name,
		                                .name_size = cursor->name_size});
	}
}

wk_status wk_catalogue_snapshot(wk_engine *engine, uint8_t **bytes, size_t *size) {
	growing out = {0};
	put(&out, &(wk_catalogue_record){.type = WK_CATALOGUE_COUNTERS,
	                                 .next_log_id = engine->next_log_id,
	                                 .next_ledger_id = engine->next_ledger_id});
	for (uint32_t i = 0; i < engine->by_id_capacity; i++)
		if (engine->logs_by_id[i] != NULL && !engine->logs_by_id[i]->deleted)
			put_log(&out, engine->logs_by_id[i]);
	if (out.failed) {
		free(out.bytes);
		return WK_NO_MEMORY;
	}
	*bytes = out.bytes;
	*size = out.size;
	return WK_OK;
}

/* ---- space ---- */

void wk_catalogue_reclaim(wk_engine *engine, wk_log_state *log) {
	wk_catalogue_reclaim_before(engine, log, &log->first->dlsn);
}

void wk_catalogue_reclaim_before(wk_engine *engine, wk_log_state *log, const wk_dlsn *first) {
	uint32_t gone = 0;
	for (uint32_t i = 0; i < log->segments_count; i++) {
		wk_segment *segment = &log->segments[i];
		wk_ledger *ledger = wk_ledger_find(engine, segment->ledger_id);
		bool open = segment->records_count < 0;
		bool below = first->segment > segment->segment;
		if (log->deleted || (below && !open)) {
			if (ledger != NULL)
				wk_ledger_drop(engine, ledger);
			gone = i + 1;
		} else if (first->segment == segment->segment && ledger != NULL) {
			wk_ledger_trim(engine, ledger, first->entry_id);
			break;
		} else {
			break;
		}
	}
	if (gone == 0)
		return;
	memmove(log->segments, log->segments + gone, (log->segments_count - gone) * sizeof *log->segments);
	log->segments_count -= gone;
}

static void free_log(wk_log_state *log) {
	for (uint32_t i = 0; i < log->cursors_count; i++)
		free(log->cursors[i].name);
	free(log->cursors);
	free(log->segments);
	free(log->gaps);
	free(log->name);
	free(log->tail);
	free(truncation_of(log));
	free(log);
}

static void let_go(wk_engine *engine, wk_log_state *log) {
	if (log->deleted) {
		wk_log_table_remove_id(engine, log);
		free_log(log);
		return;
	}
	free(log->tail);
	log->tail = NULL;
}

void wk_log_state_release(wk_engine *engine, wk_log_state *log) {
	assert(log->handles > 0);
	if (--log->handles > 0)
		return;
	/* Blocks in flight still point here: then it goes with the last of them. */
	if (log->tail != NULL && log->tail->last_ticket > engine->durable)
		return;
	let_go(engine, log);
}

void wk_log_state_on_durable(wk_engine *engine, wk_log_state *log, uint64_t sequence, uint32_t builder) {
	const wk_log_tail *tail = log->tail;
	if (tail != NULL && tail->builder_block == sequence && tail->builder == builder && tail->last_ticket <= sequence)
		let_go(engine, log);
}

void wk_catalogue_bury(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->by_id_capacity;) {
		wk_log_state *log = engine->logs_by_id[i];
		if (log != NULL && log->deleted && log->handles == 0 &&
		    (log->tail == NULL || log->tail->last_ticket <= engine->durable)) {
			wk_log_table_remove_id(engine, log); /* another may have moved into this slot: look again */
			free_log(log);
		} else {
			i++;
		}
	}
}

void wk_catalogue_free(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->by_id_capacity; i++)
		if (engine->logs_by_id[i] != NULL)
			free_log(engine->logs_by_id[i]);
	wk_log_table_free(engine);
	for (uint32_t i = 0; i < engine->log_options_count; i++)
		free(engine->log_options[i]);
	free(engine->log_options);
}

static uint64_t memory_of(const wk_log_state *log) {
	uint64_t bytes = sizeof *log + log->name_size + 1 + log->segments_capacity * sizeof *log->segments;
	bytes += log->tail != NULL ? sizeof *log->tail : 0;
	for (uint32_t i = 0; i < log->cursors_count; i++)
		bytes += sizeof *log->cursors + log->cursors[i].name_size + 1;
	return bytes;
}

uint64_t wk_catalogue_memory(wk_engine *engine) {
	uint64_t bytes = (uint64_t)engine->logs_capacity * sizeof *engine->logs +
	                 (uint64_t)engine->by_id_capacity * sizeof *engine->logs_by_id;
	for (uint32_t i = 0; i < engine->by_id_capacity; i++) {
		const wk_log_state *log = engine->logs_by_id[i];
		bytes += log != NULL ? memory_of(log) : 0;
		if (i % WK_LOOKS_AT_ONCE == WK_LOOKS_AT_ONCE - 1)
			wk_engine_yield_lock(engine);
	}
	return bytes;
}
