#include "engine/mover/interleaved.h"

#include <stdlib.h>

#include "engine/index.h"

enum {
	STRETCH_MIN = 64 * 1024, /* a read of so many bytes is not much slower, byte for byte, than a larger one */
	SLICES = 4,              /* so many times the memory is sorted at once: each file is read so often */
	SAMPLE_MAX = 1 << 18,    /* entries whose order is looked at: of a larger file its beginning */
	READ_PAGES = 64,
};
static const uint32_t NOT_INTERLEAVED = UINT32_MAX;

bool wk_interleaved_is_on(const wk_engine *engine) {
	return wk_engine_holds_ledgers(engine) && engine->options.sort_memory != UINT64_MAX;
}

/* ---- counting stretches ---- */

typedef struct sampled { /* an entry */
	uint32_t offset;
	uint32_t ledger; /* a number of its ledger in the file */
} sampled;

typedef struct sample {
	wk_engine *engine;
	wk_store_file *file;
	wk_run_cursor runs;
	const wk_footer_run *run;
	uint32_t ledger;
	uint64_t until; /* entries behind this offset are not looked at */
	sampled *entries;
	uint32_t count;
	uint64_t bytes;
} sample;

/* The items are in the order of the runs. */
static wk_status take_item(sample *s, uint32_t item, const wk_footer_item *place, wk_error *error) {
	wk_status status = WK_OK;
	while (status == WK_OK && (s->run == NULL || item >= s->run->first_item + s->run->count)) {
		int64_t before = s->run != NULL ? s->run->ledger_id : -1;
		s->run = wk_run_next(s->engine, &s->runs, &status, error);
		if (s->run == NULL)
			return status == WK_OK ? WK_DAMAGED : status;
		s->ledger += s->run->ledger_id != before;
	}
	if (place->offset < s->until && s->count < SAMPLE_MAX) {
		s->entries[s->count++] = (sampled){place->offset, s->ledger};
		s->bytes += place->size;
	}
	return status;
}

static wk_status take_pages(sample *s, uint8_t *pages, uint64_t *read, wk_error *error) {
	wk_engine *engine = s->engine;
	const wk_footer *footer = &s->file->footer;
	wk_status status = WK_OK;
	for (uint32_t item = 0; item < footer->items_count && status == WK_OK;) {
		uint64_t start = wk_footer_item_page(footer, item),
		         last = wk_footer_item_page(footer, footer->items_count - 1) + WK_PAGE_SIZE;
		size_t size = last - start < READ_PAGES * WK_PAGE_SIZE ? (size_t)(last - start) : READ_PAGES * WK_PAGE_SIZE;
		int64_t result = engine->io->operations->pread(engine->io, s->file->handle, pages, size, start);
		*read += size;
		if (result < 0)
			return wk_fail_io(error, (int)result, "reading the index of %s",
			                  wk_file_name_of(s->file->id, s->file->kind).text);
		for (size_t at = 0; at < size && status == WK_OK; at += WK_PAGE_SIZE) {
			wk_footer_item items[WK_PAGE_ITEMS];
			uint32_t count = 0;
			if (at + WK_PAGE_SIZE > (size_t)result ||
			    wk_footer_items(footer, pages + at, start + at, items, &count) != WK_OK)
				return WK_DAMAGED;
			for (uint32_t i = 0; i < count && status == WK_OK; i++)
				status = take_item(s, item++, &items[i], error);
		}
	}
	return status;
}

