/* id_hash.h: where a ledger's id stands in a table. Private. */
#ifndef WK_CORE_ID_HASH_H
#define WK_CORE_ID_HASH_H
#include <stdint.h>

/*
 * The slot, of a power of two, where a search for the id begins. Clients choose ids: without a seed that they do not know
 * they may choose a thousand that all want one slot, and each search walks past all of them.
 */
static inline uint32_t wk_id_home(uint64_t seed, int64_t id, uint32_t capacity) {
	uint64_t x = ((uint64_t)id ^ seed) * 0x9E3779B97F4A7C15u;
	x = (x ^ x >> 32) * (seed | 1);
	x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
	return (uint32_t)(x >> 32) & (capacity - 1);
}
#endif
