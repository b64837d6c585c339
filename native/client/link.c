/* link.c: see link.h. */
#include "client/link.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SILENT_NS 5000000000ull /* a bookie that was late is asked last for so long */
/*
 * Java's bookies refuse a request where 10,000 wait for the same thread (maxPendingAddRequestsPerThread): one client sends
 * fewer. Where several together send too many, each sends less for a while.
 */
enum { WINDOW_MAX = 8192, WINDOW_MIN = 64, HOLD_NS = 10000000 };
enum { RETRY_NS = 100000000, OUTSTANDING_MIN = 64, FRAMES_MIN = 64, PARTIAL_MIN = 4096 };

/* ---- frames ---- */

wk_frame *wk_frame_new(size_t body_size) {
	wk_frame *frame = malloc(sizeof *frame + WK_WIRE_HEAD_SIZE_MAX + body_size);
	if (frame == NULL)
		return NULL;
	frame->references = 1;
	frame->at = WK_WIRE_HEAD_SIZE_MAX;
	frame->size = body_size;
	frame->number = 0;
	frame->next = NULL;
	return frame;
}

void wk_frame_finish(wk_frame *frame, const wk_wire_request *request) {
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	size_t size = wk_wire_request_encode(request, head);
	frame->number = request->txn_id;
	frame->at = WK_WIRE_HEAD_SIZE_MAX - size;
	frame->size = size + request->body_size;
	memcpy(frame->bytes + frame->at, head, size);
}

void wk_frame_release(wk_frame *frame) {
	if (--frame->references == 0)
		free(frame);
}

/* ---- askers ---- */

static void answer(wk_asker *asker, const wk_note *note, const wk_wire_reply *reply) {
	assert(asker->asked > 0);
	if (!asker->let_go)
		asker->answered(asker, note, reply); /* before it counts: it may let go of itself */
	if (--asker->asked == 0 && asker->let_go)
		asker->unused(asker);
}

void wk_asker_let_go(wk_asker *asker) {
	asker->let_go = true;
	if (asker->asked == 0)
		asker->unused(asker);
}

/* ---- what is not answered ---- */

static wk_outstanding *outstanding_at(const wk_link *link, size_t place) {
	return &link->outstanding[(link->first_outstanding + place) & (link->outstanding_capacity - 1)];
}

static bool outstanding_has_room(wk_link *link) {
	if (link->outstanding_count < link->outstanding_capacity)
		return true;
	size_t capacity = link->outstanding_capacity > 0 ? link->outstanding_capacity * 2 : OUTSTANDING_MIN;
	wk_outstanding *larger = malloc(capacity * sizeof *larger);
	if (larger == NULL)
		return false;
	for (size_t i = 0; i < link->outstanding_count; i++)
		larger[i] = *outstanding_at(link, i);
	free(link->outstanding);
	link->outstanding = larger;
	link->outstanding_capacity = capacity;
	link->first_outstanding = 0;
	return true;
}

static wk_outstanding *find_outstanding(const wk_link *link, uint64_t number) {
	size_t low = 0, high = link->outstanding_count;
	if (high > 0 && outstanding_at(link, 0)->number == number) /* replies mostly come in order */
		return outstanding_at(link, 0);
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (outstanding_at(link, middle)->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == link->outstanding_count || outstanding_at(link, low)->number != number)
		return NULL;
	return outstanding_at(link, low);
}

static void drop_answered(wk_link *link) {
	while (link->outstanding_count > 0 && outstanding_at(link, 0)->asker == NULL) {
		link->first_outstanding = (link->first_outstanding + 1) & (link->outstanding_capacity - 1);
		link->outstanding_count--;
	}
	if (link->outstanding_count == 0)
		link->check_at_ns = UINT64_MAX;
}

/* Answers the request; the asker may ask again, which may move the others. */
static void answer_outstanding(wk_link *link, wk_outstanding *outstanding, const wk_wire_reply *reply) {
	wk_outstanding answered = *outstanding;
	outstanding->asker = NULL;
	link->unanswered--;
	drop_answered(link);
	answer(answered.asker, &answered.note, reply);
}

