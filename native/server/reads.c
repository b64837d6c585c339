/* reads.c: reads are asked for, run by the pool, and answered. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "server/read_job.h"

enum { SINGLE_READ_BYTES = 4096 };

/* ---- jobs ---- */

static wk_budget_need need_of(const wk_read_job *job) {
	return (job->flags & WK_WIRE_FENCE) != 0 ? WK_NEED_FENCE : job->kind == WK_JOB_LAC ? WK_NEED_LAC : WK_NEED_ORDINARY;
}

/*
 * What was accepted of its ledger until now is durable when the job is run. False: it need not wait, or cannot, which its
 * status says.
 */
static bool waits_for_accepted(wk_service *service, wk_read_job *job) {
	job->certain = true;
	uint64_t ticket = 0;
	wk_error error;
	wk_status status = wk_ledger_force(service->ns, job->owed.ledger_id, 0, &ticket, &error);
	if (status == WK_NO_LEDGER || (status == WK_OK && ticket == 0))
		return false; /* nothing was accepted since the start */
	wk_budget_verdict verdict = wk_budget_hold(&service->limits, &service->load, &job->owed.peer->own, need_of(job));
	if (verdict == WK_BUDGET_REFUSED) {
		job->status = WK_FULL;
		return false;
	}
	job->spared = verdict == WK_BUDGET_SPARED;
	wk_wait wait = {.ticket = ticket, .job = job, .kind = WK_WAIT_READ};
	if (status == WK_OK && wk_waits_put(service, &wait))
		return true;
	job->status = WK_IO; /* nobody can tell */
	return false;
}

wk_read_job *wk_read_job_new(wk_service *service, wk_peer *peer, const wk_wire_request *request, wk_read_kind kind) {
	wk_read_job *job = calloc(1, sizeof *job);
	if (job == NULL)
		return NULL;
	job->owed = wk_owe(service, peer, request);
	job->kind = kind;
	job->references = 1;
	job->flags = request->flags;
	job->first = request->entry_id;
	job->max_count = 1;
	job->max_bytes = SINGLE_READ_BYTES;
	job->frame_max = (uint32_t)service->options.frame_size_max;
	job->previous_lac = request->previous_lac;
	job->timeout_ms = request->has_timeout ? request->timeout_ms : -1;
	job->stored_lac = WK_LAC_NONE;
	if (kind == WK_JOB_BATCH) {
		uint64_t most = service->options.batch_bytes_max;
		job->max_bytes = request->max_size > 0 && (uint64_t)request->max_size < most ? (uint64_t)request->max_size
		                                                                             : most;
		job->max_count = request->max_count > 0 ? (uint32_t)request->max_count : UINT32_MAX;
	}
	peer->own.reads++;
	return job;
}

void wk_read_job_release(wk_read_job *job) {
	if (--job->references > 0)
		return;
	wk_read_job_clear(job);
	free(job);
}

static void done_with(wk_service *service, wk_read_job *job, uint32_t code) {
	wk_peer_read_ends(service, job->owed.peer);
	wk_owed_release(service, &job->owed, code);
	wk_read_job_release(job);
}

static void refuse(wk_service *service, wk_read_job *job, uint32_t code) {
	wk_wire_reply reply;
	wk_reply_begin(&job->owed, code, &reply);
	wk_reply_put(service, job->owed.peer, &reply, NULL, NULL);
	done_with(service, job, code);
}

static uint32_t code_of(const wk_service *service, const wk_read_job *job) {
	switch (job->status) {
	case WK_OK: /* which one is the last is told by what may be missing, too */
		return job->kind != WK_JOB_LIST && job->first == WK_LAST_ENTRY
		           ? wk_hosted_negative(&service->rules, job->owed.ledger_id, WK_WIRE_OK)
		           : WK_WIRE_OK;
	case WK_NO_LEDGER:
		return wk_hosted_negative(&service->rules, job->owed.ledger_id, WK_WIRE_NO_LEDGER);
	case WK_NOT_FOUND:
		return wk_hosted_negative(&service->rules, job->owed.ledger_id, WK_WIRE_NO_ENTRY);
	case WK_FULL:
		return WK_WIRE_TOO_MANY_REQUESTS;
	case WK_INVALID:
		return WK_WIRE_BAD_REQUEST;
	default:
		return WK_WIRE_IO_ERROR;
	}
}

void wk_reads_submit(wk_service *service, wk_read_job *job) {
	const wk_peer *peer = job->owed.peer;
	if (peer->gone || peer->closing) {
		done_with(service, job, WK_WIRE_OK);
		return;
	}
	if (!job->certain) { /* else it has waited already */
		wk_budget_verdict verdict = wk_budget_turn(&service->limits, &service->load, &peer->own, need_of(job));
		if (verdict == WK_BUDGET_REFUSED) {
			refuse(service, job, WK_WIRE_TOO_MANY_REQUESTS);
			return;
		}
		job->spared = verdict == WK_BUDGET_SPARED;
	}
	wk_read_queue_put(service, job);
	wk_read_queue_feed(service);
}

