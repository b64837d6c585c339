#include "io/event.h"
#include "io/descriptor.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int wk_event_new(void) {
	wk_descriptor_occupy_low();
	return wk_descriptor_take(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

void wk_event_signal(int fd) {
	uint64_t one = 1;
	/* A full counter (EAGAIN) is signalled already. */
	while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
		;
}

void wk_event_take(int fd) {
	uint64_t count;
	/* Nothing to read (EAGAIN) is fine. */
	while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
		;
}

void wk_event_close(int fd) {
	close(fd);
}
