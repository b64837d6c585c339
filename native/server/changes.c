/* changes.c: what changes a ledger's state: fence, explicit LAC, force. */
#include <string.h>

#include "server/service.h"

/* Nothing was done, for want of room: the request is looked at again. */
static bool stalls(wk_service *service, wk_peer *peer, wk_status status, enum wk_stall_rank rank, const uint8_t *frame,
                   size_t size) {
	if (status != WK_WOULD_BLOCK)
		return false;
	wk_peer_stall(service, peer, WK_STALL_JOURNAL, rank, frame, size);
	return true;
}

/* Answered without anything being done. */
static void answer_at_once(wk_service *service, wk_peer *peer, const wk_wire_request *request, uint32_t code) {
	wk_owed owed = wk_owe(service, peer, request);
	wk_reply_code(service, &owed, code);
}

static uint32_t failed(wk_service *service, wk_status status) {
	service->failed |= status == WK_FAILED;
	uint32_t code = wk_code_of(status);
	return code == WK_WIRE_READ_ONLY || code == WK_WIRE_FENCED ? WK_WIRE_IO_ERROR : code;
}

void wk_change_fence(wk_service *service, wk_peer *peer, const wk_wire_request *request, const uint8_t *frame,
                     size_t size) {
	wk_budget_verdict verdict = wk_budget_hold(&service->limits, &service->load, &peer->own, WK_NEED_FENCE);
	if (verdict == WK_BUDGET_REFUSED) {
		answer_at_once(service, peer, request, WK_WIRE_TOO_MANY_REQUESTS);
		return;
	}
	wk_error error;
	uint64_t ticket = 0;
	wk_status status = wk_ledger_fence(service->ns, request->ledger_id, request->key, (uint32_t)request->key_size, 0,
	                                   &ticket, &error);
	if (stalls(service, peer, status, WK_RANK_FENCE, frame, size))
		return;
	if (status != WK_OK) {
		answer_at_once(service, peer, request, status == WK_DELETED ? WK_WIRE_NO_LEDGER : failed(service, status));
		return;
	}
	service->stats.fences++;
	wk_polls_wake_all(service, request->ledger_id);
	/* The answer, of whatever kind, comes once the fence and all that was accepted before are durable. */
	wk_read_job *job = wk_read_job_new(service, peer, request,
	                                   request->operation == WK_WIRE_READ ? WK_JOB_READ : WK_JOB_BATCH);
	if (job == NULL) {
		answer_at_once(service, peer, request, WK_WIRE_IO_ERROR);
		return;
	}
	job->certain = true;
	job->spared = verdict == WK_BUDGET_SPARED;
	wk_wait wait = {.ticket = ticket, .job = job, .kind = WK_WAIT_READ};
	if (!wk_waits_put(service, &wait)) {
		wk_peer_read_ends(service, peer);
		wk_reply_code(service, &job->owed, WK_WIRE_IO_ERROR);
		wk_read_job_release(job);
	}
}

static bool lac_is_on_its_way(const wk_service *service, int64_t ledger_id) {
	const wk_wait_queue *queue = &service->waits;
	for (uint32_t i = 0; i < queue->count; i++) {
		const wk_wait *wait = &queue->waits[(queue->first + i) & (queue->capacity - 1)];
		if (wait->kind == WK_WAIT_LAC && wait->owed.ledger_id == ledger_id)
			return true;
	}
	return false;
}

/*
 * The store tells what is durable, and keeps the last one that it is given; a LAC never falls: one that is not higher is
 * known already.
 */
static bool is_known(const wk_service *service, const wk_wire_request *request, int64_t lac) {
	wk_ledger_info info;
	int64_t stored;
	return wk_ledger_describe_state(service->ns, request->ledger_id, &info, NULL) == WK_OK && info.lac_size > 0 &&
	       wk_wire_lac_decode(info.lac, info.lac_size, request->ledger_id, &stored) == WK_OK && lac <= stored &&
	       info.key_size == request->key_size &&
	       (info.key_size == 0 || memcmp(info.key, request->key, info.key_size) == 0);
}

void wk_change_lac(wk_service *service, wk_peer *peer, const wk_wire_request *request, const uint8_t *frame,
                   size_t size) {
	int64_t lac = -1; /* wk_wire_refusal let no other packet in than one that can be read */
	(void)wk_wire_lac_decode(request->body, request->body_size, request->ledger_id, &lac);
	if (lac_is_on_its_way(service, request->ledger_id)) {
		wk_peer_stall(service, peer, WK_STALL_JOURNAL, WK_RANK_OTHERS, frame, size);
		return;
	}
	if (is_known(service, request, lac)) {
		/* Where it became durable as memory ran out, or the journal failed behind it, nobody has been told of it. */
		bool told = wk_service_raise(service, request->ledger_id, lac);
		answer_at_once(service, peer, request, told ? WK_WIRE_OK : WK_WIRE_IO_ERROR);
		return;
	}
	wk_error error;
	uint64_t ticket = 0;
	wk_status status = wk_ledger_set_lac(service->ns, request->ledger_id, request->key, (uint32_t)request->key_size,
	                                     request->body, (uint32_t)request->body_size, 0, &ticket, &error);
	if (stalls(service, peer, status, WK_RANK_OTHERS, frame, size))
		return;
	if (status != WK_OK) {
		service->failed |= status == WK_FAILED;
		answer_at_once(service, peer, request, status == WK_DELETED ? WK_WIRE_NO_LEDGER : wk_code_of(status));
		return;
	}
	wk_wait wait = {.ticket = ticket, .owed = wk_owe(service, peer, request), .lac = lac, .kind = WK_WAIT_LAC};
	if (!wk_waits_put(service, &wait))
		wk_reply_code(service, &wait.owed, WK_WIRE_IO_ERROR);
}

void wk_change_force(wk_service *service, wk_peer *peer, const wk_wire_request *request, const uint8_t *frame,
                     size_t size) {
	if (wk_budget_stalls_force(&service->load, &peer->own)) {
		wk_peer_stall(service, peer, WK_STALL_JOURNAL, WK_RANK_OTHERS, frame, size);
		return;
	}
	wk_error error;
	uint64_t ticket = 0;
	wk_status status = wk_ledger_force(service->ns, request->ledger_id, 0, &ticket, &error);
	if (stalls(service, peer, status, WK_RANK_OTHERS, frame, size))
		return;
	if (status == WK_NO_LEDGER) { /* there is nothing that could be forced */
		answer_at_once(service, peer, request, WK_WIRE_OK);
		return;
	}
	if (status != WK_OK) {
		answer_at_once(service, peer, request, failed(service, status));
		return;
	}
	wk_wait wait = {.ticket = ticket, .owed = wk_owe(service, peer, request), .kind = WK_WAIT_FORCE};
	if (!wk_waits_put(service, &wait)) {
		wk_reply_code(service, &wait.owed, WK_WIRE_IO_ERROR);
		return;
	}
	peer->own.reads++; /* it takes no room in the journal, which bounds all else that waits for it */
	service->load.forces++;
}
