/*
 * quorum.h: which bookies of an ensemble store an entry, and when enough of them have answered. Pure.
 *
 * A *slot* is a place in the ensemble, 0 to E - 1. Entry e is stored at the slots (e + i) mod E, i < Qw: its write set; i is
 * the *index* in it. Sets of slots, and of indexes, are bits of 64.
 */
#ifndef WK_CORE_QUORUM_H
#define WK_CORE_QUORUM_H
#include "walkeeper/core.h"

enum { WK_SLOTS_MAX = 64, WK_NO_INDEX = -1 };

typedef struct wk_quorum {
	uint32_t ensemble_size, write_quorum, ack_quorum;
} wk_quorum;

/* E >= Qw >= Qa >= 1, and E at most WK_SLOTS_MAX. */
bool wk_quorum_is_valid(const wk_quorum *quorum);
/* The slot of index i of the entry's write set. */
uint32_t wk_quorum_slot(const wk_quorum *quorum, int64_t entry_id, uint32_t index);
/* The index of the slot in the entry's write set; WK_NO_INDEX: it is not in it. */
int32_t wk_quorum_index(const wk_quorum *quorum, int64_t entry_id, uint32_t slot);
/* The slots of the entry's write set as indexes: bit i is set where the slot of index i is in `slots`. */
uint64_t wk_quorum_indexes(const wk_quorum *quorum, int64_t entry_id, uint64_t slots);
/*
 * Whether the slots that are `known` cover the ensemble: in each write set fewer than Qa are not known. An entry that Qa
 * bookies have stored is then known by one of them, and no entry can be acknowledged by those that are not known alone.
 */
bool wk_quorum_is_covered(const wk_quorum *quorum, uint64_t known);
#endif
