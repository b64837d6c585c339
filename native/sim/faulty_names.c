/*
 * faulty_names.c: the names in the directories of a simulated disk.
 */
#include "sim/faulty_disk.h"
#include <assert.h>
#include <string.h>

static size_t position(const wk_names *names, uint32_t directory, const char *text);
static int compare(const wk_name *name, uint32_t directory, const char *text);
static void set(wk_names *names, const wk_name *name);
static void take_away(wk_names *names, const wk_name *name);

wk_name *wk_names_find(const wk_names *names, uint32_t directory, const char *text) {
	size_t i = position(names, directory, text);
	return i < names->count && compare(&names->names[i], directory, text) == 0 ? &names->names[i] : NULL;
}

const wk_name *wk_names_of(const wk_names *names, uint32_t node) {
	size_t i = 0;
	while (i < names->count && names->names[i].node != node)
		i++;
	return i < names->count ? &names->names[i] : NULL;
}

size_t wk_names_first(const wk_names *names, uint32_t directory) {
	return position(names, directory, "");
}

/* Where that name is, or would be. */
static size_t position(const wk_names *names, uint32_t directory, const char *text) {
	size_t low = 0, high = names->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (compare(&names->names[middle], directory, text) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int compare(const wk_name *name, uint32_t directory, const char *text) {
	if (name->directory != directory)
		return name->directory < directory ? -1 : 1;
	return strcmp(name->text, text);
}

void wk_names_change(wk_names *names, const wk_name_change *change) {
	if (change->from.text[0])
		take_away(names, &change->from);
	if (change->to.text[0])
		set(names, &change->to);
}

static void take_away(wk_names *names, const wk_name *name) {
	size_t i = position(names, name->directory, name->text);
	if (i == names->count || compare(&names->names[i], name->directory, name->text) != 0)
		return; /* only among the durable names, where the change that made it is not yet durable */
	names->count--;
	memmove(&names->names[i], &names->names[i + 1], (names->count - i) * sizeof *names->names);
}

static void set(wk_names *names, const wk_name *name) {
	size_t i = position(names, name->directory, name->text);
	if (i == names->count || compare(&names->names[i], name->directory, name->text) != 0) {
		names->names = wk_faulty_grow(names->names, names->count, &names->capacity, sizeof *names->names);
		memmove(&names->names[i + 1], &names->names[i], (names->count - i) * sizeof *names->names);
		names->count++;
	}
	names->names[i] = *name;
}

wk_names wk_names_copy(const wk_names *names) {
	wk_names copy = {.count = names->count, .capacity = names->count};
	if (copy.count > 0) {
		copy.names = wk_faulty_allocate(copy.count, sizeof *copy.names);
		memcpy(copy.names, names->names, copy.count * sizeof *copy.names);
	}
	return copy;
}
