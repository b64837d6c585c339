/*
 * client.h: a client of ledgers. It writes entries to the bookies of an ensemble, reads them, and finds the end of a
 * ledger whose writer is gone.
 *
 * The caller keeps the metadata of ledgers: it chooses bookies, creates and closes ledgers in a metadata store, and tells
 * the client what it stored (wk_ledger_spec). The client speaks to bookies: protocol v3 of BookKeeper 4.17.
 *
 * One thread of the client (the driver) owns the sockets. Other threads hand it work, and wait.
 *
 * Quorum: entry e goes to the bookies at (e + i) mod E of the ensemble, i < Qw. It is confirmed when Qa of them have
 * stored it durably and every entry before it is confirmed. The LAC (last add confirmed) is the highest confirmed entry.
 * A bookie that fails an add, or does not answer in time, is left out by this handle from then on: the handle is
 * degraded. Adds go on as long as Qa bookies of each write set are left; then they wait, up to change_timeout_ns, until the
 * caller has replaced bookies (wk_handle_change_begin), or the handle fails (WK_UNAVAILABLE).
 *
 * Threads: every call may be made from any thread. Waits are cut short by signals (WK_INTERRUPTED): call again.
 * Fork: a child process has no driver: it must not use a client of its parent.
 * Errors: `error` may be NULL; where given it is filled on failure. Of a write error->outcome_unknown says whether the
 * entry may be stored all the same; error->entry_id is the first entry in question.
 * timeout_ns: UINT64_MAX waits for ever.
 *
 * Source: BookKeeper's LedgerHandle, PendingAddOp, LedgerRecoveryOp; docs/ledgers.md has the rules.
 */
#ifndef WALKEEPER_CLIENT_H
#define WALKEEPER_CLIENT_H
#include "walkeeper/log.h"

typedef struct wk_client wk_client;
typedef struct wk_handle wk_handle;

enum {
	WK_ENSEMBLE_MAX = 64,
	WK_CLIENT_KEY_SIZE = 20,
	WK_CLIENT_PAYLOAD_MAX = 5 * 1024 * 1024 - 512, /* BookKeeper's frame of 5 MiB less what stands before a payload */
};

/* wk_client_options_init gives the defaults; 0 means the default. */
typedef struct wk_client_options {
	uint32_t backend;            /* enum wk_backend: io_uring or epoll */
	uint64_t connect_timeout_ns; /* default 5 s */
	uint64_t add_timeout_ns;     /* a bookie that answers an add later has failed (default 5 s) */
	uint64_t
	    read_timeout_ns; /* a read that a bookie answers later has failed there (default 5 s); others are asked long before */
	uint64_t lac_idle_ns; /* bookies are told of a LAC that no entry carries after it (default 1 ms) */
	uint64_t
	    change_timeout_ns; /* a writer fails that waits longer for other bookies, or for an ensemble change (default 10 s) */
	uint64_t
	    link_bytes_max; /* requests to one bookie that are not sent yet; beyond it the bookie has failed (default 64 MiB) */
} wk_client_options;
WK_API void wk_client_options_init(wk_client_options *options);

/* WK_NO_MEMORY; WK_UNSUPPORTED (backend); WK_IO. */
WK_API wk_status wk_client_start(const wk_client_options *options, wk_client **client, wk_error *error);
/* Ends the driver and closes the connections. Calls that wait end with WK_CLOSED. Handles stay, to be closed. */
WK_API void wk_client_stop(wk_client *client);
/* Releases the client, which was stopped; its memory goes with the last handle. */
WK_API void wk_client_release(wk_client *client);

/*
 * The number of a bookie, by its id, the same for the life of the client. `host` is numeric. A call with another address
 * counts from the next connection on. WK_INVALID: `host` is no number, the id is longer than 255 bytes.
 */
WK_API wk_status wk_client_bookie(wk_client *client, const char *id, const char *host, uint16_t port, uint32_t *bookie,
                                  wk_error *error);

/* Waits until something of some handle changed since the call that set *turn (0: the first): a LAC, a failure. */
WK_API wk_status wk_client_wait(wk_client *client, uint32_t *turn, uint64_t timeout_ns);

/* The same for a slot of an ensemble, or a writer, that failed; see wk_handle_change_begin. */
WK_API wk_status wk_client_wait_failure(wk_client *client, uint32_t *turn, uint64_t timeout_ns);

/* ---- handles ---------------------------------------------------------------------------------------- */

/* The numbers are those of BookKeeper's metadata. */
enum wk_digest_type {
	WK_DIGEST_TYPE_CRC32 = 1,
	WK_DIGEST_TYPE_MAC = 2,
	WK_DIGEST_TYPE_CRC32C = 3,
	WK_DIGEST_TYPE_DUMMY = 4
};

