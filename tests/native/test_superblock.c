/* The superblock: each field at its place, each rule, every flipped bit, and the choice between two slots. */
/* ctest labels: one-thread */
#include "check.h"
#include "core/bytes.h"
#include "core/superblock.h"

static uint8_t slots[2 * WK_SUPERBLOCK_SLOT_SIZE];

static wk_superblock a_superblock(uint64_t generation) {
	wk_superblock superblock = {
	    .generation = generation,
	    .incarnation = 3,
	    .file_id_ceiling = 100,
	    .replay_epoch = 7,
	    .replay_sequence = 4242,
	    .index_generation = 5,
	    .snapshots = {{10, 19}, {2, 4}},
	    .sync_method = 2,
	    .blocks_in_flight = 4,
	    .grid = {{{{1, 2}, {3, 4}, {5, 6}, {7, 8}}, {{9, 10}, {11, 12}, {13, 14}, {15, 0x01020304}}}},
	    .probe_device = 0xfd01,
	    .probe_dsync_ns = 90000,
	    .probe_write_then_sync_ns = 85000,
	    .clean = true,
	    .closed_sequence = 0x1122334455667788,
	};
	memcpy(superblock.directory_id, "directory id 16b", 16);
	return superblock;
}

static void write_slot(uint32_t slot, uint64_t generation) {
	wk_superblock superblock = a_superblock(generation);
	wk_superblock_encode(&superblock, slots + slot * 4096);
}

static void mend(uint8_t *slot) {
	wk_store_le32(slot + 4, wk_crc32c_extend(wk_crc32c(slot, 4), slot + 8, 4088));
}

static wk_status decoding(const uint8_t *slot) {
	static const wk_superblock untouched = {.generation = 77, .incarnation = 77};
	wk_superblock superblock = untouched;
	wk_status status = wk_superblock_decode(slot, &superblock);
	if (status != WK_OK)
		CHECK(memcmp(&superblock, &untouched, sizeof superblock) == 0);
	return status;
}

/* With the checksum put right, the rule under test alone refuses. */
static void refused(void) {
	mend(slots);
	CHECK_EQ(decoding(slots), WK_CORRUPT);
	write_slot(0, 9);
	CHECK_EQ(decoding(slots), WK_OK);
}

TEST(every_field_has_its_place) {
	write_slot(0, 9);
	CHECK_HEX(slots, 4, "574b5342"); /* WKSB */
	CHECK_EQ(wk_load_le32(slots + 4), wk_crc32c_extend(wk_crc32c(slots, 4), slots + 8, 4088));
	CHECK_HEX(slots + 8, 8, "0100000001000000");
	CHECK(memcmp(slots + 16, "directory id 16b", 16) == 0);
	CHECK_HEX(slots + 32, 24, "090000000000000003000000000000006400000000000000");
	CHECK_HEX(slots + 56, 24, "070000000000000092100000000000000500000000000000");
	CHECK_HEX(slots + 80, 32,
	          "0a000000000000001300000000000000"
	          "02000000000000000400000000000000");
	CHECK_HEX(slots + 112, 32,
	          "020000000400000001fd000000000000"
	          "905f010000000000084c010000000000");
	for (uint32_t i = 0; i < 15; i++)
		CHECK_EQ(wk_load_le32(slots + 144 + 4 * i), i + 1);
	CHECK_HEX(slots + 204, 4, "04030201");
	CHECK_HEX(slots + 208, 16, "00000000000000008877665544332211");
	for (size_t i = 224; i < 4096; i++)
		CHECK_EQ(slots[i], 0);
}

