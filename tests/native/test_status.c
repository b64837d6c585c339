/* Every status has a sentence of its own. */
/* ctest labels: one-thread */
#include "check.h"
#include "walkeeper/core.h"

static const char *text(int status) {
	return wk_status_text((wk_status)status);
}

TEST(every_status_has_its_own_sentence) {
	for (int a = WK_NEEDS_SEGMENT; a <= WK_OK; a++) {
		CHECK(strcmp(text(a), "unknown status") != 0);
		for (int b = WK_NEEDS_SEGMENT; b < a; b++)
			CHECK(strcmp(text(a), text(b)) != 0);
	}
}

TEST(a_number_that_is_no_status_is_unknown) {
	CHECK(strcmp(text(1), "unknown status") == 0);
	CHECK(strcmp(text(WK_NEEDS_SEGMENT - 1), "unknown status") == 0);
}

int main(void) {
	RUN(every_status_has_its_own_sentence);
	RUN(a_number_that_is_no_status_is_unknown);
	return check_done();
}
