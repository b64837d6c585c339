#include "engine/directory/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_of_the_journal(const char *below) {
	static const char folder[] = "journal";
	size_t size = sizeof folder - 1;
	bool in_folder = strncmp(below, folder, size) == 0 && (below[size] == 0 || below[size] == '/');
	return in_folder || strcmp(below, "owner") == 0;
}

const char *wk_places_root(wk_places places, const char *below) {
	return places.journal != NULL && is_of_the_journal(below) ? places.journal : places.data;
}

char *wk_places_path(wk_places places, const char *below) {
	const char *root = wk_places_root(places, below);
	size_t size = strlen(root) + strlen(below) + 2;
	char *path = malloc(size);
	if (path != NULL)
		snprintf(path, size, "%s/%s", root, below);
	return path;
}
