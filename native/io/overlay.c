/*
 * overlay.c: the operations of an overlay. One lock for the names and the pages; the disk below is read without it.
 */
#include "io/io.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "io/overlay_names.h"

typedef struct overlay {
	wk_io io;
	wk_io *below;
	bool owned;
	pthread_mutex_t mutex;
	wk_overlay_names names;
} overlay;

struct wk_file {
	wk_overlay_node *node; /* NULL: a directory */
	wk_file *below;        /* opened for reading; NULL: there is none */
	uint32_t flags;
};

static overlay *enter(wk_io *io) {
	overlay *self = (overlay *)io;
	pthread_mutex_lock(&self->mutex);
	return self;
}

static int leave(overlay *self, int result) {
	pthread_mutex_unlock(&self->mutex);
	return result;
}

static void destroy(wk_io *io) {
	overlay *self = (overlay *)io;
	wk_overlay_names_free(&self->names);
	if (self->owned)
		self->below->operations->destroy(self->below);
	pthread_mutex_destroy(&self->mutex);
	free(self);
}

/* ---- files ---- */

static int open_file(wk_io *io, const char *path, uint32_t flags, wk_file **opened) {
	wk_file *file = calloc(1, sizeof *file);
	char *own_path = wk_overlay_plain(path);
	int result = file != NULL && own_path != NULL ? 0 : -ENOMEM;
	if (result == 0) {
		file->flags = flags;
		overlay *self = enter(io);
		bool makes = flags & WK_IO_CREATE;
		result = leave(self, (makes ? wk_overlay_make : wk_overlay_find)(&self->names, own_path, &file->node));
		const char *below = file->node != NULL ? file->node->below : own_path;
		bool directory = result == -EISDIR && (flags & WK_IO_WRITE) == 0;
		if (directory || (result == 0 && below != NULL))
			result = self->below->operations->open(self->below, below, flags & WK_IO_DIRECT, &file->below);
	}
	free(own_path);
	if (result == 0)
		*opened = file;
	else
		free(file);
	return result;
}

static void close_file(wk_io *io, wk_file *file) {
	overlay *self = (overlay *)io;
	if (file->below != NULL)
		self->below->operations->close(self->below, file->below);
	free(file);
}

static bool is_aligned(const wk_file *file, const void *buffer, size_t size, uint64_t offset) {
	return (file->flags & WK_IO_DIRECT) == 0 ||
	       ((uintptr_t)buffer % WK_IO_ALIGNMENT == 0 && size % WK_IO_ALIGNMENT == 0 && offset % WK_IO_ALIGNMENT == 0);
}

static int64_t read_file(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	if (file->node == NULL)
		return -EISDIR;
	if (!is_aligned(file, buffer, size, offset))
		return -EINVAL;
	overlay *self = enter(io);
	uint64_t end = file->node->size, below_end = file->node->below_size;
	leave(self, 0);
	size_t count = offset >= end ? 0 : end - offset < size ? (size_t)(end - offset) : size;
	size_t below = offset >= below_end ? 0 : below_end - offset < count ? (size_t)(below_end - offset) : count;
	if (below > 0) {
		size_t whole = (below + WK_IO_ALIGNMENT - 1) / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT;
		int64_t got = self->below->operations->pread(self->below, file->below, buffer, whole < size ? whole : size,
		                                             offset);
		if (got < 0)
			return got;
		below = (size_t)got < below ? (size_t)got : below;
	}
	memset((uint8_t *)buffer + below, 0, count - below);
	enter(io);
	wk_overlay_node_cover(file->node, buffer, count, offset);
	leave(self, 0);
	return (int64_t)count;
}

static int64_t write_file(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset, uint32_t flags) {
	(void)flags;
	if ((file->flags & WK_IO_WRITE) == 0)
		return -EBADF;
	if (!is_aligned(file, buffer, size, offset))
		return -EINVAL;
	overlay *self = enter(io);
	int result = leave(self, wk_overlay_node_write(file->node, self->below, file->below, buffer, size, offset));
	return result < 0 ? result : (int64_t)size;
}

static int as_read_only(int result) {
	return result == -EROFS || result == -EINVAL || result == -EACCES ? 0 : result;
}

