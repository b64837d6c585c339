/*
 * hosted.h: what a bookie's protocol keeps in memory of the ledgers it hosts, and who waits for their LACs. Pure
 * machines: the caller owns the memory and the clock.
 *
 * hosted ledgers  a table by ledger id: the LAC, the digest that was learned
 * long polls      readers that wait until a ledger's LAC passes what they know, or their time is over
 * id set          ledgers in limbo, and deleted ones
 * rules           what is refused for all clients alike: deleted ids, read-only, limbo
 */
#ifndef WK_CORE_HOSTED_H
#define WK_CORE_HOSTED_H
#include "core/wire.h"
#include "walkeeper/core.h"

enum { WK_NO_POLL = -1, WK_LAC_NONE = -1, WK_HOSTED_CAPACITY_MIN = 16 };

/* ---- hosted ledgers ---- */

typedef struct wk_hosted_ledger {
	int64_t ledger_id;  /* -1: a free slot */
	int64_t lac;        /* max of what entries and explicit LACs said; WK_LAC_NONE */
	int64_t lac_ms;     /* wall clock when it was last raised; 0: not since the start */
	int32_t first_poll; /* WK_NO_POLL: nobody waits */
	uint8_t digest; /* enum wk_wire_digest, as learned: UNKNOWN, CRC32, CRC32C; DUMMY: neither, nothing is verified */
	bool lac_known; /* lac also covers what is stored since earlier starts */
	bool deferred;  /* since the start an add of it was acknowledged before it was durable */
	uint8_t reserved[1];
} wk_hosted_ledger;

/* Linear probing, at most 4/5 full. */
typedef struct wk_hosted_ledgers {
	wk_hosted_ledger *slots;
	uint32_t capacity; /* a power of two */
	uint32_t count;
	uint64_t seed; /* by wk_hosted_seed */
} wk_hosted_ledgers;

/* `slots`: room for `capacity` (a power of two, at least WK_HOSTED_CAPACITY_MIN). */
wk_status wk_hosted_init(wk_hosted_ledgers *table, wk_hosted_ledger *slots, uint32_t capacity);
/* A random number, so that clients, who choose ids, cannot choose colliding ones. WK_INVALID: the table is not empty. */
wk_status wk_hosted_seed(wk_hosted_ledgers *table, uint64_t seed);
/* NULL: nothing is kept of it. The pointer is good until the next put, grow or remove. */
wk_hosted_ledger *wk_hosted_find(const wk_hosted_ledgers *table, int64_t ledger_id);
/* Made where there is none. WK_FULL: give it more room by wk_hosted_grow. WK_INVALID: an id below 0. */
wk_status wk_hosted_put(wk_hosted_ledgers *table, int64_t ledger_id, wk_hosted_ledger **found);
/* Moves into other room; *old is the memory that is the caller's again. WK_INVALID: more than 4/5 of it would be full. */
wk_status wk_hosted_grow(wk_hosted_ledgers *table, wk_hosted_ledger *slots, uint32_t capacity, wk_hosted_ledger **old);
/* Nobody waits for it (else WK_INVALID). WK_NOT_FOUND. */
wk_status wk_hosted_remove(wk_hosted_ledgers *table, int64_t ledger_id);
/* The LAC rises, never falls; whether it rose. */
bool wk_hosted_raise(wk_hosted_ledger *ledger, int64_t lac, int64_t wall_ms);

/* What the bookie does with an entry whose digest does not match what it knows of the ledger. */
typedef enum wk_digest_verdict { WK_DIGEST_ACCEPT = 0, WK_DIGEST_MISMATCH = 1 } wk_digest_verdict;
/*
 * Verifies an entry by the ledger's digest, and learns it from the first entry that has one: CRC32C, or CRC32 (whose first
 * four bytes are 0). What matches neither at first teaches that nothing can be verified (a MAC needs the password, DUMMY
 * has no digest). Before anything is learned nothing is refused.
 */
