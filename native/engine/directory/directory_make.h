/*
 * directory_make.h: what makes a directory one of ours: its folders and its superblock, and their names durable. Private.
 */
#ifndef WK_ENGINE_DIRECTORY_MAKE_H
#define WK_ENGINE_DIRECTORY_MAKE_H
#include "engine/engine.h"

/*
 * The superblock, of the right kind. It is written last: a directory without one is new, or was never finished, and is
 * made where the options allow it. WK_NOT_FOUND, WK_INVALID, WK_DAMAGED, WK_IO, WK_NO_MEMORY.
 */
wk_status wk_directory_make_or_load(wk_engine *engine, wk_error *error);
/*
 * Is it a directory of ours, or one that can become one? Nothing is written: it may be another program's. WK_NOT_FOUND,
 * WK_INVALID, WK_DAMAGED (a journal without a superblock), WK_IO, WK_NO_MEMORY.
 */
wk_status wk_directory_check(wk_engine *engine, wk_error *error);
/* A folder of it that is missing, by its whole path; durable. 0 or -errno. */
int wk_directory_make_folder(wk_engine *engine, const char *path);
#endif
