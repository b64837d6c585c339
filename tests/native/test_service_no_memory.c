/*
 * test_service_no_memory.c: memory runs out at each allocation in turn while an explicit LAC is taken: where it is acknowledged,
 * then or when it is sent again, readers are told of it.
 */
/* ctest labels: one-thread simulated */
#include "bookie_harness.h"
#include "sheltered_disk.h"

static bookie b;

static peer *open_with_peer(void) {
	bookie_prepare(&b, new_disk(7));
	shelter(b.io);
	bookie_serve(&b);
	return bookie_connect(&b);
}

/* No more ledgers fit into the table of those that are known. */
static void fill_table(peer *p) {
	for (int64_t id = 100; (b.service->hosted.count + 1) * 5 <= b.service->hosted.capacity * 4; id++)
		CHECK_EQ(answer_to(p, an_entry(id, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
}

static bool was_acknowledged(peer *p) {
	return p->open && more_replies(p) && take_reply(p).code == WK_WIRE_OK;
}

static bool is_told(void) {
	const wk_hosted_ledger *ledger = wk_hosted_find(&b.service->hosted, 5);
	return ledger != NULL && ledger->lac >= 3;
}

TEST(a_lac_is_acknowledged_where_readers_are_told_of_it) {
	bool ran_out = true;
	int acknowledged = 0, refused = 0;
	for (long number = 0; ran_out; number++) {
		peer *p = open_with_peer();
		fill_table(p);
		let_memory_run_out(number, 1);
		ask(p, a_lac(5, 3));
		bookie_run(&b);
		ran_out = memory_ran_out();
		bool first = was_acknowledged(p), failed = b.service->failed;
		CHECK(!first || is_told());
		if (p->open) { /* it may have become durable all the same */
			bool second = answer_to(p, a_lac(5, 3)).code == WK_WIRE_OK;
			CHECK(second ? is_told() : failed);
		}
		acknowledged += first;
		refused += !first;
		(failed ? bookie_abandon : bookie_close)(&b);
	}
	CHECK(acknowledged > 0 && refused > 2);
}

int main(void) {
	RUN(a_lac_is_acknowledged_where_readers_are_told_of_it);
	return check_done();
}
