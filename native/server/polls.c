/* polls.c: LACs rise, and long polls that wait for them are answered. */
#include "server/service.h"

void wk_polls_ask(wk_service *service, wk_peer *peer, const wk_wire_request *request) {
	wk_read_job *job = wk_read_job_new(service, peer, request, WK_JOB_POLL);
	if (job == NULL) {
		wk_owed owed = wk_owe(service, peer, request);
		wk_reply_code(service, &owed, WK_WIRE_IO_ERROR);
		return;
	}
	const wk_hosted_ledger *ledger = wk_hosted_find(&service->hosted, request->ledger_id);
	job->learn_lac = ledger == NULL || !ledger->lac_known;
	if (job->learn_lac)
		wk_reads_submit(service, job);
	else
		wk_polls_learned(service, job);
}

static void end_poll(wk_service *service, wk_read_job *job, uint32_t code) {
	job->kind = WK_JOB_READ;
	wk_wire_reply reply;
	wk_reply_begin(&job->owed, code, &reply);
	const wk_hosted_ledger *ledger = wk_hosted_find(&service->hosted, job->owed.ledger_id);
	if (code == WK_WIRE_OK) {
		reply.entry_id = -1;
		reply.has_max_lac = true;
		reply.max_lac = ledger != NULL ? ledger->lac : WK_LAC_NONE;
		reply.lac_update_ms = ledger != NULL ? (uint64_t)ledger->lac_ms : 0;
	}
	wk_peer *peer = job->owed.peer;
	wk_reply_put(service, peer, &reply, NULL, NULL);
	wk_peer_read_ends(service, peer);
	wk_owed_release(service, &job->owed, code);
	wk_read_job_release(job);
}

/* The wait is over, for one reason or another: what the LAC allows is read. */
static void go_on(wk_service *service, wk_read_job *job) {
	const wk_hosted_ledger *ledger = wk_hosted_find(&service->hosted, job->owed.ledger_id);
	int64_t lac = ledger != NULL ? ledger->lac : WK_LAC_NONE;
	bool piggybacks = (job->flags & WK_WIRE_PIGGYBACK) != 0;
	if (piggybacks && lac <= job->previous_lac) {
		end_poll(service, job, WK_WIRE_OK);
		return;
	}
	if (piggybacks)
		job->first = job->previous_lac + 1;
	job->kind = WK_JOB_READ;
	job->learn_lac = false;
	job->certain = false;
	wk_reads_submit(service, job);
}

void wk_polls_learned(wk_service *service, wk_read_job *job) {
	if (job->status != WK_OK) {
		uint32_t code = job->status == WK_NO_LEDGER
		                    ? wk_hosted_negative(&service->rules, job->owed.ledger_id, WK_WIRE_NO_LEDGER)
		                    : WK_WIRE_IO_ERROR;
		end_poll(service, job, code);
		return;
	}
	wk_peer *peer = job->owed.peer;
	wk_hosted_ledger *ledger = wk_service_host(service, job->owed.ledger_id);
	if (ledger == NULL) {
		end_poll(service, job, WK_WIRE_IO_ERROR);
		return;
	}
	if (ledger->lac > job->previous_lac || job->timeout_ms <= 0 || peer->gone || service->draining) {
		go_on(service, job);
		return;
	}
	uint64_t most = service->options.poll_timeout_max_ns;
	uint64_t timeout_ns = (uint64_t)job->timeout_ms < most / 1000000 ? (uint64_t)job->timeout_ms * 1000000 : most;
	int32_t poll;
	if (wk_polls_add(&service->polls, ledger, job->previous_lac, service->now_ns + timeout_ns,
	                 (uint64_t)(uintptr_t)peer, &peer->first_poll, (uint64_t)(uintptr_t)job, &poll) != WK_OK) {
		end_poll(service, job, WK_WIRE_TOO_MANY_REQUESTS);
		return;
	}
	wk_peer_read_ends(service, peer); /* who waits costs little, and may wait long: others behind it do not */
	service->stats.long_polls++;
}

static void end_wait(wk_service *service, wk_hosted_ledger *ledger, int32_t at) {
	wk_read_job *job = (wk_read_job *)(uintptr_t)service->polls.polls[at].tag;
	wk_polls_remove(&service->polls, at, ledger, &job->owed.peer->first_poll);
	job->owed.peer->own.reads++;
	go_on(service, job);
}

/* `go_on` may make room in the table of ledgers: it is asked again each time. */
static void wake(wk_service *service, int64_t ledger_id, bool all) {
	for (;;) {
		wk_hosted_ledger *ledger = wk_hosted_find(&service->hosted, ledger_id);
		int32_t at = ledger != NULL ? wk_polls_ready(&service->polls, ledger, all) : WK_NO_POLL;
		if (at == WK_NO_POLL)
			return;
		end_wait(service, ledger, at);
	}
}

bool wk_service_raise(wk_service *service, int64_t ledger_id, int64_t lac) {
	wk_hosted_ledger *ledger = wk_hosted_find(&service->hosted, ledger_id);
	if (ledger == NULL)
		ledger = wk_service_host(service, ledger_id);
	if (ledger != NULL && wk_hosted_raise(ledger, lac, service->wall_ms) && ledger->first_poll != WK_NO_POLL)
		wake(service, ledger_id, false);
	return ledger != NULL;
}

void wk_polls_wake_all(wk_service *service, int64_t ledger_id) {
	wake(service, ledger_id, true);
}

void wk_polls_expire(wk_service *service) {
	uint64_t until = service->draining ? UINT64_MAX : service->now_ns;
	for (;;) {
		int32_t at = wk_polls_expired(&service->polls, until);
		if (at == WK_NO_POLL)
			return;
		end_wait(service, wk_hosted_find(&service->hosted, service->polls.polls[at].ledger_id), at);
	}
}

void wk_polls_drop(wk_service *service, wk_peer *peer) {
	while (peer->first_poll != WK_NO_POLL) {
		int32_t at = peer->first_poll;
		end_wait(service, wk_hosted_find(&service->hosted, service->polls.polls[at].ledger_id), at);
	}
}
