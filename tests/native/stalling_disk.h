/*
 * stalling_disk.h: a real disk whose writes and syncs stand still while a test says so. What the engine's driver puts
 * into a queue is written, but the driver does not hear of it. Reads stand still in a thread that asks for it, until all
 * may go on.
 */
#ifndef STALLING_DISK_H
#define STALLING_DISK_H
#include "engine/directory/directory.h"
#include "io/event.h"
#include "io/io.h"
#include "small_directory.h"
#include <stdatomic.h>
#include <time.h>

static struct wk_io_operations stalling_operations;
static const struct wk_io_operations *plain_operations;
static _Atomic bool stalled;
static _Atomic bool only_superblock; /* what stands still is the writes of that file */
static wk_file *_Atomic superblock_handle;

static _Thread_local bool reads_slowly;
static _Atomic bool reading, may_read; /* one stands still; none does any more */

static inline uint64_t now_ms(void) {
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static inline void stand_still(const wk_file *file) {
	while (atomic_load(&stalled) && (!atomic_load(&only_superblock) || file == superblock_handle))
		nap_ms(1);
}

static inline int stalling_open(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	int result = plain_operations->open(io, path, flags, file);
	const char *name = strrchr(path, '/');
	if (result == 0 && (flags & WK_IO_WRITE) != 0 && name != NULL && strcmp(name, "/superblock") == 0)
		superblock_handle = *file;
	return result;
}

static inline int64_t stalling_pread(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	if (reads_slowly) {
		atomic_store(&reading, true);
		while (!atomic_load(&may_read))
			nap_ms(1);
	}
	return plain_operations->pread(io, file, buffer, size, offset);
}

static inline int64_t stalling_pwrite(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset,
                                      uint32_t flags) {
	stand_still(file);
	return plain_operations->pwrite(io, file, buffer, size, offset, flags);
}

static inline int stalling_sync(wk_io *io, wk_file *file) {
	stand_still(file);
	return plain_operations->sync(io, file);
}

static _Atomic int notified = -1;

static inline int stalling_queue_notify(wk_io *io, wk_io_queue *queue, int event_fd) {
	atomic_store(&notified, event_fd);
	return plain_operations->queue_notify(io, queue, event_fd);
}

/* Who was told by an eventfd looks again. */
static inline void go_on_and_notify(void) {
	atomic_store(&stalled, false);
	wk_event_signal(atomic_load(&notified));
}

static inline int stalling_queue_wait(wk_io *io, wk_io_queue *queue, wk_io_completion *out, uint32_t out_max,
                                      uint64_t timeout_ns) {
	if (timeout_ns == 0 && atomic_load(&stalled))
		return 0;
	int count = plain_operations->queue_wait(io, queue, out, out_max, timeout_ns);
	stand_still(NULL);
	return count;
}

/* It is not destroyed: what stalls when a test ends may still use it. */
static inline wk_io *stalling_disk(void) {
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	if (plain_operations == NULL) {
		plain_operations = io->operations;
		stalling_operations = *io->operations;
		stalling_operations.open = stalling_open;
		stalling_operations.pread = stalling_pread;
		stalling_operations.pwrite = stalling_pwrite;
		stalling_operations.sync = stalling_sync;
		stalling_operations.queue_wait = stalling_queue_wait;
		stalling_operations.queue_notify = stalling_queue_notify;
	}
	io->operations = &stalling_operations;
	atomic_store(&stalled, false);
	atomic_store(&only_superblock, false);
	atomic_store(&reading, false);
	atomic_store(&may_read, false);
	return io;
}
#endif
