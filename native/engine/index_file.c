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
#include "engine/index_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/journal.h"
#include "engine/ledger_delete.h"
#include "engine/ledger_state.h"
#include "engine/range.h"
#include "engine/reserve_file.h"
#include "engine/superblock_file.h"

/*
 * An index costs its size: it is worth it where it saves the reading of many footers, and is little beside what was
 * written since the last one.
 */
enum { CHANGED_FILES_MIN = 32, SIZE_FACTOR = 4, RETRY_NS = 1000 * 1000 * 1000, CHUNK = 1 << 20, STALE_MAX = 64 };

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

static bool is_named(const wk_store_file *file, uint64_t mark) {
	return file->id < mark && has_footer(file);
}

static uint32_t states_in(const wk_store_file *file) {
	return has_footer(file) ? file->footer.states_count : file->states_count;
}

bool wk_index_has_states_of(const wk_engine *engine, const wk_store_file *file) {
	return states_in(file) == 0 || file->id < engine->index.mark;
}

/* ---- the moment ---- */

typedef struct moment {
	wk_index_header header;
	wk_footer *files;
	wk_index_ledger *ledgers;
	wk_index_range *ranges;
} moment;

static void free_moment(moment *now) {
	free(now->files);
	free(now->ledgers);
	free(now->ranges);
}

static bool make_room(const wk_engine *engine, moment *now) {
	size_t ranges = 0;
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++)
		ranges += engine->ledgers[i] != NULL ? engine->ledgers[i]->ranges_count : 0;
	now->files = malloc((engine->files_count + 1) * sizeof *now->files);
	now->ledgers = malloc((engine->states_count + (size_t)1) * sizeof *now->ledgers);
	now->ranges = malloc((ranges + 1) * sizeof *now->ranges);
	return now->files != NULL && now->ledgers != NULL && now->ranges != NULL;
}

/* Which of the index's files has this id. It has one of them. */
static uint32_t number_of(const moment *now, uint64_t id) {
	uint32_t low = 0, high = now->header.files_count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (now->files[middle].file_id < id)
			low = middle + 1;
		else
			high = middle;
	}
	assert(low < now->header.files_count && now->files[low].file_id == id);
	return low;
}

/* NULL: the ledger has none. */
static wk_index_ledger *state_of(const moment *now, int64_t ledger_id) {
	uint32_t low = 0, high = now->header.ledgers_count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (now->ledgers[middle].ledger_id < ledger_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < now->header.ledgers_count && now->ledgers[low].ledger_id == ledger_id ? &now->ledgers[low] : NULL;
}

static void note_files(const wk_engine *engine, moment *now) {
	now->header.replay_sequence = engine->superblock.replay_sequence;
	for (uint32_t i = 0; i < engine->files_count; i++) {
		const wk_store_file *file = engine->files[i];
		if (!is_named(file, now->header.replay_epoch))
			continue;
		now->files[now->header.files_count++] = file->footer;
		if (file->kind == WK_FILE_JOURNAL && file->last_sequence > now->header.replay_sequence)
			now->header.replay_sequence = file->last_sequence;
	}
}

/*
 * The ledger's ranges, and what they do not say of it. Those in journal files from the mark on are found there by the
 * next open: nothing here may say more than the files below do.
 */
static void note_ledger(const wk_engine *engine, const wk_ledger *ledger, moment *now) {
	int64_t last = -1;
	bool goes_on = false;
	const wk_range *ranges = wk_ranges(ledger);
	for (uint32_t i = 0; i < ledger->ranges_count; i++) {
		const wk_range *range = &ranges[i];
		goes_on |= range->file->kind == WK_FILE_JOURNAL && range->file->id >= now->header.replay_epoch;
		if (!is_named(range->file, now->header.replay_epoch))
			continue;
		now->ranges[now->header.ranges_count++] = (wk_index_range){.ledger_id = ledger->id,
		                                                           .first_entry = range->first_entry,
		                                                           .last_entry = range->last_entry,
		                                                           .bytes = range->bytes,
		                                                           .file = number_of(now, range->file->id),
		                                                           .count = range->count,
		                                                           .dead = range->dead,
		                                                           .runs_count = range->runs_count,
		                                                           .start = range->start,
		                                                           .unsettled = range->unsettled};
		last = range->last_entry > last ? range->last_entry : last;
	}
	/* Of a ledger without state its ranges say all that an open needs: ten thousand idle logs cost 56 bytes each. */
	wk_index_ledger *noted = state_of(now, ledger->id);
	if (noted == NULL)
		return;
	noted->last_entry = goes_on ? last : ledger->last_entry;
	noted->first_live = ledger->first_live;
	noted->length = goes_on || engine->sealing
	                    ? 0
	                    : ledger->length; /* a block under construction is in the length before it is in a run */
}

/* (locked) */
static bool collect(const wk_engine *engine, uint64_t mark, moment *now) {
	*now = (moment){.header = {.generation = engine->index.generation_last + 1, .replay_epoch = mark}};
	memcpy(now->header.directory_id, engine->superblock.directory_id, sizeof now->header.directory_id);
	if (!make_room(engine, now))
		return false;
	note_files(engine, now);
	now->header.ledgers_count = wk_ledger_states_copy(engine, now->ledgers);
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++)
		if (engine->ledgers[i] != NULL)
			note_ledger(engine, engine->ledgers[i], now);
	return true;
}

