/* store_file.h: the table of journal files and entry logs. Private. */
#ifndef WK_ENGINE_STORE_FILE_H
#define WK_ENGINE_STORE_FILE_H
#include "engine/engine.h"

/* (locked) In id order; NULL: no memory. */
wk_store_file *wk_store_file_add(wk_engine *engine, uint64_t id, uint32_t kind);
/* (locked) Out of the table and freed; its handle is closed. No pins, no live entries. */
void wk_store_file_remove(wk_engine *engine, wk_store_file *file);
/* (locked) Out of the table; freed at once, or by the last unpin. */
void wk_store_file_retire(wk_engine *engine, wk_store_file *file);
wk_store_file *wk_store_file_find(wk_engine *engine, uint64_t id);
/*
 * (locked, or opening) Its handle is open on 0; -errno. A writer's always is. A follower holds a file open only while
 * it reads from it, so that the space of what the writer unlinks comes back at once: a file that is pinned stays open
 * until its last unpin, another until the next one is used, or wk_store_file_let_go. -ENOENT: the writer has let go
 * of it.
 */
int wk_store_file_use(wk_engine *engine, wk_store_file *file);
/* (locked, or opening) A follower's file that was used without a pin is closed. */
void wk_store_file_let_go(wk_engine *engine);
/* (locked) */
void wk_store_file_unpin(wk_engine *engine, wk_store_file *file);
/* "journal/<id>.wkj" or "entries/<id>.wke", below the directory; the caller frees. */
char *wk_store_file_path(const wk_engine *engine, uint64_t id, uint32_t kind);
/* The id in such a name (the last component); false: another name. */
bool wk_store_file_parse(const char *name, uint32_t *kind, uint64_t *id);
void wk_store_files_free(wk_engine *engine);
#endif