/*
 * What was given up before it was sent is not sent. Else a bookie that stood still is first sent what nobody waits for any
 * more; what is asked meanwhile is late because of it, and so on without an end.
 */
static void withdraw(wk_link *link, uint64_t number) {
	wk_frame **frames = link->frames + link->first_frame;
	size_t low = link->sending, high = link->frames_count; /* numbers rise from place to place */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (frames[middle]->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == link->frames_count || frames[low]->number != number)
		return;
	link->frames_bytes -= frames[low]->size;
	wk_frame_release(frames[low]);
	link->frames_count--;
	memmove(frames + low, frames + low + 1, (link->frames_count - low) * sizeof *frames);
}

void wk_link_silence(wk_link *link) {
	link->silent_until_ns = link->dispatcher->now_ns + SILENT_NS;
}

/* What is asked meanwhile may move the others: it is found by its number again. */
static void tell_late(wk_link *link, wk_outstanding *outstanding) {
	wk_outstanding late = *outstanding;
	uint64_t now_ns = link->dispatcher->now_ns;
	uint64_t more_ns = late.asker->let_go ? 0 : late.asker->late(late.asker, &late.note);
	uint64_t look_ns = more_ns > 0 && more_ns < late.deadline_ns - now_ns ? now_ns + more_ns : late.deadline_ns;
	outstanding = find_outstanding(link, late.number);
	if (outstanding != NULL) {
		outstanding->note = late.note;
		outstanding->look_ns = look_ns;
	}
	if (look_ns < link->check_at_ns)
		link->check_at_ns = look_ns;
}

static void give_up(wk_link *link, wk_outstanding *outstanding) {
	wk_link_silence(link);
	withdraw(link, outstanding->number);
	answer_outstanding(link, outstanding, NULL);
}

static void look_at_late(wk_link *link) {
	uint64_t now_ns = link->dispatcher->now_ns;
	if (now_ns < link->check_at_ns)
		return;
	uint64_t next_ns = UINT64_MAX;
	size_t late = 0;
	for (size_t i = 0; i < link->outstanding_count; i++) {
		const wk_outstanding *outstanding = outstanding_at(link, i);
		if (outstanding->asker == NULL)
			continue;
		if (outstanding->look_ns <= now_ns)
			late++;
		else if (outstanding->look_ns < next_ns)
			next_ns = outstanding->look_ns;
	}
	link->check_at_ns = next_ns;
	/* Each by its number: what an asker asks meanwhile moves places. */
	for (uint64_t last = 0; late > 0; late--) {
		wk_outstanding *found = NULL;
		for (size_t i = 0; i < link->outstanding_count && found == NULL; i++) {
			wk_outstanding *outstanding = outstanding_at(link, i);
			if (outstanding->asker != NULL && outstanding->number > last && outstanding->look_ns <= now_ns)
				found = outstanding;
		}
		if (found == NULL)
			break;
		last = found->number;
		if (found->deadline_ns > now_ns)
			tell_late(link, found);
		else
			give_up(link, found);
	}
}

/* ---- sending ---- */

static bool frames_have_room(wk_link *link) {
	if (link->first_frame + link->frames_count < link->frames_capacity)
		return true;
	if (link->first_frame > link->frames_capacity / 2) {
		memmove(link->frames, link->frames + link->first_frame, link->frames_count * sizeof *link->frames);
		link->first_frame = 0;
		return true;
	}
	size_t capacity = link->frames_capacity > 0 ? link->frames_capacity * 2 : FRAMES_MIN;
	wk_frame **larger = realloc(link->frames, capacity * sizeof *larger);
	if (larger == NULL)
		return false;
	link->frames = larger;
	link->frames_capacity = capacity;
	return true;
}

