#include "engine/ledger/ledger_block.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/crc32c.h"
#include "engine/directory.h"
#include "engine/index.h"
#include "engine/journal.h"
#include "engine/ledger/ledger_delete.h"
#include "engine/ledger/ledger_state.h"

enum { IDS_SIZE = 16, PREFETCH = 4 };
static_assert(WK_SUMMED_OVERHEAD == sizeof(uint64_t), "the head of an entry's record is summed as one number");
/*
 * What an entry, of a run of its own, and a state take in a footer. They count as bytes of the block: so a block that
 * is within its limit can rely on a file for both (reserve.c).
 */
enum {
	ENTRY_IN_FOOTER = WK_PAGE_SIZE / WK_PAGE_ITEMS + 1 + WK_PAGE_SIZE / WK_PAGE_RUNS + 1,
	STATE_IN_FOOTER = WK_PAGE_SIZE / WK_PAGE_STATES + 1,
};

wk_status wk_summed_entry_decode(const uint8_t *bytes, size_t size, int64_t *ledger_id, int64_t *entry_id) {
	if (size < WK_SUM_SIZE + IDS_SIZE || wk_load_le32(bytes) != wk_crc32c(bytes + WK_SUM_SIZE, size - WK_SUM_SIZE))
		return WK_CORRUPT;
	*ledger_id = (int64_t)wk_load_be64(bytes + WK_SUM_SIZE);
	*entry_id = (int64_t)wk_load_be64(bytes + WK_SUM_SIZE + 8);
	return *ledger_id < 0 || *entry_id < 0 ? WK_CORRUPT : WK_OK;
}

/* ---- into the open block ---- */

/* Place for `more` members, 16 at most; NULL: no memory. */
static void *grown(void *array, uint32_t count, uint32_t more, uint32_t *capacity, size_t size) {
	if (count + more <= *capacity)
		return array;
	uint32_t larger = *capacity == 0 ? 16 : *capacity * 2;
	void *fresh = realloc(array, larger * size);
	if (fresh != NULL)
		*capacity = larger;
	return fresh;
}

static bool reserve_entry(wk_ledger_block *into) {
	wk_block_entry *entries = grown(into->entries, into->entries_count, 1, &into->entries_capacity, sizeof *entries);
	into->entries = entries != NULL ? entries : into->entries;
	return entries != NULL;
}

static bool reserve_states(wk_ledger_block *into, uint32_t more) {
	wk_footer_state *states = grown(into->states, into->states_count, more, &into->states_capacity, sizeof *states);
	into->states = states != NULL ? states : into->states;
	return states != NULL;
}

static bool reserve_record(wk_engine *engine, size_t size) {
	return wk_journal_reserve(engine, WK_BLOCK_HEADER_SIZE + engine->open.ledgers.size + size);
}

bool wk_ledger_block_reserve(wk_engine *engine, size_t size) {
	size_t state = WK_STATE_OVERHEAD + WK_STATE_DATA_SIZE;
	return reserve_entry(&engine->open.ledgers) && reserve_states(&engine->open.ledgers, 2) &&
	       reserve_record(engine, state + (size > state ? WK_SUMMED_OVERHEAD + size : state));
}

/* Where the next record goes, with its head. */
static uint8_t *record_at(wk_engine *engine) {
	return engine->open.buffer->bytes + WK_BLOCK_HEADER_SIZE + engine->open.ledgers.size;
}

static void accept(wk_engine *engine, size_t size, size_t in_footer, size_t payload) {
	wk_block *open = &engine->open;
	open->confirm = false; /* as in wk_journal_builder */
	if (open->first_ns == 0)
		open->first_ns = wk_engine_now(engine);
	open->ledgers.size += size;
	open->estimate += size + in_footer;
	open->accepted_bytes += payload;
	engine->in_flight_bytes += payload;
}

/* What the caller has summed is not read again. */
static uint32_t checksum(const wk_add *add, const uint8_t *copy, size_t size) {
	if (add->summed == 0 || add->summed > size)
		return wk_crc32c(copy, size);
	return wk_crc32c_combine(wk_crc32c(add->bytes, add->summed), add->tail_crc, size - add->summed);
}

wk_status wk_ledger_block_put_entry(wk_engine *engine, const wk_add *add) {
	wk_ledger_block *into = &engine->open.ledgers;
	size_t size = (size_t)add->size;
	if (!reserve_entry(into) || !reserve_record(engine, WK_SUMMED_OVERHEAD + size))
		return WK_NO_MEMORY;
	uint8_t *at = record_at(engine);
	uint8_t *copy = at + WK_SUMMED_OVERHEAD;
	memcpy(copy, add->bytes, size);
	uint32_t crc = checksum(add, copy, size);
	wk_block_put_record_header(at, WK_BLOCK_SUMMED_ENTRY, (uint32_t)(WK_SUM_SIZE + size));
	wk_store_le32(at + WK_BLOCK_RECORD_HEADER_SIZE, crc);
	into->crc = wk_crc32c_extend_le64(into->crc, wk_load_le32(at) | (uint64_t)crc << 32);
	into->crc = size < wk_crc32c_combine_from() ? wk_crc32c_extend(into->crc, copy, size)
	                                            : wk_crc32c_combine(into->crc, crc, size);
	into->entries[into->entries_count++] = (wk_block_entry){
	    .ledger_id = (int64_t)wk_load_be64(copy),
	    .entry_id = (int64_t)wk_load_be64(copy + 8),
	    .offset = (uint32_t)(WK_BLOCK_HEADER_SIZE + into->size + WK_BLOCK_RECORD_HEADER_SIZE),
	    .size = (uint32_t)(WK_SUM_SIZE + size),
	};
	accept(engine, WK_SUMMED_OVERHEAD + size, ENTRY_IN_FOOTER, size);
	return WK_OK;
}

