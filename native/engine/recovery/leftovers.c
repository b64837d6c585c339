#include "engine/recovery/leftovers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/index.h"

/* *wiped: the page began a block of this file, whole or not, behind the chain's end. -errno. */
static int wipe(const wk_walk *walk, wk_store_file *file, uint64_t offset, uint8_t *page, bool *wiped) {
	wk_engine *engine = walk->engine;
	const struct wk_io_operations *io = engine->io->operations;
	wk_block_header header;
	int opened = wk_store_file_use(engine, file);
	if (opened < 0)
		return opened;
	int64_t result = io->pread(engine->io, file->handle, page, WK_PAGE_SIZE, offset);
	if (result < 0)
		return (int)result;
	*wiped = result == WK_PAGE_SIZE && wk_block_peek(page, WK_PAGE_SIZE, &header) == WK_OK &&
	         header.epoch == file->id && header.sequence > walk->scan.sequence &&
	         memcmp(header.directory_id, engine->superblock.directory_id, sizeof header.directory_id) == 0;
	if (!*wiped)
		return 0;
	memset(page, 0, WK_PAGE_SIZE);
	result = io->pwrite(engine->io, file->handle, page, WK_PAGE_SIZE, offset, 0);
	return result < 0 ? (int)result : result == WK_PAGE_SIZE ? 0 : -EIO;
}

static int wipe_in(const wk_walk *walk, wk_store_file *file, uint8_t *page) {
	bool any, one;
	int result = wipe(walk, file, 0, page, &any);
	for (uint32_t i = 0; i < walk->leftovers_count && result == 0; i++) {
		if (walk->leftovers[i].file != file || walk->leftovers[i].offset == 0)
			continue;
		result = wipe(walk, file, walk->leftovers[i].offset, page, &one);
		any |= one;
	}
	if (result == 0 && any)
		result = walk->engine->io->operations->sync(walk->engine->io, file->handle);
	return result;
}

wk_status wk_leftovers_wipe(wk_walk *walk, wk_error *error) {
	wk_engine *engine = walk->engine;
	uint8_t *page = aligned_alloc(WK_IO_ALIGNMENT, WK_PAGE_SIZE);
	if (page == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	wk_status status = WK_OK;
	for (uint32_t i = 0; i < engine->files_count && status == WK_OK; i++) {
		wk_store_file *file = engine->files[i];
		bool later = file->kind == WK_FILE_JOURNAL && file->end_offset == 0 && file->size > 0 &&
		             file->id >= engine->index.mark && (walk->last == NULL || file->id > walk->last->id);
		int result = later ? wipe_in(walk, file, page) : 0;
		if (result < 0)
			status = wk_fail_io(error, result, "wiping what is left of torn blocks in %s of %s",
			                    wk_file_name_of(file->id, file->kind).text, engine->path);
	}
	free(page);
	return status;
}
