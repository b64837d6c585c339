/*
 * test_owner.c: the owner file of a journal directory: its bytes, which slot counts, and that each single bit counts.
 */
#include "check.h"
#include "core/owner.h"

static const wk_owner OWNER = {
    .directory_id = {0, 17, 34, 51, 68, 85, 102, 119, 136, 153, 170, 187, 204, 221, 238, 255}, .incarnation = 3};

TEST(its_bytes_are_those_of_the_format) {
	uint8_t slot[WK_OWNER_SLOT_SIZE];
	wk_owner_encode(&OWNER, slot);
	CHECK_HEX(slot, 4, "574b4a4f");
	CHECK_HEX(slot + 8, 32, "010000000000000000112233445566778899aabbccddeeff0300000000000000");
	wk_owner found = {0};
	CHECK_EQ(wk_owner_decode(slot, &found), WK_OK);
	CHECK(memcmp(&found, &OWNER, sizeof found) == 0);
}

TEST(each_bit_of_a_slot_counts) {
	uint8_t slot[WK_OWNER_SLOT_SIZE];
	wk_owner found;
	wk_owner_encode(&OWNER, slot);
	for (size_t bit = 0; bit < 8 * sizeof slot; bit++) {
		slot[bit / 8] ^= (uint8_t)(1 << bit % 8);
		CHECK_EQ(wk_owner_decode(slot, &found), WK_CORRUPT);
		slot[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	CHECK_EQ(wk_owner_decode(slot, &found), WK_OK);
}

static void seal(uint8_t *slot) {
	uint32_t crc = wk_crc32c_extend(wk_crc32c(slot, 4), slot + 8, WK_OWNER_SLOT_SIZE - 8);
	memcpy(slot + 4, &crc, sizeof crc);
}

TEST(a_newer_version_is_told_from_damage_and_makes_the_other_slot_stale) {
	uint8_t slots[WK_OWNER_SIZE];
	wk_owner found;
	wk_owner_encode(&OWNER, slots);
	wk_owner_encode(&OWNER, slots + WK_OWNER_SLOT_SIZE);
	slots[8] = 2;
	CHECK_EQ(wk_owner_choose(slots, &found), WK_OK); /* damage: the other one counts */
	seal(slots);
	CHECK_EQ(wk_owner_decode(slots, &found), WK_UNSUPPORTED);
	CHECK_EQ(wk_owner_choose(slots, &found), WK_UNSUPPORTED);
	slots[8] = 0;
	seal(slots);
	CHECK_EQ(wk_owner_decode(slots, &found), WK_CORRUPT);
	slots[8] = 1;
	slots[12] = 1; /* a field that no version 1 has */
	seal(slots);
	CHECK_EQ(wk_owner_decode(slots, &found), WK_CORRUPT);
	slots[12] = 0;
	slots[40] = 1;
	seal(slots);
	CHECK_EQ(wk_owner_decode(slots, &found), WK_CORRUPT);
}

TEST(the_later_incarnation_counts_and_two_directories_are_damage) {
	uint8_t slots[WK_OWNER_SIZE];
	wk_owner later = OWNER, found;
	later.incarnation = 4;
	for (int at = 0; at < 2; at++) {
		wk_owner_encode(&later, slots + (size_t)at * WK_OWNER_SLOT_SIZE);
		wk_owner_encode(&OWNER, slots + (size_t)!at * WK_OWNER_SLOT_SIZE);
		CHECK_EQ(wk_owner_choose(slots, &found), WK_OK);
		CHECK_EQ(found.incarnation, 4);
		slots[(size_t)at * WK_OWNER_SLOT_SIZE + 100] ^= 1; /* torn: the one before */
		CHECK_EQ(wk_owner_choose(slots, &found), WK_OK);
		CHECK_EQ(found.incarnation, 3);
	}
	later.directory_id[0] ^= 1;
	wk_owner_encode(&OWNER, slots);
	wk_owner_encode(&later, slots + WK_OWNER_SLOT_SIZE);
	CHECK_EQ(wk_owner_choose(slots, &found), WK_CORRUPT);
	memset(slots, 0, sizeof slots);
	CHECK_EQ(wk_owner_choose(slots, &found), WK_CORRUPT);
}

int main(void) {
	RUN(its_bytes_are_those_of_the_format);
	RUN(each_bit_of_a_slot_counts);
	RUN(a_newer_version_is_told_from_damage_and_makes_the_other_slot_stale);
	RUN(the_later_incarnation_counts_and_two_directories_are_damage);
	return check_done();
}