wk_status wk_ledger_block_put_state(wk_engine *engine, int64_t ledger_id, uint32_t type, const void *data,
                                    size_t size) {
	assert(size <= WK_STATE_DATA_SIZE);
	wk_ledger_block *into = &engine->open.ledgers;
	if (!reserve_states(into, 1) || !reserve_record(engine, WK_STATE_OVERHEAD + size))
		return WK_NO_MEMORY;
	uint8_t *at = record_at(engine);
	wk_block_put_record_header(at, type, (uint32_t)(sizeof(uint64_t) + size));
	wk_store_le64(at + WK_BLOCK_RECORD_HEADER_SIZE, (uint64_t)ledger_id);
	wk_footer_state *state = &into->states[into->states_count++];
	*state = (wk_footer_state){.ledger_id = ledger_id, .type = type, .size = (uint32_t)size};
	if (size > 0) {
		memcpy(at + WK_STATE_OVERHEAD, data, size);
		memcpy(state->data, data, size);
	}
	into->crc = wk_crc32c_extend(into->crc, at, WK_STATE_OVERHEAD + size);
	accept(engine, WK_STATE_OVERHEAD + size, STATE_IN_FOOTER, 0);
	return WK_OK;
}

wk_ledger_block wk_ledger_block_emptied(const wk_ledger_block *done) {
	return (wk_ledger_block){.entries = done->entries,
	                         .states = done->states,
	                         .entries_capacity = done->entries_capacity,
	                         .states_capacity = done->states_capacity};
}

void wk_ledger_block_free(wk_block *block) {
	free(block->ledgers.entries);
	free(block->ledgers.states);
}

/* ---- durable ---- */

/*
 * With thousands of ledgers all of one is far away, each part known only from the one before: the parts of several that
 * come are on their way at once.
 */
static void look_ahead(wk_engine *engine, const wk_ledger_block *from, uint32_t at) {
	for (uint32_t step = 1; step <= 5 && at + step * PREFETCH < from->entries_count; step++) {
		const wk_block_entry *entry = &from->entries[at + step * PREFETCH];
		if (entry->ledger_id == entry[-1].ledger_id)
			continue;
		if (step == 5) {
			wk_ledger_prefetch_slot(engine, entry->ledger_id);
		} else if (step == 4) {
			wk_ledger_prefetch_in_slot(engine, entry->ledger_id);
		} else {
			const wk_ledger *ledger = wk_ledger_find(engine, entry->ledger_id);
			if (ledger != NULL)
				wk_ledger_prefetch(ledger, step == 3 ? WK_LEDGER_RANGES : step == 2 ? WK_LEDGER_LIST : WK_LEDGER_PLACE);
		}
	}
}

wk_status wk_ledger_block_index(wk_engine *engine, const wk_block *block) {
	const wk_ledger_block *from = &block->ledgers;
	wk_status status = WK_OK;
	wk_ledger *ledger = NULL;
	for (uint32_t i = 0; i < from->entries_count && status == WK_OK; i++) {
		const wk_block_entry *entry = &from->entries[i];
		look_ahead(engine, from, i);
		if (ledger == NULL || ledger->id != entry->ledger_id)
			ledger = wk_ledger_get(engine, entry->ledger_id);
		if (ledger == NULL)
			return WK_NO_MEMORY;
		status = wk_ledger_add_item(engine, ledger, block->file, entry->entry_id,
		                            (wk_footer_item){(uint32_t)block->header.offset + entry->offset, entry->size});
		ledger->durable_entry = ledger->last_entry;
	}
	for (uint32_t i = 0; i < from->states_count && status == WK_OK; i++)
		status = wk_ledger_state_record(engine, block->file, &from->states[i]);
	return status;
}

uint64_t wk_ledger_block_footer(const wk_engine *engine, const wk_store_file *file, const wk_block *block) {
	uint64_t entries = file->entries_count + block->ledgers.entries_count,
	         states = file->states.count + block->ledgers.states_count, runs = entries;
	for (uint64_t sequence = engine->durable + 1; sequence < engine->window.next; sequence++) {
		const wk_block *other = &engine->in_flight[sequence % WK_BLOCKS_IN_FLIGHT_MAX];
		if (other->file != file)
			continue;
		entries += other->ledgers.entries_count;
		states += other->ledgers.states_count;
	}
	runs = entries; /* at worst each is one */
	return wk_footer_size(entries, runs, states);
}
