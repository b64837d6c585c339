/* recovery.c: what opening a database does before its first connection: file and log are brought together. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "error.h"
#include "restore.h"
#include "strangers.h"
#include "vfs_sqlite.h"

/* The file, with SQLite's exclusive lock, so that no connection of any process has it. */
typedef struct wk_opened_file {
	wk_vfs *vfs;
	sqlite3_file *file;
	char *name; /* of an allocation that begins four bytes before, as SQLite wants names */
} wk_opened_file;

static wk_status host_error(wk_error *error, int rc, const char *what, const char *path) {
	wk_status status = rc == SQLITE_FULL ? WK_NO_SPACE : rc == SQLITE_NOMEM ? WK_NO_MEMORY : WK_IO;
	return wk_database_fail(error, status, "%s %s: SQLite's VFS answered %d", what, path, rc);
}

static void close_file(wk_opened_file *opened) {
	if (opened->file != NULL && opened->file->pMethods != NULL) {
		opened->file->pMethods->xUnlock(opened->file, SQLITE_LOCK_NONE);
		opened->file->pMethods->xClose(opened->file);
	}
	free(opened->file);
	if (opened->name != NULL)
		free(opened->name - 4);
	*opened = (wk_opened_file){0};
}

static wk_status open_file(const char *path, wk_opened_file *opened, wk_error *error) {
	wk_vfs *vfs = wk_vfs_any();
	size_t length = strlen(path);
	char *name = calloc(1, 4 + length + 4);
	*opened = (wk_opened_file){
	    .vfs = vfs,
	    .file = calloc(1, (size_t)vfs->real->szOsFile),
	    .name = name != NULL ? name + 4 : NULL,
	};
	if (name == NULL || opened->file == NULL) {
		close_file(opened);
		return wk_database_fail(error, WK_NO_MEMORY, "opening %s: no memory", path);
	}
	memcpy(opened->name, path, length);
	int flags = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
	int rc = vfs->real->xOpen(vfs->real, opened->name, opened->file, flags, &flags);
	if (rc == SQLITE_OK)
		rc = opened->file->pMethods->xLock(opened->file, SQLITE_LOCK_SHARED);
	if (rc == SQLITE_OK)
		rc = opened->file->pMethods->xLock(opened->file, SQLITE_LOCK_EXCLUSIVE);
	wk_status status = WK_OK;
	if (rc == SQLITE_BUSY)
		status = wk_database_fail(error, WK_LOCKED,
		                          "%s is open in another process, or without the VFS walkeeper: close it there first",
		                          path);
	else if (rc != SQLITE_OK)
		status = host_error(error, rc, "opening", path);
	if (status != WK_OK)
		close_file(opened);
	return status;
}

static wk_status file_read(void *context, uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	wk_opened_file *opened = context;
	int rc = opened->file->pMethods->xRead(opened->file, bytes, (int)size, (sqlite3_int64)offset);
	return rc == SQLITE_OK || rc == SQLITE_IOERR_SHORT_READ ? WK_OK : host_error(error, rc, "reading", opened->name);
}

static wk_status file_write(void *context, const uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	wk_opened_file *opened = context;
	int rc = opened->file->pMethods->xWrite(opened->file, bytes, (int)size, (sqlite3_int64)offset);
	return rc == SQLITE_OK ? WK_OK : host_error(error, rc, "writing", opened->name);
}

static wk_status file_size(wk_opened_file *opened, uint64_t *size, wk_error *error) {
	sqlite3_int64 bytes;
	int rc = opened->file->pMethods->xFileSize(opened->file, &bytes);
	*size = (uint64_t)bytes;
	return rc == SQLITE_OK ? WK_OK : host_error(error, rc, "reading", opened->name);
}

