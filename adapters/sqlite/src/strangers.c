#include "strangers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "new_file.h"
#include "restore.h"
#include "vfs_sqlite.h"

static wk_status system_error(wk_error *error, const char *what, const char *path, const char *suffix) {
	int number = errno;
	wk_database_fail(error, WK_IO, "%s %s%s: %s", what, path, suffix, strerror(number));
	if (error != NULL)
		error->system_error = number;
	return WK_IO;
}

wk_status wk_strangers_refuse(const wk_database *db, wk_error *error) {
	return wk_database_fail(
	    error, WK_INVALID,
	    "%s was changed without the VFS walkeeper, and the log does not have the change. To keep what "
	    "the log has, move the file, its -wal and its -wk away, and attach again; to keep what the "
	    "file has, move its -wk away, and attach it to a new log",
	    db->path);
}

wk_status wk_checkpoint_by_sqlite(const char *path, bool to_wal, wk_error *error) {
	wk_vfs *vfs = wk_vfs_any();
	const sqlite3_api_routines *sqlite3_api = vfs->api;
	sqlite3 *db = NULL;
	sqlite3_stmt *statement = NULL;
	/* With a shared cache SQLite has a lock by now that it takes again for another one. */
	int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_PRIVATECACHE, vfs->real->zName);
	const char *mode = to_wal ? "PRAGMA journal_mode=WAL" : "PRAGMA journal_mode";
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(db, mode, -1, &statement, NULL);
	bool known = rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW;
	bool wal = known && sqlite3_stricmp((const char *)sqlite3_column_text(statement, 0), "wal") == 0;
	sqlite3_finalize(statement);
	statement = NULL;
	if (wal)
		rc = sqlite3_prepare_v2(db, "PRAGMA wal_checkpoint(TRUNCATE)", -1, &statement, NULL);
	bool checkpointed = wal && rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW &&
	                    sqlite3_column_int(statement, 0) == 0;
	sqlite3_finalize(statement);
	wk_status status = WK_OK;
	if (!checkpointed && to_wal)
		status = wk_database_fail(
		    error, WK_INVALID,
		    "taking %s over: it cannot be brought into WAL mode and checkpointed: %s. Close its other connections",
		    path, sqlite3_errmsg(db));
	else if (!checkpointed && (wal || !known))
		status = wk_database_fail(error, WK_LOCKED, "%s is open without the VFS walkeeper: close it there first (%s)",
		                          path, sqlite3_errmsg(db));
	sqlite3_close(db);
	return status;
}

/* ---- signs ---- */

/* The commits in the WAL with this salt, up to the first frame that is none of it: what a recovery by SQLite would find. */
static wk_status count_commits(int fd, const char *path, const uint8_t salt[8], uint32_t *count, wk_error *error) {
	uint8_t header[WK_WAL_HEADER];
	wk_wal_format format;
	uint32_t checksum[2];
	*count = 0;
	ssize_t got = pread(fd, header, sizeof header, 0);
	if (got < 0)
		return system_error(error, "reading", path, "-wal");
	if (got != (ssize_t)sizeof header || !wk_wal_header_decode(header, &format, checksum) ||
	    memcmp(format.salt, salt, sizeof format.salt) != 0)
		return WK_OK;
	size_t size = WK_WAL_FRAME_HEADER + format.page_size;
	uint8_t *bytes = malloc(size);
	if (bytes == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "opening %s: no memory", path);
	for (uint32_t frame = 1;; frame++) {
		got = pread(fd, bytes, size, (off_t)wk_wal_frame_offset(&format, frame));
		if (got != (ssize_t)size)
			break;
		wk_wal_frame_checksum(&format, bytes, bytes + WK_WAL_FRAME_HEADER, checksum);
		if (!wk_wal_frame_has(&format, bytes, checksum))
			break;
		*count += wk_wal_get32(bytes + 4) != 0;
	}
	wk_status status = got < 0 ? system_error(error, "reading", path, "-wal") : WK_OK;
	free(bytes);
	return status;
}

