/*
 * net_base.h: what both implementations of the seam to sockets keep, and the operations that need no kernel. Private to
 * net_*.c.
 */
#ifndef WK_IO_NET_BASE_H
#define WK_IO_NET_BASE_H
#include "io/net_table.h"
#include <stdatomic.h>

enum {
	WK_NET_LISTENERS_MAX = 4,
	WK_NET_WATCHED_MAX = 4,
};

/* Sockets that are to be closed, a ring in the order in which they came. */
typedef struct wk_net_leaving {
	int *fds;
	uint32_t first, count, size; /* size: a power of 2, or 0 */
} wk_net_leaving;

typedef struct wk_net_base {
	wk_net net;
	wk_net_options options; /* none is 0 */
	wk_net_table table;
	wk_net_origins origins;
	wk_net_send_pool sends;
	wk_net_connection *tell_first, *tell_last;
	int listeners[WK_NET_LISTENERS_MAX];
	uint32_t listeners_count;
	uint64_t rest_until; /* the door rests; 0: it does not */
	bool ran_short;      /* it rests for want of something: what is closed may end it */
	wk_net_leaving leaving;
	int accept_error;        /* of the last who could not come in, to be told; 0: there was none */
	uint32_t sent_away;      /* to be told */
	uint64_t accept_told_at; /* 0: never */
	struct {
		int fd;
		uint64_t tag;
	} watched[WK_NET_WATCHED_MAX];
	uint32_t watched_count;
	int wake_fd;
	uint32_t waits;           /* so many have begun */
	bool woken;               /* heard, and not yet told */
	atomic_bool wake_pending; /* the descriptor has been written: no need to do it twice */
} wk_net_base;

/* A wait that has begun. */
typedef struct wk_net_limit {
	uint64_t deadline; /* UINT64_MAX: none */
	uint64_t now;      /* 0: nobody needed to know */
} wk_net_limit;

int wk_net_base_init(wk_net_base *base, const struct wk_net_operations *operations, const wk_net_options *options);
/* Behind the last connection. */
void wk_net_base_free(wk_net_base *base);

int wk_net_set_tag(wk_net *net, wk_connection_id id, uint64_t tag);
int wk_net_peer(wk_net *net, wk_connection_id id, wk_net_address *peer);
int wk_net_finish(wk_net *net, wk_connection_id id);
void wk_net_wake(wk_net *net);

/* The connection that its owner may name so, or -EBADF. It may have ended: then WK_NET_CLOSED is on its way. */
int wk_net_owned(wk_net_base *base, wk_connection_id id, wk_net_connection **connection);
/* A connection that is being made: its addresses are known, none was tried yet. */
int wk_net_begin_connect(wk_net_base *base, const char *host, uint16_t port, uint64_t tag,
                         wk_net_connection **connection);
/* *connection stays NULL where it is paused, or not, already. */
int wk_net_set_paused(wk_net_base *base, wk_connection_id id, bool paused, wk_net_connection **connection);
/* Whether somebody woke the wait that is under way; not told again. */
bool wk_net_take_wake(wk_net_base *base);
/* Hangs the send on its connection; *connection stays NULL where that has ended, and there is nothing to do. */
int wk_net_begin_send(wk_net_base *base, wk_connection_id id, const struct iovec *parts, uint32_t count,
                      wk_net_connection **connection);
void wk_net_drop_send(wk_net_base *base, wk_net_connection *connection);
/* No socket any more: a listener that ran short of them may have this one's place. */
void wk_net_close_socket(wk_net_base *base, wk_net_connection *connection);

/* Something (WK_NET_TELL_*) is to be told of it. */
void wk_net_note(wk_net_base *base, wk_net_connection *connection, unsigned what);
/* Tells what was noted; a connection whose end is told is forgotten. */
uint32_t wk_net_tell(wk_net_base *base, wk_net_event *events, uint32_t max);
/* Its slot is free, and it counts no more. */
void wk_net_forget(wk_net_base *base, wk_net_connection *connection);
/* Nothing more of it is told in this wait (rule 3). */
static inline bool wk_net_is_new(const wk_net_base *base, const wk_net_connection *connection) {
	return connection->opened_in == base->waits;
}
wk_net_limit wk_net_limit_new(uint64_t timeout_ns);
/* How long to sleep: until the deadline, or until the door has rested, or until failures may be told. UINT64_MAX: for ever. */
uint64_t wk_net_limit_left(wk_net_limit *limit, const wk_net_base *base);
/* As of the last look at the clock. */
bool wk_net_limit_reached(const wk_net_limit *limit);
#endif
