/* recovery.c: the recovery's machine, its reads, and what it finds written again. */
#include "client/driver.h"
#include "core/ledger_recovery.h"
#include <stdlib.h>

enum { LAST_ENTRY = -1, FENCES = WK_WIRE_FENCE | WK_WIRE_HIGH_PRIORITY };
enum note_kind { NOTE_FENCE = 1, NOTE_READ };

typedef struct wk_recover {
	wk_operation operation;
	wk_ledger_recovery machine;
	wk_adder adder;
	bool writes; /* the adder was made */
	bool paused; /* no entry is read until there is room for another one to be written */
	wk_pending_add pending[WK_PENDING_MAX];
} wk_recover;

/* The adder's requests are under way for longer than the operation, perhaps: the memory goes with the later of both. */
static void adder_unused(wk_asker *asker) {
	free((char *)asker - offsetof(wk_recover, adder));
}

static void destroy(wk_operation *operation) {
	wk_recover *recover = (wk_recover *)operation;
	if (recover->writes)
		wk_asker_let_go(&recover->adder.asker);
	else
		free(recover);
}

static void go_on(wk_recover *recover);

static void end_where_done(wk_recover *recover) {
	const wk_ledger_writer *writer = &recover->adder.writer;
	if (recover->machine.phase == WK_RECOVERY_FAILED)
		wk_operation_end(&recover->operation, recover->machine.status);
	else if (recover->writes && writer->status != WK_OK)
		wk_operation_end(&recover->operation, writer->status);
	else if (recover->machine.phase == WK_RECOVERY_END && recover->writes && writer->lac == writer->last_add_pushed)
		wk_operation_end(&recover->operation, WK_OK);
}

static void adder_progressed(wk_adder *adder) {
	wk_recover *recover = (wk_recover *)((char *)adder - offsetof(wk_recover, adder));
	end_where_done(recover);
	if (recover->paused && recover->operation.done == 0 && wk_ledger_writer_has_room(&adder->writer)) {
		recover->paused = false;
		go_on(recover);
	}
}

/* Entries from behind the LAC on are written: as long as that, and so many bytes, is the ledger up to there. */
static void begin_writing(wk_recover *recover, int64_t length) {
	wk_operation *operation = &recover->operation;
	wk_adder_init(&recover->adder, operation->client, &operation->handle->view, recover->machine.lac, length,
	              recover->pending);
	recover->adder.recovers = true;
	recover->adder.progressed = adder_progressed;
	recover->adder.asker.unused = adder_unused;
	recover->writes = true;
}

static void write_again(wk_recover *recover, const wk_wire_entry *entry, const uint8_t *payload, size_t size) {
	const wk_ledger_view *view = &recover->operation.handle->view;
	uint32_t payload_crc;
	wk_frame *frame = wk_entry_frame_new(view, payload, size, &payload_crc);
	if (frame == NULL) {
		wk_ledger_writer_fail(&recover->adder.writer, WK_NO_MEMORY);
		return;
	}
	wk_entry_frame_seal(view, frame, entry->entry_id, recover->adder.writer.lac, entry->length, size, payload_crc);
	wk_adder_send(&recover->adder, frame, entry->length);
}

static wk_recovery_answer answer_of(const wk_recover *recover, const wk_note *note, const wk_wire_reply *reply,
                                    wk_wire_entry *entry, const uint8_t **payload, size_t *size) {
	const wk_ledger_view *view = &recover->operation.handle->view;
	if (reply == NULL)
		return WK_ANSWER_NONE;
	switch (reply->code) {
	case WK_WIRE_OK:
		return reply->has_body && wk_digest_open(&view->digest, reply->body, reply->body_size, view->ledger_id,
		                                         note->entry_id, entry, payload, size) == WK_OK
		           ? WK_ANSWER_ENTRY
		           : WK_ANSWER_DAMAGED;
	case WK_WIRE_NO_ENTRY:
	case WK_WIRE_NO_LEDGER:
		return WK_ANSWER_ABSENT;
	case WK_WIRE_UNAUTHORIZED:
		return WK_ANSWER_UNAUTHORIZED;
	default:
		return WK_ANSWER_NONE;
	}
}

static void explain(wk_recover *recover, const wk_note *note, const wk_wire_reply *reply) {
	const wk_ledger_view *view = &recover->operation.handle->view;
	uint32_t slot = note->slot;
	if (note->kind == NOTE_READ)
		slot = wk_quorum_slot(&view->quorum, note->entry_id, note->slot);
	uint32_t bookie = wk_ledger_view_ensemble(view, note->kind == NOTE_READ ? note->entry_id : INT64_MAX)[slot];
	wk_operation_explain(&recover->operation, "%s: %s",
	                     wk_dispatcher_bookie_id(recover->operation.client->dispatcher, bookie), wk_reply_text(reply));
}

