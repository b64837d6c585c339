/*
 * journal.h: the open block, group commit, durability. Private.
 *
 * Functions marked (locked) want the engine's lock held, and may drop and retake it where they say so.
 */
#ifndef WK_ENGINE_JOURNAL_H
#define WK_ENGINE_JOURNAL_H
#include "engine/engine.h"
#include "engine/space.h"

/* From here on combining two checksums is quicker than reading the bytes twice. */
enum { WK_SUM_ONCE_SIZE = 16 * 1024 };

/*
 * (locked) Room for `payload` more bytes in the open block and within in_flight_bytes; waits, dropping the lock,
 * until deadline_ns (0: WK_WOULD_BLOCK; UINT64_MAX: none). WK_FAILED, WK_CLOSED, WK_TIMEOUT, WK_INTERRUPTED,
 * WK_NO_SPACE. What it lets in will find its place on the disk, whatever becomes of that meanwhile.
 */
wk_status wk_journal_room(wk_engine *engine, size_t payload, uint64_t deadline_ns, enum wk_room purpose,
                          wk_error *error);
/* (locked, dropped) Until room may have changed. WK_TIMEOUT, WK_INTERRUPTED. */
wk_status wk_journal_wait_room(wk_engine *engine, uint64_t deadline_ns, wk_error *error);

/* (locked) Why nothing can be appended; WK_OK where it can. */
wk_status wk_journal_writable(wk_engine *engine, wk_error *error);

/*
 * (locked) A fresh builder in the open block, with memory for its first `size` bytes; NULL: no memory, and nothing
 * changed. The caller wants room first, and fills it at once: an entry without records is none.
 */
wk_builder *wk_journal_builder(wk_engine *engine, wk_ledger *ledger, wk_log_state *log, uint32_t codec, size_t size);
/* (locked) Memory for `size` more bytes of a builder; false: there is none. */
bool wk_journal_reserve_more(wk_engine *engine, wk_builder *builder, size_t size);
/* (locked) Memory for a builder of `size` bytes that is made after `ahead` others; false: there is none. */
bool wk_journal_reserve_builder(wk_engine *engine, uint32_t ahead, size_t size);
/*
 * (locked) `size` more bytes at the end of the builder, for which there is memory, to be filled by the caller at once.
 * `payload` of them count as in flight.
 */
uint8_t *wk_journal_extend(wk_engine *engine, wk_builder *builder, size_t size, size_t payload);
/* (locked) The open block's buffer takes `need` bytes from its start; false: no memory. */
bool wk_journal_reserve(wk_engine *engine, size_t need);
/* (locked) What was put into the open block should be durable soon (deferred_until_ns: by then). */
void wk_journal_want(wk_engine *engine, bool sync, uint64_t deferred_until_ns);
/* (locked) The same for a deferred append: after deferred_delay at the latest. */
void wk_journal_want_later(wk_engine *engine);
/* (locked) What was accepted in block `ticket`, wherever that is now, should be durable soon. */
void wk_journal_want_block(wk_engine *engine, uint64_t ticket);

/*
 * (locked, dropped while it works) Makes block `ticket` durable or sees to it that the driver does, then waits.
 * may_drive: this thread may write the block itself.
 */
wk_status wk_journal_wait(wk_engine *engine, uint64_t ticket, uint64_t deadline_ns, bool may_drive, wk_error *error);
/*
 * The same for what is accepted and nobody else would go on with: a signal does not take it back, and so does not end
 * the wait, which is as short as the device allows (commit_wait is for appends).
 */
wk_status wk_journal_wait_out(wk_engine *engine, uint64_t ticket, uint64_t deadline_ns, bool may_drive,
                              wk_error *error);
/* (locked) Sees to it that somebody drives the open block. */
void wk_journal_kick(wk_engine *engine);
/* (locked) The same, but for the wake itself: where it is true the caller wakes the driver, best without the lock. */
bool wk_journal_kicked(wk_engine *engine);

/* (locked) Blocks written without sync, whose time has come or whose place is needed, are wanted durable now. */
void wk_journal_press(wk_engine *engine, uint64_t now_ns);
/* (locked) What stands in the open block waits for others to join it (group_commit.h). */
bool wk_journal_waits_for_group(const wk_engine *engine, uint64_t now_ns);
/* (locked) The open block holds something that may go out now, there is a slot for it, and it may be placed. */
bool wk_journal_can_seal(wk_engine *engine, uint64_t now_ns);
/*
 * (locked) All of that but the last: it needs another file, and the footer of the one before is not written yet. Who
 * writes it (wk_keeper_seal_oldest) wakes the driver.
 */
bool wk_journal_needs_footer(wk_engine *engine, uint64_t now_ns);
/* (locked) The block, of `size` bytes, has room in the active file, beside a footer that knows what it holds. */
bool wk_journal_fits(const wk_engine *engine, uint64_t size, const wk_block *block);
/* The most bytes that a block of this estimate takes. */
static inline uint64_t wk_journal_block_bound(uint64_t estimate) {
	return (WK_BLOCK_HEADER_SIZE + estimate + WK_BLOCK_ALIGNMENT - 1) / WK_BLOCK_ALIGNMENT * WK_BLOCK_ALIGNMENT;
}
/*
 * (locked, dropped while it works) Turns the open block into a block in flight; NULL where that failed (the engine
 * then failed, or the disk is full).
 */
wk_block *wk_journal_seal(wk_engine *engine);
/* (locked, dropped) Writes the block in this thread, and what sync it needs. */
void wk_journal_write(wk_engine *engine, wk_block *block);
/* (locked) Its write is done: 0 or -errno. */
void wk_journal_written(wk_engine *engine, wk_block *block, int result);
/* (locked) Something that was written is wanted durable, and no sync of it is under way. */
bool wk_journal_wants_sync(const wk_engine *engine);
/*
 * (locked) A sync is wanted and none is under way: marks it begun and says which files (at most 8) it must cover. 0:
 * none wanted.
 */
uint32_t wk_journal_sync_begin(wk_engine *engine, wk_store_file *files[WK_BLOCKS_IN_FLIGHT_MAX]);
void wk_journal_sync_done(wk_engine *engine, wk_store_file **files, uint32_t count, int result);

/* (locked) The journal stops for good. */
void wk_journal_fail(wk_engine *engine, int result, const char *doing, const wk_store_file *file);
/* (locked) The same where the disk is well, but the directory is another process's now, or nobody's: `what` happened. */
void wk_journal_lose(wk_engine *engine, const char *what);
/* (locked) A footer could not be written: final too, as for any prepared file. */
void wk_journal_fail_footer(wk_engine *engine, const wk_store_file *file, wk_status status);
/* (locked) Everything accepted so far is wanted durable; its ticket. */
uint64_t wk_journal_flush(wk_engine *engine);
/* (locked, manual mode or a stopped driver) One round of the driver's work in this thread; false: nothing to do. */
bool wk_journal_step(wk_engine *engine);
void wk_journal_wake_room(wk_engine *engine);
void wk_journal_free(wk_engine *engine);
#endif
