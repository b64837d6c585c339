/*
 * verify_index.c: the index file that the superblock names: every page, and whether it says what the footers of the
 * files say that are there.
 *
 * An index that is damaged or missing is no loss by itself: an open then reads footers. But states of ledgers (fences,
 * keys) whose journal file was recycled are in the index only: where that may be so, it is damage. In a ledger store it
 * always is: such a store is not opened without its index.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/index_file.h"
#include "engine/check/verifier.h"
#include "records/error.h"

enum { TRIES = 5 };

typedef struct index_check {
	wk_verifier *verifier;
	wk_superblock superblock; /* that names it */
	char name[48];
	wk_index_header header;
	wk_footer *files;
	wk_index_ledger *ledgers;
	wk_index_range *ranges; /* of one file after another, once they are compared */
	bool whole;
} index_check;

static void free_parts(index_check *x) {
	free(x->files);
	free(x->ledgers);
	free(x->ranges);
	x->files = NULL;
	x->ledgers = NULL;
	x->ranges = NULL;
}

/* It does not count. `states`: with the part that is damaged go states of so many ledgers; UINT32_MAX: of any. */
static void tell(index_check *x, uint32_t states, const char *what) {
	x->whole = false;
	if (x->superblock.kind == WK_KIND_LEDGERS) {
		wk_verifier_damage(x->verifier, x->name,
		                   "%s. It says which ledgers are fenced or deleted, and the store is not opened without it: "
		                   "restore it from a backup, or " WK_LEDGERS_REMEDY,
		                   what);
	} else if (states == 0 || !x->verifier->recycled) {
		wk_verifier_warn(x->verifier, x->name,
		                 "%s. It is a cache: an open reads the footers of all files instead, and one for writing "
		                 "makes a new one. Nothing is lost",
		                 what);
	} else if (states == UINT32_MAX) {
		wk_verifier_damage(x->verifier, x->name,
		                   "%s. An open reads the footers of all files instead; but states of ledgers (fences, "
		                   "keys) whose journal files were recycled are nowhere else: if there were any, they are lost",
		                   what);
	} else {
		wk_verifier_damage(x->verifier, x->name,
		                   "%s. An open reads the footers of all files instead; but of %u ledgers with states "
		                   "(fences, keys), those whose journal files were recycled lose them",
		                   what, states);
	}
}

/* ---- by itself ---- */

typedef enum part { FILES, LEDGERS, RANGES } part;
static const char *const part_names[] = {"files", "ledgers", "ranges"};

static uint64_t page_of(const wk_index_header *header, part which, uint32_t member) {
	return which == FILES     ? wk_index_file_page(header, member)
	       : which == LEDGERS ? wk_index_ledger_page(header, member)
	                          : wk_index_range_page(header, member);
}

static wk_status unpack(index_check *x, part which, const uint8_t *page, uint64_t offset, uint32_t first) {
	uint32_t count;
	return which == FILES     ? wk_index_files(&x->header, page, offset, x->files + first, &count)
	       : which == LEDGERS ? wk_index_ledgers(&x->header, page, offset, x->ledgers + first, &count)
	                          : wk_index_ranges(&x->header, page, offset, x->ranges + first, &count);
}

/* Members `first` to `end` (not included) are behind the one before them. */
static bool is_sorted(const index_check *x, part which, uint32_t first, uint32_t end) {
	for (uint32_t i = first > 0 ? first : 1; i < end; i++) {
		const wk_index_range *a = &x->ranges[i - 1], *b = &x->ranges[i];
		bool sorted = which == FILES                     ? x->files[i].file_id > x->files[i - 1].file_id
		              : which == LEDGERS                 ? x->ledgers[i].ledger_id > x->ledgers[i - 1].ledger_id
		              : a->ledger_id != b->ledger_id     ? a->ledger_id < b->ledger_id
		              : a->first_entry != b->first_entry ? a->first_entry < b->first_entry
		                                                 : a->file < b->file;
		if (!sorted)
			return false;
	}
	return true;
}

