/*
 * test_ledger_full_disk.c: on a full disk a delete frees what its ledger took, also where journal files hold state
 * records (keys, fences), which only an index file lets go of.
 */
/* ctest labels: one-thread */
#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"

enum {
	FILE_SIZE = 256 * 1024,
	CAPACITY = 12 * FILE_SIZE,
	ADDS_MAX = 20000,
	SIZE_MAX_HERE = 8000,
	ROUNDS = 3,
	TOGETHER = 100
};

static void let_the_keeper_work(wk_namespace *ns, wk_io *io) {
	for (int i = 0; i < 50; i++) {
		bool idle;
		wk_faulty_advance(wk_faulty_of(io), 1000000000);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
}

/* An entry of a ledger of its own, with its key: each journal file holds state records. */
static bool keyless; /* only deletes are state records then */
static wk_status add_one(wk_namespace *ns, int64_t ledger_id, size_t size) {
	static uint8_t bytes[SIZE_MAX_HERE];
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_add add = an_add(bytes, size, WK_ADD_DEFERRED);
	add.key_size = keyless ? 0 : add.key_size;
	return wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL);
}

/* Ledgers from *next on, until the disk is full; how many. */
static int64_t fill_up(wk_namespace *ns, wk_io *io, size_t size, int64_t *next) {
	wk_status status = WK_OK;
	int64_t first = *next;
	for (; *next < first + ADDS_MAX && status == WK_OK; *next += status == WK_OK) {
		status = add_one(ns, *next, size);
		if (*next * (int64_t)size % 65536 < (int64_t)size)
			let_the_keeper_work(ns, io);
	}
	CHECK_EQ(status, WK_NO_SPACE);
	return *next - first;
}

/* Many in a block: alone each takes one. */
static void delete_all(wk_namespace *ns, wk_io *io, int64_t *first, int64_t end) {
	while (*first < end) {
		uint64_t ticket = 0;
		wk_error error = {0};
		for (int i = 0; i < TOGETHER && *first < end; i++, ++*first)
			check_ok(wk_ledger_delete(ns, *first, UINT64_MAX, &ticket, &error), &error, "a delete on a full disk");
		check_ok(wk_namespace_wait(ns, ticket, UINT64_MAX, &error), &error, "deletes on a full disk");
		let_the_keeper_work(ns, io);
	}
}

static wk_namespace *open_on_a_small_disk(wk_io *io, wk_open_options *options) {
	*options = store_options();
	options->file_size_min = options->file_size_max = FILE_SIZE;
	wk_namespace *ns = open_store_with(io, options);
	let_the_keeper_work(ns, io);
	wk_faulty_set_capacity(wk_faulty_of(io), CAPACITY);
	return ns;
}

static void fill_and_delete(size_t size) {
	wk_io *io = new_disk(1);
	wk_open_options options;
	wk_namespace *ns = open_on_a_small_disk(io, &options);
	int64_t next = 0, deleted = 0, usual = fill_up(ns, io, size, &next);
	for (int round = 0; round < ROUNDS; round++) {
		if (keyless) {
			kill_store(ns, io);
			ns = open_store_with(io, &options);
		}
		delete_all(ns, io, &deleted, next);
		CHECK(fill_up(ns, io, size, &next) > usual / 2);
	}
	close_store(ns);
	io->operations->destroy(io);
}

/* In one call: what the reserve is for is not refused because somebody else's add was. */
TEST(cluster_rule_5_a_recovery_add_behind_one_without_space_is_accepted) {
	wk_io *io = new_disk(1);
	wk_open_options options;
	wk_namespace *ns = open_on_a_small_disk(io, &options);
	int64_t next = 0;
	fill_up(ns, io, SIZE_MAX_HERE, &next);
	static uint8_t bytes[2][SIZE_MAX_HERE];
	wk_add adds[2];
	for (int i = 0; i < 2; i++) {
		wk_store_be64(bytes[i], (uint64_t)(next + i));
		adds[i] = an_add(bytes[i], SIZE_MAX_HERE, i == 0 ? 0 : WK_ADD_RECOVERY);
	}
	CHECK_EQ(wk_ledger_add(ns, adds, 2, UINT64_MAX, true, NULL), WK_NO_SPACE);
	CHECK_EQ(adds[0].status, WK_NO_SPACE);
	CHECK_EQ(adds[1].status, WK_OK);
	CHECK_EQ(entries_of(ns, next + 1), 1);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(deletes_give_back_files_of_keys_on_a_full_disk) {
	fill_and_delete(SIZE_MAX_HERE);
}

/* The index is larger than what the mover keeps back for the size of its files. */
TEST(deletes_give_back_files_of_many_keys_on_a_full_disk) {
	fill_and_delete(200);
}

/* After an open nothing is in memory of ledgers without state. */
TEST(deletes_give_back_files_of_deletes_on_a_full_disk) {
	keyless = true;
	fill_and_delete(SIZE_MAX_HERE);
	fill_and_delete(200);
	keyless = false;
}

int main(void) {
	RUN(cluster_rule_5_a_recovery_add_behind_one_without_space_is_accepted);
	RUN(deletes_give_back_files_of_keys_on_a_full_disk);
	RUN(deletes_give_back_files_of_many_keys_on_a_full_disk);
	RUN(deletes_give_back_files_of_deletes_on_a_full_disk);
	return check_done();
}
