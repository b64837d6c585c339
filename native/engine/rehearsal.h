/*
 * rehearsal.h: a read-only open of a damaged directory. Private.
 *
 * What an open that accepts loss repairs, it writes down. One that only reads may not: so the repair is rehearsed, in
 * memory, over the files as they are (an overlay, io/io.h), by the code that does it for good; and what comes out is read.
 */
#ifndef WK_ENGINE_REHEARSAL_H
#define WK_ENGINE_REHEARSAL_H
#include "engine/engine.h"

/*
 * Whether a read-only open that came to this status could be helped so; or, to be sure of all entries (check_all), should
 * not be tried without. `options` may be NULL.
 */
bool wk_rehearsal_helps(const wk_open_options *options, wk_status status);
bool wk_rehearsal_comes_first(const wk_open_options *options);
/*
 * *overlay shows the directory as an open with options->on_damage would leave it; *report is that open's, *generation the
 * superblock's before it. `io` goes
 * with the overlay where it is owned, and at once where this fails. As wk_directory_open; WK_LOCKED: somebody writes it.
 */
wk_status wk_rehearse(wk_io *io, bool owned, const char *path, const wk_open_options *options, wk_io **overlay,
                      uint64_t *generation, wk_recovery_report *report, wk_error *error);
/*
 * What was rehearsed follows nobody: once the directory is written, what is read would be half of it what is there, and
 * half what is in memory. WK_LOCKED: it was opened for writing since; WK_OK: it was not, or nothing was rehearsed.
 */
wk_status wk_rehearsal_check(const wk_engine *engine, wk_error *error);
#endif
