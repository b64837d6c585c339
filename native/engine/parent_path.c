#include "engine/parent_path.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static size_t without_slashes(const char *path, size_t size) {
	while (size > 1 && path[size - 1] == '/')
		size--;
	return size;
}

size_t wk_parent_size(const char *path) {
	size_t size = without_slashes(path, strlen(path));
	while (size > 0 && path[size - 1] != '/')
		size--;
	return without_slashes(path, size);
}

/* "." and ".." are no names: what stands above them the kernel tells. */
static bool is_no_name(const char *path) {
	size_t end = without_slashes(path, strlen(path)), begin = end;
	while (begin > 0 && path[begin - 1] != '/')
		begin--;
	size_t size = end - begin;
	return size > 0 && size <= 2 && strncmp(path + begin, "..", size) == 0;
}

char *wk_parent_path(const char *path) {
	size_t size = wk_parent_size(path);
	if (is_no_name(path)) {
		char *above = malloc(strlen(path) + sizeof "/..");
		return above != NULL ? strcat(strcpy(above, path), "/..") : NULL;
	}
	return size > 0 ? strndup(path, size) : strdup(".");
}
