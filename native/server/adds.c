/* adds.c: the adds of a turn go to the store together. */
#include <stdlib.h>

#include "server/service.h"

void wk_adds_spend(wk_service *service, wk_frame_buffer *buffer) {
	if (service->adds.count == 0) {
		wk_buffer_spent(service, buffer);
		return;
	}
	if (buffer->batched)
		return;
	buffer->batched = true;
	buffer->next = service->adds.spent;
	service->adds.spent = buffer;
}

static void free_spent(wk_service *service) {
	while (service->adds.spent != NULL) {
		wk_frame_buffer *buffer = service->adds.spent;
		service->adds.spent = buffer->next;
		buffer->batched = false;
		wk_buffer_spent(service, buffer);
	}
}

void wk_adds_drop(wk_service *service) {
	for (uint32_t i = 0; i < service->adds.count; i++)
		wk_peer_release(service->adds.notes[i].owed.peer);
	service->adds.count = 0;
	free_spent(service);
}

/* It is learned from entries that were accepted: whoever has not the key teaches nothing. */
static bool is_damaged(const wk_service *service, const wk_hosted_ledger *ledger, const wk_wire_request *request) {
	if (service->options.verify_digest != WK_VERIFY_DIGEST_LEARNED)
		return false;
	wk_hosted_ledger judged = *ledger;
	return wk_hosted_verify(&judged, request->body, request->body_size) == WK_DIGEST_MISMATCH;
}

/* Those before it come first: where they find no room it comes again behind them, and must not be answered yet. */
static void refuse(wk_service *service, wk_peer *peer, const wk_wire_request *request, const uint8_t *frame,
                   size_t size, bool damaged) {
	wk_adds_flush(service);
	if (wk_peer_is_held(peer)) {
		wk_peer_stall(service, peer, (enum wk_stall)peer->stalls, peer->rank, frame, size);
		return;
	}
	service->stats.digest_mismatches += damaged;
	wk_owed owed = wk_owe(service, peer, request);
	wk_reply_code(service, &owed, WK_WIRE_IO_ERROR);
}

void wk_adds_put(wk_service *service, wk_peer *peer, const wk_wire_request *request, const uint8_t *frame,
                 size_t size) {
	wk_hosted_ledger *ledger = wk_service_host(service, request->ledger_id);
	bool damaged = ledger != NULL && is_damaged(service, ledger, request);
	if (ledger == NULL || damaged) {
		refuse(service, peer, request, frame, size, damaged);
		return;
	}
	wk_owed owed = wk_owe(service, peer, request);
	wk_wire_entry entry;
	(void)wk_wire_entry_decode(request->body, request->body_size, &entry); /* whole: else wk_wire_refusal refused it */
	wk_add_batch *batch = &service->adds;
	bool summed = ledger->digest == WK_DIGEST_CRC32C && service->options.verify_digest == WK_VERIFY_DIGEST_LEARNED;
	batch->adds[batch->count] = (wk_add){.bytes = request->body,
	                                     .size = request->body_size,
	                                     .key = request->key,
	                                     .key_size = (uint32_t)request->key_size};
	if (summed) { /* just now: it has been read */
		batch->adds[batch->count].summed = WK_WIRE_PAYLOAD_AT_CRC32C;
		batch->adds[batch->count].tail_crc = wk_wire_payload_crc32c(request->body, request->body_size);
	}
	if ((request->flags & WK_WIRE_RECOVERY) != 0) {
		batch->adds[batch->count].flags |= WK_ADD_RECOVERY;
	} else if ((request->flags & WK_WIRE_DEFERRED) != 0) {
		batch->adds[batch->count].flags |= WK_ADD_DEFERRED;
	}
	batch->notes[batch->count] = (wk_add_note){.owed = owed, .lac = entry.lac, .frame = frame, .frame_size = size};
	if (++batch->count == WK_ADDS_MAX)
		wk_adds_flush(service);
}

static void learn_digest(wk_service *service, const wk_add *add, int64_t ledger_id) {
	if (service->options.verify_digest != WK_VERIFY_DIGEST_LEARNED)
		return;
	wk_hosted_ledger *ledger = wk_hosted_find(&service->hosted, ledger_id);
	if (ledger != NULL && ledger->digest == WK_DIGEST_UNKNOWN)
		(void)wk_hosted_verify(ledger, add->bytes, (size_t)add->size);
}

/* Accepted: it is answered once it is durable, or at once where the client did not want to wait. */
static void accepted(wk_service *service, const wk_add *add, const wk_add_note *note) {
	bool recovers = (add->flags & WK_ADD_RECOVERY) != 0;
	service->stats.added_bytes += add->size;
	service->stats.recovery_adds += recovers;
	service->load.passed = recovers && service->stalled[WK_RANK_OTHERS].journal > 0 ? service->load.passed + add->size
	                                                                                : 0;
	learn_digest(service, add, note->owed.ledger_id);
	/* What the writer says is confirmed is so, whatever becomes of this entry. */
	wk_service_raise(service, note->owed.ledger_id, note->lac);
	if ((add->flags & WK_ADD_DEFERRED) != 0) {
		wk_hosted_ledger *ledger = wk_hosted_find(&service->hosted, note->owed.ledger_id);
		if (ledger != NULL)
			ledger->deferred = true;
		wk_reply_code(service, &note->owed, WK_WIRE_OK);
		return;
	}
	wk_wait wait = {.ticket = add->ticket, .owed = note->owed, .kind = WK_WAIT_ADD};
	wk_waits_put(service, &wait);
}

static void answer(wk_service *service, const wk_add *add, const wk_add_note *note) {
	if (add->status == WK_OK) {
		accepted(service, add, note);
	} else if (add->status == WK_WOULD_BLOCK) {
		wk_peer *peer = note->owed.peer;
		service->no_room = true;
		bool recovers = (add->flags & WK_ADD_RECOVERY) != 0;
		wk_peer_stall(service, peer, WK_STALL_JOURNAL, recovers ? WK_RANK_RECOVERY : WK_RANK_OTHERS, note->frame,
		              note->frame_size);
		service->owed_count--;
		wk_peer_release(peer);
	} else {
		if (add->status == WK_FAILED)
			service->failed = true;
		wk_reply_code(service, &note->owed, wk_code_of(add->status));
	}
}

/* (the batch is given back) There is no memory to remember what would be accepted. */
static void refuse_all(wk_service *service, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		wk_reply_code(service, &service->adds.notes[i].owed, WK_WIRE_IO_ERROR);
}

void wk_adds_flush(wk_service *service) {
	wk_add_batch *batch = &service->adds;
	uint32_t count = batch->count;
	if (count == 0)
		return;
	wk_histogram_count(&service->stats.batch, count);
	bool remembered = wk_waits_reserve(service, count);
	wk_error error;
	if (remembered)
		(void)wk_ledger_add(service->ns, batch->adds, count, 0, false, &error);
	batch->count = 0; /* answers may lead here again: nothing is in the batch then */
	if (!remembered)
		refuse_all(service, count);
	for (uint32_t i = 0; remembered && i < count; i++)
		answer(service, &batch->adds[i], &batch->notes[i]);
	free_spent(service);
}
