/*
 * io.h: the one seam to the kernel. Private: nothing outside native/ sees it.
 *
 * Three implementations: io_uring (liburing, native/io/uring.c), psync (pwritev2 and a few threads, psync.c) and faulty
 * (faulty.c: an in-memory file system that, from a seed, loses, tears, reorders, misdirects, delays and fills up). Over
 * each of them an overlay (overlay.c) can be put, whose writes stay in memory.
 *
 * Rules
 * 1. Every call returns 0 (or a count) or -errno; nothing is logged, nothing is retried but EINTR and -EAGAIN.
 *    A short read or write is completed by the implementation: a count smaller than asked means end of file (read);
 *    a write is whole or fails.
 * 2. Paths are absolute or relative to the process, but for those in a directory that a wk_io holds: they are looked up
 *    in what stood under that path when it was held.
 * 3. Files opened with WK_IO_DIRECT take only offsets, sizes and buffers aligned to WK_IO_ALIGNMENT (4096). Where the
 *    file system refuses O_DIRECT (tmpfs, some overlayfs) open falls back to buffered and wk_io_stat says so; a
 *    transfer that breaks the rule is -EINVAL all the same.
 * 4. A wk_file may be used by several threads at once; close it only when nothing is in flight.
 * 5. Durable means: a pwrite with WK_IO_DSYNC, or a pwrite that completed before a sync of that file was called, has
 *    returned success. On a device with FUA a DSYNC write covers only its own bytes: never conclude more. Directory
 *    entries (create, rename, link, unlink) are durable after sync_directory of their directory.
 * 6. A queue (wk_io_queue) belongs to the thread that first submits or waits, except wake, which any thread may call.
 *    Another thread may make it, and may free it once nothing is in flight. A thread that exits leaves nothing in
 *    flight.
 * 7. Wakes before a wait are one wake. A wake beside completions stays for the next wait: each ends one wait with 0.
 */
#ifndef WK_IO_IO_H
#define WK_IO_IO_H
#include "walkeeper/core.h"
#include <pthread.h>

enum { WK_IO_ALIGNMENT = 4096, WK_IO_QUEUE_DEPTH_MAX = 64 };

/* open flags */
enum {
	WK_IO_READ = 0,
	WK_IO_WRITE = 1,  /* read and write */
	WK_IO_CREATE = 2, /* create; fails with -EEXIST if there */
	WK_IO_DIRECT = 4,
};

enum { WK_IO_DSYNC = 1 }; /* pwrite flags: durable when it returns */

typedef struct wk_io wk_io;
typedef struct wk_file wk_file;
typedef struct wk_io_queue wk_io_queue;
struct wk_ring; /* of sockets: net.h */

typedef struct wk_io_stat {
	uint64_t size;
	uint64_t owned; /* bytes of disk that it takes: less than its size where it is sparse */
	uint64_t links; /* names of this file: 1, more where a hard-link backup holds it */
	uint64_t device;
	uint64_t inode;
	uint64_t born_ns;   /* an inode's number comes again, its birth does not; 0: not told here */
	uint32_t alignment; /* what direct I/O needs here (statx), at most WK_IO_ALIGNMENT */
	bool direct;        /* false: buffered, as O_DIRECT was refused */
} wk_io_stat;

typedef enum wk_io_operation { WK_IO_OP_READ, WK_IO_OP_WRITE, WK_IO_OP_SYNC } wk_io_operation;

typedef struct wk_io_request {
	wk_io_operation operation;
	wk_file *file;
	void *buffer; /* not for sync */
	size_t size;
	uint64_t offset;
	uint32_t flags; /* WK_IO_DSYNC */
	uint64_t tag;   /* handed back */
} wk_io_request;

typedef struct wk_io_completion {
	uint64_t tag;
	int64_t result; /* bytes, or -errno. Short writes and reads (but at end of file) were already completed. */
} wk_io_completion;

typedef struct wk_io_space {
	uint64_t free_bytes;
	uint64_t total_bytes;
	uint64_t type; /* statfs f_type */
} wk_io_space;

/* Called once a name; return false to stop. */
typedef bool (*wk_io_list_fn)(void *context, const char *name);

