/*
 * faulty_path.c: paths of a simulated disk. The process' own directory is the root, and above itself.
 */
#include "sim/faulty_state.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { EXT4_MAGIC = 0xef53 };
static const uint64_t unlimited_bytes = 1ull << 40; /* what a disk without a capacity says of itself */

static void change(wk_faulty *faulty, wk_name_change what);
static wk_name name_at(const wk_place *place, uint32_t node);
static uint32_t device_of(const wk_faulty *faulty, uint32_t node);

/* Of a directory there is one name. */
static void go_up(const wk_faulty *faulty, wk_place *place) {
	const wk_name *name = wk_names_of(&faulty->names, place->node);
	*place = (wk_place){.directory = WK_FAULTY_ROOT, .node = name ? name->directory : WK_FAULTY_ROOT};
}

int wk_faulty_resolve(const wk_faulty *faulty, const char *path, wk_place *place) {
	*place = (wk_place){.directory = WK_FAULTY_ROOT, .node = WK_FAULTY_ROOT};
	while (true) {
		path += strspn(path, "/");
		size_t size = strcspn(path, "/");
		if (size == 0)
			return 0;
		if (size == 1 && path[0] == '.') {
			path += size;
			continue;
		}
		if (size > WK_FAULTY_NAME_MAX)
			return -ENAMETOOLONG;
		if (place->node == UINT32_MAX)
			return -ENOENT;
		if (!faulty->disk.nodes[place->node].is_directory)
			return -ENOTDIR;
		if (size == 2 && memcmp(path, "..", 2) == 0) {
			go_up(faulty, place);
			path += size;
			continue;
		}
		place->directory = place->node;
		memcpy(place->text, path, size);
		place->text[size] = 0;
		const wk_name *found = wk_names_find(&faulty->names, place->directory, place->text);
		place->node = found ? found->node : UINT32_MAX;
		path += size;
	}
}

int wk_faulty_find(const wk_faulty *faulty, const char *path, bool directory, uint32_t *node) {
	wk_place place;
	int error = wk_faulty_resolve(faulty, path, &place);
	if (error)
		return error;
	if (place.node == UINT32_MAX)
		return -ENOENT;
	*node = place.node;
	bool found = faulty->disk.nodes[place.node].is_directory;
	return found == directory ? 0 : found ? -EISDIR : -ENOTDIR;
}

uint32_t wk_faulty_create(wk_faulty *faulty, const wk_place *place, bool is_directory) {
	uint32_t node = (uint32_t)faulty->nodes_count;
	faulty->nodes = wk_faulty_grow(faulty->nodes, faulty->nodes_count, &faulty->nodes_capacity, sizeof *faulty->nodes);
	faulty->nodes[faulty->nodes_count++] = (wk_live_node){0};
	change(faulty, (wk_name_change){
	                   .to = name_at(place, node),
	                   .creates = true,
	                   .is_directory = is_directory,
	                   .device = device_of(faulty, place->directory),
	               });
	return node;
}

static void change(wk_faulty *faulty, wk_name_change what) {
	wk_name_change *kept = wk_faulty_allocate(1, sizeof *kept);
	*kept = what;
	wk_names_change(&faulty->names, kept);
	wk_faulty_record(faulty, (wk_event){.kind = WK_EVENT_CHANGE, .change = kept});
}

static uint32_t device_of(const wk_faulty *faulty, uint32_t node) {
	return faulty->disk.nodes[node].device;
}

static void make_durable(wk_disk *disk, const wk_name_change *made) {
	wk_event change = {.kind = WK_EVENT_CHANGE, .change = (wk_name_change *)(uintptr_t)made}; /* only read */
	wk_event sync = {.kind = WK_EVENT_SYNC_DIRECTORY, .node = made->to.directory};
	wk_disk_apply(disk, &change, 1);
	wk_disk_apply(disk, &sync, 2);
}

