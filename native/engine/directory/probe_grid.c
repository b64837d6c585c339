#include "engine/directory/probe_grid.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/directory/superblock_file.h"

enum { METHODS = 2, DEPTHS = 4, SIZES = 2, CELLS = METHODS * DEPTHS * SIZES };
enum { DEPTH_MAX = 8, SIZE_MAX_ = 64 * 1024, FILE_BYTES = 2 * DEPTH_MAX * SIZE_MAX_, ROUNDS = 9 };
enum { IDLE_NS = 1000 * 1000 * 1000, PAUSE_NS = 20 * 1000 * 1000, PAUSE_TIMES = 4 };

static const uint32_t depths[DEPTHS] = {1, 2, 4, 8};
static const uint32_t sizes[SIZES] = {4096, SIZE_MAX_};

/* A measurement under way. */
struct wk_grid_probe {
	wk_io *io;
	wk_io_queue *queue;
	wk_file *file;
	char *path;
	uint8_t *bytes;
	wk_probe_grid grid;
	uint32_t cell, round;
	uint64_t times[ROUNDS];
	uint64_t due_ns;
};

/* ---- choosing ---- */

bool wk_probe_grid_is_whole(const wk_probe_grid *grid) {
	for (uint32_t i = 0; i < CELLS; i++)
		if ((&grid->block_ns[0][0][0])[i] == 0)
			return false;
	return true;
}

/*
 * What `window` bytes take in blocks of an equal share, so many at once. The time of a block is taken for a line over
 * its size.
 */
static double cost(const wk_probe_grid *grid, uint32_t method, uint32_t depth, double window) {
	double small = grid->block_ns[method][depth][0], large = grid->block_ns[method][depth][1];
	double byte = large > small ? (large - small) / (sizes[1] - sizes[0]) : 0;
	double start = small - byte * sizes[0];
	return depths[depth] * (start > 0 ? start : 0) + byte * window;
}

/*
 * Two, so that one block fills while another flies; more only where that makes much work quicker by a sixth and does
 * not cost a little work more than a quarter.
 */
static uint32_t choose_depth(const wk_probe_grid *grid, uint32_t method) {
	const double little = 64 * 1024, much = 1024 * 1024;
	uint32_t best = 1;
	for (uint32_t depth = 2; depth < DEPTHS; depth++)
		if (cost(grid, method, depth, much) < 0.85 * cost(grid, method, best, much) &&
		    cost(grid, method, depth, little) < 1.25 * cost(grid, method, 1, little))
			best = depth;
	return best;
}

void wk_probe_choose(const wk_probe_grid *grid, uint32_t *sync_method, uint32_t *blocks_in_flight) {
	*sync_method = WK_SYNC_PROBE;
	*blocks_in_flight = WK_PROBE_IN_FLIGHT_DEFAULT;
	if (!wk_probe_grid_is_whole(grid))
		return;
	double lone[METHODS], busy[METHODS];
	uint32_t depth[METHODS];
	for (uint32_t method = 0; method < METHODS; method++) {
		depth[method] = choose_depth(grid, method);
		lone[method] = grid->block_ns[method][0][0];
		busy[method] = cost(grid, method, depth[method], 1024 * 1024);
	}
	/* Lone appends and much work count the same. A tenth of a difference is noise; then one call is better than two. */
	double ratio = lone[0] / lone[1] + busy[0] / (busy[1] > 0 ? busy[1] : 1);
	uint32_t method = ratio <= 2.2 ? 0 : 1;
	*sync_method = method == 0 ? WK_SYNC_DSYNC : WK_SYNC_WRITE_THEN_SYNC;
	*blocks_in_flight = depths[depth[method]];
}

/* ---- measuring ---- */

static void end(struct wk_grid_probe *probe) {
	if (probe->queue != NULL)
		probe->io->operations->queue_free(probe->io, probe->queue);
	if (probe->file != NULL) {
		probe->io->operations->close(probe->io, probe->file);
		probe->io->operations->unlink(probe->io, probe->path);
	}
	free(probe->path);
	free(probe->bytes);
	free(probe);
}

