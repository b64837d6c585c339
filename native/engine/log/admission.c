/* admission.c: fencing, conditions, txids, segments, room: what an append must pass before a byte of it is kept. */
#include "engine/log/admission.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/index.h"
#include "engine/journal.h"
#include "records/append_rules.h"

enum { SEGMENT_RECORDS_MAX = 1 << 30, BATCH_LOOK_NS = 100 * 1000 * 1000 };
enum { MINUTE_MS = 60 * 1000, HOUR_MS = 60 * MINUTE_MS };

/* ---- may it be appended? ---- */

static wk_status fenced(const wk_appending *a) {
	return wk_fail(a->error, WK_FENCED,
	               "append to log %s: a later writer took over; nothing was written. Open a writer again only if this "
	               "process is meant to own the log",
	               a->log->name != NULL ? a->log->name : "(deleted)");
}

wk_status wk_append_check(const wk_appending *a) {
	wk_status status = wk_log_check(a->engine, a->log, a->error);
	if (status != WK_OK)
		return status;
	if (a->writer->generation != a->log->tail->writer_generation)
		return fenced(a);
	if (!a->log->end_of_stream)
		return WK_OK;
	status = wk_catalogue_wait_durable(a->engine, a->log, a->error);
	if (status == WK_OK)
		return wk_fail(a->error, WK_END_OF_STREAM, "append to log %s: its end of stream was written", a->log->name);
	if (a->error != NULL)
		a->error->outcome_unknown = false;
	return status;
}

/* The answer names the durable record that sits at the expected id (storage rule 6). (locked, dropped) */
static wk_status mismatch(wk_appending *a) {
	int64_t expected = a->options->expected, next = a->log->tail->last.sequence_id + 1;
	a->writer->refusing |= a->submits;
	wk_position at = {{0, 0, 0}, next, -1};
	if (expected < next) {
		uint64_t ticket = a->log->tail->last_ticket;
		wk_status status = WK_OK;
		if (ticket > a->engine->durable) {
			wk_journal_want_block(a->engine, ticket); /* who asks wants it durable now, deferred or not */
			status = wk_journal_wait(a->engine, ticket, a->deadline_ns == 0 ? UINT64_MAX : a->deadline_ns, true,
			                         a->error);
		}
		if (status == WK_OK) {
			wk_log look = {.ns = a->writer->ns, .state = a->log};
			wk_engine_unlock(a->engine);
			status = wk_log_find(&look, WK_FIND_SEQUENCE_ID, expected, NULL, &at, NULL);
			wk_engine_lock(a->engine);
			if (status != WK_OK) /* truncated since */
				at = (wk_position){{0, 0, 0}, expected, -1};
		} else if (status != WK_OK) {
			if (a->error != NULL)
				a->error->outcome_unknown = false;
			return status;
		}
	}
	wk_fail(a->error, WK_MISMATCH,
	        "append to log %s: expected sequence id %lld, but the next is %lld; nothing was written", a->log->name,
	        (long long)expected, (long long)next);
	if (a->error != NULL) {
		a->error->sequence_id = at.sequence_id;
		a->error->txid = at.txid;
	}
	return WK_MISMATCH;
}

static wk_status refused(const wk_appending *a) {
	wk_fail(a->error, WK_MISMATCH,
	        "append to log %s: an earlier conditional append failed, so this one does too; nothing was written. Flush, "
	        "then go on from next_sequence_id",
	        a->log->name);
	if (a->error != NULL)
		a->error->sequence_id = a->log->tail->last.sequence_id + 1;
	return WK_MISMATCH;
}

/* ---- the clock ---- */

static void clock_jumped(wk_engine *engine, int64_t by_ms) {
	engine->counters.clock_jumps++;
	engine->counters.clock_jump_ms = by_ms;
}

/*
 * The clock that stamps txids, in ms. It is compared with the monotonic one whenever it has moved by a minute: a jump
 * of more than an hour is counted. A machine that slept looks like that too.
 */
