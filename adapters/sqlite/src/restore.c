#include "restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

/* The last whole snapshot before the ends. */
typedef struct wk_snapshot_search {
	uint64_t database;
	int64_t lsn, txid;
	int64_t begun; /* sequence id of the first part of the one that is being read; -1: none */
	uint64_t transaction;
	uint32_t parts;
	wk_snapshot_place found; /* the last whole one; lsn -1: none */
} wk_snapshot_search;

static wk_status look_for_snapshot(void *context, const uint8_t *payload, size_t size, int64_t sequence_id,
                                   int64_t txid) {
	wk_snapshot_search *search = context;
	wk_pages_record record;
	if ((search->lsn >= 0 && sequence_id > search->lsn) || (search->txid >= 0 && txid > search->txid))
		return WK_END;
	wk_status status = wk_pages_record_decode(payload, size, &record);
	if (status != WK_OK)
		return status;
	if (record.kind != WK_PAGES_SNAPSHOT || (search->database != 0 && record.database != search->database))
		return WK_OK;
	if ((record.flags & WK_PAGES_FIRST) != 0) {
		search->begun = sequence_id;
		search->transaction = record.transaction;
		search->parts = 0;
	}
	bool follows = search->begun >= 0 && record.transaction == search->transaction && record.part == search->parts;
	search->parts++;
	if (!follows)
		search->begun = -1;
	else if ((record.flags & WK_PAGES_LAST) != 0)
		search->found = (wk_snapshot_place){.lsn = search->begun, .database = record.database};
	return WK_OK;
}

typedef struct wk_redo_read {
	wk_redo redo;
	wk_error *error;
	bool one; /* ends behind the first group */
} wk_redo_read;

static wk_status redo_one(void *context, const uint8_t *payload, size_t size, int64_t sequence_id, int64_t txid) {
	wk_redo_read *read = context;
	uint64_t lsn = (uint64_t)read->redo.at.lsn;
	wk_status status = wk_redo_record(&read->redo, payload, size, sequence_id, txid, read->error);
	return status == WK_OK && read->one && (uint64_t)read->redo.at.lsn != lsn ? WK_END : status;
}

static wk_status read_into(const wk_database_log *log, const wk_redo_file *file, int64_t from, uint32_t kind,
                           int64_t lsn, int64_t txid, wk_redo_point *at, wk_error *error) {
	wk_redo_read read = {.error = error, .one = kind == WK_PAGES_SNAPSHOT};
	wk_status status = wk_redo_begin(&read.redo, file, at, kind, error);
	if (status != WK_OK)
		return status;
	read.redo.lsn = lsn;
	read.redo.txid = txid;
	status = log->read(log->context, from, redo_one, &read, error);
	if (status == WK_END)
		status = WK_OK;
	*at = read.redo.at;
	wk_redo_free(&read.redo);
	return status;
}

wk_status wk_redo_log(const wk_database_log *log, const wk_redo_file *file, int64_t from, int64_t lsn, int64_t txid,
                      wk_redo_point *at, wk_error *error) {
	return read_into(log, file, from, WK_PAGES_COMMIT, lsn, txid, at, error);
}

wk_status wk_snapshot_find(const wk_database_log *log, int64_t from, uint64_t database, int64_t lsn, int64_t txid,
                           wk_snapshot_place *place, wk_error *error) {
	int64_t first, next;
	wk_status status = log->range(log->context, &first, &next, error);
	if (status != WK_OK)
		return status;
	wk_snapshot_search search = {.database = database, .lsn = lsn, .txid = txid, .begun = -1, .found = {.lsn = -1}};
	wk_database_fail(error, WK_CORRUPT, "the log has a record that is none of a SQLite database");
	status = log->read(log->context, from < first ? first : from, look_for_snapshot, &search, error);
	if (status != WK_OK && status != WK_END)
		return status;
	*place = search.found;
	if (place->lsn >= 0)
		return WK_OK;
	return wk_database_fail(error, WK_NOT_FOUND,
	                        "the log has no whole snapshot of the database from record %" PRId64 " on%s", first,
	                        lsn >= 0 || txid >= 0 ? " before the point that is asked for" : "");
}

