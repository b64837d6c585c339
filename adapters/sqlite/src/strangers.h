/*
 * strangers.h: what another program, without this VFS, did to a database file while no process had it open on its log. The state file
 * says how the file was left, by a process that closed it or was killed. Where it is otherwise, and its pages are still those of a commit
 * in the log, the file was copied, or the program only read, and SQLite may have moved the WAL into it. Else the file has what the log
 * does not have. Private.
 */
#ifndef WK_SQLITE_STRANGERS_H
#define WK_SQLITE_STRANGERS_H
#include "database.h"

typedef struct wk_stranger_signs {
	bool closed;  /* it was closed, with all commits in it */
	bool touched; /* the file is not as it was left */
	bool wal;     /* the WAL is there, whose commits are in the log, too */
} wk_stranger_signs;

/* With the file open. WK_INVALID: its WAL is of another program. WK_IO. */
wk_status wk_strangers_look(wk_database *database, wk_stranger_signs *signs, wk_error *error);
/*
 * With the file open: compares it with the commits that the log has, and empties *signs. Where it cannot be told before the log is taken
 * over, they stay. WK_INVALID: the file has what the log does not have; or the log has no such commits any more.
 */
wk_status wk_strangers_check(wk_database *database, const wk_redo_file *file, uint64_t size, wk_stranger_signs *signs,
                             wk_error *error);
/* WK_INVALID. */
wk_status wk_strangers_refuse(const wk_database *database, wk_error *error);
#endif
