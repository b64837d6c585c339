/*
 * test_ledger_space.c: a ledger store on a full disk: what was accepted becomes durable whatever its footer takes, a
 * delete is taken, and adds go on once there is space. And what the mover makes of the smallest entries.
 */
/* ctest labels: one-thread */
#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"

enum { FILE_SIZE = 1024 * 1024, CAPACITY = 12 * FILE_SIZE, ADDS = 256, BATCHES_MAX = 4000, LACS_MAX = 1000 };

static void let_the_keeper_work(wk_namespace *ns, wk_io *io) {
	for (int i = 0; i < 50; i++) {
		bool idle;
		wk_faulty_advance(wk_faulty_of(io), 1000000000);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
}

static void has_not_failed(wk_namespace *ns) {
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	CHECK(!stats.failed);
}

typedef struct filler {
	wk_namespace *ns;
	int64_t next_entry, next_ledger; /* ids below them were used */
	bool many_ledgers;               /* each entry is of a ledger of its own, and a key stands before it */
} filler;

/* The smallest entries, each of a run of its own: nothing takes more of a footer for its bytes. */
static wk_status add_smallest(filler *f, wk_error *error) {
	static uint8_t bytes[ADDS][WK_LEDGER_ENTRY_MIN];
	wk_add adds[ADDS];
	for (size_t i = 0; i < ADDS; i++) {
		wk_store_be64(bytes[i], (uint64_t)(f->many_ledgers ? f->next_ledger++ : 0));
		wk_store_be64(bytes[i] + 8, (uint64_t)(f->next_entry += 2));
		adds[i] = (wk_add){.bytes = bytes[i],
		                   .size = sizeof bytes[i],
		                   .flags = WK_ADD_DEFERRED,
		                   .key = "k",
		                   .key_size = f->many_ledgers};
	}
	return wk_ledger_add(f->ns, adds, ADDS, UINT64_MAX, false, error);
}

static void fill_up(filler *f, wk_io *io, bool keeper_keeps_up) {
	wk_status status = WK_OK;
	wk_error error = {0};
	int batches = 0;
	for (; batches < BATCHES_MAX && status == WK_OK; batches++) {
		status = add_smallest(f, &error);
		if (keeper_keeps_up && batches % 8 == 0)
			let_the_keeper_work(f->ns, io);
	}
	has_not_failed(f->ns);
	CHECK_EQ(status, WK_NO_SPACE);
	CHECK(!error.outcome_unknown);
	CHECK(batches > 1);
}

/* Changes that free nothing are taken as long as there is room; they leave some for the delete. */
static void delete_it(wk_namespace *ns) {
	wk_error error = {0};
	wk_status status = WK_OK;
	int set = 0;
	for (; set < LACS_MAX && status == WK_OK; set++)
		status = wk_ledger_set_lac(ns, 0, NULL, 0, "lac", 3, UINT64_MAX, NULL, &error);
	CHECK_EQ(status, WK_NO_SPACE);
	CHECK(!error.outcome_unknown);
	CHECK(set > 4);
	check_ok(wk_ledger_delete(ns, 0, UINT64_MAX, NULL, &error), &error, "a ledger is deleted on a full disk");
	CHECK(!is_known(ns, 0));
}

static void fill_and_free(uint64_t seed, bool many_ledgers, bool keeper_keeps_up) {
	wk_io *io = new_disk(seed);
	wk_open_options options = store_options();
	options.file_size_min = options.file_size_max = FILE_SIZE; /* and blocks of half of it */
	wk_namespace *ns = open_store_with(io, &options);
	filler f = {.ns = ns, .many_ledgers = many_ledgers};
	let_the_keeper_work(ns, io);
	wk_faulty_set_capacity(wk_faulty_of(io), CAPACITY);
	for (int round = 0; round < 2; round++) {
		fill_up(&f, io, keeper_keeps_up);
		wk_error error = {0};
		check_ok(wk_namespace_wait(ns, ns->engine->open.sequence - 1, UINT64_MAX, &error), &error, "what was accepted");
		if (many_ledgers)
			break;
		delete_it(ns);
		let_the_keeper_work(ns, io);
		has_not_failed(ns);
	}
	close_store(ns);
	ns = open_store_with(io, &options);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(the_smallest_entries_fit_the_reserve_with_their_footer) {
	for (uint64_t seed = 1; seed <= 2; seed++)
		fill_and_free(seed, false, seed % 2 == 0);
}

TEST(keys_and_the_first_entries_of_ledgers_fit_the_reserve_with_their_footer) {
	for (uint64_t seed = 1; seed <= 2; seed++)
		fill_and_free(seed, true, seed % 2 == 0);
}

/* ---- what the mover leaves alone ---- */

static uint64_t compacted(wk_namespace *ns) {
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	return stats.compacted_bytes;
}

/* Of few small entries an entry log is footer for the most part: it gets no better by being written again. */
static void moved_once(wk_add *adds, size_t count) {
	wk_io *io = new_disk(3);
	wk_open_options options = store_options();
	options.minor_percent = options.major_percent = 60;
	options.minor_interval_ns = options.major_interval_ns = 1000 * 1000;
	wk_namespace *ns = open_store_with(io, &options);
	wk_error error = {0};
	check_ok(wk_ledger_add(ns, adds, count, UINT64_MAX, true, &error), &error, "what stays");
	uint64_t first = ns->engine->active->id;
	for (int64_t id = 0; ns->engine->active->id <= first + 1; id++, let_the_keeper_work(ns, io))
		add_entry(ns, 1, id);
	CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	let_the_keeper_work(ns, io);
	CHECK(wk_store_file_find(ns->engine, first) == NULL);
	uint64_t before = compacted(ns);
	let_the_keeper_work(ns, io);
	CHECK_EQ(compacted(ns), before);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(an_entry_log_of_few_small_entries_is_not_written_again_and_again) {
	enum { SMALL_ENTRIES = 300 };
	static uint8_t bytes[SMALL_ENTRIES][WK_LEDGER_ENTRY_MIN];
	static wk_add adds[SMALL_ENTRIES];
	for (size_t i = 0; i < SMALL_ENTRIES; i++) {
		wk_store_be64(bytes[i], 0);
		wk_store_be64(bytes[i] + 8, 2 * i); /* each a run of its own */
		adds[i] = (wk_add){.bytes = bytes[i], .size = sizeof bytes[i]};
	}
	moved_once(adds, 1);
	moved_once(adds, SMALL_ENTRIES);
}

/* Entries of 3000 bytes to ledgers 2 to 6, until the disk is full; then these are deleted. How many were taken. */
static int fill_with_ledgers(wk_namespace *ns, wk_io *io) {
	static uint8_t bytes[3000];
	wk_error error = {0};
	wk_status status = WK_OK;
	int taken = 0;
	for (int64_t id = 1; status == WK_OK; id++) {
		wk_store_be64(bytes, (uint64_t)(2 + id % 5));
		wk_store_be64(bytes + 8, (uint64_t)id);
		wk_add add = an_add(bytes, sizeof bytes, 0);
		status = wk_ledger_add(ns, &add, 1, 0, true, &error);
		taken += status == WK_OK;
		bool idle = false;
		for (int i = 0; i < 50 && !idle; i++)
			CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
	CHECK_EQ(status, WK_NO_SPACE);
	for (int64_t ledger_id = 2; ledger_id <= 6; ledger_id++)
		check_ok(wk_ledger_delete(ns, ledger_id, UINT64_MAX, NULL, &error), &error, "a ledger is deleted");
	let_the_keeper_work(ns, io);
	let_the_keeper_work(ns, io);
	return taken;
}

/* It gets no footer, so the mark does not pass it; it has keys, and an entry that stays, so it does not go. */
TEST(a_file_with_a_second_name_keeps_no_other_file) {
	wk_io *io = new_disk(7);
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	wk_faulty_set_capacity(wk_faulty_of(io), 6 << 20);
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t ledger_id = 1; ledger_id <= 6; ledger_id++)
		add_entry(ns, ledger_id, 0);
	char name[80];
	snprintf(name, sizeof name, "store/journal/%016llx.wkj", (unsigned long long)ns->engine->active->id);
	CHECK_EQ(io->operations->link(io, name, "second"), 0);
	int first = fill_with_ledgers(ns, io);
	for (int round = 0; round < 3; round++)
		CHECK(fill_with_ledgers(ns, io) > first / 2);
	kill_store(ns, io);
	ns = open_store_with(io, &options); /* the numbers that are missing are accounted for */
	CHECK_EQ(version_of(ns, 1, 0), 1);
	close_store(ns);
	io->operations->destroy(io);
}

int main(void) {
	RUN(an_entry_log_of_few_small_entries_is_not_written_again_and_again);
	RUN(the_smallest_entries_fit_the_reserve_with_their_footer);
	RUN(keys_and_the_first_entries_of_ledgers_fit_the_reserve_with_their_footer);
	RUN(a_file_with_a_second_name_keeps_no_other_file);
	return check_done();
}
