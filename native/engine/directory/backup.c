/*
 * backup.c: a consistent copy of a directory in use.
 *
 * In one moment under the lock the durable point, the superblock and the files are noted, and the files pinned: until
 * they are let go nothing recycles them, so what the copy is made of stays as it is, whatever is appended, truncated or
 * moved meanwhile. Together they are what a power cut in that moment could have left behind. Sealed files are never
 * written again and get a second name; recycling sees that and unlinks instead of overwriting. The others are still
 * written to and are copied, up to the durable point. The index file that the superblock of that moment names is never
 * written again either, and gets its second name in the same moment, before another can take its place: it holds
 * states of ledgers that no journal file holds any more. The superblock comes last: without it the copy is no
 * directory.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/owner.h"
#include "engine/directory/enclosure.h"
#include "engine/directory/handles.h"
#include "engine/directory/keeper.h"
#include "engine/directory/places.h"
#include "engine/index.h"

enum { COPY_CHUNK = 1 << 20 };

typedef struct backup_file {
	wk_store_file *file; /* pinned */
	uint64_t id;
	uint64_t size;
	uint64_t end_offset; /* of its durable blocks */
	uint32_t kind;
	bool link; /* sealed: never written again */
	bool made;
	bool whole; /* sealed, but copied: with its footer, which the index relies on */
} backup_file;

typedef struct backup {
	wk_engine *engine;
	wk_io *outside; /* for what is made: where the destination lies, whatever the directory was called */
	const char *destination;
	const char *journal; /* the copy's journal directory; NULL: the copy is one directory */
	wk_superblock superblock;
	uint64_t filled;
	backup_file *files;
	uint32_t files_count;
	bool index_made;
} backup;

/* ---- the moment ---- */

/* Where the durable blocks of a file end. (locked) */
static uint64_t durable_end(const wk_engine *engine, const wk_store_file *file) {
	uint64_t end = file->end_offset;
	for (uint64_t sequence = engine->durable + 1; sequence < engine->window.next; sequence++) {
		const wk_block *block = &engine->in_flight[sequence % WK_BLOCKS_IN_FLIGHT_MAX];
		if (block->file == file && block->header.sequence == sequence && block->header.offset < end)
			end = block->header.offset;
	}
	return end;
}

static bool is_wanted(const wk_store_file *file) {
	if (file->kind == WK_FILE_ENTRY_LOG)
		return file->state == WK_FILE_SEALED;
	return file->state != WK_FILE_DYING && file->state != WK_FILE_NEXT;
}

/*
 * (locked) The last file with blocks is copied even where it is sealed: an open that scans instead of believing footers
 * goes on writing in it, and would do so in the directory and in the copy.
 */
static wk_status note_files(backup *b) {
	wk_engine *engine = b->engine;
	b->files = calloc(engine->files_count + 1, sizeof *b->files);
	if (b->files == NULL)
		return WK_NO_MEMORY;
	backup_file *last = NULL;
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		uint64_t end = durable_end(engine, file);
		if (!is_wanted(file) || (file->kind == WK_FILE_JOURNAL && end == 0))
			continue;
		backup_file *noted = &b->files[b->files_count++];
		*noted = (backup_file){file,  file->id, file->size, end, file->kind, file->state == WK_FILE_SEALED,
		                       false, false};
		file->pins++;
		if (file->kind == WK_FILE_JOURNAL)
			last = noted;
	}
	if (last != NULL) {
		last->whole = last->link;
		last->link = false;
	}
	return WK_OK;
}

/* A path of the copy; the caller frees. */
static char *path_in(const backup *b, const char *below) {
	return wk_places_path((wk_places){b->destination, b->journal}, below);
}

static char *index_in(const backup *b) {
	char below[64];
	snprintf(below, sizeof below, "index/%016llx.wki", (unsigned long long)b->superblock.index_generation);
	return path_in(b, below);
}

static wk_status link_index(backup *b, wk_error *error) {
	wk_io *io = b->engine->io;
	char *source = wk_engine_path(b->engine, "index/%016llx.wki", (unsigned long long)b->superblock.index_generation),
	     *target = index_in(b);
	int result = source == NULL || target == NULL ? -ENOMEM : io->operations->link(io, source, target);
	b->index_made = result == 0;
	wk_status status = result == -EXDEV
	                       ? wk_fail_io(error, result,
	                                    "linking %s to %s: a backup must be on the file system of the directory",
	                                    source, target)
	                   : result < 0 ? wk_fail_io(error, result, "linking the index file %s to %s", source, target)
	                                : WK_OK;
	free(source);
	free(target);
	return status;
}

