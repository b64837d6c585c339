/*
 * restore.h: a database file from its log: the newest snapshot that is wanted, then the commits behind it. Private.
 */
#ifndef WK_SQLITE_RESTORE_H
#define WK_SQLITE_RESTORE_H
#include "redo.h"
#include "walkeeper/sqlite.h"

/*
 * Writes all pages with every commit up to `lsn` and `txid` (-1: all), and says what the file holds; the caller cuts it to at->pages.
 * `from`: where to look for snapshots, -1: everywhere. `database` 0: whose the log is. WK_NOT_FOUND: no whole snapshot. WK_CORRUPT; WK_IO.
 */
wk_status wk_restore_into(const wk_database_log *log, const wk_redo_file *file, int64_t from, uint64_t database,
                          int64_t lsn, int64_t txid, wk_redo_point *at, wk_error *error);
/* Carries out the commits behind *at, which the file holds. */
wk_status wk_redo_log(const wk_database_log *log, const wk_redo_file *file, int64_t from, int64_t lsn, int64_t txid,
                      wk_redo_point *at, wk_error *error);
#endif
