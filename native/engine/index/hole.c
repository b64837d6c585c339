#include "engine/index/hole.h"

#include "engine/catalogue.h"
#include "engine/index/lookup.h"

/* Where the gap ends that this entry was lost in; -1: in none. */
static int64_t end_of_gap(const wk_log_state *log, int64_t segment, int64_t entry_id) {
	for (uint32_t i = 0; log->gaps != NULL && i < log->gaps->count; i++) {
		const wk_gap *gap = &log->gaps->list[i];
		int64_t last = gap->last_entry_id > gap->entry_id ? gap->last_entry_id : gap->entry_id;
		if (gap->segment == segment && gap->entry_id <= entry_id && entry_id <= last)
			return last + 1;
	}
	return -1;
}

wk_status wk_hole_find(wk_engine *engine, const wk_log_state *log, const wk_segment *segment, int64_t *first,
                       int64_t last, int64_t *end, wk_error *error) {
	wk_stretch found = {0};
	for (int64_t at = *first; at <= last; at = *end) {
		*end = end_of_gap(log, segment->segment, at);
		if (*end > at)
			continue;
		wk_status status = wk_lookup(engine, segment->ledger_id, at, last, WK_LOOKUP_ALL, NULL, 0, &found, error);
		bool hole = status == WK_NOT_FOUND || (status == WK_OK && found.file == NULL);
		wk_stretch_release(engine, &found);
		if (status != WK_OK && status != WK_NOT_FOUND)
			return status;
		*end = status == WK_OK && found.last_entry < last ? found.last_entry + 1 : last + 1;
		*first = at;
		if (hole)
			return WK_OK;
	}
	return WK_END;
}