static int sync_file(wk_io *io, wk_file *file) {
	overlay *self = (overlay *)io;
	return file->below == NULL ? 0 : as_read_only(self->below->operations->sync(self->below, file->below));
}

static int resize(wk_io *io, wk_file *file, uint64_t size) {
	if ((file->flags & WK_IO_WRITE) == 0)
		return -EBADF;
	overlay *self = enter(io);
	wk_overlay_node_truncate(file->node, size);
	return leave(self, 0);
}

static int allocate(wk_io *io, wk_file *file, uint64_t size) {
	if ((file->flags & WK_IO_WRITE) == 0)
		return -EBADF;
	overlay *self = enter(io);
	file->node->size = size > file->node->size ? size : file->node->size;
	return leave(self, 0);
}

/* Nothing is written below, and the disk below is another's to wait for. */
static int await_writes(wk_io *io, wk_file *file) {
	(void)io;
	(void)file;
	return 0;
}

static int stat_file(wk_io *io, wk_file *file, wk_io_stat *stat) {
	overlay *self = (overlay *)io;
	*stat = (wk_io_stat){.links = 1, .alignment = WK_IO_ALIGNMENT, .direct = true};
	stat->inode = (uint64_t)(uintptr_t)file->node;
	int result = file->below != NULL ? self->below->operations->stat(self->below, file->below, stat) : 0;
	if (file->node == NULL)
		return result;
	enter(io);
	stat->size = stat->owned = file->node->size;
	stat->links = 1; /* what is written here is written nowhere else */
	return leave(self, result);
}

/* Nobody else uses the overlay. Whoever has the lock below is told of, and nobody is kept from it. */
static int lock_file(wk_io *io, wk_file *file, bool exclusive) {
	(void)exclusive;
	overlay *self = (overlay *)io;
	wk_file *other;
	if (file->node == NULL || file->below == NULL)
		return 0;
	int result = self->below->operations->open(self->below, file->node->below, WK_IO_READ, &other);
	if (result < 0)
		return result;
	result = self->below->operations->lock(self->below, other, false);
	self->below->operations->close(self->below, other);
	return result;
}

static int map_shared(wk_io *io, wk_file *file, size_t size, bool writable, void **address) {
	(void)writable;
	size_t whole = (size + WK_IO_ALIGNMENT - 1) / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT;
	uint8_t *bytes = aligned_alloc(WK_IO_ALIGNMENT, whole);
	if (bytes == NULL)
		return -ENOMEM;
	int64_t got = read_file(io, file, bytes, whole, 0);
	if (got < 0) {
		free(bytes);
		return (int)got;
	}
	memset(bytes + got, 0, whole - (size_t)got);
	overlay *self = enter(io);
	if (file->node->map == NULL)
		file->node->map = bytes;
	else
		free(bytes);
	*address = file->node->map;
	return leave(self, 0);
}

static void unmap(wk_io *io, void *address, size_t size) {
	(void)io, (void)address, (void)size; /* whoever maps it next sees what was stored; it goes with its file */
}

/* ---- directories ---- */

static int make_directory(wk_io *io, const char *path) {
	overlay *self = (overlay *)io;
	wk_file *file;
	int result = self->below->operations->open(self->below, path, WK_IO_READ, &file);
	if (result < 0)
		return -ENOSYS;
	self->below->operations->close(self->below, file);
	return -EEXIST;
}

static int give_plain_name(wk_io *io, const char *from, const char *to, bool moves) {
	char *old = wk_overlay_plain(from), *given = wk_overlay_plain(to);
	int result = -ENOMEM;
	if (old != NULL && given != NULL) {
		overlay *self = enter(io);
		result = leave(self, wk_overlay_give(&self->names, old, given, moves));
	}
	free(old);
	free(given);
	return result;
}

static int rename_file(wk_io *io, const char *from, const char *to) {
	return give_plain_name(io, from, to, true);
}

static int link_file(wk_io *io, const char *from, const char *to) {
	return give_plain_name(io, from, to, false);
}

static int unlink_file(wk_io *io, const char *path) {
	char *own_path = wk_overlay_plain(path);
	if (own_path == NULL)
		return -ENOMEM;
	overlay *self = enter(io);
	int result = leave(self, wk_overlay_remove(&self->names, own_path));
	free(own_path);
	return result;
}

