#include "engine/directory/directory_make.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/directory/directory.h"
#include "engine/directory/directory_lock.h"
#include "engine/directory/journal_directory.h"
#include "engine/directory/superblock_file.h"

static wk_status sync_here(wk_engine *engine, wk_error *error) {
	int result = engine->io->operations->sync_directory(engine->io, engine->path);
	return result < 0 ? wk_fail_io(error, result, "syncing the directory %s", engine->path) : WK_OK;
}

/* Its own name must survive a power cut as well. Which directory has it the kernel tells: a path may lead there by links. */
static int sync_parent(wk_engine *engine) {
	char *parent = wk_engine_path(engine, "..");
	if (parent == NULL)
		return -ENOMEM;
	int result = engine->io->operations->sync_directory(engine->io, parent);
	free(parent);
	return result;
}

/*
 * Its names are durable, its own in the directory above too, before the second generation of the superblock says so:
 * whoever finds the first one does this again, as those before were killed, or failed.
 */
static wk_status finish_making(wk_engine *engine, wk_error *error) {
	int result = sync_parent(engine);
	/* One that may be entered, but not read, cannot be synced from here: that was for whoever made this one in it. */
	if (result < 0 && (result != -EACCES || engine->made))
		return wk_fail_io(error, result, "syncing the directory above %s", engine->path);
	wk_status status = sync_here(engine, error);
	if (status == WK_OK && engine->journal_directory.path != NULL)
		status = wk_superblock_store_again(engine, error); /* an owner must not outlive it */
	if (status == WK_OK)
		status = wk_journal_directory_finish(engine, error);
	return status == WK_OK ? wk_superblock_store(engine, error) : status;
}

int wk_directory_make_folder(wk_engine *engine, const char *path) {
	int result = engine->io->operations->make_directory(engine->io, path);
	char *above = NULL;
	if (result == 0 && asprintf(&above, "%s/..", path) < 0)
		result = -ENOMEM;
	if (result == 0)
		result = engine->io->operations->sync_directory(engine->io, above);
	free(above);
	return result;
}

static wk_status make_folders(wk_engine *engine, wk_error *error) {
	static const char *const folders[] = {"journal", "entries", "index"};
	bool apart = engine->journal_directory.path != NULL; /* that of another directory is made there */
	for (uint32_t i = apart; i < 3; i++) {
		char *path = wk_engine_path(engine, "%s", folders[i]);
		if (path == NULL)
			return wk_fail(error, WK_NO_MEMORY, "making %s: no memory", engine->path);
		int result = engine->io->operations->make_directory(engine->io, path);
		free(path);
		if (result < 0 && result != -EEXIST)
			return wk_fail_io(error, result, "making %s/%s", engine->path, folders[i]);
	}
	return WK_OK;
}

static bool any_name(void *context, const char *name) {
	/* What a kill in the middle of making a directory leaves does not make it somebody else's. */
	if (strcmp(name, "lock") != 0 && strcmp(name, "journal") != 0 && strcmp(name, "entries") != 0 &&
	    strcmp(name, "index") != 0)
		*(bool *)context = true;
	return !*(bool *)context;
}

static bool note_journal_file(void *context, const char *name) {
	(void)name;
	*(bool *)context = true;
	return false;
}

static bool note_entry_log(void *context, const char *name) {
	size_t size = strlen(name);
	*(bool *)context |= size > 4 && strcmp(name + size - 4, ".wke") == 0;
	return !*(bool *)context;
}

/*
 * The first journal file is made after the superblock, and entry logs later: where there is none, a power cut came while
 * the directory was being made.
 */
static wk_status holds_files(wk_engine *engine, bool *any, wk_error *error) {
	static const char *const folders[] = {"journal", "entries"};
	*any = false;
	for (int i = 0; i < 2 && !*any; i++) {
		char *path = wk_engine_path(engine, "%s", folders[i]);
		int result = path != NULL ? engine->io->operations->list(engine->io, path,
		                                                         i == 0 ? note_journal_file : note_entry_log, any)
		                          : -ENOMEM;
		free(path);
		if (result < 0 && result != -ENOENT && result != -ENOTDIR)
			return wk_fail_io(error, result, "listing %s/%s", engine->path, folders[i]);
	}
	return WK_OK;
}

