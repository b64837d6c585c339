#include "engine/journal/prepared.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/directory.h"
#include "engine/space.h"

static bool remember(wk_engine *engine, wk_prepared_file file) {
	wk_prepared_file *files = realloc(engine->prepared.files, (engine->prepared.count + 1) * sizeof *files);
	if (files == NULL)
		return false;
	engine->prepared.files = files;
	files[engine->prepared.count++] = file;
	wk_reserve_count(engine);
	return true;
}

bool wk_prepared_keep(wk_engine *engine, wk_prepared_file file, const char *path) {
	wk_engine_lock(engine);
	bool known = remember(engine, file);
	wk_engine_unlock(engine);
	if (!known && path != NULL)
		engine->io->operations->unlink(engine->io, path);
	return known;
}

char *wk_prepared_name_new(wk_engine *engine) {
	char name[64];
	snprintf(name, sizeof name, "journal/prepared-%016llx.wkp", (unsigned long long)engine->prepared.serial++);
	return strdup(name);
}

/* (locked) UINT32_MAX: there is none. */
static uint32_t choose(const wk_engine *engine, uint64_t size, bool reserve_too) {
	const wk_prepared_file *files = engine->prepared.files;
	uint32_t best = UINT32_MAX;
	for (uint32_t i = 0; i < engine->prepared.count; i++)
		if (files[i].size >= size && (reserve_too || wk_reserve_is_there(engine, i)) &&
		    (best == UINT32_MAX || files[i].size < files[best].size))
			best = i;
	return best;
}

/* (locked) The caller owns its name. */
static wk_prepared_file take_out(wk_engine *engine, uint32_t at) {
	wk_prepared_file *files = engine->prepared.files, taken = files[at];
	files[at] = files[--engine->prepared.count];
	wk_reserve_count(engine);
	return taken;
}

bool wk_prepared_take(wk_engine *engine, uint64_t size, bool reserve_too, wk_prepared_file *taken) {
	uint32_t at = choose(engine, size, reserve_too);
	if (at == UINT32_MAX)
		return false;
	*taken = take_out(engine, at);
	return true;
}

bool wk_prepared_is_there(const wk_engine *engine, uint64_t size) {
	return choose(engine, size, false) != UINT32_MAX;
}

bool wk_prepared_give_up(wk_engine *engine) {
	if (engine->prepared.count == 0)
		return false;
	wk_prepared_file file = take_out(engine, 0);
	wk_engine_unlock(engine);
	char *path = wk_engine_path(engine, "%s", file.name);
	bool gone = path != NULL && engine->io->operations->unlink(engine->io, path) == 0;
	bool kept = !gone && wk_prepared_keep(engine, file, path);
	free(path);
	if (!kept)
		free(file.name);
	wk_engine_lock(engine);
	return gone;
}

wk_status wk_prepared_make(wk_engine *engine, uint64_t size, enum wk_space how, wk_error *error) {
	wk_engine_lock(engine);
	wk_prepared_file file = {.name = wk_prepared_name_new(engine), .size = size};
	wk_engine_unlock(engine);
	char *path = file.name != NULL ? wk_engine_path(engine, "%s", file.name) : NULL;
	if (path == NULL) {
		free(file.name);
		return wk_fail(error, WK_NO_MEMORY, "preparing a journal file: no memory");
	}
	wk_file *handle = NULL;
	wk_status status = WK_OK;
	int result = wk_journal_space_make(engine, path, size, how, &handle, &file.written);
	if (result < 0)
		status = wk_fail_io(error, result, "preparing %s (%llu bytes)", path, (unsigned long long)size);
	else
		engine->io->operations->close(engine->io, handle);
	if (status == WK_OK && (status = wk_journal_names_sync(engine, error)) != WK_OK)
		engine->io->operations->unlink(engine->io, path);
	if (status == WK_OK && !wk_prepared_keep(engine, file, path))
		status = wk_fail(error, WK_NO_MEMORY, "preparing a journal file: no memory");
	if (status != WK_OK)
		free(file.name);
	free(path);
	return status;
}

typedef struct prepared_listing {
	wk_engine *engine;
	char *probe; /* a measurement that a kill cut short left this */
	bool failed;
} prepared_listing;

static bool list_prepared(void *context, const char *name) {
	prepared_listing *listing = context;
	wk_engine *engine = listing->engine;
	if (strncmp(name, "probe-", 6) == 0 && listing->probe == NULL)
		listing->probe = wk_engine_path(engine, "journal/%.60s", name);
	if (strncmp(name, "prepared-", 9) != 0)
		return true;
	uint64_t serial = strtoull(name + 9, NULL, 16);
	if (serial >= engine->prepared.serial)
		engine->prepared.serial = serial + 1;
	char below[80];
	snprintf(below, sizeof below, "journal/%.60s", name);
	char *copy = strdup(below);
	if (copy == NULL || !remember(engine, (wk_prepared_file){.name = copy, .found = true})) {
		free(copy);
		listing->failed = true;
	}
	return !listing->failed;
}

wk_status wk_prepared_load(wk_engine *engine, wk_error *error) {
	char *path = wk_engine_path(engine, "journal");
	if (path == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	prepared_listing listing = {.engine = engine};
	const struct wk_io_operations *io = engine->io->operations;
	int result = io->list(engine->io, path, list_prepared, &listing);
	free(path);
	if (listing.probe != NULL)
		io->unlink(engine->io, listing.probe);
	free(listing.probe);
	if (result < 0 || listing.failed)
		return wk_fail_io(error, result < 0 ? result : -ENOMEM, "listing the journal of %s", engine->path);
	/*
	 * A kill may have left one half made: its space may not be written. Their content never counts, so only the size
	 * matters, and that a copy has the space.
	 */
	for (uint32_t i = engine->prepared.count; i-- > 0;) {
		char *full = wk_engine_path(engine, "%s", engine->prepared.files[i].name);
		wk_file *handle = NULL;
		wk_io_stat stat = {0};
		bool lacks_space = false;
		if (full != NULL && io->open(engine->io, full, WK_IO_WRITE | WK_IO_DIRECT, &handle) == 0) {
			io->stat(engine->io, handle, &stat);
			lacks_space = wk_owned_space_want(engine, handle) < 0;
			io->close(engine->io, handle);
		}
		engine->prepared.files[i].size = stat.size;
		if (full != NULL && (stat.size < engine->options.file_size_min || stat.size % WK_BLOCK_ALIGNMENT != 0 ||
		                     i > WK_PREPARED_MAX || lacks_space)) {
			io->unlink(engine->io, full);
			free(take_out(engine, i).name);
		}
		free(full);
	}
	wk_reserve_count(engine);
	return WK_OK;
}

void wk_prepared_free(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->prepared.count; i++)
		free(engine->prepared.files[i].name);
	free(engine->prepared.files);
}
