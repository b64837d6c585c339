#include "engine/journal_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/journal.h"
#include "engine/ledger.h"
#include "engine/owned_space.h"
#include "engine/page_cache.h"
#include "engine/places.h"
#include "engine/reserve.h"
#include "engine/reserve_outputs.h"
#include "engine/store_file.h"
#include "engine/superblock_file.h"

enum { ZERO_CHUNK = 256 << 10 };

uint64_t wk_journal_file_footer(const wk_store_file *file, uint64_t entries, uint64_t runs) {
	return wk_footer_size(file->entries_count + entries, file->runs_count + runs, file->states.count);
}

wk_status wk_file_id_take(wk_engine *engine, uint64_t *id, wk_error *error) {
	pthread_mutex_lock(&engine->file_id_lock);
	wk_status status = WK_OK;
	if (engine->next_file_id >= engine->superblock.file_id_ceiling) {
		uint64_t before = engine->superblock.file_id_ceiling;
		engine->superblock.file_id_ceiling = engine->next_file_id + WK_FILE_ID_STEP;
		status = wk_superblock_store(engine, error);
		if (status != WK_OK)
			engine->superblock.file_id_ceiling = before;
	}
	if (status == WK_OK)
		*id = engine->next_file_id++;
	pthread_mutex_unlock(&engine->file_id_lock);
	return status;
}

static wk_status sync_directory(wk_engine *engine, const char *name, wk_error *error) {
	char *path = wk_engine_path(engine, "%s", name);
	if (path == NULL)
		return wk_fail(error, WK_NO_MEMORY, "syncing %s: no memory", name);
	int result = engine->io->operations->sync_directory(engine->io, path);
	wk_status status = result < 0 ? wk_fail_io(error, result, "syncing the directory %s", path) : WK_OK;
	free(path);
	return status;
}

/*
 * Zeros the whole file, so that later writes change no file system metadata: their syncs are 1.6 to 4.5 times
 * cheaper.
 */
static int write_zeros(wk_engine *engine, wk_file *handle, uint64_t size) {
	size_t chunk = size < ZERO_CHUNK ? (size_t)size : ZERO_CHUNK;
	uint8_t *zeros = aligned_alloc(WK_BLOCK_ALIGNMENT, chunk);
	if (zeros == NULL)
		return -ENOMEM;
	memset(zeros, 0, chunk);
	int64_t result = 0;
	for (uint64_t offset = 0; offset < size && result >= 0 && !engine->keeper_stop; offset += chunk) {
		size_t part = size - offset < chunk ? (size_t)(size - offset) : chunk;
		result = engine->io->operations->pwrite(engine->io, handle, zeros, part, offset, 0);
		if (result >= 0)
			__atomic_add_fetch(&engine->zero_filled_bytes, part, __ATOMIC_RELAXED);
	}
	free(zeros);
	return result < 0 ? (int)result : 0;
}

/* Where nothing can be allocated: a full disk would be written until it is, again and again. Some never say (ramfs). */
static bool has_room(wk_engine *engine, uint64_t size) {
	wk_io_space space;
	const char *root = wk_places_root((wk_places){engine->path, engine->journal_directory.path}, "journal");
	return engine->io->operations->space(engine->io, root, &space) < 0 || space.total_bytes == 0 ||
	       space.free_bytes >= size;
}

/* A file of its size at `path`, allocated, and where wanted written. */
static int create_file(wk_engine *engine, const char *path, uint64_t size, bool zero, wk_file **handle) {
	const struct wk_io_operations *io = engine->io->operations;
	int result = io->open(engine->io, path, WK_IO_WRITE | WK_IO_CREATE | WK_IO_DIRECT, handle);
	if (result < 0)
		return result;
	result = io->allocate(engine->io, *handle, size);
	if (result == -EOPNOTSUPP) {
		result = has_room(engine, size) ? 0 : -ENOSPC;
		zero = true;
	}
	if (result == 0 && zero)
		result = write_zeros(engine, *handle, size);
	if (result == 0)
		result = io->sync(engine->io, *handle);
	if (result < 0) {
		io->close(engine->io, *handle);
		*handle = NULL;
		io->unlink(engine->io, path);
	}
	return result;
}

