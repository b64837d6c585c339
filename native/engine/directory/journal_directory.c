#include "engine/directory/journal_directory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/owner.h"
#include "engine/directory/directory.h"
#include "engine/directory/directory_lock.h"
#include "engine/directory/enclosure.h"
#include "engine/directory/registry.h"

/* ---- paths ---- */

static int in_it(const wk_engine *engine, const char *below, char **path) {
	int size = asprintf(path, "%s/%s", engine->journal_directory.path, below);
	if (size < 0)
		*path = NULL;
	return size < 0 ? -ENOMEM : 0;
}

static int sync_below(wk_engine *engine, const char *below) {
	char *path;
	int result = in_it(engine, below, &path);
	if (result == 0)
		result = engine->io->operations->sync_directory(engine->io, path);
	free(path);
	return result;
}

static int identity(wk_io *io, const char *path, wk_io_stat *facts) {
	wk_file *file;
	int result = io->operations->open(io, path, WK_IO_READ, &file);
	if (result < 0)
		return result;
	result = io->operations->stat(io, file, facts);
	io->operations->close(io, file);
	return result;
}

/* ---- is it to be there? ---- */

/* Who only reads need not name it: it is looked for where it was. */
static wk_status resolve_path(wk_engine *engine, enum wk_making making, wk_error *error) {
	const char *known = making != WK_MAKING_NOTHING ? engine->superblock.journal_path : NULL;
	char **path = &engine->journal_directory.path;
	if (*path != NULL && strlen(*path) >= WK_JOURNAL_PATH_SIZE)
		return wk_fail(error, WK_INVALID, "the journal directory of %s has a path of more than %d bytes", engine->path,
		               WK_JOURNAL_PATH_SIZE - 1);
	if (known == NULL || (*path != NULL) == (known[0] != 0))
		return WK_OK;
	if (*path != NULL)
		return wk_fail(
		    error, WK_INVALID,
		    "%s was made without a journal directory: its journal is in it, and stays there. Open it without "
		    "one, or choose another directory to be made with %s",
		    engine->path, *path);
	if (!engine->read_only)
		return wk_fail(
		    error, WK_INVALID,
		    "%s was made with a journal directory, which was %s when it was last opened for writing: name it "
		    "(`journal`), wherever it is now",
		    engine->path, known);
	engine->options.journal = *path = strdup(known);
	return *path != NULL ? WK_OK : wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
}

/* Where the directory was not finished, the empty journal directory that was named for it then is its own. */
static bool may_finish(const wk_engine *engine) {
	return !engine->read_only && strcmp(engine->journal_directory.path, engine->superblock.journal_path) == 0;
}

static wk_status refuse_to_finish(const wk_engine *engine, wk_error *error) {
	return wk_fail(
	    error, WK_INVALID,
	    "%s was being made with the journal directory %s, and is not finished: open it for writing with that "
	    "one, or remove both and make them anew",
	    engine->path, engine->superblock.journal_path);
}

static wk_status refuse_absent(const wk_engine *engine, wk_error *error) {
	return wk_fail(
	    error, WK_DAMAGED,
	    "opening %s: its journal directory %s does not say whose it is, its file `owner` is missing or empty. "
	    "Nothing was changed. Is its device mounted there? Where the journal is lost, restore both directories "
	    "from a backup, or " WK_LEDGERS_REMEDY,
	    engine->path, engine->journal_directory.path);
}

/* The directory itself; made, where it may be. */
static wk_status hold(wk_engine *engine, enum wk_making making, wk_error *error) {
	const struct wk_io_operations *io = engine->io->operations;
	const char *path = engine->journal_directory.path;
	bool may_make = making == WK_MAKING_NOTHING ? engine->options.create
	                                            : making == WK_MAKING_UNFINISHED && may_finish(engine);
	wk_io_stat facts = {0};
	int result = identity(engine->io, path, &facts);
	if (result == -ENOENT && may_make) {
		result = io->make_directory(engine->io, path);
		engine->journal_directory.made = result == 0;
		if (result == -ENOENT)
			return wk_fail_io(error, result, "making %s: the directory above it must exist, it is not made", path);
	} else if (result == -ENOENT)
		return wk_fail(error, WK_NOT_FOUND,
		               "the journal directory %s of %s does not exist: is its device mounted? Where it was moved, name "
		               "where it is now",
		               path, engine->path);
	if (result == 0)
		result = io->hold(engine->io, path);
	engine->journal_directory.held = result == 0;
	if (result == 0 || result == -EBUSY)
		result = identity(engine->io, path, &facts);
	engine->journal_directory.device = facts.device;
	engine->journal_directory.inode = facts.inode;
	return result < 0 ? wk_fail_io(error, result, "opening the journal directory %s", path) : WK_OK;
}

