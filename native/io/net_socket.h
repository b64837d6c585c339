/* net_socket.h: addresses, and sockets that are made for them. Private to net_*.c. */
#ifndef WK_IO_NET_SOCKET_H
#define WK_IO_NET_SOCKET_H
#include "io/net.h"

/* A connection that is being made: the addresses of a name, tried one behind the other. */
typedef struct wk_net_dial wk_net_dial;

/*
 * A socket that listens at the first address of `host` that it can have (NULL or "": every address of this machine),
 * and says where; an accept there does not wait. Who is accepted there inherits the options of rules 5 and 8.
 */
int wk_net_socket_listen(const char *host, uint16_t port, const wk_net_options *options, int *fd,
                         wk_net_address *bound);
/* The same of a socket that is bound, and stays the caller's. */
int wk_net_socket_listen_on(int fd, const wk_net_options *options, wk_net_address *bound);

/* Looks the name up, which may take as long as the machine's resolver does; a number takes none. */
int wk_net_dial_new(const char *host, uint16_t port, wk_net_dial **dial);
/*
 * Begins with the next address. 0: *fd is connected; -EINPROGRESS: it will be writable when that is decided, see
 * wk_net_socket_error; else no address is left, and this is why the last failed.
 */
int wk_net_dial_next(wk_net_dial *dial, uint32_t peer_timeout_s, int *fd);
void wk_net_dial_free(wk_net_dial *dial);

/* -errno of what happened to the socket last, 0: nothing. */
int wk_net_socket_error(int fd);
int wk_net_socket_peer(int fd, wk_net_address *peer);
/* The kernel is out of something that a listener can wait for (rule 7). */
bool wk_net_is_shortage(int error);
#endif
