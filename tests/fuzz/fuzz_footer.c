/*
 * The input: 100 bytes of trailer, then for items, runs and states each a uint16 and so many bytes: the members of the
 * first page of that kind; what is missing is zero. Magic, version and checksums are put right. Checked: a footer of
 * at most a page of each kind that decodes is encoded again to the same bytes; members never leave the file; the input
 * as it is, without anything put right, is never read outside its bytes.
 */
#include "core/bytes.h"
#include "core/footer.h"
#include "fuzz.h"
#include <assert.h>

enum { PAGE = WK_PAGE_SIZE, TRAILER_FIELDS = 100, KINDS = 3 };
static uint8_t pages[KINDS + 1][PAGE];
static wk_footer_item items[WK_PAGE_ITEMS];
static wk_footer_run runs[WK_PAGE_RUNS];
static wk_footer_state states[WK_PAGE_STATES];

static uint32_t at_most(uint32_t x, uint32_t max) {
	return x < max ? x : max;
}

static void fill(uint8_t *page, const uint8_t **bytes, size_t *size) {
	uint32_t wanted = 0;
	if (*size >= 2) {
		wanted = wk_load_le16(*bytes);
		*bytes += 2, *size -= 2;
	}
	wanted = at_most(wanted, (uint32_t)(*size < PAGE - 8 ? *size : PAGE - 8));
	memset(page, 0, PAGE);
	if (wanted > 0)
		memcpy(page + 8, *bytes, wanted);
	*bytes += wanted, *size -= wanted;
}

static void mend_page(const wk_footer *footer, uint8_t *page, uint64_t offset, uint16_t kind, uint32_t count) {
	uint8_t place[32];
	memcpy(place, footer->directory_id, 16);
	wk_store_le64(place + 16, footer->file_id);
	wk_store_le64(place + 24, offset);
	wk_store_le16(page + 4, (uint16_t)count);
	wk_store_le16(page + 6, kind);
	wk_store_le32(page, wk_crc32c_extend(wk_crc32c(place, sizeof place), page + 4, PAGE - 4));
}

/* Every page of the footer decodes: its members are in the arrays. */
static bool members_decode(const wk_footer *footer) {
	uint32_t count;
	if (footer->items_count > 0) {
		uint64_t offset = wk_footer_item_page(footer, 0);
		mend_page(footer, pages[0], offset, 1, at_most(footer->items_count, WK_PAGE_ITEMS));
		if (wk_footer_items(footer, pages[0], offset, items, &count) != WK_OK)
			return false;
		for (uint32_t i = 0; i < count; i++)
			assert((uint64_t)items[i].offset + items[i].size <= footer->file_size);
	}
	if (footer->runs_count > 0) {
		uint64_t offset = wk_footer_run_page(footer, 0);
		mend_page(footer, pages[1], offset, 2, at_most(footer->runs_count, WK_PAGE_RUNS));
		if (wk_footer_runs(footer, pages[1], offset, runs, &count) != WK_OK)
			return false;
		for (uint32_t i = 0; i < count; i++)
			assert((uint64_t)runs[i].first_item + runs[i].count <= footer->items_count && runs[i].count > 0);
	}
	if (footer->states_count > 0) {
		uint64_t offset = wk_footer_state_page(footer, 0);
		mend_page(footer, pages[2], offset, 3, at_most(footer->states_count, WK_PAGE_STATES));
		if (wk_footer_states(footer, pages[2], offset, states, &count) != WK_OK)
			return false;
		for (uint32_t i = 0; i < count; i++)
			assert(states[i].size <= WK_STATE_DATA_SIZE);
	}
	return true;
}

static void encodes_to_the_same(const wk_footer *footer) {
	static uint8_t encoded[(KINDS + 1) * PAGE];
	wk_footer_encode(footer, items, runs, states, encoded);
	uint8_t *at = encoded;
	uint32_t counts[KINDS] = {footer->items_count, footer->runs_count, footer->states_count};
	for (uint32_t kind = 0; kind < KINDS; kind++) {
		if (counts[kind] > 0) {
			assert(memcmp(at, pages[kind], PAGE) == 0);
			at += PAGE;
		}
	}
	assert(memcmp(at, pages[KINDS], PAGE) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	wk_footer footer;
	if (size >= PAGE) {
		wk_status status = wk_footer_decode(bytes, &footer);
		assert(status == WK_OK || status == WK_CORRUPT || status == WK_UNSUPPORTED);
	}
	uint8_t *trailer = pages[KINDS];
	size_t taken = size < TRAILER_FIELDS ? size : TRAILER_FIELDS;
	memset(trailer, 0, PAGE);
	memcpy(trailer, bytes, taken);
	memcpy(trailer, "WKFT", 4);
	wk_store_le32(trailer + 8, 1);
	wk_store_le32(trailer + 4, wk_crc32c_extend(wk_crc32c(trailer, 4), trailer + 8, PAGE - 8));
	bytes += taken, size -= taken;
	for (uint32_t kind = 0; kind < KINDS; kind++)
		fill(pages[kind], &bytes, &size);
	wk_status status = wk_footer_decode(trailer, &footer);
	if (status != WK_OK) {
		assert(status == WK_CORRUPT);
		return 0;
	}
	assert(wk_footer_size(footer.items_count, footer.runs_count, footer.states_count) + footer.end_offset <=
	       footer.file_size);
	if (members_decode(&footer) && footer.items_count <= WK_PAGE_ITEMS && footer.runs_count <= WK_PAGE_RUNS &&
	    footer.states_count <= WK_PAGE_STATES)
		encodes_to_the_same(&footer);
	return 0;
}
