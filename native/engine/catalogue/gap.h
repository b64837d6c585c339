/*
 * gap.h: the accepted losses of a log: sequence ids that nobody can read any more, and nobody gets again. Private;
 * under the engine's lock.
 */
#ifndef WK_ENGINE_GAP_H
#define WK_ENGINE_GAP_H
#include "engine/catalogue/catalogue.h"

/* `count` records from this sequence id on, which stood in these entries: no file has them, or they cannot be read. */
typedef struct wk_gap {
	int64_t segment;
	int64_t entry_id, last_entry_id;
	int64_t first_sequence_id;
	int64_t count;
} wk_gap;

/* Few logs have any: one pointer in all others. By sequence id. */
struct wk_gaps {
	uint32_t count;
	wk_gap list[];
};

/* Adds what is not in a gap already. */
wk_status wk_gap_add(wk_log_state *log, const wk_gap *gap);
/* Copies the gap that covers the place to *found, or NULL; *end is where the log goes on. The lock may be away meanwhile. */
const wk_gap *wk_gap_at(wk_engine *engine, wk_log_state *log, const wk_dlsn *at, wk_gap *found, wk_dlsn *end);
const wk_gap *wk_gap_of(const wk_log_state *log, int64_t sequence_id);
/* The first entry of this segment from entry_id on where a gap begins; INT64_MAX: none. */
int64_t wk_gap_next_entry(const wk_log_state *log, int64_t segment, int64_t entry_id);
/* Lost records with first <= sequence id < end. */
int64_t wk_gap_count(const wk_log_state *log, int64_t first, int64_t end);
#endif
