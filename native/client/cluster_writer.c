/*
 * cluster_writer.c: records become entries of the open segment's ledger. While ENTRIES_MAX entries are on their way, records
 * gather in the next one; a lone append does not wait.
 *
 * Locks: the client's, then the writer's, then the handle's. Nothing here asks for the client's with the writer's held.
 */
#include "client/driver.h"
#include "io/clock.h"
#include "records/append_rules.h"
#include "records/codec.h"
#include "records/error.h"
#include "walkeeper/cluster.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 4, CAPACITY_MIN = 4096, LOG_NAME_MAX = 255, SEGMENT_RECORDS_MAX = 0x7fffffff };
enum { BATCH_LOOK_NS = 10000000 };
#define NS_PER_S 1000000000ull

/* An entry that was sent. */
typedef struct sent_entry {
	int64_t entry_id;
	wk_position last;       /* of the log, with it */
	uint64_t payload_bytes; /* of the segment, with it */
} sent_entry;

struct wk_cluster_writer {
	pthread_mutex_t lock;
	char log[LOG_NAME_MAX + 1];
	wk_cluster_writer_options options;
	wk_status status;
	bool end_of_stream, ending, refusing;
	const void *batch; /* an append_many that is in the middle */
	uint32_t room;     /* a futex: changes when an entry was confirmed, a segment began, or the writer failed */
	/* the open segment */
	wk_handle *handle;
	int64_t segment, first_sequence_id, next_entry;
	uint64_t begun_ns, payload_bytes;
	wk_position last, confirmed; /* accepted; and confirmed */
	uint64_t confirmed_bytes;
	uint64_t base, durable; /* tickets: of the earlier segments; confirmed */
	sent_entry sent[ENTRIES_MAX];
	uint32_t sent_first, sent_count;
	/* the entry that is filled */
	wk_frame *frame;
	size_t size, capacity; /* of the envelope in it */
	int64_t slots;
	bool closed; /* it takes no more records */
};

enum { BODY_AT = WK_WIRE_HEAD_SIZE_MAX + WK_WIRE_ENTRY_HEADER_SIZE + 4 };

/* ---- life ---- */

wk_status wk_cluster_writer_open(const wk_cluster_writer_options *options, wk_cluster_writer **opened,
                                 wk_error *error) {
	wk_error_clear(error);
	wk_cluster_writer *writer = calloc(1, sizeof *writer);
	if (writer == NULL)
		return wk_fail(error, WK_NO_MEMORY, "opening a writer: no memory");
	pthread_mutex_init(&writer->lock, NULL);
	strncpy(writer->log, options->log, LOG_NAME_MAX);
	writer->options = *options;
	writer->options.log = writer->log;
	writer->end_of_stream = options->end_of_stream;
	writer->last = writer->confirmed = options->last;
	*opened = writer;
	return WK_OK;
}

void wk_cluster_writer_close(wk_cluster_writer *writer) {
	if (writer->handle != NULL) {
		wk_handle_watch(writer->handle, NULL, NULL);
		wk_handle_drop(writer->handle);
	}
	if (writer->frame != NULL)
		wk_frame_release(writer->frame);
	pthread_mutex_destroy(&writer->lock);
	free(writer);
}

void wk_cluster_writer_set_source(wk_cluster_writer *writer, uint32_t txid_source) {
	pthread_mutex_lock(&writer->lock);
	writer->options.txid_source = txid_source;
	pthread_mutex_unlock(&writer->lock);
}

/* (locked) */
static void make_room_known(wk_cluster_writer *writer) {
	__atomic_fetch_add(&writer->room, 1, __ATOMIC_SEQ_CST);
	wk_futex_wake(&writer->room, INT_MAX);
}

