/* test_availability.c: the bytes that tell which entries of a ledger a bookie has. */
/* ctest labels: one-thread */
#include "wire_bytes.h"

TEST(the_head_tells_how_many_groups_follow) {
	uint8_t head[WK_AVAILABILITY_HEAD_SIZE];
	memset(head, 0xee, sizeof head);
	wk_availability_head(0x01020304, head);
	CHECK_HEX(head, 8, "0000000001020304");
	for (size_t i = 8; i < sizeof head; i++)
		CHECK_EQ(head[i], 0);
}

static const uint8_t *encoded(const wk_availability_group *group) {
	static uint8_t group_bytes[WK_AVAILABILITY_GROUP_SIZE];
	memset(group_bytes, 0xee, sizeof group_bytes);
	wk_availability_group_encode(group, group_bytes);
	return group_bytes;
}

TEST(a_run_is_a_group_without_a_period) {
	wk_availability_group group = {0};
	CHECK(wk_availability_extend(&group, 3, 12));
	CHECK_HEX(encoded(&group), WK_AVAILABILITY_GROUP_SIZE, "000000000000000300000000000000030000000a00000000");
	group = (wk_availability_group){0};
	CHECK(wk_availability_extend(&group, 0, 0));
	CHECK_HEX(encoded(&group), WK_AVAILABILITY_GROUP_SIZE, "000000000000000000000000000000000000000100000000");
}

TEST(the_longest_run_is_as_long_as_its_size_can_say) {
	wk_availability_group group = {0};
	CHECK(wk_availability_extend(&group, INT64_MAX - (INT32_MAX - 1), INT64_MAX));
	CHECK_HEX(encoded(&group), WK_AVAILABILITY_GROUP_SIZE, "7fffffff800000017fffffff800000017fffffff00000000");
}

TEST(runs_of_one_size_at_one_distance_are_one_group) {
	wk_availability_group group = {0};
	CHECK(wk_availability_extend(&group, 1, 2));
	CHECK(wk_availability_extend(&group, 4, 5));
	CHECK(wk_availability_extend(&group, 7, 8));
	CHECK(!wk_availability_extend(&group, 10, 10)); /* shorter */
	CHECK(!wk_availability_extend(&group, 11, 12)); /* farther */
	CHECK(wk_availability_extend(&group, 10, 11));
	CHECK_HEX(encoded(&group), WK_AVAILABILITY_GROUP_SIZE, "0000000000000001000000000000000a0000000200000003");
}

TEST(a_period_is_as_long_as_31_bits_can_say) {
	wk_availability_group group = {0};
	CHECK(wk_availability_extend(&group, 5, 5));
	CHECK(!wk_availability_extend(&group, 6 + (int64_t)INT32_MAX, 6 + (int64_t)INT32_MAX));
	CHECK(wk_availability_extend(&group, 5 + (int64_t)INT32_MAX, 5 + (int64_t)INT32_MAX));
	CHECK_HEX(encoded(&group), WK_AVAILABILITY_GROUP_SIZE, "00000000000000050000000080000004000000017fffffff");
}

int main(void) {
	RUN(the_head_tells_how_many_groups_follow);
	RUN(a_run_is_a_group_without_a_period);
	RUN(the_longest_run_is_as_long_as_its_size_can_say);
	RUN(runs_of_one_size_at_one_distance_are_one_group);
	RUN(a_period_is_as_long_as_31_bits_can_say);
	return check_done();
}
