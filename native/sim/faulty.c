/*
 * faulty.c: a simulated disk as an implementation of the seam: its life, its clock, its generators.
 */
#include "sim/faulty_state.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NS_PER_US = 1000, NS_PER_S = 1000000000 };
static const uint64_t wall_start_ns = 1704067200ull * NS_PER_S; /* the first second of 2024 */

static const struct wk_io_operations operations;
static wk_faulty *faulty_new(uint64_t seed, const wk_disk *base);
static void load_live(wk_faulty *faulty);
static void release_live(wk_faulty *faulty);
static void all_handles_die(wk_faulty *faulty);

int wk_faulty_new(uint64_t seed, wk_io **io) {
	wk_disk empty;
	wk_disk_init(&empty);
	*io = &faulty_new(seed, &empty)->io;
	wk_disk_free(&empty);
	return 0;
}

static wk_faulty *faulty_new(uint64_t seed, const wk_disk *base) {
	wk_faulty *faulty = wk_faulty_allocate(1, sizeof *faulty);
	faulty->io.operations = &operations;
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&faulty->mutex, NULL);
	pthread_cond_init(&faulty->news, &monotonic);
	pthread_condattr_destroy(&monotonic);
	wk_disk_copy(&faulty->base, base);
	wk_disk_copy(&faulty->disk, base);
	faulty->clock_ns = NS_PER_S;
	for (uint32_t i = 0; i < WK_FAULTY_DEVICES_MAX; i++)
		faulty->capacity_bytes[i] = UINT64_MAX;
	/* One generator for each purpose, so that asking for one thing more does not change all the others. */
	faulty->random_landing = wk_faulty_chance(seed, 0);
	faulty->random_order = wk_faulty_chance(seed, 1);
	faulty->random_entropy = wk_faulty_chance(seed, 2);
	load_live(faulty);
	return faulty;
}

static void destroy(wk_io *io) {
	wk_faulty *faulty = wk_faulty_of(io);
	while (faulty->files)
		wk_faulty_close(io, faulty->files); /* of a process that was killed */
	while (faulty->queues)
		wk_faulty_queue_free(io, faulty->queues);
	release_live(faulty);
	for (size_t i = 0; i < faulty->old_maps_count; i++)
		free(faulty->old_maps[i]);
	free(faulty->old_maps);
	wk_disk_free(&faulty->disk);
	wk_disk_free(&faulty->base);
	for (size_t i = 0; i < faulty->events_count; i++) {
		free(faulty->events[i].bytes);
		free(faulty->events[i].change);
	}
	free(faulty->events);
	pthread_cond_destroy(&faulty->news);
	pthread_mutex_destroy(&faulty->mutex);
	free(faulty);
}

wk_faulty *wk_faulty_of(wk_io *io) {
	assert(strcmp(io->operations->name, operations.name) == 0); /* or a test's that stand before these */
	return (wk_faulty *)io;                                     /* its first member */
}

/* After the power has come back a reader sees what was durable. */
static void load_live(wk_faulty *faulty) {
	faulty->nodes_count = faulty->nodes_capacity = faulty->disk.nodes_count;
	faulty->nodes = wk_faulty_allocate(faulty->nodes_count, sizeof *faulty->nodes);
	for (size_t i = 0; i < faulty->nodes_count; i++)
		faulty->nodes[i].contents = wk_contents_share(&faulty->disk.nodes[i].durable);
	faulty->names = wk_names_copy(&faulty->disk.names);
}

static void release_live(wk_faulty *faulty) {
	for (size_t i = 0; i < faulty->nodes_count; i++) {
		wk_faulty_retire_map(faulty, &faulty->nodes[i]);
		wk_contents_release(&faulty->nodes[i].contents);
	}
	free(faulty->nodes);
	free(faulty->names.names);
}

void wk_faulty_retire_map(wk_faulty *faulty, wk_live_node *node) {
	if (!node->map)
		return;
	faulty->old_maps = wk_faulty_grow(faulty->old_maps, faulty->old_maps_count, &faulty->old_maps_capacity,
	                                  sizeof *faulty->old_maps);
	faulty->old_maps[faulty->old_maps_count++] = node->map;
	node->map = NULL;
}

wk_faulty *wk_faulty_enter(wk_io *io) {
	wk_faulty *faulty = wk_faulty_of(io);
	pthread_mutex_lock(&faulty->mutex);
	faulty->clock_ns += NS_PER_US;
	return faulty;
}

void wk_faulty_leave(wk_faulty *faulty) {
	pthread_mutex_unlock(&faulty->mutex);
}

uint64_t wk_faulty_record(wk_faulty *faulty, wk_event event) {
	faulty->events = wk_faulty_grow(faulty->events, faulty->events_count, &faulty->events_capacity,
	                                sizeof *faulty->events);
	faulty->events[faulty->events_count++] = event;
	wk_disk_apply(&faulty->disk, &event, faulty->events_count);
	return faulty->events_count;
}

void wk_faulty_crash(wk_faulty *faulty, uint64_t seed) {
	pthread_mutex_lock(&faulty->mutex);
	wk_faulty_record(faulty, (wk_event){.kind = WK_EVENT_CRASH, .seed = seed});
	release_live(faulty);
	load_live(faulty);
	all_handles_die(faulty);
	faulty->boots++;
	pthread_mutex_unlock(&faulty->mutex);
}

