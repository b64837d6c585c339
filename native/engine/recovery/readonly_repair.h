/*
 * readonly_repair.h: a read-only open of a damaged directory. Private.
 *
 * An open for writing that accepts loss writes its repair to the disk. A read-only open may not. So it makes the same
 * repair in memory, by the same code, over the files as they are (an overlay, io/io.h), and reads the result.
 */
#ifndef WK_ENGINE_READONLY_REPAIR_H
#define WK_ENGINE_READONLY_REPAIR_H
#include "engine/engine.h"

/*
 * helps: a read-only open that failed with this status may succeed over a repaired view. comes_first: it is to be sure of
 * all entries (check_all), so it is not tried without one. `options` may be NULL.
 */
bool wk_readonly_repair_helps(const wk_open_options *options, wk_status status);
bool wk_readonly_repair_comes_first(const wk_open_options *options);
/*
 * *overlay shows the directory as an open with options->on_damage would leave it. *report is that open's report,
 * *generation the superblock's generation before it. `io` goes with the overlay where it is owned; where this call fails it
 * goes at once. Fails as wk_directory_open; WK_LOCKED: another process writes the directory.
 */
wk_status wk_readonly_repair(wk_io *io, bool owned, const char *path, const wk_open_options *options, wk_io **overlay,
                             uint64_t *generation, wk_recovery_report *report, wk_error *error);
/*
 * A repaired view does not follow a writer: once the directory is written, half of what is read would be on the disk and
 * half in memory. WK_LOCKED: it was opened for writing since. WK_OK: it was not, or the view is not a repaired one.
 */
wk_status wk_readonly_repair_check(const wk_engine *engine, wk_error *error);
#endif
