#include "engine/catalogue/log_table.h"

#include <stdlib.h>
#include <string.h>

enum { TABLE_MIN = 64 };

static uint32_t hash_name(const char *name, size_t size) {
	return wk_crc32c(name, size) * 0x9E3779B1u;
}
static uint32_t hash_id(uint64_t id) {
	return (uint32_t)((id * 0x9E3779B97F4A7C15u) >> 32);
}

static uint32_t home(const wk_log_state *log, bool by_name) {
	return by_name ? hash_name(log->name, log->name_size) : hash_id(log->id);
}

static void put(wk_log_state **table, uint32_t capacity, wk_log_state *log, bool by_name) {
	uint32_t at = home(log, by_name) & (capacity - 1);
	while (table[at] != NULL)
		at = (at + 1) & (capacity - 1);
	table[at] = log;
}

/* Twice the size where three quarters are used. */
static bool reserve(wk_log_state ***table, uint32_t *capacity, uint32_t count, bool by_name) {
	if ((count + 1) * 4 <= *capacity * 3)
		return true;
	uint32_t larger = *capacity == 0 ? TABLE_MIN : *capacity * 2;
	wk_log_state **fresh = calloc(larger, sizeof *fresh);
	if (fresh == NULL)
		return false;
	for (uint32_t i = 0; i < *capacity; i++)
		if ((*table)[i] != NULL)
			put(fresh, larger, (*table)[i], by_name);
	free(*table);
	*table = fresh;
	*capacity = larger;
	return true;
}

bool wk_log_table_reserve(wk_engine *engine) {
	return reserve(&engine->logs, &engine->logs_capacity, engine->logs_count, true) &&
	       reserve(&engine->logs_by_id, &engine->by_id_capacity, engine->by_id_count, false);
}

/* Linear probing without tombstones: what follows the hole moves up where it may. */
static void take_out(wk_log_state **table, uint32_t capacity, wk_log_state *log, bool by_name) {
	uint32_t mask = capacity - 1, hole = home(log, by_name) & mask;
	while (table[hole] != log)
		hole = (hole + 1) & mask;
	table[hole] = NULL;
	for (uint32_t at = (hole + 1) & mask; table[at] != NULL; at = (at + 1) & mask) {
		uint32_t wants = home(table[at], by_name) & mask;
		if (((at - wants) & mask) >= ((at - hole) & mask)) {
			table[hole] = table[at];
			table[at] = NULL;
			hole = at;
		}
	}
}

void wk_log_table_insert_name(wk_engine *engine, wk_log_state *log) {
	put(engine->logs, engine->logs_capacity, log, true);
	engine->logs_count++;
}

void wk_log_table_insert_id(wk_engine *engine, wk_log_state *log) {
	put(engine->logs_by_id, engine->by_id_capacity, log, false);
	engine->by_id_count++;
}

void wk_log_table_insert(wk_engine *engine, wk_log_state *log) {
	wk_log_table_insert_name(engine, log);
	wk_log_table_insert_id(engine, log);
}

static void replace(wk_log_state **table, uint32_t capacity, const wk_log_state *from, wk_log_state *to, bool by_name) {
	uint32_t at = home(from, by_name) & (capacity - 1);
	while (table[at] != from)
		at = (at + 1) & (capacity - 1);
	table[at] = to;
}

void wk_log_table_replace(wk_engine *engine, const wk_log_state *from, wk_log_state *to) {
	if (!from->deleted)
		replace(engine->logs, engine->logs_capacity, from, to, true);
	replace(engine->logs_by_id, engine->by_id_capacity, from, to, false);
}

void wk_log_table_remove_name(wk_engine *engine, wk_log_state *log) {
	take_out(engine->logs, engine->logs_capacity, log, true);
	engine->logs_count--;
}

void wk_log_table_remove_id(wk_engine *engine, wk_log_state *log) {
	take_out(engine->logs_by_id, engine->by_id_capacity, log, false);
	engine->by_id_count--;
}

void wk_log_table_free(wk_engine *engine) {
	free(engine->logs);
	free(engine->logs_by_id);
	engine->logs = engine->logs_by_id = NULL;
	engine->logs_capacity = engine->by_id_capacity = engine->logs_count = engine->by_id_count = 0;
}

wk_log_state *wk_catalogue_find(wk_engine *engine, const char *name, size_t name_size) {
	if (engine->logs_capacity == 0)
		return NULL;
	uint32_t mask = engine->logs_capacity - 1;
	for (uint32_t at = hash_name(name, name_size) & mask; engine->logs[at] != NULL; at = (at + 1) & mask)
		if (engine->logs[at]->name_size == name_size && memcmp(engine->logs[at]->name, name, name_size) == 0)
			return engine->logs[at];
	return NULL;
}

wk_log_state *wk_catalogue_by_id(wk_engine *engine, uint64_t log_id) {
	if (engine->by_id_capacity == 0)
		return NULL;
	uint32_t mask = engine->by_id_capacity - 1;
	for (uint32_t at = hash_id(log_id) & mask; engine->logs_by_id[at] != NULL; at = (at + 1) & mask)
		if (engine->logs_by_id[at]->id == log_id)
			return engine->logs_by_id[at];
	return NULL;
}
