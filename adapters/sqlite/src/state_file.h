/*
 * state_file.h: PATH-wk beside a database (docs/formats/sqlite_state.md): of which log it is, and from which record on the
 * log is to be redone. Its lock says that a process has the database open.
 */
#ifndef WK_SQLITE_STATE_FILE_H
#define WK_SQLITE_STATE_FILE_H
#include "redo.h"

enum { WK_STATE_MAKING = -2 }; /* as `lsn`: the file is being made from the log, and may lack pages */
enum { WK_BOOT_ID = 16 };
enum { WK_FILE_SPOILED = 1 }; /* a size that no database has: the file has what the log does not have */

/* The database file as it was when it was closed, with all commits in it; size 0: it is open, or was not closed. */
typedef struct wk_file_stamp {
	uint64_t size;
	int64_t changed_ns; /* its mtime */
} wk_file_stamp;

static inline bool wk_file_stamp_equal(wk_file_stamp a, wk_file_stamp b) {
	return a.size == b.size && a.changed_ns == b.changed_ns;
}

/*
 * The database file while it is open. It is not synced: it holds as long as the system runs that wrote it, and is UNKNOWN to a later
 * one, as an mtime may be lost in a power cut. CHANGING: pages are being written. WRITTEN: they were, and the file has this stamp. REDOING: the log's
 * commits are being carried out on it.
 */
enum wk_live_state { WK_LIVE_UNKNOWN = 0, WK_LIVE_WRITTEN = 1, WK_LIVE_CHANGING = 2, WK_LIVE_REDOING = 3 };
typedef struct wk_live_file {
	uint32_t state;       /* enum wk_live_state */
	uint32_t acknowledge; /* enum wk_acknowledge: how its commits wait */
	wk_file_stamp stamp;  /* WRITTEN */
	uint8_t salt[8];      /* of the WAL with the commits behind the stored ones; zeros: there is none */
	uint8_t earlier[8];   /* of the one before, which may still be there; or of one that began elsewhere */
} wk_live_file;

typedef struct wk_state_file {
	int fd; /* -1: closed */
	uint64_t generation;
	uint64_t log_id;
	wk_redo_point at; /* the file has all of it, safe from power cuts; database 0: nothing was stored yet */
	wk_file_stamp closed;
	wk_live_file live;           /* as it was found */
	uint8_t boot_id[WK_BOOT_ID]; /* of the running system; zeros: not known */
} wk_state_file;

/* Opens and locks it; made where there is none. WK_LOCKED: another process has it. WK_CORRUPT, WK_UNSUPPORTED, WK_IO. */
wk_status wk_state_file_open(const char *database, wk_state_file *file, wk_error *error);
/* Durable when it returns. */
wk_status wk_state_file_store(wk_state_file *file, const wk_redo_point *at, wk_file_stamp closed, wk_error *error);
/* WK_IO. Killed processes leave it; it is not synced. */
wk_status wk_state_file_note(const wk_state_file *file, wk_live_file live, wk_error *error);
/* Of the file as it is; size 0: there is none, or it is empty. */
wk_file_stamp wk_file_stamp_of(const char *path);
void wk_state_file_close(wk_state_file *file);
#endif
