/*
 * test_move_refused.c: while entries are moved into an entry log, and the files they stood in are given away, the
 * machine refuses something: an allocation, a file, a name. Whatever becomes of the pass, no entry is lost. The same
 * while interleaved files are sorted.
 */
/* ctest labels: one-thread */
#include "engine/manual.h"
#include "ledger_store.h"
#include "sheltered_disk.h"
#include "sim/faulty.h"
#include <errno.h>

enum { ENTRIES = 40, ROUNDS = 6, CALLS_MAX = 3000 };

static const struct {
	uint32_t operation; /* 0: memory */
	int error;
} refusals[] = {{0, ENOMEM}, {WK_FAULT_OPEN, EMFILE}, {WK_FAULT_DIRECTORY, EMFILE}, {WK_FAULT_ALLOCATE, ENOSPC}};

/* Files with holes are emptied, or (sorts) interleaved ones sorted. */
static wk_open_options moving_options(bool pages_out, bool sorts) {
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	options.minor_percent = sorts ? 1 : 60;
	options.minor_interval_ns = 1000 * 1000;
	options.sort_memory = sorts ? 64 * 1024 : UINT64_MAX;
	options.sort_wait_ns = options.sort_gain = 1;
	options.range_bytes = pages_out ? 1 : 0;
	return options;
}

/* Nothing is moved yet: no time passes. */
static wk_io *disk_to_move(const wk_open_options *options, bool sorts) {
	wk_io *io = new_disk(7);
	wk_namespace *ns = open_store_with(io, options);
	ns->engine->mover_due_ns = UINT64_MAX;
	for (int64_t id = 0; id < ENTRIES; id++) {
		for (int64_t ledger_id = 1; ledger_id <= 3; ledger_id++)
			CHECK_EQ(add_version(ns, ledger_id, id, (uint64_t)id + 1, 0, NULL), WK_OK);
		work(ns);
	}
	if (!sorts) {
		CHECK_EQ(wk_ledger_delete(ns, 2, UINT64_MAX, NULL, NULL), WK_OK);
		CHECK_EQ(wk_ledger_delete(ns, 3, UINT64_MAX, NULL, NULL), WK_OK);
	}
	kill_store(ns, io);
	return io;
}

static void move_some(wk_namespace *ns, wk_io *io) {
	for (int round = 0; round < ROUNDS; round++) {
		bool idle = false;
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
		for (int i = 0; i < 200 && !idle; i++)
			wk_namespace_step(ns, &idle, NULL);
	}
}

static void all_are_there(wk_namespace *ns, bool sorts) {
	for (int64_t ledger_id = 1; ledger_id <= (sorts ? 3 : 1); ledger_id++)
		for (int64_t id = 0; id < ENTRIES; id++)
			CHECK_EQ(version_of(ns, ledger_id, id), id + 1);
	CHECK_EQ(is_known(ns, 2) && is_known(ns, 3), sorts);
}

/* false: it asks for no such thing. */
static bool refuse_one(const wk_io *base, const wk_open_options *options, bool sorts, size_t kind, uint64_t number) {
	wk_io *io;
	wk_faulty *whole = wk_faulty_of((wk_io *)(uintptr_t)base);
	CHECK_EQ(wk_faulty_image(whole, wk_faulty_trace_length(whole), 1, &io), 0);
	io->operations->unlink(io, "store/entries/prepared-output.wkp"); /* it is to be made again */
	wk_faulty *disk = wk_faulty_of(io);
	uint32_t operation = refusals[kind].operation;
	shelter(io);
	wk_namespace *ns = open_store_with(io, options);
	uint64_t before = operation != 0 ? wk_faulty_calls(disk, operation) : 0;
	if (operation == 0)
		let_memory_run_out((long)number, 1);
	else
		wk_faulty_fail(disk, operation, number, refusals[kind].error, false);
	move_some(ns, io);
	bool refused = memory_ran_out();
	wk_faulty_heal(disk);
	refused = operation == 0 ? refused : wk_faulty_calls(disk, operation) > before + number;
	all_are_there(ns, sorts);
	bool failed = stats_of(ns).failed;
	if (number % 2 == 0 || failed) {
		kill_store(ns, io);
		ns = open_store_with(io, options);
		all_are_there(ns, sorts);
	}
	move_some(ns, io);
	CHECK(stats_of(ns).entry_logs > 0);
	all_are_there(ns, sorts);
	io->operations = plain;
	close_store(ns);
	io->operations->destroy(io);
	return refused;
}

static void refuse_each(bool pages_out, bool sorts) {
	wk_open_options options = moving_options(pages_out, sorts);
	wk_io *base = disk_to_move(&options, sorts);
	for (size_t kind = 0; kind < sizeof refusals / sizeof *refusals; kind++) {
		uint64_t number = 0;
		while (refuse_one(base, &options, sorts, kind, number))
			CHECK(++number < CALLS_MAX);
		CHECK(number > 0);
	}
	base->operations->destroy(base);
}

TEST(whatever_is_refused_to_the_mover_no_entry_is_lost) {
	refuse_each(false, false);
}

TEST(whatever_is_refused_to_the_mover_no_entry_is_lost_where_ranges_are_paged_out) {
	refuse_each(true, false);
}

TEST(whatever_is_refused_while_interleaved_files_are_sorted_no_entry_is_lost) {
	refuse_each(false, true);
}

int main(void) {
	RUN(whatever_is_refused_to_the_mover_no_entry_is_lost);
	RUN(whatever_is_refused_to_the_mover_no_entry_is_lost_where_ranges_are_paged_out);
	RUN(whatever_is_refused_while_interleaved_files_are_sorted_no_entry_is_lost);
	return check_done();
}
