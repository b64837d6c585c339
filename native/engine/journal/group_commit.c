#include "engine/journal/group_commit.h"

enum { SMOOTHING = 8 };

void wk_group_commit_released(wk_group_commit *group, uint32_t appends, uint32_t sleepers, uint64_t took_ns,
                              uint64_t now_ns) {
	int64_t difference = (int64_t)took_ns - (int64_t)group->took_ns;
	group->took_ns += (uint64_t)(group->took_ns == 0 ? difference : difference / SMOOTHING);
	uint64_t wait = group->took_ns / WK_GROUP_COMMIT_PART;
	bool can_be_back = appends <= WK_GROUP_COMMIT_MAX && sleepers <= WK_GROUP_COMMIT_SLEEPERS_MAX;
	group->expected = can_be_back ? appends : 0;
	group->until_ns = now_ns + (wait < WK_GROUP_COMMIT_WAIT_NS_MAX ? wait : WK_GROUP_COMMIT_WAIT_NS_MAX);
}
