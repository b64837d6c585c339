/* missing_entries_ledgers.c: entries that the index of a ledger store knew, and that no file has. */
#include "engine/index.h"
#include "engine/ledger.h"
#include "engine/recovery/missing_entries.h"

/* Places that are looked up in one open. Behind them only what is plain is called missing. */
enum { LOOKUPS_MAX = 100 * 1000 };

/* Where its entries were moved, or written again. */
static bool is_newer(const wk_store_file *file, const wk_missing_range *known) {
	return wk_rank_is_lower((wk_rank){known->last_sequence, known->kind, known->file_id}, wk_rank_of(file));
}

/* So many of the claim's ids at most the range has. */
static uint64_t had_by(const wk_range *range, const wk_missing_range *known) {
	int64_t first = range->first_entry > known->first_entry ? range->first_entry : known->first_entry,
	        last = range->last_entry < known->last_entry ? range->last_entry : known->last_entry;
	if (first > last || !is_newer(range->file, known))
		return 0;
	uint64_t ids = (uint64_t)(last - first) + 1;
	return ids < range->count ? ids : range->count;
}

/* So many of them at most are in newer files; *all: they are, for certain. No page is read. */
static uint64_t present_at_most(wk_engine *engine, const wk_missing_range *known, bool *all) {
	const wk_ledger *ledger = wk_ledger_find(engine, known->ledger_id);
	const wk_range *ranges = ledger != NULL ? wk_ranges(ledger) : NULL;
	uint64_t present = 0;
	*all = false;
	for (uint32_t i = 0; ledger != NULL && i < ledger->ranges_count && !*all; i++) {
		present += had_by(&ranges[i], known);
		*all = wk_range_is_dense(&ranges[i]) && is_newer(ranges[i].file, known) &&
		       ranges[i].first_entry <= known->first_entry && ranges[i].last_entry >= known->last_entry;
	}
	return present;
}

/* Exactly so many are. What cannot be looked up counts: who reads it is told. */
static uint64_t count_present(wk_engine *engine, const wk_missing_range *known, uint32_t *lookups) {
	uint64_t present = 0;
	for (int64_t at = known->first_entry; at <= known->last_entry && present < known->needed; ++*lookups) {
		wk_stretch stretch;
		wk_status status = *lookups == LOOKUPS_MAX ? WK_TIMEOUT
		                                           : wk_lookup(engine, known->ledger_id, at, known->last_entry,
		                                                       WK_LOOKUP_ALL, NULL, 0, &stretch, NULL);
		if (status == WK_NOT_FOUND)
			return present;
		if (status != WK_OK)
			return UINT64_MAX;
		int64_t last = stretch.last_entry < known->last_entry ? stretch.last_entry : known->last_entry;
		present += stretch.file != NULL && is_newer(stretch.file, known) ? (uint64_t)(last - at) + 1 : 0;
		at = last + 1;
		if (stretch.file != NULL)
			wk_stretch_release(engine, &stretch);
	}
	return present;
}

/* Which ids a range with holes had, only its file said: others that lie between them pass for them. */
static uint64_t missing_of(wk_engine *engine, const wk_missing_range *known, uint32_t *lookups) {
	bool all;
	if (wk_ledger_deleted_since(engine, known->ledger_id, known->last_sequence))
		return 0;
	uint64_t present = present_at_most(engine, known, &all);
	if (!all && present >= known->needed)
		present = count_present(engine, known, lookups);
	return known->needed > present && !all ? known->needed - present : 0;
}

wk_status wk_missing_entries_check_ledgers(wk_engine *engine, bool accepts, wk_error *error) {
	const wk_missing_entries *entries = engine->missing_entries;
	uint32_t lookups = 0;
	for (uint32_t i = 0; entries != NULL && i < entries->count; i++) {
		const wk_missing_range *known = &entries->list[i];
		uint64_t missing = missing_of(engine, known, &lookups);
		if (missing > 0 && !accepts)
			return wk_fail(
			    error, WK_DAMAGED,
			    "opening %s: %s is missing, and with it %llu or more of the entries %lld to %lld of ledger %lld. "
			    "Nothing was changed. Restore the file from a backup, or " WK_LEDGERS_REMEDY,
			    engine->path, wk_file_name_of(known->file_id, known->kind).text, (unsigned long long)missing,
			    (long long)known->first_entry, (long long)known->last_entry, (long long)known->ledger_id);
		engine->report.lost_entries += missing;
		engine->index.outdated |= missing > 0;
	}
	wk_missing_entries_free(engine);
	return WK_OK;
}
