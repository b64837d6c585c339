/* test_ledgers.c: the rules of a ledger store (walkeeper/ledger.h), one by one. */
#include "ledger_store.h"
#include "small_directory.h"

#include <errno.h>
#include <pthread.h>

#include "engine/index_file.h"
#include "walkeeper/inspect.h"

static wk_stats stats_of(wk_namespace *ns) {
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	return stats;
}

/* ---- the directory ---- */

TEST(a_directory_is_of_one_kind_for_ever) {
	wk_io *io = new_disk(1);
	wk_namespace *ns = open_store(io), *other = NULL;
	add_entry(ns, 0, 0);
	wk_log *log;
	wk_error error;
	char *names;
	size_t size;
	uint64_t count;
	CHECK_EQ(wk_log_open(ns, "log", 3, true, NULL, &log, &error), WK_INVALID);
	CHECK(strstr(error.text, "ledger store") != NULL);
	CHECK_EQ(wk_log_delete(ns, "log", 3, &error), WK_INVALID);
	CHECK_EQ(wk_log_rename(ns, "log", 3, "gol", 3, &error), WK_INVALID);
	CHECK_EQ(wk_log_names(ns, "", 0, &names, &size, &count, &error), WK_INVALID);
	close_store(ns);
	wk_open_options options = store_options();
	options.kind = WK_KIND_LOGS;
	CHECK_EQ(wk_open_on(io, "store", &options, &other, &error), WK_INVALID);
	CHECK(strstr(error.text, "store is a ledger store") != NULL);
	is_well(wk_open_on(io, "logs", &options, &other, &error), &error, "a namespace of logs opens");
	wk_ledger_info info;
	CHECK_EQ(wk_ledger_describe(other, 0, &info, &error), WK_INVALID);
	CHECK(strstr(error.text, "namespace of logs") != NULL);
	CHECK_EQ(add_version(other, 1, 1, 1, 0, NULL), WK_INVALID);
	close_store(other);
	options.kind = WK_KIND_LEDGERS;
	CHECK_EQ(wk_open_on(io, "logs", &options, &other, &error), WK_INVALID);
	options.kind = 2;
	CHECK_EQ(wk_open_on(io, "logs", &options, &other, &error), WK_INVALID);
	ns = open_store(io);
	CHECK_EQ(version_of(ns, 0, 0), 1); /* the refused opens did nothing to it */
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_store_is_not_opened_read_only_nor_with_loss) {
	wk_io *io = new_disk(2);
	close_store(open_store(io));
	wk_open_options options = store_options();
	wk_namespace *ns;
	options.read_only = true;
	CHECK_EQ(wk_open_on(io, "store", &options, &ns, NULL), WK_UNSUPPORTED);
	options.read_only = false;
	options.on_damage = WK_ON_DAMAGE_SKIP;
	CHECK_EQ(wk_open_on(io, "store", &options, &ns, NULL), WK_UNSUPPORTED);
	io->operations->destroy(io);
}

/* ---- adds ---- */

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
	is_well(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, &error), &error, "the largest entry");
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
	is_well(wk_namespace_wait(ns, adds[0].ticket, UINT64_MAX, &error), &error, "the wait");
	CHECK_EQ(entries_of(ns, 0), 1);
	CHECK_EQ(wk_ledger_add(ns, adds + 1, 3, UINT64_MAX, true, &error), WK_OK); /* it waits for room three times */
	CHECK_EQ(entries_of(ns, 0), 4);
	close_store(ns);
	io->operations->destroy(io);
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

/* ---- keys ---- */

TEST(the_first_key_of_a_ledger_is_its_key_also_after_a_kill) {
	wk_io *io = new_disk(9);
	wk_namespace *ns = open_store(io);
	add_entry(ns, 1, 0);
	for (int round = 0; round < 3; round++) {
		CHECK_EQ(info_of(ns, 1).key_size, sizeof KEY - 1);
		CHECK(memcmp(info_of(ns, 1).key, KEY, sizeof KEY - 1) == 0);
		wk_error error;
		uint32_t size = sizeof OTHER_KEY - 1;
		CHECK_EQ(wk_ledger_fence(ns, 1, OTHER_KEY, size, UINT64_MAX, NULL, &error), WK_WRONG_KEY);
		CHECK_EQ(wk_ledger_fence(ns, 1, KEY, sizeof KEY - 2, UINT64_MAX, NULL, &error), WK_WRONG_KEY);
		CHECK_EQ(wk_ledger_fence(ns, 1, NULL, 0, UINT64_MAX, NULL, &error), WK_WRONG_KEY);
		CHECK_EQ(wk_ledger_set_lac(ns, 1, OTHER_KEY, size, "x", 1, UINT64_MAX, NULL, &error), WK_WRONG_KEY);
		CHECK(!info_of(ns, 1).fenced);
		kill_store(ns, io);
		ns = open_store(io);
	}
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_key_stands_in_the_block_of_the_first_entry_before_it) {
	wk_io *io = new_disk(10);
	wk_namespace *ns = open_store(io);
	add_entry(ns, 1, 0);
	const wk_store_file *file = ns->engine->active;
	static uint8_t block[64 * 1024] __attribute__((aligned(4096)));
	CHECK(io->operations->pread(io, file->handle, block, sizeof block, 0) > 0);
	wk_block_header header;
	CHECK_EQ(wk_block_decode(block, sizeof block, &header), WK_OK);
	uint32_t cursor = WK_BLOCK_HEADER_SIZE;
	wk_block_record record;
	CHECK_EQ(wk_block_next(block, &header, &cursor, &record), WK_OK);
	CHECK_EQ(record.type, WK_BLOCK_MASTER_KEY);
	CHECK_EQ(wk_block_next(block, &header, &cursor, &record), WK_OK);
	CHECK_EQ(record.type, WK_BLOCK_SUMMED_ENTRY);
	CHECK_EQ(wk_block_next(block, &header, &cursor, &record), WK_END);
	add_entry(ns, 1, 1);
	CHECK_EQ(file->states_count, 1); /* once */
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_ledger_without_a_key_can_be_given_one) {
	wk_io *io = new_disk(11);
	wk_namespace *ns = open_store(io);
	uint8_t bytes[32] = {0};
	wk_add add = {.bytes = bytes, .size = sizeof bytes};
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
	CHECK_EQ(info_of(ns, 0).key_size, 0);
	add_entry(ns, 0, 1);
	CHECK_EQ(info_of(ns, 0).key_size, sizeof KEY - 1);
	wk_store_be64(bytes + 8, 2);
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_WRONG_KEY);
	add.key = bytes;
	add.key_size = WK_LEDGER_KEY_MAX + 1;
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_INVALID);
	close_store(ns);
	io->operations->destroy(io);
}

