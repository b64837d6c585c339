/*
 * net_uring_connection.c: what connections need of the ring.
 *
 * Nobody asks the kernel for anything at once. A connection that changed is put on a list, and what it needs follows from
 * its state when the list is looked at: one place decides, and a full submission queue only means later.
 */
#include "io/net_door.h"
#include "io/net_uring.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#define BIT(kind) ((uint8_t)(1u << (kind)))

static bool ask(wk_uring_net *uring, wk_net_connection *connection, uint32_t *receives_left);
static bool ask_for_cancel(wk_uring_net *uring, wk_net_connection *connection, wk_uring_kind kind);
static void let_go(wk_uring_net *uring, wk_net_connection *connection);
static bool received(wk_uring_net *uring, wk_net_connection *connection, int result, uint32_t flags,
                     wk_net_event *event);
static void sent(wk_uring_net *uring, wk_net_connection *connection, int result);
static void dialled(wk_uring_net *uring, wk_net_connection *connection, int result);

static void append(wk_net_connection **first, wk_net_connection **last, wk_net_connection *connection) {
	if (connection->attend_listed)
		return;
	connection->attend_listed = true;
	connection->attend_next = NULL;
	if (*first == NULL)
		*first = connection;
	else
		(*last)->attend_next = connection;
	*last = connection;
}

void wk_uring_attend(wk_uring_net *uring, wk_net_connection *connection) {
	append(&uring->attend_first, &uring->attend_last, connection);
}

/*
 * No more receives are begun in one turn than there are buffers, so that many connections that find none do not ask in
 * vain, turn by turn: they come one behind the other. The first who asks may take all buffers. So who got none asks first
 * in the next turn, and who got some asks last.
 */
void wk_uring_attend_all(wk_uring_net *uring) {
	wk_net_connection *connection = uring->attend_first;
	uint32_t receives_left = uring->buffers.count;
	if (uring->starved_first != NULL) {
		uring->starved_last->attend_next = connection;
		connection = uring->starved_first;
	}
	uring->attend_first = uring->attend_last = uring->starved_first = uring->starved_last = NULL;
	while (connection != NULL) {
		wk_net_connection *next = connection->attend_next;
		connection->attend_listed = false;
		if (!ask(uring, connection, &receives_left))
			wk_uring_attend(uring, connection);
		connection = next;
	}
}

static struct io_uring_sqe *entry_for(wk_uring_net *uring, wk_net_connection *connection, wk_uring_kind kind) {
	struct io_uring_sqe *entry = wk_uring_entry(uring);
	if (entry != NULL)
		connection->armed |= BIT(kind);
	return entry;
}

/* False if something is left to be asked for. */
static bool ask(wk_uring_net *uring, wk_net_connection *connection, uint32_t *receives_left) {
	struct io_uring_sqe *entry;
	bool all = true;
	switch (connection->state) {
	case WK_NET_FREE:
		break;
	case WK_NET_DIALLING:
		if (connection->armed & BIT(WK_URING_DIAL))
			break;
		if ((entry = entry_for(uring, connection, WK_URING_DIAL)) == NULL)
			return false;
		io_uring_prep_poll_add(entry, connection->fd, POLLOUT);
		wk_uring_mark(entry, WK_URING_DIAL, connection->id);
		break;
	case WK_NET_OPEN:
		if (connection->send != NULL && !(connection->armed & BIT(WK_URING_SEND))) {
			if ((entry = entry_for(uring, connection, WK_URING_SEND)) == NULL)
				return false;
			io_uring_prep_sendmsg(entry, connection->fd, wk_net_send_piece(connection->send),
			                      MSG_NOSIGNAL | MSG_WAITALL);
			wk_uring_mark(entry, WK_URING_SEND, connection->id);
		}
		if (connection->paused) {
			all = ask_for_cancel(uring, connection, WK_URING_RECEIVE);
		} else if (connection->announced && !(connection->armed & BIT(WK_URING_RECEIVE))) {
			if (*receives_left == 0 || (entry = entry_for(uring, connection, WK_URING_RECEIVE)) == NULL)
				return false;
			*receives_left -= 1;
			connection->received = false;
			io_uring_prep_recv_multishot(entry, connection->fd, NULL, 0, 0);
			entry->flags |= IOSQE_BUFFER_SELECT;
			entry->buf_group = 0;
			wk_uring_mark(entry, WK_URING_RECEIVE, connection->id);
		}
		break;
	case WK_NET_ENDED:
		for (wk_uring_kind kind = WK_URING_RECEIVE; kind <= WK_URING_DIAL; kind++)
			all = ask_for_cancel(uring, connection, kind) && all;
		break;
	}
	return all;
}

static bool ask_for_cancel(wk_uring_net *uring, wk_net_connection *connection, wk_uring_kind kind) {
	if (!(connection->armed & ~connection->cancelled & BIT(kind)))
		return true;
	struct io_uring_sqe *entry = wk_uring_entry(uring);
	if (entry == NULL)
		return false;
	io_uring_prep_cancel64(entry, connection->id << WK_URING_KIND_BITS | kind, 0);
	wk_uring_mark(entry, WK_URING_CANCEL, connection->id);
	connection->cancelled |= BIT(kind);
	return true;
}

