#include "engine/directory/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/directory/journal_directory.h"
#include "engine/index.h"

typedef struct listing {
	wk_engine *engine;
	const char *folder;
	wk_status status;
} listing;

static bool list_file(void *context, const char *name) {
	listing *list = context;
	uint32_t kind;
	uint64_t id;
	if (!wk_store_file_parse(name, &kind, &id))
		return true;
	wk_store_file *file = wk_store_file_find(list->engine, id);
	if (file == NULL)
		file = wk_store_file_add(list->engine, id, kind);
	if (file == NULL)
		list->status = WK_NO_MEMORY;
	else
		file->gone = false;
	return list->status == WK_OK;
}

static wk_status open_file(wk_engine *engine, wk_store_file *file, wk_error *error) {
	int result = wk_store_file_use(engine, file);
	wk_io_stat stat = {0};
	if (result == 0)
		result = engine->io->operations->stat(engine->io, file->handle, &stat);
	file->size = stat.size / WK_BLOCK_ALIGNMENT * WK_BLOCK_ALIGNMENT;
	return result < 0
	           ? wk_fail_io(error, result, "opening %s of %s", wk_file_name_of(file->id, file->kind).text, engine->path)
	           : WK_OK;
}

wk_status wk_files_find(wk_engine *engine, wk_error *error) {
	static const char *const folders[] = {"journal", "entries"};
	for (uint32_t i = 0; i < engine->files_count; i++)
		engine->files[i]->gone = true; /* until it is listed */
	for (uint32_t i = 0; i < 2; i++) {
		char *path = wk_engine_path(engine, "%s", folders[i]);
		listing list = {engine, folders[i], path == NULL ? WK_NO_MEMORY : WK_OK};
		int result = path != NULL ? engine->io->operations->list(engine->io, path, list_file, &list) : 0;
		free(path);
		bool accepts = engine->options.on_damage != WK_ON_DAMAGE_STOP && !wk_engine_holds_ledgers(engine);
		bool left_out = result == -ENOENT &&
		                (i == 1 || accepts); /* as copies leave out what is empty; else missing_entries.h tells */
		if (result == -ENOENT && !left_out)
			return wk_fail(error, WK_DAMAGED,
			               "opening %s: its folder `journal` is missing, and all that was in it. Nothing was changed. "
			               "Restore it from a backup, or %s",
			               engine->path,
			               wk_engine_holds_ledgers(engine) ? WK_LEDGERS_REMEDY
			                                               : "salvage what is left with `walkeeper recover`");
		if (result < 0 && !left_out)
			return wk_fail_io(error, result, "listing %s/%s", engine->path, folders[i]);
		if (list.status != WK_OK)
			return wk_fail(error, list.status, "listing %s/%s: no memory", engine->path, folders[i]);
	}
	for (uint32_t i = 0; i < engine->files_count;) {
		wk_store_file *file = engine->files[i];
		wk_status status = file->handle == NULL && file->size == 0 && !file->gone ? open_file(engine, file, error)
		                                                                          : WK_OK;
		if (status == WK_IO && engine->read_only && error->system_error == ENOENT)
			wk_store_file_retire(engine, file); /* the writer was quicker */
		else if (status != WK_OK)
			return status;
		else
			i++;
	}
	return WK_OK;
}

/* ---- what they take ---- */

typedef struct sizes {
	wk_engine *engine;
	const char *folder;
	bool others; /* only what is none of the engine's */
	uint64_t bytes;
} sizes;

static bool is_temporary(const char *name) {
	size_t size = strlen(name);
	return size > 4 && strcmp(name + size - 4, ".tmp") == 0;
}

static bool is_ours(const sizes *sum, const char *name) {
	uint32_t kind;
	uint64_t id;
	if (sum->folder[0] == 0)
		return strcmp(name, "superblock") == 0 || strcmp(name, "lock") == 0 || strcmp(name, "shared") == 0;
	if (sum->folder[0] == 'i')
		return strlen(name) == 20 && strcmp(name + 16, ".wki") == 0 &&
		       strtoull(name, NULL, 16) == sum->engine->index.generation;
	return strncmp(name, "prepared-", 9) == 0 ||
	       (wk_store_file_parse(name, &kind, &id) && wk_store_file_find(sum->engine, id) != NULL);
}

static bool add_size(void *context, const char *name) {
	sizes *sum = context;
	const struct wk_io_operations *io = sum->engine->io->operations;
	bool ours = is_ours(sum, name);
	/* Who knows what else is in the root: only what the engine may have left there is opened. */
	if (sum->others ? ours || (sum->folder[0] == 0 && !is_temporary(name)) : sum->folder[0] == 0 && !ours)
		return true;
	char *path = wk_engine_path(sum->engine, "%s%.100s", sum->folder, name);
	wk_file *file = NULL;
	wk_io_stat stat = {0};
	if (path != NULL && io->open(sum->engine->io, path, WK_IO_READ, &file) == 0) {
		if (io->stat(sum->engine->io, file, &stat) == 0)
			sum->bytes += stat.size;
		io->close(sum->engine->io, file);
	}
	free(path);
	return true;
}

static uint64_t measure(wk_engine *engine, bool others) {
	static const char *const folders[] = {"", "journal/", "entries/", "index/"};
	sizes sum = {.engine = engine, .others = others};
	for (uint32_t i = 0; i < 4; i++) {
		sum.folder = folders[i];
		char *path = wk_engine_path(engine, "%s", folders[i]);
		if (path != NULL)
			engine->io->operations->list(engine->io, path, add_size, &sum);
		free(path);
	}
	return sum.bytes + (others ? 0 : wk_journal_directory_bytes(engine));
}

uint64_t wk_files_disk_bytes(wk_engine *engine) {
	return measure(engine, false);
}

uint64_t wk_files_other_bytes(wk_engine *engine) {
	return measure(engine, true);
}
