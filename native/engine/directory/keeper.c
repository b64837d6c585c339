#include "engine/directory/keeper.h"
#include "engine/manual.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "engine/catalogue.h"
#include "engine/check.h"
#include "engine/directory/directory_lock.h"
#include "engine/directory/probe_grid.h"
#include "engine/directory/superblock_file.h"
#include "engine/index.h"
#include "engine/journal.h"
#include "engine/mover.h"
#include "engine/space.h"

enum { RETRY_SPACE_NS = 200 * 1000 * 1000, LOCK_LOOK_NS = 1000 * 1000 * 1000 };

void wk_keeper_wake(wk_engine *engine) {
	engine->keeper_due = true;
	pthread_cond_signal(&engine->keeper_wake);
}

/* (locked) What preparing a file ended in. */
static void prepared_or_not(wk_engine *engine, wk_status status, const wk_error *error) {
	engine->retry_space_ns = wk_engine_now(engine) + RETRY_SPACE_NS;
	engine->space_low = status != WK_OK && wk_error_is_shortage(error);
	if (engine->space_low) /* not yet a matter for appends: the active file has room */
		wk_reserve_is_short(engine, error);
	else if (status != WK_OK && status != WK_NOT_FOUND)
		wk_journal_fail(engine, error->system_error != 0 ? -error->system_error : -EIO, "preparing the next file",
		                NULL);
}

static bool may_prepare(wk_engine *engine) {
	return !engine->failed && !engine->closing &&
	       (!(engine->space_low || engine->disk_full) || wk_engine_now(engine) >= engine->retry_space_ns);
}

static void take_appends_again(wk_engine *engine) {
	engine->disk_full = false;
	wk_journal_wake_room(engine);
}

/*
 * The reserve is there again: appends may have the room that is left in the active file, even where there is none for
 * another one.
 */
static void look_at_the_reserve(wk_engine *engine) {
	if (engine->disk_full && !engine->sealing && engine->reserve_covers > 0 && !wk_reserve_owes_outputs(engine))
		take_appends_again(engine);
}

/* A prepared file gets its id and name ahead of need: the journal then rolls without waiting. (locked, dropped) */
static bool name_next(wk_engine *engine) {
	if (engine->next != NULL || !may_prepare(engine) || !wk_prepared_is_there(engine, engine->file_size_next))
		return false;
	wk_error error;
	wk_store_file *file = NULL;
	wk_status status = wk_journal_file_make(engine, engine->file_size_next, WK_MAKE_PREPARED, &file, &error);
	prepared_or_not(engine, status, &error);
	if (status != WK_OK)
		return false;
	if (file->id < engine->active->id || engine->next != NULL) {
		file->state = WK_FILE_SEALED; /* the journal could not wait, and went on in a file of a higher id */
		return true;
	}
	engine->next = file;
	if (engine->disk_full && !wk_reserve_owes_outputs(engine))
		take_appends_again(engine);
	return true;
}

static void shrink_files(wk_engine *engine) {
	uint64_t half = engine->file_size_next / 2 / WK_BLOCK_ALIGNMENT * WK_BLOCK_ALIGNMENT;
	engine->file_size_next = half > engine->options.file_size_min ? half : engine->options.file_size_min;
}

/* Zeros, and nobody waits for them. In manual mode it is the caller of a step who would wait for the pauses. */
static enum wk_space unhurried(const wk_engine *engine) {
	return engine->options.internal == WK_OPEN_MANUAL ? WK_SPACE_WRITTEN : WK_SPACE_AT_LEISURE;
}

/* The reserve, for what frees space on a full disk and for what was accepted when it filled. (locked, dropped) */
static bool prepare_reserve(wk_engine *engine) {
	if (wk_reserve_is_there(engine, UINT32_MAX) || !may_prepare(engine))
		return false;
	uint64_t size = wk_reserve_size(engine, engine->reserve_wanted);
	enum wk_space how = atomic_load(&engine->room.sleepers) > 0 ? WK_SPACE_ALLOCATED : unhurried(engine);
	wk_engine_unlock(engine);
	wk_error error;
	wk_status status = wk_prepared_make(engine, size, how, &error);
	wk_engine_lock(engine);
	prepared_or_not(engine, status, &error);
	if (status == WK_OK) {
		engine->reserve_refused = 0;
		wk_journal_wake_room(engine);
	} else if (wk_error_is_shortage(&error)) {
		if (status == WK_NO_SPACE && engine->reserve_covers == 0 && wk_prepared_give_up(engine))
			engine->retry_space_ns = 0;
		else
			wk_reserve_was_refused(engine);
	}
	return status == WK_OK;
}

