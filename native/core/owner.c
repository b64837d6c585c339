/*
 * owner.c: whose a journal directory is.
 *
 * Slot of 4096 bytes, little-endian; the bytes not named are zero:
 *     0 uint32 magic "WKJO"            4 uint32 CRC-32C of the other 4092 bytes    8 uint32 version 1
 *    16 16 bytes of directory id      32 uint64 incarnation
 */
#include "core/owner.h"
#include "core/bytes.h"
#include "core/zero.h"

enum { CRC_AT = 4, VERSION_AT = 8, GAP_AT = 12, DIRECTORY_ID_AT = 16, INCARNATION_AT = 32, UNUSED_AT = 40 };
enum { MAGIC = 0x4f4a4b57, VERSION = 1, DIRECTORY_ID_SIZE = 16 }; /* "WKJO" */

static uint32_t checksum(const uint8_t slot[WK_OWNER_SLOT_SIZE]) {
	return wk_crc32c_extend(wk_crc32c(slot, CRC_AT), slot + VERSION_AT, WK_OWNER_SLOT_SIZE - VERSION_AT);
}

void wk_owner_encode(const wk_owner *owner, uint8_t slot[4096]) {
	memset(slot, 0, WK_OWNER_SLOT_SIZE);
	wk_store_le32(slot, MAGIC);
	wk_store_le32(slot + VERSION_AT, VERSION);
	memcpy(slot + DIRECTORY_ID_AT, owner->directory_id, DIRECTORY_ID_SIZE);
	wk_store_le64(slot + INCARNATION_AT, owner->incarnation);
	wk_store_le32(slot + CRC_AT, checksum(slot));
}

wk_status wk_owner_decode(const uint8_t slot[4096], wk_owner *owner) {
	if (wk_load_le32(slot) != MAGIC || wk_load_le32(slot + CRC_AT) != checksum(slot))
		return WK_CORRUPT;
	if (wk_load_le32(slot + VERSION_AT) > VERSION)
		return WK_UNSUPPORTED;
	if (wk_load_le32(slot + VERSION_AT) != VERSION || !wk_is_zero(slot + GAP_AT, DIRECTORY_ID_AT - GAP_AT) ||
	    !wk_is_zero(slot + UNUSED_AT, WK_OWNER_SLOT_SIZE - UNUSED_AT))
		return WK_CORRUPT;
	memcpy(owner->directory_id, slot + DIRECTORY_ID_AT, DIRECTORY_ID_SIZE);
	owner->incarnation = wk_load_le64(slot + INCARNATION_AT);
	return WK_OK;
}

wk_status wk_owner_choose(const uint8_t slots[8192], wk_owner *owner) {
	wk_owner found[2];
	wk_status status[2];
	for (uint32_t i = 0; i < 2; i++) {
		status[i] = wk_owner_decode(slots + i * WK_OWNER_SLOT_SIZE, &found[i]);
		if (status[i] == WK_UNSUPPORTED)
			return WK_UNSUPPORTED;
	}
	if (status[0] != WK_OK && status[1] != WK_OK)
		return WK_CORRUPT;
	if (status[0] == WK_OK && status[1] == WK_OK &&
	    memcmp(found[0].directory_id, found[1].directory_id, DIRECTORY_ID_SIZE) != 0)
		return WK_CORRUPT;
	*owner = found[status[0] != WK_OK || (status[1] == WK_OK && found[1].incarnation > found[0].incarnation)];
	return WK_OK;
}
