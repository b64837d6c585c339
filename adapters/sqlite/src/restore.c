#include "restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "new_file.h"

/* The last whole snapshot before the ends. */
typedef struct wk_snapshot_search {
	uint64_t database; /* 0: not known yet */
	const char *name;  /* NULL: whose the log is */
	int64_t name_at;   /* sequence id of its last record; -1: none */
	int64_t lsn, txid;
	int64_t begun; /* sequence id of the first part of the one that is being read; -1: none */
	uint64_t transaction;
	uint32_t parts;
	bool first_part;         /* ends behind the first part of the first one, which counts */
	wk_snapshot_place found; /* the last whole one; lsn -1: none */
} wk_snapshot_search;

static void look_at_name(wk_snapshot_search *search, const wk_pages_record *record, const uint8_t *payload, size_t size,
                         int64_t sequence_id) {
	const uint8_t *name = payload + WK_PAGES_RECORD_HEADER;
	size -= WK_PAGES_RECORD_HEADER;
	if (search->name == NULL || strlen(search->name) != size || memcmp(search->name, name, size) != 0)
		return;
	search->database = record->database;
	search->name_at = sequence_id;
}

static bool is_wanted(const wk_snapshot_search *search, const wk_pages_record *record) {
	if (search->database != 0)
		return record->database == search->database;
	return search->name == NULL && (record->flags & WK_PAGES_NAMED) == 0;
}

static wk_snapshot_place place_of(const wk_snapshot_search *search, const wk_pages_record *record) {
	bool named = (record->flags & WK_PAGES_NAMED) != 0;
	return (wk_snapshot_place){.lsn = search->begun, .database = record->database, .named = named};
}

static wk_status look_for_snapshot(void *context, const uint8_t *payload, size_t size, int64_t sequence_id,
                                   int64_t txid) {
	wk_snapshot_search *search = context;
	wk_pages_record record;
	if ((search->lsn >= 0 && sequence_id > search->lsn) || (search->txid >= 0 && txid > search->txid))
		return WK_END;
	wk_status status = wk_pages_record_decode(payload, size, &record);
	if (status != WK_OK)
		return status;
	if (record.kind == WK_PAGES_NAME)
		look_at_name(search, &record, payload, size, sequence_id);
	if (record.kind != WK_PAGES_SNAPSHOT || !is_wanted(search, &record))
		return WK_OK;
	if ((record.flags & WK_PAGES_FIRST) != 0) {
		search->begun = search->name_at >= 0 ? search->name_at : sequence_id;
		search->name_at = -1;
		search->transaction = record.transaction;
		search->parts = 0;
	}
	if (search->first_part)
		search->found = place_of(search, &record);
	if (search->first_part)
		return WK_END;
	bool follows = search->begun >= 0 && record.transaction == search->transaction && record.part == search->parts;
	search->parts++;
	if (!follows)
		search->begun = -1;
	else if ((record.flags & WK_PAGES_LAST) != 0)
		search->found = place_of(search, &record);
	return WK_OK;
}

typedef struct wk_redo_read {
	wk_redo redo;
	wk_error *error;
	bool one;     /* ends behind the first group */
	bool commits; /* there were some before that */
} wk_redo_read;

static wk_status redo_one(void *context, const uint8_t *payload, size_t size, int64_t sequence_id, int64_t txid) {
	wk_redo_read *read = context;
	int64_t lsn = read->redo.at.lsn;
	wk_status status = wk_redo_record(&read->redo, payload, size, sequence_id, txid, read->error);
	read->commits |= status == WK_OK && payload[1] != WK_PAGES_SNAPSHOT;
	return status == WK_OK && read->one && read->redo.at.lsn != lsn ? WK_END : status;
}

static wk_status read_into(const wk_database_log *log, const wk_redo_file *file, int64_t from, uint32_t kind,
                           int64_t lsn, int64_t txid, wk_redo_point *at, bool *commits, wk_error *error) {
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
	*commits = read.commits;
	wk_redo_free(&read.redo);
	return status;
}

