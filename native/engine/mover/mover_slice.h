/*
 * mover_slice.h: entries that stand interleaved in several files, brought into the order (ledger, entry) in memory.
 * Private; the keeper's.
 *
 * A slice is as many of a pass's pieces, from one on, as its memory holds. First it is looked up where their entries
 * stand; then the files are read, in the order of their bytes, a large read at a time, whatever of other ledgers lies
 * in between; then the entries are written out, in their order. So a file is read once for each slice, and not once for
 * each entry. No lock is held by who calls.
 */
#ifndef WK_ENGINE_MOVER_SLICE_H
#define WK_ENGINE_MOVER_SLICE_H
#include "engine/mover/entry_log.h"
#include "engine/mover/mover_pieces.h"

typedef struct wk_slice_entry {
	int64_t ledger_id, entry_id;
	size_t to;             /* in the slice's bytes */
	uint32_t offset, size; /* in the victim; size 0: it could not be read */
	uint32_t victim;
	uint32_t piece; /* of the slice's pieces */
} wk_slice_entry;

enum wk_slice_state { WK_SLICE_EMPTY, WK_SLICE_FINDS, WK_SLICE_READS, WK_SLICE_WRITES };

typedef struct wk_slice {
	wk_engine *engine;
	const wk_victims *victims;
	uint64_t memory; /* for entries and their places */
	enum wk_slice_state state;
	wk_piece *pieces; /* from the first one of the slice on */
	wk_slice_entry *entries;
	uint32_t count, capacity, next; /* next: to be read, or written */
	uint8_t *bytes;
	size_t size; /* of all of them */
} wk_slice;

/*
 * One step: about a megabyte is read or written, or so many places are found; *bytes: of entries that were.
 * From pieces[*next] on, where the slice is empty; *next is the first piece that is wholly passed by then. Where the slice
 * is empty and *next is behind the last piece, all is written. 0 or -errno; then wk_slice_free.
 */
int wk_slice_step(wk_slice *slice, wk_pieces *pieces, size_t *next, wk_entry_log_writer *writer, uint64_t *bytes);
uint64_t wk_slice_memory(const wk_slice *slice);
void wk_slice_free(wk_slice *slice);
#endif
