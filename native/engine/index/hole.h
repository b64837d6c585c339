/*
 * hole.h: entries that a log should have, and that no file has: a file is missing. Private.
 */
#ifndef WK_ENGINE_HOLE_H
#define WK_ENGINE_HOLE_H
#include "engine/catalogue.h"

/*
 * The first entry from *first to `last` of the segment that no file has, and that is in no gap (gap.h: its loss was
 * accepted): *end is behind it. WK_END: there is none. WK_DAMAGED, WK_IO: an index cannot be read. No lock held; the
 * log's gaps do not change meanwhile.
 */
wk_status wk_hole_find(wk_engine *engine, const wk_log_state *log, const wk_segment *segment, int64_t *first,
                       int64_t last, int64_t *end, wk_error *error);
#endif
