#include "engine/directory/owned_space.h"

#include <errno.h>

#include "engine/index.h"
#include "engine/journal.h"

int wk_owned_space_want(wk_engine *engine, wk_file *handle) {
	const struct wk_io_operations *io = engine->io->operations;
	wk_io_stat stat;
	if (io->stat(engine->io, handle, &stat) < 0)
		return 0;
	int result = io->allocate(engine->io, handle, stat.size);
	bool refused = (result == -ENOSPC || result == -EDQUOT) && stat.owned < stat.size;
	return refused ? result : 0;
}

static wk_status refuse(const wk_engine *engine, int result, const char *name, wk_error *error) {
	return wk_fail_io(error, result,
	                  "opening %s for writing: it was copied without the space that its files had, and the disk "
	                  "has none for what is to stand in %s. Make some room; it can be read as it is",
	                  engine->path, name);
}

static wk_status take(wk_engine *engine, wk_store_file *file, wk_error *error) {
	int result;
	if (wk_store_file_use(engine, file) < 0) /* who writes to it will say so */
		return WK_OK;
	while ((result = wk_owned_space_want(engine, file->handle)) < 0) {
		wk_engine_lock(engine);
		bool given_up = wk_prepared_give_up(engine);
		wk_engine_unlock(engine);
		if (!given_up)
			return refuse(engine, result, wk_file_name_of(file->id, file->kind).text, error);
	}
	return WK_OK;
}

wk_status wk_owned_space_take_journal(wk_engine *engine, wk_error *error) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; i < engine->files_count && status == WK_OK; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind == WK_FILE_JOURNAL && file->state != WK_FILE_SEALED) /* those that are full want a footer */
			status = take(engine, file, error);
	}
	return status;
}

wk_status wk_owned_space_take_superblock(wk_engine *engine, wk_error *error) {
	int result = wk_owned_space_want(engine, engine->superblock_file);
	return result < 0 ? refuse(engine, result, "superblock", error) : WK_OK;
}
