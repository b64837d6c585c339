#include "engine/follower/follower.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/catalogue.h"
#include "engine/directory.h"
#include "engine/follower/follower_renew.h"
#include "engine/follower/shared_page.h"
#include "engine/index.h"
#include "engine/recovery.h"

static const uint64_t SUSPECT_MAX_NS = 5000000000;

enum {
	POLL_MIN_NS = 200 * 1000,
	POLL_MAX_NS = 5 * 1000 * 1000,
	LOCK_LOOK_NS = 100 * 1000 * 1000,
	PAGE_LOOK_NS = 1000 * 1000 * 1000, /* between two looks at which file the page is, and at the journal without it */
	RENEW_NS = 20 * 1000 * 1000,       /* between two tries where the first did not help */
	STUCK_NS = 2000 * 1000 * 1000,
	ATTEMPTS = 5,
	DROSS_MAX = 64,
	LEISURE = 20, /* times what a look took are let pass, before one that may be for nothing */
};

static uint64_t leisure_ns(uint64_t took_ns, uint64_t at_least_ns, uint64_t at_most_ns) {
	uint64_t pause = took_ns < at_most_ns / LEISURE ? took_ns * LEISURE : at_most_ns;
	return pause > at_least_ns ? pause : at_least_ns;
}

wk_status wk_follower_start(wk_engine *engine, wk_error *error) {
	engine->follower = calloc(1, sizeof *engine->follower);
	if (engine->follower == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	engine->follower->mapped_ns = wk_engine_now(engine);
	return wk_shared_page_renew(engine) == -ENOMEM ? wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path)
	                                               : WK_OK;
}

void wk_follower_free(wk_engine *engine) {
	if (engine->follower == NULL)
		return;
	wk_journal_reader_free(&engine->follower->walk.reader);
	free(engine->follower->notes);
	free(engine->follower);
	engine->follower = NULL;
}

wk_walk *wk_follower_walk(wk_engine *engine) {
	return &engine->follower->walk;
}

wk_status wk_follower_note(wk_engine *engine, uint64_t sequence, int64_t ledger_id, int64_t entry_id) {
	struct wk_follower *f = engine->follower;
	if (f->count == f->capacity) {
		uint32_t capacity = f->capacity == 0 ? 64 : f->capacity * 2;
		wk_follower_entry *notes = realloc(f->notes, capacity * sizeof *notes);
		if (notes == NULL)
			return WK_NO_MEMORY;
		f->notes = notes;
		f->capacity = capacity;
	}
	f->notes[f->count++] = (wk_follower_entry){sequence, ledger_id, entry_id};
	return WK_OK;
}

void wk_follower_release(wk_engine *engine, uint64_t durable) {
	struct wk_follower *f = engine->follower;
	/* A block that could not be indexed to its end may have noted entries: the scan stands before it. */
	uint64_t through = durable < f->walk.scan.sequence ? durable : f->walk.scan.sequence;
	uint32_t done = 0;
	for (; done < f->count && f->notes[done].sequence <= through; done++) {
		wk_ledger *ledger = wk_ledger_find(engine, f->notes[done].ledger_id);
		if (ledger != NULL && f->notes[done].entry_id > ledger->durable_entry)
			ledger->durable_entry = f->notes[done].entry_id;
	}
	for (uint32_t i = done; i < f->count; i++)
		f->notes[i - done] = f->notes[i];
	f->count -= done;
	/* Behind a new look that reached less far, entries come to be shown again while that point stands. */
	bool shown = done > 0 || through > engine->durable;
	if (through > engine->durable)
		atomic_store(&engine->durable, through);
	if (shown)
		wk_wait_word_change(&engine->tail); /* a reader that saw the end meanwhile looks again */
}

uint64_t wk_follower_durable(wk_engine *engine) {
	uint64_t durable = engine->follower->walk.scan.durable_through;
	uint64_t shared = engine->shared != NULL ? __atomic_load_n(&engine->shared->durable, __ATOMIC_ACQUIRE) : 0;
	return shared > durable ? shared : durable;
}

/* The writer's blocks up to `durable` are there, and were not met. */
static bool is_behind(const wk_engine *engine, uint64_t durable) {
	return engine->follower->walk.scan.sequence < durable;
}

/*
 * The same, where it is certain. A page that may be another directory's says nothing of this one but that what is in both
 * is durable: it is a reason to look, and no proof.
 */
static bool is_surely_behind(const wk_engine *engine, uint64_t durable) {
	return !engine->follower->page_is_linked && is_behind(engine, durable);
}