/* ---- prepared files ---- */

static bool remember_prepared(wk_engine *engine, char *name, uint64_t size) {
	char **names = realloc(engine->prepared.names, (engine->prepared.count + 1) * sizeof *names);
	if (names != NULL)
		engine->prepared.names = names;
	uint64_t *sizes = realloc(engine->prepared.sizes, (engine->prepared.count + 1) * sizeof *sizes);
	if (sizes != NULL)
		engine->prepared.sizes = sizes;
	if (names == NULL || sizes == NULL)
		return false;
	names[engine->prepared.count] = name;
	sizes[engine->prepared.count++] = size;
	wk_reserve_count(engine);
	return true;
}

/*
 * One that nobody knows would take its space until the next open: where there is no memory to know it by, it goes.
 * The name is kept, too. No lock held.
 */
static bool keep_prepared(wk_engine *engine, char *name, const char *path, uint64_t size) {
	wk_engine_lock(engine);
	bool known = remember_prepared(engine, name, size);
	wk_engine_unlock(engine);
	if (!known && path != NULL)
		engine->io->operations->unlink(engine->io, path);
	return known;
}

static char *new_prepared_name(wk_engine *engine) {
	char name[64];
	snprintf(name, sizeof name, "journal/prepared-%016llx.wkp", (unsigned long long)engine->prepared.serial++);
	return strdup(name);
}

/*
 * The smallest prepared file of at least `size`; one of them stays behind as the reserve unless that is asked for.
 * (locked) UINT32_MAX: there is none.
 */
static uint32_t choose_prepared(const wk_engine *engine, uint64_t size, bool reserve_too) {
	uint32_t best = UINT32_MAX;
	for (uint32_t i = 0; i < engine->prepared.count; i++)
		if (engine->prepared.sizes[i] >= size && (reserve_too || wk_reserve_is_there(engine, i)) &&
		    (best == UINT32_MAX || engine->prepared.sizes[i] < engine->prepared.sizes[best]))
			best = i;
	return best;
}

/* (locked) The caller owns its name. */
static char *take_out(wk_engine *engine, uint32_t at) {
	char *name = engine->prepared.names[at];
	uint32_t last = --engine->prepared.count;
	engine->prepared.names[at] = engine->prepared.names[last];
	engine->prepared.sizes[at] = engine->prepared.sizes[last];
	wk_reserve_count(engine);
	return name;
}

static char *take_prepared(wk_engine *engine, uint64_t size, bool reserve_too, uint64_t *found) {
	uint32_t at = choose_prepared(engine, size, reserve_too);
	if (at == UINT32_MAX)
		return NULL;
	*found = engine->prepared.sizes[at];
	return take_out(engine, at);
}

bool wk_journal_file_is_prepared(const wk_engine *engine, uint64_t size) {
	return choose_prepared(engine, size, false) != UINT32_MAX;
}

bool wk_journal_file_give_up_prepared(wk_engine *engine) {
	if (engine->prepared.count == 0)
		return false;
	uint64_t size = engine->prepared.sizes[0];
	char *name = take_out(engine, 0);
	wk_engine_unlock(engine);
	char *path = wk_engine_path(engine, "%s", name);
	bool gone = path != NULL && engine->io->operations->unlink(engine->io, path) == 0;
	bool kept = !gone && keep_prepared(engine, name, path, size);
	free(path);
	if (!kept)
		free(name);
	wk_engine_lock(engine);
	return gone;
}

