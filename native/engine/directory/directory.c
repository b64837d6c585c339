#include "engine/directory/directory.h"
#include "engine/manual.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/catalogue.h"
#include "engine/directory/directory_lock.h"
#include "engine/directory/directory_make.h"
#include "engine/directory/files.h"
#include "engine/directory/journal_directory.h"
#include "engine/directory/keeper.h"
#include "engine/directory/open_options.h"
#include "engine/directory/owned_space.h"
#include "engine/directory/places.h"
#include "engine/directory/probe.h"
#include "engine/directory/probe_grid.h"
#include "engine/directory/registry.h"
#include "engine/directory/superblock_file.h"
#include "engine/follower.h"
#include "engine/index.h"
#include "engine/journal.h"
#include "engine/ledger.h"
#include "engine/mover.h"
#include "engine/recovery.h"
#include "records/read_memory.h"

enum { FOLLOWER_ATTEMPTS = 10, FOLLOWER_ATTEMPTS_MAX = 500, FOLLOWER_PAUSE_NS = 20 * 1000 * 1000, HURRY = 20 };

/* How often a read-only open that met a mismatch tries again. */
typedef struct attempts {
	int left;      /* while no writer moves */
	int total;     /* while one does */
	uint64_t seen; /* its durable point, the last time */
	bool alone;    /* nobody held the lock, the last time */
} attempts;

char *wk_engine_path(const wk_engine *engine, const char *format, ...) {
	char below[160];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(below, sizeof below, format, arguments);
	va_end(arguments);
	return wk_places_path((wk_places){engine->path, engine->journal_directory.path}, below);
}

/* ---- opening ---- */

static wk_status keep_next(wk_engine *engine, wk_error *error) {
	wk_store_file *next = engine->next;
	int result = wk_store_file_use(engine, next);
	if (result == 0)
		result = wk_journal_space_keep(engine, next->handle, next->size);
	return result < 0 ? wk_fail_io(error, result, "keeping the space of %s of %s",
	                               wk_file_name_of(next->id, next->kind).text, engine->path)
	                  : WK_OK;
}

static wk_status first_file(wk_engine *engine, wk_error *error) {
	engine->file_size_next = engine->options.file_size_min;
	for (uint32_t i = 0; i < engine->files_count; i++) /* growth goes on where it was */
		if (engine->files[i]->kind == WK_FILE_JOURNAL && engine->files[i]->size > engine->file_size_next &&
		    engine->files[i]->size <= engine->options.file_size_max)
			engine->file_size_next = engine->files[i]->size;
	wk_status status = wk_owned_space_take_journal(engine, error);
	if (status == WK_OK && engine->next != NULL)
		status = keep_next(engine, error);
	if (engine->active != NULL || status != WK_OK)
		return status;
	wk_store_file *file = engine->next;
	engine->next = NULL;
	if (file == NULL) {
		/* Its space is written: the first appends of a new directory are often lone ones. */
		status = wk_prepared_make(engine, engine->file_size_next, WK_SPACE_WRITTEN, error);
		if (status != WK_OK && status != WK_NO_SPACE)
			return status;
		wk_engine_lock(engine);
		uint64_t size = engine->options.file_size_min;
		bool beside = wk_prepared_is_there(engine, size);
		status = wk_journal_file_make(engine, size, beside ? WK_MAKE_PREPARED : WK_MAKE_FROM_RESERVE, &file, error);
		wk_engine_unlock(engine);
		if (status != WK_OK)
			return status;
	}
	file->state = WK_FILE_ACTIVE;
	file->first_sequence = engine->window.next;
	file->first_previous_crc = engine->last_crc;
	engine->active = file;
	engine->offset = 0;
	return WK_OK;
}

/* What recovery synced is durable, and they need no proof of their own: nor may they have one any more. */
static wk_status tell_readers(wk_engine *engine, wk_error *error) {
	wk_status status = wk_shared_page_open(engine, error);
	int result = status == WK_OK ? wk_directory_lock_tell_kernel(engine) : 0;
	return result < 0 ? wk_fail_io(error, result, "locking %s", engine->path) : status;
}

/*
 * Behind an accepted loss of which nothing was recorded, as nothing is known of it, the page names a block that is not there:
 * readers would look for it, and so would the next open. The page may forget it only now: nothing else shows the loss.
 */