/* Nobody holds the lock, or no writer ever came and made it (a backup): what is there is all there is. */
bool wk_follower_is_alone(wk_engine *engine) {
	if (engine->follower == NULL)
		return false;
	const struct wk_io_operations *io = engine->io->operations;
	char *path = wk_engine_path(engine, "lock");
	wk_file *file = NULL;
	int result = path != NULL ? io->open(engine->io, path, WK_IO_READ, &file) : -ENOMEM;
	bool free_to_take = result == -ENOENT || (result == 0 && io->lock(engine->io, file, false) == 0);
	if (file != NULL)
		io->close(engine->io, file);
	free(path);
	/* Somebody may have removed the lock of a writer that lives. */
	if (free_to_take && engine->superblock_file != NULL)
		free_to_take = io->lock(engine->io, engine->superblock_file, false) == 0;
	return free_to_take;
}

bool wk_follower_failed_to_prove(const wk_engine *engine) {
	return engine->follower != NULL && engine->follower->proof_failed;
}

/*
 * Blocks that nothing confirms, and no writer. A reader may not write them again, as the next writer will, so a sync of
 * its own proves something only where none can have failed before: behind a start of the machine, when no kernel is
 * left that took bytes for clean which never reached the disk (storage rule 13): the lock says under which one the last
 * writer ran. Before that the shared page knows every sync that succeeded, and so every block that was acknowledged: what
 * is behind is not shown. A writer without a page leaves nobody who knows.
 */
static void release_what_is_durable(wk_engine *engine) {
	struct wk_follower *f = engine->follower;
	wk_follower_release(engine, wk_follower_durable(engine));
	uint64_t now = wk_engine_now(engine);
	if (f->count == 0 || now - f->looked_ns < LOCK_LOOK_NS)
		return;
	f->looked_ns = now;
	wk_store_file *file = f->walk.last;
	if (!wk_follower_is_alone(engine))
		return;
	bool may_prove = !f->proof_failed && !wk_directory_was_written_under_this_kernel(engine);
	if (may_prove && wk_store_file_use(engine, file) == 0) {
		f->proof_failed = engine->io->operations->sync(engine->io, file->handle) != 0;
		if (!f->proof_failed && !wk_directory_was_written_under_this_kernel(engine)) { /* nor meanwhile */
			f->proved = true;
			wk_follower_release(engine, f->walk.scan.sequence);
		}
	}
	engine->report.unconfirmed_blocks = f->walk.scan.sequence - engine->durable;
}

/* ---- catching up ---- */

/* New journal files and entry logs. (locked) */
static wk_status find_new_files(wk_engine *engine, wk_error *error) {
	wk_status status = wk_files_find(engine, error);
	for (uint32_t i = 0; i < engine->files_count && status == WK_OK; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind != WK_FILE_ENTRY_LOG || file->state == WK_FILE_SEALED)
			continue;
		status = wk_store_footer_read(engine, file, error);
		if (status == WK_OK)
			status = wk_store_footer_load(engine, file, error);
		if (status == WK_IO || status == WK_NO_MEMORY)
			return status;
		if (status != WK_OK)
			return wk_fail(error, WK_DAMAGED, "%s of %s has a damaged footer",
			               wk_file_name_of(file->id, file->kind).text, engine->path);
		file->state = WK_FILE_SEALED;
	}
	return status;
}

/* The blocks that came since. (locked) */
static wk_status walk_on(wk_engine *engine, wk_error *error) {
	struct wk_follower *f = engine->follower;
	wk_walk *walk = &f->walk;
	wk_status status = WK_OK;
	if (walk->last != NULL && walk->last->state != WK_FILE_SEALED)
		status = wk_walk_file(walk, walk->last, error);
	for (bool found = true; status == WK_OK && found;) {
		uint32_t at = 0;
		if (walk->last == NULL) {
			while (at < engine->files_count && engine->files[at]->kind != WK_FILE_JOURNAL)
				at++;
			if (at == engine->files_count)
				return WK_OK;
			status = wk_walk_file(walk, engine->files[at], error);
			found = walk->last != NULL;
			continue;
		}
		while (engine->files[at] != walk->last)
			at++;
		status = wk_walk_next(walk, &at, &found, error);
	}
	return status;
}