/* A folder that is not there below has, here, what was made in it: in memory, where there is nothing to sync. */
static int sync_directory(wk_io *io, const char *path) {
	overlay *self = (overlay *)io;
	int result = as_read_only(self->below->operations->sync_directory(self->below, path));
	return result == -ENOENT ? 0 : result;
}

/* No lock is held while `fn` looks at what it is told. */
static int list_directory(wk_io *io, const char *path, wk_io_list_fn fn, void *context) {
	overlay *self = (overlay *)io;
	wk_overlay_listing l = {0};
	char *folder = wk_overlay_plain(path);
	int result = folder == NULL ? -ENOMEM
	                            : self->below->operations->list(self->below, folder, wk_overlay_listing_add, &l);
	if ((result == 0 || result == -ENOENT) && l.result == 0) {
		enter(io);
		wk_overlay_amend(&self->names, folder, &l);
		leave(self, 0);
		result = l.count > 0 ? 0 : result; /* a folder that is not there below has, here, what was made in it */
	}
	result = result == 0 ? l.result : result;
	bool more = result == 0;
	for (size_t i = 0; i < l.count; i++) {
		more = more && fn(context, l.names[i]);
		free(l.names[i]);
	}
	free(l.names);
	free(folder);
	return result;
}

static int space_of(wk_io *io, const char *path, wk_io_space *space) {
	overlay *self = (overlay *)io;
	int result = self->below->operations->space(self->below, path, space);
	space->free_bytes = space->total_bytes;
	return result;
}

/* ---- the rest is the disk below's ---- */

static char *absolute(wk_io *io, const char *path) {
	overlay *self = (overlay *)io;
	return self->below->operations->absolute(self->below, path);
}

static int hold(wk_io *io, const char *path) {
	overlay *self = (overlay *)io;
	char *own_path = wk_overlay_plain(path);
	int result = own_path == NULL ? -ENOMEM : self->below->operations->hold(self->below, own_path);
	free(own_path);
	return result;
}

static void let_go(wk_io *io, const char *path) {
	overlay *self = (overlay *)io;
	char *own_path = wk_overlay_plain(path);
	if (own_path != NULL) /* else it goes with the disk below */
		self->below->operations->let_go(self->below, own_path);
	free(own_path);
}

/* Nothing is made for callers here. */
static wk_io *outside(wk_io *io) {
	return io;
}

static uint64_t now(wk_io *io) {
	overlay *self = (overlay *)io;
	return self->below->operations->now(self->below);
}

static uint64_t wall(wk_io *io) {
	overlay *self = (overlay *)io;
	return self->below->operations->wall(self->below);
}

static int entropy(wk_io *io, void *bytes, size_t size) {
	overlay *self = (overlay *)io;
	return self->below->operations->entropy(self->below, bytes, size);
}

static int boot_id(wk_io *io, uint8_t id[16]) {
	overlay *self = (overlay *)io;
	return self->below->operations->boot_id(self->below, id);
}

static int queue_new(wk_io *io, uint32_t depth, wk_io_queue **queue) {
	(void)io, (void)depth, (void)queue;
	return -ENOSYS;
}

static const struct wk_io_operations operations = {
    .name = "overlay",
    .destroy = destroy,
    .open = open_file,
    .close = close_file,
    .pread = read_file,
    .pwrite = write_file,
    .sync = sync_file,
    .allocate = allocate,
    .await_writes = await_writes,
    .truncate = resize,
    .stat = stat_file,
    .lock = lock_file,
    .map_shared = map_shared,
    .unmap = unmap,
    .absolute = absolute,
    .hold = hold,
    .let_go = let_go,
    .outside = outside,
    .make_directory = make_directory,
    .rename = rename_file,
    .link = link_file,
    .unlink = unlink_file,
    .sync_directory = sync_directory,
    .list = list_directory,
    .space = space_of,
    .now = now,
    .wall = wall,
    .entropy = entropy,
    .boot_id = boot_id,
    .queue_new = queue_new,
};

int wk_io_overlay_new(wk_io *below, bool owned, wk_io **io) {
	overlay *self = calloc(1, sizeof *self);
	if (self == NULL)
		return -ENOMEM;
	self->io.operations = &operations;
	self->below = self->names.below = below;
	self->owned = owned;
	pthread_mutex_init(&self->mutex, NULL);
	*io = &self->io;
	return 0;
}
