/* test_hosted.c: the table of hosted ledgers, what it says of LACs, and how it learns a ledger's digest. */
/* ctest labels: one-thread */
#include "check.h"
#include "core/hosted.h"
#include "core/wire.h"

enum { ROOM = 1 << 18 };
static wk_hosted_ledgers table;
static wk_hosted_ledger *room, *other_room, *old;

static void open_table(uint32_t capacity) {
	CHECK_EQ(wk_hosted_init(&table, room, capacity), WK_OK);
}

static wk_hosted_ledger *put(int64_t id) {
	wk_hosted_ledger *found = NULL;
	CHECK_EQ(wk_hosted_put(&table, id, &found), WK_OK);
	CHECK_EQ(found->ledger_id, id);
	return found;
}

/* The slot that an id would have in an empty table of this capacity, with the seed of `table`. */
static uint32_t wanted_slot(int64_t id, uint32_t capacity) {
	static wk_hosted_ledger slots[1024];
	static wk_hosted_ledgers empty;
	wk_hosted_ledger *found = NULL;
	if (empty.capacity != capacity)
		CHECK_EQ(wk_hosted_init(&empty, slots, capacity), WK_OK);
	CHECK_EQ(wk_hosted_seed(&empty, table.seed), WK_OK);
	CHECK_EQ(wk_hosted_put(&empty, id, &found), WK_OK);
	uint32_t slot = (uint32_t)(found - slots);
	CHECK_EQ(wk_hosted_remove(&empty, id), WK_OK);
	return slot;
}

/* The first id from `id` on that wants this slot. */
static int64_t id_for(uint32_t slot, int64_t id, uint32_t capacity) {
	while (wanted_slot(id, capacity) != slot)
		id++;
	return id;
}

TEST(a_capacity_is_a_power_of_two_and_at_least_16) {
	CHECK_EQ(wk_hosted_init(&table, room, 0), WK_INVALID);
	CHECK_EQ(wk_hosted_init(&table, room, 8), WK_INVALID);
	CHECK_EQ(wk_hosted_init(&table, room, 24), WK_INVALID);
	open_table(16);
	CHECK_EQ(table.count, 0);
	CHECK_EQ(wk_hosted_grow(&table, other_room, 48, &old), WK_INVALID);
	CHECK_EQ(wk_hosted_grow(&table, other_room, 8, &old), WK_INVALID);
}

TEST(of_a_new_ledger_nothing_is_known) {
	open_table(16);
	CHECK(wk_hosted_find(&table, 7) == NULL);
	const wk_hosted_ledger *ledger = put(7);
	CHECK_EQ(ledger->lac, WK_LAC_NONE);
	CHECK_EQ(ledger->lac_ms, 0);
	CHECK_EQ(ledger->first_poll, WK_NO_POLL);
	CHECK_EQ(ledger->digest, WK_DIGEST_UNKNOWN);
	CHECK(!ledger->lac_known);
	CHECK(wk_hosted_find(&table, 7) == ledger);
	CHECK(put(7) == ledger);
	CHECK_EQ(table.count, 1);
	put(0);
	put(INT64_MAX);
	CHECK_EQ(wk_hosted_find(&table, 0)->ledger_id, 0);
	CHECK_EQ(wk_hosted_find(&table, INT64_MAX)->ledger_id, INT64_MAX);
}

TEST(no_ledger_has_an_id_below_0) {
	wk_hosted_ledger *found = NULL;
	open_table(16);
	CHECK_EQ(wk_hosted_put(&table, -1, &found), WK_INVALID);
	CHECK_EQ(wk_hosted_put(&table, INT64_MIN, &found), WK_INVALID);
	CHECK(wk_hosted_find(&table, -1) == NULL); /* although free slots say -1 */
	CHECK_EQ(wk_hosted_remove(&table, -1), WK_NOT_FOUND);
	CHECK_EQ(table.count, 0);
}