/* (locked) What was confirmed leaves the list of those that were sent. */
static void take_confirmed(wk_cluster_writer *writer, int64_t lac) {
	while (writer->sent_count > 0 && writer->sent[writer->sent_first].entry_id <= lac) {
		writer->confirmed = writer->sent[writer->sent_first].last;
		writer->confirmed_bytes = writer->sent[writer->sent_first].payload_bytes;
		writer->sent_first = (writer->sent_first + 1) % ENTRIES_MAX;
		writer->sent_count--;
	}
	writer->durable = writer->base + (uint64_t)(lac + 1);
}

/* ---- entries ---- */

static wk_status grow(wk_cluster_writer *writer, size_t size) {
	if (writer->frame != NULL && writer->size + size <= writer->capacity)
		return WK_OK;
	size_t needed = (writer->frame != NULL ? writer->size : WK_ENVELOPE_HEADER_SIZE) + size;
	size_t capacity = writer->capacity * 2 > CAPACITY_MIN ? writer->capacity * 2 : CAPACITY_MIN;
	capacity = capacity > needed ? capacity : needed;
	wk_frame *frame = wk_frame_new(WK_WIRE_ENTRY_HEADER_SIZE + 4 + capacity);
	if (frame == NULL)
		return WK_NO_MEMORY;
	if (writer->frame != NULL) {
		memcpy(frame->bytes + BODY_AT, writer->frame->bytes + BODY_AT, writer->size);
		wk_frame_release(writer->frame);
	} else {
		writer->size = WK_ENVELOPE_HEADER_SIZE;
		writer->slots = 0;
		writer->closed = false;
	}
	writer->frame = frame;
	writer->capacity = capacity;
	return WK_OK;
}

/* Compresses what the envelope holds, where that makes it smaller. */
static uint32_t compress(wk_cluster_writer *writer, size_t *stored) {
	size_t original = writer->size - WK_ENVELOPE_HEADER_SIZE;
	*stored = original;
	if (writer->options.codec == WK_CODEC_NONE || original < 2)
		return WK_CODEC_NONE;
	wk_frame *packed = wk_frame_new(WK_WIRE_ENTRY_HEADER_SIZE + 4 + WK_ENVELOPE_HEADER_SIZE + original);
	if (packed == NULL)
		return WK_CODEC_NONE;
	size_t size;
	if (wk_codec_compress(writer->options.codec, writer->frame->bytes + BODY_AT + WK_ENVELOPE_HEADER_SIZE, original,
	                      packed->bytes + BODY_AT + WK_ENVELOPE_HEADER_SIZE, original - 1, &size) != WK_OK) {
		wk_frame_release(packed);
		return WK_CODEC_NONE;
	}
	wk_frame_release(writer->frame);
	writer->frame = packed;
	*stored = size;
	return writer->options.codec;
}

/* (locked) The entry that was filled is sent; there is room for it among those on their way. */
static void send_entry(wk_cluster_writer *writer) {
	assert(writer->sent_count < ENTRIES_MAX && writer->frame != NULL);
	size_t original = writer->size - WK_ENVELOPE_HEADER_SIZE, stored;
	uint32_t codec = compress(writer, &stored);
	uint8_t *body = writer->frame->bytes + BODY_AT;
	wk_envelope_encode_header(
	    &(wk_envelope){.codec = codec, .original_size = (uint32_t)original, .stored_size = (uint32_t)stored}, body);
	size_t size = WK_ENVELOPE_HEADER_SIZE + stored;
	writer->frame->size = WK_WIRE_ENTRY_HEADER_SIZE + 4 + size;
	int64_t entry_id;
	wk_status status = wk_handle_submit_frame(writer->handle, writer->frame, size, wk_crc32c(body, size), &entry_id);
	if (status == WK_OK) {
		assert(entry_id == writer->next_entry);
		writer->sent[(writer->sent_first + writer->sent_count++) % ENTRIES_MAX] = (sent_entry){
		    .entry_id = entry_id, .last = writer->last, .payload_bytes = writer->payload_bytes};
		writer->next_entry++;
	} else {
		wk_frame_release(writer->frame);
		if (writer->status == WK_OK)
			writer->status = status;
		make_room_known(writer);
	}
	writer->frame = NULL;
	writer->size = writer->capacity = 0;
	writer->slots = 0;
}

