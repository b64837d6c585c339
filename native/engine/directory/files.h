/* files.h: which journal files and entry logs a directory has. Private. */
#ifndef WK_ENGINE_FILES_H
#define WK_ENGINE_FILES_H
#include "engine/engine.h"

/*
 * (locked or opening) Lists the directory; opens what is not in the table yet. A file that vanishes meanwhile (a
 * follower's writer recycled it) is passed over.
 */
wk_status wk_files_find(wk_engine *engine, wk_error *error);
/* Bytes of all files of the directory. No lock held. */
uint64_t wk_files_disk_bytes(wk_engine *engine);
/* Opening for writing: bytes of files that are none of the engine's (set aside, left over, somebody else's). */
uint64_t wk_files_other_bytes(wk_engine *engine);
#endif
