/* ledger_recovery.c: see ledger_recovery.h. */
#include "core/ledger_recovery.h"
#include <assert.h>

static uint64_t first_bits(uint32_t count) {
	return count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

static bool fail(wk_ledger_recovery *recovery, wk_status status) {
	recovery->phase = WK_RECOVERY_FAILED;
	recovery->status = status;
	return true;
}

static bool go_to(wk_ledger_recovery *recovery, wk_recovery_phase phase, int64_t next) {
	recovery->phase = phase;
	recovery->next = next;
	recovery->answered = recovery->known = 0;
	recovery->damaged = false;
	return true;
}

static bool fail_uncertain(wk_ledger_recovery *recovery) {
	return fail(recovery, recovery->damaged ? WK_DAMAGED : WK_UNAVAILABLE);
}

void wk_ledger_recovery_init(wk_ledger_recovery *recovery, const wk_quorum *quorum, int64_t first_entry) {
	assert(wk_quorum_is_valid(quorum) && first_entry >= 0);
	*recovery = (wk_ledger_recovery){.quorum = *quorum, .phase = WK_RECOVERY_FENCE, .lac = first_entry - 1};
}

bool wk_ledger_recovery_fenced(wk_ledger_recovery *recovery, uint32_t slot, wk_recovery_answer answer, int64_t lac) {
	if (recovery->phase != WK_RECOVERY_FENCE)
		return false;
	if (answer == WK_ANSWER_UNAUTHORIZED)
		return fail(recovery, WK_WRONG_KEY);
	uint64_t bit = UINT64_C(1) << slot;
	recovery->answered |= bit;
	if (answer == WK_ANSWER_ENTRY || answer == WK_ANSWER_ABSENT)
		recovery->known |= bit;
	recovery->damaged |= answer == WK_ANSWER_DAMAGED;
	if (answer == WK_ANSWER_ENTRY && lac > recovery->lac)
		recovery->lac = lac;
	if (wk_quorum_is_covered(&recovery->quorum, recovery->known)) {
		bool empty = recovery->lac < 0;
		return go_to(recovery, empty ? WK_RECOVERY_READ : WK_RECOVERY_LENGTH, empty ? 0 : recovery->lac);
	}
	return recovery->answered == first_bits(recovery->quorum.ensemble_size) && fail_uncertain(recovery);
}

bool wk_ledger_recovery_read(wk_ledger_recovery *recovery, int64_t entry_id, uint32_t index,
                             wk_recovery_answer answer) {
	bool reads = recovery->phase == WK_RECOVERY_READ;
	if ((!reads && recovery->phase != WK_RECOVERY_LENGTH) || entry_id != recovery->next)
		return false;
	if (answer == WK_ANSWER_UNAUTHORIZED)
		return fail(recovery, WK_WRONG_KEY);
	if (answer == WK_ANSWER_ENTRY)
		return go_to(recovery, WK_RECOVERY_READ, entry_id + 1);
	uint64_t bit = UINT64_C(1) << index;
	recovery->answered |= bit;
	recovery->known |= answer == WK_ANSWER_ABSENT ? bit : 0;
	recovery->damaged |= answer == WK_ANSWER_DAMAGED;
	uint32_t absent = (uint32_t)__builtin_popcountll(recovery->known);
	if (reads && absent >= recovery->quorum.write_quorum - recovery->quorum.ack_quorum + 1)
		return go_to(recovery, WK_RECOVERY_END, entry_id);
	if (recovery->answered != first_bits(recovery->quorum.write_quorum))
		return false;
	/* An entry that was confirmed and that nobody has any more is no end of the ledger. */
	recovery->damaged |= absent == recovery->quorum.write_quorum;
	return fail_uncertain(recovery);
}
