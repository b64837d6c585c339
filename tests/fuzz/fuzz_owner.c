/*
 * The input is two slots, half of it each, zero-filled to 4096 bytes. Checked with and without magic and checksum put
 * right: a slot that decodes is encoded again to the same bytes, and the choice is one of them, of the later
 * incarnation, and never made beside a slot of a newer version or of another directory.
 */
#include "core/bytes.h"
#include "core/owner.h"
#include "fuzz.h"
#include <assert.h>

enum { SLOT = WK_OWNER_SLOT_SIZE };
static uint8_t slots[2 * SLOT];

static wk_status decode_and_encode(const uint8_t slot[SLOT], wk_owner *found) {
	wk_status status = wk_owner_decode(slot, found);
	assert(status == WK_OK || status == WK_CORRUPT || status == WK_UNSUPPORTED);
	if (status == WK_OK) {
		uint8_t again[SLOT];
		wk_owner_encode(found, again);
		assert(memcmp(again, slot, SLOT) == 0);
	}
	return status;
}

static void check(void) {
	wk_owner found[2], chosen;
	wk_status status[2];
	for (uint32_t i = 0; i < 2; i++)
		status[i] = decode_and_encode(slots + i * SLOT, &found[i]);
	wk_status choice = wk_owner_choose(slots, &chosen);
	bool newer = status[0] == WK_UNSUPPORTED || status[1] == WK_UNSUPPORTED;
	bool both = status[0] == WK_OK && status[1] == WK_OK, none = status[0] != WK_OK && status[1] != WK_OK;
	bool differ = both && memcmp(found[0].directory_id, found[1].directory_id, 16) != 0;
	assert(choice == (newer ? WK_UNSUPPORTED : none || differ ? WK_CORRUPT : WK_OK));
	for (uint32_t i = 0; i < 2 && choice == WK_OK; i++)
		assert(status[i] != WK_OK || found[i].incarnation <= chosen.incarnation);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	size_t half = size / 2 < SLOT ? size / 2 : SLOT;
	memset(slots, 0, sizeof slots);
	memcpy(slots, bytes, half);
	memcpy(slots + SLOT, bytes + size - half, half);
	check();
	for (uint32_t i = 0; i < 2; i++) {
		uint8_t *slot = slots + i * SLOT;
		memcpy(slot, "WKJO", 4);
		wk_store_le32(slot + 4, wk_crc32c_extend(wk_crc32c(slot, 4), slot + 8, SLOT - 8));
		check();
	}
	return 0;
}