wk_status wk_strangers_look(wk_database *db, wk_stranger_signs *signs, wk_error *error) {
	const wk_redo_point *stored = &db->state_file.at;
	const wk_live_file *live = &db->state_file.live;
	const wk_file_stamp closed = db->state_file.closed, now = wk_file_stamp_of(db->path);
	*signs = (wk_stranger_signs){.closed = closed.size != 0};
	bool was_open = stored->database != 0 && stored->pages != 0 && stored->lsn >= 0;
	if (!was_open || now.size == 0 || (!signs->closed && live->state == WK_LIVE_UNKNOWN))
		return WK_OK;
	char wal[PATH_MAX + sizeof "-wal"];
	snprintf(wal, sizeof wal, "%s-wal", db->path);
	int fd = open(wal, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT)
		return system_error(error, "opening", db->path, "-wal");
	if (signs->closed)
		signs->touched = fd >= 0 || !wk_file_stamp_equal(closed, now);
	else /* a checkpoint that was killed leaves a WAL */
		signs->touched = live->state == WK_LIVE_WRITTEN ? !wk_file_stamp_equal(live->stamp, now) : fd < 0;
	wk_status status = WK_OK;
	/* With group acknowledgement commits may stand in the WAL, and nobody was told of them. */
	if (fd >= 0 && !signs->touched && live->acknowledge == WK_ACKNOWLEDGE_STRICT)
		status = count_commits(fd, db->path, live->salt, &signs->wal_commits, error);
	if (fd >= 0)
		close(fd);
	return status == WK_OK && signs->touched ? wk_checkpoint_by_sqlite(db->path, false, error) : status;
}

/* ---- the file, beside what the log makes ---- */

/* The database is made from the log once more, in a file without a name, and it is counted how many of its pages the file has otherwise. */
typedef struct wk_compared {
	wk_redo_file file; /* the database file */
	uint64_t size;     /* of it */
	wk_new_file made;
	uint32_t page_size, pages; /* of `made` */
	uint8_t *differs;          /* a bit for each page */
	uint32_t room;             /* pages that it has bits for */
	uint32_t differing;
	bool equal; /* behind a commit it was so */
	uint8_t *page;
} wk_compared;

static void set_difference(wk_compared *c, uint32_t number, bool differs) {
	uint8_t *byte = c->differs + number / 8, bit = (uint8_t)(1 << number % 8);
	bool before = (*byte & bit) != 0;
	*byte = (uint8_t)(differs ? *byte | bit : *byte & ~bit);
	c->differing += (uint32_t)differs - (uint32_t)before;
}

static wk_status make_room(wk_compared *c, uint32_t number, wk_error *error) {
	if (number < c->room)
		return WK_OK;
	uint32_t room = number < UINT32_MAX / 2 ? 2 * number + 64 : UINT32_MAX;
	size_t before = c->room != 0 ? c->room / 8 + 1 : 0, bytes = room / 8 + 1;
	uint8_t *grown = realloc(c->differs, bytes);
	if (grown == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "comparing the database with its log: no memory");
	memset(grown + before, 0, bytes - before);
	c->differs = grown;
	c->room = room;
	return WK_OK;
}

static wk_status compare_page(wk_compared *c, const uint8_t *page, uint32_t number, wk_error *error) {
	uint8_t *theirs = c->page + WK_PAGE_SIZE_MAX;
	wk_status status = make_room(c, number, error);
	if (status != WK_OK || wk_page_is_never_written(number, c->page_size))
		return status;
	status = c->file.read(c->file.context, theirs, c->page_size, (uint64_t)(number - 1) * c->page_size, error);
	if (status == WK_OK)
		set_difference(c, number, memcmp(page, theirs, c->page_size) != 0);
	return status;
}

static wk_status end_commit(void *context, uint32_t pages, wk_error *error) {
	wk_compared *c = context;
	(void)error;
	for (uint32_t number = pages + 1; number <= c->pages && number < c->room; number++)
		set_difference(c, number, false);
	c->pages = pages;
	c->equal |= c->differing == 0 && c->size == (uint64_t)pages * c->page_size;
	return WK_OK;
}

static wk_status read_made(void *context, uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	wk_compared *c = context;
	return wk_new_file_read(&c->made, bytes, size, offset, error);
}

static wk_status write_made(void *context, const uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	wk_compared *c = context;
	wk_status status = wk_new_file_write(&c->made, bytes, size, offset, error);
	return status == WK_OK ? compare_page(c, bytes, (uint32_t)(offset / c->page_size + 1), error) : status;
}

