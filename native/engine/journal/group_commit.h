/*
 * group_commit.h: how many appends the open block waits for before it is sealed. Private.
 *
 * Callers whose appends became durable in one block are woken together, and append again at about the same time. Without a
 * wait the first of them seals a block of its own, the others stand in the next one, and each append waits for two writes.
 * So a block stays open until it holds as many appends as the last block that became durable. The wait is bounded by a
 * part of the time that a write takes here. A caller that does not return delays one block; the next target is lower. A
 * lone append does not wait.
 *
 * This is group commit by siblings, as PostgreSQL's commit_delay and commit_siblings, but measured instead of configured.
 */
#ifndef WK_ENGINE_GROUP_COMMIT_H
#define WK_ENGINE_GROUP_COMMIT_H
#include <stdbool.h>
#include <stdint.h>

enum {
	WK_GROUP_COMMIT_PART = 4, /* a block waits for at most one part in 4 of the time that a write takes */
	WK_GROUP_COMMIT_WAIT_NS_MAX = 40 *
	                              1000, /* the bound on a slow disk: callers need processor time to return, not more */
	WK_GROUP_COMMIT_MAX = 128,          /* more callers than that do not return within the bound, ... */
	WK_GROUP_COMMIT_SLEEPERS_MAX = 16   /* ... nor do they where more threads than that wait for a processor */
};

typedef struct wk_group_commit {
	uint32_t expected; /* appends that the open block waits for */
	uint64_t until_ns; /* end of the wait */
	uint64_t took_ns;  /* from the seal of a block until it is durable, smoothed; 0: not measured yet */
} wk_group_commit;

/*
 * A block with `appends` in it became durable now, `took_ns` after it was sealed. `sleepers` threads waited for it or for
 * another block.
 */
void wk_group_commit_released(wk_group_commit *group, uint32_t appends, uint32_t sleepers, uint64_t took_ns,
                              uint64_t now_ns);
/* The open block, which holds `appends`, stays open. */
static inline bool wk_group_commit_waits(const wk_group_commit *group, uint32_t appends, uint64_t now_ns) {
	return appends < group->expected && now_ns < group->until_ns;
}
#endif
