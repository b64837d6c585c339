#include "engine/index/read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "engine/index/block_cache.h"
#include "engine/index/lookup.h"
#include "engine/index/read_ahead.h"
#include "engine/index/store_file.h"
#include "engine/ledger.h"
#include "walkeeper/entry.h"

enum { PIECE_BESIDE_WRITER = 128 * 1024 }; /* of a read from the disk */
enum { GAP_MAX = 64 * 1024 }; /* other ledgers' bytes that are read along rather than asked for in two reads */

/* Where the wanted entries stand, copied out of the index so that the lock can go. */
typedef struct places {
	wk_store_file *file; /* pinned */
	bool sealed;
	int64_t first;
	uint32_t count;
	wk_footer_item items[WK_SPAN_ENTRIES_MAX];
} places;

static void unpin(wk_engine *engine, wk_store_file *file) {
	wk_engine_lock(engine);
	wk_store_file_unpin(engine, file);
	wk_engine_unlock(engine);
}

static wk_status locate(wk_engine *engine, int64_t ledger_id, int64_t first, int64_t last, enum wk_lookup_scope scope,
                        places *found, wk_error *error) {
	wk_stretch stretch;
	wk_status status = wk_lookup(engine, ledger_id, first, last, scope, found->items, WK_SPAN_ENTRIES_MAX, &stretch,
	                             error);
	bool nowhere = status == WK_OK && stretch.file == NULL;
	if (status == WK_NOT_FOUND || (nowhere && wk_engine_holds_ledgers(engine))) /* whose user writes what it likes */
		return wk_fail(error, WK_NOT_FOUND, "ledger %lld has no entry %lld", (long long)ledger_id, (long long)first);
	if (status != WK_OK)
		return status;
	if (nowhere)
		return wk_fail(error, WK_DAMAGED, "entry %lld of ledger %lld is in no file of %s: a file is missing",
		               (long long)first, (long long)ledger_id, engine->path);
	int64_t count = stretch.last_entry - first + 1;
	found->file = stretch.file;
	found->sealed = stretch.sealed;
	found->first = first;
	found->count = count < WK_SPAN_ENTRIES_MAX ? (uint32_t)count : WK_SPAN_ENTRIES_MAX;
	if (stretch.sealed)
		status = wk_lookup_items(engine, found->file, stretch.first_item, found->count, scope, found->items, error);
	if (status != WK_OK)
		unpin(engine, found->file);
	return status;
}

static wk_status damaged(wk_engine *engine, const places *found, uint32_t i, int64_t ledger_id, wk_error *error) {
	wk_fail(error, WK_DAMAGED,
	        "entry %lld of ledger %lld, at offset %u of %s of %s, is damaged: its bytes are not those that were "
	        "acknowledged. `walkeeper verify` counts all damage; %s",
	        (long long)(found->first + i), (long long)ledger_id, found->items[i].offset,
	        wk_file_name_of(found->file->id, found->file->kind).text, engine->path,
	        wk_engine_holds_ledgers(engine) ? WK_LEDGERS_REMEDY : "`walkeeper recover` salvages the rest into a copy");
	if (error != NULL) {
		error->ledger_id = ledger_id;
		error->entry_id = found->first + i;
	}
	return WK_DAMAGED;
}

/* Takes over the entries that stand wholly in the buffer, whose first byte is `base` of the file. */
static wk_status fill(wk_engine *engine, const places *found, uint32_t count, uint64_t base, int64_t ledger_id,
                      bool verify, wk_span *span, wk_error *error) {
	span->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t offset = (uint32_t)(found->items[i].offset - base), size = found->items[i].size;
		wk_entry entry;
		const uint8_t *bytes = span->buffer->bytes + offset;
		wk_status whole = !verify ? WK_OK
		                  : wk_engine_holds_ledgers(engine)
		                      ? wk_summed_entry_decode(bytes, size, &entry.ledger_id, &entry.entry_id)
		                      : wk_entry_decode(bytes, size, &entry);
		if (verify && (whole != WK_OK || entry.ledger_id != ledger_id || entry.entry_id != found->first + i)) {
			if (i > 0)
				return WK_OK; /* the good ones first; the damage is met again when it is its turn */
			return damaged(engine, found, i, ledger_id, error);
		}
		span->entries[span->count++] = (wk_span_entry){found->first + i, offset, size};
	}
	return WK_OK;
}

static bool from_memtable(wk_engine *engine, const places *found, wk_span *span, uint32_t *count, uint64_t *base) {
	size_t at, available;
	wk_engine_lock(engine);
	span->buffer = wk_block_cache_get(engine->memtable, found->file->id, found->items[0].offset, found->items[0].size,
	                                  &at, &available);
	wk_engine_unlock(engine);
	if (span->buffer == NULL)
		return false;
	*base = found->items[0].offset - at;
	uint64_t end = found->items[0].offset + available;
	*count = 1;
	while (*count < found->count && found->items[*count].offset + (uint64_t)found->items[*count].size <= end &&
	       found->items[*count].offset > found->items[*count - 1].offset)
		(*count)++;
	return true;
}

