#include "engine/ledger_state.h"

#include <stdlib.h>
#include <string.h>

#include "engine/ledger_delete.h"

enum { TABLE_MIN = 64 };

/* ---- the table ---- */

static uint32_t slot_of(int64_t id, uint32_t capacity) {
	return (uint32_t)(((uint64_t)id * 0x9E3779B97F4A7C15u) >> 32) & (capacity - 1);
}

wk_ledger_state *wk_ledger_state_get(const wk_engine *engine, int64_t ledger_id) {
	if (engine->states_capacity == 0)
		return NULL;
	uint32_t mask = engine->states_capacity - 1;
	for (uint32_t at = slot_of(ledger_id, engine->states_capacity);; at = (at + 1) & mask) {
		wk_ledger_state *state = engine->states[at];
		if (state == NULL || state->held.ledger_id == ledger_id)
			return state;
	}
}

static void put(wk_ledger_state **table, uint32_t capacity, wk_ledger_state *state) {
	uint32_t at = slot_of(state->held.ledger_id, capacity);
	while (table[at] != NULL)
		at = (at + 1) & (capacity - 1);
	table[at] = state;
}

static bool grow(wk_engine *engine) {
	uint32_t capacity = engine->states_capacity == 0 ? TABLE_MIN : engine->states_capacity * 2;
	wk_ledger_state **table = calloc(capacity, sizeof(*table));
	if (table == NULL)
		return false;
	for (uint32_t i = 0; i < engine->states_capacity; i++)
		if (engine->states[i] != NULL)
			put(table, capacity, engine->states[i]);
	free(engine->states);
	engine->states = table;
	engine->states_capacity = capacity;
	return true;
}

wk_ledger_state *wk_ledger_state_make(wk_engine *engine, int64_t ledger_id) {
	wk_ledger_state *state = wk_ledger_state_get(engine, ledger_id);
	if (state != NULL)
		return state;
	if (engine->states_count * (uint64_t)4 >= engine->states_capacity * (uint64_t)3 && !grow(engine))
		return NULL;
	state = calloc(1, sizeof *state);
	if (state == NULL)
		return NULL;
	state->held.ledger_id = ledger_id;
	state->held.last_entry = -1;
	put(engine->states, engine->states_capacity, state);
	engine->states_count++;
	return state;
}

/* Linear probing without tombstones: what follows the hole moves up where it may. */
static void forget(wk_engine *engine, int64_t ledger_id) {
	wk_ledger_state *state = wk_ledger_state_get(engine, ledger_id);
	if (state == NULL)
		return;
	uint32_t mask = engine->states_capacity - 1, hole = slot_of(ledger_id, engine->states_capacity);
	while (engine->states[hole] != state)
		hole = (hole + 1) & mask;
	engine->states[hole] = NULL;
	engine->states_count--;
	for (uint32_t at = (hole + 1) & mask; engine->states[at] != NULL; at = (at + 1) & mask) {
		uint32_t home = slot_of(engine->states[at]->held.ledger_id, engine->states_capacity);
		if (((at - home) & mask) >= ((at - hole) & mask)) {
			engine->states[hole] = engine->states[at];
			engine->states[at] = NULL;
			hole = at;
		}
	}
	free(state);
}

/* ---- records ---- */

/* Bytes of an earlier, longer value do not stay behind a shorter one. */
static void set(uint8_t field[WK_STATE_DATA_SIZE], uint8_t *size, const wk_footer_state *record) {
	assert(record->size <= WK_STATE_DATA_SIZE);
	memset(field, 0, WK_STATE_DATA_SIZE);
	memcpy(field, record->data, record->size);
	*size = (uint8_t)record->size;
}

wk_status wk_ledger_state_apply(wk_engine *engine, const wk_footer_state *record) {
	if (record->type == WK_BLOCK_DELETE) {
		forget(engine, record->ledger_id);
		return WK_OK;
	}
	wk_ledger_state *state = wk_ledger_state_make(engine, record->ledger_id);
	if (state == NULL)
		return WK_NO_MEMORY;
	if (record->type == WK_BLOCK_FENCE) {
		state->held.bits |= WK_LEDGER_FENCED;
	} else if (record->type == WK_BLOCK_MASTER_KEY) {
		state->held.bits |= WK_LEDGER_HAS_KEY;
		state->has_key = true;
		set(state->held.key, &state->held.key_size, record);
	} else {
		assert(record->type == WK_BLOCK_LAC);
		state->held.bits |= WK_LEDGER_HAS_LAC;
		set(state->held.lac, &state->held.lac_size, record);
	}
	return WK_OK;
}

static bool keep(wk_store_file *file, const wk_footer_state *record) {
	if (file->states_count == file->states_capacity) {
		uint32_t capacity = file->states_capacity == 0 ? 4 : file->states_capacity * 2;
		wk_footer_state *states = realloc(file->states, capacity * sizeof *states);
		if (states == NULL)
			return false;
		file->states = states;
		file->states_capacity = capacity;
	}
	file->states[file->states_count++] = *record;
	return true;
}

wk_status wk_ledger_state_record(wk_engine *engine, wk_store_file *file, const wk_footer_state *record) {
	if (!keep(file, record))
		return WK_NO_MEMORY;
	wk_status status = record->type == WK_BLOCK_DELETE ? wk_ledger_delete_apply(engine, file, record) : WK_OK;
	return status == WK_OK ? wk_ledger_state_apply(engine, record) : status;
}

wk_status wk_ledger_state_restore(wk_engine *engine, const wk_index_ledger *held) {
	if (held->bits == 0)
		return WK_OK;
	wk_ledger_state *state = wk_ledger_state_make(engine, held->ledger_id);
	if (state == NULL)
		return WK_NO_MEMORY;
	state->held = *held;
	state->held.last_entry = -1;
	state->held.first_live = state->held.length = 0;
	state->has_key = (held->bits & WK_LEDGER_HAS_KEY) != 0;
	return WK_OK;
}

/* ---- all of it ---- */

const wk_index_ledger *wk_ledger_state_find(const wk_engine *engine, int64_t ledger_id) {
	const wk_ledger_state *state = wk_ledger_state_get(engine, ledger_id);
	return state != NULL && state->held.bits != 0 ? &state->held : NULL;
}

uint32_t wk_ledger_states_copy(const wk_engine *engine, wk_index_ledger *into) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < engine->states_capacity; i++) {
		const wk_ledger_state *state = engine->states[i];
		if (state == NULL || state->held.bits == 0)
			continue;
		into[count] = state->held;
		if ((state->held.bits & WK_LEDGER_HAS_KEY) == 0) { /* accepted, and not durable yet */
			memset(into[count].key, 0, sizeof into[count].key);
			into[count].key_size = 0;
		}
		count++;
	}
	return count;
}

uint64_t wk_ledger_states_memory(const wk_engine *engine) {
	return engine->states_capacity * sizeof(*engine->states) + engine->states_count * sizeof(wk_ledger_state);
}

void wk_ledger_states_free(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->states_capacity; i++)
		free(engine->states[i]);
	free(engine->states);
	engine->states = NULL;
	engine->states_count = engine->states_capacity = 0;
}
