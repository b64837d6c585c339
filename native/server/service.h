/*
 * service.h: a bookie's protocol between a ledger store and sockets. Private.
 *
 * One thread: whoever calls it, the server's thread (server.c) or a simulation, which gives a wk_net of its own. It never
 * looks at a clock: the time comes with each turn. A turn is: events of sockets (accepted, received, sent, closed), then
 * wk_service_turn, which adds what was collected to the store, answers what became durable or was read meanwhile, and hands
 * all answers of a connection to the kernel at once.
 *
 *   frame ─► peer.c ─► request.c ─► adds.c     ─► store ─► waits.c (until durable) ─┐
 *                                 ├► changes.c  ─► store ─► waits.c                  ├─► outbox.c ─► socket
 *                                 └► reads.c    ─► read_pool.c ──────────────────────┘
 *
 * Order: the adds of one connection are answered as they came. What is behind an add on its connection is looked at once the add
 * was accepted; where the journal has no room, the connection stalls: nothing more is read from it until there is.
 */
#ifndef WK_SERVER_SERVICE_H
#define WK_SERVER_SERVICE_H
#include "core/budgets.h"
#include "core/hosted.h"
#include "core/wire.h"
#include "engine/committer.h"
#include "io/net.h"
#include "walkeeper/server.h"

typedef struct wk_service wk_service;
typedef struct wk_peer wk_peer;
typedef struct wk_read_job wk_read_job;
typedef struct wk_read_pool wk_read_pool;

enum {
	WK_ADDS_MAX = 1024,         /* adds handed to the store in one call */
	WK_OUTBOX_PARTS_MAX = 64,   /* of one send */
	WK_COPY_MAX = 4096,         /* a larger body is sent from where it was read */
	WK_SMALL_FRAME_MAX = 65536, /* larger ones are assembled a few at a time */
};

/* ---- bytes that outlive the call ---- */

/* A frame that is being assembled, or that waits. */
typedef struct wk_frame_buffer {
	struct wk_frame_buffer *next; /* of those that the batch points into */
	wk_peer *peer;                /* whose it is; NULL: nobody's any more, and freed behind the batch */
	size_t taken, size, capacity; /* taken: so much at its beginning was looked at */
	uint64_t since_ns;            /* what it has came then, or soon afterwards */
	bool batched, walked;         /* adds of the batch may point into it; it is being looked at */
	uint8_t bytes[];
} wk_frame_buffer;

/* One answer or several: heads and small bodies in `bytes`, larger bodies where they were read. */
typedef struct wk_outbox_part {
	const uint8_t *bytes; /* NULL: in the outbox's own bytes, from `at` */
	size_t at, size;
	wk_read_job *owner; /* released once sent; NULL: none */
} wk_outbox_part;

typedef struct wk_outbox {
	uint8_t *bytes;
	size_t size, capacity;
	wk_outbox_part *parts;
	uint32_t parts_count, parts_capacity;
	uint64_t total; /* of all parts */
} wk_outbox;

/* ---- peers ---- */

/* Why nothing more of a connection is looked at: the journal has no room, or it has too much that is not sent, not read, or begun. */
enum wk_stall {
	WK_STALL_JOURNAL = 1,
	WK_STALL_OUTPUT = 2,
	WK_STALL_READS = 4,
	WK_STALL_INPUT = 8,
	WK_STALL_DRAIN = 16
};

/* Who stalls goes on in this order, those of a rank as they came. For the journal recoveries come before writers. */
enum wk_stall_rank { WK_RANK_FENCE, WK_RANK_RECOVERY, WK_RANK_OTHERS, WK_RANKS };

typedef struct wk_stalled {
	wk_peer *first, **end;
	uint32_t journal; /* of these wait for the journal */
} wk_stalled;