static int range_order(const void *a, const void *b) {
	const wk_index_range *x = a, *y = b;
	if (x->ledger_id != y->ledger_id)
		return x->ledger_id < y->ledger_id ? -1 : 1;
	if (x->first_entry != y->first_entry)
		return x->first_entry < y->first_entry ? -1 : 1;
	return (x->file > y->file) - (x->file < y->file);
}

static uint8_t *encode(moment *now, size_t *size) {
	if (now->header.ranges_count > 1)
		qsort(now->ranges, now->header.ranges_count, sizeof *now->ranges, range_order);
	*size = wk_index_size(now->header.files_count, now->header.ledgers_count, now->header.ranges_count);
	uint8_t *bytes = aligned_alloc(WK_PAGE_SIZE, *size);
	if (bytes != NULL)
		wk_index_encode(&now->header, now->files, now->ledgers, now->ranges, bytes);
	return bytes;
}

/* ---- the file ---- */

/* from_reserve: the file is there already, and may be longer. */
static int write_bytes(wk_engine *engine, const char *path, const uint8_t *bytes, size_t size, bool from_reserve) {
	const struct wk_io_operations *io = engine->io->operations;
	wk_file *handle = NULL;
	uint32_t create = from_reserve ? 0 : WK_IO_CREATE;
	int64_t result = io->open(engine->io, path, WK_IO_WRITE | WK_IO_DIRECT | create, &handle);
	if (result < 0)
		return (int)result;
	for (size_t at = 0; at < size && result >= 0; at += CHUNK)
		result = io->pwrite(engine->io, handle, bytes + at, size - at < CHUNK ? size - at : CHUNK, at, 0);
	if (result >= 0 && from_reserve)
		result = io->truncate(engine->io, handle, size);
	if (result >= 0)
		result = io->sync(engine->io, handle);
	io->close(engine->io, handle);
	return result < 0 ? (int)result : 0;
}

/* Those that were unlinked stay so (ledger_delete.h). */
static int sync_entry_logs(wk_engine *engine) {
	char *folder = wk_engine_path(engine, "entries");
	int result = folder != NULL ? engine->io->operations->sync_directory(engine->io, folder) : -ENOMEM;
	free(folder);
	return result;
}

static int make_folder(wk_engine *engine, const char *folder) {
	int result = engine->io->operations->make_directory(engine->io, folder);
	return result == 0 ? engine->io->operations->sync_directory(engine->io, engine->path) : result;
}

