/*
 * file_view.h: one file of a directory that is not open here, read through a window of memory. Private.
 *
 * It is read directly where the file system allows that: what counts is what is on the disk, not what is in the cache.
 */
#ifndef WK_ENGINE_FILE_VIEW_H
#define WK_ENGINE_FILE_VIEW_H
#include "core/footer.h"
#include "io/io.h"
#include "records/error.h"

/* Told after each read; false: stop. */
typedef bool (*wk_view_read_fn)(void *context, size_t bytes);

typedef struct wk_file_view {
	wk_io *io;
	wk_file *file;
	char *path;
	uint64_t size;  /* of the file, when it was opened */
	uint8_t *bytes; /* the window */
	size_t capacity, held;
	uint64_t start;          /* file offset of bytes[0] */
	wk_view_read_fn on_read; /* NULL: nobody wants to know */
	void *context;
} wk_file_view;

/* 0 or -errno. */
int wk_file_view_open(wk_file_view *view, wk_io *io, const char *path);
void wk_file_view_close(wk_file_view *view);
/*
 * The bytes at `offset`: at least `need`, or all up to the end of the file; good until the next call. WK_IO,
 * WK_NO_MEMORY; WK_INTERRUPTED where on_read says stop.
 */
wk_status wk_file_view_at(wk_file_view *view, uint64_t offset, size_t need, const uint8_t **bytes, size_t *available,
                          wk_error *error);
/* The same for the block that seems to start at `offset`, whatever its size. */
wk_status wk_file_view_block(wk_file_view *view, uint64_t offset, const uint8_t **bytes, size_t *available,
                             wk_error *error);
/* The next wk_file_view_at reads from the disk again. */
void wk_file_view_forget(wk_file_view *view);
/* The path still names this file: it was neither recycled nor unlinked, so what was read before this call was its own.
 */
bool wk_file_view_is_named(const wk_file_view *view);
/* The trailer of the file; WK_CORRUPT, WK_UNSUPPORTED as wk_footer_decode, or what wk_file_view_at answers. */
wk_status wk_file_view_footer(wk_file_view *view, wk_footer *footer, wk_error *error);
/*
 * The last page is no trailer, but was one of this directory and file: two of magic, directory and file id still say
 * so. (A whole trailer of an earlier life of a recycled file is none.)
 */
bool wk_file_view_has_broken_footer(wk_file_view *view, const uint8_t directory_id[16], uint64_t file_id);
#endif
