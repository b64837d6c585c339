#include "engine/directory/directory_lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/lock_text.h"
#include "engine/directory/places.h"
#include "engine/directory/registry.h"
#include "engine/directory/superblock_file.h"
#include "engine/journal.h"

enum { LOCK_RETRY_NS = 2 * 1000 * 1000, LOOKED_AT_NS = 500 * 1000 * 1000 };

/* Of a file that cannot be read, or was not written yet, nothing is known. -errno */
static int read_file(wk_engine *engine, wk_file *file, wk_lock_text *text) {
	*text = (wk_lock_text){.pid = -1};
	uint8_t *page = aligned_alloc(WK_IO_ALIGNMENT, WK_IO_ALIGNMENT);
	if (page == NULL)
		return -ENOMEM;
	int64_t size = engine->io->operations->pread(engine->io, file, page, WK_IO_ALIGNMENT, 0);
	wk_lock_text_decode(page, size > 0 ? (size_t)size : 0, text);
	free(page);
	return size < 0 ? (int)size : 0;
}

/*
 * The pid of the process that holds the file `lock`, as it stands there. -1: it is not known, also where the file that has
 * the name now is not the one that the writer holds.
 */
static int64_t read_holder(wk_engine *engine) {
	const struct wk_io_operations *io = engine->io->operations;
	char *path = wk_engine_path(engine, "lock");
	wk_file *file = NULL;
	wk_lock_text text = {.pid = -1};
	if (path != NULL && io->open(engine->io, path, WK_IO_READ, &file) == 0) {
		if (io->lock(engine->io, file, false) == -EWOULDBLOCK)
			read_file(engine, file, &text);
		io->close(engine->io, file);
	}
	free(path);
	int64_t pid = text.pid;
	/* Who has just taken the lock may not have written that yet: then it is of the one before. */
	bool is_past = pid == wk_process_id() && !wk_registry_is_written_here(engine);
	return pid > 0 && !is_past ? pid : -1;
}

static int write_text(wk_engine *engine, const wk_lock_text *text) {
	uint8_t *page = aligned_alloc(WK_IO_ALIGNMENT, WK_LOCK_SIZE);
	if (page == NULL)
		return -ENOMEM;
	memset(page, 0, WK_LOCK_SIZE);
	wk_lock_text_encode(text, page);
	int64_t result = engine->io->operations->pwrite(engine->io, engine->lock_file, page, WK_LOCK_SIZE, 0, 0);
	free(page);
	return result < 0 ? (int)result : 0;
}

static bool is_full(int result) {
	return result == -ENOSPC || result == -EDQUOT;
}

/*
 * Who holds it now; under which kernel the directory was written last, is as it was: an open that comes to nothing leaves
 * no word of its own. One that was made for it names none, by zeros. What cannot be read is not written over, and nothing is written into a
 * directory of which this one is a copy by links.
 */
static int write_holder(wk_engine *engine, bool made) {
	wk_lock_text text;
	wk_io_stat stat;
	bool readable = read_file(engine, engine->lock_file, &text) == 0;
	int result = engine->io->operations->stat(engine->io, engine->lock_file, &stat);
	if (result < 0 || !readable || stat.links > 1)
		return result;
	text.pid = wk_process_id();
	text.boot_known |= made && stat.size == 0; /* nobody came first, while this one waited */
	result = write_text(engine, &text);
	return is_full(result) ? 0 : result;
}

/* Of a text without a boot id, and of a kernel that nobody tells the id of, nothing is certain: false. */
static int is_another(wk_engine *engine, const wk_lock_text *last, bool *another) {
	uint8_t now[WK_BOOT_ID_SIZE];
	int result = engine->io->operations->boot_id(engine->io, now);
	*another = result == 0 && last->boot_known && memcmp(now, last->boot, sizeof now) != 0;
	return result == -ENODATA ? 0 : result;
}

int wk_directory_lock_names_another(wk_engine *engine, bool *another) {
	/* Of one that the disk cannot read nothing is known: it is written over when the kernel is told. */
	wk_lock_text last;
	int result = read_file(engine, engine->lock_file, &last);
	return result == -ENOMEM ? result : is_another(engine, &last, another);
}

