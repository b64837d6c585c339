#include <stdlib.h>
#include <string.h>

#include "engine/index.h"
#include "engine/journal.h"
#include "engine/log/admission.h"
#include "records/append_rules.h"

void wk_append_options_init(wk_append_options *options) {
	*options = (wk_append_options){.txid = -1, .expected = -1, .timeout_ns = UINT64_MAX, .durability = WK_SYNC};
}

wk_status wk_writer_open(wk_log *log, wk_writer **opened, wk_error *error) {
	wk_error_clear(error);
	wk_writer *writer = calloc(1, sizeof *writer);
	if (writer == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening a writer: no memory");
	wk_status status = wk_enter(log->ns, error);
	if (status != WK_OK) {
		free(writer);
		return status;
	}
	wk_engine *engine = log->ns->engine;
	wk_engine_lock(engine);
	status = wk_journal_writable(engine, error);
	if (status == WK_OK)
		status = wk_log_load_tail(engine, log->state, error);
	if (status == WK_OK) {
		wk_clock_check(engine, log->state);
		writer->hold = wk_hold_new(log->ns, log->state);
		if (writer->hold == NULL)
			status = wk_fail(error, WK_NO_MEMORY, "opening a writer: no memory");
	}
	if (status == WK_OK) {
		writer->ns = log->ns;
		writer->state = log->state;
		writer->generation = ++log->state->tail->writer_generation;
		wk_journal_wake_room(engine); /* appends of the earlier writer that wait for room are fenced now */
		uint64_t ticket = log->state->tail->last_ticket;
		if (ticket > engine->durable) { /* what it has in a block will be durable before this writer states the tail */
			wk_journal_want_block(engine, ticket);
			status = wk_journal_wait(engine, ticket, UINT64_MAX, true, error);
		}
		if (status != WK_OK) {
			wk_hold_drop(engine, writer->hold);
			wk_namespace_release(log->ns);
		}
	}
	wk_engine_unlock(engine);
	wk_leave(log->ns);
	if (status != WK_OK)
		free(writer);
	else
		*opened = writer;
	return status;
}

/* ---- records ---- */

static wk_status no_memory(const wk_appending *a) {
	return wk_fail(a->error, WK_NO_MEMORY, "append to log %s: no memory; nothing was written", a->log->name);
}

/*
 * The log's entry in the open block, if it takes `size` more bytes; else a new one. There is memory for them; NULL:
 * there is none, and nothing changed.
 */
static wk_builder *builder_for(const wk_appending *a, size_t size, bool alone) {
	wk_log_tail *tail = a->log->tail;
	wk_block *open = &a->engine->open;
	if (tail->builder_block == open->sequence && !alone) {
		wk_builder *builder = &open->builders[tail->builder];
		if (!builder->closed && builder->size + size <= WK_ENVELOPE_SIZE_MAX)
			return wk_journal_reserve_more(a->engine, builder, size) ? builder : NULL;
	}
	const wk_segment *segment = wk_log_open_segment(a->log);
	wk_ledger *ledger = wk_ledger_get(a->engine, segment->ledger_id);
	uint32_t codec = a->log->options->codec;
	wk_builder *builder = ledger != NULL ? wk_journal_builder(a->engine, ledger, a->log, codec, size) : NULL;
	if (builder == NULL)
		return NULL;
	builder->entry_id = tail->next_entry++;
	builder->segment = segment->segment;
	builder->first_sequence_id = tail->last.sequence_id + 1;
	builder->closed = alone;
	tail->builder_block = open->sequence;
	tail->builder = open->builders_count - 1;
	const void *near[] = {tail, (const char *)(tail + 1) - 1, segment, ledger};
	memcpy(a->writer->near, near, sizeof near);
	return builder;
}

static void put_record(const wk_appending *a, wk_builder *builder, const void *payload, size_t size, uint32_t flags,
                       int64_t txid) {
	wk_log_tail *tail = a->log->tail;
	const wk_segment *segment = wk_log_open_segment(a->log);
	uint8_t *at = wk_journal_extend(a->engine, builder, WK_RECORD_HEADER_SIZE + size, size + WK_RECORD_HEADER_SIZE);
	int64_t sequence_id = tail->last.sequence_id + 1;
	wk_log_record_encode_header(&(wk_log_record){.flags = flags,
	                                             .position = (uint32_t)(sequence_id - segment->first_sequence_id + 1),
	                                             .txid = txid,
	                                             .payload_size = size},
	                            at);
	memcpy(at + WK_RECORD_HEADER_SIZE, payload, size);
	/*
	 * What gets long is summed while the bytes are at hand, and not when the device waits for the block; a short one is
	 * sooner summed than two sums are combined.
	 */
	if (builder->codec == WK_CODEC_NONE && builder->size >= WK_SUM_ONCE_SIZE) {
		size_t rest = builder->size - builder->summed;
		builder->crc = wk_crc32c_extend(builder->crc, at + WK_RECORD_HEADER_SIZE + size - rest, rest);
		builder->summed = builder->size;
	}
	tail->last_ticket = a->engine->open.sequence;
	if ((flags & WK_RECORD_END_OF_STREAM) != 0)
		return;
	tail->segment_bytes += (int64_t)size;
	tail->last = (wk_position){{segment->segment, builder->entry_id, builder->records++}, sequence_id, txid};
	builder->last_txid = txid;
	builder->payload_bytes += (int64_t)size;
	a->engine->counters.appended_records++;
	a->engine->counters.appended_bytes += size;
}

static void want(const wk_appending *a) {
	wk_engine *engine = a->engine;
	if (a->options->durability == WK_SYNC) {
		wk_journal_want(engine, true, UINT64_MAX);
		return;
	}
	wk_journal_want_later(engine);
}

static wk_status append_one(wk_appending *a, const void *payload, size_t size, int64_t txid, wk_position *at) {
	wk_status status = wk_append_admit(a, size + WK_RECORD_HEADER_SIZE, &txid);
	if (status != WK_OK)
		return status;
	wk_builder *builder = builder_for(a, size + WK_RECORD_HEADER_SIZE, false);
	if (builder == NULL)
		return no_memory(a);
	put_record(a, builder, payload, size, 0, txid);
	*at = a->log->tail->last;
	want(a);
	return WK_OK;
}

/* ---- the calls ---- */

static wk_status begin(wk_writer *writer, const wk_append_options *options, bool submits, wk_error *error,
                       wk_appending *a) {
	wk_error_clear(error);
	wk_status status = wk_enter(writer->ns, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = writer->ns->engine;
	*a = (wk_appending){.writer = writer,
	                    .engine = engine,
	                    .log = writer->state,
	                    .options = options,
	                    .deadline_ns = wk_deadline(engine, options->timeout_ns),
	                    .submits = submits,
	                    .error = error};
	a->waits_ns = a->deadline_ns == 0 ? UINT64_MAX : a->deadline_ns;
	wk_engine_lock(engine);
	__builtin_prefetch(&a->log->txid_source);
	for (size_t i = 0; i < sizeof writer->near / sizeof *writer->near; i++)
		__builtin_prefetch(writer->near[i]);
	return WK_OK;
}

static void end(wk_appending *a) {
	wk_engine_unlock(a->engine);
	wk_leave(a->writer->ns);
}

/* Waits for what was accepted; the error carries the id it would have. */
static wk_status wait_for(wk_appending *a, uint64_t ticket, const wk_position *at) {
	bool may_drive = a->deadline_ns == UINT64_MAX && a->engine->options.commit_wait_ns == 0;
	wk_status status = wk_journal_wait(a->engine, ticket, a->waits_ns, may_drive, a->error);
	if (status != WK_OK && a->error != NULL)
		a->error->sequence_id = at->sequence_id;
	return status;
}

/* (locked) Who does not wait is told by the eventfd. */
static void notify(const wk_appending *a) {
	wk_namespace *ns = a->writer->ns;
	if (a->options->notify && ns->event_fd >= 0 && (ns->armed == 0 || ns->armed > a->engine->open.sequence))
		ns->armed = a->engine->open.sequence;
}

static const wk_append_options *or_default(const wk_append_options *options, wk_append_options *defaults) {
	if (options != NULL)
		return options;
	wk_append_options_init(defaults);
	return defaults;
}

wk_status wk_writer_append(wk_writer *writer, const void *payload, size_t size, const wk_append_options *given,
                           wk_position *at, wk_error *error) {
	wk_append_options defaults;
	const wk_append_options *options = or_default(given, &defaults);
	wk_appending a;
	wk_status status = wk_append_check_size(size, error);
	if (status != WK_OK || (status = begin(writer, options, false, error, &a)) != WK_OK)
		return status;
	wk_position position;
	status = append_one(&a, payload, size, options->txid, &position);
	if (status == WK_OK) {
		uint64_t ticket = a.engine->open.sequence;
		if (options->durability == WK_SYNC)
			status = wait_for(&a, ticket, &position);
		else if (a.engine->open.estimate >= a.engine->options.block_size_max)
			wk_journal_kick(a.engine);
	}
	end(&a);
	if (status == WK_OK && at != NULL)
		*at = position;
	return status;
}

wk_status wk_writer_submit(wk_writer *writer, const void *payload, size_t size, const wk_append_options *given,
                           wk_position *at, uint64_t *ticket, wk_error *error) {
	wk_append_options defaults;
	const wk_append_options *options = or_default(given, &defaults);
	wk_appending a;
	wk_status status = wk_append_check_size(size, error);
	if (status != WK_OK || (status = begin(writer, options, true, error, &a)) != WK_OK)
		return status;
	wk_position position;
	status = append_one(&a, payload, size, options->txid, &position);
	bool wakes = false;
	if (status == WK_OK) {
		*ticket = a.engine->open.sequence;
		notify(&a);
		if (options->durability == WK_SYNC || a.engine->open.estimate >= a.engine->options.block_size_max)
			wakes = wk_journal_kicked(a.engine);
	}
	wk_engine_unlock(a.engine);
	if (wakes) /* without the lock, which is what the driver asks for first */
		wk_driver_wake(a.engine);
	wk_leave(writer->ns);
	if (status == WK_OK && at != NULL)
		*at = position;
	return status;
}

/* All of it in one entry. */
static wk_status append_atomic(wk_appending *a, const uint8_t *bytes, const uint32_t *sizes, size_t count,
                               const int64_t *txids, wk_position *first, wk_position *last) {
	size_t total;
	wk_status status = wk_append_check_atomic(sizes, count, &total, a->error);
	if (status != WK_OK)
		return status;
	int64_t txid = txids != NULL ? txids[0] : a->options->txid;
	status = wk_append_admit(a, total, &txid);
	if (status != WK_OK)
		return status;
	wk_builder *builder = builder_for(a, total, true);
	if (builder == NULL)
		return no_memory(a);
	for (size_t i = 0; i < count; bytes += sizes[i++]) {
		put_record(a, builder, bytes, sizes[i], 0, txids != NULL ? txids[i] : txid);
		*last = a->log->tail->last;
		*first = i == 0 ? *last : *first;
	}
	return WK_OK;
}

static wk_status append_each(wk_appending *a, const uint8_t *bytes, const uint32_t *sizes, size_t count,
                             const int64_t *txids, wk_position *first, wk_position *last, size_t *accepted) {
	wk_append_options options = *a->options;
	wk_appending each = *a;
	each.options = &options;
	each.batch = &each; /* its address is this call's alone; the caller's arrays may be another call's as well */
	wk_log_state *log = a->log;
	log->handles++; /* the tail stays, whatever happens to the log meanwhile */
	wk_status status = WK_OK;
	for (; *accepted < count && status == WK_OK; *accepted += status == WK_OK) {
		status = append_one(&each, bytes, sizes[*accepted], txids != NULL ? txids[*accepted] : options.txid, last);
		if (status != WK_OK)
			break;
		if (*accepted == 0) {
			*first = *last;
			log->tail->batch = each.batch;
		}
		bytes += sizes[*accepted];
		options.expected = -1; /* the first one had to fit; the rest follow it */
	}
	if (log->tail != NULL && log->tail->batch == each.batch) {
		log->tail->batch = NULL;
		wk_journal_wake_room(a->engine);
	}
	wk_log_state_release(a->engine, log);
	return status;
}

wk_status wk_writer_append_many(wk_writer *writer, const void *bytes, const uint32_t *sizes, size_t count,
                                const int64_t *txids, const wk_append_options *given, bool wait, wk_position *first,
                                wk_position *last, uint64_t *ticket, wk_error *error) {
	wk_append_options defaults;
	const wk_append_options *options = or_default(given, &defaults);
	wk_status status = wk_append_check_many(sizes, count, txids, error);
	wk_appending a;
	if (status != WK_OK || (status = begin(writer, options, !wait, error, &a)) != WK_OK)
		return status;
	size_t accepted = 0;
	if (options->atomic)
		status = append_atomic(&a, bytes, sizes, count, txids, first, last);
	else
		status = append_each(&a, bytes, sizes, count, txids, first, last, &accepted);
	if (status == WK_OK) {
		want(&a);
		*ticket = a.engine->open.sequence;
		if (!wait)
			notify(&a);
		if (wait && options->durability == WK_SYNC)
			status = wait_for(&a, *ticket, first);
		else if (options->durability == WK_SYNC || a.engine->open.estimate >= a.engine->options.block_size_max)
			wk_journal_kick(a.engine);
		accepted = options->atomic ? 0 : count;
	}
	if (status != WK_OK && !options->atomic) {
		if (accepted > 0)
			wk_journal_kick(a.engine); /* what was accepted goes out, although nobody waits for it */
		/* How many of the first records are durable (storage rule 31). */
		wk_append_report_prefix(error, first, a.log->tail != NULL ? a.log->tail->durable.sequence_id : -1, accepted);
	}
	end(&a);
	return status;
}

/* (locked, dropped) Everything of this log that is accepted, durable. */
static wk_status flush(wk_appending *a) {
	uint64_t ticket = a->log->tail != NULL ? a->log->tail->last_ticket : 0;
	if (ticket <= a->engine->durable)
		return WK_OK;
	wk_journal_want_block(a->engine, ticket);
	return wait_for(a, ticket, &a->log->tail->last);
}

wk_status wk_writer_flush(wk_writer *writer, uint64_t timeout_ns, wk_position *at, wk_error *error) {
	wk_append_options options;
	wk_append_options_init(&options);
	options.timeout_ns = timeout_ns;
	wk_appending a;
	wk_status status = begin(writer, &options, false, error, &a);
	if (status != WK_OK)
		return status;
	a.waits_ns = a.deadline_ns; /* here 0 is a look, not a wait for ever */
	status = flush(&a);
	if (status == WK_OK) {
		writer->refusing = false;
		if (at != NULL && a.log->tail != NULL)
			*at = wk_log_next(a.log, &a.log->tail->durable);
	}
	end(&a);
	return status;
}

void wk_writer_next(wk_writer *writer, wk_position *next) {
	*next = (wk_position){{1, 0, 0}, -1, -1};
	if (wk_enter(writer->ns, NULL) != WK_OK)
		return;
	wk_engine_lock(writer->ns->engine);
	if (writer->state->tail != NULL)
		*next = wk_log_next(writer->state, &writer->state->tail->last);
	wk_engine_unlock(writer->ns->engine);
	wk_leave(writer->ns);
}

static const char END_TEXT[] = "endOfStream";

/*
 * The record, where a segment is open, which it completes; and what the catalogue says of the stream. All of it, or for
 * want of memory nothing.
 */
static wk_status put_end(const wk_appending *a, uint64_t *ticket) {
	bool open = wk_log_open_segment(a->log) != NULL;
	uint32_t builders;
	if (!wk_catalogue_reserve(a->engine, 2 * WK_CATALOGUE_RECORD_MAX, open, &builders))
		return no_memory(a);
	wk_status status = WK_OK;
	if (open) {
		wk_builder *builder = builder_for(a, sizeof END_TEXT + WK_RECORD_HEADER_SIZE, true);
		if (builder == NULL)
			return no_memory(a);
		put_record(a, builder, END_TEXT, sizeof END_TEXT - 1, WK_RECORD_END_OF_STREAM, INT64_MAX);
		status = wk_segment_complete(a, ticket);
	}
	if (status == WK_OK)
		status = wk_catalogue_change(a->engine,
		                             &(wk_catalogue_record){.type = WK_CATALOGUE_SOURCE,
		                                                    .log_id = a->log->id,
		                                                    .txid_source = a->log->txid_source,
		                                                    .flags = WK_CATALOGUE_FLAG_END_OF_STREAM},
		                             ticket);
	assert(status == WK_OK);
	a->log->tail->last_ticket = *ticket; /* until then nobody is told of it */
	return status;
}

wk_status wk_writer_end_of_stream(wk_writer *writer, wk_error *error) {
	wk_append_options options;
	wk_append_options_init(&options);
	wk_appending a;
	wk_status status = begin(writer, &options, false, error, &a);
	if (status != WK_OK)
		return status;
	do { /* waiting for the one may cost the other */
		status = wk_catalogue_turn(a.engine, UINT64_MAX, error);
		if (status == WK_OK)
			status = wk_journal_room(a.engine, WK_NEW_SEGMENT_ROOM + sizeof END_TEXT, UINT64_MAX, WK_ROOM_CHANGE,
			                         error);
	} while (status == WK_OK && a.engine->snapshotting);
	if (status == WK_OK)
		status = wk_append_check(&a);
	uint64_t ticket = 0;
	if (status == WK_OK)
		status = put_end(&a, &ticket);
	if (status == WK_OK) {
		wk_journal_want(a.engine, true, UINT64_MAX);
		a.log->not_durable = true; /* who asks is told of the end once it is durable */
		a.engine->catalogue_ticket = ticket;
		status = wk_journal_wait_out(a.engine, ticket, UINT64_MAX, true, error);
	}
	end(&a);
	return status;
}

wk_status wk_writer_close(wk_writer *writer, uint64_t timeout_ns, wk_error *error) {
	wk_append_options options;
	wk_append_options_init(&options);
	options.timeout_ns = timeout_ns;
	wk_appending a;
	wk_status status = begin(writer, &options, false, error, &a);
	if (status == WK_OK) {
		a.waits_ns = a.deadline_ns;
		if (!a.engine->failed || (a.log->tail != NULL && a.log->tail->last_ticket > a.engine->durable))
			status = flush(&a);
		wk_hold_drop(a.engine, writer->hold);
		end(&a);
	} else if (status == WK_CLOSED) {
		status = WK_OK; /* the namespace flushed for it */
		wk_error_clear(error);
	}
	wk_namespace_release(writer->ns);
	free(writer);
	return status;
}
