/*
 * test_live_counts.c: how many entries of each file are live, from footers that come in any order, without a directory:
 * never too low, and right once the ranges are settled.
 */
/* ctest labels: one-thread */
#include "check.h"
#include "engine/index/ledger.h"
#include "engine/index/range.h"
#include "engine/index/store_file.h"

enum { SPAN = 120, SEALED = 40 };

/* Sealed files with random runs of one ledger, in an order of newness that is not that of their coming. */
typedef struct footers {
	wk_engine engine;
	wk_store_file files[SEALED];
	bool has[SEALED][SPAN];
	uint32_t count;
} footers;

static bool is_newest(const footers *all, uint32_t file, int64_t id) {
	for (uint32_t f = 0; f < all->count; f++)
		if (f != file && all->has[f][id] && wk_rank_is_lower(wk_rank_of(&all->files[file]), wk_rank_of(&all->files[f])))
			return false;
	return all->has[file][id];
}

static void add_footer(footers *all, uint64_t *random) {
	wk_footer_run runs[SPAN];
	wk_store_file *file = &all->files[all->count];
	bool *has = all->has[all->count];
	*file = (wk_store_file){.id = all->count + 1,
	                        .kind = WK_FILE_JOURNAL,
	                        .last_sequence = check_random(random) % 1000 + 1,
	                        .state = WK_FILE_SEALED};
	uint64_t kind = check_random(random) % 3;
	uint32_t first = (uint32_t)(check_random(random) % (SPAN - 1)), items = 0, count = 0;
	uint32_t last = first + (uint32_t)(check_random(random) % (kind == 0 ? SPAN - first : SPAN / 8));
	for (uint32_t id = first; id <= last && id < SPAN; id++)
		has[id] = kind != 0 || check_random(random) % 3 > 0 || id == first;
	for (uint32_t id = 0; id < SPAN; id++) {
		if (!has[id])
			continue;
		if (id == 0 || !has[id - 1])
			runs[count++] = (wk_footer_run){.ledger_id = 7, .first_entry = id, .first_item = items};
		runs[count - 1].count++;
		runs[count - 1].bytes += 10;
		items++;
	}
	all->count++;
	CHECK_EQ(wk_ledger_add_runs(&all->engine, file, runs, count, false), WK_OK);
	CHECK_EQ(file->entries_count, items);
}

static void live_counts_are_safe(const footers *all, const wk_ledger *ledger) {
	for (uint32_t f = 0; f < all->count; f++) {
		uint64_t live = 0;
		bool unsettled = false;
		for (int64_t id = ledger->first_live; id < SPAN; id++)
			live += is_newest(all, f, id);
		for (uint32_t r = 0; r < ledger->ranges_count; r++) {
			unsettled |= wk_ranges(ledger)[r].file == &all->files[f] && wk_ranges(ledger)[r].uncounted;
			CHECK(wk_ranges(ledger)[r].dead < wk_ranges(ledger)[r].count); /* else it would outlive its file */
		}
		CHECK(all->files[f].live_entries >= live);
		CHECK(unsettled || all->files[f].live_entries == live);
		CHECK(all->files[f].live_bytes == 10 * all->files[f].live_entries);
	}
}

/* As the keeper does, once it has looked. */
static void settle_some(footers *all, wk_ledger *ledger, uint64_t *random) {
	for (uint32_t r = 0; r < ledger->ranges_count; r++) {
		wk_range *range = &wk_ranges(ledger)[r];
		if (!range->uncounted || check_random(random) % 2 == 0)
			continue;
		uint32_t dead = 0, file = (uint32_t)(range->file - all->files);
		for (int64_t id = range->first_entry; id <= range->last_entry; id++)
			dead += all->has[file][id] && (id < ledger->first_live || !is_newest(all, file, id));
		range->uncounted = false;
		wk_ledger_recounted(&all->engine, ledger, range, dead);
		r = UINT32_MAX; /* ranges may have moved: from the start */
	}
}

static void finds_what_spans(const footers *all, const wk_ledger *ledger) {
	for (int64_t id = ledger->first_live; id < SPAN; id++) {
		wk_range *over[WK_OVER_MAX];
		wk_rank below = wk_rank_highest;
		uint32_t found = 0, expected = 0, count;
		for (uint32_t r = 0; r < ledger->ranges_count; r++)
			expected += wk_ranges(ledger)[r].first_entry <= id && wk_ranges(ledger)[r].last_entry >= id;
		do {
			count = wk_ranges_over(ledger, id, below, over);
			for (uint32_t i = 0; i < count; i++) {
				CHECK(over[i]->first_entry <= id && over[i]->last_entry >= id);
				CHECK(wk_rank_is_lower(wk_rank_of(over[i]->file), below));
				below = wk_rank_of(over[i]->file);
			}
			found += count;
		} while (count == WK_OVER_MAX);
		CHECK_EQ(found, expected);
		for (uint32_t f = 0; f < all->count; f++) { /* the newest place is in one of them */
			bool spanned = false;
			for (uint32_t r = 0; r < ledger->ranges_count; r++)
				spanned |= wk_ranges(ledger)[r].file == &all->files[f] && wk_ranges(ledger)[r].first_entry <= id &&
				           wk_ranges(ledger)[r].last_entry >= id;
			CHECK(spanned || !is_newest(all, f, id));
		}
	}
}

TEST(footers_in_any_order_leave_live_counts_that_are_never_too_low) {
	static footers all;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		uint64_t random = seed;
		memset(&all, 0, sizeof all);
		while (all.count < SEALED) {
			add_footer(&all, &random);
			wk_ledger *ledger = wk_ledger_find(&all.engine, 7);
			if (check_random(&random) % 4 == 0)
				wk_ledger_trim(&all.engine, ledger, ledger->first_live + (int64_t)(check_random(&random) % 6));
			live_counts_are_safe(&all, ledger);
			settle_some(&all, ledger, &random);
			live_counts_are_safe(&all, ledger);
			finds_what_spans(&all, ledger);
		}
		wk_ledger_drop(&all.engine, wk_ledger_find(&all.engine, 7));
		for (uint32_t f = 0; f < all.count; f++)
			CHECK_EQ(all.files[f].live_entries, 0);
		CHECK_EQ(all.engine.pager.bytes, 0);
		wk_ledgers_free(&all.engine);
	}
}

int main(void) {
	RUN(footers_in_any_order_leave_live_counts_that_are_never_too_low);
	return check_done();
}