bool wk_link_ask(wk_link *link, wk_asker *asker, const wk_note *note, uint64_t number, uint64_t timeout_ns,
                 wk_frame *frame) {
	uint64_t now_ns = link->dispatcher->now_ns;
	if (link->dispatcher->ended || (link->state == WK_LINK_DOWN && now_ns < link->retry_at_ns) ||
	    link->frames_bytes + frame->size > link->dispatcher->options.link_bytes_max || !frames_have_room(link) ||
	    !outstanding_has_room(link))
		return false;
	if (link->state == WK_LINK_DOWN)
		link->state = WK_LINK_WANTED;
	uint64_t deadline_ns = timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
	assert(link->outstanding_count == 0 || outstanding_at(link, link->outstanding_count - 1)->number < number);
	bool may_be_late = note->patience_ns > 0 && note->patience_ns < deadline_ns - now_ns;
	uint64_t look_ns = may_be_late ? now_ns + note->patience_ns : deadline_ns;
	*outstanding_at(link, link->outstanding_count++) = (wk_outstanding){.number = number,
	                                                                    .asked_ns = now_ns,
	                                                                    .look_ns = look_ns,
	                                                                    .deadline_ns = deadline_ns,
	                                                                    .asker = asker,
	                                                                    .note = *note};
	if (look_ns < link->check_at_ns)
		link->check_at_ns = look_ns;
	link->unanswered++;
	asker->asked++;
	frame->references++;
	link->frames[link->first_frame + link->frames_count++] = frame;
	link->frames_bytes += frame->size;
	return true;
}

static void drop_frames(wk_link *link, size_t count) {
	for (; count > 0; count--) {
		wk_frame *frame = link->frames[link->first_frame++];
		link->frames_count--;
		link->frames_bytes -= frame->size;
		wk_frame_release(frame);
	}
	if (link->frames_count == 0)
		link->first_frame = 0;
}

/* What is being sent stays in memory until the net says that the kernel has let go of it. */
static void lend(wk_link *link) {
	for (; link->sending > 0; link->sending--) {
		wk_frame *frame = link->frames[link->first_frame++];
		link->frames_count--;
		link->frames_bytes -= frame->size;
		/* Others may send the same frame: it cannot be in a list. A frame without its record stays for ever. */
		wk_lent *lent = malloc(sizeof *lent);
		if (lent == NULL)
			continue;
		*lent = (wk_lent){.connection = link->connection, .frame = frame, .next = link->lent};
		link->lent = lent;
	}
}

static void take_back(wk_link *link, wk_connection_id connection, bool all) {
	wk_lent **at = &link->lent;
	while (*at != NULL) {
		wk_lent *lent = *at;
		if (!all && lent->connection != connection) {
			at = &lent->next;
			continue;
		}
		*at = lent->next;
		wk_frame_release(lent->frame);
		free(lent);
	}
}

static void close_connection(wk_link *link) {
	wk_net *net = link->dispatcher->net;
	if (link->state == WK_LINK_CONNECTING || link->state == WK_LINK_UP) {
		lend(link);
		net->operations->close(net, link->connection);
	}
	link->connection = 0; /* what else is told of it is not for us */
}

/* How many frames may be sent now. */
static size_t sendable(const wk_link *link) {
	if (link->state != WK_LINK_UP || link->sending > 0 || link->dispatcher->now_ns < link->hold_until_ns)
		return 0;
	/* More frames than requests: a bookie has answered what it was not sent. */
	size_t sent = link->unanswered > link->frames_count ? link->unanswered - link->frames_count : 0;
	size_t room = link->window > sent ? link->window - sent : 0;
	room = room < WK_NET_PARTS_MAX ? room : WK_NET_PARTS_MAX;
	return room < link->frames_count ? room : link->frames_count;
}

static void send_more(wk_link *link) {
	struct iovec parts[WK_NET_PARTS_MAX];
	uint32_t count = 0;
	for (size_t most = sendable(link); count < most; count++) {
		wk_frame *frame = link->frames[link->first_frame + count];
		parts[count] = (struct iovec){.iov_base = frame->bytes + frame->at, .iov_len = frame->size};
	}
	if (count == 0)
		return;
	wk_net *net = link->dispatcher->net;
	if (net->operations->send(net, link->connection, parts, count) < 0)
		wk_link_lose(link);
	else
		link->sending = count;
}