TEST(three_quarters_are_full_and_growing_keeps_everything) {
	wk_hosted_ledger *found = NULL;
	open_table(16);
	for (int64_t id = 0; id < 12; id++)
		wk_hosted_raise(put(id), id * 10, 1000 + id);
	CHECK_EQ(wk_hosted_put(&table, 12, &found), WK_FULL);
	CHECK_EQ(wk_hosted_put(&table, 11, &found), WK_OK); /* what is there is found in a full table */
	CHECK(wk_hosted_find(&table, 12) == NULL);
	CHECK_EQ(table.count, 12);

	CHECK_EQ(wk_hosted_grow(&table, other_room, 32, &old), WK_OK);
	CHECK(old == room);
	memset(room, 0xee, 16 * sizeof *room);
	CHECK_EQ(table.capacity, 32);
	put(12);
	for (int64_t id = 0; id < 12; id++) {
		CHECK_EQ(wk_hosted_find(&table, id)->lac, id * 10);
		CHECK_EQ(wk_hosted_find(&table, id)->lac_ms, 1000 + id);
	}
	CHECK_EQ(wk_hosted_grow(&table, room, 16, &old), WK_INVALID); /* 13 of 16 */
	CHECK_EQ(wk_hosted_remove(&table, 12), WK_OK);
	CHECK_EQ(wk_hosted_grow(&table, room, 16, &old), WK_OK); /* it may shrink */
	CHECK(old == other_room);
	for (int64_t id = 0; id < 12; id++)
		CHECK_EQ(wk_hosted_find(&table, id)->lac, id * 10);
}

TEST(a_removed_ledger_is_gone_and_comes_back_as_new) {
	open_table(16);
	wk_hosted_ledger *ledger = put(3);
	wk_hosted_raise(ledger, 8, 99);
	ledger->digest = WK_DIGEST_CRC32;
	ledger->lac_known = true;
	CHECK_EQ(wk_hosted_remove(&table, 4), WK_NOT_FOUND);
	CHECK_EQ(wk_hosted_remove(&table, 3), WK_OK);
	CHECK_EQ(wk_hosted_remove(&table, 3), WK_NOT_FOUND);
	CHECK(wk_hosted_find(&table, 3) == NULL);
	CHECK_EQ(table.count, 0);
	ledger = put(3);
	CHECK_EQ(ledger->lac, WK_LAC_NONE);
	CHECK_EQ(ledger->lac_ms, 0);
	CHECK_EQ(ledger->digest, WK_DIGEST_UNKNOWN);
	CHECK(!ledger->lac_known);
}

TEST(a_ledger_that_someone_waits_for_is_not_removed) {
	open_table(16);
	put(3)->first_poll = 0;
	CHECK_EQ(wk_hosted_remove(&table, 3), WK_INVALID);
	CHECK(wk_hosted_find(&table, 3) != NULL);
	wk_hosted_find(&table, 3)->first_poll = WK_NO_POLL;
	CHECK_EQ(wk_hosted_remove(&table, 3), WK_OK);
}

/* Every arrangement of ids that want one of the last two slots or the first two, each removed in turn: what stands
 * behind the hole moves up, round the end of the table too, unless it stands where it wants to. */