/* (client's lock, in the driver) */
static void progressed(void *context) {
	wk_cluster_writer *writer = context;
	pthread_mutex_lock(&writer->lock);
	wk_handle *handle = writer->handle;
	if (handle != NULL) {
		wk_status status = handle->status;
		take_confirmed(writer, handle->lac);
		if (status != WK_OK && writer->status == WK_OK && !writer->ending)
			writer->status = status;
		if (writer->status == WK_OK && writer->frame != NULL && writer->sent_count < ENTRIES_MAX)
			send_entry(writer);
		make_room_known(writer);
	}
	pthread_mutex_unlock(&writer->lock);
}

/* ---- segments ---- */

wk_status wk_cluster_writer_begin_segment(wk_cluster_writer *writer, wk_handle *handle, int64_t segment,
                                          wk_error *error) {
	wk_error_clear(error);
	bool fits = handle->mode == WK_HANDLE_WRITE && handle->view.digest.type == WK_DIGEST_CRC32C && segment > 0;
	if (fits) {
		wk_handle_hold(handle);
		wk_handle_watch(handle, progressed, writer);
	}
	bool held = fits;
	pthread_mutex_lock(&writer->lock);
	fits = fits && writer->handle == NULL;
	if (fits) {
		writer->handle = handle;
		writer->segment = segment;
		writer->first_sequence_id = writer->last.sequence_id + 1;
		writer->next_entry = 0;
		writer->payload_bytes = writer->confirmed_bytes = 0;
		writer->begun_ns = wk_clock_monotonic_ns();
		writer->ending = false;
		make_room_known(writer);
	}
	pthread_mutex_unlock(&writer->lock);
	if (fits)
		return WK_OK;
	if (held) {
		wk_handle_watch(handle, NULL, NULL);
		wk_handle_drop(handle);
	}
	return wk_fail(error, WK_INVALID,
	               "beginning segment %lld of log %s: a segment is open, or its ledger has another "
	               "digest than CRC32C, or this handle does not write",
	               (long long)segment, writer->log);
}

/* (locked) */
static bool is_due(const wk_cluster_writer *writer) {
	if (writer->handle == NULL || writer->last.sequence_id < writer->first_sequence_id)
		return false;
	uint64_t age_ns = wk_clock_monotonic_ns() - writer->begun_ns, seconds = writer->options.segment_seconds;
	return writer->payload_bytes >= writer->options.segment_bytes ||
	       writer->last.sequence_id - writer->first_sequence_id >= SEGMENT_RECORDS_MAX ||
	       (seconds != 0 && seconds != UINT64_MAX && age_ns / NS_PER_S >= seconds);
}

void wk_cluster_writer_segment(wk_cluster_writer *writer, int64_t *segment, bool *due) {
	pthread_mutex_lock(&writer->lock);
	*segment = writer->handle != NULL ? writer->segment : 0;
	*due = writer->handle != NULL && (writer->ending || is_due(writer));
	pthread_mutex_unlock(&writer->lock);
}

/* (locked, dropped) Waits until the room changes. 0, -ETIMEDOUT, -EINTR. */
static int wait_room(wk_cluster_writer *writer, uint64_t began_ns, uint64_t timeout_ns, uint64_t look_ns) {
	uint32_t room = __atomic_load_n(&writer->room, __ATOMIC_SEQ_CST);
	uint64_t left_ns = wk_time_left(began_ns, timeout_ns);
	if (left_ns == 0)
		return -ETIMEDOUT;
	pthread_mutex_unlock(&writer->lock);
	int result = wk_futex_wait(&writer->room, room, left_ns < look_ns ? left_ns : look_ns);
	pthread_mutex_lock(&writer->lock);
	return result == -ETIMEDOUT && left_ns > look_ns ? 0 : result;
}

