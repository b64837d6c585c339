/* adder.c: adds on their way to the bookies of their write sets; what became of them goes to the writer's machine. */
#include "client/driver.h"
#include "core/bytes.h"
#include <string.h>

enum { LENGTH_AT = 24, LAC_HEAD_SIZE = 16 };

static void put_header(const wk_ledger_view *view, int64_t entry_id, int64_t lac, int64_t length, uint8_t *body) {
	wk_store_be64(body, (uint64_t)view->ledger_id);
	wk_store_be64(body + 8, (uint64_t)entry_id);
	wk_store_be64(body + 16, (uint64_t)lac);
	wk_store_be64(body + LENGTH_AT, (uint64_t)length);
}

int64_t wk_entry_frame_length(const wk_frame *frame) {
	return (int64_t)wk_load_be64(frame->bytes + WK_WIRE_HEAD_SIZE_MAX + LENGTH_AT);
}

wk_frame *wk_entry_frame_new(const wk_ledger_view *view, const void *payload, size_t size, uint32_t *payload_crc) {
	size_t head = WK_WIRE_ENTRY_HEADER_SIZE + wk_digest_size(&view->digest);
	wk_frame *frame = wk_frame_new(head + size);
	if (frame == NULL)
		return NULL;
	if (size > 0)
		memcpy(frame->bytes + WK_WIRE_HEAD_SIZE_MAX + head, payload, size);
	*payload_crc = view->digest.type == WK_DIGEST_CRC32C ? wk_crc32c(payload, size) : 0;
	return frame;
}

void wk_entry_frame_seal(const wk_ledger_view *view, wk_frame *frame, int64_t entry_id, int64_t lac, int64_t length,
                         size_t size, uint32_t payload_crc) {
	uint8_t *body = frame->bytes + WK_WIRE_HEAD_SIZE_MAX, *digest = body + WK_WIRE_ENTRY_HEADER_SIZE;
	put_header(view, entry_id, lac, length, body);
	if (view->digest.type == WK_DIGEST_CRC32C)
		wk_store_be32(digest, wk_crc32c_combine(wk_crc32c(body, WK_WIRE_ENTRY_HEADER_SIZE), payload_crc, size));
	else
		wk_digest_put(&view->digest, body, WK_WIRE_ENTRY_HEADER_SIZE, digest + wk_digest_size(&view->digest), size,
		              digest);
}

wk_frame *wk_lac_frame(const wk_ledger_view *view, int64_t lac) {
	wk_frame *frame = wk_frame_new(LAC_HEAD_SIZE + wk_digest_size(&view->digest));
	if (frame == NULL)
		return NULL;
	uint8_t *body = frame->bytes + WK_WIRE_HEAD_SIZE_MAX;
	wk_store_be64(body, (uint64_t)view->ledger_id);
	wk_store_be64(body + 8, (uint64_t)lac);
	wk_digest_put(&view->digest, body, LAC_HEAD_SIZE, NULL, 0, body + LAC_HEAD_SIZE);
	return frame;
}

static void send(wk_adder *adder, wk_frame *frame, int64_t entry_id, uint64_t slots, uint64_t until_ns);
static wk_frame *copy_of(const wk_adder *adder, const wk_frame *frame);

/*
 * A bookie that says that it has too many requests has not stored the entry, and has not failed: Java's says so to a burst.
 * It is asked again, behind what it is sent meanwhile (link.c holds that back a little), for as long as an add may take.
 * Where the others have confirmed the entry its frame is gone: a bookie that is so far behind is one that failed.
 */
static bool ask_again(wk_adder *adder, const wk_note *note) {
	const wk_ledger_writer *writer = &adder->writer;
	if (adder->kept == NULL || writer->status != WK_OK || note->entry_id <= writer->lac ||
	    !wk_ledger_writer_uses(writer, note->slot) || adder->client->dispatcher->now_ns >= note->until_ns)
		return false;
	wk_frame *frame = copy_of(adder, adder->kept[(uint64_t)note->entry_id & (WK_PENDING_MAX - 1)]);
	if (frame == NULL)
		return false;
	send(adder, frame, note->entry_id, UINT64_C(1) << note->slot, note->until_ns);
	wk_frame_release(frame);
	if (writer->status != WK_OK || writer->failed_slots != 0)
		adder->progressed(adder);
	return true;
}

static void answered(wk_asker *asker, const wk_note *note, const wk_wire_reply *reply) {
	wk_adder *adder = (wk_adder *)asker; /* it stands first */
	wk_ledger_writer *writer = &adder->writer;
	if (wk_ledger_view_ensemble(adder->view, INT64_MAX)[note->slot] != note->kind)
		return; /* another bookie has this slot now */
	uint32_t code = reply != NULL ? reply->code : WK_WIRE_IO_ERROR;
	if (code == WK_WIRE_OK) {
		if (wk_ledger_writer_ack(writer, note->entry_id, note->slot)) {
			wk_adder_forget(adder, writer->lac);
			adder->progressed(adder);
		}
		return;
	}
	if (code == WK_WIRE_TOO_MANY_REQUESTS && ask_again(adder, note))
		return;
	if (code == WK_WIRE_FENCED)
		wk_ledger_writer_fail(writer, WK_FENCED);
	else if (code == WK_WIRE_UNAUTHORIZED)
		wk_ledger_writer_fail(writer, WK_WRONG_KEY);
	else if (wk_ledger_writer_uses(writer, note->slot))
		wk_ledger_writer_slot_failed(writer, note->slot);
	else
		return;
	adder->progressed(adder);
}

