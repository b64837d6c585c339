/*
 * posix_root.c: the directories that a wk_io holds. Names in them are looked up from a descriptor: the process may change
 * its working directory, and a directory may be renamed, without a file of one log coming to stand in another place.
 */
#include "io/descriptor.h"
#include "io/posix.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE_MAX = 4096 /* the kernel takes no longer one */, ROOTS_MAX = 2 };

typedef struct root {
	char *path; /* NULL: none is held here */
	size_t size;
	int fd;
} root;

typedef struct posix_io {
	wk_io io;
	root roots[ROOTS_MAX];
	wk_io *outside; /* NULL: nothing is held */
} posix_io;

int wk_posix_new(const struct wk_io_operations *operations, wk_io **io) {
	wk_descriptor_occupy_low();
	posix_io *made = calloc(1, sizeof *made);
	if (made == NULL)
		return -ENOMEM;
	made->io.operations = operations;
	*io = &made->io;
	return 0;
}

static root *find_root(posix_io *self, const char *path) {
	for (root *at = self->roots; at < self->roots + ROOTS_MAX; at++)
		if (at->path != NULL && strcmp(at->path, path) == 0)
			return at;
	return NULL;
}

static root *free_root(posix_io *self) {
	for (root *at = self->roots; at < self->roots + ROOTS_MAX; at++)
		if (at->path == NULL)
			return at;
	return NULL;
}

static bool holds_any(const posix_io *self) {
	return self->roots[0].path != NULL || self->roots[1].path != NULL;
}

static void drop(posix_io *self, root *held) {
	close(held->fd);
	free(held->path);
	held->path = NULL;
	if (holds_any(self))
		return;
	free(self->outside);
	self->outside = NULL;
}

void wk_posix_let_go(wk_io *io, const char *path) {
	posix_io *self = (posix_io *)io;
	root *held = find_root(self, path);
	if (held != NULL)
		drop(self, held);
}

void wk_posix_destroy(wk_io *io) {
	posix_io *self = (posix_io *)io;
	for (root *at = self->roots; at < self->roots + ROOTS_MAX; at++)
		if (at->path != NULL)
			drop(self, at);
	free(io);
}

/*
 * Does this name lead to the working directory? It may lead elsewhere by now (something was mounted over it), or be closed
 * to us.
 */
static bool leads_here(const char *name) {
	struct stat there, here;
	return *name == '/' && stat(name, &there) == 0 && stat(".", &here) == 0 && there.st_dev == here.st_dev &&
	       there.st_ino == here.st_ino;
}

/* Where the working directory has no name that serves (it was removed, say), a path is as good as it was. */
char *wk_io_absolute(const char *path) {
	bool as_it_is = *path == '/' || *path == 0;
	char *here = as_it_is ? NULL : getcwd(NULL, 0), *absolute = NULL;
	bool fits = here != NULL && strlen(here) + sizeof "/" + strlen(path) <= PATH_SIZE_MAX;
	if (!fits || !leads_here(here))
		absolute = strdup(path);
	else if (asprintf(&absolute, "%s/%s", strcmp(here, "/") == 0 ? "" : here, path) < 0)
		absolute = NULL;
	free(here);
	return absolute;
}

/* So is one in what is held. */
char *wk_posix_absolute(wk_io *io, const char *path) {
	return wk_posix_place_of(io, path).directory != AT_FDCWD ? strdup(path) : wk_io_absolute(path);
}

/* -errno, or a descriptor. Of a place that is mounted when it is entered (autofs), what is mounted there. */
static int enter(const char *path) {
	char *inside = NULL;
	if (*path == 0)
		return -ENOENT;
	if (asprintf(&inside, "%s/.", path) < 0)
		return -ENOMEM;
	int fd;
	do
		fd = wk_descriptor_take(open(inside, O_PATH | O_DIRECTORY | O_CLOEXEC));
	while (fd == -EINTR);
	if (fd == -ENAMETOOLONG) /* by two letters, perhaps */
		fd = wk_descriptor_take(open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
	free(inside);
	return fd;
}

int wk_posix_hold(wk_io *io, const char *path) {
	posix_io *self = (posix_io *)io;
	root *place = free_root(self);
	if (place == NULL || find_root(self, path) != NULL)
		return -EBUSY;
	int fd = enter(path);
	if (fd < 0)
		return fd;
	char *copy = strdup(path);
	if (copy == NULL || (self->outside == NULL && wk_posix_new(io->operations, &self->outside) != 0)) {
		free(copy);
		close(fd);
		return -ENOMEM;
	}
	*place = (root){.path = copy, .size = strlen(copy), .fd = fd};
	return 0;
}

wk_io *wk_posix_outside(wk_io *io) {
	const posix_io *self = (const posix_io *)io;
	return self->outside != NULL ? self->outside : io;
}

/* What of the path lies below the root: NULL, it is not in it. */
static const char *rest_below(const root *held, const char *path) {
	if (held->path == NULL || strncmp(path, held->path, held->size) != 0)
		return NULL;
	const char *rest = path + held->size;
	if (*rest != 0 && *rest != '/')
		return NULL;
	rest += strspn(rest, "/");
	return *rest != 0 ? rest : ".";
}

wk_posix_place wk_posix_place_of(wk_io *io, const char *path) {
	const posix_io *self = (const posix_io *)io;
	wk_posix_place place = {AT_FDCWD, path};
	size_t longest = 0;
	for (const root *at = self->roots; at < self->roots + ROOTS_MAX; at++) {
		const char *rest = rest_below(at, path);
		if (rest == NULL || at->size < longest)
			continue;
		longest = at->size;
		place = (wk_posix_place){at->fd, rest};
	}
	return place;
}
