#include "engine/store_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ledger.h"
#include "engine/ledger_delete.h"
#include "engine/ledger_state.h"

static uint32_t index_of(const wk_engine *engine, uint64_t id) {
	uint32_t low = 0, high = engine->files_count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (engine->files[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

wk_store_file *wk_store_file_find(wk_engine *engine, uint64_t id) {
	uint32_t at = index_of(engine, id);
	return at < engine->files_count && engine->files[at]->id == id ? engine->files[at] : NULL;
}

wk_store_file *wk_store_file_add(wk_engine *engine, uint64_t id, uint32_t kind) {
	if (engine->files_count == engine->files_capacity) {
		uint32_t capacity = engine->files_capacity == 0 ? 16 : engine->files_capacity * 2;
		wk_store_file **files = realloc(engine->files, capacity * sizeof *files);
		if (files == NULL)
			return NULL;
		engine->files = files;
		engine->files_capacity = capacity;
	}
	wk_store_file *file = calloc(1, sizeof *file);
	if (file == NULL)
		return NULL;
	file->id = id;
	file->kind = kind;
	uint32_t at = index_of(engine, id);
	memmove(&engine->files[at + 1], &engine->files[at], (engine->files_count - at) * sizeof *engine->files);
	engine->files[at] = file;
	engine->files_count++;
	return file;
}

static void free_file(wk_engine *engine, wk_store_file *file) {
	if (file->handle != NULL)
		engine->io->operations->close(engine->io, file->handle);
	free(file->states);
	free(file->ledgers);
	free(file);
}

static void take_out(wk_engine *engine, wk_store_file *file) {
	uint32_t at = index_of(engine, file->id);
	assert(engine->files[at] == file);
	memmove(&engine->files[at], &engine->files[at + 1], (engine->files_count - at - 1) * sizeof *engine->files);
	engine->files_count--;
	if (engine->lent == file)
		engine->lent = NULL;
}

void wk_store_file_remove(wk_engine *engine, wk_store_file *file) {
	assert(file->pins == 0);
	wk_ledgers_forget_file(engine, file);
	take_out(engine, file);
	free_file(engine, file);
}

void wk_store_file_retire(wk_engine *engine, wk_store_file *file) {
	take_out(engine, file);
	file->retired = true;
	if (file->pins == 0)
		free_file(engine, file);
}

/* ---- handles ---- */

static void shut(wk_engine *engine, wk_store_file *file) {
	if (file->handle != NULL)
		engine->io->operations->close(engine->io, file->handle);
	file->handle = NULL;
}

void wk_store_file_let_go(wk_engine *engine) {
	if (engine->read_only && engine->lent != NULL && engine->lent->pins == 0)
		shut(engine, engine->lent);
	engine->lent = NULL;
}

int wk_store_file_use(wk_engine *engine, wk_store_file *file) {
	if (engine->read_only && engine->lent != file) {
		wk_store_file_let_go(engine);
		engine->lent = file;
	}
	if (file->handle != NULL)
		return 0;
	char *path = wk_store_file_path(engine, file->id, file->kind);
	if (path == NULL)
		return -ENOMEM;
	int result = engine->io->operations->open(
	    engine->io, path, (engine->read_only ? WK_IO_READ : WK_IO_WRITE) | WK_IO_DIRECT, &file->handle);
	free(path);
	return result;
}

void wk_store_file_unpin(wk_engine *engine, wk_store_file *file) {
	assert(file->pins > 0);
	if (--file->pins > 0)
		return;
	if (file->retired)
		free_file(engine, file);
	else if (engine->read_only)
		shut(engine, file);
}

void wk_store_files_free(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->files_count; i++)
		free_file(engine, engine->files[i]);
	free(engine->files);
	engine->files = NULL;
	engine->lent = NULL;
	engine->files_count = engine->files_capacity = 0;
}

char *wk_store_file_path(const wk_engine *engine, uint64_t id, uint32_t kind) {
	return wk_engine_path(engine, "%s", wk_file_name_of(id, kind).text);
}

bool wk_store_file_parse(const char *name, uint32_t *kind, uint64_t *id) {
	if (strlen(name) != 20 || strspn(name, "0123456789abcdef") != 16)
		return false;
	if (strcmp(name + 16, ".wkj") == 0)
		*kind = WK_FILE_JOURNAL;
	else if (strcmp(name + 16, ".wke") == 0)
		*kind = WK_FILE_ENTRY_LOG;
	else
		return false;
	*id = strtoull(name, NULL, 16);
	return *id != 0;
}

/* Reads one page into aligned memory; the caller frees. */
static uint8_t *read_pages(wk_engine *engine, wk_store_file *file, uint64_t offset, size_t size) {
	uint8_t *bytes = wk_store_file_use(engine, file) == 0 ? aligned_alloc(WK_PAGE_SIZE, size) : NULL;
	if (bytes == NULL)
		return NULL;
	if (engine->io->operations->pread(engine->io, file->handle, bytes, size, offset) != (int64_t)size) {
		free(bytes);
		return NULL;
	}
	return bytes;
}

void wk_store_file_take_footer(wk_store_file *file, const wk_footer *footer) {
	file->footer = *footer;
	file->first_sequence = footer->first_sequence;
	file->last_sequence = footer->last_sequence;
	file->first_previous_crc = footer->first_previous_crc;
	file->last_crc = footer->last_crc;
	file->end_offset = footer->end_offset;
	file->incarnation = footer->incarnation;
}

wk_status wk_store_file_peek_footer(wk_engine *engine, wk_store_file *file, wk_footer *footer) {
	if (file->size < 2 * WK_PAGE_SIZE)
		return WK_CORRUPT;
	uint8_t *page = read_pages(engine, file, file->size - WK_PAGE_SIZE, WK_PAGE_SIZE);
	if (page == NULL)
		return WK_IO;
	wk_status status = wk_footer_decode(page, footer);
	free(page);
	if (status != WK_OK)
		return status;
	if (footer->file_id != file->id || footer->kind != file->kind || footer->file_size != file->size ||
	    memcmp(footer->directory_id, engine->superblock.directory_id, sizeof footer->directory_id) != 0)
		return WK_CORRUPT; /* of an earlier life of this file */
	return WK_OK;
}

wk_status wk_store_file_read_footer(wk_engine *engine, wk_store_file *file) {
	wk_footer footer;
	wk_status status = wk_store_file_peek_footer(engine, file, &footer);
	if (status == WK_OK)
		wk_store_file_take_footer(file, &footer);
	return status;
}

int wk_store_file_rewrite_footer(wk_engine *engine, wk_store_file *file) {
	const struct wk_io_operations *io = engine->io->operations;
	uint64_t offset = file->size - WK_PAGE_SIZE;
	wk_footer footer;
	uint8_t *page = read_pages(engine, file, offset, WK_PAGE_SIZE);
	int64_t result = page != NULL && wk_footer_decode(page, &footer) == WK_OK && footer.file_id == file->id
	                     ? io->pwrite(engine->io, file->handle, page, WK_PAGE_SIZE, offset, 0)
	                     : -EIO; /* it was whole a moment ago */
	free(page);
	return result < 0 ? (int)result : io->sync(engine->io, file->handle);
}

/* The run pages of a footer, checked; the caller frees. NULL: no runs, or *status says why. */
static uint8_t *run_pages(wk_engine *engine, wk_store_file *file, uint64_t *first, uint64_t *last, wk_status *status) {
	const wk_footer *footer = &file->footer;
	*status = WK_OK;
	if (footer->runs_count == 0)
		return NULL;
	*first = wk_footer_run_page(footer, 0);
	*last = wk_footer_run_page(footer, footer->runs_count - 1);
	uint8_t *pages = read_pages(engine, file, *first, (size_t)(*last - *first) + WK_PAGE_SIZE);
	*status = pages != NULL ? WK_OK : WK_IO;
	uint32_t seen = 0;
	wk_footer_run runs[WK_PAGE_RUNS];
	for (uint64_t at = *first; at <= *last && *status == WK_OK; at += WK_PAGE_SIZE) {
		uint32_t count;
		*status = wk_footer_runs(footer, pages + (at - *first), at, runs, &count);
		seen += *status == WK_OK ? count : 0;
	}
	if (*status == WK_OK && seen != footer->runs_count)
		*status = WK_CORRUPT;
	if (*status == WK_OK)
		return pages;
	free(pages);
	return NULL;
}

/* The states of a footer, checked; the caller frees. NULL: none, or *status says why. */
static wk_footer_state *read_states(wk_engine *engine, wk_store_file *file, wk_status *status) {
	const wk_footer *footer = &file->footer;
	*status = WK_OK;
	if (footer->states_count == 0)
		return NULL;
	uint64_t first = wk_footer_state_page(footer, 0), last = wk_footer_state_page(footer, footer->states_count - 1);
	uint8_t *pages = read_pages(engine, file, first, (size_t)(last - first) + WK_PAGE_SIZE);
	wk_footer_state *states = malloc(((size_t)footer->states_count + WK_PAGE_STATES) * sizeof *states);
	*status = pages == NULL ? WK_IO : states == NULL ? WK_NO_MEMORY : WK_OK;
	uint32_t seen = 0, count;
	for (uint64_t at = first; at <= last && *status == WK_OK; at += WK_PAGE_SIZE) {
		*status = wk_footer_states(footer, pages + (at - first), at, states + seen, &count);
		seen += *status == WK_OK ? count : 0;
	}
	free(pages);
	if (*status == WK_OK)
		return states;
	free(states);
	return NULL;
}

/* Items are read when they are needed; an open that accepts loss looks at them first, as blocks can stand in for them. */
static wk_status check_items(wk_engine *engine, wk_store_file *file) {
	const wk_footer *footer = &file->footer;
	if (footer->items_count == 0)
		return WK_OK;
	uint64_t first = wk_footer_item_page(footer, 0), last = wk_footer_item_page(footer, footer->items_count - 1);
	uint8_t *pages = read_pages(engine, file, first, (size_t)(last - first) + WK_PAGE_SIZE);
	wk_footer_item items[WK_PAGE_ITEMS];
	wk_status status = pages != NULL ? WK_OK : WK_IO;
	uint32_t count;
	for (uint64_t at = first; at <= last && status == WK_OK; at += WK_PAGE_SIZE)
		status = wk_footer_items(footer, pages + (at - first), at, items, &count);
	free(pages);
	return status;
}

wk_status wk_store_file_check_pages(wk_engine *engine, wk_store_file *file) {
	uint64_t first, last;
	wk_status status;
	free(run_pages(engine, file, &first, &last, &status));
	if (status == WK_OK)
		free(read_states(engine, file, &status));
	return status == WK_OK ? check_items(engine, file) : status;
}

wk_status wk_store_file_load_runs(wk_engine *engine, wk_store_file *file) {
	uint64_t first, last;
	wk_status status;
	/* All pages are checked before the first run is believed: a footer counts as a whole or not at all. */
	uint8_t *pages = run_pages(engine, file, &first, &last, &status);
	wk_footer_state *states = status == WK_OK ? read_states(engine, file, &status) : NULL;
	/*
	 * Deletes first: they mean what stands in earlier files. What this one held of the ledger before it was deleted is
	 * not in its footer.
	 */
	for (uint32_t i = 0; states != NULL && i < file->footer.states_count && status == WK_OK; i++)
		if (states[i].type == WK_BLOCK_DELETE)
			status = wk_ledger_delete_apply(engine, file, &states[i]);
	wk_footer_run *runs = status == WK_OK ? malloc(((size_t)file->footer.runs_count + WK_PAGE_RUNS) * sizeof *runs)
	                                      : NULL;
	if (status == WK_OK && runs == NULL)
		status = WK_NO_MEMORY;
	uint32_t seen = 0, count = 0;
	for (uint64_t at = first; pages != NULL && at <= last && status == WK_OK; at += WK_PAGE_SIZE, seen += count)
		status = wk_footer_runs(&file->footer, pages + (at - first), at, runs + seen, &count);
	if (status == WK_OK)
		status = wk_ledger_add_runs(engine, file, runs, seen, false);
	free(runs);
	for (uint32_t i = 0; states != NULL && i < file->footer.states_count && status == WK_OK; i++)
		status = wk_ledger_state_apply(engine, &states[i]);
	free(states);
	free(pages);
	return status;
}