/* A file that was written before, as the journal's are. */
static int begin(wk_io *io, const char *folder, struct wk_grid_probe **begun) {
	struct wk_grid_probe *probe = calloc(1, sizeof *probe);
	if (probe == NULL)
		return -ENOMEM;
	probe->io = io;
	size_t size = strlen(folder) + 64;
	probe->path = malloc(size);
	probe->bytes = aligned_alloc(WK_IO_ALIGNMENT, FILE_BYTES);
	int64_t result = probe->path != NULL && probe->bytes != NULL ? 0 : -ENOMEM;
	if (result == 0) {
		snprintf(probe->path, size, "%s/probe-%lld.tmp", folder, (long long)wk_process_id());
		memset(probe->bytes, 0xA5, FILE_BYTES);
		io->operations->unlink(io, probe->path);
		result = io->operations->open(io, probe->path, WK_IO_WRITE | WK_IO_CREATE | WK_IO_DIRECT, &probe->file);
	}
	if (result == 0)
		result = io->operations->pwrite(io, probe->file, probe->bytes, FILE_BYTES, 0, 0);
	if (result >= 0)
		result = io->operations->sync(io, probe->file);
	if (result == 0)
		result = io->operations->queue_new(io, DEPTH_MAX, &probe->queue);
	if (result < 0)
		end(probe);
	else
		*begun = probe;
	return result < 0 ? (int)result : 0;
}

static uint32_t *cell_of(struct wk_grid_probe *probe, uint32_t *method, uint32_t *depth, uint32_t *size) {
	*size = probe->cell % SIZES;
	*depth = probe->cell / SIZES % DEPTHS;
	*method = probe->cell / SIZES / DEPTHS;
	return &probe->grid.block_ns[*method][*depth][*size];
}

/* So many blocks at once, durable; what that took, or -errno. */
static int64_t one_round(struct wk_grid_probe *probe) {
	uint32_t method, depth, size;
	cell_of(probe, &method, &depth, &size);
	wk_io *io = probe->io;
	uint64_t base = (uint64_t)(probe->round % 2) * DEPTH_MAX * SIZE_MAX_, begin_ns = io->operations->now(io);
	int64_t result = 0;
	uint32_t submitted = 0;
	for (; submitted < depths[depth] && result == 0; submitted += result == 0)
		result = io->operations->queue_submit(io, probe->queue,
		                                      &(wk_io_request){.operation = WK_IO_OP_WRITE,
		                                                       .file = probe->file,
		                                                       .buffer = probe->bytes + (size_t)submitted * sizes[size],
		                                                       .size = sizes[size],
		                                                       .offset = base + (uint64_t)submitted * sizes[size],
		                                                       .flags = method == 0 ? WK_IO_DSYNC : 0});
	for (uint32_t done = 0; done < submitted;) {
		wk_io_completion completions[DEPTH_MAX];
		int count = io->operations->queue_wait(io, probe->queue, completions, DEPTH_MAX, UINT64_MAX);
		if (count < 0)
			return count;
		for (int i = 0; i < count; i++)
			result = completions[i].result < 0 ? completions[i].result : result;
		done += (uint32_t)count;
	}
	if (result == 0 && method == 1)
		result = io->operations->sync(io, probe->file);
	return result < 0 ? result : (int64_t)(io->operations->now(io) - begin_ns);
}

