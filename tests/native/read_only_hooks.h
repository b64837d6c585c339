/*
 * read_only_hooks.h: a real directory whose kernel refuses what a test chooses, and was started since where it says so.
 * Included by the tests of what an open that may not write shows.
 */
#ifndef READ_ONLY_HOOKS_H
#define READ_ONLY_HOOKS_H
#include "core/lock_text.h"
#include "core/superblock.h"
#include "engine/directory/directory.h"
#include "engine/directory/handles.h"
#include "engine/engine.h"
#include "engine/follower/follower_renew.h"
#include "engine/follower/shared_page.h"
#include "engine/manual.h"
#include "small_directory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

static struct wk_io_operations operations, original;
/* All that a hook looks at is atomic: the directory's own threads come by as well. */
static _Atomic bool syncs_fail, page_has_no_room, allocate_is_unknown, page_is_sparse, page_is_damaged,
    lock_has_no_room;
static _Atomic bool boot_is_unknown, somebody_writes, superblock_is_refused, lock_is_unreadable, lock_is_damaged,
    one_sync_fails, reads_fail;
static _Atomic int page_refusals; /* opens of the page that are refused ... */
static _Atomic int page_grants;   /* ... behind so many that are not */
static _Atomic int lock_opens_left = INT32_MAX;
static _Atomic uint8_t later_starts;              /* of the machine */
static const char *_Atomic written_during_a_sync; /* a directory to which a writer of this kernel comes then */

static wk_file *_Atomic page_file, *_Atomic lock_file,
    *_Atomic looked_at; /* where they are open; the last is the lock, to be read */
static _Atomic uint32_t lists, page_opens, watched_syncs;
static const char *_Atomic watched; /* syncs of the file whose path has this are counted */
static wk_file *_Atomic watched_file;
static _Atomic uint32_t blocks_written, blocks_untold; /* the latter under a kernel that the lock does not name */

static inline int boot_id(wk_io *io, uint8_t id[16]);

static inline void say_who_writes(wk_io *io, const char *path) {
	wk_lock_text text = {.pid = 1};
	uint8_t bytes[WK_LOCK_TEXT_SIZE];
	text.boot_known = boot_id(io, text.boot) == 0;
	wk_lock_text_encode(&text, bytes);
	int fd = open(below(path, "lock"), O_WRONLY);
	CHECK(fd >= 0 && pwrite(fd, bytes, sizeof bytes, 0) == sizeof bytes);
	close(fd);
}

static inline int sync_or_not(wk_io *io, wk_file *file) {
	watched_syncs += watched_file != NULL && file == watched_file;
	if (one_sync_fails) { /* and so does what is read next */
		one_sync_fails = false;
		reads_fail = true;
		return -EIO;
	}
	if (written_during_a_sync != NULL)
		say_who_writes(io, written_during_a_sync);
	return syncs_fail ? -EIO : original.sync(io, file);
}

static inline int lock_or_not(wk_io *io, wk_file *file, bool exclusive) {
	return somebody_writes && !exclusive ? -EWOULDBLOCK : original.lock(io, file, exclusive);
}

static inline int allocate_or_not(wk_io *io, wk_file *file, uint64_t size) {
	if (page_has_no_room && size == WK_IO_ALIGNMENT)
		return allocate_is_unknown ? -EOPNOTSUPP : -ENOSPC;
	return original.allocate(io, file, size);
}

static inline bool is_page(const char *path) {
	size_t size = strlen(path);
	return size > 7 && strcmp(path + size - 7, "/shared") == 0;
}

static inline bool is_lock(const char *path) {
	size_t size = strlen(path);
	return size > 5 && strcmp(path + size - 5, "/lock") == 0;
}

static inline int open_or_not(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	if (is_page(path) && page_grants > 0) {
		page_grants--;
	} else if (is_page(path) && page_refusals > 0) {
		page_refusals--;
		return -EMFILE;
	}
	if (is_lock(path) && lock_opens_left-- <= 0)
		return -EMFILE;
	int result = original.open(io, path, flags, file);
	page_opens += is_page(path);
	if (result == 0 && watched != NULL && strstr(path, watched) != NULL)
		watched_file = *file;
	if (is_page(path))
		page_file = result == 0 && (flags & WK_IO_CREATE) == 0 ? *file : NULL;
	if (is_lock(path))
		*((flags & WK_IO_WRITE) != 0 ? &lock_file : &looked_at) = result == 0 ? *file : NULL;
	return result;
}

static inline int stat_sparse(wk_io *io, wk_file *file, wk_io_stat *stat) {
	int result = original.stat(io, file, stat);
	stat->owned = page_is_sparse && file == page_file ? 512 : stat->owned;
	return result;
}

