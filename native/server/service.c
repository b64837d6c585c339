#include "server/service.h"

#include <stdlib.h>

#include "io/event.h"

enum { RETRY_NS = 100000000 };

static bool make_tables(wk_service *service) {
	uint32_t polls = (uint32_t)service->options.reads_max;
	wk_hosted_ledger *slots = malloc(WK_HOSTED_CAPACITY_MIN * sizeof *slots);
	wk_poll *room = malloc(polls * sizeof *room);
	int32_t *heap = malloc(polls * sizeof *heap);
	service->hosted.slots = slots;
	service->polls.polls = room;
	service->polls.heap = heap;
	service->adds.adds = calloc(WK_ADDS_MAX, sizeof *service->adds.adds);
	service->adds.notes = calloc(WK_ADDS_MAX, sizeof *service->adds.notes);
	return slots != NULL && room != NULL && heap != NULL && service->adds.adds != NULL && service->adds.notes != NULL &&
	       wk_hosted_init(&service->hosted, slots, WK_HOSTED_CAPACITY_MIN) == WK_OK &&
	       wk_polls_init(&service->polls, room, heap, polls) == WK_OK;
}

wk_status wk_service_new(wk_namespace *ns, wk_net *net, const wk_server_options *options, wk_service **made) {
	wk_service *service = calloc(1, sizeof *service);
	if (service == NULL)
		return WK_NO_MEMORY;
	service->ns = ns;
	service->net = net;
	service->options = *options;
	service->limits = (wk_budget_limits){.reads_max = options->reads_max,
	                                     .reply_bytes = options->reply_bytes,
	                                     .frame_size_max = options->frame_size_max};
	service->commit_at_ns = UINT64_MAX;
	for (uint32_t rank = 0; rank < WK_RANKS; rank++)
		service->stalled[rank].end = &service->stalled[rank].first;
	service->readers_end = &service->readers;
	service->served_end = &service->served;
	uint64_t large = options->receive_bytes / 2 / options->frame_size_max;
	service->large_left = large < 1 ? 1 : large > UINT32_MAX ? UINT32_MAX : (uint32_t)large;
	service->pool = make_tables(service) ? wk_read_pool_new(ns, options->reader_threads) : NULL;
	if (service->pool == NULL) {
		wk_service_free(service);
		return WK_NO_MEMORY;
	}
	*made = service;
	return WK_OK;
}

void wk_service_commit(wk_service *service) {
	struct wk_ring *ring = service->net->operations->ring(service->net);
	(void)wk_committer_open(service->ns, ring, &service->committer, NULL);
}

bool wk_service_commit_ends(wk_service *service) {
	if (service->committer != NULL && service->commits)
		return false;
	if (service->committer != NULL)
		wk_committer_close(service->committer);
	service->committer = NULL;
	return true;
}

static void drop_job(wk_service *service, wk_read_job *job) {
	service->owed_count--;
	wk_peer_release(job->owed.peer);
	wk_read_job_release(job);
}

void wk_service_free(wk_service *service) {
	service->commits = false;
	(void)wk_service_commit_ends(service);
	/* The net is not asked for anything any more. */
	for (wk_peer *peer = service->peers; peer != NULL; peer = peer->next)
		peer->closing = true;
	while (service->peers != NULL)
		wk_peer_gone(service, service->peers);
	wk_adds_drop(service);
	for (wk_read_job *job = wk_read_served_take(service), *next; job != NULL; job = next) {
		next = job->next;
		drop_job(service, job);
	}
	if (service->pool != NULL)
		for (wk_read_job *job = wk_read_pool_close(service->pool), *next; job != NULL; job = next) {
			next = job->next;
			drop_job(service, job);
		}
	for (; service->waits.count > 0; service->waits.count--) {
		wk_wait *wait = &service->waits.waits[service->waits.first];
		service->waits.first = (service->waits.first + 1) & (service->waits.capacity - 1);
		if (wait->kind == WK_WAIT_READ)
			drop_job(service, wait->job);
		else
			wk_peer_release(wait->owed.peer);
	}
	wk_read_pool_free(service->pool);
	free(service->waits.waits);
	free(service->hosted.slots);
	free(service->polls.polls);
	free(service->polls.heap);
	free(service->adds.adds);
	free(service->adds.notes);
	free(service->limbo_ids);
	free(service->deleted_ids);
	free(service);
}

void wk_service_set_limbo(wk_service *service, bool all, int64_t *ids, size_t count) {
	free(service->limbo_ids);
	service->limbo_ids = ids;
	service->rules.limbo_all = all;
	wk_id_set_init(&service->rules.limbo, ids, count);
}

/* What is kept of a ledger that was deleted goes, unless somebody waits for it: the wait ends by its time. */
static void forget_deleted(wk_service *service, int64_t ledger_id) {
	wk_polls_wake_all(service, ledger_id);
	const wk_hosted_ledger *ledger = wk_hosted_find(&service->hosted, ledger_id);
	if (ledger != NULL && ledger->first_poll == WK_NO_POLL)
		wk_hosted_remove(&service->hosted, ledger_id);
}

void wk_service_set_deleted(wk_service *service, int64_t *ids, size_t count) {
	wk_id_set before = service->rules.deleted, *deleted = &service->rules.deleted;
	wk_id_set_init(deleted, ids, count);
	uint64_t old = 0; /* both rise: of a million a thousand are new */
	for (uint64_t i = 0; i < deleted->count; i++) {
		while (old < before.count && before.ids[old] < deleted->ids[i])
			old++;
		if (old == before.count || before.ids[old] != deleted->ids[i])
			forget_deleted(service, deleted->ids[i]);
	}
	free(service->deleted_ids);
	service->deleted_ids = ids;
}

