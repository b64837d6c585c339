/* test_client_driven.c: the client turn by turn, on a simulated network: what threads and sockets would hide. */
/* ctest labels: one-thread simulated */
#include "driven_client.h"

TEST(an_entry_is_confirmed_by_an_ack_quorum) {
	driven d;
	driven_start(&d, 3);
	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 2);
	driven_submit(handle, "hello", 5);
	driven_run(&d, 10 * MS);
	wk_wire_request request;
	wk_handle_state state;
	for (uint32_t at = 0; at < 3; at++) {
		CHECK(driven_asks(&d, at, &request));
		CHECK_EQ(request.operation, WK_WIRE_ADD);
		driven_answer(&d, at, &request, WK_WIRE_OK);
		driven_run(&d, 10 * MS);
		wk_handle_state_get(handle, &state);
		CHECK_EQ(state.lac, at == 0 ? -1 : 0);
	}
	CHECK_EQ(state.length, 5);
	wk_handle_close(handle);
	driven_end(&d);
}

/* They were queued for the driver, which had not seen them yet. Their answers come to nobody, and harm nothing. */
TEST(entries_that_nobody_has_sent_when_their_handle_is_closed_are_sent) {
	driven d;
	driven_start(&d, 3);
	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 2);
	driven_submit(handle, "hello", 5);
	wk_handle_close(handle);
	driven_run(&d, 100 * MS);
	wk_wire_request request;
	for (uint32_t at = 0; at < 3; at++) {
		CHECK(driven_asks(&d, at, &request));
		driven_answer(&d, at, &request, WK_WIRE_OK);
	}
	driven_run(&d, 100 * MS);
	driven_end(&d);
}

TEST(a_handle_is_closed_while_its_entries_are_on_their_way) {
	driven d;
	driven_start(&d, 3);
	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 2);
	driven_submit(handle, "hello", 5);
	driven_run(&d, 10 * MS);
	driven_submit(handle, "again", 5);
	wk_handle_close(handle);
	driven_run(&d, 10 * MS);
	wk_wire_request request;
	CHECK(driven_asks(&d, 0, &request));
	CHECK_EQ(request.entry_id, 0);
	driven_answer(&d, 0, &request, WK_WIRE_OK); /* to nobody; the others never answer */
	driven_run(&d, 5 * S);
	driven_end(&d);
}

int main(void) {
	RUN(an_entry_is_confirmed_by_an_ack_quorum);
	RUN(entries_that_nobody_has_sent_when_their_handle_is_closed_are_sent);
	RUN(a_handle_is_closed_while_its_entries_are_on_their_way);
	return check_done();
}
