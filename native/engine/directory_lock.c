#include "engine/directory_lock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/registry.h"

enum { LOCK_RETRY_NS = 2 * 1000 * 1000 };

static int64_t read_holder(wk_engine *engine) {
	char *page = aligned_alloc(WK_IO_ALIGNMENT, WK_IO_ALIGNMENT);
	if (page == NULL)
		return -1;
	int64_t size = engine->io->operations->pread(engine->io, engine->lock_file, page, WK_IO_ALIGNMENT, 0);
	int64_t pid = -1;
	if (size > 0) {
		page[size < 32 ? size : 31] = 0;
		pid = strtoll(page, NULL, 10);
	}
	free(page);
	return pid > 0 ? pid : -1;
}

static int write_holder(wk_engine *engine) {
	char *page = aligned_alloc(WK_IO_ALIGNMENT, WK_LOCK_SIZE);
	if (page == NULL)
		return -ENOMEM;
	memset(page, 0, WK_LOCK_SIZE);
	snprintf(page, 32, "%lld\n", (long long)wk_process_id());
	int64_t result = engine->io->operations->pwrite(engine->io, engine->lock_file, page, WK_LOCK_SIZE, 0, 0);
	free(page);
	return result < 0 ? (int)result : 0;
}

/*
 * Taken with waiting: after a SIGKILL the kernel may still be writing for its late owner, and lets go of the lock
 * only when it is done.
 */
wk_status wk_directory_lock(wk_engine *engine, wk_error *error) {
	const struct wk_io_operations *io = engine->io->operations;
	char *path = wk_engine_path(engine, "lock");
	if (path == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	wk_registry_hold_forks(); /* a child that does not know of this descriptor would keep the lock */
	int result = io->open(engine->io, path, WK_IO_WRITE, &engine->lock_file);
	if (result == -ENOENT) {
		result = io->open(engine->io, path, WK_IO_WRITE | WK_IO_CREATE, &engine->lock_file);
		if (result == -EEXIST)
			result = io->open(engine->io, path, WK_IO_WRITE, &engine->lock_file);
	}
	wk_registry_let_fork();
	wk_status status = result < 0 ? wk_fail_io(error, result, "opening %s", path) : WK_OK;
	free(path);
	if (status != WK_OK)
		return status;
	uint64_t begin = wk_engine_now(engine);
	static const uint32_t nobody = 0;
	while ((result = io->lock(engine->io, engine->lock_file, true)) == -EWOULDBLOCK &&
	       wk_engine_now(engine) - begin < engine->options.lock_timeout_ns)
		wk_futex_wait(&nobody, 0, LOCK_RETRY_NS);
	engine->report.lock_wait_ns = wk_engine_now(engine) - begin;
	if (result == -EWOULDBLOCK) {
		int64_t pid = read_holder(engine);
		wk_fail(error, WK_LOCKED,
		        "%s is open for writing in process %lld: close it there, or open it here with read_only to follow it",
		        engine->path, (long long)pid);
		if (error != NULL)
			error->holder_pid = pid;
		return WK_LOCKED;
	}
	if (result == 0)
		result = write_holder(engine);
	if (result == -ENOSPC || result == -EDQUOT)
		result = 0; /* who holds it is said to people only, and a full disk must open to be freed */
	return result < 0 ? wk_fail_io(error, result, "locking %s", engine->path) : WK_OK;
}
