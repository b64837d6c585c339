/*
 * server.h: a bookie's server: a ledger store (ledger.h) behind a socket that speaks BookKeeper's protocol.
 *
 * One thread owns the sockets and the protocol, a few more read what is not in memory; Python is never called. The
 * namespace must be of kind WK_KIND_LEDGERS. It stays the caller's, must outlive the server, and has one server at a time.
 *
 * Threads: every call may be made from any thread, but wk_server_stop from one. Errors: as log.h says.
 */
#ifndef WALKEEPER_SERVER_H
#define WALKEEPER_SERVER_H
#include "walkeeper/histogram.h"
#include "walkeeper/ledger.h"

typedef struct wk_server wk_server;

enum wk_verify_digest { WK_VERIFY_DIGEST_OFF = 0, WK_VERIFY_DIGEST_LEARNED = 1 };

/* wk_server_options_init gives the defaults; 0 in a limit means its default. */
typedef struct wk_server_options {
	const char *host;                     /* where to listen; default 127.0.0.1 */
	uint16_t port;                        /* 0: any */
	uint32_t backend;                     /* enum wk_backend: io_uring or epoll */
	uint32_t connections_max;             /* default 65,536; more are sent away */
	uint32_t connections_per_address_max; /* default 16,384; an IPv6 network of 64 bits is one address */
	uint32_t reader_threads;              /* default 2 */
	uint32_t verify_digest;               /* enum wk_verify_digest (default learned) */
	uint64_t frame_size_max;              /* default 5 MiB, prefix included; at most 5 MiB + 64 KiB */
	uint64_t receive_bytes;               /* frames not whole yet, and adds that wait for room (default 256 MiB) */
	uint64_t reply_bytes; /* replies not sent yet (default 256 MiB); beyond it reads wait, as far as reads_max allows */
	/* reads, fences and lists that wait, and as many long polls (default 10,000); beyond it they are answered 506 */
	uint64_t reads_max;
	uint64_t batch_bytes_max;  /* of one batch read's reply (default 5 MiB) */
	uint64_t frame_timeout_ns; /* a frame begun and not finished for so long ends its connection (default 30 s) */
	uint64_t
	    peer_timeout_ns; /* a peer that is gone without a word is noticed within it: 2 s to a day (default 2 min) */
	uint64_t poll_timeout_max_ns; /* of a long poll (default 60 s) */
	bool listen_later;            /* ignore host and port: wk_server_listen says where */
	/* For the first request on, until wk_server_set_read_only and wk_server_set_limbo change it. */
	bool read_only; /* adds of high priority are refused, too */
	bool limbo_all;
} wk_server_options;
WK_API void wk_server_options_init(wk_server_options *options);

/*
 * The server listens and serves when the call returns; with listen_later it waits for wk_server_listen. WK_INVALID; WK_IO:
 * system_error and the text say what; WK_UNSUPPORTED: no ring.
 */
WK_API wk_status wk_server_start(wk_namespace *ns, const wk_server_options *options, wk_server **server,
                                 wk_error *error);
/*
 * Listens at a TCP socket that is bound to an address, and serves the connections. Before this call the socket keeps the
 * address from other processes, and clients are refused. On WK_OK the socket belongs to the server. WK_IO: system_error and
 * the text say what.
 */
WK_API wk_status wk_server_listen(wk_server *server, int socket, wk_error *error);
/*
 * Stops accepting connections and reading requests. Answers accepted requests, for at most drain_ns. Then closes its end of
 * all connections, and waits for the other ends for drain_ns, at most a second. Ends its threads and frees the server.
 * WK_TIMEOUT: some requests were not answered; the server is freed all the same.
 */
WK_API wk_status wk_server_stop(wk_server *server, uint64_t drain_ns, wk_error *error);
WK_API uint16_t wk_server_port(const wk_server *server); /* 0: it does not listen yet */

/*
 * Read-only: adds and explicit LACs are answered 505; those of high priority (recovery) are taken if high_priority.
 * Reads and fences go on.
 */
WK_API void wk_server_set_read_only(wk_server *server, bool read_only, bool high_priority);
/* What GET_BOOKIE_INFO answers. */
WK_API void wk_server_set_space(wk_server *server, uint64_t total_bytes, uint64_t free_bytes);
/*
 * Limbo: this bookie may have lost acknowledged entries. For a ledger in limbo it never answers "no such ledger" or "no such
 * entry", but 507 (v2: I/O error). `all`: every ledger but these is in limbo. WK_NO_MEMORY.
 */
WK_API wk_status wk_server_set_limbo(wk_server *server, bool all, const int64_t *ledger_ids, size_t count,
                                     wk_error *error);
/*
 * Ids of ledgers that were deleted: adds and fences are refused (504 and 402), reads are answered "no such ledger". The
 * new list replaces the old one. WK_NO_MEMORY.
 */
WK_API wk_status wk_server_set_deleted(wk_server *server, const int64_t *ledger_ids, size_t count, wk_error *error);

enum { WK_SERVER_OPERATIONS = 13 };

typedef struct wk_server_stats {
	uint64_t connections, connections_total;
	uint64_t connections_refused; /* too many, too many of one address, or no memory for them */
	uint64_t accept_shortages;    /* seconds in which a connection waited for a descriptor or memory */
	/*
	 * Since start, by operation: 1 read, 2 add, 5 auth, 6 write LAC, 7 read LAC, 8 bookie info, 9 start TLS, 10 force,
	 * 11 list entries, 12 batch read; the others are not served.
	 */
	uint64_t requests[13];
	uint64_t failures[13];            /* answered with another code than 0 */
	uint64_t added_bytes, read_bytes; /* entries */
	uint64_t received_bytes, sent_bytes;
	uint64_t fences, recovery_adds, long_polls;
	uint64_t digest_mismatches, protocol_errors, frame_timeouts, too_many_requests;
	uint64_t receive_memory, reply_memory, ledgers_memory;
	uint64_t ledgers;             /* with something in memory */
	wk_histogram add_ns, read_ns; /* from the frame to the reply */
	wk_histogram batch;           /* adds accepted in one turn of the loop */
	uint32_t backend;             /* enum wk_backend */
	bool failed;                  /* the journal failed: it only reads */
} wk_server_stats;
WK_API void wk_server_stats_get(wk_server *server, wk_server_stats *stats);
#endif
