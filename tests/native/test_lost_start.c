/*
 * test_lost_start.c: the first block of a file was written and not synced, the first block of the next file reached the
 * disk before it, and the power went. A file without a block stands between what came before and what came behind, and
 * nothing says that the block that is missing was ever durable: the journal ends before it, whatever comes behind.
 */
/* ctest labels: one-thread */
#include "engine/journal/journal_file.h"
#include "engine/space/space.h"
#include "manual_directory.h"
#include "sim/faulty.h"

enum { BLOCK_MAX = 64 * 1024, STATES = 40 };

static void write_then_sync(wk_open_options *options) {
	options->sync_method = WK_SYNC_WRITE_THEN_SYNC;
	options->block_size_max = BLOCK_MAX;
	options->confirm_delay_ns = 60000000000u;
	options->deferred_delay_ns = 60000000000u;
}

static uint64_t active_file(const wk_namespace *ns) {
	return ns->engine->active->id;
}

/* How many records a reader of this disk is given, once the power is back. The disk is let go. */
static int64_t records_in(wk_io *image) {
	wk_namespace *ns = open_with(image, write_then_sync);
	wk_log *log = log_named(ns, "log");
	wk_log_info info;
	wk_error error = {0};
	check_ok(wk_log_describe(log, &info, &error), &error, "the log is described");
	int64_t count = info.count;
	wk_reader *reader = NULL;
	wk_batch *batch;
	check_ok(wk_reader_open(log, NULL, &reader, &error), &error, "the reader opens");
	int64_t read = 0;
	wk_status status;
	while ((status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, &error)) == WK_OK) {
		size_t size;
		wk_batch_records(batch, &size);
		read += (int64_t)size;
		wk_batch_release(batch);
	}
	check_ok(status == WK_END ? WK_OK : status, &error, "all of it is read");
	CHECK_EQ(read, count);
	wk_reader_release(reader);
	wk_log_release(log);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	image->operations->destroy(image);
	return count;
}

/* In a state in which that many events had come. */
static int64_t records_after(wk_faulty *disk, uint64_t event, uint64_t seed) {
	wk_io *image;
	CHECK_EQ(wk_faulty_image(disk, event, seed, &image), 0);
	return records_in(image);
}

TEST(a_file_does_not_count_whose_predecessor_lost_its_first_block) {
	static uint8_t bytes[3 * BLOCK_MAX];
	wk_io *io = disk_of(5);
	wk_namespace *ns = open_with(io, write_then_sync);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	uint64_t first = active_file(ns);
	put_bytes(writer, bytes, 3000, -1, WK_SYNC);
	work(ns);
	uint64_t begin = wk_faulty_trace_length(wk_faulty_of(io)), ticket;
	wk_append_options options;
	wk_append_options_init(&options);
	options.durability = WK_DEFERRED; /* it goes out because it is full, and begins a file */
	CHECK_EQ(wk_writer_submit(writer, bytes, BLOCK_MAX + 4096, &options, NULL, &ticket, NULL), WK_OK);
	work(ns);
	uint64_t second = active_file(ns);
	CHECK(second > first);
	CHECK(ns->engine->durable < ticket && ticket < ns->engine->window.next); /* written, not durable */
	options.durability = WK_SYNC; /* too much for what is left of that file */
	CHECK_EQ(wk_writer_submit(writer, bytes, sizeof bytes, &options, NULL, &ticket, NULL), WK_OK);
	CHECK_EQ(wk_namespace_wait(ns, ticket, UINT64_MAX, NULL), WK_OK);
	CHECK(active_file(ns) > second);
	uint64_t end = wk_faulty_trace_length(wk_faulty_of(io));
	bool seen[3] = {false};
	for (uint64_t event = begin; event <= end; event++)
		for (uint64_t seed = 1; seed <= STATES; seed++) {
			int64_t count = records_after(wk_faulty_of(io), event, seed);
			CHECK(count >= 1 && count <= 3);
			CHECK(event < end || count == 3);
			seen[count - 1] = true;
		}
	CHECK(seen[0] && seen[1] && seen[2]);
	leave(io, ns, log, writer);
}

static bool is_there(const wk_engine *engine, uint64_t id) {
	for (uint32_t i = 0; i < engine->files_count; i++)
		if (engine->files[i]->id == id)
			return true;
	return false;
}

/* A file that was named and never written to, as a power cut that took back its unlink leaves it. */
static void put_back_empty(wk_io *io, uint64_t id) {
	char path[64];
	snprintf(path, sizeof path, "wal/journal/%016llx.wkj", (unsigned long long)id);
	wk_file *file = NULL;
	CHECK_EQ(io->operations->open(io, path, WK_IO_WRITE | WK_IO_CREATE, &file), 0);
	CHECK_EQ(io->operations->allocate(io, file, 64 * 1024), 0);
	CHECK_EQ(io->operations->sync(io, file), 0);
	io->operations->close(io, file);
	CHECK_EQ(io->operations->sync_directory(io, "wal/journal"), 0);
}

/*
 * The gap that a recycled file leaves may have an empty file in it. What is behind it is its own witness then: by its
 * footer, or by numbers; that a block in it says so as well (as here) is not waited for.
 */
TEST(a_file_is_recycled_only_once_what_is_behind_it_shows_that_it_was_durable) {
	static uint8_t bytes[2 * BLOCK_MAX]; /* a file each */
	wk_io *io = disk_of(6), *image;
	wk_namespace *ns = open_with(io, write_then_sync);
	wk_log *log = log_named(ns, "log"), *gone = log_named(ns, "gone");
	wk_writer *writer = writer_of(log), *gone_writer = writer_of(gone);
	put(writer, "kept", WK_SYNC);
	put(gone_writer, "gone", WK_SYNC);
	uint64_t never_written;
	wk_error error = {0};
	check_ok(wk_file_id_take(ns->engine, &never_written, &error), &error, "a file is named");
	put_bytes(gone_writer, bytes, sizeof bytes, -1, WK_SYNC);
	uint64_t dead = active_file(ns);
	CHECK(dead > never_written);
	put_bytes(writer, bytes, sizeof bytes, -1, WK_SYNC);
	CHECK(active_file(ns) > dead);
	wk_position last = put(gone_writer, "the last one stays", WK_SYNC);
	check_ok(wk_log_truncate(gone, &last.dlsn, true, &error), &error, "the truncation");
	wk_engine *engine = ns->engine;
	wk_engine_lock(engine);
	while (wk_space_collect(engine))
		;
	CHECK(is_there(engine, dead)); /* the file behind it has no footer yet, and few blocks */
	wk_engine_unlock(engine);
	CHECK_EQ(wk_faulty_image(wk_faulty_of(io), wk_faulty_trace_length(wk_faulty_of(io)), 1, &image), 0);
	put_back_empty(image, never_written);
	CHECK_EQ(records_in(image), 2);
	wait_and_work(io, ns, 1000);
	CHECK(!is_there(engine, dead)); /* it has its footer now */
	CHECK_EQ(wk_faulty_image(wk_faulty_of(io), wk_faulty_trace_length(wk_faulty_of(io)), 1, &image), 0);
	put_back_empty(image, never_written);
	CHECK_EQ(records_in(image), 2);
	CHECK_EQ(wk_writer_close(gone_writer, UINT64_MAX, NULL), WK_OK);
	wk_log_release(gone);
	leave(io, ns, log, writer);
}

int main(void) {
	RUN(a_file_does_not_count_whose_predecessor_lost_its_first_block);
	RUN(a_file_is_recycled_only_once_what_is_behind_it_shows_that_it_was_durable);
	return check_done();
}
