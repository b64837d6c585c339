/*
 * read_ahead.h: who reads a ledger one entry after the other is given more from the disk than was asked for: a window,
 * kept for the reads to come. Private; has its own lock.
 *
 * The pattern is observed, ledger by ledger: after a few reads that each go on where the last one ended, and stand a
 * little further in the same file, a window is read, and the next one is twice as long. A read elsewhere ends that.
 * A window holds bytes of a sealed file, which do not change, so that who finds them looks for nothing but the place;
 * where the entries of ledgers stand in turn, one ledger's window serves the others too.
 */
#ifndef WK_ENGINE_READ_AHEAD_H
#define WK_ENGINE_READ_AHEAD_H
#include "records/buffer.h"

typedef struct wk_read_ahead wk_read_ahead;

/* Entries of a ledger, where they stand in a sealed file. */
typedef struct wk_ahead_read {
	int64_t ledger_id;
	int64_t first, last;
	uint64_t file_id;
	uint64_t offset; /* of the read that brings them: aligned, and so is its size */
	size_t size;
} wk_ahead_read;

/* 0 bytes: nothing is ever read ahead. */
wk_read_ahead *wk_read_ahead_new(uint64_t bytes_max);
void wk_read_ahead_free(wk_read_ahead *ahead);
/*
 * What a window has from the read's first byte on: retained, and where in it; NULL: not all of it is here. Noted as a
 * read of the ledger either way: once for each.
 */
wk_buffer *wk_read_ahead_get(wk_read_ahead *ahead, const wk_ahead_read *read, size_t *at);
/* Behind a get in vain: how much to read from its offset on; its size where nothing is to be gained by more. */
size_t wk_read_ahead_size(wk_read_ahead *ahead, const wk_ahead_read *read);
/* `size` bytes were read from its offset on; takes over the reference. */
void wk_read_ahead_put(wk_read_ahead *ahead, const wk_ahead_read *read, wk_buffer *buffer, size_t size);
/* The file is going, or a window of it is not what it should be. */
void wk_read_ahead_drop_file(wk_read_ahead *ahead, uint64_t file_id);
uint64_t wk_read_ahead_bytes(wk_read_ahead *ahead);
#endif
