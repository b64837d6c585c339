/*
 * follower.h: a directory opened read-only while another process may be writing it. Private.
 *
 * It takes no lock. What it has seen of the journal it keeps, and goes on from there at each refresh: new blocks, new
 * files, changes of the catalogue. It shows entries only once the writer knew them durable: by a later block's
 * durable_through, by the shared page, or, where nobody holds the lock, by a sync of its own.
 *
 * A writer that truncates as it goes may recycle files faster than they are looked at. Then the chain cannot be
 * followed, or a read meets bytes of another file, or none: the directory is looked at anew (follower_renew.h), and
 * what was asked for is there, or was truncated. Only what stays unreadable is damage. Between calls a follower holds
 * no journal file open (store_file.h).
 */
#ifndef WK_ENGINE_FOLLOWER_H
#define WK_ENGINE_FOLLOWER_H
#include "engine/engine.h"
#include "engine/recovery.h"

wk_status wk_follower_start(wk_engine *engine, wk_error *error);
wk_walk *wk_follower_walk(wk_engine *engine);
void wk_follower_free(wk_engine *engine);
/* An entry of an accepted block that may not be durable yet. */
wk_status wk_follower_note(wk_engine *engine, uint64_t sequence, int64_t ledger_id, int64_t entry_id);
/* Blocks up to `durable` are. */
void wk_follower_release(wk_engine *engine, uint64_t durable);
/* Nobody holds the directory's lock just now. False for a writer. */
bool wk_follower_is_alone(wk_engine *engine);
/* A sync of its own failed: one of another view of the directory would prove nothing either. False for a writer. */
bool wk_follower_failed_to_prove(const wk_engine *engine);
/* How far the writer is known to be durable. */
uint64_t wk_follower_durable(wk_engine *engine);
/* Catches up with the directory. No lock held. Cheap where nothing changed. For writers it does nothing. */
wk_status wk_follower_refresh(wk_engine *engine, wk_error *error);
/*
 * After a read that answered *status, and *error: true where another try may help, because the index it went by may have
 * been an old one; by then the directory was looked at again. False after the last try; where the machine refused the
 * look that might have helped, *status and *error say so, as nothing shows that there is damage. *attempt counts, from
 * 0. No lock held.
 */
bool wk_follower_try_again(wk_engine *engine, wk_status *status, int *attempt, wk_error *error);
/* Waits a little for the writer: WK_OK something may have come; WK_TIMEOUT. No lock held. */
wk_status wk_follower_wait(wk_engine *engine, uint64_t timeout_ns);
#endif
