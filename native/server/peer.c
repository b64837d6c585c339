/* peer.c: a connection: what it sent is cut into frames; it stalls, goes on, and is closed. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/service.h"

/* Where many want what they hold, frames have the 30th part of their time, and answers that are not taken the 10th. */
enum { PARTIAL_MIN = 512, SWEEP_NS = 1000000000, PATIENCE = 30, STARVED = 10, BYTES_A_SECOND = 256 * 1024 };

/* ---- closing ---- */

void wk_peer_release(wk_peer *peer) {
	assert(peer->references > 0);
	if (--peer->references > 0)
		return;
	assert(peer->partial == NULL && peer->backlog == NULL);
	free(peer);
}

void wk_peer_end_partial(wk_service *service, wk_peer *peer) {
	service->partial_count--;
	if (!peer->large)
		return;
	peer->large = false;
	service->large_bytes -= peer->input_bytes;
	service->large_left++;
	service->unblocked |= service->memory_wait;
}

void wk_peer_close(wk_service *service, wk_peer *peer) {
	if (peer->gone || peer->closing)
		return;
	peer->closing = true;
	if (peer->partial != NULL)
		wk_peer_end_partial(service, peer);
	wk_buffer_drop(service, &peer->partial);
	wk_buffer_drop(service, &peer->backlog);
	service->net->operations->close(service->net, peer->id);
}

static void leave_stalled(wk_service *service, wk_peer *peer) {
	wk_stalled *stalled = &service->stalled[peer->rank];
	wk_peer **at = &stalled->first;
	while (peer->waits && *at != peer)
		at = &(*at)->next_stalled;
	if (peer->waits) {
		*at = peer->next_stalled;
		stalled->journal -= (peer->stalls & WK_STALL_JOURNAL) != 0;
	}
	if (peer->waits && *at == NULL)
		stalled->end = at;
	peer->waits = false;
	peer->stalls = 0;
}

void wk_peer_gone(wk_service *service, wk_peer *peer) {
	peer->gone = true;
	service->stats.connections--;
	if (peer->partial != NULL)
		wk_peer_end_partial(service, peer);
	wk_buffer_drop(service, &peer->partial);
	wk_buffer_drop(service, &peer->backlog);
	leave_stalled(service, peer);
	if (peer->sending) {
		peer->sending = false;
		service->sending_count--;
	}
	wk_polls_drop(service, peer);
	wk_reads_drop(service, peer);
	wk_outbox_clear(service, &peer->filling);
	wk_outbox_clear(service, &peer->sent);
	free(peer->filling.bytes);
	free(peer->filling.parts);
	free(peer->sent.bytes);
	free(peer->sent.parts);
	memset(&peer->filling, 0, sizeof peer->filling);
	memset(&peer->sent, 0, sizeof peer->sent);
	wk_peer **at = &service->listed;
	while (peer->listed && *at != peer)
		at = &(*at)->next_listed;
	if (peer->listed)
		*at = peer->next_listed;
	peer->listed = false;
	*peer->link = peer->next;
	if (peer->next != NULL)
		peer->next->link = peer->link;
	wk_peer_release(peer);
}

void wk_peer_accepted(wk_service *service, wk_connection_id id) {
	wk_peer *peer = calloc(1, sizeof *peer);
	if (peer == NULL) {
		service->stats.connections_refused++;
		service->net->operations->close(service->net, id);
		return;
	}
	peer->id = id;
	peer->version = WK_WIRE_V3;
	peer->references = 1;
	peer->first_poll = WK_NO_POLL;
	peer->next = service->peers;
	peer->link = &service->peers;
	if (peer->next != NULL)
		peer->next->link = &peer->next;
	service->peers = peer;
	service->stats.connections++;
	service->stats.connections_total++;
	service->net->operations->set_tag(service->net, id, (uint64_t)(uintptr_t)peer);
	if (service->draining)
		wk_peer_hold(service, peer);
}

/* ---- stalling ---- */