wk_status wk_cluster_writer_end_segment(wk_cluster_writer *writer, uint64_t timeout_ns, wk_segment_end *end,
                                        wk_error *error) {
	wk_error_clear(error);
	uint64_t began_ns = wk_clock_monotonic_ns();
	pthread_mutex_lock(&writer->lock);
	wk_handle *handle = writer->handle;
	writer->ending = handle != NULL;
	int result = 0;
	while (handle != NULL && writer->frame != NULL && writer->status == WK_OK && result == 0) {
		if (writer->sent_count < ENTRIES_MAX)
			send_entry(writer);
		else
			result = wait_room(writer, began_ns, timeout_ns, UINT64_MAX);
	}
	pthread_mutex_unlock(&writer->lock);
	if (handle == NULL)
		return wk_fail(error, WK_NOT_FOUND, "ending a segment of log %s: none is open", writer->log);
	int64_t last_entry;
	uint64_t length;
	wk_status status = result == -EINTR
	                       ? WK_INTERRUPTED
	                       : wk_handle_seal(handle, wk_time_left(began_ns, timeout_ns), &last_entry, &length, error);
	if (status != WK_OK)
		return wk_fail(error, status, "ending a segment of log %s: interrupted", writer->log);
	wk_handle_watch(handle, NULL, NULL);
	pthread_mutex_lock(&writer->lock);
	take_confirmed(writer, last_entry);
	bool whole = writer->sent_count == 0 && writer->frame == NULL && writer->status == WK_OK;
	if (!whole && writer->status == WK_OK)
		writer->status = WK_TIMEOUT;
	*end = (wk_segment_end){.last_entry = last_entry,
	                        .length = length,
	                        .first_sequence_id = writer->first_sequence_id,
	                        .records_count = writer->confirmed.sequence_id - writer->first_sequence_id + 1,
	                        .payload_bytes = writer->confirmed_bytes,
	                        .last = writer->confirmed,
	                        .whole = whole};
	writer->base = writer->durable;
	writer->handle = NULL;
	make_room_known(writer);
	pthread_mutex_unlock(&writer->lock);
	wk_handle_drop(handle);
	return WK_OK;
}

/* ---- appending ---- */

typedef struct appending {
	wk_cluster_writer *writer;
	const wk_append_options *options;
	uint64_t began_ns;
	const void *batch;
	wk_error *error;
	bool submits;
} appending;

static const wk_append_options by_default = {.txid = -1, .expected = -1, .timeout_ns = UINT64_MAX};

static wk_status failed(const appending *a, wk_status status) {
	const char *log = a->writer->log;
	switch (status) {
	case WK_FENCED:
		return wk_fail(a->error, status, "append to log %s: another writer took over; nothing was written", log);
	case WK_UNAVAILABLE:
		return wk_fail(
		    a->error, status,
		    "append to log %s: this writer has failed, as too few bookies were left, or one that failed was not "
		    "replaced in time; nothing was written. Open another writer",
		    log);
	default:
		return wk_fail(a->error, status, "append to log %s: this writer has failed (%s); nothing was written", log,
		               wk_status_text(status));
	}
}

static wk_status mismatch(const appending *a) {
	wk_cluster_writer *writer = a->writer;
	int64_t next = writer->last.sequence_id + 1, expected = a->options->expected;
	writer->refusing |= a->submits;
	wk_status status = wk_fail(a->error, WK_MISMATCH,
	                           "append to log %s: expected sequence id %lld, the next is %lld; nothing was written",
	                           writer->log, (long long)expected, (long long)next);
	if (a->error != NULL)
		a->error->sequence_id = expected < next ? expected : next;
	return status;
}

static wk_status needs_segment(const appending *a, bool clock) {
	wk_status status = wk_fail(a->error, WK_NEEDS_SEGMENT, "append to log %s: %s", a->writer->log,
	                           wk_status_text(WK_NEEDS_SEGMENT));
	if (a->error != NULL)
		a->error->txid = clock ? -1 : 0;
	return status;
}

