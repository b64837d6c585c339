#include "engine/space/space.h"

#include <stdlib.h>

#include "engine/directory.h"
#include "engine/index.h"
#include "engine/journal.h"

enum { RETRY_NS = 1000 * 1000 * 1000, GIVEN_AWAY_MAX = 1024 };

/*
 * Of a file without a footer nothing shows that it is whole, but that the next one goes on where it ends. Behind an open
 * one that is still to get its footer may turn out not to.
 */
static bool bears_witness(const wk_engine *engine, uint32_t at) {
	while (at-- > 0) {
		const wk_store_file *before = engine->files[at];
		if (before->kind == WK_FILE_JOURNAL && before->end_offset > 0)
			return before->state == WK_FILE_FULL;
	}
	return false;
}

/*
 * May this file be overwritten or unlinked (storage rule 21)? What killed or moved its entries is durable: callers
 * lower live counts only then. No snapshot points into it: the catalogue's entries below the newest durable snapshot
 * are what a dead one is. Nobody in this process uses it (pins). Hard links are looked at when it is recycled. What
 * its state records say is in the durable index file, and a ledger store's mark has passed it. And it is not the file
 * before the active one: if the first block of that is torn, recovery needs to know which block it was. What is behind it
 * shows on the disk that it was durable, by a footer or by numbers that the window would not have given out: a gap that
 * nothing vouches for is the end of the journal.
 */
static bool is_free(const wk_engine *engine, uint32_t at) {
	const wk_store_file *file = engine->files[at];
	return file->live_entries == 0 && file->pins == 0 && wk_index_lets_go(engine, file) && wk_space_may_go(engine, at);
}

bool wk_space_may_go(const wk_engine *engine, uint32_t at) {
	const wk_store_file *file = engine->files[at];
	if (file->state != WK_FILE_SEALED && (file->state != WK_FILE_FULL || !file->footer_failed))
		return false;
	if (file->kind == WK_FILE_ENTRY_LOG || file->end_offset == 0)
		return true;
	if (bears_witness(engine, at))
		return false;
	for (uint32_t i = at + 1; i < engine->files_count; i++) {
		const wk_store_file *later = engine->files[i];
		bool shows = later->state == WK_FILE_SEALED || engine->durable > file->last_sequence + WK_BLOCKS_IN_FLIGHT_MAX;
		if (later->kind == WK_FILE_JOURNAL && later->end_offset > 0 && later->state != WK_FILE_ACTIVE && shows)
			return true;
	}
	return engine->active->end_offset > 0 &&
	       engine->active->first_sequence + WK_BLOCKS_IN_FLIGHT_MAX < engine->durable && engine->active->id > file->id;
}

/* The first file that may go; one that could not, a moment ago, does not keep those behind it. */
static wk_store_file *first_free(const wk_engine *engine, uint64_t now) {
	for (uint32_t i = 0; i < engine->files_count; i++)
		if (is_free(engine, i) && now >= engine->files[i]->stays_ns)
			return engine->files[i];
	return NULL;
}

/*
 * A ledger store's journal file above the mark (wk_index_lets_go): the numbers of its blocks will be missing. The superblock
 * says so before anybody can find the file gone.
 */
static bool is_unaccounted(const wk_engine *engine, const wk_store_file *file) {
	return wk_engine_holds_ledgers(engine) && file->kind == WK_FILE_JOURNAL && file->end_offset > 0 &&
	       file->id >= engine->index.mark && file->last_sequence > engine->superblock.accepted_sequence;
}

/* (locked, dropped) In both slots, as either may be what an open finds. */
static void account_for(wk_engine *engine, wk_store_file *file) {
	wk_superblock *root = &engine->superblock;
	wk_error error = {0};
	file->pins++;
	wk_engine_unlock(engine);
	pthread_mutex_lock(&engine->file_id_lock);
	uint64_t before = root->accepted_sequence;
	root->accepted_sequence = file->last_sequence;
	wk_status status = wk_superblock_store(engine, &error);
	if (status == WK_OK)
		status = wk_superblock_store(engine, &error);
	if (status != WK_OK)
		root->accepted_sequence = before;
	pthread_mutex_unlock(&engine->file_id_lock);
	wk_engine_lock(engine);
	wk_store_file_unpin(engine, file);
	if (status == WK_IO)
		wk_journal_fail(engine, -error.system_error, "writing the superblock", NULL);
	else if (status != WK_OK)
		file->stays_ns = wk_engine_now(engine) + RETRY_NS;
}