static int by_offset(const void *a, const void *b) {
	const sampled *x = a, *y = b;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static uint32_t mean_of(sample *s) {
	uint32_t stretches = 0;
	if (s->count > 1)
		qsort(s->entries, s->count, sizeof *s->entries, by_offset);
	for (uint32_t i = 0; i < s->count; i++)
		stretches += i == 0 || s->entries[i].ledger != s->entries[i - 1].ledger;
	if (s->ledger < 2 || stretches == 0 || s->bytes / stretches >= STRETCH_MIN)
		return NOT_INTERLEAVED;
	return s->bytes / stretches > 0 ? (uint32_t)(s->bytes / stretches) : 1;
}

/* The mean bytes of a stretch. No lock held, the file pinned. */
static wk_status count_stretches(wk_engine *engine, wk_store_file *file, uint32_t *mean, uint64_t *read,
                                 wk_error *error) {
	const wk_footer *footer = &file->footer;
	uint32_t most = footer->items_count < SAMPLE_MAX ? footer->items_count : SAMPLE_MAX;
	sample *s = calloc(1, sizeof *s);
	uint8_t *pages = aligned_alloc(WK_PAGE_SIZE, READ_PAGES * WK_PAGE_SIZE);
	wk_status status = WK_NO_MEMORY;
	if (s != NULL && pages != NULL && (s->entries = malloc(most * sizeof *s->entries)) != NULL) {
		s->engine = engine;
		s->file = file;
		s->runs.file = file;
		s->runs.end = footer->runs_count;
		s->until = most == footer->items_count ? UINT64_MAX : footer->end_offset / footer->items_count * most;
		status = take_pages(s, pages, read, error);
		if (status == WK_OK)
			*mean = mean_of(s);
	}
	if (s != NULL)
		free(s->entries);
	free(s);
	free(pages);
	return status;
}

/* Entry logs are not looked at: what was sorted stays so. */
static bool is_unknown(const wk_store_file *file) {
	return file->kind == WK_FILE_JOURNAL && file->state == WK_FILE_SEALED && file->live_entries > 0 &&
	       file->mean_stretch == 0;
}

static wk_store_file *unknown_file(const wk_engine *engine) {
	for (uint32_t i = 0; i < engine->files_count; i++)
		if (is_unknown(engine->files[i]))
			return engine->files[i];
	return NULL;
}

uint64_t wk_interleaved_look(wk_engine *engine, uint64_t now) {
	wk_store_file *file = unknown_file(engine);
	if (file == NULL)
		return 0;
	uint32_t mean = NOT_INTERLEAVED;
	uint64_t read = 0;
	if (file->footer.runs_count > 1) {
		wk_error error = {0};
		file->pins++;
		wk_engine_unlock(engine);
		wk_status status = count_stretches(engine, file, &mean, &read, &error);
		wk_engine_lock(engine);
		wk_store_file_unpin(engine, file);
		if (status != WK_OK && !wk_is_unreadable(status, &error)) /* the machine refused: another time */
			return 0;
	}
	file->mean_stretch = mean;
	file->interleaved_since_ns = now;
	return read > 0 ? read : 1;
}

/* ---- choosing files ---- */

static bool is_interleaved(const wk_store_file *file) {
	return file->state == WK_FILE_SEALED && file->live_entries > 0 && !file->stuck && !file->scattered &&
	       file->mean_stretch != 0 && file->mean_stretch != NOT_INTERLEAVED;
}

/* The oldest, as many as are sorted at once. True: there are more. */
static bool gather(const wk_engine *engine, wk_victims *victims) {
	uint64_t bytes = 0, most = engine->options.sort_memory * SLICES;
	uint64_t lists = 0; /* what the pass has in memory of them, whatever its slices hold */
	victims->count = 0;
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		if (!is_interleaved(file))
			continue;
		uint64_t list = file->footer.runs_count * (sizeof(wk_piece) + sizeof(wk_footer_run)) +
		                file->footer.items_count * sizeof(wk_footer_item);
		bool fits = bytes + file->live_bytes <= most && lists + list <= engine->options.sort_memory;
		if (victims->count == WK_PASS_FILES_MAX || (victims->count > 0 && !fits))
			return true;
		victims->files[victims->count++] = file;
		bytes += file->live_bytes;
		lists += list;
	}
	return false;
}

/* When a pass over these may begin, where no further file comes. */
static uint64_t due_of(const wk_engine *engine, const wk_victims *victims) {
	if (victims->count == 0 || victims->files[victims->count - 1]->id == engine->sort.refused_last)
		return UINT64_MAX;
	uint64_t due = wk_time_after(victims->files[0]->interleaved_since_ns, engine->options.sort_wait_ns);
	return due > engine->sort.due_ns ? due : engine->sort.due_ns;
}

void wk_interleaved_choose(const wk_engine *engine, uint64_t now, wk_victims *victims) {
	bool more = gather(engine, victims);
	if (now < (more ? engine->sort.due_ns : due_of(engine, victims)))
		victims->count = 0;
}

bool wk_interleaved_is_worth_it(wk_engine *engine, const wk_victims *victims, uint64_t ledgers) {
	wk_victims all;
	bool more = gather(engine, &all);
	uint64_t stretches = 0;
	for (uint32_t i = 0; i < victims->count; i++)
		stretches += victims->files[i]->live_bytes / victims->files[i]->mean_stretch;
	if (stretches >= engine->options.sort_gain * ledgers)
		return true;
	for (uint32_t i = 0; i < victims->count && more; i++)
		victims->files[i]->scattered = true;
	engine->sort.refused_last = victims->files[victims->count - 1]->id;
	return false;
}

uint64_t wk_interleaved_deadline(const wk_engine *engine) {
	wk_victims victims;
	if (!wk_interleaved_is_on(engine))
		return UINT64_MAX;
	if (unknown_file(engine) != NULL)
		return 0;
	return gather(engine, &victims) ? engine->sort.due_ns : due_of(engine, &victims);
}
