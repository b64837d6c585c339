/*
 * ledger_rules.h: whether a ledger takes a change: deleted, master key, fence. Pure: what is known of the ledger comes in,
 * the answer goes out. The rules are BookKeeper's (LedgerDescriptor, MasterKeyLedgerCache); docs/bookie-rules.md says why.
 */
#ifndef WK_CORE_LEDGER_RULES_H
#define WK_CORE_LEDGER_RULES_H
#include "walkeeper/core.h"

/* All of it counts from when it was accepted, which is before it is durable: nobody overtakes it. */
typedef struct wk_ledger_facts {
	const uint8_t *key; /* NULL: none was given yet, and whoever comes first sets it */
	uint32_t key_size;
	bool fenced;
	bool deleting; /* its delete was accepted, and it is not gone yet */
} wk_ledger_facts;

enum wk_ledger_change {
	WK_CHANGE_ADD = 1,
	WK_CHANGE_RECOVERY_ADD, /* of who fenced it */
	WK_CHANGE_FENCE,
	WK_CHANGE_LAC, /* an explicit one: goes on behind a fence, as the LAC of what was written is no entry */
};

/*
 * WK_OK, or, where several hold, the first of WK_INVALID (a negative id), WK_DELETED, WK_INVALID (a key that is too long),
 * WK_WRONG_KEY, WK_FENCED. `facts`: NULL, nothing is known of it. Force and delete need no key and are not asked for here.
 */
wk_status wk_ledger_judge(const wk_ledger_facts *facts, int64_t ledger_id, uint32_t change, const uint8_t *key,
                          uint32_t key_size);
#endif
