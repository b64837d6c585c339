/* operation.c: requests that one call makes and waits for; what went wrong, in words. */
#include "client/driver.h"
#include "io/clock.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LONG_POLL_MS_MAX = 10000 };

static void unused(wk_asker *asker) {
	wk_operation *operation = (wk_operation *)asker; /* it stands first */
	wk_handle *handle = operation->handle;
	operation->destroy(operation);
	wk_handle_release(handle);
}

void wk_operation_init(wk_operation *operation, wk_handle *handle,
                       void (*answered)(wk_asker *, const wk_note *, const wk_wire_reply *),
                       void (*destroy)(wk_operation *)) {
	*operation = (wk_operation){.asker = {.answered = answered, .unused = unused},
	                            .client = handle->client,
	                            .handle = handle,
	                            .destroy = destroy,
	                            .entry_id = -1};
	wk_handle_hold(handle);
}

void wk_operation_end(wk_operation *operation, wk_status status) {
	if (operation->done != 0)
		return;
	operation->status = status;
	__atomic_store_n(&operation->done, 1, __ATOMIC_RELEASE);
	wk_futex_wake(&operation->done, 1);
}

void wk_operation_explain(wk_operation *operation, const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(operation->why, sizeof operation->why, format, arguments);
	va_end(arguments);
}

uint64_t wk_time_left(uint64_t began_ns, uint64_t timeout_ns) {
	if (timeout_ns == UINT64_MAX)
		return UINT64_MAX;
	uint64_t spent_ns = wk_clock_monotonic_ns() - began_ns;
	return spent_ns < timeout_ns ? timeout_ns - spent_ns : 0;
}

wk_status wk_operation_wait(wk_operation *operation, uint64_t timeout_ns) {
	uint64_t began_ns = wk_clock_monotonic_ns();
	while (__atomic_load_n(&operation->done, __ATOMIC_ACQUIRE) == 0) {
		int result = wk_futex_wait(&operation->done, 0, wk_time_left(began_ns, timeout_ns));
		if (__atomic_load_n(&operation->done, __ATOMIC_ACQUIRE) != 0)
			break;
		if (result == -EINTR)
			return WK_INTERRUPTED;
		if (wk_time_left(began_ns, timeout_ns) == 0)
			return WK_TIMEOUT;
	}
	return operation->status;
}

void wk_operation_leave(wk_operation *operation) {
	wk_client *client = operation->client;
	wk_client_lock(client);
	atomic_fetch_add(&client->references, 1); /* the handle may be the last that has one */
	wk_asker_let_go(&operation->asker);
	pthread_mutex_unlock(&client->lock);
	wk_client_drop(client);
}

static bool ask(wk_operation *operation, uint32_t bookie, const wk_wire_request *request, const wk_note *note,
                uint64_t timeout_ns) {
	wk_frame *frame = wk_frame_new(0);
	if (frame == NULL)
		return false;
	wk_frame_finish(frame, request);
	bool asked = wk_dispatcher_ask(operation->client->dispatcher, bookie, &operation->asker, note, request->txn_id,
	                               timeout_ns, frame);
	wk_frame_release(frame);
	return asked;
}

bool wk_operation_ask_read(wk_operation *operation, uint32_t bookie, int64_t entry_id, uint32_t flags,
                           const wk_note *note, uint64_t timeout_ns) {
	const wk_ledger_view *view = &operation->handle->view;
	bool lac = entry_id < -1;
	wk_wire_request request = {.version = WK_WIRE_V3,
	                           .header_version = WK_WIRE_V3,
	                           .operation = lac ? WK_WIRE_READ_LAC : WK_WIRE_READ,
	                           .flags = flags,
	                           .txn_id = wk_dispatcher_number(operation->client->dispatcher),
	                           .ledger_id = view->ledger_id,
	                           .entry_id = lac ? -1 : entry_id};
	if (flags & WK_WIRE_FENCE) {
		request.key = view->master_key;
		request.key_size = sizeof view->master_key;
	}
	return ask(operation, bookie, &request, note, timeout_ns);
}

bool wk_operation_ask_long_poll(wk_operation *operation, uint32_t bookie, int64_t known, uint64_t timeout_ns,
                                const wk_note *note) {
	wk_client *client = operation->client;
	uint64_t most_ns = (uint64_t)LONG_POLL_MS_MAX * 1000000;
	uint64_t wait_ns = timeout_ns < most_ns ? timeout_ns : most_ns;
	wk_wire_request request = {.version = WK_WIRE_V3,
	                           .header_version = WK_WIRE_V3,
	                           .operation = WK_WIRE_READ,
	                           .flags = WK_WIRE_LONG_POLL | WK_WIRE_PIGGYBACK,
	                           .txn_id = wk_dispatcher_number(client->dispatcher),
	                           .ledger_id = operation->handle->view.ledger_id,
	                           .entry_id = -1,
	                           .previous_lac = known,
	                           .has_timeout = true,
	                           .timeout_ms = (int64_t)((wait_ns + 999999) / 1000000)};
	return ask(operation, bookie, &request, note, wait_ns + client->options.read_timeout_ns);
}

const char *wk_reply_text(const wk_wire_reply *reply) {
	if (reply == NULL)
		return "it does not answer";
	switch (reply->code) {
	case WK_WIRE_OK:
		return "its answer is damaged";
	case WK_WIRE_NO_LEDGER:
		return "it knows no such ledger";
	case WK_WIRE_NO_ENTRY:
		return "it has no such entry";
	case WK_WIRE_BAD_REQUEST:
		return "it does not understand the request";
	case WK_WIRE_IO_ERROR:
		return "it cannot read or write (EIO)";
	case WK_WIRE_UNAUTHORIZED:
		return "it has another master key for the ledger";
	case WK_WIRE_FENCED:
		return "the ledger is fenced there";
	case WK_WIRE_READ_ONLY:
		return "it is read-only";
	case WK_WIRE_TOO_MANY_REQUESTS:
		return "it has too many requests";
	case WK_WIRE_UNKNOWN_STATE:
		return "the ledger is in limbo there";
	default:
		return "it refuses the request";
	}
}

wk_status wk_client_fail(wk_error *error, wk_status status, int64_t ledger_id, int64_t entry_id, bool unknown,
                         const char *format, ...) {
	if (error == NULL)
		return status;
	*error = (wk_error){.status = status,
	                    .outcome_unknown = unknown,
	                    .ledger_id = ledger_id,
	                    .entry_id = entry_id,
	                    .sequence_id = -1,
	                    .txid = -1,
	                    .holder_pid = -1};
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(error->text, sizeof error->text, format, arguments);
	va_end(arguments);
	return status;
}
