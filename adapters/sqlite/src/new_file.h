/* new_file.h: a database file that is made by redo. Pages that follow each other are written together. Private. */
#ifndef WK_SQLITE_NEW_FILE_H
#define WK_SQLITE_NEW_FILE_H
#include "redo.h"

typedef struct wk_new_file {
	int fd;     /* -1: it is not made yet */
	char *name; /* of its own, until it gets another one, or none */
	uint8_t *bytes;
	size_t size; /* of them, which are not written yet */
	uint64_t offset;
} wk_new_file;

/*
 * Makes it beside `path`, as PATH-WHAT-PID-NUMBER, which did not exist. WK_NO_MEMORY; WK_NO_SPACE, WK_IO. It is to be freed in any
 * case.
 */
wk_status wk_new_file_make(wk_new_file *file, const char *path, const char *what, wk_error *error);
/* Closes it, and deletes its name; what is not written yet is given up. */
void wk_new_file_free(wk_new_file *file);
/* As in wk_redo_file, `file` being a wk_new_file. WK_NO_SPACE, WK_IO. */
wk_status wk_new_file_read(void *file, uint8_t *bytes, size_t size, uint64_t offset, wk_error *error);
wk_status wk_new_file_write(void *file, const uint8_t *bytes, size_t size, uint64_t offset, wk_error *error);
/* Writes what it holds; nothing is synced. WK_NO_SPACE, WK_IO. */
wk_status wk_new_file_flush(wk_new_file *file, wk_error *error);
#endif
