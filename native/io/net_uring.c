/* net_uring.c: the seam to sockets over io_uring: not yet, so every caller falls back to epoll. */
#include "io/net.h"
#include <errno.h>

int wk_net_uring_new(const wk_net_options *options, wk_net **net) {
	(void)options;
	(void)net;
	return -ENOSYS;
}
