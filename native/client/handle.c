/* handle.c: a ledger's handle: opened, written, waited for, sealed, closed. */
#include "client/driver.h"
#include "io/clock.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

void wk_handle_hold(wk_handle *handle) {
	atomic_fetch_add(&handle->references, 1);
}

/* (client's lock, unless it is the owner's own reference and nothing else is left) */
void wk_handle_release(wk_handle *handle) {
	if (atomic_fetch_sub(&handle->references, 1) > 1)
		return;
	wk_client *client = handle->client;
	while (handle->queue != NULL) {
		wk_frame *frame = handle->queue;
		handle->queue = frame->next;
		wk_frame_release(frame);
	}
	wk_adder_forget(&handle->adder, handle->adder.writer.last_add_pushed);
	wk_ledger_view_free(&handle->view);
	pthread_mutex_destroy(&handle->lock);
	free(handle->adder.kept);
	free(handle->pending);
	free(handle->pending_sizes);
	free(handle);
	wk_client_drop(client);
}

void wk_handle_drop(wk_handle *handle) {
	wk_client *client = handle->client;
	wk_client_lock(client);
	atomic_fetch_add(&client->references, 1); /* the handle may be the last that has one */
	wk_handle_release(handle);
	pthread_mutex_unlock(&client->lock);
	wk_client_drop(client);
}

static void adder_unused(wk_asker *asker) {
	wk_adder *adder = (wk_adder *)asker; /* it stands first */
	wk_handle_release((wk_handle *)((char *)adder - offsetof(wk_handle, adder)));
}

static void lac_answered(wk_asker *asker, const wk_note *note, const wk_wire_reply *reply) {
	(void)asker;
	(void)note;
	(void)reply;
}

static void lac_unused(wk_asker *asker) {
	wk_handle_release((wk_handle *)((char *)asker - offsetof(wk_handle, lac_asker)));
}

static void adder_progressed(wk_adder *adder) {
	wk_handle *handle = (wk_handle *)((char *)adder - offsetof(wk_handle, adder));
	wk_client_mark_dirty(handle->client, handle);
}

static wk_status make(wk_client *client, const wk_ledger_spec *spec, uint32_t mode, wk_handle **made, wk_error *error) {
	wk_handle *handle = calloc(1, sizeof *handle);
	if (handle == NULL)
		return wk_client_fail(error, WK_NO_MEMORY, spec->ledger_id, -1, false, "no memory for a handle");
	wk_status status = wk_ledger_view_make(&handle->view, spec, wk_dispatcher_bookies(client->dispatcher), error);
	bool writes = mode == WK_HANDLE_WRITE;
	if (status == WK_OK && writes) {
		handle->pending = malloc(WK_PENDING_MAX * sizeof *handle->pending);
		handle->pending_sizes = malloc(WK_PENDING_MAX * sizeof *handle->pending_sizes);
		handle->adder.kept = calloc(WK_PENDING_MAX, sizeof *handle->adder.kept);
		if (handle->pending == NULL || handle->pending_sizes == NULL || handle->adder.kept == NULL)
			status = wk_client_fail(error, WK_NO_MEMORY, spec->ledger_id, -1, false, "no memory for a writer");
	}
	if (status != WK_OK) {
		wk_ledger_view_free(&handle->view);
		free(handle->adder.kept);
		free(handle->pending);
		free(handle->pending_sizes);
		free(handle);
		return status;
	}
	handle->client = client;
	handle->change_due_ns = UINT64_MAX;
	handle->mode = mode;
	handle->ledger_id = spec->ledger_id;
	handle->references = 1;
	handle->lac = handle->view.last_entry;
	handle->last_add_pushed = handle->freed_lac = -1;
	handle->queue_end = &handle->queue;
	pthread_mutex_init(&handle->lock, NULL);
	if (writes) {
		wk_adder_init(&handle->adder, client, &handle->view, -1, 0, handle->pending);
		handle->adder.writer.patient = true;
		handle->adder.progressed = adder_progressed;
		handle->adder.asker.unused = adder_unused;
		wk_handle_hold(handle); /* the adder's */
		handle->told_lac = -1;
		handle->lac_asker = (wk_asker){.answered = lac_answered, .unused = lac_unused};
		wk_handle_hold(handle);
	}
	*made = handle;
	return WK_OK;
}

