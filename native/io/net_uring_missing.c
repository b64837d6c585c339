/* Until net_uring.c is there. */
#include "io/net.h"

#include <errno.h>

int wk_net_uring_new(const wk_net_options *options, wk_net **net) {
	(void)options;
	(void)net;
	return -ENOSYS;
}
