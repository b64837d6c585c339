/*
 * state_file.h: PATH-wk beside a database (docs/formats/sqlite_state.md): of which log it is, and from which record on the
 * log is to be redone. Its lock says that a process has the database open.
 */
#ifndef WK_SQLITE_STATE_FILE_H
#define WK_SQLITE_STATE_FILE_H
#include "redo.h"

typedef struct wk_state_file {
	int fd; /* -1: closed */
	uint64_t generation;
	uint64_t log_id;
	wk_redo_point at; /* the file has all of it, safe from power cuts; database 0: nothing was stored yet */
} wk_state_file;

/* Opens and locks it; made where there is none. WK_LOCKED: another process has it. WK_CORRUPT, WK_UNSUPPORTED, WK_IO. */
wk_status wk_state_file_open(const char *database, wk_state_file *file, wk_error *error);
/* Durable when it returns. */
wk_status wk_state_file_store(wk_state_file *file, const wk_redo_point *at, wk_error *error);
void wk_state_file_close(wk_state_file *file);
#endif
