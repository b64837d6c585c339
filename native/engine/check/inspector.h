/*
 * inspector.h: what the parts of wk_inspect_file share: a file, the line being written, who takes it. Private.
 */
#ifndef WK_ENGINE_INSPECTOR_H
#define WK_ENGINE_INSPECTOR_H
#include "engine/check/file_view.h"
#include "engine/check/json.h"
#include "walkeeper/inspect.h"

typedef struct wk_inspector {
	wk_file_view view;
	wk_json json;
	wk_inspect_fn fn;
	void *context;
	wk_error *error;
	bool entries;
	char damage[200]; /* the first; empty: none */
} wk_inspector;

/* Hands the line over. WK_INTERRUPTED: no more is wanted; WK_NO_MEMORY. */
wk_status wk_inspector_line(wk_inspector *inspector);
/* Notes damage; the first is what the caller hears of, behind all lines. */
void wk_inspector_damage(wk_inspector *inspector, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * inspect_pages.c: pages of members. `put` hands over the lines of one page, whose first member is number `first` of
 * its kind; WK_CORRUPT: the page is not whole, which is told, and the next one follows.
 */
typedef struct wk_inspect_kind {
	const char *what;
	uint32_t a_page; /* members of a full page */
	wk_status (*put)(wk_inspector *inspector, const void *of, const uint8_t *page, uint64_t at, uint32_t first);
} wk_inspect_kind;
/* of: the footer or header that they belong to. start: of the first page. */
wk_status wk_inspect_pages(wk_inspector *inspector, const wk_inspect_kind *kind, const void *of, uint32_t members,
                           uint64_t start);
/* One page; WK_END: the file ends before it. */
wk_status wk_inspect_page_at(wk_inspector *inspector, uint64_t offset, const uint8_t **page);

/* inspect_journal.c: footer: NULL where the file has none of its own. */
wk_status wk_inspect_journal(wk_inspector *inspector, const uint8_t directory_id[16], uint64_t epoch,
                             const wk_footer *footer);
/* inspect_footer.c: the trailer, its runs and states. */
wk_status wk_inspect_footer(wk_inspector *inspector, const wk_footer *footer);
wk_status wk_inspect_entry_log(wk_inspector *inspector, const wk_footer *footer);
/* inspect_index.c: its first page starts as an index file's does. */
wk_status wk_inspect_index(wk_inspector *inspector);
/* inspect_entry.c: one line. `offset` is the entry's in the file. */
wk_status wk_inspect_entry(wk_inspector *inspector, uint64_t offset, const uint8_t *bytes, size_t size);
#endif
