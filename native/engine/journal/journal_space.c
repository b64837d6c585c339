#include "engine/journal/journal_space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/directory.h"

enum { PIECE_MIN = 64 * 1024, PIECE_MAX = 256 * 1024, PIECE_NS = 200 * 1000 };
enum { PAUSE_PARTS = 4, PAUSE_MAX_NS = 2 * 1000 * 1000 };

uint32_t wk_journal_piece_next(uint32_t piece, uint64_t took_ns) {
	if (took_ns > PIECE_NS)
		return piece / 2 > PIECE_MIN ? piece / 2 : PIECE_MIN;
	return took_ns >= PIECE_NS / 2 ? piece : piece * 2 < PIECE_MAX ? piece * 2 : PIECE_MAX;
}

/*
 * The file will be wanted soon. Meanwhile footers do not wait for it: the journal goes on in the next file when they are
 * written. No lock held.
 */
static bool is_urgent(wk_engine *engine) {
	wk_engine_lock(engine);
	wk_keeper_look_at_lock(engine);
	while (wk_keeper_seal_oldest(engine))
		;
	bool urgent = atomic_load(&engine->room.sleepers) > 0 || engine->disk_full || engine->space_low ||
	              engine->reserve_covers == 0 || engine->offset > engine->active->size / 2;
	wk_engine_unlock(engine);
	return urgent;
}

/* A durable write that comes meanwhile finds the disk idle for most of the time, and waits for a small piece at most. */
static void pause_for(uint64_t piece_ns) {
	uint64_t ns = piece_ns < PAUSE_MAX_NS / PAUSE_PARTS ? piece_ns * PAUSE_PARTS : PAUSE_MAX_NS;
	nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/*
 * Zeros the whole file, so that later writes change no file system metadata: their syncs are 1.6 to 4.5 times
 * cheaper. An orderly end does not wait for all of it.
 */
static int write_zeros(wk_engine *engine, wk_file *handle, uint64_t size, bool leisure, uint64_t *written) {
	uint8_t *zeros = aligned_alloc(WK_BLOCK_ALIGNMENT, PIECE_MAX);
	if (zeros == NULL)
		return -ENOMEM;
	memset(zeros, 0, PIECE_MAX);
	int64_t result = 0;
	uint32_t piece = PIECE_MIN;
	while (*written < size && result >= 0 && !engine->keeper_stop) {
		bool urgent = !leisure || is_urgent(engine);
		uint64_t part = urgent ? PIECE_MAX : piece, began = wk_engine_now(engine);
		part = size - *written < part ? size - *written : part;
		result = engine->io->operations->pwrite(engine->io, handle, zeros, (size_t)part, *written, 0);
		if (result < 0)
			break;
		*written += part;
		__atomic_add_fetch(&engine->zero_filled_bytes, part, __ATOMIC_RELAXED);
		if (urgent)
			continue;
		uint64_t took_ns = wk_engine_now(engine) - began;
		piece = wk_journal_piece_next(piece, took_ns);
		pause_for(took_ns);
	}
	free(zeros);
	return result < 0 ? (int)result : 0;
}

/* Where nothing can be allocated: a full disk would be written until it is, again and again. Some never say (ramfs). */
static bool has_room(wk_engine *engine, uint64_t size) {
	wk_io_space space;
	const char *root = wk_places_root((wk_places){engine->path, engine->journal_directory.path}, "journal");
	return engine->io->operations->space(engine->io, root, &space) < 0 || space.total_bytes == 0 ||
	       space.free_bytes >= size;
}

int wk_journal_space_make(wk_engine *engine, const char *path, uint64_t size, enum wk_space how, wk_file **handle,
                          uint64_t *written) {
	const struct wk_io_operations *io = engine->io->operations;
	*written = 0;
	int result = io->open(engine->io, path, WK_IO_WRITE | WK_IO_CREATE | WK_IO_DIRECT, handle);
	if (result < 0)
		return result;
	result = io->allocate(engine->io, *handle, size);
	if (result == -EOPNOTSUPP) {
		result = has_room(engine, size) ? io->truncate(engine->io, *handle, size) : -ENOSPC;
		how = how == WK_SPACE_ALLOCATED ? WK_SPACE_WRITTEN : how;
	}
	if (result == 0 && how != WK_SPACE_ALLOCATED)
		result = write_zeros(engine, *handle, size, how == WK_SPACE_AT_LEISURE, written);
	if (result == 0)
		result = io->sync(engine->io, *handle);
	if (result < 0) {
		io->close(engine->io, *handle);
		*handle = NULL;
		io->unlink(engine->io, path);
	}
	return result;
}

int wk_journal_space_keep(wk_engine *engine, wk_file *handle, uint64_t size) {
	uint8_t *page = aligned_alloc(WK_BLOCK_ALIGNMENT, WK_PAGE_SIZE);
	if (page == NULL)
		return -ENOMEM;
	memset(page, 0, WK_PAGE_SIZE);
	const struct wk_io_operations *io = engine->io->operations;
	int64_t result = io->pwrite(engine->io, handle, page, WK_PAGE_SIZE, size - WK_PAGE_SIZE, 0);
	free(page);
	return result < 0 ? (int)result : io->sync(engine->io, handle);
}

wk_status wk_journal_names_sync(wk_engine *engine, wk_error *error) {
	char *path = wk_engine_path(engine, "journal");
	if (path == NULL)
		return wk_fail(error, WK_NO_MEMORY, "syncing the journal's directory: no memory");
	int result = engine->io->operations->sync_directory(engine->io, path);
	wk_status status = result < 0 ? wk_fail_io(error, result, "syncing the directory %s", path) : WK_OK;
	free(path);
	return status;
}
