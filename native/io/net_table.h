/*
 * net_table.h: the connections of a wk_net, found by their numbers. Private to net_*.c.
 *
 * A number is a slot and how often that slot has been given out, so one that is over never names another connection.
 * Slots are made a slab at a time, as connections come, and never move: the kernel may hold pointers to them.
 */
#ifndef WK_IO_NET_TABLE_H
#define WK_IO_NET_TABLE_H
#include "io/net_origins.h"
#include "io/net_send.h"
#include "io/net_socket.h"

enum {
	WK_NET_SLOT_BITS = 24, /* of a number; the rest counts */
	WK_NET_SLAB_SIZE = 64,
	WK_NET_CONNECTIONS_MAX = 1 << WK_NET_SLOT_BITS,
};

typedef enum wk_net_state {
	WK_NET_FREE = 0,
	WK_NET_DIALLING, /* begun by connect, no answer yet */
	WK_NET_OPEN,
	WK_NET_ENDED, /* WK_NET_CLOSED is still to be told */
} wk_net_state;

/* What the owner is still to be told of a connection, in the order in which it is. */
enum { WK_NET_TELL_OPEN = 1, WK_NET_TELL_SENT = 2, WK_NET_TELL_CLOSED = 4 };

typedef struct wk_net_connection {
	wk_connection_id id;
	uint64_t tag;
	wk_net_origin origin;           /* who is counted for it; 0: nobody */
	struct wk_net_connection *next; /* of those with something to tell, or of the free ones */
	wk_net_send *send;              /* NULL: none is under way */
	wk_net_dial *dial;              /* while it is dialled */
	int fd;
	int error; /* -errno, why it ended */
	wk_net_state state;
	uint8_t tell;
	bool listed;   /* among those with something to tell */
	bool accepted; /* not connected by us */
	bool closed;   /* by its owner, who may not name it any more */
	bool paused;
	uint32_t opened_in; /* which wait told of it first */
	/* epoll: what it watches for. */
	uint32_t interest;
	/* io_uring: who is to be attended to, what the kernel is at work on, and what of that it was asked to cancel. */
	struct wk_net_connection *attend_next;
	bool attend_listed;
	bool announced; /* its owner knows of it, so that it may receive */
	bool received;  /* something, since it was last asked for */
	uint8_t armed;
	uint8_t cancelled;
} wk_net_connection;

typedef struct wk_net_table {
	wk_net_connection **slabs;
	uint32_t slabs_size; /* pointers there is room for */
	uint32_t made;       /* slots */
	uint32_t count;      /* in use */
	uint32_t max;
	wk_net_connection *free;
} wk_net_table;

/* A slot with its number and without a socket; NULL with *error -EMFILE (as many as there may be) or -ENOMEM. */
wk_net_connection *wk_net_table_take(wk_net_table *table, int *error);
void wk_net_table_give_back(wk_net_table *table, wk_net_connection *connection);
/* NULL: there is none of that number any more. */
wk_net_connection *wk_net_table_find(const wk_net_table *table, wk_connection_id id);
/* By slot, below `made`, whether in use or not. */
wk_net_connection *wk_net_table_at(const wk_net_table *table, uint32_t slot);
void wk_net_table_free(wk_net_table *table);

static inline uint32_t wk_net_slot(wk_connection_id id) {
	return (uint32_t)(id & (WK_NET_CONNECTIONS_MAX - 1));
}
#endif