static int by_value(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* The median of a cell's rounds, a block. True: that was the last cell. */
static bool count_round(struct wk_grid_probe *probe, uint64_t took) {
	probe->times[probe->round++] = took;
	if (probe->round < ROUNDS)
		return false;
	uint32_t method, depth, size;
	uint32_t *cell = cell_of(probe, &method, &depth, &size);
	qsort(probe->times, ROUNDS, sizeof probe->times[0], by_value);
	uint64_t block = probe->times[ROUNDS / 2] / depths[depth];
	*cell = block == 0 ? 1 : block > UINT32_MAX ? UINT32_MAX : (uint32_t)block;
	probe->round = 0;
	return ++probe->cell == CELLS;
}

int wk_probe_grid_measure(wk_io *io, const char *path, wk_probe_grid *grid) {
	*grid = (wk_probe_grid){0};
	struct wk_grid_probe *probe;
	int64_t result = begin(io, path, &probe);
	if (result < 0)
		return (int)result;
	do
		result = one_round(probe);
	while (result >= 0 && !count_round(probe, (uint64_t)result));
	*grid = probe->grid;
	end(probe);
	return result < 0 ? (int)result : 0;
}

/* ---- in idle time ---- */

static bool is_wanted(const wk_engine *engine) {
	return engine->grid_wanted && !engine->failed && !engine->closing && !engine->disk_full && !engine->space_low;
}

static bool is_idle(wk_engine *engine, uint64_t now) {
	return wk_block_is_empty(&engine->open) && engine->durable + 1 == engine->open.sequence && !engine->sealing &&
	       now >= __atomic_load_n(&engine->last_activity_ns, __ATOMIC_RELAXED) + IDLE_NS;
}

/* (locked, dropped) */
static void note(wk_engine *engine, const wk_probe_grid *grid) {
	wk_engine_unlock(engine);
	pthread_mutex_lock(&engine->file_id_lock);
	wk_superblock *superblock = &engine->superblock;
	superblock->grid = *grid;
	wk_probe_choose(grid, &superblock->sync_method, &superblock->blocks_in_flight);
	wk_error error;
	wk_superblock_store(engine, &error); /* where it fails the old values stand, and the next write of it says so */
	pthread_mutex_unlock(&engine->file_id_lock);
	wk_engine_lock(engine);
	engine->grid_wanted = false;
}

/* (locked, dropped) */
static void stop(wk_engine *engine) {
	wk_engine_unlock(engine);
	wk_probe_grid_stop(engine);
	wk_engine_lock(engine);
}

bool wk_probe_grid_step(wk_engine *engine) {
	uint64_t now = wk_engine_now(engine);
	if (engine->grid_probe != NULL && (engine->disk_full || engine->space_low)) {
		stop(engine); /* its file's space is wanted: it begins anew when there is more */
		return true;
	}
	if (!is_wanted(engine) || now < engine->grid_due_ns || !is_idle(engine, now))
		return false;
	uint64_t before = engine->open.sequence;
	int64_t result = 0;
	wk_engine_unlock(engine);
	if (engine->grid_probe == NULL) {
		char *folder = wk_engine_path(engine, "journal");
		result = folder != NULL ? begin(engine->io, folder, &engine->grid_probe) : -ENOMEM;
		free(folder);
	} else {
		result = one_round(engine->grid_probe);
	}
	uint64_t took = wk_engine_now(engine) - now;
	wk_engine_lock(engine);
	engine->grid_due_ns = now + took + PAUSE_NS + PAUSE_TIMES * took;
	bool undisturbed = engine->open.sequence == before && wk_block_is_empty(&engine->open);
	if (result < 0) {
		engine->grid_wanted =
		    false; /* no space, or a disk that fails: not for this to find out. The next open tries again */
	} else if (result > 0 && undisturbed && count_round(engine->grid_probe, (uint64_t)result)) {
		wk_probe_grid grid = engine->grid_probe->grid;
		note(engine, &grid);
	}
	if (!engine->grid_wanted)
		stop(engine);
	return true;
}

uint64_t wk_probe_grid_deadline(const wk_engine *engine) {
	if (!is_wanted(engine))
		return UINT64_MAX;
	uint64_t idle = __atomic_load_n(&engine->last_activity_ns, __ATOMIC_RELAXED) + IDLE_NS;
	return idle > engine->grid_due_ns ? idle : engine->grid_due_ns;
}

void wk_probe_grid_stop(wk_engine *engine) {
	struct wk_grid_probe *probe = engine->grid_probe;
	engine->grid_probe = NULL;
	if (probe != NULL)
		end(probe);
}
