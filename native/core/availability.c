/* availability.c: the list of a ledger's entries, as BookKeeper's auditor reads it: docs/protocol.md has the bytes. */
#include "core/bytes.h"
#include "core/wire.h"
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

bool wk_availability_extend(wk_availability_group *group, int64_t first, int64_t last) {
	assert(first >= 0 && last >= first && last - first < WK_AVAILABILITY_RUN_MAX);
	assert(group->size == 0 || first > group->last_start);
	uint32_t size = (uint32_t)(last - first + 1);
	if (group->size == 0) {
		*group = (wk_availability_group){.first_start = first, .last_start = first, .size = size};
		return true;
	}
	int64_t distance = first - group->last_start;
	if (size != group->size || distance > INT32_MAX || (group->period != NO_PERIOD && distance != group->period))
		return false;
	group->period = (uint32_t)distance;
	group->last_start = first;
	return true;
}

void wk_availability_group_encode(const wk_availability_group *group, uint8_t *out) {
	wk_store_be64_signed(out + FIRST_START_AT, group->first_start);
	wk_store_be64_signed(out + LAST_START_AT, group->last_start);
	wk_store_be32(out + RUN_SIZE_AT, group->size);
	wk_store_be32(out + PERIOD_AT, group->period);
}