static void forget_lost_blocks(wk_engine *engine, uint64_t recovered) {
	if (engine->shared != NULL && engine->durable == recovered && recovered > engine->chain_end)
		__atomic_store_n(&engine->shared->durable, engine->chain_end, __ATOMIC_RELEASE);
}

static void no_longer_clean(wk_engine *engine) {
	engine->superblock.clean = false;
	engine->superblock.closed_sequence = 0;
}

/* From here on blocks may be written: a new incarnation, durable before the first (storage rule 10). */
static wk_status begin_writing(wk_engine *engine, wk_error *error) {
	wk_status status = wk_owned_space_take_superblock(engine, error);
	if (status == WK_OK) /* what was read may be in a cache alone, of a process that was killed, or whose sync failed */
		status = wk_superblock_store_again(engine, error);
	engine->superblock.incarnation++;
	/* Until there is a journal file it stands: a directory in use without one has lost it. */
	bool has_file = engine->active != NULL || engine->next != NULL, was_clean = engine->superblock.clean;
	if (has_file)
		no_longer_clean(engine);
	wk_superblock_note_journal(engine);
	wk_index_begin(engine);
	if (status == WK_OK)
		status = wk_probe(engine, error);
	if (status == WK_OK)
		status = wk_journal_directory_begin(engine, error);
	if (status == WK_OK)
		status = wk_superblock_store(engine, error);
	if (status == WK_OK)
		status = wk_prepared_load(engine, error);
	wk_entry_logs_sweep(engine);
	wk_index_sweep(engine);
	engine->minor_due_ns = wk_time_after(wk_engine_now(engine), engine->options.minor_interval_ns);
	engine->major_due_ns = wk_time_after(wk_engine_now(engine), engine->options.major_interval_ns);
	if (status == WK_OK)
		status = first_file(engine, error);
	if (status == WK_OK && was_clean && !has_file) {
		no_longer_clean(engine);
		status = wk_superblock_store(engine, error);
	}
	if (status == WK_OK) /* all that may be refused was not */
		status = tell_readers(engine, error);
	if (status == WK_OK) /* who had a failed sync may have had another lock, which somebody removed */
		status = wk_unconfirmed_write_again(engine, error);
	uint64_t recovered = engine->durable;
	if (status == WK_OK)
		status = wk_loss_record(engine, error);
	if (status == WK_OK)
		forget_lost_blocks(engine, recovered);
	if (status == WK_OK)
		status = wk_index_replace_outdated(engine, error);
	engine->other_bytes = wk_files_other_bytes(engine);
	if (status != WK_OK || engine->options.internal == WK_OPEN_MANUAL)
		return status;
	int result = wk_driver_start(engine);
	if (result == 0)
		result = wk_keeper_start(engine);
	return result < 0 ? wk_fail_io(error, result, "starting the threads of %s", engine->path) : WK_OK;
}

static wk_status make_io(uint32_t backend, wk_io **io, wk_error *error) {
	int result = -ENOSYS;
	if (backend != WK_BACKEND_PSYNC)
		result = wk_io_uring_new(io);
	if (result < 0 && backend == WK_BACKEND_URING)
		return wk_fail_io(error, result,
		                  "setting up io_uring: the kernel forbids it here (kernel.io_uring_disabled, or a seccomp "
		                  "filter as in Docker); use backend psync");
	if (result < 0)
		result = wk_io_psync_new(io);
	return result < 0 ? wk_fail_io(error, result, "setting up I/O") : WK_OK;
}

wk_status wk_directory_check_file_system(wk_engine *engine, const char *path, wk_error *error) {
	enum {
		NFS = 0x6969,
		SMB2 = (int)0xfe534d42,
		CIFS = (int)0xff534d42,
		CEPH = 0x00c36400,
		V9FS = 0x01021997,
		AFS = 0x5346414f
	};
	wk_io_space space;
	int result = engine->io->operations->space(engine->io, path, &space);
	if (result < 0)
		return wk_fail_io(error, result, "looking at the file system of %s", path);
	uint32_t type = (uint32_t)space.type;
	bool network = type == NFS || type == (uint32_t)SMB2 || type == (uint32_t)CIFS || type == CEPH || type == V9FS ||
	               type == AFS;
	if (network && !engine->options.unsafe_fs)
		return wk_fail(error, WK_UNSUPPORTED,
		               "%s is on a network file system (type 0x%x), where neither locks nor syncs are to be relied on: "
		               "use a local disk, or "
		               "accept the risk with unsafe_fs",
		               path, type);
	return WK_OK;
}

