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

/* What it was given and did not take yet, and what may become of its reads. */
static uint64_t own_bytes(const wk_service *service, const wk_peer *peer) {
	return peer->filling.total + peer->sent.total + peer->reads_running * service->options.frame_size_max;
}

/* For those that have answers unsent, and for large ones. */
static uint64_t common_bytes(const wk_service *service) {
	return service->options.reply_bytes - service->options.reply_bytes / 4;
}

/* Each read that is under way may be answered with as much as a frame takes. */
static bool has_room(const wk_service *service, uint64_t limit) {
	uint64_t expected = service->reply_bytes + (uint64_t)service->reads_count * service->options.frame_size_max;
	return service->reads_count == 0 ? service->reply_bytes < limit : expected < limit;
}

static bool may_read(const wk_service *service, const wk_peer *peer) {
	uint64_t own = own_bytes(service, peer);
	if (has_room(service, common_bytes(service)))
		return own == 0 || own < wk_peer_share(service);
	return own == 0 && !peer->reads_first->large && has_room(service, service->options.reply_bytes);
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
	peer->reads_waiting--;
	service->reads_waiting--;
	service->readers_count -= peer->reads_waiting == 0;
	job->next = NULL;
	return job;
}

/* ---- in and out ---- */

bool wk_read_queue_is_full(const wk_service *service, const wk_peer *peer) {
	uint64_t most = service->options.reads_max;
	return service->reads_waiting >= most && peer->reads_waiting > 0 &&
	       peer->reads_waiting >= most / 2 / service->readers_count;
}

bool wk_reads_held_are_full(const wk_service *service, const wk_peer *peer) {
	/* Who asked for hardly anything is heard: there is no more of that than there are connections. */
	return service->reads_held + service->reads_waiting >= service->options.reads_max && peer->reads > 1;
}

static void enter(wk_service *service, wk_peer *peer) {
	peer->reads_waiting++;
	service->reads_waiting++;
	service->readers_count += peer->reads_waiting == 1;
}

static wk_read_job *begin(wk_service *service, wk_peer *peer) {
	wk_read_job *job = pop(service, peer);
	service->reads_count++;
	peer->reads_running++;
	return job;
}

/*
 * The first reads that wait of this connection, as far as memory has them, by the loop itself. Not too many in a turn:
 * adds wait meanwhile. False: it has none left.
 */
static bool serve(wk_service *service, wk_peer *peer) {
	while (peer->reads_waiting > 0 && !peer->reads_first->missed && service->served_count < SERVED_MAX &&
	       may_read(service, peer)) {
		wk_read_job *job = peer->reads_first;
		job->missed = !wk_read_job_try(service->ns, job);
		if (job->missed)
			break;
		service->served_count++;
		*service->served_end = begin(service, peer);
		service->served_end = &job->next;
	}
	return peer->reads_waiting > 0;
}

void wk_read_queue_put(wk_service *service, wk_read_job *job) {
	wk_peer *peer = job->owed.peer;
	job->missed = false; /* by an earlier try: it may have become durable since */
	job->next = NULL;
	if (peer->reads_waiting == 0)
		peer->reads_end = &peer->reads_first;
	*peer->reads_end = job;
	peer->reads_end = &job->next;
	enter(service, peer);
	if (peer->reads_waiting == 1 && serve(service, peer))
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
	if (job->large || peer->gone || peer->closing || service->reply_bytes < common_bytes(service) ||
	    answer_size(job) <= SMALL_ANSWER_MAX)
		return false;
	wk_read_job_clear(job);
	job->large = true;
	if (peer->reads_waiting == 0)
		peer->reads_end = &job->next;
	job->next = peer->reads_first;
	peer->reads_first = job;
	enter(service, peer);
	if (peer->reads_waiting == 1)
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
		bool goes = may && service->pool_count <= most && peer->reads_running < most;
		if (goes)
			hand_over(service, peer);
		peer->parked = !may && own_bytes(service, peer) > 0; /* until it took some of it */
		if (!peer->parked && (!goes || serve(service, peer)))
			join(service, peer);
		refused = goes ? 0 : refused + !peer->parked;
	}
	service->reads_starve = service->readers_count > 0 && service->reads_count == 0;
}

wk_read_job *wk_read_served_take(wk_service *service) {
	wk_read_job *served = service->served;
	service->served = NULL;
	service->served_end = &service->served;
	return served;
}

wk_read_job *wk_read_queue_remove(wk_service *service, wk_peer *peer) {
	wk_read_job *first = peer->reads_waiting > 0 ? peer->reads_first : NULL;
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
	service->readers_count--;
	service->reads_waiting -= peer->reads_waiting;
	peer->reads_waiting = 0;
	peer->reads_first = NULL;
	return first;
}
