/* enclosure.h: does a path lie in a directory? Private. */
#ifndef WK_ENGINE_ENCLOSURE_H
#define WK_ENGINE_ENCLOSURE_H
#include "io/io.h"

/*
 * The path, which may be one that does not exist yet, is the directory with this identity or lies below it, links
 * followed. False where that cannot be told: nothing can be made at a path that cannot be looked at.
 */
bool wk_enclosure_has(wk_io *io, const char *path, uint64_t device, uint64_t inode);
#endif
