/*
 * test_descriptors.c: a process whose standard streams are closed. No descriptor of the library becomes 0, 1 or 2, so
 * nothing that the process prints can reach a file or a socket of ours.
 */
#include "child.h"
#include "io/event.h"
#include "io/io.h"
#include "io/net.h"
#include "small_directory.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/vfs.h>

enum { TMPFS = 0x01021994, RECORDS = 60 };

static char place[100];
static uint32_t backend;

/* What CHECK prints goes to a descriptor of its own. */
static void close_the_standard_streams(void) {
	int kept = fcntl(1, F_DUPFD_CLOEXEC, 100);
	CHECK(kept >= 100);
	stdout = fdopen(kept, "w");
	CHECK(stdout != NULL);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
}

/* Nothing can be written there. A number that was occupied cannot be read either, and is closed in a new program. */
static void the_low_ones_lead_nowhere(void) {
	char byte;
	for (int fd = 0; fd < 3; fd++) {
		CHECK(write(fd, "a message\n", 10) < 0 && errno == EBADF);
		CHECK(read(fd, &byte, 1) < 0 && errno == EBADF);
		int flags = fcntl(fd, F_GETFD);
		CHECK(flags == FD_CLOEXEC || (flags < 0 && errno == EBADF));
	}
}

static wk_namespace *open_here(bool read_only) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.backend = backend;
	options.read_only = read_only;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(below(place, "wal"), &options, &ns, &error), &error, "the directory opens");
	return ns;
}

/* New journal files, seals, confirm blocks, a backup and a follower: all that makes descriptors while it is open. */
static void use_a_directory(void) {
	close_the_standard_streams();
	wk_namespace *ns = open_here(false);
	the_low_ones_lead_nowhere();
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < RECORDS; i++) {
		append_one(writer);
		the_low_ones_lead_nowhere();
	}
	wk_error error = {0};
	check_ok(wk_namespace_backup(ns, below(place, "copy"), &error), &error, "the backup");
	wk_namespace *follower = open_here(true);
	the_low_ones_lead_nowhere();
	close_all(follower, NULL, NULL);
	for (int fd = 0; fd < 3; fd++) /* by the application, once the directory is open: the next file is moved */
		close(fd);
	for (int i = 0; i < RECORDS; i++)
		append_one(writer);
	the_low_ones_lead_nowhere();
	close_all(ns, log, writer);
	ns = open_here(false);
	the_low_ones_lead_nowhere();
	int64_t first, last;
	read_all(ns, &first, &last);
	CHECK_EQ(first, 0);
	CHECK_EQ(last, 2 * RECORDS - 1);
	close_all(ns, NULL, NULL);
	the_low_ones_lead_nowhere();
}

static bool is_tmpfs(const char *path) {
	struct statfs facts;
	return statfs(path, &facts) == 0 && (unsigned long)facts.f_type == TMPFS;
}

static void on_each_file_system(void) {
	static const char *const places[] = {"/tmp", "/dev/shm"};
	for (int i = 0; i < 2; i++) {
		if (i > 0 && !is_tmpfs(places[i]))
			continue;
		snprintf(place, sizeof place, "%s/walkeeper-test-XXXXXX", places[i]);
		CHECK(mkdtemp(place) != NULL);
		in_a_child(use_a_directory);
		remove_tree(place);
	}
}

TEST(a_directory_is_used_with_plain_calls) {
	backend = WK_BACKEND_PSYNC;
	on_each_file_system();
}

TEST(a_directory_is_used_with_a_ring) {
	backend = WK_BACKEND_URING;
	if (wk_io_uring_probe() == 0)
		on_each_file_system();
	else
		CHECK(wk_io_uring_probe() < 0); /* this kernel, or the test around this one, forbids rings */
}

/* ---- sockets ---- */

static int (*new_net)(const wk_net_options *, wk_net **);

/* Waits until both ends of one connection are there. */
static void await_both_ends(wk_net *net) {
	const struct wk_net_operations *ops = net->operations;
	bool accepted = false, connected = false;
	while (!accepted || !connected) {
		wk_net_event events[8];
		int count = ops->wait(net, events, 8, UINT64_MAX);
		CHECK(count >= 0);
		for (int i = 0; i < count; i++) {
			accepted |= events[i].kind == WK_NET_ACCEPTED;
			connected |= events[i].kind == WK_NET_CONNECTED;
			CHECK(events[i].kind == WK_NET_ACCEPTED || events[i].kind == WK_NET_CONNECTED);
		}
	}
}

static void use_sockets(void) {
	close_the_standard_streams();
	wk_net *net;
	if (new_net(NULL, &net) != 0)
		exit(0); /* no ring here */
	the_low_ones_lead_nowhere();
	const struct wk_net_operations *ops = net->operations;
	wk_net_address bound;
	CHECK_EQ(ops->listen(net, "127.0.0.1", 0, &bound), 0);
	the_low_ones_lead_nowhere();
	wk_connection_id id;
	CHECK_EQ(ops->connect(net, "127.0.0.1", bound.port, 1, &id), 0);
	await_both_ends(net);
	the_low_ones_lead_nowhere();
	close(2); /* the application closes it now, and not before */
	int event = wk_event_new();
	CHECK(event >= 3);
	wk_event_close(event);
	ops->destroy(net);
	the_low_ones_lead_nowhere();
}

TEST(sockets_are_used_with_epoll) {
	new_net = wk_net_epoll_new;
	in_a_child(use_sockets);
}

TEST(sockets_are_used_with_a_ring) {
	new_net = wk_net_uring_new;
	in_a_child(use_sockets);
}

/* ---- none to spare ---- */

/* Only the low numbers are free: nothing may be opened, and nothing may be left of the attempt. */
static void open_with_low_numbers_only(void) {
	wk_io *io;
	wk_file *file;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	close_the_standard_streams();
	struct rlimit limit;
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 3;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	char path[128];
	snprintf(path, sizeof path, "%s", below(place, "file"));
	CHECK_EQ(io->operations->open(io, path, WK_IO_WRITE | WK_IO_CREATE, &file), -EMFILE);
	CHECK(access(path, F_OK) < 0 && errno == ENOENT);
	CHECK_EQ(io->operations->sync_directory(io, place), -EMFILE);
	CHECK_EQ(wk_event_new(), -EMFILE);
	CHECK(wk_io_uring_probe() < 0);
	the_low_ones_lead_nowhere();
	limit.rlim_cur = 200;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	CHECK_EQ(io->operations->open(io, path, WK_IO_WRITE | WK_IO_CREATE, &file), 0);
	io->operations->close(io, file);
	io->operations->destroy(io);
}

TEST(without_a_higher_number_the_open_fails_and_leaves_nothing) {
	snprintf(place, sizeof place, "%s", temporary());
	in_a_child(open_with_low_numbers_only);
	remove_tree(place);
}

int main(void) {
	RUN(a_directory_is_used_with_plain_calls);
	RUN(a_directory_is_used_with_a_ring);
	RUN(sockets_are_used_with_epoll);
	RUN(sockets_are_used_with_a_ring);
	RUN(without_a_higher_number_the_open_fails_and_leaves_nothing);
	return check_done();
}
