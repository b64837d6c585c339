#include "engine/owned_space.h"

#include <errno.h>

#include "engine/journal_file.h"
#include "engine/store_file.h"

int wk_owned_space_want(wk_engine *engine, wk_file *handle) {
	const struct wk_io_operations *io = engine->io->operations;
	wk_io_stat stat;
	if (io->stat(engine->io, handle, &stat) < 0)
		return 0;
	int result = io->allocate(engine->io, handle, stat.size);
	bool refused = (result == -ENOSPC || result == -EDQUOT) && stat.owned < stat.size;
	return refused ? result : 0;
}

wk_status wk_owned_space_settle(wk_engine *engine, wk_store_file *file, wk_error *error) {
	int result;
	if (file == NULL || wk_store_file_use(engine, file) < 0) /* who writes to it will say so */
		return WK_OK;
	while ((result = wk_owned_space_want(engine, file->handle)) < 0) {
		wk_engine_lock(engine);
		bool given_up = wk_journal_file_give_up_prepared(engine);
		wk_engine_unlock(engine);
		if (!given_up)
			return wk_fail_io(
			    error, result,
			    "opening %s for writing: it was copied without the space that its files had, and the disk "
			    "has none for what is to stand in %s. Make some room; it can be read as it is",
			    engine->path, wk_file_name_of(file->id, file->kind).text);
	}
	return WK_OK;
}
