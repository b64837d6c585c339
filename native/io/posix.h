/*
 * posix.h: the synchronous calls that psync and io_uring share. Private to native/io.
 *
 * Each has the meaning io.h gives to the operation of the same name; those that take no path do not look at their wk_io.
 */
#ifndef WK_IO_POSIX_H
#define WK_IO_POSIX_H
#include "io/io.h"
#include <errno.h>
#include <stdatomic.h>

struct wk_file {
	int fd;
	bool strict;        /* opened with WK_IO_DIRECT: the alignment rule holds even where direct I/O was refused */
	uint32_t alignment; /* what statx asks for direct I/O */
	atomic_bool direct; /* false once the file system refused O_DIRECT */
	atomic_bool dsync_refused; /* RWF_DSYNC is unknown here: write, then fdatasync */
};

/* A transfer that makes no progress is tried this often. The kernel's own queues drain in far fewer. */
enum { WK_POSIX_RETRIES_MAX = 100 };

/* A path as the kernel's *at calls take it. */
typedef struct wk_posix_place {
	int directory;
	const char *path;
} wk_posix_place;

int wk_posix_new(const struct wk_io_operations *operations, wk_io **io);
void wk_posix_destroy(wk_io *io);
char *wk_posix_absolute(wk_io *io, const char *path);
int wk_posix_hold(wk_io *io, const char *path);
void wk_posix_let_go(wk_io *io, const char *path);
wk_io *wk_posix_outside(wk_io *io);
/* In the directory that is held, where the path begins with it. */
wk_posix_place wk_posix_place_of(wk_io *io, const char *path);

/* -EINVAL where a transfer breaks the alignment rule of a file opened with WK_IO_DIRECT. */
int wk_posix_check(const wk_file *file, const void *buffer, size_t size, uint64_t offset);
/* What is to be done about a read that came back short; see posix_file.c. */
bool wk_posix_read_ended(const wk_file *file, size_t *done, size_t size, uint64_t offset);

int wk_posix_open(wk_io *io, const char *path, uint32_t flags, wk_file **file);
void wk_posix_close(wk_io *io, wk_file *file);
int64_t wk_posix_pread(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset);
int64_t wk_posix_pwrite(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset, uint32_t flags);
int wk_posix_sync(wk_io *io, wk_file *file);
int wk_posix_allocate(wk_io *io, wk_file *file, uint64_t size);
int wk_posix_await_writes(wk_io *io, wk_file *file);
int wk_posix_truncate(wk_io *io, wk_file *file, uint64_t size);
int wk_posix_stat(wk_io *io, wk_file *file, wk_io_stat *stat);
int wk_posix_lock(wk_io *io, wk_file *file, bool exclusive);
int wk_posix_map_shared(wk_io *io, wk_file *file, size_t size, bool writable, void **address);
void wk_posix_unmap(wk_io *io, void *address, size_t size);

int wk_posix_make_directory(wk_io *io, const char *path);
int wk_posix_rename(wk_io *io, const char *from, const char *to);
int wk_posix_link(wk_io *io, const char *from, const char *to);
int wk_posix_unlink(wk_io *io, const char *path);
int wk_posix_sync_directory(wk_io *io, const char *path);
int wk_posix_list(wk_io *io, const char *path, wk_io_list_fn fn, void *context);
int wk_posix_space(wk_io *io, const char *path, wk_io_space *space);

uint64_t wk_posix_now(wk_io *io);
uint64_t wk_posix_wall(wk_io *io);
int wk_posix_entropy(wk_io *io, void *bytes, size_t size);
int wk_posix_boot_id(wk_io *io, uint8_t id[16]);
int wk_posix_read_boot_id(const char *path, uint8_t id[16]); /* of the kernel's own file alone */

/* All but the queue, for the operation tables of psync.c and uring.c. */
#define WK_POSIX_OPERATIONS                                                                                         \
	.destroy = wk_posix_destroy, .absolute = wk_posix_absolute, .hold = wk_posix_hold, .let_go = wk_posix_let_go,   \
	.outside = wk_posix_outside, .open = wk_posix_open, .close = wk_posix_close, .pread = wk_posix_pread,           \
	.pwrite = wk_posix_pwrite, .sync = wk_posix_sync, .allocate = wk_posix_allocate, .truncate = wk_posix_truncate, \
	.stat = wk_posix_stat, .lock = wk_posix_lock, .map_shared = wk_posix_map_shared, .unmap = wk_posix_unmap,       \
	.make_directory = wk_posix_make_directory, .rename = wk_posix_rename, .link = wk_posix_link,                    \
	.unlink = wk_posix_unlink, .sync_directory = wk_posix_sync_directory, .list = wk_posix_list,                    \
	.space = wk_posix_space, .now = wk_posix_now, .wall = wk_posix_wall, .entropy = wk_posix_entropy,               \
	.boot_id = wk_posix_boot_id, .await_writes = wk_posix_await_writes
#endif