static int64_t clock_ms(wk_engine *engine) {
	int64_t now = (int64_t)(engine->io->operations->wall(engine->io) / 1000000);
	int64_t moved = now - engine->wall_ms;
	if (moved >= 0 && moved < MINUTE_MS)
		return now;
	int64_t monotonic = (int64_t)(wk_engine_now(engine) / 1000000);
	int64_t jump = moved - (monotonic - engine->monotonic_ms);
	if (engine->wall_ms != 0 && (jump > HOUR_MS || jump < -HOUR_MS))
		clock_jumped(engine, jump);
	engine->wall_ms = now;
	engine->monotonic_ms = monotonic;
	return now;
}

void wk_clock_check(wk_engine *engine, const wk_log_state *log) {
	uint64_t jumps = engine->counters.clock_jumps;
	int64_t now = clock_ms(engine);
	if (log->txid_source != WK_TXID_CLOCK || log->tail->last.sequence_id < 0)
		return;
	int64_t ahead = log->tail->last.txid - now;
	if (ahead > HOUR_MS && engine->counters.clock_jumps == jumps)
		clock_jumped(engine, -ahead);
}

/* *txid: what the application gave, or the clock. */
static wk_status choose_txid(wk_appending *a, int64_t *txid) {
	const wk_log_state *log = a->log;
	int64_t last = log->tail->last.sequence_id >= 0 ? log->tail->last.txid : -1;
	wk_status status = wk_append_check_txid(log->name, log->txid_source, last, *txid, a->error);
	if (status == WK_OK && *txid == -1) {
		int64_t now = clock_ms(a->engine);
		a->now_ms = (uint64_t)now;
		*txid = now > last ? now : last;
	}
	return status;
}

/* ---- segments ---- */

static bool roll_due(const wk_appending *a) {
	const wk_segment *open = wk_log_open_segment(a->log);
	if (open == NULL)
		return true;
	const wk_log_tail *tail = a->log->tail;
	if (tail->last.sequence_id < open->first_sequence_id)
		return false; /* still empty */
	if ((uint64_t)tail->segment_bytes >= a->log->options->segment_bytes ||
	    tail->last.sequence_id - open->first_sequence_id >= SEGMENT_RECORDS_MAX)
		return true;
	if (a->log->options->segment_seconds == 0)
		return false;
	uint64_t now_ms = a->now_ms != 0 ? a->now_ms : a->engine->io->operations->wall(a->engine->io) / 1000000;
	return wk_segment_is_older(open, a->log->options->segment_seconds, now_ms);
}

/* In the middle of an entry a segment never ends: the question, and the clock, can wait. */
static bool continues(const wk_appending *a) {
	return a->log->tail->builder_block == a->engine->open.sequence && wk_log_open_segment(a->log) != NULL;
}

wk_status wk_segment_complete(const wk_appending *a, uint64_t *ticket) {
	const wk_segment *open = wk_log_open_segment(a->log);
	const wk_position *last = &a->log->tail->last;
	return wk_catalogue_change(a->engine,
	                           &(wk_catalogue_record){.type = WK_CATALOGUE_COMPLETE,
	                                                  .log_id = a->log->id,
	                                                  .segment = open->segment,
	                                                  .count = last->sequence_id - open->first_sequence_id + 1,
	                                                  .entry_id = last->dlsn.entry_id,
	                                                  .slot = last->dlsn.slot,
	                                                  .txid = last->txid,
	                                                  .payload_bytes = a->log->tail->segment_bytes},
	                           ticket);
}

/* Memory for all that begins with a segment, its first entry of `bytes` too: half of it is worse than none. */
static bool reserve_segment(const wk_appending *a, size_t bytes) {
	uint32_t builders;
	return wk_catalogue_reserve(a->engine, WK_NEW_SEGMENT_ROOM, 0, &builders) &&
	       wk_journal_reserve_builder(a->engine, builders, bytes) && wk_log_reserve_segment(a->log) &&
	       wk_ledger_get(a->engine, (int64_t)a->engine->next_ledger_id) != NULL;
}

/*
 * Its records stand in the block of the segment's first entry: a writer that wrote nothing leaves no trace (storage
 * rule 4).
 */