static bool prepare_outputs(wk_engine *engine) {
	bool worked;
	wk_error error;
	int result = wk_reserve_outputs(engine, &worked);
	if (result < 0)
		prepared_or_not(engine, wk_fail_io(&error, result, "keeping back space"), &error);
	return worked;
}

/*
 * One is not there at all: it comes before all that the journal wants, and at once where some space was freed. What cannot
 * be had for it may still do for the journal's reserve.
 */
static bool prepare_owed_outputs(wk_engine *engine, bool freed) {
	bool may = may_prepare(engine) || (freed && !engine->failed && !engine->closing);
	if (!may || !wk_reserve_owes_outputs(engine))
		return false;
	uint64_t retry_ns = engine->retry_space_ns;
	bool worked = prepare_outputs(engine);
	engine->retry_space_ns = retry_ns;
	if (engine->space_low && engine->output_reserve == 0) /* smaller files want a smaller one */
		shrink_files(engine);
	return worked;
}

/* As large as they are wanted now: behind the journal's reserve. */
static bool prepare_larger_outputs(wk_engine *engine) {
	return may_prepare(engine) && wk_reserve_is_there(engine, UINT32_MAX) && prepare_outputs(engine);
}

/*
 * A file for later, to become the next. Its space is written, which makes later syncs cheaper; but a journal of large
 * blocks is bound by bandwidth, and gets its space allocated only: it would pay every byte twice, for few syncs.
 * (locked, dropped)
 */
static bool prepare_next(wk_engine *engine) {
	if (engine->next != NULL || wk_prepared_is_there(engine, engine->file_size_next) ||
	    !wk_reserve_is_there(engine, UINT32_MAX) || wk_reserve_owes_outputs(engine) || !may_prepare(engine))
		return false;
	bool small = engine->rolled_block_size <= WK_ZEROED_BLOCK_MAX;
	enum wk_space how = small ? unhurried(engine) : WK_SPACE_ALLOCATED;
	bool tight = engine->space_low || engine->disk_full;
	if (!tight && engine->file_size_next < engine->options.file_size_max && engine->rolled_ns != 0)
		engine->file_size_next = engine->file_size_next * 2 < engine->options.file_size_max
		                             ? engine->file_size_next * 2
		                             : engine->options.file_size_max;
	uint64_t size = engine->file_size_next;
	wk_engine_unlock(engine);
	wk_error error;
	wk_status status = wk_prepared_make(engine, size, how, &error);
	wk_engine_lock(engine);
	prepared_or_not(engine, status, &error);
	if (status == WK_NO_SPACE) /* what is left of a nearly full disk may do for smaller files */
		shrink_files(engine);
	return status == WK_OK;
}

bool wk_keeper_seal_oldest(wk_engine *engine) {
	for (uint32_t i = 0; engine->footers_due > 0 && i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind != WK_FILE_JOURNAL || file->state != WK_FILE_FULL || file->footer_failed)
			continue;
		if (engine->failed || file->footer_under_way || file->last_sequence > engine->durable)
			return false;
		file->pins++;
		file->footer_under_way = true;
		wk_engine_unlock(engine);
		wk_journal_file_seal(engine, file);
		wk_engine_lock(engine);
		file->footer_under_way = false;
		file->pins--;
		wk_journal_wake_room(engine);
		if (engine->driver_runs)
			wk_driver_wake(engine); /* it may wait for this to roll */
		return true;
	}
	return false;
}

/* Blocks were written since the last look whether the directory is still ours. */
static bool wants_look(const wk_engine *engine) {
	return !engine->failed && !engine->closing && engine->durable > engine->looked_sequence;
}

void wk_keeper_look_at_lock(wk_engine *engine) {
	uint64_t now = wk_engine_now(engine);
	if (!wants_look(engine) || now < engine->look_due_ns)
		return;
	engine->looked_sequence = engine->durable;
	engine->look_due_ns = now + LOCK_LOOK_NS;
	wk_engine_unlock(engine);
	(void)wk_directory_lock_check(engine, NULL); /* the journal fails where it is not */
	wk_engine_lock(engine);
}

bool wk_keeper_step(wk_engine *engine) {
	wk_engine_lock(engine);
	wk_keeper_look_at_lock(engine);
	bool worked = wk_range_pager_step(engine);
	bool freed = wk_space_collect(engine); /* space before files: it may be what the next one is made of */
	worked |= freed | prepare_owed_outputs(engine, freed);
	worked |= name_next(engine);
	worked |= wk_journal_footer_look_again(engine);
	worked |= wk_keeper_seal_oldest(engine);
	worked |= prepare_reserve(engine);
	worked |= prepare_larger_outputs(engine);
	worked |= prepare_next(engine);
	look_at_the_reserve(engine);
	worked |= wk_snapshot_if_due(engine);
	worked |= wk_mover_step(engine);
	worked |= wk_index_if_due(engine);
	worked |= wk_retention_step(engine);
	worked |= wk_scrub_step(engine);
	worked |= wk_probe_grid_step(engine);
	wk_engine_unlock(engine);
	return worked;
}