struct wk_peer {
	wk_connection_id id;
	uint32_t version;    /* of the protocol that it speaks, enum wk_wire_version */
	uint32_t references; /* the connection's, and one for each answer that is owed */
	uint32_t stalls;     /* enum wk_stall: nothing more of it is looked at */
	wk_budget_own own;
	wk_read_job *reads_first, **reads_end; /* that wait for their turn; valid while there are any */
	bool parked;                           /* its reads wait until it takes answers */
	bool untried;         /* it was not known, when it joined the ring, whether memory has its first read */
	wk_peer *next_reader; /* of those with reads that wait */
	int32_t first_poll;
	bool gone;                /* the connection is closed: answers go nowhere */
	bool closing;             /* it was told to close */
	bool paused;              /* the socket is not read */
	bool sending, listed;     /* a send is under way; it stands in the service's list of those with something to send */
	bool large;               /* has one of the few places for large frames */
	bool waits;               /* stands in the service's list of those that stall, of its rank */
	uint8_t rank;             /* enum wk_stall_rank */
	wk_frame_buffer *partial; /* a frame that is not whole yet */
	wk_frame_buffer *backlog; /* what came while it stalled, frames back to back */
	uint64_t frame_began_ns, send_began_ns;
	uint64_t input_bytes; /* of service->input_bytes */
	wk_outbox filling, sent;
	uint32_t sent_parts;   /* of `sent`, handed to the kernel */
	wk_peer *next, **link; /* all of them */
	wk_peer *next_listed, *next_stalled;
};

/* ---- answers that are owed ---- */

/* What a request's answer needs. */
typedef struct wk_owed {
	wk_peer *peer; /* held */
	uint64_t began_ns, txn_id;
	int64_t ledger_id, entry_id;
	uint32_t header_version;
	uint8_t version, operation;
} wk_owed;

typedef enum wk_wait_kind { WK_WAIT_ADD, WK_WAIT_LAC, WK_WAIT_FORCE, WK_WAIT_READ } wk_wait_kind;

/* Something that is accepted, to be gone on with once it is durable. */
typedef struct wk_wait {
	uint64_t ticket;
	wk_owed owed;
	int64_t lac;      /* LAC: raised when it is durable */
	wk_read_job *job; /* READ: the read that follows */
	wk_wait_kind kind;
} wk_wait;

/* A ring; tickets in it do not fall. */
typedef struct wk_wait_queue {
	wk_wait *waits;
	uint32_t capacity, first, count;
} wk_wait_queue;

typedef struct wk_add_note {
	wk_owed owed;
	int64_t lac;
	const uint8_t *frame; /* where it stands until the batch is through */
	size_t frame_size;
} wk_add_note;

typedef struct wk_add_batch {
	wk_add *adds;
	wk_add_note *notes;
	uint32_t count;
	wk_frame_buffer *spent; /* those that adds may point into, until the batch is through */
} wk_add_batch;

/* ---- reads ---- */

typedef enum wk_read_kind {
	WK_JOB_READ,  /* one entry */
	WK_JOB_BATCH, /* several */
	WK_JOB_LAC,   /* the explicit LAC and the last entry */
	WK_JOB_LIST,  /* which entries there are */
	WK_JOB_POLL,  /* the stored LAC of a ledger that somebody polls */
} wk_read_kind;

struct wk_read_job {
	wk_read_job *next;
	wk_owed owed;
	wk_read_kind kind;
	uint32_t flags; /* of the request */
	int64_t first;  /* entry to be read */
	uint64_t max_bytes;
	uint32_t max_count;
	uint32_t frame_max;
	bool spared;                      /* it is one of load.spared while it waits */
	bool learn_lac;                   /* the stored LAC is wanted, too */
	bool learned;                     /* and was read, or there is none */
	bool missed;                      /* memory has not all of it */
	bool large;                       /* its answer was found to be large: it waits for more room */
	bool certain;                     /* a negative answer counts: everything accepted before is durable */
	int64_t previous_lac, timeout_ms; /* of a long poll */
	/* outcome */
	wk_status status;
	wk_entry_batch **batches; /* in order: a batch of the store ends where a block does */
	uint32_t batches_count, batches_capacity;
	int64_t stored_lac;
	uint8_t lac[WK_LEDGER_LAC_MAX];
	uint32_t lac_size;
	uint8_t *body; /* of a list of entries; of a batch of small ones, instead of `batches`: as it is sent */
	uint64_t body_size;
	uint32_t packed_count; /* entries in it */
	uint32_t references;   /* parts of outboxes that point into it */
};