TEST(what_stands_behind_a_removed_one_is_still_found) {
	enum { ARRANGED = 5, SLOTS = 16 };
	int64_t ids[4][ARRANGED];
	open_table(SLOTS);
	for (uint32_t slot = 0; slot < 4; slot++) {
		for (uint32_t i = 0; i < ARRANGED; i++)
			ids[slot][i] = id_for((slot + SLOTS - 2) % SLOTS, i == 0 ? 0 : ids[slot][i - 1] + 1, SLOTS);
	}
	for (uint32_t choice = 0; choice < 1 << 2 * ARRANGED; choice++) {
		for (uint32_t removed = 0; removed < ARRANGED; removed++) {
			open_table(SLOTS);
			for (uint32_t i = 0; i < ARRANGED; i++)
				wk_hosted_raise(put(ids[choice >> 2 * i & 3][i]), (int64_t)i, 1);
			CHECK_EQ(wk_hosted_remove(&table, ids[choice >> 2 * removed & 3][removed]), WK_OK);
			for (uint32_t i = 0; i < ARRANGED; i++) {
				const wk_hosted_ledger *found = wk_hosted_find(&table, ids[choice >> 2 * i & 3][i]);
				CHECK((found != NULL) == (i != removed));
				CHECK(found == NULL || found->lac == (int64_t)i);
			}
			uint32_t used = 0;
			for (uint32_t i = 0; i < SLOTS; i++)
				used += table.slots[i].ledger_id != -1;
			CHECK_EQ(used, ARRANGED - 1);
		}
	}
}

TEST(ids_that_all_want_one_slot_are_kept_apart) {
	enum { SLOTS = 64, COUNT = 48 };
	int64_t ids[COUNT];
	open_table(SLOTS);
	for (uint32_t i = 0; i < COUNT; i++)
		ids[i] = id_for(61, i == 0 ? 0 : ids[i - 1] + 1, SLOTS);
	for (uint32_t i = 0; i < COUNT; i++)
		wk_hosted_raise(put(ids[i]), (int64_t)i, 1);
	CHECK(wk_hosted_find(&table, id_for(61, ids[COUNT - 1] + 1, SLOTS)) == NULL);
	uint64_t seed = check_seed(41);
	for (uint32_t left = COUNT; left > 0; left--) {
		uint32_t gone = (uint32_t)(check_random(&seed) % left);
		CHECK_EQ(wk_hosted_remove(&table, ids[gone]), WK_OK);
		CHECK(wk_hosted_find(&table, ids[gone]) == NULL);
		for (uint32_t i = gone; i + 1 < left; i++)
			ids[i] = ids[i + 1];
		for (uint32_t i = 0; i + 1 < left; i++)
			CHECK(wk_hosted_find(&table, ids[i]) != NULL);
	}
	CHECK_EQ(table.count, 0);
}

TEST(a_seed_parts_ids_that_were_chosen_to_collide) {
	enum { SLOTS = 1024, COUNT = 40 };
	int64_t ids[COUNT];
	open_table(SLOTS);
	for (uint32_t i = 0; i < COUNT; i++)
		ids[i] = id_for(5, i == 0 ? 0 : ids[i - 1] + 1, SLOTS);
	uint64_t seed = check_seed(42);
	for (uint32_t round = 0; round < 100; round++) {
		uint32_t together = 0;
		open_table(SLOTS);
		CHECK_EQ(wk_hosted_seed(&table, check_random(&seed) | 2), WK_OK);
		uint32_t first = wanted_slot(ids[0], SLOTS);
		for (uint32_t i = 1; i < COUNT; i++)
			together += wanted_slot(ids[i], SLOTS) == first;
		CHECK(together <= 4); /* by chance one of 26 such tables has a single one */
	}
	put(1);
	CHECK_EQ(wk_hosted_seed(&table, 1), WK_INVALID); /* what is there would not be found again */
	CHECK(wk_hosted_find(&table, 1) != NULL);
}

/* The distance of each ledger from the slot that it wants, all together, where ids follow a pattern. */
static uint64_t distances(int64_t first, int64_t step) {
	enum { SLOTS = 1024, COUNT = 768 };
	uint64_t sum = 0;
	open_table(SLOTS);
	for (int64_t i = 0; i < COUNT; i++)
		put(first + i * step);
	for (uint32_t i = 0; i < SLOTS; i++) {
		if (room[i].ledger_id >= 0)
			sum += (i - wanted_slot(room[i].ledger_id, SLOTS)) & (SLOTS - 1);
	}
	return sum;
}

