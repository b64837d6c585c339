#include "engine/directory/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/directory/probe_grid.h"

enum { ROUNDS_MAX = 101, FILE_BLOCKS = 16, BUDGET_NS = 20 * 1000 * 1000 };

static int by_value(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* One durable write of a block; both ways write over space that was written before, as the journal does. */
static int64_t one_round(wk_io *io, wk_file *file, uint8_t *block, uint32_t round, bool dsync) {
	uint64_t begin = io->operations->now(io);
	int64_t result = io->operations->pwrite(io, file, block, WK_IO_ALIGNMENT,
	                                        (uint64_t)(round % FILE_BLOCKS) * WK_IO_ALIGNMENT, dsync ? WK_IO_DSYNC : 0);
	if (result >= 0 && !dsync)
		result = io->operations->sync(io, file);
	return result < 0 ? result : (int64_t)(io->operations->now(io) - begin);
}

static int measure(wk_io *io, wk_file *file, uint8_t *block, uint64_t budget_ns, uint64_t medians[2]) {
	uint64_t times[2][ROUNDS_MAX];
	int64_t written = 0;
	for (uint32_t i = 0; i < FILE_BLOCKS && written >= 0; i++)
		written = io->operations->pwrite(io, file, block, WK_IO_ALIGNMENT, (uint64_t)i * WK_IO_ALIGNMENT, 0);
	int result = written < 0 ? (int)written : io->operations->sync(io, file);
	uint32_t rounds = 0;
	/* By turns, so that what else the machine does hits both. */
	for (uint64_t begin = io->operations->now(io);
	     result == 0 && rounds < ROUNDS_MAX && (rounds < 3 || io->operations->now(io) - begin < budget_ns); rounds++)
		for (int way = 0; way < 2 && result == 0; way++) {
			int64_t took = one_round(io, file, block, rounds, way == 0);
			result = took < 0 ? (int)took : 0;
			times[way][rounds] = (uint64_t)took;
		}
	for (int way = 0; way < 2 && result == 0; way++) {
		qsort(times[way], rounds, sizeof times[way][0], by_value);
		medians[way] = times[way][rounds / 2];
	}
	return result;
}

int wk_probe_measure(wk_io *io, const char *path, uint64_t budget_ns, uint64_t *dsync_ns,
                     uint64_t *write_then_sync_ns) {
	size_t size = strlen(path) + 64;
	char *name = malloc(size);
	uint8_t *block = aligned_alloc(WK_IO_ALIGNMENT, WK_IO_ALIGNMENT);
	wk_file *file = NULL;
	uint64_t medians[2] = {0, 0};
	int result = name == NULL || block == NULL ? -ENOMEM : 0;
	if (result == 0) {
		snprintf(name, size, "%s/probe-%lld.tmp", path, (long long)wk_process_id());
		memset(block, 0xA5, WK_IO_ALIGNMENT);
		io->operations->unlink(io, name);
		result = io->operations->open(io, name, WK_IO_WRITE | WK_IO_CREATE | WK_IO_DIRECT, &file);
	}
	if (result == 0) {
		result = measure(io, file, block, budget_ns, medians);
		io->operations->close(io, file);
		io->operations->unlink(io, name);
	}
	*dsync_ns = medians[0];
	*write_then_sync_ns = medians[1];
	free(name);
	free(block);
	return result;
}

wk_status wk_probe(wk_engine *engine, wk_error *error) {
	wk_superblock *superblock = &engine->superblock;
	if (engine->options.sync_method != WK_SYNC_PROBE)
		return WK_OK;
	engine->grid_wanted = !wk_probe_grid_is_whole(&superblock->grid) ||
	                      superblock->probe_device != wk_engine_journal_device(engine);
	if (superblock->sync_method == WK_SYNC_PROBE || superblock->probe_device != wk_engine_journal_device(engine)) {
		char *folder = wk_engine_path(engine, "journal");
		int result = folder != NULL ? wk_probe_measure(engine->io, folder, BUDGET_NS / 2, &superblock->probe_dsync_ns,
		                                               &superblock->probe_write_then_sync_ns)
		                            : -ENOMEM;
		free(folder);
		if (result == -ENOSPC ||
		    result == -EDQUOT) { /* no space to try: the safe choice, tried again at the next open */
			engine->options.sync_method = WK_SYNC_WRITE_THEN_SYNC;
			return WK_OK;
		}
		if (result < 0)
			return wk_fail_io(error, result, "trying durable writes in %s", engine->path);
		/* A tenth of a difference is noise; then one call is better than two. */
		bool dsync = superblock->probe_dsync_ns <=
		             superblock->probe_write_then_sync_ns + superblock->probe_write_then_sync_ns / 10;
		superblock->sync_method = dsync ? WK_SYNC_DSYNC : WK_SYNC_WRITE_THEN_SYNC;
		superblock->probe_device = wk_engine_journal_device(engine);
		superblock->grid = (wk_probe_grid){0};
		superblock->blocks_in_flight = 0;
	}
	engine->options.sync_method = superblock->sync_method;
	return WK_OK;
}
