/*
 * reserve.h: what stands back so that a full disk can always be freed (storage rule 15). Private.
 *
 * The journal's reserve is a prepared file that takes everything accepted and not yet placed when the disk turns out
 * to be full (the block being sealed and the open one, each of the largest size, with their footer), and room for
 * changes that free space behind it. An append is accepted only where there is such a file, or where what is left of
 * the active file takes all that. What the mover and the index need is another noun (reserve_outputs.h).
 * All of it is guarded by the engine's lock.
 */
#ifndef WK_ENGINE_RESERVE_H
#define WK_ENGINE_RESERVE_H
#include "engine/engine.h"

/*
 * What room is wanted for. On a full disk the first is refused, and the next two leave some to the last. Where appends
 * fill the memory for what is under way, there is some more for the third (cluster rule 4).
 */
enum wk_room {
	WK_ROOM_APPEND,   /* records, and whatever adds */
	WK_ROOM_CHANGE,   /* small changes that free nothing by themselves: cursors, ends of streams, explicit LACs */
	WK_ROOM_RECOVERY, /* what closes a ledger whose writer died: fences, and the adds of a recovery */
	WK_ROOM_FREE,     /* truncation, deletion */
};

/* (locked) The size of a reserve under which appends of `payload` bytes are safe. */
uint64_t wk_reserve_size(const wk_engine *engine, uint64_t payload);
/* (locked) The set of prepared files changed: engine->reserve_covers is what it now makes safe. */
void wk_reserve_count(wk_engine *engine);
/* (locked) One of the prepared files, `except` apart (UINT32_MAX: none), is the reserve. */
bool wk_reserve_is_there(const wk_engine *engine, uint32_t except);
/* (locked) Why no file could be prepared; appends that are refused for it are told. */
void wk_reserve_is_short(wk_engine *engine, const wk_error *error);
/* (locked) WK_IO, WK_NO_MEMORY: it was not the disk's space; that is what an append is told. Else WK_OK. */
wk_status wk_reserve_other_shortage(const wk_engine *engine, wk_error *error);
/*
 * (locked) There was no space for what reserve_wanted asks for: appends that need it are refused for a moment; all of
 * them, where there is no reserve at all.
 */
void wk_reserve_was_refused(wk_engine *engine);
/* (locked) Whatever happens, there will be a place for what is accepted and `payload` bytes more. */
bool wk_reserve_is_safe(const wk_engine *engine, uint64_t payload, enum wk_room purpose);
/*
 * (locked, dropped) Makes that so: prepares a larger reserve, or waits for the keeper to. WK_NO_SPACE, WK_TIMEOUT,
 * WK_WOULD_BLOCK, WK_INTERRUPTED; WK_OK: look again.
 */
wk_status wk_reserve_make_safe(wk_engine *engine, uint64_t payload, enum wk_room purpose, uint64_t deadline_ns,
                               wk_error *error);
#endif
