/*
 * snapshot.c: all pages of a live database as of one commit. A page is in the WAL's frame that the page map of that moment
 * says, or in the database file. The caller's read transaction keeps both as they are: no checkpoint writes a later page to the
 * file, and the WAL is not begun anew, unless the file has all of it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "vfs_sqlite.h"

struct wk_database_snapshot {
	wk_database *database;
	wk_vfs *vfs;
	char *names;              /* of the files, as SQLite wants them */
	sqlite3_file *file, *wal; /* wal NULL: no page is in it */
	wk_page_map pages;
	wk_wal_format format;
	unsigned wals;
	wk_record_writer writer;
	uint32_t page_size, count, next;
	int64_t lsn;
	uint8_t *page;
};

static void close_host_file(sqlite3_file *file) {
	if (file != NULL && file->pMethods != NULL)
		file->pMethods->xClose(file);
	free(file);
}

/* `name` has zeros before and behind it. */
static sqlite3_file *open_host_file(wk_vfs *vfs, const char *name, int flags, int *rc) {
	sqlite3_file *file = calloc(1, (size_t)vfs->real->szOsFile);
	if (file == NULL)
		*rc = SQLITE_NOMEM;
	else
		*rc = vfs->real->xOpen(vfs->real, name, file, flags, &flags);
	if (*rc == SQLITE_OK)
		return file;
	close_host_file(file);
	return NULL;
}

static wk_status open_files(wk_database_snapshot *s, wk_error *error) {
	const char *path = s->database->path;
	size_t length = strlen(path), room = 4 + length + 8;
	s->names = calloc(2, room);
	if (s->names == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "a snapshot of %s: no memory", path);
	char *file = s->names + 4, *wal = s->names + room + 4;
	memcpy(file, path, length);
	memcpy(wal, path, length);
	memcpy(wal + length, "-wal", 4);
	int rc;
	s->file = open_host_file(s->vfs, file, SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_READWRITE, &rc);
	if (rc == SQLITE_OK && s->pages.count > 0)
		s->wal = open_host_file(s->vfs, wal, SQLITE_OPEN_WAL | SQLITE_OPEN_READWRITE, &rc);
	if (rc != SQLITE_OK)
		return wk_database_fail(error, rc == SQLITE_NOMEM ? WK_NO_MEMORY : WK_IO,
		                        "a snapshot of %s: its files cannot be opened (%d)", path, rc);
	return WK_OK;
}

void wk_database_snapshot_free(wk_database_snapshot *s) {
	close_host_file(s->file);
	close_host_file(s->wal);
	wk_page_map_free(&s->pages);
	wk_record_writer_free(&s->writer);
	wk_database_close(s->database);
	free(s->names);
	free(s->page);
	free(s);
}

static wk_status append_failed(wk_database_snapshot *s, wk_status status, wk_error *error) {
	wk_database_append_failed(s->database, status, &s->writer.error);
	if (error != NULL)
		*error = s->writer.error;
	return status;
}

/* A first part without images: it stands before every later commit. */
static wk_status append_first(wk_database_snapshot *s, const wk_redo_point *at, wk_error *error) {
	const wk_pages_record record = {
	    .kind = WK_PAGES_SNAPSHOT,
	    .page_size = at->page_size,
	    .database = at->database,
	    .transaction = at->transaction,
	    .before = at->crc,
	};
	wk_status status = WK_OK;
	s->lsn = -1;
	s->writer.named = s->database->name != NULL;
	if (s->writer.named) {
		status = wk_record_writer_name(&s->writer, &s->database->log, &record, s->database->name);
		s->lsn = s->writer.lsn;
	}
	if (status == WK_OK)
		status = wk_record_writer_begin(&s->writer, &s->database->log, &record);
	if (status == WK_OK)
		status = wk_record_writer_flush(&s->writer);
	if (s->lsn < 0)
		s->lsn = s->writer.lsn;
	return status == WK_OK ? WK_OK : append_failed(s, status, error);
}

wk_status wk_database_snapshot_begin(wk_database *db, wk_database_snapshot **begun, wk_error *error) {
	wk_database_snapshot *s = calloc(1, sizeof *s);
	if (s == NULL || wk_database_state_of(db) != WK_DATABASE_OPEN) {
		free(s);
		return s == NULL ? wk_database_fail(error, WK_NO_MEMORY, "a snapshot: no memory")
		                 : wk_database_fail(error, WK_CLOSED, "a snapshot of %s: %s", db->path, db->status.reason);
	}
	s->database = wk_database_find(db->path);
	s->vfs = wk_database_host(db);
	s->page = malloc(WK_PAGE_SIZE_MAX);
	s->format = db->wal.format;
	s->wals = atomic_load(&db->wals);
	s->page_size = db->at.page_size;
	s->count = db->at.pages;
	s->next = 1;
	wk_status status = WK_OK;
	if (s->page == NULL || !wk_page_map_copy(&s->pages, &db->wal.pages))
		status = wk_database_fail(error, WK_NO_MEMORY, "a snapshot of %s: no memory", db->path);
	if (status == WK_OK)
		status = open_files(s, error);
	if (status == WK_OK)
		status = append_first(s, &db->at, error);
	if (status != WK_OK) {
		wk_database_snapshot_free(s);
		return status;
	}
	*begun = s;
	return WK_OK;
}

static wk_status read_page(wk_database_snapshot *s, uint32_t number, wk_error *error) {
	uint32_t size = s->page_size, frame = wk_page_map_get(&s->pages, number);
	int rc = SQLITE_OK;
	if (frame != 0) {
		sqlite3_int64 at = (sqlite3_int64)wk_wal_frame_offset(&s->format, frame) + WK_WAL_FRAME_HEADER;
		rc = s->wal->pMethods->xRead(s->wal, s->page, (int)size, at);
	}
	/* where the WAL was begun anew, or cut, the file has every page of this snapshot, and no later one while it is read */
	if (frame == 0 || s->wals != atomic_load(&s->database->wals))
		rc = s->file->pMethods->xRead(s->file, s->page, (int)size, (sqlite3_int64)(number - 1) * (sqlite3_int64)size);
	if (rc == SQLITE_OK || rc == SQLITE_IOERR_SHORT_READ)
		return WK_OK;
	return wk_database_fail(error, WK_IO, "a snapshot of %s: page %" PRIu32 " cannot be read (%d)", s->database->path,
	                        number, rc);
}

wk_status wk_database_snapshot_append(wk_database_snapshot *s, uint32_t pages, uint32_t *left, wk_error *error) {
	wk_status status = WK_OK;
	for (; status == WK_OK && pages > 0 && s->next <= s->count; s->next++, pages--) {
		if (wk_page_is_never_written(s->next, s->page_size))
			continue;
		status = read_page(s, s->next, error);
		if (status != WK_OK)
			return status;
		status = wk_record_writer_add(&s->writer, s->next, s->page, NULL);
	}
	if (status == WK_OK && s->next > s->count)
		status = wk_record_writer_end(&s->writer, s->count, NULL);
	*left = s->count + 1 - s->next;
	return status == WK_OK ? WK_OK : append_failed(s, status, error);
}

int64_t wk_database_snapshot_lsn(const wk_database_snapshot *s) {
	return s->lsn;
}
