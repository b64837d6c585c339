/*
 * test_ledger_mark.c: what a ledger store knows of journal files that were recycled. Those below the mark that the
 * index does not name were, and a power cut brought their names back: what they hold must not come back, as what killed
 * it may be gone. And the index that holds their states is named by both slots of the superblock.
 */
#include "ledger_store.h"

enum { SIZE = 8000, FEW = 10 };

static char path_of_first[80];

static void add(wk_namespace *ns, int64_t ledger_id, int64_t entry_id, size_t size) {
	static uint8_t bytes[SIZE];
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_store_be64(bytes + 8, (uint64_t)entry_id);
	wk_add one = {.bytes = bytes, .size = size}; /* without a key: it would hold its file until an index has it */
	CHECK_EQ(wk_ledger_add(ns, &one, 1, UINT64_MAX, true, NULL), WK_OK);
	work(ns);
}

/* Entries of the ledger until the journal goes on in another file. */
static void fill_the_file(wk_namespace *ns, int64_t ledger_id) {
	uint64_t active = ns->engine->active->id;
	for (int64_t id = 0; ns->engine->active->id == active; id++)
		add(ns, ledger_id, id, SIZE);
}

static void put_file(wk_io *io, const char *path, const uint8_t *bytes, size_t size) {
	wk_file *file = NULL;
	CHECK_EQ(io->operations->open(io, path, WK_IO_WRITE | WK_IO_CREATE, &file), 0);
	CHECK_EQ(io->operations->pwrite(io, file, bytes, size, 0, WK_IO_DSYNC), size);
	io->operations->close(io, file);
}

TEST(a_recycled_file_that_comes_back_brings_no_deleted_ledger_back) {
	wk_io *io = new_disk(1);
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min = 128 * 1024;
	wk_namespace *ns = open_store_with(io, &options);
	uint64_t first = ns->engine->active->id;
	snprintf(path_of_first, sizeof path_of_first, "store/journal/%016llx.wkj", (unsigned long long)first);
	fill_the_file(ns, 1);
	int64_t size = wk_faulty_file_size(wk_faulty_of(io), path_of_first);
	CHECK(size > 0);
	uint8_t *bytes = malloc((size_t)size);
	CHECK_EQ(wk_faulty_read_file(wk_faulty_of(io), path_of_first, bytes, (size_t)size, 0), size);
	CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	uint64_t holds_the_delete = ns->engine->active->id;
	fill_the_file(ns, 2);
	CHECK_EQ(wk_ledger_delete(ns, 2, UINT64_MAX, NULL, NULL), WK_OK);
	for (int64_t id = 0; id < FEW; id++)
		add(ns, 3, id, 100);
	CHECK(wk_store_file_find(ns->engine, first) == NULL && wk_store_file_find(ns->engine, holds_the_delete) == NULL);
	CHECK_EQ(ns->engine->index.mark, ns->engine->active->id);
	kill_store(ns, io);
	put_file(io, path_of_first, bytes, (size_t)size);
	free(bytes);
	ns = open_store_with(io, &options);
	CHECK(!is_known(ns, 1));
	CHECK(!is_known(ns, 2));
	CHECK_EQ(entries_of(ns, 3), FEW);
	work(ns);
	CHECK(wk_store_file_find(ns->engine, first) == NULL);
	close_store(ns);
	io->operations->destroy(io);
}

/* Whichever slot of the superblock is damaged later: the other one names the index that has the fence. */
static void a_slot_is_damaged(uint32_t which) {
	wk_io *io = new_disk(2);
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min = 128 * 1024;
	wk_namespace *ns = open_store_with(io, &options);
	uint64_t first = ns->engine->active->id;
	CHECK_EQ(fence(ns, 9), WK_OK);
	fill_the_file(ns, 1);
	CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	for (int64_t id = 0; id < FEW; id++)
		add(ns, 3, id, 100);
	CHECK(wk_store_file_find(ns->engine, first) == NULL);
	kill_store(ns, io);
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), "store/superblock", which * (uint64_t)WK_SUPERBLOCK_SLOT_SIZE + 20, 3),
	         0);
	ns = open_store_with(io, &options);
	CHECK(is_known(ns, 9) && info_of(ns, 9).fenced);
	CHECK(!is_known(ns, 1));
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_fence_holds_whichever_slot_of_the_superblock_is_damaged) {
	a_slot_is_damaged(0);
	a_slot_is_damaged(1);
}

int main(void) {
	RUN(a_fence_holds_whichever_slot_of_the_superblock_is_damaged);
	RUN(a_recycled_file_that_comes_back_brings_no_deleted_ledger_back);
	return check_done();
}
