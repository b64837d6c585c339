/* link.h: the connection to one bookie: what is to be sent, what is not answered yet. Private to native/client. */
#ifndef WK_CLIENT_LINK_H
#define WK_CLIENT_LINK_H
#include "client/dispatcher.h"

typedef struct wk_outstanding {
	uint64_t number;                         /* rises from place to place */
	uint64_t asked_ns, look_ns, deadline_ns; /* look: when it is late, or over */
	wk_asker *asker;                         /* NULL: answered */
	wk_note note;
} wk_outstanding;

/* A frame that the net was sending when its connection was closed here. */
typedef struct wk_lent {
	wk_connection_id connection;
	wk_frame *frame;
	struct wk_lent *next;
} wk_lent;

typedef enum wk_link_state { WK_LINK_DOWN, WK_LINK_WANTED, WK_LINK_CONNECTING, WK_LINK_UP } wk_link_state;

struct wk_link {
	wk_dispatcher *dispatcher;
	char id[256];
	char host[64];
	uint16_t port;
	wk_link_state state;
	wk_connection_id connection;
	uint64_t connect_deadline_ns, retry_at_ns, silent_until_ns;
	uint64_t check_at_ns; /* when the next request may be late or over; UINT64_MAX: none */
	wk_latency latency;   /* of reads */
	/* to be sent, from `first_frame` on; `sending` of them were handed to the net */
	wk_frame **frames;
	size_t first_frame, frames_count, frames_capacity, sending;
	uint64_t frames_bytes;
	wk_lent *lent;
	/* not answered */
	wk_outstanding *outstanding;
	size_t first_outstanding, outstanding_count, outstanding_capacity; /* a power of two */
	size_t unanswered;                                                 /* of them, sent or not */
	/* so many may be sent and not answered; nothing is sent before `hold_until_ns` */
	size_t window;
	uint64_t hold_until_ns;
	/* a frame that is not whole */
	uint8_t *partial;
	size_t partial_size, partial_capacity;
};

wk_link *wk_link_new(wk_dispatcher *dispatcher, const char *id);
void wk_link_free(wk_link *link);
bool wk_link_ask(wk_link *link, wk_asker *asker, const wk_note *note, uint64_t number, uint64_t timeout_ns,
                 wk_frame *frame);
void wk_link_silence(wk_link *link);
void wk_link_event(wk_link *link, const wk_net_event *event);
/* Connects, sends, gives up what takes too long. */
void wk_link_turn(wk_link *link);
uint64_t wk_link_deadline(const wk_link *link);
/* Everything that was asked is answered with NULL. */
void wk_link_lose(wk_link *link);
#endif