void wk_adder_init(wk_adder *adder, wk_client *client, const wk_ledger_view *view, int64_t lac, int64_t lac_length,
                   wk_pending_add *pending) {
	adder->client = client;
	adder->view = view;
	adder->asker.answered = answered;
	wk_ledger_writer_init(&adder->writer, &view->quorum, lac, lac_length, pending, WK_PENDING_MAX);
}

/* Sends the entry to those of its write set that are in `slots` and in use; they have time until then. */
static void send(wk_adder *adder, wk_frame *frame, int64_t entry_id, uint64_t slots, uint64_t until_ns) {
	wk_ledger_writer *writer = &adder->writer;
	wk_dispatcher *dispatcher = adder->client->dispatcher;
	const uint32_t *ensemble = wk_ledger_view_ensemble(adder->view, INT64_MAX);
	uint32_t recovery = adder->recovers ? WK_WIRE_RECOVERY | WK_WIRE_HIGH_PRIORITY : 0;
	wk_wire_request request = {.version = WK_WIRE_V3,
	                           .header_version = WK_WIRE_V3,
	                           .operation = WK_WIRE_ADD,
	                           .flags = recovery,
	                           .txn_id = wk_dispatcher_number(dispatcher),
	                           .ledger_id = adder->view->ledger_id,
	                           .entry_id = entry_id,
	                           .key = adder->view->master_key,
	                           .key_size = sizeof adder->view->master_key,
	                           .body_size = frame->size};
	wk_frame_finish(frame, &request);
	for (uint32_t i = 0; i < writer->quorum.write_quorum && writer->status == WK_OK; i++) {
		uint32_t slot = wk_quorum_slot(&writer->quorum, entry_id, i);
		wk_note note = {.entry_id = entry_id, .slot = slot, .kind = ensemble[slot], .until_ns = until_ns};
		if ((slots >> slot & 1) == 0 || !wk_ledger_writer_uses(writer, slot))
			continue;
		if (!wk_dispatcher_ask(dispatcher, ensemble[slot], &adder->asker, &note, request.txn_id,
		                       until_ns - dispatcher->now_ns, frame))
			wk_ledger_writer_slot_failed(writer, slot);
	}
}

/* When an add that begins now is given up. */
static uint64_t add_until(const wk_adder *adder) {
	uint64_t now_ns = adder->client->dispatcher->now_ns, timeout_ns = adder->client->options.add_timeout_ns;
	return timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
}

void wk_adder_forget(wk_adder *adder, int64_t entry_id) {
	for (; adder->kept != NULL && adder->kept_from <= entry_id; adder->kept_from++) {
		wk_frame **kept = &adder->kept[(uint64_t)adder->kept_from & (WK_PENDING_MAX - 1)];
		if (*kept != NULL)
			wk_frame_release(*kept);
		*kept = NULL;
	}
}

void wk_adder_send(wk_adder *adder, wk_frame *frame, int64_t length) {
	wk_ledger_writer *writer = &adder->writer;
	int64_t entry_id = wk_ledger_writer_push(writer, length);
	if (adder->kept != NULL) {
		adder->kept[(uint64_t)entry_id & (WK_PENDING_MAX - 1)] = frame;
		frame->references++;
	}
	send(adder, frame, entry_id, UINT64_MAX, add_until(adder));
	wk_frame_release(frame);
	if (writer->status != WK_OK || writer->failed_slots != 0)
		adder->progressed(adder);
}

/* The entry in a frame of its own: the one that was sent before may be under way still, with another number. */
static wk_frame *copy_of(const wk_adder *adder, const wk_frame *frame) {
	size_t size = frame->at + frame->size - WK_WIRE_HEAD_SIZE_MAX;
	(void)adder;
	wk_frame *copy = wk_frame_new(size);
	if (copy != NULL)
		memcpy(copy->bytes + WK_WIRE_HEAD_SIZE_MAX, frame->bytes + WK_WIRE_HEAD_SIZE_MAX, size);
	return copy;
}

wk_status wk_adder_replace(wk_adder *adder, wk_ledger_view *view, uint64_t slots, const uint32_t *ensemble) {
	wk_ledger_writer *writer = &adder->writer;
	wk_status status = wk_ledger_view_extend(view, writer->lac + 1, ensemble);
	if (status != WK_OK)
		return status;
	wk_ledger_writer_replace(writer, slots);
	for (int64_t entry_id = writer->lac + 1; entry_id <= writer->last_add_pushed; entry_id++) {
		wk_frame *frame = copy_of(adder, adder->kept[(uint64_t)entry_id & (WK_PENDING_MAX - 1)]);
		if (frame == NULL)
			return WK_NO_MEMORY;
		send(adder, frame, entry_id, slots, add_until(adder));
		wk_frame_release(frame);
	}
	return WK_OK;
}
