/*
 * claims.h: what a whole index file says was there, and the files that are there do not show. Private.
 *
 * A file that is missing, or that an open which does not believe the index finds empty, looks as if it had been
 * recycled. But a file is recycled only after what killed its entries is durable (storage rule 21). So where the
 * catalogue still needs an entry that the index knew, bytes are lost that were acknowledged, and the end of what is
 * left must not pass for the end of the log.
 *
 * A follower beside a writer has no claims: what it has listed, and what the index and the catalogue say, are not of
 * one moment.
 */
#ifndef WK_ENGINE_CLAIMS_H
#define WK_ENGINE_CLAIMS_H
#include "engine/engine.h"

typedef struct wk_claim { /* of a range in a file */
	int64_t ledger_id;
	int64_t first_entry, last_entry;
	bool dense;      /* there were no holes between them */
	uint32_t needed; /* so many of them at least were not dead */
	uint32_t bytes;
	uint32_t kind; /* enum wk_file_kind */
	uint64_t file_id;
	uint64_t last_sequence; /* of its footer */
} wk_claim;

typedef struct wk_claims {
	wk_claim *list; /* by ledger */
	uint32_t count, capacity;
} wk_claims;

/* In the order of ledgers. WK_NO_MEMORY. */
wk_status wk_claims_add(wk_engine *engine, const wk_claim *claim);
/* The highest entry of the ledger that the index knew, -1: none. */
int64_t wk_claims_last(const wk_engine *engine, int64_t ledger_id);
/*
 * The catalogue is there, and the directory is being opened for writing. Where a log needs what is claimed, and no file
 * has it: WK_DAMAGED, which names the file; where loss is accepted, it is for wk_loss_settle. WK_NO_MEMORY. No lock
 * held.
 */
wk_status wk_claims_check(wk_engine *engine, bool accepts, wk_error *error);
/*
 * The catalogue is there. Ends of logs that are claimed and gone: where loss is accepted, they are lost; else the
 * ledger ends where it did, and who reads what is missing is told. (locked)
 */
wk_status wk_claims_settle(wk_engine *engine, bool accepts);
/*
 * Of a ledger store, all of whose files were read: the same for what no delete killed since. Where loss is accepted, it is
 * counted. The claims are gone behind it. WK_DAMAGED.
 */
wk_status wk_claims_check_ledgers(wk_engine *engine, bool accepts, wk_error *error);
void wk_claims_free(wk_engine *engine);
#endif