wk_status wk_handle_open(wk_client *client, const wk_ledger_spec *spec, uint32_t mode, wk_handle **made,
                         wk_error *error) {
	if (mode != WK_HANDLE_READ && mode != WK_HANDLE_WRITE)
		return wk_client_fail(error, WK_INVALID, spec->ledger_id, -1, false, "there is no mode %u", mode);
	if (mode == WK_HANDLE_WRITE && (spec->closed || spec->segments_count != 1))
		return wk_client_fail(error, WK_INVALID, spec->ledger_id, -1, false,
		                      "only a ledger that was just created has a writer");
	wk_client_lock(client);
	wk_status status = client->ended
	                       ? wk_client_fail(error, WK_CLOSED, spec->ledger_id, -1, false, "the client was stopped")
	                       : make(client, spec, mode, made, error);
	if (status == WK_OK) {
		wk_handle *handle = *made;
		atomic_fetch_add(&client->references, 1);
		handle->next = client->handles;
		handle->link = &client->handles;
		if (handle->next != NULL)
			handle->next->link = &handle->next;
		client->handles = handle;
	}
	pthread_mutex_unlock(&client->lock);
	return status;
}

wk_status wk_handle_update(wk_handle *handle, const wk_ledger_spec *spec, wk_error *error) {
	wk_client *client = handle->client;
	wk_ledger_view view;
	wk_client_lock(client);
	wk_status status = WK_OK;
	if (handle->mode != WK_HANDLE_READ || handle->recoveries > 0 || spec->ledger_id != handle->ledger_id ||
	    spec->ensemble_size != handle->view.quorum.ensemble_size)
		status = wk_client_fail(error, WK_INVALID, spec->ledger_id, -1, false,
		                        "these metadata are of another ledger, or the handle writes or recovers");
	else
		status = wk_ledger_view_make(&view, spec, wk_dispatcher_bookies(client->dispatcher), error);
	if (status == WK_OK) {
		wk_ledger_view_free(&handle->view);
		handle->view = view;
		if (view.closed)
			handle->lac = view.last_entry;
	}
	pthread_mutex_unlock(&client->lock);
	return status;
}

void wk_handle_close(wk_handle *handle) {
	wk_client *client = handle->client;
	wk_client_lock(client);
	atomic_fetch_add(&client->references, 1); /* the handle's may be the last */
	*handle->link = handle->next;
	if (handle->next != NULL)
		handle->next->link = handle->link;
	pthread_mutex_lock(&handle->lock);
	handle->sealed = handle->closed = true;
	pthread_mutex_unlock(&handle->lock);
	if (handle->mode == WK_HANDLE_WRITE) {
		wk_handle_take_queue(handle); /* what was accepted is sent, though nobody is left to hear of it */
		wk_ledger_writer_fail(&handle->adder.writer, WK_CLOSED);
		wk_asker_let_go(&handle->adder.asker);
		wk_asker_let_go(&handle->lac_asker);
	}
	wk_handle_release(handle);
	pthread_mutex_unlock(&client->lock);
	wk_client_drop(client);
}

/* ---- what the driver does ---- */

void wk_handle_take_queue(wk_handle *handle) {
	pthread_mutex_lock(&handle->lock);
	wk_frame *frame = handle->queue;
	handle->queue = NULL;
	handle->queue_end = &handle->queue;
	pthread_mutex_unlock(&handle->lock);
	while (frame != NULL) {
		wk_frame *next = frame->next;
		if (handle->adder.writer.status != WK_OK)
			wk_frame_release(frame);
		else
			wk_adder_send(&handle->adder, frame, wk_entry_frame_length(frame));
		frame = next;
	}
}

void wk_handle_limit_change(wk_handle *handle) {
	const wk_ledger_writer *writer = &handle->adder.writer;
	bool waits = writer->status == WK_OK && (writer->frozen || writer->stuck);
	if (!waits)
		handle->change_due_ns = UINT64_MAX;
	else if (handle->change_due_ns == UINT64_MAX)
		wk_client_limit_change(handle->client, handle);
}

