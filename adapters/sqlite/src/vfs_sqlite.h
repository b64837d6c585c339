/* vfs_sqlite.h: the VFS and its files, for what includes SQLite's headers. Private. */
#ifndef WK_SQLITE_VFS_SQLITE_H
#define WK_SQLITE_VFS_SQLITE_H
#include <sqlite3ext.h>

#include "database.h"

typedef struct wk_vfs {
	sqlite3_vfs base;
	sqlite3_vfs *real; /* the default of that SQLite: it has the files */
	const sqlite3_api_routines *api;
} wk_vfs;

enum { WK_FCNTL_DATABASE = 0x776b0001 }; /* sqlite3_file_control: the wk_database of a connection's database */
enum wk_file_role { WK_FILE_DATABASE = 1, WK_FILE_WAL = 2 };

typedef struct wk_file {
	sqlite3_file base;
	wk_vfs *vfs;
	wk_database *database;
	uint32_t role;           /* enum wk_file_role */
	void *const *connection; /* where SQLite's btree has the address of its connection; NULL: it did not say */
	bool writing;            /* it has SQLite's WAL_WRITE_LOCK */
	bool changing;           /* pages are written to the database file through it */
	uint64_t commits;        /* of the database, when it got it */
	struct wk_file *main;    /* of a WAL that was written to: the file of its connection's database, or NULL */
	uint64_t ticket;         /* of the last commit through it; group acknowledgement waits for it */
	sqlite3_file *real;      /* stands behind this struct */
} wk_file;

/* SQLITE_OK; registers the VFS with this SQLite, once. */
int wk_vfs_register(const sqlite3_api_routines *api);
/* The one that was registered first, or NULL: the SQLite that the process uses, where it has several. */
wk_vfs *wk_vfs_any(void);
/* Each has a number from 0 to 3. */
size_t wk_vfs_number(const sqlite3_api_routines *api);
const sqlite3_api_routines *wk_vfs_api(size_t number);
#endif