static void free_engine(wk_engine *engine) {
	if (engine->io != NULL)
		wk_shared_page_close(engine);
	wk_follower_free(engine);
	wk_loss_free(engine->loss);
	wk_missing_entries_free(engine);
	wk_journal_free(engine);
	wk_catalogue_free(engine);
	wk_ledgers_free(engine);
	wk_range_pager_free(engine);
	wk_ledger_states_free(engine);
	wk_ledger_deletes_free(engine);
	wk_store_files_free(engine);
	wk_prepared_free(engine);
	wk_block_cache_free(engine->memtable);
	wk_page_cache_free(engine->pages);
	wk_read_ahead_free(engine->ahead);
	wk_buffer_pool_release(engine->block_pool);
	wk_buffer_pool_release(engine->read_pool);
	wk_read_memory_release(engine->read_memory);
	if (engine->io != NULL) {
		if (engine->lock_file != NULL)
			engine->io->operations->close(engine->io, engine->lock_file);
		wk_journal_directory_free(engine);
		if (engine->superblock_file != NULL) /* whoever waits for all of them takes this one first */
			engine->io->operations->close(engine->io, engine->superblock_file);
		if (engine->holds_path)
			engine->io->operations->let_go(engine->io, engine->path);
		if (engine->owns_io)
			engine->io->operations->destroy(engine->io);
	}
	pthread_cond_destroy(&engine->keeper_wake);
	pthread_mutex_destroy(&engine->file_id_lock);
	pthread_mutex_destroy(&engine->catalogue_lock);
	pthread_mutex_destroy(&engine->lock);
	free(engine->journal_directory.path);
	free(engine->path);
	free(engine);
}

static wk_engine *new_engine(void) {
	wk_engine *engine = calloc(1, sizeof *engine);
	if (engine == NULL)
		return NULL;
	pthread_mutex_init(&engine->lock, NULL);
	pthread_mutex_init(&engine->catalogue_lock, NULL);
	pthread_mutex_init(&engine->file_id_lock, NULL);
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&engine->keeper_wake, &attributes);
	pthread_condattr_destroy(&attributes);
	engine->next_log_id = engine->next_ledger_id = 1;
	engine->open.deferred_until_ns = engine->deferred_sync_ns = UINT64_MAX;
	engine->handles = 1;
	return engine;
}

static bool make_caches(wk_engine *engine) {
	engine->memtable = wk_block_cache_new(engine->options.memtable_bytes);
	engine->pages = wk_page_cache_new(engine->options.cache_bytes - engine->options.cache_bytes / 4);
	engine->ahead = wk_read_ahead_new(engine->options.cache_bytes / 4);
	engine->block_pool = wk_buffer_pool_new(engine->options.block_size_max + WK_BLOCK_ALIGNMENT, 4);
	engine->read_pool = wk_buffer_pool_new((1 << 20) + 2 * WK_IO_ALIGNMENT, 4);
	engine->read_memory = wk_read_memory_new(engine->options.read_bytes);
	return engine->read_memory != NULL && engine->memtable != NULL && engine->pages != NULL && engine->ahead != NULL &&
	       engine->block_pool != NULL && engine->read_pool != NULL;
}

/*
 * From here on it is this directory, wherever the process or the directory goes. -errno. Tests have several engines on
 * one `io`: only the first holds its directory.
 */
static int hold_directory(wk_engine *engine) {
	const struct wk_io_operations *io = engine->io->operations;
	wk_file *handle;
	wk_io_stat stat = {0};
	int result = io->hold(engine->io, engine->path);
	engine->holds_path = result == 0;
	if (result < 0 && result != -EBUSY)
		return result;
	result = io->open(engine->io, engine->path, WK_IO_READ, &handle);
	if (result < 0)
		return result;
	result = io->stat(engine->io, handle, &stat);
	io->close(engine->io, handle);
	engine->device = stat.device;
	engine->inode = stat.inode;
	return result;
}

