#include "engine/follower/shared_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/follower/follower_renew.h"

enum { PAGE = WK_IO_ALIGNMENT, MAGIC = 0x48534b57, VERSION = 2 };

static bool is_ours(const wk_engine *engine, const wk_shared_page *page) {
	return page->magic == MAGIC && page->version == VERSION &&
	       memcmp(page->directory_id, engine->superblock.directory_id, sizeof page->directory_id) == 0;
}

/* Read before it is mapped: a page that the disk cannot read would end the process that looks at it. -errno */
static int look_at_content(wk_engine *engine, wk_file *file, bool *ours) {
	wk_shared_page page;
	int64_t size = engine->io->operations->pread(engine->io, file, &page, sizeof page, 0);
	*ours = size == (int64_t)sizeof page && is_ours(engine, &page);
	return size < 0 ? (int)size : 0;
}

/*
 * A page without room on the disk would end the process where it is stored to. One of ours had its room, unless it is a copy:
 * of that there may be as much as its first bytes need, and on xfs it may be the original's. Where the disk is nearly full
 * xfs wants more than it has for a page that is there: such a one is taken for what it was.
 */
static int make_room(wk_engine *engine, wk_file *file, bool ours) {
	const struct wk_io_operations *io = engine->io->operations;
	uint8_t bytes[PAGE] = {0};
	wk_io_stat stat;
	int64_t result = io->allocate(engine->io, file, PAGE);
	if ((result == -ENOSPC || result == -EDQUOT) && ours && io->stat(engine->io, file, &stat) == 0 &&
	    stat.owned >= PAGE)
		return 0;
	if (result == -EOPNOTSUPP && (result = io->pread(engine->io, file, bytes, PAGE, 0)) >= 0)
		result = io->pwrite(engine->io, file, bytes, PAGE, 0, 0); /* refused, a store would be, too: nilfs2 */
	return result < 0 ? (int)result : 0;
}

static int open_page(wk_engine *engine, const char *path, wk_file **file) {
	const struct wk_io_operations *io = engine->io->operations;
	bool ours = false;
	int result = io->open(engine->io, path, engine->read_only ? WK_IO_READ : WK_IO_WRITE, file);
	if (result == 0 && (result = look_at_content(engine, *file, &ours)) == -EIO && !engine->read_only) {
		io->close(engine->io, *file); /* what it says, but where the blocks end, they say too */
		*file = NULL;
		result = io->unlink(engine->io, path);
		result = result == 0 ? -ENOENT : result;
	}
	if (engine->read_only)
		return result;
	if (result == -ENOENT)
		result = io->open(engine->io, path, WK_IO_WRITE | WK_IO_CREATE, file);
	if (result == 0)
		result = io->truncate(engine->io, *file, PAGE);
	if (result == 0)
		result = make_room(engine, *file, ours);
	return result;
}

/* What has the name now. */
static int map_page(wk_engine *engine, wk_shared_page **page, bool *linked) {
	const struct wk_io_operations *io = engine->io->operations;
	char *path = wk_engine_path(engine, "shared");
	*page = NULL;
	*linked = false;
	if (path == NULL)
		return -ENOMEM;
	wk_file *file = NULL;
	void *address = NULL;
	int result = open_page(engine, path, &file);
	wk_io_stat stat = {0};
	if (result == 0)
		result = io->stat(engine->io, file, &stat);
	if (result == 0 && stat.size >= PAGE)
		result = io->map_shared(engine->io, file, PAGE, !engine->read_only, &address);
	if (file != NULL)
		io->close(engine->io, file);
	bool no_room = !engine->read_only && (result == -ENOSPC || result == -EDQUOT);
	if (no_room) /* what is there may be an earlier writer's */
		result = io->unlink(engine->io, path);
	result = no_room && result == -ENOENT ? 0 : result;
	free(path);
	*page = address;
	*linked = stat.links > 1;
	return result;
}