static void enlist(wk_service *service, wk_peer *peer, uint32_t why, enum wk_stall_rank rank) {
	bool counted = peer->waits && (peer->stalls & WK_STALL_JOURNAL) != 0;
	peer->rank = peer->waits ? peer->rank : (uint8_t)rank;
	wk_stalled *stalled = &service->stalled[peer->rank];
	peer->stalls |= why;
	stalled->journal += !counted && (peer->stalls & WK_STALL_JOURNAL) != 0;
	if (!peer->waits) {
		peer->waits = true;
		peer->next_stalled = NULL;
		*stalled->end = peer;
		stalled->end = &peer->next_stalled;
	}
	service->memory_wait |= (why & WK_STALL_INPUT) != 0;
	if (!peer->paused && !peer->gone && !peer->closing) {
		peer->paused = true;
		service->net->operations->pause(service->net, peer->id);
	}
}

void wk_peer_stall(wk_service *service, wk_peer *peer, enum wk_stall why, enum wk_stall_rank rank, const uint8_t *frame,
                   size_t size) {
	if (peer->gone || peer->closing)
		return;
	enlist(service, peer, why, rank);
	if (!wk_backlog_give_back(service, peer, frame, size))
		wk_peer_close(service, peer);
}

void wk_peer_hold(wk_service *service, wk_peer *peer) {
	if (!peer->gone && !peer->closing)
		enlist(service, peer, WK_STALL_DRAIN, WK_RANK_OTHERS);
}

bool wk_peer_is_held(const wk_peer *peer) {
	return (peer->stalls & ~(uint32_t)WK_STALL_INPUT) != 0;
}

static void go_on(wk_service *service, wk_peer *peer) {
	wk_backlog_walk(service, peer);
	if (peer->stalls == 0 && peer->paused && !peer->gone && !peer->closing) {
		peer->paused = false;
		service->net->operations->resume(service->net, peer->id);
	}
}

/* Who is not held has no whole frames that wait: they come before the one that there is no place for, and are gone on with. */
static uint32_t go_on_with(const wk_peer *peer, uint32_t left) {
	return left == WK_STALL_INPUT && wk_backlog_has_more(peer) ? 0 : left;
}

void wk_peer_unstall(wk_service *service, wk_peer *peer, enum wk_stall why) {
	if ((peer->stalls & why) == 0)
		return;
	uint32_t left = go_on_with(peer, peer->stalls & ~(uint32_t)why);
	enum wk_stall_rank rank = peer->rank;
	leave_stalled(service, peer);
	if (left != 0)
		enlist(service, peer, left, rank);
	else
		go_on(service, peer);
}

void wk_peer_read_ends(wk_service *service, wk_peer *peer) {
	peer->own.reads--;
	service->unblocked |= peer->own.reads == WK_PEER_READS_MAX / 2;
}

/* One half of the memory is for the first part of any frame, the other one for a few that are large. */
static bool has_room(const wk_service *service, const wk_peer *peer) {
	uint64_t small = service->input_bytes - service->large_bytes;
	return small == peer->input_bytes || small < service->options.receive_bytes / 2;
}

/* A large frame that has a place gets all its memory at once, so that it can be finished whatever others send. */
static bool has_place(wk_service *service, wk_peer *peer) {
	if (peer->partial == NULL || peer->large)
		return true;
	if (peer->partial->size < WK_SMALL_FRAME_MAX)
		return has_room(service, peer);
	uint64_t frame_size = 0;
	(void)wk_frame_size(peer->partial->bytes, peer->partial->size, service->options.frame_size_max, &frame_size);
	if (service->large_left == 0 || !wk_buffer_resize(service, peer, &peer->partial, (size_t)frame_size))
		return false;
	service->large_left--;
	service->large_bytes += peer->input_bytes;
	if ((peer->stalls & WK_STALL_INPUT) != 0) /* it was not read meanwhile: that is not its slowness */
		peer->frame_began_ns = service->now_ns;
	return peer->large = true;
}

static uint32_t stalls_left(wk_service *service, wk_peer *peer, bool journal) {
	uint32_t left = peer->stalls;
	if (journal)
		left &= ~(uint32_t)WK_STALL_JOURNAL;
	if (peer->own.reads <= WK_PEER_READS_MAX / 2)
		left &= ~(uint32_t)WK_STALL_READS;
	left = go_on_with(peer, left);
	return left == WK_STALL_INPUT && has_place(service, peer) ? 0 : left;
}

