/* journal_space.h: the space of a journal file: allocated, or written. Private. */
#ifndef WK_ENGINE_JOURNAL_SPACE_H
#define WK_ENGINE_JOURNAL_SPACE_H
#include "engine/engine.h"

enum wk_space {
	WK_SPACE_ALLOCATED,
	WK_SPACE_WRITTEN,    /* zeros, at once */
	WK_SPACE_AT_LEISURE, /* zeros, little by little until the file is urgently wanted: for the keeper's thread alone */
};

/*
 * A new file of `size` at `path`, durable but for its name, and open. *written: how much of it is, from the beginning;
 * all of it where nothing can be allocated. -errno: there is no such file. No lock held.
 */
int wk_journal_space_make(wk_engine *engine, const char *path, uint64_t size, enum wk_space how, wk_file **handle,
                          uint64_t *written);
/*
 * Of a file without blocks that was found when the directory was opened: its size is durable. Who made it may have been
 * killed before he synced it, or his sync failed, and a later one alone shows nothing: its last page is written. -errno.
 */
int wk_journal_space_keep(wk_engine *engine, wk_file *handle, uint64_t size);
/* Names that were made or changed in the journal's directory are durable. */
wk_status wk_journal_names_sync(wk_engine *engine, wk_error *error);

/*
 * How much of a file is written with zeros at once where somebody may wait behind it, after a piece that took so long: as
 * much as takes 100 to 200 us, 64 to 256 KiB. Each costs the same calls, switches and wake-ups.
 */
uint32_t wk_journal_piece_next(uint32_t piece, uint64_t took_ns);
#endif
