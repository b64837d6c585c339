/*
 * index_file.h: the index file and LastLogMark: what the footers below the mark say, in one file, so that an open
 * need not read them. Private.
 *
 * The mark is superblock.replay_epoch: journal files with ids below it are sealed or gone. What of them, and of entry
 * logs, the index file names is known without a footer being read. What the directory has and the index does not name
 * is read as ever: journal files from the mark on, entry logs that came to be later.
 */
#ifndef WK_ENGINE_INDEX_FILE_H
#define WK_ENGINE_INDEX_FILE_H
#include "engine/engine.h"

/*
 * While opening, the files are listed, nothing is in the index yet: what the index file of the superblock says, put
 * into it; the files that it names and that are there are SEALED then. Where it is damaged, missing or not wanted
 * (ignore_footers, on_damage other than stop) nothing is, engine->index.mark stays 0, and the caller reads footers.
 * Fails for want of memory only.
 */
wk_status wk_index_load(wk_engine *engine, wk_error *error);
/*
 * Opening for writing, before the superblock is stored: where the index was not used the superblock must not name it
 * any more.
 */
void wk_index_begin(wk_engine *engine);
/*
 * Opening for writing, where blocks can be written already: an index that claims what is lost makes way for one that does
 * not, or will as soon as there is space. WK_IO.
 */
wk_status wk_index_replace_outdated(wk_engine *engine, wk_error *error);
/* Opening for writing, behind that: removes index files that nothing names. */
void wk_index_sweep(wk_engine *engine);

/*
 * (locked, dropped while it works) Writes the next index file where enough has changed since the last one. False:
 * nothing was done.
 */
bool wk_index_if_due(wk_engine *engine);
/* No lock held, nobody appends any more: writes one where anything has changed. */
void wk_index_at_close(wk_engine *engine);
/* (locked) Writes one now; false: it could not be. A failed write stops the journal, a full disk does not. */
bool wk_index_write(wk_engine *engine);

/* Does an index with this mark name it? */
bool wk_index_names(const wk_store_file *file, uint64_t mark);
/*
 * (locked) May this file go, as far as the index is concerned? It has the state records of that, if there are any. A
 * journal file of a ledger store is below its mark: so one that is missing above it was lost, and not recycled. By one that
 * gets no footer the mark does not pass: it, and those behind it, may go once the superblock accounts for them (space.c).
 */
bool wk_index_lets_go(const wk_engine *engine, const wk_store_file *file);
#endif
