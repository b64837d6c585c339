/*
 * journal_directory.h: a directory for the journal alone, as a device of its own has one (docs/adr/0015). Private.
 *
 * It holds the folder `journal` and the file `owner`, which says whose journal that is, and which incarnation was the last
 * to write it (docs/formats/owner.md). Both are locked while it is written: a journal has one directory, and a directory
 * one journal. The superblock says whether there is one, and where it was.
 */
#ifndef WK_ENGINE_JOURNAL_DIRECTORY_H
#define WK_ENGINE_JOURNAL_DIRECTORY_H
#include "engine/engine.h"

/* How far the making of the directory has come, by its superblock. */
enum wk_making {
	WK_MAKING_NOTHING,    /* there is none yet */
	WK_MAKING_UNFINISHED, /* of the first generation */
	WK_MAKING_DONE,
};

/*
 * Is it given where there is to be one, and is it this directory's? Then it is held, and by a writer locked. While the
 * directory is being made it is made, or must be empty. Nothing is written but an empty `owner`. WK_INVALID: it is
 * missing, not wanted, another's, or not to be used; WK_NOT_FOUND, WK_LOCKED, WK_DAMAGED, WK_UNSUPPORTED, WK_IO.
 */
wk_status wk_journal_directory_enter(wk_engine *engine, enum wk_making making, wk_error *error);
/*
 * Its folder, and whose it is, durable with all names on the way. What the superblock of the first generation says must
 * be durable before: else a power cut would leave an owner that nobody is. Where there is none, nothing.
 */
wk_status wk_journal_directory_finish(wk_engine *engine, wk_error *error);
/*
 * The incarnation that is about to begin, durable before the superblock knows of it: so a journal that a copy left behind
 * is told from the one that was written since.
 */
wk_status wk_journal_directory_begin(wk_engine *engine, wk_error *error);
/* The directory is open in this process: was it opened with this journal directory (NULL: none)? WK_INVALID. */
wk_status wk_journal_directory_check_same(const wk_engine *engine, const char *path, wk_error *error);
void wk_journal_directory_free(wk_engine *engine);
/* Bytes of its own, beside the journal files. */
uint64_t wk_journal_directory_bytes(const wk_engine *engine);
#endif