/* Copied: else a small read would hold, and count as, a whole window. */
static bool copy_from(const wk_buffer *window, size_t at, size_t size, wk_span *span) {
	span->buffer = wk_buffer_new(NULL, size);
	if (span->buffer != NULL)
		memcpy(span->buffer->bytes, window->bytes + at, size);
	return span->buffer != NULL;
}

/* Of a window that is there, or of a new one where the reader goes on from entry to entry; false: of neither. */
static bool from_window(wk_engine *engine, wk_store_file *file, const wk_ahead_read *wanted, wk_span *span) {
	size_t at;
	wk_buffer *window = wk_read_ahead_get(engine->ahead, wanted, &at);
	if (window != NULL) {
		bool copied = copy_from(window, at, wanted->size, span);
		wk_buffer_release(window);
		return copied;
	}
	size_t size = wk_read_ahead_size(engine->ahead, wanted);
	if (size <= wanted->size)
		return false;
	uint64_t left = file->size / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT - wanted->offset;
	size = size < left ? size : (size_t)left;
	window = wk_buffer_new(NULL, size);
	bool whole = window != NULL && engine->io->operations->pread(engine->io, file->handle, window->bytes, size,
	                                                             wanted->offset) == (int64_t)size;
	bool copied = whole && copy_from(window, 0, wanted->size, span);
	if (!whole) {
		wk_buffer_release(window);
		window = NULL;
	}
	wk_read_ahead_put(engine->ahead, wanted, window, size);
	return copied;
}

/* The disk does a read whole: a durable write that comes meanwhile waits behind all of it. */
static int64_t read_in_pieces(wk_engine *engine, wk_store_file *file, uint8_t *bytes, size_t size, uint64_t start) {
	size_t done = 0, most = wk_engine_is_written(engine) ? PIECE_BESIDE_WRITER : size;
	while (done < size) {
		size_t part = size - done < most ? size - done : most;
		int64_t result = engine->io->operations->pread(engine->io, file->handle, bytes + done, part, start + done);
		if (result < 0)
			return result;
		done += (size_t)result;
		if (result != (int64_t)part)
			break;
	}
	return (int64_t)done;
}

/* *ahead: try a window first; then, whether it was one. */
static wk_status from_file(wk_engine *engine, const places *found, int64_t ledger_id, size_t max_bytes, bool *ahead,
                           wk_span *span, uint32_t *count, uint64_t *base, wk_error *error) {
	uint64_t start = found->items[0].offset / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT;
	uint64_t end = found->items[0].offset + (uint64_t)found->items[0].size;
	*count = 1;
	while (*count < found->count) {
		const wk_footer_item *item = &found->items[*count];
		uint64_t item_end = item->offset + (uint64_t)item->size;
		if (item->offset < end || item->offset > end + GAP_MAX || item_end > start + max_bytes ||
		    item_end > found->file->size)
			break;
		end = item_end;
		(*count)++;
	}
	size_t size = (size_t)((end - start + WK_IO_ALIGNMENT - 1) / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT);
	uint32_t least = wk_engine_holds_ledgers(engine) ? WK_SUM_SIZE : WK_ENTRY_HEADER_SIZE;
	if (end > found->file->size || found->items[0].size < least)
		return damaged(engine, found, 0, ledger_id, error);
	*base = start;
	wk_ahead_read wanted = {ledger_id, found->first, found->first + *count - 1, found->file->id, start, size};
	*ahead = *ahead && from_window(engine, found->file, &wanted, span);
	if (*ahead)
		return WK_OK;
	/* A small read in a buffer of the pool would hold, and count as, many times its size. */
	span->buffer = wk_buffer_new(size > engine->read_pool->capacity / 8 ? engine->read_pool : NULL, size);
	if (span->buffer == NULL)
		return wk_fail(error, WK_NO_MEMORY, "reading %zu bytes: no memory", size);
	int64_t result = read_in_pieces(engine, found->file, span->buffer->bytes, size, start);
	if (result == (int64_t)size)
		return WK_OK;
	wk_buffer_release(span->buffer);
	span->buffer = NULL;
	if (result < 0)
		return wk_fail_io(error, (int)result, "reading %zu bytes at offset %llu of %s of %s", size,
		                  (unsigned long long)start, wk_file_name_of(found->file->id, found->file->kind).text,
		                  engine->path);
	return wk_fail(error, WK_DAMAGED, "%s of %s ends before offset %llu: it was cut short",
	               wk_file_name_of(found->file->id, found->file->kind).text, engine->path, (unsigned long long)end);
}