/* Changes of the catalogue that are durable now. No lock held. */
static wk_status apply_changes(wk_engine *engine, wk_error *error) {
	wk_engine_lock(engine);
	wk_ledger *catalogue = wk_ledger_find(engine, WK_CATALOGUE_LEDGER);
	int64_t last = catalogue != NULL ? catalogue->durable_entry : -1, first = engine->next_catalogue_entry;
	wk_engine_unlock(engine);
	if (!engine->catalogue_loaded) {
		bool alone = wk_follower_is_alone(engine);
		int64_t claimed = alone ? wk_missing_entries_last(engine, WK_CATALOGUE_LEDGER) : -1;
		wk_status status = wk_catalogue_recover(engine, claimed > last ? claimed : last, false, error);
		if (status == WK_OK && alone && engine->options.on_damage != WK_ON_DAMAGE_STOP)
			status = wk_missing_entries_check(engine, false,
			                                  error); /* a read-only repair accepts it; else reads meet it */
		wk_engine_lock(engine);
		if (status == WK_OK && alone && wk_missing_entries_apply(engine, false) != WK_OK)
			status = WK_NO_MEMORY;
		if (status == WK_OK)
			status = wk_recovery_expect_completed(engine);
		wk_engine_unlock(engine);
		if (status == WK_OK) /* else it is tried again */
			wk_missing_entries_free(engine);
		return status;
	}
	return last < first ? WK_OK : wk_catalogue_load(engine, first, last, error);
}

/* What the journal says beyond what was seen of it. (catalogue_lock) *behind: the writer is further than its chain can be followed. */
static wk_status catch_up(wk_engine *engine, bool *behind, wk_error *error) {
	struct wk_follower *f = engine->follower;
	wk_status status = WK_OK;
	wk_engine_lock(engine);
	uint64_t now = wk_engine_now(engine);
	/* The page may be one that nobody writes, and nothing shows it: sometimes the journal is looked at all the same. */
	bool due = now - f->mapped_ns >= PAGE_LOOK_NS;
	if (due) {
		f->mapped_ns = now;
		(void)wk_shared_page_renew(engine);
	}
	uint64_t durable = wk_follower_durable(engine);
	if (due || durable > f->refreshed_durable || f->count > 0 || engine->shared == NULL || f->behind) {
		status = find_new_files(engine, error);
		if (status == WK_OK)
			status = walk_on(engine, error);
		if (status == WK_OK)
			release_what_is_durable(engine);
		wk_store_file_let_go(engine);
		if (status == WK_OK)
			__atomic_store_n(&f->refreshed_durable, durable, __ATOMIC_RELAXED);
	}
	*behind = is_behind(engine, durable);
	/* Without a shared page only the file says it: once it is gone, nothing more can come from it. */
	*behind |= f->walk.last != NULL && f->walk.last->gone && f->walk.last->state != WK_FILE_SEALED;
	wk_engine_unlock(engine);
	return status == WK_OK ? apply_changes(engine, error) : status;
}

/*
 * Files that are gone, and files that were finished since and whose entries are therefore held in memory one by one:
 * once they are half of all, the directory is looked at anew, which costs little more than they did. (locked)
 */
static uint32_t dross(const wk_engine *engine) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < engine->files_count; i++) {
		const wk_store_file *file = engine->files[i];
		bool finished = file->end_offset > 0 && file->state != WK_FILE_SEALED && file != engine->follower->walk.last;
		count += file->gone || finished;
	}
	return count;
}

static bool is_full_of_dross(const wk_engine *engine) {
	uint32_t count = dross(engine), before = engine->follower->dross_before;
	return count >= before + DROSS_MAX && (count - before) * 2 >= engine->files_count;
}

/*
 * (catalogue_lock) The view is built anew. lost: the old one can neither be followed nor read. That a new one cannot
 * be had, or does not reach what the writer calls durable either, is damage only if it stays so.
 */
static wk_status start_anew(wk_engine *engine, bool lost, wk_error *error) {
	struct wk_follower *f = engine->follower;
	uint64_t before = f->walk.scan.sequence, durable = wk_follower_durable(engine);
	uint64_t begin = wk_engine_now(engine);
	wk_status status = wk_follower_renew(engine, error);
	f->renewal = status;
	f->dross_before = dross(engine); /* what a new look does not take away */
	uint64_t now = wk_engine_now(engine);
	f->renewing_ns = now - begin;
	f->renewed_ns = now;
	f->behind = is_surely_behind(engine, durable);
	if (status == WK_OK ? !f->behind || f->walk.scan.sequence > before : !lost) {
		f->stuck_since_ns = 0;
		return WK_OK;
	}
	if (f->stuck_since_ns == 0)
		f->stuck_since_ns = now;
	if (now - f->stuck_since_ns < STUCK_NS)
		return WK_OK;
	if (status != WK_OK)
		return status;
	return wk_fail(error, WK_DAMAGED,
	               "following %s: block %llu cannot be read, neither from here nor by looking at the directory anew, "
	               "although the writer went on: it is damaged. `walkeeper verify` lists what is affected",
	               engine->path, (unsigned long long)f->walk.scan.sequence + 1);
}