TEST(a_superblock_decodes_to_what_was_encoded) {
	write_slot(0, 9);
	wk_superblock found;
	CHECK_EQ(wk_superblock_decode(slots, &found), WK_OK);
	CHECK_EQ(found.generation, 9);
	CHECK(memcmp(found.directory_id, "directory id 16b", 16) == 0);
	CHECK_EQ(found.incarnation, 3);
	CHECK_EQ(found.file_id_ceiling, 100);
	CHECK_EQ(found.replay_epoch, 7);
	CHECK_EQ(found.replay_sequence, 4242);
	CHECK_EQ(found.index_generation, 5);
	CHECK_EQ(found.snapshots[0].first_entry, 10);
	CHECK_EQ(found.snapshots[0].last_entry, 19);
	CHECK_EQ(found.snapshots[1].first_entry, 2);
	CHECK_EQ(found.snapshots[1].last_entry, 4);
	CHECK_EQ(found.sync_method, 2);
	CHECK_EQ(found.blocks_in_flight, 4);
	wk_superblock written = a_superblock(9);
	CHECK(memcmp(&found.grid, &written.grid, sizeof found.grid) == 0);
	CHECK_EQ(found.probe_device, 0xfd01);
	CHECK_EQ(found.probe_dsync_ns, 90000);
	CHECK_EQ(found.probe_write_then_sync_ns, 85000);
	CHECK(found.clean);
	CHECK_EQ(found.closed_sequence, 0x1122334455667788);
}

TEST(only_what_was_closed_in_order_says_where_it_ended) {
	write_slot(0, 9);
	wk_store_le32(slots + 12, 0);
	refused();
	wk_store_le64(slots + 216, (uint64_t)1 << 63);
	refused();
}

TEST(only_a_ledger_store_has_accepted_a_loss) {
	wk_superblock superblock = a_superblock(9), found;
	superblock.kind = 1;
	superblock.accepted_sequence = 0x1122334455667788;
	wk_superblock_encode(&superblock, slots);
	CHECK_HEX(slots + 1248, 8, "8877665544332211");
	CHECK_EQ(wk_superblock_decode(slots, &found), WK_OK);
	CHECK_EQ(found.accepted_sequence, 0x1122334455667788);
	wk_store_le32(slots + 208, 0); /* of a directory of logs */
	refused();
	wk_store_le32(slots + 208, 1);
	wk_store_le64(slots + 1248, (uint64_t)1 << 63);
	refused();
}

TEST(no_snapshot_has_one_spelling) {
	wk_superblock superblock = a_superblock(9), found;
	superblock.snapshots[1] = (wk_snapshot_place){-1, 5};
	wk_superblock_encode(&superblock, slots);
	CHECK_EQ(wk_superblock_decode(slots, &found), WK_OK);
	CHECK_EQ(found.snapshots[1].first_entry, -1);
	CHECK_EQ(found.snapshots[1].last_entry, -1);
	wk_store_le64_signed(slots + 104, 5);
	refused();
}

TEST(a_snapshot_ends_where_it_starts_or_later) {
	write_slot(0, 9);
	wk_store_le64_signed(slots + 88, 10);
	mend(slots);
	CHECK_EQ(decoding(slots), WK_OK);
	wk_store_le64_signed(slots + 88, 9);
	refused();
	wk_store_le64_signed(slots + 80, -2);
	refused();
	wk_store_le64_signed(slots + 104, 1); /* the older one too */
	refused();
}

TEST(the_kind_is_logs_or_ledgers) {
	write_slot(0, 9);
	wk_superblock superblock = a_superblock(9);
	superblock.kind = 1;
	wk_superblock_encode(&superblock, slots);
	CHECK_HEX(slots + 208, 4, "01000000");
	wk_superblock found;
	CHECK_EQ(wk_superblock_decode(slots, &found), WK_OK);
	CHECK_EQ(found.kind, 1);
	for (size_t i = 208; i < 212; i++) {
		slots[i] = 2;
		refused();
	}
}

TEST(an_unknown_flag_or_sync_method_is_refused) {
	write_slot(0, 9);
	wk_store_le32(slots + 12, 3);
	refused();
	wk_store_le32(slots + 112, 3);
	refused();
	wk_store_le32(slots + 116, 9);
	refused();
}

