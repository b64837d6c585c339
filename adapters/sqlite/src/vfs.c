/*
 * vfs.c: the VFS "walkeeper". It stands before the host's own VFS, and looks at what SQLite does to a database and its
 * WAL; every other file is the host's alone.
 */
#include "vfs_sqlite.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "host.h"
#include "vfs.h"
#include "wal_index.h"

enum {
	VFS_MAX = 4, /* SQLites of one process */
	HOST_VERSION_MIN = 3035000,
	FRAMES_UNSYNCED_MAX = 256,
	HELD_COMMIT_US = 50,
};

static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static wk_vfs slots[VFS_MAX];
static size_t slots_count;

static wk_file *of(sqlite3_file *file) {
	return (wk_file *)file;
}

/* ---- the WAL ---- */

static int wal_file_read(void *context, uint8_t *bytes, size_t size, uint64_t offset) {
	sqlite3_file *real = context;
	int rc = real->pMethods->xRead(real, bytes, (int)size, (sqlite3_int64)offset);
	return rc == SQLITE_IOERR_SHORT_READ ? SQLITE_OK : rc;
}

static int wal_file_write(void *context, const uint8_t *bytes, size_t size, uint64_t offset) {
	sqlite3_file *real = context;
	return real->pMethods->xWrite(real, bytes, (int)size, (sqlite3_int64)offset);
}

static int fail_with(const wk_error *error, int rc) {
	wk_host_log(rc, error->text);
	return rc;
}

static int sync_database(wk_file *file, int flags) {
	wk_database *db = file->database;
	uint32_t frames = atomic_exchange(&db->frames_unsynced, 0);
	atomic_store(&db->unsynced, false);
	int rc = file->real->pMethods->xSync(file->real, flags);
	if (rc != SQLITE_OK) {
		atomic_store(&db->unsynced, true);
		atomic_fetch_add(&db->frames_unsynced, frames);
	}
	return rc;
}

/* What was in the WAL is in the database file: a restart need not redo it. */
static int begin_wal(wk_file *file, const uint8_t *header) {
	wk_database *db = file->database;
	wk_error error;
	if (!wk_database_wait(db, atomic_load(&db->submitted)))
		return SQLITE_IOERR_WRITE;
	if (atomic_load(&db->unsynced) && file->main != NULL) {
		int rc = sync_database(file->main, SQLITE_SYNC_NORMAL);
		if (rc != SQLITE_OK)
			return rc;
	}
	if (atomic_load(&db->unsynced)) /* a restart redoes more */
		wk_database_wal_begins_later(db, header + WK_WAL_SALT_AT);
	else if (wk_database_checkpointed(db, header + WK_WAL_SALT_AT, &error) != WK_OK)
		return fail_with(&error, SQLITE_IOERR_WRITE);
	atomic_fetch_add(&db->wals, 1);
	return wk_wal_begin(&db->wal, header) ? SQLITE_OK : SQLITE_IOERR_WRITE;
}

static int write_wal(wk_file *file, const uint8_t *bytes, size_t size, uint64_t offset) {
	wk_database *db = file->database;
	const wk_wal_file real = {.context = file->real, .read = wal_file_read, .write = wal_file_write};
	/* Not by the WAL's name, which VFSes before this one copy; NULL: one of them keeps the locks of the wal-index to itself. */
	file->main = atomic_load(&db->holder);
	bool unseen = file->main == NULL && db->acknowledge == WK_ACKNOWLEDGE_GROUP; /* nobody would wait for the commit */
	if (wk_database_state_of(db) != WK_DATABASE_OPEN || unseen || !wk_database_is_mine(db))
		return SQLITE_IOERR_WRITE;
	atomic_store(&db->writing, file);
	if (offset == 0 && size == WK_WAL_HEADER) {
		int rc = begin_wal(file, bytes);
		return rc == SQLITE_OK ? wal_file_write(file->real, bytes, size, 0) : rc;
	}
	if (!db->wal.known || offset < WK_WAL_HEADER)
		return SQLITE_IOERR_WRITE;
	uint64_t commits = db->status.commits;
	int rc = wk_wal_write(&db->wal, &real, bytes, size, offset);
	if (file->main != NULL)
		file->main->ticket = atomic_load(&db->submitted);
	bool committed = db->status.commits != commits;
	if (rc != SQLITE_OK && committed && atomic_load(&db->holds_commit))
		wk_shared_log_abandon(db);
	else if (rc != SQLITE_OK && committed)
		wk_database_stop(
		    db, WK_DATABASE_POISONED,
		    "a commit is in the log, and could not be written to the local WAL: close all connections and open again");
	return rc;
}

