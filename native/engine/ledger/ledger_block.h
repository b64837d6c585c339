/*
 * ledger_block.h: entries and state records in the blocks of a ledger store. Private; under the engine's lock.
 *
 * A record is copied once, into the open block's buffer, and summed there. It enters the index when its block is
 * durable: what the index says of a ledger store is durable, and an entry that is replaced is read in its old place
 * until then.
 */
#ifndef WK_ENGINE_LEDGER_BLOCK_H
#define WK_ENGINE_LEDGER_BLOCK_H
#include "engine/engine.h"
#include "walkeeper/ledger.h"

enum {
	WK_SUM_SIZE = 4,                                                    /* the checksum before an entry's bytes */
	WK_SUMMED_OVERHEAD = WK_BLOCK_RECORD_HEADER_SIZE + WK_SUM_SIZE,     /* of an entry in a block */
	WK_STATE_OVERHEAD = WK_BLOCK_RECORD_HEADER_SIZE + sizeof(uint64_t), /* of a state record */
	WK_STATES_ROOM = 2 * (WK_STATE_OVERHEAD + WK_STATE_DATA_SIZE),      /* what a change asks room for: a key too */
};

/*
 * Memory for a state record (a key), and another one or an entry of `size` bytes behind it; false: there is none. What
 * needs both puts both, or nothing.
 */
bool wk_ledger_block_reserve(wk_engine *engine, size_t size);
/* The caller has room for them in the open block. WK_NO_MEMORY: nothing was put. */
wk_status wk_ledger_block_put_entry(wk_engine *engine, const wk_add *add);
wk_status wk_ledger_block_put_state(wk_engine *engine, int64_t ledger_id, uint32_t type, const void *data, size_t size);
/* A block became durable: what it holds is indexed, in its order. WK_NO_MEMORY. */
wk_status wk_ledger_block_index(wk_engine *engine, const wk_block *block);
/* Bytes of the file's footer once this block, and those of the file that are in flight, are indexed. */
uint64_t wk_ledger_block_footer(const wk_engine *engine, const wk_store_file *file, const wk_block *block);
/* Nothing, with the memory of a block that is done. */
wk_ledger_block wk_ledger_block_emptied(const wk_ledger_block *done);
void wk_ledger_block_free(wk_block *block);
/* Ids of an entry that stands behind its checksum; WK_CORRUPT where it is not what was written. */
wk_status wk_summed_entry_decode(const uint8_t *bytes, size_t size, int64_t *ledger_id, int64_t *entry_id);
#endif
