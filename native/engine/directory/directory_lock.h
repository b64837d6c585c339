/* directory_lock.h: one process writes a directory. Private. */
#ifndef WK_ENGINE_DIRECTORY_LOCK_H
#define WK_ENGINE_DIRECTORY_LOCK_H
#include "engine/engine.h"

enum { WK_LOCK_SIZE = WK_IO_ALIGNMENT }; /* of the file, once somebody has held it */

/*
 * Takes the lock within options.lock_timeout_ns and writes who holds it; WK_LOCKED names the holder, where that is known.
 * A follower's look at the lock is waited for also beyond that. What is locked has its name in the directory: a file that was
 * removed or replaced while its lock was waited for is let go of, and the one that has the name now is locked.
 */
wk_status wk_directory_lock(wk_engine *engine, wk_error *error);
/* The same for the superblock, once it is open: its inode is locked too, as somebody may remove the file `lock`. */
wk_status wk_directory_lock_root(wk_engine *engine, wk_error *error);
/*
 * The lock of one file. -EWOULDBLOCK once lock_timeout_ns has passed. Who only looks is no reason to refuse, and is waited
 * for a little beyond that: *looked_at is for one that does not end.
 */
int wk_directory_lock_take(wk_engine *engine, wk_file *file, bool *looked_at);
/*
 * From here on what is in the journal may be in the memory of this kernel alone: the lock says so, durably, before anything is
 * written. Before that, what stands there already was synced, and the page `shared` says so: else readers would not be shown
 * any more what they have seen. On a disk without room for it the lock says nothing, rather than what an earlier writer
 * said. -errno
 */
int wk_directory_lock_tell_kernel(wk_engine *engine);
/*
 * For who holds it: does it name another kernel than the one that runs, or none by zeros? Then nothing stands here that this
 * kernel may have taken for clean; unless somebody removed the lock. -errno: that cannot be told now.
 */
int wk_directory_lock_names_another(wk_engine *engine, bool *another);
/*
 * Whether a writer may have been here since this machine started: then a sync of its own proves nothing to a reader (storage
 * rule 13). False only where that is certain: the lock is not there (a backup), or its last holder ran under another kernel.
 */
bool wk_directory_was_written_under_this_kernel(wk_engine *engine);
/*
 * For who holds it, before a journal file is made or given away, and once a second while blocks are written: do the names
 * in the directory still lead to the files that this process has locked? A file `lock` that was removed is made anew. Where
 * another process may write the directory, the journal fails and says so: WK_FAILED. What cannot be told now (no
 * descriptor, no memory) is WK_OK. No lock held.
 */
wk_status wk_directory_lock_check(wk_engine *engine, wk_error *error);
/*
 * Of that, what the superblock tells: its name leads elsewhere, or who opened the directory for writing since left another
 * incarnation there. Why the directory is no longer ours, NULL: it is. Any lock may be held.
 */
const char *wk_directory_lock_lost(wk_engine *engine);
#endif
