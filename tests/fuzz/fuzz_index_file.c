/*
 * The input: 68 bytes of header, then for files, ledgers and ranges each a uint16 and so many bytes: the members of the first page of that kind; what is missing is zero. Magic, version and
 * checksums are put right. Checked: an index of at most a page of each kind that decodes is encoded again to the same bytes; a range never names a file that is not there; the input as it is, without anything
 * put right, is never read outside its bytes.
 */
#include "core/bytes.h"
#include "core/index_file.h"
#include "fuzz.h"
#include <assert.h>

enum { PAGE = WK_PAGE_SIZE, HEADER_FIELDS = 68, KINDS = 3, FIRST_KIND = 4 };
static uint8_t pages[KINDS + 1][PAGE];
static wk_footer files[WK_INDEX_PAGE_FILES];
static wk_index_ledger ledgers[WK_INDEX_PAGE_LEDGERS];
static wk_index_range ranges[WK_INDEX_PAGE_RANGES];

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

static void mend_page(const wk_index_header *header, uint8_t *page, uint64_t offset, uint32_t kind, uint32_t count) {
	uint8_t place[32];
	memcpy(place, header->directory_id, 16);
	wk_store_le64(place + 16, header->generation);
	wk_store_le64(place + 24, offset);
	wk_store_le16(page + 4, (uint16_t)count);
	wk_store_le16(page + 6, (uint16_t)kind);
	wk_store_le32(page, wk_crc32c_extend(wk_crc32c(place, sizeof place), page + 4, PAGE - 4));
}

/* Every first page decodes: its members are in the arrays. */
static bool members_decode(const wk_index_header *header) {
	uint32_t count;
	if (header->files_count > 0) {
		uint64_t offset = wk_index_file_page(header, 0);
		mend_page(header, pages[1], offset, FIRST_KIND, at_most(header->files_count, WK_INDEX_PAGE_FILES));
		if (wk_index_files(header, pages[1], offset, files, &count) != WK_OK)
			return false;
		for (uint32_t i = 0; i < count; i++)
			assert(files[i].file_id < header->replay_epoch && files[i].end_offset <= files[i].file_size);
	}
	if (header->ledgers_count > 0) {
		uint64_t offset = wk_index_ledger_page(header, 0);
		mend_page(header, pages[2], offset, FIRST_KIND + 1, at_most(header->ledgers_count, WK_INDEX_PAGE_LEDGERS));
		if (wk_index_ledgers(header, pages[2], offset, ledgers, &count) != WK_OK)
			return false;
		for (uint32_t i = 0; i < count; i++)
			assert(ledgers[i].key_size <= sizeof ledgers[i].key && ledgers[i].lac_size <= sizeof ledgers[i].lac);
	}
	if (header->ranges_count > 0) {
		uint64_t offset = wk_index_range_page(header, 0);
		mend_page(header, pages[3], offset, FIRST_KIND + 2, at_most(header->ranges_count, WK_INDEX_PAGE_RANGES));
		if (wk_index_ranges(header, pages[3], offset, ranges, &count) != WK_OK)
			return false;
		for (uint32_t i = 0; i < count; i++)
			assert(ranges[i].file < header->files_count && ranges[i].count > 0 && ranges[i].dead <= ranges[i].count);
	}
	return true;
}

static void encodes_to_the_same(const wk_index_header *header) {
	static uint8_t encoded[(KINDS + 1) * PAGE];
	wk_index_encode(header, files, ledgers, ranges, encoded);
	assert(memcmp(encoded, pages[0], PAGE) == 0);
	const uint8_t *at = encoded + PAGE;
	uint32_t counts[KINDS] = {header->files_count, header->ledgers_count, header->ranges_count};
	for (uint32_t kind = 0; kind < KINDS; kind++) {
		if (counts[kind] > 0) {
			assert(memcmp(at, pages[kind + 1], PAGE) == 0);
			at += PAGE;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	wk_index_header header;
	if (size >= PAGE) {
		wk_status status = wk_index_decode(bytes, &header);
		assert(status == WK_OK || status == WK_CORRUPT || status == WK_UNSUPPORTED);
	}
	uint8_t *first = pages[0];
	size_t taken = size < HEADER_FIELDS ? size : HEADER_FIELDS;
	memset(first, 0, PAGE);
	memcpy(first, bytes, taken);
	memcpy(first, "WKIX", 4);
	wk_store_le32(first + 8, 1);
	wk_store_le32(first + 4, wk_crc32c_extend(wk_crc32c(first, 4), first + 8, PAGE - 8));
	bytes += taken, size -= taken;
	for (uint32_t kind = 0; kind < KINDS; kind++)
		fill(pages[kind + 1], &bytes, &size);
	wk_status status = wk_index_decode(first, &header);
	if (status != WK_OK) {
		assert(status == WK_CORRUPT);
		return 0;
	}
	if (members_decode(&header) && header.files_count <= WK_INDEX_PAGE_FILES &&
	    header.ledgers_count <= WK_INDEX_PAGE_LEDGERS && header.ranges_count <= WK_INDEX_PAGE_RANGES)
		encodes_to_the_same(&header);
	return 0;
}
