/*
 * journal_walk.h: follows the chain of blocks through the journal files and puts what it finds into the index. Private; for recovery, and for followers, which go on where they stood.
 */
#ifndef WK_ENGINE_JOURNAL_WALK_H
#define WK_ENGINE_JOURNAL_WALK_H
#include "engine/journal_reader.h"
#include "walkeeper/journal_scan.h"

typedef struct wk_walk {
	wk_engine *engine;
	wk_scan scan;
	wk_journal_reader reader;
	wk_store_file *last;   /* the file of the last accepted block */
	uint64_t cut_bytes;
	wk_scan_verdict end;   /* why the chain stopped */
} wk_walk;

/* All files from the oldest on; on return the chain's end is in scan, its file in last. WK_DAMAGED where it ends in damage. */
wk_status wk_walk_all(wk_walk *walk, wk_error *error);
/* One file, from walk->scan.offset of it on where it is the scan's file, else from its start. */
wk_status wk_walk_file(wk_walk *walk, wk_store_file *file, wk_error *error);
/* The next file that follows the chain behind the one at index *at; *found false where none does. */
wk_status wk_walk_next(wk_walk *walk, uint32_t *at, bool *found, wk_error *error);
#endif
