/*
 * follower.h: what the other rooms of the engine may use of engine/follower/. Private.
 *
 * A directory opened read-only beside a writer in another process.
 */
#ifndef WK_ENGINE_ROOM_FOLLOWER_H
#define WK_ENGINE_ROOM_FOLLOWER_H
#include "engine/follower/follower.h"    /* looks again at what the writer did */
#include "engine/follower/shared_page.h" /* the page that tells followers of the durable point */
#endif
