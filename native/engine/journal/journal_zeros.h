/* journal_zeros.h: space that was only allocated is written along with small blocks. Private. */
#ifndef WK_ENGINE_JOURNAL_ZEROS_H
#define WK_ENGINE_JOURNAL_ZEROS_H
#include <errno.h>

#include "engine/engine.h"

/* A journal of blocks up to this size is bound by its syncs, and wants its space written ahead of need. */
enum { WK_ZEROED_BLOCK_MAX = 32 * 1024 };

/*
 * (locked) The block has its place, and is about to be laid out and written. Where it is one of many small ones, and its
 * file's space from here on was never written, zeros are to be written with it, behind it.
 *
 * A sync behind a write into space that was only allocated waits for the file system's journal: two to four times as
 * long. Now one block of many does. Until it is written no other one goes out (zeros_under_way): its place is among the
 * zeros.
 */
void wk_journal_zeros_plan(wk_engine *engine, wk_block *block);
/* Puts them there, as many as its buffer has room for, if that is enough to be of use. No lock held. */
void wk_journal_zeros_put(wk_block *block);
/* (locked) From here on they are under way. */
void wk_journal_zeros_begin(wk_engine *engine, wk_block *block);
/* (locked) It is written. */
void wk_journal_zeros_are_written(wk_engine *engine, wk_block *block);

/* Bytes that its write takes. */
static inline uint32_t wk_block_write_size(const wk_block *block) {
	return block->header.size + block->zeros;
}

/* Of its write, whose result is this: 0 or -errno. */
static inline int wk_block_write_outcome(const wk_block *block, int64_t result) {
	return result < 0 ? (int)result : result == (int64_t)wk_block_write_size(block) ? 0 : -EIO;
}
#endif