wk_digest_verdict wk_hosted_verify(wk_hosted_ledger *ledger, const uint8_t *entry, size_t size);

/* ---- long polls ---- */

typedef struct wk_poll {
	int64_t ledger_id;
	int64_t previous_lac; /* it waits for a LAC above this */
	uint64_t deadline_ns;
	uint64_t tag;           /* the caller's */
	uint64_t owner;         /* the caller's: a connection; all polls of one can be dropped */
	int32_t next, previous; /* of the same ledger; of free ones `next` */
	int32_t owner_next, owner_previous;
	uint32_t heap_at; /* in the heap by deadline */
} wk_poll;

typedef struct wk_polls {
	wk_poll *polls;
	int32_t *heap; /* the earliest deadline first */
	uint32_t capacity, count;
	int32_t free;
} wk_polls;

/* WK_INVALID: a capacity above INT32_MAX. With none, every poll finds it full. */
wk_status wk_polls_init(wk_polls *polls, wk_poll *room, int32_t *heap, uint32_t capacity);
/* WK_FULL: as many wait as there is room for. *owner_first: the head of the owner's list, WK_NO_POLL at first. */
wk_status wk_polls_add(wk_polls *polls, wk_hosted_ledger *ledger, int64_t previous_lac, uint64_t deadline_ns,
                       uint64_t owner, int32_t *owner_first, uint64_t tag, int32_t *poll);
/* A poll of this ledger whose LAC is passed now, or any (all: fence, delete); WK_NO_POLL. The caller takes it by
 * wk_polls_remove, and asks again. The lowest previous LAC comes first; those that know as much, in order of arrival. */
int32_t wk_polls_ready(const wk_polls *polls, const wk_hosted_ledger *ledger, bool all);
/* The one with the earliest deadline if that is not after `now_ns`; WK_NO_POLL. Of equal deadlines, any. */
int32_t wk_polls_expired(const wk_polls *polls, uint64_t now_ns);
/* UINT64_MAX: nobody waits. */
uint64_t wk_polls_deadline(const wk_polls *polls);
/* `ledger` is the poll's, `owner_first` its owner's. */
void wk_polls_remove(wk_polls *polls, int32_t poll, wk_hosted_ledger *ledger, int32_t *owner_first);

/* ---- id sets ---- */

/* Ids in rising order, each once; looked up by halving. */
typedef struct wk_id_set {
	const int64_t *ids;
	uint64_t count;
} wk_id_set;
/* Sorts `ids` and drops what stands there twice; the set points into it. No recursion, O(n log n). */
void wk_id_set_init(wk_id_set *set, int64_t *ids, uint64_t count);
bool wk_id_set_has(const wk_id_set *set, int64_t id);

/* ---- rules ---- */

typedef struct wk_hosted_rules {
	wk_id_set deleted;  /* in the metadata: who is late makes no such ledger anew */
	wk_id_set limbo;    /* ledgers of which something may be missing, entries or their fence: no ordinary adds ... */
	bool limbo_all;     /* ... or, where this is said, all but these */
	bool read_only;     /* no entries, no LACs; fences, force and reads go on */
	bool high_priority; /* read-only, adds of high priority are accepted: what a recovery writes back */
} wk_hosted_rules;
/*
 * WK_WIRE_OK: the request is the store's to decide, by master key, fence and what is there; else the code that it is
 * answered with, and nothing is done. The request is one that wk_wire_refusal lets pass.
 */
uint32_t wk_hosted_judge(const wk_hosted_rules *rules, const wk_wire_request *request);
/*
 * For what the store has not, and for which entry is the last: `code` where that is certain, WK_WIRE_UNKNOWN_STATE for a
 * ledger in limbo.
 */
uint32_t wk_hosted_negative(const wk_hosted_rules *rules, int64_t ledger_id, uint32_t code);
#endif
