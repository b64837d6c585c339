#include "engine/index/entry_log_places.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "engine/index/lookup.h"
#include "walkeeper/entry.h"

enum { IDS_SIZE = 16, WINDOW = 8 * 1024 * 1024 };
static_assert(WINDOW >= WK_ENTRY_SIZE_MAX + IDS_SIZE + WK_IO_ALIGNMENT, "an entry and the next one's ids fit");

/* ---- the bytes ---- */

typedef struct window {
	wk_engine *engine;
	wk_store_file *file;
	uint8_t *bytes;
	uint64_t start, end; /* of the file */
} window;

/* From `offset` on as many bytes as an entry with the next one's ids can take, or all that there are. */
static wk_status slide(window *w, uint64_t offset, wk_error *error) {
	uint64_t last = w->file->footer.end_offset, wanted = offset + WK_ENTRY_SIZE_MAX + IDS_SIZE;
	wanted = wanted < last ? wanted : last;
	if (w->end >= wanted && w->start <= offset && w->end > 0)
		return WK_OK;
	w->start = offset / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT;
	uint64_t left = (last - w->start + WK_IO_ALIGNMENT - 1) / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT;
	size_t size = left < WINDOW ? (size_t)left : WINDOW;
	int64_t result = w->engine->io->operations->pread(w->engine->io, w->file->handle, w->bytes, size, w->start);
	if (result < 0)
		return wk_fail_io(error, (int)result, "reading %zu bytes at offset %llu of %s of %s", size,
		                  (unsigned long long)w->start, wk_file_name_of(w->file->id, w->file->kind).text,
		                  w->engine->path);
	w->end = w->start + (uint64_t)result;
	w->end = w->end < last ? w->end : last;
	return WK_OK;
}

/* ---- one entry ---- */

typedef struct ids {
	int64_t ledger_id, entry_id;
} ids;

static bool is_whole(const uint8_t *bytes, size_t size, ids own) {
	wk_entry entry;
	return wk_entry_decode(bytes, size, &entry) == WK_OK && entry.ledger_id == own.ledger_id &&
	       entry.entry_id == own.entry_id;
}

/*
 * The size of the entry that begins the bytes: up to where the next one's ids stand, or (next NULL) all of them. Where
 * no size fits its digest it is damaged itself, and ends at the first such place. 0: there is none.
 */
static size_t size_of(const uint8_t *bytes, size_t available, ids own, const ids *next) {
	if (next == NULL)
		return available;
	uint8_t wanted[IDS_SIZE];
	wk_store_be64(wanted, (uint64_t)next->ledger_id);
	wk_store_be64(wanted + 8, (uint64_t)next->entry_id);
	size_t first = 0;
	for (size_t at = WK_ENTRY_HEADER_SIZE; at + IDS_SIZE <= available; at++) {
		const uint8_t *found = memmem(bytes + at, available - at, wanted, IDS_SIZE);
		if (found == NULL)
			break;
		at = (size_t)(found - bytes);
		if (is_whole(bytes, at, own))
			return at;
		first = first == 0 ? at : first;
	}
	return first;
}

/* ---- all of them ---- */

/* Which entry an item is, from the runs; items are asked for in order. */
typedef struct order {
	wk_engine *engine;
	wk_run_cursor cursor;
	const wk_footer_run *run;
} order;

static wk_status ids_of(order *o, uint32_t item, ids *found, wk_error *error) {
	wk_status status = WK_OK;
	while (status == WK_OK && (o->run == NULL || item >= o->run->first_item + o->run->count)) {
		o->run = wk_run_next(o->engine, &o->cursor, &status, error);
		if (o->run == NULL && status == WK_OK)
			status = WK_DAMAGED;
	}
	if (status == WK_OK)
		*found = (ids){o->run->ledger_id, o->run->first_entry + (item - o->run->first_item)};
	return status;
}

static wk_status walk(window *w, order *o, uint32_t item, uint32_t count, uint64_t start, wk_footer_item *items,
                      wk_error *error) {
	ids own, next;
	wk_status status = ids_of(o, item, &own, error);
	for (uint32_t i = 0; i < count && status == WK_OK; i++) {
		bool last = item + i + 1 == w->file->footer.items_count;
		if (!last)
			status = ids_of(o, item + i + 1, &next, error);
		if (status == WK_OK)
			status = slide(w, start, error);
		if (status != WK_OK)
			return status;
		size_t size = start < w->end
		                  ? size_of(w->bytes + (start - w->start), (size_t)(w->end - start), own, last ? NULL : &next)
		                  : 0;
		if (size == 0)
			return WK_DAMAGED;
		items[i] = (wk_footer_item){(uint32_t)start, (uint32_t)size};
		start += size;
		own = next;
	}
	return status;
}

wk_status wk_entry_log_places(wk_engine *engine, wk_store_file *file, uint32_t item, uint32_t count, uint64_t start,
                              wk_footer_item *items, wk_error *error) {
	uint64_t all = (file->footer.end_offset + WK_IO_ALIGNMENT - 1) / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT;
	window w = {
	    .engine = engine, .file = file, .bytes = aligned_alloc(WK_IO_ALIGNMENT, all < WINDOW ? (size_t)all : WINDOW)};
	order *o = calloc(1, sizeof *o);
	wk_status status = WK_NO_MEMORY;
	if (w.bytes != NULL && o != NULL) {
		o->engine = engine;
		o->cursor = (wk_run_cursor){.file = file, .end = file->footer.runs_count};
		status = walk(&w, o, item, count, start, items, error);
	}
	free(o);
	free(w.bytes);
	return status;
}
