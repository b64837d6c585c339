/* availability.c: the list of a ledger's entries, as BookKeeper's auditor reads it: docs/protocol.md has the bytes. */
#include "core/bytes.h"
#include "walkeeper/wire.h"
#include <assert.h>

enum { VERSION_AT = 0, GROUPS_AT = 4, VERSION = 0 };
/* A group says: runs of so many entries begin at the first id, at every id a period on, and at the last one. */
enum { FIRST_START_AT = 0, LAST_START_AT = 8, RUN_SIZE_AT = 16, PERIOD_AT = 20, NO_PERIOD = 0 };

void wk_availability_head(uint32_t groups, uint8_t *out) {
	assert(groups <= INT32_MAX);
	memset(out, 0, WK_AVAILABILITY_HEAD_SIZE);
	wk_store_be32(out + VERSION_AT, VERSION);
	wk_store_be32(out + GROUPS_AT, groups);
}

void wk_availability_run(int64_t first, int64_t last, uint8_t *out) {
	assert(first >= 0 && last >= first && last - first < INT32_MAX);
	wk_store_be64_signed(out + FIRST_START_AT, first);
	wk_store_be64_signed(out + LAST_START_AT, first);
	wk_store_be32(out + RUN_SIZE_AT, (uint32_t)(last - first + 1));
	wk_store_be32(out + PERIOD_AT, NO_PERIOD);
}
