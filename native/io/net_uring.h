/*
 * net_uring.h: sockets over a ring. Private to net_uring.c, which drives the ring, net_uring_connection.c, which asks for
 * operations on connections and takes the answers, and net_uring_buffers.c.
 */
#ifndef WK_IO_NET_URING_H
#define WK_IO_NET_URING_H
#include "io/net_base.h"
#include "io/ring.h"
#include <liburing.h>
#include <pthread.h>

/* What an answer is for: the low bits of its user data. Above them is the number of the connection, or an index. */
typedef enum wk_uring_kind {
	WK_URING_RECEIVE = 0,
	WK_URING_SEND,
	WK_URING_DIAL,
	WK_URING_CANCEL,   /* of any operation of the connection */
	WK_URING_LISTENER, /* its index and the round of listening */
	WK_URING_WATCH,
	WK_URING_AWAKE,
	WK_URING_CANCEL_ALL,
	WK_URING_RIDER, /* its slot */
} wk_uring_kind;

enum { WK_URING_KIND_BITS = 4 };

/* Memory to receive into, lent to the kernel for whichever connection has something. */
typedef struct wk_uring_buffers {
	struct io_uring_buf_ring *ring;
	uint8_t *bytes;
	size_t size; /* of each */
	uint32_t count;
	uint16_t *told; /* those that the owner looks at until the next wait */
	uint32_t told_count;
} wk_uring_buffers;

typedef struct wk_uring_net {
	wk_net_base base;
	struct io_uring ring;
	wk_uring_buffers buffers;
	bool enabled;
	uint64_t driver; /* the number of the thread that waits */
	wk_net_connection *attend_first, *attend_last;
	wk_net_connection *starved_first, *starved_last; /* who found no buffer at all: before the others */
	uint32_t in_flight;                              /* operations that the kernel has not answered for the last time */
	uint64_t listen_round;                           /* answers of an earlier one come too late */
	bool listening[WK_NET_LISTENERS_MAX];
	bool watching[WK_NET_WATCHED_MAX];
	wk_ring rideable;
	bool awake_armed;
	bool unarmed;        /* the kernel had no entry for something that is always armed */
	uint64_t wake_value; /* where the armed read puts the count of the wake's descriptor */
} wk_uring_net;

int wk_uring_buffers_new(wk_uring_buffers *buffers, struct io_uring *ring, uint32_t count, size_t size);
/* When the ring is no more. */
void wk_uring_buffers_free(wk_uring_buffers *buffers);
uint8_t *wk_uring_buffers_at(const wk_uring_buffers *buffers, uint16_t index);
/* The kernel may fill it again: at once, or when the owner has looked at it. */
void wk_uring_buffers_give_back(wk_uring_buffers *buffers, uint16_t index);
void wk_uring_buffers_lend_told(wk_uring_buffers *buffers);

/* An entry to be filled; NULL: the kernel takes none now. */
struct io_uring_sqe *wk_uring_entry(wk_uring_net *uring);
/* Says what the entry is for, when it has been filled. */
void wk_uring_mark(struct io_uring_sqe *entry, wk_uring_kind kind, uint64_t above);

/* Something about it changed: what it needs of the kernel is looked at before the next sleep. */
void wk_uring_attend(wk_uring_net *uring, wk_net_connection *connection);
/* Asks the kernel for what the connections need. */
void wk_uring_attend_all(wk_uring_net *uring);
/* It has ended; WK_NET_CLOSED is told when the kernel has let go of it. */
void wk_uring_end(wk_uring_net *uring, wk_net_connection *connection, int error);
/* The next address of the name, or the end. */
void wk_uring_dial_next(wk_uring_net *uring, wk_net_connection *connection, int error);
/* The kernel's answer for a connection; true if there is an event to tell at once. */
bool wk_uring_answer(wk_uring_net *uring, wk_uring_kind kind, wk_connection_id id, int result, uint32_t flags,
                     wk_net_event *event);
#endif
