#include "engine/recovery/tail_scan.h"

#include <stdlib.h>
#include <string.h>

#include "engine/follower.h"
#include "engine/index.h"

/* ---- what stands behind the end of the chain ---- */

void wk_tail_scan_note_cut(wk_walk *s, const wk_store_file *file, uint64_t offset, const uint8_t *bytes,
                           size_t available) {
	wk_block_header header;
	s->cut_bytes = wk_block_peek(bytes, available, &header) == WK_OK ? header.size : WK_BLOCK_ALIGNMENT;
	s->cut_file = file->id;
	s->cut_offset = offset;
}

static bool has_witness(const wk_walk *s) {
	return wk_scan_damaged(&s->scan);
}

static bool has_witness_and_later(const wk_walk *s) {
	return has_witness(s) && s->highest > s->scan.sequence;
}

/* Until it is enough: where every other block is damaged, each asks what stands behind it. */
static wk_status gather(wk_walk *s, wk_store_file *file, uint64_t offset, bool (*is_enough)(const wk_walk *),
                        wk_error *error) {
	wk_journal_reader_file(&s->reader, file);
	for (uint64_t at = offset; at < file->size && !is_enough(s);) {
		const uint8_t *bytes;
		size_t available;
		wk_status status = wk_journal_reader_at(&s->reader, at, &bytes, &available, error);
		if (status != WK_OK)
			return status;
		wk_block_header header;
		if (wk_block_decode(bytes, available, &header) == WK_OK && header.epoch == file->id && header.offset == at) {
			wk_scan_later(&s->scan, &header);
			s->highest = header.sequence > s->highest ? header.sequence : s->highest;
			if (header.sequence > s->scan.sequence && s->leftovers_count < WK_LEFTOVERS_MAX)
				s->leftovers[s->leftovers_count++] = (wk_leftover){file, at};
			at += header.size;
		} else {
			at += WK_BLOCK_ALIGNMENT;
		}
	}
	return WK_OK;
}

wk_status wk_tail_scan_gather(wk_walk *s, wk_store_file *file, uint64_t offset, wk_error *error) {
	return gather(s, file, offset, has_witness, error);
}

bool wk_tail_scan_counts(const wk_engine *engine, const wk_store_file *file) {
	bool came_back = file->id < engine->index.mark && file->footer.file_id != file->id;
	return file->kind == WK_FILE_JOURNAL && !came_back;
}

wk_status wk_tail_scan_of_next(wk_walk *s, wk_store_file *file, uint64_t offset, bool *broken, bool *whole,
                               wk_error *error) {
	wk_scan probe = s->scan;
	wk_block_header header;
	const uint8_t *bytes;
	size_t available;
	wk_scan_file(&probe, file->id);
	probe.offset = offset;
	wk_journal_reader_file(&s->reader, file);
	*broken = false;
	wk_status status = offset < file->size ? wk_journal_reader_at(&s->reader, offset, &bytes, &available, error)
	                                       : WK_OK;
	if (status == WK_OK && offset < file->size)
		*broken = wk_scan_block(&probe, bytes, available, &header) == WK_SCAN_BROKEN;
	if (*broken && s->cut_bytes == 0)
		wk_tail_scan_note_cut(s, file, offset, bytes, available);
	if (status != WK_OK || whole == NULL)
		return status;
	uint64_t highest = s->highest;
	s->highest = 0;
	status = gather(s, file, offset, has_witness_and_later, error);
	*whole = s->highest > s->scan.sequence;
	s->highest = highest > s->highest ? highest : s->highest;
	return status;
}

wk_status wk_tail_scan_witness(wk_walk *s, uint32_t at, wk_error *error) {
	wk_status status = WK_OK;
	for (; at < s->engine->files_count && status == WK_OK && !wk_scan_damaged(&s->scan); at++)
		if (wk_tail_scan_counts(s->engine, s->engine->files[at]))
			status = wk_tail_scan_gather(s, s->engine->files[at], 0, error);
	return status;
}

