/* verify_footer.c: the pages of a footer, and whether they say what the file holds. */
#include <stdlib.h>
#include <string.h>

#include "engine/check/verifier.h"

/* All members of a footer, unpacked. */
typedef struct footer_index {
	wk_footer_item *items;
	wk_footer_run *runs;
	wk_footer_state *states;
	bool whole; /* every page is */
} footer_index;

static void free_index(footer_index *all) {
	free(all->items);
	free(all->runs);
	free(all->states);
}

typedef enum part { ITEMS, RUNS, STATES } part;

static uint32_t members_a_page(part which) {
	return which == ITEMS ? WK_PAGE_ITEMS : which == RUNS ? WK_PAGE_RUNS : WK_PAGE_STATES;
}

static uint64_t page_of(const wk_footer *footer, part which, uint32_t member) {
	return which == ITEMS  ? wk_footer_item_page(footer, member)
	       : which == RUNS ? wk_footer_run_page(footer, member)
	                       : wk_footer_state_page(footer, member);
}

static wk_status unpack(const wk_footer *footer, part which, const uint8_t *page, uint64_t offset, footer_index *all,
                        uint32_t first) {
	uint32_t count;
	return which == ITEMS  ? wk_footer_items(footer, page, offset, all->items + first, &count)
	       : which == RUNS ? wk_footer_runs(footer, page, offset, all->runs + first, &count)
	                       : wk_footer_states(footer, page, offset, all->states + first, &count);
}

static wk_status read_pages(wk_verifier *verifier, const wk_verify_file *file, wk_file_view *view,
                            const wk_footer *footer, part which, uint32_t count, footer_index *all) {
	static const char *const names[] = {"items", "runs", "states"};
	for (uint32_t i = 0; i < count; i += members_a_page(which)) {
		uint64_t offset = page_of(footer, which, i);
		const uint8_t *page;
		size_t available;
		wk_status status = wk_file_view_at(view, offset, WK_PAGE_SIZE, &page, &available, verifier->error);
		if (status != WK_OK)
			return status;
		if (available >= WK_PAGE_SIZE && unpack(footer, which, page, offset, all, i) == WK_OK)
			continue;
		char name[40];
		all->whole = false;
		wk_verifier_damage(verifier, wk_verify_file_name(file, name),
		                   "the footer's page of %s at offset %llu is not whole", names[which],
		                   (unsigned long long)offset);
	}
	return WK_OK;
}

/* Room for whole pages, as they are unpacked a page at a time. */
static wk_status read_index(wk_verifier *verifier, const wk_verify_file *file, wk_file_view *view,
                            const wk_footer *footer, footer_index *all) {
	*all = (footer_index){
	    .items = calloc((size_t)footer->items_count + WK_PAGE_ITEMS, sizeof *all->items),
	    .runs = calloc((size_t)footer->runs_count + WK_PAGE_RUNS, sizeof *all->runs),
	    .states = calloc((size_t)footer->states_count + WK_PAGE_STATES, sizeof *all->states),
	    .whole = true,
	};
	if (all->items == NULL || all->runs == NULL || all->states == NULL)
		return wk_fail(verifier->error, WK_NO_MEMORY, "verifying %s: no memory", verifier->path);
	wk_status status = read_pages(verifier, file, view, footer, ITEMS, footer->items_count, all);
	if (status == WK_OK)
		status = read_pages(verifier, file, view, footer, RUNS, footer->runs_count, all);
	if (status == WK_OK)
		status = read_pages(verifier, file, view, footer, STATES, footer->states_count, all);
	return status;
}

/* ---- against the blocks ---- */

static int by_place(const void *a, const void *b) {
	const wk_found_entry *x = a, *y = b;
	if (x->ledger_id != y->ledger_id)
		return x->ledger_id < y->ledger_id ? -1 : 1;
	return (x->entry_id > y->entry_id) - (x->entry_id < y->entry_id);
}

/* The same, and of one entry in their order in the file. */
static int by_place_and_offset(const void *a, const void *b) {
	const wk_found_entry *x = a, *y = b;
	int order = by_place(a, b);
	return order != 0 ? order : (x->offset > y->offset) - (x->offset < y->offset);
}