/* ---- fences ---- */

/*
 * The driver has marked the open block as a confirm block, which waits for a footer, as its lock is free for others
 * then: what joins it must be found again. A confirm block that holds anything would be refused.
 */
TEST(what_joins_a_confirm_block_that_waits_is_found_again) {
	for (int joins = 0; joins < 2; joins++) {
		wk_io *io = new_disk(27);
		wk_namespace *ns = open_store(io);
		add_entry(ns, 1, 0);
		wk_engine_lock(ns->engine);
		CHECK(wk_block_is_empty(&ns->engine->open) && ns->engine->confirm_pending);
		ns->engine->open.confirm = true;
		wk_engine_unlock(ns->engine);
		if (joins == 0)
			add_entry(ns, 1, 1);
		else
			CHECK_EQ(fence(ns, 1), WK_OK);
		kill_store(ns, io);
		ns = open_store(io);
		CHECK_EQ(info_of(ns, 1).last_entry, joins == 0);
		CHECK_EQ(info_of(ns, 1).fenced, joins == 1);
		close_store(ns);
		io->operations->destroy(io);
	}
}

TEST(a_fence_is_durable_when_it_is_answered) {
	wk_io *io = new_disk(12);
	wk_namespace *ns = open_store(io);
	add_entry(ns, 1, 0);
	CHECK_EQ(fence(ns, 1), WK_OK);
	CHECK_EQ(fence(ns, 77), WK_OK); /* nothing is known of it: all the same */
	wk_abandon(ns);
	wk_faulty_crash(wk_faulty_of(io), 12);
	for (int round = 0; round < 2; round++) {
		ns = open_store(io);
		CHECK(info_of(ns, 1).fenced && info_of(ns, 77).fenced);
		CHECK_EQ(info_of(ns, 77).last_entry, -1);
		CHECK_EQ(info_of(ns, 77).key_size, sizeof KEY - 1);
		CHECK_EQ(add_version(ns, 1, 1, 5, 0, NULL), WK_FENCED);
		CHECK_EQ(add_version(ns, 77, 0, 5, WK_ADD_DEFERRED, NULL), WK_FENCED);
		uint64_t blocks = stats_of(ns).blocks_count;
		CHECK_EQ(fence(ns, 1), WK_OK); /* again: nothing more to write */
		CHECK_EQ(stats_of(ns).blocks_count, blocks);
		CHECK_EQ(add_version(ns, 1, 1 + round, 6, WK_ADD_RECOVERY, NULL), WK_OK);
		CHECK_EQ(info_of(ns, 1).last_entry, 1 + round);
		close_store(ns);
	}
	io->operations->destroy(io);
}

TEST(adds_in_flight_are_resolved_when_a_fence_is_answered) {
	wk_io *io = new_disk(13);
	wk_namespace *ns = open_store(io);
	uint64_t ticket;
	CHECK_EQ(add_version(ns, 1, 0, 1, 0, &ticket), WK_OK);
	CHECK_EQ(add_version(ns, 1, 1, 2, WK_ADD_DEFERRED, &ticket), WK_OK);
	CHECK(!is_known(ns, 1)); /* neither is durable */
	CHECK_EQ(fence(ns, 1), WK_OK);
	CHECK_EQ(info_of(ns, 1).last_entry, 1);
	CHECK_EQ(version_of(ns, 1, 0), 1);
	CHECK_EQ(version_of(ns, 1, 1), 2);
	/* The same with a ticket: refused from the moment of the call on. */
	CHECK_EQ(add_version(ns, 2, 0, 1, 0, &ticket), WK_OK);
	uint64_t fenced;
	CHECK_EQ(wk_ledger_fence(ns, 2, KEY, sizeof KEY - 1, 0, &fenced, NULL), WK_OK);
	CHECK(fenced >= ticket);
	CHECK_EQ(add_version(ns, 2, 1, 1, 0, &ticket), WK_FENCED);
	CHECK_EQ(add_version(ns, 2, 1, 3, WK_ADD_RECOVERY, &ticket), WK_OK);
	CHECK_EQ(fence(ns, 2), WK_OK); /* the second client hears of what the first one writes back */
	CHECK_EQ(version_of(ns, 2, 1), 3);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_fence_whose_sync_fails_is_not_answered) {
	wk_io *io = new_disk(14);
	wk_namespace *ns = open_store(io);
	add_entry(ns, 1, 0);
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_WRITE, 0, EIO, false);
	wk_error error;
	CHECK_EQ(wk_ledger_fence(ns, 1, KEY, sizeof KEY - 1, UINT64_MAX, NULL, &error), WK_FAILED);
	CHECK(error.outcome_unknown);
	wk_faulty_heal(wk_faulty_of(io));
	CHECK_EQ(fence(ns, 1), WK_FAILED);
	CHECK(add_version(ns, 1, 1, 2, 0, NULL) != WK_OK);
	CHECK_EQ(version_of(ns, 1, 0), 1); /* reading goes on */
	kill_store(ns, io);
	io->operations->destroy(io);
}