/* ---- the connection ---- */

static void connect_now(wk_link *link) {
	wk_net *net = link->dispatcher->net;
	uint64_t tag = (uint64_t)(uintptr_t)link;
	link->state = WK_LINK_CONNECTING;
	link->connect_deadline_ns = link->dispatcher->now_ns + link->dispatcher->options.connect_timeout_ns;
	if (net->operations->connect(net, link->host, link->port, tag, &link->connection) < 0) {
		link->state = WK_LINK_DOWN;
		wk_link_lose(link);
	}
}

/* The bookie was sent too much, by all of its clients together, or it was not. */
static void adapt_window(wk_link *link, bool too_much) {
	uint64_t now_ns = link->dispatcher->now_ns;
	if (!too_much)
		link->window += link->window < WINDOW_MAX;
	else if (now_ns >= link->hold_until_ns) { /* once for all that were refused together */
		link->hold_until_ns = now_ns + HOLD_NS;
		link->window = link->window / 2 > WINDOW_MIN ? link->window / 2 : WINDOW_MIN;
	}
}

static void hear(wk_link *link, const uint8_t *payload, size_t size) {
	wk_wire_reply reply;
	if (wk_wire_reply_decode(payload, size, WK_WIRE_V3, &reply) != WK_OK) {
		wk_link_lose(link);
		return;
	}
	if (reply.operation == WK_WIRE_ADD)
		adapt_window(link, reply.code == WK_WIRE_TOO_MANY_REQUESTS);
	wk_outstanding *outstanding = find_outstanding(link, reply.txn_id);
	if (outstanding == NULL || outstanding->asker == NULL)
		return;
	if (outstanding->note.patience_ns > 0)
		wk_latency_seen(&link->latency, link->dispatcher->now_ns - outstanding->asked_ns);
	answer_outstanding(link, outstanding, &reply);
}

static bool keep_partial(wk_link *link, const uint8_t *bytes, size_t size, size_t whole) {
	size_t needed = link->partial_size + size;
	if (needed > link->partial_capacity) {
		size_t capacity = whole > needed ? whole : needed;
		capacity = capacity > PARTIAL_MIN ? capacity : PARTIAL_MIN;
		uint8_t *larger = realloc(link->partial, capacity);
		if (larger == NULL)
			return false;
		link->partial = larger;
		link->partial_capacity = capacity;
	}
	memcpy(link->partial + link->partial_size, bytes, size);
	link->partial_size += size;
	return true;
}

/* Bytes of the frame that was begun; how many of `bytes` it took, 0: the connection is lost. */
static size_t go_on_with_partial(wk_link *link, const uint8_t *bytes, size_t size) {
	uint64_t frame_size = 0;
	size_t taken = 0;
	if (link->partial_size < WK_FRAME_PREFIX_SIZE) {
		taken = WK_FRAME_PREFIX_SIZE - link->partial_size < size ? WK_FRAME_PREFIX_SIZE - link->partial_size : size;
		if (!keep_partial(link, bytes, taken, 0))
			return 0;
	}
	if (wk_frame_size(link->partial, link->partial_size, WK_FRAME_SIZE_MAX + 65536, &frame_size) != WK_OK)
		return 0;
	if (frame_size == 0)
		return taken;
	size_t missing = (size_t)frame_size - link->partial_size;
	size_t more = missing < size - taken ? missing : size - taken;
	if (!keep_partial(link, bytes + taken, more, (size_t)frame_size))
		return 0;
	if (link->partial_size == frame_size) {
		link->partial_size = 0; /* the buffer stays as it is until more is received */
		hear(link, link->partial + WK_FRAME_PREFIX_SIZE, (size_t)frame_size - WK_FRAME_PREFIX_SIZE);
	}
	return taken + more;
}

