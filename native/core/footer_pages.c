/*
 * footer_pages.c: the members of a footer's pages. The layout is in walkeeper/footer.h.
 * A page is owned by the file's id; its kind and count must be the ones that the trailer gives to its place.
 */
#include "core/bytes.h"
#include "core/footer_layout.h"
#include "core/zero.h"
#include <assert.h>

enum { ITEM_SIZE = 8, RUN_SIZE = 32, STATE_SIZE = 64 };
static_assert(WK_PAGE_MEMBERS_AT + WK_PAGE_ITEMS * ITEM_SIZE <= WK_PAGE_SIZE, "the items fit their page");
static_assert(WK_PAGE_MEMBERS_AT + WK_PAGE_RUNS * RUN_SIZE <= WK_PAGE_SIZE, "the runs fit their page");
static_assert(WK_PAGE_MEMBERS_AT + WK_PAGE_STATES * STATE_SIZE <= WK_PAGE_SIZE, "the states fit their page");

/* What a member may say. The encoder asserts it, the decoder refuses what breaks it: an index never leaves its file. */
static bool item_is_possible(const wk_footer *footer, const wk_footer_item *item) {
	return (uint64_t)item->offset + item->size <= footer->end_offset;
}

static bool run_is_possible(const wk_footer *footer, const wk_footer_run *run) {
	return run->ledger_id >= 0 && run->first_entry >= 0 && run->count > 0 &&
	       run->first_entry <= INT64_MAX - run->count && run->first_item < footer->items_count &&
	       run->count <= footer->items_count - run->first_item;
}

static bool state_is_possible(const wk_footer_state *state) {
	return state->ledger_id >= 0 && state->type > WK_BLOCK_ENTRY && state->type <= WK_BLOCK_DELETE &&
	       state->size <= WK_STATE_DATA_SIZE;
}

/* Strictly: two runs never start at the same entry. */
static bool is_before(const wk_footer_run *a, const wk_footer_run *b) {
	return a->ledger_id != b->ledger_id ? a->ledger_id < b->ledger_id : a->first_entry < b->first_entry;
}

static void put_item(uint8_t *at, const wk_footer_item *item) {
	wk_store_le32(at, item->offset);
	wk_store_le32(at + 4, item->size);
}

static wk_footer_item get_item(const uint8_t *at) {
	return (wk_footer_item){.offset = wk_load_le32(at), .size = wk_load_le32(at + 4)};
}

static void put_run(uint8_t *at, const wk_footer_run *run) {
	wk_store_le64_signed(at, run->ledger_id);
	wk_store_le64_signed(at + 8, run->first_entry);
	wk_store_le64(at + 16, run->bytes);
	wk_store_le32(at + 24, run->count);
	wk_store_le32(at + 28, run->first_item);
}

static wk_footer_run get_run(const uint8_t *at) {
	return (wk_footer_run){
	    .ledger_id = wk_load_le64_signed(at),
	    .first_entry = wk_load_le64_signed(at + 8),
	    .bytes = wk_load_le64(at + 16),
	    .count = wk_load_le32(at + 24),
	    .first_item = wk_load_le32(at + 28),
	};
}

static void put_state(uint8_t *at, const wk_footer_state *state) {
	wk_store_le64_signed(at, state->ledger_id);
	wk_store_le32(at + 8, state->type);
	wk_store_le32(at + 12, state->size);
	memcpy(at + 16, state->data, state->size); /* the rest of the page was zeroed */
}

static wk_footer_state get_state(const uint8_t *at) {
	wk_footer_state state = {
	    .ledger_id = wk_load_le64_signed(at),
	    .type = wk_load_le32(at + 8),
	    .size = wk_load_le32(at + 12),
	};
	memcpy(state.data, at + 16, sizeof state.data);
	return state;
}