void wk_faulty_kill(wk_faulty *faulty) {
	pthread_mutex_lock(&faulty->mutex);
	for (wk_io_queue *queue = faulty->queues; queue; queue = queue->next)
		for (uint32_t i = 0; i < queue->in_flight; i++)
			wk_faulty_request_orphan(faulty, &queue->requests[i]);
	all_handles_die(faulty);
	pthread_mutex_unlock(&faulty->mutex);
}

static void all_handles_die(wk_faulty *faulty) {
	faulty->generation++;
	pthread_cond_broadcast(&faulty->news);
}

int wk_faulty_image(wk_faulty *faulty, uint64_t at, uint64_t seed, wk_io **io) {
	pthread_mutex_lock(&faulty->mutex);
	if (at > faulty->events_count) {
		pthread_mutex_unlock(&faulty->mutex);
		return -EINVAL;
	}
	wk_disk disk;
	wk_disk_copy(&disk, &faulty->base);
	for (uint64_t i = 0; i < at; i++)
		wk_disk_apply(&disk, &faulty->events[i], i + 1);
	wk_disk_crash(&disk, seed);
	wk_faulty *image = faulty_new(wk_faulty_chance(seed, at), &disk);
	image->clock_ns = faulty->clock_ns;
	image->wall_shift_ns = faulty->wall_shift_ns;
	image->boots = faulty->boots + 1;
	memcpy(image->capacity_bytes, faulty->capacity_bytes, sizeof image->capacity_bytes);
	image->flush_on_dsync = faulty->flush_on_dsync;
	pthread_mutex_unlock(&faulty->mutex);
	wk_disk_free(&disk);
	*io = &image->io;
	return 0;
}

uint64_t wk_faulty_trace_length(wk_faulty *faulty) {
	pthread_mutex_lock(&faulty->mutex);
	uint64_t length = faulty->events_count;
	pthread_mutex_unlock(&faulty->mutex);
	return length;
}

void wk_faulty_advance(wk_faulty *faulty, uint64_t ns) {
	pthread_mutex_lock(&faulty->mutex);
	faulty->clock_ns += ns;
	pthread_cond_broadcast(&faulty->news);
	pthread_mutex_unlock(&faulty->mutex);
}

static uint64_t now(wk_io *io) {
	wk_faulty *faulty = wk_faulty_enter(io);
	uint64_t ns = faulty->clock_ns;
	wk_faulty_leave(faulty);
	return ns;
}

static uint64_t wall(wk_io *io) {
	wk_faulty *faulty = wk_faulty_enter(io);
	uint64_t ns = wall_start_ns + faulty->clock_ns + (uint64_t)faulty->wall_shift_ns;
	wk_faulty_leave(faulty);
	return ns;
}

void wk_faulty_shift_wall(wk_faulty *faulty, int64_t by_ns) {
	pthread_mutex_lock(&faulty->mutex);
	faulty->wall_shift_ns += by_ns;
	pthread_mutex_unlock(&faulty->mutex);
}

static int entropy(wk_io *io, void *bytes, size_t size) {
	wk_faulty *faulty = wk_faulty_enter(io);
	for (size_t i = 0; i < size; i++)
		((uint8_t *)bytes)[i] = (uint8_t)wk_faulty_random(&faulty->random_entropy);
	wk_faulty_leave(faulty);
	return 0;
}

static int boot_id(wk_io *io, uint8_t id[16]) {
	wk_faulty *faulty = wk_faulty_enter(io);
	memset(id, 0x5a, 16);
	memcpy(id, &faulty->boots, sizeof faulty->boots);
	wk_faulty_leave(faulty);
	return 0;
}

static void queue_forked(wk_io *io, wk_io_queue *queue) {
	(void)io;
	(void)queue; /* the child has a disk of its own */
}

static char *absolute(wk_io *io, const char *path) {
	(void)io;
	return strdup(path);
}

/* There is no working directory here, and no directory is renamed. */
static int hold(wk_io *io, const char *path) {
	(void)io, (void)path;
	return 0;
}

static void let_go(wk_io *io, const char *path) {
	(void)io, (void)path;
}

static wk_io *outside(wk_io *io) {
	return io;
}

static const struct wk_io_operations operations = {
    .name = "faulty",
    .destroy = destroy,
    .absolute = absolute,
    .hold = hold,
    .let_go = let_go,
    .outside = outside,
    .open = wk_faulty_open,
    .close = wk_faulty_close,
    .pread = wk_faulty_pread,
    .pwrite = wk_faulty_pwrite,
    .sync = wk_faulty_sync,
    .allocate = wk_faulty_reserve,
    .await_writes = wk_faulty_await_writes,
    .truncate = wk_faulty_truncate,
    .stat = wk_faulty_stat,
    .lock = wk_faulty_lock,
    .map_shared = wk_faulty_map_shared,
    .unmap = wk_faulty_unmap,
    .make_directory = wk_faulty_make_directory,
    .rename = wk_faulty_rename,
    .link = wk_faulty_link,
    .unlink = wk_faulty_unlink,
    .sync_directory = wk_faulty_sync_directory,
    .list = wk_faulty_list,
    .space = wk_faulty_space,
    .now = now,
    .wall = wall,
    .entropy = entropy,
    .boot_id = boot_id,
    .queue_new = wk_faulty_queue_new,
    .queue_free = wk_faulty_queue_free,
    .queue_submit = wk_faulty_queue_submit,
    .queue_wait = wk_faulty_queue_wait,
    .queue_wake = wk_faulty_queue_wake,
    .queue_notify = wk_faulty_queue_notify,
    .queue_forked = queue_forked,
};
