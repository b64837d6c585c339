/*
 * test_late_writes.c: an open waits for what a killed process left under way before it looks at the journal. The
 * simulated disk ends such writes at the kill; a kernel may go on for a second, and lets go of the lock before.
 */
#include "ledger_store.h"

enum { HANDLES_MAX = 64 };

static const struct wk_io_operations *real;
static wk_file *read_from[HANDLES_MAX], *awaited[HANDLES_MAX];
static uint32_t read_count, awaited_count;

static bool is_among(wk_file *const *handles, uint32_t count, const wk_file *file) {
	for (uint32_t i = 0; i < count; i++)
		if (handles[i] == file)
			return true;
	return false;
}

static int64_t spied_pread(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	if (!is_among(read_from, read_count, file) && read_count < HANDLES_MAX)
		read_from[read_count++] = file;
	return real->pread(io, file, buffer, size, offset);
}

/* Its place in memory may be another's next. */
static void spied_close(wk_io *io, wk_file *file) {
	for (uint32_t i = 0; i < read_count; i++)
		if (read_from[i] == file)
			read_from[i] = NULL;
	real->close(io, file);
}

static int spied_await(wk_io *io, wk_file *file) {
	CHECK(!is_among(read_from, read_count, file));
	CHECK(awaited_count < HANDLES_MAX);
	awaited[awaited_count++] = file;
	return real->await_writes(io, file);
}

TEST(rule_25_what_a_killed_process_left_is_waited_for_before_the_journal_is_read) {
	wk_io *io = new_disk(1);
	wk_open_options options = store_options();
	options.file_size_min = options.file_size_max = 64 * 1024;
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t id = 0; id < 40; id++)
		add_entry(ns, 1, id);
	work(ns);
	kill_store(ns, io);
	real = io->operations;
	struct wk_io_operations spied = *real;
	spied.pread = spied_pread;
	spied.close = spied_close;
	spied.await_writes = spied_await;
	io->operations = &spied;
	ns = open_store_with(io, &options);
	io->operations = real;
	CHECK(is_among(awaited, awaited_count, ns->engine->active->handle));
	CHECK(awaited_count > 1 && awaited_count <= WK_BLOCKS_IN_FLIGHT_MAX + 1);
	close_store(ns);
	awaited_count = read_count = 0;
	io->operations = &spied;
	ns = open_store_with(io, &options);
	io->operations = real;
	CHECK(awaited_count > 0); /* one that was closed well may have been copied since, or its writer set aside */
	close_store(ns);
	io->operations->destroy(io);
}

int main(void) {
	RUN(rule_25_what_a_killed_process_left_is_waited_for_before_the_journal_is_read);
	return check_done();
}
