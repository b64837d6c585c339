/* waits.c: what is accepted, in the order of its tickets, until it is durable. */
#include <stdlib.h>

#include "server/service.h"

enum { WAITS_MIN = 256 };

bool wk_waits_reserve(wk_service *service, uint32_t more) {
	wk_wait_queue *queue = &service->waits;
	uint32_t capacity = queue->capacity;
	if (queue->count + more <= capacity)
		return true;
	for (capacity = capacity == 0 ? WAITS_MIN : capacity; capacity < queue->count + more;)
		capacity *= 2;
	wk_wait *waits = malloc(capacity * sizeof *waits);
	if (waits == NULL)
		return false;
	for (uint32_t i = 0; i < queue->count; i++)
		waits[i] = queue->waits[(queue->first + i) & (queue->capacity - 1)];
	free(queue->waits);
	*queue = (wk_wait_queue){.waits = waits, .capacity = capacity, .count = queue->count};
	return true;
}

bool wk_waits_put(wk_service *service, const wk_wait *wait) {
	wk_wait_queue *queue = &service->waits;
	if (!wk_waits_reserve(service, 1))
		return false;
	wk_wait *put = &queue->waits[(queue->first + queue->count) & (queue->capacity - 1)];
	*put = *wait;
	/* What was accepted earlier may have the lower ticket: it waits a block longer, and the queue stays in order. */
	if (queue->count > 0) {
		const wk_wait *last = &queue->waits[(queue->first + queue->count - 1) & (queue->capacity - 1)];
		put->ticket = put->ticket > last->ticket ? put->ticket : last->ticket;
	}
	queue->count++;
	if (wait->kind == WK_WAIT_READ) {
		service->load.held++;
		service->load.spared += wait->job->spared;
	}
	return true;
}

static void go_on(wk_service *service, wk_wait *wait, bool durable) {
	uint32_t code = durable ? WK_WIRE_OK : WK_WIRE_IO_ERROR;
	if (wait->kind == WK_WAIT_READ) {
		service->load.held--;
		service->load.spared -= wait->job->spared;
		if (durable) {
			wk_reads_submit(service, wait->job);
			return;
		}
		wk_peer_read_ends(service, wait->job->owed.peer);
		wk_reply_code(service, &wait->job->owed, code);
		wk_read_job_release(wait->job);
		return;
	}
	if (wait->kind == WK_WAIT_FORCE) {
		service->load.forces--;
		wk_peer_read_ends(service, wait->owed.peer);
	}
	if (durable && wait->kind == WK_WAIT_LAC && !wk_service_raise(service, wait->owed.ledger_id, wait->lac))
		code = WK_WIRE_IO_ERROR;
	wk_reply_code(service, &wait->owed, code);
}

void wk_waits_answer(wk_service *service) {
	uint64_t durable = wk_namespace_durable(service->ns);
	service->durable = durable;
	wk_wait_queue *queue = &service->waits;
	while (queue->count > 0) {
		wk_wait wait = queue->waits[queue->first];
		bool is_durable = wait.ticket <= durable;
		if (!is_durable && !service->failed)
			break;
		queue->first = (queue->first + 1) & (queue->capacity - 1);
		queue->count--;
		go_on(service, &wait, is_durable);
	}
}