/*
 * The superblock changes under file_id_lock. What it says was durable before it said so, so the durable point read here
 * covers it; and the index that it names is there until it names another.
 */
static wk_status begin(backup *b, wk_error *error) {
	pthread_mutex_lock(&b->engine->file_id_lock);
	wk_engine_lock(b->engine);
	b->superblock = b->engine->superblock;
	b->filled = b->engine->filled;
	wk_status status = note_files(b);
	wk_engine_unlock(b->engine);
	if (status != WK_OK)
		wk_fail(error, status, "backing up %s: no memory", b->engine->path);
	else if (b->superblock.index_generation != 0)
		status = link_index(b, error);
	pthread_mutex_unlock(&b->engine->file_id_lock);
	memset(b->superblock.journal_path, 0, sizeof b->superblock.journal_path);
	if (b->journal != NULL)
		memcpy(b->superblock.journal_path, b->journal, strlen(b->journal));
	b->superblock.clean = true; /* nothing in the copy is cut short: what is not whole there was damaged */
	b->superblock.closed_sequence = b->filled;
	return status;
}

static void let_go(backup *b) {
	wk_engine_lock(b->engine);
	for (uint32_t i = 0; i < b->files_count; i++)
		b->files[i].file->pins--;
	wk_keeper_wake(b->engine); /* a file may have become free meanwhile */
	wk_engine_unlock(b->engine);
	free(b->files);
}

/* ---- the copy ---- */

static char *target_of(const backup *b, const backup_file *file) {
	return path_in(b, wk_file_name_of(file->id, file->kind).text);
}

static int copy_bytes(const backup *b, const backup_file *from, wk_file *to) {
	wk_io *io = b->engine->io;
	uint8_t *chunk = aligned_alloc(WK_IO_ALIGNMENT, COPY_CHUNK);
	int64_t result = chunk == NULL ? -ENOMEM : 0;
	uint64_t end = from->whole ? from->size : from->end_offset;
	for (uint64_t at = 0; at < end && result >= 0;) {
		size_t part = end - at < COPY_CHUNK ? (size_t)(end - at) : COPY_CHUNK;
		result = io->operations->pread(io, from->file->handle, chunk, part, at);
		if (result >= 0 && result != (int64_t)part)
			result = -EIO;
		if (result >= 0)
			result = b->outside->operations->pwrite(b->outside, to, chunk, part, at, 0);
		at += part;
	}
	free(chunk);
	return result < 0 ? (int)result : 0;
}

/* The durable blocks in a new file of the same size; behind them zeros, as in a file that was prepared, or its footer. */
static int copy_file(const backup *b, const backup_file *from, const char *target) {
	wk_io *io = b->outside;
	wk_file *to = NULL;
	int result = io->operations->open(io, target, WK_IO_WRITE | WK_IO_CREATE | WK_IO_DIRECT, &to);
	if (result < 0)
		return result;
	result = io->operations->allocate(io, to, from->size);
	if (result == -EOPNOTSUPP)
		result = io->operations->truncate(io, to, from->size);
	if (result == 0)
		result = copy_bytes(b, from, to);
	if (result == 0)
		result = io->operations->sync(io, to);
	io->operations->close(io, to);
	return result;
}

/*
 * -errno. A second name costs nothing, but is to be had on one file system only: a journal that has another one is copied.
 * A sealed file is copied with its footer.
 */
static int link_file(backup *b, backup_file *file, const char *source, const char *target) {
	int result = b->engine->io->operations->link(b->engine->io, source, target);
	bool apart = b->journal != NULL || b->engine->journal_directory.path != NULL;
	if (result != -EXDEV || !apart || file->kind != WK_FILE_JOURNAL)
		return result;
	file->whole = true;
	return copy_file(b, file, target);
}

static wk_status take_file(backup *b, backup_file *file, wk_error *error) {
	char *source = wk_store_file_path(b->engine, file->id, file->kind), *target = target_of(b, file);
	wk_status status = WK_OK;
	if (source == NULL || target == NULL) {
		status = wk_fail(error, WK_NO_MEMORY, "backing up to %s: no memory", b->destination);
	} else {
		file->made = true;
		int result = file->link ? link_file(b, file, source, target) : copy_file(b, file, target);
		if (result == -EXDEV)
			status = wk_fail_io(error, result, "linking %s to %s: a backup must be on the file system of the directory",
			                    source, target);
		else if (result < 0)
			status = wk_fail_io(error, result, "%s %s to %s", file->link ? "linking" : "copying", source, target);
	}
	free(source);
	free(target);
	return status;
}

