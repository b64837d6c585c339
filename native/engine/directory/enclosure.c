/*
 * enclosure.c: does a path lie in a directory?
 *
 * The way up is the kernel's, by "..", and directories are told by what they are and not by their names: so it does not
 * matter how the path is written, and which links it goes through.
 */
#include <errno.h>
#include <string.h>

#include "engine/directory/enclosure.h"

enum { PATH_SIZE_MAX = 4096 }; /* the kernel takes no longer one */

static int identity(wk_io *io, const char *path, wk_io_stat *facts) {
	wk_file *file = NULL;
	int result = io->operations->open(io, path, WK_IO_READ, &file);
	if (result != 0)
		return result;
	result = io->operations->stat(io, file, facts);
	io->operations->close(io, file);
	return result;
}

static size_t without_slashes(const char *path, size_t size) {
	while (size > 1 && path[size - 1] == '/')
		size--;
	return size;
}

/* How many of the path's first bytes are the directory that names it: 1 of "a/b/", "/b" and "/", 0 of "b": that is ".". */
static size_t parent_size(const char *path) {
	size_t size = without_slashes(path, strlen(path));
	while (size > 0 && path[size - 1] != '/')
		size--;
	return without_slashes(path, size);
}

bool wk_enclosure_has(wk_io *io, const char *path, uint64_t device, uint64_t inode) {
	char at[PATH_SIZE_MAX] = ".";
	if (strlen(path) >= sizeof at)
		return false;
	if (path[0] != 0)
		strcpy(at, path);
	wk_io_stat below = {0};
	for (bool first = true;; first = false) {
		wk_io_stat facts = {0};
		int result = identity(io, at, &facts);
		if (result == 0 && facts.device == device && facts.inode == inode)
			return true;
		bool is_root = result == 0 && !first && facts.device == below.device && facts.inode == below.inode;
		if (is_root || strlen(at) + sizeof "/.." > sizeof at)
			return false;
		if (result == -ENOENT && first) {
			size_t size = parent_size(at);
			strcpy(at + size, size > 0 ? "" : ".");
		} else if (result == 0 || result == -EACCES) /* what may not be listed may be passed through */
			strcat(at, "/..");
		else
			return false;
		below = facts;
	}
}
