/*
 * block_window.c: which submitted blocks are durable. The rules are in walkeeper/block_window.h.
 *
 * A block goes IN_FLIGHT_SYNC -> DURABLE, or IN_FLIGHT_PLAIN -> WRITTEN -> SYNCING -> DURABLE, and its slot is FREE
 * again when the durable point passes it. All transitions are in this file.
 */
#include "core/block_window.h"
#include <assert.h>

enum {
	FREE = 0,
	IN_FLIGHT_SYNC,  /* its write makes it durable */
	IN_FLIGHT_PLAIN, /* its write alone does not */
	WRITTEN,         /* waits for a sync that has not begun */
	SYNCING,         /* covered by the sync under way */
	DURABLE,         /* but not yet the block before it */
};
enum { SLOTS = 8 };
static_assert(SLOTS == (int)WK_BLOCKS_IN_FLIGHT_MAX, "no two blocks of a window share a slot");
static_assert(sizeof((wk_block_window *)0)->state == SLOTS, "a byte of state for each slot");

static uint8_t *slot(wk_block_window *window, uint64_t sequence) {
	return &window->state[sequence % SLOTS];
}

static bool is_in_window(const wk_block_window *window, uint64_t sequence) {
	return sequence > window->durable_through && sequence < window->next;
}

/* The durable point moves over a prefix, never past a gap. */
static void advance(wk_block_window *window) {
	while (window->durable_through + 1 < window->next && *slot(window, window->durable_through + 1) == DURABLE)
		*slot(window, ++window->durable_through) = FREE;
}

/* Every block in state `from` goes to `to`; returns how many. */
static uint32_t move_all(wk_block_window *window, uint8_t from, uint8_t to) {
	uint32_t moved = 0;
	for (uint32_t i = 0; i < SLOTS; i++) {
		if (window->state[i] == from) {
			window->state[i] = to;
			moved++;
		}
	}
	return moved;
}

wk_status wk_block_window_init(wk_block_window *window, uint64_t first, uint32_t in_flight_max) {
	if (first == 0 || in_flight_max < 1 || in_flight_max > WK_BLOCKS_IN_FLIGHT_MAX)
		return WK_INVALID;
	*window = (wk_block_window){.next = first, .durable_through = first - 1, .in_flight_max = in_flight_max};
	return WK_OK;
}

wk_status wk_block_window_submit(wk_block_window *window, bool sync, uint64_t *sequence) {
	assert(window->next - 1 - window->durable_through <= window->in_flight_max);
	if (window->failed)
		return WK_FAILED;
	if (window->next - 1 - window->durable_through == window->in_flight_max)
		return WK_FULL;
	assert(*slot(window, window->next) == FREE);
	*slot(window, window->next) = sync ? IN_FLIGHT_SYNC : IN_FLIGHT_PLAIN;
	window->in_flight++;
	*sequence = window->next++;
	return WK_OK;
}

/* After a failure completions are still counted, so that the shell can wait for its last write before it closes. */
wk_status wk_block_window_written(wk_block_window *window, uint64_t sequence) {
	if (!is_in_window(window, sequence))
		return WK_INVALID;
	uint8_t *state = slot(window, sequence);
	if (*state != IN_FLIGHT_SYNC && *state != IN_FLIGHT_PLAIN)
		return WK_INVALID;
	assert(window->in_flight > 0);
	window->in_flight--;
	if (window->failed)
		*state = WRITTEN; /* where it stays */
	else
		*state = *state == IN_FLIGHT_SYNC ? DURABLE : WRITTEN;
	if (!window->failed)
		advance(window);
	return WK_OK;
}

wk_status wk_block_window_sync_begin(wk_block_window *window) {
	if (window->failed)
		return WK_FAILED;
	if (window->syncing)
		return WK_INVALID;
	if (move_all(window, WRITTEN, SYNCING) == 0)
		return WK_END;
	window->syncing = true;
	return WK_OK;
}

wk_status wk_block_window_sync_done(wk_block_window *window) {
	if (!window->syncing)
		return WK_INVALID;
	window->syncing = false;
	if (window->failed)
		return WK_OK; /* a sync that succeeds beside a failure proves nothing: errors are reported once */
	uint32_t covered = move_all(window, SYNCING, DURABLE);
	assert(covered > 0);
	(void)covered;
	advance(window);
	return WK_OK;
}

void wk_block_window_fail(wk_block_window *window) {
	window->failed = true;
}

bool wk_block_window_wants_sync(const wk_block_window *window) {
	if (window->failed)
		return false;
	for (uint32_t i = 0; i < SLOTS; i++) {
		if (window->state[i] == WRITTEN)
			return true;
	}
	return false;
}
