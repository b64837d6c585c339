/* index_load.c: reading the index file. All of it is checked before any of it is believed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/index/index_file.h"
#include "engine/index/ledger.h"
#include "engine/index/range_pager.h"
#include "engine/index/store_file.h"
#include "engine/index/store_footer.h"
#include "engine/ledger.h"
#include "engine/recovery.h"

typedef struct contents {
	uint8_t *bytes;
	size_t size;
	wk_index_header header;
	wk_footer *files;
	wk_index_ledger *ledgers;
	wk_index_range *ranges;
} contents;

static void free_contents(contents *held) {
	free(held->bytes);
	free(held->files);
	free(held->ledgers);
	free(held->ranges);
}

/* Its first page, and whether the file is as long as that says: what it takes in memory is known then. */
static wk_status read_header(wk_engine *engine, wk_file *handle, const char *path, uint64_t size, contents *held,
                             wk_error *error) {
	wk_index_header *header = &held->header;
	uint8_t *page = aligned_alloc(WK_PAGE_SIZE, WK_PAGE_SIZE);
	if (page == NULL)
		return WK_NO_MEMORY;
	int64_t result = engine->io->operations->pread(engine->io, handle, page, WK_PAGE_SIZE, 0);
	wk_status status = result < 0 ? wk_fail_io(error, (int)result, "reading %s", path)
	                   : result != WK_PAGE_SIZE || wk_index_decode(page, header) != WK_OK ||
	                           header->generation != engine->superblock.index_generation ||
	                           header->replay_epoch != engine->superblock.replay_epoch ||
	                           memcmp(header->directory_id, engine->superblock.directory_id,
	                                  sizeof header->directory_id) != 0 ||
	                           wk_index_size(header->files_count, header->ledgers_count, header->ranges_count) != size
	                       ? WK_CORRUPT
	                       : WK_OK;
	free(page);
	return status;
}

/* The whole file. WK_CORRUPT: there is none. WK_IO: it may be there and whole, but the machine refuses it now. */
static wk_status read_bytes(wk_engine *engine, contents *held, wk_error *error) {
	const struct wk_io_operations *io = engine->io->operations;
	char *path = wk_engine_path(engine, "index/%016llx.wki", (unsigned long long)engine->superblock.index_generation);
	if (path == NULL)
		return WK_NO_MEMORY;
	wk_file *handle = NULL;
	wk_io_stat stat = {0};
	int opened = io->open(engine->io, path, WK_IO_READ | WK_IO_DIRECT, &handle);
	opened = opened == 0 ? io->stat(engine->io, handle, &stat) : opened;
	wk_status status = opened == 0         ? WK_OK
	                   : opened == -ENOENT ? WK_CORRUPT
	                                       : wk_fail_io(error, opened, "opening %s", path);
	if (status == WK_OK)
		status = read_header(engine, handle, path, stat.size, held, error);
	if (status == WK_OK) {
		held->size = (size_t)stat.size;
		held->bytes = aligned_alloc(WK_PAGE_SIZE, held->size);
		status = held->bytes != NULL ? WK_OK : WK_NO_MEMORY;
	}
	int64_t result = status == WK_OK ? io->pread(engine->io, handle, held->bytes, held->size, 0) : 0;
	if (status == WK_OK && result != (int64_t)held->size)
		status = result < 0 ? wk_fail_io(error, (int)result, "reading %s", path) : WK_CORRUPT;
	free(path);
	if (handle != NULL)
		io->close(engine->io, handle);
	return status;
}

/* ---- every page, and what only all of them together show ---- */

static wk_status decode_files(contents *held) {
	const wk_index_header *header = &held->header;
	uint32_t count = 0;
	for (uint32_t i = 0; i < header->files_count; i += count) {
		uint64_t at = wk_index_file_page(header, i);
		if (wk_index_files(header, held->bytes + at, at, held->files + i, &count) != WK_OK ||
		    (i > 0 && held->files[i].file_id <= held->files[i - 1].file_id))
			return WK_CORRUPT;
	}
	return WK_OK;
}

