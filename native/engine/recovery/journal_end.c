#include "engine/recovery/journal_end.h"

#include <string.h>

#include "engine/follower.h"
#include "engine/recovery/tail_scan.h"

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
