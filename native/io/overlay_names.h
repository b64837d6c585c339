/*
 * overlay_names.h: which file a name of an overlay stands for. Private to native/io.
 *
 * Not synchronized. Paths are plain ones. A name that is asked for the first time is looked up on the disk below.
 */
#ifndef WK_IO_OVERLAY_NAMES_H
#define WK_IO_OVERLAY_NAMES_H
#include "io/overlay_node.h"

/* A name that was asked for. node NULL: it was removed here. */
typedef struct wk_overlay_name {
	char *path;
	wk_overlay_node *node;
	bool is_below; /* the disk below has a file of this name */
} wk_overlay_name;

typedef struct wk_overlay_names {
	wk_io *below;
	wk_overlay_name *list; /* by path; others coming move them */
	size_t count, capacity;
	wk_overlay_node *nodes; /* all there ever were: open files may have lost their names */
} wk_overlay_names;

/* Names in a directory, collected. */
typedef struct wk_overlay_listing {
	char **names;
	size_t count, capacity;
	int result;
} wk_overlay_listing;

void wk_overlay_names_free(wk_overlay_names *names);
/* One slash where there are several, none at the end: a file has one path here. Freed by the caller; NULL: no memory. */
char *wk_overlay_plain(const char *path);
/* -ENOENT, -EISDIR, or what else the disk below says. */
int wk_overlay_find(wk_overlay_names *names, const char *path, wk_overlay_node **node);
/* -EEXIST. */
int wk_overlay_make(wk_overlay_names *names, const char *path, wk_overlay_node **node);
/* A second name for it, or, where it moves, another in place of the first. -EEXIST only where it does not move. */
int wk_overlay_give(wk_overlay_names *names, const char *from, const char *to, bool moves);
int wk_overlay_remove(wk_overlay_names *names, const char *path);
/* For the disk below to list into. */
bool wk_overlay_listing_add(void *listing, const char *name);
/* What was removed goes, what was added comes. */
void wk_overlay_amend(const wk_overlay_names *names, const char *folder, wk_overlay_listing *listing);
#endif
