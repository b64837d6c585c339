/*
 * faulty.h: a simulated disk, behind io's seam (io/io.h): it tears, loses, delays, misdirects and fills up by a seed. For
 * tests: it is in no library that is installed. All state is in memory. Everything is deterministic from the seed and the calls; `now`
 * advances only by wk_faulty_advance, by 1 us a call, and by a wait's timeout that passes with nothing to wait for
 * (which takes real time).
 *
 * What is modelled
 *  - each file has durable bytes and a list of pending writes; DSYNC makes only its own bytes durable (FUA) unless
 *    flush_on_dsync; sync makes all writes of that file durable that had completed when it was called
 *  - crash: of the pending writes any subset survives, in any order, each perhaps torn at 512-byte sectors; directory
 *    changes since the last sync_directory survive as a prefix or not at all; then all handles are dead (-EBADF) and
 *    files are reopened from the image
 *  - fail: the k-th call counted from now (over the operations in the mask) returns -error, once or from then on; the
 *    failed write may land wholly, partly or not at all. A failed sync leaves its writes clean, durable or not: the
 *    next sync succeeds and proves nothing
 *  - capacity: allocate, extending writes and create fail with -ENOSPC beyond it; of each device its own
 *  - a second device: what is in the directory that is its mount. No name leads from one to the other (-EXDEV), and
 *    what survives a power cut on the one says nothing about the other
 *  - flip: a bit of a file's durable image; misdirect: the next write of a file lands at another offset
 *  - trace: every write (twice: begun and ended), sync, change of size and directory change is recorded with its
 *    number, so that a test can rebuild every legal crash image
 * Not modelled: stores to a shared map (a kill keeps them, a crash loses them); and that a dead process calls no more:
 * its handles are dead, but paths are not, so stop what ran on a killed disk before the next process opens it.
 */
#ifndef WK_SIM_FAULTY_H
#define WK_SIM_FAULTY_H
#include "io/io.h"

typedef struct wk_faulty wk_faulty;
/* mask of operations */
enum {
	WK_FAULT_READ = 1,
	WK_FAULT_WRITE = 2,
	WK_FAULT_SYNC = 4,
	WK_FAULT_DIRECTORY = 8,
	WK_FAULT_ALLOCATE = 16,
	WK_FAULT_OPEN = 32,
	WK_FAULT_ALL = 63,
};
int wk_faulty_new(uint64_t seed, wk_io **io);
wk_faulty *wk_faulty_of(wk_io *io);
void wk_faulty_set_flush_on_dsync(wk_faulty *, bool on);
/* after_calls: so many pass first; 0 fails the next one. error is an errno, positive. At most 16 lie in wait. */
void wk_faulty_fail(wk_faulty *, uint32_t mask, uint64_t after_calls, int error, bool sticky);
void wk_faulty_heal(wk_faulty *);                     /* no failure armed any more */
uint64_t wk_faulty_calls(wk_faulty *, uint32_t mask); /* counted so far */
uint64_t wk_faulty_read_bytes(wk_faulty *);           /* the same */
void wk_faulty_set_capacity(wk_faulty *, uint64_t bytes);
/* Before anything else: `path`, where nothing stands, is an empty directory on the second device; it is durable. */
void wk_faulty_mount(wk_faulty *, const char *path);
void wk_faulty_set_mount_capacity(wk_faulty *, uint64_t bytes);
void wk_faulty_advance(wk_faulty *, uint64_t ns);
/* Somebody sets the wall clock: it jumps, and `now` does not. */
void wk_faulty_shift_wall(wk_faulty *, int64_t by_ns);
int wk_faulty_flip(wk_faulty *, const char *path, uint64_t offset, uint32_t bit);
int wk_faulty_misdirect_next(wk_faulty *, const char *path, int64_t by_bytes);
void wk_faulty_crash(wk_faulty *, uint64_t seed); /* power cut: a legal image by the seed */
void wk_faulty_kill(wk_faulty *); /* SIGKILL: all completed writes stay (in the cache, not durable), handles die */
/* A copy of the whole disk as it would look after a power cut behind call number `at` of the trace, by the seed; an
 * independent wk_io. */
int wk_faulty_image(wk_faulty *, uint64_t at, uint64_t seed, wk_io **io);
uint64_t wk_faulty_trace_length(wk_faulty *);
int64_t wk_faulty_file_size(wk_faulty *, const char *path);
/* The live bytes of a file: what a reader would see. Returns bytes copied or -errno. */
int64_t wk_faulty_read_file(wk_faulty *, const char *path, void *buffer, size_t size, uint64_t offset);
#endif
