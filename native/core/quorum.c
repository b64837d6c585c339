/* quorum.c: see quorum.h. 64-bit arithmetic throughout: Java's writer breaks at entry 2^31. */
#include "core/quorum.h"

bool wk_quorum_is_valid(const wk_quorum *quorum) {
	return 1 <= quorum->ack_quorum && quorum->ack_quorum <= quorum->write_quorum &&
	       quorum->write_quorum <= quorum->ensemble_size && quorum->ensemble_size <= WK_SLOTS_MAX;
}

uint32_t wk_quorum_slot(const wk_quorum *quorum, int64_t entry_id, uint32_t index) {
	return (uint32_t)(((uint64_t)entry_id + index) % quorum->ensemble_size);
}

int32_t wk_quorum_index(const wk_quorum *quorum, int64_t entry_id, uint32_t slot) {
	uint32_t first = wk_quorum_slot(quorum, entry_id, 0);
	uint32_t index = slot >= first ? slot - first : slot + quorum->ensemble_size - first;
	return index < quorum->write_quorum ? (int32_t)index : WK_NO_INDEX;
}

uint64_t wk_quorum_indexes(const wk_quorum *quorum, int64_t entry_id, uint64_t slots) {
	uint64_t indexes = 0;
	for (uint32_t i = 0; i < quorum->write_quorum; i++)
		indexes |= (slots >> wk_quorum_slot(quorum, entry_id, i) & 1) << i;
	return indexes;
}

bool wk_quorum_is_covered(const wk_quorum *quorum, uint64_t known) {
	for (uint32_t first = 0; first < quorum->ensemble_size; first++) {
		uint64_t indexes = wk_quorum_indexes(quorum, first, known);
		uint32_t unknown = quorum->write_quorum - (uint32_t)__builtin_popcountll(indexes);
		if (unknown >= quorum->ack_quorum)
			return false;
	}
	return true;
}
