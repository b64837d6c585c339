/* test_id_set.c: ids sorted, each once, and found. */
/* ctest labels: one-thread */
#include "check.h"
#include "core/hosted.h"

enum { ROOM = 300000 };
static int64_t ids[ROOM], wanted[ROOM];

/* The set is what qsort makes of the same ids; each is found, and what lies beside one is not unless it is there. */
static void check_set(uint64_t count) {
	wk_id_set set;
	memcpy(wanted, ids, count * sizeof *ids);
	wk_id_set_init(&set, ids, count);
	CHECK(set.ids == ids);
	for (uint64_t i = 0; i < set.count; i++) {
		CHECK(i == 0 || set.ids[i - 1] < set.ids[i]);
		CHECK(wk_id_set_has(&set, set.ids[i]));
		if (i > 0 && set.ids[i - 1] != set.ids[i] - 1)
			CHECK(!wk_id_set_has(&set, set.ids[i] - 1));
	}
	for (uint64_t i = 0; i < count; i++)
		CHECK(wk_id_set_has(&set, wanted[i]));
	CHECK((count == 0) == (set.count == 0));
	CHECK(set.count <= count);
}

TEST(an_empty_set_has_nothing) {
	wk_id_set set;
	wk_id_set_init(&set, ids, 0);
	CHECK_EQ(set.count, 0);
	CHECK(!wk_id_set_has(&set, 0));
	CHECK(!wk_id_set_has(&set, INT64_MIN));
}

TEST(the_ends_of_a_set_are_found_and_nothing_beyond_them) {
	wk_id_set set;
	for (uint64_t count = 1; count <= 9; count++) {
		for (uint64_t i = 0; i < count; i++)
			ids[i] = (int64_t)(10 * (count - i));
		wk_id_set_init(&set, ids, count);
		CHECK_EQ(set.count, count);
		for (int64_t id = 0; id <= 10 * (int64_t)count + 10; id++)
			CHECK_EQ(wk_id_set_has(&set, id), id % 10 == 0 && id > 0 && id <= 10 * (int64_t)count);
	}
}

TEST(the_largest_numbers_are_ids_too) {
	wk_id_set set;
	memcpy(ids, (int64_t[]){INT64_MAX, 0, INT64_MIN, -1, INT64_MAX, INT64_MIN}, 6 * sizeof *ids);
	wk_id_set_init(&set, ids, 6);
	CHECK_EQ(set.count, 4);
	CHECK(wk_id_set_has(&set, INT64_MIN) && wk_id_set_has(&set, INT64_MAX));
	CHECK(wk_id_set_has(&set, -1) && wk_id_set_has(&set, 0));
	CHECK(!wk_id_set_has(&set, 1) && !wk_id_set_has(&set, INT64_MAX - 1));
}

/* Every sequence of up to seven ids below four. */
TEST(every_short_sequence_is_sorted_and_each_id_stands_once) {
	for (uint64_t count = 0; count <= 7; count++) {
		for (uint32_t choice = 0; choice < 1u << 2 * count; choice++) {
			wk_id_set set;
			uint32_t there = 0;
			for (uint64_t i = 0; i < count; i++) {
				ids[i] = choice >> 2 * i & 3;
				there |= 1u << ids[i];
			}
			wk_id_set_init(&set, ids, count);
			CHECK_EQ(set.count, __builtin_popcount(there));
			for (int64_t id = 0; id < 4; id++)
				CHECK_EQ(wk_id_set_has(&set, id), there >> id & 1);
			for (uint64_t i = 1; i < set.count; i++)
				CHECK(set.ids[i - 1] < set.ids[i]);
		}
	}
}

TEST(many_ids_in_any_order_are_sorted) {
	uint64_t seed = check_seed(51);
	for (uint32_t round = 0; round < 8; round++) {
		uint64_t count = ROOM / CHECK_PART - check_random(&seed) % 1000;
		for (uint64_t i = 0; i < count; i++) {
			uint64_t x = check_random(&seed);
			ids[i] = round == 0   ? (int64_t)i
			         : round == 1 ? (int64_t)(count - i)
			         : round == 2 ? 7
			                      : (int64_t)(x >> 8 * round);
		}
		check_set(count);
	}
}

int main(void) {
	RUN(an_empty_set_has_nothing);
	RUN(the_ends_of_a_set_are_found_and_nothing_beyond_them);
	RUN(the_largest_numbers_are_ids_too);
	RUN(every_short_sequence_is_sorted_and_each_id_stands_once);
	RUN(many_ids_in_any_order_are_sorted);
	return check_done();
}
