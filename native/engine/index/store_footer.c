#include "engine/index/store_footer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/index/ledger.h"
#include "engine/index/store_file.h"
#include "engine/ledger.h"

/* Into aligned memory; the caller frees. NULL: *status says why. */
static uint8_t *read_pages(wk_engine *engine, wk_store_file *file, uint64_t offset, size_t size, wk_status *status,
                           wk_error *error) {
	wk_file_name name = wk_file_name_of(file->id, file->kind);
	int opened = wk_store_file_use(engine, file);
	uint8_t *bytes = opened == 0 ? aligned_alloc(WK_PAGE_SIZE, size) : NULL;
	*status = WK_OK;
	if (opened != 0)
		*status = wk_fail_io(error, opened, "opening %s of %s", name.text, engine->path);
	else if (bytes == NULL)
		*status = wk_fail(error, WK_NO_MEMORY, "reading the footer of %s of %s: no memory", name.text, engine->path);
	if (bytes == NULL)
		return NULL;
	int64_t result = engine->io->operations->pread(engine->io, file->handle, bytes, size, offset);
	if (result == (int64_t)size)
		return bytes;
	free(bytes);
	*status = wk_fail_io(error, result < 0 ? (int)result : -EIO, "reading the footer of %s of %s", name.text,
	                     engine->path);
	return NULL;
}

void wk_store_footer_take(wk_store_file *file, const wk_footer *footer) {
	file->footer = *footer;
	file->first_sequence = footer->first_sequence;
	file->last_sequence = footer->last_sequence;
	file->first_previous_crc = footer->first_previous_crc;
	file->last_crc = footer->last_crc;
	file->end_offset = footer->end_offset;
	file->incarnation = footer->incarnation;
}

wk_status wk_store_footer_peek(wk_engine *engine, wk_store_file *file, wk_footer *footer, wk_error *error) {
	wk_status status;
	if (file->size < 2 * WK_PAGE_SIZE)
		return WK_CORRUPT;
	uint8_t *page = read_pages(engine, file, file->size - WK_PAGE_SIZE, WK_PAGE_SIZE, &status, error);
	if (page == NULL)
		return status;
	status = wk_footer_decode(page, footer);
	free(page);
	if (status != WK_OK)
		return status;
	if (footer->file_id != file->id || footer->kind != file->kind || footer->file_size != file->size ||
	    memcmp(footer->directory_id, engine->superblock.directory_id, sizeof footer->directory_id) != 0)
		return WK_CORRUPT; /* of an earlier life of this file */
	return WK_OK;
}

wk_status wk_store_footer_read(wk_engine *engine, wk_store_file *file, wk_error *error) {
	wk_footer footer;
	wk_status status = wk_store_footer_peek(engine, file, &footer, error);
	if (status == WK_OK)
		wk_store_footer_take(file, &footer);
	return status;
}

int wk_store_footer_rewrite(wk_engine *engine, wk_store_file *file) {
	const struct wk_io_operations *io = engine->io->operations;
	uint64_t offset = file->size - WK_PAGE_SIZE;
	wk_footer footer;
	wk_status status;
	wk_error error = {0};
	uint8_t *page = read_pages(engine, file, offset, WK_PAGE_SIZE, &status, &error);
	if (page == NULL)
		return status == WK_NO_MEMORY ? -ENOMEM : -error.system_error;
	int64_t result = wk_footer_decode(page, &footer) == WK_OK && footer.file_id == file->id
	                     ? io->pwrite(engine->io, file->handle, page, WK_PAGE_SIZE, offset, 0)
	                     : -EIO; /* it was whole a moment ago */
	free(page);
	return result < 0 ? (int)result : io->sync(engine->io, file->handle);
}

