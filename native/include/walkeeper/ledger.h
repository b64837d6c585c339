/*
 * ledger.h: a store of ledgers, on the engine of log.h: entries by (ledger id, entry id), both chosen by the user of
 * the store, with what a BookKeeper bookie keeps of a ledger: master key, fence, explicit LAC, delete.
 *
 * A store is a directory made with options.kind = WK_KIND_LEDGERS. It is opened, closed, waited for, backed up and
 * measured by the calls of log.h that take a wk_namespace; those on logs answer WK_INVALID, and so do the calls here
 * on a namespace of logs. It cannot be opened read_only; of on_damage it has stop and skip (log.h).
 *
 * An entry is bytes. The store looks at the first 16 only: ledger id and entry id, big-endian, as in BookKeeper's entry
 * (entry.h). LAC, length, digest and payload behind them belong to the client. The engine's own checksum covers all of it.
 *
 * Durability: a ticket is the sequence of the block that something went into, as in log.h: wk_namespace_wait waits
 * for it, wk_namespace_arm signals it, wk_namespace_durable is compared with it. Calls with a `ticket` argument return
 * when accepted and set it; with NULL they return when durable. Tickets are ordered as the calls were accepted: once
 * one is durable, so is everything accepted before it. Everything that is read or described here is durable.
 *
 * timeout_ns: UINT64_MAX waits for ever; 0 does not wait for room in a block (WK_WOULD_BLOCK: definitely not written),
 * but as long as it takes for what was accepted. error->outcome_unknown says whether it may be there all the same.
 *
 * Ownership, threads, fork, errors: as log.h says. `error` may be NULL.
 */
#ifndef WALKEEPER_LEDGER_H
#define WALKEEPER_LEDGER_H
#include "walkeeper/log.h"

enum {
	WK_LEDGER_ENTRY_MIN = 16,                          /* bytes of an entry: its two ids */
	WK_LEDGER_ENTRY_MAX = 5 * 1024 * 1024 + 64 * 1024, /* BookKeeper's frame */
	WK_LEDGER_KEY_MAX = 48,                            /* bytes of a master key; BookKeeper's has 20 */
	WK_LEDGER_LAC_MAX = 48,                            /* the explicit LAC packet: at most 36 */
	WK_LAST_ENTRY = -1,                                /* wk_ledger_read: the one with the highest id */
};

/* ---- writing ---------------------------------------------------------------------------------------- */

enum wk_add_flag {
	WK_ADD_RECOVERY = 1, /* accepted by a fenced ledger too, and on a full disk as long as the reserve lasts */
	WK_ADD_DEFERRED = 2, /* durable after options.deferred_delay_ns at most, or by wk_ledger_force */
};

/* One entry to be added. The pointers are not used after the call. */
typedef struct wk_add {
	const void *bytes;
	const void *key; /* may be NULL where key_size is 0 */
	uint64_t size;
	uint32_t key_size;
	uint32_t flags; /* enum wk_add_flag */
	uint32_t
	    summed; /* `tail_crc` is the CRC32C of the bytes from this one on, so that they are not read again. 0: none */
	/* Where it is wrong, the whole block is stored as damaged, with the entries of other callers in it. */
	uint32_t tail_crc;
	uint64_t ticket;  /* set where it was accepted, else 0 */
	wk_status status; /* set: what became of this one */
} wk_add;

/*
 * Adds entries, of one ledger or of many, in this order; any entry id from 0 to INT64_MAX - 1, in any order. An id that is there already
 * is replaced once the new entry is durable. The first add of a ledger makes it, with its key, which is durable before
 * or together with the entry; a key of no bytes is none, and can be set by a later call.
 *
 * Each has a status of its own: WK_OK accepted; definitely not written: WK_FENCED; WK_WRONG_KEY; WK_DELETED (its
 * delete is on the way); WK_TOO_LARGE; WK_INVALID (fewer than 16 bytes, a negative id, a key of more than
 * WK_LEDGER_KEY_MAX bytes, an unknown flag); WK_NO_SPACE, WK_NO_MEMORY, WK_IO (no file could be opened for it), and these
 * stand for the adds of its ledger behind it as well, but for recovery adds, which have a reserve; WK_WOULD_BLOCK, WK_TIMEOUT,
 * WK_INTERRUPTED, WK_FAILED, and these stand for all adds behind it. An add that was accepted stays accepted, whatever
 * happens to others. The call answers WK_OK where all were accepted, else the first other status, which `error` explains.
 *
 * wait: the call returns when all accepted adds but deferred ones are durable. If that fails, adds that are not known to be
 * durable have the status of the failure, and error->outcome_unknown is true. The thread of a server does not wait.
 */
WK_API wk_status wk_ledger_add(wk_namespace *ns, wk_add *adds, size_t count, uint64_t timeout_ns, bool wait,
                               wk_error *error);

