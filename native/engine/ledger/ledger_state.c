#include "engine/ledger/ledger_state.h"

#include <stdlib.h>
#include <string.h>

#include "core/id_hash.h"
#include "engine/ledger/ledger_delete.h"

enum { TABLE_MIN = 64 };

/* ---- the table ---- */

wk_ledger_state *wk_ledger_state_get(const wk_engine *engine, int64_t ledger_id) {
	if (engine->states_capacity == 0)
		return NULL;
	uint32_t mask = engine->states_capacity - 1;
	for (uint32_t at = wk_id_home(engine->id_seed, ledger_id, engine->states_capacity);; at = (at + 1) & mask) {
		wk_ledger_state *state = engine->states[at];
		if (state == NULL || state->ledger_id == ledger_id)
			return state;
	}
}

void wk_ledger_state_prefetch_slot(const wk_engine *engine, int64_t ledger_id) {
	if (engine->states_capacity > 0)
		__builtin_prefetch(&engine->states[wk_id_home(engine->id_seed, ledger_id, engine->states_capacity)]);
}

void wk_ledger_state_prefetch(const wk_engine *engine, int64_t ledger_id) {
	if (engine->states_capacity == 0)
		return;
	const wk_ledger_state *state = engine->states[wk_id_home(engine->id_seed, ledger_id, engine->states_capacity)];
	if (state != NULL)
		__builtin_prefetch(state, 1);
}

static void put(uint64_t seed, wk_ledger_state **table, uint32_t capacity, wk_ledger_state *state) {
	uint32_t at = wk_id_home(seed, state->ledger_id, capacity);
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
			put(engine->id_seed, table, capacity, engine->states[i]);
	free(engine->states);
	engine->states = table;
	engine->states_capacity = capacity;
	return true;
}

wk_ledger_state *wk_ledger_state_make(wk_engine *engine, int64_t ledger_id) {
	wk_ledger_state *state = wk_ledger_state_get(engine, ledger_id);
	if (state != NULL)
		return state;
	if (engine->states_count * (uint64_t)2 >= engine->states_capacity && !grow(engine))
		return NULL;
	state = calloc(1, sizeof *state);
	if (state == NULL)
		return NULL;
	state->ledger_id = ledger_id;
	put(engine->id_seed, engine->states, engine->states_capacity, state);
	engine->states_count++;
	return state;
}

static void free_state(wk_engine *engine, wk_ledger_state *state) {
	if (state == NULL)
		return;
	engine->states_more_count -= state->more != NULL;
	free(state->more);
	free(state);
}

/* Linear probing without tombstones: what follows the hole moves up where it may. */
static void forget(wk_engine *engine, int64_t ledger_id) {
	wk_ledger_state *state = wk_ledger_state_get(engine, ledger_id);
	if (state == NULL)
		return;
	uint32_t mask = engine->states_capacity - 1, hole = wk_id_home(engine->id_seed, ledger_id, engine->states_capacity);
	while (engine->states[hole] != state)
		hole = (hole + 1) & mask;
	engine->states[hole] = NULL;
	engine->states_count--;
	for (uint32_t at = (hole + 1) & mask; engine->states[at] != NULL; at = (at + 1) & mask) {
		uint32_t home = wk_id_home(engine->id_seed, engine->states[at]->ledger_id, engine->states_capacity);
		if (((at - home) & mask) >= ((at - hole) & mask)) {
			engine->states[hole] = engine->states[at];
			engine->states[at] = NULL;
			hole = at;
		}
	}
	free_state(engine, state);
}

/* ---- records ---- */

static bool have_more(wk_engine *engine, wk_ledger_state *state) {
	if (state->more != NULL)
		return true;
	state->more = calloc(1, sizeof *state->more);
	engine->states_more_count += state->more != NULL;
	return state->more != NULL;
}

const uint8_t *wk_ledger_state_key(const wk_ledger_state *state) {
	return state->key_size > sizeof state->short_key ? state->more->key : state->short_key;
}

