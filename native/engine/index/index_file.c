/*
 * index_file.c: writing the index file.
 *
 * One writer: the keeper, or whoever does its work (manual mode, close). What the file says is collected in one
 * moment under the lock (T), written without it, and believed once the superblock names it (S).
 *
 * What happens between T and S, and why the index is right all the same.
 * - A file is sealed. It had no footer at T, so the mark is at or below its id: it is read by its footer.
 * - A file is made. Journal files get their ids one at a time, so it has a higher id than the active one, and the
 *   mark is at or below that.
 * - An entry log becomes known (the mover's copy). Its id was taken when the pass began and may be below the mark;
 *   but the index does not name it, so its footer is read, and after the index: its copies win over the ranges that
 *   they were made of, as they do in memory. It cannot be older than a named copy of the same entry: passes follow
 *   one another, and each copies the newest copy.
 * - A named file is recycled. Its entries were dead or moved. What killed them is in the catalogue, durable before
 *   live counts fell, and is replayed on top of the index; what they were moved to is an entry log that is durable,
 *   and known or named. At the next open the file is not there, and its ranges are dropped. If the power cut took back
 *   the rename (it is synced before the file is used again), the file is there, whole as it was, and what the index
 *   says of it is true.
 * - A file that was recycled before T is not named. If a power cut brings its name back, it holds nothing that
 *   anybody needs. A journal file below the mark is passed over as empty: what killed its entries may be gone by now.
 *   So is an entry log below it in a ledger store (ledger_delete.h). Any other is read as ever: what it holds is dead,
 *   or as good a copy as the named one.
 * - Entries die. The catalogue says so, as above. Ranges in the index may be longer than what is live: so are the
 *   runs of footers.
 * - A snapshot is written. Its entries are in the journal, at or above the mark; the superblock that names it does so
 *   together with this index or the one before. The catalogue's own ranges are like any others.
 *
 * A power cut at any step.
 * - Before the rename is durable: the superblock names the index before, which is still there, and is still true: by
 *   the same argument, with everything since T in place of what happened between T and S. The new one's name,
 *   temporary or not, is swept by the next open for writing.
 * - Between rename and superblock: the same.
 * - While the superblock is written: one slot is whole, and names one of the two; both are there.
 * - Behind it: the older index file goes, or comes back and is swept. Only a slot that is damaged later leads to a
 *   superblock that names a file that went: then footers are read. In a ledger store, where it is no cache, both slots
 *   name it before anything goes.
 *
 * What is sealed never changes until it is recycled, so places (start) stay true. One thing breaks that: an open
 * that scans files instead of believing their footers seals them anew. Such an open does not use the index, and
 * stores the superblock without it before it writes anything else (wk_index_begin).
 */
#include "engine/index/index_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/directory.h"
#include "engine/index/index_snapshot.h"
#include "engine/index/range_pager.h"
#include "engine/index/store_file.h"
#include "engine/journal.h"
#include "engine/ledger.h"
#include "engine/space.h"

/*
 * An index costs its size: it is worth it where it saves the reading of many footers, and is little beside what was
 * written since the last one.
 */
enum {
	CHANGED_FILES_MIN = 32,
	SIZE_FACTOR = 4,
	BLOCKED_PART = 2,
	STATELESS_PART = 8,
	RETRY_NS = 1000 * 1000 * 1000,
	STALE_MAX = 64
};

static char *path_of(const wk_engine *engine, uint64_t generation, const char *ending) {
	return wk_engine_path(engine, "index/%016llx%s", (unsigned long long)generation, ending);
}

/* ---- which files it can name ---- */

static bool has_footer(const wk_store_file *file) {
	return file->end_offset > 0 && file->footer.file_id == file->id && file->state >= WK_FILE_SEALED;
}

/* Every journal file below it has its footer, or holds nothing. */
static uint64_t mark_of(const wk_engine *engine) {
	uint64_t mark = engine->active != NULL ? engine->active->id : 0;
	for (uint32_t i = 0; i < engine->files_count; i++) {
		const wk_store_file *file = engine->files[i];
		if (file->kind == WK_FILE_JOURNAL && file->end_offset > 0 && !has_footer(file) && file->id < mark)
			mark = file->id;
	}
	return wk_ledger_delete_mark(engine, mark);
}

