#include "engine/space/reserve_file.h"

#include <errno.h>
#include <stdlib.h>

/* -errno. An allocation that fails may leave a part: that is given back. */
static int allocate(wk_engine *engine, wk_file *handle, uint64_t size, uint64_t *has) {
	const struct wk_io_operations *io = engine->io->operations;
	wk_io_stat stat;
	int result = io->stat(engine->io, handle, &stat);
	if (result < 0)
		return result;
	*has = stat.size;
	result = io->allocate(engine->io, handle, size);
	if (result == 0)
		*has = size > stat.size ? size : stat.size;
	else
		io->truncate(engine->io, handle, stat.size);
	return result;
}

int wk_reserve_file_make(wk_engine *engine, const char *reserve, uint64_t size, uint64_t *made) {
	const struct wk_io_operations *io = engine->io->operations;
	char *path = wk_engine_path(engine, "%s", reserve), *folder = wk_engine_path(engine, "entries");
	wk_file *handle = NULL;
	*made = 0;
	int result = path != NULL && folder != NULL ? 0 : -ENOMEM;
	if (result == 0)
		result = io->open(engine->io, path, WK_IO_WRITE | WK_IO_DIRECT, &handle);
	if (result == -ENOENT)
		result = io->open(engine->io, path, WK_IO_WRITE | WK_IO_CREATE | WK_IO_DIRECT, &handle);
	if (result == 0) {
		result = allocate(engine, handle, size, made);
		if (result == 0)
			result = io->sync(engine->io, handle);
		if (result == 0)
			result = io->sync_directory(engine->io, folder);
		io->close(engine->io, handle);
		if (*made == 0)
			io->unlink(engine->io, path);
	}
	free(path);
	free(folder);
	return result;
}

static int rename_one(wk_engine *engine, const char *from, const char *to) {
	return from != NULL && to != NULL ? engine->io->operations->rename(engine->io, from, to) : -ENOMEM;
}

int wk_reserve_file_take(wk_engine *engine, const char *reserve, const char *path) {
	char *from = wk_engine_path(engine, "%s", reserve);
	int result = rename_one(engine, from, path);
	free(from);
	return result;
}

uint64_t wk_reserve_file_return(wk_engine *engine, const char *reserve, const char *path, uint64_t size) {
	const struct wk_io_operations *io = engine->io->operations;
	char *to = wk_engine_path(engine, "%s", reserve);
	wk_file *handle;
	uint64_t has = 0;
	if (path != NULL && io->open(engine->io, path, WK_IO_WRITE | WK_IO_DIRECT, &handle) == 0) {
		allocate(engine, handle, size, &has);
		io->close(engine->io, handle);
	}
	bool kept = rename_one(engine, path, to) == 0;
	if (!kept && path != NULL)
		io->unlink(engine->io, path);
	free(to);
	return kept ? has : 0;
}
