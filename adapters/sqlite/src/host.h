/*
 * host.h: the SQLite of the host, as the rest of the adapter sees it. A process may have several; files belong to the one
 * whose VFS opened them. Only host.c, vfs.c, recovery.c and extension.c include SQLite's headers.
 */
#ifndef WK_SQLITE_HOST_H
#define WK_SQLITE_HOST_H

/* Result codes of SQLite (https://www.sqlite.org/rescode.html), which its file format keeps for ever. */
enum {
	WK_HOST_NOMEM = 7,
	WK_HOST_FULL = 13,
	WK_HOST_IOERR_WRITE = 10 | 3 << 8,
};

/* Into SQLite's error log (SQLITE_CONFIG_LOG), of the SQLite that loaded the extension first. */
void wk_host_log(int code, const char *text);
#endif