/* No event: it was there before the first one. */
void wk_faulty_mount(wk_faulty *faulty, const char *path) {
	pthread_mutex_lock(&faulty->mutex);
	wk_place place;
	int error = wk_faulty_resolve(faulty, path, &place);
	assert(error == 0 && place.node == UINT32_MAX && faulty->events_count == 0);
	(void)error;
	wk_name_change made = {
	    .to = name_at(&place, (uint32_t)faulty->nodes_count),
	    .creates = true,
	    .is_directory = true,
	    .device = WK_FAULTY_DEVICES_MAX - 1,
	};
	faulty->nodes = wk_faulty_grow(faulty->nodes, faulty->nodes_count, &faulty->nodes_capacity, sizeof *faulty->nodes);
	faulty->nodes[faulty->nodes_count++] = (wk_live_node){0};
	wk_names_change(&faulty->names, &made);
	make_durable(&faulty->disk, &made);
	make_durable(&faulty->base, &made);
	pthread_mutex_unlock(&faulty->mutex);
}

static wk_name name_at(const wk_place *place, uint32_t node) {
	wk_name name = {.directory = place->directory, .node = node};
	memcpy(name.text, place->text, sizeof name.text);
	return name;
}

int wk_faulty_make_directory(wk_io *io, const char *path) {
	wk_faulty *faulty = wk_faulty_enter(io);
	wk_place place;
	int error = wk_faulty_call(faulty, WK_FAULT_DIRECTORY);
	if (!error)
		error = wk_faulty_resolve(faulty, path, &place);
	if (!error && place.node != UINT32_MAX)
		error = -EEXIST;
	if (!error)
		wk_faulty_create(faulty, &place, true);
	wk_faulty_leave(faulty);
	return error;
}

int wk_faulty_rename(wk_io *io, const char *from, const char *to) {
	wk_faulty *faulty = wk_faulty_enter(io);
	wk_place source, target;
	int error = wk_faulty_call(faulty, WK_FAULT_DIRECTORY);
	if (!error)
		error = wk_faulty_resolve(faulty, from, &source);
	if (!error && source.node == UINT32_MAX)
		error = -ENOENT;
	if (!error)
		error = wk_faulty_resolve(faulty, to, &target);
	if (!error && source.node == WK_FAULTY_ROOT)
		error = -EBUSY;
	if (!error && device_of(faulty, source.node) != device_of(faulty, target.directory))
		error = -EXDEV;
	if (!error && target.node != UINT32_MAX && target.node != source.node) {
		bool moves_directory = faulty->disk.nodes[source.node].is_directory;
		size_t first = wk_names_first(&faulty->names, target.node);
		bool empty = first == faulty->names.count || faulty->names.names[first].directory != target.node;
		if (moves_directory != faulty->disk.nodes[target.node].is_directory)
			error = moves_directory ? -ENOTDIR : -EISDIR;
		else if (moves_directory && !empty)
			error = -ENOTEMPTY;
	}
	if (!error && target.node != source.node) /* two names of one file: POSIX says that nothing happens */
		change(faulty, (wk_name_change){.from = name_at(&source, source.node), .to = name_at(&target, source.node)});
	wk_faulty_leave(faulty);
	return error;
}

int wk_faulty_link(wk_io *io, const char *from, const char *to) {
	wk_faulty *faulty = wk_faulty_enter(io);
	wk_place source, target;
	int error = wk_faulty_call(faulty, WK_FAULT_DIRECTORY);
	if (!error)
		error = wk_faulty_resolve(faulty, from, &source);
	if (!error && source.node == UINT32_MAX)
		error = -ENOENT;
	if (!error && faulty->disk.nodes[source.node].is_directory)
		error = -EPERM;
	if (!error)
		error = wk_faulty_resolve(faulty, to, &target);
	if (!error && target.node != UINT32_MAX)
		error = -EEXIST;
	if (!error && device_of(faulty, source.node) != device_of(faulty, target.directory))
		error = -EXDEV;
	if (!error)
		change(faulty, (wk_name_change){.to = name_at(&target, source.node)});
	wk_faulty_leave(faulty);
	return error;
}