/* The directory itself, made where it may be; its identity (device, inode) once it is there. */
static wk_status ensure_directory(wk_engine *engine, wk_error *error) {
	const struct wk_io_operations *io = engine->io->operations;
	wk_file *handle = NULL;
	int result = io->open(engine->io, engine->path, WK_IO_READ, &handle);
	if (result == -ENOENT && engine->options.create && !engine->options.read_only) {
		result = io->make_directory(engine->io, engine->path);
		engine->made = result == 0;
		if (result == -ENOENT)
			return wk_fail_io(error, result, "making %s: the directory above it must exist, it is not made",
			                  engine->path);
		if (result == 0 || result == -EEXIST)
			result = io->open(engine->io, engine->path, WK_IO_READ, &handle);
	} else if (result == -ENOENT) {
		return wk_fail(error, WK_NOT_FOUND, "%s does not exist%s", engine->path,
		               engine->read_only ? "" : "; open it with create to make it");
	}
	if (result == 0) {
		io->close(engine->io, handle);
		result = hold_directory(engine);
	}
	return result < 0 ? wk_fail_io(error, result, "opening %s", engine->path) : WK_OK;
}

/*
 * A writer was at it: what looked damaged may be a block in flight, what was missing a file recycled. Only what stays
 * so is true; and while the writer moves on, nothing has stayed.
 */
static bool may_try_again(wk_engine *engine, attempts *tries) {
	uint64_t durable = engine->shared != NULL ? __atomic_load_n(&engine->shared->durable, __ATOMIC_ACQUIRE) : 0;
	bool moves = durable > tries->seen;
	tries->seen = durable;
	tries->left -= !moves;
	bool alone = wk_follower_is_alone(engine);
	if (wk_follower_failed_to_prove(engine))
		return false;
	if (alone && tries->alone)
		return false; /* nobody was at it, last time and this time */
	tries->alone = alone;
	static const uint32_t nobody = 0;
	if (tries->left > 0 && tries->total > 0)
		wk_futex_wait(&nobody, 0, moves ? FOLLOWER_PAUSE_NS / HURRY : FOLLOWER_PAUSE_NS);
	return tries->left > 0 && tries->total-- > 0;
}

/* K: as asked, as the probe chose for this device, or two. */
static void choose_in_flight(wk_engine *engine) {
	const wk_superblock *superblock = &engine->superblock;
	if (engine->options.blocks_in_flight == 0 && superblock->probe_device == wk_engine_journal_device(engine))
		engine->options.blocks_in_flight = superblock->blocks_in_flight;
	if (engine->options.blocks_in_flight == 0)
		engine->options.blocks_in_flight = WK_PROBE_IN_FLIGHT_DEFAULT;
}

/* Copies: what was given is the caller's, and options are handed on. */
static bool take_paths(wk_engine *engine, const char *path) {
	const char *journal = engine->options.journal;
	engine->path = strdup(path);
	engine->journal_directory.path = journal != NULL ? strdup(journal) : NULL;
	engine->options.journal = engine->journal_directory.path;
	return engine->path != NULL && (journal == NULL || engine->journal_directory.path != NULL);
}

