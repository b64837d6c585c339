/*
 * missing_entries.h: entries that the index file knew, in files that are not there or that do not show them. Private.
 *
 * A file that is missing looks as if it had been recycled. So does a file that an open finds empty because it does not
 * believe the index. But a file is recycled only after what killed its entries is durable (storage rule 21). So where the
 * catalogue still needs an entry that the index knew, acknowledged bytes are lost, and the end of what is left must not
 * pass for the end of the log.
 *
 * A follower beside a writer notes nothing here: its list of files, its index and its catalogue are of different moments.
 */
#ifndef WK_ENGINE_MISSING_ENTRIES_H
#define WK_ENGINE_MISSING_ENTRIES_H
#include "engine/engine.h"

typedef struct wk_missing_range { /* of a range in a file */
	int64_t ledger_id;
	int64_t first_entry, last_entry;
	bool dense;      /* there were no holes between them */
	uint32_t needed; /* so many of them at least were not dead */
	uint32_t bytes;
	uint32_t kind; /* enum wk_file_kind */
	uint64_t file_id;
	uint64_t last_sequence; /* of its footer */
} wk_missing_range;

typedef struct wk_missing_entries {
	wk_missing_range *list; /* by ledger */
	uint32_t count, capacity;
} wk_missing_entries;

/* In the order of ledgers. WK_NO_MEMORY. */
wk_status wk_missing_entries_add(wk_engine *engine, const wk_missing_range *known);
/* The highest entry of the ledger that the index knew, -1: none. */
int64_t wk_missing_entries_last(const wk_engine *engine, int64_t ledger_id);
/*
 * The catalogue is there, and the directory is being opened for writing. Where a log needs a noted entry and no file has
 * it: WK_DAMAGED, which names the file. Where loss is accepted, wk_loss_make_gaps makes a gap of it. WK_NO_MEMORY. No lock
 * held.
 */
wk_status wk_missing_entries_check(wk_engine *engine, bool accepts, wk_error *error);
/*
 * The catalogue is there. Ends of logs that the index knew and no file has: where loss is accepted, they are lost. Else the
 * ledger ends where it did, and a reader of what is missing gets an error. (locked)
 */
wk_status wk_missing_entries_apply(wk_engine *engine, bool accepts);
/*
 * The same for a ledger store, all of whose files were read: entries that no later delete killed. Where loss is accepted,
 * they are counted. Afterwards nothing is noted any more. WK_DAMAGED.
 */
wk_status wk_missing_entries_check_ledgers(wk_engine *engine, bool accepts, wk_error *error);
void wk_missing_entries_free(wk_engine *engine);
#endif
