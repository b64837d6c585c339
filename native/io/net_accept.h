/*
 * net_accept.h: who is let in, and how much of the loop that may take. Private to net_*.c.
 *
 * A few are accepted at once, and then the listeners rest for nine times as long as that took: a crowd at the door, whether
 * it is let in or sent away, has a tenth of the loop, and those who are in have the rest. What waits meanwhile waits in
 * the kernel's backlog.
 */
#ifndef WK_IO_NET_ACCEPT_H
#define WK_IO_NET_ACCEPT_H
#include "io/net_base.h"

enum {
	WK_NET_ACCEPTS_AT_ONCE = 16,
	WK_NET_REST_TIMES = 9,
	WK_NET_REST_NS_MAX = 1000000, /* who accepted may have been kept from its processor meanwhile */
};

/* Makes ready to receive from who came, with its socket; 0 or -errno. */
typedef int (*wk_net_welcome)(wk_net_base *base, wk_net_connection *connection);

/* Takes some who wait at the listener, whose sockets get these `flags` of accept4; `welcome`: NULL if there is nothing to do. */
void wk_net_accept_some(wk_net_base *base, uint32_t listener, int flags, wk_net_welcome welcome);
/* Whether the listeners rest. Looks at the clock only if they did so far. */
bool wk_net_accept_rests(wk_net_base *base);
#endif
