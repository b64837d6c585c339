/*
 * test_batch_memory.c: what a batch read holds of the ledgers that stand between its entries. The linker gives the
 * service's reads of the store to the functions below (native/CMakeLists.txt).
 */
#include "bookie_harness.h"

enum { LEDGERS = 50, ENTRIES = 600, SIZE = 936, MIB = 1 << 20 };

wk_status __real_wk_ledger_read(wk_namespace *ns, int64_t ledger_id, int64_t first, uint32_t max_entries,
                                uint64_t max_bytes, wk_entry_batch **batch, wk_error *error);
wk_status __wrap_wk_ledger_read(wk_namespace *ns, int64_t ledger_id, int64_t first, uint32_t max_entries,
                                uint64_t max_bytes, wk_entry_batch **batch, wk_error *error);
void __real_wk_entry_batch_release(wk_entry_batch *batch);
void __wrap_wk_entry_batch_release(wk_entry_batch *batch);

static uint64_t held, most_held;

wk_status __wrap_wk_ledger_read(wk_namespace *ns, int64_t ledger_id, int64_t first, uint32_t max_entries,
                                uint64_t max_bytes, wk_entry_batch **batch, wk_error *error) {
	wk_status status = __real_wk_ledger_read(ns, ledger_id, first, max_entries, max_bytes, batch, error);
	held += status == WK_OK ? wk_entry_batch_memory(*batch) : 0;
	most_held = held > most_held ? held : most_held;
	return status;
}

void __wrap_wk_entry_batch_release(wk_entry_batch *batch) {
	held -= batch != NULL ? wk_entry_batch_memory(batch) : 0;
	__real_wk_entry_batch_release(batch);
}

static bookie b;

static void open_interleaved(void) {
	bookie_prepare(&b, new_disk(7));
	b.store.file_size_min = MIB;
	b.store.file_size_max = 64 * MIB;
	bookie_serve(&b);
	peer *p = bookie_connect(&b);
	for (int64_t id = 0; id < ENTRIES; id++) {
		for (int64_t ledger_id = 0; ledger_id < LEDGERS; ledger_id++)
			ask(p, an_entry(ledger_id, id, id - 1, 1, SIZE - 36, 0));
		bookie_run(&b);
		while (more_replies(p))
			CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
	}
	bookie_restart(&b, false, 1); /* nothing of it is in memory */
	held = most_held = 0;
}

static wk_wire_reply read_batch(peer *p, int64_t first, int64_t max_size) {
	wk_wire_request batch = {.operation = WK_WIRE_BATCH_READ, .ledger_id = 3, .entry_id = first, .max_size = max_size};
	wk_wire_reply reply = answer_to(p, batch);
	CHECK_EQ(reply.code, WK_WIRE_OK);
	for (uint64_t at = 0; at < reply.body_size; at += 4 + SIZE, first++) {
		CHECK_EQ(wk_load_be32(reply.body + at), SIZE);
		CHECK_EQ(wk_load_be64(reply.body + at + 4), 3);
		CHECK_EQ(wk_load_be64_signed(reply.body + at + 12), first);
		CHECK(wk_wire_digest_matches(reply.body + at + 4, SIZE, WK_DIGEST_CRC32C));
	}
	return reply;
}

TEST(a_batch_of_entries_far_apart_holds_little_more_than_its_answer) {
	open_interleaved();
	peer *p = bookie_connect(&b);
	p->version = WK_WIRE_V2;
	CHECK_EQ(read_batch(p, 0, 5 * MIB).body_size, ENTRIES * (SIZE + 4));
	CHECK(most_held > ENTRIES * SIZE);
	CHECK(most_held < 3 * MIB); /* and not the 28 MiB that they stand among */
	CHECK_EQ(held, 0);
	bookie_close(&b);
}

TEST(a_batch_that_is_put_together_on_the_way_keeps_its_limit) {
	open_interleaved();
	peer *p = bookie_connect(&b);
	p->version = WK_WIRE_V2;
	for (int64_t count = 1; count < ENTRIES; count += 37) {
		CHECK_EQ(read_batch(p, 0, 36 + count * (SIZE + 4)).body_size, count * (SIZE + 4));
		CHECK_EQ(read_batch(p, 0, 36 + (count + 1) * (SIZE + 4) - 1).body_size, count * (SIZE + 4));
	}
	CHECK_EQ(held, 0);
	bookie_close(&b);
}

int main(void) {
	RUN(a_batch_of_entries_far_apart_holds_little_more_than_its_answer);
	RUN(a_batch_that_is_put_together_on_the_way_keeps_its_limit);
	return check_done();
}
