/*
 * net_send.h: what is left of a send. Private to net_*.c.
 *
 * Only a connection with a send under way has one of these, so an idle one costs nothing for it.
 *
 * The kernel is given a piece at a time. It copies at once as much as a socket takes, megabytes where the other end reads
 * fast, and nobody else is served meanwhile.
 */
#ifndef WK_IO_NET_SEND_H
#define WK_IO_NET_SEND_H
#include "io/net.h"
#include <sys/socket.h>

enum { WK_NET_PIECE_MAX = 64 * 1024 };

typedef struct wk_net_send {
	struct wk_net_send *next;
	struct msghdr message; /* the parts that are left */
	struct msghdr piece;   /* the first of them, as the kernel takes them: wk_net_send_piece */
	struct iovec cut;
	struct iovec parts[WK_NET_PARTS_MAX];
} wk_net_send;

/* Some are kept for the next, as they are needed at every turn. */
typedef struct wk_net_send_pool {
	wk_net_send *spare;
	uint32_t spare_count;
} wk_net_send_pool;

/* NULL: no memory. */
wk_net_send *wk_net_send_take(wk_net_send_pool *pool);
void wk_net_send_give_back(wk_net_send_pool *pool, wk_net_send *send);
void wk_net_send_pool_free(wk_net_send_pool *pool);

/* Takes over the parts, without the empty ones: message.msg_iovlen is 0 where there is nothing to send. */
void wk_net_send_load(wk_net_send *send, const struct iovec *parts, uint32_t count);
/* What is sent next, WK_NET_PIECE_MAX bytes at most. It stays as it is until the next call. */
const struct msghdr *wk_net_send_piece(wk_net_send *send);
/* `size` bytes have gone; true when those were the last. */
bool wk_net_send_advance(wk_net_send *send, size_t size);
#endif
