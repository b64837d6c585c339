/* test_availability.c: the bytes that tell which entries of a ledger a bookie has. */
#include "wire_bytes.h"

TEST(the_head_tells_how_many_groups_follow) {
	uint8_t head[WK_AVAILABILITY_HEAD_SIZE];
	memset(head, 0xee, sizeof head);
	wk_availability_head(0x01020304, head);
	CHECK_HEX(head, 8, "0000000001020304");
	for (size_t i = 8; i < sizeof head; i++)
		CHECK_EQ(head[i], 0);
}

TEST(a_run_is_a_group_that_holds_one_sequence) {
	uint8_t run[WK_AVAILABILITY_GROUP_SIZE];
	memset(run, 0xee, sizeof run);
	wk_availability_run(3, 12, run);
	CHECK_HEX(run, sizeof run, "000000000000000300000000000000030000000a00000000");
	wk_availability_run(0, 0, run);
	CHECK_HEX(run, sizeof run, "000000000000000000000000000000000000000100000000");
}

TEST(the_longest_run_is_as_long_as_its_size_can_say) {
	uint8_t run[WK_AVAILABILITY_GROUP_SIZE];
	wk_availability_run(INT64_MAX - (INT32_MAX - 1), INT64_MAX, run);
	CHECK_HEX(run, sizeof run, "7fffffff800000017fffffff800000017fffffff00000000");
}

int main(void) {
	RUN(the_head_tells_how_many_groups_follow);
	RUN(a_run_is_a_group_that_holds_one_sequence);
	RUN(the_longest_run_is_as_long_as_its_size_can_say);
	return check_done();
}
