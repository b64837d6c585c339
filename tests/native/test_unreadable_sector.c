/*
 * test_unreadable_sector.c: a sector that the disk cannot read any more keeps the space of the files around it, and no other:
 * the mover goes on with the rest.
 */
#include "engine/engine.h"
#include "engine/ledger.h"
#include "engine/range.h"
#include "manual_directory.h"
#include <errno.h>

static struct wk_io_operations failing_operations;
static const struct wk_io_operations *plain;
static const wk_store_file *bad; /* none of its blocks can be read */

static int64_t failing_pread(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	if (bad != NULL && file == bad->handle && offset < bad->end_offset)
		return -EIO;
	return plain->pread(io, file, buffer, size, offset);
}

TEST(an_unreadable_sector_does_not_keep_the_mover_from_all_other_files) {
	wk_io *io = disk_of(1);
	plain = io->operations;
	failing_operations = *plain;
	failing_operations.pread = failing_pread;
	io->operations = &failing_operations;
	wk_namespace *ns = open_with(io, NULL);
	wk_log *kept = log_named(ns, "kept"), *gone = log_named(ns, "gone");
	wk_writer *keeper = writer_of(kept), *filler = writer_of(gone);
	for (int i = 0; i < 20; i++) { /* some of each file is kept */
		put(keeper, "kept", WK_SYNC);
		fill_files(io, ns, filler, 6);
	}
	close_all(ns, NULL, NULL);
	wk_log_release(kept);
	wk_log_release(gone);
	wk_writer_close(keeper, 0, NULL);
	wk_writer_close(filler, 0, NULL);

	ns = open_with(io, NULL);
	wk_engine *engine = ns->engine;
	uint32_t files = engine->files_count;
	CHECK(files > 15);
	wk_ledger *ledger = wk_ledger_find(engine, 1); /* of the log that is kept */
	CHECK(ledger != NULL && ledger->ranges_count > 10);
	bad = wk_ranges(ledger)[1].file;
	CHECK_EQ(wk_log_delete(ns, "gone", 4, NULL), WK_OK);
	for (int i = 0; i < 60; i++)
		wait_and_work(io, ns, 1000);
	printf("%u files of %u are left\n", engine->files_count, files);
	CHECK(engine->files_count < files / 2);
	bad = NULL;
	close_all(ns, NULL, NULL);
	plain->destroy(io);
}

int main(void) {
	RUN(an_unreadable_sector_does_not_keep_the_mover_from_all_other_files);
	return check_done();
}