/* Random ids in a table that is 3/4 full stand 1.5 slots from where they want to, on average: 1,150 together. */
TEST(ids_in_a_pattern_are_spread_as_random_ones_are) {
	CHECK(distances(0, 1) < 4000);
	CHECK(distances(1000000, 1) < 4000);
	CHECK(distances(0, 1024) < 4000);
	CHECK(distances(7, 4096 * 3) < 4000);
	for (int shift = 8; shift <= 53; shift++)
		CHECK(distances(3, INT64_C(1) << shift) < 4000);
}

TEST(a_hundred_thousand_ledgers_come_and_go) {
	enum { COUNT = 100000, FIRST_ROOM = 16 };
	uint64_t seed = check_seed(43), secret = check_random(&seed);
	open_table(FIRST_ROOM);
	CHECK_EQ(wk_hosted_seed(&table, secret), WK_OK);
	wk_hosted_ledger *spare = other_room;
	for (int64_t i = 0; i < COUNT; i++) {
		int64_t id = i * 3;
		wk_hosted_ledger *found = NULL;
		if (wk_hosted_put(&table, id, &found) == WK_FULL) {
			CHECK_EQ(table.count, table.capacity * 4 / 5);
			CHECK_EQ(wk_hosted_grow(&table, spare, table.capacity * 2, &spare), WK_OK);
			found = put(id);
		}
		CHECK(wk_hosted_raise(found, i, i + 1));
	}
	CHECK_EQ(table.count, COUNT);
	CHECK_EQ(table.seed, secret); /* the grown table has it too */
	for (int64_t i = 0; i < COUNT; i += 2)
		CHECK_EQ(wk_hosted_remove(&table, i * 3), WK_OK);
	for (int64_t i = 0; i < COUNT; i++) {
		const wk_hosted_ledger *found = wk_hosted_find(&table, i * 3);
		CHECK(i % 2 == 0 ? found == NULL : found->lac == i && found->lac_ms == i + 1);
		CHECK(wk_hosted_find(&table, i * 3 + 1) == NULL);
	}
	CHECK_EQ(table.count, COUNT / 2);
}

TEST(after_any_calls_the_table_holds_what_was_put_and_not_removed) {
	enum { IDS = 40, STEPS = 200000 / CHECK_PART };
	bool there[IDS] = {false};
	int64_t lacs[IDS], ids[IDS];
	uint64_t seed = check_seed(44);
	wk_hosted_ledger *spare = other_room;
	open_table(16);
	for (uint32_t i = 0; i < IDS; i++)
		ids[i] = (int64_t)(check_random(&seed) >> 1 >> check_random(&seed) % 60) / IDS * IDS + i;
	uint32_t count = 0;
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t i = (uint32_t)(check_random(&seed) % IDS), choice = (uint32_t)(check_random(&seed) % 8);
		wk_hosted_ledger *found = NULL;
		if (choice < 3) {
			wk_status status = wk_hosted_put(&table, ids[i], &found);
			CHECK_EQ(status, there[i] || count < table.capacity * 4 / 5 ? WK_OK : WK_FULL);
			if (status == WK_OK && !there[i]) {
				CHECK_EQ(found->lac, WK_LAC_NONE);
				there[i] = true, lacs[i] = -1, count++;
			}
		} else if (choice < 6) {
			CHECK_EQ(wk_hosted_remove(&table, ids[i]), there[i] ? WK_OK : WK_NOT_FOUND);
			count -= there[i];
			there[i] = false;
		} else if (choice == 6 && there[i]) {
			int64_t lac = (int64_t)(check_random(&seed) % 100);
			CHECK_EQ(wk_hosted_raise(wk_hosted_find(&table, ids[i]), lac, 5), lac > lacs[i]);
			lacs[i] = lac > lacs[i] ? lac : lacs[i];
		} else if (check_random(&seed) % 50 == 0) {
			uint32_t capacity = 16u << check_random(&seed) % 3;
			if (wk_hosted_grow(&table, spare, capacity, &spare) != WK_OK)
				CHECK(count * 4 > capacity * 3);
		}
		CHECK_EQ(table.count, count);
		for (uint32_t k = 0; k < IDS; k++) {
			found = wk_hosted_find(&table, ids[k]);
			CHECK((found != NULL) == there[k]);
			CHECK(found == NULL || (found->ledger_id == ids[k] && found->lac == lacs[k]));
		}
	}
}