static int make_file(wk_engine *engine, uint64_t generation, const uint8_t *bytes, size_t size, bool from_reserve) {
	const struct wk_io_operations *io = engine->io->operations;
	char *temporary = path_of(engine, generation, ".tmp"), *final = path_of(engine, generation, ".wki"),
	     *folder = wk_engine_path(engine, "index");
	int result = temporary == NULL || final == NULL || folder == NULL ? -ENOMEM : 0;
	if (result == 0 && wk_engine_holds_ledgers(engine))
		result = sync_entry_logs(engine);
	bool taken = result == 0 && from_reserve && wk_reserve_file_take(engine, WK_RESERVE_INDEX, temporary) == 0;
	if (result == 0) {
		result = write_bytes(engine, temporary, bytes, size, taken);
		if (result == -ENOENT &&
		    (result = make_folder(engine, folder)) == 0) /* somebody removed the cache, as a whole */
			result = write_bytes(engine, temporary, bytes, size, taken);
		if (result == 0)
			result = io->rename(engine->io, temporary, final);
		if (result == 0)
			result = io->sync_directory(engine->io, folder);
		if (result < 0 && (!taken || wk_reserve_file_return(engine, WK_RESERVE_INDEX, temporary) < 0))
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

/* (locked, dropped) use_reserve: in the space that is kept back for it. */
static bool write_index(wk_engine *engine, bool use_reserve) {
	uint64_t mark = mark_of(engine), older = engine->index.generation, recycled = engine->counters.recycled_files;
	if (mark == 0 || mark < engine->index.mark)
		return false;
	uint64_t reserve = use_reserve ? engine->index.reserve : 0;
	engine->index.reserve -= reserve;
	moment now;
	size_t size = 0;
	uint8_t *bytes = NULL;
	bool collected = collect(engine, mark, &now);
	engine->index.generation_last = now.header.generation; /* whatever becomes of it */
	wk_engine_unlock(engine);
	if (collected)
		bytes = encode(&now, &size);
	bool full = bytes == NULL; /* no memory is like no space: nothing was touched */
	int result = bytes == NULL ? -ENOMEM : make_file(engine, now.header.generation, bytes, size, reserve > 0);
	full |= result == -ENOSPC || result == -EDQUOT;
	if (result == 0)
		result = name_in_superblock(engine, &now.header);
	free(bytes);
	free_moment(&now);
	wk_engine_lock(engine);
	if (result < 0 && full) {
		engine->index.reserve += reserve;
		engine->index.retry_ns = wk_engine_now(engine) + RETRY_NS;
		return false;
	}
	if (result < 0) {
		wk_journal_fail(engine, result, "writing the index", NULL);
		return false;
	}
	engine->index.generation = now.header.generation;
	engine->index.mark = mark;
	engine->index.size = size;
	engine->index.recycled_files = recycled;
	engine->index.wanted = false;
	engine->counters.written_bytes += size;
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
 * Files that a new index would name, or name no longer. *blocked: one of them is only kept for the state records in
 * it.
 */
static uint64_t changed_files(const wk_engine *engine, bool *blocked) {
	uint64_t mark = mark_of(engine), changed = engine->counters.recycled_files - engine->index.recycled_files;
	*blocked = false;
	for (uint32_t i = 0; i < engine->files_count; i++) {
		const wk_store_file *file = engine->files[i];
		if (!is_named(file, mark) || file->id < engine->index.mark)
			continue;
		changed++;
		*blocked |= file->live_entries == 0 && !wk_index_has_states_of(engine, file);
	}
	return changed;
}

bool wk_index_if_due(wk_engine *engine) {
	if (engine->failed || engine->closing || engine->read_only || wk_engine_now(engine) < engine->index.retry_ns)
		return false;
	bool blocked;
	uint64_t changed = changed_files(engine, &blocked);
	/* On a full disk only what gives a file back, which only an index lets go of. */
	if (engine->disk_full || engine->space_low)
		return blocked && write_index(engine, true);
	bool many = changed >= CHANGED_FILES_MIN && changed * engine->file_size_next >= SIZE_FACTOR * engine->index.size;
	return (many || blocked || (engine->index.wanted && changed > 0)) && wk_index_write(engine);
}

void wk_index_at_close(wk_engine *engine) {
	bool blocked;
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
