/*
 * ledger.h: which entries a ledger has and where they are: its runs. Private; under the engine's lock.
 *
 * A run is entries with consecutive ids in one file. Their places are held in memory while the file is being written,
 * and in the file's footer afterwards: an idle ledger costs a run for each file it touches, not an item for each
 * entry.
 */
#ifndef WK_ENGINE_LEDGER_H
#define WK_ENGINE_LEDGER_H
#include "engine/engine.h"

/* NULL: not there. */
wk_ledger *wk_ledger_find(wk_engine *engine, int64_t ledger_id);
/* The ledger, made where it is not there; NULL: no memory. */
wk_ledger *wk_ledger_get(wk_engine *engine, int64_t ledger_id);
/* Forgets the ledger; its entries are dead. */
void wk_ledger_drop(wk_engine *engine, wk_ledger *ledger);
void wk_ledgers_free(wk_engine *engine);

/*
 * Entry `entry_id` of the ledger stands in `file`, which is not sealed. The same id again replaces the earlier place.
 */
wk_status wk_ledger_add_item(wk_engine *engine, wk_ledger *ledger, wk_store_file *file, int64_t entry_id,
                             wk_footer_item item);
/* A run that a footer lists. Where it overlaps older runs, it wins (a moved copy, in a file with a higher id). */
wk_status wk_ledger_add_run(wk_engine *engine, const wk_footer_run *run, wk_store_file *file);
/* The run that holds the entry, NULL where none does. */
wk_run *wk_ledger_run_of(wk_ledger *ledger, int64_t entry_id);
/* Entries before `first_live` are dead: files' live counts fall, runs without live entries go. */
void wk_ledger_trim(wk_engine *engine, wk_ledger *ledger, int64_t first_live);
/* The ledger's runs in `file` now stand in its footer, from item *first_item on. */
void wk_ledger_seal_runs(wk_engine *engine, wk_ledger *ledger, wk_store_file *file);
/* Native bytes of the table. */
uint64_t wk_ledgers_memory(const wk_engine *engine);
#endif
