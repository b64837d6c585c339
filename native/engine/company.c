#include "engine/company.h"

enum { SMOOTHING = 8 };

void wk_company_let_go(wk_company *company, uint32_t appends, uint32_t sleepers, uint64_t took_ns, uint64_t now_ns) {
	int64_t difference = (int64_t)took_ns - (int64_t)company->took_ns;
	company->took_ns += (uint64_t)(company->took_ns == 0 ? difference : difference / SMOOTHING);
	uint64_t wait = company->took_ns / WK_COMPANY_PART;
	bool can_be_back = appends <= WK_COMPANY_MAX && sleepers <= WK_COMPANY_SLEEPERS_MAX;
	company->expected = can_be_back ? appends : 0;
	company->until_ns = now_ns + (wait < WK_COMPANY_WAIT_NS_MAX ? wait : WK_COMPANY_WAIT_NS_MAX);
}