/* Cuts the file to its pages, and syncs it. */
static wk_status finish_file(wk_opened_file *opened, const wk_redo_point *at, wk_error *error) {
	int rc = opened->file->pMethods->xTruncate(opened->file, (sqlite3_int64)at->pages * at->page_size);
	if (rc == SQLITE_OK)
		rc = opened->file->pMethods->xSync(opened->file, SQLITE_SYNC_FULL);
	return rc == SQLITE_OK ? WK_OK : host_error(error, rc, "writing", opened->name);
}

/* The log has all that these files have. */
static wk_status delete_beside(wk_opened_file *opened, const char *suffix, wk_error *error) {
	size_t length = strlen(opened->name) + strlen(suffix) + 1;
	char *name = malloc(length);
	if (name == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "opening %s: no memory", opened->name);
	memcpy(name, opened->name, strlen(opened->name));
	memcpy(name + strlen(opened->name), suffix, strlen(suffix) + 1);
	int rc = opened->vfs->real->xDelete(opened->vfs->real, name, 1);
	wk_status status = rc == SQLITE_OK || rc == SQLITE_IOERR_DELETE_NOENT ? WK_OK
	                                                                      : host_error(error, rc, "deleting", name);
	free(name);
	return status;
}

/* ---- a log without a database ---- */

/* The first page of a database without tables, in WAL mode (https://www.sqlite.org/fileformat2.html). */
static void empty_page(uint8_t *page, uint32_t page_size) {
	memset(page, 0, page_size);
	memcpy(page, "SQLite format 3", 16);
	page[16] = (uint8_t)(page_size >> 8); /* 65536 is written as 1 */
	page[17] = (uint8_t)(page_size >> 16);
	page[18] = page[19] = 2;
	page[21] = 64;
	page[22] = page[23] = 32;
	page[31] = 1;   /* one page */
	page[100] = 13; /* a leaf of a table, without cells */
	page[105] = (uint8_t)(page_size >> 8);
	page[106] = (uint8_t)page_size;
}

static wk_status make_empty(wk_opened_file *opened, uint32_t page_size, wk_error *error) {
	if (page_size < 512 || page_size > WK_PAGE_SIZE_MAX || (page_size & (page_size - 1)) != 0)
		return wk_database_fail(error, WK_INVALID, "a page size of %" PRIu32 ": it is a power of two from 512 to 65536",
		                        page_size);
	uint8_t *page = malloc(page_size);
	if (page == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "making %s: no memory", opened->name);
	empty_page(page, page_size);
	wk_status status = file_write(opened, page, page_size, 0, error);
	free(page);
	return status;
}

/* Brings a database of any journal mode into WAL mode, and all of its pages into the file: by SQLite itself, without this VFS. */
static wk_status convert(const char *path, wk_error *error) {
	wk_vfs *vfs = wk_vfs_any();
	const sqlite3_api_routines *sqlite3_api = vfs->api;
	sqlite3 *db = NULL;
	sqlite3_stmt *statement = NULL;
	/* With a shared cache SQLite has a lock by now that it takes again for another one. */
	int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_PRIVATECACHE, vfs->real->zName);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(db, "PRAGMA journal_mode=WAL", -1, &statement, NULL);
	bool wal = rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW &&
	           sqlite3_stricmp((const char *)sqlite3_column_text(statement, 0), "wal") == 0;
	sqlite3_finalize(statement);
	statement = NULL;
	if (wal)
		rc = sqlite3_prepare_v2(db, "PRAGMA wal_checkpoint(TRUNCATE)", -1, &statement, NULL);
	bool checkpointed = wal && rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW &&
	                    sqlite3_column_int(statement, 0) == 0;
	sqlite3_finalize(statement);
	wk_status status = WK_OK;
	if (!checkpointed)
		status = wk_database_fail(
		    error, WK_INVALID,
		    "taking %s over: it cannot be brought into WAL mode and checkpointed: %s. Close its other connections",
		    path, sqlite3_errmsg(db));
	sqlite3_close(db);
	return status;
}

