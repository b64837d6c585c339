/*
 * sheltered_disk.h: a faulty disk whose own memory does not run out where the engine's does (scarce_memory.h).
 */
#ifndef SHELTERED_DISK_H
#define SHELTERED_DISK_H
#include "io/io.h"
#include "scarce_memory.h"

static struct wk_io_operations sheltered_operations;
static const struct wk_io_operations *plain;

#define SHELTERED(type, name, parameters, arguments) \
	static type sheltered_##name parameters {        \
		sheltered++;                                 \
		type result = plain->name arguments;         \
		sheltered--;                                 \
		return result;                               \
	}

SHELTERED(int, open, (wk_io * io, const char *path, uint32_t flags, wk_file **file), (io, path, flags, file))
SHELTERED(int64_t, pwrite, (wk_io * io, wk_file *file, const void *bytes, size_t size, uint64_t offset, uint32_t flags),
          (io, file, bytes, size, offset, flags))
SHELTERED(int, sync, (wk_io * io, wk_file *file), (io, file))
SHELTERED(int, allocate, (wk_io * io, wk_file *file, uint64_t size), (io, file, size))
SHELTERED(int, truncate, (wk_io * io, wk_file *file, uint64_t size), (io, file, size))
SHELTERED(int, map_shared, (wk_io * io, wk_file *file, size_t size, bool writable, void **address),
          (io, file, size, writable, address))
SHELTERED(int, make_directory, (wk_io * io, const char *path), (io, path))
SHELTERED(int, rename, (wk_io * io, const char *from, const char *to), (io, from, to))
SHELTERED(int, link, (wk_io * io, const char *from, const char *to), (io, from, to))
SHELTERED(int, unlink, (wk_io * io, const char *path), (io, path))
SHELTERED(int, sync_directory, (wk_io * io, const char *path), (io, path))
SHELTERED(int, space, (wk_io * io, const char *path, wk_io_space *space), (io, path, space))
SHELTERED(int, queue_new, (wk_io * io, uint32_t depth, wk_io_queue **queue), (io, depth, queue))
SHELTERED(int, queue_submit, (wk_io * io, wk_io_queue *queue, const wk_io_request *request), (io, queue, request))
SHELTERED(int, queue_wait,
          (wk_io * io, wk_io_queue *queue, wk_io_completion *out, uint32_t out_max, uint64_t timeout_ns),
          (io, queue, out, out_max, timeout_ns))

typedef struct listed {
	wk_io_list_fn fn;
	void *context;
} listed;

/* It is the engine's. */
static bool unsheltered_name(void *context, const char *name) {
	const listed *list = context;
	sheltered--;
	bool goes_on = list->fn(list->context, name);
	sheltered++;
	return goes_on;
}

static int sheltered_list(wk_io *io, const char *path, wk_io_list_fn fn, void *context) {
	listed list = {fn, context};
	sheltered++;
	int result = plain->list(io, path, unsheltered_name, &list);
	sheltered--;
	return result;
}

static void shelter(wk_io *io) {
	plain = io->operations;
	sheltered_operations = *plain;
	sheltered_operations.open = sheltered_open;
	sheltered_operations.pwrite = sheltered_pwrite;
	sheltered_operations.sync = sheltered_sync;
	sheltered_operations.allocate = sheltered_allocate;
	sheltered_operations.truncate = sheltered_truncate;
	sheltered_operations.map_shared = sheltered_map_shared;
	sheltered_operations.make_directory = sheltered_make_directory;
	sheltered_operations.rename = sheltered_rename;
	sheltered_operations.link = sheltered_link;
	sheltered_operations.unlink = sheltered_unlink;
	sheltered_operations.sync_directory = sheltered_sync_directory;
	sheltered_operations.list = sheltered_list;
	sheltered_operations.space = sheltered_space;
	sheltered_operations.queue_new = sheltered_queue_new;
	sheltered_operations.queue_submit = sheltered_queue_submit;
	sheltered_operations.queue_wait = sheltered_queue_wait;
	io->operations = &sheltered_operations;
}
#endif
