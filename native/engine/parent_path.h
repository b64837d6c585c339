/*
 * parent_path.h: the directory that names a file. Private to native/.
 */
#ifndef WK_ENGINE_PARENT_PATH_H
#define WK_ENGINE_PARENT_PATH_H

#include <stddef.h>

/* "a/b/" -> "a", "b" and "" -> ".", "/b" and "/" -> "/", "a/." -> "a/./..". The caller frees it; NULL: no memory. */
char *wk_parent_path(const char *path);
/* How many of the path's first bytes are that; 0: it is ".". */
size_t wk_parent_size(const char *path);
#endif
