/*
 * test_ledger_state.c: what is stored of a ledger beside its entries: its key and its explicit LAC; and that states
 * survive the journal files that held them, while a damaged index is no reason to forget one.
 */
/* ctest labels: one-thread */
#include "engine/index/index_file.h"
#include "ledger_store.h"

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
	CHECK_EQ(file->states.count, 1); /* once */
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

/* Of any length, and for another process, from the blocks, from footers, and from the index. */
TEST(keys_of_every_length_come_back) {
	wk_io *io = new_disk(12);
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	wk_namespace *ns = open_store_with(io, &options);
	static const uint8_t key[WK_LEDGER_KEY_MAX] = "0123456789abcdefghijklmnopqrstuvwxyz0123456789ab";
	for (uint32_t size = 1; size <= sizeof key; size++)
		CHECK_EQ(wk_ledger_fence(ns, size, key, size, UINT64_MAX, NULL, NULL), WK_OK);
	for (int round = 0; round < 6; round++) {
		for (uint32_t size = 1; size <= sizeof key; size++) {
			wk_error error;
			CHECK_EQ(info_of(ns, size).key_size, size);
			CHECK(memcmp(info_of(ns, size).key, key, size) == 0);
			CHECK_EQ(wk_ledger_fence(ns, size, key, size, UINT64_MAX, NULL, &error), WK_OK);
			CHECK_EQ(wk_ledger_fence(ns, size, key, size - 1, UINT64_MAX, NULL, &error), WK_WRONG_KEY);
			CHECK_EQ(wk_ledger_fence(ns, size, key, size % sizeof key + 1, UINT64_MAX, NULL, &error), WK_WRONG_KEY);
		}
		if (round >= 2) /* its file is sealed, and then in an index */
			fill_ledger(ns, 100 + round, 40);
		if (round % 2 == 0)
			kill_store(ns, io);
		else
			close_store(ns);
		ns = open_store_with(io, &options);
	}
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_key_that_is_not_durable_yet_is_not_told) {
	wk_io *io = new_disk(13);
	wk_namespace *ns = open_store(io);
	CHECK_EQ(wk_ledger_set_lac(ns, 1, NULL, 0, "lac", 3, UINT64_MAX, NULL, NULL), WK_OK);
	uint64_t ticket;
	CHECK_EQ(wk_ledger_set_lac(ns, 1, KEY, sizeof KEY - 1, "lac", 3, 0, &ticket, NULL), WK_OK);
	CHECK_EQ(info_of(ns, 1).key_size, 0);
	CHECK_EQ(wk_namespace_wait(ns, ticket, UINT64_MAX, NULL), WK_OK);
	CHECK_EQ(info_of(ns, 1).key_size, sizeof KEY - 1);
	close_store(ns);
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

int main(void) {
	RUN(the_first_key_of_a_ledger_is_its_key_also_after_a_kill);
	RUN(a_key_stands_in_the_block_of_the_first_entry_before_it);
	RUN(a_ledger_without_a_key_can_be_given_one);
	RUN(keys_of_every_length_come_back);
	RUN(a_key_that_is_not_durable_yet_is_not_told);
	RUN(the_last_explicit_lac_counts);
	RUN(states_survive_the_files_that_held_them);
	RUN(a_damaged_index_is_no_reason_to_forget_a_fence);
	return check_done();
}
