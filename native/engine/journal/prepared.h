/* prepared.h: journal files that were made ahead of need, and have no id yet. Private. */
#ifndef WK_ENGINE_PREPARED_H
#define WK_ENGINE_PREPARED_H
#include "engine/journal/journal_space.h"

/* Makes one for later. No lock held. */
wk_status wk_prepared_make(wk_engine *engine, uint64_t size, enum wk_space how, wk_error *error);
/* (locked) There is one of `size`, beside the reserve. */
bool wk_prepared_is_there(const wk_engine *engine, uint64_t size);
/* (locked) A name for another one; the caller frees, NULL: no memory. */
char *wk_prepared_name_new(wk_engine *engine);
/*
 * The smallest one of at least `size` is the caller's now, its name too; one stays behind as the reserve unless that is
 * asked for. False: there is none. (locked)
 */
bool wk_prepared_take(wk_engine *engine, uint64_t size, bool reserve_too, wk_prepared_file *taken);
/*
 * It stands under its name, which is at `path`. One that nobody knows would take its space until the next open: where
 * there is no memory to know it by (false), it goes, and the name stays the caller's. No lock held.
 */
bool wk_prepared_keep(wk_engine *engine, wk_prepared_file file, const char *path);
/*
 * (locked, dropped) The reserve is missing, and none is large enough to be it: gives the space of one back. False:
 * there is none.
 */
bool wk_prepared_give_up(wk_engine *engine);
/* Lists those left by an earlier process. */
wk_status wk_prepared_load(wk_engine *engine, wk_error *error);
void wk_prepared_free(wk_engine *engine);
#endif
