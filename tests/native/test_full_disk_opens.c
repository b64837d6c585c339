/*
 * test_full_disk_opens.c: a directory is opened on a disk without room for what only an open wants.
 */
/* ctest labels: one-thread */
#include "ledger_store.h"
#include "sim/faulty.h"

enum { PAGE = 4096 };

static uint64_t used(wk_io *io) {
	wk_io_space space;
	CHECK_EQ(io->operations->space(io, ".", &space), 0);
	return space.total_bytes - space.free_bytes;
}

/* The power was cut before the lock file was synced, and nobody syncs the shared page: both may be without a byte. */
static void empty_the_lock(wk_io *io) {
	wk_file *file = NULL;
	CHECK_EQ(io->operations->open(io, "store/lock", WK_IO_WRITE, &file), 0);
	CHECK_EQ(io->operations->truncate(io, file, 0), 0);
	CHECK_EQ(io->operations->sync(io, file), 0);
	io->operations->close(io, file);
}

TEST(a_disk_without_a_byte_left_is_opened_behind_a_power_cut) {
	for (uint64_t seed = 1; seed <= 40; seed++) {
		wk_io *io = new_disk(seed);
		wk_open_options options = store_options();
		wk_namespace *ns = open_store_with(io, &options);
		add_entry(ns, 1, 0);
		wk_abandon(ns);
		wk_faulty_crash(wk_faulty_of(io), seed);
		empty_the_lock(io);
		wk_faulty_set_capacity(wk_faulty_of(io), used(io));
		ns = open_store_with(io, &options);
		CHECK_EQ(entries_of(ns, 1), 1);
		wk_abandon(ns);
		io->operations->destroy(io);
	}
}

/* The device has another number than when it was measured, or never was. */
TEST(a_full_disk_on_which_writes_cannot_be_tried_is_opened) {
	wk_io *io = new_disk(1);
	wk_open_options options = store_options();
	wk_namespace *ns = open_store_with(io, &options);
	add_entry(ns, 1, 0);
	close_store(ns);
	wk_faulty_set_capacity(wk_faulty_of(io), used(io) + PAGE);
	options.sync_method = WK_SYNC_PROBE;
	ns = open_store_with(io, &options);
	CHECK_EQ(entries_of(ns, 1), 1);
	close_store(ns);
	io->operations->destroy(io);
}

int main(void) {
	RUN(a_disk_without_a_byte_left_is_opened_behind_a_power_cut);
	RUN(a_full_disk_on_which_writes_cannot_be_tried_is_opened);
	return check_done();
}
