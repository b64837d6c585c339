#include "engine/directory/superblock_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/directory/directory_lock.h"
#include "engine/directory/registry.h"

static wk_status write_slot(wk_engine *engine, uint64_t slot, wk_error *error) {
	uint8_t *bytes = aligned_alloc(WK_SUPERBLOCK_SLOT_SIZE, WK_SUPERBLOCK_SLOT_SIZE);
	if (bytes == NULL)
		return wk_fail(error, WK_NO_MEMORY, "writing the superblock of %s: no memory", engine->path);
	wk_superblock_encode(&engine->superblock, bytes);
	const struct wk_io_operations *io = engine->io->operations;
	int64_t result = io->pwrite(engine->io, engine->superblock_file, bytes, WK_SUPERBLOCK_SLOT_SIZE,
	                            slot * WK_SUPERBLOCK_SLOT_SIZE, 0);
	/* Write, then sync: one way that is durable on every device, and it is rare. */
	if (result == WK_SUPERBLOCK_SLOT_SIZE)
		result = io->sync(engine->io, engine->superblock_file);
	else if (result >= 0)
		result = -EIO;
	free(bytes);
	return result < 0 ? wk_fail_io(error, (int)result, "writing the superblock of %s", engine->path) : WK_OK;
}

wk_status wk_superblock_store(wk_engine *engine, wk_error *error) {
	/*
	 * A failed write leaves its slot in doubt: the next one must not go to the other, which is then the only good
	 * one.
	 */
	engine->superblock.generation++;
	wk_status status = write_slot(engine, engine->superblock.generation % 2, error);
	if (status != WK_OK)
		engine->superblock.generation--;
	return status;
}

wk_status wk_superblock_store_again(wk_engine *engine, wk_error *error) {
	return write_slot(engine, engine->superblock.generation % 2, error);
}

