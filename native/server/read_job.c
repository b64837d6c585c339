/* read_job.c: a read, as a thread of the pool runs it: nothing of the service is touched. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "server/entry_list.h"
#include "server/read_job.h"

enum { BATCHES_MIN = 4, BATCH_OVERHEAD = 4, BATCH_HEAD_SIZE = 36 };
enum { HELD_MAX = 1 << 20 }; /* of one read of the store, and of what is held unpacked */

void wk_read_job_clear(wk_read_job *job) {
	for (uint32_t i = 0; i < job->batches_count; i++)
		wk_entry_batch_release(job->batches[i]);
	free(job->batches);
	free(job->body);
	job->batches = NULL;
	job->body = NULL;
	job->batches_count = job->batches_capacity = 0;
	job->body_size = 0;
	job->packed_count = 0;
}

static bool keep(wk_read_job *job, wk_entry_batch *batch) {
	if (job->batches_count == job->batches_capacity) {
		uint32_t capacity = job->batches_capacity == 0 ? BATCHES_MIN : job->batches_capacity * 2;
		wk_entry_batch **batches = realloc(job->batches, capacity * sizeof *batches);
		if (batches == NULL) {
			wk_entry_batch_release(batch);
			return false;
		}
		job->batches = batches;
		job->batches_capacity = capacity;
	}
	job->batches[job->batches_count++] = batch;
	return true;
}

uint64_t wk_read_job_fit(const wk_read_job *job, uint64_t *fitting) {
	uint64_t size = BATCH_HEAD_SIZE + job->body_size;
	*fitting = 0;
	for (uint32_t b = 0; b < job->batches_count; b++) {
		size_t count;
		const wk_stored_entry *entries = wk_entry_batch_entries(job->batches[b], &count);
		for (size_t i = 0; i < count; i++) {
			uint64_t more = size + BATCH_OVERHEAD + entries[i].size;
			if (job->packed_count + *fitting > 0 && (more > job->max_bytes || more > job->frame_max))
				return size - BATCH_HEAD_SIZE;
			size = more;
			(*fitting)++;
		}
	}
	return size - BATCH_HEAD_SIZE;
}

/*
 * What is sent is put together here, beside the loop, which would copy it entry by entry while adds wait; and what other
 * ledgers have between the entries is held no longer. False: no memory, and nothing is changed.
 */
static bool pack(wk_read_job *job) {
	uint64_t left, size = wk_read_job_fit(job, &left);
	uint8_t *body = realloc(job->body, size);
	if (body == NULL)
		return false;
	uint8_t *at = body + job->body_size;
	job->packed_count += (uint32_t)left;
	for (uint32_t b = 0; b < job->batches_count; b++) {
		size_t in_batch;
		const wk_stored_entry *entries = wk_entry_batch_entries(job->batches[b], &in_batch);
		for (size_t i = 0; i < in_batch && left > 0; i++, left--) {
			wk_store_be32(at, (uint32_t)entries[i].size);
			memcpy(at + BATCH_OVERHEAD, entries[i].bytes, entries[i].size);
			at += BATCH_OVERHEAD + entries[i].size;
		}
		wk_entry_batch_release(job->batches[b]);
	}
	job->batches_count = 0;
	job->body = body;
	job->body_size = size;
	return true;
}

/* Consecutive entries are consecutive in memory at best: between them there may be those of very many other ledgers. */
static bool holds_too_much(const wk_read_job *job, uint64_t held) {
	uint64_t count;
	return job->kind == WK_JOB_BATCH && held > HELD_MAX && held > 2 * (wk_read_job_fit(job, &count) - job->body_size);
}

/*
 * Consecutive entries, within the limits of the job, as far as there are any: what cannot be read behind the first is the
 * next request's.
 */