/* ---- what keeps the WAL while no connection is open ---- */

static sqlite3_file *new_keeper(sqlite3_vfs *real, const char *path) {
	sqlite3_file *file = calloc(1, (size_t)real->szOsFile + 4 + strlen(path) + 4); /* the name stands behind it */
	if (file == NULL)
		return NULL;
	char *name = (char *)file + real->szOsFile + 4;
	strcpy(name, path);
	int flags = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_READWRITE;
	int rc = real->xOpen(real, name, file, flags, &flags);
	if (rc == SQLITE_OK)
		rc = file->pMethods->xLock(file, SQLITE_LOCK_SHARED);
	if (rc == SQLITE_OK)
		return file;
	wk_vfs_close_keeper(file);
	return NULL; /* the database goes on without it */
}

void wk_vfs_close_keeper(void *keeper) {
	sqlite3_file *file = keeper;
	if (file != NULL && file->pMethods != NULL) {
		file->pMethods->xUnlock(file, SQLITE_LOCK_NONE);
		file->pMethods->xClose(file);
	}
	free(file);
}

/* ---- files ---- */

/* It may not write any more. */
static void let_go(wk_file *file) {
	wk_file *self = file;
	if (atomic_compare_exchange_strong(&file->database->holder, &self, NULL))
		atomic_store(&file->database->writer_connection, NULL);
}

static void take_hold(wk_file *file) {
	atomic_store(&file->database->writer_connection, file->connection != NULL ? *file->connection : NULL);
	atomic_store(&file->database->holder, file);
}

static void begin_changes(wk_file *file) {
	if (!file->changing)
		wk_database_file_changes(file->database);
	file->changing = true;
}

/* Whoever wrote pages to the database file has its checkpoint's lock, or all locks. */
static void end_changes(wk_file *file) {
	if (file->changing)
		wk_database_file_written(file->database);
	file->changing = false;
}

/* The database whose WAL_WRITE_LOCK this thread did not get, until it sleeps; it may be closed by then. */
static _Thread_local wk_database *wanted;

static int take_write_lock(wk_file *file, int slot, int count, int flags) {
	wk_write_queue *queue = &file->database->write_queue;
	uint64_t moves;
	bool admitted = wk_write_queue_admits(queue, &moves);
	int rc = admitted ? file->real->pMethods->xShmLock(file->real, slot, count, flags) : SQLITE_BUSY;
	if (rc == SQLITE_OK)
		wk_write_queue_took(queue);
	bool of_this_process = rc == SQLITE_BUSY && (!admitted || wk_write_queue_held_since(queue, moves));
	wanted = of_this_process ? file->database : NULL;
	return rc;
}

static int leave_write_lock(wk_file *file, int slot, int count, int flags) {
	int rc = file->real->pMethods->xShmLock(file->real, slot, count, flags);
	wk_write_queue_left(&file->database->write_queue);
	return rc;
}

static int file_close(sqlite3_file *base) {
	wk_file *file = of(base);
	wk_file *self = file;
	atomic_compare_exchange_strong(&file->database->writing, &self, NULL);
	let_go(file);
	end_changes(file);
	if (file->role == WK_FILE_DATABASE && wk_database_disconnecting(file->database))
		wk_vfs_close_keeper(wk_database_keep(file->database, new_keeper(file->vfs->real, file->database->path)));
	int rc = file->real->pMethods->xClose(file->real);
	if (file->role == WK_FILE_DATABASE)
		wk_database_disconnected(file->database);
	wk_database_close(file->database);
	return rc;
}

static int file_read(sqlite3_file *base, void *bytes, int size, sqlite3_int64 offset) {
	wk_file *file = of(base);
	if (file->role != WK_FILE_WAL)
		return file->real->pMethods->xRead(file->real, bytes, size, offset);
	wk_wal *wal = &file->database->wal;
	const wk_wal_file real = {.context = file->real, .read = wal_file_read, .write = wal_file_write};
	bool mine = atomic_load(&file->database->writing) == file; /* others read only what was published */
	bool answered = false;
	int rc = mine ? wk_wal_before_read(wal, &real, bytes, (size_t)size, (uint64_t)offset, &answered) : SQLITE_OK;
	if (mine && file->main != NULL)
		file->main->ticket = atomic_load(&file->database->submitted);
	if (rc == SQLITE_OK && !answered)
		rc = file->real->pMethods->xRead(file->real, bytes, size, offset);
	if (rc == SQLITE_OK && mine && !answered)
		wk_wal_after_read(wal, bytes, (size_t)size, (uint64_t)offset);
	return rc;
}