/* Each directory has its own files alone. Asked before the one is made in the other. */
static wk_status check_outside(wk_engine *engine, wk_error *error) {
	const char *path = engine->journal_directory.path;
	wk_io *outside = engine->io->operations->outside(engine->io);
	if (wk_enclosure_has(outside, path, engine->device, engine->inode))
		return wk_fail(error, WK_INVALID, "the journal directory %s is %s, or lies in it: name one beside it", path,
		               engine->path);
	return WK_OK;
}

static wk_status check_not_around(wk_engine *engine, wk_error *error) {
	wk_io *outside = engine->io->operations->outside(engine->io);
	if (wk_enclosure_has(outside, engine->path, engine->journal_directory.device, engine->journal_directory.inode))
		return wk_fail(error, WK_INVALID, "%s lies in its journal directory %s: name one beside it", engine->path,
		               engine->journal_directory.path);
	return WK_OK;
}

/* ---- whose is it? ---- */

typedef struct vacancy {
	bool files; /* of a journal */
	bool other;
} vacancy;

static bool note_name(void *context, const char *name) {
	vacancy *found = context;
	found->other |= strcmp(name, "owner") != 0 && strcmp(name, "journal") != 0 && strcmp(name, "lost+found") != 0;
	return true;
}

static bool note_file(void *context, const char *name) {
	(void)name;
	((vacancy *)context)->files = true;
	return false;
}

/* Nothing but what the making of a journal directory leaves behind when it is cut short. */
static wk_status check_vacant(wk_engine *engine, wk_error *error) {
	const char *path = engine->journal_directory.path;
	vacancy found = {0};
	char *folder;
	int result = engine->io->operations->list(engine->io, path, note_name, &found);
	if (result == 0)
		result = in_it(engine, "journal", &folder);
	if (result == 0) {
		result = engine->io->operations->list(engine->io, folder, note_file, &found);
		free(folder);
	}
	if (result < 0 && result != -ENOENT)
		return wk_fail_io(error, result, "listing the journal directory %s", path);
	if (found.files || found.other)
		return wk_fail(
		    error, WK_INVALID,
		    "the journal directory %s is not empty, and nothing says whose it is. Nothing was changed. Name an "
		    "empty directory",
		    path);
	return WK_OK;
}

/* -errno */
static int open_file(wk_engine *engine, const char *path, uint32_t flags) {
	wk_registry_hold_forks(); /* a child that does not know of this descriptor would keep the lock */
	int result = engine->io->operations->open(engine->io, path, flags, &engine->journal_directory.owner);
	wk_registry_let_fork();
	return result;
}

/* The file `owner`; made, where the directory is, but in nobody's directory. */
static wk_status open_owner(wk_engine *engine, enum wk_making making, wk_error *error) {
	char *path;
	if (in_it(engine, "owner", &path) < 0)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	uint32_t flags = (engine->read_only ? WK_IO_READ : WK_IO_WRITE) | WK_IO_DIRECT;
	int result = open_file(engine, path, flags);
	wk_status status = WK_OK;
	if (result == -ENOENT) {
		status = making == WK_MAKING_DONE                                ? refuse_absent(engine, error)
		         : making == WK_MAKING_UNFINISHED && !may_finish(engine) ? refuse_to_finish(engine, error)
		                                                                 : check_vacant(engine, error);
		if (status == WK_OK)
			result = open_file(engine, path, flags | WK_IO_CREATE);
	}
	if (result == -EEXIST) /* another process was quicker: its lock will say so */
		result = open_file(engine, path, flags);
	if (status == WK_OK && result < 0)
		status = wk_fail_io(error, result, "opening %s", path);
	free(path);
	return status;
}

static wk_status lock(wk_engine *engine, wk_error *error) {
	wk_io_stat facts;
	bool looked_at;
	const char *path = engine->journal_directory.path;
	int result = wk_directory_lock_take(engine, engine->journal_directory.owner, &looked_at);
	if (result == -EWOULDBLOCK) {
		wk_fail(error, WK_LOCKED, "the journal directory %s is in use, by another directory: each has one of its own",
		        path);
		if (error != NULL)
			error->holder_pid = -1;
		return WK_LOCKED;
	}
	if (result == 0)
		result = engine->io->operations->stat(engine->io, engine->journal_directory.owner, &facts);
	if (result < 0)
		return wk_fail_io(error, result, "locking the journal directory %s", path);
	if (facts.links > 1)
		return wk_fail(
		    error, WK_UNSUPPORTED,
		    "opening %s for writing: the file `owner` of its journal directory %s has another name, as after "
		    "`cp -al`, and what is written here would be written there; nothing was changed. Copy with `cp -a`",
		    engine->path, path);
	return WK_OK;
}

