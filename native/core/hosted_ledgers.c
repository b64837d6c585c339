/*
 * hosted_ledgers.c: the table of the ledgers that a bookie hosts. The rules are in walkeeper/hosted.h.
 *
 * Linear probing without tombstones: a removal moves up what stands behind the hole and may stand in it, so that a
 * search may end at the first free slot however long the table has lived.
 */
#include "core/hosted.h"
#include "core/id_hash.h"
#include <assert.h>

enum { FREE = -1 };

static uint32_t home(const wk_hosted_ledgers *table, int64_t ledger_id) {
	return wk_id_home(table->seed, ledger_id, table->capacity);
}

static uint32_t behind(const wk_hosted_ledgers *table, uint32_t at) {
	return (at + 1) & (table->capacity - 1);
}

/* Where the ledger stands, or the free slot where it would. */
static uint32_t search(const wk_hosted_ledgers *table, int64_t ledger_id) {
	uint32_t at = home(table, ledger_id);
	while (table->slots[at].ledger_id != FREE && table->slots[at].ledger_id != ledger_id)
		at = behind(table, at);
	return at;
}

static bool fits(uint64_t count, uint32_t capacity) {
	return count * 5 <= (uint64_t)capacity * 4;
}

static bool is_capacity(uint32_t capacity) {
	return capacity >= WK_HOSTED_CAPACITY_MIN && (capacity & (capacity - 1)) == 0;
}

static void clear(wk_hosted_ledger *slots, uint32_t capacity) {
	for (uint32_t i = 0; i < capacity; i++)
		slots[i] = (wk_hosted_ledger){.ledger_id = FREE, .lac = WK_LAC_NONE, .first_poll = WK_NO_POLL};
}

wk_status wk_hosted_init(wk_hosted_ledgers *table, wk_hosted_ledger *slots, uint32_t capacity) {
	if (!is_capacity(capacity))
		return WK_INVALID;
	clear(slots, capacity);
	*table = (wk_hosted_ledgers){.slots = slots, .capacity = capacity};
	return WK_OK;
}

wk_status wk_hosted_seed(wk_hosted_ledgers *table, uint64_t seed) {
	if (table->count > 0)
		return WK_INVALID;
	table->seed = seed;
	return WK_OK;
}

wk_hosted_ledger *wk_hosted_find(const wk_hosted_ledgers *table, int64_t ledger_id) {
	wk_hosted_ledger *slot = &table->slots[search(table, ledger_id)];
	return slot->ledger_id == FREE ? NULL : slot;
}

wk_status wk_hosted_put(wk_hosted_ledgers *table, int64_t ledger_id, wk_hosted_ledger **found) {
	if (ledger_id < 0)
		return WK_INVALID;
	wk_hosted_ledger *slot = &table->slots[search(table, ledger_id)];
	if (slot->ledger_id == FREE) {
		if (!fits((uint64_t)table->count + 1, table->capacity))
			return WK_FULL;
		slot->ledger_id = ledger_id; /* the rest of a free slot is as a new ledger's */
		table->count++;
	}
	*found = slot;
	return WK_OK;
}

wk_status wk_hosted_grow(wk_hosted_ledgers *table, wk_hosted_ledger *slots, uint32_t capacity, wk_hosted_ledger **old) {
	if (!is_capacity(capacity) || !fits(table->count, capacity))
		return WK_INVALID;
	assert(slots != table->slots);
	wk_hosted_ledgers larger = *table;
	larger.slots = slots;
	larger.capacity = capacity;
	clear(slots, capacity);
	for (uint32_t i = 0; i < table->capacity; i++) {
		if (table->slots[i].ledger_id != FREE)
			slots[search(&larger, table->slots[i].ledger_id)] = table->slots[i];
	}
	*old = table->slots;
	*table = larger;
	return WK_OK;
}

wk_status wk_hosted_remove(wk_hosted_ledgers *table, int64_t ledger_id) {
	wk_hosted_ledger *ledger = wk_hosted_find(table, ledger_id);
	if (ledger == NULL)
		return WK_NOT_FOUND;
	if (ledger->first_poll != WK_NO_POLL)
		return WK_INVALID;
	uint32_t mask = table->capacity - 1, hole = (uint32_t)(ledger - table->slots);
	for (uint32_t at = behind(table, hole); table->slots[at].ledger_id != FREE; at = behind(table, at)) {
		uint32_t wants = home(table, table->slots[at].ledger_id);
		if (((at - wants) & mask) >= ((at - hole) & mask)) { /* the hole lies on its way */
			table->slots[hole] = table->slots[at];
			hole = at;
		}
	}
	clear(&table->slots[hole], 1);
	table->count--;
	return WK_OK;
}

bool wk_hosted_raise(wk_hosted_ledger *ledger, int64_t lac, int64_t wall_ms) {
	if (lac <= ledger->lac)
		return false;
	ledger->lac = lac;
	ledger->lac_ms = wall_ms;
	return true;
}