TEST(unused_bytes_are_zero) {
	write_slot(0, 9);
	for (size_t i = 212; i < 4096; i++) {
		if (i >= 216 && i < 224) /* the closed sequence */
			continue;
		slots[i] = 1;
		refused();
	}
}

TEST(a_newer_version_is_unsupported_but_a_broken_version_is_corrupt) {
	write_slot(0, 9);
	wk_store_le32(slots + 8, 2);
	CHECK_EQ(decoding(slots), WK_CORRUPT); /* the checksum does not vouch for it */
	mend(slots);
	CHECK_EQ(decoding(slots), WK_UNSUPPORTED);
	slots[2000] = 1; /* a newer version may use it */
	mend(slots);
	CHECK_EQ(decoding(slots), WK_UNSUPPORTED);
	write_slot(0, 9);
	wk_store_le32(slots + 8, 0);
	refused();
}

TEST(every_flipped_bit_is_detected) {
	write_slot(0, 9);
	for (uint32_t bit = 0; bit < 4096 * 8; bit++) {
		slots[bit / 8] ^= (uint8_t)(1u << bit % 8);
		CHECK_EQ(decoding(slots), WK_CORRUPT);
		slots[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	CHECK_EQ(decoding(slots), WK_OK);
}

static uint64_t chosen_generation;
static int choosing(void) {
	wk_superblock found = {.generation = 77};
	int slot = wk_superblock_choose(slots, &found);
	chosen_generation = found.generation;
	return slot;
}

TEST(the_higher_generation_is_chosen) {
	write_slot(0, 9), write_slot(1, 10);
	CHECK_EQ(choosing(), 1);
	CHECK_EQ(chosen_generation, 10);
	write_slot(0, 11);
	CHECK_EQ(choosing(), 0);
	CHECK_EQ(chosen_generation, 11);
	write_slot(1, 11);
	CHECK_EQ(choosing(), 0);
}

TEST(a_torn_slot_leaves_the_older_one) {
	for (uint32_t torn = 0; torn < 2; torn++) {
		write_slot(torn, 10), write_slot(1 - torn, 9);
		memset(slots + torn * 4096 + 512, 0xee, 512);
		CHECK_EQ(choosing(), 1 - (int)torn);
		CHECK_EQ(chosen_generation, 9);
	}
}

TEST(with_no_valid_slot_none_is_chosen) {
	memset(slots, 0, sizeof slots);
	CHECK_EQ(choosing(), -1);
	CHECK_EQ(chosen_generation, 77);
}

TEST(beside_a_slot_of_a_newer_version_the_other_is_not_chosen) {
	for (uint32_t newer = 0; newer < 2; newer++) {
		write_slot(newer, 10), write_slot(1 - newer, 9);
		wk_store_le32(slots + newer * 4096 + 8, 2);
		mend(slots + newer * 4096);
		CHECK_EQ(choosing(), -1);
	}
}

int main(void) {
	RUN(every_field_has_its_place);
	RUN(a_superblock_decodes_to_what_was_encoded);
	RUN(only_a_ledger_store_has_accepted_a_loss);
	RUN(no_snapshot_has_one_spelling);
	RUN(a_snapshot_ends_where_it_starts_or_later);
	RUN(the_kind_is_logs_or_ledgers);
	RUN(only_what_was_closed_in_order_says_where_it_ended);
	RUN(an_unknown_flag_or_sync_method_is_refused);
	RUN(unused_bytes_are_zero);
	RUN(a_newer_version_is_unsupported_but_a_broken_version_is_corrupt);
	RUN(every_flipped_bit_is_detected);
	RUN(the_higher_generation_is_chosen);
	RUN(a_torn_slot_leaves_the_older_one);
	RUN(with_no_valid_slot_none_is_chosen);
	RUN(beside_a_slot_of_a_newer_version_the_other_is_not_chosen);
	return check_done();
}
