/*
 * overlay_node.h: a file of an overlay: its pages that were written, above the bytes of a file below. Private to
 * native/io.
 *
 * Not synchronized.
 */
#ifndef WK_IO_OVERLAY_NODE_H
#define WK_IO_OVERLAY_NODE_H
#include "io/io.h"

typedef struct wk_overlay_node {
	struct wk_overlay_node *next;
	char *below;         /* path of the file below, NULL: none */
	uint64_t size;       /* now */
	uint64_t below_size; /* so many bytes of the file below still count */
	uint8_t **pages;     /* by number; NULL: not written, or zeros where the file below does not count */
	size_t pages_count;
	void *map; /* one for all that map it */
} wk_overlay_node;

wk_overlay_node *wk_overlay_node_new(const char *below, uint64_t size); /* NULL: no memory */
void wk_overlay_node_free(wk_overlay_node *node);
/* The written pages among [offset, offset + size) of a buffer that holds the rest already. */
void wk_overlay_node_cover(const wk_overlay_node *node, uint8_t *buffer, size_t size, uint64_t offset);
/* `file` is the one below, opened; NULL where there is none. 0 or -errno. */
int wk_overlay_node_write(wk_overlay_node *node, wk_io *io, wk_file *file, const uint8_t *bytes, size_t size,
                          uint64_t offset);
void wk_overlay_node_truncate(wk_overlay_node *node, uint64_t size);
#endif
