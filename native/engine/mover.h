/*
 * mover.h: what the other rooms of the engine may use of engine/mover/. Private.
 *
 * Copies live entries out of files, to give space back or to sort them.
 */
#ifndef WK_ENGINE_ROOM_MOVER_H
#define WK_ENGINE_ROOM_MOVER_H
#include "engine/mover/entry_log.h" /* removes what a mover left unfinished */
#include "engine/mover/mover.h"     /* a step of the mover; the keeper's */
#endif
