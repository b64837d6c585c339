/* budgets.c: who waits, who is refused and who stalls where much is under way. The rules are in walkeeper/budgets.h. */
#include "core/budgets.h"

enum { RECOVERIES_PART = 8, RECOVERIES_MIN = 64, SHARE_PART = 16, SHARE_MIN = 8 * 1024 * 1024, SPARED_PART = 4 };

uint64_t wk_budget_for_recoveries(const wk_budget_limits *limits) {
	uint64_t part = limits->reads_max / RECOVERIES_PART;
	return part > RECOVERIES_MIN ? part : RECOVERIES_MIN;
}

static wk_budget_verdict spare(const wk_budget_limits *limits, const wk_budget_load *load, wk_budget_need need) {
	uint64_t part = wk_budget_for_recoveries(limits);
	uint64_t most = need == WK_NEED_FENCE ? part : need == WK_NEED_LAC ? part / 2 : 0;
	return load->spared < most ? WK_BUDGET_SPARED : WK_BUDGET_REFUSED;
}

wk_budget_verdict wk_budget_turn(const wk_budget_limits *limits, const wk_budget_load *load, const wk_budget_own *own,
                                 wk_budget_need need) {
	uint64_t share = limits->reads_max / 2 / (load->readers > 0 ? load->readers : 1);
	if (load->waiting < limits->reads_max || own->waiting == 0 || own->waiting < share)
		return WK_BUDGET_ADMITTED;
	return spare(limits, load, need);
}

wk_budget_verdict wk_budget_hold(const wk_budget_limits *limits, const wk_budget_load *load, const wk_budget_own *own,
                                 wk_budget_need need) {
	/* Who asked for hardly anything is heard: there is no more of that than there are connections. */
	if (load->held + load->waiting < limits->reads_max || own->reads <= 1)
		return WK_BUDGET_ADMITTED;
	return spare(limits, load, need);
}

bool wk_budget_recoveries_pass(const wk_budget_load *load) {
	return load->passed < WK_PASS_BYTES_MAX;
}

bool wk_budget_stalls_force(const wk_budget_load *load, const wk_budget_own *own) {
	return load->forces >= WK_FORCES_MAX && own->reads > 0;
}

uint64_t wk_budget_share(const wk_budget_limits *limits) {
	uint64_t share = limits->reply_bytes / SHARE_PART;
	return share > SHARE_MIN ? share : SHARE_MIN;
}

wk_budget_excess wk_budget_excess_of(const wk_budget_limits *limits, const wk_budget_load *load,
                                     const wk_budget_own *own, uint64_t unsent) {
	bool crowded = unsent > 0 && load->reply_bytes >= limits->reply_bytes; /* nor must many such peers */
	if (crowded || unsent > wk_budget_share(limits))
		return WK_EXCESS_UNSENT;
	return own->reads >= WK_PEER_READS_MAX ? WK_EXCESS_READS : WK_EXCESS_NONE;
}

uint64_t wk_budget_common(const wk_budget_limits *limits) {
	return limits->reply_bytes - limits->reply_bytes / SPARED_PART;
}

/* Each read that is under way may be answered with as much as a frame takes. */
static bool has_room(const wk_budget_limits *limits, const wk_budget_load *load, uint64_t most) {
	uint64_t expected = load->reply_bytes + load->running * limits->frame_size_max;
	return load->running == 0 ? load->reply_bytes < most : expected < most;
}

bool wk_budget_may_read(const wk_budget_limits *limits, const wk_budget_load *load, const wk_budget_own *own,
                        uint64_t unsent, bool large) {
	uint64_t had = unsent + own->running * limits->frame_size_max;
	if (has_room(limits, load, wk_budget_common(limits)))
		return had == 0 || had < wk_budget_share(limits);
	return had == 0 && !large && has_room(limits, load, limits->reply_bytes);
}