/* A file `lock` is ours where it is empty, or of the size that we give it: of that a power cut may leave some sectors. */
static bool has_strange_lock(wk_engine *engine) {
	char *path = wk_engine_path(engine, "lock");
	wk_file *file = NULL;
	wk_io_stat stat = {0};
	bool there = path != NULL && engine->io->operations->open(engine->io, path, WK_IO_READ, &file) == 0 &&
	             engine->io->operations->stat(engine->io, file, &stat) == 0;
	if (file != NULL)
		engine->io->operations->close(engine->io, file);
	free(path);
	return there && (stat.size % 512 != 0 || stat.size > WK_LOCK_SIZE);
}

/* There is no superblock: may a directory be made here? */
static wk_status check_vacant(wk_engine *engine, wk_error *error) {
	bool any = false, occupied = false;
	wk_status status = holds_files(engine, &any, error);
	if (status != WK_OK)
		return status;
	if (any && engine->journal_directory.path != NULL)
		return wk_fail(error, WK_DAMAGED,
		               "opening %s: its file `superblock` is missing, and there are files of it, or in the journal "
		               "directory %s. Nothing was changed. Name the two directories that belong together, restore that "
		               "file from a backup, choose empty ones, or have it rebuilt in a copy: `walkeeper recover %s "
		               "DESTINATION --journal %s --journal-to JDESTINATION`",
		               engine->path, engine->journal_directory.path, engine->path, engine->journal_directory.path);
	if (any)
		return wk_fail(
		    error, WK_DAMAGED,
		    "opening %s: its file `superblock` is missing, and its other files are there. Nothing was changed. "
		    "Restore that file from a backup, or have it rebuilt in a copy: `walkeeper recover %s DESTINATION`",
		    engine->path, engine->path);
	if (!engine->options.create || engine->read_only)
		return wk_fail(error, WK_NOT_FOUND, "%s is no walkeeper directory: it has no superblock", engine->path);
	int result = engine->io->operations->list(engine->io, engine->path, any_name, &occupied);
	if (result < 0)
		return wk_fail_io(error, result, "listing %s", engine->path);
	return occupied || has_strange_lock(engine)
	           ? wk_fail(error, WK_INVALID,
	                     "%s is neither empty nor a walkeeper directory: choose another path, or restore its file "
	                     "`superblock`",
	                     engine->path)
	           : WK_OK;
}

static bool has_superblock(wk_engine *engine) {
	char *path = wk_engine_path(engine, "superblock");
	wk_file *file = NULL;
	int result = path != NULL ? engine->io->operations->open(engine->io, path, WK_IO_READ, &file) : -ENOMEM;
	free(path);
	if (file != NULL)
		engine->io->operations->close(engine->io, file);
	return result != -ENOENT;
}

wk_status wk_directory_check(wk_engine *engine, wk_error *error) {
	if (has_superblock(engine))
		return WK_OK; /* what is wrong with it is told with the lock held */
	wk_status status = check_vacant(engine, error);
	if (status == WK_OK || !has_superblock(engine))
		return status;
	wk_error_clear(error); /* another process made it meanwhile */
	return WK_OK;
}

wk_status wk_directory_make_or_load(wk_engine *engine, wk_error *error) {
	wk_status status = wk_superblock_load(engine, error);
	if (status == WK_DAMAGED && engine->superblock_file != NULL) {
		bool any = true;
		if (holds_files(engine, &any, NULL) != WK_OK || any)
			return status;
		status = wk_journal_directory_enter(engine, WK_MAKING_NOTHING, error);
		if (status != WK_OK)
			return status;
		engine->io->operations->close(engine->io, engine->superblock_file);
		engine->superblock_file = NULL;
		char *path = wk_engine_path(engine, "superblock");
		int result = path != NULL ? engine->io->operations->unlink(engine->io, path) : -ENOMEM;
		free(path);
		if (result < 0)
			return wk_fail_io(error, result, "making %s anew", engine->path);
	} else if (status != WK_IO || error->system_error != ENOENT) {
		if (status == WK_OK)
			status = wk_check_kind(engine, engine->options.kind, error);
		if (status == WK_OK)
			status = wk_journal_directory_enter(
			    engine, engine->superblock.generation >= 2 ? WK_MAKING_DONE : WK_MAKING_UNFINISHED, error);
		if (status != WK_OK || engine->read_only || engine->superblock.generation >= 2)
			return status;
		status = make_folders(engine, error); /* their names need not have outlived a power cut */
		return status == WK_OK ? finish_making(engine, error) : status;
	}
	status = check_vacant(engine, error);
	if (status == WK_OK)
		status = wk_journal_directory_enter(engine, WK_MAKING_NOTHING, error);
	if (status == WK_OK)
		status = make_folders(engine, error);
	if (status == WK_OK)
		status = wk_superblock_create(engine, error);
	return status == WK_OK ? finish_making(engine, error) : status;
}