wk_status wk_journal_file_prepare(wk_engine *engine, uint64_t size, bool zero, wk_error *error) {
	wk_engine_lock(engine);
	char *name = new_prepared_name(engine);
	wk_engine_unlock(engine);
	char *path = name != NULL ? wk_engine_path(engine, "%s", name) : NULL;
	if (path == NULL) {
		free(name);
		return wk_fail(error, WK_NO_MEMORY, "preparing a journal file: no memory");
	}
	wk_file *handle = NULL;
	wk_status status = WK_OK;
	int result = create_file(engine, path, size, zero, &handle);
	if (result < 0)
		status = wk_fail_io(error, result, "preparing %s (%llu bytes)", path, (unsigned long long)size);
	else
		engine->io->operations->close(engine->io, handle);
	if (status == WK_OK && (status = sync_directory(engine, "journal", error)) != WK_OK)
		engine->io->operations->unlink(engine->io, path);
	if (status == WK_OK && !keep_prepared(engine, name, path, size))
		status = wk_fail(error, WK_NO_MEMORY, "preparing a journal file: no memory");
	if (status != WK_OK)
		free(name);
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
	if (copy == NULL || !remember_prepared(engine, copy, 0)) {
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
		char *full = wk_engine_path(engine, "%s", engine->prepared.names[i]);
		wk_file *handle = NULL;
		wk_io_stat stat = {0};
		bool lacks_space = false;
		if (full != NULL && io->open(engine->io, full, WK_IO_WRITE | WK_IO_DIRECT, &handle) == 0) {
			io->stat(engine->io, handle, &stat);
			lacks_space = wk_owned_space_want(engine, handle) < 0;
			io->close(engine->io, handle);
		}
		engine->prepared.sizes[i] = stat.size;
		if (full != NULL && (stat.size < engine->options.file_size_min || stat.size % WK_BLOCK_ALIGNMENT != 0 ||
		                     i > WK_PREPARED_MAX || lacks_space)) {
			io->unlink(engine->io, full);
			free(take_out(engine, i));
		}
		free(full);
	}
	wk_reserve_count(engine);
	return WK_OK;
}

void wk_prepared_free(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->prepared.count; i++)
		free(engine->prepared.names[i]);
	free(engine->prepared.names);
	free(engine->prepared.sizes);
}

/* ---- journal files ---- */

/* A journal file that is being made. */
typedef struct making {
	uint64_t id, size;
	char *path;
	char *prepared,
	    *source; /* the prepared file that it is made of: as it is listed, and its path; NULL: it is fresh */
	wk_file *handle;
} making;

/* A prepared file is opened and gets its name as a journal file; where that fails it has the one it had. */
static int adopt(wk_engine *engine, making *m) {
	const struct wk_io_operations *io = engine->io->operations;
	int result = io->open(engine->io, m->source, WK_IO_WRITE | WK_IO_DIRECT, &m->handle);
	return result < 0 ? result : io->rename(engine->io, m->source, m->path);
}

/* It comes to nothing: a prepared file is one again, a fresh one goes. No lock held. */
static void undo(wk_engine *engine, making *m, bool is_named) {
	const struct wk_io_operations *io = engine->io->operations;
	if (m->handle != NULL)
		io->close(engine->io, m->handle);
	m->handle = NULL;
	bool is_prepared = m->prepared != NULL;
	if (is_named && is_prepared)
		is_prepared = io->rename(engine->io, m->path, m->source) == 0;
	if (is_named && !is_prepared)
		io->unlink(engine->io, m->path);
	if (is_prepared && keep_prepared(engine, m->prepared, m->source, m->size))
		m->prepared = NULL;
}

/* The file itself, under its name, open. No lock held. */
static wk_status make_file(wk_engine *engine, making *m, enum wk_make how, wk_error *error) {
	m->path = wk_store_file_path(engine, m->id, WK_FILE_JOURNAL);
	if (m->path == NULL)
		return wk_fail(error, WK_NO_MEMORY, "making a journal file: no memory");
	wk_engine_lock(engine);
	m->prepared = take_prepared(engine, m->size, how == WK_MAKE_FROM_RESERVE, &m->size);
	wk_engine_unlock(engine);
	if (m->prepared == NULL && how == WK_MAKE_FROM_RESERVE)
		return wk_fail(error, WK_NO_SPACE, "the disk of %s is full, and so is the reserve", engine->path);
	if (m->prepared == NULL && how == WK_MAKE_PREPARED)
		return wk_fail(error, WK_NOT_FOUND, "no journal file is prepared");
	m->source = m->prepared != NULL ? wk_engine_path(engine, "%s", m->prepared) : NULL;
	int result = 0;
	wk_status status = WK_OK;
	if (m->prepared == NULL)
		result = create_file(engine, m->path, m->size, false, &m->handle);
	else if (m->source != NULL)
		result = adopt(engine, m);
	else
		status = wk_fail(error, WK_NO_MEMORY, "taking %s: no memory", m->prepared);
	if (result < 0)
		status = wk_fail_io(error, result, "making the journal file %s (%llu bytes)%s%s", m->path,
		                    (unsigned long long)m->size, m->prepared != NULL ? " of " : "",
		                    m->prepared != NULL ? m->prepared : "");
	bool is_named = status == WK_OK;
	if (is_named)
		status = sync_directory(engine, "journal", error);
	if (status != WK_OK)
		undo(engine, m, is_named);
	return status;
}

