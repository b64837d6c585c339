/*
 * interleaved.h: which journal files of a ledger store hold the entries of many ledgers in turn, and are sorted together.
 * Private.
 *
 * A *stretch* is entries of one ledger that stand next to each other in a file: what one read brings. A sealed journal
 * file whose stretches have less than 64 KiB on average is interleaved. Such files are sorted, several at once, into an
 * entry log, where a ledger is one stretch: once options.sort_memory four times over is full, or the first of them has
 * waited for options.sort_wait_ns, and if stretches become options.sort_gain times as long by it. An entry log is never sorted again:
 * so an entry is copied once for it, at most.
 */
#ifndef WK_ENGINE_INTERLEAVED_H
#define WK_ENGINE_INTERLEAVED_H
#include "engine/mover/mover_pieces.h"

/* Are files sorted here at all? */
bool wk_interleaved_is_on(const wk_engine *engine);
/*
 * (locked, dropped while it reads) Counts the stretches of one file that nobody looked at yet, by its footer. How many
 * bytes it read; 0: there was none.
 */
uint64_t wk_interleaved_look(wk_engine *engine, uint64_t now);
/* (locked) The files of the next pass, none: it is not due. */
void wk_interleaved_choose(const wk_engine *engine, uint64_t now, wk_victims *victims);
/*
 * (locked) Is a pass over these, which have entries of so many ledgers, worth it? Where it is not, they are not chosen
 * again, unless with files that come.
 */
bool wk_interleaved_is_worth_it(wk_engine *engine, const wk_victims *victims, uint64_t ledgers);
/* (locked) When a pass may be due. */
uint64_t wk_interleaved_deadline(const wk_engine *engine);
#endif
