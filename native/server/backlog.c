/*
 * backlog.c: what came of a connection while it stalled.
 *
 * It stands in one buffer, and is gone on with where it stopped: nothing is copied for having stalled once more. Adds of the batch
 * point into it; those that the journal has no room for are given back by moving the beginning back to the first of them, as all
 * behind it on the same connection come back as well. Until the batch is through the buffer stays where it is.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/service.h"

bool wk_backlog_has_more(const wk_peer *peer) {
	return peer->backlog != NULL && peer->backlog->taken < peer->backlog->size;
}

static bool stands_in(const wk_frame_buffer *buffer, const uint8_t *frame) {
	uintptr_t at = (uintptr_t)frame, begin = (uintptr_t)buffer->bytes;
	return at >= begin && at < begin + buffer->size;
}

bool wk_backlog_give_back(wk_service *service, wk_peer *peer, const uint8_t *frame, size_t size) {
	wk_frame_buffer *buffer = peer->backlog;
	if (buffer == NULL || !stands_in(buffer, frame))
		return wk_buffer_append(service, peer, &peer->backlog, frame, size, SIZE_MAX);
	size_t at = (size_t)(frame - buffer->bytes);
	buffer->taken = at < buffer->taken ? at : buffer->taken;
	return true;
}

bool wk_backlog_put(wk_service *service, wk_peer *peer, const uint8_t *bytes, size_t size) {
	bool kept = true;
	if (peer->partial != NULL && peer->backlog == NULL) {
		wk_peer_end_partial(service, peer);
		peer->backlog = peer->partial;
		peer->backlog->since_ns = service->now_ns; /* how slowly a frame comes is not our doing */
		peer->partial = NULL;
	} else if (peer->partial != NULL) {
		kept = wk_buffer_append(service, peer, &peer->backlog, peer->partial->bytes, peer->partial->size, SIZE_MAX);
		wk_peer_end_partial(service, peer);
		wk_buffer_drop(service, &peer->partial);
	}
	return kept && wk_buffer_append(service, peer, &peer->backlog, bytes, size, SIZE_MAX);
}

/* The beginning of a frame, and nothing before it that anybody points to, is a frame that is being assembled. */
static void become_partial(wk_service *service, wk_peer *peer) {
	wk_frame_buffer *buffer = peer->backlog;
	assert(peer->partial == NULL);
	if (buffer->taken > 0) {
		buffer->size -= buffer->taken;
		memmove(buffer->bytes, buffer->bytes + buffer->taken, buffer->size);
		service->copied_bytes += buffer->size;
		buffer->taken = 0;
		(void)wk_buffer_resize(service, peer, &peer->backlog, buffer->size);
	}
	peer->partial = peer->backlog;
	peer->backlog = NULL;
	wk_peer_begin_partial(service, peer);
}

void wk_buffer_spent(wk_service *service, wk_frame_buffer *buffer) {
	wk_peer *peer = buffer->peer;
	if (buffer->batched || buffer->walked)
		return;
	if (peer == NULL)
		free(buffer);
	else if (!wk_backlog_has_more(peer))
		wk_buffer_drop(service, &peer->backlog);
	else if (!wk_peer_is_held(peer))
		become_partial(service, peer);
}

void wk_backlog_walk(wk_service *service, wk_peer *peer) {
	/* A frame of which more came since stands behind it. */
	if (wk_backlog_has_more(peer) && peer->partial != NULL && !wk_backlog_put(service, peer, NULL, 0)) {
		wk_peer_close(service, peer);
		return;
	}
	wk_frame_buffer *buffer = peer->backlog;
	if (buffer == NULL)
		return;
	buffer->walked = true;
	while (buffer->peer != NULL && wk_backlog_has_more(peer) && !wk_peer_is_held(peer)) {
		const uint8_t *frame = buffer->bytes + buffer->taken;
		size_t left = buffer->size - buffer->taken;
		uint64_t size = 0;
		if (wk_frame_size(frame, left, service->options.frame_size_max, &size) != WK_OK) {
			service->stats.protocol_errors++;
			wk_peer_close(service, peer);
		} else if (size == 0 || size > left) {
			break;
		} else {
			buffer->taken += (size_t)size;
			wk_request_handle(service, peer, frame, (size_t)size);
		}
	}
	buffer->walked = false;
	wk_adds_spend(service, buffer);
}

void wk_backlog_end(wk_service *service, wk_peer *peer) {
	if (wk_backlog_has_more(peer) &&
	    !wk_peer_is_held(peer)) /* the batch points into it: the beginning of a frame is moved behind it */
		wk_adds_flush(service);
}