/* (locked) The checks that refuse an append for good, or until there is another segment. */
static wk_status check(const appending *a, bool clock) {
	const wk_cluster_writer *writer = a->writer;
	if (writer->status != WK_OK)
		return failed(a, writer->status);
	if (writer->end_of_stream)
		return wk_fail(a->error, WK_END_OF_STREAM, "append to log %s: it was ended for ever; nothing was written",
		               writer->log);
	if (writer->refusing && a->options->expected >= 0)
		return mismatch(a);
	if (a->options->expected >= 0 && a->options->expected != writer->last.sequence_id + 1)
		return mismatch(a);
	if (writer->handle == NULL || writer->ending || (writer->frame == NULL && is_due(writer)) ||
	    writer->options.txid_source == WK_TXID_UNSET)
		return needs_segment(a, clock);
	return WK_OK;
}

static wk_status choose_txid(const appending *a, int64_t *txid) {
	const wk_cluster_writer *writer = a->writer;
	int64_t last = writer->last.sequence_id >= 0 ? writer->last.txid : -1;
	wk_status status = wk_append_check_txid(writer->log, writer->options.txid_source, last, *txid, a->error);
	if (status == WK_OK && *txid == -1) {
		int64_t now = wk_clock_wall_ms();
		*txid = now > last ? now : last;
	}
	return status;
}

static wk_status wait_for(appending *a, uint64_t look_ns) {
	if (a->options->timeout_ns == 0)
		return wk_fail(a->error, WK_WOULD_BLOCK, "append to log %s: there is no room now; nothing was written",
		               a->writer->log);
	int result = wait_room(a->writer, a->began_ns, a->options->timeout_ns, look_ns);
	if (result == -ETIMEDOUT)
		return wk_fail(a->error, WK_TIMEOUT, "append to log %s: there was no room in time; nothing was written",
		               a->writer->log);
	if (result == -EINTR)
		return wk_fail(a->error, WK_INTERRUPTED, "append to log %s: interrupted; nothing was written", a->writer->log);
	return WK_OK;
}

/* (locked, dropped) On WK_OK the entry that is filled takes `size` bytes more. */
static wk_status admit(appending *a, size_t size, bool alone, int64_t *txid) {
	wk_cluster_writer *writer = a->writer;
	int64_t given = *txid;
	for (;;) {
		*txid = given;
		wk_status status = check(a, given == -1);
		wk_status refused = status == WK_OK || status == WK_NEEDS_SEGMENT ? choose_txid(a, txid) : status;
		if (refused != WK_OK || status != WK_OK)
			return refused != WK_OK ? refused : status;
		if (writer->batch != NULL && writer->batch != a->batch) {
			status = wait_for(a, BATCH_LOOK_NS);
			if (status != WK_OK)
				return status;
			continue;
		}
		bool fits = writer->frame == NULL || (!writer->closed && !alone &&
		                                      writer->size - WK_ENVELOPE_HEADER_SIZE + size <= WK_ENVELOPE_SIZE_MAX);
		if (fits)
			break;
		if (writer->sent_count < ENTRIES_MAX) {
			send_entry(writer);
			continue;
		}
		status = wait_for(a, UINT64_MAX);
		if (status != WK_OK)
			return status;
	}
	if (grow(writer, size) != WK_OK)
		return wk_fail(a->error, WK_NO_MEMORY, "append to log %s: no memory; nothing was written", writer->log);
	writer->closed |= alone;
	return WK_OK;
}

static void put_record(wk_cluster_writer *writer, const void *payload, size_t size, uint32_t flags, int64_t txid) {
	uint8_t *at = writer->frame->bytes + BODY_AT + writer->size;
	int64_t sequence_id = writer->last.sequence_id + 1;
	wk_log_record_encode_header(&(wk_log_record){.flags = flags,
	                                             .position = (uint32_t)(sequence_id - writer->first_sequence_id + 1),
	                                             .txid = txid,
	                                             .payload_size = size},
	                            at);
	if (size > 0)
		memcpy(at + WK_RECORD_HEADER_SIZE, payload, size);
	writer->size += WK_RECORD_HEADER_SIZE + size;
	if ((flags & WK_RECORD_END_OF_STREAM) != 0)
		return;
	writer->last = (wk_position){{writer->segment, writer->next_entry, writer->slots++}, sequence_id, txid};
	writer->payload_bytes += size;
}

