/*
 * footer_layout.h: what footer.c (the trailer and the places of pages) and footer_pages.c (their members) share.
 * Private.
 */
#ifndef WK_CORE_FOOTER_LAYOUT_H
#define WK_CORE_FOOTER_LAYOUT_H
#include "core/page.h"

/* Members that the page of this kind at `offset` of the file holds; 0 where no such page stands there. */
uint32_t wk_footer_page_count(const wk_footer *footer, enum wk_page_kind kind, uint64_t offset);
/* Fields that a trailer may hold: counts that fit the file, blocks in order, a known kind. */
bool wk_footer_is_possible(const wk_footer *footer);
void wk_footer_encode_trailer(const wk_footer *footer, uint8_t page[WK_PAGE_SIZE]);
#endif
