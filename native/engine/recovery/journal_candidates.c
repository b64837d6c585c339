#include "engine/recovery/journal_candidates.h"

#include <stdlib.h>
#include <string.h>

#include "engine/index.h"

struct wk_candidates {
	wk_candidate *list; /* in the order of files and offsets */
	size_t count, capacity;
	size_t first; /* those before are behind the walk */
	bool known;
};

static wk_status add(wk_walk *walk, const wk_candidate *one, uint64_t last_sequence) {
	struct wk_candidates *c = walk->candidates;
	if (c->count == c->capacity) {
		size_t capacity = c->capacity == 0 ? 64 : c->capacity * 2;
		wk_candidate *list = realloc(c->list, capacity * sizeof *list);
		if (list == NULL)
			return WK_NO_MEMORY;
		c->list = list;
		c->capacity = capacity;
	}
	c->list[c->count++] = *one;
	walk->highest = last_sequence > walk->highest ? last_sequence : walk->highest;
	return WK_OK;
}

bool wk_candidates_in_place(const wk_walk *walk, const wk_store_file *file, uint64_t offset,
                            const wk_block_header *header) {
	return header->epoch == file->id && header->offset == offset &&
	       memcmp(header->directory_id, walk->scan.directory_id, sizeof header->directory_id) == 0;
}

static wk_status list_blocks(wk_walk *walk, uint32_t at, uint64_t offset, wk_error *error) {
	wk_store_file *file = walk->engine->files[at];
	wk_journal_reader_file(&walk->reader, file);
	while (offset < file->size) {
		const uint8_t *bytes;
		size_t available;
		wk_block_header header;
		wk_status status = wk_journal_reader_at(&walk->reader, offset, &bytes, &available, error);
		if (status != WK_OK)
			return status;
		if (wk_block_decode(bytes, available, &header) != WK_OK ||
		    !wk_candidates_in_place(walk, file, offset, &header)) {
			offset += WK_BLOCK_ALIGNMENT;
			continue;
		}
		wk_candidate one = {at, false, offset, header.sequence, header.incarnation};
		if (add(walk, &one, header.sequence) != WK_OK)
			return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", walk->engine->path);
		offset += header.size;
	}
	return WK_OK;
}

static wk_status list(wk_walk *walk, uint32_t at, uint64_t offset, wk_error *error) {
	wk_engine *engine = walk->engine;
	wk_status status = WK_OK;
	walk->candidates->count = walk->candidates->first = 0;
	for (uint32_t i = at; i < engine->files_count && status == WK_OK; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind != WK_FILE_JOURNAL || (i == at && file->state == WK_FILE_SEALED))
			continue;
		wk_footer footer;
		wk_status by_footer = WK_CORRUPT;
		if (offset == 0 && !file->unreadable_footer && !engine->options.ignore_footers)
			by_footer = wk_store_footer_peek(engine, file, &footer, error);
		if (by_footer == WK_OK)
			status = add(walk, &(wk_candidate){i, true, 0, footer.first_sequence, footer.incarnation},
			             footer.last_sequence);
		else
			status = by_footer == WK_NO_MEMORY ? by_footer : list_blocks(walk, i, offset, error);
		offset = 0;
	}
	walk->candidates->known = status == WK_OK;
	return status == WK_NO_MEMORY ? wk_fail(error, status, "opening %s: no memory", engine->path) : status;
}

/* Leaves out what is behind the walk. A file that was listed by its footer, and that it went into, must be listed again. */
static void pass(wk_walk *walk, uint32_t at, uint64_t offset) {
	struct wk_candidates *c = walk->candidates;
	bool sealed = walk->engine->files[at]->state == WK_FILE_SEALED;
	for (; c->first < c->count; c->first++) {
		const wk_candidate *one = &c->list[c->first];
		if (one->at > at || (one->at == at && !sealed && one->offset >= offset))
			return;
		c->known &= one->at < at || sealed || !one->by_footer;
	}
}

/* What a later writer wrote instead was cut as a torn tail: it was never acknowledged, and must not come back. */
static bool is_taken_back(const struct wk_candidates *c, const wk_candidate *one) {
	for (size_t i = c->first; i < c->count; i++)
		if (c->list[i].incarnation > one->incarnation && c->list[i].sequence <= one->sequence)
			return true;
	return false;
}

wk_status wk_candidates_choose(wk_walk *walk, uint32_t at, uint64_t offset, wk_candidate *chosen, bool *found,
                               wk_error *error) {
	*found = false;
	if (walk->candidates == NULL)
		walk->candidates = calloc(1, sizeof *walk->candidates);
	struct wk_candidates *c = walk->candidates;
	if (c == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", walk->engine->path);
	if (c->known)
		pass(walk, at, offset);
	wk_status status = c->known ? WK_OK : list(walk, at, offset, error);
	for (size_t i = c->first; i < c->count && status == WK_OK && !*found; i++) {
		*chosen = c->list[i];
		*found = chosen->sequence > walk->scan.sequence && chosen->incarnation >= walk->scan.incarnation &&
		         !is_taken_back(c, chosen);
	}
	return status;
}

void wk_candidates_forget(wk_walk *walk) {
	walk->candidates->known = false;
}

void wk_candidates_free(wk_walk *walk) {
	if (walk->candidates != NULL)
		free(walk->candidates->list);
	free(walk->candidates);
	walk->candidates = NULL;
}