static void rank_goes_on(wk_service *service, enum wk_stall_rank rank, bool journal) {
	wk_stalled *list = &service->stalled[rank];
	wk_peer *stalled = list->first;
	list->first = NULL;
	list->end = &list->first;
	while (stalled != NULL) {
		wk_peer *peer = stalled;
		stalled = peer->next_stalled;
		list->journal -= (peer->stalls & WK_STALL_JOURNAL) != 0;
		peer->waits = false;
		peer->stalls = stalls_left(service, peer, journal);
		if (peer->stalls == 0)
			go_on(service, peer);
		else
			enlist(service, peer, peer->stalls, rank);
	}
}

void wk_peers_go_on(wk_service *service, bool journal) {
	bool pass = wk_budget_recoveries_pass(&service->load);
	service->unblocked = service->memory_wait = false;
	service->no_room &= !journal;
	rank_goes_on(service, WK_RANK_FENCE, journal);
	rank_goes_on(service, pass ? WK_RANK_RECOVERY : WK_RANK_OTHERS, journal);
	rank_goes_on(service, pass ? WK_RANK_OTHERS : WK_RANK_RECOVERY, journal);
}

bool wk_peers_stall(const wk_service *service) {
	for (uint32_t rank = 0; rank < WK_RANKS; rank++)
		if (service->stalled[rank].first != NULL)
			return true;
	return false;
}

/* ---- receiving ---- */

static uint64_t small_frames_most(const wk_service *service) {
	return service->options.receive_bytes / 2 + service->options.receive_bytes / 16;
}

static bool has_begun(const wk_peer *peer, bool large) {
	return peer->partial != NULL && peer->large == large && !wk_peer_is_held(peer);
}

static void end_beginning(wk_service *service, wk_peer *peer) {
	service->stats.frame_timeouts++;
	wk_peer_close(service, peer);
}

/*
 * A connection that waits for room has brought some bytes already, and there may be very many. Then those go whose
 * frames have been under way for longest: who means well is done soon.
 */
static void make_room(wk_service *service) {
	uint64_t begun_bytes = 0, longest_ns = 0; /* of frames alone: what waits for the journal is another matter */
	if (service->input_bytes - service->large_bytes <= small_frames_most(service))
		return;
	for (const wk_peer *peer = service->peers; peer != NULL; peer = peer->next) {
		if (!has_begun(peer, false))
			continue;
		begun_bytes += peer->partial->capacity;
		if (service->now_ns - peer->frame_began_ns > longest_ns)
			longest_ns = service->now_ns - peer->frame_began_ns;
	}
	if (begun_bytes <= small_frames_most(service))
		return;
	for (wk_peer *peer = service->peers; peer != NULL; peer = peer->next)
		if (has_begun(peer, false) && service->now_ns - peer->frame_began_ns >= longest_ns / 2)
			end_beginning(service, peer);
}

/* It is told to wait: for one of the few places for large frames, or for memory for the first part of any. */
static bool waits_for(const wk_peer *peer, bool large) {
	return (peer->stalls & WK_STALL_INPUT) != 0 && has_begun(peer, false) &&
	       (peer->partial->size >= WK_SMALL_FRAME_MAX) == large;
}

/* Slower than anybody who means well, where others wait for what it holds: a second, and another for each 256 KiB. */
static bool is_slow(const wk_service *service, const wk_peer *peer) {
	uint64_t second_ns = service->options.frame_timeout_ns / PATIENCE;
	return service->now_ns - peer->frame_began_ns > second_ns + peer->partial->size * (second_ns / BYTES_A_SECOND);
}

/* Frames that were begun must not keep others out for as long as a frame may take. */
static void end_slow_frames(wk_service *service) {
	bool small = false, large = false;
	for (const wk_peer *peer = service->peers; peer != NULL && service->memory_wait; peer = peer->next) {
		small |= waits_for(peer, false);
		large |= waits_for(peer, true);
	}
	for (wk_peer *peer = service->peers; peer != NULL && (small || large); peer = peer->next) {
		bool in_the_way = (large && has_begun(peer, true)) ||
		                  (small && has_begun(peer, false) && !waits_for(peer, false));
		if (in_the_way && is_slow(service, peer))
			end_beginning(service, peer);
	}
}

