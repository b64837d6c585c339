/*
 * ledger_delete.h: ledgers that their user deleted (in a ledger store; those of logs go with the catalogue). Private;
 * under the engine's lock, or while opening.
 *
 * A delete is a state record. Once it is durable the ledger is unknown; at an open it kills what files before it in
 * the journal's order hold of the ledger. Entry logs stand in no order to the journal: each says which blocks were
 * durable when the mover chose what to copy (`last_sequence` of its footer). What it holds of a ledger that a later
 * block deleted is dead, also where the ledger was written anew since. For an open to know that, the record must be
 * read with the entry log: the mark stays at its journal file until the index names the entry log.
 *
 * An entry log that the index does not name, below the mark, is dead: it was unlinked before, and a power cut brought
 * its name back. So the mark stays before an entry log that is being made. And an unlinked one above the mark must not
 * come back without the delete that killed it: the folder is synced before an index counts.
 */
#ifndef WK_ENGINE_LEDGER_DELETE_H
#define WK_ENGINE_LEDGER_DELETE_H
#include "engine/engine.h"

typedef struct wk_deleted_ledger {
	int64_t ledger_id;
	uint64_t sequence; /* of the block that deleted it */
} wk_deleted_ledger;

enum { WK_DELETE_DATA_SIZE = 8 };

/* A durable record in `file`. WK_CORRUPT: not one of a delete; WK_NO_MEMORY. */
wk_status wk_ledger_delete_apply(wk_engine *engine, wk_store_file *file, const wk_footer_state *record);
/* The ledger was deleted by a block behind `sequence`, as far as anybody may ask: during a pass, and while opening. */
bool wk_ledger_deleted_since(const wk_engine *engine, int64_t ledger_id, uint64_t sequence);
/* Nobody asks any more. */
void wk_ledger_deletes_free(wk_engine *engine);
/* The mark, lowered to the files whose deletes an open must read. */
uint64_t wk_ledger_delete_mark(const wk_engine *engine, uint64_t mark);
#endif