static int file_write(sqlite3_file *base, const void *bytes, int size, sqlite3_int64 offset) {
	wk_file *file = of(base);
	if (file->role == WK_FILE_WAL) {
		int rc = write_wal(file, bytes, (size_t)size, (uint64_t)offset);
		if (rc != SQLITE_OK) /* at once: with locking_mode=EXCLUSIVE no lock is let go of when SQLite rolls back */
			wk_shared_log_abandon(file->database);
		return rc;
	}
	while (atomic_load(&file->database->holds_commit)) { /* another thread is about to append it */
		if (atomic_load(&file->database->holder) == file)
			return SQLITE_IOERR_WRITE;
		usleep(HELD_COMMIT_US);
	}
	bool kept = wk_database_wait(file->database, atomic_load(&file->database->submitted));
	if (wk_database_state_of(file->database) == WK_DATABASE_POISONED) /* a checkpoint of what may be nowhere else */
		kept = false;
	if (!kept)
		return SQLITE_IOERR_WRITE;
	atomic_store(&file->database->unsynced, true);
	begin_changes(file);
	return file->real->pMethods->xWrite(file->real, bytes, size, offset);
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 size) {
	wk_file *file = of(base);
	if (file->role == WK_FILE_DATABASE) {
		atomic_store(&file->database->unsynced, true);
		begin_changes(file);
	} else if (size == 0) {
		atomic_fetch_add(&file->database->wals, 1); /* a snapshot does not read there any more */
		wk_wal_forget(&file->database->wal);
	}
	return file->real->pMethods->xTruncate(file->real, size);
}

/*
 * Where readers do not let the WAL begin anew, SQLite checkpoints behind every commit, and syncs a few pages each time. These
 * wait for the next sync; the WAL begins anew behind one. Who has the lock may be closing the database.
 */
static bool is_worth_a_sync(wk_file *file) {
	wk_database *db = file->database;
	return atomic_load(&db->frames_unsynced) >= FRAMES_UNSYNCED_MAX || atomic_load(&db->holder) == file;
}

static int file_sync(sqlite3_file *base, int flags) {
	wk_file *file = of(base);
	if (file->role == WK_FILE_WAL) /* the log is what survives */
		return SQLITE_OK;
	return is_worth_a_sync(file) ? sync_database(file, flags) : SQLITE_OK;
}

static int file_size(sqlite3_file *base, sqlite3_int64 *size) {
	wk_file *file = of(base);
	return file->real->pMethods->xFileSize(file->real, size);
}

static int file_lock(sqlite3_file *base, int level) {
	wk_file *file = of(base);
	int rc = file->real->pMethods->xLock(file->real, level);
	if (rc == SQLITE_OK && level == SQLITE_LOCK_EXCLUSIVE) /* SQLite then takes no locks in the wal-index */
		take_hold(file);
	if (rc == SQLITE_OK) /* this lock keeps it from now on */
		wk_vfs_close_keeper(wk_database_keep(file->database, NULL));
	return rc;
}

static int file_unlock(sqlite3_file *base, int level) {
	wk_file *file = of(base);
	let_go(file);
	end_changes(file);
	return file->real->pMethods->xUnlock(file->real, level);
}

static int file_check_reserved_lock(sqlite3_file *base, int *taken) {
	wk_file *file = of(base);
	return file->real->pMethods->xCheckReservedLock(file->real, taken);
}

static int file_pragma(wk_file *file, char **arguments) {
	const sqlite3_api_routines *sqlite3_api = file->vfs->api;
	if (sqlite3_stricmp(arguments[1], "journal_mode") != 0 || arguments[2] == NULL)
		return SQLITE_NOTFOUND;
	if (sqlite3_stricmp(arguments[2], "wal") == 0)
		return SQLITE_NOTFOUND;
	arguments[0] = sqlite3_mprintf(
	    "the journal mode of a database of walkeeper is wal: its write-ahead log is what is kept");
	return SQLITE_ERROR;
}

/*
 * Of a transaction over several databases SQLite commits each, and then lets go of their locks. What is held still when the first one is let
 * go of has waited for a database that was not changed; or for one that failed.
 */
static void end_of_transaction(wk_file *file) {
	wk_database *db = file->database;
	wk_error error;
	if (atomic_load(&db->holder) != file || !atomic_load(&db->holds_commit)) /* else it is another connection's */
		return;
	if (wk_shared_log_has_failed_partners(db))
		wk_shared_log_abandon(db);
	else if (wk_shared_log_submit(db, NULL, &error) != WK_OK)
		wk_host_log(SQLITE_IOERR_WRITE, error.text);
	file->ticket = atomic_load(&db->submitted);
}

