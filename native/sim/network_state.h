/* network_state.h: what the files of the simulated network share. Private to native/sim. */
#ifndef WK_SIM_NETWORK_STATE_H
#define WK_SIM_NETWORK_STATE_H
#include "sim/faulty_disk.h"
#include "sim/network.h"

enum { WK_LISTENERS_MAX = 4 };

typedef enum wk_piece_kind { WK_PIECE_BYTES, WK_PIECE_END, WK_PIECE_RESET } wk_piece_kind;

/* Something on its way to the other end. */
typedef struct wk_piece {
	struct wk_piece *next;
	uint64_t arrives_ns;
	wk_piece_kind kind;
	size_t size;
	uint8_t bytes[];
} wk_piece;

/* Bytes that were told, until the next wait. */
typedef struct wk_told {
	struct wk_told *next;
	uint8_t bytes[];
} wk_told;

typedef struct wk_endpoint {
	wk_net net; /* first */
	wk_network *network;
	uint32_t host;
	bool dead; /* its machine lost its power */
	bool woken;
	wk_connection_id last_id;
	uint64_t waits; /* so far */
	uint16_t ports[WK_LISTENERS_MAX];
	uint32_t ports_count;
	wk_told *told;
	struct wk_endpoint *next, **link; /* of the network's */
} wk_endpoint;

/* One end of a connection. */
typedef struct wk_socket {
	wk_endpoint *endpoint; /* NULL: not there yet, or not any more */
	uint32_t host;
	wk_connection_id id;
	uint64_t tag;
	bool opens; /* from `opens_at_ns` on the owner may be told */
	bool open;  /* was told, in wait number `opened_in` */
	uint64_t opens_at_ns, opened_in;
	bool paused, comes_late; /* comes_late: a piece may still come although it is paused */
	/* a send: `part` and `part_taken` of it were taken */
	struct iovec parts[WK_NET_PARTS_MAX];
	uint32_t parts_count, part;
	size_t part_taken;
	bool sends, sent; /* sent: all was taken, which is to be told */
	uint64_t takes_at_ns;
	/* on the way to the other end */
	wk_piece *first, **end;
	size_t on_way;
	uint64_t last_arrival_ns;
	bool finished; /* an end, or a reset, is on its way or has arrived */
	/* arrived here, and not told */
	uint8_t *received;
	size_t received_size, received_capacity;
	bool ended; /* the other end's direction, in order */
	/* the end: to be told from `closes_at_ns` on */
	bool closes;
	int error;
	uint64_t closes_at_ns;
	bool without_a_word;       /* the other end does not hear of it */
	uint64_t unheard_since_ns; /* UINT64_MAX: the other end is there */
	bool gone;                 /* the end was told, or nobody is there any more */
} wk_socket;

typedef struct wk_tcp {
	wk_socket sockets[2]; /* 0: who connects */
	bool connects;        /* the other end does not know yet */
	bool broken;          /* by a reset: nothing arrives any more, and whoever sends is reset */
	uint64_t connect_at_ns, connect_until_ns;
	uint16_t port;
} wk_tcp;

struct wk_network {
	uint64_t random, now_ns;
	uint64_t delay_least_ns, delay_most_ns, peer_timeout_ns;
	size_t window;
	wk_endpoint *endpoints;
	wk_tcp **tcps;
	size_t tcps_count, tcps_capacity;
	bool cut[WK_NETWORK_HOSTS_MAX][WK_NETWORK_HOSTS_MAX]; /* from, to */
	bool refuses[WK_NETWORK_HOSTS_MAX], down[WK_NETWORK_HOSTS_MAX];
};

/* network.c */
uint64_t wk_network_chance(wk_network *network, uint64_t n); /* below n */
uint64_t wk_network_delay(wk_network *network);
/* The last word of this end, behind all that is on its way. */
void wk_socket_say(wk_network *network, wk_socket *socket, wk_piece_kind kind);
/* It will be told of its end from then on. */
void wk_socket_end(wk_socket *socket, int error, uint64_t at_ns);
/* Nobody is there any more. */
void wk_socket_leave(wk_network *network, wk_socket *socket);
wk_tcp *wk_tcp_new(wk_endpoint *endpoint, uint32_t host, uint16_t port, uint64_t tag);

/* network_endpoint.c */
extern const struct wk_net_operations wk_network_operations;
#endif
