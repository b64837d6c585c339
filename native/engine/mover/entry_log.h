/*
 * entry_log.h: writing an entry log: entries sorted by (ledger, entry), back to back, and a footer. Private.
 *
 * Under a temporary name until all of it is durable: a kill leaves the whole file or none.
 */
#ifndef WK_ENGINE_ENTRY_LOG_H
#define WK_ENGINE_ENTRY_LOG_H
#include "engine/engine.h"

#define WK_ENTRY_LOG_BYTES_MAX UINT32_MAX /* a footer tells places in 32 bits */

typedef struct wk_entry_log_writer {
	wk_engine *engine;
	wk_file *handle;
	char *temporary, *final;
	uint64_t reserve; /* so large was what it is made of, and becomes again where it comes to nothing; 0: it is fresh */
	uint64_t id;
	uint64_t last_sequence; /* the last block that was durable when it was chosen what to copy */
	uint8_t *chunk;         /* what is not written yet, from `flushed` on */
	size_t chunk_size;
	uint64_t flushed; /* bytes in the file */
	bool finished;
	wk_footer_item *items;
	wk_footer_run *runs;
	uint32_t items_count, items_capacity, runs_count, runs_capacity;
} wk_entry_log_writer;

/* No lock held in all of these. -errno on failure; then wk_entry_log_free. */
/* reserve: in the space of the mover's reserve, so many bytes, as the disk is full; 0: not there. */
int wk_entry_log_begin(wk_engine *engine, uint64_t id, uint64_t reserve, wk_entry_log_writer *writer);
/* Entries come sorted. -EFBIG: behind this one there is no place that a footer could tell. */
int wk_entry_log_add(wk_entry_log_writer *writer, int64_t ledger_id, int64_t entry_id, const uint8_t *bytes,
                     uint32_t size);
/*
 * Footer, sync, its final name, sync of the directory. *footer describes it, *handle is open. The writer keeps its
 * runs until freed.
 */
int wk_entry_log_finish(wk_entry_log_writer *writer, wk_footer *footer, wk_file **handle);
/* Frees; removes the file unless it was finished. How many bytes the reserve has where it was given back. */
uint64_t wk_entry_log_free(wk_entry_log_writer *writer);
/* Removes what a kill left half written. */
void wk_entry_logs_sweep(wk_engine *engine);
#endif
