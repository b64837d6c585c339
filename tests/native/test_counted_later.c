/*
 * test_counted_later.c: while dead entries are counted, or ledgers are deleted whose ranges are paged out, the machine has
 * no memory for a moment. The space is given back all the same once it has: what was to be counted is not forgotten.
 */
#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"
#include <errno.h>

enum { LEDGER = 7, LEDGERS = 10, ENTRIES = 200 };

/* Every second id, so that nobody knows without reading which ones a file holds. */
static void add_all(wk_namespace *ns) {
	static uint8_t bytes[3000];
	for (int64_t id = 0; id < ENTRIES; id++) {
		wk_store_be64(bytes, LEDGER);
		wk_store_be64(bytes + 8, (uint64_t)id * 2);
		wk_add add = an_add(bytes, sizeof bytes, 0);
		CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
	}
}

static void let_time_pass(wk_io *io, wk_namespace *ns, int seconds) {
	for (int i = 0; i < seconds * 20; i++) {
		wk_faulty_advance(wk_faulty_of(io), 50000000);
		bool idle = false;
		for (int steps = 0; steps < 200 && !idle; steps++)
			CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
}

/*
 * For a moment reads fail with `error`, 0: they do not. How many files there are a while after; the store is closed. Not
 * a minute after: interleaved files are sorted then, which finds out as well that nothing in them is live.
 */
static uint32_t count_files(wk_io *io, wk_namespace *ns, int error) {
	if (error != 0)
		wk_faulty_fail(wk_faulty_of(io), WK_FAULT_READ, 0, error, true);
	let_time_pass(io, ns, 1);
	wk_faulty_heal(wk_faulty_of(io));
	let_time_pass(io, ns, 30);
	uint32_t files = ns->engine->files_count;
	close_store(ns);
	io->operations->destroy(io);
	return files;
}

/* Of what is written twice. */
static uint32_t files_after_adds(int error) {
	wk_io *io = new_disk(1);
	wk_namespace *ns = open_store(io);
	add_all(ns);
	let_time_pass(io, ns, 1);
	close_store(ns);
	ns = open_store(io);
	add_all(ns);
	return count_files(io, ns, error);
}

TEST(what_was_to_be_counted_is_counted_once_there_is_memory) {
	uint32_t usual = files_after_adds(0), refused = files_after_adds(ENOMEM);
	printf("%u files, and %u where memory was short for a moment\n", usual, refused);
	CHECK(refused <= usual + 1);
}

/* ---- paged out ---- */

static wk_namespace *open_paging(wk_io *io) {
	wk_open_options options = store_options();
	options.range_bytes = 1;
	options.cache_bytes = 1;
	return open_store_with(io, &options);
}

static uint32_t files_after_deletes(int error) {
	static uint8_t bytes[3000];
	wk_io *io = new_disk(1);
	wk_namespace *ns = open_paging(io);
	for (int64_t id = 0; id < ENTRIES; id++) {
		wk_store_be64(bytes, (uint64_t)id % LEDGERS);
		wk_store_be64(bytes + 8, (uint64_t)id);
		wk_add add = an_add(bytes, sizeof bytes, 0);
		CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
	}
	let_time_pass(io, ns, 1);
	close_store(ns);
	ns = open_paging(io);
	let_time_pass(io, ns, 5);
	CHECK(ns->engine->pager.paged > 0);
	for (int64_t id = 0; id < LEDGERS; id++)
		CHECK_EQ(wk_ledger_delete(ns, id, UINT64_MAX, NULL, NULL), WK_OK);
	return count_files(io, ns, error);
}

TEST(what_deleted_ledgers_held_is_given_back_once_there_is_memory) {
	uint32_t usual = files_after_deletes(0), refused = files_after_deletes(ENOMEM);
	printf("%u files, and %u where memory was short for a moment\n", usual, refused);
	CHECK(refused <= usual + 1);
}

int main(void) {
	RUN(what_was_to_be_counted_is_counted_once_there_is_memory);
	RUN(what_deleted_ledgers_held_is_given_back_once_there_is_memory);
	return check_done();
}