/* What a bookie answered, or that it cannot be asked (reply NULL). Whether the machine moved. */
static bool take(wk_recover *recover, const wk_note *note, const wk_wire_reply *reply) {
	wk_ledger_recovery *machine = &recover->machine;
	wk_wire_entry entry = {0};
	const uint8_t *payload = NULL;
	size_t size = 0;
	wk_recovery_answer answer = answer_of(recover, note, reply, &entry, &payload, &size);
	if (answer != WK_ANSWER_ENTRY && answer != WK_ANSWER_ABSENT)
		explain(recover, note, reply);
	if (note->kind == NOTE_FENCE)
		return wk_ledger_recovery_fenced(machine, note->slot, answer, entry.lac);
	wk_recovery_phase before = machine->phase;
	if (!wk_ledger_recovery_read(machine, note->entry_id, note->slot, answer))
		return false;
	if (answer == WK_ANSWER_ENTRY && before == WK_RECOVERY_LENGTH)
		begin_writing(recover, entry.length);
	else if (answer == WK_ANSWER_ENTRY)
		write_again(recover, &entry, payload, size);
	return true;
}

static void answered(wk_asker *asker, const wk_note *note, const wk_wire_reply *reply) {
	wk_recover *recover = (wk_recover *)asker;
	if (recover->operation.done == 0 && take(recover, note, reply))
		go_on(recover);
}

/* Asks what the phase asks. A bookie that cannot be asked has answered: perhaps the machine moves at once, and again. */
static bool ask(wk_recover *recover) {
	wk_operation *operation = &recover->operation;
	const wk_ledger_view *view = &operation->handle->view;
	wk_recovery_phase phase = recover->machine.phase;
	int64_t entry_id = recover->machine.next;
	bool fences = phase == WK_RECOVERY_FENCE;
	if (!fences && phase != WK_RECOVERY_LENGTH && phase != WK_RECOVERY_READ)
		return false;
	if (phase == WK_RECOVERY_READ && !wk_ledger_writer_has_room(&recover->adder.writer)) {
		recover->paused = true;
		return false;
	}
	const uint32_t *ensemble = wk_ledger_view_ensemble(view, fences ? INT64_MAX : entry_id);
	uint32_t count = fences ? view->quorum.ensemble_size : view->quorum.write_quorum;
	bool moved = false;
	for (uint32_t i = 0; i < count && !moved; i++) {
		uint32_t slot = fences ? i : wk_quorum_slot(&view->quorum, entry_id, i);
		wk_note note = {.entry_id = fences ? LAST_ENTRY : entry_id, .slot = i, .kind = fences ? NOTE_FENCE : NOTE_READ};
		if (!wk_operation_ask_read(operation, ensemble[slot], note.entry_id, FENCES, &note,
		                           operation->client->options.read_timeout_ns))
			moved = take(recover, &note, NULL);
	}
	return moved;
}

static void go_on(wk_recover *recover) {
	do {
		if (!recover->writes && recover->machine.phase == WK_RECOVERY_READ)
			begin_writing(recover, 0);
		end_where_done(recover);
	} while (recover->operation.done == 0 && ask(recover));
}

static const char *recovery_text(const wk_recover *recover, wk_status status) {
	switch (status) {
	case WK_UNAVAILABLE:
		return recover->machine.phase == WK_RECOVERY_FAILED ? "too few bookies answer to be certain where it ends"
		                                                    : "too few bookies store what is written again";
	case WK_DAMAGED:
		return "an entry that was confirmed is nowhere stored with the right digest";
	case WK_WRONG_KEY:
		return "a bookie has another master key for it: the password is another one";
	default:
		return wk_status_text(status);
	}
}

wk_operation *wk_recover_begin(wk_handle *handle) {
	wk_client *client = handle->client;
	wk_recover *recover = calloc(1, sizeof *recover);
	if (recover == NULL)
		return NULL;
	wk_client_lock(client);
	wk_operation_init(&recover->operation, handle, answered, destroy);
	handle->recoveries++;
	wk_ledger_recovery_init(&recover->machine, &handle->view.quorum, wk_ledger_view_last_segment(&handle->view));
	if (client->ended)
		wk_operation_end(&recover->operation, WK_CLOSED);
	else if (handle->mode != WK_HANDLE_READ || handle->view.closed)
		wk_operation_end(&recover->operation, WK_INVALID);
	else
		go_on(recover);
	wk_client_unlock_and_wake(client);
	return &recover->operation;
}

wk_status wk_recover_finish(wk_operation *operation, wk_status status, int64_t *last_entry, uint64_t *length,
                            wk_error *error) {
	wk_recover *recover = (wk_recover *)operation;
	wk_client *client = operation->client;
	long long ledger_id = operation->handle->ledger_id;
	pthread_mutex_lock(&client->lock);
	if (status == WK_OK) {
		*last_entry = recover->adder.writer.lac;
		*length = (uint64_t)recover->adder.writer.lac_length;
	} else
		wk_client_fail(error, status, ledger_id, -1, true, "recovering ledger %lld: %s%s%s", ledger_id,
		               recovery_text(recover, status), operation->why[0] != 0 ? "; " : "", operation->why);
	operation->handle->recoveries--;
	pthread_mutex_unlock(&client->lock);
	wk_operation_leave(operation);
	return status;
}

wk_status wk_handle_recover(wk_handle *handle, uint64_t timeout_ns, int64_t *last_entry, uint64_t *length,
                            wk_error *error) {
	wk_operation *operation = wk_recover_begin(handle);
	if (operation == NULL)
		return wk_client_fail(error, WK_NO_MEMORY, handle->ledger_id, -1, false, "no memory for a recovery");
	return wk_recover_finish(operation, wk_operation_wait(operation, timeout_ns), last_entry, length, error);
}
