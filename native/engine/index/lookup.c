#include "engine/index/lookup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/index/entry_log_places.h"
#include "engine/index/ledger.h"
#include "engine/index/page_cache.h"
#include "engine/index/place_list.h"
#include "engine/index/range.h"
#include "engine/index/range_pager.h"
#include "engine/index/store_file.h"

enum { TOGETHER_MAX = 64 * WK_PAGE_ITEMS }; /* items whose pages are read at once */

/* ---- pages ---- */

typedef wk_status (*decoder)(const wk_footer *footer, const uint8_t page[4096], uint64_t offset, void *members,
                             uint32_t *count);

static wk_status decode_items(const wk_footer *footer, const uint8_t page[4096], uint64_t offset, void *members,
                              uint32_t *count) {
	return wk_footer_items(footer, page, offset, members, count);
}

static wk_status decode_runs(const wk_footer *footer, const uint8_t page[4096], uint64_t offset, void *members,
                             uint32_t *count) {
	return wk_footer_runs(footer, page, offset, members, count);
}

/* One page of a footer, from the ledger cache or the file. */
static wk_status load_page(wk_engine *engine, wk_store_file *file, uint64_t offset, decoder decode, size_t size,
                           void *members, uint32_t *count, wk_error *error) {
	if (wk_page_cache_get(engine->pages, file->id, offset, members, size, count))
		return WK_OK;
	uint8_t *page = aligned_alloc(WK_PAGE_SIZE, WK_PAGE_SIZE);
	if (page == NULL)
		return wk_fail(error, WK_NO_MEMORY, "reading the index of %s: no memory",
		               wk_file_name_of(file->id, file->kind).text);
	int64_t result = engine->io->operations->pread(engine->io, file->handle, page, WK_PAGE_SIZE, offset);
	wk_status status = WK_OK;
	if (result < 0)
		status = wk_fail_io(error, (int)result, "reading the index of %s of %s",
		                    wk_file_name_of(file->id, file->kind).text, engine->path);
	else if (result != WK_PAGE_SIZE || decode(&file->footer, page, offset, members, count) != WK_OK)
		status = wk_fail(
		    error, WK_DAMAGED,
		    "%s of %s: the index page at offset %llu is damaged; `walkeeper verify` lists what is affected, %s",
		    wk_file_name_of(file->id, file->kind).text, engine->path, (unsigned long long)offset,
		    wk_engine_holds_ledgers(engine) ? WK_LEDGERS_REMEDY : "opening with ignore_footers reads round it");
	free(page);
	if (status == WK_OK)
		wk_page_cache_put(engine->pages, file->id, offset, members, size, *count);
	return status;
}

static wk_status too_short(wk_engine *engine, const wk_store_file *file, wk_error *error) {
	return wk_fail(error, WK_DAMAGED, "%s of %s: its index is shorter than it says",
	               wk_file_name_of(file->id, file->kind).text, engine->path);
}

static wk_status load_items(wk_engine *engine, wk_store_file *file, uint32_t item, wk_footer_item items[WK_PAGE_ITEMS],
                            uint32_t *count, wk_error *error) {
	return load_page(engine, file, wk_footer_item_page(&file->footer, item), decode_items, sizeof *items, items, count,
	                 error);
}

static bool is_unreadable(wk_status status) {
	return status == WK_DAMAGED || status == WK_IO;
}

/* The page of an entry log that has this item cannot be read: from the entries, behind those of the last page that can.
 */
static wk_status rebuild_items(wk_engine *engine, wk_store_file *file, uint32_t item,
                               wk_footer_item items[WK_PAGE_ITEMS], uint32_t *count) {
	uint32_t page = item / WK_PAGE_ITEMS, from = page;
	wk_status status = WK_DAMAGED;
	while (from > 0 && is_unreadable(status)) {
		status = load_items(engine, file, (from - 1) * WK_PAGE_ITEMS, items, count, NULL);
		from -= is_unreadable(status);
	}
	uint64_t start = from > 0 && *count > 0 ? items[*count - 1].offset + (uint64_t)items[*count - 1].size : 0;
	status = from > 0 ? status : WK_OK;
	for (; from <= page && status == WK_OK; from++) {
		uint32_t left = file->footer.items_count - from * WK_PAGE_ITEMS;
		*count = left < WK_PAGE_ITEMS ? left : WK_PAGE_ITEMS;
		status = wk_entry_log_places(engine, file, from * WK_PAGE_ITEMS, *count, start, items, NULL);
		start = items[*count - 1].offset + (uint64_t)items[*count - 1].size;
	}
	if (status == WK_OK)
		wk_page_cache_put(engine->pages, file->id, wk_footer_item_page(&file->footer, item), items, sizeof *items,
		                  *count);
	return status;
}