/* Whether the file is what make_empty wrote, or as much of it as a killed process had written. */
static wk_status is_empty_page(wk_opened_file *opened, uint32_t page_size, bool *empty, wk_error *error) {
	uint64_t size = 0;
	uint8_t *pages = malloc(2 * (size_t)page_size);
	wk_status status = pages != NULL ? file_size(opened, &size, error)
	                                 : wk_database_fail(error, WK_NO_MEMORY, "opening %s: no memory", opened->name);
	*empty = status == WK_OK && size <= page_size;
	if (*empty) {
		empty_page(pages, page_size);
		status = file_read(opened, pages + page_size, page_size, 0, error);
		*empty = memcmp(pages, pages + page_size, (size_t)size) == 0;
	}
	free(pages);
	return status;
}

static wk_status look_at_header(wk_opened_file *opened, uint64_t size, wk_redo_point *at, wk_error *error) {
	uint8_t header[100];
	wk_status status = file_read(opened, header, sizeof header, 0, error);
	if (status != WK_OK)
		return status;
	uint32_t page_size = (uint32_t)header[16] << 8 | (uint32_t)header[17] << 16;
	if (memcmp(header, "SQLite format 3", 16) != 0 || page_size < 512 || size % page_size != 0 || header[18] != 2 ||
	    header[19] != 2)
		return wk_database_fail(error, WK_INVALID, "%s is no SQLite database in WAL mode", opened->name);
	at->page_size = page_size;
	at->pages = (uint32_t)(size / page_size);
	return WK_OK;
}

/* The pages of the file become the first records of the log. */
static wk_status append_snapshot(wk_database *db, wk_opened_file *opened, wk_redo_point *at, wk_error *error) {
	const wk_pages_record record = {
	    .kind = WK_PAGES_SNAPSHOT,
	    .page_size = at->page_size,
	    .database = at->database,
	    .transaction = at->transaction,
	    .before = at->crc,
	};
	wk_record_writer *w = &db->writer;
	wk_status status = WK_OK;
	if (w->named)
		status = wk_record_writer_name(w, &db->log, &record, db->name);
	if (status == WK_OK)
		status = wk_record_writer_begin(w, &db->log, &record);
	bool appending = true;
	for (uint32_t number = 1; status == WK_OK && number <= at->pages; number++) {
		if (wk_page_is_never_written(number, at->page_size))
			continue;
		appending = false;
		status = file_read(opened, db->pages, at->page_size, (uint64_t)(number - 1) * at->page_size, error);
		appending = status == WK_OK;
		if (appending)
			status = wk_record_writer_add(w, number, db->pages, NULL);
	}
	if (status == WK_OK)
		status = wk_record_writer_end(w, at->pages, NULL);
	if (status != WK_OK) {
		if (appending && error != NULL)
			*error = w->error;
		return status;
	}
	at->lsn = w->lsn;
	at->named = w->named;
	return WK_OK;
}

static wk_status new_id(uint64_t *id, wk_error *error) {
	do
		if (getrandom(id, sizeof *id, 0) != (ssize_t)sizeof *id)
			return wk_database_fail(error, WK_IO, "making a database: getrandom failed");
	while (*id == 0);
	return WK_OK;
}

/*
 * The log has no whole snapshot: the file's pages are one. That this was begun is noted before, so that it is gone on with
 * where the process ends in between.
 */
