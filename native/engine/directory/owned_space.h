/* owned_space.h: the space that a file of a copied directory has of its own. Private. */
#ifndef WK_ENGINE_OWNED_SPACE_H
#define WK_ENGINE_OWNED_SPACE_H
#include "engine/engine.h"

/*
 * Writing within its size needs no more room from here on. `cp --sparse`, `tar -S` and `rsync -S` make files that have a
 * size and hardly any blocks; where cp shares blocks with the original (xfs), they are another's until they are asked for.
 *
 * -ENOSPC, -EDQUOT: it lacks blocks, and the disk has no more. Any other failure says nothing: the file is as it was. A file
 * that has its blocks is not refused, although xfs refuses to look where it is nearly full: whether it shares them is not
 * known then.
 */
int wk_owned_space_want(wk_engine *engine, wk_file *handle);
/* The same of all journal files that are written to from here on. Prepared files are given up for them; WK_NO_SPACE. */
wk_status wk_owned_space_take_journal(wk_engine *engine, wk_error *error);
/* The same of the superblock. */
wk_status wk_owned_space_take_superblock(wk_engine *engine, wk_error *error);
#endif
