/*
 * test_ledger_mark.c: what a ledger store knows of journal files that were recycled. Those below the mark that the
 * index does not name were, and a power cut brought their names back: what they hold must not come back, as what killed
 * it may be gone. And the index that holds their states is named by both slots of the superblock. The mark never falls,
 * and never passes a file whose entries only a scan would find.
 */
#include "engine/directory/superblock_file.h"
#include "engine/index/index_file.h"
#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"

enum { SIZE = 8000, FEW = 10, SEEDS = 6, STEPS = 400 };

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

static uint64_t mark_on_disk(wk_io *io) {
	wk_superblock superblock;
	wk_error error = {0};
	check_ok(wk_superblock_look(io, "store", &superblock, &error), &error, "the superblock is read");
	return superblock.replay_epoch;
}

static bool write_index(wk_namespace *ns) {
	wk_engine_lock(ns->engine);
	bool written = wk_index_write(ns->engine);
	wk_engine_unlock(ns->engine);
	return written;
}

/* A file that is full and has no footer yet: the index does not name it, and no open would read it below the mark. */
TEST(the_mark_waits_for_a_file_that_has_no_footer_yet) {
	wk_io *io = new_disk(3);
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	wk_namespace *ns = open_store_with(io, &options);
	uint64_t filled = ns->engine->active->id;
	int64_t entries = 0;
	for (work(ns); ns->engine->active->id == filled; entries++) /* and no background work from here on */
		add_entry(ns, 1, entries);
	CHECK(write_index(ns));
	CHECK_EQ(mark_on_disk(io), filled);
	kill_store(ns, io);
	ns = open_store_with(io, &options);
	CHECK_EQ(entries_of(ns, 1), entries);
	work(ns);
	CHECK(write_index(ns));
	CHECK(mark_on_disk(io) > filled);
	close_store(ns);
	io->operations->destroy(io);
}

/* Whatever is added, deleted, fenced or moved, however it ends: the mark on the disk. How often it rose. */
static uint32_t the_mark_does_not_fall(uint64_t seed) {
	wk_io *io = new_disk(seed);
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	options.minor_percent = 60;
	options.minor_interval_ns = 1000 * 1000;
	wk_namespace *ns = open_store_with(io, &options);
	uint64_t mark = mark_on_disk(io), copied = 0;
	int64_t next[8] = {0};
	uint32_t rose = 0;
	for (int64_t step = 0; step < STEPS; step++) {
		uint64_t what = check_random(&seed) % 12, which = check_random(&seed) % 8;
		if (what < 6)
			for (uint64_t more = check_random(&seed) % 12; more-- > 0;)
				add_entry(ns, (int64_t)which, next[which]++);
		else if (what == 6) {
			wk_status deleted = wk_ledger_delete(ns, (int64_t)which, UINT64_MAX, NULL, NULL);
			CHECK_EQ(deleted, next[which] > 0 ? WK_OK : WK_NO_LEDGER);
			next[which] = 0;
		} else if (what == 7)
			CHECK_EQ(fence(ns, 100 + step), WK_OK);
		else if (what < 10)
			wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
		else if (what == 10)
			write_index(ns);
		else {
			copied += stats_of(ns).compacted_bytes;
			if (which < 4)
				kill_store(ns, io);
			else
				close_store(ns);
			ns = open_store_with(io, &options);
		}
		bool idle = false;
		for (uint64_t steps = check_random(&seed) % 8; steps-- > 0 && !idle;)
			CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
		uint64_t now = mark_on_disk(io);
		CHECK(now >= mark && ns->engine->index.mark == now);
		rose += now > mark;
		mark = now;
	}
	CHECK(copied > 0);
	close_store(ns);
	io->operations->destroy(io);
	return rose;
}

TEST(the_mark_never_falls) {
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		CHECK(the_mark_does_not_fall(seed) > 9);
}

int main(void) {
	RUN(the_mark_never_falls);
	RUN(the_mark_waits_for_a_file_that_has_no_footer_yet);
	RUN(a_fence_holds_whichever_slot_of_the_superblock_is_damaged);
	RUN(a_recycled_file_that_comes_back_brings_no_deleted_ledger_back);
	return check_done();
}
