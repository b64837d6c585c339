/*
 * lookup.h: where a ledger's entries stand: in which file, and at which items of its footer. Private; takes the lock
 * itself, and reads pages without it.
 *
 * A range without holes says where its entries are. Of one with holes the runs are read, through the ledger cache:
 * those of the newest file first, as the newest place counts.
 */
#ifndef WK_ENGINE_LOOKUP_H
#define WK_ENGINE_LOOKUP_H
#include "engine/engine.h"

/* Consecutive entries with consecutive items in one file; or entries that are nowhere. */
typedef struct wk_stretch {
	wk_store_file *file;  /* pinned: wk_stretch_release; NULL: nowhere */
	int64_t first_entry;  /* the one that was asked for */
	int64_t last_entry;   /* of the stretch; there may be more behind it. Nowhere, INT64_MAX: nor is any later one */
	uint32_t first_item;  /* of a sealed file */
	uint32_t items_count; /* not sealed: so many items were copied, if any were asked for */
	bool sealed;
} wk_stretch;

enum wk_lookup_scope {
	WK_LOOKUP_READABLE, /* what a reader may see: WK_NOT_FOUND for an entry before the first live or not yet durable */
	WK_LOOKUP_CACHED,   /* the same, and no page is read: WK_WOULD_BLOCK, without a text, where one would have to be */
	WK_LOOKUP_ALL,
};

/*
 * The stretch from `first` on, not beyond `last`, and not beyond items_max entries of a file that is not sealed, whose
 * places are copied to `items` (both may be NULL and 0). WK_NOT_FOUND: no such ledger, and nowhere are all its entries.
 * WK_DAMAGED: a page of an index.
 */
wk_status wk_lookup(wk_engine *engine, int64_t ledger_id, int64_t first, int64_t last, enum wk_lookup_scope scope,
                    wk_footer_item *items, uint32_t items_max, wk_stretch *stretch, wk_error *error);
void wk_stretch_release(wk_engine *engine, wk_stretch *stretch);
/*
 * The places of `count` entries of a sealed file from this item on. The file is pinned, no lock held. WK_LOOKUP_CACHED:
 * WK_WOULD_BLOCK where a page of them is not in the ledger cache.
 */
wk_status wk_lookup_items(wk_engine *engine, wk_store_file *file, uint32_t item, uint32_t count,
                          enum wk_lookup_scope scope, wk_footer_item *items, wk_error *error);

/*
 * The runs of one sealed range, one after the other: `runs` holds those of one page. No lock held, the file pinned.
 */
typedef struct wk_run_cursor {
	wk_store_file *file;
	uint32_t next, end; /* runs of the footer */
	uint32_t at, count; /* in this page */
	wk_footer_run runs[WK_PAGE_RUNS];
} wk_run_cursor;
/* NULL behind the last, or where *status is no longer WK_OK. */
const wk_footer_run *wk_run_next(wk_engine *engine, wk_run_cursor *cursor, wk_status *status, wk_error *error);
#endif