int wk_directory_lock_tell_kernel(wk_engine *engine) {
	const struct wk_io_operations *io = engine->io->operations;
	wk_lock_text last, text = {.pid = wk_process_id()};
	read_file(engine, engine->lock_file, &last);
	int result = io->boot_id(engine->io, text.boot);
	if (result < 0 && result != -ENODATA)
		return result;
	text.boot_known = result == 0;
	bool said = last.pid == text.pid && last.boot_known == text.boot_known &&
	            memcmp(last.boot, text.boot, sizeof text.boot) == 0;
	if (said)
		return 0;
	result = write_text(engine, &text);
	if (result == 0)
		result = io->sync(engine->io, engine->lock_file);
	if (is_full(result))
		result = io->truncate(engine->io, engine->lock_file, 0);
	return result;
}

bool wk_directory_was_written_under_this_kernel(wk_engine *engine) {
	const struct wk_io_operations *io = engine->io->operations;
	char *path = wk_engine_path(engine, "lock");
	wk_file *file = NULL;
	int result = path != NULL ? io->open(engine->io, path, WK_IO_READ, &file) : -ENOMEM;
	free(path);
	if (result < 0)
		return result != -ENOENT;
	wk_lock_text last;
	bool another;
	result = read_file(engine, file, &last);
	io->close(engine->io, file);
	return result < 0 || is_another(engine, &last, &another) < 0 || !another;
}

/* Those who look whether somebody writes have the lock for a moment: where a writer has it, no look succeeds. */
static bool is_only_looked_at(wk_engine *engine, wk_file *file) {
	return engine->io->operations->lock(engine->io, file, false) == 0;
}

/* As wk_directory_lock_take; it waits `at_least_ns` from now on, though lock_timeout_ns may be shorter. */
static int take(wk_engine *engine, wk_file *file, uint64_t at_least_ns, bool *looked_at) {
	static const uint32_t nobody = 0;
	uint64_t begin = wk_engine_now(engine), before = engine->report.lock_wait_ns, limit = before + at_least_ns, waited;
	int result;
	limit = engine->options.lock_timeout_ns > limit ? engine->options.lock_timeout_ns : limit;
	*looked_at = false;
	for (;;) {
		result = engine->io->operations->lock(engine->io, file, true);
		waited = before + (wk_engine_now(engine) - begin);
		if (result != -EWOULDBLOCK)
			break;
		*looked_at = waited >= limit && is_only_looked_at(engine, file);
		if (waited >= limit && (!*looked_at || waited - limit >= LOOKED_AT_NS))
			break;
		wk_futex_wait(&nobody, 0, LOCK_RETRY_NS);
	}
	engine->report.lock_wait_ns = waited;
	return result;
}

int wk_directory_lock_take(wk_engine *engine, wk_file *file, bool *looked_at) {
	return take(engine, file, 0, looked_at);
}

static wk_status refuse(wk_engine *engine, bool looked_at, wk_error *error) {
	static const char advice[] = "close it there, or open it here with read_only to follow it";
	int64_t pid = looked_at ? -1 : read_holder(engine);
	if (looked_at)
		wk_fail(error, WK_LOCKED,
		        "%s is not open for writing, but its lock was kept for %d ms by processes that look whether it is",
		        engine->path, LOOKED_AT_NS / 1000000);
	else if (pid < 0)
		wk_fail(error, WK_LOCKED, "%s is open for writing in another process: %s", engine->path, advice);
	else
		wk_fail(error, WK_LOCKED, "%s is open for writing in process %lld: %s", engine->path, (long long)pid, advice);
	if (error != NULL)
		error->holder_pid = pid;
	return WK_LOCKED;
}

/* ---- names ---- */

typedef enum wk_named { NAMED_OURS, NAMED_OTHER, NAMED_NONE, NAMED_UNKNOWN } wk_named;

/* What the name leads to. *found, where it is another file, is open. */
static wk_named look_at_name(wk_engine *engine, const char *path, wk_file *ours, wk_file **found) {
	const struct wk_io_operations *io = engine->io->operations;
	wk_io_stat here, there;
	*found = NULL;
	int result = path != NULL ? io->open(engine->io, path, WK_IO_READ, found) : -ENOMEM;
	if (result == -ENOENT)
		return NAMED_NONE;
	if (result == 0 && io->stat(engine->io, ours, &here) == 0 && io->stat(engine->io, *found, &there) == 0) {
		bool same = here.device == there.device && here.inode == there.inode && here.born_ns == there.born_ns;
		if (!same)
			return NAMED_OTHER;
		io->close(engine->io, *found);
		*found = NULL;
		return NAMED_OURS;
	}
	if (*found != NULL)
		io->close(engine->io, *found);
	*found = NULL;
	return NAMED_UNKNOWN;
}

