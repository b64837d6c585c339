#include "io/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

void wk_descriptor_occupy_low(void) {
	int fd;
	do
		fd = open("/dev/null", O_PATH | O_CLOEXEC);
	while (fd >= 0 && fd < WK_DESCRIPTOR_MIN);
	if (fd >= 0)
		close(fd);
}

/* -errno. EINVAL means that the limit (RLIMIT_NOFILE) allows no number as high as that: there are too many. */
static int copy_above(int fd) {
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, WK_DESCRIPTOR_MIN);
	if (copy >= 0)
		return copy;
	return errno == EINVAL ? -EMFILE : -errno;
}

int wk_descriptor_take(int fd) {
	if (fd < 0)
		return -errno;
	if (fd >= WK_DESCRIPTOR_MIN)
		return fd;
	int copy = copy_above(fd);
	close(fd);
	wk_descriptor_occupy_low(); /* the application closed a standard stream since the last time */
	return copy;
}

int wk_descriptor_take_ring(struct io_uring *ring) {
	if (ring->ring_fd >= WK_DESCRIPTOR_MIN)
		return 0;
	int copy = copy_above(ring->ring_fd);
	if (copy < 0) {
		io_uring_queue_exit(ring);
		return copy;
	}
	close(ring->ring_fd);
	ring->ring_fd = ring->enter_ring_fd = copy;
	wk_descriptor_occupy_low();
	return 0;
}
