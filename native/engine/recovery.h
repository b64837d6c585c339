/*
 * recovery.h: what the other rooms of the engine may use of engine/recovery/. Private.
 *
 * From the files of a directory to its state: the chain of blocks, where it ends, what is damaged or missing.
 */
#ifndef WK_ENGINE_ROOM_RECOVERY_H
#define WK_ENGINE_ROOM_RECOVERY_H
#include "engine/recovery/journal_walk.h"    /* follows the chain; a follower goes on where it stood */
#include "engine/recovery/loss.h"            /* entries that cannot be read, and gaps made of them */
#include "engine/recovery/missing_entries.h" /* entries that the index knew and no file has */
#include "engine/recovery/readonly_repair.h" /* a read-only open of a damaged directory */
#include "engine/recovery/recovery.h"        /* an open for writing */
#include "engine/recovery/unconfirmed.h"     /* whole blocks at the end that nothing confirms */
#endif
