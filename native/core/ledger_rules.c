/* ledger_rules.c: whether a ledger takes a change. */
#include "core/ledger_rules.h"
#include "walkeeper/ledger.h"
#include <string.h>

static bool is_its_key(const wk_ledger_facts *facts, const uint8_t *key, uint32_t key_size) {
	if (facts->key == NULL)
		return true;
	return key_size == facts->key_size && (key_size == 0 || memcmp(key, facts->key, key_size) == 0);
}

wk_status wk_ledger_judge(const wk_ledger_facts *facts, int64_t ledger_id, uint32_t change, const uint8_t *key,
                          uint32_t key_size) {
	if (ledger_id < 0)
		return WK_INVALID;
	if (facts != NULL && facts->deleting)
		return WK_DELETED;
	if (key_size > WK_LEDGER_KEY_MAX)
		return WK_INVALID;
	if (facts == NULL)
		return WK_OK;
	if (!is_its_key(facts, key, key_size))
		return WK_WRONG_KEY;
	return change == WK_CHANGE_ADD && facts->fenced ? WK_FENCED : WK_OK;
}
