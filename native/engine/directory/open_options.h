/* open_options.h: what may be asked of wk_open. Private. */
#ifndef WK_ENGINE_OPEN_OPTIONS_H
#define WK_ENGINE_OPEN_OPTIONS_H
#include "engine/engine.h"

/* `given` (may be NULL: the defaults) with 0 in a limit replaced by its default, and checked. */
wk_status wk_open_options_resolve(const wk_open_options *given, wk_open_options *options, wk_error *error);
#endif
