/* inspect_pages.c: the pages of members that footers and index files consist of. */
#include "core/footer.h"
#include "engine/check/inspector.h"

wk_status wk_inspect_page_at(wk_inspector *inspector, uint64_t offset, const uint8_t **page) {
	size_t available;
	wk_status status = wk_file_view_at(&inspector->view, offset, WK_PAGE_SIZE, page, &available, inspector->error);
	return status == WK_OK && available < WK_PAGE_SIZE ? WK_END : status;
}

static wk_status put_bad_page(wk_inspector *inspector, const char *what, uint64_t offset) {
	wk_inspector_damage(inspector, "the page of %s at offset %llu is not whole", what, (unsigned long long)offset);
	wk_json_begin(&inspector->json);
	wk_json_unsigned(&inspector->json, "page", offset);
	wk_json_string(&inspector->json, "kind", what);
	wk_json_string(&inspector->json, "crc", "bad");
	return wk_inspector_line(inspector);
}

wk_status wk_inspect_pages(wk_inspector *inspector, const wk_inspect_kind *kind, const void *of, uint32_t members,
                           uint64_t start) {
	for (uint32_t first = 0; first < members; first += kind->a_page) {
		uint64_t at = start + (uint64_t)(first / kind->a_page) * WK_PAGE_SIZE;
		const uint8_t *page;
		wk_status status = wk_inspect_page_at(inspector, at, &page);
		bool ends = status == WK_END;
		if (status == WK_OK)
			status = kind->put(inspector, of, page, at, first);
		if (status == WK_CORRUPT || ends)
			status = put_bad_page(inspector, kind->what, at);
		if (status != WK_OK || ends) /* what is behind the end of the file is not listed page by page */
			return status;
	}
	return WK_OK;
}
