/*
 * test_ledger_disk_stays_full.c: a ledger store whose disk is full again and again, or still is when it is opened, can be
 * freed by deletes: what the mover and the index keep back for that is there each time.
 */
#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"

enum { FILE_SIZE = 256 * 1024, CAPACITY = 12 * FILE_SIZE, ADDS_MAX = 20000, LARGE = 8000 };

static void let_the_keeper_work(wk_namespace *ns, wk_io *io, int steps, uint64_t step_ms) {
	for (int i = 0; i < steps; i++) {
		bool idle;
		wk_faulty_advance(wk_faulty_of(io), step_ms * 1000000);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
}

static wk_namespace *open_on_a_disk_of(wk_io *io, uint64_t capacity, wk_open_options *options) {
	*options = store_options();
	options->file_size_min = options->file_size_max = FILE_SIZE;
	wk_namespace *ns = open_store_with(io, options);
	let_the_keeper_work(ns, io, 50, 1000);
	wk_faulty_set_capacity(wk_faulty_of(io), capacity);
	return ns;
}

/* Somebody else takes what the store left: from here on nothing is free. */
static void take_what_is_left(wk_io *io) {
	uint64_t used = 0, most = (uint64_t)1 << 40;
	wk_io_space space;
	CHECK_EQ(io->operations->space(io, "store", &space), 0);
	used = space.total_bytes - space.free_bytes;
	CHECK(used < most);
	wk_faulty_set_capacity(wk_faulty_of(io), used);
}

/* ---- full again and again ---- */

enum { LEDGERS = 240, TOGETHER = 10, SIZE = 2000, ROUNDS = 12000, QUIET_MAX = 400 };

typedef struct churn {
	wk_namespace *ns;
	uint64_t seed;
	int64_t last[LEDGERS];
	uint64_t bytes[LEDGERS], live; /* of the entries */
} churn;

static void count_entry(churn *c, size_t ledger, uint64_t size) {
	c->last[ledger]++;
	c->bytes[ledger] += size;
	c->live += size;
}

static void count_delete(churn *c, size_t ledger) {
	c->last[ledger] = -1;
	c->live -= c->bytes[ledger];
	c->bytes[ledger] = 0;
}

static bool add_some(churn *c) {
	static uint8_t bytes[8][SIZE];
	wk_add adds[8];
	size_t ledger = check_random(&c->seed) % LEDGERS, count = 1 + check_random(&c->seed) % 8;
	for (size_t i = 0; i < count; i++) {
		wk_store_be64(bytes[i], ledger);
		wk_store_be64(bytes[i] + 8, (uint64_t)(c->last[ledger] + 1 + (int64_t)i));
		adds[i] = an_add(bytes[i], 24 + check_random(&c->seed) % (SIZE - 24), 0);
	}
	wk_status status = wk_ledger_add(c->ns, adds, count, UINT64_MAX, true, NULL);
	CHECK(status == WK_OK || status == WK_NO_SPACE);
	for (size_t i = 0; i < count; i++)
		if (adds[i].ticket != 0)
			count_entry(c, ledger, adds[i].size);
	return status == WK_OK;
}

/* Some ledgers, together in a block. */
static bool delete_some(churn *c) {
	uint64_t ticket = 0;
	bool any = false;
	wk_status status = WK_OK;
	for (int i = 0; i < TOGETHER && status == WK_OK; i++) {
		size_t ledger = check_random(&c->seed) % LEDGERS;
		if (c->last[ledger] < 0)
			continue;
		status = wk_ledger_delete(c->ns, (int64_t)ledger, UINT64_MAX, &ticket, NULL);
		if (status == WK_OK)
			count_delete(c, ledger);
		any |= status == WK_OK;
	}
	if (ticket != 0)
		CHECK_EQ(wk_namespace_wait(c->ns, ticket, UINT64_MAX, NULL), WK_OK);
	return any;
}

/* Appends are refused where so much of the disk is live, not where it is mostly dead. */
static void is_freed_each_time(uint64_t file_size_min, uint64_t live_percent) {
	static churn c;
	wk_io *io = new_disk(1);
	wk_open_options options = store_options();
	options.file_size_min = file_size_min;
	c = (churn){.ns = open_store_with(io, &options), .seed = 4};
	memset(c.last, 0xff, sizeof c.last);
	wk_faulty_set_capacity(wk_faulty_of(io), CAPACITY);
	uint64_t full = 0, quiet = 0, lowest = UINT64_MAX;
	for (int round = 0; round < ROUNDS && quiet < QUIET_MAX; round++) {
		bool moved = add_some(&c);
		if (!moved) {
			lowest = c.live < lowest ? c.live : lowest;
			moved = delete_some(&c);
			full++;
		}
		let_the_keeper_work(c.ns, io, 20, 50);
		quiet = moved ? 0 : quiet + 1;
	}
	CHECK(quiet < QUIET_MAX);
	CHECK(full > 100);
	printf("refused %llu times, with %.3f of the disk live and more\n", (unsigned long long)full,
	       (double)lowest / CAPACITY);
	CHECK(lowest * 100 > (uint64_t)CAPACITY * live_percent);
	wk_abandon(c.ns);
	io->operations->destroy(io);
}

TEST(a_disk_that_is_full_again_and_again_is_freed_each_time) {
	is_freed_each_time(FILE_SIZE / 4, 18);
}

/* Files that cannot get smaller: a dozen fill this disk, and what is kept back is of their size. */
TEST(a_disk_of_files_of_one_size_that_is_full_again_and_again_is_freed_each_time) {
	is_freed_each_time(FILE_SIZE, 10);
}

/* ---- full when it is opened ---- */

static wk_status add_large(wk_namespace *ns, int64_t ledger_id) {
	static uint8_t bytes[LARGE];
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_add add = an_add(bytes, sizeof bytes, 0);
	return wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL);
}

