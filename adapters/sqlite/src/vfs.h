/*
 * vfs.h: the VFS "walkeeper" of a SQLite in this process; a process may have several SQLites, each of which has its own. Private.
 */
#ifndef WK_SQLITE_VFS_H
#define WK_SQLITE_VFS_H
#include "walkeeper/log.h"

/* `path` as SQLite has it in its files: absolute, without symbolic links. WK_UNSUPPORTED: no SQLite has the VFS. */
wk_status wk_vfs_full_path(const char *path, char *full, size_t size, wk_error *error);
/* What keeps a database's WAL (database.h), or NULL. */
void wk_vfs_close_keeper(void *keeper);
/* Whether a SQLite has the VFS. */
bool wk_vfs_registered(void);
#endif
