/*
 * faulty_file.c: handles of a simulated disk.
 */
#include "sim/faulty_state.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int resize(wk_faulty *faulty, wk_file *file, uint64_t size, bool shrinks);
static int64_t at_once(wk_io *io, wk_io_request asked);

int wk_faulty_open(wk_io *io, const char *path, uint32_t flags, wk_file **out) {
	wk_faulty *faulty = wk_faulty_enter(io);
	wk_place place;
	int error = wk_faulty_call(faulty, WK_FAULT_OPEN);
	if (!error)
		error = wk_faulty_resolve(faulty, path, &place);
	if (!error && flags & WK_IO_CREATE) {
		if (place.node != UINT32_MAX)
			error = -EEXIST;
		else if (wk_faulty_room(faulty, place.directory) == 0)
			error = -ENOSPC;
		else
			place.node = wk_faulty_create(faulty, &place, false);
	} else if (!error && place.node == UINT32_MAX) {
		error = -ENOENT;
	} else if (!error && flags & WK_IO_WRITE && faulty->disk.nodes[place.node].is_directory) {
		error = -EISDIR;
	}
	if (!error) {
		wk_file *file = wk_faulty_allocate(1, sizeof *file);
		*file = (wk_file){.node = place.node, .generation = faulty->generation, .flags = flags};
		file->next = faulty->files;
		file->link = &faulty->files;
		if (file->next)
			file->next->link = &file->next;
		faulty->files = file;
		*out = file;
	}
	wk_faulty_leave(faulty);
	return error;
}

void wk_faulty_close(wk_io *io, wk_file *file) {
	wk_faulty *faulty = wk_faulty_enter(io);
	*file->link = file->next;
	if (file->next)
		file->next->link = file->link;
	free(file);
	wk_faulty_leave(faulty);
}

int wk_faulty_file_check(const wk_faulty *faulty, const wk_file *file) {
	return file->generation == faulty->generation ? 0 : -EBADF;
}

static int64_t at_once(wk_io *io, wk_io_request asked) {
	wk_faulty *faulty = wk_faulty_enter(io);
	wk_faulty_request request = {.request = asked};
	wk_faulty_request_begin(faulty, &request);
	int64_t result = wk_faulty_request_end(faulty, &request);
	wk_faulty_leave(faulty);
	return result;
}

int64_t wk_faulty_pread(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	wk_io_request read = {.operation = WK_IO_OP_READ, .file = file, .buffer = buffer, .size = size, .offset = offset};
	return at_once(io, read);
}

int64_t wk_faulty_pwrite(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset, uint32_t flags) {
	wk_io_request write = {.operation = WK_IO_OP_WRITE,
	                       .file = file,
	                       .buffer = (void *)(uintptr_t)buffer, /* only read */
	                       .size = size,
	                       .offset = offset,
	                       .flags = flags};
	return at_once(io, write);
}

int wk_faulty_sync(wk_io *io, wk_file *file) {
	return (int)at_once(io, (wk_io_request){.operation = WK_IO_OP_SYNC, .file = file});
}

int wk_faulty_reserve(wk_io *io, wk_file *file, uint64_t size) {
	wk_faulty *faulty = wk_faulty_enter(io);
	int error = resize(faulty, file, size, false);
	wk_faulty_leave(faulty);
	return error;
}

/* A kill ends what was under way at once: some of it lands, in whole or in part. */
int wk_faulty_await_writes(wk_io *io, wk_file *file) {
	wk_faulty *faulty = wk_faulty_enter(io);
	int error = wk_faulty_file_check(faulty, file);
	wk_faulty_leave(faulty);
	return error;
}

int wk_faulty_truncate(wk_io *io, wk_file *file, uint64_t size) {
	wk_faulty *faulty = wk_faulty_enter(io);
	int error = resize(faulty, file, size, true);
	wk_faulty_leave(faulty);
	return error;
}

static int resize(wk_faulty *faulty, wk_file *file, uint64_t size, bool shrinks) {
	int error = wk_faulty_file_check(faulty, file);
	if (error)
		return error;
	if (!(file->flags & WK_IO_WRITE))
		return -EBADF;
	if (size > INT64_MAX)
		return -EINVAL;
	error = wk_faulty_call(faulty, WK_FAULT_ALLOCATE);
	wk_contents *contents = &faulty->nodes[file->node].contents;
	if (error || size == contents->size || (size < contents->size && !shrinks))
		return error;
	if (size > contents->size && size - contents->size > wk_faulty_room(faulty, file->node))
		return -ENOSPC;
	wk_contents_resize(contents, size);
	wk_faulty_record(faulty, (wk_event){.kind = WK_EVENT_RESIZE, .node = file->node, .size = size});
	return 0;
}

int wk_faulty_stat(wk_io *io, wk_file *file, wk_io_stat *stat) {
	wk_faulty *faulty = wk_faulty_enter(io);
	int error = wk_faulty_file_check(faulty, file);
	bool direct = file->flags & WK_IO_DIRECT;
	if (!error)
		*stat = (wk_io_stat){
		    .size = faulty->nodes[file->node].contents.size,
		    .owned = faulty->nodes[file->node].contents.size,
		    .links = wk_faulty_links(faulty, file->node),
		    .device = 1 + faulty->disk.nodes[file->node].device,
		    .inode = file->node + 1,
		    .alignment = direct ? WK_IO_ALIGNMENT : 1,
		    .direct = direct,
		};
	wk_faulty_leave(faulty);
	return error;
}

int wk_faulty_lock(wk_io *io, wk_file *file, bool exclusive) {
	wk_faulty *faulty = wk_faulty_enter(io);
	int error = wk_faulty_file_check(faulty, file);
	for (wk_file *other = faulty->files; !error && other; other = other->next) {
		if (other == file || other->node != file->node || wk_faulty_file_check(faulty, other) != 0)
			continue;
		if (other->locked)
			error = -EWOULDBLOCK;
	}
	if (!error)
		file->locked = exclusive;
	wk_faulty_leave(faulty);
	return error;
}

int wk_faulty_map_shared(wk_io *io, wk_file *file, size_t size, bool writable, void **address) {
	wk_faulty *faulty = wk_faulty_enter(io);
	wk_live_node *node = &faulty->nodes[file->node];
	int error = wk_faulty_file_check(faulty, file);
	if (!error && writable && !(file->flags & WK_IO_WRITE))
		error = -EACCES;
	if (!error && (size == 0 || (node->map && size > node->map_size)))
		error = -EINVAL; /* a map that grows would have to move */
	if (!error && !node->map) {
		node->map_size = (size + WK_IO_ALIGNMENT - 1) / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT;
		node->map = aligned_alloc(WK_IO_ALIGNMENT, node->map_size);
		if (!node->map)
			abort();
		memset(node->map, 0, node->map_size);
		wk_contents_read(&node->contents, 0, node->map, node->map_size);
	}
	if (!error)
		*address = node->map;
	wk_faulty_leave(faulty);
	return error;
}

void wk_faulty_unmap(wk_io *io, void *address, size_t size) {
	/* The page is the node's; others may still look at it. */
	(void)io;
	(void)address;
	(void)size;
}