bool wk_index_names(const wk_store_file *file, uint64_t mark) {
	return file->id < mark && has_footer(file);
}

static uint32_t states_in(const wk_store_file *file) {
	return has_footer(file) ? file->footer.states_count : file->states.count;
}

/* By a file that gets no footer the mark does not pass, as long as that stays. */
static bool holds_up(const wk_store_file *before, const wk_store_file *file) {
	return before->kind == WK_FILE_JOURNAL && before->state == WK_FILE_FULL && before->footer_failed &&
	       before->id <= file->id;
}

static bool is_held_up(const wk_engine *engine, const wk_store_file *file) {
	for (uint32_t i = 0; i < engine->files_count; i++)
		if (holds_up(engine->files[i], file))
			return true;
	return false;
}

bool wk_index_lets_go(const wk_engine *engine, const wk_store_file *file) {
	if (file->id < engine->index.mark)
		return true;
	bool chained = wk_engine_holds_ledgers(engine) && file->kind == WK_FILE_JOURNAL && file->end_offset > 0;
	bool waits = states_in(file) > 0 || (chained && !is_held_up(engine, file));
	return !waits;
}

/* ---- the file ---- */

/* Those that were unlinked stay so (ledger_delete.h). */
static int sync_entry_logs(wk_engine *engine) {
	char *folder = wk_engine_path(engine, "entries");
	int result = folder != NULL ? engine->io->operations->sync_directory(engine->io, folder) : -ENOMEM;
	free(folder);
	return result;
}

/* *reserve: bytes that are kept back for it; so many are again, as far as is known. */
static int make_file(wk_engine *engine, wk_index_snapshot *moment, uint64_t *reserve) {
	const struct wk_io_operations *io = engine->io->operations;
	uint64_t generation = moment->header.generation;
	char *temporary = path_of(engine, generation, ".tmp"), *final = path_of(engine, generation, ".wki"),
	     *folder = wk_engine_path(engine, "index");
	int result = temporary == NULL || final == NULL || folder == NULL ? -ENOMEM : 0;
	if (result == 0 && wk_engine_holds_ledgers(engine))
		result = sync_entry_logs(engine);
	uint64_t size = *reserve;
	bool taken = result == 0 && size > 0 && wk_reserve_file_take(engine, WK_RESERVE_INDEX, temporary) == 0;
	*reserve = 0;
	if (result == 0) {
		result = wk_index_snapshot_write(engine, moment, temporary, taken);
		if (result == -ENOENT &&
		    (result = wk_directory_make_folder(engine, folder)) == 0) /* somebody removed the cache, as a whole */
			result = wk_index_snapshot_write(engine, moment, temporary, taken);
		if (result == 0)
			result = io->rename(engine->io, temporary, final);
		if (result == 0 && (result = io->sync_directory(engine->io, folder)) < 0)
			io->rename(engine->io, final, temporary); /* nothing names it: its space is given back */
		if (result < 0 && taken)
			*reserve = wk_reserve_file_return(engine, WK_RESERVE_INDEX, temporary, size);
		else if (result < 0)
			io->unlink(engine->io, temporary);
	}
	free(temporary);
	free(final);
	free(folder);
	return result;
}

/* From here on the next open uses it. */
static int name_in_superblock(wk_engine *engine, const wk_index_header *header) {
	wk_error error = {0};
	pthread_mutex_lock(&engine->file_id_lock);
	engine->superblock.index_generation = header->generation;
	engine->superblock.replay_epoch = header->replay_epoch;
	engine->superblock.replay_sequence = header->replay_sequence;
	wk_status status = wk_superblock_store(engine, &error);
	/* In both slots: were one damaged later, the other would name an index that knows less, or none. */
	if (status == WK_OK && wk_engine_holds_ledgers(engine))
		status = wk_superblock_store(engine, &error);
	pthread_mutex_unlock(&engine->file_id_lock);
	return status == WK_OK ? 0 : error.system_error != 0 ? -error.system_error : -EIO;
}