static wk_status decode_ledgers(contents *held) {
	const wk_index_header *header = &held->header;
	uint32_t count = 0;
	for (uint32_t i = 0; i < header->ledgers_count; i += count) {
		uint64_t at = wk_index_ledger_page(header, i);
		if (wk_index_ledgers(header, held->bytes + at, at, held->ledgers + i, &count) != WK_OK ||
		    (i > 0 && held->ledgers[i].ledger_id <= held->ledgers[i - 1].ledger_id))
			return WK_CORRUPT;
	}
	return WK_OK;
}

static bool range_fits(const contents *held, uint32_t i) {
	const wk_index_range *range = &held->ranges[i], *before = i > 0 ? &held->ranges[i - 1] : NULL;
	bool behind = before == NULL || before->ledger_id < range->ledger_id ||
	              (before->ledger_id == range->ledger_id &&
	               (before->first_entry < range->first_entry ||
	                (before->first_entry == range->first_entry && before->file < range->file)));
	const wk_footer *footer = &held->files[range->file];
	return behind && range->count <= footer->items_count && range->runs_count <= footer->runs_count &&
	       (uint64_t)range->start + (range->runs_count == 1 ? range->count : range->runs_count) <=
	           (range->runs_count == 1 ? footer->items_count : footer->runs_count);
}

static wk_status decode_ranges(contents *held) {
	const wk_index_header *header = &held->header;
	uint32_t count = 0;
	for (uint32_t i = 0; i < header->ranges_count; i += count) {
		uint64_t at = wk_index_range_page(header, i);
		if (wk_index_ranges(header, held->bytes + at, at, held->ranges + i, &count) != WK_OK)
			return WK_CORRUPT;
		for (uint32_t k = i; k < i + count; k++)
			if (!range_fits(held, k))
				return WK_CORRUPT;
	}
	return WK_OK;
}

static wk_status decode(contents *held) {
	const wk_index_header *header = &held->header;
	held->files = malloc((header->files_count + (size_t)1) * sizeof *held->files);
	held->ledgers = malloc((header->ledgers_count + (size_t)1) * sizeof *held->ledgers);
	held->ranges = malloc((header->ranges_count + (size_t)1) * sizeof *held->ranges);
	if (held->files == NULL || held->ledgers == NULL || held->ranges == NULL)
		return WK_NO_MEMORY;
	wk_status status = decode_files(held);
	if (status == WK_OK)
		status = decode_ledgers(held);
	return status == WK_OK ? decode_ranges(held) : status;
}

/* A file that is there is the one that the index means. */
static bool fits_directory(wk_engine *engine, const contents *held) {
	for (uint32_t i = 0; i < held->header.files_count; i++) {
		const wk_store_file *file = wk_store_file_find(engine, held->files[i].file_id);
		if (file != NULL && (file->kind != held->files[i].kind || file->size != held->files[i].file_size))
			return false;
	}
	return true;
}

/* ---- believed ---- */

static bool is_dense(const wk_index_range *range) {
	return range->last_entry - range->first_entry == (int64_t)range->count - 1;
}

static wk_status note_missing(wk_engine *engine, const contents *held, const wk_index_range *range) {
	const wk_footer *file = &held->files[range->file];
	/* Of a ledger store: how many of the uncounted ones are needed cannot be told any more. */
	if (range->dead == range->count || (range->uncounted && wk_engine_holds_ledgers(engine)))
		return WK_OK;
	wk_missing_range missing = {
	    .ledger_id = range->ledger_id,
	    .first_entry = range->first_entry,
	    .last_entry = range->last_entry,
	    .dense = is_dense(range),
	    .needed = range->count - range->dead,
	    .bytes = (uint32_t)range->bytes,
	    .kind = file->kind,
	    .file_id = file->file_id,
	    .last_sequence = file->last_sequence,
	};
	return wk_missing_entries_add(engine, &missing);
}

/* Files are read by themselves; what they should show is still worth knowing. */
static wk_status note_all_missing(wk_engine *engine, const contents *held) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; i < held->header.ranges_count && status == WK_OK; i++)
		status = note_missing(engine, held, &held->ranges[i]);
	return status;
}