static wk_status compare_all(wk_compared *c, const wk_redo_point *at, wk_error *error) {
	wk_status status = WK_OK;
	c->page_size = at->page_size;
	c->pages = at->pages;
	for (uint32_t number = 1; status == WK_OK && number <= at->pages; number++) {
		uint64_t offset = (uint64_t)(number - 1) * at->page_size;
		status = wk_new_file_read(&c->made, c->page, at->page_size, offset, error);
		if (status == WK_OK)
			status = compare_page(c, c->page, number, error);
	}
	return status == WK_OK ? end_commit(c, at->pages, error) : status;
}

static wk_status open_made(wk_compared *c, const char *path, wk_error *error) {
	char name[PATH_MAX + sizeof "-comparing"];
	snprintf(name, sizeof name, "%s-comparing", path);
	c->page = malloc(2 * WK_PAGE_SIZE_MAX);
	if (!wk_new_file_init(&c->made) || c->page == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "comparing %s with its log: no memory", path);
	c->made.fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
	                  0600); /* the state file is locked: it is no one else's */
	if (c->made.fd < 0)
		return system_error(error, "making", name, "");
	unlink(name);
	return WK_OK;
}

/* From the commit on that the file had safely: it was left with this one, or with any later one. */
static wk_status compare(wk_database *db, wk_compared *c, wk_error *error) {
	const wk_redo_point *stored = &db->state_file.at;
	wk_snapshot_place place;
	wk_redo_point at;
	wk_status status = wk_snapshot_find(&db->log, stored->database, db->name, stored->lsn, -1, &place, error);
	if (status != WK_OK)
		return status;
	status = open_made(c, db->path, error);
	const wk_redo_file base = {.context = &c->made, .read = wk_new_file_read, .write = wk_new_file_write};
	const wk_redo_file compared = {.context = c, .read = read_made, .write = write_made, .commit = end_commit};
	if (status == WK_OK)
		status = wk_restore_into(&db->log, &base, &place, stored->lsn, -1, &at, error);
	if (status == WK_OK)
		status = compare_all(c, &at, error);
	return status == WK_OK ? wk_redo_log(&db->log, &compared, at.lsn + 1, -1, -1, &at, error) : status;
}

/* ---- the WAL, beside the log ---- */

static wk_status read_nothing(void *context, uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	(void)context, (void)offset, (void)error;
	memset(bytes, 0, size);
	return WK_OK;
}

static wk_status write_nothing(void *context, const uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	(void)context, (void)bytes, (void)size, (void)offset, (void)error;
	return WK_OK;
}

/* So many commits does the log have behind those that the file has safely: the WAL was begun there. */
static wk_status count_logged(wk_database *db, uint64_t *count, wk_error *error) {
	const wk_redo_file nowhere = {.read = read_nothing, .write = write_nothing};
	wk_redo_point at = db->state_file.at;
	at.named = db->name != NULL;
	wk_status status = wk_redo_log(&db->log, &nowhere, at.lsn + 1, -1, -1, &at, error);
	*count = at.transaction - db->state_file.at.transaction;
	return status;
}

wk_status wk_strangers_check(wk_database *db, const wk_redo_file *file, uint64_t size, wk_stranger_signs *signs,
                             wk_error *error) {
	int64_t first, next;
	const wk_redo_point *stored = &db->state_file.at;
	if (!signs->touched && signs->wal_commits == 0)
		return WK_OK;
	wk_status status = db->log.range(db->log.context, &first, &next, error);
	if (status != WK_OK || stored->lsn >= next) /* bookies may know the end later; else it is refused */
		return status;
	if (!signs->touched) {
		uint64_t logged = 0;
		if (stored->lsn + 1 < first) /* it is made anew */
			return WK_OK;
		status = count_logged(db, &logged, error);
		return status == WK_OK && signs->wal_commits > logged ? wk_strangers_refuse(db, error) : status;
	}
	wk_compared compared = {.file = *file, .size = size, .made = {.fd = -1}};
	status = stored->lsn + 1 < first ? WK_NOT_FOUND : compare(db, &compared, error);
	wk_new_file_free(&compared.made);
	free(compared.differs);
	free(compared.page);
	if (status == WK_NOT_FOUND)
		return wk_database_fail(
		    error, WK_INVALID,
		    "%s may have been changed without the VFS walkeeper, and the log does not have the commits "
		    "any more that it could be compared with: move the file, its -wal and its -wk away, and "
		    "the database is made from the log",
		    db->path);
	if (status == WK_OK && !compared.equal)
		status = wk_strangers_refuse(db, error);
	if (status == WK_OK)
		*signs = (wk_stranger_signs){0};
	return status;
}
