/* doctor.c: what the engine would do in a directory, tried there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/directory.h"
#include "engine/engine.h"
#include "walkeeper/inspect.h"

enum { BUDGET_NS = 500 * 1000 * 1000 };

/* O_DIRECT counts as working only after a transfer: some file systems take the flag and refuse the bytes. */
static int try_direct(wk_io *io, const char *path, wk_doctor_report *report) {
	size_t size = strlen(path) + 64;
	char *name = malloc(size);
	uint8_t *block = aligned_alloc(WK_IO_ALIGNMENT, WK_IO_ALIGNMENT);
	wk_file *file = NULL;
	int result = name == NULL || block == NULL ? -ENOMEM : 0;
	if (result == 0) {
		snprintf(name, size, "%s/doctor-%lld.tmp", path, (long long)wk_process_id());
		memset(block, 0x5A, WK_IO_ALIGNMENT);
		io->operations->unlink(io, name); /* of an earlier process with this number, which was killed */
		result = io->operations->open(io, name, WK_IO_WRITE | WK_IO_CREATE | WK_IO_DIRECT, &file);
	}
	if (result == 0) {
		int64_t written = io->operations->pwrite(io, file, block, WK_IO_ALIGNMENT, 0, 0);
		wk_io_stat stat = {0};
		result = written < 0 ? (int)written : io->operations->stat(io, file, &stat);
		report->direct = stat.direct;
		report->alignment = stat.alignment;
		io->operations->close(io, file);
		io->operations->unlink(io, name);
	}
	free(name);
	free(block);
	return result;
}

/* What the directory answers, not the disk: the rest can be told all the same. */
static bool is_refusal(int result) {
	return result == -EACCES || result == -EPERM || result == -EROFS || result == -ENOSPC || result == -EDQUOT;
}

static int try_writes(wk_io *io, const char *path, wk_doctor_report *report) {
	int result = wk_probe_measure(io, path, BUDGET_NS, &report->dsync_ns, &report->write_then_sync_ns);
	/* The rule of wk_probe: a tenth of a difference is noise; then one call is better than two. */
	bool dsync = report->dsync_ns <= report->write_then_sync_ns + report->write_then_sync_ns / 10;
	report->sync_method = dsync ? WK_SYNC_DSYNC : WK_SYNC_WRITE_THEN_SYNC;
	wk_probe_grid grid;
	if (result == 0)
		result = wk_probe_grid_measure(io, path, &grid);
	if (result == 0) {
		memcpy(report->grid_ns, grid.block_ns, sizeof report->grid_ns);
		wk_probe_choose(&grid, &report->sync_method, &report->blocks_in_flight);
	}
	return result;
}

wk_status wk_doctor(const char *path, wk_doctor_report *report, wk_error *error) {
	wk_error_clear(error);
	*report = (wk_doctor_report){0};
	wk_io *io = NULL;
	int refused = wk_io_uring_new(&io);
	int result = refused == 0 ? 0 : wk_io_psync_new(&io);
	if (result < 0)
		return wk_fail_io(error, result, "setting up I/O");
	report->backend = refused == 0 ? WK_BACKEND_URING : WK_BACKEND_PSYNC;
	report->uring_error = -refused;
	wk_io_space space = {0};
	(void)io->operations->hold(io, path); /* what is wrong with it the next call says */
	result = io->operations->space(io, path, &space);
	report->file_system = space.type;
	report->free_bytes = space.free_bytes;
	report->total_bytes = space.total_bytes;
	wk_status status = WK_OK;
	if (result == -ENOENT)
		status = wk_fail(error, WK_NOT_FOUND, "%s does not exist: name a directory to try the disk in", path);
	else if (result < 0)
		status = wk_fail_io(error, result, "looking at the file system of %s", path);
	if (status == WK_OK && is_refusal(result = try_direct(io, path, report)))
		report->write_error = -result;
	else if (status == WK_OK && result < 0)
		status = wk_fail_io(error, result, "writing a temporary file in %s", path);
	if (status == WK_OK && report->write_error == 0 && (result = try_writes(io, path, report)) < 0)
		status = wk_fail_io(error, result, "trying durable writes in %s", path);
	io->operations->destroy(io);
	return status;
}
