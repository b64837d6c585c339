/* test_service_lists.c: which entries of a ledger a bookie says it has. */
/* ctest labels: one-thread simulated */
#include "bookie_harness.h"

enum { GROUPS_AT = 64, GROUP_SIZE = 24 };

static bookie b;

static peer *open_with_peer(uint32_t version) {
	bookie_open(&b, new_disk(7));
	peer *p = bookie_connect(&b);
	p->version = version;
	return p;
}

static void add(peer *p, int64_t id) {
	CHECK_EQ(answer_to(p, an_entry(5, id, -1, 10, 20, 0)).code, WK_WIRE_OK);
}

static void check_group(const wk_wire_reply *reply, uint32_t at, int64_t first, int64_t last, uint32_t run,
                        uint32_t period) {
	const uint8_t *group = reply->body + GROUPS_AT + at * GROUP_SIZE;
	CHECK_EQ(wk_load_be64_signed(group), first);
	CHECK_EQ(wk_load_be64_signed(group + 8), last);
	CHECK_EQ(wk_load_be32(group + 16), run);
	CHECK_EQ(wk_load_be32(group + 20), period);
}

static wk_wire_reply list(peer *p, uint32_t groups) {
	wk_wire_reply reply = answer_to(p, of_ledger(WK_WIRE_LIST_ENTRIES, 5));
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(reply.body_size, GROUPS_AT + groups * GROUP_SIZE);
	CHECK_EQ(wk_load_be32(reply.body + 4), groups);
	return reply;
}

TEST(the_entries_of_a_ledger_are_listed) {
	peer *p = open_with_peer(WK_WIRE_V3);
	static const int64_t ids[] = {0, 1, 2, 7, 8, 100};
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
		add(p, ids[i]);
	wk_wire_reply reply = list(p, 3);
	check_group(&reply, 0, 0, 0, 3, 0);
	check_group(&reply, 1, 7, 7, 2, 0);
	check_group(&reply, 2, 100, 100, 1, 0);
	CHECK_EQ(answer_to(p, of_ledger(WK_WIRE_LIST_ENTRIES, 6)).code, WK_WIRE_NO_LEDGER);
	bookie_close(&b);
}

TEST(a_striped_ledger_is_one_group) {
	peer *p = open_with_peer(WK_WIRE_V3);
	for (int64_t id = 0; id < 6000; id++)
		if (id % 3 != 1)
			ask(p, an_entry(5, id, -1, 10, 20, 0));
	bookie_run(&b);
	while (more_replies(p))
		CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
	wk_wire_reply reply = list(p, 3);
	check_group(&reply, 0, 0, 0, 1, 0);
	check_group(&reply, 1, 2, 5996, 2, 3);
	check_group(&reply, 2, 5999, 5999, 1, 0);
	bookie_close(&b);
}

/* Whoever has a ledger's key chooses ids, and the list of them is asked for again and again. */
TEST(the_highest_ids_are_listed) {
	peer *p = open_with_peer(WK_WIRE_V3);
	add(p, 0);
	add(p, INT64_MAX - INT32_MAX);
	add(p, INT64_MAX - 2);
	add(p, INT64_MAX - 1);
	wk_wire_reply reply = list(p, 3);
	check_group(&reply, 0, 0, 0, 1, 0);
	check_group(&reply, 1, INT64_MAX - INT32_MAX, INT64_MAX - INT32_MAX, 1, 0);
	check_group(&reply, 2, INT64_MAX - 2, INT64_MAX - 2, 2, 0);
	bookie_close(&b);
}

TEST(a_list_is_whole_and_fits_the_frame_or_is_an_error) {
	bookie_prepare(&b, new_disk(7));
	b.options.frame_size_max = 4096;
	bookie_serve(&b);
	peer *p = bookie_connect(&b);
	bool refused = false;
	int64_t id = 0;
	for (uint32_t runs = 1; !refused; runs++) {
		CHECK(runs < 1000);
		add(p, id);
		id += runs + 1; /* no two distances are the same: two runs are a group */
		wk_wire_reply reply = answer_to(p, of_ledger(WK_WIRE_LIST_ENTRIES, 5));
		refused = reply.code == WK_WIRE_IO_ERROR;
		if (refused) {
			CHECK(reply.body_size == 0);
			continue;
		}
		CHECK_EQ(wk_load_be32(reply.body + 4), (runs + 1) / 2);
		CHECK(p->in.taken <= 4096);
	}
	CHECK(id > 250 * 250 / 2); /* and little of the frame is not used */
	bookie_close(&b);
}

TEST(a_list_has_what_was_acknowledged_as_deferred) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	ask(p, an_entry(5, 1, -1, 10, 20, WK_WIRE_DEFERRED));
	bookie_turn(&b, SIZE_MAX);
	bookie_turn(&b, SIZE_MAX);
	CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
	wk_wire_reply reply = answer_to(p, of_ledger(WK_WIRE_LIST_ENTRIES, 5));
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(wk_load_be32(reply.body + 64 + 16), 2); /* a run of two */
	bookie_close(&b);
}

int main(void) {
	RUN(the_entries_of_a_ledger_are_listed);
	RUN(a_striped_ledger_is_one_group);
	RUN(the_highest_ids_are_listed);
	RUN(a_list_is_whole_and_fits_the_frame_or_is_an_error);
	RUN(a_list_has_what_was_acknowledged_as_deferred);
	return check_done();
}