void wk_footer_encode(const wk_footer *footer, const wk_footer_item *items, const wk_footer_run *runs,
                      const wk_footer_state *states, uint8_t *bytes) {
	assert(wk_footer_is_possible(footer));
	uint64_t size = wk_footer_size(footer->items_count, footer->runs_count, footer->states_count);
	uint64_t start = footer->file_size - size;
	uint64_t at = 0; /* of the page, from the start of the footer */
	for (uint32_t i = 0, count; i < footer->items_count; i += count, at += WK_PAGE_SIZE) {
		count = wk_footer_page_count(footer, WK_PAGE_KIND_ITEMS, start + at);
		wk_page_begin(bytes + at, WK_PAGE_KIND_ITEMS, count);
		for (uint32_t k = 0; k < count; k++) {
			assert(item_is_possible(footer, &items[i + k]));
			put_item(wk_page_member(bytes + at, k, ITEM_SIZE), &items[i + k]);
		}
		wk_page_end(bytes + at, &(wk_page_place){footer->directory_id, footer->file_id, start + at});
	}
	for (uint32_t i = 0, count; i < footer->runs_count; i += count, at += WK_PAGE_SIZE) {
		count = wk_footer_page_count(footer, WK_PAGE_KIND_RUNS, start + at);
		wk_page_begin(bytes + at, WK_PAGE_KIND_RUNS, count);
		for (uint32_t k = 0; k < count; k++) {
			assert(run_is_possible(footer, &runs[i + k]));
			assert(i + k == 0 || is_before(&runs[i + k - 1], &runs[i + k]));
			put_run(wk_page_member(bytes + at, k, RUN_SIZE), &runs[i + k]);
		}
		wk_page_end(bytes + at, &(wk_page_place){footer->directory_id, footer->file_id, start + at});
	}
	for (uint32_t i = 0, count; i < footer->states_count; i += count, at += WK_PAGE_SIZE) {
		count = wk_footer_page_count(footer, WK_PAGE_KIND_STATES, start + at);
		wk_page_begin(bytes + at, WK_PAGE_KIND_STATES, count);
		for (uint32_t k = 0; k < count; k++) {
			assert(state_is_possible(&states[i + k]));
			put_state(wk_page_member(bytes + at, k, STATE_SIZE), &states[i + k]);
		}
		wk_page_end(bytes + at, &(wk_page_place){footer->directory_id, footer->file_id, start + at});
	}
	assert(at + WK_PAGE_SIZE == size);
	wk_footer_encode_trailer(footer, bytes + at);
}

/* How many members this page holds; 0 where it is not the page that stands at `offset`. */
static uint32_t check_page(const wk_footer *footer, const uint8_t *page, uint64_t offset, enum wk_page_kind kind,
                           uint32_t member_size) {
	wk_page_place place = {footer->directory_id, footer->file_id, offset};
	uint32_t count = wk_footer_page_count(footer, kind, offset);
	return wk_page_is_whole(page, &place, kind, count, member_size) ? count : 0;
}

wk_status wk_footer_items(const wk_footer *footer, const uint8_t page[4096], uint64_t offset, wk_footer_item items[511],
                          uint32_t *count) {
	uint32_t found = check_page(footer, page, offset, WK_PAGE_KIND_ITEMS, ITEM_SIZE);
	for (uint32_t i = 0; i < found; i++) {
		wk_footer_item item = get_item(wk_page_member_in(page, i, ITEM_SIZE));
		if (!item_is_possible(footer, &item))
			return WK_CORRUPT;
	}
	for (uint32_t i = 0; i < found; i++)
		items[i] = get_item(wk_page_member_in(page, i, ITEM_SIZE));
	if (found == 0)
		return WK_CORRUPT;
	*count = found;
	return WK_OK;
}

wk_status wk_footer_runs(const wk_footer *footer, const uint8_t page[4096], uint64_t offset, wk_footer_run runs[127],
                         uint32_t *count) {
	uint32_t found = check_page(footer, page, offset, WK_PAGE_KIND_RUNS, RUN_SIZE);
	wk_footer_run before = {.ledger_id = -1};
	for (uint32_t i = 0; i < found; i++) {
		wk_footer_run run = get_run(wk_page_member_in(page, i, RUN_SIZE));
		if (!run_is_possible(footer, &run) || !is_before(&before, &run))
			return WK_CORRUPT;
		before = run;
	}
	for (uint32_t i = 0; i < found; i++)
		runs[i] = get_run(wk_page_member_in(page, i, RUN_SIZE));
	if (found == 0)
		return WK_CORRUPT;
	*count = found;
	return WK_OK;
}

wk_status wk_footer_states(const wk_footer *footer, const uint8_t page[4096], uint64_t offset,
                           wk_footer_state states[63], uint32_t *count) {
	uint32_t found = check_page(footer, page, offset, WK_PAGE_KIND_STATES, STATE_SIZE);
	for (uint32_t i = 0; i < found; i++) {
		wk_footer_state state = get_state(wk_page_member_in(page, i, STATE_SIZE));
		if (!state_is_possible(&state) || !wk_is_zero(state.data + state.size, WK_STATE_DATA_SIZE - state.size))
			return WK_CORRUPT;
	}
	for (uint32_t i = 0; i < found; i++)
		states[i] = get_state(wk_page_member_in(page, i, STATE_SIZE));
	if (found == 0)
		return WK_CORRUPT;
	*count = found;
	return WK_OK;
}
