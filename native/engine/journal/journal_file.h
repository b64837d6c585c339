/*
 * journal_file.h: the life of a journal file: prepared, next, active, full, sealed, recycled. Private.
 */
#ifndef WK_ENGINE_JOURNAL_FILE_H
#define WK_ENGINE_JOURNAL_FILE_H
#include "engine/engine.h"

enum wk_make {
	WK_MAKE_PREPARED,     /* from a prepared file beside the reserve; WK_NOT_FOUND where there is none */
	WK_MAKE_NOW,          /* the same, else a fresh one whose space is only allocated, not written: somebody waits */
	WK_MAKE_FROM_RESERVE, /* the disk is full: any prepared file that is large enough; WK_NO_SPACE where there is none */
};

/*
 * Makes `journal/<id>.wkj` of at least `size` bytes, with the next id, and syncs the directory. (locked, dropped
 * while it works) One at a time (naming_next): a journal file made later has a higher id.
 */
wk_status wk_journal_file_make(wk_engine *engine, uint64_t size, enum wk_make how, wk_store_file **file,
                               wk_error *error);
/*
 * Writes the footer of a full file whose blocks are all durable, then drops its items from memory. No lock held; the
 * caller pinned it.
 */
wk_status wk_journal_file_seal(wk_engine *engine, wk_store_file *file);
/*
 * Once a second: of files that went without a footer, as another name shared their bytes, one that has them to itself
 * is to get it now. (locked, dropped) True: there is one.
 */
bool wk_journal_footer_look_again(wk_engine *engine);
/* A dying file becomes a prepared one, or goes. No lock held. *reused says which. */
wk_status wk_journal_file_recycle(wk_engine *engine, wk_store_file *file, bool *reused);
/* The next file id; reserves more in the superblock where needed. No lock held. */
wk_status wk_file_id_take(wk_engine *engine, uint64_t *id, wk_error *error);
/* Footer bytes of the active file once `entries` more of `runs` more ledgers are in it. */
uint64_t wk_journal_file_footer(const wk_store_file *file, uint64_t entries, uint64_t runs);
#endif
