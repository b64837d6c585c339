/*
 * footer.c: the trailer of a sealed file, and where its pages are. The members of pages are in footer_pages.c.
 *
 * Trailer, little-endian; the bytes not named are zero:
 *   0 uint32 magic "WKFT"     4 uint32 CRC-32C of the other 4092 bytes     8 uint32 version 1     12 uint32 kind
 *  16 16 bytes of directory id           32 uint64 file id                 40 uint64 file size
 *  48 uint64 incarnation                 56 uint64 first sequence          64 uint64 last sequence
 *  72 uint64 end offset                  80 uint32 first previous CRC      84 uint32 last CRC
 *  88 uint32 items   92 uint32 runs      96 uint32 states
 */
#include "core/footer.h"
#include "core/bytes.h"
#include "core/footer_layout.h"
#include "core/zero.h"
#include <assert.h>

enum {
	MAGIC_AT = 0,
	CRC_AT = 4,
	VERSION_AT = 8,
	KIND_AT = 12,
	DIRECTORY_ID_AT = 16,
	FILE_ID_AT = 32,
	FILE_SIZE_AT = 40,
	INCARNATION_AT = 48,
	FIRST_SEQUENCE_AT = 56,
	LAST_SEQUENCE_AT = 64,
	END_OFFSET_AT = 72,
	FIRST_PREVIOUS_CRC_AT = 80,
	LAST_CRC_AT = 84,
	ITEMS_COUNT_AT = 88,
	RUNS_COUNT_AT = 92,
	STATES_COUNT_AT = 96,
	UNUSED_AT = 100,
};
enum { MAGIC = 0x54464b57, VERSION = 1 }; /* "WKFT" */

static uint64_t pages_of(uint64_t members, uint64_t members_a_page) {
	return members / members_a_page + (members % members_a_page != 0);
}

static uint64_t item_pages(const wk_footer *footer) {
	return pages_of(footer->items_count, WK_PAGE_ITEMS);
}
static uint64_t run_pages(const wk_footer *footer) {
	return pages_of(footer->runs_count, WK_PAGE_RUNS);
}

static uint64_t footer_size(const wk_footer *footer) {
	return wk_footer_size(footer->items_count, footer->runs_count, footer->states_count);
}

/* Offset in the file of the footer's page number `page`. */
static uint64_t page_offset(const wk_footer *footer, uint64_t page) {
	return footer->file_size - footer_size(footer) + page * WK_PAGE_SIZE;
}

/* The checksum comes before everything but the magic, so that a later version is told from a broken page. */
static uint32_t checksum(const uint8_t page[WK_PAGE_SIZE]) {
	return wk_crc32c_extend(wk_crc32c(page, CRC_AT), page + VERSION_AT, WK_PAGE_SIZE - VERSION_AT);
}

bool wk_footer_is_possible(const wk_footer *footer) {
	if (footer->kind != WK_FILE_JOURNAL && footer->kind != WK_FILE_ENTRY_LOG)
		return false;
	if (footer->file_size % WK_PAGE_SIZE != 0 || footer->file_size < footer_size(footer) ||
	    footer->end_offset > footer->file_size - footer_size(footer))
		return false;
	if (footer->runs_count > footer->items_count) /* a run has an item or more */
		return false;
	if (footer->kind == WK_FILE_ENTRY_LOG)
		return true;
	/* A journal file may be sealed without a block: its last sequence is then the one before its first. */
	return footer->first_sequence >= 1 && footer->last_sequence >= footer->first_sequence - 1 &&
	       footer->end_offset % WK_BLOCK_ALIGNMENT == 0;
}

uint64_t wk_footer_size(uint64_t items, uint64_t runs, uint64_t states) {
	return (pages_of(items, WK_PAGE_ITEMS) + pages_of(runs, WK_PAGE_RUNS) + pages_of(states, WK_PAGE_STATES) + 1) *
	       WK_PAGE_SIZE;
}