/*
 * SQLite has committed, and the commit frame is still held back. That this cannot be is what this file is about. Here it is
 * seen where SQLite has all locks; else another connection may write by now, and it was looked at when the lock was let go.
 */
static bool commit_was_missed(wk_file *file) {
	wk_database *db = file->database;
	if (atomic_load(&db->holder) != file || db->wal.mark_frame == 0)
		return false;
	wk_database_spoiled(db, "SQLite committed a transaction whose frames in the WAL were never complete");
	return true;
}

/* Whether COMMIT may return: what was committed is in the log, and nothing else was. */
static bool commit_is_kept(wk_file *file) {
	wk_database *db = file->database;
	end_of_transaction(file);
	return !commit_was_missed(file) && wk_database_wait(db, file->ticket) &&
	       wk_database_state_of(db) != WK_DATABASE_POISONED;
}

static int file_control(sqlite3_file *base, int operation, void *argument) {
	wk_file *file = of(base);
	const sqlite3_api_routines *sqlite3_api = file->vfs->api;
	if (operation == WK_FCNTL_DATABASE) {
		*(wk_database **)argument = file->database;
		return SQLITE_OK;
	}
	if (operation == SQLITE_FCNTL_PDB)
		file->connection = argument;
	if (operation == SQLITE_FCNTL_COMMIT_PHASETWO && !commit_is_kept(file))
		return SQLITE_IOERR_WRITE;
	if (operation == SQLITE_FCNTL_PRAGMA && file->role == WK_FILE_DATABASE) {
		int rc = file_pragma(file, argument);
		if (rc != SQLITE_NOTFOUND)
			return rc;
	}
	int rc = file->real->pMethods->xFileControl(file->real, operation, argument);
	if (operation == SQLITE_FCNTL_VFSNAME && rc == SQLITE_OK)
		*(char **)argument = sqlite3_mprintf("walkeeper/%z", *(char **)argument);
	return rc;
}

static int file_sector_size(sqlite3_file *base) {
	wk_file *file = of(base);
	return file->real->pMethods->xSectorSize(file->real);
}

static int file_characteristics(sqlite3_file *base) {
	wk_file *file = of(base);
	return file->real->pMethods->xDeviceCharacteristics(file->real);
}

/* ---- the wal-index ---- */

/* Its first region, or NULL where there is none yet. */
static volatile uint8_t *index_region(wk_file *file) {
	volatile void *region = NULL;
	int rc = file->real->pMethods->xShmMap(file->real, 0, WK_WAL_INDEX_REGION, 0, &region);
	return rc == SQLITE_OK ? region : NULL;
}

/* What the wal-index says of the WAL. */
typedef struct wk_published {
	bool valid, same_wal; /* it is the WAL that this process began */
	uint32_t frame;       /* the last one */
} wk_published;

static wk_published published(wk_file *file) {
	wk_wal_index_header header;
	volatile uint8_t *region = index_region(file);
	if (region == NULL || !wk_wal_index_read(region, &header))
		return (wk_published){0};
	const wk_wal *wal = &file->database->wal;
	bool same_wal = wal->known && memcmp(header.salt, wal->format.salt, sizeof header.salt) == 0;
	return (wk_published){.valid = true, .same_wal = same_wal, .frame = header.frames};
}

/* Every frame that is published was written here; a WAL that was begun anew, by whomever, has none yet. */
static void look_for_strangers(wk_file *file) {
	if (wk_database_state_of(file->database) != WK_DATABASE_OPEN)
		return;
	wk_published now = published(file);
	uint32_t ours = now.same_wal ? file->database->wal.committed : 0;
	if (now.valid && now.frame > ours)
		wk_database_spoiled(
		    file->database,
		    "the WAL has a commit that is not in the log: another program wrote to the database without "
		    "the VFS walkeeper");
}

/* A commit that is in the log is in the local WAL too; where SQLite did not publish it, the next reader is made to look for it. */
static void end_of_write(wk_file *file) {
	wk_database *db = file->database;
	end_of_transaction(file);
	if (db->status.commits != file->commits)
		file->ticket = atomic_load(&db->submitted);
	wk_wal_rollback(&db->wal);
	atomic_store(&db->writing, NULL); /* a checkpoint reads the WAL without the lock, while another connection writes */
	look_for_strangers(file);
	wk_published now = published(file);
	if (db->status.commits == file->commits || (now.same_wal && now.frame == db->wal.committed))
		return;
	volatile uint8_t *region = index_region(file);
	if (region != NULL) {
		memset((uint8_t *)region, 0, 2 * WK_WAL_INDEX_HEADER);
		file->real->pMethods->xShmBarrier(file->real);
	}
}