/* Where ledgers stand in it: what is in memory of them may go (range_pager.h). */
static void note_places(wk_engine *engine, const contents *held) {
	if (engine->read_only)
		return;
	wk_range_pager_begin(engine, wk_index_source_new(&held->header, held->files));
	for (uint32_t i = 0, next; i < held->header.ranges_count; i = next) {
		int64_t ledger_id = held->ranges[i].ledger_id;
		for (next = i + 1; next < held->header.ranges_count && held->ranges[next].ledger_id == ledger_id;)
			next++;
		wk_range_pager_found(engine, &(wk_range_place){.ledger_id = ledger_id, .first = i, .count = next - i});
	}
}

static wk_status take(wk_engine *engine, const contents *held) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; i < held->header.files_count; i++) {
		wk_store_file *file = wk_store_file_find(engine, held->files[i].file_id);
		if (file == NULL)
			continue;
		wk_store_footer_take(file, &held->files[i]);
		file->state = WK_FILE_SEALED;
		file->named_from = held->header.generation;
	}
	for (uint32_t i = 0; i < held->header.ranges_count && status == WK_OK; i++) {
		const wk_index_range *range = &held->ranges[i];
		wk_store_file *file = wk_store_file_find(engine, held->files[range->file].file_id);
		if (file == NULL) { /* recycled since, or lost */
			status = note_missing(engine, held, range);
			continue;
		}
		status = wk_ledger_put_range(engine, range->ledger_id,
		                             &(wk_range){.first_entry = range->first_entry,
		                                         .last_entry = range->last_entry,
		                                         .file = file,
		                                         .start = range->start,
		                                         .runs_count = range->runs_count,
		                                         .bytes = (uint32_t)range->bytes,
		                                         .count = range->count,
		                                         .dead = range->dead,
		                                         .uncounted = range->uncounted != 0});
	}
	if (status == WK_OK)
		note_places(engine, held);
	for (uint32_t i = 0; i < held->header.ledgers_count && status == WK_OK; i++) {
		/*
		 * Nothing is said here of a ledger without ranges: its entries are gone, and a last entry that nobody can read
		 * would only mislead.
		 */
		wk_ledger *ledger = wk_ledger_find(engine, held->ledgers[i].ledger_id);
		if (ledger != NULL && held->ledgers[i].length > 0 && held->ledgers[i].last_entry == ledger->last_entry)
			ledger->length = held->ledgers[i].length;
		if (ledger != NULL)
			wk_ledger_trim(engine, ledger, held->ledgers[i].first_live);
		status = wk_ledger_state_restore(engine, &held->ledgers[i]);
	}
	return status;
}

wk_status wk_index_load(wk_engine *engine, wk_error *error) {
	const wk_open_options *options = &engine->options;
	/*
	 * An open that accepts loss looks at everything itself: a footer that can no longer be read is to be found now,
	 * and reported.
	 */
	bool ledgers = wk_engine_holds_ledgers(engine); /* what it says of them, nobody else may know any more */
	bool scans = options->ignore_footers || options->on_damage != WK_ON_DAMAGE_STOP;
	if (engine->superblock.index_generation == 0)
		return WK_OK;
	contents held = {0};
	wk_status status = read_bytes(engine, &held, error);
	if (status == WK_OK)
		status = decode(&held);
	if (status == WK_OK && scans && !ledgers) {
		status = note_all_missing(engine, &held);
		free_contents(&held);
		return status == WK_OK ? status : wk_fail(error, status, "opening %s: no memory", engine->path);
	}
	if (status == WK_OK && !fits_directory(engine, &held))
		status = WK_CORRUPT;
	if (status == WK_OK) {
		status = take(engine, &held);
		engine->index.generation = held.header.generation;
		engine->index.mark = held.header.replay_epoch;
		engine->index.size = held.size;
	}
	free_contents(&held);
	if (status == WK_IO)
		return ledgers ? status : WK_OK; /* the footers say the same */
	if (status == WK_CORRUPT && ledgers)
		return wk_fail(error, WK_DAMAGED,
		               "opening %s: the index file %016llx, which says which ledgers are fenced or deleted, is missing "
		               "or damaged; restore it from a backup, or " WK_LEDGERS_REMEDY,
		               engine->path, (unsigned long long)engine->superblock.index_generation);
	if (status == WK_CORRUPT)
		return WK_OK;
	return status == WK_OK ? WK_OK : wk_fail(error, status, "opening %s: no memory", engine->path);
}
