/*
 * budgets.h: how much a bookie lets wait, and for whom some is always left. Pure: counts come in, the answer goes out; the
 * queues that are counted are the caller's. docs/bookie-rules.md, rule 4.
 *
 * Nobody is in the way of who asks for little: a connection that has nothing under way is heard whatever others have. And
 * what a recovery asks for (a fence, the LAC) has a part of its own, which ordinary reads cannot use up.
 */
#ifndef WK_CORE_BUDGETS_H
#define WK_CORE_BUDGETS_H
#include "walkeeper/core.h"

enum {
	WK_PEER_READS_MAX = 1024,    /* reads and forces of one connection that are not answered: then it stalls */
	WK_FORCES_MAX = 65536,       /* of all connections: then whoever waits for an answer stalls with the next */
	WK_PASS_BYTES_MAX = 1 << 20, /* of recovery adds, before a writer that waits for room has its turn */
};

typedef struct wk_budget_limits {
	uint64_t reads_max;      /* that wait, of all connections */
	uint64_t reply_bytes;    /* of answers that are not sent */
	uint64_t frame_size_max; /* so large an answer may become */
} wk_budget_limits;

/* What all connections have under way. */
typedef struct wk_budget_load {
	uint64_t waiting; /* reads that wait for their turn, of ... */
	uint64_t readers; /* ... so many connections */
	uint64_t held;    /* requests that wait until something is durable: fences, lists, and what seemed to be absent */
	uint64_t spared;  /* of both, those that were admitted to what is left for recoveries */
	uint64_t running; /* reads */
	uint64_t reply_bytes; /* answers that are not sent */
	uint64_t forces;      /* that are not answered */
	uint64_t passed;      /* bytes of recovery adds that were accepted since a writer's was, while some wait for room */
} wk_budget_load;

/* What the connection that asks has. */
typedef struct wk_budget_own {
	uint32_t reads;   /* reads and forces that are not answered; of the reads ... */
	uint32_t waiting; /* ... so many wait for their turn, and */
	uint32_t running; /* are being read */
} wk_budget_own;

/* Whose request it is: readers send READ_LACs as well, so they have half of what is left for recoveries, and no more. */
typedef enum wk_budget_need { WK_NEED_ORDINARY = 0, WK_NEED_LAC = 1, WK_NEED_FENCE = 2 } wk_budget_need;
typedef enum wk_budget_verdict {
	WK_BUDGET_REFUSED = 0,
	WK_BUDGET_ADMITTED = 1,
	WK_BUDGET_SPARED = 2, /* admitted to what is left for recoveries: load.spared is one more for as long as it waits */
} wk_budget_verdict;

/* So many requests of a recovery find room beyond reads_max. */
uint64_t wk_budget_for_recoveries(const wk_budget_limits *limits);
/* One more read that would wait for its turn. Each connection has its share of the turns. */
wk_budget_verdict wk_budget_turn(const wk_budget_limits *limits, const wk_budget_load *load, const wk_budget_own *own,
                                 wk_budget_need need);
/* One more request that would wait until something is durable. */
wk_budget_verdict wk_budget_hold(const wk_budget_limits *limits, const wk_budget_load *load, const wk_budget_own *own,
                                 wk_budget_need need);
/*
 * Recovery adds come before writers that wait for room in the journal: WK_PASS_BYTES_MAX of them, then writers come first
 * until one has found some.
 */
bool wk_budget_recoveries_pass(const wk_budget_load *load);
/* A force waits before it is looked at: forces take no room in the journal, which bounds all else that waits for it. */
bool wk_budget_stalls_force(const wk_budget_load *load, const wk_budget_own *own);

/* Nothing more of the connection is looked at, whatever it asks for. */
typedef enum wk_budget_excess {
	WK_EXCESS_NONE = 0,
	WK_EXCESS_UNSENT = 1, /* it does not take its answers; or others do not, and it has some as well */
	WK_EXCESS_READS = 2,
} wk_budget_excess;
/* `unsent`: bytes of its answers. */
wk_budget_excess wk_budget_excess_of(const wk_budget_limits *limits, const wk_budget_load *load,
                                     const wk_budget_own *own, uint64_t unsent);
/* Of the memory for answers, what one connection may fill: a 16th, and 8 MiB at least. */
uint64_t wk_budget_share(const wk_budget_limits *limits);
/*
 * Of that memory, what those may fill that have answers unsent, and large answers: three quarters. The rest is for small
 * ones to those that take theirs.
 */
uint64_t wk_budget_common(const wk_budget_limits *limits);
/* There is memory for the answer to the connection's next read. `large`: it was found to be. */
bool wk_budget_may_read(const wk_budget_limits *limits, const wk_budget_load *load, const wk_budget_own *own,
                        uint64_t unsent, bool large);
#endif