void wk_handle_publish(wk_handle *handle) {
	const wk_ledger_writer *writer = &handle->adder.writer;
	pthread_mutex_lock(&handle->lock);
	handle->lac_length = (uint64_t)writer->lac_length;
	if (handle->failed_slots != writer->failed_slots || handle->is_stuck != writer->stuck ||
	    handle->status != writer->status)
		wk_client_tell_failures(handle->client);
	handle->failed_slots = writer->failed_slots;
	handle->is_stuck = writer->stuck;
	handle->lac = writer->lac; /* before the status: who sees a failure sees all that was confirmed before it */
	handle->status = writer->status;
	int64_t gone = writer->status == WK_OK ? writer->lac : handle->last_add_pushed;
	for (; handle->freed_lac < gone; handle->freed_lac++)
		handle->pending_bytes -= handle->pending_sizes[(handle->freed_lac + 1) & (WK_PENDING_MAX - 1)];
	bool tells = writer->status == WK_OK && writer->lac == handle->last_add_pushed && writer->lac > handle->told_lac;
	pthread_mutex_unlock(&handle->lock);
	if (tells)
		wk_client_mark_idle(handle->client, handle);
	wk_handle_limit_change(handle);
	if (handle->waiters > 0) {
		__atomic_fetch_add(&handle->turn, 1, __ATOMIC_SEQ_CST);
		wk_futex_wake(&handle->turn, INT_MAX);
	}
	if (handle->progressed != NULL)
		handle->progressed(handle->progress_context);
}

void wk_handle_tell_lac(wk_handle *handle) {
	const wk_ledger_writer *writer = &handle->adder.writer;
	wk_dispatcher *dispatcher = handle->client->dispatcher;
	int64_t lac = writer->lac;
	pthread_mutex_lock(&handle->lock);
	bool tells = !handle->closed && writer->status == WK_OK && lac > handle->told_lac;
	if (tells)
		handle->told_lac = lac;
	pthread_mutex_unlock(&handle->lock);
	wk_frame *frame = tells ? wk_lac_frame(&handle->view, lac) : NULL;
	if (frame == NULL)
		return; /* the next entry carries it */
	wk_wire_request request = {.version = WK_WIRE_V3,
	                           .header_version = WK_WIRE_V3,
	                           .operation = WK_WIRE_WRITE_LAC,
	                           .txn_id = wk_dispatcher_number(dispatcher),
	                           .ledger_id = handle->ledger_id,
	                           .lac = lac,
	                           .key = handle->view.master_key,
	                           .key_size = sizeof handle->view.master_key,
	                           .body_size = frame->size};
	wk_frame_finish(frame, &request);
	const uint32_t *ensemble = wk_ledger_view_ensemble(&handle->view, INT64_MAX);
	for (uint32_t i = 0; i < writer->quorum.write_quorum; i++) {
		uint32_t slot = wk_quorum_slot(&writer->quorum, lac, i);
		wk_note note = {.entry_id = lac, .slot = slot};
		if (wk_ledger_writer_uses(writer, slot))
			(void)wk_dispatcher_ask(dispatcher, ensemble[slot], &handle->lac_asker, &note, request.txn_id,
			                        handle->client->options.add_timeout_ns, frame);
	}
	wk_frame_release(frame);
}

void wk_handle_watch(wk_handle *handle, void (*progressed)(void *context), void *context) {
	wk_client_lock(handle->client);
	handle->progressed = progressed;
	handle->progress_context = context;
	pthread_mutex_unlock(&handle->client->lock);
}

void wk_handle_end(wk_handle *handle) {
	if (handle->mode != WK_HANDLE_WRITE)
		return;
	wk_ledger_writer_fail(&handle->adder.writer, WK_CLOSED);
	wk_handle_publish(handle);
}

/* ---- submitting ---- */

static wk_status failure(wk_handle *handle, wk_status status, int64_t entry_id, bool unknown, wk_error *error) {
	const wk_quorum *quorum = &handle->view.quorum;
	long long ledger_id = handle->ledger_id, entry = entry_id;
	const char *what = "the writer has failed";
	switch (status) {
	case WK_FENCED:
		what = "another client recovers the ledger, or has closed it";
		break;
	case WK_UNAVAILABLE:
		what = "too few bookies of the ensemble are left";
		break;
	case WK_WRONG_KEY:
		what = "a bookie has another master key for the ledger";
		break;
	case WK_CLOSED:
		what = "the handle or the client was closed";
		break;
	case WK_TIMEOUT:
		what = "the entry was not confirmed in time";
		break;
	default:
		break;
	}
	char failed[160] = "";
	size_t size = 0;
	uint64_t slots = handle->failed_slots;
	wk_client_lock(handle->client);
	if (status == WK_UNAVAILABLE && handle->change_failed)
		what = "a bookie failed, and nobody said in time whether the metadata name another one in its place";
	for (uint32_t slot = 0; slot < quorum->ensemble_size && status == WK_UNAVAILABLE; slot++)
		if (slots >> slot & 1 && size < sizeof failed - 1) {
			uint32_t bookie = wk_ledger_view_ensemble(&handle->view, INT64_MAX)[slot];
			int put = snprintf(failed + size, sizeof failed - size, "%s%s", size == 0 ? "; left out: " : ", ",
			                   wk_dispatcher_bookie_id(handle->client->dispatcher, bookie));
			size += put > 0 ? (size_t)put : 0;
		}
	pthread_mutex_unlock(&handle->client->lock);
	if (entry_id < 0)
		return wk_client_fail(error, status, ledger_id, -1, unknown, "adding to ledger %lld: %s (E %u, Qw %u, Qa %u)%s",
		                      ledger_id, what, quorum->ensemble_size, quorum->write_quorum, quorum->ack_quorum, failed);
	return wk_client_fail(error, status, ledger_id, entry_id, unknown,
	                      "adding entry %lld to ledger %lld: %s (E %u, Qw %u, Qa %u)%s", entry, ledger_id, what,
	                      quorum->ensemble_size, quorum->write_quorum, quorum->ack_quorum, failed);
}

