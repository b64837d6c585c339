/*
 * tail_decision.h: the chain stopped: is that the journal's end, or damage? Damage that the policy of the open accepts is
 * passed (journal_damage.h), other damage is told: where it stands, what shows it, what to do. Private; for journal_walk.c.
 */
#ifndef WK_ENGINE_TAIL_DECISION_H
#define WK_ENGINE_TAIL_DECISION_H
#include "engine/recovery/journal_walk.h"

/*
 * The chain stopped in files[*at]: blocks behind it are the witnesses. WK_DAMAGED; or *found: it goes on behind damage, and
 * *at is the file; or it ends there.
 */
wk_status wk_tail_decision_reach(wk_walk *walk, uint32_t *at, bool *found, wk_error *error);
/* There is no journal file. WK_DAMAGED where there was one. */
wk_status wk_tail_decision_on_none(wk_walk *walk, wk_error *error);
/* Nothing comes before the first file that has blocks: may that have been recycled? */
wk_status wk_tail_decision_on_first(wk_walk *walk, wk_error *error);
#endif