typedef struct wk_ledger_segment {
	int64_t first_entry;
	const uint32_t *bookies; /* ensemble_size numbers of wk_client_bookie */
} wk_ledger_segment;

/* What the metadata of a ledger say. */
typedef struct wk_ledger_spec {
	int64_t ledger_id;
	uint32_t ensemble_size, write_quorum, ack_quorum; /* E >= Qw >= Qa >= 1; E is at most WK_ENSEMBLE_MAX */
	uint32_t digest_type;                             /* enum wk_digest_type */
	uint8_t master_key[20];                           /* SHA1("ledger" + password) */
	uint8_t mac_key[20];                              /* SHA1("mac" + password); used by WK_DIGEST_TYPE_MAC alone */
	const wk_ledger_segment *segments;                /* by first_entry, which of the first is 0 */
	uint32_t segments_count;
	bool closed;
	int64_t last_entry; /* of a closed ledger; -1: none */
} wk_ledger_spec;

enum wk_handle_mode {
	WK_HANDLE_READ = 0,  /* reads; finds the LAC, or the end */
	WK_HANDLE_WRITE = 1, /* of a ledger that was just created: the one writer. It reads as well */
};

/* The pointers of `spec` are not used after the call. WK_INVALID; WK_CLOSED (the client was stopped); WK_NO_MEMORY. */
WK_API wk_status wk_handle_open(wk_client *client, const wk_ledger_spec *spec, uint32_t mode, wk_handle **handle,
                                wk_error *error);
/* The metadata as they are now, of a handle that reads: other bookies, more segments, closed. */
WK_API wk_status wk_handle_update(wk_handle *handle, const wk_ledger_spec *spec, wk_error *error);
/*
 * Frees the handle once no call uses it. Nothing is waited for, nothing is told to the bookies: entries that were not
 * confirmed may be stored, or not. No call of the same handle may be under way in another thread.
 */
WK_API void wk_handle_close(wk_handle *handle);

typedef struct wk_handle_state {
	int64_t lac;             /* -1: none */
	uint64_t length;         /* of a writer: payload bytes of the entries up to the LAC */
	int64_t last_add_pushed; /* of a writer: the highest id that was given */
	uint64_t failed_slots;   /* bit i: bookie i of the last segment is left out */
	bool stuck;              /* some entry cannot be confirmed by the bookies that are left */
	wk_status status;        /* WK_OK; else why a writer failed: WK_FENCED, WK_UNAVAILABLE, WK_WRONG_KEY, WK_CLOSED */
	bool sealed;
} wk_handle_state;
WK_API void wk_handle_state_get(wk_handle *handle, wk_handle_state *state);

/* ---- writing ---------------------------------------------------------------------------------------- */

/*
 * Adds one entry and waits until it is confirmed. *entry_id is set as soon as it has an id, also on failure (else -1).
 * Definitely not written: WK_TOO_LARGE, WK_INVALID (not a writer), WK_CLOSED (sealed). Of unknown outcome, where an id
 * was given: WK_FENCED, WK_UNAVAILABLE (fewer than Qa bookies are left), WK_TIMEOUT (timeout_ns has passed; the entry may
 * still be confirmed), WK_WRONG_KEY, WK_CLOSED (the client was stopped).
 */
WK_API wk_status wk_handle_add(wk_handle *handle, const void *data, size_t size, uint64_t timeout_ns, int64_t *entry_id,
                               wk_error *error);
/*
 * Accepts one entry; the id is the ticket of wk_handle_wait. Waits up to timeout_ns for room (16 Ki entries or 64 MiB not
 * confirmed): WK_WOULD_BLOCK (timeout_ns 0), WK_TIMEOUT: definitely not written.
 */
WK_API wk_status wk_handle_submit(wk_handle *handle, const void *data, size_t size, uint64_t timeout_ns,
                                  int64_t *entry_id, wk_error *error);
/*
 * Accepts `count` entries, which lie in `data` one behind the other, with consecutive ids, waiting for room; *accepted of
 * them were given ids from *first on. On failure these are of unknown outcome and the others definitely not written.
 */
WK_API wk_status wk_handle_submit_many(wk_handle *handle, const void *data, const uint32_t *sizes, size_t count,
                                       uint64_t timeout_ns, int64_t *first, size_t *accepted, wk_error *error);