/*
 * Pages of items from `item` on that are not in the cache, and are not all in one page: one read for them together. What
 * comes of it is in the cache; what does not is read by itself, and then it is known why not.
 */
static void read_together(wk_engine *engine, wk_store_file *file, uint32_t item, uint32_t count) {
	wk_footer_item items[WK_PAGE_ITEMS];
	uint32_t last = item + count - 1, found;
	uint64_t from = wk_footer_item_page(&file->footer, item),
	         end = wk_footer_item_page(&file->footer, last) + WK_PAGE_SIZE;
	while (from < end && wk_page_cache_get(engine->pages, file->id, from, items, sizeof *items, &found))
		from += WK_PAGE_SIZE;
	size_t size = from < end ? (size_t)(end - from) : 0;
	uint8_t *pages = size > WK_PAGE_SIZE ? aligned_alloc(WK_PAGE_SIZE, size) : NULL;
	if (pages == NULL)
		return;
	int64_t result = engine->io->operations->pread(engine->io, file->handle, pages, size, from);
	for (size_t at = 0; result > 0 && at + WK_PAGE_SIZE <= (size_t)result; at += WK_PAGE_SIZE)
		if (wk_footer_items(&file->footer, pages + at, from + at, items, &found) == WK_OK)
			wk_page_cache_put(engine->pages, file->id, from + at, items, sizeof *items, found);
	free(pages);
}

static wk_status cached_items(wk_engine *engine, wk_store_file *file, uint32_t item,
                              wk_footer_item items[WK_PAGE_ITEMS], uint32_t *count) {
	uint64_t page = wk_footer_item_page(&file->footer, item);
	return wk_page_cache_get(engine->pages, file->id, page, items, sizeof *items, count) ? WK_OK : WK_WOULD_BLOCK;
}

wk_status wk_lookup_items(wk_engine *engine, wk_store_file *file, uint32_t item, uint32_t count,
                          enum wk_lookup_scope scope, wk_footer_item *items, wk_error *error) {
	wk_footer_item page_items[WK_PAGE_ITEMS];
	bool cached = scope == WK_LOOKUP_CACHED, several = item % WK_PAGE_ITEMS + count > WK_PAGE_ITEMS;
	if (several && count <= TOGETHER_MAX && !cached)
		read_together(engine, file, item, count);
	for (uint32_t done = 0; done < count;) {
		uint32_t at = (item + done) % WK_PAGE_ITEMS, found;
		wk_status status = cached ? cached_items(engine, file, item + done, page_items, &found)
		                          : load_items(engine, file, item + done, page_items, &found, error);
		/* In a ledger store the bytes of an entry do not say where it ends: their digest is the caller's. */
		if (is_unreadable(status) && file->kind == WK_FILE_ENTRY_LOG && !wk_engine_holds_ledgers(engine) &&
		    rebuild_items(engine, file, item + done, page_items, &found) == WK_OK)
			status = WK_OK;
		if (status != WK_OK)
			return status;
		if (at >= found)
			return too_short(engine, file, error);
		uint32_t take = found - at < count - done ? found - at : count - done;
		memcpy(items + done, page_items + at, take * sizeof *items);
		done += take;
	}
	return WK_OK;
}

static wk_status load_runs(wk_engine *engine, wk_store_file *file, uint32_t run, wk_footer_run runs[WK_PAGE_RUNS],
                           uint32_t *count, wk_error *error) {
	wk_status status = load_page(engine, file, wk_footer_run_page(&file->footer, run), decode_runs, sizeof *runs, runs,
	                             count, error);
	return status == WK_OK && run % WK_PAGE_RUNS >= *count ? too_short(engine, file, error) : status;
}

const wk_footer_run *wk_run_next(wk_engine *engine, wk_run_cursor *cursor, wk_status *status, wk_error *error) {
	if (cursor->next == cursor->end)
		return NULL;
	if (cursor->at == cursor->count) {
		*status = load_runs(engine, cursor->file, cursor->next, cursor->runs, &cursor->count, error);
		if (*status != WK_OK)
			return NULL;
		cursor->at = cursor->next % WK_PAGE_RUNS;
	}
	cursor->next++;
	return &cursor->runs[cursor->at++];
}