static wk_status append_one(appending *a, const void *payload, size_t size, int64_t txid, wk_position *at) {
	wk_status status = admit(a, size + WK_RECORD_HEADER_SIZE, false, &txid);
	if (status != WK_OK)
		return status;
	put_record(a->writer, payload, size, 0, txid);
	*at = a->writer->last;
	return WK_OK;
}

/* (locked) The ticket of the last record that was accepted. */
static uint64_t last_ticket(const wk_cluster_writer *writer) {
	if (writer->handle == NULL)
		return writer->base;
	return writer->base + (uint64_t)writer->next_entry + (writer->frame != NULL ? 1 : 0);
}

/* (locked) What waits goes out, where fewer entries than the limit are on their way. */
static void kick(wk_cluster_writer *writer) {
	if (writer->frame != NULL && writer->sent_count < ENTRIES_MAX)
		send_entry(writer);
}

/* (locked, dropped) */
static wk_status wait_ticket(wk_cluster_writer *writer, uint64_t ticket, uint64_t began_ns, uint64_t timeout_ns,
                             wk_error *error) {
	for (;;) {
		if (ticket <= writer->durable)
			return WK_OK;
		wk_handle *handle = writer->handle;
		if (writer->status != WK_OK || handle == NULL || ticket <= writer->base) {
			wk_status status = writer->status != WK_OK ? writer->status : WK_UNAVAILABLE;
			wk_fail(error, status, "append to log %s: %s: the record may or may not be written", writer->log,
			        status == WK_FENCED        ? "another writer took over"
			        : status == WK_UNAVAILABLE ? "too few bookies are left, or one that failed was not replaced in time"
			                                   : wk_status_text(status));
			if (error != NULL)
				error->outcome_unknown = true;
			return status;
		}
		int64_t entry_id = (int64_t)(ticket - writer->base) - 1;
		wk_handle_hold(handle);
		pthread_mutex_unlock(&writer->lock);
		wk_status status = wk_handle_wait(handle, entry_id, wk_time_left(began_ns, timeout_ns), error);
		pthread_mutex_lock(&writer->lock);
		bool current = writer->handle == handle;
		if (status == WK_OK && current && writer->durable < ticket)
			writer->durable = ticket; /* the driver tells the writer a moment later */
		pthread_mutex_unlock(&writer->lock);
		wk_handle_drop(handle);
		pthread_mutex_lock(&writer->lock);
		if (status == WK_OK)
			return WK_OK;
		if (status == WK_TIMEOUT || status == WK_INTERRUPTED)
			return status;
		if (current && writer->status == WK_OK && !writer->ending)
			writer->status = status;
		if (current && writer->ending) { /* the end of the segment decides */
			int result = wait_room(writer, began_ns, timeout_ns, BATCH_LOOK_NS);
			if (result == -EINTR || result == -ETIMEDOUT)
				return wk_fail(error, result == -EINTR ? WK_INTERRUPTED : WK_TIMEOUT, "append to log %s: waiting",
				               writer->log);
		}
	}
}

static void begin(appending *a, wk_cluster_writer *writer, const wk_append_options *options, bool submits,
                  wk_error *error) {
	wk_error_clear(error);
	*a = (appending){.writer = writer, .began_ns = wk_clock_monotonic_ns(), .submits = submits, .error = error};
	a->options = options != NULL ? options : &by_default;
	pthread_mutex_lock(&writer->lock);
}

static uint64_t patience(const wk_append_options *options) {
	return options->timeout_ns == 0 ? UINT64_MAX : options->timeout_ns; /* 0 is for room alone */
}