TEST(the_LAC_rises_and_never_falls) {
	open_table(16);
	wk_hosted_ledger *ledger = put(1);
	CHECK(!wk_hosted_raise(ledger, -1, 100));
	CHECK(!wk_hosted_raise(ledger, INT64_MIN, 100));
	CHECK_EQ(ledger->lac_ms, 0);
	CHECK(wk_hosted_raise(ledger, 0, 100));
	CHECK(wk_hosted_raise(ledger, 5, 200));
	CHECK(!wk_hosted_raise(ledger, 5, 300));
	CHECK(!wk_hosted_raise(ledger, 4, 300));
	CHECK_EQ(ledger->lac, 5);
	CHECK_EQ(ledger->lac_ms, 200);                  /* of the call that raised it */
	CHECK(wk_hosted_raise(ledger, INT64_MAX, 150)); /* a clock may go back */
	CHECK_EQ(ledger->lac, INT64_MAX);
	CHECK_EQ(ledger->lac_ms, 150);
	CHECK(!wk_hosted_raise(ledger, 6, 400));
}

/* ---- digests ---- */

/* Entry 0 of ledger 1, LAC -1, length 5, payload "hello", with each digest: vectors of Apache BookKeeper. */
#define HEADER "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\5"
static const char with_crc32c[] = HEADER "\xe3\xa5\xf7\x4d"
                                         "hello";
static const char with_crc32[] = HEADER "\0\0\0\0\x30\xa5\x68\x72"
                                        "hello";
static const char with_mac[] = HEADER "\x1f\xc1\x0b\x7e\xf2\x5d\xdc\x35\x68\x69\x04\x65\x46\x53\x86\x2d\xeb\x5d\x29\x33"
                                      "hello";
static const char with_none[] = HEADER "hello";
static const char header_alone[] = HEADER;

#define VERIFY(ledger, entry) verify(ledger, entry, sizeof(entry) - 1)
static wk_digest_verdict verify(wk_hosted_ledger *ledger, const char *entry, size_t size) {
	uint8_t *copy = check_exact_copy(entry, size);
	wk_digest_verdict verdict = wk_hosted_verify(ledger, copy, size);
	free(copy);
	return verdict;
}

TEST(the_first_entry_teaches_the_digest) {
	open_table(16);
	CHECK_EQ(VERIFY(put(1), with_crc32c), WK_DIGEST_ACCEPT);
	CHECK_EQ(put(1)->digest, WK_DIGEST_CRC32C);
	CHECK_EQ(VERIFY(put(2), with_crc32), WK_DIGEST_ACCEPT);
	CHECK_EQ(put(2)->digest, WK_DIGEST_CRC32);
	CHECK_EQ(VERIFY(put(3), with_mac), WK_DIGEST_ACCEPT);
	CHECK_EQ(put(3)->digest, WK_DIGEST_DUMMY);
	CHECK_EQ(VERIFY(put(4), with_none), WK_DIGEST_ACCEPT);
	CHECK_EQ(put(4)->digest, WK_DIGEST_DUMMY);
	CHECK_EQ(VERIFY(put(5), header_alone), WK_DIGEST_ACCEPT);
	CHECK_EQ(put(5)->digest, WK_DIGEST_DUMMY);
	CHECK_EQ(VERIFY(put(6), ""), WK_DIGEST_ACCEPT);
	CHECK_EQ(put(6)->digest, WK_DIGEST_DUMMY);
}

