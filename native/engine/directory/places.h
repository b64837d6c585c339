/*
 * places.h: where the files of a directory lie. Private.
 *
 * A file is called by what it is below the directory ("journal/0000000000000014.wkj", "superblock"), wherever that lies:
 * the folder `journal` and the file `owner` may lie in a directory of their own (journal_directory.h), all others never.
 */
#ifndef WK_ENGINE_PLACES_H
#define WK_ENGINE_PLACES_H
#include "walkeeper/core.h"

typedef struct wk_places {
	const char *data;
	const char *journal; /* NULL: in `data` */
} wk_places;

/* The directory that has the file of this name. */
const char *wk_places_root(wk_places places, const char *below);
/* The file's whole path; the caller frees. NULL: no memory. */
char *wk_places_path(wk_places places, const char *below);
#endif
