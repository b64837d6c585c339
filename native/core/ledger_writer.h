/*
 * ledger_writer.h: which adds of one ledger are confirmed: the LAC moves over entries that Qa bookies have stored, in order,
 * and never over a hole. Pure; the caller owns the memory, sends the adds and tells what came of them.
 *
 *          push            ack                    slot_failed, fail
 *   OPEN ---------> OPEN ---------> OPEN (LAC) ---------------------> failed: `status` says why, for ever
 *
 * A slot that failed counts for nothing from then on: what it has stored before counts, a later ack of it does not. The
 * writer fails (WK_UNAVAILABLE) once some entry that is not confirmed cannot have Qa acks any more; a *patient* writer is
 * *stuck* then, until other bookies take the place of those that failed. A writer that has failed confirms nothing: its LAC
 * is final, and the entries behind it are of unknown outcome until the ledger is closed.
 *
 * Ensemble change: freeze (the LAC stays, and the new segment begins behind it), then replace and thaw, or thaw alone. The
 * caller sends every entry behind the LAC to the bookies that are new: what those that were replaced have stored of them
 * does not count any more.
 */
#ifndef WK_CORE_LEDGER_WRITER_H
#define WK_CORE_LEDGER_WRITER_H
#include "core/quorum.h"

/* An entry behind the LAC. */
typedef struct wk_pending_add {
	uint64_t acked; /* indexes of its write set */
	int64_t length; /* payload bytes of the ledger up to and including it */
} wk_pending_add;

typedef struct wk_ledger_writer {
	wk_quorum quorum;
	uint64_t failed_slots;
	int64_t lac, lac_length;         /* -1 and 0: none */
	int64_t last_add_pushed, length; /* of all that were pushed */
	wk_pending_add *pending;         /* of entry e at e mod capacity */
	uint32_t capacity;               /* a power of two */
	bool patient, stuck, frozen;
	wk_status status;
} wk_ledger_writer;

/* A writer behind entry `lac`, whose length is `lac_length`. `pending` has `capacity` places. */
void wk_ledger_writer_init(wk_ledger_writer *writer, const wk_quorum *quorum, int64_t lac, int64_t lac_length,
                           wk_pending_add *pending, uint32_t capacity);
/* Whether another entry may be pushed. */
bool wk_ledger_writer_has_room(const wk_ledger_writer *writer);
/* The next entry, with which the ledger has so many payload bytes. Its id. There must be room. */
int64_t wk_ledger_writer_push(wk_ledger_writer *writer, int64_t length);
/* The bookie in the slot has stored the entry. Whether the LAC moved. An ack of no use is no error. */
bool wk_ledger_writer_ack(wk_ledger_writer *writer, int64_t entry_id, uint32_t slot);
/* The bookie in the slot is left out. */
void wk_ledger_writer_slot_failed(wk_ledger_writer *writer, uint32_t slot);
/* The writer fails, if it has not failed before. */
void wk_ledger_writer_fail(wk_ledger_writer *writer, wk_status status);
/* The LAC stays as it is until thaw. */
void wk_ledger_writer_freeze(wk_ledger_writer *writer);
/* Whether the LAC moved. */
bool wk_ledger_writer_thaw(wk_ledger_writer *writer);
/* Frozen: the slots have other bookies from now on, which have stored nothing. */
void wk_ledger_writer_replace(wk_ledger_writer *writer, uint64_t slots);
/* Whether an add of the entry is to be sent to the slot. */
bool wk_ledger_writer_uses(const wk_ledger_writer *writer, uint32_t slot);
#endif