static void remove_file(wk_engine *engine, uint64_t generation) {
	char *path = generation != 0 ? path_of(engine, generation, ".wki") : NULL;
	if (path != NULL)
		engine->io->operations->unlink(engine->io, path); /* where that fails, the next open sweeps it */
	free(path);
}

/* (locked) The files of the moment that are still there are named from now on. */
static void note_named(wk_engine *engine, const wk_index_snapshot *moment) {
	for (uint32_t i = 0; i < moment->header.files_count; i++) {
		wk_store_file *file = wk_store_file_find(engine, moment->files[i].file_id);
		if (file != NULL && file->named_from == 0)
			file->named_from = moment->header.generation;
	}
}

/* No lock held. *source: where ranges that are paged out are read from, from now on; NULL: there are none. */
static int make(wk_engine *engine, wk_index_snapshot *moment, uint64_t *reserve, wk_index_source **source) {
	int result = make_file(engine, moment, reserve);
	if (result < 0)
		return result;
	*source = wk_index_source_new(&moment->header, moment->files);
	/* What is in the older file only must be readable in this one before that goes. */
	result = moment->places_of_paged > 0 && *source == NULL ? -ENOMEM : 0;
	if (result == 0 && moment->places_of_paged > 0)
		result = wk_index_source_open(engine, *source);
	if (result == 0)
		return name_in_superblock(engine, &moment->header);
	moment->failed_before_use = true;
	remove_file(engine, moment->header.generation);
	return result;
}

/* (locked, dropped) use_reserve: in the space that is kept back for it. */
static bool write_index(wk_engine *engine, bool use_reserve) {
	uint64_t mark = mark_of(engine), older = engine->index.generation, recycled = engine->counters.recycled_files;
	if (mark == 0 || mark < engine->index.mark)
		return false;
	uint64_t reserve = use_reserve ? engine->index.reserve : 0;
	engine->index.reserve -= reserve;
	wk_index_snapshot moment;
	bool collected = wk_index_snapshot_collect(engine, mark, &moment);
	engine->index.generation_last = moment.header.generation; /* whatever becomes of it */
	wk_engine_unlock(engine);
	wk_index_source *source = NULL;
	int result = collected ? make(engine, &moment, &reserve, &source) : -ENOMEM;
	/*
	 * No memory, or no descriptor, is like no space: nothing was touched. Nor was it where the file before it could not
	 * be read.
	 */
	bool full = result == -ENOMEM || result == -ENOSPC || result == -EDQUOT || result == -EMFILE || result == -ENFILE ||
	            moment.failed_before_use;
	wk_engine_lock(engine);
	if (result < 0) {
		if (full) {
			engine->index.reserve += reserve;
			engine->index.retry_ns = wk_engine_now(engine) + RETRY_NS;
		} else {
			wk_journal_fail(engine, result, "writing the index", NULL);
		}
		wk_index_source_release(engine, source);
		wk_index_snapshot_free(engine, &moment);
		return false;
	}
	uint64_t size = wk_index_size(moment.header.files_count, moment.header.ledgers_count, moment.header.ranges_count);
	engine->index.generation = moment.header.generation;
	engine->index.mark = mark;
	engine->index.size = size;
	engine->index.recycled_files = recycled;
	engine->index.wanted = false;
	engine->counters.written_bytes += size;
	note_named(engine, &moment);
	wk_range_pager_turn(engine, source, moment.places, moment.places_count);
	wk_index_snapshot_free(engine, &moment);
	wk_engine_unlock(engine);
	remove_file(engine, older);
	wk_engine_lock(engine);
	return true;
}

bool wk_index_write(wk_engine *engine) {
	return write_index(engine, false);
}

/* ---- when ---- */

/*
 * Files that a new index would name, or name no longer. *blocked: bytes of those that are only kept until it is there;
 * those that have no state records count for less, as an index for each of them would cost more than they do.
 */
