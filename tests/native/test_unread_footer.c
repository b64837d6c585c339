/*
 * test_unread_footer.c: the journal's last file has its footer, and an open that goes by blocks alone cannot read it
 * just then. Nothing is written before that footer: the next open would believe it, and not see what stands there.
 */
/* ctest labels: one-thread */
#include <errno.h>

#include "engine/directory/handles.h"
#include "manual_directory.h"
#include "manual_options.h"
#include "sim/faulty.h"

enum { LARGE = 20000, READS_MAX = 1000 };
static char payload[LARGE];

static const char *path_of(uint64_t id) {
	static char path[64];
	snprintf(path, sizeof path, "wal/journal/%016llx.wkj", (unsigned long long)id);
	return path;
}

static void be_killed(wk_io *io, wk_namespace *ns, wk_log *log, wk_writer *writer) {
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
	wk_abandon(ns);
	wk_faulty_kill(wk_faulty_of(io));
}

/*
 * A file with two large records and its footer, and room for a small one between. The file behind it is gone, as if its
 * first block had never reached the disk. Returns how many records are left.
 */
static size_t leave_full_file(wk_io *io) {
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	size_t records = 0;
	uint64_t full, last = ns->engine->active != NULL ? ns->engine->active->id : 0;
	do { /* the file that it began in holds the making of the log, too */
		full = last;
		put_bytes(writer, payload, sizeof payload, -1, WK_SYNC);
		records++;
		work(ns);
		last = ns->engine->active->id;
	} while (records < 4 || full == last);
	CHECK_EQ(ns->engine->footers_due, 0);
	be_killed(io, ns, log, writer);
	CHECK_EQ(io->operations->unlink(io, path_of(last)), 0);
	return records - 1;
}

/* Opens while read number `number` fails, and appends one. false: an open reads less. */
static bool append_behind_failed_read(wk_io *io, uint64_t number, size_t records) {
	wk_open_options options = manual_options(64 * 1024);
	options.ignore_footers = true;
	wk_namespace *ns;
	wk_error error;
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_READ, number, EIO, false);
	wk_status status = wk_open_on(io, "wal", &options, &ns, &error);
	wk_faulty_heal(wk_faulty_of(io));
	if (status == WK_OK) {
		wk_log *log = log_named(ns, "log");
		wk_writer *writer = writer_of(log);
		put(writer, "small", WK_SYNC);
		records++;
		be_killed(io, ns, log, writer);
	} else {
		CHECK_EQ(status, WK_IO);
	}
	ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	CHECK_EQ(count_records(log), records);
	close_all(ns, log, NULL);
	return wk_faulty_calls(wk_faulty_of(io), WK_FAULT_READ) > number;
}

TEST(nothing_is_written_before_a_footer_that_cannot_be_read) {
	wk_io *io = disk_of(check_seed(1));
	size_t records = leave_full_file(io);
	wk_faulty *disk = wk_faulty_of(io);
	for (uint64_t number = 0; number < READS_MAX; number++) {
		wk_io *image;
		CHECK_EQ(wk_faulty_image(disk, wk_faulty_trace_length(disk), 1, &image), 0);
		bool more = append_behind_failed_read(image, number, records);
		image->operations->destroy(image);
		if (!more)
			break;
	}
	io->operations->destroy(io);
}

int main(void) {
	RUN(nothing_is_written_before_a_footer_that_cannot_be_read);
	return check_done();
}