static inline int list_counted(wk_io *io, const char *path, wk_io_list_fn fn, void *context) {
	lists++;
	return original.list(io, path, fn, context);
}

static inline void forget(wk_file *_Atomic *known, wk_file *file) {
	atomic_compare_exchange_strong(known, &file, NULL);
}

static inline void close_known(wk_io *io, wk_file *file) {
	forget(&page_file, file);
	forget(&lock_file, file);
	forget(&looked_at, file);
	forget(&watched_file, file);
	original.close(io, file);
}

static inline int64_t read_or_not(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	if (lock_is_unreadable && file == lock_file)
		return lock_is_damaged ? -EIO : -ENOMEM;
	if (reads_fail && file != looked_at && file != page_file) {
		reads_fail = false;
		return -EIO;
	}
	return page_is_damaged && file == page_file ? -EIO : original.pread(io, file, buffer, size, offset);
}

static inline int boot_id(wk_io *io, uint8_t id[16]) {
	int result = boot_is_unknown ? -ENODATA : original.boot_id(io, id);
	id[3] ^= later_starts;
	if (result < 0)
		memset(id, 0, 16);
	return result;
}

/* What the lock says of the directory is what this kernel would say. */
static inline bool lock_tells_this_kernel(wk_io *io) {
	uint8_t bytes[WK_LOCK_TEXT_SIZE] = {0}, now[WK_BOOT_ID_SIZE];
	wk_lock_text text;
	return original.pread(io, lock_file, bytes, sizeof bytes, 0) >= 0 &&
	       wk_lock_text_decode(bytes, sizeof bytes, &text) == WK_OK && text.boot_known && boot_id(io, now) == 0 &&
	       memcmp(now, text.boot, sizeof now) == 0;
}

static inline int64_t write_or_not(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset,
                                   uint32_t flags) {
	if (size >= 4 && memcmp(buffer, "WKJB", 4) == 0) {
		blocks_written++;
		blocks_untold += lock_file == NULL || !lock_tells_this_kernel(io);
	}
	if (superblock_is_refused && size == WK_SUPERBLOCK_SLOT_SIZE && memcmp(buffer, "WKSB", 4) == 0)
		return -EIO;
	if (page_has_no_room && file == page_file)
		return -ENOSPC;
	return lock_has_no_room && file == lock_file ? -ENOSPC : original.pwrite(io, file, buffer, size, offset, flags);
}

static inline void use_hooks(wk_io **io) {
	CHECK_EQ(wk_io_psync_new(io), 0);
	original = operations = *(*io)->operations;
	operations.sync = sync_or_not;
	operations.lock = lock_or_not;
	operations.stat = stat_sparse;
	operations.allocate = allocate_or_not;
	operations.open = open_or_not;
	operations.close = close_known;
	operations.pread = read_or_not;
	operations.pwrite = write_or_not;
	operations.list = list_counted;
	operations.boot_id = boot_id;
	(*io)->operations = &operations;
}

static inline wk_namespace *open_hooked_with(const char *path, bool read_only, wk_io **io) {
	use_hooks(io);
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = read_only ? 0 : WK_OPEN_MANUAL;
	options.read_only = read_only;
	options.sync_method = WK_SYNC_WRITE_THEN_SYNC;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(*io, path, &options, &ns, &error), &error, "the directory opens");
	return ns;
}

static inline wk_namespace *open_hooked(const char *path, wk_io **io) {
	return open_hooked_with(path, false, io);
}

/* Five records are acknowledged; of the sixth the write succeeds, the sync does not. The process ends. */
static inline void fail_the_sixth(const char *path) {
	wk_io *io = NULL;
	syncs_fail = false;
	wk_namespace *ns = open_hooked(path, &io);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < 5; i++)
		append_one(writer);
	syncs_fail = true;
	char payload[RECORD_SIZE];
	payload_of(5, payload);
	wk_position at;
	wk_error error = {0};
	CHECK(wk_writer_append(writer, payload, sizeof payload, NULL, &at, &error) != WK_OK);
	wk_abandon(ns);
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
	io->operations->destroy(io);
}

static inline int64_t shown_by(wk_namespace *ns, uint64_t *unconfirmed) {
	int64_t first, last;
	read_all(ns, &first, &last);
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	*unconfirmed = report.unconfirmed_blocks;
	return last;
}

static inline int64_t last_shown(const char *path, uint64_t *unconfirmed) {
	wk_io *io = NULL;
	syncs_fail = false;
	wk_namespace *ns = open_hooked_with(path, true, &io);
	int64_t last = shown_by(ns, unconfirmed);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	io->operations->destroy(io);
	return last;
}
#endif