/* ---- one range with holes ---- */

/* A page that may hold the first of runs low..high-1 that ends behind the entry. Ids are often spread evenly. */
static uint32_t guess(const wk_range *range, int64_t entry_id, uint32_t low, uint32_t high, uint32_t tries) {
	uint32_t first = low / WK_PAGE_RUNS, last = (high - 1) / WK_PAGE_RUNS;
	if (tries > 0)
		return first + (last - first) / 2;
	double part = (double)(entry_id - range->first_entry) / (double)(range->last_entry - range->first_entry + 1);
	uint32_t page = (range->start + (uint32_t)(part * range->runs_count)) / WK_PAGE_RUNS;
	return page < first ? first : page > last ? last : page;
}

/*
 * The first run that ends at the entry or behind it: there is one, as the range spans the entry. Where it begins
 * behind it, the entry is in a hole.
 */
static wk_status find_run(wk_engine *engine, const wk_range *range, int64_t entry_id, wk_footer_run *found,
                          wk_error *error) {
	wk_footer_run runs[WK_PAGE_RUNS];
	uint32_t low = range->start, high = range->start + range->runs_count; /* it is one of these, or *found */
	bool have = false;
	for (uint32_t tries = 0; low < high; tries++) {
		uint32_t base = guess(range, entry_id, low, high, tries) * WK_PAGE_RUNS, count;
		wk_status status = load_runs(engine, range->file, base, runs, &count, error);
		if (status != WK_OK)
			return status;
		uint32_t from = low > base ? low - base : 0, end = high - base < count ? high - base : count;
		if (from >= end)
			return too_short(engine, range->file, error);
		if (runs[end - 1].first_entry + runs[end - 1].count <= entry_id) {
			low = base + end;
			continue;
		}
		for (uint32_t last = end - 1; from < last;) {
			uint32_t middle = (from + last) / 2;
			if (runs[middle].first_entry + runs[middle].count <= entry_id)
				from = middle + 1;
			else
				last = middle;
		}
		*found = runs[from];
		have = true;
		if (found->first_entry <= entry_id)
			return WK_OK;
		bool page_says_all = from > 0 && base + from > low; /* the one before it is here, and ends before */
		if (page_says_all)
			return WK_OK;
		high = base + from;
	}
	return have ? WK_OK : too_short(engine, range->file, error);
}

/* ---- all ranges ---- */

/*
 * What the search goes by. Candidates are copies: ranges move once the lock is gone; their files are pinned. All of them
 * are of one moment: an entry that is moved or replaced in between leaves the older files for a newer one, and who
 * looked at the newer ones before and at the older ones now would find it nowhere. So where the newest few do not have
 * it, everything is looked at anew.
 */
typedef struct search {
	int64_t entry_id, last;
	int64_t next;         /* the first entry behind it that is anywhere, as far as is known */
	wk_range *candidates; /* `few`, or memory of its own */
	wk_range few[WK_OVER_MAX];
	uint32_t count;
	bool all;  /* not just the newest few */
	bool more; /* there are others than these */
} search;

/* A range that is not sealed: its places, as many as are wanted. False: the entry is in a hole. (locked) */
static bool take_open(search *s, const wk_range *range, wk_footer_item *items, uint32_t items_max,
                      wk_stretch *stretch) {
	wk_place_cursor cursor;
	const wk_place *place = wk_place_list_seek(range->places, s->entry_id, &cursor);
	if (place == NULL || place->entry_id != s->entry_id) {
		if (place != NULL && place->entry_id < s->next)
			s->next = place->entry_id;
		return false;
	}
	int64_t last = s->entry_id - 1;
	uint32_t count = 0;
	for (; place != NULL && place->entry_id == last + 1 && last < s->last && (items_max == 0 || count < items_max);
	     place = wk_place_list_next(range->places, &cursor)) {
		last = place->entry_id;
		if (items_max > 0)
			items[count++] = place->item;
	}
	stretch->last_entry = last;
	stretch->items_count = count;
	stretch->sealed = false;
	return true;
}

static void take_sealed(const search *s, uint32_t first_item, int64_t last, wk_stretch *stretch) {
	stretch->first_item = first_item;
	stretch->last_entry = last < s->last ? last : s->last;
	stretch->sealed = true;
}

