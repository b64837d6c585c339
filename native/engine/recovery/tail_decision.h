/*
 * tail_decision.h: the chain stopped: is that the end of the journal, or damage? What decides was found by tail_scan.c.
 * Damage that the policy of the open accepts is passed. Other damage is an error, which says where it stands, what shows it
 * and what to do. Private; for journal_walk.c.
 */
#ifndef WK_ENGINE_TAIL_DECISION_H
#define WK_ENGINE_TAIL_DECISION_H
#include "engine/recovery/journal_walk.h"

/* ---- is it the end, or damage? ---- */

/*
 * The chain stopped in files[*at]: blocks behind it are the witnesses. WK_DAMAGED; or *found: it goes on behind damage, and
 * *at is the file; or it ends there.
 */
wk_status wk_tail_decision_reach(wk_walk *walk, uint32_t *at, bool *found, wk_error *error);
/* There is no journal file. WK_DAMAGED where there was one. */
wk_status wk_tail_decision_on_none(wk_walk *walk, wk_error *error);
/* Nothing comes before the first file that has blocks: may that have been recycled? */
wk_status wk_tail_decision_on_first(wk_walk *walk, wk_error *error);

/* ---- going on behind accepted damage (storage rule 14) ---- */

/*
 * The block that should come next stood at `offset` of files[*at], and is damaged. The chain goes on at the next
 * whole block in its place that no later writer took back; entries of the damaged blocks whose own digest holds are
 * kept, the others noted in engine->loss. *found false: no whole block follows; else *at is the file of the next one,
 * walked.
 */
wk_status wk_walk_past_damage(wk_walk *walk, uint32_t *at, uint64_t offset, bool *found, wk_error *error);
#endif
