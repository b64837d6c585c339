/*
 * net_door.h: who comes in and who goes, and how much of the loop that may take. Private to net_*.c.
 *
 * To accept a connection, to send one away and to close one cost the kernel far more than to receive or to send. So a few
 * are let in or out at once, and then the door rests for nine times as long as that kept the processor busy: a crowd that
 * comes and goes has a tenth of the loop, and those who stay inside have the rest. Where all that came are let in it rests
 * for three times as long only, so that the clients of a bookie that starts again soon have their connections. Who waits to
 * come in waits in the kernel's backlog; who goes is told of (WK_NET_CLOSED) at once, and its socket is closed in its turn.
 */
#ifndef WK_IO_NET_DOOR_H
#define WK_IO_NET_DOOR_H
#include "io/net_base.h"

enum {
	WK_NET_DOOR_AT_ONCE = 8,
	WK_NET_DOOR_REST_TIMES_IN = 3, /* where all that came were let in */
	WK_NET_DOOR_REST_TIMES = 9,    /* where somebody was sent away or has gone */
};

/* Makes ready to receive from who came, with its socket; 0 or -errno. */
typedef int (*wk_net_welcome)(wk_net_base *base, wk_net_connection *connection);

/* Lets in some who wait at the listener; their sockets get these `flags` of accept4. `welcome`: NULL: nothing is to be done. */
void wk_net_door_accept(wk_net_base *base, uint32_t listener, int flags, wk_net_welcome welcome);
/* Nobody is at work on it any more: its socket is closed in its turn. */
void wk_net_door_leave(wk_net_base *base, wk_net_connection *connection);
/* Closes some of those that leave, unless the door rests. True: it rests, and so do the listeners. */
bool wk_net_door_turn(wk_net_base *base);
/* Nobody listens any more. */
void wk_net_door_shut(wk_net_base *base);
void wk_net_door_free(wk_net_base *base);
#endif
