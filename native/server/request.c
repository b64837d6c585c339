/* request.c: a whole frame is decoded and goes where it belongs. */
#include <stdlib.h>

#include "server/service.h"

/* A request that had to wait came when its connection stalled, not when it is looked at again. */
static uint64_t came_at_ns(const wk_service *service, const wk_peer *peer) {
	return peer->backlog != NULL && peer->backlog->walked ? peer->backlog->since_ns : service->now_ns;
}

wk_owed wk_owe(wk_service *service, wk_peer *peer, const wk_wire_request *request) {
	peer->references++;
	service->owed_count++;
	return (wk_owed){.peer = peer,
	                 .began_ns = came_at_ns(service, peer),
	                 .txn_id = request->txn_id,
	                 .ledger_id = request->ledger_id,
	                 .entry_id = request->entry_id,
	                 .header_version = request->header_version,
	                 .version = (uint8_t)request->version,
	                 .operation = (uint8_t)request->operation};
}

wk_hosted_ledger *wk_service_host(wk_service *service, int64_t ledger_id) {
	wk_hosted_ledger *ledger = NULL;
	wk_status status = wk_hosted_put(&service->hosted, ledger_id, &ledger);
	if (status == WK_FULL) {
		uint32_t capacity = service->hosted.capacity * 2;
		wk_hosted_ledger *slots = malloc(capacity * sizeof *slots), *old = NULL;
		if (slots == NULL || wk_hosted_grow(&service->hosted, slots, capacity, &old) != WK_OK) {
			free(slots);
			return NULL;
		}
		free(old);
		status = wk_hosted_put(&service->hosted, ledger_id, &ledger);
	}
	return status == WK_OK ? ledger : NULL;
}

uint32_t wk_code_of(wk_status status) {
	switch (status) {
	case WK_OK:
		return WK_WIRE_OK;
	case WK_FENCED:
	case WK_DELETED:
		return WK_WIRE_FENCED;
	case WK_WRONG_KEY:
		return WK_WIRE_UNAUTHORIZED;
	case WK_INVALID:
	case WK_TOO_LARGE:
		return WK_WIRE_BAD_REQUEST;
	case WK_NO_SPACE:
		return WK_WIRE_READ_ONLY; /* the client chooses another bookie */
	default:
		return WK_WIRE_IO_ERROR;
	}
}

static void answer_info(wk_service *service, wk_peer *peer, const wk_wire_request *request) {
	wk_owed owed = wk_owe(service, peer, request);
	wk_wire_reply reply;
	wk_reply_begin(&owed, WK_WIRE_OK, &reply);
	reply.has_space = true;
	reply.wanted = request->wanted;
	reply.total_bytes = (int64_t)service->total_space;
	reply.free_bytes = (int64_t)service->free_space;
	wk_reply_put(service, peer, &reply, NULL, NULL);
	wk_owed_release(service, &owed, WK_WIRE_OK);
}

/* As Java's AuthDisabledPlugin: everybody is welcome. */
static void answer_auth(wk_service *service, wk_peer *peer, const wk_wire_request *request) {
	static const char name[] = "AuthDisabledPlugin";
	wk_owed owed = wk_owe(service, peer, request);
	wk_wire_reply reply;
	wk_reply_begin(&owed, WK_WIRE_OK, &reply);
	reply.auth_name = (const uint8_t *)name;
	reply.auth_name_size = sizeof name - 1;
	wk_reply_put(service, peer, &reply, NULL, NULL);
	wk_owed_release(service, &owed, WK_WIRE_OK);
}

static void refuse(wk_service *service, wk_peer *peer, const wk_wire_request *request, uint32_t code, bool bare) {
	wk_owed owed = wk_owe(service, peer, request);
	wk_wire_reply reply;
	wk_reply_begin(&owed, code, &reply);
	reply.bare = bare;
	wk_reply_put(service, peer, &reply, NULL, NULL);
	wk_owed_release(service, &owed, code);
}