static bool run_fits(const wk_footer *footer, const wk_footer_run *run, const wk_footer_item *items) {
	if (run->first_item > footer->items_count || run->count > footer->items_count - run->first_item)
		return false;
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < run->count; i++)
		bytes += items[run->first_item + i].size;
	return bytes == run->bytes;
}

/* Every item of the run is an entry of the blocks, at that place. Both are sorted, *at goes along. */
static bool run_is_found(const wk_footer_run *run, const wk_footer_item *items, const wk_found *found, uint32_t *at) {
	for (uint32_t i = 0; i < run->count; i++) {
		wk_found_entry wanted = {run->ledger_id, run->first_entry + i, items[run->first_item + i].offset,
		                         items[run->first_item + i].size};
		/* Of an entry that was added twice the last one counts. */
		while (*at < found->entries_count &&
		       (by_place(&found->entries[*at], &wanted) < 0 ||
		        (*at + 1 < found->entries_count && by_place(&found->entries[*at + 1], &wanted) == 0)))
			(*at)++;
		if (*at == found->entries_count || by_place(&found->entries[*at], &wanted) != 0 ||
		    found->entries[*at].offset != wanted.offset || found->entries[*at].size != wanted.size)
			return false;
		(*at)++;
	}
	return true;
}

/* Entries of this ledger in the blocks. */
static uint64_t count_found(const wk_found *found, int64_t ledger_id) {
	uint32_t low = 0, high = found->entries_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (found->entries[middle].ledger_id < ledger_id)
			low = middle + 1;
		else
			high = middle;
	}
	uint64_t count = 0;
	while (low < found->entries_count && found->entries[low++].ledger_id == ledger_id)
		count++;
	return count;
}

/*
 * A ledger that was deleted before the footer was written is not in it; of any other, every entry is. In a ledger store
 * it may have been written anew since: then its later entries are.
 */
static void compare(wk_verifier *verifier, const wk_verify_file *file, const wk_footer *footer, const footer_index *all,
                    wk_found *found) {
	char name[40];
	wk_verify_file_name(file, name);
	if (found->entries_count > 1)
		qsort(found->entries, found->entries_count, sizeof *found->entries, by_place_and_offset);
	uint32_t at = 0;
	for (uint32_t r = 0; r < footer->runs_count; r++) {
		const wk_footer_run *run = &all->runs[r];
		if (!run_fits(footer, run, all->items) || !run_is_found(run, all->items, found, &at)) {
			wk_verifier_damage(verifier, name,
			                   "the footer's run of ledger %lld from entry %lld on is not what the blocks hold",
			                   (long long)run->ledger_id, (long long)run->first_entry);
			return;
		}
	}
	for (uint32_t r = 0; r < footer->runs_count;) {
		int64_t ledger_id = all->runs[r].ledger_id;
		uint64_t count = 0;
		for (; r < footer->runs_count && all->runs[r].ledger_id == ledger_id; r++)
			count += all->runs[r].count;
		if (verifier->superblock.kind == WK_KIND_LOGS && count != count_found(found, ledger_id))
			wk_verifier_damage(verifier, name, "the footer has %llu entries of ledger %lld, the blocks hold %llu",
			                   (unsigned long long)count, (long long)ledger_id,
			                   (unsigned long long)count_found(found, ledger_id));
	}
	bool same = footer->states_count == found->states_count;
	for (uint32_t i = 0; same && i < footer->states_count; i++)
		same = memcmp(&all->states[i], &found->states[i], sizeof all->states[i]) == 0;
	if (!same)
		wk_verifier_damage(verifier, name, "the footer's ledger states are not those of the blocks");
}

/* ---- entry logs: the footer says where the entries are ---- */

