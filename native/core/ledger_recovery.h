/*
 * ledger_recovery.h: where a ledger ends whose writer is gone (BookKeeper's LedgerRecoveryOp). Pure; the caller sends
 * what `phase` says, and tells each answer.
 *
 *   FENCE    the last entry of every bookie of the last segment, with a fence. Once the answers cover the ensemble, LAC =
 *            the highest LAC of an entry, at least the entry before the last segment.
 *   LENGTH   entry LAC, for the length of the ledger up to it. Skipped where LAC is -1.
 *   READ     entry `next`, with a fence, from all bookies of its write set at once: a bookie that the first phase missed
 *            is fenced before its "absent" counts. Present: it is written again (by a ledger_writer), and `next` is the
 *            one behind it. Absent: Qw - Qa + 1 bookies say so, so that no Qa can have stored it: the ledger ends before
 *            it.
 *   END      the last entry is next - 1.
 *   FAILED   `status`: WK_WRONG_KEY; WK_UNAVAILABLE: too few answers to be certain; WK_DAMAGED: an entry is stored with a
 *            wrong digest, and nobody has it with the right one.
 *
 * An error, a time-out and a lost connection are no answer: they never count as "absent".
 */
#ifndef WK_CORE_LEDGER_RECOVERY_H
#define WK_CORE_LEDGER_RECOVERY_H
#include "core/quorum.h"

typedef enum wk_recovery_phase {
	WK_RECOVERY_FENCE,
	WK_RECOVERY_LENGTH,
	WK_RECOVERY_READ,
	WK_RECOVERY_END,
	WK_RECOVERY_FAILED,
} wk_recovery_phase;

/* What a bookie answered to a read. */
typedef enum wk_recovery_answer {
	WK_ANSWER_ENTRY,        /* with the right digest */
	WK_ANSWER_ABSENT,       /* no such entry, or no such ledger: certain */
	WK_ANSWER_NONE,         /* an error, a time-out, a lost connection */
	WK_ANSWER_DAMAGED,      /* an entry with a wrong digest: counts as none */
	WK_ANSWER_UNAUTHORIZED, /* the master key is another one */
} wk_recovery_answer;

typedef struct wk_ledger_recovery {
	wk_quorum quorum;
	wk_recovery_phase phase;
	wk_status status;
	int64_t lac;  /* behind FENCE */
	int64_t next; /* LENGTH: the LAC; READ: the entry that is read; END: one behind the last */
	uint64_t answered,
	    known; /* FENCE: slots; else indexes of the write set of `next`; known: ABSENT, and in FENCE also an entry */
	bool damaged;
} wk_ledger_recovery;

/* `first_entry`: of the last segment. */
void wk_ledger_recovery_init(wk_ledger_recovery *recovery, const wk_quorum *quorum, int64_t first_entry);
/* FENCE: what the bookie in the slot answered; `lac` is that of its entry. Whether the phase ended. */
bool wk_ledger_recovery_fenced(wk_ledger_recovery *recovery, uint32_t slot, wk_recovery_answer answer, int64_t lac);
/*
 * LENGTH, READ: what the bookie at this index of the write set of `entry_id` answered; one that is not `next` is late and
 * changes nothing. Whether `next` or the phase changed; where `next` rose, or LENGTH ended, the entry of this answer is
 * the one that counts.
 */
bool wk_ledger_recovery_read(wk_ledger_recovery *recovery, int64_t entry_id, uint32_t index, wk_recovery_answer answer);
#endif