void wk_service_begin(wk_service *service, uint64_t now_ns, int64_t wall_ms) {
	service->now_ns = now_ns;
	service->wall_ms = wall_ms;
	service->served_count = 0;
}

static void committed(wk_service *service) {
	if (service->committer != NULL)
		service->failed |= wk_committer_collect(service->committer) == WK_FAILED;
}

void wk_service_event(wk_service *service, const wk_net_event *event) {
	wk_peer *peer = (wk_peer *)(uintptr_t)event->tag;
	switch (event->kind) {
	case WK_NET_ACCEPTED:
		wk_peer_accepted(service, event->connection);
		return;
	case WK_NET_RECEIVED:
		if (peer == NULL)
			return;
		service->stats.received_bytes += event->size;
		wk_peer_receive(service, peer, event->bytes, event->size);
		return;
	case WK_NET_SENT:
		if (peer != NULL)
			wk_peer_sent(service, peer);
		return;
	case WK_NET_CLOSED:
		if (peer != NULL) {
			wk_adds_flush(service); /* what it sent was whole, and the batch points to it */
			wk_peer_gone(service, peer);
		}
		return;
	case WK_NET_ACCEPT_FAILED:
		service->stats.connections_refused += event->size;
		service->stats.accept_shortages += event->size == 0;
		return;
	case WK_NET_RODE:
		committed(service);
		return;
	case WK_NET_CONNECTED:
	case WK_NET_READABLE: /* the loop's */
		return;
	}
}

void wk_service_store_event(wk_service *service) {
	uint64_t durable;
	service->failed |= wk_namespace_drain(service->ns, &durable) == WK_FAILED;
	service->armed = 0;
	committed(service);
}

void wk_service_pool_event(wk_service *service) {
	wk_event_take(wk_read_pool_descriptor(service->pool));
}

void wk_service_drain(wk_service *service) {
	service->draining = true;
	for (wk_peer *peer = service->peers; peer != NULL; peer = peer->next)
		wk_peer_hold(service, peer);
}

void wk_service_part(wk_service *service) {
	const struct wk_net_operations *net = service->net->operations;
	for (wk_peer *peer = service->peers; peer != NULL; peer = peer->next) {
		if (net->finish(service->net, peer->id) == 0)
			net->resume(service->net, peer->id);
		else
			wk_peer_close(service, peer);
	}
}

/* Nothing that the store tells would end it. */
static bool first_wait_is_over(const wk_service *service) {
	const wk_wait_queue *queue = &service->waits;
	return queue->count > 0 && (service->failed || queue->waits[queue->first].ticket <= service->durable);
}

static void commit(wk_service *service) {
	uint64_t wait_ns = UINT64_MAX;
	service->commits = service->committer != NULL && wk_committer_push(service->committer, &wait_ns);
	service->commit_at_ns = wait_ns < UINT64_MAX ? service->now_ns + wait_ns : UINT64_MAX;
}

void wk_service_turn(wk_service *service) {
	uint64_t before = service->durable;
	/* Answers let connections go on, whose requests are in the batch then: until nothing is left to do. */
	bool first = true;
	do {
		wk_adds_flush(service);
		commit(service);
		wk_waits_answer(service);
		wk_reads_answer(service);
		wk_polls_expire(service);
		bool moved = service->durable != before || service->failed;
		before = service->durable;
		bool journal = moved || (first && service->waits.count == 0);
		if (journal || service->unblocked)
			wk_peers_go_on(service, journal);
		first = false;
	} while (service->adds.count > 0 || first_wait_is_over(service) || service->served != NULL ||
	         (service->unblocked && wk_peers_stall(service)));
	if (service->waits.count > 0)
		commit(service); /* what was accepted behind the last look, and nobody else writes */
	wk_peers_sweep(service);
	wk_outboxes_send(service);
	/* The store tells when the first of those that wait is durable. */
	uint64_t ticket = service->commits           ? 0
	                  : service->waits.count > 0 ? service->waits.waits[service->waits.first].ticket
	                  : wk_peers_stall(service)  ? service->durable + 1
	                                             : 0;
	if (ticket != service->armed && !service->failed) {
		service->armed = ticket;
		wk_namespace_arm(service->ns, ticket);
	}
	service->stats.ledgers = service->hosted.count;
	service->stats.ledgers_memory = service->hosted.capacity * sizeof *service->hosted.slots;
	service->stats.failed = service->failed;
}

uint64_t wk_service_deadline(const wk_service *service) {
	uint64_t deadline = wk_polls_deadline(&service->polls);
	if ((service->partial_count > 0 || service->sending_count > 0) && service->next_sweep_ns < deadline)
		deadline = service->next_sweep_ns;
	if (service->commit_at_ns < deadline)
		deadline = service->commit_at_ns;
	if (wk_peers_stall(service) && service->now_ns + RETRY_NS < deadline)
		deadline = service->now_ns + RETRY_NS;
	return deadline;
}

void wk_service_descriptors(const wk_service *service, int *store, int *pool) {
	*store = wk_namespace_eventfd(service->ns);
	*pool = wk_read_pool_descriptor(service->pool);
}

bool wk_service_is_idle(const wk_service *service) {
	return service->owed_count == 0 && service->sending_count == 0 && service->listed == NULL;
}