/* As much of `bytes` as the frame that is being assembled takes; it is handled once it is whole. */
static size_t assemble(wk_service *service, wk_peer *peer, const uint8_t *bytes, size_t size) {
	uint64_t frame_size = 0;
	size_t taken = 0, had = peer->partial != NULL ? peer->partial->size : 0;
	if (peer->partial == NULL) {
		service->partial_count++;
		peer->frame_began_ns = service->now_ns;
	}
	if (had < WK_FRAME_PREFIX_SIZE) {
		taken = WK_FRAME_PREFIX_SIZE - had < size ? WK_FRAME_PREFIX_SIZE - had : size;
		if (!wk_buffer_append(service, peer, &peer->partial, bytes, taken, PARTIAL_MIN)) {
			service->partial_count -= peer->partial == NULL;
			wk_peer_close(service, peer);
			return size;
		}
		had += taken;
	}
	if (wk_frame_size(peer->partial->bytes, had, service->options.frame_size_max, &frame_size) != WK_OK) {
		service->stats.protocol_errors++;
		wk_peer_close(service, peer);
		return size;
	}
	if (frame_size == 0)
		return taken; /* the prefix is not whole */
	size_t more = (size_t)frame_size - had < size - taken ? (size_t)frame_size - had : size - taken;
	if (!wk_buffer_append(service, peer, &peer->partial, bytes + taken, more, (size_t)frame_size)) {
		wk_peer_close(service, peer);
		return size;
	}
	if (had + more < frame_size) {
		if (!has_place(service, peer)) {
			enlist(service, peer, WK_STALL_INPUT, WK_RANK_OTHERS);
			make_room(service);
		}
		return taken + more;
	}
	wk_peer_end_partial(service, peer);
	wk_frame_buffer *whole = wk_buffer_let_go(service, &peer->partial);
	wk_request_handle(service, peer, whole->bytes, (size_t)frame_size);
	wk_adds_spend(service, whole);
	return taken + more;
}

void wk_peer_begin_partial(wk_service *service, wk_peer *peer) {
	service->partial_count++;
	peer->frame_began_ns = service->now_ns;
	(void)assemble(service, peer, NULL, 0);
}

void wk_peer_receive(wk_service *service, wk_peer *peer, const uint8_t *bytes, size_t size) {
	wk_backlog_end(service, peer);
	while (size > 0 && !peer->gone && !peer->closing) {
		/* What has come nonetheless of a frame that there is no place for is a part of it. */
		if (wk_peer_is_held(peer)) {
			if (!wk_backlog_put(service, peer, bytes, size))
				wk_peer_close(service, peer);
			return;
		}
		uint64_t frame_size = 0;
		if (peer->partial == NULL &&
		    wk_frame_size(bytes, size, service->options.frame_size_max, &frame_size) != WK_OK) {
			service->stats.protocol_errors++;
			wk_peer_close(service, peer);
			return;
		}
		size_t taken = (size_t)frame_size;
		if (peer->partial != NULL || frame_size == 0 || frame_size > size)
			taken = assemble(service, peer, bytes, size);
		else
			wk_request_handle(service, peer, bytes, taken);
		bytes += taken;
		size -= taken;
	}
}

/* ---- what takes too long ---- */

void wk_peers_sweep(wk_service *service) {
	if (service->now_ns < service->next_sweep_ns)
		return;
	service->next_sweep_ns = service->now_ns + SWEEP_NS;
	service->unblocked |= service->memory_wait;
	end_slow_frames(service);
	uint64_t limit = service->options.frame_timeout_ns;
	bool crowded = service->load.reply_bytes > service->limits.reply_bytes / 2;
	for (wk_peer *peer = service->peers; peer != NULL; peer = peer->next) {
		bool slow_sender = peer->partial != NULL && !wk_peer_is_held(peer) && !waits_for(peer, true) &&
		                   service->now_ns - peer->frame_began_ns > limit;
		/* Whoever does not read its answers keeps others from theirs: the sooner it goes. */
		bool slow_reader = crowded && peer->sending &&
		                   service->now_ns - peer->send_began_ns > (service->reads_starve ? limit / STARVED : limit);
		if (slow_sender || slow_reader) {
			service->stats.frame_timeouts++;
			wk_peer_close(service, peer);
		}
	}
}
