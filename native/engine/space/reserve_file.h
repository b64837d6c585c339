/*
 * reserve_file.h: files that hold space back on a full disk for one write of a kind: the mover's output, the next index.
 * Private; no lock held. Who takes one owns it under its new name, until it is given back.
 */
#ifndef WK_ENGINE_RESERVE_FILE_H
#define WK_ENGINE_RESERVE_FILE_H
#include "engine/engine.h"

#define WK_RESERVE_OUTPUT "entries/prepared-output.wkp"
#define WK_RESERVE_INDEX "entries/prepared-index.wkp"

/*
 * The file, of `size` bytes if possible; one that is there stays as it was where there is no space for more. -errno;
 * -EOPNOTSUPP: no space can be kept back here.
 */
int wk_reserve_file_make(wk_engine *engine, const char *reserve, uint64_t size, uint64_t *made);
/* It gets this path. -errno */
int wk_reserve_file_take(wk_engine *engine, const char *reserve, const char *path);
/*
 * And back, of `size` bytes again if they can be had: what was written may have cut it. So many it has, as far as is known; the
 * path is free again.
 */
uint64_t wk_reserve_file_return(wk_engine *engine, const char *reserve, const char *path, uint64_t size);
#endif
