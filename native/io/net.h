/*
 * net.h: the seam to sockets. Private: nothing outside native/ sees it.
 *
 * Two implementations: io_uring (net_uring.c) and epoll (net_epoll.c, for kernels that forbid rings), with one
 * conformance suite. Both look like completions: something was accepted, received, sent.
 *
 * Rules
 * 1. A wk_net belongs to one thread; wk_net_wake alone may be called from any.
 * 2. Every call returns 0 (or a count) or -errno; nothing is logged. An event's error is a -errno too.
 * 3. A connection is named by a number that is never given twice in the life of a wk_net. A call on one that is closed is
 *    -EBADF and harms nothing. Its `tag` is the owner's, 0 at first, and comes with each event: nothing of a connection
 *    stands behind its WK_NET_ACCEPTED or WK_NET_CONNECTED in the same batch, so that there is time to set it.
 * 4. What is received stands in memory of the seam until the next wait. A connection receives at once; pause stops that
 *    (what arrived before the next wait may still come), resume goes on. The end of one that is paused, and has no send
 *    under way, may be told only when it resumes.
 * 5. One send at a time for each connection (-EBUSY: one is under way, or WK_NET_SENT not yet told); the bytes must stay as
 *    they are until WK_NET_SENT or WK_NET_CLOSED, the list of parts need not. A send is whole or the connection is closed.
 *    Small sends do not wait for others (TCP_NODELAY). No send before WK_NET_CONNECTED: -ENOTCONN.
 * 6. WK_NET_CLOSED comes once, for whatever reason (0: the other end closed its direction in order, and its last bytes have
 *    been told; else a -errno), and nothing of that connection behind it. Where it stands later in the batch that is being
 *    looked at, calls on the connection are -EBADF already. It also comes, with -ECANCELED, for one that its owner closed:
 *    only then has the kernel let go of what was being sent. No later wait tells anything else of such a one; but what else
 *    stands in the batch that is being looked at was told before it was closed: the owner skips it.
 * 7. Out of descriptors or memory, a listener goes on: who could not be accepted waits in the backlog, and it is tried again
 *    when something was closed, and after 100 ms. Nothing spins. One connection too many
 *    (connections_max, connections_per_address_max) is sent away: closed without a word; that is told like a shortage of
 *    descriptors. Who comes, who is sent away and who goes have a small part of the loop (net_door.h), so that a crowd at the
 *    door leaves time for those who are in: who comes waits in the backlog, and the socket of who went is closed some time
 *    after that was told.
 *    What came and was not received makes the kernel tell the other end of a failure when a connection is closed, and what it
 *    was sent last may be lost to it: who has answers under way finishes first, and receives until the other end has closed.
 * 8. A peer that is gone without a word is noticed within peer_timeout_s: one that is idle is asked after half of it whether it
 *    is there (SO_KEEPALIVE), and what was sent must be acknowledged within it (TCP_USER_TIMEOUT). That is so of a peer as well that
 *    lives, reads nothing and has more to read than the kernels' buffers hold.
 */
#ifndef WK_IO_NET_H
#define WK_IO_NET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

typedef struct wk_net wk_net;
typedef uint64_t wk_connection_id; /* 0: none */

enum { WK_NET_PARTS_MAX = 64 }; /* of one send */

typedef enum wk_net_kind {
	WK_NET_ACCEPTED = 1,  /* a new connection, not receiving before the owner has seen this */
	WK_NET_CONNECTED,     /* one that was begun by connect; a failure is WK_NET_CLOSED */
	WK_NET_RECEIVED,      /* bytes, size */
	WK_NET_SENT,          /* the last send, whole */
	WK_NET_CLOSED,        /* error */
	WK_NET_READABLE,      /* a watched descriptor: its tag; told again and again while it is readable */
	WK_NET_RODE,          /* the queue that rides on the ring has completions; told again until they are taken */
	WK_NET_ACCEPT_FAILED, /* at most once a second: error, the last; size, how many were sent away */
} wk_net_kind;

typedef struct wk_net_event {
	wk_net_kind kind;
	int error; /* -errno, 0: none */
	wk_connection_id connection;
	uint64_t tag;
	const uint8_t *bytes;
	size_t size;
} wk_net_event;

typedef struct wk_net_address {
	char host[64]; /* numeric */
	uint16_t port;
} wk_net_address;

struct wk_net_operations {
	const char *name;          /* "io_uring", "epoll" */
	void (*destroy)(wk_net *); /* closes everything */
	/*
	 * A name or a number, NULL or "": every address of this machine; and a port, 0: any. *bound: where it listens. At most 4
	 * (-ENOSPC). -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -ENOENT (no such host), -EAGAIN (the resolver cannot say now) ...
	 */
	int (*listen)(wk_net *, const char *host, uint16_t port, wk_net_address *bound);
	/* The same at a socket that is bound already, and that nobody can connect to until then; it is the net's where that is 0. */
	int (*listen_on)(wk_net *, int fd, wk_net_address *bound);
	void (*stop_listening)(wk_net *); /* all of them; who waits in the backlog is refused */
	/* Tries the addresses of a name one behind the other. A name is looked up here and now, and may take its time. */
	int (*connect)(wk_net *, const char *host, uint16_t port, uint64_t tag, wk_connection_id *connection);
	int (*set_tag)(wk_net *, wk_connection_id, uint64_t tag);
	int (*peer)(wk_net *, wk_connection_id, wk_net_address *); /* who is at the other end */
	int (*send)(wk_net *, wk_connection_id, const struct iovec *parts, uint32_t count);
	int (*pause)(wk_net *, wk_connection_id);
	int (*resume)(wk_net *, wk_connection_id);
	/* Nothing more is sent: the other end hears an end in order behind all that was. -EBUSY: a send is under way. */
	int (*finish)(wk_net *, wk_connection_id);
	int (*close)(wk_net *, wk_connection_id);
	/* An eventfd: WK_NET_READABLE while it is readable. At most 4. */
	int (*watch)(wk_net *, int fd, uint64_t tag);
	/* NULL where there is none: a ring that a queue for files may ride on (wk_io's queue_ride). */
	struct wk_ring *(*ring)(wk_net *);
	/* Waits until an event, a wake or the timeout (UINT64_MAX: none; 0: do not wait); the count, 0 for wake or timeout. Sends
	 * that were asked for since the last wait are handed to the kernel here at the latest. A wake ends one wait, that which
	 * is under way or else the next, also beside events. */
	int (*wait)(wk_net *, wk_net_event *events, uint32_t max, uint64_t timeout_ns);
	void (*wake)(wk_net *);
};

struct wk_net {
	const struct wk_net_operations *operations;
	/* implementation's state follows */
};

typedef struct wk_net_options {
	uint32_t connections_max; /* more are sent away; 0: 65536 */
	uint32_t
	    connections_per_address_max; /* the same, of one address (of an IPv6 network of 64 bits); 0: no such limit */
	uint32_t receive_size;           /* the most bytes of one WK_NET_RECEIVED; 0: 64 KiB */
	uint32_t receive_buffers;        /* io_uring: so many of them; a power of two; 0: 64 */
	uint32_t backlog;                /* 0: 4096 */
	uint32_t peer_timeout_s;         /* 2 to 86400; 0: 120 */
} wk_net_options;

/* `options` may be NULL. */
int wk_net_epoll_new(const wk_net_options *options, wk_net **net);
/* -ENOSYS, -EPERM and the like where the kernel forbids a ring, or lacks what is needed: the caller falls back to epoll. */
int wk_net_uring_new(const wk_net_options *options, wk_net **net);
#endif
