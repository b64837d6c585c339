/*
 * ledger_state.h: what state records say of a ledger: fence, master key, explicit LAC, delete. Private; under the
 * engine's lock, or while opening.
 *
 * A table beside the ledgers: those of logs have none, and a ledger with a state need not have entries here. It is
 * filled from state records in journal order (footers, blocks, and blocks that become durable) on top of what the
 * index file held, and the next index file holds all of it: from then on the journal files that held the records may
 * go. Of what is accepted and not yet durable it says that it is, and the last ticket: the
 * sequence of the block that will say it.
 */
#ifndef WK_ENGINE_LEDGER_STATE_H
#define WK_ENGINE_LEDGER_STATE_H
#include "core/ledger_rules.h"
#include "engine/engine.h"

/* What most ledgers have nothing of. */
typedef struct wk_ledger_state_more {
	uint8_t lac[WK_STATE_DATA_SIZE]; /* explicit LAC packet */
	uint8_t key[WK_STATE_DATA_SIZE]; /* a key that is longer than BookKeeper's */
} wk_ledger_state_more;

/* There is one for each ledger of the store: every byte counts. */
typedef struct wk_ledger_state {
	int64_t ledger_id;
	uint64_t last_ticket; /* the last thing accepted, 0: nothing since the open */
	wk_ledger_state_more *more;
	uint8_t bits; /* enum wk_ledger_bit: what is durable */
	uint8_t key_size;
	uint8_t lac_size;
	bool has_key : 1;      /* the key stands here as soon as it is accepted; WK_LEDGER_HAS_KEY: it is durable */
	bool fencing : 1;      /* a fence was accepted since the open */
	bool deleting : 1;     /* the same: nothing more is accepted until last_ticket, which is the delete's, is durable */
	uint8_t short_key[20]; /* as BookKeeper's is */
} wk_ledger_state;
static_assert(sizeof(wk_ledger_state) == 48, "a multiple of what allocators give");

const uint8_t *wk_ledger_state_key(const wk_ledger_state *state);
/* As the rules want to know them; the key's bytes are the state's. */
wk_ledger_facts wk_ledger_state_facts(const wk_ledger_state *state);
/* It is accepted. False: no memory, nothing has changed. */
bool wk_ledger_state_set_key(wk_engine *engine, wk_ledger_state *state, const void *key, uint32_t size);

/* NULL: none. */
wk_ledger_state *wk_ledger_state_get(const wk_engine *engine, int64_t ledger_id);
/* Soon it is wanted. Two steps, a few ledgers apart: its place in the table, and what stands there. */
void wk_ledger_state_prefetch_slot(const wk_engine *engine, int64_t ledger_id);
void wk_ledger_state_prefetch(const wk_engine *engine, int64_t ledger_id);
/* Made where there is none; NULL: no memory. */
wk_ledger_state *wk_ledger_state_make(wk_engine *engine, int64_t ledger_id);

/* A durable record; the last wins. WK_NO_MEMORY. */
wk_status wk_ledger_state_apply(wk_engine *engine, const wk_footer_state *record);
/* The same of a record that stands in `file`, which is not sealed: its footer will have it. */
wk_status wk_ledger_state_record(wk_engine *engine, wk_store_file *file, const wk_footer_state *record);
/* What an index file held, before any record is applied. Only its states count. */
wk_status wk_ledger_state_restore(wk_engine *engine, const wk_index_ledger *held);
/* What is durable of it (may be NULL); false: nothing. */
bool wk_ledger_state_find(const wk_engine *engine, int64_t ledger_id, wk_index_ledger *held);
/* All that is durable, in no order, into room for states_count of them; how many. */
uint32_t wk_ledger_states_copy(const wk_engine *engine, wk_index_ledger *into);
uint64_t wk_ledger_states_memory(const wk_engine *engine);
void wk_ledger_states_free(wk_engine *engine);
#endif
