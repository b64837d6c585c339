/*
 * probe.h: which way of making a write durable is the quicker one on this device (storage rule: probed, never
 * assumed). Private.
 */
#ifndef WK_ENGINE_PROBE_H
#define WK_ENGINE_PROBE_H
#include "engine/engine.h"

/*
 * Chooses engine->options.sync_method: as asked, as the superblock remembers for this device, or by trying for at
 * most 20 ms. Notes it in engine->superblock, which the caller stores.
 */
wk_status wk_probe(wk_engine *engine, wk_error *error);
/* The medians of both ways, 4 KiB each, in a file of its own in the directory `path`, which is removed. */
int wk_probe_measure(wk_io *io, const char *path, uint64_t budget_ns, uint64_t *dsync_ns, uint64_t *write_then_sync_ns);
#endif
