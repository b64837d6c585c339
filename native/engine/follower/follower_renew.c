#include "engine/follower/follower_renew.h"

#include <errno.h>
#include <string.h>

#include "engine/catalogue.h"
#include "engine/directory.h"
#include "engine/index.h"

/* What is the same stays untouched: the kind of the directory, for one, is read without the lock. */
static void exchange(void *a, void *b, size_t size) {
	uint8_t *left = a, *right = b;
	for (size_t i = 0; i < size; i++) {
		if (left[i] == right[i])
			continue;
		uint8_t kept = left[i];
		left[i] = right[i];
		right[i] = kept;
	}
}

/* ---- logs that somebody holds ---- */

/* Those that are no longer there go into the fresh tables by their id, where the last handle looks for them. */
static bool carry_deleted(wk_engine *engine, wk_engine *fresh) {
	bool room = true;
	for (uint32_t i = 0; i < engine->by_id_capacity && room; i++) {
		wk_log_state *log = engine->logs_by_id[i];
		if (log == NULL || log->handles == 0 || wk_catalogue_by_id(fresh, log->id) != NULL)
			continue;
		room = wk_log_table_reserve(fresh);
		if (room)
			wk_log_table_insert_id(fresh, log);
	}
	for (uint32_t i = 0; i < engine->by_id_capacity && !room; i++)
		if (engine->logs_by_id[i] != NULL &&
		    wk_catalogue_by_id(fresh, engine->logs_by_id[i]->id) == engine->logs_by_id[i])
			wk_log_table_remove_id(fresh, engine->logs_by_id[i]);
	return room;
}

static void carry(wk_engine *engine, wk_engine *fresh, wk_log_state *log) {
	wk_log_state *other = wk_catalogue_by_id(fresh, log->id);
	if (other == log) {
		if (!log->deleted)
			wk_log_table_remove_name(engine, log);
		wk_log_table_remove_id(engine, log);
		log->deleted = true;
		log->segments_count = 0;
		log->options = NULL; /* the old view's */
		return;
	}
	wk_log_table_replace(fresh, other, log);
	wk_log_table_replace(engine, log, other);
	exchange(log, other, sizeof *log);
	log->handles = other->handles;
	other->handles = 0;
}

/* ---- the rest ---- */

static void exchange_views(wk_engine *engine, wk_engine *fresh) {
#define EXCHANGE(field) exchange(&engine->field, &fresh->field, sizeof engine->field)
	EXCHANGE(superblock);
	EXCHANGE(files);
	EXCHANGE(files_count);
	EXCHANGE(files_capacity);
	EXCHANGE(id_seed);
	EXCHANGE(ledgers);
	EXCHANGE(ledgers_count);
	EXCHANGE(ledgers_capacity);
	EXCHANGE(states);
	EXCHANGE(states_count);
	EXCHANGE(states_capacity);
	EXCHANGE(index);
	EXCHANGE(pager.bytes);
	EXCHANGE(pager.ranges_count);
	EXCHANGE(logs);
	EXCHANGE(logs_capacity);
	EXCHANGE(logs_count);
	EXCHANGE(logs_by_id);
	EXCHANGE(by_id_capacity);
	EXCHANGE(by_id_count);
	EXCHANGE(log_options);
	EXCHANGE(log_options_count);
	EXCHANGE(next_log_id);
	EXCHANGE(next_ledger_id);
	EXCHANGE(next_catalogue_entry);
	EXCHANGE(catalogue_delta);
	EXCHANGE(catalogue_snapshot_size);
	EXCHANGE(window);
	EXCHANGE(open.sequence);
	EXCHANGE(last_crc);
	EXCHANGE(offset);
	EXCHANGE(active);
	EXCHANGE(next);
	EXCHANGE(follower->walk);
	EXCHANGE(follower->notes);
	EXCHANGE(follower->count);
	EXCHANGE(follower->capacity);
	wk_walk *walks[] = {&engine->follower->walk, &fresh->follower->walk};
	wk_engine *owners[] = {engine, fresh};
	for (int i = 0; i < 2; i++)
		walks[i]->engine = walks[i]->reader.engine = owners[i];
	__atomic_store_n(&engine->follower->refreshed_durable, fresh->follower->refreshed_durable, __ATOMIC_RELAXED);
	if (fresh->shared != NULL) {
		EXCHANGE(shared);
		EXCHANGE(follower->page_is_linked);
	}
#undef EXCHANGE
	if (fresh->durable > engine->durable)
		atomic_store(&engine->durable, atomic_load(&fresh->durable));
	wk_wait_word_change(&engine->tail);
}

/*
 * What is damaged by now is met by whoever reads it: nothing is repaired in memory for a new look, as what that shows
 * is on no disk, and goes with the overlay.
 */
wk_status wk_follower_renew(wk_engine *engine, wk_error *error) {
	wk_engine *fresh;
	wk_open_options options = engine->options;
	options.on_damage = WK_ON_DAMAGE_STOP;
	wk_status status = wk_directory_open(engine->path, &options, engine->io, &fresh, error);
	if (status != WK_OK)
		return status;
	if (memcmp(fresh->superblock.directory_id, engine->superblock.directory_id,
	           sizeof engine->superblock.directory_id) != 0) {
		wk_directory_close(fresh, UINT64_MAX, NULL);
		return wk_fail(error, WK_DAMAGED, "following %s: another directory's files stand there by now; open it again",
		               engine->path);
	}
	bool failed_before = engine->follower->proof_failed;
	engine->follower->proof_failed |= fresh->follower->proof_failed;
	if (failed_before && fresh->follower->proved) {
		wk_directory_close(fresh, UINT64_MAX, NULL);
		return wk_fail_io(error, -EIO,
		                  "following %s: a sync failed, so a further one does not show what is durable; open it again",
		                  engine->path);
	}
	/* A list of names taken beside the writer may lack one: what this look does not reach is not gone for that. */
	if (fresh->follower->walk.scan.sequence < engine->follower->walk.scan.sequence) {
		wk_directory_close(fresh, UINT64_MAX, NULL);
		return wk_fail(error, WK_DAMAGED,
		               "following %s: a new look reaches less far than the one before; open it again", engine->path);
	}
	wk_engine_lock(engine);
	wk_store_file_let_go(engine);
	wk_store_file_let_go(fresh);
	bool room = carry_deleted(engine, fresh);
	if (room) {
		for (uint32_t i = 0; i < engine->by_id_capacity;) {
			wk_log_state *log = engine->logs_by_id[i];
			if (log != NULL && log->handles > 0)
				carry(engine, fresh, log); /* what stands here now has no handles */
			else
				i++;
		}
		exchange_views(engine, fresh);
		for (uint32_t i = fresh->files_count; i-- > 0;)
			if (fresh->files[i]->pins > 0)
				wk_store_file_retire(fresh, fresh->files[i]);
	}
	wk_engine_unlock(engine);
	wk_directory_close(fresh, UINT64_MAX, NULL);
	return room ? WK_OK : wk_fail(error, WK_NO_MEMORY, "following %s: no memory", engine->path);
}
