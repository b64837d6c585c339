/*
 * owner.h: whose a journal directory is (docs/formats/owner.md). Two slots of 4096 bytes in its file `owner`; a write
 * goes to the slot of its incarnation's parity, so the one before stays whole. Pure.
 */
#ifndef WK_CORE_OWNER_H
#define WK_CORE_OWNER_H
#include "walkeeper/core.h"

enum { WK_OWNER_SLOT_SIZE = 4096, WK_OWNER_SIZE = 2 * WK_OWNER_SLOT_SIZE };

typedef struct wk_owner {
	uint8_t directory_id[16]; /* of the directory whose journal this is */
	uint64_t incarnation;     /* of its latest open for writing, or of one that came to nothing behind it */
} wk_owner;

void wk_owner_encode(const wk_owner *owner, uint8_t slot[4096]);
/* WK_CORRUPT; WK_UNSUPPORTED: written by a newer version. */
wk_status wk_owner_decode(const uint8_t slot[4096], wk_owner *owner);
/*
 * Of two slots the whole one of the later incarnation. WK_CORRUPT: neither is whole, or they are of two directories;
 * WK_UNSUPPORTED: one was written by a newer version, which makes the other stale.
 */
wk_status wk_owner_choose(const uint8_t slots[8192], wk_owner *owner);
#endif