static void read_entries(wk_namespace *ns, wk_read_job *job) {
	uint64_t size = BATCH_HEAD_SIZE, held = 0;
	uint32_t left = job->max_count, batches = 0;
	for (int64_t next = job->first; left > 0 && (batches == 0 || size < job->max_bytes); batches++) {
		wk_entry_batch *batch = NULL;
		uint64_t room = size < job->max_bytes ? job->max_bytes - size : 0;
		room = room < HELD_MAX ? room : HELD_MAX;
		wk_status status = wk_ledger_read(ns, job->owed.ledger_id, next, left, room, &batch, NULL);
		if (status == WK_OK && !keep(job, batch))
			status = WK_NO_MEMORY;
		if (status != WK_OK) {
			job->status = batches == 0 ? status : WK_OK;
			return;
		}
		size_t count;
		const wk_stored_entry *entries = wk_entry_batch_entries(batch, &count);
		for (size_t i = 0; i < count; i++)
			size += BATCH_OVERHEAD + entries[i].size;
		left -= (uint32_t)count;
		next = entries[count - 1].entry_id + 1;
		held += wk_entry_batch_memory(batch);
		if (holds_too_much(job, held)) {
			if (!pack(job))
				return;
			held = 0;
		}
	}
}

/* Large entries are sent from where they were read, unless some are packed already. */
static void finish_batch(wk_read_job *job) {
	uint64_t count, size = wk_read_job_fit(job, &count);
	if (job->packed_count > 0 || (count > 1 && size / count <= WK_COPY_MAX))
		(void)pack(job);
}

/* The LAC of the entry with the highest id, and the explicit one: what was known before the last start. */
static wk_status read_stored_lac(wk_namespace *ns, wk_read_job *job) {
	wk_ledger_info info;
	wk_status status = wk_ledger_describe_state(ns, job->owed.ledger_id, &info, NULL);
	if (status != WK_OK)
		return status;
	int64_t lac;
	if (info.lac_size > 0 && wk_wire_lac_decode(info.lac, info.lac_size, job->owed.ledger_id, &lac) == WK_OK)
		job->stored_lac = lac;
	if (info.last_entry < 0)
		return WK_OK;
	wk_entry_batch *batch = NULL;
	status = wk_ledger_read(ns, job->owed.ledger_id, WK_LAST_ENTRY, 1, 0, &batch, NULL);
	if (status != WK_OK)
		return status == WK_NOT_FOUND ? WK_OK : status;
	size_t count;
	const wk_stored_entry *entry = wk_entry_batch_entries(batch, &count);
	wk_wire_entry header;
	if (wk_wire_entry_decode(entry->bytes, (size_t)entry->size, &header) == WK_OK && header.lac > job->stored_lac)
		job->stored_lac = header.lac;
	wk_entry_batch_release(batch);
	return WK_OK;
}

static void read_lac(wk_namespace *ns, wk_read_job *job) {
	wk_ledger_info info;
	job->status = wk_ledger_describe_state(ns, job->owed.ledger_id, &info, NULL);
	if (job->status != WK_OK)
		return;
	job->lac_size = info.lac_size;
	memcpy(job->lac, info.lac, info.lac_size);
	job->first = WK_LAST_ENTRY;
	read_entries(ns, job);
}

bool wk_read_job_try(wk_namespace *ns, wk_read_job *job) {
	if (job->kind != WK_JOB_READ || job->learn_lac) /* a batch may be very many entries */
		return false;
	wk_entry_batch *batch = NULL;
	wk_read_job_clear(job); /* of an earlier try */
	job->status = WK_OK;
	return wk_ledger_read_cached(ns, job->owed.ledger_id, job->first, 1, job->max_bytes, &batch) == WK_OK &&
	       keep(job, batch);
}

void wk_read_job_run(wk_namespace *ns, wk_read_job *job) {
	job->status = WK_OK;
	job->learned = false;
	wk_read_job_clear(job); /* of an earlier try */
	switch (job->kind) {
	case WK_JOB_READ:
		read_entries(ns, job);
		break;
	case WK_JOB_BATCH:
		read_entries(ns, job);
		if (job->status == WK_OK)
			finish_batch(job);
		break;
	case WK_JOB_LAC:
		read_lac(ns, job);
		break;
	case WK_JOB_LIST:
		wk_entry_list_read(ns, job);
		break;
	case WK_JOB_POLL:
		break;
	}
	if (!job->learn_lac || (job->status != WK_OK && job->status != WK_NOT_FOUND))
		return;
	wk_status learned = read_stored_lac(ns, job);
	job->learned = learned == WK_OK;
	if (job->kind == WK_JOB_POLL || (learned != WK_OK && job->status == WK_OK)) {
		job->status = learned;
		wk_read_job_clear(job);
	}
}
