/*
 * posix_file.c: one open file: read, write, sync, lock, map.
 */
#include "io/descriptor.h"
#include "io/posix.h"
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { STAT_BLOCK = 512 }; /* the unit of st_blocks, whatever the file system's */

static bool ask_for_direct(wk_file *file);
static int open_without_waiting(wk_posix_place place, int mode);
static bool fall_back_to_buffered(wk_file *file);
static ssize_t write_durably(wk_file *file, const void *buffer, size_t size, off_t offset);

int wk_posix_open(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	int mode = (flags & WK_IO_WRITE ? O_RDWR : O_RDONLY) | (flags & WK_IO_CREATE ? O_CREAT | O_EXCL : 0) | O_CLOEXEC;
	wk_file *opened = calloc(1, sizeof *opened);
	if (!opened)
		return -ENOMEM;
	opened->fd = open_without_waiting(wk_posix_place_of(io, path), mode);
	if (opened->fd < 0) {
		int error = opened->fd;
		free(opened);
		return error;
	}
	opened->strict = flags & WK_IO_DIRECT;
	opened->alignment = 1;
	atomic_init(&opened->dsync_refused, false);
	atomic_init(&opened->direct, opened->strict && ask_for_direct(opened));
	*file = opened;
	return 0;
}

static int open_patiently(wk_posix_place place, int mode) {
	int fd;
	do
		fd = openat(place.directory, place.path, mode, 0666);
	while (fd < 0 && errno == EINTR);
	bool made = fd >= 0 && (mode & O_CREAT) != 0;
	fd = wk_descriptor_take(fd);
	if (fd < 0 && made) /* no descriptor to spare: nothing was opened, so nothing may be left */
		unlinkat(place.directory, place.path, 0);
	return fd;
}

/*
 * Where a pipe stands in place of a file, open() would wait for its other end, and where a device does, a write would
 * go to it. O_NONBLOCK does not stay on: io_uring would answer -EAGAIN instead of waiting for the disk. And a lease of
 * another process on the file (a file server's) is waited for. A link to a directory is followed; one that stands in place
 * of a file is not, as what it names may be anybody's.
 */
static int open_without_waiting(wk_posix_place place, int mode) {
	int fd = open_patiently(place, mode | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	if (fd == -EWOULDBLOCK)
		fd = open_patiently(place, mode | O_NOFOLLOW);
	if (fd == -ELOOP) {
		fd = open_patiently(place, mode | O_DIRECTORY);
		fd = fd == -ENOTDIR ? -ELOOP : fd;
	}
	struct stat facts;
	if (fd < 0)
		return fd;
	int error = fstat(fd, &facts) != 0                               ? -errno
	            : !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode) ? -ENXIO
	            : fcntl(fd, F_SETFL, mode & ~O_CREAT & ~O_EXCL) != 0 ? -errno
	                                                                 : 0;
	if (error == 0)
		return fd;
	close(fd);
	return error;
}

/*
 * O_DIRECT is set on the open file, not in open(): a file system that refuses it there has already created the file,
 * and the second try would then fail with EEXIST.
 */
static bool ask_for_direct(wk_file *file) {
	file->alignment = WK_IO_ALIGNMENT;
#ifdef STATX_DIOALIGN
	struct statx facts;
	if (statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 && facts.stx_mask & STATX_DIOALIGN) {
		uint32_t offset = facts.stx_dio_offset_align, memory = facts.stx_dio_mem_align;
		if (offset == 0 || offset > WK_IO_ALIGNMENT || memory > WK_IO_ALIGNMENT)
			return false;
		file->alignment = offset > memory ? offset : memory;
	}
#endif
	int mode = fcntl(file->fd, F_GETFL);
	return mode >= 0 && fcntl(file->fd, F_SETFL, mode | O_DIRECT) == 0;
}

