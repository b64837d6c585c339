/*
 * page.h: a page of members that counts only in its place: the pages of footers and of index files. Private; pure.
 *
 *   page := uint32 CRC, uint16 count, uint16 kind, member*, zero bytes          WK_PAGE_SIZE bytes, little-endian
 *
 * The CRC-32C starts from the directory id, the owner (a file's id, an index's generation) and the offset, so that the
 * same bytes in another place, file or directory are not a page there. What count and kind must be follows from the
 * place; the owner's layout says it.
 */
#ifndef WK_CORE_PAGE_H
#define WK_CORE_PAGE_H
#include "core/footer.h"
#include <stdbool.h>

enum { WK_PAGE_MEMBERS_AT = 8 };

/* No two kinds of any file are the same: no page can be taken for one of another structure. */
enum wk_page_kind {
	WK_PAGE_KIND_ITEMS = 1,
	WK_PAGE_KIND_RUNS = 2,
	WK_PAGE_KIND_STATES = 3,
	WK_PAGE_KIND_FILES = 4,
	WK_PAGE_KIND_LEDGERS = 5,
	WK_PAGE_KIND_RANGES = 6,
};

typedef struct wk_page_place {
	const uint8_t *directory_id; /* 16 bytes */
	uint64_t owner;
	uint64_t offset;
} wk_page_place;

/* Zero bytes but for count, which is at least 1, and kind: the members are put behind that. */
void wk_page_begin(uint8_t page[WK_PAGE_SIZE], enum wk_page_kind kind, uint32_t count);
/* The CRC, once the members stand. */
void wk_page_end(uint8_t page[WK_PAGE_SIZE], const wk_page_place *place);
/* Is it this page: its CRC, `count` members of this kind and size, zero behind them? count 0: no page stands there. */
bool wk_page_is_whole(const uint8_t page[WK_PAGE_SIZE], const wk_page_place *place, enum wk_page_kind kind,
                      uint32_t count, uint32_t member_size);

static inline uint8_t *wk_page_member(uint8_t *page, uint32_t number, uint32_t member_size) {
	return page + WK_PAGE_MEMBERS_AT + number * member_size;
}
static inline const uint8_t *wk_page_member_in(const uint8_t *page, uint32_t number, uint32_t member_size) {
	return page + WK_PAGE_MEMBERS_AT + number * member_size;
}
#endif
