/*
 * ledger_state.h: what state records say of a ledger: fence, master key, explicit LAC, delete. Private; under the
 * engine's lock, or while opening.
 *
 * A table beside the ledgers: those of logs have none, and a ledger with a state need not have entries here. It is
 * filled from state records in journal order (footers, blocks, and blocks that become durable) on top of what the
 * index file held, and the next index file holds all of it: from then on the journal files that held the records may
 * go. What is accepted and not yet durable stands in tickets: sequences of the blocks that will say it.
 */
#ifndef WK_ENGINE_LEDGER_STATE_H
#define WK_ENGINE_LEDGER_STATE_H
#include "engine/engine.h"

typedef struct wk_ledger_state {
	/* durable, but for the key, which stands here as soon as it is accepted; it counts from has_key on */
	wk_index_ledger held;
	bool has_key;
	uint64_t last_ticket;   /* the last thing accepted, 0: nothing since the open */
	uint64_t fence_ticket;  /* accepted since the open, 0: not */
	uint64_t delete_ticket; /* the same: nothing more is accepted until it is durable */
} wk_ledger_state;

/* NULL: none. */
wk_ledger_state *wk_ledger_state_get(const wk_engine *engine, int64_t ledger_id);
/* Made where there is none; NULL: no memory. */
wk_ledger_state *wk_ledger_state_make(wk_engine *engine, int64_t ledger_id);

/* A durable record; the last wins. WK_NO_MEMORY. */
wk_status wk_ledger_state_apply(wk_engine *engine, const wk_footer_state *record);
/* The same of a record that stands in `file`, which is not sealed: its footer will have it. */
wk_status wk_ledger_state_record(wk_engine *engine, wk_store_file *file, const wk_footer_state *record);
/* What an index file held, before any record is applied. Only its states count. */
wk_status wk_ledger_state_restore(wk_engine *engine, const wk_index_ledger *held);
/* What is durable of it; NULL: nothing. Good until the next change. */
const wk_index_ledger *wk_ledger_state_find(const wk_engine *engine, int64_t ledger_id);
/* All that is durable, in no order, into room for states_count of them; how many. */
uint32_t wk_ledger_states_copy(const wk_engine *engine, wk_index_ledger *into);
uint64_t wk_ledger_states_memory(const wk_engine *engine);
void wk_ledger_states_free(wk_engine *engine);
#endif
