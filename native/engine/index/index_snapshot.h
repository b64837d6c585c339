/*
 * index_snapshot.h: what an index file says, collected in one moment under the lock, and written without it. Private.
 *
 * Ranges that are in memory are copied at the moment. Those that are paged out are taken over from the index file before
 * this one, page by page, while it is written: both are by ledger, so one pass merges them.
 */
#ifndef WK_ENGINE_INDEX_SNAPSHOT_H
#define WK_ENGINE_INDEX_SNAPSHOT_H
#include "engine/index/range_pager.h"

typedef struct wk_ledger_extent { /* of a ledger: how far its ranges, and what is live, go */
	int64_t ledger_id, last_entry, first_live, length;
} wk_ledger_extent;

typedef struct wk_index_snapshot {
	wk_index_header header;
	wk_footer *files;
	uint32_t *limits; /* of each file: ranges that are paged out are taken over if their ledger's limit reaches it */
	wk_index_ledger *ledgers;  /* with state records */
	wk_ledger_extent *extents; /* of all, where some have; both are put in order, and together, without the lock */
	uint32_t extents_count;
	wk_index_range *ranges; /* in memory */
	uint32_t ranges_count;
	wk_range_place *paged; /* where the others are in `source` */
	size_t paged_count;
	wk_index_source *source; /* NULL: there are none */
	/* once written */
	wk_range_place *places; /* of ledgers with more than one range */
	size_t places_count, places_capacity, places_of_paged;
	bool failed_before_use; /* nothing of what the disk holds has another meaning for it */
} wk_index_snapshot;

/* (locked) False: no memory. Either way it is to be freed. */
bool wk_index_snapshot_collect(wk_engine *engine, uint64_t mark, wk_index_snapshot *moment);
/* No lock held. To a new file, or to one that is there and may be longer (there); synced; -errno. */
int wk_index_snapshot_write(wk_engine *engine, wk_index_snapshot *moment, const char *path, bool there);
/* (locked) */
void wk_index_snapshot_free(wk_engine *engine, wk_index_snapshot *moment);
#endif
