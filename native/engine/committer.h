/*
 * committer.h: blocks that a server's own thread writes. Private to native/: the one header of the engine that native/server
 * includes. What the engine's other files ask of a committer is journal/committer.h.
 */
#ifndef WK_ENGINE_COMMITTER_H
#define WK_ENGINE_COMMITTER_H
#include "walkeeper/ledger.h"

/*
 * For a thread that serves others, and must not wait for a disk that stands still: it writes the blocks itself, and is
 * told by wk_namespace_eventfd when one is done. Two hand-overs to another thread less for each (group commit by the
 * thread that gathers, as in LevelDB's writers). At most one for a store (WK_INVALID). WK_IO, WK_NO_MEMORY: without one the
 * store's own thread writes.
 *
 * In each turn, from one thread: collect, add and look at what is durable, push. Who is told to wait by these calls for
 * something durable would wait for itself: this thread uses tickets.
 */
typedef struct wk_committer wk_committer;
struct wk_ring; /* NULL: none; private to who has one: then it tells of what is done, where the store can use it */
wk_status wk_committer_open(wk_namespace *ns, struct wk_ring *ring, wk_committer **committer, wk_error *error);
/* Takes what is done, and does not wait; behind wk_namespace_drain. WK_FAILED: nothing more becomes durable. */
wk_status wk_committer_collect(wk_committer *committer);
/*
 * Writes what was accepted since, with what others added; some of it may wait until what is under way is done. True: the
 * eventfd will be signalled without wk_namespace_arm, so that the next turn comes. *wait_ns: the next turn should come
 * after so long at the latest; UINT64_MAX: no matter.
 */
bool wk_committer_push(wk_committer *committer, uint64_t *wait_ns);
/*
 * From the same thread, before the store is closed, when nothing is under way (push answered false); without a ring it
 * waits for that.
 */
void wk_committer_close(wk_committer *committer);
#endif