wk_status wk_redo_log(const wk_database_log *log, const wk_redo_file *file, int64_t from, int64_t lsn, int64_t txid,
                      wk_redo_point *at, wk_error *error) {
	bool commits;
	return read_into(log, file, from, WK_PAGES_COMMIT, lsn, txid, at, &commits, error);
}

static wk_status find(const wk_database_log *log, int64_t from, wk_snapshot_search search, wk_snapshot_place *place,
                      wk_error *error) {
	int64_t first, next;
	wk_status status = log->range(log->context, &first, &next, error);
	if (status != WK_OK)
		return status;
	search.name_at = search.begun = search.found.lsn = -1;
	wk_database_fail(error, WK_CORRUPT, "the log has a record that is none of a SQLite database");
	status = log->read(log->context, from < first ? first : from, look_for_snapshot, &search, error);
	if (status != WK_OK && status != WK_END)
		return status;
	*place = search.found;
	if (place->lsn >= 0)
		return WK_OK;
	return wk_database_fail(error, WK_NOT_FOUND,
	                        "the log has no whole snapshot of the database from record %" PRId64 " on%s", first,
	                        search.lsn >= 0 || search.txid >= 0 ? " before the point that is asked for" : "");
}

wk_status wk_snapshot_find(const wk_database_log *log, uint64_t database, const char *name, int64_t lsn, int64_t txid,
                           wk_snapshot_place *place, wk_error *error) {
	const wk_snapshot_search search = {.database = database, .name = name, .lsn = lsn, .txid = txid};
	return find(log, -1, search, place, error);
}

wk_status wk_snapshot_at(const wk_database_log *log, int64_t from, const char *name, wk_snapshot_place *place,
                         wk_error *error) {
	const wk_snapshot_search search = {.name = name, .lsn = -1, .txid = -1, .first_part = true};
	return find(log, from, search, place, error);
}

wk_status wk_restore_into(const wk_database_log *log, const wk_redo_file *file, const wk_snapshot_place *place,
                          int64_t lsn, int64_t txid, wk_redo_point *at, wk_error *error) {
	*at = (wk_redo_point){.database = place->database, .named = place->named, .lsn = -1, .txid = -1};
	bool between; /* commits stand between its parts */
	wk_status status = read_into(log, file, place->lsn, WK_PAGES_SNAPSHOT, lsn, txid, at, &between, error);
	if (status == WK_OK && at->pages == 0)
		status = wk_database_fail(error, WK_NOT_FOUND,
		                          "the snapshot at record %" PRId64 " ends behind the point that is asked for",
		                          place->lsn);
	return status == WK_OK ? wk_redo_log(log, file, between ? place->lsn : at->lsn + 1, lsn, txid, at, error) : status;
}

/* ---- into a new file ---- */

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

/* The name appears once the file is whole and safe; a file that came meanwhile stays. */
static wk_status finish_new(wk_new_file *file, const wk_redo_point *at, const char *path, wk_error *error) {
	wk_status status = wk_new_file_flush(file, error);
	if (status == WK_OK && (ftruncate(file->fd, (off_t)at->pages * at->page_size) != 0 || fsync(file->fd) != 0 ||
	                        link(file->name, path) != 0))
		status = wk_database_fail_system(error, "restoring", path, "");
	return status;
}

wk_status wk_database_restore(const wk_database_log *log, const char *name, const char *path, int64_t from, int64_t lsn,
                              int64_t txid, wk_database_restored *restored, wk_error *error) {
	wk_new_file new_file = {.fd = -1};
	wk_status status = refuse_beside(path, error);
	if (status == WK_OK)
		status = wk_new_file_make(&new_file, path, "restoring", error);
	wk_redo_point at;
	const wk_redo_file file = {.context = &new_file, .read = wk_new_file_read, .write = wk_new_file_write};
	wk_snapshot_place place;
	if (status == WK_OK)
		status = from < 0 ? wk_snapshot_find(log, 0, name, lsn, txid, &place, error)
		                  : wk_snapshot_at(log, from, name, &place, error);
	if (status == WK_OK)
		status = wk_restore_into(log, &file, &place, lsn, txid, &at, error);
	if (status == WK_OK)
		status = finish_new(&new_file, &at, path, error);
	wk_new_file_free(&new_file);
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