/* What was acknowledged as deferred is no hole in a list, and may be the last entry. */
static bool must_see_deferred(const wk_service *service, wk_read_kind kind, const wk_wire_request *request) {
	if (kind == WK_JOB_LIST)
		return true;
	if (kind != WK_JOB_LAC && request->entry_id != WK_LAST_ENTRY)
		return false;
	const wk_hosted_ledger *ledger = wk_hosted_find(&service->hosted, request->ledger_id);
	return ledger != NULL && ledger->deferred;
}

void wk_reads_ask(wk_service *service, wk_peer *peer, const wk_wire_request *request) {
	wk_read_kind kind = request->operation == WK_WIRE_READ         ? WK_JOB_READ
	                    : request->operation == WK_WIRE_BATCH_READ ? WK_JOB_BATCH
	                    : request->operation == WK_WIRE_READ_LAC   ? WK_JOB_LAC
	                                                               : WK_JOB_LIST;
	wk_read_job *job = wk_read_job_new(service, peer, request, kind);
	if (job == NULL) {
		wk_owed owed = wk_owe(service, peer, request);
		wk_reply_code(service, &owed, WK_WIRE_IO_ERROR);
		return;
	}
	if (kind == WK_JOB_READ && request->version == WK_WIRE_V3) {
		const wk_hosted_ledger *ledger = wk_hosted_find(&service->hosted, request->ledger_id);
		job->learn_lac = ledger == NULL || !ledger->lac_known;
	}
	if (must_see_deferred(service, kind, request) && waits_for_accepted(service, job))
		return;
	if (job->status != WK_OK) {
		refuse(service, job, code_of(service, job));
		return;
	}
	wk_reads_submit(service, job);
}

/* ---- answers ---- */

/* What was accepted before this moment may still be on its way to the disk: only what is read behind that is absent. */
static bool asks_again(wk_service *service, wk_read_job *job) {
	bool negative = job->status == WK_NOT_FOUND || job->status == WK_NO_LEDGER;
	if (!negative || job->certain)
		return false;
	return waits_for_accepted(service, job);
}

static void learn_lac(wk_service *service, const wk_read_job *job) {
	if (job->stored_lac != WK_LAC_NONE)
		wk_service_raise(service, job->owed.ledger_id, job->stored_lac);
	wk_hosted_ledger *ledger = job->learned ? wk_service_host(service, job->owed.ledger_id) : NULL;
	if (ledger != NULL)
		ledger->lac_known = true;
}

static void put_lac(wk_service *service, const wk_read_job *job, wk_wire_reply *reply) {
	if (job->owed.version != WK_WIRE_V3 || (job->flags & WK_WIRE_FENCE) != 0)
		return;
	const wk_hosted_ledger *ledger = wk_hosted_find(&service->hosted, job->owed.ledger_id);
	reply->has_max_lac = true;
	reply->max_lac = ledger != NULL ? ledger->lac : job->stored_lac; /* none: there was no memory for it */
	reply->lac_update_ms = ledger != NULL && (job->flags & WK_WIRE_LONG_POLL) != 0 ? (uint64_t)ledger->lac_ms : 0;
}

/* An entry that stands in a large block is copied: who does not take its answers must not hold the block. */
static bool is_dense(const wk_entry_batch *batch) {
	size_t count;
	const wk_stored_entry *entries = wk_entry_batch_entries(batch, &count);
	uint64_t size = 0;
	for (size_t i = 0; i < count; i++)
		size += entries[i].size;
	return size >= wk_entry_batch_memory(batch) / 2;
}

static wk_read_job *owner_of_only_entry(wk_read_job *job) {
	return job->batches_count > 0 && is_dense(job->batches[0]) ? job : NULL;
}

static const wk_stored_entry *only_entry(const wk_read_job *job, size_t *count) {
	*count = 0;
	return job->batches_count > 0 ? wk_entry_batch_entries(job->batches[0], count) : NULL;
}

static void answer_entry(wk_service *service, wk_read_job *job, uint32_t code) {
	wk_wire_reply reply;
	bool piggybacks = (job->flags & WK_WIRE_PIGGYBACK) != 0;
	if (piggybacks && code == WK_WIRE_NO_ENTRY)
		code = WK_WIRE_OK; /* striped: the next entry is on other bookies; the LAC is told */
	wk_reply_begin(&job->owed, code, &reply);
	const uint8_t *body = NULL;
	if (code == WK_WIRE_OK) {
		size_t count = 0;
		const wk_stored_entry *entry = only_entry(job, &count);
		if (count > 0) {
			reply.has_body = true;
			reply.body_size = entry->size;
			body = entry->bytes;
			service->stats.read_bytes += entry->size;
		}
		if (piggybacks)
			reply.entry_id = count > 0 ? entry->entry_id : -1;
		put_lac(service, job, &reply);
	}
	wk_reply_put(service, job->owed.peer, &reply, body, owner_of_only_entry(job));
}

