/*
 * check.h: what the other rooms of the engine may use of engine/check/. Private.
 *
 * Looking at a directory: inspect, verify, doctor, scrub.
 */
#ifndef WK_ENGINE_ROOM_CHECK_H
#define WK_ENGINE_ROOM_CHECK_H
#include "engine/check/file_view.h" /* one file of a directory that is not open */
#include "engine/check/scrub.h"     /* reads sealed files in the background; the keeper's */
#endif
