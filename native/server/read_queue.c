/*
 * read_queue.c: reads that wait for their turn: what memory has is read at once, the rest by the pool.
 *
 * Connections take turns, one read each, so that whoever asks for much waits behind its own reads. The pool is given
 * little more than it runs, and one place in it is never a connection's that has others: who comes with a small read
 * does not wait for a queue of large ones. What memory has is looked for when a read comes to be its connection's first,
 * and needs no place.
 *
 * What a connection asked for and does not take fills memory: one that has unsent answers gets no more than its share,
 * and never the last quarter of what all may have. That is for those that have nothing unsent; a large entry does not
 * fit there, and waits for room in the rest. So a crowd that never reads its answers is in nobody's way who asks for one
 * small entry.
 */
#include "server/read_job.h"

enum { JOBS_A_THREAD = 2, SMALL_ANSWER_MAX = 65536, REFUSED_MAX = 256, SERVED_MAX = 256 };

static bool may_read(const wk_service *service, const wk_peer *peer) {
	return wk_budget_may_read(&service->limits, &service->load, &peer->own, wk_peer_unsent(peer),
	                          peer->reads_first->large);
}

/* It was given some and did not take it yet, or will be. */
static bool has_bytes(const wk_peer *peer) {
	return wk_peer_unsent(peer) > 0 || peer->own.running > 0;
}

/* ---- the ring of connections ---- */

static void join(wk_service *service, wk_peer *peer) {
	peer->next_reader = NULL;
	peer->parked = false;
	peer->untried = !peer->reads_first->missed;
	service->untried_count += peer->untried;
	service->ring_count++;
	*service->readers_end = peer;
	service->readers_end = &peer->next_reader;
}

static wk_peer *leave(wk_service *service) {
	wk_peer *peer = service->readers;
	service->readers = peer->next_reader;
	if (service->readers == NULL)
		service->readers_end = &service->readers;
	service->ring_count--;
	service->untried_count -= peer->untried;
	return peer;
}

static wk_read_job *pop(wk_service *service, wk_peer *peer) {
	wk_read_job *job = peer->reads_first;
	peer->reads_first = job->next;
	if (peer->reads_first == NULL)
		peer->reads_end = &peer->reads_first;
	peer->own.waiting--;
	service->load.waiting--;
	service->load.spared -= job->spared;
	service->load.readers -= peer->own.waiting == 0;
	job->next = NULL;
	return job;
}

/* ---- in and out ---- */

static void enter(wk_service *service, const wk_read_job *job) {
	wk_peer *peer = job->owed.peer;
	peer->own.waiting++;
	service->load.waiting++;
	service->load.spared += job->spared;
	service->load.readers += peer->own.waiting == 1;
}

static wk_read_job *begin(wk_service *service, wk_peer *peer) {
	wk_read_job *job = pop(service, peer);
	service->load.running++;
	peer->own.running++;
	return job;
}

/*
 * The first reads that wait of this connection, as far as memory has them, by the loop itself. Not too many in a turn:
 * adds wait meanwhile. False: it has none left.
 */
static bool serve(wk_service *service, wk_peer *peer) {
	while (peer->own.waiting > 0 && !peer->reads_first->missed && service->served_count < SERVED_MAX &&
	       may_read(service, peer)) {
		wk_read_job *job = peer->reads_first;
		job->missed = !wk_read_job_try(service->ns, job);
		if (job->missed)
			break;
		service->served_count++;
		*service->served_end = begin(service, peer);
		service->served_end = &job->next;
	}
	return peer->own.waiting > 0;
}

void wk_read_queue_put(wk_service *service, wk_read_job *job) {
	wk_peer *peer = job->owed.peer;
	job->missed = false; /* by an earlier try: it may have become durable since */
	job->next = NULL;
	if (peer->own.waiting == 0)
		peer->reads_end = &peer->reads_first;
	*peer->reads_end = job;
	peer->reads_end = &job->next;
	enter(service, job);
	if (peer->own.waiting == 1 && serve(service, peer))
		join(service, peer);
}

static uint64_t answer_size(const wk_read_job *job) {
	uint64_t size = job->body_size;
	for (uint32_t i = 0; i < job->batches_count; i++) {
		size_t count;
		const wk_stored_entry *entries = wk_entry_batch_entries(job->batches[i], &count);
		for (size_t k = 0; k < count; k++)
			size += entries[k].size;
	}
	return size;
}

bool wk_read_queue_take_back(wk_service *service, wk_read_job *job) {
	wk_peer *peer = job->owed.peer;
	if (job->large || peer->gone || peer->closing || service->load.reply_bytes < wk_budget_common(&service->limits) ||
	    answer_size(job) <= SMALL_ANSWER_MAX)
		return false;
	wk_read_job_clear(job);
	job->large = true;
	if (peer->own.waiting == 0)
		peer->reads_end = &job->next;
	job->next = peer->reads_first;
	peer->reads_first = job;
	enter(service, job);
	if (peer->own.waiting == 1)
		join(service, peer);
	return true;
}

void wk_read_queue_go_on(wk_service *service, wk_peer *peer) {
	if (peer->parked)
		join(service, peer);
}

static uint32_t pool_jobs(const wk_service *service) {
	uint32_t threads = service->options.reader_threads;
	return JOBS_A_THREAD * (threads > 0 ? threads : 1);
}

static void hand_over(wk_service *service, wk_peer *peer) {
	service->pool_count++;
	wk_read_pool_put(service->pool, begin(service, peer));
}

static bool has_place(const wk_service *service, uint32_t most) {
	return service->pool_count <= most || (service->untried_count > 0 && service->served_count < SERVED_MAX);
}

void wk_read_queue_feed(wk_service *service) {
	uint32_t refused = 0, most = pool_jobs(service);
	while (refused < service->ring_count && refused < REFUSED_MAX && has_place(service, most)) {
		wk_peer *peer = leave(service);
		if (!serve(service, peer))
			continue;
		bool may = may_read(service, peer);
		bool goes = may && service->pool_count <= most && peer->own.running < most;
		if (goes)
			hand_over(service, peer);
		peer->parked = !may && has_bytes(peer); /* until it took some of it */
		if (!peer->parked && (!goes || serve(service, peer)))
			join(service, peer);
		refused = goes ? 0 : refused + !peer->parked;
	}
	service->reads_starve = service->load.readers > 0 && service->load.running == 0;
}

wk_read_job *wk_read_served_take(wk_service *service) {
	wk_read_job *served = service->served;
	service->served = NULL;
	service->served_end = &service->served;
	return served;
}

wk_read_job *wk_read_queue_remove(wk_service *service, wk_peer *peer) {
	wk_read_job *first = peer->own.waiting > 0 ? peer->reads_first : NULL;
	if (first == NULL)
		return NULL;
	wk_peer **at = &service->readers;
	while (!peer->parked && *at != peer)
		at = &(*at)->next_reader;
	if (!peer->parked) {
		*at = peer->next_reader;
		if (*at == NULL)
			service->readers_end = at;
		service->ring_count--;
		service->untried_count -= peer->untried;
	}
	peer->parked = false;
	service->load.readers--;
	service->load.waiting -= peer->own.waiting;
	for (const wk_read_job *job = first; job != NULL; job = job->next)
		service->load.spared -= job->spared;
	peer->own.waiting = 0;
	peer->reads_first = NULL;
	return first;
}
