/*
 * test_ledger_read.c: reading a ledger store: absent, unknown and damaged are told apart; batches, ranges of entries,
 * and the list of ledgers.
 */
/* ctest labels: one-thread */
#include "ledger_store.h"
#include "sim/faulty.h"
#include <errno.h>

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

/* A disk does a read whole, and the next durable write waits for it. */
TEST(a_large_read_beside_a_writer_comes_in_pieces) {
	enum { SIZE = 1 << 20, PIECE = 128 * 1024 };
	wk_io *io = new_disk(25);
	wk_open_options options = store_options();
	options.memtable_bytes = 1;
	options.file_size_max = 4 << 20;
	wk_namespace *ns = open_store_with(io, &options);
	static uint8_t bytes[SIZE];
	for (size_t i = 16; i < SIZE; i++)
		bytes[i] = (uint8_t)(i * 7 / 5);
	wk_store_be64(bytes, 1);
	wk_store_be64(bytes + 8, 0);
	wk_add add = an_add(bytes, sizeof bytes, 0);
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
	uint64_t before = wk_faulty_calls(wk_faulty_of(io), WK_FAULT_READ);
	wk_entry_batch *batch;
	CHECK_EQ(wk_ledger_read(ns, 1, 0, 1, 1, &batch, NULL), WK_OK);
	CHECK(wk_faulty_calls(wk_faulty_of(io), WK_FAULT_READ) - before >= SIZE / PIECE);
	size_t count;
	const wk_stored_entry *entries = wk_entry_batch_entries(batch, &count);
	CHECK_EQ(count, 1);
	CHECK(entries[0].size == SIZE && memcmp(entries[0].bytes, bytes, SIZE) == 0);
	wk_entry_batch_release(batch);
	wk_faulty_advance(wk_faulty_of(io), 1000000000);
	before = wk_faulty_calls(wk_faulty_of(io), WK_FAULT_READ);
	CHECK_EQ(wk_ledger_read(ns, 1, 0, 1, 1, &batch, NULL), WK_OK); /* nobody writes: as fast as the disk can */
	CHECK_EQ(wk_faulty_calls(wk_faulty_of(io), WK_FAULT_READ) - before, 1);
	wk_entry_batch_release(batch);
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_READ, 4, EIO, false);
	CHECK_EQ(wk_ledger_read(ns, 1, 0, 1, 1, &batch, NULL), WK_IO); /* none of it, and no harm done */
	CHECK_EQ(wk_ledger_read(ns, 1, 0, 1, 1, &batch, NULL), WK_OK);
	wk_entry_batch_release(batch);
	close_store(ns);
	io->operations->destroy(io);
}

static wk_status read_cached(wk_namespace *ns, int64_t ledger_id, int64_t first, size_t *count) {
	wk_entry_batch *batch = NULL;
	wk_status status = wk_ledger_read_cached(ns, ledger_id, first, 100, 1 << 20, &batch);
	*count = 0;
	if (status == WK_OK)
		wk_entry_batch_entries(batch, count);
	wk_entry_batch_release(batch);
	return status;
}

/* And of all else it says nothing: not that it is absent, nor that it is there. */
TEST(what_memory_has_is_read_without_the_disk) {
	wk_io *io = new_disk(23);
	wk_namespace *ns = open_store(io);
	size_t count;
	for (int64_t id = 0; id < 10; id++)
		if (id != 5)
			add_entry(ns, 1, id);
	CHECK_EQ(fence(ns, 2), WK_OK);
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_READ, 0, EIO, true);
	for (int64_t id = 0; id < 10; id++) {
		CHECK_EQ(read_cached(ns, 1, id, &count), id == 5 ? WK_WOULD_BLOCK : WK_OK);
		CHECK_EQ(count > 0, id != 5);
	}
	CHECK_EQ(read_cached(ns, 1, WK_LAST_ENTRY, &count), WK_OK);
	CHECK_EQ(count, 1);
	CHECK_EQ(read_cached(ns, 1, 10, &count), WK_WOULD_BLOCK);
	CHECK_EQ(read_cached(ns, 1, -2, &count), WK_WOULD_BLOCK);
	CHECK_EQ(read_cached(ns, 2, WK_LAST_ENTRY, &count), WK_WOULD_BLOCK); /* fenced, and empty */
	CHECK_EQ(read_cached(ns, 3, 0, &count), WK_WOULD_BLOCK);
	uint64_t ticket;
	CHECK_EQ(add_version(ns, 1, 10, 1, 0, &ticket), WK_OK); /* accepted, and not durable yet */
	CHECK_EQ(read_cached(ns, 1, 10, &count), WK_WOULD_BLOCK);
	wk_faulty_heal(wk_faulty_of(io));
	close_store(ns);
	ns = open_store(io);
	for (int64_t id = 0; id < 10; id++)
		CHECK_EQ(read_cached(ns, 1, id, &count), WK_WOULD_BLOCK); /* on the disk alone */
	close_store(ns);
	io->operations->destroy(io);
}

/* Which of two sealed files has an entry is in the runs of the newer one, which are not asked: then memory says nothing. */
TEST(memory_never_shows_an_entry_that_was_replaced) {
	wk_io *io = new_disk(24);
	wk_namespace *ns = open_store(io);
	for (int64_t id = 0; id < 6; id++)
		CHECK_EQ(add_version(ns, 1, id, 1, 0, NULL), WK_OK);
	fill_ledger(ns, 90, 60);
	work(ns);
	for (int64_t id = 1; id < 6; id += 3)
		CHECK_EQ(add_version(ns, 1, id, 2, 0, NULL), WK_OK);
	fill_ledger(ns, 91, 60);
	work(ns);
	for (int64_t id = 0; id < 6; id++) /* pages are in the cache now */
		CHECK_EQ(version_of(ns, 1, id), id == 1 || id == 4 ? 2 : 1);
	for (int64_t id = 0; id < 6; id++)
		CHECK_EQ(version_of(ns, 1, id), id == 1 || id == 4 ? 2 : 1);
	wk_entry_batch *batch;
	CHECK_EQ(wk_ledger_read_cached(ns, 1, 0, 1, 1 << 20, &batch), WK_OK); /* else nothing was tested */
	CHECK_EQ(take_version(batch, 1, 0), 1);
	CHECK_EQ(wk_ledger_read_cached(ns, 1, 2, 1, 1 << 20, &batch), WK_WOULD_BLOCK);
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

int main(void) {
	RUN(absent_unknown_and_damaged_are_told_apart);
	RUN(a_batch_of_entries_is_bounded_in_count_and_bytes_and_ends_before_a_hole);
	RUN(a_large_read_beside_a_writer_comes_in_pieces);
	RUN(what_memory_has_is_read_without_the_disk);
	RUN(memory_never_shows_an_entry_that_was_replaced);
	RUN(entries_are_listed_as_ranges_and_ledgers_page_by_page);
	return check_done();
}
