/*
 * test_ledger_add.c: adding entries to a ledger store: sizes, batches and the answer to each of them, room in flight,
 * and when an entry is durable and read.
 */
/* ctest labels: one-thread */
#include "ledger_store.h"
#include "sim/faulty.h"

TEST(an_entry_is_its_bytes_whatever_its_digest) {
	wk_io *io = new_disk(3);
	wk_namespace *ns = open_store(io);
	uint8_t bytes[16] = {0};
	wk_store_be64(bytes, 5);
	wk_store_be64(bytes + 8, 7);
	wk_add add = an_add(bytes, sizeof bytes, 0); /* no room for a digest at all */
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
	for (int round = 0; round < 2; round++) {
		wk_entry_batch *batch;
		CHECK_EQ(wk_ledger_read(ns, 5, 7, 1, 1000, &batch, NULL), WK_OK);
		size_t count;
		const wk_stored_entry *entry = wk_entry_batch_entries(batch, &count);
		CHECK_EQ(entry->size, sizeof bytes);
		CHECK(memcmp(entry->bytes, bytes, sizeof bytes) == 0);
		wk_entry_batch_release(batch);
		kill_store(ns, io);
		ns = open_store(io);
	}
	close_store(ns);
	io->operations->destroy(io);
}

TEST(the_largest_entry_is_taken_and_one_byte_more_refused) {
	wk_io *io = new_disk(4);
	wk_namespace *ns = open_store(io);
	uint8_t *bytes = calloc(1, WK_LEDGER_ENTRY_MAX + 1);
	wk_store_be64(bytes, 1);
	uint64_t seed = 4;
	check_random_bytes(&seed, bytes + 16, WK_LEDGER_ENTRY_MAX - 16);
	wk_add add = an_add(bytes, WK_LEDGER_ENTRY_MAX + 1, 0);
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_TOO_LARGE);
	CHECK(!is_known(ns, 1));
	add.size = WK_LEDGER_ENTRY_MAX;
	wk_error error = {0};
	check_ok(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, &error), &error, "the largest entry");
	kill_store(ns, io);
	ns = open_store(io);
	wk_entry_batch *batch;
	CHECK_EQ(wk_ledger_read(ns, 1, 0, 10, 1, &batch, NULL), WK_OK); /* the first may be larger than what is asked for */
	size_t count;
	const wk_stored_entry *entry = wk_entry_batch_entries(batch, &count);
	CHECK_EQ(count, 1);
	CHECK_EQ(entry->size, WK_LEDGER_ENTRY_MAX);
	CHECK(memcmp(entry->bytes, bytes, WK_LEDGER_ENTRY_MAX) == 0);
	wk_entry_batch_release(batch);
	add.size = 15;
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_INVALID);
	free(bytes);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(each_add_of_a_batch_has_its_own_answer) {
	wk_io *io = new_disk(5);
	wk_namespace *ns = open_store(io);
	CHECK_EQ(fence(ns, 2), WK_OK);
	add_entry(ns, 3, 0);
	enum { COUNT = 6 };
	static uint8_t bytes[COUNT][ENTRY_SIZE_MAX];
	static const int64_t ids[COUNT][2] = {{1, 0}, {2, 0}, {3, 1}, {2, 0}, {-1, 0}, {1, 1}};
	wk_add adds[COUNT];
	for (int i = 0; i < COUNT; i++)
		adds[i] = an_add(bytes[i], fill_entry(ids[i][0], ids[i][1], (uint64_t)i + 1, bytes[i]), 0);
	adds[2].key = OTHER_KEY;
	adds[3].flags = WK_ADD_RECOVERY;
	wk_error error = {0};
	CHECK_EQ(wk_ledger_add(ns, adds, COUNT, UINT64_MAX, true, &error), WK_FENCED);
	CHECK(strstr(error.text, "ledger 2 is fenced") != NULL); /* the first refusal */
	static const wk_status expected[COUNT] = {WK_OK, WK_FENCED, WK_WRONG_KEY, WK_OK, WK_INVALID, WK_OK};
	for (int i = 0; i < COUNT; i++) {
		CHECK_EQ(adds[i].status, expected[i]);
		CHECK_EQ(adds[i].ticket != 0, expected[i] == WK_OK);
	}
	CHECK_EQ(version_of(ns, 1, 0), 1);
	CHECK_EQ(version_of(ns, 1, 1), 6);
	CHECK_EQ(version_of(ns, 2, 0), 4);
	CHECK_EQ(version_of(ns, 3, 1), 0);
	CHECK(!is_known(ns, -1));
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_batch_is_one_block) {
	wk_io *io = new_disk(6);
	wk_namespace *ns = open_store(io);
	enum { COUNT = 50 };
	static uint8_t bytes[COUNT][64];
	wk_add adds[COUNT];
	for (int i = 0; i < COUNT; i++) {
		wk_store_be64(bytes[i], (uint64_t)i % 5);
		wk_store_be64(bytes[i] + 8, (uint64_t)i);
		adds[i] = an_add(bytes[i], sizeof bytes[i], 0);
	}
	uint64_t before = stats_of(ns).blocks_count;
	CHECK_EQ(wk_ledger_add(ns, adds, COUNT, UINT64_MAX, true, NULL), WK_OK);
	CHECK_EQ(stats_of(ns).blocks_count, before + 1);
	CHECK_EQ(stats_of(ns).appended_records, COUNT);
	CHECK_EQ(adds[0].ticket, adds[COUNT - 1].ticket);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(without_room_an_add_says_so_and_those_behind_it_as_well) {
	wk_io *io = new_disk(7);
	wk_open_options options = store_options();
	options.in_flight_bytes = 4096;
	wk_namespace *ns = open_store_with(io, &options);
	static uint8_t bytes[4][3000];
	wk_add adds[4];
	for (int i = 0; i < 4; i++) {
		wk_store_be64(bytes[i] + 8, (uint64_t)i);
		adds[i] = an_add(bytes[i], sizeof bytes[i], 0);
	}
	wk_error error = {0};
	CHECK_EQ(wk_ledger_add(ns, adds, 4, 0, false, &error), WK_WOULD_BLOCK);
	CHECK_EQ(adds[0].status, WK_OK);
	for (int i = 1; i < 4; i++) {
		CHECK_EQ(adds[i].status, WK_WOULD_BLOCK);
		CHECK_EQ(adds[i].ticket, 0);
	}
	check_ok(wk_namespace_wait(ns, adds[0].ticket, UINT64_MAX, &error), &error, "the wait");
	CHECK_EQ(entries_of(ns, 0), 1);
	CHECK_EQ(wk_ledger_add(ns, adds + 1, 3, UINT64_MAX, true, &error), WK_OK); /* it waits for room three times */
	CHECK_EQ(entries_of(ns, 0), 4);
	close_store(ns);
	io->operations->destroy(io);
}

static wk_status add_of(wk_namespace *ns, int64_t ledger_id, int64_t entry_id, uint32_t flags) {
	static uint8_t bytes[500];
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_store_be64(bytes + 8, (uint64_t)entry_id);
	wk_add add = an_add(bytes, sizeof bytes, flags);
	return wk_ledger_add(ns, &add, 1, 0, false, NULL);
}

/* How many of ledger `ledger_id` find room. */
static int64_t adds_until_full(wk_namespace *ns, int64_t ledger_id, uint32_t flags) {
	int64_t count = 0;
	while (add_of(ns, ledger_id, count, flags) == WK_OK)
		CHECK(++count < 1000);
	CHECK_EQ(add_of(ns, ledger_id, count, flags), WK_WOULD_BLOCK);
	return count;
}

/* Where writers have filled all that there is, a ledger whose writer died can be closed. */
static void recoveries_have_room(const wk_open_options *options) {
	wk_io *io = new_disk(7);
	wk_namespace *ns = open_store_with(io, options);
	uint64_t ticket;
	int64_t ordinary = adds_until_full(ns, 1, 0);
	CHECK(ordinary > 10);
	CHECK_EQ(wk_ledger_set_lac(ns, 2, NULL, 0, "lac", 3, 0, &ticket, NULL), WK_WOULD_BLOCK);
	CHECK_EQ(wk_ledger_fence(ns, 2, NULL, 0, 0, &ticket, NULL), WK_OK);
	int64_t spared = adds_until_full(ns, 2, WK_ADD_RECOVERY);
	CHECK(spared > 0 && spared < ordinary / 4);
	CHECK_EQ(add_of(ns, 1, ordinary, 0), WK_WOULD_BLOCK);
	CHECK_EQ(wk_namespace_wait(ns, ticket, UINT64_MAX, NULL), WK_OK);
	work(ns);
	CHECK_EQ(entries_of(ns, 1), ordinary);
	CHECK_EQ(entries_of(ns, 2), spared);
	CHECK_EQ(add_of(ns, 1, ordinary, 0), WK_OK);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(cluster_rule_4_recoveries_have_room_beside_what_is_under_way) {
	wk_open_options options = store_options();
	options.in_flight_bytes = 32 * 500; /* so many adds, and nothing beside them */
	recoveries_have_room(&options);
}

TEST(cluster_rule_4_recoveries_have_room_in_a_block_that_is_full) {
	wk_open_options options = store_options();
	options.block_size_max = 32 * 1024;
	options.in_flight_bytes = 1 << 20;
	recoveries_have_room(&options);
}

TEST(what_is_not_durable_is_not_read) {
	wk_io *io = new_disk(8);
	wk_namespace *ns = open_store(io);
	add_entry(ns, 1, 0);
	uint64_t ticket;
	CHECK_EQ(add_version(ns, 1, 1, 9, WK_ADD_DEFERRED, &ticket), WK_OK);
	CHECK_EQ(version_of(ns, 1, 1), 0);
	CHECK_EQ(info_of(ns, 1).last_entry, 0);
	CHECK(wk_namespace_durable(ns) < ticket);
	CHECK_EQ(wk_ledger_force(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK(wk_namespace_durable(ns) >= ticket);
	CHECK_EQ(version_of(ns, 1, 1), 9);
	CHECK_EQ(wk_ledger_force(ns, 2, UINT64_MAX, NULL, NULL), WK_NO_LEDGER);
	uint64_t forced;
	CHECK_EQ(add_version(ns, 1, 2, 10, WK_ADD_DEFERRED, &ticket), WK_OK);
	CHECK_EQ(wk_ledger_force(ns, 1, 0, &forced, NULL), WK_OK);
	CHECK_EQ(forced, ticket);
	CHECK_EQ(wk_namespace_wait(ns, forced, UINT64_MAX, NULL), WK_OK);
	CHECK_EQ(version_of(ns, 1, 2), 10);
	close_store(ns);
	io->operations->destroy(io);
}

static struct wk_io_operations of_a_slow_disk;
static const struct wk_io_operations *of_the_disk;
enum { MS = 1000000, WRITE_MS = 3, WAIT_MS = 5 };

static int64_t write_slowly(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset,
                            uint32_t flags) {
	wk_faulty_advance(wk_faulty_of(io), WRITE_MS * MS);
	return of_the_disk->pwrite(io, file, buffer, size, offset, flags);
}

static int sync_slowly(wk_io *io, wk_file *file) {
	wk_faulty_advance(wk_faulty_of(io), WRITE_MS * MS);
	return of_the_disk->sync(io, file);
}

/* One block of three entries that waited, then one of a single entry that did not. */
static void times_are_counted(uint32_t sync_method) {
	wk_io *io = new_disk(9);
	wk_open_options options = store_options();
	options.sync_method = sync_method;
	wk_namespace *ns = open_store_with(io, &options);
	of_the_disk = io->operations;
	of_a_slow_disk = *of_the_disk;
	of_a_slow_disk.pwrite = write_slowly;
	of_a_slow_disk.sync = sync_slowly;
	static uint8_t bytes[4][100];
	wk_add adds[4];
	for (int i = 0; i < 4; i++) {
		wk_store_be64(bytes[i] + 8, (uint64_t)i);
		adds[i] = an_add(bytes[i], sizeof bytes[i], 0);
	}
	wk_journal_times before, times;
	wk_namespace_journal_times(ns, &before);
	CHECK_EQ(before.block_records.count, 0);
	io->operations = &of_a_slow_disk;
	CHECK_EQ(wk_ledger_add(ns, adds, 3, 0, false, NULL), WK_OK);
	wk_faulty_advance(wk_faulty_of(io), WAIT_MS * MS);
	CHECK_EQ(wk_namespace_wait(ns, adds[2].ticket, UINT64_MAX, NULL), WK_OK);
	CHECK_EQ(wk_ledger_add(ns, adds + 3, 1, UINT64_MAX, true, NULL), WK_OK);
	io->operations = of_the_disk;
	wk_namespace_journal_times(ns, &times);
	CHECK_EQ(times.block_records.count, 2);
	CHECK_EQ(times.block_records.sum, 4);
	CHECK_EQ(times.block_records.buckets[1], 1); /* below 2 */
	CHECK_EQ(times.block_records.buckets[2], 1); /* below 4 */
	CHECK_EQ(times.block_bytes.sum, 400);
	CHECK_EQ(times.wait_ns.count, 2);
	CHECK_EQ(times.wait_ns.sum / MS, WAIT_MS); /* the simulated clock moves a little with each call */
	CHECK_EQ(times.sync_ns.count - before.sync_ns.count, 2);
	CHECK_EQ((times.sync_ns.sum - before.sync_ns.sum) / MS, 2 * WRITE_MS);
	CHECK_EQ(times.sync_ns.count, stats_of(ns).syncs_count);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(syncs_waits_and_blocks_are_counted_with_their_sizes) {
	times_are_counted(WK_SYNC_DSYNC);
	times_are_counted(WK_SYNC_WRITE_THEN_SYNC);
}

int main(void) {
	RUN(an_entry_is_its_bytes_whatever_its_digest);
	RUN(the_largest_entry_is_taken_and_one_byte_more_refused);
	RUN(each_add_of_a_batch_has_its_own_answer);
	RUN(a_batch_is_one_block);
	RUN(without_room_an_add_says_so_and_those_behind_it_as_well);
	RUN(cluster_rule_4_recoveries_have_room_beside_what_is_under_way);
	RUN(cluster_rule_4_recoveries_have_room_in_a_block_that_is_full);
	RUN(what_is_not_durable_is_not_read);
	RUN(syncs_waits_and_blocks_are_counted_with_their_sizes);
	return check_done();
}