/* Waits until `handle->turn` is no more what it was. 0, -ETIMEDOUT, -EINTR. */
static int wait_turn(wk_handle *handle, uint32_t turn, uint64_t began_ns, uint64_t timeout_ns) {
	uint64_t left_ns = wk_time_left(began_ns, timeout_ns);
	return left_ns == 0 ? -ETIMEDOUT : wk_futex_wait(&handle->turn, turn, left_ns);
}

static bool has_room(const wk_handle *handle, size_t size) {
	int64_t pending = handle->last_add_pushed - handle->freed_lac;
	return pending == 0 || (pending < WK_PENDING_MAX && handle->pending_bytes + size <= WK_PENDING_BYTES_MAX);
}

/* (handle's lock) Waits, without the lock, until there is room. WK_OK, or why there will be none. */
static wk_status wait_room(wk_handle *handle, size_t size, uint64_t began_ns, uint64_t timeout_ns) {
	wk_status status = WK_OK;
	handle->waiters++;
	while (status == WK_OK) {
		uint32_t turn = __atomic_load_n(&handle->turn, __ATOMIC_SEQ_CST);
		if (handle->sealed)
			status = WK_CLOSED;
		else if (handle->status != WK_OK)
			status = handle->status;
		else if (has_room(handle, size))
			break;
		else if (timeout_ns == 0)
			status = WK_WOULD_BLOCK;
		else {
			pthread_mutex_unlock(&handle->lock);
			int result = wait_turn(handle, turn, began_ns, timeout_ns);
			pthread_mutex_lock(&handle->lock);
			status = result == -EINTR ? WK_INTERRUPTED : result == -ETIMEDOUT ? WK_TIMEOUT : WK_OK;
		}
	}
	handle->waiters--;
	return status;
}

/* (handle's lock) Gives the entry its id, and its header and digest, for which the CRC of the payload is known. */
static int64_t enqueue(wk_handle *handle, wk_frame *frame, size_t size, uint32_t payload_crc) {
	int64_t entry_id = ++handle->last_add_pushed;
	handle->length += (int64_t)size;
	handle->pending_bytes += size;
	handle->pending_sizes[entry_id & (WK_PENDING_MAX - 1)] = (uint32_t)size;
	handle->told_lac = handle->lac;
	wk_entry_frame_seal(&handle->view, frame, entry_id, handle->told_lac, handle->length, size, payload_crc);
	frame->next = NULL;
	*handle->queue_end = frame;
	handle->queue_end = &frame->next;
	return entry_id;
}