static uint64_t changed_files(const wk_engine *engine, uint64_t *blocked) {
	uint64_t mark = mark_of(engine), changed = engine->counters.recycled_files - engine->index.recycled_files;
	*blocked = 0;
	for (uint32_t i = 0; i < engine->files_count; i++) {
		const wk_store_file *file = engine->files[i];
		if (!wk_index_names(file, mark) || file->id < engine->index.mark)
			continue;
		changed++;
		if (file->live_entries == 0 && !wk_index_lets_go(engine, file))
			*blocked += states_in(file) > 0 || engine->disk_full || engine->space_low ? file->size
			                                                                          : file->size / STATELESS_PART;
	}
	return changed;
}

bool wk_index_if_due(wk_engine *engine) {
	if (engine->failed || engine->closing || engine->read_only || wk_engine_now(engine) < engine->index.retry_ns)
		return false;
	if (engine->pager.orphans_count > 0) /* they are read from the file that this one would replace */
		return false;
	uint64_t blocked, changed = changed_files(engine, &blocked);
	/*
	 * On a full disk only what gives files back, which only an index lets go of: and more than it takes, together with the
	 * index before it, as the next one needs its reserve, too. But where nothing can be deleted any more, what there is.
	 */
	if (engine->disk_full || engine->space_low) {
		bool pays = blocked + engine->index.size >= engine->index.reserve || !wk_reserve_is_there(engine, UINT32_MAX);
		return blocked > 0 && pays && write_index(engine, true);
	}
	bool many = changed >= CHANGED_FILES_MIN && changed * engine->file_size_next >= SIZE_FACTOR * engine->index.size;
	bool pays = blocked > 0 && blocked * BLOCKED_PART >= engine->index.size;
	return (many || pays || (engine->index.wanted && changed > 0) || wk_range_pager_wants_index(engine)) &&
	       wk_index_write(engine);
}

void wk_index_at_close(wk_engine *engine) {
	uint64_t blocked;
	wk_engine_lock(engine);
	if (!engine->failed && !engine->read_only && engine->active != NULL && changed_files(engine, &blocked) > 0)
		wk_index_write(engine);
	wk_engine_unlock(engine);
}

/* ---- opening for writing ---- */

void wk_index_begin(wk_engine *engine) {
	wk_superblock *superblock = &engine->superblock;
	engine->index.generation_last = superblock->index_generation;
	if (engine->index.mark > 0)
		return;
	engine->index.wanted = superblock->index_generation > 0;
	superblock->index_generation = superblock->replay_epoch = superblock->replay_sequence = 0;
}

wk_status wk_index_replace_outdated(wk_engine *engine, wk_error *error) {
	if (!engine->index.outdated)
		return WK_OK;
	wk_engine_lock(engine);
	bool written = wk_index_write(engine);
	wk_engine_unlock(engine);
	if (!written && engine->failed)
		return wk_fail(error, WK_IO, "opening %s: %s", engine->path, engine->failure.text);
	engine->index.wanted |= !written; /* the disk is full: the keeper goes on trying, until then only skip opens it */
	engine->index.outdated = !written;
	return WK_OK;
}

typedef struct sweep {
	wk_engine *engine;
	char *names[STALE_MAX];
	uint32_t count;
} sweep;

static bool note_stale(void *context, const char *name) {
	sweep *s = context;
	wk_engine *engine = s->engine;
	if (strlen(name) != 20 || strspn(name, "0123456789abcdef") != 16 ||
	    (strcmp(name + 16, ".wki") != 0 && strcmp(name + 16, ".tmp") != 0))
		return true;
	uint64_t generation = strtoull(name, NULL, 16);
	if (generation > engine->index.generation_last)
		engine->index.generation_last = generation;
	if (generation == engine->index.generation && name[17] == 'w')
		return true;
	if (s->count < STALE_MAX) {
		s->names[s->count] = wk_engine_path(engine, "index/%.20s", name);
		s->count += s->names[s->count] != NULL;
	}
	return true;
}

void wk_index_sweep(wk_engine *engine) {
	sweep s = {.engine = engine};
	char *folder = wk_engine_path(engine, "index");
	if (folder != NULL)
		engine->io->operations->list(engine->io, folder, note_stale, &s);
	free(folder);
	for (uint32_t i = 0; i < s.count; i++) {
		engine->io->operations->unlink(engine->io, s.names[i]);
		free(s.names[i]);
	}
}
