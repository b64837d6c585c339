/*
 * For LD_PRELOAD: the call numbered $WALKEEPER_FAIL_AT, of those that change a file whose name begins with $WALKEEPER_FAIL_IN, ends the
 * process by SIGKILL, before it is made or, of a write, behind its first half; or it fails with $WALKEEPER_FAIL_WITH, an errno. At
 * the end the number of such calls is written to $WALKEEPER_FAIL_COUNT. Each is a line of the file $WALKEEPER_FAIL_TOLD: its name, and
 * what follows $WALKEEPER_FAIL_IN in that of the file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;

static void *next(const char *name) {
	return dlsym(RTLD_NEXT, name);
}

static void tell_of(const char *call, const char *file) {
	const char *told = getenv("WALKEEPER_FAIL_TOLD");
	char line[PATH_MAX + 32];
	int fd = told != NULL ? open(told, O_WRONLY | O_APPEND | O_CREAT, 0644) : -1;
	if (fd < 0)
		return;
	int size = snprintf(line, sizeof line, "%s %s\n", call, file);
	if (write(fd, line, (size_t)size) != size)
		abort();
	close(fd);
}

static int is_ours(const char *call, const char *path) {
	const char *in = getenv("WALKEEPER_FAIL_IN");
	if (in == NULL || strncmp(path, in, strlen(in)) != 0)
		return 0;
	tell_of(call, path + strlen(in));
	return 1;
}

static int is_ours_fd(const char *call, int fd) {
	char link[64], path[PATH_MAX + 1];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t size = readlink(link, path, PATH_MAX);
	if (size < 0)
		return 0;
	path[size] = 0;
	return is_ours(call, path);
}

/* By its name in a directory that is open, or not. */
static int is_ours_at(const char *call, int directory, const char *name) {
	char link[64], path[2 * PATH_MAX + 2];
	if (name[0] == '/')
		return is_ours(call, name);
	snprintf(link, sizeof link, directory == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", directory);
	ssize_t size = readlink(link, path, PATH_MAX);
	if (size < 0)
		return 0;
	snprintf(path + size, sizeof path - (size_t)size, "/%s", name);
	return is_ours(call, path);
}

/* 0: it is made; 1: it fails; 2: the process ends. */
static int fate(int ours) {
	const char *at = getenv("WALKEEPER_FAIL_AT"), *with = getenv("WALKEEPER_FAIL_WITH");
	if (!ours || atomic_fetch_add(&calls, 1) + 1 != (at != NULL ? atol(at) : 0))
		return 0;
	if (with == NULL)
		return 2;
	errno = atoi(with);
	return 1;
}

static void die(void) {
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

__attribute__((destructor)) static void tell(void) {
	const char *count = getenv("WALKEEPER_FAIL_COUNT");
	FILE *file = count != NULL ? fopen(count, "w") : NULL;
	if (file != NULL) {
		fprintf(file, "%ld\n", atomic_load(&calls));
		fclose(file);
	}
}

static ssize_t write_some(int fd, const void *bytes, size_t size, off64_t offset) {
	ssize_t (*real)(int, const void *, size_t,
	                off64_t) = (ssize_t(*)(int, const void *, size_t, off64_t))next("pwrite64");
	switch (fate(is_ours_fd("write", fd))) {
	case 1:
		return -1;
	case 2:
		if (size > 1)
			real(fd, bytes, size / 2, offset);
		die();
	}
	return real(fd, bytes, size, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset) {
	return write_some(fd, bytes, size, offset);
}
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
	return write_some(fd, bytes, size, offset);
}

ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t offset, int flags) {
	int decided = fate(is_ours_fd("pwritev2", fd));
	ssize_t (*real)(int, const struct iovec *, int, off_t,
	                int) = (ssize_t(*)(int, const struct iovec *, int, off_t, int))next("pwritev2");
	if (decided == 2) {
		struct iovec half = {.iov_base = pieces->iov_base, .iov_len = pieces->iov_len / 2};
		real(fd, &half, 1, offset, flags);
		die();
	}
	return decided == 1 ? -1 : real(fd, pieces, count, offset, flags);
}

#define OF_FD(name, declared, passed)                                    \
	int name declared {                                                  \
		int decided = fate(is_ours_fd(#name, fd));                       \
		if (decided == 2)                                                \
			die();                                                       \
		return decided == 1 ? -1 : ((int(*) declared)next(#name))passed; \
	}
OF_FD(ftruncate, (int fd, off_t size), (fd, size))
OF_FD(ftruncate64, (int fd, off64_t size), (fd, size))
OF_FD(fsync, (int fd), (fd))
OF_FD(fdatasync, (int fd), (fd))
OF_FD(fallocate, (int fd, int mode, off_t offset, off_t size), (fd, mode, offset, size))

#define OF_NAME(name, declared, passed, directory, path)                 \
	int name declared {                                                  \
		int decided = fate(is_ours_at(#name, directory, path));          \
		if (decided == 2)                                                \
			die();                                                       \
		return decided == 1 ? -1 : ((int(*) declared)next(#name))passed; \
	}
OF_NAME(unlink, (const char *path), (path), AT_FDCWD, path)
OF_NAME(unlinkat, (int fd, const char *path, int flags), (fd, path, flags), fd, path)
OF_NAME(renameat, (int fd, const char *path, int to_fd, const char *to), (fd, path, to_fd, to), fd, path)
OF_NAME(linkat, (int fd, const char *path, int to_fd, const char *to, int flags), (fd, path, to_fd, to, flags), fd,
        path)
OF_NAME(mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode), fd, path)
