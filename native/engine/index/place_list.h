/*
 * place_list.h: the places of one ledger's entries in a file that is not sealed yet, by entry id. Private; under the
 * engine's lock.
 *
 * Ids may come in any order: sorted chunks of a few kilobytes, so that the usual id, one behind the last, costs a
 * store, and any other a search and a short move.
 */
#ifndef WK_ENGINE_PLACE_LIST_H
#define WK_ENGINE_PLACE_LIST_H
#include <assert.h>

#include "core/footer.h"

enum { WK_PLACE_CHUNK = 256 };

typedef struct wk_place {
	int64_t entry_id;
	wk_footer_item item;
} wk_place;

typedef struct wk_place_chunk {
	uint32_t count, capacity;
	wk_place places[];
} wk_place_chunk;

typedef struct wk_place_list {
	union {
		wk_footer_item single;   /* no chunks, one place: that of last_entry. Most ledgers have an entry or two */
		wk_place_chunk *one;     /* of one chunk */
		wk_place_chunk **chunks; /* of more, with room for a power of four; none is empty */
	};
	int64_t last_entry; /* the highest id; -1: none */
	uint32_t chunks_count;
	uint32_t count;      /* places */
	uint32_t runs_count; /* of consecutive ids */
	uint32_t bytes;      /* of the entries */
	/* where they stand in the footer that is being written (wk_ledger_collect) */
	uint32_t first_item, first_run;
} wk_place_list;
static_assert(sizeof(wk_place_list) == 40, "there is one for each ledger that is written");

typedef struct wk_place_cursor {
	uint32_t chunk, at;
	wk_place single; /* a copy of the only one there is */
} wk_place_cursor;

/* NULL: no memory. */
wk_place_list *wk_place_list_new(void);
void wk_place_list_free(wk_place_list *list);
/*
 * The entry stands here now. *earlier: its place before, size 0 where it had none. False: no memory, nothing has
 * changed.
 */
bool wk_place_list_put(wk_place_list *list, int64_t entry_id, wk_footer_item item, wk_footer_item *earlier);
/* Soon one more is put behind the last: fetches where it will stand. */
void wk_place_list_prefetch(const wk_place_list *list);
/* The first place with this id or a higher one, until the list changes or the cursor goes; NULL behind the last. */
const wk_place *wk_place_list_seek(const wk_place_list *list, int64_t entry_id, wk_place_cursor *cursor);
/* The one behind it. */
const wk_place *wk_place_list_next(const wk_place_list *list, wk_place_cursor *cursor);
/* How many have lower ids. */
uint32_t wk_place_list_before(const wk_place_list *list, int64_t entry_id);
uint64_t wk_place_list_memory(const wk_place_list *list);
#endif
