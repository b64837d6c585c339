/* test_service_paged.c: what the loop itself answers of ledgers whose ranges are out: it waits for no disk. */
/* ctest labels: one-thread simulated */
#include <errno.h>

#include "bookie_harness.h"
#include "engine/index/range_pager.h"
#include "sim/faulty.h"

enum { LEDGERS = 1500, ROUNDS = 12, LIMIT = 256 * 1024, LAC = 100 };

static bookie b;

static void take_all(peer *p) {
	bookie_run(&b);
	while (more_replies(p))
		CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
}

static peer *open_with_paged(void) {
	bookie_prepare(&b, new_disk(7));
	b.store.file_size_max = b.store.file_size_min;
	b.store.range_bytes = LIMIT;
	b.store.cache_bytes = 4096;
	b.store.memtable_bytes = 64 * 1024;
	bookie_serve(&b);
	peer *p = bookie_connect(&b);
	for (int64_t round = 0; round < ROUNDS; round++)
		for (int64_t ledger_id = 0; ledger_id < LEDGERS; ledger_id++) {
			ask(p, an_entry(ledger_id, round, -1, 1, 60, 0));
			if (round == 0)
				ask(p, a_lac(ledger_id, LAC));
			if (ledger_id % 100 == 99)
				take_all(p);
		}
	work(b.ns);
	return p;
}

static int64_t a_paged_ledger(void) {
	for (int64_t ledger_id = 0; ledger_id < LEDGERS; ledger_id++)
		if (wk_ledger_find(b.ns->engine, ledger_id)->paged)
			return ledger_id;
	check_failed(__FILE__, __LINE__, "a ledger is paged");
	return -1;
}

TEST(a_lac_of_a_paged_ledger_needs_no_disk_and_never_falls) {
	peer *p = open_with_paged();
	int64_t ledger_id = a_paged_ledger();
	wk_ledger_info info;
	wk_faulty_fail(wk_faulty_of(b.io), WK_FAULT_READ, 0, EIO, true);
	CHECK_EQ(answer_to(p, a_lac(ledger_id, LAC / 2)).code, WK_WIRE_OK);
	CHECK(wk_ledger_find(b.ns->engine, ledger_id)->paged);
	CHECK_EQ(wk_ledger_describe_state(b.ns, ledger_id, &info, NULL), WK_OK);
	CHECK_EQ(info.last_entry, ROUNDS - 1);
	CHECK_EQ(wk_load_be64_signed(info.lac + 8), LAC);
	CHECK_EQ(info.key_size, sizeof MASTER_KEY);
	CHECK_EQ(wk_ledger_describe(b.ns, ledger_id, &info, NULL), WK_IO);
	wk_faulty_heal(wk_faulty_of(b.io));
	CHECK_EQ(wk_ledger_describe(b.ns, ledger_id, &info, NULL), WK_OK);
	CHECK_EQ(info.entries_count, ROUNDS);
	CHECK_EQ(wk_ledger_describe_state(b.ns, LEDGERS, &info, NULL), WK_NO_LEDGER);
	bookie_close(&b);
}

int main(void) {
	RUN(a_lac_of_a_paged_ledger_needs_no_disk_and_never_falls);
	return check_done();
}
