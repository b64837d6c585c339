/*
 * journal.h: what the other rooms of the engine may use of engine/journal/. Private.
 *
 * The open block, group commit, durable writes, the life of a journal file.
 */
#ifndef WK_ENGINE_ROOM_JOURNAL_H
#define WK_ENGINE_ROOM_JOURNAL_H
#include "engine/journal/committer.h"     /* blocks that a server's thread writes */
#include "engine/journal/driver.h"        /* the thread that owns the queue of writes */
#include "engine/journal/journal.h"       /* the open block: reserve, seal, wait until durable */
#include "engine/journal/journal_file.h"  /* prepared, active, sealed, recycled */
#include "engine/journal/journal_space.h" /* space allocated or written ahead */
#include "engine/journal/journal_zeros.h" /* zeros written ahead; the keeper's */
#include "engine/journal/late_writes.h"   /* writes that a dead process left under way */
#include "engine/journal/prepared.h"      /* files kept ready */
#endif