/* ---- explicit LAC ---- */

TEST(the_last_explicit_lac_counts) {
	wk_io *io = new_disk(15);
	wk_namespace *ns = open_store(io);
	uint32_t size = sizeof KEY - 1;
	CHECK_EQ(wk_ledger_set_lac(ns, 4, KEY, size, "a longer packet", 15, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(info_of(ns, 4).lac_size, 15);
	CHECK_EQ(wk_ledger_set_lac(ns, 4, KEY, size, "short", 5, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(fence(ns, 4), WK_OK);
	CHECK_EQ(wk_ledger_set_lac(ns, 4, KEY, size, "fenced", 6, UINT64_MAX, NULL, NULL), WK_OK);
	kill_store(ns, io);
	ns = open_store(io);
	CHECK_EQ(info_of(ns, 4).lac_size, 6);
	CHECK(memcmp(info_of(ns, 4).lac, "fenced\0", 7) == 0);
	uint64_t ticket;
	CHECK_EQ(wk_ledger_set_lac(ns, 4, KEY, size, "later", 5, 0, &ticket, NULL), WK_OK);
	CHECK_EQ(info_of(ns, 4).lac_size, 6); /* not durable yet */
	CHECK_EQ(wk_namespace_wait(ns, ticket, UINT64_MAX, NULL), WK_OK);
	CHECK_EQ(info_of(ns, 4).lac_size, 5);
	CHECK_EQ(wk_ledger_set_lac(ns, 4, KEY, size, "", 0, UINT64_MAX, NULL, NULL), WK_INVALID);
	close_store(ns);
	io->operations->destroy(io);
}

/* ---- reading ---- */

TEST(absent_unknown_and_damaged_are_told_apart) {
	wk_io *io = new_disk(16);
	wk_open_options options = store_options();
	options.memtable_bytes = 1; /* everything is read from the disk */
	wk_namespace *ns = open_store_with(io, &options);
	wk_entry_batch *batch;
	wk_error error;
	add_entry(ns, 1, 3);
	CHECK_EQ(wk_ledger_read(ns, 2, 0, 1, 100, &batch, &error), WK_NO_LEDGER);
	CHECK_EQ(wk_ledger_read(ns, 2, WK_LAST_ENTRY, 1, 100, &batch, &error), WK_NO_LEDGER);
	CHECK_EQ(wk_ledger_read(ns, 1, 4, 1, 100, &batch, &error), WK_NOT_FOUND);
	CHECK_EQ(wk_ledger_read(ns, 1, 2, 1, 100, &batch, &error), WK_NOT_FOUND); /* a hole */
	CHECK_EQ(wk_ledger_read(ns, 1, 0, 1, 100, &batch, &error), WK_NOT_FOUND);
	CHECK_EQ(wk_ledger_read(ns, 1, -2, 1, 100, &batch, &error), WK_INVALID);
	CHECK_EQ(wk_ledger_read(ns, 1, 3, 0, 100, &batch, &error), WK_INVALID);
	CHECK_EQ(fence(ns, 9), WK_OK);
	CHECK_EQ(wk_ledger_read(ns, 9, WK_LAST_ENTRY, 1, 100, &batch, &error), WK_NOT_FOUND);
	/* One bit of the entry's last byte. */
	wk_file *file = ns->engine->active->handle;
	static uint8_t block[4096] __attribute__((aligned(4096)));
	CHECK_EQ(io->operations->pread(io, file, block, sizeof block, 0), sizeof block);
	wk_block_header header;
	CHECK_EQ(wk_block_decode(block, sizeof block, &header), WK_OK);
	block[header.used - 1] ^= 1;
	CHECK_EQ(io->operations->pwrite(io, file, block, sizeof block, 0, 0), sizeof block);
	CHECK_EQ(wk_ledger_read(ns, 1, 3, 1, 100, &batch, &error), WK_DAMAGED);
	CHECK_EQ(error.ledger_id, 1);
	CHECK_EQ(error.entry_id, 3);
	kill_store(ns, io);
	io->operations->destroy(io);
}

TEST(a_batch_of_entries_is_bounded_in_count_and_bytes_and_ends_before_a_hole) {
	wk_io *io = new_disk(17);
	wk_namespace *ns = open_store(io);
	uint8_t bytes[100] = {0};
	for (int64_t id = 0; id < 20; id++) {
		if (id == 15)
			continue;
		wk_store_be64(bytes + 8, (uint64_t)id);
		wk_add add = an_add(bytes, sizeof bytes, 0);
		CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
	}
	for (int round = 0; round < 2; round++) {
		wk_entry_batch *batch;
		size_t count;
		for (int64_t first = 0; first < 20; first += (int64_t)count) {
			first += first == 15;
			CHECK_EQ(wk_ledger_read(ns, 0, first, 7, 1000, &batch, NULL), WK_OK);
			const wk_stored_entry *entries = wk_entry_batch_entries(batch, &count);
			CHECK(count >= 1 && count <= 7);
			for (size_t i = 0; i < count; i++) {
				CHECK_EQ(entries[i].entry_id, first + (int64_t)i);
				CHECK_EQ(wk_load_be64(entries[i].bytes + 8), entries[i].entry_id);
				CHECK(entries[i].entry_id != 15);
			}
			wk_entry_batch_release(batch);
		}
		CHECK_EQ(wk_ledger_read(ns, 0, 0, 100, 250, &batch, NULL), WK_OK);
		wk_entry_batch_entries(batch, &count);
		CHECK(count <= 2);
		wk_entry_batch_release(batch);
		CHECK_EQ(wk_ledger_read(ns, 0, WK_LAST_ENTRY, 5, 250, &batch, NULL), WK_OK);
		CHECK_EQ(wk_entry_batch_entries(batch, &count)->entry_id, 19);
		CHECK_EQ(count, 1);
		close_store(ns);
		CHECK_EQ(wk_load_be64(wk_entry_batch_entries(batch, &count)->bytes + 8), 19); /* it outlives the store */
		wk_entry_batch_release(batch);
		ns = open_store(io);
	}
	close_store(ns);
	io->operations->destroy(io);
}

TEST(entries_are_listed_as_ranges_and_ledgers_page_by_page) {
	wk_io *io = new_disk(18);
	wk_namespace *ns = open_store(io);
	static const int64_t ids[] = {0, 1, 2, 5, 6, 9};
	for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
		add_entry(ns, 40, ids[i]);
		work(ns);
	}
	wk_entry_range ranges[8];
	size_t count;
	CHECK_EQ(wk_ledger_entries(ns, 40, 0, ranges, 8, &count, NULL), WK_OK);
	CHECK_EQ(count, 3);
	CHECK(ranges[0].first == 0 && ranges[0].last == 2 && ranges[1].first == 5 && ranges[1].last == 6 &&
	      ranges[2].first == 9 && ranges[2].last == 9);
	CHECK_EQ(wk_ledger_entries(ns, 40, 1, ranges, 2, &count, NULL), WK_OK);
	CHECK_EQ(count, 2);
	CHECK(ranges[0].first == 1 && ranges[0].last == 2 && ranges[1].last == 6);
	CHECK_EQ(wk_ledger_entries(ns, 40, 10, ranges, 8, &count, NULL), WK_OK);
	CHECK_EQ(count, 0);
	CHECK_EQ(wk_ledger_entries(ns, 41, 0, ranges, 8, &count, NULL), WK_NO_LEDGER);
	int64_t known[100], page[7], from = 0;
	for (int64_t id = 0; id < 30; id++) {
		int64_t ledger_id = id * 7919 % 1000;
		if (id % 3 == 0)
			CHECK_EQ(fence(ns, ledger_id), WK_OK);
		else
			add_entry(ns, ledger_id, 0);
	}
	size_t found = 0;
	do {
		CHECK_EQ(wk_ledger_list(ns, from, page, 7, &count, NULL), WK_OK);
		for (size_t i = 0; i < count; i++) {
			CHECK(page[i] >= from);
			CHECK(is_known(ns, page[i]));
			known[found++] = page[i];
			from = page[i] + 1;
		}
	} while (count == 7);
	CHECK_EQ(found, 31);
	CHECK_EQ(known[0], 0);
	close_store(ns);
	io->operations->destroy(io);
}

/* ---- delete ---- */

TEST(a_deleted_ledger_is_unknown_and_stays_so) {
	wk_io *io = new_disk(19);
	wk_namespace *ns = open_store(io);
	for (int64_t id = 0; id < 10; id++)
		add_entry(ns, 1, id);
	CHECK_EQ(fence(ns, 1), WK_OK);
	uint64_t ticket;
	CHECK_EQ(wk_ledger_delete(ns, 1, 0, &ticket, NULL), WK_OK);
	CHECK_EQ(version_of(ns, 1, 3), 4); /* not durable yet */
	CHECK_EQ(add_version(ns, 1, 10, 1, WK_ADD_RECOVERY, NULL), WK_DELETED);
	CHECK_EQ(fence(ns, 1), WK_DELETED);
	uint64_t again;
	CHECK_EQ(wk_ledger_delete(ns, 1, 0, &again, NULL), WK_OK);
	CHECK_EQ(again, ticket);
	CHECK_EQ(wk_namespace_wait(ns, ticket, UINT64_MAX, NULL), WK_OK);
	for (int round = 0; round < 3; round++) {
		CHECK(!is_known(ns, 1));
		wk_entry_batch *batch;
		CHECK_EQ(wk_ledger_read(ns, 1, 3, 1, 100, &batch, NULL), WK_NO_LEDGER);
		CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_NO_LEDGER);
		round == 0 ? kill_store(ns, io) : close_store(ns);
		ns = open_store(io);
	}
	/* A new one of that id has nothing of the old one: neither key nor fence nor entries. */
	uint8_t bytes[32] = {0};
	wk_store_be64(bytes, 1);
	wk_add add = {.bytes = bytes, .size = sizeof bytes, .key = OTHER_KEY, .key_size = sizeof OTHER_KEY - 1};
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
	for (int round = 0; round < 2; round++) {
		CHECK_EQ(entries_of(ns, 1), 1);
		CHECK(!info_of(ns, 1).fenced);
		CHECK_EQ(info_of(ns, 1).key_size, sizeof OTHER_KEY - 1);
		round == 0 ? kill_store(ns, io) : close_store(ns);
		ns = open_store(io);
	}
	close_store(ns);
	io->operations->destroy(io);
}

/* Ledger after ledger: each makes a few files. */
static void fill_ledger(wk_namespace *ns, int64_t ledger_id, int64_t entries) {
	static uint8_t bytes[3000];
	for (int64_t id = 0; id < entries; id++) {
		wk_store_be64(bytes, (uint64_t)ledger_id);
		wk_store_be64(bytes + 8, (uint64_t)id);
		wk_add add = an_add(bytes, sizeof bytes, 0);
		CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
		work(ns);
	}
}

TEST(what_is_deleted_gives_its_space_back) {
	wk_io *io = new_disk(20);
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	wk_namespace *ns = open_store_with(io, &options);
	uint64_t most = 0;
	for (int64_t ledger_id = 0; ledger_id < 40; ledger_id++) {
		fill_ledger(ns, ledger_id, 40);
		if (ledger_id >= 2)
			CHECK_EQ(wk_ledger_delete(ns, ledger_id - 2, UINT64_MAX, NULL, NULL), WK_OK);
		work(ns);
		uint64_t files = stats_of(ns).journal_files;
		most = files > most ? files : most;
	}
	CHECK(most < 20); /* of 200 that were filled */
	CHECK(stats_of(ns).recycled_files > 100);
	kill_store(ns, io);
	ns = open_store_with(io, &options);
	int64_t ids[8];
	size_t count;
	CHECK_EQ(wk_ledger_list(ns, 0, ids, 8, &count, NULL), WK_OK);
	CHECK_EQ(count, 2);
	CHECK_EQ(ids[0], 38);
	close_store(ns);
	io->operations->destroy(io);
}

/* ---- states survive ---- */

TEST(states_survive_the_files_that_held_them) {
	wk_io *io = new_disk(21);
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	wk_namespace *ns = open_store_with(io, &options);
	CHECK_EQ(fence(ns, 1000), WK_OK);
	uint32_t size = sizeof KEY - 1;
	CHECK_EQ(wk_ledger_set_lac(ns, 1001, KEY, size, "lac", 3, UINT64_MAX, NULL, NULL), WK_OK);
	uint64_t first = ns->engine->active->id;
	for (int64_t ledger_id = 0; ledger_id < 8; ledger_id++) {
		fill_ledger(ns, ledger_id, 40);
		CHECK_EQ(wk_ledger_delete(ns, ledger_id, UINT64_MAX, NULL, NULL), WK_OK);
	}
	work(ns);
	CHECK(wk_store_file_find(ns->engine, first) == NULL);
	for (int round = 0; round < 4; round++) {
		CHECK(info_of(ns, 1000).fenced);
		CHECK(memcmp(info_of(ns, 1001).lac, "lac", 3) == 0);
		CHECK_EQ(add_version(ns, 1000, 0, 1, 0, NULL), WK_FENCED);
		for (int64_t ledger_id = 0; ledger_id < 8; ledger_id++)
			CHECK(!is_known(ns, ledger_id));
		if (round % 2 == 0)
			kill_store(ns, io);
		else
			close_store(ns);
		options.ignore_footers = round == 2; /* it scans what the index does not know */
		ns = open_store_with(io, &options);
	}
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_damaged_index_is_no_reason_to_forget_a_fence) {
	wk_io *io = new_disk(22);
	wk_namespace *ns = open_store(io);
	CHECK_EQ(fence(ns, 1), WK_OK);
	fill_ledger(ns, 2, 40);
	wk_engine_lock(ns->engine);
	CHECK(wk_index_write(ns->engine));
	uint64_t generation = ns->engine->index.generation;
	wk_engine_unlock(ns->engine);
	kill_store(ns, io);
	char path[64];
	snprintf(path, sizeof path, "store/index/%016llx.wki", (unsigned long long)generation);
	wk_file *file;
	static uint8_t page[4096] __attribute__((aligned(4096)));
	CHECK_EQ(io->operations->open(io, path, WK_IO_WRITE | WK_IO_DIRECT, &file), 0);
	CHECK_EQ(io->operations->pread(io, file, page, sizeof page, 8192), sizeof page);
	page[100] ^= 1;
	CHECK_EQ(io->operations->pwrite(io, file, page, sizeof page, 8192, 0), sizeof page);
	io->operations->close(io, file);
	wk_open_options options = store_options();
	wk_error error;
	CHECK_EQ(wk_open_on(io, "store", &options, &ns, &error), WK_DAMAGED);
	CHECK(strstr(error.text, "index file") != NULL);
	io->operations->unlink(io, path);
	CHECK_EQ(wk_open_on(io, "store", &options, &ns, &error), WK_DAMAGED);
	io->operations->destroy(io);
}

/* ---- threads ---- */

enum { ADDERS = 4, THREADED_LEDGERS = 3, ADDS_EACH = 400 };

typedef struct adder {
	wk_namespace *ns;
	int64_t first_id; /* its ids go up from here */
	int64_t acknowledged[THREADED_LEDGERS], refused;
} adder;

/* Adds to each ledger in turn, until it is refused. */
static void *add_until_fenced(void *context) {
	adder *a = context;
	bool fenced[THREADED_LEDGERS] = {false};
	for (int64_t i = 0; i < ADDS_EACH; i++) {
		int64_t ledger_id = i % THREADED_LEDGERS;
		if (fenced[ledger_id])
			continue;
		wk_status status = add_version(a->ns, ledger_id, a->first_id + i, (uint64_t)(a->first_id + i) + 1, 0, NULL);
		CHECK(status == WK_OK || status == WK_FENCED);
		fenced[ledger_id] = status == WK_FENCED;
		a->acknowledged[ledger_id] += status == WK_OK;
		a->refused += status == WK_FENCED;
	}
	return NULL;
}

typedef struct fencer {
	wk_namespace *ns;
	int64_t ledger_id;
	uint64_t entries; /* that were there when the fence was answered */
} fencer;

static void *fence_in_the_middle(void *context) {
	fencer *f = context;
	while (!is_known(f->ns, f->ledger_id) || entries_of(f->ns, f->ledger_id) < 40)
		usleep(100);
	CHECK_EQ(fence(f->ns, f->ledger_id), WK_OK);
	f->entries = entries_of(f->ns, f->ledger_id);
	return NULL;
}

TEST(no_add_is_acknowledged_that_is_not_there_when_the_fence_is_answered) {
	char path[64];
	strcpy(path, temporary());
	wk_open_options options = store_options();
	options.manual = false;
	options.in_flight_bytes = 4096; /* adds wait for room, and the fence comes meanwhile */
	wk_namespace *ns = NULL;
	wk_error error = {0};
	is_well(wk_open(path, &options, &ns, &error), &error, "the store opens");
	pthread_t threads[ADDERS], fencers[THREADED_LEDGERS];
	adder adders[ADDERS];
	fencer fences[THREADED_LEDGERS];
	for (int i = 0; i < ADDERS; i++) {
		adders[i] = (adder){.ns = ns, .first_id = (int64_t)i * ADDS_EACH};
		CHECK_EQ(pthread_create(&threads[i], NULL, add_until_fenced, &adders[i]), 0);
	}
	for (int i = 0; i < THREADED_LEDGERS; i++) {
		fences[i] = (fencer){.ns = ns, .ledger_id = i};
		CHECK_EQ(pthread_create(&fencers[i], NULL, fence_in_the_middle, &fences[i]), 0);
	}
	for (int i = 0; i < ADDERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADED_LEDGERS; i++)
		pthread_join(fencers[i], NULL);
	for (int l = 0; l < THREADED_LEDGERS; l++) {
		int64_t acknowledged = 0;
		for (int i = 0; i < ADDERS; i++)
			acknowledged += adders[i].acknowledged[l];
		CHECK_EQ(fences[l].entries, acknowledged); /* neither more nor fewer */
		CHECK_EQ(entries_of(ns, l), acknowledged);
	}
	close_store(ns);
	remove_tree(path);
}

typedef struct churner {
	wk_namespace *ns;
	int64_t ledger_id;
} churner;

/* Makes a ledger, reads it back, deletes it, again and again. */
static void *churn(void *context) {
	churner *c = context;
	for (uint64_t round = 1; round <= 30; round++) {
		for (int64_t id = 0; id < 10; id++)
			CHECK_EQ(add_version(c->ns, c->ledger_id, id, round * 100 + (uint64_t)id, id % 3 == 0 ? WK_ADD_DEFERRED : 0,
			                     NULL),
			         WK_OK);
		CHECK_EQ(wk_ledger_force(c->ns, c->ledger_id, UINT64_MAX, NULL, NULL), WK_OK);
		for (int64_t id = 0; id < 10; id++)
			CHECK_EQ(version_of(c->ns, c->ledger_id, id), round * 100 + (uint64_t)id);
		CHECK_EQ(
		    wk_ledger_set_lac(c->ns, c->ledger_id, KEY, sizeof KEY - 1, &round, sizeof round, UINT64_MAX, NULL, NULL),
		    WK_OK);
		int64_t ids[8];
		size_t count;
		CHECK_EQ(wk_ledger_list(c->ns, 0, ids, 8, &count, NULL), WK_OK);
		CHECK(count >= 1);
		CHECK_EQ(wk_ledger_delete(c->ns, c->ledger_id, UINT64_MAX, NULL, NULL), WK_OK);
		CHECK(!is_known(c->ns, c->ledger_id));
	}
	return NULL;
}

TEST(ledgers_come_and_go_in_several_threads) {
	char path[64];
	strcpy(path, temporary());
	wk_open_options options = store_options();
	options.manual = false;
	options.file_size_max = options.file_size_min;
	options.minor_interval_ns = 1000 * 1000;
	options.minor_percent = 80;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	is_well(wk_open(path, &options, &ns, &error), &error, "the store opens");
	pthread_t threads[ADDERS];
	churner churners[ADDERS];
	add_entry(ns, 99, 0);
	for (int i = 0; i < ADDERS; i++) {
		churners[i] = (churner){ns, i};
		CHECK_EQ(pthread_create(&threads[i], NULL, churn, &churners[i]), 0);
	}
	for (int i = 0; i < ADDERS; i++)
		pthread_join(threads[i], NULL);
	close_store(ns);
	is_well(wk_open(path, &options, &ns, &error), &error, "the store opens");
	int64_t ids[8];
	size_t count;
	CHECK_EQ(wk_ledger_list(ns, 0, ids, 8, &count, NULL), WK_OK);
	CHECK_EQ(count, 1);
	CHECK_EQ(ids[0], 99);
	close_store(ns);
	remove_tree(path);
}

/* ---- moved ---- */

static wk_open_options moving_options(void) {
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	options.minor_percent = 60;
	options.minor_interval_ns = 1000 * 1000;
	return options;
}

/* Files of which every other entry is a ledger's that goes: the rest is moved. */
static void make_holes(wk_namespace *ns, wk_io *io, int64_t entries) {
	for (int64_t id = 0; id < entries; id++) {
		CHECK_EQ(add_version(ns, 1, id, (uint64_t)id + 1, 0, NULL), WK_OK);
		CHECK_EQ(add_version(ns, 2, id, (uint64_t)id + 1, 0, NULL), WK_OK);
		CHECK_EQ(add_version(ns, 3, id, (uint64_t)id + 1, 0, NULL), WK_OK);
		work(ns);
	}
	CHECK_EQ(wk_ledger_delete(ns, 2, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(wk_ledger_delete(ns, 3, UINT64_MAX, NULL, NULL), WK_OK);
	for (int i = 0; i < 20; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
		work(ns);
	}
}

TEST(moved_entries_are_read_where_they_are_and_deleted_ones_stay_deleted) {
	enum { ENTRIES = 60 };
	wk_io *io = new_disk(23);
	wk_open_options options = moving_options();
	wk_namespace *ns = open_store_with(io, &options);
	make_holes(ns, io, ENTRIES);
	CHECK(stats_of(ns).entry_logs > 0 && stats_of(ns).compacted_bytes > 0);
	add_entry(ns, 2, 7); /* made anew */
	for (int round = 0; round < 3; round++) {
		for (int64_t id = 0; id < ENTRIES; id++)
			CHECK_EQ(version_of(ns, 1, id), id + 1);
		CHECK_EQ(entries_of(ns, 1), ENTRIES);
		CHECK_EQ(entries_of(ns, 2), 1);
		CHECK(!is_known(ns, 3));
		if (round == 0)
			kill_store(ns, io);
		else
			close_store(ns);
		ns = open_store_with(io, &options);
	}
	/* Deleted where they were moved to. */
	CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	for (int round = 0; round < 3; round++) {
		CHECK(!is_known(ns, 1));
		if (round == 0)
			kill_store(ns, io);
		else
			close_store(ns);
		ns = open_store_with(io, &options);
	}
	work(ns);
	CHECK_EQ(stats_of(ns).entry_logs, 0);
	close_store(ns);
	io->operations->destroy(io);
}

static const wk_store_file *only_file_of(wk_namespace *ns, int64_t ledger_id) {
	wk_ledger *ledger = wk_ledger_find(ns->engine, ledger_id);
	CHECK_EQ(ledger->ranges_count, 1);
	return wk_ranges(ledger)[0].file;
}

/* An entry log with one entry of each of two ledgers; one is added again, then the other. */
TEST(a_file_that_goes_leaves_no_range_behind) {
	wk_io *io = new_disk(26);
	wk_open_options options = moving_options();
	wk_namespace *ns = open_store_with(io, &options);
	add_entry(ns, 1, 0);
	add_entry(ns, 2, 0);
	uint64_t first = ns->engine->active->id;
	for (int64_t id = 0; ns->engine->active->id <= first; id++, work(ns))
		add_entry(ns, 3, id);
	for (int64_t id = 0; id < 20; id++) /* the file before the active one stays */
		add_entry(ns, 4, id);
	CHECK_EQ(wk_ledger_delete(ns, 3, UINT64_MAX, NULL, NULL), WK_OK);
	for (int i = 0; i < 20; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
		work(ns);
	}
	uint64_t log = only_file_of(ns, 1)->id;
	CHECK(only_file_of(ns, 1)->kind == WK_FILE_ENTRY_LOG && only_file_of(ns, 2)->id == log);
	CHECK_EQ(add_version(ns, 1, 0, 500, 0, NULL), WK_OK);
	no_range_outlives_its_file(ns);
	CHECK_EQ(add_version(ns, 2, 0, 501, 0, NULL), WK_OK);
	no_range_outlives_its_file(ns);
	CHECK_EQ(wk_ledger_delete(ns, 4, UINT64_MAX, NULL, NULL), WK_OK);
	work(ns);
	CHECK(wk_store_file_find(ns->engine, log) == NULL);
	no_range_outlives_its_file(ns);
	for (int round = 0; round < 2; round++) {
		CHECK_EQ(version_of(ns, 1, 0), 500);
		CHECK_EQ(version_of(ns, 2, 0), 501);
		CHECK_EQ(entries_of(ns, 1), 1);
		close_store(ns);
		ns = open_store_with(io, &options);
	}
	close_store(ns);
	io->operations->destroy(io);
}

TEST(what_is_deleted_while_it_is_moved_stays_deleted) {
	wk_io *io = new_disk(24);
	wk_open_options options = moving_options();
	options.compact_rate = 1 << 20;
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t id = 0; id < 60; id++) {
		for (int64_t ledger_id = 1; ledger_id <= 3; ledger_id++)
			CHECK_EQ(add_version(ns, ledger_id, id, (uint64_t)id + 1, 0, NULL), WK_OK);
		work(ns);
	}
	CHECK_EQ(wk_ledger_delete(ns, 2, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(wk_ledger_delete(ns, 3, UINT64_MAX, NULL, NULL), WK_OK);
	bool idle = false;
	for (int i = 0; i < 1000 && ns->engine->mover == NULL; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
	CHECK(ns->engine->mover != NULL); /* a pass is under way, and copies ledger 1 */
	CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	add_entry(ns, 1, 5); /* made anew, with other bytes */
	CHECK_EQ(add_version(ns, 1, 6, 1000, 0, NULL), WK_OK);
	for (int i = 0; i < 20; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
		work(ns);
	}
	for (int round = 0; round < 3; round++) {
		CHECK_EQ(entries_of(ns, 1), 2);
		CHECK_EQ(version_of(ns, 1, 5), 6);
		CHECK_EQ(version_of(ns, 1, 6), 1000);
		if (round == 0)
			kill_store(ns, io);
		else
			close_store(ns);
		ns = open_store_with(io, &options);
	}
	close_store(ns);
	io->operations->destroy(io);
}

/* The copy is in no index yet, and the file with the delete is full: they must be read together. */
TEST(the_mark_waits_for_the_entry_log_that_holds_what_was_deleted) {
	wk_io *io = new_disk(25);
	wk_open_options options = moving_options();
	wk_namespace *ns = open_store_with(io, &options);
	ns->engine->mover_due_ns = UINT64_MAX; /* not before all of it is there */
	for (int64_t id = 0; id < 60; id++) {
		for (int64_t ledger_id = 1; ledger_id <= 3; ledger_id++)
			CHECK_EQ(add_version(ns, ledger_id, id, (uint64_t)id + 1, 0, NULL), WK_OK);
		work(ns);
	}
	CHECK_EQ(wk_ledger_delete(ns, 2, UINT64_MAX, NULL, NULL), WK_OK);
	bool idle = false;
	ns->engine->mover_due_ns = 0;
	for (int i = 0; i < 1000 && ns->engine->mover == NULL; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
	CHECK(ns->engine->mover != NULL);
	uint64_t held_in = ns->engine->active->id;
	CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	for (int64_t id = 0; ns->engine->active->id == held_in; id++)
		CHECK_EQ(add_version(ns, 50, id, (uint64_t)id + 1, 0, NULL), WK_OK);
	for (int i = 0; i < 100 && ns->engine->mover != NULL; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
	CHECK(ns->engine->mover == NULL);
	CHECK(stats_of(ns).entry_logs > 0);
	wk_engine_lock(ns->engine);
	wk_index_write(ns->engine);
	wk_engine_unlock(ns->engine);
	kill_store(ns, io);
	ns = open_store_with(io, &options);
	CHECK(!is_known(ns, 1));
	CHECK(!is_known(ns, 2));
	CHECK(is_known(ns, 3) && is_known(ns, 50));
	close_store(ns);
	io->operations->destroy(io);
}

/* Ledger after ledger, of all but the last two nothing is left. */
static void fill_one_after_another(wk_namespace *ns, int64_t ledgers, int64_t entries) {
	static uint8_t bytes[3000];
	for (int64_t ledger_id = 0; ledger_id < ledgers; ledger_id++) {
		for (int64_t id = 0; id < entries; id++) {
			wk_store_be64(bytes, (uint64_t)ledger_id);
			wk_store_be64(bytes + 8, (uint64_t)id);
			wk_add add = an_add(bytes, sizeof bytes, 0);
			CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
		}
		if (ledger_id >= 2)
			CHECK_EQ(wk_ledger_delete(ns, ledger_id - 2, UINT64_MAX, NULL, NULL), WK_OK);
	}
}

static void wait_until_recycled(wk_namespace *ns) {
	for (int i = 0; i < 5000 && stats_of(ns).recycled_files == 0; i++)
		usleep(1000);
	CHECK(stats_of(ns).recycled_files > 0);
}

static void flip_in_an_entry(const char *path) {
	char file[160];
	for (uint64_t id = 1; id < 200; id++) {
		snprintf(file, sizeof file, "%s/journal/%016llx.wkj", path, (unsigned long long)id);
		if (access(file, R_OK) != 0)
			continue;
		flip_bit(file, 2000);
		return;
	}
}

/* ---- on a real disk: backup, verify, inspect ---- */

static wk_namespace *open_at(const char *path) {
	wk_open_options options = store_options();
	options.manual = false;
	options.file_size_max = options.file_size_min;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	is_well(wk_open(path, &options, &ns, &error), &error, "the store opens");
	return ns;
}

static void verify_at(const char *path, uint64_t entries_min) {
	wk_verify_report report;
	wk_error error = {0};
	is_well(wk_verify_directory(path, 0, NULL, NULL, &report, &error), &error, "verify");
	CHECK_EQ(report.damaged, 0);
	CHECK(report.entries >= entries_min);
}

typedef struct lines {
	uint64_t entries, states;
} lines;

static bool count_line(void *context, const char *json) {
	lines *found = context;
	found->entries += strstr(json, "\"sum\": \"ok\"") != NULL || strstr(json, "\"sum\":\"ok\"") != NULL;
	found->states += strstr(json, "\"record_at\"") != NULL;
	return true;
}

TEST(a_backup_has_the_states_too_and_verify_and_inspect_know_the_entries) {
	char path[64], copy[80], file[160];
	strcpy(path, temporary());
	snprintf(copy, sizeof copy, "%s.copy", path);
	wk_namespace *ns = open_at(path);
	CHECK_EQ(fence(ns, 500), WK_OK);
	fill_one_after_another(ns, 8, 40);
	wait_until_recycled(ns);
	verify_at(path, 40);
	wk_error error = {0};
	is_well(wk_namespace_backup(ns, copy, &error), &error, "the backup");
	close_store(ns);
	verify_at(path, 40);
	verify_at(copy, 40);
	ns = open_at(copy);
	CHECK(info_of(ns, 500).fenced);
	CHECK(!is_known(ns, 3));
	CHECK_EQ(entries_of(ns, 7), 40);
	close_store(ns);
	lines found = {0};
	for (uint64_t id = 1; id < 200; id++) {
		snprintf(file, sizeof file, "%s/journal/%016llx.wkj", path, (unsigned long long)id);
		if (access(file, R_OK) == 0)
			is_well(wk_inspect_file(file, true, count_line, &found, &error), &error, "inspect");
	}
	CHECK(found.entries >= 40);
	CHECK(found.states > 0);
	/* verify finds a bit of an entry that is not what it was */
	flip_in_an_entry(path);
	wk_verify_report report;
	CHECK_EQ(wk_verify_directory(path, 0, NULL, NULL, &report, &error), WK_DAMAGED);
	remove_tree(path);
	remove_tree(copy);
}

int main(void) {
	RUN(a_directory_is_of_one_kind_for_ever);
	RUN(a_store_is_not_opened_read_only_nor_with_loss);
	RUN(an_entry_is_its_bytes_whatever_its_digest);
	RUN(the_largest_entry_is_taken_and_one_byte_more_refused);
	RUN(each_add_of_a_batch_has_its_own_answer);
	RUN(a_batch_is_one_block);
	RUN(without_room_an_add_says_so_and_those_behind_it_as_well);
	RUN(what_is_not_durable_is_not_read);
	RUN(the_first_key_of_a_ledger_is_its_key_also_after_a_kill);
	RUN(a_key_stands_in_the_block_of_the_first_entry_before_it);
	RUN(a_ledger_without_a_key_can_be_given_one);
	RUN(what_joins_a_confirm_block_that_waits_is_found_again);
	RUN(a_fence_is_durable_when_it_is_answered);
	RUN(adds_in_flight_are_resolved_when_a_fence_is_answered);
	RUN(a_fence_whose_sync_fails_is_not_answered);
	RUN(the_last_explicit_lac_counts);
	RUN(absent_unknown_and_damaged_are_told_apart);
	RUN(a_batch_of_entries_is_bounded_in_count_and_bytes_and_ends_before_a_hole);
	RUN(entries_are_listed_as_ranges_and_ledgers_page_by_page);
	RUN(a_deleted_ledger_is_unknown_and_stays_so);
	RUN(what_is_deleted_gives_its_space_back);
	RUN(states_survive_the_files_that_held_them);
	RUN(a_damaged_index_is_no_reason_to_forget_a_fence);
	RUN(no_add_is_acknowledged_that_is_not_there_when_the_fence_is_answered);
	RUN(ledgers_come_and_go_in_several_threads);
	RUN(moved_entries_are_read_where_they_are_and_deleted_ones_stay_deleted);
	RUN(a_file_that_goes_leaves_no_range_behind);
	RUN(what_is_deleted_while_it_is_moved_stays_deleted);
	RUN(the_mark_waits_for_the_entry_log_that_holds_what_was_deleted);
	RUN(a_backup_has_the_states_too_and_verify_and_inspect_know_the_entries);
	return check_done();
}
