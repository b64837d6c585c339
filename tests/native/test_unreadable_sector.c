/*
 * test_unreadable_sector.c: a sector that the disk cannot read any more keeps the space of the files around it, and no other:
 * the mover goes on with the rest.
 */
#include "engine/engine.h"
#include "engine/index/ledger.h"
#include "engine/index/range.h"
#include "sim/faulty.h"
#include "unreadable_sector.h"

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

static wk_status open_accepting(wk_io *io, bool read_only, uint32_t on_damage, wk_namespace **ns, wk_error *error) {
	wk_open_options options = manual_options(64 * 1024);
	options.read_only = read_only;
	options.on_damage = on_damage;
	return wk_open_on(io, "wal", &options, ns, error);
}

/* A call that failed may succeed tomorrow: that the device failed is not loss, and nobody accepts it in place. */
TEST(an_open_that_meets_it_says_so_whatever_loss_is_accepted) {
	static const uint32_t policies[] = {WK_ON_DAMAGE_STOP, WK_ON_DAMAGE_POINT_IN_TIME, WK_ON_DAMAGE_SKIP};
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < 7; i++)
		put(writer, "a record", WK_SYNC);
	wk_abandon(ns);
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
	wk_faulty_kill(wk_faulty_of(io));
	watch_file(io, "0000000000000001.wkj");
	for (int i = 0; i < 2 * 3 * 7; i++) {
		wk_error error = {0};
		spoil((uint64_t)(i / 6) * WK_IO_ALIGNMENT, 512);
		CHECK_EQ(open_accepting(io, i % 2 == 0, policies[i / 2 % 3], &ns, &error), WK_IO);
		CHECK_EQ(error.system_error, EIO);
		CHECK(strstr(error.text, "reading journal/0000000000000001.wkj of wal") != NULL);
	}
	spoil(0, 0);
	log = log_named(ns = open_with(io, NULL), "log");
	CHECK_EQ(count_records(log), 7);
	wk_log_release(log);
	close_all(ns, NULL, NULL);
	io->operations->destroy(io);
}

int main(void) {
	RUN(an_unreadable_sector_does_not_keep_the_mover_from_all_other_files);
	RUN(an_open_that_meets_it_says_so_whatever_loss_is_accepted);
	return check_done();
}
