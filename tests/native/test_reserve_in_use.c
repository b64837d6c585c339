/*
 * test_reserve_in_use.c: a full disk's journal goes on in the reserve. While that is being named it is neither prepared
 * nor in use; who frees space at that moment waits for it, and is not refused. Another reserve is asked for, and not
 * written for as long as there is room.
 */
#include "manual_directory.h"
#include "sim/faulty.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

enum { RECORD = 8 * 1024, NAP_MS = 50 };

static struct wk_io_operations slow;
static const struct wk_io_operations *plain;
static _Atomic bool is_full, is_named;

static int slow_rename(wk_io *io, const char *from, const char *to) {
	if (atomic_load(&is_full) && strstr(from, "prepared-") != NULL) {
		atomic_store(&is_named, true);
		nap_ms(NAP_MS);
	}
	return plain->rename(io, from, to);
}

typedef struct change {
	wk_log *log;
	wk_dlsn before;
	wk_status status;
	wk_error error;
} change;

static void *truncate_then(void *context) {
	change *c = context;
	while (!atomic_load(&is_named))
		nap_ms(1);
	c->status = wk_log_truncate(c->log, &c->before, false, &c->error);
	return NULL;
}

TEST(a_truncation_while_the_reserve_is_named_waits_for_it) {
	static char text[RECORD];
	memset(text, 'r', sizeof text);
	wk_io *io = disk_of(3);
	plain = io->operations;
	slow = *plain;
	slow.rename = slow_rename;
	io->operations = &slow;
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	fill_files(io, ns, writer, 40);
	wk_io_space space;
	CHECK_EQ(plain->space(io, "wal", &space), 0);
	wk_faulty_set_capacity(wk_faulty_of(io), space.total_bytes - space.free_bytes);
	change c = {.log = log};
	wk_position at;
	CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, 20, NULL, &at, NULL), WK_OK);
	c.before = at.dlsn;
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, truncate_then, &c), 0);
	atomic_store(&is_full, true);
	wk_status status = WK_OK;
	for (int i = 0; i < 100 && status == WK_OK; i++)
		status = wk_writer_append(writer, text, sizeof text, NULL, NULL, NULL);
	CHECK_EQ(status, WK_NO_SPACE);
	CHECK(atomic_load(&is_named));
	pthread_join(thread, NULL);
	check_ok(c.status, &c.error, "the truncation");
	leave(io, ns, log, writer);
}

static int allocate_nothing(wk_io *io, wk_file *file, uint64_t size) {
	(void)io, (void)file, (void)size;
	return -EOPNOTSUPP;
}

TEST(a_full_disk_where_nothing_can_be_allocated_is_not_written_by_an_idle_process) {
	static char text[RECORD];
	wk_io *io = disk_of(3);
	static struct wk_io_operations poor;
	poor = *io->operations;
	poor.allocate = allocate_nothing;
	io->operations = &poor;
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	fill_files(io, ns, writer, 40);
	wk_io_space space;
	CHECK_EQ(io->operations->space(io, "wal", &space), 0);
	wk_faulty_set_capacity(wk_faulty_of(io), space.total_bytes - space.free_bytes + 3 * RECORD);
	wk_status status = WK_OK;
	for (int i = 0; i < 100 && status == WK_OK; i++)
		status = wk_writer_append(writer, text, sizeof text, NULL, NULL, NULL);
	CHECK_EQ(status, WK_NO_SPACE);
	for (int i = 0; i < 20; i++) /* what is in hand comes to its end */
		wait_and_work(io, ns, 500);
	uint64_t before = wk_faulty_calls(wk_faulty_of(io), WK_FAULT_WRITE);
	for (int i = 0; i < 20; i++)
		wait_and_work(io, ns, 500);
	uint64_t after = wk_faulty_calls(wk_faulty_of(io), WK_FAULT_WRITE);
	CHECK(after - before < 20);
	leave(io, ns, log, writer);
}

static int tell_nothing(wk_io *io, const char *path, wk_io_space *space) {
	int result = plain->space(io, path, space);
	space->total_bytes = space->free_bytes = 0;
	return result;
}

/* As ramfs, and whatever else does not say how much room it has. */
TEST(a_file_system_that_says_nothing_of_its_room_is_not_taken_for_full) {
	wk_io *io = disk_of(3);
	static struct wk_io_operations silent;
	plain = io->operations;
	silent = *plain;
	silent.allocate = allocate_nothing;
	silent.space = tell_nothing;
	io->operations = &silent;
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	fill_files(io, ns, writer, 40);
	leave(io, ns, log, writer);
}

int main(void) {
	RUN(a_truncation_while_the_reserve_is_named_waits_for_it);
	RUN(a_file_system_that_says_nothing_of_its_room_is_not_taken_for_full);
	RUN(a_full_disk_where_nothing_can_be_allocated_is_not_written_by_an_idle_process);
	return check_done();
}
