#include "io/overlay_node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = WK_IO_ALIGNMENT };

wk_overlay_node *wk_overlay_node_new(const char *below, uint64_t size) {
	wk_overlay_node *node = calloc(1, sizeof *node);
	if (node == NULL)
		return NULL;
	node->size = node->below_size = size;
	node->below = below != NULL ? strdup(below) : NULL;
	if (below != NULL && node->below == NULL) {
		free(node);
		return NULL;
	}
	return node;
}

void wk_overlay_node_free(wk_overlay_node *node) {
	for (size_t i = 0; i < node->pages_count; i++)
		free(node->pages[i]);
	free(node->pages);
	free(node->map);
	free(node->below);
	free(node);
}

void wk_overlay_node_cover(const wk_overlay_node *node, uint8_t *buffer, size_t size, uint64_t offset) {
	for (size_t done = 0, part; done < size; done += part) {
		size_t page = (size_t)((offset + done) / PAGE), in_page = (size_t)((offset + done) % PAGE);
		part = PAGE - in_page < size - done ? PAGE - in_page : size - done;
		if (page < node->pages_count && node->pages[page] != NULL)
			memcpy(buffer + done, node->pages[page] + in_page, part);
	}
}

static bool is_zero(const uint8_t *bytes, size_t size) {
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

static int reserve(wk_overlay_node *node, size_t count) {
	if (count <= node->pages_count)
		return 0;
	size_t larger = count < node->pages_count * 2 ? node->pages_count * 2 : count;
	uint8_t **pages = realloc(node->pages, larger * sizeof *pages);
	if (pages == NULL)
		return -ENOMEM;
	memset(pages + node->pages_count, 0, (larger - node->pages_count) * sizeof *pages);
	node->pages = pages;
	node->pages_count = larger;
	return 0;
}

/* The page as it is, to be changed. */
static int own(wk_overlay_node *node, wk_io *io, wk_file *file, size_t page) {
	int result = reserve(node, page + 1);
	if (result < 0 || node->pages[page] != NULL)
		return result;
	uint8_t *bytes = aligned_alloc(PAGE, PAGE);
	if (bytes == NULL)
		return -ENOMEM;
	uint64_t offset = (uint64_t)page * PAGE;
	size_t counts = offset < node->below_size ? (size_t)(node->below_size - offset) : 0;
	int64_t got = counts > 0 && file != NULL ? io->operations->pread(io, file, bytes, PAGE, offset) : 0;
	if (got < 0) {
		free(bytes);
		return (int)got;
	}
	size_t kept = (size_t)got < counts ? (size_t)got : counts;
	memset(bytes + kept, 0, PAGE - kept);
	node->pages[page] = bytes;
	return 0;
}

int wk_overlay_node_write(wk_overlay_node *node, wk_io *io, wk_file *file, const uint8_t *bytes, size_t size,
                          uint64_t offset) {
	for (size_t done = 0, part; done < size; done += part) {
		uint64_t at = offset + done;
		size_t page = (size_t)(at / PAGE), in_page = (size_t)(at % PAGE);
		part = PAGE - in_page < size - done ? PAGE - in_page : size - done;
		bool there = page < node->pages_count && node->pages[page] != NULL;
		bool stays_zero = !there && (uint64_t)page * PAGE >= node->below_size && is_zero(bytes + done, part);
		if (stays_zero) /* files are written ahead with zeros */
			continue;
		int result = own(node, io, file, page);
		if (result < 0)
			return result;
		memcpy(node->pages[page] + in_page, bytes + done, part);
	}
	if (size > 0 && offset + size > node->size) /* nothing, written behind the end, makes no file longer (POSIX) */
		node->size = offset + size;
	return 0;
}

void wk_overlay_node_truncate(wk_overlay_node *node, uint64_t size) {
	for (size_t page = (size_t)(size / PAGE); page < node->pages_count; page++) {
		size_t kept = page == (size_t)(size / PAGE) ? (size_t)(size % PAGE) : 0;
		if (kept > 0 && node->pages[page] != NULL) {
			memset(node->pages[page] + kept, 0, PAGE - kept);
			continue;
		}
		free(node->pages[page]);
		node->pages[page] = NULL;
	}
	node->below_size = size < node->below_size ? size : node->below_size;
	node->size = size;
}