bool wk_tail_scan_are_missing(const wk_walk *s, uint64_t last, uint64_t first) {
	uint64_t accounted = wk_superblock_accounted(&s->engine->superblock);
	return wk_engine_holds_ledgers(s->engine) && first > (accounted > last ? accounted : last) + 1;
}

/* ---- what shows that the journal was longer, where no block behind the end does ---- */

/* A block leaves room for the footer behind it: for its trailer, whatever the file holds. */
static bool lacks_footer(uint64_t offset, uint64_t size) {
	return offset + WK_PAGE_SIZE > size;
}

/*
 * The file was as long as it was prepared before its first block was written. Does the block that comes next in the chain
 * begin here, and end where a file of `size` bytes has no room for it?
 */
static bool was_cut(const wk_scan *scan, const uint8_t *bytes, size_t available, uint64_t size) {
	wk_block_header header;
	return wk_block_peek(bytes, available, &header) == WK_OK && header.epoch == scan->epoch &&
	       header.offset == scan->offset && header.incarnation >= scan->incarnation &&
	       (scan->sequence == 0 || header.sequence == scan->sequence + 1) &&
	       memcmp(header.directory_id, scan->directory_id, sizeof header.directory_id) == 0 &&
	       lacks_footer(header.offset + header.size, size);
}

uint64_t wk_journal_end_known(const wk_walk *walk) {
	const wk_superblock *root = &walk->engine->superblock;
	if (root->clean)
		return root->closed_sequence;
	return walk->published > root->accepted_sequence ? walk->published : 0; /* else that loss was accepted */
}

/* A journal file gets its footer, and an index file its mark, only once the next journal file is there at its full size. */
static bool has_file_behind(const wk_engine *engine, uint64_t id) {
	for (uint32_t i = 0; i < engine->files_count; i++)
		if (engine->files[i]->kind == WK_FILE_JOURNAL && engine->files[i]->id > id && engine->files[i]->size > 0)
			return true;
	return false;
}

/* Where a writer is at it, the next file may have come after the folder was listed. */
static bool nobody_writes(wk_engine *engine) {
	return !engine->read_only || wk_follower_is_alone(engine);
}

/* The block that comes next, at `offset` of the file: does it end behind the file's end? */
static wk_status look_at_next(wk_walk *walk, wk_store_file *file, uint64_t offset, wk_error *error) {
	wk_scan probe = walk->scan;
	const uint8_t *bytes;
	size_t available;
	if (offset >= file->size)
		return WK_OK;
	wk_scan_file(&probe, file->id);
	probe.offset = offset;
	wk_journal_reader_file(&walk->reader, file);
	wk_status status = wk_journal_reader_at(&walk->reader, offset, &bytes, &available, error);
	if (status == WK_OK && was_cut(&probe, bytes, available, file->size))
		walk->short_file = file;
	return status;
}

wk_status wk_journal_end_look(wk_walk *walk, uint32_t at, uint64_t offset, wk_error *error) {
	wk_engine *engine = walk->engine;
	walk->short_file = NULL;
	walk->missing_behind = 0;
	if (engine->superblock.clean)
		return WK_OK;
	if (walk->published > walk->scan.sequence && !nobody_writes(engine))
		walk->published = 0; /* follower.c looks for what the writer publishes */
	bool none = at >= engine->files_count;
	bool sealed = !none && engine->files[at]->state == WK_FILE_SEALED;
	uint64_t id = sealed ? engine->files[at]->id : none && engine->index.mark > 0 ? engine->index.mark - 1 : 0;
	if (id > 0 && !has_file_behind(engine, id) && nobody_writes(engine))
		walk->missing_behind = id;
	if (!none && !sealed && walk->last == engine->files[at] && lacks_footer(offset, engine->files[at]->size))
		walk->short_file = engine->files[at];
	wk_status status = WK_OK;
	for (uint32_t i = at; i < engine->files_count && status == WK_OK && walk->short_file == NULL; i++)
		if (wk_tail_scan_counts(engine, engine->files[i]) && engine->files[i]->state != WK_FILE_SEALED)
			status = look_at_next(walk, engine->files[i], i == at ? offset : 0, error);
	return status;
}

/* ---- where the chain may go on behind damage ---- */

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