/* Waits until entry_id is confirmed. WK_TIMEOUT; WK_INTERRUPTED; else the status of a writer that failed. */
WK_API wk_status wk_handle_wait(wk_handle *handle, int64_t entry_id, uint64_t timeout_ns, wk_error *error);
/*
 * Nothing is accepted any more; waits until all that was accepted is confirmed, or the handle has failed, or for
 * timeout_ns. *last_entry and *length are then final: the LAC, and the payload bytes up to it: what the metadata of the
 * ledger are closed with. WK_OK also where entries behind *last_entry are of unknown outcome; `state` tells.
 */
WK_API wk_status wk_handle_seal(wk_handle *handle, uint64_t timeout_ns, int64_t *last_entry, uint64_t *length,
                                wk_error *error);

/*
 * Ensemble change, by the caller, who chooses bookies and keeps the metadata. begin: the LAC stays as it is, and a new
 * segment is to begin at *first_entry, behind it. The caller writes that to the metadata by compare-and-set. commit: it is
 * written: `ensemble` has the bookies of the segment, of which those in `slots` are new; what is not confirmed is sent to
 * them. abort: it is not written, and status is WK_OK; or the writer is to fail with `status`, as somebody recovers the
 * ledger (WK_FENCED), or nobody knows what was written (WK_UNAVAILABLE). Between begin and the other two entries are accepted
 * and none is confirmed; after change_timeout_ns the writer fails. WK_INVALID: a change is under way, or none.
 */
WK_API wk_status wk_handle_change_begin(wk_handle *handle, int64_t *first_entry, wk_error *error);
WK_API wk_status wk_handle_change_commit(wk_handle *handle, uint64_t slots, const uint32_t *ensemble, wk_error *error);
WK_API void wk_handle_change_abort(wk_handle *handle, wk_status status);

/* ---- reading ---------------------------------------------------------------------------------------- */

typedef struct wk_read_entry {
	const uint8_t *payload;
	uint64_t size;
	int64_t entry_id;
	int64_t lac;    /* the writer's LAC when it sent the entry */
	int64_t length; /* payload bytes of the ledger up to and including this entry */
} wk_read_entry;
typedef struct wk_entries wk_entries;

/*
 * Entries `first` to `last`, both included, or as many of them from `first` on as take max_bytes (at least one). Whether
 * they are confirmed is the caller's to know: an entry above the LAC may be there now and be gone after a recovery.
 * Each comes from the first bookie of its write set that has it with the right digest. The answer concerns `first`:
 * WK_NOT_FOUND: every bookie of the write set says that it has no such entry; WK_DAMAGED: a bookie has it with a wrong
 * digest, and none has it with the right one; WK_UNAVAILABLE: none has answered with it, and some have not answered.
 */
WK_API wk_status wk_handle_read(wk_handle *handle, int64_t first, int64_t last, uint64_t max_bytes, uint64_t timeout_ns,
                                wk_entries **entries, wk_error *error);
WK_API const wk_read_entry *wk_entries_get(const wk_entries *entries, size_t *count);
WK_API void wk_entries_release(wk_entries *entries);

/*
 * The LAC by READ_LAC of all bookies of the last segment: not lower than any LAC that a writer had told to a write quorum
 * before the call. WK_UNAVAILABLE: too few answered. *last_entry of a closed ledger without asking anybody.
 */
WK_API wk_status wk_handle_read_lac(wk_handle *handle, uint64_t timeout_ns, int64_t *lac, wk_error *error);

/*
 * Waits, by long polls at all bookies of the last segment, until one of them tells of a LAC above `known`. *entry: entry
 * known + 1, where the bookie gave it with its answer; else NULL. *last_entry of a closed ledger at once, also where it is
 * not above `known`. What is confirmed and no bookie was told of yet is not waited for longer than lac_idle_ns.
 * WK_TIMEOUT: nothing newer in timeout_ns, or in 10 s; earlier where a bookie was fenced: the metadata tell. WK_UNAVAILABLE:
 * no bookie waits: none is up, or none has the ledger yet. WK_INVALID: there is no such entry.
 */
WK_API wk_status wk_handle_wait_lac(wk_handle *handle, int64_t known, uint64_t timeout_ns, int64_t *lac,
                                    wk_entries **entry, wk_error *error);

/*
 * Recovers the ledger, whose metadata the caller has set IN_RECOVERY: fences it, finds the last entry that may have been
 * acknowledged, and writes what is not on a full write set again. *last_entry and *length are what the metadata are closed
 * with; -1 and 0: it is empty. May be repeated, and run by several clients at once.
 * WK_UNAVAILABLE: too few bookies answered to be certain, or to write; WK_WRONG_KEY; WK_DAMAGED.
 */
WK_API wk_status wk_handle_recover(wk_handle *handle, uint64_t timeout_ns, int64_t *last_entry, uint64_t *length,
                                   wk_error *error);
#endif
