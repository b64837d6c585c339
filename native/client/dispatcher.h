/*
 * dispatcher.h: requests to bookies and their replies, over one connection (a link) for each bookie. Private.
 *
 * It is driven: begin tells the time, event hands over what the net said, turn sends what was asked and gives up what
 * takes too long, deadline says when the next turn is due. It has no clock and no thread, so that a simulator can drive it.
 * One thread at a time is inside. Asking touches no socket: turn does, which the thread of the net calls.
 *
 * An *asker* asks; it hears of each request exactly once: a reply, or NULL where there was none (a lost connection, a
 * time-out). What a request said that was not answered may have been done.
 */
#ifndef WK_CLIENT_DISPATCHER_H
#define WK_CLIENT_DISPATCHER_H
#include "core/speculation.h"
#include "core/wire.h"
#include "io/net.h"
#include "walkeeper/client.h"

typedef struct wk_dispatcher wk_dispatcher;
typedef struct wk_link wk_link;
typedef struct wk_asker wk_asker;

/* The bytes of a request, which several links may send: head and body, from `at` on. */
typedef struct wk_frame {
	uint32_t references;
	size_t at, size;
	uint64_t number;       /* of the request */
	struct wk_frame *next; /* the owner's, before it is sent */
	uint8_t bytes[];
} wk_frame;
/* With room for a head before `body_size` bytes of body, which begin at bytes + WK_WIRE_HEAD_SIZE_MAX. NULL: no memory. */
wk_frame *wk_frame_new(size_t body_size);
/* Puts the head before the body. */
void wk_frame_finish(wk_frame *frame, const wk_wire_request *request);
void wk_frame_release(wk_frame *frame);

/* What an asker wants to know again when its request is answered. */
typedef struct wk_note {
	int64_t entry_id;
	uint32_t slot; /* or an index of a write set: the asker's */
	uint32_t kind;
	uint64_t patience_ns; /* 0: it need not hear that its request is late */
	uint64_t until_ns;    /* of an add: it is asked again, where the bookie is busy, until then */
} wk_note;

struct wk_asker {
	/* May ask again. `reply` NULL: none. */
	void (*answered)(wk_asker *asker, const wk_note *note, const wk_wire_reply *reply);
	/*
	 * The request is not answered yet, patience_ns behind the asking. It may ask others, and change its note. When it is to
	 * be told again, from now on; 0: not any more. NULL: of an asker whose notes have no patience.
	 */
	uint64_t (*late)(wk_asker *asker, wk_note *note);
	/* The last request of an asker that was let go of is answered: it can be freed. */
	void (*unused)(wk_asker *asker);
	uint64_t asked; /* requests that are not answered */
	bool let_go;
};

wk_status wk_dispatcher_new(wk_net *net, const wk_client_options *options, wk_dispatcher **dispatcher);
/* Every request is answered with NULL. The net is not asked for anything any more. */
void wk_dispatcher_end(wk_dispatcher *dispatcher);
void wk_dispatcher_free(wk_dispatcher *dispatcher);

void wk_dispatcher_begin(wk_dispatcher *dispatcher, uint64_t now_ns);
void wk_dispatcher_event(wk_dispatcher *dispatcher, const wk_net_event *event);
void wk_dispatcher_turn(wk_dispatcher *dispatcher);
/* UINT64_MAX: none. */
uint64_t wk_dispatcher_deadline(const wk_dispatcher *dispatcher);

/* The number of the bookie, by its id; the address counts from the next connection on. */
wk_status wk_dispatcher_bookie(wk_dispatcher *dispatcher, const char *id, const char *host, uint16_t port,
                               uint32_t *bookie);
const char *wk_dispatcher_bookie_id(const wk_dispatcher *dispatcher, uint32_t bookie);
/* Whether it has not answered in time lately, or has no connection: others are asked first. */
bool wk_dispatcher_is_silent(const wk_dispatcher *dispatcher, uint32_t bookie);
/* It counts as silent for a while. */
void wk_dispatcher_silence(wk_dispatcher *dispatcher, uint32_t bookie);
/* Of requests whose notes have patience: reads. */
const wk_latency *wk_dispatcher_latency(const wk_dispatcher *dispatcher, uint32_t bookie);
uint32_t wk_dispatcher_bookies(const wk_dispatcher *dispatcher);

/* A number for the next request; numbers rise, and each link is asked in their order. */
uint64_t wk_dispatcher_number(wk_dispatcher *dispatcher);
/*
 * Asks the bookie. False: it cannot be asked now (no connection a moment ago, too much waits to be sent, no memory, the
 * dispatcher has ended); the asker hears nothing of it. The frame is referred to until it is sent.
 */
bool wk_dispatcher_ask(wk_dispatcher *dispatcher, uint32_t bookie, wk_asker *asker, const wk_note *note,
                       uint64_t number, uint64_t timeout_ns, wk_frame *frame);
/* The asker hears of nothing any more; `unused` is called once nothing of it is under way, perhaps at once. */
void wk_asker_let_go(wk_asker *asker);

struct wk_dispatcher {
	wk_net *net;
	wk_client_options options;
	uint64_t now_ns, last_number;
	wk_link **links;
	uint32_t links_count, links_capacity;
	bool ended, asked; /* asked: since the last turn began */
	wk_speculation_budget speculation;
	uint32_t reads; /* entries that were asked for, mod 2^32 */
};
#endif
