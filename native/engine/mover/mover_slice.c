#include "engine/mover/mover_slice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/index.h"
#include "engine/ledger.h"

enum {
	STEP_BYTES = 1 << 20,
	GAP_MAX = 64 * 1024, /* bytes of others that are read along rather than asked for in two reads */
	FINDS_MAX = 64,      /* a step: what is not in the ledger cache is a read each */
	FOUND_MAX = 1024,    /* entries of one find */
};

uint64_t wk_slice_memory(const wk_slice *slice) {
	return (slice->bytes != NULL ? slice->size : 0) + slice->capacity * sizeof *slice->entries;
}

void wk_slice_free(wk_slice *slice) {
	free(slice->entries);
	free(slice->bytes);
	slice->entries = NULL;
	slice->bytes = NULL;
	slice->count = slice->capacity = slice->next = 0;
	slice->size = 0;
	slice->state = WK_SLICE_EMPTY;
}

/* ---- where they stand ---- */

static bool is_full(const wk_slice *slice, uint32_t size) {
	return slice->count > 0 &&
	       slice->size + size + (slice->count + (uint64_t)1) * sizeof *slice->entries > slice->memory;
}

static bool note_entry(wk_slice *slice, wk_slice_entry entry) {
	if (slice->count == slice->capacity) {
		uint32_t capacity = slice->capacity == 0 ? 1024 : slice->capacity * 2;
		wk_slice_entry *entries = realloc(slice->entries, capacity * sizeof *entries);
		if (entries == NULL)
			return false;
		slice->entries = entries;
		slice->capacity = capacity;
	}
	entry.to = slice->size;
	slice->size += entry.size;
	slice->entries[slice->count++] = entry;
	return true;
}

/* The entries of one stretch of a victim, as many as there is memory for. */
static int note_stretch(wk_slice *slice, const wk_stretch *stretch, uint32_t victim, wk_piece *piece, uint32_t number,
                        bool *full) {
	wk_footer_item items[FOUND_MAX];
	int64_t all = stretch->last_entry - piece->next + 1;
	uint32_t count = all < FOUND_MAX ? (uint32_t)all : FOUND_MAX;
	wk_error error = {0};
	wk_status status = wk_lookup_items(slice->engine, stretch->file, stretch->first_item, count, WK_LOOKUP_ALL, items,
	                                   &error);
	if (wk_is_unreadable(status, &error)) { /* a page of items: where the entry stands is not known */
		piece->left = true;
		piece->next++;
		return 0;
	}
	if (status != WK_OK)
		return error.system_error != 0 ? -error.system_error : -ENOMEM;
	for (uint32_t i = 0; i < count && !(*full = is_full(slice, items[i].size)); i++, piece->next++) {
		if (!note_entry(slice, (wk_slice_entry){.ledger_id = piece->ledger_id,
		                                        .entry_id = piece->next,
		                                        .offset = items[i].offset,
		                                        .size = items[i].size,
		                                        .victim = victim,
		                                        .piece = number}))
			return -ENOMEM;
	}
	return 0;
}

/* What has a newer place elsewhere is passed over; behind a page of runs that cannot be read nobody knows what is there. */
static int find_some(wk_slice *slice, wk_piece *piece, uint32_t number, bool *full) {
	wk_error error = {0};
	wk_stretch stretch;
	wk_status status = wk_lookup(slice->engine, piece->ledger_id, piece->next, piece->last, WK_LOOKUP_ALL, NULL, 0,
	                             &stretch, &error);
	if (wk_is_unreadable(status, &error)) {
		piece->left = true;
		piece->next = piece->last + 1;
		return 0;
	}
	if (status == WK_NOT_FOUND) { /* deleted between the two looks */
		piece->next = piece->last + 1;
		return 0;
	}
	if (status != WK_OK)
		return error.system_error != 0 ? -error.system_error : -ENOMEM;
	uint32_t victim = wk_victims_find(slice->victims, stretch.file);
	int result = 0;
	if (victim < slice->victims->count)
		result = note_stretch(slice, &stretch, victim, piece, number, full);
	else
		piece->next = stretch.last_entry < piece->last ? stretch.last_entry + 1 : piece->last + 1;
	wk_stretch_release(slice->engine, &stretch);
	return result;
}

