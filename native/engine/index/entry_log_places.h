/*
 * entry_log_places.h: where the entries of an entry log stand, from their own bytes. Private; takes no lock.
 *
 * An entry log is one entry after another, in the order of its items, and the runs say which entries these are. So a
 * page of items that cannot be read is no loss: each entry ends where the next one's ids begin, and its digest says
 * whether that is so.
 */
#ifndef WK_ENGINE_ENTRY_LOG_PLACES_H
#define WK_ENGINE_ENTRY_LOG_PLACES_H
#include "engine/engine.h"

/*
 * The places of `count` entries from item `item` on, the first of which begins at `start`. The file is pinned.
 * WK_DAMAGED: they cannot be told apart.
 */
wk_status wk_entry_log_places(wk_engine *engine, wk_store_file *file, uint32_t item, uint32_t count, uint64_t start,
                              wk_footer_item *items, wk_error *error);
#endif
