/*
 * block_window.h: which submitted blocks are durable. Pure.
 *
 * Blocks are numbered from a start; each is written with sync (durable by itself when its write completes) or without (durable once a sync that
 * was begun after its write completed has succeeded). A write with sync covers only itself: on a device with FUA it says nothing of its neighbours. The durable point moves only over
 * a prefix. At most K blocks are not known durable, so that block n + K proves block n complete (docs/formats/journal.md).
 * After a failure nothing becomes durable any more.
 *
 * Rules: submit in order; written once for each, in any order; one sync at a time.
 */
#ifndef WK_CORE_BLOCK_WINDOW_H
#define WK_CORE_BLOCK_WINDOW_H
#include "core/journal_block.h"

typedef struct wk_block_window {
	uint64_t next;            /* sequence of the next block to submit */
	uint64_t durable_through; /* every block up to it is durable */
	uint32_t in_flight_max;   /* K */
	uint32_t in_flight;       /* submitted, write not complete */
	uint8_t state[8];         /* by sequence % 8: enum of block_window.c */
	bool syncing;
	bool failed;
} wk_block_window;

/* first: sequence of the first block to come. K in 1..8, or WK_INVALID. */
wk_status wk_block_window_init(wk_block_window *window, uint64_t first, uint32_t in_flight_max);
/* The next block goes out. WK_FULL: K blocks are not known durable. WK_FAILED after a failure. */
wk_status wk_block_window_submit(wk_block_window *window, bool sync, uint64_t *sequence);
/* Its write completed. WK_INVALID: not in flight. */
wk_status wk_block_window_written(wk_block_window *window, uint64_t sequence);
/* A sync is issued now: it covers the blocks whose writes have completed. WK_INVALID: one is under way. WK_END: nothing to cover. */
wk_status wk_block_window_sync_begin(wk_block_window *window);
wk_status wk_block_window_sync_done(wk_block_window *window);
/* A write or a sync failed: final. */
void wk_block_window_fail(wk_block_window *window);
/* Some block is written and waits for a sync that has not begun. */
bool wk_block_window_wants_sync(const wk_block_window *window);
#endif