static bool put_entry(wk_outbox *outbox, const wk_stored_entry *entry, wk_read_job *owner) {
	uint8_t size[4];
	wk_store_be32(size, (uint32_t)entry->size);
	if (!wk_outbox_put(outbox, size, sizeof size))
		return false;
	return owner != NULL && entry->size > WK_COPY_MAX
	           ? wk_outbox_refer(outbox, entry->bytes, (size_t)entry->size, owner)
	           : wk_outbox_put(outbox, entry->bytes, (size_t)entry->size);
}

static void answer_batch(wk_service *service, wk_read_job *job, uint32_t code) {
	wk_peer *peer = job->owed.peer;
	wk_wire_reply reply;
	wk_reply_begin(&job->owed, code, &reply);
	bool packed = code == WK_WIRE_OK && job->packed_count > 0;
	uint64_t left = job->packed_count;
	if (code == WK_WIRE_OK) {
		reply.body_size = packed ? job->body_size : wk_read_job_fit(job, &left);
		reply.has_body = true;
		service->stats.read_bytes += reply.body_size - 4 * left;
	}
	if (packed) {
		wk_reply_put(service, peer, &reply, job->body, job);
		return;
	}
	wk_reply_put(service, peer, &reply, NULL, NULL);
	if (peer->gone || peer->closing)
		return;
	uint64_t before = peer->filling.total;
	bool put = true;
	for (uint32_t b = 0; b < job->batches_count && code == WK_WIRE_OK; b++) {
		size_t count;
		const wk_stored_entry *entries = wk_entry_batch_entries(job->batches[b], &count);
		wk_read_job *owner = is_dense(job->batches[b]) ? job : NULL;
		for (size_t i = 0; i < count && left > 0 && put; i++, left--)
			put = put_entry(&peer->filling, &entries[i], owner);
	}
	service->load.reply_bytes += peer->filling.total - before;
	if (!put)
		wk_peer_close(service, peer);
}

static void answer_lac(wk_service *service, wk_read_job *job, uint32_t *code) {
	size_t count = 0;
	const wk_stored_entry *entry = only_entry(job, &count);
	/* There is, or may be, a last entry: without it the LAC may be an old one. */
	bool unread = *code == WK_WIRE_IO_ERROR || *code == WK_WIRE_UNKNOWN_STATE;
	if (unread)
		count = 0;
	else if (job->lac_size > 0 || count > 0)
		*code = WK_WIRE_OK; /* one of the two is enough */
	else if (*code == WK_WIRE_NO_LEDGER)
		*code = WK_WIRE_NO_ENTRY;
	wk_wire_reply reply;
	wk_reply_begin(&job->owed, *code, &reply);
	if (job->lac_size > 0 && !unread) {
		reply.lac = job->lac;
		reply.lac_size = job->lac_size;
	}
	if (count > 0) {
		reply.has_body = true;
		reply.body_size = entry->size;
		service->stats.read_bytes += entry->size;
	}
	wk_reply_put(service, job->owed.peer, &reply, count > 0 ? entry->bytes : NULL, owner_of_only_entry(job));
}

static void answer_list(wk_service *service, wk_read_job *job, uint32_t code) {
	wk_wire_reply reply;
	wk_reply_begin(&job->owed, code, &reply);
	if (code == WK_WIRE_OK) {
		reply.has_body = true;
		reply.body_size = job->body_size;
	}
	wk_reply_put(service, job->owed.peer, &reply, code == WK_WIRE_OK ? job->body : NULL, job);
}

static void answer(wk_service *service, wk_read_job *job) {
	if (asks_again(service, job))
		return;
	if (job->learn_lac)
		learn_lac(service, job);
	if (job->kind == WK_JOB_POLL) {
		wk_polls_learned(service, job);
		return;
	}
	uint32_t code = code_of(service, job);
	if (job->kind == WK_JOB_READ)
		answer_entry(service, job, code);
	else if (job->kind == WK_JOB_BATCH)
		answer_batch(service, job, code);
	else if (job->kind == WK_JOB_LAC)
		answer_lac(service, job, &code);
	else
		answer_list(service, job, code);
	done_with(service, job, code);
}

void wk_reads_drop(wk_service *service, wk_peer *peer) {
	for (wk_read_job *job = wk_read_queue_remove(service, peer), *next; job != NULL; job = next) {
		next = job->next;
		done_with(service, job, WK_WIRE_OK);
	}
}

static void answer_all(wk_service *service, wk_read_job *done, bool pooled) {
	while (done != NULL) {
		wk_read_job *job = done;
		done = job->next;
		service->pool_count -= pooled;
		service->load.running--;
		job->owed.peer->own.running--;
		wk_read_queue_go_on(service, job->owed.peer);
		if (!wk_read_queue_take_back(service, job))
			answer(service, job);
	}
}

void wk_reads_answer(wk_service *service) {
	answer_all(service, wk_read_served_take(service), false);
	answer_all(service, wk_read_pool_take(service->pool), true);
	wk_read_queue_feed(service);
}
