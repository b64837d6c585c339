/*
 * leftovers.h: blocks behind the chain's end that nobody was told of. Private.
 *
 * Several blocks are under way at once, and a power cut may keep a later one and lose one before it. In the file of the
 * chain's end what is left of them is written over by the blocks to come. In a later file it is not, where the journal does
 * not go on there: and as it stands behind a whole file then, with a number above its last, it would look like the next
 * block, with those between recycled.
 */
#ifndef WK_ENGINE_LEFTOVERS_H
#define WK_ENGINE_LEFTOVERS_H
#include "engine/recovery/journal_walk.h"

/*
 * While opening for writing, the chain ends in a torn tail or in order: what the walk found behind it in later files, and
 * what is torn at their start, is no block any more, durably. WK_IO; WK_NO_MEMORY.
 */
wk_status wk_leftovers_wipe(wk_walk *walk, wk_error *error);
#endif
