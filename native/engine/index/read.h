/*
 * read.h: entries by (ledger, entry id), from the memtable or the files. Private.
 */
#ifndef WK_ENGINE_READ_H
#define WK_ENGINE_READ_H
#include "engine/engine.h"

enum { WK_SPAN_ENTRIES_MAX = 1024 };

typedef struct wk_span_entry {
	int64_t entry_id;
	uint32_t offset; /* in the span's buffer */
	uint32_t size;
} wk_span_entry;

/* Consecutive entries of one ledger, verified, in one buffer. */
typedef struct wk_span {
	wk_buffer *buffer; /* the caller releases it; NULL where the read failed */
	uint32_t count;
	wk_span_entry entries[WK_SPAN_ENTRIES_MAX];
} wk_span;

/* Damaged, or on a sector that the disk does not read: it will not be better the next time. */
bool wk_is_unreadable(wk_status status, const wk_error *error);
/*
 * Entries from `first` on, at least one, up to `last` and about max_bytes, as far as one read of one file goes. Takes
 * the lock itself. WK_NOT_FOUND: the ledger has no such entry, for certain. WK_DAMAGED: it has, but the first one's bytes
 * are not what was written. Unreadable: the first one, whatever stands behind it.
 */
wk_status wk_read_entries(wk_engine *engine, int64_t ledger_id, int64_t first, int64_t last, size_t max_bytes,
                          wk_span *span, wk_error *error);
/* The same for who may come back for the next entry: a window may answer, or be read (read_ahead.h). */
wk_status wk_read_entries_ahead(wk_engine *engine, int64_t ledger_id, int64_t first, int64_t last, size_t max_bytes,
                                wk_span *span, wk_error *error);
/* The same of what the memtable has, without a look at the disk. WK_WOULD_BLOCK: one of the others must say. */
wk_status wk_read_entries_cached(wk_engine *engine, int64_t ledger_id, int64_t first, int64_t last, wk_span *span);
/* The entry as it stands in its file, its digest unchecked: for what can still be learnt from a damaged one. */
wk_status wk_read_entry_unverified(wk_engine *engine, int64_t ledger_id, int64_t entry_id, wk_span *span,
                                   wk_error *error);
#endif
