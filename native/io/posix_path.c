/*
 * posix_path.c: names and directories, the clocks, and random bytes.
 */
#include "io/descriptor.h"
#include "io/posix.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000 };

typedef struct names {
	char **names;
	size_t count, room;
} names;

static int read_names(DIR *directory, names *found);

static int by_name(const void *a, const void *b);
static uint64_t clock_ns(clockid_t clock);

int wk_posix_make_directory(wk_io *io, const char *path) {
	wk_posix_place at = wk_posix_place_of(io, path);
	return mkdirat(at.directory, at.path, 0777) == 0 ? 0 : -errno;
}

int wk_posix_rename(wk_io *io, const char *from, const char *to) {
	wk_posix_place old = wk_posix_place_of(io, from), new = wk_posix_place_of(io, to);
	return renameat(old.directory, old.path, new.directory, new.path) == 0 ? 0 : -errno;
}

int wk_posix_link(wk_io *io, const char *from, const char *to) {
	wk_posix_place old = wk_posix_place_of(io, from);
	return linkat(old.directory, old.path, AT_FDCWD, to, 0) == 0 ? 0 : -errno;
}

int wk_posix_unlink(wk_io *io, const char *path) {
	wk_posix_place at = wk_posix_place_of(io, path);
	return unlinkat(at.directory, at.path, 0) == 0 ? 0 : -errno;
}

/* -errno. */
static int open_path(wk_io *io, const char *path, int mode) {
	wk_posix_place at = wk_posix_place_of(io, path);
	int fd;
	do
		fd = wk_descriptor_take(openat(at.directory, at.path, mode | O_CLOEXEC));
	while (fd == -EINTR);
	return fd;
}

int wk_posix_sync_directory(wk_io *io, const char *path) {
	int fd = open_path(io, path, O_RDONLY | O_DIRECTORY), result;
	if (fd < 0)
		return fd;
	do
		result = fsync(fd);
	while (result != 0 && errno == EINTR);
	int error = result == 0 ? 0 : -errno;
	close(fd);
	return error;
}

/* All names are taken before the first is told, in byte order: the callback may rename or unlink, and every run sees
 * the same order. */
int wk_posix_list(wk_io *io, const char *path, wk_io_list_fn fn, void *context) {
	names found = {0};
	int fd = open_path(io, path, O_RDONLY | O_DIRECTORY), error = fd < 0 ? fd : 0;
	DIR *directory = fd < 0 ? NULL : fdopendir(fd); /* and not scandir, which opens a descriptor of its own */
	if (fd >= 0 && directory == NULL) {
		error = -errno;
		close(fd);
	}
	if (directory != NULL) {
		error = read_names(directory, &found);
		closedir(directory);
	}
	if (error == 0 && found.count > 0)
		qsort(found.names, found.count, sizeof *found.names, by_name);
	bool wanted = error == 0;
	for (size_t i = 0; i < found.count; i++) {
		wanted = wanted && fn(context, found.names[i]);
		free(found.names[i]);
	}
	free(found.names);
	return error;
}

/* -errno; what was read until then is in `found`. */
static int read_names(DIR *directory, names *found) {
	for (;;) {
		errno = 0;
		const struct dirent *entry = readdir(directory);
		if (entry == NULL)
			return -errno;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (found->count == found->room) {
			size_t room = found->room == 0 ? 32 : 2 * found->room;
			char **grown = realloc(found->names, room * sizeof *grown);
			if (grown == NULL)
				return -ENOMEM;
			found->names = grown;
			found->room = room;
		}
		char *name = strdup(entry->d_name);
		if (name == NULL)
			return -ENOMEM;
		found->names[found->count++] = name;
	}
}

static int by_name(const void *a, const void *b) {
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int wk_posix_space(wk_io *io, const char *path, wk_io_space *space) {
	struct statfs facts;
	int fd = open_path(io, path, O_PATH), result;
	if (fd < 0)
		return fd;
	do
		result = fstatfs(fd, &facts);
	while (result != 0 && errno == EINTR);
	int error = result == 0 ? 0 : -errno;
	close(fd);
	if (error != 0)
		return error;
	uint64_t unit = (uint64_t)(facts.f_frsize ? facts.f_frsize : facts.f_bsize);
	*space = (wk_io_space){
	    .free_bytes = facts.f_bavail * unit,
	    .total_bytes = facts.f_blocks * unit,
	    .type = (uint64_t)facts.f_type,
	};
	return 0;
}

uint64_t wk_posix_now(wk_io *io) {
	(void)io;
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t wk_posix_wall(wk_io *io) {
	(void)io;
	return clock_ns(CLOCK_REALTIME);
}

static uint64_t clock_ns(clockid_t clock) {
	struct timespec time;
	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

int wk_posix_entropy(wk_io *io, void *bytes, size_t size) {
	(void)io;
	for (size_t done = 0; done < size;) {
		ssize_t n = getrandom((char *)bytes + done, size - done, 0);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			done += (size_t)n;
	}
	return 0;
}

int64_t wk_process_id(void) {
	return getpid();
}

int wk_posix_read_boot_id(const char *path, uint8_t id[16]) {
	char text[40] = {0};
	memset(id, 0, 16);
	int fd = wk_descriptor_take(open(path, O_RDONLY | O_CLOEXEC));
	if (fd < 0)
		return fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM ? fd : -ENODATA;
	struct statfs facts; /* a container's manager may have put a file of its own there, which tells of no kernel */
	bool genuine = fstatfs(fd, &facts) == 0 && facts.f_type == PROC_SUPER_MAGIC;
	ssize_t size = genuine ? read(fd, text, sizeof text - 1) : 0;
	close(fd);
	int digits = 0;
	for (ssize_t i = 0; i < size && digits < 32; i++) {
		int digit = text[i] >= '0' && text[i] <= '9'   ? text[i] - '0'
		            : text[i] >= 'a' && text[i] <= 'f' ? text[i] - 'a' + 10
		                                               : -1;
		if (digit < 0)
			continue;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | digit);
		digits++;
	}
	return digits == 32 ? 0 : -ENODATA;
}

int wk_posix_boot_id(wk_io *io, uint8_t id[16]) {
	(void)io;
	return wk_posix_read_boot_id("/proc/sys/kernel/random/boot_id", id);
}