wk_ledger_facts wk_ledger_state_facts(const wk_ledger_state *state) {
	return (wk_ledger_facts){
	    .key = state->has_key ? wk_ledger_state_key(state) : NULL,
	    .key_size = state->key_size,
	    .fenced = state->fencing || (state->bits & WK_LEDGER_FENCED) != 0,
	    .deleting = state->deleting,
	};
}

bool wk_ledger_state_set_key(wk_engine *engine, wk_ledger_state *state, const void *key, uint32_t size) {
	assert(size <= WK_STATE_DATA_SIZE);
	bool is_long = size > sizeof state->short_key;
	if (is_long && !have_more(engine, state))
		return false;
	memcpy(is_long ? state->more->key : state->short_key, key, size);
	state->key_size = (uint8_t)size;
	state->has_key = true;
	return true;
}

static bool set_lac(wk_engine *engine, wk_ledger_state *state, const void *lac, uint32_t size) {
	assert(size <= WK_STATE_DATA_SIZE);
	if (!have_more(engine, state))
		return false;
	memcpy(state->more->lac, lac, size);
	state->lac_size = (uint8_t)size;
	return true;
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
		state->bits |= WK_LEDGER_FENCED;
	} else if (record->type == WK_BLOCK_MASTER_KEY) {
		if (!wk_ledger_state_set_key(engine, state, record->data, record->size))
			return WK_NO_MEMORY;
		state->bits |= WK_LEDGER_HAS_KEY;
	} else {
		assert(record->type == WK_BLOCK_LAC);
		if (!set_lac(engine, state, record->data, record->size))
			return WK_NO_MEMORY;
		state->bits |= WK_LEDGER_HAS_LAC;
	}
	return WK_OK;
}

wk_status wk_ledger_state_record(wk_engine *engine, wk_store_file *file, const wk_footer_state *record) {
	if (!wk_state_list_put(&file->states, record))
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
	bool has_key = (held->bits & WK_LEDGER_HAS_KEY) != 0, has_lac = (held->bits & WK_LEDGER_HAS_LAC) != 0;
	if ((has_key && !wk_ledger_state_set_key(engine, state, held->key, held->key_size)) ||
	    (has_lac && !set_lac(engine, state, held->lac, held->lac_size)))
		return WK_NO_MEMORY;
	state->bits = (uint8_t)held->bits;
	return WK_OK;
}

/* ---- all of it ---- */

/* A key that is accepted, and not durable yet, is not of it. */
static void copy_durable(const wk_ledger_state *state, wk_index_ledger *held) {
	*held = (wk_index_ledger){.ledger_id = state->ledger_id, .last_entry = -1, .bits = state->bits};
	if ((state->bits & WK_LEDGER_HAS_KEY) != 0) {
		held->key_size = state->key_size;
		memcpy(held->key, wk_ledger_state_key(state), state->key_size);
	}
	held->lac_size = state->lac_size;
	if (state->lac_size > 0)
		memcpy(held->lac, state->more->lac, state->lac_size);
}

bool wk_ledger_state_find(const wk_engine *engine, int64_t ledger_id, wk_index_ledger *held) {
	const wk_ledger_state *state = wk_ledger_state_get(engine, ledger_id);
	if (state == NULL || state->bits == 0)
		return false;
	if (held != NULL)
		copy_durable(state, held);
	return true;
}

uint32_t wk_ledger_states_copy(const wk_engine *engine, wk_index_ledger *into) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < engine->states_capacity; i++)
		if (engine->states[i] != NULL && engine->states[i]->bits != 0)
			copy_durable(engine->states[i], &into[count++]);
	return count;
}

uint64_t wk_ledger_states_memory(const wk_engine *engine) {
	return engine->states_capacity * sizeof(*engine->states) + engine->states_count * sizeof(wk_ledger_state) +
	       engine->states_more_count * sizeof(wk_ledger_state_more);
}

void wk_ledger_states_free(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->states_capacity; i++)
		free_state(engine, engine->states[i]);
	free(engine->states);
	engine->states = NULL;
	engine->states_count = engine->states_capacity = 0;
}
