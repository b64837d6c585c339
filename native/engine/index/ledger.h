/*
 * ledger.h: which ledgers there are, which entries they have, and how many of a file's entries somebody still needs.
 * Private; under the engine's lock.
 *
 * In memory a ledger costs one range for each file that it has entries in (range.h), whatever its ids: 0, 1, 2, …, as
 * a log's, or striped over bookies (0, 1, 5, 6, …), out of order, the same one twice. While a file is written its
 * places are in memory too (place_list.h), afterwards they are in its footer (lookup.h).
 *
 * Of several places of an entry that in the newest file counts (wk_rank), in one file the last.
 *
 * Live entries of a file: its entries less those that are known to be dead. Of ranges without holes that is exact. Of
 * others it may for a while be too many, never too few: the keeper counts them (recount.h).
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
 * Soon its next entry is added. With thousands of ledgers all of one is far away, each part known only from the one
 * before: called in three steps, a few ledgers apart, so that the parts of several are on their way at once.
 */
enum wk_ledger_part { WK_LEDGER_ITSELF, WK_LEDGER_RANGES, WK_LEDGER_LIST, WK_LEDGER_PLACE };
void wk_ledger_prefetch(const wk_ledger *ledger, enum wk_ledger_part part);
/* Before that, in two steps: the ledger's place in the table, and what stands there. */
void wk_ledger_prefetch_slot(const wk_engine *engine, int64_t ledger_id);
void wk_ledger_prefetch_in_slot(const wk_engine *engine, int64_t ledger_id);
/* Entry `entry_id` of the ledger, any id from 0 on, stands in `file`, which is not sealed. */
wk_status wk_ledger_add_item(wk_engine *engine, wk_ledger *ledger, wk_store_file *file, int64_t entry_id,
                             wk_footer_item item);
/*
 * The runs of a footer, all of them, sorted. `known_only` (the mover's; the lock is dropped now and then): ledgers that
 * are not there were deleted.
 */
wk_status wk_ledger_add_runs(wk_engine *engine, wk_store_file *file, const wk_footer_run *runs, uint32_t count,
                             bool known_only);
/* A range as the index knew it, with what was dead then. */
wk_status wk_ledger_put_range(wk_engine *engine, int64_t ledger_id, const wk_range *range);
/* Entries before `first_live` are dead. */
void wk_ledger_trim(wk_engine *engine, wk_ledger *ledger, int64_t first_live);
/* What anybody needs of first..last in these files stands in newer ones too. */
void wk_ledger_moved(wk_engine *engine, int64_t ledger_id, int64_t first, int64_t last, wk_store_file *const *files,
                     uint32_t files_count);
/* Nobody knows how many of the range's entries are dead. */
void wk_ledger_recount_later(wk_engine *engine, int64_t ledger_id, wk_range *range);
/* So many are (recount.c). */
void wk_ledger_recounted(wk_engine *engine, wk_ledger *ledger, wk_range *range, uint32_t dead);

/*
 * The ledger's items and runs in the file, which nobody adds to any more, behind those that the footer has already.
 * The arrays have room.
 */
void wk_ledger_collect(wk_ledger *ledger, const wk_store_file *file, wk_footer *footer, wk_footer_item *items,
                       wk_footer_run *runs);
/* That footer is durable. */
void wk_ledger_seal_runs(wk_engine *engine, wk_ledger *ledger, wk_store_file *file);
/* A file without live entries goes that was never sealed: dead ranges were kept for its footer. */
void wk_ledgers_forget_file(wk_engine *engine, const wk_store_file *file);
/* Native bytes of the table. */
uint64_t wk_ledgers_memory(wk_engine *engine);
#endif
