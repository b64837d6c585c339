/*
 * ledger_state.h: what state records said last of a ledger: fence, master key, explicit LAC. Private; under the
 * engine's lock, or while opening.
 *
 * A small table beside the ledgers: most ledgers have none, and a ledger with a state need not have entries here. It
 * is filled from state records in journal order (footers, blocks) on top of what the index file held, and the next
 * index file holds all of it: from then on the journal files that held the records may go. Whoever comes to write
 * state records must apply them here once they are durable, not before: what stands here is taken for durable.
 */
#ifndef WK_ENGINE_LEDGER_STATE_H
#define WK_ENGINE_LEDGER_STATE_H
#include "engine/engine.h"

/* The last record wins. WK_NO_MEMORY. */
wk_status wk_ledger_state_apply(wk_engine *engine, const wk_footer_state *record);
/* What an index file held, before any record is applied. Only its states count. */
wk_status wk_ledger_state_restore(wk_engine *engine, const wk_index_ledger *held);
/* NULL: none. Good until the next change. */
const wk_index_ledger *wk_ledger_state_find(const wk_engine *engine, int64_t ledger_id);
void wk_ledger_states_free(wk_engine *engine);
#endif