/* (catalogue_lock) */
static wk_status refresh(wk_engine *engine, bool anew, wk_error *error) {
	struct wk_follower *f = engine->follower;
	wk_error local;
	bool behind = false;
	uint64_t begin = wk_engine_now(engine), before = f->walk.scan.sequence;
	wk_status status = catch_up(engine, &behind, error != NULL ? error : &local);
	if (f->walk.scan.sequence == before) /* for nothing */
		__atomic_store_n(&f->looking_ns, wk_engine_now(engine) - begin, __ATOMIC_RELAXED);
	if (!f->opened) { /* the directory is being opened: who opens it tries again */
		f->opened = status == WK_OK;
		f->behind = behind && !f->page_is_linked;
		f->dross_before = dross(engine);
		return status;
	}
	bool lost = status != WK_OK || behind;
	if (!lost) {
		f->behind = false;
		f->stuck_since_ns = 0;
	}
	wk_engine_lock(engine);
	bool wanted = lost || anew || is_full_of_dross(engine);
	wk_engine_unlock(engine);
	bool suspects = status == WK_OK && behind && f->page_is_linked;
	bool again = !anew && f->renewed_ns != 0 && (f->stuck_since_ns != 0 || !lost || suspects);
	uint64_t pause = suspects ? leisure_ns(f->renewing_ns, PAGE_LOOK_NS, SUSPECT_MAX_NS) : RENEW_NS;
	if (!wanted || (again && wk_engine_now(engine) - f->renewed_ns < pause))
		return WK_OK;
	return start_anew(engine, lost, error);
}

wk_status wk_follower_refresh(wk_engine *engine, wk_error *error) {
	if (engine->follower == NULL)
		return WK_OK;
	if (engine->repaired_view.below != NULL)
		return wk_readonly_repair_check(engine, error);
	pthread_mutex_lock(&engine->catalogue_lock);
	wk_status status = refresh(engine, false, error);
	pthread_mutex_unlock(&engine->catalogue_lock);
	return status;
}

bool wk_follower_try_again(wk_engine *engine, wk_status *status, int *attempt, wk_error *error) {
	struct wk_follower *f = engine->follower;
	if (f == NULL || *status != WK_DAMAGED || *attempt >= ATTEMPTS)
		return false;
	if (engine->repaired_view.below != NULL) { /* what is damaged stays so, unless another writes by now */
		wk_error stale;
		wk_status now = wk_readonly_repair_check(engine, &stale);
		if (now != WK_OK) {
			*status = now;
			if (error != NULL)
				*error = stale;
		}
		return false;
	}
	static const uint32_t nobody = 0;
	if (*attempt > 0)
		wk_futex_wait(&nobody, 0, POLL_MAX_NS);
	wk_error refusal = {0};
	pthread_mutex_lock(&engine->catalogue_lock);
	/* files may have moved without a new block */
	__atomic_store_n(&f->refreshed_durable, 0, __ATOMIC_RELAXED);
	bool anew = *attempt > 0;
	wk_status looked = refresh(engine, anew, &refusal);
	looked = looked == WK_OK && anew ? f->renewal : looked;
	pthread_mutex_unlock(&engine->catalogue_lock);
	if (++*attempt < ATTEMPTS || looked == WK_OK || looked == WK_DAMAGED)
		return true;
	*status = looked; /* a new look might have shown that nothing is damaged, and the machine refuses it */
	if (error != NULL)
		*error = refusal;
	return false;
}

wk_status wk_follower_wait(wk_engine *engine, uint64_t timeout_ns) {
	struct wk_follower *f = engine->follower;
	uint64_t waited = 0;
	static const uint32_t nobody = 0;
	wk_engine_lock(engine);
	bool blind = engine->shared == NULL; /* each look is one at the folders */
	wk_engine_unlock(engine);
	uint64_t looking_ns = __atomic_load_n(&f->looking_ns, __ATOMIC_RELAXED);
	uint64_t blind_nap = leisure_ns(looking_ns, POLL_MAX_NS, LOCK_LOOK_NS);
	for (uint64_t nap = blind ? blind_nap : POLL_MIN_NS; waited < timeout_ns;
	     nap = nap * 2 < POLL_MAX_NS ? nap * 2 : POLL_MAX_NS) {
		nap = nap < timeout_ns - waited ? nap : timeout_ns - waited;
		if (wk_futex_wait(&nobody, 0, nap) == -EINTR)
			return WK_INTERRUPTED;
		waited += nap;
		wk_engine_lock(engine); /* another thread may map another page */
		bool came = engine->shared == NULL || __atomic_load_n(&engine->shared->durable, __ATOMIC_ACQUIRE) >
		                                          __atomic_load_n(&f->refreshed_durable, __ATOMIC_RELAXED);
		wk_engine_unlock(engine);
		if (came || waited > LOCK_LOOK_NS)
			return WK_OK;
	}
	return WK_TIMEOUT;
}
