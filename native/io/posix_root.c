/*
 * posix_root.c: the directory that a wk_io holds. Names in it are looked up from a descriptor: the process may change
 * its working directory, and the directory may be renamed, without a file of one log coming to stand in another place.
 */
#include "io/posix.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE_MAX = 4096 }; /* the kernel takes no longer one */

typedef struct posix_io {
	wk_io io;
	char *root; /* NULL: none is held */
	size_t root_size;
	int root_fd;
	wk_io *outside;
} posix_io;

int wk_posix_new(const struct wk_io_operations *operations, wk_io **io) {
	posix_io *made = calloc(1, sizeof *made);
	if (made == NULL)
		return -ENOMEM;
	made->io.operations = operations;
	*io = &made->io;
	return 0;
}

void wk_posix_let_go(wk_io *io) {
	posix_io *self = (posix_io *)io;
	if (self->root == NULL)
		return;
	close(self->root_fd);
	free(self->root);
	free(self->outside);
	self->root = NULL;
}

void wk_posix_destroy(wk_io *io) {
	wk_posix_let_go(io);
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
		fd = open(inside, O_PATH | O_DIRECTORY | O_CLOEXEC);
	while (fd < 0 && errno == EINTR);
	if (fd < 0 && errno == ENAMETOOLONG) /* by two letters, perhaps */
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int result = fd < 0 ? -errno : fd;
	free(inside);
	return result;
}

int wk_posix_hold(wk_io *io, const char *path) {
	posix_io *self = (posix_io *)io;
	if (self->root != NULL)
		return -EBUSY;
	int fd = enter(path);
	if (fd < 0)
		return fd;
	char *root = strdup(path);
	wk_io *outside = NULL;
	if (root == NULL || wk_posix_new(io->operations, &outside) != 0) {
		free(root);
		close(fd);
		return -ENOMEM;
	}
	self->root = root;
	self->outside = outside;
	self->root_size = strlen(root);
	self->root_fd = fd;
	return 0;
}

wk_io *wk_posix_outside(wk_io *io) {
	const posix_io *self = (const posix_io *)io;
	return self->root != NULL ? self->outside : io;
}

wk_posix_place wk_posix_place_of(wk_io *io, const char *path) {
	const posix_io *self = (const posix_io *)io;
	if (self->root == NULL || strncmp(path, self->root, self->root_size) != 0)
		return (wk_posix_place){AT_FDCWD, path};
	const char *rest = path + self->root_size;
	if (*rest == 0)
		return (wk_posix_place){self->root_fd, "."};
	if (*rest != '/')
		return (wk_posix_place){AT_FDCWD, path};
	while (*rest == '/')
		rest++;
	return (wk_posix_place){self->root_fd, *rest != 0 ? rest : "."};
}
