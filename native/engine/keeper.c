#include "engine/keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "engine/catalogue.h"
#include "engine/journal.h"
#include "engine/journal_file.h"
#include "engine/ledger.h"
#include "engine/mover.h"
#include "engine/snapshot.h"
#include "engine/space.h"
#include "engine/store_file.h"

void wk_keeper_wake(wk_engine *engine) {
	engine->keeper_due = true;
	pthread_cond_signal(&engine->keeper_wake);
}

/* The next file, ahead of need: the journal then rolls without waiting. (locked, dropped) */
static bool make_next(wk_engine *engine) {
	if (engine->next != NULL || engine->failed || engine->closing)
		return false;
	uint64_t now = wk_engine_now(engine);
	if (engine->disk_full && now < engine->retry_space_ns)
		return false;
	uint64_t size = engine->file_size_next;
	wk_engine_unlock(engine);
	wk_error error;
	uint64_t id;
	wk_store_file *file = NULL;
	wk_status status = wk_file_id_take(engine, &id, &error);
	if (status == WK_OK)
		status = wk_journal_file_make(engine, id, size, WK_MAKE_AHEAD, &file, &error);
	wk_engine_lock(engine);
	engine->retry_space_ns = wk_engine_now(engine) + 200 * 1000 * 1000;
	if (status == WK_OK && file->id < engine->active->id) {
		file->state = WK_FILE_SEALED; /* the journal could not wait and went on in a file of a higher id */
		return true;
	}
	if (status == WK_OK) {
		engine->next = file;
		if (engine->disk_full) {
			engine->disk_full = false;
			wk_journal_wake_room(engine);
		}
		if (engine->file_size_next < engine->options.file_size_max)
			engine->file_size_next = engine->file_size_next * 2 < engine->options.file_size_max ? engine->file_size_next * 2 : engine->options.file_size_max;
		return true;
	}
	if (status == WK_NO_SPACE) {
		/* Not yet a matter for appends: the active file has room. */
		engine->space_low = true;
		return false;
	}
	wk_journal_fail(engine, error.system_error != 0 ? -error.system_error : -EIO, "preparing the next", NULL);
	return false;
}

/* One prepared file in reserve, for what frees space on a full disk. (locked, dropped) */
static bool keep_reserve(wk_engine *engine) {
	if (engine->prepared.count > 0 || engine->failed || engine->closing || engine->next == NULL)
		return false;
	if (engine->space_low && wk_engine_now(engine) < engine->retry_space_ns)
		return false;
	uint64_t size = engine->options.file_size_min;
	wk_engine_unlock(engine);
	wk_error error;
	wk_status status = wk_journal_file_prepare(engine, size, &error);
	wk_engine_lock(engine);
	engine->retry_space_ns = wk_engine_now(engine) + 200 * 1000 * 1000;
	engine->space_low = status == WK_NO_SPACE;
	if (status != WK_OK && status != WK_NO_SPACE)
		wk_journal_fail(engine, error.system_error != 0 ? -error.system_error : -EIO, "preparing a reserve", NULL);
	return status == WK_OK;
}

/* Footers, oldest first: at most one full file may lack its own. (locked, dropped) */
static bool seal_oldest(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind != WK_FILE_JOURNAL || file->state != WK_FILE_FULL)
			continue;
		if (file->footer_failed || engine->failed || file->last_sequence > engine->durable)
			return false;
		file->pins++;
		wk_engine_unlock(engine);
		wk_journal_file_seal(engine, file);
		wk_engine_lock(engine);
		file->pins--;
		return true;
	}
	return false;
}

bool wk_keeper_step(wk_engine *engine) {
	wk_engine_lock(engine);
	bool worked = wk_space_collect(engine); /* space first: it may be what the next file is made of */
	worked |= make_next(engine);
	worked |= seal_oldest(engine);
	worked |= keep_reserve(engine);
	worked |= wk_snapshot_if_due(engine);
	worked |= wk_mover_step(engine);
	wk_engine_unlock(engine);
	return worked;
}

/* Until woken, or until something is due by itself: a retry on a full disk, the mover's next step. (locked, dropped) */
static void sleep_until_due(wk_engine *engine) {
	uint64_t now = wk_engine_now(engine), due = now + 10000000000u;
	if (engine->disk_full || engine->space_low || engine->space_pending)
		due = now + 50 * 1000 * 1000;
	uint64_t mover = wk_mover_deadline(engine);
	due = mover > now && mover < due ? mover : due;
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	uint64_t at = (uint64_t)until.tv_nsec + (due - now);
	until.tv_sec += (time_t)(at / 1000000000u);
	until.tv_nsec = (long)(at % 1000000000u);
	pthread_cond_timedwait(&engine->keeper_wake, &engine->lock, &until);
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
	return NULL;
}

int wk_keeper_start(wk_engine *engine) {
	int result = pthread_create(&engine->keeper, NULL, keep, engine);
	engine->keeper_runs = result == 0;
	return -result;
}

void wk_keeper_stop(wk_engine *engine) {
	if (!engine->keeper_runs)
		return;
	wk_engine_lock(engine);
	engine->keeper_stop = true;
	pthread_cond_signal(&engine->keeper_wake);
	wk_engine_unlock(engine);
	pthread_join(engine->keeper, NULL);
	engine->keeper_runs = false;
}