/* Why the directory is no longer ours; NULL: it is, as far as this file tells. */
static const char *check_kept(wk_engine *engine, char *path, wk_file *ours, const char *removed, const char *replaced) {
	wk_file *found;
	wk_named named = look_at_name(engine, path, ours, &found);
	free(path);
	if (found != NULL)
		engine->io->operations->close(engine->io, found);
	return named == NAMED_NONE ? removed : named == NAMED_OTHER ? replaced : NULL;
}

/* ---- taking it ---- */

/*
 * Behind `lock` this is the other way round: whoever has the superblock, and finds `lock` taken, lets go of it at once (hold_both).
 */
wk_status wk_directory_lock_root(wk_engine *engine, wk_error *error) {
	bool looked_at;
	int result = take(engine, engine->superblock_file, engine->lock_file != NULL ? LOOKED_AT_NS : 0, &looked_at);
	if (result == -EWOULDBLOCK)
		return refuse(engine, looked_at, error);
	return result < 0 ? wk_fail_io(error, result, "locking the superblock of %s", engine->path) : WK_OK;
}

/* The file `lock`, made where it is missing. -errno */
static int open_lock(wk_engine *engine, const char *path, bool *made) {
	const struct wk_io_operations *io = engine->io->operations;
	wk_registry_hold_forks(); /* a child that does not know of this descriptor would keep the lock */
	int result = io->open(engine->io, path, WK_IO_WRITE, &engine->lock_file);
	if (result == -ENOENT) {
		result = io->open(engine->io, path, WK_IO_WRITE | WK_IO_CREATE, &engine->lock_file);
		*made |= result == 0;
		if (result == -EEXIST)
			result = io->open(engine->io, path, WK_IO_WRITE, &engine->lock_file);
	}
	wk_registry_let_fork();
	return result;
}

static void let_go(wk_engine *engine) {
	wk_registry_hold_forks();
	if (engine->lock_file != NULL)
		engine->io->operations->close(engine->io, engine->lock_file);
	if (engine->superblock_file != NULL)
		engine->io->operations->close(engine->io, engine->superblock_file);
	engine->lock_file = engine->superblock_file = NULL;
	wk_registry_let_fork();
}

/* Somebody removed one of the two, or put another file in its place, while its lock was waited for. */
static bool is_outdated(wk_engine *engine) {
	static const char gone[] = "";
	wk_file *root = engine->superblock_file;
	return check_kept(engine, wk_engine_path(engine, "lock"), engine->lock_file, gone, gone) != NULL ||
	       (root != NULL && check_kept(engine, wk_engine_path(engine, "superblock"), root, gone, gone) != NULL);
}

/*
 * One try. *again: all was let go of, and a further one is due.
 *
 * The superblock comes first: who is refused there has not made a file `lock` anew, where somebody removed it. It is not kept
 * while `lock` is waited for: whoever makes a directory has that one first, and wants the superblock then.
 */
static wk_status hold_both(wk_engine *engine, const char *path, bool *made, bool *again, wk_error *error) {
	bool looked_at = false;
	*again = false;
	wk_status status = wk_superblock_hold(engine, error);
	if (status != WK_OK)
		return status;
	int result = open_lock(engine, path, made);
	if (result < 0)
		return wk_fail_io(error, result, "opening %s", path);
	uint64_t limit = engine->options.lock_timeout_ns, waited = engine->report.lock_wait_ns;
	result = engine->io->operations->lock(engine->io, engine->lock_file, true);
	if (result == -EWOULDBLOCK) {
		looked_at = waited >= limit && is_only_looked_at(engine, engine->lock_file);
		*again = waited < limit || (looked_at && waited - limit < LOOKED_AT_NS);
	}
	bool outdated = result == 0 && is_outdated(engine);
	if (outdated)
		*again = waited < limit || waited - limit < LOOKED_AT_NS;
	if (*again) {
		let_go(engine);
		return WK_OK;
	}
	if (result == -EWOULDBLOCK || outdated)
		return refuse(engine, looked_at, error);
	return result < 0 ? wk_fail_io(error, result, "locking %s", engine->path) : WK_OK;
}

