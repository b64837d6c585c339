/*
 * journal_end.h: what shows that a journal is shorter than it was, where no later block does. Private.
 */
#ifndef WK_ENGINE_JOURNAL_END_H
#define WK_ENGINE_JOURNAL_END_H
#include "engine/recovery/journal_walk.h"

/*
 * The highest block that is known to have been durable by what stands outside the journal: the closed sequence of a
 * directory that was closed in order, else the file `shared`. 0: nothing is known.
 */
uint64_t wk_journal_end_known(const wk_walk *walk);
/*
 * Nothing follows the chain, which ends at `offset` of files[at]. Where a file is shorter than it was prepared, or the last
 * one is missing, walk->short_file or walk->missing_behind says so; in a directory that was closed in order neither counts.
 */
wk_status wk_journal_end_look(wk_walk *walk, uint32_t at, uint64_t offset, wk_error *error);
#endif
