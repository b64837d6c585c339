#include "engine/recovery/unconfirmed.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/index.h"

void wk_unconfirmed_note(wk_engine *engine, const wk_walk *walk) {
	engine->unconfirmed.count = 0;
	engine->unconfirmed.due = true;
	for (uint32_t i = 0; i < WK_BLOCKS_IN_FLIGHT_MAX; i++) {
		const wk_walk_block *block = &walk->latest[i];
		if (block->sequence > walk->scan.durable_through && block->file != NULL && block->file->state != WK_FILE_SEALED)
			engine->unconfirmed.blocks[engine->unconfirmed.count++] = *block;
	}
}

static wk_status sync_file(wk_engine *engine, wk_store_file *file, wk_error *error) {
	int result = wk_store_file_use(engine, file);
	if (result == 0)
		result = engine->io->operations->sync(engine->io, file->handle);
	return result < 0
	           ? wk_fail_io(error, result, "syncing %s of %s", wk_file_name_of(file->id, file->kind).text, engine->path)
	           : WK_OK;
}

/*
 * The newest footer vouches for what stands before it, and files are recycled on its word. Those before it are durable, as
 * the journal goes on in a file only where at most one lacks its footer; so is what the index names. NULL: there is none.
 */
static wk_store_file *newest_sealed(const wk_engine *engine) {
	for (uint32_t i = engine->files_count; i-- > 0 && engine->files[i]->id >= engine->index.mark;) {
		wk_store_file *file = engine->files[i];
		if (file->kind == WK_FILE_JOURNAL && file->state == WK_FILE_SEALED && file->end_offset > 0)
			return file;
	}
	return NULL;
}

wk_status wk_unconfirmed_sync(wk_engine *engine, wk_error *error) {
	wk_store_file *sealed = newest_sealed(engine);
	wk_status status = sealed != NULL ? sync_file(engine, sealed, error) : WK_OK;
	for (uint32_t i = 0; i < engine->files_count && status == WK_OK; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind == WK_FILE_JOURNAL && file->state != WK_FILE_SEALED && file->end_offset > 0)
			status = sync_file(engine, file, error);
	}
	return status;
}

/* The same bytes to the same place: whatever becomes of the write, nothing is worse than before. */
static int rewrite(wk_engine *engine, const wk_walk_block *block) {
	const struct wk_io_operations *io = engine->io->operations;
	uint8_t *bytes = aligned_alloc(WK_IO_ALIGNMENT, block->size);
	if (bytes == NULL)
		return -ENOMEM;
	wk_block_header header;
	int64_t result = wk_store_file_use(engine, block->file);
	if (result == 0)
		result = io->pread(engine->io, block->file->handle, bytes, block->size, block->offset);
	if (result >= 0 && (result != (int64_t)block->size || wk_block_decode(bytes, block->size, &header) != WK_OK ||
	                    header.sequence != block->sequence))
		result = -EIO; /* it was whole a moment ago */
	if (result >= 0)
		result = io->pwrite(engine->io, block->file->handle, bytes, block->size, block->offset, 0);
	free(bytes);
	return result < 0 ? (int)result : 0;
}

/*
 * Blocks at the chain's end that no later one confirms may stand there because their sync failed and the process
 * ended. After a failed sync the kernel may hold such bytes for clean, and a further sync then proves nothing.
 */
static wk_status rewrite_blocks(wk_engine *engine, wk_error *error) {
	for (uint32_t i = 0; i < engine->unconfirmed.count; i++) {
		const wk_walk_block *block = &engine->unconfirmed.blocks[i];
		int result = rewrite(engine, block);
		if (result < 0)
			return wk_fail_io(error, result, "writing the last blocks of %s of %s again",
			                  wk_file_name_of(block->file->id, block->file->kind).text, engine->path);
	}
	return WK_OK;
}

static wk_status rewrite_newest_footer(wk_engine *engine, wk_error *error) {
	wk_store_file *file = newest_sealed(engine);
	if (file == NULL)
		return WK_OK;
	int result = wk_store_file_use(engine, file);
	if (result == 0)
		result = wk_store_footer_rewrite(engine, file);
	return result < 0 ? wk_fail_io(error, result, "writing the footer of %s of %s again",
	                               wk_file_name_of(file->id, file->kind).text, engine->path)
	                  : WK_OK;
}

wk_status wk_unconfirmed_write_again(wk_engine *engine, wk_error *error) {
	if (!engine->unconfirmed.due)
		return WK_OK;
	wk_status status = rewrite_blocks(engine, error);
	if (status == WK_OK)
		status = rewrite_newest_footer(engine, error);
	if (status == WK_OK)
		status = wk_unconfirmed_sync(engine, error);
	engine->unconfirmed.due = status != WK_OK;
	return status;
}
