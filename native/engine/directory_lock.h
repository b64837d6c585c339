/* directory_lock.h: one process writes a directory. Private. */
#ifndef WK_ENGINE_DIRECTORY_LOCK_H
#define WK_ENGINE_DIRECTORY_LOCK_H
#include "engine/engine.h"

enum { WK_LOCK_SIZE = WK_IO_ALIGNMENT }; /* of the file, once somebody has held it */

/*
 * Takes the lock within options.lock_timeout_ns and writes who holds it; WK_LOCKED names the holder, where that is known.
 * A follower's look at the lock is waited for also beyond that.
 */
wk_status wk_directory_lock(wk_engine *engine, wk_error *error);
#endif
