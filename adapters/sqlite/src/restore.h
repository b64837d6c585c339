/*
 * restore.h: a database file from its log: the newest snapshot that is wanted, then the commits behind it. Private.
 */
#ifndef WK_SQLITE_RESTORE_H
#define WK_SQLITE_RESTORE_H
#include "redo.h"
#include "walkeeper/sqlite.h"

/* A whole snapshot: where it begins, and of which database it is. */
typedef struct wk_snapshot_place {
	int64_t lsn;
	uint64_t database;
	bool named;
} wk_snapshot_place;
/*
 * The newest whole one with an end of up to `lsn` and `txid` (-1: all). `database` 0: the one with the name, or NULL: whose the log
 * is. WK_NOT_FOUND: there is none. WK_CORRUPT.
 */
wk_status wk_snapshot_find(const wk_database_log *log, uint64_t database, const char *name, int64_t lsn, int64_t txid,
                           wk_snapshot_place *place, wk_error *error);
/* The one that begins at the record `from`. */
wk_status wk_snapshot_at(const wk_database_log *log, int64_t from, const char *name, wk_snapshot_place *place,
                         wk_error *error);
/*
 * Writes all pages of the snapshot, and every commit behind it up to `lsn` and `txid`, and says what the file holds; the caller
 * cuts it to at->pages. Where it fails, the file has parts of them. WK_CORRUPT; WK_IO.
 */
wk_status wk_restore_into(const wk_database_log *log, const wk_redo_file *file, const wk_snapshot_place *place,
                          int64_t lsn, int64_t txid, wk_redo_point *at, wk_error *error);
/* Carries out the commits behind *at, which the file holds. */
wk_status wk_redo_log(const wk_database_log *log, const wk_redo_file *file, int64_t from, int64_t lsn, int64_t txid,
                      wk_redo_point *at, wk_error *error);
#endif
