#include "engine/ledger/ledger_delete.h"

#include <stdlib.h>

#include "core/bytes.h"
#include "core/id_hash.h"
#include "engine/directory.h"
#include "engine/index.h"
#include "engine/mover.h"

enum { TABLE_MIN = 16 };

/* Copies of its entries may turn up: files are being found, or a pass of the mover is under way. */
static bool somebody_may_ask(const wk_engine *engine) {
	return engine->active == NULL || engine->mover != NULL;
}

/* Where the ledger stands in the table, or would: open addressing, sequence 0 in a slot that is free. */
static uint32_t slot_of(uint64_t seed, const wk_deleted_ledger *table, uint32_t capacity, int64_t ledger_id) {
	uint32_t at = wk_id_home(seed, ledger_id, capacity);
	while (table[at].sequence != 0 && table[at].ledger_id != ledger_id)
		at = (at + 1) & (capacity - 1);
	return at;
}

static bool grow(wk_engine *engine) {
	uint32_t capacity = engine->deleted_capacity == 0 ? TABLE_MIN : engine->deleted_capacity * 2;
	wk_deleted_ledger *table = calloc(capacity, sizeof *table);
	if (table == NULL)
		return false;
	for (uint32_t i = 0; i < engine->deleted_capacity; i++)
		if (engine->deleted[i].sequence != 0)
			table[slot_of(engine->id_seed, table, capacity, engine->deleted[i].ledger_id)] = engine->deleted[i];
	free(engine->deleted);
	engine->deleted = table;
	engine->deleted_capacity = capacity;
	return true;
}

/* Of several deletes of a ledger the last one counts. */
static bool remember(wk_engine *engine, int64_t ledger_id, uint64_t sequence) {
	if (engine->deleted_count * (uint64_t)4 >= engine->deleted_capacity * (uint64_t)3 && !grow(engine))
		return false;
	wk_deleted_ledger *one =
	    &engine->deleted[slot_of(engine->id_seed, engine->deleted, engine->deleted_capacity, ledger_id)];
	engine->deleted_count += one->sequence == 0;
	one->ledger_id = ledger_id;
	one->sequence = sequence > one->sequence ? sequence : one->sequence;
	return true;
}

wk_status wk_ledger_delete_apply(wk_engine *engine, wk_store_file *file, const wk_footer_state *record) {
	uint64_t sequence = record->size == WK_DELETE_DATA_SIZE ? wk_load_le64(record->data) : 0;
	if (sequence == 0)
		return WK_CORRUPT;
	if (!somebody_may_ask(engine))
		wk_ledger_deletes_free(engine);
	else if (!remember(engine, record->ledger_id, sequence))
		return WK_NO_MEMORY;
	file->last_delete = sequence > file->last_delete ? sequence : file->last_delete;
	wk_ledger *ledger = wk_ledger_find(engine, record->ledger_id);
	if (ledger != NULL)
		wk_ledger_drop(engine, ledger);
	wk_keeper_wake(engine); /* a file may have become free */
	return WK_OK;
}

bool wk_ledger_deleted_since(const wk_engine *engine, int64_t ledger_id, uint64_t sequence) {
	return engine->deleted_capacity > 0 &&
	       engine->deleted[slot_of(engine->id_seed, engine->deleted, engine->deleted_capacity, ledger_id)].sequence >
	           sequence;
}

void wk_ledger_deletes_free(wk_engine *engine) {
	free(engine->deleted);
	engine->deleted = NULL;
	engine->deleted_count = engine->deleted_capacity = 0;
}

/* Of all entry logs that an index with this mark would not name, and of the one being made: the earliest choice. */
static uint64_t earliest_copies(const wk_engine *engine, uint64_t mark) {
	uint64_t earliest = wk_mover_chose_at(engine);
	for (uint32_t i = 0; i < engine->files_count; i++) {
		const wk_store_file *file = engine->files[i];
		if (file->kind == WK_FILE_ENTRY_LOG && file->id >= mark && file->last_sequence < earliest)
			earliest = file->last_sequence;
	}
	return earliest;
}

uint64_t wk_ledger_delete_mark(const wk_engine *engine, uint64_t mark) {
	if (!wk_engine_holds_ledgers(engine))
		return mark;
	if (wk_mover_file_id(engine) < mark)
		mark = wk_mover_file_id(engine);
	for (uint64_t before = 0; before != mark;) {
		before = mark;
		uint64_t earliest = earliest_copies(engine, mark);
		for (uint32_t i = 0; i < engine->files_count; i++)
			if (engine->files[i]->id < mark && engine->files[i]->last_delete > earliest)
				mark = engine->files[i]->id;
	}
	return mark;
}
