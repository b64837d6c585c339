/*
 * faulty_node.c: one file of a simulated disk: what is durable, and what is pending.
 *
 * A write that completed is pending until a sync that was called after its completion succeeds. A DSYNC write is
 * durable at once, but speaks for its own bytes only. It also ends what older writes could still do to these bytes: a
 * sector that was overwritten durably never shows an older pending write again.
 */
#include "sim/faulty_disk.h"
#include <assert.h>
#include <string.h>

static void insert(wk_disk_node *node, size_t index, wk_pending pending);
static void take(wk_disk_node *node, size_t index);
static wk_pending piece(const wk_pending *write, uint64_t from, uint64_t to);
static uint64_t sectors_count(const wk_pending *write);
static wk_pending sector_of(const wk_pending *write, uint64_t index);
static void make_durable(wk_disk_node *node, const wk_pending *write);
static void make_resizes_durable(wk_disk_node *node, uint64_t before);
static void forget(wk_disk_node *node, uint64_t offset, uint64_t end, uint64_t before);

void wk_disk_node_begin_write(wk_disk_node *node, const wk_event *event, uint64_t number) {
	wk_pending write = {.begin = number, .offset = event->offset, .size = event->size, .bytes = event->bytes};
	insert(node, node->pending_count, write);
}

void wk_disk_node_end_write(wk_disk_node *node, const wk_event *event, uint64_t number) {
	size_t i = 0;
	while (i < node->pending_count && !(node->pending[i].begin == event->begin && node->pending[i].end == 0))
		i++;
	assert(i < node->pending_count); /* a write ends once, after it began */
	wk_pending write = node->pending[i];
	take(node, i);
	write.end = number;
	if (event->flush)
		wk_disk_node_sync(node, &(wk_event){.covers = write.begin});
	if (event->outcome == WK_OUTCOME_WHOLE && event->durable)
		make_durable(node, &write);
	else if (event->outcome == WK_OUTCOME_WHOLE)
		insert(node, node->pending_count, write);
	else if (event->outcome == WK_OUTCOME_PART)
		for (uint64_t sector = 0; sector < sectors_count(&write); sector++)
			if (wk_faulty_sector_survives(event->seed, sector, sectors_count(&write)))
				insert(node, node->pending_count, sector_of(&write, sector));
}

void wk_disk_node_resize(wk_disk_node *node, uint64_t size, uint64_t number) {
	insert(node, node->pending_count, (wk_pending){.is_resize = true, .begin = number, .end = number, .size = size});
}

/*
 * Success: all that completed before the call is durable. Failure: the kernel has marked it clean all the same, so a
 * second sync will say "done" about bytes of which some were never written.
 */
void wk_disk_node_sync(wk_disk_node *node, const wk_event *event) {
	size_t kept = 0;
	for (size_t i = 0; i < node->pending_count; i++) {
		wk_pending pending = node->pending[i];
		if (pending.end == 0 || pending.end > event->covers)
			node->pending[kept++] = pending;
		else if (!event->failed || wk_faulty_chance(event->seed, pending.end) & 1)
			wk_pending_land(&pending, &node->durable);
	}
	node->pending_count = kept;
}

void wk_pending_land(const wk_pending *pending, wk_contents *contents) {
	if (pending->is_resize)
		wk_contents_resize(contents, pending->size);
	else
		wk_contents_write(contents, pending->offset, pending->bytes, pending->size);
}

void wk_pending_land_torn(const wk_pending *write, wk_contents *contents, uint64_t seed) {
	assert(!write->is_resize); /* a size is metadata, and that is journalled */
	for (uint64_t i = 0; i < sectors_count(write); i++) {
		wk_pending sector = sector_of(write, i);
		if (wk_faulty_sector_survives(seed, i, sectors_count(write)))
			wk_pending_land(&sector, contents);
	}
}

static void insert(wk_disk_node *node, size_t index, wk_pending pending) {
	size_t count = node->pending_count++;
	node->pending = wk_faulty_grow(node->pending, count, &node->pending_capacity, sizeof *node->pending);
	memmove(&node->pending[index + 1], &node->pending[index], (count - index) * sizeof *node->pending);
	node->pending[index] = pending;
}

static void take(wk_disk_node *node, size_t index) {
	size_t count = --node->pending_count;
	memmove(&node->pending[index], &node->pending[index + 1], (count - index) * sizeof *node->pending);
}

/* The part of a write between two offsets inside it. */
static wk_pending piece(const wk_pending *write, uint64_t from, uint64_t to) {
	assert(write->offset <= from && from < to && to <= write->offset + write->size);
	wk_pending part = *write;
	part.offset = from;
	part.size = to - from;
	if (write->bytes)
		part.bytes = write->bytes + (from - write->offset);
	return part;
}

/* Sectors are the disk's, not the write's: the first and the last may be cut by the write's own ends. */
static uint64_t sectors_count(const wk_pending *write) {
	uint64_t end = write->offset + write->size;
	return write->size == 0 ? 0 : (end - 1) / WK_FAULTY_SECTOR - write->offset / WK_FAULTY_SECTOR + 1;
}

static wk_pending sector_of(const wk_pending *write, uint64_t index) {
	uint64_t from = (write->offset / WK_FAULTY_SECTOR + index) * WK_FAULTY_SECTOR, to = from + WK_FAULTY_SECTOR;
	uint64_t end = write->offset + write->size;
	return piece(write, from < write->offset ? write->offset : from, to > end ? end : to);
}

static void make_durable(wk_disk_node *node, const wk_pending *write) {
	make_resizes_durable(node, write->begin); /* the metadata that is needed to read the bytes goes with them */
	forget(node, write->offset, write->offset + write->size, write->begin);
	wk_pending_land(write, &node->durable);
}

static void make_resizes_durable(wk_disk_node *node, uint64_t before) {
	for (size_t i = 0; i < node->pending_count;) {
		wk_pending resize = node->pending[i];
		if (!resize.is_resize || resize.end >= before) {
			i++;
			continue;
		}
		take(node, i);
		forget(node, resize.size, UINT64_MAX, resize.end); /* what was cut off does not come back */
		wk_pending_land(&resize, &node->durable);
		i = 0; /* the list is another now */
	}
}

/* Writes that completed before `before` can no longer change [offset, end). */
static void forget(wk_disk_node *node, uint64_t offset, uint64_t end, uint64_t before) {
	for (size_t i = 0; i < node->pending_count;) {
		wk_pending old = node->pending[i];
		uint64_t old_end = old.offset + old.size;
		if (old.is_resize || old.end == 0 || old.end >= before || old_end <= offset || old.offset >= end) {
			i++;
			continue;
		}
		take(node, i);
		if (old_end > end)
			insert(node, i, piece(&old, end, old_end));
		if (old.offset < offset)
			insert(node, i, piece(&old, old.offset, offset)); /* both keep their place in the order */
	}
}
