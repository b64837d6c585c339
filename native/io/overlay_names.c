#include "io/overlay_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void wk_overlay_names_free(wk_overlay_names *names) {
	for (size_t i = 0; i < names->count; i++)
		free(names->list[i].path);
	free(names->list);
	for (wk_overlay_node *node = names->nodes, *next; node != NULL; node = next) {
		next = node->next;
		wk_overlay_node_free(node);
	}
}

char *wk_overlay_plain(const char *path) {
	char *copy = malloc(strlen(path) + 1);
	size_t size = 0;
	for (size_t i = 0; copy != NULL && path[i] != 0; i++)
		if (path[i] != '/' || size == 0 || copy[size - 1] != '/')
			copy[size++] = path[i];
	if (copy != NULL)
		copy[size > 1 && copy[size - 1] == '/' ? size - 1 : size] = 0;
	return copy;
}

/* Where the name is, or would be. */
static size_t place_of(const wk_overlay_names *self, const char *path) {
	size_t low = 0, high = self->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (strcmp(self->list[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static wk_overlay_name *find(const wk_overlay_names *self, const char *path) {
	size_t at = place_of(self, path);
	return at < self->count && strcmp(self->list[at].path, path) == 0 ? &self->list[at] : NULL;
}

static wk_overlay_name *add_name(wk_overlay_names *self, const char *path) {
	if (self->count == self->capacity) {
		size_t capacity = self->capacity == 0 ? 32 : self->capacity * 2;
		wk_overlay_name *list = realloc(self->list, capacity * sizeof *list);
		if (list == NULL)
			return NULL;
		self->list = list;
		self->capacity = capacity;
	}
	char *copy = strdup(path);
	if (copy == NULL)
		return NULL;
	size_t at = place_of(self, path);
	memmove(&self->list[at + 1], &self->list[at], (self->count - at) * sizeof *self->list);
	self->list[at] = (wk_overlay_name){.path = copy};
	self->count++;
	return &self->list[at];
}

static wk_overlay_node *add_node(wk_overlay_names *self, const char *below, uint64_t size) {
	wk_overlay_node *node = wk_overlay_node_new(below, size);
	if (node != NULL) {
		node->next = self->nodes;
		self->nodes = node;
	}
	return node;
}

static bool stop(void *context, const char *name) {
	(void)context, (void)name;
	return false;
}

/* What the disk below says of a path that was not asked for before. -EISDIR: a directory. */
static int look_below(wk_overlay_names *self, const char *path, uint64_t *size) {
	const struct wk_io_operations *below = self->below->operations;
	wk_file *file;
	wk_io_stat stat;
	int result = below->open(self->below, path, WK_IO_READ, &file);
	if (result < 0)
		return result;
	result = below->stat(self->below, file, &stat);
	below->close(self->below, file);
	*size = result == 0 ? stat.size : 0;
	return result == 0 && below->list(self->below, path, stop, NULL) == 0 ? -EISDIR : result;
}

/* The name's entry, made where this is the first time. -ENOENT where there is no such file and none was. */
static int resolve(wk_overlay_names *self, const char *path, wk_overlay_name **name) {
	*name = find(self, path);
	if (*name != NULL)
		return (*name)->node != NULL ? 0 : -ENOENT;
	uint64_t size;
	int result = look_below(self, path, &size);
	if (result < 0)
		return result;
	wk_overlay_node *node = add_node(self, path, size);
	*name = node != NULL ? add_name(self, path) : NULL;
	if (*name == NULL)
		return -ENOMEM;
	(*name)->node = node;
	(*name)->is_below = true;
	return 0;
}

/* The name's entry, for another file. */
static int take_name(wk_overlay_names *self, const char *path, wk_overlay_name **name) {
	int result = resolve(self, path, name);
	if (result != -ENOENT || *name != NULL)
		return result == -ENOENT ? 0 : result;
	*name = add_name(self, path);
	return *name != NULL ? 0 : -ENOMEM;
}

int wk_overlay_find(wk_overlay_names *self, const char *path, wk_overlay_node **node) {
	wk_overlay_name *name;
	int result = resolve(self, path, &name);
	*node = result == 0 ? name->node : NULL;
	return result;
}

int wk_overlay_make(wk_overlay_names *self, const char *path, wk_overlay_node **node) {
	wk_overlay_name *name;
	*node = NULL;
	int result = take_name(self, path, &name);
	if (result < 0)
		return result;
	if (name->node != NULL)
		return -EEXIST;
	name->node = *node = add_node(self, NULL, 0);
	return *node != NULL ? 0 : -ENOMEM;
}

int wk_overlay_give(wk_overlay_names *self, const char *from, const char *to, bool moves) {
	wk_overlay_node *node;
	wk_overlay_name *name;
	int result = wk_overlay_find(self, from, &node);
	if (result == 0)
		result = take_name(self, to, &name);
	if (result < 0)
		return result;
	if (!moves && name->node != NULL)
		return -EEXIST;
	if (name->node == node) /* two names of one file: POSIX says that nothing happens */
		return 0;
	name->node = node;
	if (moves)
		find(self, from)->node = NULL;
	return 0;
}

int wk_overlay_remove(wk_overlay_names *self, const char *path) {
	wk_overlay_name *name;
	int result = resolve(self, path, &name);
	if (result == 0)
		name->node = NULL;
	return result;
}

/* ---- listings ---- */

bool wk_overlay_listing_add(void *context, const char *name) {
	wk_overlay_listing *l = context;
	if (l->count == l->capacity) {
		size_t capacity = l->capacity == 0 ? 64 : l->capacity * 2;
		char **names = realloc(l->names, capacity * sizeof *names);
		l->result = names == NULL ? -ENOMEM : 0;
		if (names == NULL)
			return false;
		l->names = names;
		l->capacity = capacity;
	}
	l->names[l->count] = strdup(name);
	l->result = l->names[l->count] == NULL ? -ENOMEM : 0;
	l->count += l->result == 0;
	return l->result == 0;
}

/* The part of the path behind `folder`/, NULL where it is not directly in it. */
static const char *name_in(const char *path, const char *folder) {
	size_t size = strlen(folder);
	bool inside = strncmp(path, folder, size) == 0 && path[size] == '/' && strchr(path + size + 1, '/') == NULL;
	return inside ? path + size + 1 : NULL;
}

void wk_overlay_amend(const wk_overlay_names *self, const char *folder, wk_overlay_listing *l) {
	for (size_t i = 0; i < self->count && l->result == 0; i++) {
		const wk_overlay_name *one = &self->list[i];
		const char *name = name_in(one->path, folder);
		if (name == NULL)
			continue;
		if (one->node != NULL && !one->is_below)
			wk_overlay_listing_add(l, name);
		for (size_t at = 0; one->node == NULL && at < l->count; at++)
			if (strcmp(l->names[at], name) == 0) {
				free(l->names[at]);
				l->names[at--] = l->names[--l->count];
			}
	}
}
