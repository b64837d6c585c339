/* test_place_list.c: the list of places in the file under way, beside an array. */
/* ctest labels: one-thread */
#include "check.h"
#include "engine/index/place_list.h"

TEST(a_place_list_is_what_an_array_would_be) {
	enum { MANY = 6000 };
	static wk_footer_item expected[MANY];
	for (uint64_t seed = 1; seed <= 6; seed++) {
		uint64_t random = seed;
		memset(expected, 0, sizeof expected);
		wk_place_list *list = wk_place_list_new();
		uint32_t count = 0, runs = 0, bytes = 0;
		for (int i = 0; i < 5000; i++) {
			int64_t ascending = i + (int64_t)(check_random(&random) % 40),
			        anywhere = (int64_t)(check_random(&random) % MANY);
			int64_t id = seed == 1 ? i : seed == 2 ? 5000 - i : seed == 3 ? ascending : anywhere;
			wk_footer_item item = {(uint32_t)check_random(&random), 1 + (uint32_t)(check_random(&random) % 1000)},
			               earlier;
			CHECK(wk_place_list_put(list, id, item, &earlier));
			CHECK(earlier.size == expected[id].size && earlier.offset == expected[id].offset);
			expected[id] = item;
		}
		wk_place_cursor cursor;
		const wk_place *place = wk_place_list_seek(list, 0, &cursor);
		for (int64_t id = 0; id < MANY; id++) {
			wk_place_cursor at;
			CHECK_EQ(wk_place_list_before(list, id), count);
			CHECK(wk_place_list_seek(list, id, &at) == place);
			if (expected[id].size == 0)
				continue;
			CHECK(place != NULL);
			CHECK_EQ(place->entry_id, id);
			CHECK(place->item.offset == expected[id].offset && place->item.size == expected[id].size);
			runs += id == 0 || expected[id - 1].size == 0;
			count++;
			bytes += expected[id].size;
			place = wk_place_list_next(list, &cursor);
		}
		CHECK(place == NULL);
		CHECK_EQ(list->count, count);
		CHECK_EQ(list->runs_count, runs);
		CHECK_EQ(list->bytes, bytes);
		CHECK(list->chunks_count >= count / WK_PLACE_CHUNK);
		wk_place_list_free(list);
	}
}

/* Most have a place or two, which stand elsewhere than many. */
TEST(a_short_place_list_is_what_an_array_would_be) {
	enum { IDS = 8 };
	uint64_t random = 7;
	for (int round = 0; round < 3000; round++) {
		wk_footer_item expected[IDS] = {0}, earlier;
		wk_place_list *list = wk_place_list_new();
		CHECK_EQ(wk_place_list_before(list, 3), 0);
		for (uint64_t puts = check_random(&random) % 7; puts > 0; puts--) {
			int64_t id = (int64_t)(check_random(&random) % IDS);
			wk_footer_item item = {(uint32_t)check_random(&random), 1 + (uint32_t)(check_random(&random) % 1000)};
			CHECK(wk_place_list_put(list, id, item, &earlier));
			CHECK(earlier.size == expected[id].size && earlier.offset == expected[id].offset);
			expected[id] = item;
			wk_place_list_prefetch(list);
		}
		uint32_t count = 0, runs = 0, bytes = 0;
		for (int64_t from = 0; from <= IDS; from++) {
			wk_place_cursor cursor;
			const wk_place *place = wk_place_list_seek(list, from, &cursor);
			CHECK_EQ(wk_place_list_before(list, from), count);
			for (int64_t id = from; id < IDS; id++) {
				if (expected[id].size == 0)
					continue;
				CHECK(place != NULL && place->entry_id == id);
				CHECK(place->item.offset == expected[id].offset && place->item.size == expected[id].size);
				place = wk_place_list_next(list, &cursor);
			}
			CHECK(place == NULL);
			if (from == IDS || expected[from].size == 0)
				continue;
			runs += from == 0 || expected[from - 1].size == 0;
			bytes += expected[from].size;
			count++;
		}
		CHECK(list->count == count && list->runs_count == runs && list->bytes == bytes);
		CHECK_EQ(wk_place_list_memory(list) > sizeof *list, count > 1);
		wk_place_list_free(list);
	}
}

int main(void) {
	RUN(a_place_list_is_what_an_array_would_be);
	RUN(a_short_place_list_is_what_an_array_would_be);
	return check_done();
}
