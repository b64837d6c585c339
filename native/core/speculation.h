/*
 * speculation.h: when a read is sent to a second bookie though the first may still answer. Pure: the caller has the clock.
 *
 * Of each bookie the mean of its reads' latencies is kept, and their mean deviation, as TCP does for its retransmissions
 * (RFC 6298). A read that waits longer than the mean and four deviations of the best other bookie is sent to that one, too.
 * A budget holds speculative reads to a tenth of all: where every bookie is slow more reads would make them slower.
 */
#ifndef WK_CORE_SPECULATION_H
#define WK_CORE_SPECULATION_H
#include <stdbool.h>
#include <stdint.h>

enum { WK_SPECULATION_NS_MIN = 2000000, WK_SPECULATION_NS_MAX = 100000000 };

typedef struct wk_latency {
	uint64_t mean_ns, deviation_ns; /* mean 0: none was seen */
} wk_latency;
void wk_latency_seen(wk_latency *latency, uint64_t ns);
/* How long a read of another bookie waits before this one is asked, from WK_SPECULATION_NS_MIN to WK_SPECULATION_NS_MAX. */
uint64_t wk_latency_patience(const wk_latency *latency);
/* Whether a bookie is so much slower than the best one that it is asked behind it: 4 times, and 2 ms. */
bool wk_latency_is_slow(const wk_latency *latency, const wk_latency *best);

typedef struct wk_speculation_budget {
	uint32_t credit; /* tenths of a read */
} wk_speculation_budget;
/* A read was asked for. */
void wk_speculation_earn(wk_speculation_budget *budget);
/* Whether one more may be sent, which then counts. */
bool wk_speculation_spend(wk_speculation_budget *budget);
#endif