/* In the table. (locked, dropped where it comes to nothing) */
static wk_store_file *enter(wk_engine *engine, making *m) {
	wk_store_file *file = wk_store_file_add(engine, m->id, WK_FILE_JOURNAL);
	if (file != NULL) {
		file->handle = m->handle;
		file->size = m->size;
		file->state = WK_FILE_NEXT;
		return file;
	}
	wk_engine_unlock(engine);
	undo(engine, m, true);
	wk_engine_lock(engine);
	return NULL;
}

wk_status wk_journal_file_make(wk_engine *engine, uint64_t size, enum wk_make how, wk_store_file **made,
                               wk_error *error) {
	while (engine->naming_next) {
		wk_engine_sleep(engine, &engine->room, wk_wait_word_look(&engine->room), 10 * 1000 * 1000);
	}
	engine->naming_next = true;
	wk_engine_unlock(engine);
	making m = {.size = size};
	wk_status status = wk_file_id_take(engine, &m.id, error);
	if (status == WK_OK)
		status = make_file(engine, &m, how, error);
	wk_engine_lock(engine);
	*made = status == WK_OK ? enter(engine, &m) : NULL;
	if (status == WK_OK && *made == NULL)
		status = wk_fail(error, WK_NO_MEMORY, "making a journal file: no memory");
	free(m.prepared);
	free(m.source);
	free(m.path);
	engine->naming_next = false;
	wk_journal_wake_room(engine);
	return status;
}

/* ---- letting go ---- */

wk_status wk_journal_file_recycle(wk_engine *engine, wk_store_file *file, bool *reused) {
	const struct wk_io_operations *io = engine->io->operations;
	wk_io_stat stat;
	int result = io->stat(engine->io, file->handle, &stat);
	char *path = wk_store_file_path(engine, file->id, file->kind);
	wk_engine_lock(engine);
	/* A backup that links to the file must keep its bytes: unlink then, never overwrite. */
	bool owed = wk_engine_journal_device(engine) == engine->device &&
	            wk_reserve_owes_outputs(engine); /* its space pays for those */
	bool keep = result == 0 && !owed && stat.links == 1 && file->kind == WK_FILE_JOURNAL &&
	            engine->prepared.count < WK_PREPARED_MAX && file->size >= engine->file_size_next &&
	            file->size <= engine->options.file_size_max &&
	            (engine->reserve_covers > 0 ||
	             file->size >= wk_reserve_size(engine, 0)); /* the reserve needs the space */
	char *name = keep ? new_prepared_name(engine) : NULL;
	wk_engine_unlock(engine);
	char *target = name != NULL ? wk_engine_path(engine, "%s", name) : NULL;
	wk_status status = path == NULL || (keep && target == NULL) ? WK_NO_MEMORY : WK_OK;
	if (status == WK_OK) {
		result = keep ? io->rename(engine->io, path, target) : io->unlink(engine->io, path);
		status = result < 0 ? WK_IO : WK_OK;
	}
	if (status == WK_OK) {
		wk_page_cache_drop_file(engine->pages, file->id);
		*reused = keep && keep_prepared(engine, name, target, file->size);
		if (*reused)
			name = NULL;
		wk_engine_lock(engine);
		engine->counters.recycled_files++;
		wk_engine_unlock(engine);
	}
	free(name);
	free(target);
	free(path);
	return status;
}
