#include "engine/ledger_state.h"

#include <stdlib.h>
#include <string.h>

/* Index of the first state of this ledger or a later one. */
static uint32_t place_of(const wk_engine *engine, int64_t ledger_id) {
	uint32_t low = 0, high = engine->states_count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (engine->states[middle].ledger_id < ledger_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_at(const wk_engine *engine, uint32_t at, int64_t ledger_id) {
	return at < engine->states_count && engine->states[at].ledger_id == ledger_id;
}

const wk_index_ledger *wk_ledger_state_find(const wk_engine *engine, int64_t ledger_id) {
	uint32_t at = place_of(engine, ledger_id);
	return is_at(engine, at, ledger_id) ? &engine->states[at] : NULL;
}

/* The ledger's state, made where there is none; NULL: no memory. */
static wk_index_ledger *get(wk_engine *engine, int64_t ledger_id) {
	uint32_t at = place_of(engine, ledger_id);
	if (is_at(engine, at, ledger_id))
		return &engine->states[at];
	if (engine->states_count == engine->states_capacity) {
		uint32_t capacity = engine->states_capacity == 0 ? 4 : engine->states_capacity * 2;
		wk_index_ledger *states = realloc(engine->states, capacity * sizeof *states);
		if (states == NULL)
			return NULL;
		engine->states = states;
		engine->states_capacity = capacity;
	}
	memmove(&engine->states[at + 1], &engine->states[at], (engine->states_count - at) * sizeof *engine->states);
	engine->states_count++;
	engine->states[at] = (wk_index_ledger){.ledger_id = ledger_id, .last_entry = -1};
	return &engine->states[at];
}

static void forget(wk_engine *engine, int64_t ledger_id) {
	uint32_t at = place_of(engine, ledger_id);
	if (!is_at(engine, at, ledger_id))
		return;
	memmove(&engine->states[at], &engine->states[at + 1], (engine->states_count - at - 1) * sizeof *engine->states);
	engine->states_count--;
}

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
	wk_index_ledger *state = get(engine, record->ledger_id);
	if (state == NULL)
		return WK_NO_MEMORY;
	if (record->type == WK_BLOCK_FENCE) {
		state->bits |= WK_LEDGER_FENCED;
	} else if (record->type == WK_BLOCK_MASTER_KEY) {
		state->bits |= WK_LEDGER_HAS_KEY;
		set(state->key, &state->key_size, record);
	} else {
		assert(record->type == WK_BLOCK_LAC);
		state->bits |= WK_LEDGER_HAS_LAC;
		set(state->lac, &state->lac_size, record);
	}
	return WK_OK;
}

wk_status wk_ledger_state_restore(wk_engine *engine, const wk_index_ledger *held) {
	if (held->bits == 0)
		return WK_OK;
	wk_index_ledger *state = get(engine, held->ledger_id);
	if (state == NULL)
		return WK_NO_MEMORY;
	*state = *held;
	state->last_entry = -1;
	state->first_live = state->length = 0;
	return WK_OK;
}

void wk_ledger_states_free(wk_engine *engine) {
	free(engine->states);
	engine->states = NULL;
	engine->states_count = engine->states_capacity = 0;
}
