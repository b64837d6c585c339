/*
 * journal_candidates.h: where the chain may go on behind damage: whole blocks in their places, and sealed files by their
 * footers. They are listed once for all the damage of a walk. Private; for journal_damage.c.
 */
#ifndef WK_ENGINE_JOURNAL_CANDIDATES_H
#define WK_ENGINE_JOURNAL_CANDIDATES_H
#include "engine/recovery/journal_walk.h"

/* A whole block in its place; or a sealed file as a whole, by its footer. */
typedef struct wk_candidate {
	uint32_t at; /* of the engine's files */
	bool by_footer;
	uint64_t offset, sequence, incarnation;
} wk_candidate;

/* A whole block that stands where it says that it does, in a file of this directory. */
bool wk_candidates_in_place(const wk_walk *walk, const wk_store_file *file, uint64_t offset,
                            const wk_block_header *header);
/*
 * The first from `offset` of files[at] on that goes on behind the chain's end, NULL: none. A footer may have damage that
 * this did not look at; where it has, the file is marked, and wk_candidates_forget makes the next call look again. What the
 * walk met of the highest numbers is noted in walk->highest.
 */
wk_status wk_candidates_choose(wk_walk *walk, uint32_t at, uint64_t offset, wk_candidate *chosen, bool *found,
                               wk_error *error);
void wk_candidates_forget(wk_walk *walk);
/* The walk is over. */
void wk_candidates_free(wk_walk *walk);
#endif
