/* test_net_epoll.c: the seam to sockets over epoll. */
#include "net_conformance.h"

int main(void) {
	net_conformance_run(wk_net_epoll_new);
	return check_done();
}