static wk_status open_directory(const char *path, const wk_open_options *given, wk_io *borrowed, attempts tries,
                                wk_engine **opened, wk_error *error) {
	wk_open_options options;
	wk_status status = wk_open_options_resolve(given, &options, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = new_engine();
	if (engine == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", path);
	engine->options = options;
	engine->read_only = options.read_only;
	engine->io = borrowed;
	if (!make_caches(engine))
		status = wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", path);
	if (status == WK_OK && borrowed == NULL) {
		status = make_io(options.backend, &engine->io, error);
		engine->owns_io = status == WK_OK;
	}
	if (status == WK_OK) /* where nobody has a number, 0 is one */
		(void)engine->io->operations->entropy(engine->io, &engine->id_seed, sizeof engine->id_seed);
	if (status == WK_OK && !take_paths(engine, path))
		status = wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", path);
	if (status == WK_OK)
		status = ensure_directory(engine, error);
	wk_engine *shared = NULL;
	if (status == WK_OK) /* readers too: a forked child must know them */
		shared = wk_registry_enter(engine, borrowed == NULL && !engine->read_only);
	if (shared != NULL) { /* open in this process already */
		free_engine(engine);
		status = wk_check_kind(shared, options.kind, error);
		if (status == WK_OK)
			status = wk_journal_directory_check_same(shared, given != NULL ? given->journal : NULL, error);
		if (status != WK_OK)
			wk_directory_close(shared, UINT64_MAX, NULL);
		*opened = shared;
		return status;
	}
	if (status == WK_OK)
		status = wk_directory_check_file_system(engine, engine->path, error);
	if (status == WK_OK && !engine->read_only) /* the lock is a file, and no other program's */
		status = wk_directory_check(engine, error);
	if (status == WK_OK && !engine->read_only)
		status = wk_directory_lock(engine, error);
	uint64_t begin = status == WK_OK ? wk_engine_now(engine) : 0;
	if (status == WK_OK)
		status = wk_directory_make_or_load(engine, error);
	if (status == WK_OK)
		choose_in_flight(engine);
	if (status == WK_OK)
		status = wk_recover(engine, error);
	if (engine->read_only && (status == WK_DAMAGED || status == WK_IO) && may_try_again(engine, &tries)) {
		wk_registry_leave(engine);
		free_engine(engine);
		return open_directory(path, given, borrowed, tries, opened, error);
	}
	if (status == WK_OK && !engine->read_only)
		status = begin_writing(engine, error);
	if (status != WK_OK) {
		wk_driver_stop(engine);
		wk_registry_leave(engine);
		free_engine(engine);
		return status;
	}
	engine->report.elapsed_ns = wk_engine_now(engine) - begin;
	wk_registry_ready(engine);
	*opened = engine;
	return WK_OK;
}

static const attempts ATTEMPTS = {.left = FOLLOWER_ATTEMPTS, .total = FOLLOWER_ATTEMPTS_MAX};

static bool found_it_whole(const wk_recovery_report *report) {
	return report->damaged_blocks == 0 && report->unknown_blocks == 0 && report->lost_entries == 0 &&
	       report->lost_records == 0 && report->lost_files == 0 && report->catalogue_lost == 0 &&
	       report->adopted_ledgers == 0;
}

/*
 * A damaged directory, to be read as it would be behind a repair. WK_LOCKED: somebody writes it; WK_END: it needs none,
 * where that is not `known`, and may be followed as it is.
 */
static wk_status open_repaired(const char *path, const wk_open_options *given, wk_io *borrowed, bool known,
                               wk_engine **opened, wk_error *error) {
	wk_open_options options = *given;
	wk_io *io = borrowed, *overlay;
	uint64_t generation;
	wk_recovery_report report;
	options.on_damage = WK_ON_DAMAGE_STOP;
	wk_status status = borrowed == NULL ? make_io(given->backend, &io, error) : WK_OK;
	if (status == WK_OK)
		status = wk_readonly_repair(io, borrowed == NULL, path, given, &overlay, &generation, &report, error);
	if (status != WK_OK)
		return status;
	status = known || !found_it_whole(&report) ? open_directory(path, &options, overlay, ATTEMPTS, opened, error)
	                                           : WK_END;
	if (status != WK_OK) {
		overlay->operations->destroy(overlay);
		return status;
	}
	(*opened)->owns_io = true;
	(*opened)->repaired_view.below = io;
	(*opened)->repaired_view.generation = generation;
	(*opened)->report = report;
	(*opened)->options.on_damage = given->on_damage; /* of what only reads meet */
	return status;
}

static wk_status open_at(const char *path, const wk_open_options *given, wk_io *borrowed, wk_engine **opened,
                         wk_error *error) {
	wk_error damage;
	wk_status status = WK_LOCKED;
	if (wk_readonly_repair_comes_first(given))
		status = open_repaired(path, given, borrowed, false, opened, error);
	if (status != WK_LOCKED && status != WK_END)
		return status;
	status = open_directory(path, given, borrowed, ATTEMPTS, opened, error);
	if (!wk_readonly_repair_helps(given, status))
		return status;
	damage = *error;
	status = open_repaired(path, given, borrowed, true, opened, error);
	if (status == WK_LOCKED || status == WK_DAMAGED) {
		*error = damage;
		status = WK_DAMAGED;
	}
	return status;
}

static char *absolute_path(wk_io *borrowed, const char *path) {
	return borrowed != NULL ? borrowed->operations->absolute(borrowed, path) : wk_io_absolute(path);
}

static wk_status open_named(const char *path, const wk_open_options *given, wk_io *borrowed, wk_engine **opened,
                            wk_error *error) {
	char *absolute = absolute_path(borrowed, path);
	wk_status status = absolute != NULL ? open_at(absolute, given, borrowed, opened, error)
	                                    : wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", path);
	free(absolute);
	return status;
}

/* Paths are gone through several times until a directory is opened for good: they are to mean the same each time. */
wk_status wk_directory_open(const char *path, const wk_open_options *given, wk_io *borrowed, wk_engine **opened,
                            wk_error *error) {
	wk_error local;
	wk_open_options options;
	error = error != NULL ? error : &local;
	if (given == NULL || given->journal == NULL)
		return open_named(path, given, borrowed, opened, error);
	char *journal = absolute_path(borrowed, given->journal);
	options = *given;
	options.journal = journal;
	wk_status status = journal != NULL ? open_named(path, &options, borrowed, opened, error)
	                                   : wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", path);
	free(journal);
	return status;
}

/* ---- closing ---- */

/* (locked) The journal failed: were there appends whose outcome nobody knows now? */
static wk_status failed_words(wk_engine *engine, wk_error *error) {
	bool all_known = wk_block_is_empty(&engine->open) && engine->durable + 1 >= engine->open.sequence;
	if (all_known)
		return WK_OK;
	if (error != NULL) {
		*error = engine->failure;
		error->outcome_unknown = true;
	}
	return WK_FAILED;
}

/*
 * (locked, dropped) A signal is no reason to leave things half done. With a deadline the driver writes, so that a
 * stalled disk holds up that thread and not this one.
 */
static wk_status wait_for_good(wk_engine *engine, uint64_t ticket, uint64_t deadline_ns, wk_error *error) {
	return wk_journal_wait_out(engine, ticket, deadline_ns, deadline_ns == UINT64_MAX, error);
}

/* (locked, dropped) Everything accepted, durable. */
static wk_status flush_all(wk_engine *engine, uint64_t deadline_ns, wk_error *error) {
	if (engine->failed)
		return failed_words(engine, error);
	return engine->read_only ? WK_OK : wait_for_good(engine, wk_journal_flush(engine), deadline_ns, error);
}

static wk_status last_words(wk_engine *engine, uint64_t deadline_ns, wk_error *error) {
	wk_engine_lock(engine);
	wk_status status = flush_all(engine, deadline_ns, error);
	if (status == WK_OK && !engine->failed && engine->confirm_pending && !engine->disk_full &&
	    wk_block_is_empty(&engine->open)) {
		engine->open.confirm = true;
		engine->open.sync_wanted = true;
		status = wait_for_good(engine, engine->open.sequence, deadline_ns, error);
	}
	engine->closing = true;
	wk_engine_unlock(engine);
	return status;
}

wk_status wk_directory_close(wk_engine *engine, uint64_t timeout_ns, wk_error *error) {
	uint64_t deadline = wk_time_after(wk_engine_now(engine), timeout_ns);
	wk_engine_lock(engine);
	/* What was deferred through this handle is durable, whoever else holds one. */
	wk_status status = flush_all(engine, deadline, error);
	wk_engine_unlock(engine);
	if (!wk_registry_last(engine))
		return status;
	bool unknown = status != WK_OK;
	if (status == WK_OK)
		status = last_words(engine, deadline, error);
	bool well = !engine->failed;
	if (status == WK_TIMEOUT || !wk_keeper_stop(engine, deadline)) {
		status = wk_fail(error, WK_TIMEOUT,
		                 "closing %s: %s within the time given; the directory stays locked until this process ends",
		                 engine->path,
		                 unknown ? "what was accepted last was not known durable"
		                         : "everything appended is durable, but the disk did not finish background work");
		if (error != NULL)
			error->outcome_unknown = unknown;
		/* The disk stalls. Its write may still land: memory, threads and lock must stay until the process ends. */
		wk_registry_set_aside(engine);
		return status;
	}
	wk_mover_free(engine);
	wk_driver_stop(engine);
	/* The keeper's last work failed: everything appended is durable, but this disk is not written to any more. */
	if (status == WK_OK && well && engine->failed) {
		status = WK_FAILED;
		if (error != NULL)
			*error = engine->failure;
	}
	wk_registry_leave(engine);
	free_engine(engine);
	return status;
}

void wk_directory_abandon(wk_engine *engine) {
	wk_keeper_stop(engine, UINT64_MAX);
	wk_mover_free(engine);
	atomic_store(&engine->failed, true);
	wk_driver_stop(engine);
	wk_registry_leave(engine);
	free_engine(engine);
}