void wk_footer_encode_trailer(const wk_footer *footer, uint8_t page[WK_PAGE_SIZE]) {
	memset(page, 0, WK_PAGE_SIZE);
	wk_store_le32(page + MAGIC_AT, MAGIC);
	wk_store_le32(page + VERSION_AT, VERSION);
	wk_store_le32(page + KIND_AT, footer->kind);
	memcpy(page + DIRECTORY_ID_AT, footer->directory_id, WK_DIRECTORY_ID_SIZE);
	wk_store_le64(page + FILE_ID_AT, footer->file_id);
	wk_store_le64(page + FILE_SIZE_AT, footer->file_size);
	wk_store_le64(page + INCARNATION_AT, footer->incarnation);
	wk_store_le64(page + FIRST_SEQUENCE_AT, footer->first_sequence);
	wk_store_le64(page + LAST_SEQUENCE_AT, footer->last_sequence);
	wk_store_le64(page + END_OFFSET_AT, footer->end_offset);
	wk_store_le32(page + FIRST_PREVIOUS_CRC_AT, footer->first_previous_crc);
	wk_store_le32(page + LAST_CRC_AT, footer->last_crc);
	wk_store_le32(page + ITEMS_COUNT_AT, footer->items_count);
	wk_store_le32(page + RUNS_COUNT_AT, footer->runs_count);
	wk_store_le32(page + STATES_COUNT_AT, footer->states_count);
	wk_store_le32(page + CRC_AT, checksum(page));
}

wk_status wk_footer_decode(const uint8_t page[4096], wk_footer *footer) {
	if (wk_load_le32(page + MAGIC_AT) != MAGIC || wk_load_le32(page + CRC_AT) != checksum(page))
		return WK_CORRUPT;
	uint32_t version = wk_load_le32(page + VERSION_AT);
	if (version > VERSION)
		return WK_UNSUPPORTED;
	if (version != VERSION || !wk_is_zero(page + UNUSED_AT, WK_PAGE_SIZE - UNUSED_AT))
		return WK_CORRUPT;
	wk_footer found = {
	    .file_id = wk_load_le64(page + FILE_ID_AT),
	    .file_size = wk_load_le64(page + FILE_SIZE_AT),
	    .incarnation = wk_load_le64(page + INCARNATION_AT),
	    .first_sequence = wk_load_le64(page + FIRST_SEQUENCE_AT),
	    .last_sequence = wk_load_le64(page + LAST_SEQUENCE_AT),
	    .end_offset = wk_load_le64(page + END_OFFSET_AT),
	    .first_previous_crc = wk_load_le32(page + FIRST_PREVIOUS_CRC_AT),
	    .last_crc = wk_load_le32(page + LAST_CRC_AT),
	    .items_count = wk_load_le32(page + ITEMS_COUNT_AT),
	    .runs_count = wk_load_le32(page + RUNS_COUNT_AT),
	    .states_count = wk_load_le32(page + STATES_COUNT_AT),
	    .kind = wk_load_le32(page + KIND_AT),
	};
	memcpy(found.directory_id, page + DIRECTORY_ID_AT, WK_DIRECTORY_ID_SIZE);
	if (!wk_footer_is_possible(&found))
		return WK_CORRUPT;
	*footer = found;
	return WK_OK;
}

uint64_t wk_footer_item_page(const wk_footer *footer, uint32_t item) {
	assert(item < footer->items_count);
	return page_offset(footer, item / WK_PAGE_ITEMS);
}

uint64_t wk_footer_run_page(const wk_footer *footer, uint32_t run) {
	assert(run < footer->runs_count);
	return page_offset(footer, item_pages(footer) + run / WK_PAGE_RUNS);
}

uint64_t wk_footer_state_page(const wk_footer *footer, uint32_t state) {
	assert(state < footer->states_count);
	return page_offset(footer, item_pages(footer) + run_pages(footer) + state / WK_PAGE_STATES);
}

uint32_t wk_footer_page_count(const wk_footer *footer, enum wk_page_kind kind, uint64_t offset) {
	uint64_t first = kind == WK_PAGE_KIND_ITEMS  ? 0
	                 : kind == WK_PAGE_KIND_RUNS ? item_pages(footer)
	                                             : item_pages(footer) + run_pages(footer);
	uint32_t members = kind == WK_PAGE_KIND_ITEMS  ? footer->items_count
	                   : kind == WK_PAGE_KIND_RUNS ? footer->runs_count
	                                               : footer->states_count;
	uint32_t members_a_page = kind == WK_PAGE_KIND_ITEMS  ? WK_PAGE_ITEMS
	                          : kind == WK_PAGE_KIND_RUNS ? WK_PAGE_RUNS
	                                                      : WK_PAGE_STATES;
	uint64_t start = page_offset(footer, first);
	if (offset < start || (offset - start) % WK_PAGE_SIZE != 0)
		return 0;
	uint64_t before = (offset - start) / WK_PAGE_SIZE * members_a_page;
	if (before >= members)
		return 0;
	uint32_t left = members - (uint32_t)before;
	return left < members_a_page ? left : members_a_page;
}