static wk_status open_file(wk_engine *engine, uint32_t flags, wk_error *error) {
	char *path = wk_engine_path(engine, "superblock");
	if (path == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	wk_registry_hold_forks(); /* a child that does not know of this descriptor would keep the lock */
	int result = engine->io->operations->open(engine->io, path, flags, &engine->superblock_file);
	wk_registry_let_fork();
	wk_status status = result < 0 ? wk_fail_io(error, result, "opening %s", path) : WK_OK;
	free(path);
	return status == WK_OK && !engine->read_only ? wk_directory_lock_root(engine, error) : status;
}

wk_status wk_superblock_hold(wk_engine *engine, wk_error *error) {
	wk_status status = open_file(engine, WK_IO_WRITE | WK_IO_DIRECT, error);
	if (status != WK_IO || error->system_error != ENOENT || engine->superblock_file != NULL)
		return status;
	wk_error_clear(error);
	return WK_OK; /* it is made with the lock held */
}

void wk_superblock_note_journal(wk_engine *engine) {
	char *path = engine->superblock.journal_path;
	memset(path, 0, WK_JOURNAL_PATH_SIZE);
	if (engine->journal_directory.path != NULL) /* it is short enough: journal_directory.c has looked */
		memcpy(path, engine->journal_directory.path, strlen(engine->journal_directory.path));
}

wk_status wk_superblock_create(wk_engine *engine, wk_error *error) {
	wk_status status = open_file(engine, WK_IO_WRITE | WK_IO_CREATE | WK_IO_DIRECT, error);
	if (status != WK_OK)
		return status;
	engine->superblock = (wk_superblock){.kind = engine->options.kind, .snapshots = {{-1, -1}, {-1, -1}}};
	wk_superblock_note_journal(engine);
	int result = engine->io->operations->entropy(engine->io, engine->superblock.directory_id,
	                                             sizeof engine->superblock.directory_id);
	if (result < 0)
		return wk_fail_io(error, result, "making the id of %s", engine->path);
	return wk_superblock_store(engine, error);
}

static wk_status read_slots(wk_io *io, wk_file *file, const char *directory, wk_superblock *superblock,
                            wk_error *error) {
	uint8_t *slots = aligned_alloc(WK_SUPERBLOCK_SLOT_SIZE, 2 * WK_SUPERBLOCK_SLOT_SIZE);
	if (slots == NULL)
		return wk_fail(error, WK_NO_MEMORY, "reading the superblock of %s: no memory", directory);
	memset(slots, 0, 2 * WK_SUPERBLOCK_SLOT_SIZE);
	wk_status status = WK_OK;
	int64_t result = io->operations->pread(io, file, slots, 2 * WK_SUPERBLOCK_SLOT_SIZE, 0);
	if (result < 0)
		status = wk_fail_io(error, (int)result, "reading the superblock of %s", directory);
	else if (wk_superblock_choose(slots, superblock) < 0) {
		wk_superblock one;
		bool newer = wk_superblock_decode(slots, &one) == WK_UNSUPPORTED ||
		             wk_superblock_decode(slots + WK_SUPERBLOCK_SLOT_SIZE, &one) == WK_UNSUPPORTED;
		status = newer ? wk_fail(error, WK_UNSUPPORTED, "%s was written by a newer version of walkeeper: use that one",
		                         directory)
		               : wk_fail(error, WK_DAMAGED,
		                         "opening %s: both slots of the superblock are damaged; restore the file `superblock` "
		                         "from a backup, or have it rebuilt in a copy: `walkeeper recover %s DESTINATION`",
		                         directory, directory);
	} else if (result < (int64_t)(2 * WK_SUPERBLOCK_SLOT_SIZE)) /* both slots were there before the first was valid */
		status = wk_fail(
		    error, WK_DAMAGED,
		    "opening %s: the file `superblock` is cut short, and what is left of it may be an older state; "
		    "restore it from a backup, or have it rebuilt in a copy: `walkeeper recover %s DESTINATION`",
		    directory, directory);
	free(slots);
	return status;
}

wk_status wk_superblock_reread(wk_engine *engine, wk_superblock *superblock) {
	return read_slots(engine->io, engine->superblock_file, engine->path, superblock, NULL);
}

/* Files are written in place: with a second name, also those of whoever has that. A backup gets a superblock of its own. */
static wk_status check_alone(wk_engine *engine, wk_error *error) {
	wk_io_stat stat;
	int result = engine->io->operations->stat(engine->io, engine->superblock_file, &stat);
	if (result < 0)
		return wk_fail_io(error, result, "looking at the superblock of %s", engine->path);
	if (stat.links <= 1)
		return WK_OK;
	return wk_fail(
	    error, WK_UNSUPPORTED,
	    "opening %s for writing: its superblock has another name, as after `cp -al`, and what is written here "
	    "would be written there; nothing was changed. Copy one of the two with `cp -a`, open the copy, and "
	    "remove what was copied; `walkeeper backup` makes copies by hard links that can be written",
	    engine->path);
}

wk_status wk_superblock_load(wk_engine *engine, wk_error *error) {
	wk_status status = WK_OK;
	if (engine->superblock_file == NULL)
		status = open_file(engine, (engine->read_only ? WK_IO_READ : WK_IO_WRITE) | WK_IO_DIRECT, error);
	if (status == WK_OK)
		status = read_slots(engine->io, engine->superblock_file, engine->path, &engine->superblock, error);
	return status == WK_OK && !engine->read_only ? check_alone(engine, error) : status;
}

wk_status wk_superblock_look(wk_io *io, const char *directory, wk_superblock *superblock, wk_error *error) {
	char *path;
	if (asprintf(&path, "%s/superblock", directory) < 0)
		return wk_fail(error, WK_NO_MEMORY, "reading the superblock of %s: no memory", directory);
	wk_file *file;
	int result = io->operations->open(io, path, WK_IO_READ | WK_IO_DIRECT, &file);
	free(path);
	if (result < 0)
		return wk_fail_io(error, result, "opening the superblock of %s", directory);
	wk_status status = read_slots(io, file, directory, superblock, error);
	io->operations->close(io, file);
	return status;
}

wk_status wk_journal_of(const char *directory, char **journal, wk_error *error) {
	wk_io *io;
	wk_superblock superblock;
	wk_error_clear(error);
	*journal = NULL;
	if (wk_io_psync_new(&io) < 0)
		return wk_fail(error, WK_NO_MEMORY, "looking for the journal of %s: no memory", directory);
	bool apart = wk_superblock_look(io, directory, &superblock, NULL) == WK_OK && superblock.journal_path[0] != 0;
	io->operations->destroy(io);
	if (!apart)
		return WK_OK;
	*journal = strdup(superblock.journal_path);
	return *journal != NULL ? WK_OK
	                        : wk_fail(error, WK_NO_MEMORY, "looking for the journal of %s: no memory", directory);
}

wk_status wk_kind_of(const char *directory, uint32_t *kind, wk_error *error) {
	wk_io *io;
	wk_superblock superblock;
	wk_error_clear(error);
	if (wk_io_psync_new(&io) < 0)
		return wk_fail(error, WK_NO_MEMORY, "reading the superblock of %s: no memory", directory);
	wk_status status = wk_superblock_look(io, directory, &superblock, error);
	io->operations->destroy(io);
	if (status == WK_OK)
		*kind = superblock.kind;
	return status;
}
