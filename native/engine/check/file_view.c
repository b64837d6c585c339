#include "engine/check/file_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"

enum { CHUNK = 1 << 20 };

static uint64_t round_up(uint64_t size) {
	return (size + WK_IO_ALIGNMENT - 1) / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT;
}

int wk_file_view_open(wk_file_view *view, wk_io *io, const char *path) {
	*view = (wk_file_view){.io = io, .path = strdup(path)};
	int result = view->path != NULL ? io->operations->open(io, path, WK_IO_READ | WK_IO_DIRECT, &view->file) : -ENOMEM;
	wk_io_stat stat = {0};
	if (result == 0)
		result = io->operations->stat(io, view->file, &stat);
	view->size = stat.size;
	if (result < 0)
		wk_file_view_close(view);
	return result;
}

void wk_file_view_close(wk_file_view *view) {
	if (view->file != NULL)
		view->io->operations->close(view->io, view->file);
	free(view->bytes);
	free(view->path);
	*view = (wk_file_view){0};
}

void wk_file_view_forget(wk_file_view *view) {
	view->held = 0;
}

/* Room for `size` bytes in the window, what is in it kept. */
static bool reserve(wk_file_view *view, size_t size) {
	if (size <= view->capacity)
		return true;
	uint8_t *larger = aligned_alloc(WK_IO_ALIGNMENT, size);
	if (larger == NULL)
		return false;
	if (view->held > 0)
		memcpy(larger, view->bytes, view->held);
	free(view->bytes);
	view->bytes = larger;
	view->capacity = size;
	return true;
}

/* The window starts at the aligned `start`, with what it already had from there on. */
static void slide(wk_file_view *view, uint64_t start) {
	uint64_t end = view->start + view->held;
	if (start >= view->start && start < end) {
		memmove(view->bytes, view->bytes + (start - view->start), (size_t)(end - start));
		view->held = (size_t)(end - start);
	} else {
		view->held = 0;
	}
	view->start = start;
}

static wk_status fill(wk_file_view *view, size_t want, wk_error *error) {
	while (view->held < want && view->start + view->held < view->size) {
		uint64_t at = view->start + view->held;
		size_t room = view->capacity - view->held;
		uint64_t left = round_up(view->size - at);
		size_t part = room < CHUNK ? room : CHUNK;
		part = left < part ? (size_t)left : part;
		int64_t result = view->io->operations->pread(view->io, view->file, view->bytes + view->held, part, at);
		if (result < 0)
			return wk_fail_io(error, (int)result, "reading %s at offset %llu", view->path, (unsigned long long)at);
		view->held += (size_t)result;
		if (view->on_read != NULL && !view->on_read(view->context, (size_t)result))
			return wk_fail(error, WK_INTERRUPTED, "reading %s: stopped", view->path);
		if (result < (int64_t)part && view->start + view->held < view->size)
			view->size = view->start + view->held; /* it was made shorter meanwhile */
	}
	return WK_OK;
}

wk_status wk_file_view_at(wk_file_view *view, uint64_t offset, size_t need, const uint8_t **bytes, size_t *available,
                          wk_error *error) {
	if (offset >= view->size)
		need = 0;
	else if (need > view->size - offset)
		need = (size_t)(view->size - offset);
	if (offset < view->start || offset + need > view->start + view->held) {
		uint64_t start = offset / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT;
		size_t want = (size_t)(offset - start) + need;
		slide(view, start);
		if (!reserve(view, (size_t)round_up(want) + CHUNK))
			return wk_fail(error, WK_NO_MEMORY, "reading %s: no memory", view->path);
		wk_status status = fill(view, want, error);
		if (status != WK_OK)
			return status;
	}
	uint64_t end = view->start + view->held;
	*bytes = view->bytes + (offset - view->start);
	*available = offset < end ? (size_t)(end - offset) : 0;
	return WK_OK;
}

wk_status wk_file_view_block(wk_file_view *view, uint64_t offset, const uint8_t **bytes, size_t *available,
                             wk_error *error) {
	wk_status status = wk_file_view_at(view, offset, WK_BLOCK_ALIGNMENT, bytes, available, error);
	wk_block_header header;
	if (status == WK_OK && wk_block_peek(*bytes, *available, &header) == WK_OK && header.size > *available)
		status = wk_file_view_at(view, offset, header.size, bytes, available, error);
	return status;
}

bool wk_file_view_is_named(const wk_file_view *view) {
	const struct wk_io_operations *io = view->io->operations;
	wk_file *named = NULL;
	wk_io_stat ours, theirs;
	if (io->open(view->io, view->path, WK_IO_READ, &named) < 0)
		return false;
	bool same = io->stat(view->io, named, &theirs) == 0 && io->stat(view->io, view->file, &ours) == 0 &&
	            ours.device == theirs.device && ours.inode == theirs.inode;
	io->close(view->io, named);
	return same;
}

static wk_status last_page(wk_file_view *view, const uint8_t **page, wk_error *error) {
	if (view->size < 2 * WK_PAGE_SIZE || view->size % WK_PAGE_SIZE != 0)
		return WK_CORRUPT;
	size_t available;
	wk_status status = wk_file_view_at(view, view->size - WK_PAGE_SIZE, WK_PAGE_SIZE, page, &available, error);
	return status == WK_OK && available < WK_PAGE_SIZE ? WK_CORRUPT : status;
}

wk_status wk_file_view_footer(wk_file_view *view, wk_footer *footer, wk_error *error) {
	const uint8_t *page;
	wk_status status = last_page(view, &page, error);
	if (status == WK_OK)
		status = wk_footer_decode(page, footer);
	return status == WK_OK && footer->file_size != view->size ? WK_CORRUPT : status;
}

bool wk_file_view_has_broken_footer(wk_file_view *view, const uint8_t directory_id[16], uint64_t file_id) {
	enum { MAGIC_SIZE = 4, DIRECTORY_ID_AT = 16, FILE_ID_AT = 32 }; /* docs/formats/footer.md */
	const uint8_t *page;
	wk_footer footer;
	if (last_page(view, &page, NULL) != WK_OK || wk_footer_decode(page, &footer) != WK_CORRUPT)
		return false;
	bool magic = memcmp(page, "WKFT", MAGIC_SIZE) == 0;
	bool directory = memcmp(page + DIRECTORY_ID_AT, directory_id, WK_DIRECTORY_ID_SIZE) == 0;
	bool file = wk_load_le64(page + FILE_ID_AT) == file_id;
	return magic + directory + file >= 2;
}
