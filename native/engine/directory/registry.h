/*
 * registry.h: the directories open in this process, by device and inode; and what a fork does to them. Private. The
 * one file-scope state of native/.
 */
#ifndef WK_ENGINE_REGISTRY_H
#define WK_ENGINE_REGISTRY_H
#include "engine/engine.h"

/*
 * Enters the engine, or returns the one that has this directory open, one user more. Waits while another thread is
 * opening or closing it. sharable: false for tests on a faulty disk.
 */
wk_engine *wk_registry_enter(wk_engine *engine, bool sharable);
void wk_registry_ready(wk_engine *engine);
/* One user less; true: it was the last, and newcomers wait until wk_registry_leave. */
bool wk_registry_last(wk_engine *engine);
void wk_registry_leave(wk_engine *engine);
/* This process has the engine's directory open for writing, by another engine; or what a close left of one. */
bool wk_registry_is_written_here(const wk_engine *engine);
/* It stays until the process ends, and nobody else gets it: a forked child must still know it, and let go of its lock. */
void wk_registry_set_aside(wk_engine *engine);
/* No fork between these: a descriptor is opened and noted, or neither. Not for long. */
void wk_registry_hold_forks(void);
void wk_registry_let_fork(void);
#endif