static wk_status adopt(wk_database *db, wk_opened_file *opened, const wk_database_options *options, wk_error *error) {
	uint64_t size = 0;
	if (db->status.state == WK_DATABASE_FOLLOWING)
		return wk_database_fail(error, WK_NOT_FOUND,
		                        "the log has no whole snapshot of a database yet: attach one to it first");
	wk_redo_point at = {.database = db->state_file.at.database, .lsn = -1, .txid = -1};
	wk_status status = at.database != 0 ? WK_OK : new_id(&at.database, error);
	if (status == WK_OK)
		status = file_size(opened, &size, error);
	db->state_file.log_id = db->log.log_id;
	bool make = db->state_file.at.page_size != 0 || size == 0;
	at.page_size = make ? options->page_size : 0; /* 0: the file is somebody's, and is not made again */
	if (status == WK_OK)
		status = wk_state_file_store(&db->state_file, &at, (wk_file_stamp){0}, error);
	if (status == WK_OK && make) {
		status = make_empty(opened, options->page_size, error);
		size = options->page_size;
	}
	if (status == WK_OK)
		status = look_at_header(opened, size, &at, error);
	if (status == WK_OK)
		status = append_snapshot(db, opened, &at, error);
	db->at = at;
	return status;
}

/* ---- a log with a database ---- */

static wk_status from_snapshot(wk_database *db, wk_opened_file *opened, wk_error *error) {
	const wk_redo_file file = {.context = opened, .read = file_read, .write = file_write};
	wk_snapshot_place place;
	wk_status status = wk_snapshot_find(&db->log, db->state_file.at.database, db->name, -1, -1, &place, error);
	if (status != WK_OK)
		return status;
	/* where the process ends in between, the file is not whole, and is made again */
	const wk_redo_point making = {.database = place.database, .lsn = WK_STATE_MAKING, .txid = -1};
	db->state_file.log_id = db->log.log_id;
	status = wk_state_file_store(&db->state_file, &making, (wk_file_stamp){0}, error);
	return status == WK_OK ? wk_restore_into(&db->log, &file, &place, -1, -1, &db->at, error) : status;
}

static wk_status redo(wk_database *db, wk_opened_file *opened, wk_error *error) {
	const wk_redo_file file = {.context = opened, .read = file_read, .write = file_write};
	db->at = db->state_file.at;
	db->at.named = db->name != NULL;
	return wk_redo_log(&db->log, &file, db->at.lsn + 1, -1, -1, &db->at, error);
}

/* Which of these it is. */
static wk_status bring_together(wk_database *db, wk_opened_file *opened, const wk_database_options *options,
                                wk_error *error) {
	int64_t first, next;
	uint64_t size;
	const wk_redo_point *stored = &db->state_file.at;
	wk_status status = db->log.range(db->log.context, &first, &next, error);
	if (status == WK_OK)
		status = file_size(opened, &size, error);
	if (status != WK_OK)
		return status;
	if (stored->database == 0 && next == 0)
		return adopt(db, opened, options, error);
	if (stored->database == 0) {
		status = from_snapshot(db, opened, error);
		return status == WK_NOT_FOUND && db->name != NULL ? adopt(db, opened, options, error) : status;
	}
	if (stored->lsn == WK_STATE_MAKING)
		return from_snapshot(db, opened, error);
	if (stored->pages == 0 && stored->page_size == 0 && size > 0) /* it was being adopted, and may have changed since */
		return adopt(db, opened, options, error);
	if (stored->pages == 0) { /* an empty one was being made */
		status = from_snapshot(db, opened, error);
		return status == WK_NOT_FOUND ? adopt(db, opened, options, error) : status;
	}
	/* It was being redone when the process ended: what others did to it since cannot be told. */
	if (db->state_file.live.state == WK_LIVE_REDOING)
		return from_snapshot(db, opened, error);
	if (stored->lsn >= next) { /* bookies may know the end later */
		db->at = *stored;
		return WK_OK;
	}
	return size == 0 || stored->lsn + 1 < first ? from_snapshot(db, opened, error) : redo(db, opened, error);
}

/* A database that was closed has no WAL, but of a program that has opened it since. */
static bool has_wal(const char *path) {
	char wal[PATH_MAX + sizeof "-wal"];
	snprintf(wal, sizeof wal, "%s-wal", path);
	return wk_file_stamp_of(wal).size > 0;
}

/*
 * It was being made, or taken over, when the process ended. What another program did to it since is adopted; a file that nobody
 * touched is made again.
 */