/*
 * Fences the ledger: from now on, for ever and across restarts, it accepts recovery adds only. Once the fence is durable, so
 * is every add that was accepted before it; an add that is not durable by then was refused. An unknown ledger is known
 * afterwards. A second fence is WK_OK, and waits for adds accepted meanwhile. `key` as for an add. WK_WRONG_KEY; WK_DELETED.
 */
WK_API wk_status wk_ledger_fence(wk_namespace *ns, int64_t ledger_id, const void *key, uint32_t key_size,
                                 uint64_t timeout_ns, uint64_t *ticket, wk_error *error);

/* Stores an explicit LAC packet, opaque; the last one counts. Makes the ledger as an add does; fenced or not. */
WK_API wk_status wk_ledger_set_lac(wk_namespace *ns, int64_t ledger_id, const void *key, uint32_t key_size,
                                   const void *lac, uint32_t lac_size, uint64_t timeout_ns, uint64_t *ticket,
                                   wk_error *error);

/* Everything accepted of the ledger so far is durable, deferred adds included. WK_NO_LEDGER. */
WK_API wk_status wk_ledger_force(wk_namespace *ns, int64_t ledger_id, uint64_t timeout_ns, uint64_t *ticket,
                                 wk_error *error);

/*
 * Forgets the ledger: entries, key, fence, LAC. Adds are refused (WK_DELETED) until it is durable; from then on the
 * ledger is unknown, and an add makes a new one. Its space is given back in the background. WK_NO_LEDGER.
 */
WK_API wk_status wk_ledger_delete(wk_namespace *ns, int64_t ledger_id, uint64_t timeout_ns, uint64_t *ticket,
                                  wk_error *error);

/* ---- reading ---------------------------------------------------------------------------------------- */

typedef struct wk_stored_entry {
	const uint8_t *bytes; /* as they were added; they live as long as the batch */
	uint64_t size;
	int64_t entry_id;
} wk_stored_entry;
typedef struct wk_entry_batch wk_entry_batch; /* does not count towards options.read_bytes */

/*
 * Entry `first` (WK_LAST_ENTRY: the highest), and consecutive ones behind it: at most max_entries, at most max_bytes
 * (the first may be larger), and perhaps fewer than there are. The answers are certain: WK_NO_LEDGER: the ledger is
 * unknown; WK_NOT_FOUND: it is known and has no such entry; WK_DAMAGED: it has, but the bytes are not those that were
 * added; WK_IO.
 */
WK_API wk_status wk_ledger_read(wk_namespace *ns, int64_t ledger_id, int64_t first, uint32_t max_entries,
                                uint64_t max_bytes, wk_entry_batch **batch, wk_error *error);
/*
 * The same for entries that are in memory because they were written lately; for a thread that must not wait for a disk.
 * WK_WOULD_BLOCK: ask wk_ledger_read; nothing follows from this answer. It never says that an entry is absent, and has no
 * other failure.
 */
WK_API wk_status wk_ledger_read_cached(wk_namespace *ns, int64_t ledger_id, int64_t first, uint32_t max_entries,
                                       uint64_t max_bytes, wk_entry_batch **batch);
WK_API const wk_stored_entry *wk_entry_batch_entries(const wk_entry_batch *batch, size_t *count);
/* How many bytes it keeps in memory: what was written last is held a whole block at a time. */
WK_API uint64_t wk_entry_batch_memory(const wk_entry_batch *batch);
WK_API void wk_entry_batch_release(wk_entry_batch *batch);

typedef struct wk_ledger_info {
	int64_t ledger_id;
	int64_t last_entry; /* the highest entry id, -1: none */
	/* about: what was replaced or moved may count twice for a while; wk_ledger_entries is exact */
	uint64_t entries_count;
	uint64_t bytes; /* of these */
	bool fenced;
	uint32_t key_size; /* 0: none was given yet */
	uint32_t lac_size; /* 0: no explicit LAC */
	uint8_t key[48];
	uint8_t lac[48];
} wk_ledger_info;
WK_API wk_status wk_ledger_describe(wk_namespace *ns, int64_t ledger_id, wk_ledger_info *info, wk_error *error);
/* The same but for entries_count and bytes, which are 0; from memory, for a thread that must not wait for a disk. */
WK_API wk_status wk_ledger_describe_state(wk_namespace *ns, int64_t ledger_id, wk_ledger_info *info, wk_error *error);

typedef struct wk_entry_range {
	int64_t first;
	int64_t last;
} wk_entry_range;
/* Which entries there are, from id `from` on, as ranges without holes: up to `max` of them; *count says how many. */
WK_API wk_status wk_ledger_entries(wk_namespace *ns, int64_t ledger_id, int64_t from, wk_entry_range *ranges,
                                   size_t max, size_t *count, wk_error *error);
/*
 * Ledgers that are known, by id, from `from` on: up to `max` of them; *count says how many. Each call looks at all ledgers
 * under the engine's lock (some milliseconds for 10^5): ask for many at once.
 */
WK_API wk_status wk_ledger_list(wk_namespace *ns, int64_t from, int64_t *ledger_ids, size_t max, size_t *count,
                                wk_error *error);
#endif