TEST(what_does_not_match_a_learned_digest_is_refused) {
	open_table(16);
	for (int flipped = 0; flipped < (int)sizeof with_crc32c - 1; flipped++) {
		char damaged[sizeof with_crc32c];
		memcpy(damaged, with_crc32c, sizeof damaged);
		damaged[flipped] ^= 4;
		VERIFY(put(1), with_crc32c);
		CHECK_EQ(verify(put(1), damaged, sizeof damaged - 1), WK_DIGEST_MISMATCH);
	}
	CHECK_EQ(VERIFY(put(1), with_crc32), WK_DIGEST_MISMATCH);
	CHECK_EQ(VERIFY(put(1), with_mac), WK_DIGEST_MISMATCH);
	CHECK_EQ(VERIFY(put(1), header_alone), WK_DIGEST_MISMATCH);
	CHECK_EQ(VERIFY(put(1), ""), WK_DIGEST_MISMATCH);
	CHECK_EQ(put(1)->digest, WK_DIGEST_CRC32C); /* none of them taught anything */
	CHECK_EQ(VERIFY(put(1), with_crc32c), WK_DIGEST_ACCEPT);

	for (int flipped = 0; flipped < (int)sizeof with_crc32 - 1; flipped++) {
		char damaged[sizeof with_crc32];
		memcpy(damaged, with_crc32, sizeof damaged);
		damaged[flipped] ^= 4;
		VERIFY(put(2), with_crc32);
		CHECK_EQ(verify(put(2), damaged, sizeof damaged - 1), WK_DIGEST_MISMATCH);
	}
	CHECK_EQ(VERIFY(put(2), with_crc32c), WK_DIGEST_MISMATCH);
	CHECK_EQ(VERIFY(put(2), with_crc32), WK_DIGEST_ACCEPT);
}

TEST(where_nothing_can_be_verified_nothing_is_refused) {
	open_table(16);
	VERIFY(put(1), with_mac);
	CHECK_EQ(VERIFY(put(1), with_none), WK_DIGEST_ACCEPT);
	CHECK_EQ(VERIFY(put(1), with_crc32c), WK_DIGEST_ACCEPT); /* by chance; the first entry decided */
	CHECK_EQ(VERIFY(put(1), with_mac), WK_DIGEST_ACCEPT);
	CHECK_EQ(VERIFY(put(1), ""), WK_DIGEST_ACCEPT);
	CHECK_EQ(put(1)->digest, WK_DIGEST_DUMMY);
	put(2)->digest = WK_DIGEST_MAC; /* who knows it from elsewhere may say so */
	CHECK_EQ(VERIFY(put(2), with_none), WK_DIGEST_ACCEPT);
	CHECK_EQ(put(2)->digest, WK_DIGEST_MAC);
}

int main(void) {
	room = malloc(ROOM * sizeof *room);
	other_room = malloc(ROOM * sizeof *other_room);
	CHECK(room != NULL && other_room != NULL);
	RUN(a_capacity_is_a_power_of_two_and_at_least_16);
	RUN(of_a_new_ledger_nothing_is_known);
	RUN(no_ledger_has_an_id_below_0);
	RUN(three_quarters_are_full_and_growing_keeps_everything);
	RUN(a_removed_ledger_is_gone_and_comes_back_as_new);
	RUN(a_ledger_that_someone_waits_for_is_not_removed);
	RUN(what_stands_behind_a_removed_one_is_still_found);
	RUN(ids_that_all_want_one_slot_are_kept_apart);
	RUN(a_seed_parts_ids_that_were_chosen_to_collide);
	RUN(ids_in_a_pattern_are_spread_as_random_ones_are);
	RUN(a_hundred_thousand_ledgers_come_and_go);
	RUN(after_any_calls_the_table_holds_what_was_put_and_not_removed);
	RUN(the_LAC_rises_and_never_falls);
	RUN(the_first_entry_teaches_the_digest);
	RUN(what_does_not_match_a_learned_digest_is_refused);
	RUN(where_nothing_can_be_verified_nothing_is_refused);
	free(room);
	free(other_room);
	return check_done();
}