/* Some file systems take O_DIRECT and refuse the transfer. True: O_DIRECT is off now, try again. */
static bool fall_back_to_buffered(wk_file *file) {
	if (!atomic_load(&file->direct))
		return false;
	int mode = fcntl(file->fd, F_GETFL);
	if (mode < 0 || fcntl(file->fd, F_SETFL, mode & ~O_DIRECT) != 0)
		return false;
	atomic_store(&file->direct, false);
	return true;
}

void wk_posix_close(wk_io *io, wk_file *file) {
	(void)io;
	/* EINTR is no reason to close again: Linux has already let go of the number, and it may be another file's by now.
	 */
	close(file->fd);
	free(file);
}

int wk_posix_check(const wk_file *file, const void *buffer, size_t size, uint64_t offset) {
	if (offset > INT64_MAX || size > INT64_MAX - offset)
		return -EINVAL;
	return file->strict && ((uintptr_t)buffer | size | offset) % WK_IO_ALIGNMENT != 0 ? -EINVAL : 0;
}

/*
 * A direct read stops inside a block only at the end of the file. If the file is longer than that, the device gave up
 * early: step back to the block's start so that the caller reads it again and hears the error.
 */
bool wk_posix_read_ended(const wk_file *file, size_t *done, size_t size, uint64_t offset) {
	if (*done == size)
		return true;
	if (!atomic_load(&file->direct) || *done % WK_IO_ALIGNMENT == 0)
		return false;
	struct stat facts;
	if (fstat(file->fd, &facts) != 0 || offset + *done >= (uint64_t)facts.st_size)
		return true;
	*done -= *done % WK_IO_ALIGNMENT;
	return false;
}

int64_t wk_posix_pread(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	(void)io;
	int error = wk_posix_check(file, buffer, size, offset);
	if (error)
		return error;
	size_t done = 0;
	for (int idle = 0; done < size && idle < WK_POSIX_RETRIES_MAX; idle++) {
		size_t before = done;
		ssize_t n = pread(file->fd, (char *)buffer + done, size - done, (off_t)(offset + done));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0 && errno == EINVAL && fall_back_to_buffered(file))
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return (int64_t)done;
		done += (size_t)n;
		if (wk_posix_read_ended(file, &done, size, offset))
			return (int64_t)done;
		if (done > before)
			idle = 0;
	}
	return done == size ? (int64_t)done : -EIO;
}

int64_t wk_posix_pwrite(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset, uint32_t flags) {
	(void)io;
	int error = wk_posix_check(file, buffer, size, offset);
	if (error)
		return error;
	size_t done = 0;
	for (int idle = 0; done < size && idle < WK_POSIX_RETRIES_MAX; idle++) {
		size_t before = done;
		const char *rest = (const char *)buffer + done;
		off_t at = (off_t)(offset + done);
		ssize_t n = flags & WK_IO_DSYNC ? write_durably(file, rest, size - done, at)
		                                : pwrite(file->fd, rest, size - done, at);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0 && errno == EINVAL && fall_back_to_buffered(file))
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
		if (done < size && atomic_load(&file->direct))
			done -= done % WK_IO_ALIGNMENT; /* the rest must start at a block again */
		if (done > before)
			idle = 0;
	}
	return done == size ? (int64_t)done : -EIO;
}

static ssize_t write_durably(wk_file *file, const void *buffer, size_t size, off_t offset) {
	if (!atomic_load(&file->dsync_refused)) {
		struct iovec piece = {.iov_base = (void *)(uintptr_t)buffer, .iov_len = size};
		ssize_t n = pwritev2(file->fd, &piece, 1, offset, RWF_DSYNC);
		if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL))
			return n;
	}
	/* EINVAL may have meant O_DIRECT: only a plain write that goes through tells that the flag was the matter. */
	ssize_t n = pwrite(file->fd, buffer, size, offset);
	if (n < 0)
		return n;
	atomic_store(&file->dsync_refused, true);
	int error = wk_posix_sync(NULL, file);
	if (error == 0)
		return n;
	errno = error == -EINVAL || error == -EAGAIN ? EIO : -error; /* final: neither may read as "try again" */
	return -1;
}

