/*
 * catalogue_recovery.h: from the entries of ledger 0 to the catalogue in memory. Private.
 *
 * The superblock names the newest snapshot and the one before it; entries from the latter on are kept. Where the newest
 * cannot be read, the earlier one and the changes since say the same: nothing is lost. Where changes cannot be read
 * either, an open refuses, or (under a policy that accepts loss) salvages: it applies what is intact, and gives every
 * ledger that no log names any more a log of its own, so that nothing that can be read becomes unreachable.
 */
#ifndef WK_ENGINE_CATALOGUE_RECOVERY_H
#define WK_ENGINE_CATALOGUE_RECOVERY_H
#include "engine/engine.h"

/*
 * While opening: all of the catalogue up to entry `last` (-1: there is none). `accepts`: what is damaged is salvaged,
 * and ledgers that no log names any more are adopted. WK_DAMAGED where it is not. Takes the lock itself.
 */
wk_status wk_catalogue_recover(wk_engine *engine, int64_t last, bool accepts, wk_error *error);
/* Applies entries first..last of ledger 0, behind what is loaded. Takes the lock itself. */
wk_status wk_catalogue_load(wk_engine *engine, int64_t first, int64_t last, wk_error *error);
/*
 * Opening for writing, the journal can be written: where the catalogue was not loaded from its newest snapshot, or was
 * salvaged, two new ones, so that nothing below is needed any more.
 */
wk_status wk_catalogue_rewrite(wk_engine *engine, wk_error *error);
/* Forgets all logs. While opening. */
void wk_catalogue_forget(wk_engine *engine);

/* catalogue_salvage.c: what is intact of entries first..last, on top of what is loaded. Counts what is not. */
wk_status wk_catalogue_salvage(wk_engine *engine, int64_t first, int64_t last, wk_error *error);
/* (locked) No log gives a segment the number of one that its positions speak of. */
void wk_catalogue_pass_numbers(wk_engine *engine);
/* A log for each ledger with entries that no log names and that no record killed: its record was lost. */
wk_status wk_catalogue_adopt(wk_engine *engine, wk_error *error);
#endif