static void dispatch(wk_service *service, wk_peer *peer, const wk_wire_request *request, const uint8_t *frame,
                     size_t size) {
	switch (request->operation) {
	case WK_WIRE_READ:
		if ((request->flags & WK_WIRE_FENCE) != 0)
			wk_change_fence(service, peer, request, frame, size);
		else if ((request->flags & WK_WIRE_LONG_POLL) != 0)
			wk_polls_ask(service, peer, request);
		else
			wk_reads_ask(service, peer, request);
		return;
	case WK_WIRE_BATCH_READ:
		if ((request->flags & WK_WIRE_FENCE) != 0)
			wk_change_fence(service, peer, request, frame, size);
		else
			wk_reads_ask(service, peer, request);
		return;
	case WK_WIRE_READ_LAC:
	case WK_WIRE_LIST_ENTRIES:
		wk_reads_ask(service, peer, request);
		return;
	case WK_WIRE_WRITE_LAC:
		wk_change_lac(service, peer, request, frame, size);
		return;
	case WK_WIRE_FORCE:
		wk_change_force(service, peer, request, frame, size);
		return;
	case WK_WIRE_BOOKIE_INFO:
		answer_info(service, peer, request);
		return;
	case WK_WIRE_AUTH:
		answer_auth(service, peer, request);
		return;
	default:
		refuse(service, peer, request, WK_WIRE_BAD_REQUEST, true);
	}
}

/* A peer that does not read its answers must not fill the memory with them: nothing more of it is looked at. */
static enum wk_stall has_too_much(const wk_service *service, const wk_peer *peer) {
	switch (wk_budget_excess_of(&service->limits, &service->load, &peer->own, wk_peer_unsent(peer))) {
	case WK_EXCESS_UNSENT:
		return WK_STALL_OUTPUT;
	case WK_EXCESS_READS:
		return WK_STALL_READS;
	default:
		return 0;
	}
}

/* Those of a batch fare alike: where there is no room for writers' there may be some for a recovery's. */
static bool joins_batch(const wk_service *service, const wk_wire_request *request) {
	const wk_add_batch *batch = &service->adds;
	bool recovers = (request->flags & WK_WIRE_RECOVERY) != 0;
	return batch->count == 0 || recovers == ((batch->adds[0].flags & WK_ADD_RECOVERY) != 0);
}

/* A recovery add comes before writers that wait for room, and behind others of its kind that do. */
static bool may_pass(const wk_service *service) {
	return service->stalled[WK_RANK_RECOVERY].journal == 0 && wk_budget_recoveries_pass(&service->load);
}

void wk_request_handle(wk_service *service, wk_peer *peer, const uint8_t *frame, size_t size) {
	wk_wire_request request;
	uint32_t version = peer->version;
	wk_status status = wk_wire_request_decode(frame + WK_FRAME_PREFIX_SIZE, size - WK_FRAME_PREFIX_SIZE, &version,
	                                          &request);
	if (status != WK_OK) {
		service->stats.protocol_errors++;
		wk_peer_close(service, peer);
		return;
	}
	bool bare = false;
	uint32_t refusal = wk_wire_refusal(&request, &bare);
	if (refusal == WK_WIRE_OK)
		refusal = wk_hosted_judge(&service->rules, &request);
	bool adds = request.operation == WK_WIRE_ADD && refusal == WK_WIRE_OK;
	if (!adds || has_too_much(service, peer) != 0 || !joins_batch(service, &request))
		wk_adds_flush(service); /* what comes behind an add sees that it was accepted */
	uint32_t why = peer->stalls & ~(uint32_t)WK_STALL_INPUT;
	if (why == 0)
		why = has_too_much(service, peer);
	bool recovers = adds && (request.flags & WK_WIRE_RECOVERY) != 0;
	if (why == 0 && adds && service->no_room && !(recovers && may_pass(service)))
		why = WK_STALL_JOURNAL;
	if (why != 0) {
		wk_peer_stall(service, peer, (enum wk_stall)why, recovers ? WK_RANK_RECOVERY : WK_RANK_OTHERS, frame, size);
		return;
	}
	peer->version = version;
	if (refusal != WK_WIRE_OK)
		refuse(service, peer, &request, refusal, bare);
	else if (adds)
		wk_adds_put(service, peer, &request, frame, size);
	else
		dispatch(service, peer, &request, frame, size);
}
