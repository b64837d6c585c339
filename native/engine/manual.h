/*
 * manual.h: a directory without threads, for tests: background work is done by the caller, one step at a time. Private.
 */
#ifndef WK_ENGINE_MANUAL_H
#define WK_ENGINE_MANUAL_H
#include "walkeeper/log.h"

enum { WK_OPEN_MANUAL = 1 }; /* wk_open_options.internal */

/* Does what is due of the background work; *idle: nothing is left to do now. WK_INVALID: the directory has threads. */
wk_status wk_namespace_step(wk_namespace *ns, bool *idle, wk_error *error);
#endif