/* WK_END: it says nothing yet. WK_DAMAGED, WK_UNSUPPORTED, WK_IO, WK_NO_MEMORY. */
static wk_status read_owner(wk_engine *engine, wk_owner *owner, wk_error *error) {
	const char *path = engine->journal_directory.path;
	uint8_t *slots = aligned_alloc(WK_IO_ALIGNMENT, WK_OWNER_SIZE);
	if (slots == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	memset(slots, 0, WK_OWNER_SIZE);
	int64_t size = engine->io->operations->pread(engine->io, engine->journal_directory.owner, slots, WK_OWNER_SIZE, 0);
	bool blank = true;
	for (size_t i = 0; i < WK_OWNER_SIZE; i++)
		blank = blank && slots[i] == 0;
	wk_status status = size < 0 ? wk_fail_io(error, (int)size, "reading the file `owner` of %s", path)
	                   : blank  ? WK_END
	                            : wk_owner_choose(slots, owner);
	if (status == WK_UNSUPPORTED)
		wk_fail(error, status, "%s was written by a newer version of walkeeper: use that one", path);
	if (status == WK_CORRUPT)
		status = wk_fail(
		    error, WK_DAMAGED,
		    "opening %s: the file `owner` of its journal directory %s is damaged, which says whose journal "
		    "that is. Nothing was changed. Restore that file from a backup",
		    engine->path, path);
	free(slots);
	return status;
}

/* An incarnation is written here before the superblock knows of it, and what was left behind by a copy is older. */
static wk_status check_incarnation(const wk_engine *engine, const wk_owner *owner, wk_error *error) {
	uint64_t known = engine->superblock.incarnation;
	if (owner->incarnation < known)
		return wk_fail(error, WK_DAMAGED,
		               "opening %s: its journal directory %s is an older copy (or its file `owner` is damaged), of "
		               "open %llu for writing; the last one was "
		               "%llu. Nothing was changed. Name the one that was written since",
		               engine->path, engine->journal_directory.path, (unsigned long long)owner->incarnation,
		               (unsigned long long)known);
	if (owner->incarnation > known + 1 && !engine->read_only) /* a reader may have seen the superblock before */
		return wk_fail(
		    error, WK_DAMAGED,
		    "opening %s: it is an older copy, of open %llu for writing; its journal directory %s was written "
		    "by open %llu. Nothing was changed. Name the two that belong together",
		    engine->path, (unsigned long long)known, engine->journal_directory.path,
		    (unsigned long long)owner->incarnation);
	return WK_OK;
}

static wk_status check_owner(wk_engine *engine, enum wk_making making, wk_error *error) {
	wk_owner owner;
	const char *path = engine->journal_directory.path;
	wk_status status = read_owner(engine, &owner, error);
	if (making == WK_MAKING_UNFINISHED && (status == WK_END || status == WK_DAMAGED)) {
		wk_error_clear(error); /* its first write may have been torn */
		return may_finish(engine) ? check_vacant(engine, error) : refuse_to_finish(engine, error);
	}
	if (status == WK_END)
		return making == WK_MAKING_NOTHING ? check_vacant(engine, error) : refuse_absent(engine, error);
	if (status != WK_OK)
		return status;
	if (making == WK_MAKING_NOTHING)
		return wk_fail(
		    error, WK_INVALID,
		    "%s cannot be made with the journal directory %s: that has the journal of another directory, or of "
		    "one that is lost. Nothing was changed. Name the directory that it belongs to, or an empty journal "
		    "directory",
		    engine->path, path);
	if (memcmp(owner.directory_id, engine->superblock.directory_id, sizeof owner.directory_id) != 0)
		return wk_fail(
		    error, WK_INVALID,
		    "%s has the journal of another directory than %s: their ids differ. Nothing was changed. Name the two "
		    "that belong together",
		    path, engine->path);
	return check_incarnation(engine, &owner, error);
}

wk_status wk_journal_directory_enter(wk_engine *engine, enum wk_making making, wk_error *error) {
	if (engine->journal_directory.owner != NULL)
		return WK_OK; /* by another way to the same end */
	wk_status status = resolve_path(engine, making, error);
	if (status != WK_OK || engine->journal_directory.path == NULL)
		return status;
	status = check_outside(engine, error);
	if (status == WK_OK)
		status = hold(engine, making, error);
	if (status == WK_OK)
		status = check_not_around(engine, error);
	if (status == WK_OK)
		status = wk_directory_check_file_system(engine, engine->journal_directory.path, error);
	if (status == WK_OK)
		status = open_owner(engine, making, error);
	if (status == WK_OK && !engine->read_only)
		status = lock(engine, error);
	return status == WK_OK ? check_owner(engine, making, error) : status;
}

wk_status wk_journal_directory_check_same(const wk_engine *engine, const char *path, wk_error *error) {
	wk_io_stat facts;
	const char *known = engine->journal_directory.path;
	if (path == NULL && known == NULL)
		return WK_OK;
	if (path == NULL)
		return wk_fail(error, WK_INVALID, "%s is open in this process with the journal directory %s: name it, too",
		               engine->path, known);
	wk_io *outside = engine->io->operations->outside(engine->io);
	bool same = known != NULL && identity(outside, path, &facts) == 0 &&
	            facts.device == engine->journal_directory.device && facts.inode == engine->journal_directory.inode;
	return same ? WK_OK
	            : wk_fail(error, WK_INVALID, "%s is open in this process %s%s, and not with %s", engine->path,
	                      known != NULL ? "with the journal directory " : "without a journal directory",
	                      known != NULL ? known : "", path);
}

/* ---- writing it ---- */

/* One slot, or both, so that the file has the space that it needs. */
static wk_status write_owner(wk_engine *engine, uint64_t first_slot, uint64_t last_slot, wk_error *error) {
	wk_owner owner = {.incarnation = engine->superblock.incarnation};
	memcpy(owner.directory_id, engine->superblock.directory_id, sizeof owner.directory_id);
	uint8_t *slot = aligned_alloc(WK_IO_ALIGNMENT, WK_OWNER_SLOT_SIZE);
	if (slot == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	wk_owner_encode(&owner, slot);
	const struct wk_io_operations *io = engine->io->operations;
	wk_file *file = engine->journal_directory.owner;
	int64_t result = 0;
	for (uint64_t i = first_slot; i <= last_slot && result >= 0; i++)
		result = io->pwrite(engine->io, file, slot, WK_OWNER_SLOT_SIZE, i * WK_OWNER_SLOT_SIZE, 0);
	if (result >= 0)
		result = io->sync(engine->io, file);
	free(slot);
	return result < 0 ? wk_fail_io(error, (int)result, "writing the file `owner` of %s", engine->journal_directory.path)
	                  : WK_OK;
}

wk_status wk_journal_directory_begin(wk_engine *engine, wk_error *error) {
	uint64_t slot = engine->superblock.incarnation % 2;
	return engine->journal_directory.path != NULL ? write_owner(engine, slot, slot, error) : WK_OK;
}

wk_status wk_journal_directory_finish(wk_engine *engine, wk_error *error) {
	char *folder;
	if (engine->journal_directory.path == NULL)
		return WK_OK;
	int result = in_it(engine, "journal", &folder);
	if (result == 0) {
		result = engine->io->operations->make_directory(engine->io, folder);
		free(folder);
	}
	if (result == 0 || result == -EEXIST) {
		wk_status status = write_owner(engine, 0, 1, error);
		if (status != WK_OK)
			return status;
		result = sync_below(engine, ".");
	}
	if (result == 0)
		result = sync_below(engine, "..");
	/* One that may be entered, but not read, cannot be synced from here: that was for whoever made this one in it. */
	if (result == -EACCES && !engine->journal_directory.made)
		result = 0;
	return result < 0 ? wk_fail_io(error, result, "making the journal directory %s", engine->journal_directory.path)
	                  : WK_OK;
}

uint64_t wk_journal_directory_bytes(const wk_engine *engine) {
	return engine->journal_directory.path != NULL ? WK_OWNER_SIZE : 0;
}

void wk_journal_directory_free(wk_engine *engine) {
	const struct wk_io_operations *io = engine->io->operations;
	if (engine->journal_directory.owner != NULL)
		io->close(engine->io, engine->journal_directory.owner);
	if (engine->journal_directory.held)
		io->let_go(engine->io, engine->journal_directory.path);
	engine->journal_directory.owner = NULL;
	engine->journal_directory.held = false;
}
