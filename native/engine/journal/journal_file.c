#include "engine/journal/journal_file.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/directory.h"
#include "engine/index.h"
#include "engine/journal/journal.h"
#include "engine/journal/journal_space.h"
#include "engine/journal/prepared.h"
#include "engine/space.h"

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

/* A journal file that is being made. */
typedef struct making {
	uint64_t id, size, written;
	char *path;
	wk_prepared_file prepared; /* that it is made of; without a name: it is fresh */
	char *source;              /* the path of that */
	wk_file *handle;
} making;

/* A prepared file is opened and gets its name as a journal file; where that fails it has the one it had. */
static int adopt(wk_engine *engine, making *m) {
	const struct wk_io_operations *io = engine->io->operations;
	int result = io->open(engine->io, m->source, WK_IO_WRITE | WK_IO_DIRECT, &m->handle);
	if (result == 0 && m->prepared.found)
		result = wk_journal_space_keep(engine, m->handle, m->size);
	return result < 0 ? result : io->rename(engine->io, m->source, m->path);
}

/* It comes to nothing: a prepared file is one again, a fresh one goes. No lock held. */
static void undo(wk_engine *engine, making *m, bool is_named) {
	const struct wk_io_operations *io = engine->io->operations;
	if (m->handle != NULL)
		io->close(engine->io, m->handle);
	m->handle = NULL;
	bool is_prepared = m->prepared.name != NULL;
	if (is_named && is_prepared)
		is_prepared = io->rename(engine->io, m->path, m->source) == 0;
	if (is_named && !is_prepared)
		io->unlink(engine->io, m->path);
	if (is_prepared && wk_prepared_keep(engine, m->prepared, m->source))
		m->prepared.name = NULL;
}

/* The file itself, under its name, open. No lock held. */
static wk_status make_file(wk_engine *engine, making *m, enum wk_make how, wk_error *error) {
	m->path = wk_store_file_path(engine, m->id, WK_FILE_JOURNAL);
	if (m->path == NULL)
		return wk_fail(error, WK_NO_MEMORY, "making a journal file: no memory");
	wk_engine_lock(engine);
	bool is_prepared = wk_prepared_take(engine, m->size, how == WK_MAKE_FROM_RESERVE, &m->prepared);
	wk_engine_unlock(engine);
	if (!is_prepared && how == WK_MAKE_FROM_RESERVE)
		return wk_fail(error, WK_NO_SPACE, "the disk of %s is full, and so is the reserve", engine->path);
	if (!is_prepared && how == WK_MAKE_PREPARED)
		return wk_fail(error, WK_NOT_FOUND, "no journal file is prepared");
	if (is_prepared) {
		m->size = m->prepared.size;
		m->written = m->prepared.written;
		m->source = wk_engine_path(engine, "%s", m->prepared.name);
	}
	int result = 0;
	wk_status status = WK_OK;
	if (!is_prepared)
		result = wk_journal_space_make(engine, m->path, m->size, WK_SPACE_ALLOCATED, &m->handle, &m->written);
	else if (m->source != NULL)
		result = adopt(engine, m);
	else
		status = wk_fail(error, WK_NO_MEMORY, "taking %s: no memory", m->prepared.name);
	if (result < 0)
		status = wk_fail_io(error, result, "making the journal file %s (%llu bytes)%s%s", m->path,
		                    (unsigned long long)m->size, is_prepared ? " of " : "",
		                    is_prepared ? m->prepared.name : "");
	bool is_named = status == WK_OK;
	if (is_named)
		status = wk_journal_names_sync(engine, error);
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
		file->written = m->written;
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
	wk_status status = wk_directory_lock_check(engine, error);
	if (status == WK_OK)
		status = wk_file_id_take(engine, &m.id, error);
	if (status == WK_OK)
		status = make_file(engine, &m, how, error);
	wk_engine_lock(engine);
	*made = status == WK_OK ? enter(engine, &m) : NULL;
	if (status == WK_OK && *made == NULL)
		status = wk_fail(error, WK_NO_MEMORY, "making a journal file: no memory");
	free(m.prepared.name);
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
	if (wk_directory_lock_check(engine, NULL) != WK_OK) /* whoever has the directory now may need it */
		return WK_FAILED;
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
	char *name = keep ? wk_prepared_name_new(engine) : NULL;
	wk_engine_unlock(engine);
	char *target = name != NULL ? wk_engine_path(engine, "%s", name) : NULL;
	wk_status status = path == NULL || (keep && target == NULL) ? WK_NO_MEMORY : WK_OK;
	if (status == WK_OK) {
		result = keep ? io->rename(engine->io, path, target) : io->unlink(engine->io, path);
		status = result < 0 ? WK_IO : WK_OK;
	}
	if (status == WK_OK) {
		wk_page_cache_drop_file(engine->pages, file->id);
		uint64_t written = file->written > file->end_offset ? file->written : file->end_offset;
		*reused = keep && wk_prepared_keep(engine, (wk_prepared_file){name, file->size, written, false}, target);
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