wk_status wk_restore_into(const wk_database_log *log, const wk_redo_file *file, const wk_snapshot_place *place,
                          int64_t lsn, int64_t txid, wk_redo_point *at, wk_error *error) {
	*at = (wk_redo_point){.database = place->database, .lsn = -1, .txid = -1};
	wk_status status = read_into(log, file, place->lsn, WK_PAGES_SNAPSHOT, lsn, txid, at, error);
	return status == WK_OK ? wk_redo_log(log, file, place->lsn, lsn, txid, at, error) : status;
}

/* ---- into a new file ---- */

static wk_status system_error(wk_error *error, const char *what, const char *path) {
	int number = errno;
	wk_database_fail(error, number == EEXIST ? WK_EXISTS : WK_IO, "%s %s: %s", what, path, strerror(number));
	if (error != NULL)
		error->system_error = number;
	return number == EEXIST ? WK_EXISTS : WK_IO;
}

static wk_status fd_read(void *context, uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	const int *fd = context;
	for (size_t done = 0; done < size;) {
		ssize_t got = pread(*fd, bytes + done, size - done, (off_t)(offset + done));
		if (got < 0 && errno != EINTR)
			return system_error(error, "reading", "the file that is restored");
		if (got == 0) {
			memset(bytes + done, 0, size - done);
			return WK_OK;
		}
		done += got > 0 ? (size_t)got : 0;
	}
	return WK_OK;
}

static wk_status fd_write(void *context, const uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	const int *fd = context;
	for (size_t done = 0; done < size;) {
		ssize_t put = pwrite(*fd, bytes + done, size - done, (off_t)(offset + done));
		if (put < 0 && errno != EINTR)
			return system_error(error, "writing", "the file that is restored");
		done += put > 0 ? (size_t)put : 0;
	}
	return WK_OK;
}

/* SQLite would put what these files have into the restored one. */
static wk_status refuse_beside(const char *path, wk_error *error) {
	static const char *const SUFFIXES[] = {"", "-wal", "-journal", "-shm", "-wk"};
	char name[PATH_MAX + 16];
	for (size_t i = 0; i < sizeof SUFFIXES / sizeof SUFFIXES[0]; i++) {
		snprintf(name, sizeof name, "%s%s", path, SUFFIXES[i]);
		if (access(name, F_OK) == 0)
			return wk_database_fail(error, WK_EXISTS, "restoring %s: there is a %s: move it away", path, name);
	}
	return WK_OK;
}

wk_status wk_database_restore(const wk_database_log *log, const char *path, int64_t from, int64_t lsn, int64_t txid,
                              wk_database_restored *restored, wk_error *error) {
	size_t length = strlen(path);
	char *made = malloc(length + 16);
	if (made == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "restoring %s: no memory", path);
	memcpy(made, path, length);
	memcpy(made + length, "-restoring", 11);
	wk_status status = WK_OK;
	int fd = open(made, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		status = system_error(error, "restoring", path);
	else
		status = refuse_beside(path, error);
	wk_redo_point at;
	const wk_redo_file file = {.context = &fd, .read = fd_read, .write = fd_write};
	wk_snapshot_place place;
	if (status == WK_OK)
		status = wk_snapshot_find(log, from, 0, lsn, txid, &place, error);
	if (status == WK_OK)
		status = wk_restore_into(log, &file, &place, lsn, txid, &at, error);
	/* the name appears once the file is whole and safe; a file that came meanwhile stays */
	if (status == WK_OK &&
	    (ftruncate(fd, (off_t)at.pages * at.page_size) != 0 || fsync(fd) != 0 || link(made, path) != 0))
		status = system_error(error, "restoring", path);
	if (fd >= 0) {
		close(fd);
		unlink(made);
	}
	free(made);
	if (status == WK_OK)
		*restored = (wk_database_restored){
		    .lsn = at.lsn,
		    .txid = at.txid,
		    .transaction = at.transaction,
		    .page_size = at.page_size,
		    .pages = at.pages,
		};
	return status;
}