/* ---- the service ---- */

struct wk_service {
	wk_namespace *ns;
	wk_net *net;
	wk_server_options options;
	wk_budget_limits limits;
	wk_budget_load load;
	uint64_t now_ns; /* of this turn */
	int64_t wall_ms;
	bool draining, failed;
	uint64_t total_space, free_space;
	wk_hosted_rules rules;
	int64_t *limbo_ids, *deleted_ids;
	wk_hosted_ledgers hosted;
	wk_polls polls;
	bool commits;            /* a block of its is under way */
	uint64_t commit_at_ns;   /* UINT64_MAX, or when it has something to write */
	wk_committer *committer; /* NULL: the store's own thread writes */
	wk_add_batch adds;
	wk_wait_queue waits;
	uint64_t armed; /* the ticket that the store's event is armed for, 0: none */
	wk_read_pool *pool;
	uint32_t pool_count;               /* in the pool */
	wk_read_job *served, **served_end; /* read by the loop itself, to be answered in this turn */
	uint32_t served_count;             /* in this turn */
	wk_peer *readers, **readers_end;   /* connections with reads that wait, in the order of their turns */
	uint32_t ring_count;               /* of them, but for those that are parked */
	uint32_t untried_count;            /* of those in the ring */
	bool reads_starve;                 /* some wait, and for nothing but memory */
	uint64_t large_bytes;              /* of input_bytes: of connections with a place for a large frame */
	wk_peer *peers, *listed;
	wk_stalled stalled[WK_RANKS];
	bool unblocked;   /* somebody who stalls may go on: in the turn, where nothing is being walked through */
	bool no_room;     /* the journal had none: adds queue up behind those that stall already */
	bool memory_wait; /* somebody stalls for want of memory for what comes in */
	uint32_t owed_count, sending_count, partial_count;
	uint32_t large_left;    /* places for large frames */
	uint64_t durable;       /* as of this turn */
	uint64_t next_sweep_ns; /* when overdue frames are looked for */
	uint64_t input_bytes;
	uint64_t copied_bytes; /* of what came in, from one place to another */
	wk_server_stats stats;
};

wk_status wk_service_new(wk_namespace *ns, wk_net *net, const wk_server_options *options, wk_service **service);
/* The net was destroyed: nothing of a connection is under way. */
void wk_service_free(wk_service *service);
/* This thread, that of the turns, writes the blocks itself. Where it cannot, the store's thread goes on writing them. */
void wk_service_commit(wk_service *service);
/* From the same thread, behind the last turn; false: something is being written, and more turns are wanted. */
bool wk_service_commit_ends(wk_service *service);
/* The time of what follows. */
void wk_service_begin(wk_service *service, uint64_t now_ns, int64_t wall_ms);
void wk_service_event(wk_service *service, const wk_net_event *event);
void wk_service_turn(wk_service *service);
/* The store's descriptor is readable; the pool's is. */
void wk_service_store_event(wk_service *service);
void wk_service_pool_event(wk_service *service);
/* Nothing more is read from any connection; long polls end. */
void wk_service_drain(wk_service *service);
/* All answers are sent: every other end hears so, and what it sends is received until it has closed, and goes nowhere. */
void wk_service_part(wk_service *service);
/* When the next turn is due without an event; UINT64_MAX: never. */
uint64_t wk_service_deadline(const wk_service *service);
/* Descriptors that tell of something: the store's, and the pool's; -1 where there is none. */
void wk_service_descriptors(const wk_service *service, int *store, int *pool);
/* Nobody is owed an answer, and all answers were sent. */
bool wk_service_is_idle(const wk_service *service);
void wk_service_set_limbo(wk_service *service, bool all, int64_t *ids, size_t count); /* takes the memory */
void wk_service_set_deleted(wk_service *service, int64_t *ids, size_t count);