static wk_status wait_accepted(appending *a, uint64_t ticket, int64_t sequence_id) {
	wk_status status = wait_ticket(a->writer, ticket, a->began_ns, patience(a->options), a->error);
	if (status != WK_OK && a->error != NULL) {
		a->error->outcome_unknown = true;
		a->error->sequence_id = sequence_id;
	}
	return status;
}

wk_status wk_cluster_writer_append(wk_cluster_writer *writer, const void *payload, size_t size,
                                   const wk_append_options *options, wk_position *at, wk_error *error) {
	appending a;
	wk_status status = wk_append_check_size(size, error);
	if (status != WK_OK)
		return status;
	begin(&a, writer, options, false, error);
	wk_position position;
	status = append_one(&a, payload, size, a.options->txid, &position);
	if (status == WK_OK) {
		uint64_t ticket = last_ticket(writer);
		kick(writer);
		if (a.options->durability == WK_SYNC)
			status = wait_accepted(&a, ticket, position.sequence_id);
	}
	pthread_mutex_unlock(&writer->lock);
	if (status == WK_OK && at != NULL)
		*at = position;
	return status;
}

wk_status wk_cluster_writer_submit(wk_cluster_writer *writer, const void *payload, size_t size,
                                   const wk_append_options *options, wk_position *at, uint64_t *ticket,
                                   wk_error *error) {
	appending a;
	wk_status status = wk_append_check_size(size, error);
	if (status != WK_OK)
		return status;
	begin(&a, writer, options, true, error);
	wk_position position;
	status = append_one(&a, payload, size, a.options->txid, &position);
	if (status == WK_OK) {
		*ticket = last_ticket(writer);
		kick(writer);
	}
	pthread_mutex_unlock(&writer->lock);
	if (status == WK_OK && at != NULL)
		*at = position;
	return status;
}

/* All of it in one entry. */
static wk_status append_atomic(appending *a, const uint8_t *bytes, const uint32_t *sizes, size_t count,
                               const int64_t *txids, wk_position *first, wk_position *last, size_t *accepted) {
	size_t total;
	wk_status status = wk_append_check_atomic(sizes, count, &total, a->error);
	if (status != WK_OK)
		return status;
	int64_t txid = txids != NULL ? txids[0] : a->options->txid;
	status = admit(a, total, true, &txid);
	if (status != WK_OK)
		return status;
	for (size_t i = 0; i < count; bytes += sizes[i++]) {
		put_record(a->writer, bytes, sizes[i], 0, txids != NULL ? txids[i] : txid);
		*last = a->writer->last;
		*first = i == 0 ? *last : *first;
	}
	*accepted = count;
	return WK_OK;
}

static wk_status append_each(appending *a, const uint8_t *bytes, const uint32_t *sizes, size_t count,
                             const int64_t *txids, wk_position *first, wk_position *last, size_t *accepted) {
	wk_append_options options = *a->options;
	const wk_append_options *given = a->options;
	wk_cluster_writer *writer = a->writer;
	a->options = &options;
	a->batch = &options; /* its address is this call's alone */
	wk_status status = WK_OK;
	for (; *accepted < count && status == WK_OK; *accepted += status == WK_OK) {
		status = append_one(a, bytes, sizes[*accepted], txids != NULL ? txids[*accepted] : options.txid, last);
		if (status != WK_OK)
			break;
		if (*accepted == 0) {
			*first = *last;
			writer->batch = a->batch;
		}
		bytes += sizes[*accepted];
		options.expected = -1; /* the first one had to fit; the rest follow it */
	}
	if (writer->batch == a->batch) {
		writer->batch = NULL;
		make_room_known(writer);
	}
	a->options = given;
	return status;
}