static wk_status submit(wk_handle *handle, const void *data, size_t size, uint64_t began_ns, uint64_t timeout_ns,
                        int64_t *entry_id, wk_error *error) {
	*entry_id = -1;
	if (handle->mode != WK_HANDLE_WRITE)
		return wk_client_fail(error, WK_INVALID, handle->ledger_id, -1, false, "this handle does not write");
	if (size > WK_CLIENT_PAYLOAD_MAX)
		return wk_client_fail(error, WK_TOO_LARGE, handle->ledger_id, -1, false,
		                      "an entry holds at most %d bytes, not %zu", WK_CLIENT_PAYLOAD_MAX, size);
	uint32_t payload_crc = 0;
	wk_frame *frame = wk_entry_frame_new(&handle->view, data, size, &payload_crc);
	if (frame == NULL)
		return wk_client_fail(error, WK_NO_MEMORY, handle->ledger_id, -1, false, "no memory for an entry");
	pthread_mutex_lock(&handle->lock);
	wk_status status = WK_OK;
	if (handle->sealed || handle->status != WK_OK || !has_room(handle, size))
		status = wait_room(handle, size, began_ns, timeout_ns);
	if (status == WK_OK)
		*entry_id = enqueue(handle, frame, size, payload_crc);
	pthread_mutex_unlock(&handle->lock);
	if (status == WK_OK)
		return WK_OK;
	wk_frame_release(frame);
	if (status == WK_TIMEOUT || status == WK_WOULD_BLOCK || status == WK_INTERRUPTED)
		return wk_client_fail(error, status, handle->ledger_id, -1, false,
		                      "adding to ledger %lld: there is no room: too many entries are not confirmed yet",
		                      (long long)handle->ledger_id);
	return failure(handle, status, -1, false, error);
}

wk_status wk_handle_submit(wk_handle *handle, const void *data, size_t size, uint64_t timeout_ns, int64_t *entry_id,
                           wk_error *error) {
	wk_status status = submit(handle, data, size, wk_clock_monotonic_ns(), timeout_ns, entry_id, error);
	if (status == WK_OK)
		wk_client_put_in_inbox(handle->client, handle);
	return status;
}

wk_status wk_handle_submit_frame(wk_handle *handle, wk_frame *frame, size_t size, uint32_t payload_crc,
                                 int64_t *entry_id) {
	pthread_mutex_lock(&handle->lock);
	wk_status status = handle->sealed ? WK_CLOSED : (wk_status)handle->status;
	if (status == WK_OK)
		*entry_id = enqueue(handle, frame, size, payload_crc);
	pthread_mutex_unlock(&handle->lock);
	if (status == WK_OK)
		wk_client_put_in_inbox(handle->client, handle);
	return status;
}

wk_status wk_handle_submit_many(wk_handle *handle, const void *data, const uint32_t *sizes, size_t count,
                                uint64_t timeout_ns, int64_t *first, size_t *accepted, wk_error *error) {
	const uint8_t *at = data;
	uint64_t began_ns = wk_clock_monotonic_ns();
	wk_status status = WK_OK;
	*first = -1;
	size_t done = 0, told = 0;
	for (; done < count; done++) {
		int64_t entry_id;
		status = submit(handle, at, sizes[done], began_ns, 0, &entry_id, error);
		if (status == WK_WOULD_BLOCK && timeout_ns > 0) {
			wk_client_put_in_inbox(handle->client, handle); /* nothing makes room but what is sent */
			told = done;
			status = submit(handle, at, sizes[done], began_ns, timeout_ns, &entry_id, error);
		}
		if (status != WK_OK)
			break;
		if (done == 0)
			*first = entry_id;
		at += sizes[done];
	}
	if (done > told)
		wk_client_put_in_inbox(handle->client, handle);
	*accepted = done;
	if (status != WK_OK && error != NULL && done > 0) {
		error->outcome_unknown = true;
		error->entry_id = *first;
	}
	return status;
}

/* ---- waiting ---- */

wk_status wk_handle_wait(wk_handle *handle, int64_t entry_id, uint64_t timeout_ns, wk_error *error) {
	if (handle->lac >= entry_id)
		return WK_OK;
	uint64_t began_ns = wk_clock_monotonic_ns();
	wk_status status = WK_OK;
	handle->waiters++;
	for (;;) {
		uint32_t turn = __atomic_load_n(&handle->turn, __ATOMIC_SEQ_CST);
		wk_status failed = handle->status;
		if (handle->lac >= entry_id)
			break;
		status = failed;
		if (status != WK_OK)
			break;
		int result = wait_turn(handle, turn, began_ns, timeout_ns);
		status = result == -EINTR ? WK_INTERRUPTED : result == -ETIMEDOUT ? WK_TIMEOUT : WK_OK;
		if (status != WK_OK) {
			status = handle->lac >= entry_id ? WK_OK : status;
			break;
		}
	}
	handle->waiters--;
	return status == WK_OK ? WK_OK : failure(handle, status, entry_id, true, error);
}

wk_status wk_handle_add(wk_handle *handle, const void *data, size_t size, uint64_t timeout_ns, int64_t *entry_id,
                        wk_error *error) {
	uint64_t began_ns = wk_clock_monotonic_ns();
	wk_status status = submit(handle, data, size, began_ns, timeout_ns, entry_id, error);
	if (status != WK_OK)
		return status;
	wk_client_put_in_inbox(handle->client, handle);
	return wk_handle_wait(handle, *entry_id, wk_time_left(began_ns, timeout_ns), error);
}

