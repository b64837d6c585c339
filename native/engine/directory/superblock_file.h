/* superblock_file.h: the file `superblock`. Private. */
#ifndef WK_ENGINE_SUPERBLOCK_FILE_H
#define WK_ENGINE_SUPERBLOCK_FILE_H
#include "engine/engine.h"

/* Makes both slots. */
wk_status wk_superblock_create(wk_engine *engine, wk_error *error);
wk_status wk_superblock_load(wk_engine *engine, wk_error *error);
/* For a writer: the file is open, and its lock taken (directory_lock.h). Where there is none yet: WK_OK, and none is open. */
wk_status wk_superblock_hold(wk_engine *engine, wk_error *error);
/* What is stored next says where the journal is now. */
void wk_superblock_note_journal(wk_engine *engine);
/* What the file that is open says now: not what has its name, nor engine->superblock. */
wk_status wk_superblock_reread(wk_engine *engine, wk_superblock *superblock);
/* What the file says now; not for one that was opened for writing. */
wk_status wk_superblock_look(wk_io *io, const char *directory, wk_superblock *superblock, wk_error *error);
/*
 * Writes engine->superblock with the next generation into the older slot, durably. No lock held but catalogue_lock or
 * while opening: the keeper is its one writer.
 */
wk_status wk_superblock_store(wk_engine *engine, wk_error *error);
/* The same generation once more: who made it may have been told that its sync failed, and another one proves nothing. */
wk_status wk_superblock_store_again(wk_engine *engine, wk_error *error);
#endif