int wk_shared_page_renew(wk_engine *engine) {
	wk_shared_page *page;
	bool linked;
	int result = map_page(engine, &page, &linked);
	if (result == -ENOENT) /* whoever writes now found no room for one, perhaps: the blocks alone tell */
		wk_shared_page_close(engine);
	if (page == NULL)
		return result;
	if (is_ours(engine, page)) {
		wk_shared_page_close(engine);
		engine->shared = page;
		engine->follower->page_is_linked = linked;
	} else {
		engine->io->operations->unmap(engine->io, page, PAGE);
	}
	return 0;
}

/* A block became durable since recovery looked at the page, and recovery has not met it. */
static wk_status refuse_beside_another(const wk_engine *engine, uint64_t durable, wk_error *error) {
	wk_fail(
	    error, WK_LOCKED,
	    "%s is written by another process: block %llu became durable while it was opened here, though nobody else has "
	    "its lock. See to it that no program removes or replaces its files (one that cleans up temporary files, a "
	    "restore), and open it again: the other process is told",
	    engine->path, (unsigned long long)durable);
	if (error != NULL)
		error->holder_pid = -1;
	return WK_LOCKED;
}

wk_status wk_shared_page_open(wk_engine *engine, wk_error *error) {
	wk_shared_page *page;
	bool linked; /* whoever follows goes by that */
	int result = map_page(engine, &page, &linked);
	if (result < 0)
		return wk_fail_io(error, result, "mapping %s/shared", engine->path);
	if (page == NULL)
		return WK_OK; /* a full disk must open to be freed; followers go by the blocks alone */
	if (!is_ours(engine, page)) {
		page->magic = 0;
		__atomic_store_n(&page->durable, 0, __ATOMIC_RELEASE);
		memcpy(page->directory_id, engine->superblock.directory_id, sizeof page->directory_id);
		page->version = VERSION;
		__atomic_store_n(&page->magic, MAGIC, __ATOMIC_RELEASE);
	}
	/* This store and the load behind it stand against those of a writer (journal_durable.c): one of the two sees the other. */
	__atomic_store_n(&page->incarnation, engine->superblock.incarnation, __ATOMIC_SEQ_CST);
	uint64_t durable = __atomic_load_n(&page->durable, __ATOMIC_SEQ_CST);
	if (durable > engine->durable && durable > engine->page_durable && !linked) {
		engine->io->operations->unmap(engine->io, page, PAGE);
		return refuse_beside_another(engine, durable, error);
	}
	__atomic_store_n(&page->durable, (uint64_t)engine->durable, __ATOMIC_RELEASE);
	engine->shared = page;
	return WK_OK;
}

wk_status wk_shared_page_look(wk_engine *engine, uint64_t *durable, wk_error *error) {
	const struct wk_io_operations *io = engine->io->operations;
	char *path = wk_engine_path(engine, "shared");
	wk_file *file = NULL;
	wk_io_stat stat = {0};
	wk_shared_page page = {0};
	int64_t size = path != NULL ? io->open(engine->io, path, WK_IO_READ, &file) : -ENOMEM;
	*durable = 0;
	engine->page_durable = UINT64_MAX;
	if (size == 0)
		size = io->stat(engine->io, file, &stat);
	if (size == 0)
		size = io->pread(engine->io, file, &page, sizeof page, 0);
	if (file != NULL)
		io->close(engine->io, file);
	free(path);
	if (size == (int64_t)sizeof page && stat.links == 1 && is_ours(engine, &page)) {
		engine->page_durable = page.durable;
		*durable = page.incarnation <= engine->superblock.incarnation ? page.durable : 0;
	}
	bool says_nothing = size >= 0 || size == -ENOENT || size == -EIO || size == -EACCES || engine->read_only;
	return says_nothing ? WK_OK : wk_fail_io(error, (int)size, "reading %s/shared", engine->path);
}

void wk_shared_page_close(wk_engine *engine) {
	if (engine->shared != NULL)
		engine->io->operations->unmap(engine->io, engine->shared, PAGE);
	engine->shared = NULL;
}
