/*
 * journal_damage.h: going on behind damage in the journal, where the policy of the open accepts loss (storage rule
 * 14). Private; for tail_decision.c.
 */
#ifndef WK_ENGINE_JOURNAL_DAMAGE_H
#define WK_ENGINE_JOURNAL_DAMAGE_H
#include "engine/recovery/journal_walk.h"

/*
 * The block that should come next stood at `offset` of files[*at], and is damaged. The chain goes on at the next
 * whole block in its place that no later writer took back; entries of the damaged blocks whose own digest holds are
 * kept, the others noted in engine->loss. *found false: no whole block follows; else *at is the file of the next one,
 * walked.
 */
wk_status wk_walk_past_damage(wk_walk *walk, uint32_t *at, uint64_t offset, bool *found, wk_error *error);
#endif
