/*
 * driver.h: the thread that writes blocks when more than one is under way (docs/adr/0004). Private.
 */
#ifndef WK_ENGINE_DRIVER_H
#define WK_ENGINE_DRIVER_H
#include "engine/engine.h"

int wk_driver_start(wk_engine *engine);
/* Writes what is open, then ends; without the lock. */
void wk_driver_stop(wk_engine *engine);
void wk_driver_wake(wk_engine *engine);
#endif
