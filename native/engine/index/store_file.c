#include "engine/index/store_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/index/ledger.h"

static uint32_t index_of(const wk_engine *engine, uint64_t id) {
	uint32_t low = 0, high = engine->files_count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (engine->files[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

wk_store_file *wk_store_file_find(wk_engine *engine, uint64_t id) {
	uint32_t at = index_of(engine, id);
	return at < engine->files_count && engine->files[at]->id == id ? engine->files[at] : NULL;
}

wk_store_file *wk_store_file_add(wk_engine *engine, uint64_t id, uint32_t kind) {
	if (engine->files_count == engine->files_capacity) {
		uint32_t capacity = engine->files_capacity == 0 ? 16 : engine->files_capacity * 2;
		wk_store_file **files = realloc(engine->files, capacity * sizeof *files);
		if (files == NULL)
			return NULL;
		engine->files = files;
		engine->files_capacity = capacity;
	}
	wk_store_file *file = calloc(1, sizeof *file);
	if (file == NULL)
		return NULL;
	file->id = id;
	file->kind = kind;
	uint32_t at = index_of(engine, id);
	memmove(&engine->files[at + 1], &engine->files[at], (engine->files_count - at) * sizeof *engine->files);
	engine->files[at] = file;
	engine->files_count++;
	return file;
}

static void free_file(wk_engine *engine, wk_store_file *file) {
	if (file->handle != NULL)
		engine->io->operations->close(engine->io, file->handle);
	wk_state_list_free(&file->states);
	free(file->ledgers);
	free(file);
}

static void take_out(wk_engine *engine, wk_store_file *file) {
	uint32_t at = index_of(engine, file->id);
	assert(engine->files[at] == file);
	memmove(&engine->files[at], &engine->files[at + 1], (engine->files_count - at - 1) * sizeof *engine->files);
	engine->files_count--;
	if (engine->lent == file)
		engine->lent = NULL;
}

void wk_store_file_remove(wk_engine *engine, wk_store_file *file) {
	assert(file->pins == 0);
	wk_ledgers_forget_file(engine, file);
	take_out(engine, file);
	free_file(engine, file);
}

void wk_store_file_retire(wk_engine *engine, wk_store_file *file) {
	take_out(engine, file);
	file->retired = true;
	if (file->pins == 0)
		free_file(engine, file);
}

/* ---- handles ---- */

static void shut(wk_engine *engine, wk_store_file *file) {
	if (file->handle != NULL)
		engine->io->operations->close(engine->io, file->handle);
	file->handle = NULL;
}

void wk_store_file_let_go(wk_engine *engine) {
	if (engine->read_only && engine->lent != NULL && engine->lent->pins == 0)
		shut(engine, engine->lent);
	engine->lent = NULL;
}

/* A follower opens files by their names many times: what has this name is the file of the first time, or it is gone. */
static int check_same(wk_engine *engine, wk_store_file *file) {
	wk_io_stat stat;
	int result = engine->io->operations->stat(engine->io, file->handle, &stat);
	if (result == 0 && file->inode != 0 && (file->inode != stat.inode || file->born_ns != stat.born_ns))
		result = -ENOENT;
	if (result < 0)
		shut(engine, file);
	else if (file->inode == 0) {
		file->inode = stat.inode;
		file->born_ns = stat.born_ns;
	}
	return result;
}

int wk_store_file_use(wk_engine *engine, wk_store_file *file) {
	if (engine->read_only && engine->lent != file) {
		wk_store_file_let_go(engine);
		engine->lent = file;
	}
	if (file->handle != NULL)
		return 0;
	char *path = wk_store_file_path(engine, file->id, file->kind);
	if (path == NULL)
		return -ENOMEM;
	int result = engine->io->operations->open(
	    engine->io, path, (engine->read_only ? WK_IO_READ : WK_IO_WRITE) | WK_IO_DIRECT, &file->handle);
	free(path);
	return result == 0 && engine->read_only ? check_same(engine, file) : result;
}

void wk_store_file_unpin(wk_engine *engine, wk_store_file *file) {
	assert(file->pins > 0);
	if (--file->pins > 0)
		return;
	if (file->retired)
		free_file(engine, file);
	else if (engine->read_only)
		shut(engine, file);
}

void wk_store_files_free(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->files_count; i++)
		free_file(engine, engine->files[i]);
	free(engine->files);
	engine->files = NULL;
	engine->lent = NULL;
	engine->files_count = engine->files_capacity = 0;
}

char *wk_store_file_path(const wk_engine *engine, uint64_t id, uint32_t kind) {
	return wk_engine_path(engine, "%s", wk_file_name_of(id, kind).text);
}

bool wk_store_file_parse(const char *name, uint32_t *kind, uint64_t *id) {
	if (strlen(name) != 20 || strspn(name, "0123456789abcdef") != 16)
		return false;
	if (strcmp(name + 16, ".wkj") == 0)
		*kind = WK_FILE_JOURNAL;
	else if (strcmp(name + 16, ".wke") == 0)
		*kind = WK_FILE_ENTRY_LOG;
	else
		return false;
	*id = strtoull(name, NULL, 16);
	return *id != 0;
}
