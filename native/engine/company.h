/*
 * company.h: how many appends the open block should wait for. Private.
 *
 * Appends that became durable together come back together: their callers were woken by one event. The first of them would
 * take the free slot alone, and the others stand in the next block behind it, so that each record waits for two writes.
 * So a block waits until as many are there as the last one let go, and no longer than a part of what a write takes
 * here: who does not come back costs that once, as the next block lets fewer go. One caller at a time waits for nobody.
 *
 * Group commit by siblings, as PostgreSQL's commit_delay and commit_siblings, but measured instead of configured.
 */
#ifndef WK_ENGINE_COMPANY_H
#define WK_ENGINE_COMPANY_H
#include <stdbool.h>
#include <stdint.h>

enum {
	WK_COMPANY_PART = 4,                /* of the time that a block takes, it may wait one in so many */
	WK_COMPANY_WAIT_NS_MAX = 40 * 1000, /* coming back takes processor time, however slow the disk is: */
	WK_COMPANY_MAX = 128,               /* more appends than that are not back within this ... */
	WK_COMPANY_SLEEPERS_MAX = 16        /* ... nor are any where more threads want the processors */
};

typedef struct wk_company {
	uint32_t expected; /* appends */
	uint64_t until_ns; /* they are waited for */
	uint64_t took_ns;  /* a block, from its seal until it is durable: smoothed; 0: not measured yet */
} wk_company;

/* `appends` became durable now, in a block that took so long; until then so many threads slept, for this one or others. */
void wk_company_let_go(wk_company *company, uint32_t appends, uint32_t sleepers, uint64_t took_ns, uint64_t now_ns);
/* A block with `appends` in it should stay open. */
static inline bool wk_company_is_awaited(const wk_company *company, uint32_t appends, uint64_t now_ns) {
	return appends < company->expected && now_ns < company->until_ns;
}
#endif
