/*
 * mover_pieces.h: whose entries a pass of the mover copies: pieces of ledgers, by (ledger, first entry). Private.
 */
#ifndef WK_ENGINE_MOVER_PIECES_H
#define WK_ENGINE_MOVER_PIECES_H
#include "engine/engine.h"

enum { WK_PASS_FILES_MAX = 64 };

typedef struct wk_victims { /* the files that a pass empties, pinned by it */
	wk_store_file *files[WK_PASS_FILES_MAX];
	uint32_t count;
} wk_victims;

/* The number of the file among them; count: it is none. */
uint32_t wk_victims_find(const wk_victims *victims, const wk_store_file *file);

typedef struct wk_piece { /* a span of one ledger with live entries in one victim, or in several that overlap */
	int64_t ledger_id, first, last;
	int64_t next; /* the first entry that was not looked at yet */
	bool left;    /* a damaged entry stays where it is */
} wk_piece;

typedef struct wk_pieces {
	wk_piece *list;
	size_t count, capacity;
} wk_pieces;

/* (locked) By the ranges, which are all in memory. False: no memory. */
bool wk_pieces_of_ranges(const wk_engine *engine, const wk_victims *victims, wk_pieces *pieces);
/*
 * (no lock held) Where ranges are paged out the victims' footers say whose entries they hold. 0 or -errno; a victim whose
 * footer cannot be read is not tried again.
 */
int wk_pieces_of_footers(wk_engine *engine, const wk_victims *victims, wk_pieces *pieces);
/* Passes over what was truncated or deleted meanwhile; false: nothing of the piece is left to be looked at. */
bool wk_piece_is_wanted(wk_engine *engine, wk_piece *piece);
/* How many ledgers they are of. */
uint64_t wk_pieces_ledgers(const wk_pieces *pieces);
#endif