struct wk_io_operations {
	const char *name; /* "io_uring", "psync", "faulty" */
	void (*destroy)(wk_io *);
	/* -ENXIO: what stands there is neither a file nor a directory; -ELOOP: a symbolic link to a file. Never
	 * waits for a pipe's other end. */
	int (*open)(wk_io *, const char *path, uint32_t flags, wk_file **file);
	void (*close)(wk_io *, wk_file *);
	int64_t (*pread)(wk_io *, wk_file *, void *buffer, size_t size, uint64_t offset);
	int64_t (*pwrite)(wk_io *, wk_file *, const void *buffer, size_t size, uint64_t offset, uint32_t flags);
	int (*sync)(wk_io *, wk_file *); /* fdatasync */
	/*
	 * fallocate: reserve [0, size), so that writing there needs no more room; size becomes at least that. -EOPNOTSUPP:
	 * nothing can be reserved here.
	 */
	int (*allocate)(wk_io *, wk_file *, uint64_t size);
	/*
	 * Returns when no direct write to the file is under way that another process, gone by now, left behind; the file,
	 * which is not empty, stays as it is. -EOPNOTSUPP: this file system does not tell.
	 */
	int (*await_writes)(wk_io *, wk_file *);
	int (*truncate)(wk_io *, wk_file *, uint64_t size);
	int (*stat)(wk_io *, wk_file *, wk_io_stat *);
	/*
	 * flock, never waits: -EWOULDBLOCK. Exclusive: until the file is closed. Else it is a look whether another has it
	 * so; nothing is kept, but whoever takes it exclusively at that moment is refused: such a one looks in turn.
	 */
	int (*lock)(wk_io *, wk_file *, bool exclusive);
	int (*map_shared)(wk_io *, wk_file *, size_t size, bool writable,
	                  void **address); /* a page shared with other processes */
	void (*unmap)(wk_io *, void *address, size_t size);
	/* As wk_io_absolute, on this disk. */
	char *(*absolute)(wk_io *, const char *path);
	/*
	 * Two directories at most, each once (-EBUSY), until let_go of the same path: paths that begin with this one, letter by
	 * letter, lead into it also when the process has changed its working directory, or somebody has renamed it. Of two that
	 * fit the longer one counts. Not beside other calls.
	 */
	int (*hold)(wk_io *, const char *path);
	void (*let_go)(wk_io *, const char *path);
	/* The same disk, where no path leads into what is held: for those that a caller names. It goes with the last hold. */
	wk_io *(*outside)(wk_io *);
	int (*make_directory)(wk_io *, const char *path); /* -EEXIST where it exists */
	int (*rename)(wk_io *, const char *from, const char *to);
	int (*link)(wk_io *, const char *from, const char *to); /* `to` is outside of what is held */
	int (*unlink)(wk_io *, const char *path);
	int (*sync_directory)(wk_io *, const char *path);
	int (*list)(wk_io *, const char *path, wk_io_list_fn fn, void *context);
	int (*space)(wk_io *, const char *path, wk_io_space *);
	uint64_t (*now)(wk_io *);                          /* CLOCK_MONOTONIC, ns */
	uint64_t (*wall)(wk_io *);                         /* CLOCK_REALTIME, ns */
	int (*entropy)(wk_io *, void *bytes, size_t size); /* getrandom */
	/* Of the kernel that runs: another after each start of the machine, and never zeros. -ENODATA: nobody tells. -errno */
	int (*boot_id)(wk_io *, uint8_t id[16]);
	/* depth: the most requests in flight; submit beyond it returns -EBUSY */
	int (*queue_new)(wk_io *, uint32_t depth, wk_io_queue **queue);
	void (*queue_free)(wk_io *, wk_io_queue *); /* waits for what is in flight */
	int (*queue_submit)(wk_io *, wk_io_queue *, const wk_io_request *);
	/* Waits until one completion, a wake or the deadline (UINT64_MAX: none; 0: do not wait). Returns the count, 0 for
	 * wake or timeout. */
	int (*queue_wait)(wk_io *, wk_io_queue *, wk_io_completion *out, uint32_t out_max, uint64_t timeout_ns);
	void (*queue_wake)(wk_io *, wk_io_queue *);
	/*
	 * For an owner that waits elsewhere: the eventfd is signalled whenever something has completed since, perhaps more often.
	 * Before the first submit, once; the descriptor outlives the queue.
	 */
	int (*queue_notify)(wk_io *, wk_io_queue *, int event_fd);
	/*
	 * Instead, where this is not NULL: what is submitted goes into the ring of a wk_net, is handed over by that one's next wait,
	 * and told by WK_NET_RODE; queue_wait never waits, and there is no wake. Before the first submit; one queue for a
	 * ring (-EBUSY). Everything is in that thread. The queue goes first, when nothing is in flight.
	 */
	int (*queue_ride)(wk_io *, wk_io_queue *, struct wk_ring *);
	/* In a forked child: its copies of the queue's descriptors are closed, nothing else is touched. Async-signal-safe. */
	void (*queue_forked)(wk_io *, wk_io_queue *);
};

struct wk_io {
	const struct wk_io_operations *operations;
	/* implementation's state follows */
};

/* -ENOSYS, -EPERM and the like where the kernel forbids a ring: the caller falls back to psync and says so. */
int wk_io_uring_new(wk_io **io);
int wk_io_psync_new(wk_io **io);

/*
 * An overlay: a disk that is written in memory only, above one that is read. What is written, made, renamed or removed
 * through it is seen through it, and leaves the disk below as it was: an open that repairs may be tried there, and its
 * outcome read. Everything else is read from below each time.
 *
 *  - The memory it takes is that of the pages (4 KiB) that were written and do not hold zeros alone.
 *  - No call is durable. A sync is passed on, as bytes below that nobody has written here may want it; that the file
 *    system below cannot be written is no failure then.
 *  - A lock, shared or exclusive, is a look at the one below: who has that is told of, and nobody is kept from it.
 *  - Queues and new directories are not to be had (-ENOSYS), space there always is.
 *
 * `below` goes with it where it is owned, else it must outlive it. -ENOMEM.
 */
int wk_io_overlay_new(wk_io *below, bool owned, wk_io **io);

/* 0 where this process may set up a ring, else -errno. */
int wk_io_uring_probe(void);

/* Futex on a 32-bit word. wait returns 0 (woken or value differs), -ETIMEDOUT or -EINTR. timeout UINT64_MAX: none. */
int wk_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns);
void wk_futex_wake(uint32_t *word, int count);
/* Waits of this thread end at their time, and not up to 50 us behind it, as the kernel likes to save wakes. */
void wk_futex_be_punctual(void);

/* A thread that no signal is delivered to: they are the application's, and none of its handlers may run there. -errno. */
int wk_thread_start(pthread_t *thread, void *(*run)(void *), void *context);

/* Process facts that only the kernel knows. */
int64_t wk_process_id(void);
/* What a path means just now, from the root on; the caller frees. NULL: no memory. */
char *wk_io_absolute(const char *path);
#endif
