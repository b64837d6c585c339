/*
 * mover_victims.h: which files the mover empties: evacuation, minor and major compaction. Private.
 */
#ifndef WK_ENGINE_MOVER_VICTIMS_H
#define WK_ENGINE_MOVER_VICTIMS_H
#include "engine/engine.h"

enum { WK_VICTIMS_MAX = 16 };

/* (locked) The files of the next pass, 0: none is due. `reserve`: what the output may take on a full disk, 0: it is not. */
uint32_t wk_victims_choose(wk_engine *engine, uint64_t now, uint64_t reserve, wk_store_file **victims);
/* (locked) When a pass may be due. */
uint64_t wk_victims_deadline(const wk_engine *engine);
#endif