bool wk_is_unreadable(wk_status status, const wk_error *error) {
	if (status != WK_IO)
		return status == WK_DAMAGED;
	switch (
	    error->system_error) { /* the kernel's words for a medium that fails: ENODATA is a sector that cannot be read */
	case EIO:
	case ENODATA:
	case EILSEQ:
	case EREMOTEIO:
	case EBADMSG:
	case EUCLEAN:
		return true;
	default:
		return false;
	}
}

/* One read fails for all that it asks for: half as many, then, until it is the first entry that cannot be read. */
static wk_status from_readable(wk_engine *engine, places *found, int64_t ledger_id, size_t max_bytes, bool *ahead,
                               wk_span *span, uint32_t *count, uint64_t *base, wk_error *error) {
	wk_error own = {0};
	error = error != NULL ? error : &own;
	for (;;) {
		wk_status status = from_file(engine, found, ledger_id, max_bytes, ahead, span, count, base, error);
		if (!wk_is_unreadable(status, error) || *count == 1)
			return status;
		found->count = *count / 2;
		wk_error_clear(error);
	}
}

enum purpose { VERIFIED, VERIFIED_AHEAD, UNVERIFIED };

static wk_status read_entries(wk_engine *engine, int64_t ledger_id, int64_t first, int64_t last, size_t max_bytes,
                              enum purpose purpose, wk_span *span, wk_error *error) {
	bool verify = purpose != UNVERIFIED;
	places *found = malloc(sizeof *found);
	span->buffer = NULL;
	span->count = 0;
	if (found == NULL)
		return wk_fail(error, WK_NO_MEMORY, "reading ledger %lld: no memory", (long long)ledger_id);
	wk_status status = locate(engine, ledger_id, first, last, WK_LOOKUP_READABLE, found, error);
	if (status == WK_OK) {
		uint32_t count = 0;
		uint64_t base = 0;
		bool cached = from_memtable(engine, found, span, &count, &base);
		/* Only of what stays as it is. A ledger store is never followed: what becomes of its files is known here. */
		bool ahead = !cached && found->sealed && purpose == VERIFIED_AHEAD;
		if (!cached)
			status = from_readable(engine, found, ledger_id, max_bytes, &ahead, span, &count, &base, error);
		if (status == WK_OK)
			status = fill(engine, found, count, base, ledger_id, verify && !cached, span, error);
		if (status == WK_DAMAGED && ahead) { /* in the window: what does the file say? */
			wk_read_ahead_drop_file(engine->ahead, found->file->id);
			wk_buffer_release(span->buffer);
			span->buffer = NULL;
			ahead = false;
			wk_error_clear(error);
			status = from_readable(engine, found, ledger_id, max_bytes, &ahead, span, &count, &base, error);
			if (status == WK_OK)
				status = fill(engine, found, count, base, ledger_id, verify, span, error);
		}
		unpin(engine, found->file);
	}
	if (status != WK_OK) {
		wk_buffer_release(span->buffer);
		span->buffer = NULL;
	}
	free(found);
	return status;
}

wk_status wk_read_entries(wk_engine *engine, int64_t ledger_id, int64_t first, int64_t last, size_t max_bytes,
                          wk_span *span, wk_error *error) {
	return read_entries(engine, ledger_id, first, last, max_bytes, VERIFIED, span, error);
}

wk_status wk_read_entries_ahead(wk_engine *engine, int64_t ledger_id, int64_t first, int64_t last, size_t max_bytes,
                                wk_span *span, wk_error *error) {
	return read_entries(engine, ledger_id, first, last, max_bytes, VERIFIED_AHEAD, span, error);
}

wk_status wk_read_entries_cached(wk_engine *engine, int64_t ledger_id, int64_t first, int64_t last, wk_span *span) {
	places *found = malloc(sizeof *found);
	span->buffer = NULL;
	span->count = 0;
	if (found == NULL)
		return WK_WOULD_BLOCK;
	wk_status status = locate(engine, ledger_id, first, last, WK_LOOKUP_CACHED, found, NULL);
	if (status == WK_OK) {
		uint32_t count = 0;
		uint64_t base = 0;
		status = from_memtable(engine, found, span, &count, &base) ? WK_OK : WK_WOULD_BLOCK;
		if (status == WK_OK)
			status = fill(engine, found, count, base, ledger_id, false, span, NULL);
		unpin(engine, found->file);
	}
	free(found);
	return status == WK_OK ? WK_OK : WK_WOULD_BLOCK;
}

wk_status wk_read_entry_unverified(wk_engine *engine, int64_t ledger_id, int64_t entry_id, wk_span *span,
                                   wk_error *error) {
	return read_entries(engine, ledger_id, entry_id, entry_id, 0, UNVERIFIED, span, error);
}