enum leaving { CLOSED_BEFORE_DELETES, KILLED_BEHIND_DELETES };

static wk_namespace *leave(wk_namespace *ns, wk_io *io, const wk_open_options *options, bool killed) {
	killed ? kill_store(ns, io) : close_store(ns);
	return open_store_with(io, options);
}

static void is_freed(enum leaving leaving) {
	wk_io *io = new_disk(1);
	wk_open_options options;
	wk_namespace *ns = open_on_a_disk_of(io, CAPACITY, &options);
	int64_t count = 0, deleted = 0;
	wk_status status = WK_OK;
	for (; count < ADDS_MAX && status == WK_OK; count += status == WK_OK) {
		status = add_large(ns, count);
		if (count % 8 == 0)
			let_the_keeper_work(ns, io, 50, 1000);
	}
	CHECK_EQ(status, WK_NO_SPACE);
	let_the_keeper_work(ns, io, 50, 1000);
	take_what_is_left(io);
	if (leaving == CLOSED_BEFORE_DELETES)
		ns = leave(ns, io, &options, false);
	while (deleted < count && wk_ledger_delete(ns, deleted, UINT64_MAX, NULL, NULL) == WK_OK)
		deleted++; /* until the reserve for such changes is used up */
	if (leaving == KILLED_BEHIND_DELETES)
		ns = leave(ns, io, &options, true);
	CHECK(deleted > 40);
	for (; deleted < count; deleted++) {
		let_the_keeper_work(ns, io, 50, 1000);
		CHECK_EQ(wk_ledger_delete(ns, deleted, UINT64_MAX, NULL, NULL), WK_OK);
	}
	let_the_keeper_work(ns, io, 50, 1000);
	CHECK_EQ(add_large(ns, count), WK_OK);
	wk_abandon(ns);
	io->operations->destroy(io);
}

TEST(a_disk_that_is_full_when_it_is_opened_is_freed) {
	is_freed(CLOSED_BEFORE_DELETES);
}

TEST(a_disk_that_is_full_behind_a_kill_is_freed) {
	is_freed(KILLED_BEHIND_DELETES);
}

/* ---- ledgers with entries in many files: the index has a range for each ---- */

enum { FILES = 30, SMALLS = 1000, SMALL_SIZE = 100, LARGES = 60, FIRST_LARGE = 100000 };

