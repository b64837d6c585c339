/*
 * strangers.h: what another program, without this VFS, did to a database file while no process had it open on its log. A process that
 * was killed leaves in the state file how it left the file: where the file is as it was, or its pages are those of a commit in the
 * log, the program only read, and SQLite may have moved the WAL into the file. Else the file has what the log does not have. Private.
 */
#ifndef WK_SQLITE_STRANGERS_H
#define WK_SQLITE_STRANGERS_H
#include "database.h"

typedef struct wk_stranger_signs {
	bool touched;         /* the file is not as it was left */
	uint32_t wal_commits; /* in the WAL, which have to be in the log, too */
} wk_stranger_signs;

/*
 * Before the file is opened. Where it was touched, SQLite moves the WAL into it. WK_INVALID: that cannot be, as connections have the
 * file open. WK_IO.
 */
wk_status wk_strangers_look(wk_database *database, wk_stranger_signs *signs, wk_error *error);
/*
 * With the file open, and the log's writer: compares the file with the commits that the log has. Where the log has no such commits any
 * more, the state becomes WK_STATE_MAKING: the file is made anew. WK_INVALID: the file has what the log does not have.
 */
wk_status wk_strangers_check(wk_database *database, const wk_redo_file *file, uint64_t size,
                             const wk_stranger_signs *signs, wk_error *error);
/* Moves the WAL into the file by SQLite itself, without this VFS; with `to_wal` it brings it into WAL mode before. WK_INVALID: it cannot. */
wk_status wk_checkpoint_by_sqlite(const char *path, bool to_wal, wk_error *error);
#endif