static wk_status look_at_unfinished(wk_database *db, wk_error *error) {
	wk_redo_point *stored = &db->state_file.at;
	bool empty = false;
	if (stored->page_size != 0 && !has_wal(db->path)) {
		wk_opened_file opened = {0};
		wk_status status = open_file(db->path, &opened, error);
		if (status == WK_OK)
			status = is_empty_page(&opened, stored->page_size, &empty, error);
		close_file(&opened);
		if (status != WK_OK)
			return status;
	}
	if (empty)
		return WK_OK;
	stored->page_size = 0; /* it is somebody's */
	return convert(db->path, error);
}

/* A file that is not known to be of this log is not written to. */
static wk_status refuse_strangers(wk_database *db, bool exists, wk_error *error) {
	int64_t first, next;
	wk_status status = db->log.range(db->log.context, &first, &next, error);
	if (status != WK_OK)
		return status;
	if (db->state_file.at.database != 0 && db->state_file.log_id != db->log.log_id)
		return wk_database_fail(error, WK_INVALID, "%s is of log %" PRIu64 ", not of log %" PRIu64, db->path,
		                        db->state_file.log_id, db->log.log_id);
	if (db->state_file.at.database != 0 && exists && db->state_file.closed.size == WK_FILE_SPOILED)
		return wk_strangers_refuse(db, error);
	const wk_redo_point *stored = &db->state_file.at;
	if (stored->database != 0) {
		bool unfinished = stored->pages == 0 && stored->lsn != WK_STATE_MAKING;
		return unfinished && exists ? look_at_unfinished(db, error) : WK_OK;
	}
	bool known = next != 0;
	if (exists && db->name != NULL && next != 0) {
		wk_snapshot_place place;
		status = wk_snapshot_find(&db->log, 0, db->name, -1, -1, &place, error);
		if (status != WK_OK && status != WK_NOT_FOUND)
			return status;
		known = status == WK_OK;
	}
	if (exists && (known || db->status.state == WK_DATABASE_FOLLOWING))
		return wk_database_fail(error, WK_INVALID,
		                        "%s is not known to be of this log: move the file away, and it is made from the log",
		                        db->path);
	return exists ? convert(db->path, error) : WK_OK;
}

static wk_status look_at_first(void *context, const uint8_t *payload, size_t size, int64_t sequence_id, int64_t txid) {
	wk_pages_record record;
	(void)txid;
	*(int64_t *)context = sequence_id;
	wk_status status = wk_pages_record_decode(payload, size, &record);
	return status == WK_OK ? WK_END : status;
}

/* A log of something else is left alone, and whoever writes it goes on. */
static wk_status refuse_other_logs(wk_database *db, wk_error *error) {
	int64_t first, next;
	wk_status status = db->log.range(db->log.context, &first, &next, error);
	if (status != WK_OK)
		return status;
	status = db->log.read(db->log.context, first, look_at_first, &first, error);
	if (status == WK_CORRUPT)
		return wk_database_fail(error, WK_INVALID,
		                        "opening %s: record %" PRId64 " of the log is none of a SQLite database: the log is of "
		                        "something else",
		                        db->path, first);
	if (status == WK_UNSUPPORTED)
		return wk_database_fail(error, status, "opening %s: a newer walkeeper wrote record %" PRId64 " of the log",
		                        db->path, first);
	return status == WK_END ? WK_OK : status;
}

static wk_status check_strangers(wk_database *db, wk_opened_file *opened, wk_stranger_signs *signs, wk_error *error) {
	const wk_redo_file file = {.context = opened, .read = file_read, .write = file_write};
	uint64_t size;
	wk_status status = file_size(opened, &size, error);
	return status == WK_OK ? wk_strangers_check(db, &file, size, signs, error) : status;
}

