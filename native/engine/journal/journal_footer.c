/* journal_footer.c: a full journal file gets its footer, and its entries' places leave memory. */
#include <stdlib.h>
#include <string.h>

#include "engine/index.h"
#include "engine/journal/journal.h"
#include "engine/journal/journal_file.h"

enum { LOOK_AGAIN_NS = 1000 * 1000 * 1000 };

typedef struct footer_parts {
	wk_footer_item *items;
	wk_footer_run *runs;
	wk_footer_state *states;
} footer_parts;

static void free_parts(footer_parts *parts) {
	free(parts->items);
	free(parts->runs);
	free(parts->states);
}

static int by_number(const void *a, const void *b) {
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/*
 * What the index holds of the file, sorted by ledger. (locked, dropped: nothing is added to a full file) Dead ledgers are
 * left out: nobody asks for their entries again.
 */
static wk_status collect(wk_engine *engine, wk_store_file *file, wk_footer *footer, footer_parts *parts) {
	parts->items = malloc((file->entries_count + 1) * sizeof *parts->items);
	parts->runs = malloc((file->runs_count + 1) * sizeof *parts->runs);
	parts->states = malloc((file->states.count + 1) * sizeof *parts->states);
	if (parts->items == NULL || parts->runs == NULL || parts->states == NULL)
		return WK_NO_MEMORY;
	wk_state_list_unpack(&file->states, parts->states);
	wk_engine_unlock(engine);
	if (file->ledgers_count > 1)
		qsort(file->ledgers, file->ledgers_count, sizeof *file->ledgers, by_number);
	wk_engine_lock(engine);
	for (uint32_t i = 0; i < file->ledgers_count; i++) {
		if (i > 0 && file->ledgers[i] == file->ledgers[i - 1])
			continue;
		wk_ledger *ledger = wk_ledger_find(engine, file->ledgers[i]);
		if (ledger != NULL)
			wk_ledger_collect(ledger, file, footer, parts->items, parts->runs);
		if (i % WK_LOOKS_AT_ONCE == WK_LOOKS_AT_ONCE - 1)
			wk_engine_yield_lock(engine);
	}
	return WK_OK;
}

/* The footer knows the places now. (locked, dropped) */
static void let_places_go(wk_engine *engine, wk_store_file *file) {
	for (uint32_t i = 0; i < file->ledgers_count; i++) {
		wk_ledger *ledger = wk_ledger_find(engine, file->ledgers[i]);
		if (ledger != NULL)
			wk_ledger_seal_runs(engine, ledger, file);
		if (i % WK_LOOKS_AT_ONCE == WK_LOOKS_AT_ONCE - 1)
			wk_engine_yield_lock(engine);
	}
	file->state = WK_FILE_SEALED;
	free(file->ledgers);
	wk_state_list_free(&file->states);
	file->ledgers = NULL;
	file->ledgers_count = file->ledgers_capacity = 0;
}

/*
 * Another name (`cp -al`) shares the file's bytes, and may miss entries that are dead only here: then it is left as it
 * is, and scanned at the next start.
 */
static bool is_shared(wk_engine *engine, wk_store_file *file) {
	wk_io_stat stat;
	return engine->io->operations->stat(engine->io, file->handle, &stat) == 0 && stat.links > 1;
}

/* (locked; not when it returns) */
static wk_status go_without(wk_engine *engine, wk_store_file *file) {
	file->footer_failed = true;
	engine->footers_due--;
	wk_engine_unlock(engine);
	return WK_OK;
}

wk_status wk_journal_file_seal(wk_engine *engine, wk_store_file *file) {
	footer_parts parts = {0};
	bool shared = is_shared(engine, file);
	wk_engine_lock(engine);
	if (shared) {
		file->footer_shared = true;
		engine->footers_shared_ns = wk_engine_now(engine) + LOOK_AGAIN_NS;
		return go_without(engine, file);
	}
	wk_footer footer = {
	    .file_id = file->id,
	    .file_size = file->size,
	    .incarnation = file->incarnation,
	    .first_sequence = file->first_sequence,
	    .last_sequence = file->last_sequence,
	    .end_offset = file->end_offset,
	    .first_previous_crc = file->first_previous_crc,
	    .last_crc = file->last_crc,
	    .states_count = file->states.count,
	    .kind = WK_FILE_JOURNAL,
	};
	memcpy(footer.directory_id, engine->superblock.directory_id, sizeof footer.directory_id);
	wk_status status = collect(engine, file, &footer, &parts);
	uint64_t size = wk_footer_size(footer.items_count, footer.runs_count, footer.states_count);
	if (status == WK_OK && file->end_offset + size > file->size) { /* somebody cut the file short behind its blocks */
		free_parts(&parts);
		return go_without(engine, file);
	}
	wk_engine_unlock(engine);
	uint8_t *bytes = status == WK_OK ? aligned_alloc(WK_PAGE_SIZE, size) : NULL;
	if (bytes != NULL) {
		wk_footer_encode(&footer, parts.items, parts.runs, parts.states, bytes);
		const struct wk_io_operations *io = engine->io->operations;
		/* The trailer last: whoever finds it may rely on the pages before it, also after a power cut. */
		uint64_t pages = size - WK_PAGE_SIZE, start = file->size - size;
		int64_t result = pages > 0 ? io->pwrite(engine->io, file->handle, bytes, pages, start, 0) : 0;
		if (pages > 0 && result >= 0)
			result = io->sync(engine->io, file->handle);
		if (result >= 0)
			result = io->pwrite(engine->io, file->handle, bytes + pages, WK_PAGE_SIZE, start + pages, 0);
		if (result >= 0)
			result = io->sync(engine->io, file->handle);
		status = result < 0 ? WK_IO : WK_OK;
	} else {
		status = WK_NO_MEMORY;
	}
	free(bytes);
	free_parts(&parts);
	wk_engine_lock(engine);
	engine->footers_due--; /* done, or never */
	if (status == WK_OK) {
		engine->counters.written_bytes += size;
		file->footer = footer;
		let_places_go(engine, file);
	} else {
		/*
		 * The footer is a cache: without it the file is scanned at the next start. But a file system that failed a
		 * write is not to be trusted with more.
		 */
		file->footer_failed = true;
		wk_journal_fail_footer(engine, file, status);
	}
	wk_engine_unlock(engine);
	return status;
}

/* The first file behind `id` that may have a footer once its bytes are its own; NULL: there is none. */
static wk_store_file *next_shared(const wk_engine *engine, uint64_t id) {
	for (uint32_t i = 0; i < engine->files_count; i++)
		if (engine->files[i]->footer_shared && engine->files[i]->state == WK_FILE_FULL && engine->files[i]->id > id)
			return engine->files[i];
	return NULL;
}

bool wk_journal_footer_look_again(wk_engine *engine) {
	if (wk_engine_now(engine) < engine->footers_shared_ns || engine->footers_due > 0)
		return false;
	engine->footers_shared_ns = UINT64_MAX;
	uint64_t id = 0;
	for (wk_store_file *file; (file = next_shared(engine, id)) != NULL;) {
		id = file->id;
		file->pins++;
		wk_engine_unlock(engine);
		bool shared = is_shared(engine, file);
		wk_engine_lock(engine);
		file->pins--;
		engine->footers_shared_ns = wk_engine_now(engine) + (shared ? LOOK_AGAIN_NS : 0);
		if (shared)
			continue;
		file->footer_failed = file->footer_shared = false;
		engine->footers_due++;
		return true; /* one at a time: the journal waits for a footer that is due */
	}
	return false;
}