void wk_uring_end(wk_uring_net *uring, wk_net_connection *connection, int error) {
	assert(connection->state != WK_NET_ENDED);
	connection->state = WK_NET_ENDED;
	connection->error = error;
	if (connection->armed == 0)
		let_go(uring, connection);
	else
		wk_uring_attend(uring, connection);
}

/* The kernel is at work on nothing of it. */
static void let_go(wk_uring_net *uring, wk_net_connection *connection) {
	assert(connection->armed == 0);
	wk_net_door_leave(&uring->base, connection);
	wk_net_drop_send(&uring->base, connection);
	wk_net_dial_free(connection->dial);
	connection->dial = NULL;
	wk_net_note(&uring->base, connection, WK_NET_TELL_CLOSED);
}

bool wk_uring_answer(wk_uring_net *uring, wk_uring_kind kind, wk_connection_id id, int result, uint32_t flags,
                     wk_net_event *event) {
	bool tell = false;
	wk_net_connection *connection = wk_net_table_find(&uring->base.table, id);
	if (kind == WK_URING_CANCEL) {
		/* Rarely it was on its way from one of the kernel's lists to another, and is to be asked for again. */
		if (connection != NULL && result < 0) {
			connection->cancelled = 0;
			wk_uring_attend(uring, connection);
		}
		return false;
	}
	assert(connection != NULL && connection->armed & BIT(kind));
	if (!(flags & IORING_CQE_F_MORE)) {
		connection->armed &= (uint8_t)~BIT(kind);
		connection->cancelled &= (uint8_t)~BIT(kind);
		if (kind == WK_URING_RECEIVE && result == -ENOBUFS && !connection->received)
			append(&uring->starved_first, &uring->starved_last, connection);
		else
			wk_uring_attend(uring, connection);
	}
	if (kind == WK_URING_RECEIVE)
		tell = received(uring, connection, result, flags, event);
	else if (connection->state == WK_NET_ENDED)
		; /* whatever became of it */
	else if (kind == WK_URING_SEND)
		sent(uring, connection, result);
	else
		dialled(uring, connection, result);
	if (connection->state == WK_NET_ENDED && connection->armed == 0 && !(connection->tell & WK_NET_TELL_CLOSED))
		let_go(uring, connection);
	return tell;
}

static bool received(wk_uring_net *uring, wk_net_connection *connection, int result, uint32_t flags,
                     wk_net_event *event) {
	uint16_t buffer = (uint16_t)(flags >> IORING_CQE_BUFFER_SHIFT);
	bool ended = connection->state == WK_NET_ENDED;
	if (result > 0 && !ended) {
		assert(flags & IORING_CQE_F_BUFFER && uring->buffers.told_count < uring->buffers.count);
		uring->buffers.told[uring->buffers.told_count++] = buffer;
		connection->received = true;
		*event = (wk_net_event){
		    .kind = WK_NET_RECEIVED,
		    .connection = connection->id,
		    .tag = connection->tag,
		    .bytes = wk_uring_buffers_at(&uring->buffers, buffer),
		    .size = (size_t)result,
		};
		return true;
	}
	if (flags & IORING_CQE_F_BUFFER)
		wk_uring_buffers_give_back(&uring->buffers, buffer);
	/* It is asked for again where all buffers were taken, and where it was cancelled by a pause that is over. */
	if (!ended && result <= 0 && result != -ENOBUFS && result != -ECANCELED && result != -EINTR)
		wk_uring_end(uring, connection, result);
	return false;
}

static void sent(wk_uring_net *uring, wk_net_connection *connection, int result) {
	if (result == -EINTR || result == -EAGAIN)
		return; /* it is attended to, and so asked for again */
	if (result < 0) {
		wk_uring_end(uring, connection, result);
		return;
	}
	if (wk_net_send_advance(connection->send, (size_t)result)) {
		wk_net_drop_send(&uring->base, connection);
		wk_net_note(&uring->base, connection, WK_NET_TELL_SENT);
	} /* else the rest follows, as it is attended to */
}

void wk_uring_dial_next(wk_uring_net *uring, wk_net_connection *connection, int error) {
	wk_net_close_socket(&uring->base, connection);
	int result = wk_net_dial_next(connection->dial, uring->base.options.peer_timeout_s, &connection->fd);
	if (result == 0 || result == -EINPROGRESS)
		wk_uring_attend(uring, connection); /* writable at once where it is connected already */
	else
		wk_uring_end(uring, connection, error != 0 && result == -ENOENT ? error : result);
}

static void dialled(wk_uring_net *uring, wk_net_connection *connection, int result) {
	int error = result < 0 ? result : wk_net_socket_error(connection->fd);
	/* A ring waits by itself, but only on a socket that may block. */
	if (error == 0 && fcntl(connection->fd, F_SETFL, fcntl(connection->fd, F_GETFL) & ~O_NONBLOCK) != 0)
		error = -errno;
	if (error) {
		wk_uring_dial_next(uring, connection, error);
		return;
	}
	wk_net_dial_free(connection->dial);
	connection->dial = NULL;
	connection->state = WK_NET_OPEN;
	wk_net_note(&uring->base, connection, WK_NET_TELL_OPEN);
}