wk_status wk_handle_seal(wk_handle *handle, uint64_t timeout_ns, int64_t *last_entry, uint64_t *length,
                         wk_error *error) {
	if (handle->mode != WK_HANDLE_WRITE)
		return wk_client_fail(error, WK_INVALID, handle->ledger_id, -1, false, "this handle does not write");
	pthread_mutex_lock(&handle->lock);
	handle->sealed = true;
	int64_t last = handle->last_add_pushed;
	pthread_mutex_unlock(&handle->lock);
	wk_status status = wk_handle_wait(handle, last, timeout_ns, error);
	if (status == WK_INTERRUPTED)
		return status;
	wk_client_lock(handle->client);
	wk_handle_take_queue(handle);
	wk_ledger_writer_fail(&handle->adder.writer, WK_CLOSED); /* the LAC stays as it is */
	wk_handle_publish(handle);
	*last_entry = handle->adder.writer.lac;
	*length = (uint64_t)handle->adder.writer.lac_length;
	wk_client_unlock_and_wake(handle->client);
	return WK_OK;
}

/* ---- ensemble changes ---- */

wk_status wk_handle_change_begin(wk_handle *handle, int64_t *first_entry, wk_error *error) {
	wk_ledger_writer *writer = &handle->adder.writer;
	wk_client_lock(handle->client);
	wk_status status = handle->mode != WK_HANDLE_WRITE || writer->frozen ? WK_INVALID : writer->status;
	if (status == WK_OK) {
		wk_ledger_writer_freeze(writer);
		*first_entry = writer->lac + 1;
		wk_handle_limit_change(handle);
	}
	wk_client_unlock_and_wake(handle->client);
	return status == WK_OK ? WK_OK
	                       : wk_client_fail(error, status, handle->ledger_id, -1, false,
	                                        "changing the ensemble of ledger %lld: a change is under way, or %s",
	                                        (long long)handle->ledger_id, wk_status_text(status));
}

wk_status wk_handle_change_commit(wk_handle *handle, uint64_t slots, const uint32_t *ensemble, wk_error *error) {
	wk_ledger_writer *writer = &handle->adder.writer;
	wk_client_lock(handle->client);
	wk_status status = writer->status != WK_OK ? writer->status : writer->frozen ? WK_OK : WK_INVALID;
	if (status == WK_OK)
		status = wk_adder_replace(&handle->adder, &handle->view, slots, ensemble);
	if (status != WK_OK)
		wk_ledger_writer_fail(writer, status);
	(void)wk_ledger_writer_thaw(writer);
	wk_adder_forget(&handle->adder, writer->lac);
	handle->change_due_ns = UINT64_MAX;
	wk_client_mark_dirty(handle->client, handle);
	wk_client_unlock_and_wake(handle->client);
	return status == WK_OK
	           ? WK_OK
	           : wk_client_fail(error, status, handle->ledger_id, -1, true, "changing the ensemble of ledger %lld: %s",
	                            (long long)handle->ledger_id, wk_status_text(status));
}

void wk_handle_change_abort(wk_handle *handle, wk_status status) {
	wk_client_lock(handle->client);
	if (handle->mode == WK_HANDLE_WRITE) {
		wk_ledger_writer *writer = &handle->adder.writer;
		handle->change_failed |= writer->frozen && writer->status == WK_OK && status == WK_UNAVAILABLE;
		if (status != WK_OK)
			wk_ledger_writer_fail(writer, status);
		(void)wk_ledger_writer_thaw(writer);
		wk_adder_forget(&handle->adder, writer->lac);
		handle->change_due_ns = UINT64_MAX;
		wk_client_mark_dirty(handle->client, handle);
	}
	wk_client_unlock_and_wake(handle->client);
}

void wk_handle_state_get(wk_handle *handle, wk_handle_state *state) {
	pthread_mutex_lock(&handle->lock);
	*state = (wk_handle_state){.last_add_pushed = handle->last_add_pushed, .sealed = handle->sealed};
	pthread_mutex_unlock(&handle->lock);
	state->status = handle->status;
	state->failed_slots = handle->failed_slots;
	state->stuck = handle->is_stuck;
	state->lac = handle->lac;
	state->length = handle->lac_length;
}