/* The run pages, checked; the caller frees. NULL: no runs, or *status says why. */
static uint8_t *run_pages(wk_engine *engine, wk_store_file *file, uint64_t *first, uint64_t *last, wk_status *status,
                          wk_error *error) {
	const wk_footer *footer = &file->footer;
	*status = WK_OK;
	if (footer->runs_count == 0)
		return NULL;
	*first = wk_footer_run_page(footer, 0);
	*last = wk_footer_run_page(footer, footer->runs_count - 1);
	uint8_t *pages = read_pages(engine, file, *first, (size_t)(*last - *first) + WK_PAGE_SIZE, status, error);
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

/* The states, checked; the caller frees. NULL: none, or *status says why. */
static wk_footer_state *read_states(wk_engine *engine, wk_store_file *file, wk_status *status, wk_error *error) {
	const wk_footer *footer = &file->footer;
	*status = WK_OK;
	if (footer->states_count == 0)
		return NULL;
	uint64_t first = wk_footer_state_page(footer, 0), last = wk_footer_state_page(footer, footer->states_count - 1);
	uint8_t *pages = read_pages(engine, file, first, (size_t)(last - first) + WK_PAGE_SIZE, status, error);
	wk_footer_state *states = NULL;
	if (*status == WK_OK) {
		states = malloc(((size_t)footer->states_count + WK_PAGE_STATES) * sizeof *states);
		*status = states != NULL ? WK_OK : WK_NO_MEMORY;
	}
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
static wk_status check_items(wk_engine *engine, wk_store_file *file, wk_error *error) {
	const wk_footer *footer = &file->footer;
	wk_status status;
	if (footer->items_count == 0)
		return WK_OK;
	uint64_t first = wk_footer_item_page(footer, 0), last = wk_footer_item_page(footer, footer->items_count - 1);
	uint8_t *pages = read_pages(engine, file, first, (size_t)(last - first) + WK_PAGE_SIZE, &status, error);
	wk_footer_item items[WK_PAGE_ITEMS];
	uint32_t count;
	for (uint64_t at = first; at <= last && status == WK_OK; at += WK_PAGE_SIZE)
		status = wk_footer_items(footer, pages + (at - first), at, items, &count);
	free(pages);
	return status;
}

/* What found no memory deeper down gets its text here. */
static wk_status explained(const wk_engine *engine, const wk_store_file *file, wk_status status, wk_error *error) {
	return status != WK_NO_MEMORY ? status
	                              : wk_fail(error, status, "reading the footer of %s of %s: no memory",
	                                        wk_file_name_of(file->id, file->kind).text, engine->path);
}

wk_status wk_store_footer_check(wk_engine *engine, wk_store_file *file, wk_error *error) {
	uint64_t first, last;
	wk_status status;
	free(run_pages(engine, file, &first, &last, &status, error));
	if (status == WK_OK)
		free(read_states(engine, file, &status, error));
	return explained(engine, file, status == WK_OK ? check_items(engine, file, error) : status, error);
}

wk_status wk_store_footer_load(wk_engine *engine, wk_store_file *file, wk_error *error) {
	uint64_t first, last;
	wk_status status;
	/* All pages are checked before the first run is believed: a footer counts as a whole or not at all. */
	uint8_t *pages = run_pages(engine, file, &first, &last, &status, error);
	wk_footer_state *states = status == WK_OK ? read_states(engine, file, &status, error) : NULL;
	wk_footer_run *runs = NULL;
	if (status == WK_OK) {
		runs = malloc(((size_t)file->footer.runs_count + WK_PAGE_RUNS) * sizeof *runs);
		status = runs != NULL ? WK_OK : WK_NO_MEMORY;
	}
	/*
	 * Deletes first: they mean what stands in earlier files. What this one held of the ledger before it was deleted is
	 * not in its footer.
	 */
	for (uint32_t i = 0; states != NULL && i < file->footer.states_count && status == WK_OK; i++)
		if (states[i].type == WK_BLOCK_DELETE)
			status = wk_ledger_delete_apply(engine, file, &states[i]);
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
	return explained(engine, file, status, error);
}