static void receive(wk_link *link, const uint8_t *bytes, size_t size) {
	wk_connection_id connection = link->connection;
	while (size > 0 && link->connection == connection) {
		uint64_t frame_size = 0;
		size_t taken;
		if (link->partial_size == 0 && wk_frame_size(bytes, size, WK_FRAME_SIZE_MAX + 65536, &frame_size) != WK_OK) {
			wk_link_lose(link);
			return;
		}
		if (link->partial_size > 0 || frame_size == 0 || frame_size > size) {
			taken = go_on_with_partial(link, bytes, size);
			if (taken == 0) {
				wk_link_lose(link);
				return;
			}
		} else {
			taken = (size_t)frame_size;
			hear(link, bytes + WK_FRAME_PREFIX_SIZE, taken - WK_FRAME_PREFIX_SIZE);
		}
		bytes += taken;
		size -= taken;
	}
}

void wk_link_event(wk_link *link, const wk_net_event *event) {
	if (event->kind == WK_NET_CLOSED)
		take_back(link, event->connection, false);
	if (event->connection != link->connection)
		return;
	switch (event->kind) {
	case WK_NET_CONNECTED:
		link->state = WK_LINK_UP;
		return;
	case WK_NET_RECEIVED:
		receive(link, event->bytes, event->size);
		return;
	case WK_NET_SENT:
		drop_frames(link, link->sending);
		link->sending = 0;
		return;
	case WK_NET_CLOSED:
		link->state = WK_LINK_DOWN;
		wk_link_lose(link);
		return;
	default:
		return;
	}
}

void wk_link_lose(wk_link *link) {
	close_connection(link);
	link->state = WK_LINK_DOWN;
	link->retry_at_ns = link->dispatcher->now_ns + RETRY_NS;
	link->partial_size = 0;
	drop_frames(link, link->frames_count);
	link->sending = 0;
	/* What an asker asks of this link meanwhile is refused: it is down for a while. */
	wk_outstanding *outstanding = link->outstanding;
	size_t first = link->first_outstanding, count = link->outstanding_count, capacity = link->outstanding_capacity;
	link->outstanding = NULL;
	link->first_outstanding = link->outstanding_count = link->outstanding_capacity = link->unanswered = 0;
	link->check_at_ns = UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		wk_outstanding *lost = &outstanding[(first + i) & (capacity - 1)];
		if (lost->asker != NULL)
			answer(lost->asker, &lost->note, NULL);
	}
	free(outstanding);
}

void wk_link_turn(wk_link *link) {
	if (link->state == WK_LINK_WANTED)
		connect_now(link);
	if (link->state == WK_LINK_CONNECTING && link->dispatcher->now_ns >= link->connect_deadline_ns)
		wk_link_lose(link);
	look_at_late(link);
	send_more(link);
}

uint64_t wk_link_deadline(const wk_link *link) {
	uint64_t deadline_ns = link->check_at_ns;
	if (link->state == WK_LINK_CONNECTING && link->connect_deadline_ns < deadline_ns)
		deadline_ns = link->connect_deadline_ns;
	bool is_held = link->frames_count > 0 && link->hold_until_ns > link->dispatcher->now_ns;
	if (is_held && link->hold_until_ns < deadline_ns)
		deadline_ns = link->hold_until_ns;
	return deadline_ns;
}

/* ---- making ---- */

wk_link *wk_link_new(wk_dispatcher *dispatcher, const char *id) {
	wk_link *link = calloc(1, sizeof *link);
	if (link == NULL)
		return NULL;
	link->dispatcher = dispatcher;
	link->check_at_ns = UINT64_MAX;
	link->window = WINDOW_MAX;
	strncpy(link->id, id, sizeof link->id - 1);
	return link;
}

void wk_link_free(wk_link *link) {
	assert(link->outstanding_count == 0 && link->frames_count == 0);
	take_back(link, 0, true);
	free(link->frames);
	free(link->outstanding);
	free(link->partial);
	free(link);
}