/* Where the process ends meanwhile, what it leaves is a file that is made anew. */
static wk_status redo_file(wk_database *db, wk_opened_file *opened, const wk_database_options *options,
                           wk_error *error) {
	wk_status status = WK_OK;
	if (db->state_file.closed.size != 0)
		status = wk_state_file_store(&db->state_file, &db->state_file.at, (wk_file_stamp){0}, error);
	if (status == WK_OK)
		status = wk_state_file_note(&db->state_file, (wk_live_file){.state = WK_LIVE_REDOING}, error);
	if (status == WK_OK)
		status = bring_together(db, opened, options, error);
	if (status == WK_OK)
		status = finish_file(opened, &db->at, error);
	if (status == WK_OK)
		status = delete_beside(opened, "-wal", error);
	if (status == WK_OK)
		status = delete_beside(opened, "-shm", error);
	if (status == WK_OK) /* of another file that had this name: SQLite would roll it back into this one */
		status = delete_beside(opened, "-journal", error);
	db->state_file.log_id = db->log.log_id;
	return status;
}

/* It is redone again, with the WAL that there is: what changes in it from now on is none of ours. */
static void note_failed_redo(wk_database *db, bool was_closed) {
	wk_error error;
	wk_live_file live = was_closed ? (wk_live_file){.state = WK_LIVE_WRITTEN} : db->state_file.live;
	if (live.state == WK_LIVE_CHANGING)
		live.state = WK_LIVE_WRITTEN;
	if (live.state == WK_LIVE_WRITTEN)
		live.stamp = db->unconnected;
	(void)wk_state_file_note(&db->state_file, live, &error);
}

/* Of who writes the log, which knows its end. */
static wk_status refuse_older_logs(wk_database *db, wk_error *error) {
	int64_t first, next;
	wk_status status = db->log.range(db->log.context, &first, &next, error);
	if (status != WK_OK || db->state_file.at.lsn < next)
		return status;
	return wk_database_fail(error, WK_INVALID,
	                        "%s has record %" PRId64 " of its log, and the log ends before it, at %" PRId64
	                        ": it is an older copy of the log",
	                        db->path, db->state_file.at.lsn, next);
}

wk_status wk_database_recover(wk_database *db, const wk_database_options *options, wk_error *error) {
	if (wk_vfs_any() == NULL)
		return wk_database_fail(error, WK_UNSUPPORTED, "no SQLite of this process has loaded the extension walkeeper");
	bool exists = wk_file_stamp_of(db->path).size > 0, follows = db->status.state == WK_DATABASE_FOLLOWING;
	wk_opened_file opened = {0};
	wk_stranger_signs signs = {0};
	wk_status status = refuse_other_logs(db, error);
	if (status == WK_OK)
		status = refuse_strangers(db, exists, error);
	if (status == WK_OK)
		status = open_file(db->path, &opened, error);
	if (status != WK_OK)
		return status;
	status = wk_strangers_look(db, &signs, error);
	const bool was_closed = signs.closed;
	/* Nobody is fenced before it is known that the file can be had. What a crash left may be compared behind that alone. */
	if (status == WK_OK && signs.closed)
		status = check_strangers(db, &opened, &signs, error);
	if (status == WK_OK && db->log.take_over != NULL)
		status = db->log.take_over(db->log.context, error);
	if (status == WK_OK && !follows)
		status = refuse_older_logs(db, error);
	if (status == WK_OK)
		status = check_strangers(db, &opened, &signs, error);
	if (status == WK_OK) {
		status = redo_file(db, &opened, options, error);
		db->unconnected = wk_file_stamp_of(db->path);
		if (status == WK_OK)
			wk_database_file_written(db);
		else
			note_failed_redo(db, was_closed);
	}
	close_file(&opened);
	/* The file has every commit: until a connection by the VFS is made, it is as good as closed. */
	if (status == WK_OK) {
		bool open = !follows && db->at.lsn >= 0;
		status = wk_state_file_store(&db->state_file, &db->at, open ? db->unconnected : (wk_file_stamp){0}, error);
	}
	return status;
}