/* (locked, dropped) False: it stays as it was. */
static bool give_away(wk_engine *engine, wk_store_file *file) {
	uint32_t before = file->state; /* one without a footer does not come to have one */
	file->state = WK_FILE_DYING;
	wk_ledgers_forget_file(engine, file); /* nobody finds it any more, and takes hold of it meanwhile */
	wk_block_cache_drop_file(engine->memtable, file->id);
	wk_read_ahead_drop_file(engine->ahead, file->id);
	wk_engine_unlock(engine);
	bool reused = false;
	wk_status status = wk_journal_file_recycle(engine, file, &reused);
	wk_engine_lock(engine);
	if (status == WK_OK) {
		wk_store_file_remove(engine, file);
		return true;
	}
	file->state = before;
	file->stays_ns = wk_engine_now(engine) + RETRY_NS;
	return false;
}

bool wk_space_collect(wk_engine *engine) {
	uint64_t now = wk_engine_now(engine);
	wk_store_file *file;
	if (engine->failed) /* in the middle of something, perhaps: what memory says of files need not be so */
		return false;
	/* Many at once: the journal does not wait for the keeper's steps, and each of them may take long. */
	uint32_t given = 0;
	while (given < GIVEN_AWAY_MAX && !engine->failed && !engine->keeper_stop &&
	       (file = first_free(engine, now)) != NULL) {
		if (is_unaccounted(engine, file))
			account_for(engine, file); /* then it is looked at again */
		else
			given += give_away(engine, file);
	}
	return given > 0;
}

static bool keeps(wk_ledger *ledger, const wk_store_file *file) {
	const wk_range *range = wk_range_in(ledger, file);
	return range != NULL && range->dead < range->count;
}

/* A ledger with live entries in the file; the catalogue only where there is no other. Of what is in memory. */
static int64_t pinning_ledger(wk_engine *engine, const wk_store_file *file) {
	int64_t found = -1;
	for (uint32_t l = 0; l < engine->ledgers_capacity && found <= WK_CATALOGUE_LEDGER; l++)
		if (engine->ledgers[l] != NULL && engine->ledgers[l]->id > found && keeps(engine->ledgers[l], file))
			found = engine->ledgers[l]->id;
	return found;
}

/* The same of ledgers that are paged out: the file's footer names them. (locked, dropped) */
static int64_t paged_ledger(wk_engine *engine, wk_store_file *file) {
	wk_run_cursor *cursor = calloc(1, sizeof *cursor);
	if (cursor == NULL)
		return -1;
	cursor->file = file;
	cursor->end = file->footer.runs_count;
	file->pins++;
	int64_t before = -1, found = -1;
	for (wk_status status = WK_OK; found < 0;) {
		wk_engine_unlock(engine);
		const wk_footer_run *run;
		while ((run = wk_run_next(engine, cursor, &status, NULL)) != NULL && run->ledger_id == before)
			;
		wk_engine_lock(engine);
		if (run == NULL)
			break;
		before = run->ledger_id;
		wk_ledger *ledger;
		if (wk_ranges_bring(engine, before, -1, &ledger, NULL) == WK_OK && ledger != NULL && keeps(ledger, file))
			found = before;
	}
	wk_store_file_unpin(engine, file);
	free(cursor);
	return found;
}

uint64_t wk_space_oldest_pin(wk_engine *engine, int64_t *ledger_id) {
	*ledger_id = -1;
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		if (file->state != WK_FILE_SEALED || file->live_entries == 0)
			continue;
		uint64_t id = file->id;
		*ledger_id = pinning_ledger(engine, file);
		if (*ledger_id <= WK_CATALOGUE_LEDGER && engine->pager.paged > 0) {
			int64_t paged = paged_ledger(engine, file);
			*ledger_id = paged > *ledger_id ? paged : *ledger_id;
		}
		return id;
	}
	return 0;
}