/* Both slots say the same, so that either may be lost. */
static int write_slots(const backup *b, wk_file *file) {
	wk_io *io = b->outside;
	uint8_t *slots = aligned_alloc(WK_SUPERBLOCK_SLOT_SIZE, 2 * WK_SUPERBLOCK_SLOT_SIZE);
	if (slots == NULL)
		return -ENOMEM;
	wk_superblock superblock = b->superblock;
	for (int i = 0; i < 2; i++, superblock.generation++)
		wk_superblock_encode(&superblock, slots + superblock.generation % 2 * WK_SUPERBLOCK_SLOT_SIZE);
	int64_t result = io->operations->pwrite(io, file, slots, 2 * WK_SUPERBLOCK_SLOT_SIZE, 0, 0);
	free(slots);
	return result < 0 ? (int)result : io->operations->sync(io, file);
}

static wk_status write_superblock(const backup *b, wk_error *error) {
	wk_io *io = b->outside;
	char *path = path_in(b, "superblock");
	wk_file *file = NULL;
	int result = path == NULL ? -ENOMEM
	                          : io->operations->open(io, path, WK_IO_WRITE | WK_IO_CREATE | WK_IO_DIRECT, &file);
	if (result == 0) {
		result = write_slots(b, file);
		io->operations->close(io, file);
	}
	free(path);
	return result < 0 ? wk_fail_io(error, result, "writing the superblock of %s", b->destination) : WK_OK;
}

/* Whose journal it is, where it has a directory of its own. */
static wk_status write_owner(const backup *b, wk_error *error) {
	if (b->journal == NULL)
		return WK_OK;
	wk_io *io = b->outside;
	wk_owner owner = {.incarnation = b->superblock.incarnation};
	memcpy(owner.directory_id, b->superblock.directory_id, sizeof owner.directory_id);
	char *path = path_in(b, "owner");
	uint8_t *slots = aligned_alloc(WK_IO_ALIGNMENT, WK_OWNER_SIZE);
	wk_file *file = NULL;
	int64_t result = path == NULL || slots == NULL
	                     ? -ENOMEM
	                     : io->operations->open(io, path, WK_IO_WRITE | WK_IO_CREATE | WK_IO_DIRECT, &file);
	if (result == 0) {
		wk_owner_encode(&owner, slots);
		wk_owner_encode(&owner, slots + WK_OWNER_SLOT_SIZE);
		result = io->operations->pwrite(io, file, slots, WK_OWNER_SIZE, 0, 0);
		if (result >= 0)
			result = io->operations->sync(io, file);
		io->operations->close(io, file);
	}
	free(slots);
	free(path);
	return result < 0 ? wk_fail_io(error, (int)result, "writing the file `owner` of %s", b->journal) : WK_OK;
}

static const char *const folders[] = {"journal", "entries", "index"};

static wk_status make_root(const backup *b, const char *path, wk_error *error) {
	int result = b->outside->operations->make_directory(b->outside, path);
	if (result == -EEXIST)
		return wk_fail(error, WK_EXISTS, "%s exists: name a path that does not, the backup is made there", path);
	return result < 0 ? wk_fail_io(error, result, "making %s", path) : WK_OK;
}

static wk_status make_folders(const backup *b, wk_error *error) {
	wk_io *io = b->outside;
	int result = 0;
	wk_status status = make_root(b, b->destination, error);
	if (status == WK_OK && b->journal != NULL)
		status = make_root(b, b->journal, error);
	if (status != WK_OK)
		return status;
	for (uint32_t i = 0; i < 3 && result == 0; i++) {
		char *path = path_in(b, folders[i]);
		result = path != NULL ? io->operations->make_directory(io, path) : -ENOMEM;
		free(path);
	}
	return result < 0 ? wk_fail_io(error, result, "making %s", b->destination) : WK_OK;
}

static wk_status sync_folder(const backup *b, const char *path, wk_error *error) {
	int result = path != NULL ? b->outside->operations->sync_directory(b->outside, path) : -ENOMEM;
	return result < 0 ? wk_fail_io(error, result, "syncing %s", path != NULL ? path : b->destination) : WK_OK;
}