/* ---- between its files ---- */

/* peer.c */
void wk_peer_accepted(wk_service *service, wk_connection_id id);
void wk_peer_receive(wk_service *service, wk_peer *peer, const uint8_t *bytes, size_t size);
void wk_peer_sent(wk_service *service, wk_peer *peer);
void wk_peer_gone(wk_service *service, wk_peer *peer);
void wk_peer_close(wk_service *service, wk_peer *peer);
void wk_peer_release(wk_peer *peer);
/* This frame, and what comes behind it, is kept until wk_peer_go_on. */
void wk_peer_stall(wk_service *service, wk_peer *peer, enum wk_stall why, enum wk_stall_rank rank, const uint8_t *frame,
                   size_t size);
void wk_peer_hold(wk_service *service, wk_peer *peer); /* for good */
void wk_peer_unstall(wk_service *service, wk_peer *peer, enum wk_stall why);
/* Those whose reason to stall is over; `journal`: it may have room. From the turn alone: nothing else walks meanwhile. */
void wk_peers_go_on(wk_service *service, bool journal);
bool wk_peers_stall(const wk_service *service);             /* some do */
void wk_peer_read_ends(wk_service *service, wk_peer *peer); /* one of its reads is answered, or only waits */
void wk_peers_sweep(wk_service *service);

bool wk_peer_is_held(const wk_peer *peer); /* it stalls, for another reason than a frame that there is no place for */
void wk_peer_begin_partial(wk_service *service,
                           wk_peer *peer); /* peer->partial is the beginning of a frame; it may close it */
void wk_peer_end_partial(wk_service *service, wk_peer *peer);

/* frame_buffer.c; false: no memory, or no more is allowed */
bool wk_buffer_resize(wk_service *service, wk_peer *peer, wk_frame_buffer **at, size_t capacity);
bool wk_buffer_append(wk_service *service, wk_peer *peer, wk_frame_buffer **at, const uint8_t *bytes, size_t size,
                      size_t most); /* it never grows beyond `most` */
void wk_buffer_drop(wk_service *service, wk_frame_buffer **at);
wk_frame_buffer *wk_buffer_let_go(wk_service *service, wk_frame_buffer **at); /* nobody's, to be spent */

/* backlog.c; false: as above */
bool wk_backlog_has_more(const wk_peer *peer);
bool wk_backlog_give_back(wk_service *service, wk_peer *peer, const uint8_t *frame, size_t size);
bool wk_backlog_put(wk_service *service, wk_peer *peer, const uint8_t *bytes, size_t size); /* behind all that waits */
void wk_backlog_walk(wk_service *service, wk_peer *peer); /* handles its frames, until it stalls again */
void wk_backlog_end(wk_service *service,
                    wk_peer *peer); /* who does not stall has none, before more of it is received */
void wk_buffer_spent(wk_service *service, wk_frame_buffer *buffer); /* no adds point into it any more */

/* request.c: a whole frame */
void wk_request_handle(wk_service *service, wk_peer *peer, const uint8_t *frame, size_t size);
wk_owed wk_owe(wk_service *service, wk_peer *peer, const wk_wire_request *request);
wk_hosted_ledger *wk_service_host(wk_service *service, int64_t ledger_id); /* NULL: no memory */
uint32_t wk_code_of(wk_status status);

/* reply.c: answers; each releases what is owed, or answers a request at once */
void wk_reply_begin(const wk_owed *owed, uint32_t code, wk_wire_reply *reply);
void wk_reply_put(wk_service *service, wk_peer *peer, const wk_wire_reply *reply, const uint8_t *body,
                  wk_read_job *owner);
void wk_reply_code(wk_service *service, const wk_owed *owed, uint32_t code);
void wk_owed_release(wk_service *service, const wk_owed *owed, uint32_t code);

