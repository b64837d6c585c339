/* test_net_uring.c: the seam to sockets over io_uring, and what it says where the kernel forbids rings. */
#include "io/io.h"
#include "net_conformance.h"

static void make_a_forbidden_ring(void) {
	static const long call_numbers[] = {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register};
	int before = open_fds();
	if (refuse_calls(call_numbers, 3, EPERM) != 0)
		exit(77);
	CHECK_EQ(wk_net_uring_new(NULL, &net), -EPERM);
	CHECK_EQ(open_fds(), before);
}

TEST(a_forbidden_ring_is_told_at_once) {
	in_a_child(make_a_forbidden_ring);
	CHECK(true);
}

static void make_a_ring_without_its_registers(void) {
	static const long call_numbers[] = {SYS_io_uring_register};
	int before = open_fds();
	if (refuse_calls(call_numbers, 1, EPERM) != 0)
		exit(77);
	CHECK(wk_net_uring_new(NULL, &net) < 0);
	CHECK_EQ(open_fds(), before);
}

TEST(a_ring_that_lacks_what_is_needed_is_told_at_once) {
	in_a_child(make_a_ring_without_its_registers);
	CHECK(true);
}

static void wait_for_a_ring_that_never_answers(void) {
	static const long call_numbers[] = {SYS_io_uring_enter};
	begin(NULL);
	if (refuse_calls(call_numbers, 1, EAGAIN) != 0)
		exit(77);
	CHECK_EQ(ops->wait(net, batch, 1, UINT64_MAX), -EAGAIN);
}

TEST(a_kernel_that_always_says_again_ends_the_wait) {
	in_a_child(wait_for_a_ring_that_never_answers);
	CHECK(true);
}

static wk_io *disk;
static wk_file *file;
static wk_io_queue *queue;

/* A queue that rides on the ring, and a file for it. */
static void board(void) {
	begin(NULL);
	CHECK_EQ(wk_io_uring_new(&disk), 0);
	const char *above = getenv("TMPDIR");
	char name[256];
	snprintf(name, sizeof name, "%s/walkeeper-ride-XXXXXX", above != NULL ? above : "/tmp");
	int fd = mkstemp(name);
	CHECK(fd >= 0);
	close(fd);
	CHECK_EQ(disk->operations->open(disk, name, WK_IO_WRITE, &file), 0);
	unlink(name);
	CHECK_EQ(disk->operations->queue_new(disk, 64, &queue), 0);
	CHECK_EQ(disk->operations->queue_ride(disk, queue, ops->ring(net)), 0);
}

static void get_off(void) {
	disk->operations->queue_free(disk, queue);
	disk->operations->close(disk, file);
	disk->operations->destroy(disk);
	end();
}

static int take_all(wk_io_completion *done, int max) {
	int count = 0;
	while (count < max) {
		int events = ops->wait(net, batch, 16, 60000000000);
		CHECK_EQ(events, 1);
		CHECK_EQ(batch[0].kind, WK_NET_RODE);
		count += disk->operations->queue_wait(disk, queue, done + count, (uint32_t)(max - count), UINT64_MAX);
	}
	return count;
}

TEST(a_queue_rides_on_the_ring) {
	uint8_t bytes[64] = "what is written there";
	wk_io_completion done[64];
	board();
	CHECK_EQ(disk->operations->queue_wait(disk, queue, done, 64, UINT64_MAX), 0); /* it never waits */
	for (uint64_t i = 0; i < 64; i++) {
		wk_io_request write = {WK_IO_OP_WRITE, file, bytes, sizeof bytes, i * sizeof bytes, 0, 100 + i};
		CHECK_EQ(disk->operations->queue_submit(disk, queue, &write), 0);
	}
	wk_io_request more = {WK_IO_OP_SYNC, .file = file};
	CHECK_EQ(disk->operations->queue_submit(disk, queue, &more), -EBUSY);
	uint64_t seen = 0;
	CHECK_EQ(take_all(done, 64), 64);
	for (int i = 0; i < 64; i++) {
		CHECK_EQ(done[i].result, sizeof bytes);
		CHECK(done[i].tag >= 100 && done[i].tag < 164);
		seen |= UINT64_C(1) << (done[i].tag - 100);
	}
	CHECK_EQ(seen, UINT64_MAX);
	CHECK_EQ(ops->wait(net, batch, 16, 0), 0);
	get_off();
}

TEST(what_is_not_taken_is_told_again) {
	wk_io_completion done[2];
	board();
	wk_io_request sync = {WK_IO_OP_SYNC, .file = file, .tag = 3};
	CHECK_EQ(disk->operations->queue_submit(disk, queue, &sync), 0);
	wk_io_request refused = {WK_IO_OP_WRITE, file, done, 1, INT64_MAX, 0, 4};
	CHECK_EQ(disk->operations->queue_submit(disk, queue, &refused), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(ops->wait(net, batch, 16, 60000000000), 1);
		CHECK_EQ(batch[0].kind, WK_NET_RODE);
	}
	CHECK_EQ(take_all(done, 2), 2);
	CHECK_EQ(done[0].tag + done[1].tag, 7);
	CHECK_EQ(done[0].tag == 3 ? done[0].result : done[1].result, 0);
	CHECK((done[0].tag == 3 ? done[1].result : done[0].result) < 0);
	get_off();
}

TEST(one_queue_rides_at_a_time) {
	board();
	wk_io_queue *second;
	CHECK_EQ(disk->operations->queue_new(disk, 1, &second), 0);
	CHECK_EQ(disk->operations->queue_ride(disk, second, ops->ring(net)), -EBUSY);
	disk->operations->queue_free(disk, queue);
	queue = second;
	CHECK_EQ(disk->operations->queue_ride(disk, second, ops->ring(net)), 0);
	get_off();
}

int main(void) {
	wk_net *uring;
	int error = wk_net_uring_new(NULL, &uring);
	if (error == -EPERM || error == -ENOSYS || error == -EACCES)
		SKIP(error == -ENOSYS ? "this kernel has not enough of io_uring" : "this kernel forbids io_uring");
	CHECK_EQ(error, 0);
	uring->operations->destroy(uring);
	net_conformance_run(wk_net_uring_new);
	RUN(a_forbidden_ring_is_told_at_once);
	RUN(a_ring_that_lacks_what_is_needed_is_told_at_once);
	RUN(a_kernel_that_always_says_again_ends_the_wait);
	RUN(a_queue_rides_on_the_ring);
	RUN(what_is_not_taken_is_told_again);
	RUN(one_queue_rides_at_a_time);
	return check_done();
}
