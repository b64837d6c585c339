/* outbox.c: the answers of a connection, handed to the kernel together. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/service.h"

enum { KEPT_BYTES = 32 * 1024, KEPT_SHARE = 32, BYTES_MIN = 1024, PARTS_MIN = 4 };

static bool grow(void **memory, size_t *capacity, size_t needed, size_t least, size_t unit) {
	if (needed <= *capacity)
		return true;
	size_t larger = *capacity * 2 > least ? *capacity * 2 : least;
	larger = larger > needed ? larger : needed;
	void *grown = realloc(*memory, larger * unit);
	if (grown == NULL)
		return false;
	*memory = grown;
	*capacity = larger;
	return true;
}

static wk_outbox_part *add_part(wk_outbox *outbox) {
	void *parts = outbox->parts;
	size_t capacity = outbox->parts_capacity;
	if (!grow(&parts, &capacity, outbox->parts_count + (size_t)1, PARTS_MIN, sizeof *outbox->parts))
		return NULL;
	outbox->parts = parts;
	outbox->parts_capacity = (uint32_t)capacity;
	return &outbox->parts[outbox->parts_count++];
}

bool wk_outbox_put(wk_outbox *outbox, const void *bytes, size_t size) {
	void *memory = outbox->bytes;
	if (!grow(&memory, &outbox->capacity, outbox->size + size, BYTES_MIN, 1))
		return false;
	outbox->bytes = memory;
	wk_outbox_part *last = outbox->parts_count > 0 ? &outbox->parts[outbox->parts_count - 1] : NULL;
	if (last == NULL || last->bytes != NULL) {
		last = add_part(outbox);
		if (last == NULL)
			return false;
		*last = (wk_outbox_part){.at = outbox->size};
	}
	memcpy(outbox->bytes + outbox->size, bytes, size);
	outbox->size += size;
	last->size += size;
	outbox->total += size;
	return true;
}

bool wk_outbox_refer(wk_outbox *outbox, const uint8_t *bytes, size_t size, wk_read_job *owner) {
	wk_outbox_part *part = add_part(outbox);
	if (part == NULL)
		return false;
	*part = (wk_outbox_part){.bytes = bytes, .size = size, .owner = owner};
	owner->references++;
	outbox->total += size;
	return true;
}

void wk_outbox_clear(wk_service *service, wk_outbox *outbox) {
	for (uint32_t i = 0; i < outbox->parts_count; i++)
		if (outbox->parts[i].owner != NULL)
			wk_read_job_release(outbox->parts[i].owner);
	service->load.reply_bytes -= outbox->total;
	outbox->total = 0;
	outbox->size = 0;
	outbox->parts_count = 0;
	/* A connection that is idle keeps little, and all of them together no more than a part of what answers may take. */
	uint64_t kept = outbox->capacity + outbox->parts_capacity * sizeof *outbox->parts;
	uint64_t share = service->options.reply_bytes / KEPT_SHARE / (service->stats.connections + 1);
	if (kept <= KEPT_BYTES && kept <= share)
		return;
	free(outbox->bytes);
	free(outbox->parts);
	*outbox = (wk_outbox){0};
}

/* ---- sending ---- */

void wk_peer_list(wk_service *service, wk_peer *peer) {
	if (peer->listed || peer->gone)
		return;
	peer->listed = true;
	peer->next_listed = service->listed;
	service->listed = peer;
}

/* The next parts of what is being sent. */
static void send_some(wk_service *service, wk_peer *peer) {
	struct iovec parts[WK_OUTBOX_PARTS_MAX];
	static_assert((int)WK_OUTBOX_PARTS_MAX <= (int)WK_NET_PARTS_MAX, "a send takes them");
	uint32_t count = 0;
	for (; peer->sent_parts < peer->sent.parts_count && count < WK_OUTBOX_PARTS_MAX; peer->sent_parts++) {
		const wk_outbox_part *part = &peer->sent.parts[peer->sent_parts];
		const uint8_t *bytes = part->bytes != NULL ? part->bytes : peer->sent.bytes + part->at;
		parts[count].iov_base = (void *)(uintptr_t)bytes;
		parts[count++].iov_len = part->size;
		service->stats.sent_bytes += part->size;
	}
	peer->send_began_ns = service->now_ns;
	if (service->net->operations->send(service->net, peer->id, parts, count) < 0)
		wk_peer_close(service, peer);
}

static void send_all(wk_service *service, wk_peer *peer) {
	wk_outbox empty = peer->sent;
	peer->sent = peer->filling;
	peer->filling = empty;
	peer->sent_parts = 0;
	peer->sending = true;
	service->sending_count++;
	send_some(service, peer);
}

void wk_outboxes_send(wk_service *service) {
	while (service->listed != NULL) {
		wk_peer *peer = service->listed;
		service->listed = peer->next_listed;
		peer->listed = false;
		if (!peer->sending && !peer->closing && peer->filling.parts_count > 0)
			send_all(service, peer);
	}
	service->stats.reply_memory = service->load.reply_bytes;
}

void wk_peer_sent(wk_service *service, wk_peer *peer) {
	if (!peer->sending)
		return;
	if (peer->sent_parts < peer->sent.parts_count) {
		send_some(service, peer);
		return;
	}
	peer->sending = false;
	service->sending_count--;
	wk_outbox_clear(service, &peer->sent);
	if (peer->filling.parts_count > 0)
		wk_peer_list(service, peer);
	wk_read_queue_go_on(service, peer);
	wk_read_queue_feed(service);
	wk_peer_unstall(service, peer, WK_STALL_OUTPUT);
}