/* What a transaction is refused with before it begins. Readers take the lock too, where the wal-index is not valid. */
static int admission(wk_file *file) {
	uint32_t state = wk_database_state_of(file->database);
	if (state == WK_DATABASE_OPEN || !published(file).valid)
		return SQLITE_OK;
	return state == WK_DATABASE_POISONED ? SQLITE_IOERR : SQLITE_READONLY;
}

static int file_shm_lock(sqlite3_file *base, int slot, int count, int flags) {
	wk_file *file = of(base);
	bool write = slot == WK_WAL_WRITE_LOCK && (flags & SQLITE_SHM_EXCLUSIVE) != 0;
	bool lock = (flags & SQLITE_SHM_LOCK) != 0;
	int rc = SQLITE_OK;
	if (lock && slot >= WK_WAL_FIRST_READ_LOCK && wk_database_state_of(file->database) == WK_DATABASE_POISONED)
		rc = SQLITE_IOERR;
	if (rc != SQLITE_OK)
		return rc;
	if (write && !lock && file->writing) {
		end_of_write(file);
		file->writing = false;
		let_go(file);
	}
	if (slot == WK_WAL_CHECKPOINT_LOCK && !lock)
		end_changes(file);
	if (!write)
		return file->real->pMethods->xShmLock(file->real, slot, count, flags);
	if (!lock)
		return leave_write_lock(file, slot, count, flags);
	rc = take_write_lock(file, slot, count, flags);
	if (rc != SQLITE_OK)
		return rc;
	file->writing = true;
	take_hold(file);
	file->commits = file->database->status.commits;
	look_for_strangers(file);
	rc = admission(file);
	if (rc != SQLITE_OK) {
		file->writing = false;
		let_go(file);
		leave_write_lock(file, slot, count, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
	}
	return rc;
}

static int file_shm_map(sqlite3_file *base, int region, int size, int extend, void volatile **mapped) {
	wk_file *file = of(base);
	return file->real->pMethods->xShmMap(file->real, region, size, extend, mapped);
}

static void file_shm_barrier(sqlite3_file *base) {
	wk_file *file = of(base);
	file->real->pMethods->xShmBarrier(file->real);
}

static int file_shm_unmap(sqlite3_file *base, int delete) {
	wk_file *file = of(base);
	return file->real->pMethods->xShmUnmap(file->real, delete);
}

static int file_fetch(sqlite3_file *base, sqlite3_int64 offset, int size, void **page) {
	wk_file *file = of(base);
	return file->real->pMethods->xFetch(file->real, offset, size, page);
}

static int file_unfetch(sqlite3_file *base, sqlite3_int64 offset, void *page) {
	wk_file *file = of(base);
	return file->real->pMethods->xUnfetch(file->real, offset, page);
}

static const sqlite3_io_methods FILE_METHODS = {
    .iVersion = 3,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_reserved_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
    .xFetch = file_fetch,
    .xUnfetch = file_unfetch,
};

/* ---- opening ---- */

/* The database whose file has this name with the suffix cut off, retained, or NULL. */
static wk_database *database_beside(const char *name, const char *suffix) {
	size_t length = strlen(name), cut = strlen(suffix);
	if (length <= cut || strcmp(name + length - cut, suffix) != 0)
		return NULL;
	char *path = strndup(name, length - cut);
	wk_database *db = path != NULL ? wk_database_find(path) : NULL;
	free(path);
	return db;
}

/* A connection without SQLITE_OPEN_CREATE makes no database: there is a file, or the log has one. */
static wk_status want_database(const char *path, const wk_database_log *log, wk_error *error) {
	int64_t first, next;
	if (access(path, F_OK) == 0)
		return WK_OK;
	wk_status status = log->range(log->context, &first, &next, error);
	if (status == WK_OK && next == 0)
		status = wk_database_fail(error, WK_NOT_FOUND,
		                          "%s does not exist, its log is empty, and the connection may not make a database",
		                          path);
	return status;
}

/* As the URI says: wk_root or wk_gateway, wk_log. */
static wk_status log_by_uri(const sqlite3_api_routines *sqlite3_api, const char *name, const char *log_name,
                            wk_database_log *log, wk_error *error) {
	enum { NS_PER_MS = 1000000 };
	const char *root = sqlite3_uri_parameter(name, "wk_root");
	const char *gateway = sqlite3_uri_parameter(name, "wk_gateway");
	if ((root == NULL) == (gateway == NULL))
		return wk_database_fail(error, WK_INVALID,
		                        "%s: the URI names the log %s, and %s that it is in: wk_root=DIRECTORY, or "
		                        "wk_gateway=HOST:PORT",
		                        name, log_name, root == NULL ? "not the place" : "two places");
	if (root != NULL)
		return wk_database_log_open(root, log_name, true, log, error);
	wk_gateway_options options;
	wk_gateway_options_init(&options);
	options.token_file = sqlite3_uri_parameter(name, "wk_token_file");
	int64_t timeout_ms = sqlite3_uri_int64(name, "wk_timeout_ms", (int64_t)(options.timeout_ns / NS_PER_MS));
	if (timeout_ms <= 0 || timeout_ms > INT32_MAX)
		return wk_database_fail(error, WK_INVALID, "%s: wk_timeout_ms is a number of milliseconds from 1 on", name);
	options.timeout_ns = (uint64_t)timeout_ms * NS_PER_MS;
	return wk_database_log_connect(gateway, log_name, true, &options, log, error);
}

/* As the URI says: log_by_uri, wk_page_size, wk_ack. */
static wk_status open_by_uri(wk_vfs *vfs, const char *name, const char *log_name, int flags, wk_error *error) {
	const sqlite3_api_routines *sqlite3_api = vfs->api;
	wk_database_options options;
	wk_database_options_init(&options);
	options.page_size = (uint32_t)sqlite3_uri_int64(name, "wk_page_size", options.page_size);
	const char *acknowledge = sqlite3_uri_parameter(name, "wk_ack");
	if (acknowledge != NULL && strcmp(acknowledge, "group") == 0)
		options.acknowledge = WK_ACKNOWLEDGE_GROUP;
	else if (acknowledge != NULL && strcmp(acknowledge, "strict") != 0)
		return wk_database_fail(error, WK_INVALID, "%s: wk_ack=%s is neither strict nor group", name, acknowledge);
	wk_database_log log;
	wk_database *db;
	wk_status status = log_by_uri(sqlite3_api, name, log_name, &log, error);
	if (status == WK_OK && (flags & SQLITE_OPEN_CREATE) == 0) {
		status = want_database(name, &log, error);
		if (status != WK_OK)
			log.close(log.context);
	}
	if (status == WK_OK)
		status = wk_database_open(name, &log, &options, &db, error);
	return status;
}

/* The database of a file that a connection opens; NULL and SQLITE_OK: it is to be a plain file. */
static int database_of(wk_vfs *vfs, const char *name, int flags, wk_database **found) {
	const sqlite3_api_routines *sqlite3_api = vfs->api;
	wk_error error;
	*found = wk_database_find(name);
	const char *log_name = sqlite3_uri_parameter(name, "wk_log");
	if (*found == NULL && log_name != NULL && log_name[0] == 0)
		return SQLITE_OK;
	if (*found == NULL && log_name == NULL) {
		wk_database_fail(&error, WK_INVALID,
		                 "%s is not attached to a log, and its URI names none: wk_log=NAME and wk_root=DIRECTORY or "
		                 "wk_gateway=HOST:PORT; wk_log= for a file without a log",
		                 name);
		return fail_with(&error, SQLITE_CANTOPEN);
	}
	if (sqlite3_uri_boolean(name, "nolock", 0) || sqlite3_uri_boolean(name, "immutable", 0)) {
		wk_database_fail(&error, WK_INVALID, "%s: a database of walkeeper is not opened with nolock or immutable",
		                 name);
		if (*found != NULL)
			wk_database_close(*found);
		return fail_with(&error, SQLITE_CANTOPEN);
	}
	if (*found != NULL && !wk_database_in_place(*found)) {
		wk_database_fail(&error, WK_INVALID,
		                 "%s was deleted or replaced while connections have it open: close them first", name);
		wk_database_close(*found);
		return fail_with(&error, SQLITE_CANTOPEN);
	}
	if (*found != NULL)
		return SQLITE_OK;
	wk_status status = open_by_uri(vfs, name, log_name, flags, &error);
	if (status == WK_OK || status == WK_EXISTS)
		*found = wk_database_find(name);
	if (*found == NULL)
		return fail_with(&error, SQLITE_CANTOPEN);
	if (status == WK_OK) /* from now on the connections hold it */
		wk_database_close(*found);
	return SQLITE_OK;
}

static int open_ours(wk_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *out_flags, wk_database *db,
                     uint32_t role) {
	wk_file *file = of(base);
	*file = (wk_file){.vfs = vfs, .database = db, .role = role, .real = (sqlite3_file *)(file + 1)};
	if (role == WK_FILE_DATABASE && !wk_database_connected(db, vfs)) {
		wk_host_log(SQLITE_CANTOPEN, "a connection of another SQLite of this process has the database open");
		wk_database_close(db);
		return SQLITE_CANTOPEN;
	}
	int rc = vfs->real->xOpen(vfs->real, name, file->real, flags, out_flags);
	if (rc == SQLITE_OK && file->real->pMethods->iVersion < 3) {
		file->real->pMethods->xClose(file->real);
		rc = SQLITE_CANTOPEN;
	}
	if (rc != SQLITE_OK) {
		if (role == WK_FILE_DATABASE) {
			(void)wk_database_disconnecting(db);
			wk_database_disconnected(db);
		}
		wk_database_close(db);
		return rc;
	}
	file->base.pMethods = &FILE_METHODS;
	return SQLITE_OK;
}

static wk_vfs *vfs_of(sqlite3_vfs *base) {
	return (wk_vfs *)base;
}

static int vfs_open(sqlite3_vfs *base, const char *name, sqlite3_file *file, int flags, int *out_flags) {
	wk_vfs *vfs = vfs_of(base);
	wk_database *db = NULL;
	file->pMethods = NULL;
	if (name != NULL && (flags & SQLITE_OPEN_MAIN_DB) != 0) {
		int rc = database_of(vfs, name, flags, &db);
		if (rc != SQLITE_OK)
			return rc;
		if (db != NULL)
			return open_ours(vfs, name, file, flags, out_flags, db, WK_FILE_DATABASE);
	} else if (name != NULL && (flags & SQLITE_OPEN_WAL) != 0) {
		db = database_beside(name, "-wal");
		if (db != NULL)
			return open_ours(vfs, name, file, flags, out_flags, db, WK_FILE_WAL);
	} else if (name != NULL && (flags & SQLITE_OPEN_MAIN_JOURNAL) != 0) {
		db = database_beside(name, "-journal");
		if (db != NULL) { /* what it would keep would not be in the log */
			wk_database_close(db);
			return SQLITE_CANTOPEN;
		}
	}
	return vfs->real->xOpen(vfs->real, name, file, flags, out_flags);
}

/* With the WAL of a database goes what a restart would have to redo, where all of it is safe in the database file. */
static int vfs_delete(sqlite3_vfs *base, const char *name, int sync_directory) {
	wk_vfs *vfs = vfs_of(base);
	wk_database *db = database_beside(name, "-wal");
	if (db != NULL) {
		wk_error error;
		if (!atomic_load(&db->unsynced) && wk_database_state_of(db) == WK_DATABASE_OPEN &&
		    wk_database_checkpointed(db, NULL, &error) != WK_OK)
			wk_host_log(SQLITE_IOERR_WRITE, error.text); /* a restart redoes more */
	}
	int rc = vfs->real->xDelete(vfs->real, name, sync_directory);
	if (db != NULL) {
		atomic_fetch_add(&db->wals, 1);
		if (rc == SQLITE_OK) /* else the next connection goes on with it */
			wk_wal_forget(&db->wal);
		wk_database_close(db);
	}
	return rc;
}

static int vfs_access(sqlite3_vfs *base, const char *name, int flags, int *answer) {
	return vfs_of(base)->real->xAccess(vfs_of(base)->real, name, flags, answer);
}
static int vfs_full_pathname(sqlite3_vfs *base, const char *name, int size, char *full) {
	return vfs_of(base)->real->xFullPathname(vfs_of(base)->real, name, size, full);
}
static void *vfs_dl_open(sqlite3_vfs *base, const char *name) {
	return vfs_of(base)->real->xDlOpen(vfs_of(base)->real, name);
}
static void vfs_dl_error(sqlite3_vfs *base, int size, char *text) {
	vfs_of(base)->real->xDlError(vfs_of(base)->real, size, text);
}
static void (*vfs_dl_sym(sqlite3_vfs *base, void *library, const char *symbol))(void) {
	return vfs_of(base)->real->xDlSym(vfs_of(base)->real, library, symbol);
}
static void vfs_dl_close(sqlite3_vfs *base, void *library) {
	vfs_of(base)->real->xDlClose(vfs_of(base)->real, library);
}
static int vfs_randomness(sqlite3_vfs *base, int size, char *bytes) {
	return vfs_of(base)->real->xRandomness(vfs_of(base)->real, size, bytes);
}
static int vfs_sleep(sqlite3_vfs *base, int microseconds) {
	wk_database *db = wanted != NULL ? wk_database_retain(wanted) : NULL;
	wanted = NULL;
	if (db != NULL) {
		wk_write_queue_sleep(&db->write_queue, (uint32_t)microseconds);
		wk_database_close(db);
		return microseconds;
	}
	return vfs_of(base)->real->xSleep(vfs_of(base)->real, microseconds);
}
static int vfs_current_time(sqlite3_vfs *base, double *now) {
	return vfs_of(base)->real->xCurrentTime(vfs_of(base)->real, now);
}
static int vfs_last_error(sqlite3_vfs *base, int size, char *text) {
	return vfs_of(base)->real->xGetLastError(vfs_of(base)->real, size, text);
}
static int vfs_current_time_int64(sqlite3_vfs *base, sqlite3_int64 *now) {
	return vfs_of(base)->real->xCurrentTimeInt64(vfs_of(base)->real, now);
}

/* ---- one VFS for each SQLite ---- */

int wk_vfs_register(const sqlite3_api_routines *api) {
	const sqlite3_api_routines *sqlite3_api = api;
	if (sqlite3_libversion_number() < HOST_VERSION_MIN)
		return SQLITE_ERROR;
	if (sqlite3_vfs_find("walkeeper") != NULL)
		return SQLITE_OK;
	int rc = SQLITE_FULL;
	pthread_mutex_lock(&slots_lock);
	for (size_t i = 0; i < slots_count; i++) /* sqlite3_shutdown forgot it; the default may stand before it by now */
		if (slots[i].api == api)
			rc = sqlite3_vfs_register(&slots[i].base, 0);
	sqlite3_vfs *real = sqlite3_vfs_find(NULL);
	if (rc != SQLITE_OK && slots_count < VFS_MAX && real != NULL) {
		wk_vfs *vfs = &slots[slots_count++];
		*vfs = (wk_vfs){
		    .base =
		        {
		            .iVersion = 2,
		            .szOsFile = (int)sizeof(wk_file) + real->szOsFile,
		            .mxPathname = real->mxPathname,
		            .zName = "walkeeper",
		            .xOpen = vfs_open,
		            .xDelete = vfs_delete,
		            .xAccess = vfs_access,
		            .xFullPathname = vfs_full_pathname,
		            .xDlOpen = vfs_dl_open,
		            .xDlError = vfs_dl_error,
		            .xDlSym = vfs_dl_sym,
		            .xDlClose = vfs_dl_close,
		            .xRandomness = vfs_randomness,
		            .xSleep = vfs_sleep,
		            .xCurrentTime = vfs_current_time,
		            .xGetLastError = vfs_last_error,
		            .xCurrentTimeInt64 = vfs_current_time_int64,
		        },
		    .real = real,
		    .api = api,
		};
		rc = sqlite3_vfs_register(&vfs->base, 0);
	}
	pthread_mutex_unlock(&slots_lock);
	return rc;
}

wk_vfs *wk_vfs_any(void) {
	pthread_mutex_lock(&slots_lock);
	wk_vfs *vfs = slots_count > 0 ? &slots[0] : NULL;
	pthread_mutex_unlock(&slots_lock);
	return vfs;
}

bool wk_vfs_registered(void) {
	return wk_vfs_any() != NULL;
}

size_t wk_vfs_number(const sqlite3_api_routines *api) {
	size_t number = 0;
	while (number < slots_count && slots[number].api != api)
		number++;
	return number;
}

const sqlite3_api_routines *wk_vfs_api(size_t number) {
	return slots[number].api;
}

wk_status wk_vfs_full_path(const char *path, char *full, size_t size, wk_error *error) {
	wk_vfs *vfs = wk_vfs_any();
	if (vfs == NULL)
		return wk_database_fail(error, WK_UNSUPPORTED, "no SQLite of this process has loaded the extension walkeeper");
	int rc = vfs->real->xFullPathname(vfs->real, path, (int)size, full);
	if ((rc & 0xff) == SQLITE_OK)
		return WK_OK;
	return wk_database_fail(error, WK_INVALID, "%s: no path that SQLite can open (%d)", path, rc);
}

void wk_host_log(int code, const char *text) {
	wk_vfs *vfs = wk_vfs_any();
	if (vfs != NULL)
		vfs->api->log(code, "walkeeper: %s", text);
}
