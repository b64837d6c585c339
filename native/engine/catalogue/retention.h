/* retention.h: lets go of log segments that are older than their log's retention_seconds. Private. */
#ifndef WK_ENGINE_RETENTION_H
#define WK_ENGINE_RETENTION_H
#include "engine/engine.h"

/* (locked, dropped while it works) Truncates one log whose time has come; false: none is due. */
bool wk_retention_step(wk_engine *engine);
#endif