int wk_posix_sync(wk_io *io, wk_file *file) {
	(void)io;
	int result;
	do /* an interrupted wait has not yet taken the file's error away, so asking again is safe; after any other failure
	      it is not */
		result = fdatasync(file->fd);
	while (result != 0 && errno == EINTR);
	return result == 0 ? 0 : -errno;
}

int wk_posix_allocate(wk_io *io, wk_file *file, uint64_t size) {
	(void)io;
	if (size > INT64_MAX || size == 0)
		return size == 0 ? 0 : -EINVAL;
	int result;
	do
		result = fallocate(file->fd, 0, 0, (off_t)size);
	while (result != 0 && errno == EINTR);
	if (result != 0)
		return -errno;
	do /* blocks that it shares with a copy are another's: xfs, where cp makes such ones */
		result = fallocate(file->fd, FALLOC_FL_UNSHARE_RANGE, 0, (off_t)size);
	while (result != 0 && errno == EINTR);
	bool is_full = result != 0 && (errno == ENOSPC || errno == EDQUOT);
	return is_full ? -errno : 0;
}

/* ext4, xfs and btrfs wait for all direct writes to a file before they give it space, which its first bytes have. */
int wk_posix_await_writes(wk_io *io, wk_file *file) {
	(void)io;
	int result;
	do
		result = fallocate(file->fd, FALLOC_FL_KEEP_SIZE, 0, 1);
	while (result != 0 && errno == EINTR);
	return result == 0 ? 0 : -errno;
}

int wk_posix_truncate(wk_io *io, wk_file *file, uint64_t size) {
	(void)io;
	if (size > INT64_MAX)
		return -EINVAL;
	int result;
	do
		result = ftruncate(file->fd, (off_t)size);
	while (result != 0 && errno == EINTR);
	return result == 0 ? 0 : -errno;
}

static uint64_t birth(const wk_file *file) {
	struct statx facts;
	bool told = statx(file->fd, "", AT_EMPTY_PATH, STATX_BTIME, &facts) == 0 && (facts.stx_mask & STATX_BTIME) != 0;
	return told ? (uint64_t)facts.stx_btime.tv_sec * 1000000000u + facts.stx_btime.tv_nsec : 0;
}

int wk_posix_stat(wk_io *io, wk_file *file, wk_io_stat *out) {
	(void)io;
	struct stat facts;
	if (fstat(file->fd, &facts) != 0)
		return -errno;
	bool direct = atomic_load(&file->direct);
	*out = (wk_io_stat){
	    .size = (uint64_t)facts.st_size,
	    .owned = (uint64_t)facts.st_blocks * STAT_BLOCK,
	    .links = facts.st_nlink,
	    .device = facts.st_dev,
	    .inode = facts.st_ino,
	    .born_ns = birth(file),
	    .alignment = direct ? file->alignment : 1,
	    .direct = direct,
	};
	return 0;
}

int wk_posix_lock(wk_io *io, wk_file *file, bool exclusive) {
	(void)io;
	int result;
	do
		result = flock(file->fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB);
	while (result != 0 && errno == EINTR);
	if (result != 0)
		return -errno;
	if (!exclusive) /* now, and not when it is closed: a child may have been forked since, and has a copy */
		(void)flock(file->fd, LOCK_UN);
	return 0;
}

int wk_posix_map_shared(wk_io *io, wk_file *file, size_t size, bool writable, void **address) {
	(void)io;
	void *mapped = mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, file->fd, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	*address = mapped;
	return 0;
}

void wk_posix_unmap(wk_io *io, void *address, size_t size) {
	(void)io;
	int result = munmap(address, size);
	assert(result == 0);
	(void)result;
}