static wk_status add_to_small_ledgers(wk_namespace *ns, int64_t entry_id) {
	static uint8_t bytes[SMALLS][SMALL_SIZE];
	static wk_add adds[SMALLS];
	for (int64_t i = 0; i < SMALLS; i++) {
		wk_store_be64(bytes[i], (uint64_t)i);
		wk_store_be64(bytes[i] + 8, (uint64_t)entry_id);
		adds[i] = an_add(bytes[i], SMALL_SIZE, 0);
	}
	return wk_ledger_add(ns, adds, SMALLS, UINT64_MAX, true, NULL);
}

TEST(deletes_free_a_disk_of_ledgers_in_many_files) {
	wk_io *io = new_disk(1);
	wk_open_options options;
	wk_namespace *ns = open_on_a_disk_of(io, FILES * FILE_SIZE, &options);
	int64_t entry_id = 0, first = FIRST_LARGE, next = first;
	wk_status status = WK_OK;
	while (status == WK_OK) {
		for (uint64_t at = ns->engine->active->id; status == WK_OK && ns->engine->active->id == at;) {
			status = add_to_small_ledgers(ns, entry_id++);
			let_the_keeper_work(ns, io, 50, 1000);
		}
		for (int i = 0; i < LARGES && status == WK_OK; i++) {
			status = add_large(ns, next);
			next += status == WK_OK;
			if (i % 8 == 0)
				let_the_keeper_work(ns, io, 50, 1000);
		}
	}
	CHECK_EQ(status, WK_NO_SPACE);
	let_the_keeper_work(ns, io, 50, 1000);
	take_what_is_left(io);
	wk_error error = {0};
	while (first < next) {
		uint64_t ticket = 0;
		for (int i = 0; i < 100 && first < next; i++)
			check_ok(wk_ledger_delete(ns, first++, UINT64_MAX, &ticket, &error), &error, "a delete");
		check_ok(wk_namespace_wait(ns, ticket, UINT64_MAX, &error), &error, "the deletes");
		let_the_keeper_work(ns, io, 50, 1000);
	}
	CHECK_EQ(add_large(ns, next), WK_OK);
	wk_abandon(ns);
	io->operations->destroy(io);
}

/* ---- what an index costs ---- */

/* Each dead file of keys waits for an index; but not each for one of its own, where that is large. */
TEST(an_index_is_not_written_for_each_file_that_waits_for_one) {
	enum { IDLE = 4000, CHURN = 3000, KEPT = 20 };
	static uint8_t bytes[64];
	wk_io *io = new_disk(1);
	wk_open_options options = store_options();
	options.file_size_min = options.file_size_max = 64 * 1024;
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t id = 0; id < IDLE; id++) {
		wk_store_be64(bytes, (uint64_t)id);
		wk_add add = an_add(bytes, sizeof bytes, WK_ADD_DEFERRED);
		CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
		if (id % 100 == 0)
			let_the_keeper_work(ns, io, 10, 10);
	}
	uint64_t before = ns->engine->index.generation;
	for (int64_t id = 0; id < CHURN; id++) {
		CHECK_EQ(add_large(ns, IDLE + id), WK_OK);
		if (id >= KEPT)
			CHECK_EQ(wk_ledger_delete(ns, IDLE + id - KEPT, UINT64_MAX, NULL, NULL), WK_OK);
		let_the_keeper_work(ns, io, 5, 10);
	}
	uint64_t written = ns->engine->index.generation - before, size = ns->engine->index.size,
	         recycled = ns->engine->counters.recycled_files;
	printf("%llu index files of %llu bytes for %llu files given back\n", (unsigned long long)written,
	       (unsigned long long)size, (unsigned long long)recycled);
	CHECK(size > 6 * 64 * 1024); /* so that two files are not worth it */
	CHECK(recycled > 100);
	CHECK(written * 7 < recycled);
	CHECK(written * size < (uint64_t)CHURN * LARGE * 5);
	wk_abandon(ns);
	io->operations->destroy(io);
}

int main(void) {
	RUN(a_disk_that_is_full_again_and_again_is_freed_each_time);
	RUN(a_disk_of_files_of_one_size_that_is_full_again_and_again_is_freed_each_time);
	RUN(a_disk_that_is_full_when_it_is_opened_is_freed);
	RUN(a_disk_that_is_full_behind_a_kill_is_freed);
	RUN(deletes_free_a_disk_of_ledgers_in_many_files);
	RUN(an_index_is_not_written_for_each_file_that_waits_for_one);
	return check_done();
}