/* outbox.c */
bool wk_outbox_put(wk_outbox *outbox, const void *bytes, size_t size);
bool wk_outbox_refer(wk_outbox *outbox, const uint8_t *bytes, size_t size, wk_read_job *owner);
void wk_outbox_clear(wk_service *service, wk_outbox *outbox);
static inline uint64_t wk_peer_unsent(const wk_peer *peer) {
	return peer->filling.total + peer->sent.total;
}
void wk_outboxes_send(wk_service *service);
void wk_peer_list(wk_service *service, wk_peer *peer);

/* adds.c */
void wk_adds_put(wk_service *service, wk_peer *peer, const wk_wire_request *request, const uint8_t *frame, size_t size);
void wk_adds_flush(wk_service *service);
/* What is in the batch goes nowhere: nobody is there any more. */
void wk_adds_drop(wk_service *service);
/* wk_buffer_spent once the batch, which may point into it, is through. */
void wk_adds_spend(wk_service *service, wk_frame_buffer *buffer);

/* waits.c */
/* There is memory for so many more. */
bool wk_waits_reserve(wk_service *service, uint32_t more);
bool wk_waits_put(wk_service *service, const wk_wait *wait);
void wk_waits_answer(wk_service *service);

/* changes.c: fence, explicit LAC, force */
void wk_change_fence(wk_service *service, wk_peer *peer, const wk_wire_request *request, const uint8_t *frame,
                     size_t size);
void wk_change_lac(wk_service *service, wk_peer *peer, const wk_wire_request *request, const uint8_t *frame,
                   size_t size);
void wk_change_force(wk_service *service, wk_peer *peer, const wk_wire_request *request, const uint8_t *frame,
                     size_t size);

/* read_queue.c */
void wk_read_queue_put(wk_service *service, wk_read_job *job);
/* One that was run, and whose answer turned out too large for the room there is: it waits again. */
bool wk_read_queue_take_back(wk_service *service, wk_read_job *job);
/* It took answers, or has one more. */
void wk_read_queue_go_on(wk_service *service, wk_peer *peer);
/* Gives the pool what memory for answers allows. */
void wk_read_queue_feed(wk_service *service);
/* What the loop read itself, in a list. */
wk_read_job *wk_read_served_take(wk_service *service);
/* What waits of a connection, in a list: it waits no more. */
wk_read_job *wk_read_queue_remove(wk_service *service, wk_peer *peer);

/* reads.c */
void wk_reads_drop(wk_service *service, wk_peer *peer); /* what waits of one that is gone */
void wk_reads_ask(wk_service *service, wk_peer *peer, const wk_wire_request *request);
wk_read_job *wk_read_job_new(wk_service *service, wk_peer *peer, const wk_wire_request *request, wk_read_kind kind);
/* Goes to the pool, or is answered 506. */
void wk_reads_submit(wk_service *service, wk_read_job *job);
void wk_reads_answer(wk_service *service);
void wk_read_job_release(wk_read_job *job);

/* polls.c */
void wk_polls_ask(wk_service *service, wk_peer *peer, const wk_wire_request *request);
void wk_polls_learned(wk_service *service, wk_read_job *job); /* the stored LAC is known now */
/* The LAC of a ledger is at least this. false: there is no memory to know it in. */
bool wk_service_raise(wk_service *service, int64_t ledger_id, int64_t lac);
void wk_polls_wake_all(wk_service *service, int64_t ledger_id); /* fenced */
void wk_polls_expire(wk_service *service);
void wk_polls_drop(wk_service *service, wk_peer *peer);

/* read_pool.c: threads that read. No threads: jobs are run by wk_read_pool_take. */
wk_read_pool *wk_read_pool_new(wk_namespace *ns, uint32_t threads);
/* Ends the threads; what was not taken, done or not, in a list. */
wk_read_job *wk_read_pool_close(wk_read_pool *pool);
void wk_read_pool_free(wk_read_pool *pool);
void wk_read_pool_put(wk_read_pool *pool, wk_read_job *job);
/* Those that were done since, in a list. */
wk_read_job *wk_read_pool_take(wk_read_pool *pool);
int wk_read_pool_descriptor(const wk_read_pool *pool);
#endif