static int by_position(const void *a, const void *b) {
	const wk_slice_entry *x = a, *y = b;
	if (x->victim != y->victim)
		return x->victim < y->victim ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_place(const void *a, const void *b) {
	const wk_slice_entry *x = a, *y = b;
	return (x->to > y->to) - (x->to < y->to);
}

static int find(wk_slice *slice, wk_pieces *pieces, size_t *next) {
	bool full = false;
	int result = 0;
	for (uint32_t finds = 0; finds < FINDS_MAX && !full && *next < pieces->count; finds++) {
		wk_piece *piece = &pieces->list[*next];
		if (!wk_piece_is_wanted(slice->engine, piece)) {
			++*next;
			continue;
		}
		if ((result = find_some(slice, piece, (uint32_t)*next, &full)) < 0)
			return result;
	}
	if (!full && *next < pieces->count)
		return 0;
	slice->bytes = malloc(slice->size > 0 ? slice->size : 1);
	if (slice->bytes == NULL)
		return -ENOMEM;
	if (slice->count > 1)
		qsort(slice->entries, slice->count, sizeof *slice->entries, by_position);
	slice->state = WK_SLICE_READS;
	slice->next = 0;
	return 0;
}

/* ---- reading ---- */

/* How many entries from the first on one read brings. */
static uint32_t together(const wk_slice_entry *entries, uint32_t most) {
	uint64_t start = entries[0].offset, end = start + entries[0].size;
	uint32_t count = 1;
	for (; count < most && entries[count].victim == entries[0].victim; count++) {
		uint64_t to = entries[count].offset + (uint64_t)entries[count].size;
		if (entries[count].offset > end + GAP_MAX || to > start + STEP_BYTES)
			break;
		end = to > end ? to : end;
	}
	return count;
}

static void take_over(wk_slice *slice, wk_slice_entry *entry, const uint8_t *bytes, wk_pieces *pieces) {
	int64_t ledger_id, entry_id;
	bool whole = wk_summed_entry_decode(bytes, entry->size, &ledger_id, &entry_id) == WK_OK &&
	             ledger_id == entry->ledger_id && entry_id == entry->entry_id;
	if (whole) {
		memcpy(slice->bytes + entry->to, bytes, entry->size);
		return;
	}
	entry->size = 0;
	pieces->list[entry->piece].left = true;
}

/*
 * Reads so many entries at once. One read fails for all that it asks for: half as many, then, until it is the entry that
 * cannot be read. It stays where it is.
 */
static int read_together(wk_slice *slice, wk_slice_entry *entries, uint32_t count, wk_pieces *pieces, uint64_t *read) {
	wk_engine *engine = slice->engine;
	wk_store_file *file = slice->victims->files[entries[0].victim];
	uint64_t start = entries[0].offset / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT, end = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t to = entries[i].offset + (uint64_t)entries[i].size;
		end = to > end ? to : end;
	}
	size_t size = (size_t)((end - start + WK_IO_ALIGNMENT - 1) / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT);
	wk_buffer *buffer = wk_buffer_new(engine->read_pool, size);
	if (buffer == NULL)
		return -ENOMEM;
	int64_t result = engine->io->operations->pread(engine->io, file->handle, buffer->bytes, size, start);
	*read += size;
	bool unreadable = result >= 0 ? result < (int64_t)size
	                              : wk_is_unreadable(WK_IO, &(wk_error){.system_error = (int)-result});
	for (uint32_t i = 0; i < count && result == (int64_t)size; i++)
		take_over(slice, &entries[i], buffer->bytes + (entries[i].offset - start), pieces);
	wk_buffer_release(buffer);
	if (result == (int64_t)size)
		return 0;
	if (!unreadable)
		return (int)result;
	if (count == 1) {
		entries[0].size = 0;
		pieces->list[entries[0].piece].left = true;
		return 0;
	}
	int half = read_together(slice, entries, count / 2, pieces, read);
	return half < 0 ? half : read_together(slice, entries + count / 2, count - count / 2, pieces, read);
}

static int read_some(wk_slice *slice, wk_pieces *pieces, uint64_t *bytes) {
	uint64_t read = 0;
	while (slice->next < slice->count && read < STEP_BYTES) {
		wk_slice_entry *from = &slice->entries[slice->next];
		uint32_t count = together(from, slice->count - slice->next);
		for (uint32_t i = 0; i < count; i++)
			*bytes += from[i].size;
		int result = read_together(slice, from, count, pieces, &read);
		if (result < 0)
			return result;
		slice->next += count;
	}
	if (slice->next == slice->count) {
		if (slice->count > 1)
			qsort(slice->entries, slice->count, sizeof *slice->entries, by_place);
		slice->state = WK_SLICE_WRITES;
		slice->next = 0;
	}
	return 0;
}

/* ---- writing ---- */

static int write_some(wk_slice *slice, wk_entry_log_writer *writer, uint64_t *bytes) {
	for (; slice->next < slice->count && *bytes < STEP_BYTES; slice->next++) {
		const wk_slice_entry *entry = &slice->entries[slice->next];
		if (entry->size == 0)
			continue;
		int result = wk_entry_log_add(writer, entry->ledger_id, entry->entry_id, slice->bytes + entry->to, entry->size);
		if (result < 0)
			return result;
		*bytes += entry->size;
	}
	if (slice->next == slice->count)
		wk_slice_free(slice);
	return 0;
}

int wk_slice_step(wk_slice *slice, wk_pieces *pieces, size_t *next, wk_entry_log_writer *writer, uint64_t *bytes) {
	switch (slice->state) {
	case WK_SLICE_READS:
		return read_some(slice, pieces, bytes);
	case WK_SLICE_WRITES:
		return write_some(slice, writer, bytes);
	default:
		slice->state = WK_SLICE_FINDS;
		return find(slice, pieces, next);
	}
}
