#include <stdlib.h>
#include <string.h>

#include "engine/directory/directory.h"
#include "engine/directory/files.h"
#include "engine/directory/handles.h"
#include "engine/directory/journal_directory.h"
#include "engine/directory/keeper.h"
#include "engine/directory/probe_grid.h"
#include "engine/follower.h"
#include "engine/index.h"
#include "engine/journal.h"
#include "engine/ledger.h"
#include "engine/manual.h"
#include "engine/mover.h"
#include "engine/space.h"
#include "io/event.h"
#include "records/read_memory.h"

wk_status wk_enter(wk_namespace *ns, wk_error *error) {
	atomic_fetch_add(&ns->calls, 1);
	if (atomic_load(&ns->closed)) {
		wk_leave(ns);
		return wk_fail(error, WK_CLOSED, "the namespace was closed");
	}
	if (atomic_load(&ns->engine->forked)) {
		wk_leave(ns);
		return wk_fail(error, WK_FORKED,
		               "%s was opened before this process was forked: open it again here, once the parent has closed "
		               "it, or read_only",
		               ns->engine->path);
	}
	return WK_OK;
}

wk_status wk_enter_fresh(wk_namespace *ns, wk_error *error) {
	wk_status status = wk_enter_kind(ns, WK_KIND_LOGS, error);
	if (status != WK_OK)
		return status;
	status = wk_follower_refresh(ns->engine, error);
	if (status != WK_OK)
		wk_leave(ns);
	return status;
}

wk_status wk_check_kind(const wk_engine *engine, uint32_t kind, wk_error *error) {
	if (engine->superblock.kind == kind)
		return WK_OK;
	return wk_fail(error, WK_INVALID,
	               kind == WK_KIND_LOGS
	                   ? "%s is a ledger store (its ledgers were made by its user, as a bookie's are), not a namespace "
	                     "of logs: use what made it, or open it with kind ledgers"
	                   : "%s is a namespace of logs, not a ledger store: choose another directory",
	               engine->path);
}

wk_status wk_enter_kind(wk_namespace *ns, uint32_t kind, wk_error *error) {
	wk_status status = wk_enter(ns, error);
	if (status != WK_OK)
		return status;
	status = wk_check_kind(ns->engine, kind, error);
	if (status != WK_OK)
		wk_leave(ns);
	return status;
}

void wk_leave(wk_namespace *ns) {
	/*
	 * Looked at first: once the count is 0, a close may free the namespace. (A close that comes in between looks by
	 * itself.)
	 */
	bool closed = atomic_load(&ns->closed);
	if (atomic_fetch_sub(&ns->calls, 1) == 1 && closed)
		wk_futex_wake((uint32_t *)&ns->calls, INT32_MAX);
}

wk_namespace *wk_namespace_retain(wk_namespace *ns) {
	atomic_fetch_add(&ns->references, 1);
	return ns;
}

void wk_namespace_release(wk_namespace *ns) {
	if (atomic_fetch_sub(&ns->references, 1) == 1)
		free(ns);
}

wk_hold *wk_hold_new(wk_namespace *ns, wk_log_state *log) {
	wk_hold *hold = malloc(sizeof *hold);
	if (hold == NULL)
		return NULL;
	*hold = (wk_hold){.log = log, .next = ns->holds, .link = &ns->holds};
	if (hold->next != NULL)
		hold->next->link = &hold->next;
	ns->holds = hold;
	log->handles++;
	wk_namespace_retain(ns);
	return hold;
}

void wk_hold_drop(wk_engine *engine, wk_hold *hold) {
	*hold->link = hold->next;
	if (hold->next != NULL)
		hold->next->link = hold->link;
	wk_log_state_release(engine, hold->log);
	free(hold);
}

void wk_hold_release(wk_namespace *ns, wk_hold *hold) {
	if (wk_enter(ns, NULL) == WK_OK) {
		wk_engine_lock(ns->engine);
		wk_hold_drop(ns->engine, hold);
		wk_engine_unlock(ns->engine);
		wk_leave(ns);
	} /* else closing the namespace did, or does, or in a forked child the memory is left alone */
	wk_namespace_release(ns);
}