static wk_status check_pages(index_check *x, wk_file_view *view, part which, uint32_t count, uint32_t members_a_page) {
	for (uint32_t i = 0; i < count; i += members_a_page) {
		uint64_t offset = page_of(&x->header, which, i);
		const uint8_t *page;
		size_t available;
		wk_status status = wk_file_view_at(view, offset, WK_PAGE_SIZE, &page, &available, x->verifier->error);
		if (status != WK_OK)
			return status;
		uint32_t end = count - i < members_a_page ? count : i + members_a_page;
		char what[120];
		if (available < WK_PAGE_SIZE || unpack(x, which, page, offset, i) != WK_OK)
			snprintf(what, sizeof what, "the page of %s at offset %llu is not whole", part_names[which],
			         (unsigned long long)offset);
		else if (x->whole && !is_sorted(x, which, i, end))
			snprintf(what, sizeof what, "the page of %s at offset %llu is not in order", part_names[which],
			         (unsigned long long)offset);
		else
			continue;
		tell(x, x->header.ledgers_count, what);
	}
	return WK_OK;
}

static wk_status check_header(index_check *x, wk_file_view *view) {
	const uint8_t *page;
	size_t available;
	wk_index_header *header = &x->header;
	wk_status status = wk_file_view_at(view, 0, WK_PAGE_SIZE, &page, &available, x->verifier->error);
	if (status != WK_OK)
		return status;
	status = available >= WK_PAGE_SIZE ? wk_index_decode(page, header) : WK_CORRUPT;
	if (status == WK_UNSUPPORTED)
		return wk_fail(x->verifier->error, status, "%s/%s was written by a newer version of walkeeper: use that one",
		               x->verifier->path, x->name);
	if (status != WK_OK)
		tell(x, UINT32_MAX, "the header, at offset 0, is not whole");
	else if (header->generation != x->superblock.index_generation ||
	         header->replay_epoch != x->superblock.replay_epoch ||
	         memcmp(header->directory_id, x->superblock.directory_id, sizeof header->directory_id) != 0)
		tell(x, UINT32_MAX, "it is not the one that the superblock means");
	else if (wk_index_size(header->files_count, header->ledgers_count, header->ranges_count) != view->size)
		tell(x, header->ledgers_count, "it is not as long as its header says");
	return WK_OK;
}

static wk_status check_by_itself(index_check *x, wk_file_view *view) {
	const wk_index_header *header = &x->header;
	wk_status status = check_header(x, view);
	if (status != WK_OK || !x->whole)
		return status;
	/* Room for whole pages, as they are unpacked a page at a time. */
	x->files = calloc((size_t)header->files_count + WK_INDEX_PAGE_FILES, sizeof *x->files);
	x->ledgers = calloc((size_t)header->ledgers_count + WK_INDEX_PAGE_LEDGERS, sizeof *x->ledgers);
	x->ranges = calloc((size_t)header->ranges_count + WK_INDEX_PAGE_RANGES, sizeof *x->ranges);
	if (x->files == NULL || x->ledgers == NULL || x->ranges == NULL)
		return wk_fail(x->verifier->error, WK_NO_MEMORY, "verifying %s: no memory", x->verifier->path);
	status = check_pages(x, view, FILES, header->files_count, WK_INDEX_PAGE_FILES);
	if (status == WK_OK)
		status = check_pages(x, view, LEDGERS, header->ledgers_count, WK_INDEX_PAGE_LEDGERS);
	return status == WK_OK ? check_pages(x, view, RANGES, header->ranges_count, WK_INDEX_PAGE_RANGES) : status;
}

/* ---- against the footers ---- */

static int by_file(const void *a, const void *b) {
	const wk_index_range *x = a, *y = b;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->ledger_id != y->ledger_id)
		return x->ledger_id < y->ledger_id ? -1 : 1;
	return (x->first_entry > y->first_entry) - (x->first_entry < y->first_entry);
}