/*
 * The stretch ends before the first entry that a newer file may hold. That of a range that begins behind the entry
 * ends it whatever the file is: one is seldom older.
 */
static void end_before_next(const search *s, wk_stretch *stretch) {
	if (stretch->last_entry >= s->next)
		stretch->last_entry = s->next - 1;
	int64_t count = stretch->last_entry - stretch->first_entry + 1;
	if (stretch->items_count > count)
		stretch->items_count = (uint32_t)count;
}

static wk_status pin(wk_engine *engine, wk_store_file *file, int64_t ledger_id, int64_t entry_id, wk_error *error) {
	file->pins++;
	int opened = wk_store_file_use(engine, file);
	if (opened == 0)
		return WK_OK;
	wk_file_name name = wk_file_name_of(file->id, file->kind);
	wk_store_file_unpin(engine, file);
	return opened == -ENOENT ? wk_fail(error, WK_DAMAGED, "%s of %s, which holds entry %lld of ledger %lld, is missing",
	                                   name.text, engine->path, (long long)entry_id, (long long)ledger_id)
	                         : wk_fail_io(error, opened, "opening %s of %s", name.text, engine->path);
}

/*
 * Candidates down to the first that surely holds the entry; that one is *stretch then. They are pinned, also where
 * this fails. (locked)
 */
static wk_status choose(wk_engine *engine, search *s, const wk_ledger *ledger, wk_range *const *over, uint32_t count,
                        wk_footer_item *items, uint32_t items_max, wk_stretch *stretch, wk_error *error) {
	const wk_range *behind = wk_range_behind(ledger, s->entry_id);
	if (behind != NULL && behind->first_entry < s->next)
		s->next = behind->first_entry;
	for (uint32_t i = 0; i < count && stretch->file == NULL; i++) {
		wk_range *range = over[i];
		bool dense = wk_range_is_dense(range),
		     surely = range->open ? take_open(s, range, items, items_max, stretch) : dense;
		if (range->open && !surely)
			continue;
		wk_status status = pin(engine, range->file, ledger->id, s->entry_id, error);
		if (status != WK_OK)
			return status;
		if (dense)
			take_sealed(s, range->start + (uint32_t)(s->entry_id - range->first_entry), range->last_entry, stretch);
		if (surely) {
			stretch->file = range->file;
			s->more = false;
		} else {
			s->candidates[s->count++] = *range;
		}
	}
	return WK_OK;
}

static wk_status gather(wk_engine *engine, search *s, const wk_ledger *ledger, wk_footer_item *items,
                        uint32_t items_max, wk_stretch *stretch, wk_error *error) {
	wk_range *few[WK_OVER_MAX];
	s->count = 0;
	s->next = INT64_MAX;
	s->candidates = s->few;
	if (!s->all) {
		uint32_t count = wk_ranges_over(ledger, s->entry_id, wk_rank_highest, few);
		s->more = count == WK_OVER_MAX;
		return choose(engine, s, ledger, few, count, items, items_max, stretch, error);
	}
	s->more = false;
	wk_range **over = malloc((ledger->ranges_count + (size_t)1) * sizeof(wk_range *));
	s->candidates = malloc((ledger->ranges_count + (size_t)1) * sizeof *s->candidates);
	wk_status status = over == NULL || s->candidates == NULL
	                       ? wk_fail(error, WK_NO_MEMORY, "looking for entry %lld of ledger %lld: no memory",
	                                 (long long)s->entry_id, (long long)ledger->id)
	                       : choose(engine, s, ledger, over, wk_ranges_all_over(ledger, s->entry_id, over), items,
	                                items_max, stretch, error);
	free(over);
	return status;
}

/* All but this one. (locked) */
static void unpin_candidates(wk_engine *engine, search *s, const wk_store_file *but) {
	for (uint32_t i = 0; i < s->count; i++)
		if (s->candidates[i].file != but)
			wk_store_file_unpin(engine, s->candidates[i].file);
}

