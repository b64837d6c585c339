/*
 * space.h: what the other rooms of the engine may use of engine/space/. Private.
 *
 * Files that nobody needs, and what is kept back for a full disk.
 */
#ifndef WK_ENGINE_ROOM_SPACE_H
#define WK_ENGINE_ROOM_SPACE_H
#include "engine/space/reserve.h"         /* space kept back for the journal and the catalogue */
#include "engine/space/reserve_file.h"    /* space kept back as a file */
#include "engine/space/reserve_outputs.h" /* space kept back for the mover and the index */
#include "engine/space/space.h"           /* recycles and unlinks */
#endif