wk_status wk_cluster_writer_append_many(wk_cluster_writer *writer, const void *bytes, const uint32_t *sizes,
                                        size_t count, const int64_t *txids, const wk_append_options *options, bool wait,
                                        wk_position *first, wk_position *last, uint64_t *ticket, wk_error *error) {
	*ticket = 0;
	wk_status status = wk_append_check_many(sizes, count, txids, error);
	if (status != WK_OK)
		return status;
	appending a;
	begin(&a, writer, options, !wait, error);
	size_t accepted = 0;
	if (a.options->atomic)
		status = append_atomic(&a, bytes, sizes, count, txids, first, last, &accepted);
	else
		status = append_each(&a, bytes, sizes, count, txids, first, last, &accepted);
	if (accepted > 0) {
		*ticket = last_ticket(writer);
		kick(writer);
	}
	if (status == WK_OK && wait && a.options->durability == WK_SYNC)
		status = wait_accepted(&a, *ticket, first->sequence_id);
	if (status != WK_OK && status != WK_NEEDS_SEGMENT && !a.options->atomic)
		wk_append_report_prefix(error, first, writer->confirmed.sequence_id, accepted);
	pthread_mutex_unlock(&writer->lock);
	return status;
}

wk_status wk_cluster_writer_flush(wk_cluster_writer *writer, uint64_t timeout_ns, wk_position *at, wk_error *error) {
	wk_append_options options = by_default;
	options.timeout_ns = timeout_ns;
	appending a;
	begin(&a, writer, &options, false, error);
	uint64_t ticket = last_ticket(writer);
	kick(writer);
	wk_status status = wait_ticket(writer, ticket, a.began_ns, timeout_ns, error);
	if (status == WK_OK)
		writer->refusing = false;
	else if (error != NULL)
		error->outcome_unknown = true;
	pthread_mutex_unlock(&writer->lock);
	if (status == WK_OK && at != NULL)
		wk_cluster_writer_next(writer, at);
	return status;
}

void wk_cluster_writer_next(wk_cluster_writer *writer, wk_position *next) {
	pthread_mutex_lock(&writer->lock);
	bool open = writer->handle != NULL;
	wk_dlsn dlsn = {open ? writer->segment : writer->segment + 1, open ? writer->next_entry : 0,
	                open && writer->frame != NULL ? writer->slots : 0};
	*next = (wk_position){dlsn, writer->last.sequence_id + 1, -1};
	pthread_mutex_unlock(&writer->lock);
}

wk_status wk_cluster_writer_end_of_stream(wk_cluster_writer *writer, wk_error *error) {
	appending a;
	begin(&a, writer, NULL, false, error);
	int64_t txid = writer->options.txid_source == WK_TXID_APPLICATION && writer->last.txid >= 0 ? writer->last.txid
	                                                                                            : -1;
	if (writer->options.txid_source == WK_TXID_APPLICATION && txid == -1)
		txid = 0;
	wk_status status = admit(&a, WK_RECORD_HEADER_SIZE, false, &txid);
	if (status == WK_OK) {
		put_record(writer, NULL, 0, WK_RECORD_END_OF_STREAM, INT64_MAX);
		writer->closed = writer->end_of_stream = true;
		uint64_t ticket = last_ticket(writer);
		kick(writer);
		status = wait_accepted(&a, ticket, -1);
	}
	pthread_mutex_unlock(&writer->lock);
	return status;
}

wk_status wk_cluster_writer_wait(wk_cluster_writer *writer, uint64_t ticket, uint64_t timeout_ns, wk_error *error) {
	wk_error_clear(error);
	uint64_t began_ns = wk_clock_monotonic_ns();
	pthread_mutex_lock(&writer->lock);
	wk_status status = wait_ticket(writer, ticket, began_ns, timeout_ns, error);
	pthread_mutex_unlock(&writer->lock);
	return status;
}

uint64_t wk_cluster_writer_durable(wk_cluster_writer *writer) {
	pthread_mutex_lock(&writer->lock);
	uint64_t durable = writer->durable;
	pthread_mutex_unlock(&writer->lock);
	return durable;
}

wk_status wk_cluster_writer_status(wk_cluster_writer *writer) {
	pthread_mutex_lock(&writer->lock);
	wk_status status = writer->status;
	pthread_mutex_unlock(&writer->lock);
	return status;
}