/* Reads the candidates' runs, the newest first; the first that has the entry is *stretch. */
static wk_status ask(wk_engine *engine, search *s, wk_stretch *stretch, wk_error *error) {
	wk_store_file *sure = stretch->file, *chosen = NULL;
	wk_status status = WK_OK;
	for (uint32_t i = 0; i < s->count && status == WK_OK && chosen == NULL; i++) {
		const wk_range *range = &s->candidates[i];
		wk_footer_run run = {0};
		status = find_run(engine, range, s->entry_id, &run, error);
		if (status != WK_OK)
			break;
		if (run.first_entry <= s->entry_id) {
			chosen = range->file;
			stretch->items_count = 0;
			take_sealed(s, run.first_item + (uint32_t)(s->entry_id - run.first_entry), run.first_entry + run.count - 1,
			            stretch);
		} else if (run.first_entry < s->next) {
			s->next = run.first_entry;
		}
	}
	wk_engine_lock(engine);
	unpin_candidates(engine, s, chosen);
	if (sure != NULL && (chosen != NULL || status != WK_OK))
		wk_store_file_unpin(engine, sure);
	wk_engine_unlock(engine);
	if (chosen != NULL)
		stretch->file = chosen;
	if (status != WK_OK)
		stretch->file = NULL;
	return status;
}

static bool is_there(const wk_ledger *ledger, int64_t entry_id, enum wk_lookup_scope scope) {
	if (ledger == NULL || scope == WK_LOOKUP_ALL)
		return ledger != NULL;
	return entry_id >= ledger->first_live && entry_id <= ledger->durable_entry;
}

/* (locked) As wk_ranges_bring, but for what is out. */
static wk_status in_memory(wk_engine *engine, int64_t ledger_id, int64_t entry_id, wk_ledger **found) {
	wk_ledger *ledger = wk_ledger_find(engine, ledger_id);
	if (wk_ranges_are_out(ledger, entry_id))
		return WK_WOULD_BLOCK;
	ledger->used = true;
	*found = ledger;
	return WK_OK;
}

static wk_status look(wk_engine *engine, search *s, int64_t ledger_id, int64_t last, enum wk_lookup_scope scope,
                      wk_footer_item *items, uint32_t items_max, wk_stretch *stretch, wk_error *error) {
	wk_engine_lock(engine);
	wk_ledger *ledger = NULL;
	wk_status status = WK_OK;
	if (is_there(wk_ledger_find(engine, ledger_id), s->entry_id, scope)) /* else no page is asked for it */
		status = scope == WK_LOOKUP_CACHED ? in_memory(engine, ledger_id, s->entry_id, &ledger)
		                                   : wk_ranges_bring(engine, ledger_id, s->entry_id, &ledger, error);
	if (status == WK_OK && !is_there(ledger, s->entry_id, scope))
		status = WK_NOT_FOUND;
	if (status != WK_OK) {
		wk_engine_unlock(engine);
		return status;
	}
	s->last = scope != WK_LOOKUP_ALL && last > ledger->durable_entry ? ledger->durable_entry : last;
	status = gather(engine, s, ledger, items, items_max, stretch, error);
	if (status == WK_OK && scope == WK_LOOKUP_CACHED && (s->count > 0 || stretch->file == NULL)) {
		status = WK_WOULD_BLOCK; /* runs would have to be read, or all ranges asked */
		if (stretch->file != NULL)
			wk_store_file_unpin(engine, stretch->file);
		stretch->file = NULL;
	}
	if (status != WK_OK)
		unpin_candidates(engine, s, NULL);
	wk_engine_unlock(engine);
	if (status == WK_OK && s->count > 0)
		status = ask(engine, s, stretch, error);
	if (s->candidates != s->few)
		free(s->candidates);
	return status;
}

wk_status wk_lookup(wk_engine *engine, int64_t ledger_id, int64_t first, int64_t last, enum wk_lookup_scope scope,
                    wk_footer_item *items, uint32_t items_max, wk_stretch *stretch, wk_error *error) {
	search s = {.entry_id = first};
	*stretch = (wk_stretch){.first_entry = first, .last_entry = INT64_MAX};
	wk_status status = look(engine, &s, ledger_id, last, scope, items, items_max, stretch, error);
	if (status == WK_OK && stretch->file == NULL && s.more) {
		s.all = true;
		status = look(engine, &s, ledger_id, last, scope, items, items_max, stretch, error);
	}
	if (status != WK_OK)
		return status;
	if (stretch->file != NULL)
		end_before_next(&s, stretch);
	else
		stretch->last_entry = s.next == INT64_MAX ? INT64_MAX : s.next - 1;
	return WK_OK;
}

void wk_stretch_release(wk_engine *engine, wk_stretch *stretch) {
	if (stretch->file == NULL)
		return;
	wk_engine_lock(engine);
	wk_store_file_unpin(engine, stretch->file);
	wk_engine_unlock(engine);
	stretch->file = NULL;
}