/* (locked, dropped) */
static void sleep_for(wk_engine *engine, uint64_t ns) {
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	uint64_t at = (uint64_t)until.tv_nsec + ns;
	until.tv_sec += (time_t)(at / 1000000000u);
	until.tv_nsec = (long)(at % 1000000000u);
	pthread_cond_timedwait(&engine->keeper_wake, &engine->lock, &until);
}

/* Until woken, or until something is due by itself: a retry on a full disk, the mover's next step. (locked, dropped) */
static void sleep_until_due(wk_engine *engine) {
	uint64_t now = wk_engine_now(engine), due = now + 10000000000u;
	if (engine->disk_full || engine->space_low)
		due = now + 50 * 1000 * 1000;
	due = wants_look(engine) && engine->look_due_ns > now && engine->look_due_ns < due ? engine->look_due_ns : due;
	uint64_t mover = wk_mover_deadline(engine);
	due = mover > now && mover < due ? mover : due;
	uint64_t probe = wk_probe_grid_deadline(engine);
	due = probe > now && probe < due ? probe : due;
	uint64_t scrub = wk_scrub_deadline(engine);
	due = scrub > now && scrub < due ? scrub : due;
	if (engine->footers_shared_ns > now && engine->footers_shared_ns < due)
		due = engine->footers_shared_ns;
	bool retains = false;
	for (uint32_t i = 0; i < engine->log_options_count; i++)
		retains |= engine->log_options[i]->retention_seconds != 0;
	if (retains && engine->retention_due_ns > now && engine->retention_due_ns < due)
		due = engine->retention_due_ns;
	sleep_for(engine, due - now);
}

/*
 * The last writes of a directory that is closed. They are the keeper's where it runs: a disk that stalls then holds up
 * that thread, and close() no longer than its timeout.
 */
static void write_last(wk_engine *engine) {
	wk_probe_grid_stop(engine);
	if (!engine->closing || engine->read_only)
		return;
	if (!engine->failed && engine->durable > engine->looked_sequence)
		(void)wk_directory_lock_check(engine, NULL); /* who closes is told, too */
	wk_index_at_close(engine);
	if (engine->failed)
		return;
	engine->superblock.clean = true;
	engine->superblock.closed_sequence = engine->filled;
	wk_error error;
	wk_status status = wk_superblock_store(engine, &error);
	wk_engine_lock(engine);
	if (status != WK_OK)
		wk_journal_fail(engine, error.system_error != 0 ? -error.system_error : -EIO, "writing the superblock", NULL);
	wk_engine_unlock(engine);
}

static void *keep(void *context) {
	wk_engine *engine = context;
	wk_engine_lock(engine);
	while (!engine->keeper_stop) {
		engine->keeper_due = false;
		wk_engine_unlock(engine);
		bool worked = wk_keeper_step(engine);
		wk_engine_lock(engine);
		if (!worked && !engine->keeper_due && !engine->keeper_stop)
			sleep_until_due(engine);
	}
	wk_engine_unlock(engine);
	write_last(engine);
	wk_engine_lock(engine);
	engine->keeper_gone = true;
	pthread_cond_broadcast(&engine->keeper_wake);
	wk_engine_unlock(engine);
	return NULL;
}

int wk_keeper_start(wk_engine *engine) {
	int result = wk_thread_start(&engine->keeper, keep, engine);
	engine->keeper_runs = result == 0;
	return result;
}

bool wk_keeper_stop(wk_engine *engine, uint64_t deadline_ns) {
	if (!engine->keeper_runs) {
		write_last(engine);
		return true;
	}
	wk_engine_lock(engine);
	engine->keeper_stop = true;
	pthread_cond_broadcast(&engine->keeper_wake);
	uint64_t now;
	while (!engine->keeper_gone && (now = wk_engine_now(engine)) < deadline_ns)
		deadline_ns == UINT64_MAX ? (void)pthread_cond_wait(&engine->keeper_wake, &engine->lock)
		                          : sleep_for(engine, deadline_ns - now);
	bool gone = engine->keeper_gone;
	wk_engine_unlock(engine);
	if (gone) {
		pthread_join(engine->keeper, NULL);
		engine->keeper_runs = false;
	}
	return gone;
}