uint64_t wk_deadline(wk_engine *engine, uint64_t timeout_ns) {
	if (timeout_ns == UINT64_MAX || timeout_ns == 0)
		return timeout_ns;
	return wk_time_after(wk_engine_now(engine), timeout_ns);
}

wk_status wk_open_on(wk_io *io, const char *path, const wk_open_options *options, wk_namespace **opened,
                     wk_error *error) {
	wk_error_clear(error);
	wk_namespace *ns = calloc(1, sizeof *ns);
	if (ns == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", path);
	wk_status status = wk_directory_open(path, options, io, &ns->engine, error);
	if (status != WK_OK) {
		free(ns);
		return status;
	}
	ns->event_fd = -1;
	atomic_init(&ns->references, 1);
	wk_engine_lock(ns->engine);
	ns->next = ns->engine->namespaces;
	ns->engine->namespaces = ns;
	wk_engine_unlock(ns->engine);
	*opened = ns;
	return WK_OK;
}

char *wk_absolute_path(const char *path) {
	return wk_io_absolute(path);
}

wk_status wk_open(const char *path, const wk_open_options *options, wk_namespace **ns, wk_error *error) {
	return wk_open_on(NULL, path, options, ns, error);
}

/* Out of the engine's list; what its handles hold is let go of; its descriptor goes. */
static void detach(wk_namespace *ns) {
	wk_engine *engine = ns->engine;
	wk_engine_lock(engine);
	for (wk_namespace **at = &engine->namespaces; *at != NULL; at = &(*at)->next)
		if (*at == ns) {
			*at = ns->next;
			break;
		}
	while (ns->holds != NULL)
		wk_hold_drop(engine, ns->holds);
	wk_engine_unlock(engine);
	if (ns->event_fd >= 0)
		wk_event_close(ns->event_fd);
	ns->event_fd = -1;
}

/* No new call gets in; followers that wait are woken; the rest finish. false: they did not, within the time given. */
static bool wait_for_calls(wk_namespace *ns, uint64_t timeout_ns) {
	wk_engine *engine = ns->engine;
	uint64_t deadline = wk_deadline(engine, timeout_ns);
	atomic_store(&ns->closed, true);
	uint32_t calls;
	while ((calls = atomic_load(&ns->calls)) > 0) {
		if (deadline != UINT64_MAX && wk_engine_now(engine) >= deadline)
			return false;
		wk_wait_word_change(&engine->tail);
		wk_futex_wait((uint32_t *)&ns->calls, calls, 10 * 1000 * 1000);
	}
	return true;
}

wk_status wk_close(wk_namespace *ns, uint64_t timeout_ns, wk_error *error) {
	wk_error_clear(error);
	bool forked = atomic_load(&ns->engine->forked);
	if (atomic_load(&ns->closed) || forked) {
		/* In a child the engine's memory is left alone: its threads are not here to stop. */
		atomic_store(&ns->closed, true);
		wk_namespace_release(ns);
		return WK_OK;
	}
	uint64_t begin = wk_engine_now(ns->engine);
	if (!wait_for_calls(ns, timeout_ns)) {
		/* The disk stalls, and somebody is in a call: memory, threads and lock stay until the process ends. */
		wk_fail(error, WK_TIMEOUT,
		        "closing %s: calls in other threads did not end within the time given; what was deferred may be "
		        "durable or not, the directory stays locked until this process ends",
		        ns->engine->path);
		if (error != NULL)
			error->outcome_unknown = true;
		return WK_TIMEOUT;
	}
	detach(ns);
	uint64_t spent = wk_engine_now(ns->engine) - begin;
	uint64_t left = timeout_ns == UINT64_MAX ? UINT64_MAX : timeout_ns > spent ? timeout_ns - spent : 0;
	wk_status status = wk_directory_close(ns->engine, left, error);
	wk_namespace_release(ns);
	return status;
}

void wk_abandon(wk_namespace *ns) {
	wait_for_calls(ns, UINT64_MAX);
	detach(ns);
	wk_directory_abandon(ns->engine);
	wk_namespace_release(ns);
}

void wk_namespace_recovery(wk_namespace *ns, wk_recovery_report *report) {
	*report = (wk_recovery_report){0};
	if (wk_enter(ns, NULL) != WK_OK)
		return;
	*report = ns->engine->report;
	wk_leave(ns);
}

static void fill_stats(wk_engine *engine, wk_stats *stats) {
	*stats = engine->counters;
	stats->logs_count = engine->logs_count;
	for (uint32_t i = 0; i < engine->files_count; i++) {
		const wk_store_file *file = engine->files[i];
		stats->journal_files += file->kind == WK_FILE_JOURNAL;
		stats->entry_logs += file->kind == WK_FILE_ENTRY_LOG;
		stats->disk_bytes += file->size;
		stats->live_bytes += file->live_bytes;
	}
	for (uint32_t i = 0; i < engine->prepared.count; i++)
		stats->disk_bytes += engine->prepared.files[i].size;
	stats->disk_bytes += 2 * WK_SUPERBLOCK_SLOT_SIZE + 2 * WK_IO_ALIGNMENT; /* superblock; lock file and shared page */
	stats->disk_bytes += wk_journal_directory_bytes(engine);
	stats->disk_bytes += engine->index.size + engine->other_bytes;
	stats->disk_bytes += engine->output_reserve + engine->index.reserve;
	stats->prepared_files = engine->prepared.count + (engine->next != NULL);
	stats->written_bytes += __atomic_load_n(&engine->zero_filled_bytes, __ATOMIC_RELAXED);
	stats->durable_block = engine->durable;
	stats->memory_logs = wk_ledger_states_memory(engine);
	stats->memory_ranges = engine->pager.bytes;
	stats->memory_memtable = wk_block_cache_bytes(engine->memtable);
	stats->memory_cache = wk_page_cache_bytes(engine->pages) + wk_read_ahead_bytes(engine->ahead);
	stats->memory_sort = wk_mover_memory(engine);
	stats->memory_in_flight = engine->in_flight_bytes;
	stats->memory_readers = atomic_load(&engine->read_memory->held);
	stats->oldest_file = wk_space_oldest_pin(engine, &stats->oldest_ledger);
	stats->backend = engine->io->operations->name[0] == 'i' ? WK_BACKEND_URING : WK_BACKEND_PSYNC;
	stats->sync_method = engine->options.sync_method;
	/* Who only reads has not asked for the choice: it stands in the superblock, once this device was measured. */
	if (stats->sync_method == WK_SYNC_PROBE && engine->superblock.probe_device == wk_engine_journal_device(engine))
		stats->sync_method = engine->superblock.sync_method;
	stats->blocks_in_flight = engine->options.blocks_in_flight;
	stats->probed = wk_probe_grid_is_whole(&engine->superblock.grid);
	stats->disk_full = engine->disk_full;
	stats->failed = engine->failed;
}

void wk_namespace_stats(wk_namespace *ns, wk_stats *stats) {
	*stats = (wk_stats){.oldest_ledger = -1};
	if (wk_enter(ns, NULL) != WK_OK)
		return;
	/* A follower does not know what its writer prepares: it looks. */
	uint64_t disk_bytes = ns->engine->read_only ? wk_files_disk_bytes(ns->engine) : 0;
	wk_engine_lock(ns->engine);
	fill_stats(ns->engine, stats);
	/* The lock is dropped now and then, as there may be a million of them. */
	stats->memory_logs += wk_catalogue_memory(ns->engine) + wk_ledgers_memory(ns->engine);
	wk_engine_unlock(ns->engine);
	stats->disk_bytes = ns->engine->read_only ? disk_bytes : stats->disk_bytes;
	wk_leave(ns);
}

void wk_namespace_journal_times(wk_namespace *ns, wk_journal_times *times) {
	*times = (wk_journal_times){0};
	if (wk_enter(ns, NULL) != WK_OK)
		return;
	wk_engine_lock(ns->engine);
	*times = ns->engine->times;
	wk_engine_unlock(ns->engine);
	wk_leave(ns);
}

uint64_t wk_namespace_durable(wk_namespace *ns) {
	if (wk_enter(ns, NULL) != WK_OK)
		return 0;
	uint64_t durable = atomic_load(&ns->engine->durable);
	wk_leave(ns);
	return durable;
}

wk_status wk_namespace_wait(wk_namespace *ns, uint64_t ticket, uint64_t timeout_ns, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter(ns, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = ns->engine;
	if (atomic_load(&engine->durable) < ticket) {
		wk_engine_lock(engine);
		if (ticket > engine->open.sequence || (ticket == engine->open.sequence && wk_block_is_empty(&engine->open)))
			status = wk_fail(error, WK_INVALID, "waiting for ticket %llu of %s: no append was given it",
			                 (unsigned long long)ticket, engine->path);
		else
			status = wk_journal_wait(engine, ticket, wk_deadline(engine, timeout_ns), false, error);
		wk_engine_unlock(engine);
	}
	wk_leave(ns);
	return status;
}

int wk_namespace_eventfd(wk_namespace *ns) {
	if (wk_enter(ns, NULL) != WK_OK)
		return -1;
	wk_engine_lock(ns->engine);
	if (ns->event_fd < 0)
		ns->event_fd = wk_event_new();
	int fd = ns->event_fd < 0 ? -1 : ns->event_fd;
	wk_engine_unlock(ns->engine);
	wk_leave(ns);
	return fd;
}

void wk_namespace_arm(wk_namespace *ns, uint64_t ticket) {
	if (wk_enter(ns, NULL) != WK_OK)
		return;
	wk_engine *engine = ns->engine;
	wk_engine_lock(engine);
	ns->armed = ticket;
	if (ticket != 0 && ns->event_fd >= 0 && (engine->durable >= ticket || engine->failed)) {
		ns->armed = 0;
		wk_event_signal(ns->event_fd);
	}
	wk_engine_unlock(engine);
	wk_leave(ns);
}

wk_status wk_namespace_drain(wk_namespace *ns, uint64_t *durable) {
	wk_status status = wk_enter(ns, NULL);
	if (status != WK_OK)
		return status;
	/* Only the thread that reads the descriptor asked for it, and only a close takes it away. */
	if (ns->event_fd >= 0)
		wk_event_take(ns->event_fd);
	status = atomic_load(&ns->engine->failed) ? WK_FAILED : WK_OK;
	*durable = atomic_load(&ns->engine->durable); /* after the look at `failed`: what became durable before it counts */
	wk_leave(ns);
	return status;
}

uint64_t wk_namespace_clock_jumps(wk_namespace *ns, int64_t *last_ms) {
	if (wk_enter(ns, NULL) != WK_OK)
		return 0;
	wk_engine_lock(ns->engine);
	uint64_t count = ns->engine->counters.clock_jumps;
	if (last_ms != NULL)
		*last_ms = ns->engine->counters.clock_jump_ms;
	wk_engine_unlock(ns->engine);
	wk_leave(ns);
	return count;
}

wk_status wk_namespace_step(wk_namespace *ns, bool *idle, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter(ns, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = ns->engine;
	if (engine->options.internal != WK_OPEN_MANUAL) {
		status = wk_fail(error, WK_INVALID, "%s has its own threads: step is for WK_OPEN_MANUAL", engine->path);
	} else {
		wk_engine_lock(engine);
		bool worked = wk_journal_step(engine);
		wk_engine_unlock(engine);
		worked |= wk_keeper_step(engine);
		*idle = !worked;
	}
	wk_leave(ns);
	return status;
}

void wk_free(void *memory) {
	free(memory);
}
