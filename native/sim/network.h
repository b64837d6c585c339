/*
 * network.h: a simulated network and its clock: endpoints behind the seam of sockets (io/net.h), for tests. It is in no
 * library that is installed. Everything is deterministic from the seed and the calls; two networks share nothing. Out of
 * memory ends the program.
 *
 * An endpoint is a process's wk_net. It lives on a host, whose address follows from its number. The owner moves the time
 * (wk_network_advance) and asks for what happened: `wait` never waits, whatever its timeout says.
 *
 * What is modelled
 *  - each piece of a send takes its time; pieces of a connection neither overtake one another nor are lost
 *  - a send is taken from its owner's memory piece by piece, and only while the other end has room; also for a while
 *    behind a close, until WK_NET_CLOSED: memory that was freed too early, or changed, is seen
 *  - what is received comes in any pieces
 *  - a process that ends (destroy) cuts its sends anywhere; the other end hears an end in order, or a reset where
 *    something was not read
 *  - a machine that loses its power tells nobody: the other end is half-open, until it sends something to the machine
 *    when that is up again, or nothing was heard of it for the peer timeout
 *  - a cut from one host to another: nothing arrives in that direction until it is healed, then everything does; a side
 *    that hears nothing for the peer timeout, as acknowledgements count as well, closes
 *  - a reset: what is on the way, or was not read, is lost, and one end or both learn of it
 *  - connecting: refused, or without an answer for as long as a host is away
 */
#ifndef WK_SIM_NETWORK_H
#define WK_SIM_NETWORK_H
#include "io/net.h"

typedef struct wk_network wk_network;
enum { WK_NETWORK_HOSTS_MAX = 64 };

wk_network *wk_network_new(uint64_t seed);
/* Its endpoints were destroyed. */
void wk_network_free(wk_network *network);
/* A process on the host; a host that had lost its power is up again. */
wk_net *wk_network_endpoint(wk_network *network, uint32_t host);
/* The host's address, for connect. */
void wk_network_address(uint32_t host, char text[64]);

uint64_t wk_network_now(const wk_network *network);
/* What is due until then happens, and it is then. */
void wk_network_advance(wk_network *network, uint64_t now_ns);
/* When the next thing happens; UINT64_MAX: nothing does. */
uint64_t wk_network_next(const wk_network *network);
/* The next wait has something to tell, or ends by a wake. */
bool wk_network_tells(const wk_net *net);

/* Of each piece; by default 20 to 200 us. */
void wk_network_set_delay(wk_network *network, uint64_t least_ns, uint64_t most_ns);
/* So many bytes are on their way, or received and not read; by default 256 KiB. */
void wk_network_set_window(wk_network *network, size_t bytes);
/* By default 120 s. */
void wk_network_set_peer_timeout(wk_network *network, uint64_t timeout_ns);

/* Nothing gets from one host to the other, until it is mended. */
void wk_network_cut(wk_network *network, uint32_t from, uint32_t to);
void wk_network_mend(wk_network *network, uint32_t from, uint32_t to);
/* Who connects to the host is refused. */
void wk_network_refuse(wk_network *network, uint32_t host);
/* No cut, nobody refuses. */
void wk_network_heal(wk_network *network);
/* Connections between the hosts: each is reset, or not, by the seed. */
void wk_network_reset(wk_network *network, uint32_t one, uint32_t other);
/* The endpoint's host loses its power. What is left of the endpoint is to be destroyed. */
void wk_network_power_cut(wk_net *net);
#endif
