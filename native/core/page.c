#include "core/page.h"

#include <assert.h>

#include "core/bytes.h"
#include "core/zero.h"

enum { CRC_AT = 0, COUNT_AT = 4, KIND_AT = 6 };

static uint32_t checksum(const uint8_t page[WK_PAGE_SIZE], const wk_page_place *place) {
	uint8_t seed[WK_DIRECTORY_ID_SIZE + 16];
	memcpy(seed, place->directory_id, WK_DIRECTORY_ID_SIZE);
	wk_store_le64(seed + WK_DIRECTORY_ID_SIZE, place->owner);
	wk_store_le64(seed + WK_DIRECTORY_ID_SIZE + 8, place->offset);
	return wk_crc32c_extend(wk_crc32c(seed, sizeof seed), page + COUNT_AT, WK_PAGE_SIZE - COUNT_AT);
}

void wk_page_begin(uint8_t page[WK_PAGE_SIZE], enum wk_page_kind kind, uint32_t count) {
	assert(count > 0);
	memset(page, 0, WK_PAGE_SIZE);
	wk_store_le16(page + COUNT_AT, (uint16_t)count);
	wk_store_le16(page + KIND_AT, (uint16_t)kind);
}

void wk_page_end(uint8_t page[WK_PAGE_SIZE], const wk_page_place *place) {
	wk_store_le32(page + CRC_AT, checksum(page, place));
}

bool wk_page_is_whole(const uint8_t page[WK_PAGE_SIZE], const wk_page_place *place, enum wk_page_kind kind,
                      uint32_t count, uint32_t member_size) {
	if (count == 0 || wk_load_le32(page + CRC_AT) != checksum(page, place))
		return false;
	if (wk_load_le16(page + COUNT_AT) != count || wk_load_le16(page + KIND_AT) != kind)
		return false;
	uint32_t end = WK_PAGE_MEMBERS_AT + count * member_size;
	return wk_is_zero(page + end, WK_PAGE_SIZE - end);
}
