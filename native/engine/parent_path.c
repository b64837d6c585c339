#include "engine/parent_path.h"

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

char *wk_parent_path(const char *path) {
	size_t size = wk_parent_size(path);
	return size > 0 ? strndup(path, size) : strdup(".");
}