static wk_status verify_run(wk_verifier *verifier, const wk_verify_file *file, wk_file_view *view,
                            const wk_footer *footer, const footer_index *all, const wk_footer_run *run) {
	char name[40];
	if (!run_fits(footer, run, all->items)) {
		wk_verifier_damage(verifier, wk_verify_file_name(file, name),
		                   "the footer's run of ledger %lld from entry %lld on does not fit its items",
		                   (long long)run->ledger_id, (long long)run->first_entry);
		return WK_OK;
	}
	for (uint32_t i = 0; i < run->count; i++) {
		const wk_footer_item *item = &all->items[run->first_item + i];
		const uint8_t *bytes;
		size_t available;
		wk_status status = wk_file_view_at(view, item->offset, item->size, &bytes, &available, verifier->error);
		if (status != WK_OK)
			return status;
		wk_entry entry;
		bool whole;
		wk_verify_entry(verifier, file, item->offset, bytes, available < item->size ? available : item->size, &entry,
		                &whole);
		if (whole && (entry.ledger_id != run->ledger_id || entry.entry_id != run->first_entry + i))
			wk_verifier_damage(
			    verifier, wk_verify_file_name(file, name),
			    "at offset %u is entry %lld of ledger %lld, where the footer has entry %lld of ledger %lld",
			    item->offset, (long long)entry.entry_id, (long long)entry.ledger_id, (long long)run->first_entry + i,
			    (long long)run->ledger_id);
	}
	return WK_OK;
}

wk_status wk_verify_footer(wk_verifier *verifier, const wk_verify_file *file, wk_file_view *view,
                           const wk_footer *footer, wk_found *found) {
	footer_index all;
	wk_status status = read_index(verifier, file, view, footer, &all);
	if (status == WK_OK && all.whole && found != NULL && !found->damaged)
		compare(verifier, file, footer, &all, found);
	for (uint32_t r = 0; found == NULL && all.whole && status == WK_OK && r < footer->runs_count; r++)
		status = verify_run(verifier, file, view, footer, &all, &all.runs[r]);
	free_index(&all);
	return status;
}

wk_status wk_verify_footer_runs(wk_verifier *verifier, wk_file_view *view, const wk_footer *footer,
                                wk_footer_run **runs) {
	footer_index all = {.runs = calloc((size_t)footer->runs_count + WK_PAGE_RUNS, sizeof *all.runs)};
	wk_status status = all.runs != NULL
	                       ? WK_OK
	                       : wk_fail(verifier->error, WK_NO_MEMORY, "verifying %s: no memory", verifier->path);
	bool whole = true;
	for (uint32_t i = 0; i < footer->runs_count && status == WK_OK && whole; i += WK_PAGE_RUNS) {
		uint64_t offset = wk_footer_run_page(footer, i);
		const uint8_t *page;
		size_t available;
		status = wk_file_view_at(view, offset, WK_PAGE_SIZE, &page, &available, verifier->error);
		whole = status == WK_OK && available >= WK_PAGE_SIZE && unpack(footer, RUNS, page, offset, &all, i) == WK_OK;
	}
	*runs = all.runs;
	if (status != WK_OK || !whole) {
		free(all.runs);
		*runs = NULL;
	}
	return status;
}

wk_status wk_verify_entry_log(wk_verifier *verifier, const wk_verify_file *file) {
	wk_file_view view;
	wk_status status = wk_verifier_open(verifier, file, &view);
	if (status == WK_NOT_FOUND)
		return WK_OK; /* compacted away meanwhile */
	if (status != WK_OK)
		return status;
	wk_footer footer;
	char name[40];
	status = wk_file_view_footer(&view, &footer, verifier->error);
	bool ours = status == WK_OK && footer.kind == WK_FILE_ENTRY_LOG && footer.file_id == file->id &&
	            memcmp(footer.directory_id, verifier->superblock.directory_id, sizeof footer.directory_id) == 0;
	if (ours) {
		status = wk_verify_footer(verifier, file, &view, &footer, NULL);
	} else if (status == WK_OK || status == WK_CORRUPT || status == WK_UNSUPPORTED) {
		if (wk_file_view_is_named(&view))
			wk_verifier_damage(verifier, wk_verify_file_name(file, name),
			                   "the footer's last page, at offset %llu, is not whole",
			                   (unsigned long long)(view.size < WK_PAGE_SIZE ? 0 : view.size - WK_PAGE_SIZE));
		status = WK_OK;
	}
	wk_file_view_close(&view);
	if (status == WK_IO) { /* the device gives no more of this file: that is damage, and the others may be whole */
		wk_verifier_damage(verifier, wk_verify_file_name(file, name), "%s", verifier->error->text);
		status = WK_OK;
	}
	return status;
}
