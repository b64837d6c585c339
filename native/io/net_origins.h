/*
 * net_origins.h: how many connections come from each address, so that one that floods leaves room for others. Private to
 * net_*.c.
 *
 * An IPv6 network of 64 bits counts as one address, as whoever has one address of it mostly has all; of link-local ones,
 * which all have the same network, the rest counts.
 */
#ifndef WK_IO_NET_ORIGINS_H
#define WK_IO_NET_ORIGINS_H
#include <stdint.h>
#include <sys/socket.h>

typedef uint64_t wk_net_origin; /* 0: not known */

typedef struct wk_net_origin_slot {
	wk_net_origin origin; /* 0: free */
	uint32_t count;
} wk_net_origin_slot;

typedef struct wk_net_origins {
	wk_net_origin_slot *slots;
	uint32_t capacity; /* a power of two, or 0 */
	uint32_t used;
	uint32_t max; /* connections of one origin; 0: none is counted */
	uint64_t seed;
} wk_net_origins;

wk_net_origin wk_net_origin_of(const struct sockaddr *address);
/* One more. -EMFILE: there are `max` of it; -ENOMEM. */
int wk_net_origins_enter(wk_net_origins *origins, wk_net_origin origin);
void wk_net_origins_leave(wk_net_origins *origins, wk_net_origin origin);
void wk_net_origins_free(wk_net_origins *origins);
#endif