static wk_status start_segment(const wk_appending *a, size_t bytes, int64_t txid, bool clock) {
	uint64_t ticket;
	wk_status status = reserve_segment(a, bytes) ? WK_OK : WK_NO_MEMORY;
	if (status == WK_OK && wk_log_open_segment(a->log) != NULL)
		status = wk_segment_complete(a, &ticket);
	if (status == WK_OK && a->log->txid_source == WK_TXID_UNSET)
		status = wk_catalogue_change(a->engine,
		                             &(wk_catalogue_record){.type = WK_CATALOGUE_SOURCE,
		                                                    .log_id = a->log->id,
		                                                    .txid_source = clock ? WK_TXID_CLOCK : WK_TXID_APPLICATION},
		                             &ticket);
	if (status == WK_OK)
		status = wk_catalogue_change(
		    a->engine,
		    &(wk_catalogue_record){.type = WK_CATALOGUE_SEGMENT,
		                           .log_id = a->log->id,
		                           .segment = a->log->next_segment,
		                           .ledger_id = (int64_t)a->engine->next_ledger_id,
		                           .sequence_id = a->log->tail->last.sequence_id + 1,
		                           .txid = txid,
		                           .created_ms = a->engine->io->operations->wall(a->engine->io) / 1000000},
		    &ticket);
	if (status != WK_OK)
		return wk_fail(a->error, status, "starting a segment of log %s: %s; nothing was written", a->log->name,
		               wk_status_text(status));
	a->log->segments[a->log->segments_count - 1].begun_ns = wk_engine_now(a->engine);
	a->log->tail->next_entry = 0;
	a->log->tail->segment_bytes = 0;
	a->log->tail->builder_block = 0;
	return WK_OK;
}

/* Another thread's append_many waits for room in the middle: its records stay together. (locked, dropped) */
static wk_status wait_for_batch(const wk_appending *a) {
	wk_engine *engine = a->engine;
	if (a->deadline_ns == 0)
		return wk_fail(a->error, WK_WOULD_BLOCK, "append to log %s: another thread is in the middle of an append_many",
		               a->log->name);
	if (a->deadline_ns != UINT64_MAX && wk_engine_now(engine) >= a->deadline_ns)
		return wk_fail(
		    a->error, WK_TIMEOUT,
		    "append to log %s: another thread's append_many took longer than the time given; nothing was written",
		    a->log->name);
	int result = wk_engine_sleep_until(engine, &engine->room, wk_wait_word_look(&engine->room), BATCH_LOOK_NS,
	                                   a->deadline_ns);
	return result == -EINTR
	           ? wk_fail(a->error, WK_INTERRUPTED, "append to log %s: interrupted; nothing was written", a->log->name)
	           : WK_OK;
}

/*
 * Room for `bytes`, and everything that could refuse the append. On WK_OK the segment is open and the lock was not
 * dropped since.
 */
wk_status wk_append_admit(wk_appending *a, size_t bytes, int64_t *txid) {
	for (;;) {
		wk_status status = wk_append_check(a);
		if (status == WK_OK && a->writer->refusing && a->options->expected >= 0)
			return refused(a);
		if (status == WK_OK && a->options->expected >= 0 && a->options->expected != a->log->tail->last.sequence_id + 1)
			return mismatch(a);
		if (status != WK_OK)
			return status;
		bool clock = *txid == -1;
		status = wk_journal_room(a->engine, bytes + WK_NEW_SEGMENT_ROOM, a->deadline_ns, WK_ROOM_APPEND, a->error);
		if (status == WK_OK)
			status = wk_append_check(a);
		if (status == WK_OK && a->log->tail->batch != NULL && a->log->tail->batch != a->batch) {
			status = wait_for_batch(a);
			if (status == WK_OK)
				continue;
		}
		if (status != WK_OK)
			return status;
		if (a->options->expected >= 0 && a->options->expected != a->log->tail->last.sequence_id + 1)
			continue; /* another thread was quicker while this one waited for room */
		status = choose_txid(a, txid);
		if (status != WK_OK || continues(a) || !roll_due(a))
			return status;
		if (!a->engine->snapshotting)
			return start_segment(a, bytes, *txid, clock);
		*txid = clock ? -1 : *txid;
		status = wk_catalogue_turn(a->engine, a->deadline_ns, a->error);
		if (status != WK_OK)
			return status;
	}
}
