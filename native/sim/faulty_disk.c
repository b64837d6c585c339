/*
 * faulty_disk.c: events applied to a whole simulated disk: its files and its directories.
 *
 * A change to a directory is pending until sync_directory of that directory. A file's own sync says nothing about its
 * name.
 */
#include "sim/faulty_disk.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void add_node(wk_disk *disk, bool is_directory, uint32_t device);
static void add_change(wk_disk *disk, const wk_name_change *change);
static void sync_directory(wk_disk *disk, uint32_t directory);

void wk_disk_init(wk_disk *disk) {
	*disk = (wk_disk){0};
	add_node(disk, true, 0); /* WK_FAULTY_ROOT */
}

void wk_disk_free(wk_disk *disk) {
	for (size_t i = 0; i < disk->nodes_count; i++) {
		wk_contents_release(&disk->nodes[i].durable);
		free(disk->nodes[i].pending);
	}
	free(disk->nodes);
	free(disk->names.names);
	free(disk->changes);
}

void wk_disk_copy(wk_disk *disk, const wk_disk *from) {
	assert(from->changes_count == 0);
	*disk = (wk_disk){.nodes_count = from->nodes_count, .nodes_capacity = from->nodes_count};
	disk->nodes = wk_faulty_allocate(disk->nodes_count, sizeof *disk->nodes);
	disk->names = wk_names_copy(&from->names);
	for (size_t i = 0; i < disk->nodes_count; i++) {
		assert(from->nodes[i].pending_count == 0);
		disk->nodes[i].is_directory = from->nodes[i].is_directory;
		disk->nodes[i].device = from->nodes[i].device;
		disk->nodes[i].durable = wk_contents_share(&from->nodes[i].durable);
	}
}

void wk_disk_apply(wk_disk *disk, const wk_event *event, uint64_t number) {
	assert(event->node < disk->nodes_count);
	wk_disk_node *node = &disk->nodes[event->node];
	switch (event->kind) {
	case WK_EVENT_WRITE_BEGIN:
		wk_disk_node_begin_write(node, event, number);
		break;
	case WK_EVENT_WRITE_END:
		wk_disk_node_end_write(node, event, number);
		break;
	case WK_EVENT_RESIZE:
		wk_disk_node_resize(node, event->size, number);
		break;
	case WK_EVENT_SYNC:
		wk_disk_node_sync(node, event);
		break;
	case WK_EVENT_CHANGE:
		add_change(disk, event->change);
		break;
	case WK_EVENT_SYNC_DIRECTORY:
		sync_directory(disk, event->node);
		break;
	case WK_EVENT_CRASH:
		wk_disk_crash(disk, event->seed);
		break;
	}
}

static void add_node(wk_disk *disk, bool is_directory, uint32_t device) {
	disk->nodes = wk_faulty_grow(disk->nodes, disk->nodes_count, &disk->nodes_capacity, sizeof *disk->nodes);
	disk->nodes[disk->nodes_count++] = (wk_disk_node){.is_directory = is_directory, .device = device};
}

static void add_change(wk_disk *disk, const wk_name_change *change) {
	if (change->creates) {
		assert(change->to.node == disk->nodes_count);
		add_node(disk, change->is_directory, change->device);
	}
	disk->changes = wk_faulty_grow(disk->changes, disk->changes_count, &disk->changes_capacity, sizeof *disk->changes);
	disk->changes[disk->changes_count++] = change;
}

/*
 * All changes of this directory, and those of others that must come first: a rename between two directories is never
 * half done, and each directory's changes become durable in their order.
 */
static void sync_directory(wk_disk *disk, uint32_t directory) {
	bool *wanted = wk_faulty_allocate(disk->nodes_count, sizeof *wanted);
	bool *chosen = wk_faulty_allocate(disk->changes_count, sizeof *chosen);
	wanted[directory] = true;
	for (size_t i = disk->changes_count; i-- > 0;) {
		const wk_name_change *change = disk->changes[i];
		bool takes = change->from.text[0], sets = change->to.text[0];
		chosen[i] = (takes && wanted[change->from.directory]) || (sets && wanted[change->to.directory]);
		if (chosen[i] && takes)
			wanted[change->from.directory] = true;
		if (chosen[i] && sets)
			wanted[change->to.directory] = true;
	}
	size_t kept = 0;
	for (size_t i = 0; i < disk->changes_count; i++) {
		if (chosen[i])
			wk_names_change(&disk->names, disk->changes[i]);
		else
			disk->changes[kept++] = disk->changes[i];
	}
	disk->changes_count = kept;
	free(chosen);
	free(wanted);
}
