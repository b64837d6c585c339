/*
 * follower_renew.h: a follower's view of its directory, built anew beside the old one and put in its place. Private.
 *
 * Handles stay what they are: logs that somebody holds keep their state's address, files that are being read from
 * live until their last unpin. A log that is no longer there is deleted.
 */
#ifndef WK_ENGINE_FOLLOWER_RENEW_H
#define WK_ENGINE_FOLLOWER_RENEW_H
#include "engine/follower/follower.h"

/* An entry of an accepted block that may not be durable yet. */
typedef struct wk_follower_entry {
	uint64_t sequence;
	int64_t ledger_id, entry_id;
} wk_follower_entry;

struct wk_follower { /* under catalogue_lock and lock */
	wk_walk walk;
	wk_follower_entry *notes; /* not known durable yet, in order */
	uint32_t count, capacity;
	uint64_t looked_ns;         /* at the lock */
	uint64_t refreshed_durable; /* atomic */
	uint64_t stuck_since_ns;    /* not even a new look reaches what the writer calls durable, 0: it does */
	uint64_t renewed_ns;
	uint64_t looking_ns, renewing_ns; /* what the last look took, and the last one at the directory anew */
	wk_status renewal;                /* what the last new look came to */
	uint32_t dross_before;            /* files of no use that a new look left */
	uint64_t mapped_ns;               /* the page, which may be another file's by now */
	bool page_is_linked; /* its file has another name: a copy's (`cp -al`), and its writer may be the original's */
	bool proved;         /* a sync of its own showed what nothing else confirms */
	bool proof_failed;   /* such a sync failed: a further one proves nothing */
	bool behind;         /* the chain cannot be followed as far as the writer is */
	bool opened;         /* opened: from here on it may look at the directory anew */
};

/* catalogue_lock held. On failure everything is as it was: the error says why the directory cannot be opened. */
wk_status wk_follower_renew(wk_engine *engine, wk_error *error);
#endif