static wk_status sync_folders(const backup *b, wk_error *error) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; i < 3 && status == WK_OK; i++) {
		char *path = path_in(b, folders[i]);
		status = sync_folder(b, path, error);
		free(path);
	}
	return status;
}

/* The directory itself, and the one that names it. */
static wk_status sync_name(const backup *b, const char *path, wk_error *error) {
	wk_status status = sync_folder(b, path, error);
	char *parent = wk_places_path((wk_places){.data = path}, "..");
	if (status == WK_OK)
		status = sync_folder(b, parent, error);
	free(parent);
	return status;
}

/* What a failed backup made must not go on holding space. Its empty directories stay: the seam has no call for them. */
static void unmake(const backup *b) {
	static const char *const roots[] = {"superblock", "owner"};
	for (int i = 0; i < 2; i++) {
		char *path = path_in(b, roots[i]);
		if (path != NULL)
			b->outside->operations->unlink(b->outside, path);
		free(path);
	}
	for (uint32_t i = 0; i < b->files_count; i++) {
		char *path = b->files[i].made ? target_of(b, &b->files[i]) : NULL;
		if (path != NULL)
			b->outside->operations->unlink(b->outside, path);
		free(path);
	}
	char *index = b->index_made ? index_in(b) : NULL;
	if (index != NULL)
		b->outside->operations->unlink(b->outside, index);
	free(index);
}

static wk_status copy(backup *b, wk_error *error) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; i < b->files_count && status == WK_OK; i++)
		status = take_file(b, &b->files[i], error);
	if (status == WK_OK)
		status = sync_folders(b, error);
	if (status == WK_OK)
		status = write_owner(b, error);
	if (status == WK_OK && b->journal != NULL)
		status = sync_name(b, b->journal, error);
	if (status == WK_OK)
		status = write_superblock(b, error);
	if (status == WK_OK)
		status = sync_name(b, b->destination, error);
	return status;
}

static wk_status check_outside(const backup *b, const char *path, wk_error *error) {
	const wk_engine *engine = b->engine;
	if (path == NULL)
		return WK_OK;
	if (strlen(path) >= WK_JOURNAL_PATH_SIZE && path == b->journal)
		return wk_fail(error, WK_INVALID, "backing up %s: the path of the copy's journal directory is too long",
		               engine->path);
	if (wk_enclosure_has(b->outside, path, engine->device, engine->inode) ||
	    (engine->journal_directory.path != NULL &&
	     wk_enclosure_has(b->outside, path, engine->journal_directory.device, engine->journal_directory.inode)))
		return wk_fail(error, WK_INVALID, "backing up %s to %s: that lies in the directory itself, name a path outside",
		               engine->path, path);
	return WK_OK;
}

static wk_status back_up(backup *b, wk_error *error) {
	wk_status status = WK_OK;
	if (b->engine->read_only) /* its writer may recycle any file at any time: nothing could be pinned */
		status = wk_fail(error, WK_READ_ONLY,
		                 "backing up %s: it is open read-only here; the process that writes it can make a backup",
		                 b->engine->path);
	if (status == WK_OK)
		status = check_outside(b, b->destination, error);
	if (status == WK_OK)
		status = check_outside(b, b->journal, error);
	if (status == WK_OK)
		status = make_folders(b, error);
	if (status == WK_OK) {
		status = begin(b, error);
		if (status == WK_OK)
			status = copy(b, error);
		if (status != WK_OK)
			unmake(b);
		let_go(b);
	}
	return status;
}

wk_status wk_namespace_backup(wk_namespace *ns, const char *destination, wk_error *error) {
	return wk_namespace_backup_apart(ns, destination, NULL, error);
}

wk_status wk_namespace_backup_apart(wk_namespace *ns, const char *destination, const char *journal, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter(ns, error);
	if (status != WK_OK)
		return status;
	wk_io *outside = ns->engine->io->operations->outside(ns->engine->io);
	char *absolute = outside->operations->absolute(outside, destination),
	     *absolute_journal = journal != NULL ? outside->operations->absolute(outside, journal) : NULL;
	backup b = {.engine = ns->engine, .outside = outside, .destination = absolute, .journal = absolute_journal};
	status = absolute != NULL && (journal == NULL || absolute_journal != NULL)
	             ? back_up(&b, error)
	             : wk_fail(error, WK_NO_MEMORY, "backing up to %s: no memory", destination);
	free(absolute_journal);
	free(absolute);
	wk_leave(ns);
	return status;
}