static wk_verify_file *find_file(wk_verifier *verifier, uint64_t id) {
	uint32_t low = 0, high = verifier->files_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (verifier->files[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < verifier->files_count && verifier->files[low].id == id ? &verifier->files[low] : NULL;
}

static bool is_same_footer(const wk_footer *a, const wk_footer *b) {
	return a->file_id == b->file_id && a->kind == b->kind && a->file_size == b->file_size &&
	       a->incarnation == b->incarnation && a->first_sequence == b->first_sequence &&
	       a->last_sequence == b->last_sequence && a->end_offset == b->end_offset &&
	       a->first_previous_crc == b->first_previous_crc && a->last_crc == b->last_crc &&
	       a->items_count == b->items_count && a->runs_count == b->runs_count && a->states_count == b->states_count;
}

/* The range of the index is this part of a run of the footer. */
static bool is_part_of(const wk_index_range *range, const wk_footer_run *of) {
	int64_t skip = range->first_entry - of->first_entry;
	return range->ledger_id == of->ledger_id && skip >= 0 && skip + range->count <= of->count &&
	       range->start == of->first_item + skip && (range->count != of->count || range->bytes == of->bytes);
}

/* The range of the index is these runs of the footer, which are all that it has of the ledger. */
static bool is_all_of(const wk_index_range *range, const wk_footer_run *runs, uint32_t count) {
	uint32_t end = range->start + range->runs_count;
	if (end > count || (range->start > 0 && runs[range->start - 1].ledger_id == range->ledger_id) ||
	    (end < count && runs[end].ledger_id == range->ledger_id))
		return false;
	uint64_t entries = 0, bytes = 0;
	for (uint32_t i = range->start; i < end; i++) {
		if (runs[i].ledger_id != range->ledger_id)
			return false;
		entries += runs[i].count;
		bytes += runs[i].bytes;
	}
	return runs[range->start].first_entry == range->first_entry &&
	       runs[end - 1].first_entry + runs[end - 1].count - 1 == range->last_entry && entries == range->count &&
	       bytes == range->bytes;
}

/* Both are sorted. NULL: all are found. */
static const wk_index_range *find_stranger(const wk_index_range *ranges, uint32_t count,
                                           const wk_footer_run *footer_runs, uint32_t footer_count) {
	uint32_t at = 0;
	for (uint32_t i = 0; i < count; i++) {
		const wk_index_range *range = &ranges[i];
		while (at < footer_count && (footer_runs[at].ledger_id < range->ledger_id ||
		                             (footer_runs[at].ledger_id == range->ledger_id &&
		                              footer_runs[at].first_entry + footer_runs[at].count <= range->first_entry)))
			at++;
		if (range->runs_count > 1 ? !is_all_of(range, footer_runs, footer_count)
		                          : at == footer_count || !is_part_of(range, &footer_runs[at]))
			return range;
	}
	return NULL;
}

/* Of an index that is whole, and not true. */
static const char *remedy(const index_check *x) {
	return x->superblock.kind == WK_KIND_LEDGERS ? "Restore it from a backup, or " WK_LEDGERS_REMEDY
	                                             : "Remove it: then footers are read";
}

/* A file that the index names and that is there. */
static wk_status check_file(index_check *x, wk_verify_file *file, const wk_footer *named, const wk_index_range *ranges,
                            uint32_t ranges_count) {
	wk_verifier *verifier = x->verifier;
	wk_file_view view;
	wk_footer footer;
	wk_footer_run *footer_runs = NULL;
	char name[40];
	wk_verify_file_name(file, name);
	wk_status status = wk_verifier_open(verifier, file, &view);
	if (status != WK_OK)
		return status == WK_NOT_FOUND ? WK_OK : status;
	wk_verify_report before = *verifier->report;
	status = wk_file_view_footer(&view, &footer, verifier->error);
	bool ours = status == WK_OK && footer.kind == file->kind && footer.file_id == file->id &&
	            memcmp(footer.directory_id, x->superblock.directory_id, sizeof footer.directory_id) == 0;
	if (ours && !is_same_footer(&footer, named))
		wk_verifier_damage(verifier, x->name,
		                   "what it says of %s is not what that file's footer says, and an open believes it. %s", name,
		                   remedy(x));
	else if (ours)
		status = wk_verify_footer_runs(verifier, &view, &footer, &footer_runs);
	else if (!file->footer_told && file->kind == WK_FILE_JOURNAL)
		wk_verifier_damage(verifier, name, "the index relies on its footer, whose last page is not whole");
	if (footer_runs != NULL) {
		const wk_index_range *stranger = find_stranger(ranges, ranges_count, footer_runs, footer.runs_count);
		if (stranger != NULL)
			wk_verifier_damage(verifier, x->name,
			                   "its range of ledger %lld from entry %lld on is not in the footer of %s, and an open "
			                   "believes it. %s",
			                   (long long)stranger->ledger_id, (long long)stranger->first_entry, name, remedy(x));
	}
	free(footer_runs);
	if (verifier->report->damaged > before.damaged && !wk_file_view_is_named(&view))
		wk_verifier_take_back(verifier, &before); /* it was recycled meanwhile */
	wk_file_view_close(&view);
	return status == WK_NO_MEMORY || status == WK_INTERRUPTED ? status : WK_OK; /* what cannot be read was told */
}

static wk_status check_footers(index_check *x) {
	wk_status status = WK_OK;
	uint32_t at = 0;
	if (x->header.ranges_count > 1)
		qsort(x->ranges, x->header.ranges_count, sizeof *x->ranges, by_file);
	for (uint32_t i = 0; i < x->header.files_count && status == WK_OK; i++) {
		uint32_t first = at;
		while (at < x->header.ranges_count && x->ranges[at].file == i)
			at++;
		wk_verify_file *file = find_file(x->verifier, x->files[i].file_id);
		if (file != NULL) /* else it was recycled since */
			status = check_file(x, file, &x->files[i], x->ranges + first, at - first);
	}
	return status;
}

/* ---- all together ---- */

/* *again: it was replaced meanwhile by another. */
static wk_status check(index_check *x, bool *again) {
	wk_verify_report before = *x->verifier->report;
	wk_file_view view;
	x->whole = true;
	snprintf(x->name, sizeof x->name, "index/%016llx.wki", (unsigned long long)x->superblock.index_generation);
	wk_status status = wk_verifier_open_below(x->verifier, x->name, &view);
	if (status == WK_NOT_FOUND) {
		wk_superblock now;
		status = wk_verifier_superblock(x->verifier, &now);
		*again = status == WK_OK && now.index_generation != x->superblock.index_generation;
		if (!*again)
			tell(x, UINT32_MAX, "the superblock names it, and it is not there");
		return status == WK_NO_MEMORY || status == WK_INTERRUPTED ? status : WK_OK;
	}
	bool opened = status == WK_OK;
	if (opened)
		status = check_by_itself(x, &view);
	if (status == WK_IO) { /* the device gives no more of it */
		tell(x, UINT32_MAX, x->verifier->error->text);
		status = WK_OK;
	}
	if (status == WK_OK && x->whole)
		status = check_footers(x);
	bool found = x->verifier->report->damaged + x->verifier->report->warnings > before.damaged + before.warnings;
	*again = opened && status == WK_OK && found && !wk_file_view_is_named(&view);
	if (*again)
		wk_verifier_take_back(x->verifier, &before);
	if (opened)
		wk_file_view_close(&view);
	return status;
}

wk_status wk_verify_index(wk_verifier *verifier) {
	wk_status status = WK_OK;
	bool again = true;
	for (int tries = 0; again && tries < TRIES && status == WK_OK; tries++) {
		index_check x = {.verifier = verifier};
		again = false;
		status = wk_verifier_superblock(verifier, &x.superblock);
		if (status != WK_OK || x.superblock.index_generation == 0)
			return status == WK_DAMAGED || status == WK_NOT_FOUND ? WK_OK : status; /* that was told */
		verifier->report->files += tries == 0;
		status = check(&x, &again);
		free_parts(&x);
	}
	return status;
}