int wk_faulty_unlink(wk_io *io, const char *path) {
	wk_faulty *faulty = wk_faulty_enter(io);
	wk_place place;
	int error = wk_faulty_call(faulty, WK_FAULT_DIRECTORY);
	if (!error)
		error = wk_faulty_resolve(faulty, path, &place);
	if (!error && place.node == UINT32_MAX)
		error = -ENOENT;
	if (!error && faulty->disk.nodes[place.node].is_directory)
		error = -EISDIR;
	if (!error)
		change(faulty, (wk_name_change){.from = name_at(&place, place.node)});
	wk_faulty_leave(faulty);
	return error;
}

int wk_faulty_sync_directory(wk_io *io, const char *path) {
	wk_faulty *faulty = wk_faulty_enter(io);
	uint32_t node;
	int error = wk_faulty_call(faulty, WK_FAULT_DIRECTORY);
	if (!error)
		error = wk_faulty_find(faulty, path, true, &node);
	if (!error)
		wk_faulty_record(faulty, (wk_event){.kind = WK_EVENT_SYNC_DIRECTORY, .node = node});
	wk_faulty_leave(faulty);
	return error;
}

/* The names are taken first and told without the mutex: the callback may come back to this disk. */
int wk_faulty_list(wk_io *io, const char *path, wk_io_list_fn fn, void *context) {
	wk_faulty *faulty = wk_faulty_enter(io);
	uint32_t node;
	wk_names copy = {0};
	size_t first = 0, last = 0;
	int error = wk_faulty_call(faulty, WK_FAULT_DIRECTORY);
	if (!error)
		error = wk_faulty_find(faulty, path, true, &node);
	if (!error) {
		first = wk_names_first(&faulty->names, node);
		last = wk_names_first(&faulty->names, node + 1);
		copy = wk_names_copy(&faulty->names);
	}
	wk_faulty_leave(faulty);
	for (size_t i = first; i < last && fn(context, copy.names[i].text);)
		i++;
	free(copy.names);
	return error;
}

int wk_faulty_space(wk_io *io, const char *path, wk_io_space *space) {
	wk_faulty *faulty = wk_faulty_enter(io);
	wk_place place;
	int error = wk_faulty_resolve(faulty, path, &place);
	if (!error && place.node == UINT32_MAX)
		error = -ENOENT;
	uint32_t device = error ? 0 : device_of(faulty, place.node);
	uint64_t capacity = faulty->capacity_bytes[device], used = wk_faulty_used(faulty, device);
	uint64_t total = capacity == UINT64_MAX ? unlimited_bytes : capacity;
	if (!error)
		*space = (wk_io_space){.free_bytes = total > used ? total - used : 0, .total_bytes = total, .type = EXT4_MAGIC};
	wk_faulty_leave(faulty);
	return error;
}

uint64_t wk_faulty_links(const wk_faulty *faulty, uint32_t node) {
	uint64_t links = 0;
	for (size_t i = 0; i < faulty->names.count; i++)
		links += faulty->names.names[i].node == node;
	return links;
}

/* A file takes room while it has a name or is open. */
uint64_t wk_faulty_used(const wk_faulty *faulty, uint32_t device) {
	bool *held = wk_faulty_allocate(faulty->nodes_count, sizeof *held);
	for (size_t i = 0; i < faulty->names.count; i++)
		held[faulty->names.names[i].node] = true;
	for (const wk_file *file = faulty->files; file; file = file->next)
		held[file->node] |= wk_faulty_file_check(faulty, file) == 0;
	uint64_t bytes = 0;
	for (size_t i = 0; i < faulty->nodes_count; i++)
		bytes += held[i] && device_of(faulty, (uint32_t)i) == device ? faulty->nodes[i].contents.size : 0;
	free(held);
	return bytes;
}

uint64_t wk_faulty_room(const wk_faulty *faulty, uint32_t node) {
	uint32_t device = device_of(faulty, node);
	uint64_t capacity = faulty->capacity_bytes[device];
	uint64_t used = capacity == UINT64_MAX ? 0 : wk_faulty_used(faulty, device);
	return capacity == UINT64_MAX ? UINT64_MAX : capacity > used ? capacity - used : 0;
}
