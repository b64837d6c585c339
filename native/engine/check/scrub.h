/*
 * scrub.h: reads sealed files again and again, slowly, so that damage is found while a copy may still exist. Private.
 * Off unless options.scrub_rate says otherwise.
 */
#ifndef WK_ENGINE_SCRUB_H
#define WK_ENGINE_SCRUB_H
#include "engine/engine.h"

/* (locked, dropped while it works) One read; false: it is off, or not due yet. */
bool wk_scrub_step(wk_engine *engine);
/* (locked) When it is due again. */
uint64_t wk_scrub_deadline(const wk_engine *engine);
#endif
