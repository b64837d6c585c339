/* speculation.c: see speculation.h. */
#include "core/speculation.h"

enum { CREDIT_MAX = 200, COST = 10, SLOW_TIMES = 4 };

void wk_latency_seen(wk_latency *latency, uint64_t ns) {
	ns = ns > 0 ? ns : 1;
	if (latency->mean_ns == 0) {
		*latency = (wk_latency){.mean_ns = ns, .deviation_ns = ns / 2};
		return;
	}
	uint64_t deviation_ns = ns > latency->mean_ns ? ns - latency->mean_ns : latency->mean_ns - ns;
	latency->deviation_ns = latency->deviation_ns - latency->deviation_ns / 4 + deviation_ns / 4;
	latency->mean_ns = latency->mean_ns - latency->mean_ns / 8 + ns / 8;
	latency->mean_ns = latency->mean_ns > 0 ? latency->mean_ns : 1;
}

uint64_t wk_latency_patience(const wk_latency *latency) {
	if (latency->mean_ns == 0)
		return WK_SPECULATION_NS_MAX;
	uint64_t ns = latency->mean_ns + 4 * latency->deviation_ns;
	ns = ns > WK_SPECULATION_NS_MIN ? ns : WK_SPECULATION_NS_MIN;
	return ns < WK_SPECULATION_NS_MAX ? ns : WK_SPECULATION_NS_MAX;
}

bool wk_latency_is_slow(const wk_latency *latency, const wk_latency *best) {
	return best->mean_ns > 0 && latency->mean_ns > SLOW_TIMES * best->mean_ns &&
	       latency->mean_ns > best->mean_ns + WK_SPECULATION_NS_MIN;
}

void wk_speculation_earn(wk_speculation_budget *budget) {
	if (budget->credit < CREDIT_MAX)
		budget->credit++;
}

bool wk_speculation_spend(wk_speculation_budget *budget) {
	if (budget->credit < COST)
		return false;
	budget->credit -= COST;
	return true;
}