/* Taken with waiting: a process that was killed lets go of it when it is gone. What it left under way: late_writes.h. */
wk_status wk_directory_lock(wk_engine *engine, wk_error *error) {
	static const uint32_t nobody = 0;
	char *path = wk_engine_path(engine, "lock");
	if (path == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	bool made = false, again;
	wk_status status;
	while ((status = hold_both(engine, path, &made, &again, error)) == WK_OK && again) {
		uint64_t begin = wk_engine_now(engine);
		wk_futex_wait(&nobody, 0, LOCK_RETRY_NS);
		engine->report.lock_wait_ns += wk_engine_now(engine) - begin;
	}
	free(path);
	int result = status == WK_OK ? write_holder(engine, made) : 0;
	return result < 0 ? wk_fail_io(error, result, "locking %s", engine->path) : status;
}

/* ---- is it still ours? ---- */

/* (no fork) The file `lock` that has the name now, or a new one. *taken: its lock is ours, and it takes the other's place. */
static const char *take_new_lock(wk_engine *engine, const char *path, bool make, bool *taken) {
	const struct wk_io_operations *io = engine->io->operations;
	wk_file *found;
	if (io->open(engine->io, path, WK_IO_WRITE | (make ? WK_IO_CREATE : 0), &found) != 0)
		return NULL; /* that is looked at again */
	int result = io->lock(engine->io, found, true);
	bool written = result == -EWOULDBLOCK && !is_only_looked_at(engine, found);
	*taken = result == 0;
	io->close(engine->io, *taken ? engine->lock_file : found);
	engine->lock_file = *taken ? found : engine->lock_file;
	return written ? "its file `lock` was removed, and another process opened the directory for writing" : NULL;
}

/*
 * The superblock is locked by us, so no process of this version can have opened the directory. An earlier version looks at
 * the file `lock` alone.
 */
static const char *check_lock(wk_engine *engine) {
	char *path = wk_engine_path(engine, "lock");
	wk_file *found;
	wk_named named = look_at_name(engine, path, engine->lock_file, &found);
	if (found != NULL)
		engine->io->operations->close(engine->io, found);
	const char *lost = NULL;
	bool taken = false;
	if (named == NAMED_OTHER || named == NAMED_NONE) {
		wk_registry_hold_forks(); /* a child that does not know of this descriptor would keep the lock */
		lost = take_new_lock(engine, path, named == NAMED_NONE, &taken);
		wk_registry_let_fork();
	}
	if (taken)
		(void)wk_directory_lock_tell_kernel(engine); /* what it does not say costs a reader time, and nothing else */
	free(path);
	return lost;
}

const char *wk_directory_lock_lost(wk_engine *engine) {
	static const char removed[] = "its file `superblock` was removed";
	static const char replaced[] = "its file `superblock` was replaced by another one";
	const char *lost = check_kept(engine, wk_engine_path(engine, "superblock"), engine->superblock_file, removed,
	                              replaced);
	wk_superblock now;
	if (lost == NULL && wk_superblock_reread(engine, &now) == WK_OK && now.incarnation > engine->superblock.incarnation)
		lost = "another process opened it for writing meanwhile";
	return lost;
}

static const char *check_owner(wk_engine *engine) {
	if (engine->journal_directory.owner == NULL)
		return NULL;
	return check_kept(engine, wk_places_path((wk_places){.data = engine->journal_directory.path}, "owner"),
	                  engine->journal_directory.owner, "the file `owner` of its journal directory was removed",
	                  "the file `owner` of its journal directory was replaced by another one");
}

wk_status wk_directory_lock_check(wk_engine *engine, wk_error *error) {
	pthread_mutex_lock(&engine->file_id_lock);
	const char *lost = wk_directory_lock_lost(engine);
	if (lost == NULL)
		lost = check_owner(engine);
	if (lost == NULL)
		lost = check_lock(engine);
	pthread_mutex_unlock(&engine->file_id_lock);
	if (lost == NULL)
		return WK_OK;
	wk_engine_lock(engine);
	wk_journal_lose(engine, lost);
	if (error != NULL)
		*error = engine->failure;
	wk_engine_unlock(engine);
	return WK_FAILED;
}
