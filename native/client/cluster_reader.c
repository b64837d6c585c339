/* cluster_reader.c: entries of a segment's ledger become records again. What is confirmed the caller says. */
#include "client/driver.h"
#include "records/batch.h"
#include "records/entry_records.h"
#include "records/error.h"
#include "walkeeper/cluster.h"
#include "walkeeper/entry.h"
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 64 * 1024 * 1024, CHUNK_BYTES = 1024 * 1024 };

struct wk_cluster_reader {
	wk_cluster_reader_options options;
	wk_read_memory *memory;
	wk_handle *handle;
	int64_t segment, first_sequence_id, last_entry;
	bool completed, skips, ended, end_of_stream;
	wk_dlsn at;
	int64_t next_sequence_id;
	/* entries that were read and not opened yet: from `chunk_at` on */
	wk_entries *chunk;
	size_t chunk_at;
	int64_t chunk_end;   /* the entry behind the last one that a read gave, in `segment` */
	wk_operation *ahead; /* a read from ahead_at on, whose chunk nobody has yet */
	int64_t ahead_at;
	bool open; /* an entry */
	wk_entry_records records;
};

wk_status wk_cluster_reader_open(const wk_cluster_reader_options *options, wk_cluster_reader **opened,
                                 wk_error *error) {
	wk_error_clear(error);
	wk_cluster_reader *reader = calloc(1, sizeof *reader);
	wk_read_memory *memory = wk_read_memory_new(options->read_bytes != 0 ? options->read_bytes : READ_BYTES);
	if (reader == NULL || memory == NULL) {
		free(reader);
		wk_read_memory_release(memory);
		return wk_fail(error, WK_NO_MEMORY, "opening a reader: no memory");
	}
	reader->options = *options;
	reader->memory = memory;
	reader->at = options->at;
	reader->next_sequence_id = options->next_sequence_id;
	reader->last_entry = reader->chunk_end = -1;
	reader->skips = options->from == WK_FROM_SEQUENCE_ID || options->from == WK_FROM_TXID ||
	                options->from == WK_FROM_TIME_MS;
	*opened = reader;
	return WK_OK;
}

static void close_entry(wk_cluster_reader *reader) {
	if (reader->open)
		wk_entry_records_close(&reader->records);
	reader->open = false;
}

static void drop_chunk(wk_cluster_reader *reader) {
	if (reader->chunk != NULL)
		wk_entries_release(reader->chunk);
	reader->chunk = NULL;
	reader->chunk_at = 0;
}

static void drop_ahead(wk_cluster_reader *reader) {
	if (reader->ahead != NULL)
		wk_operation_leave(reader->ahead);
	reader->ahead = NULL;
}

void wk_cluster_reader_release(wk_cluster_reader *reader) {
	close_entry(reader);
	drop_chunk(reader);
	drop_ahead(reader);
	if (reader->handle != NULL)
		wk_handle_drop(reader->handle);
	wk_read_memory_release(reader->memory);
	free(reader);
}

wk_status wk_cluster_reader_segment(wk_cluster_reader *reader, wk_handle *handle, int64_t segment,
                                    int64_t first_sequence_id, int64_t last_entry, bool completed, wk_error *error) {
	wk_error_clear(error);
	bool same = handle == NULL && reader->handle != NULL && segment == reader->segment;
	bool next = handle != NULL && handle->mode == WK_HANDLE_READ && handle->view.digest.type == WK_DIGEST_CRC32C &&
	            (reader->handle == NULL || segment >= reader->segment);
	if (!same && !next)
		return wk_fail(
		    error, WK_INVALID,
		    "reading segment %lld: the handle does not read, or its ledger has another digest than CRC32C, or "
		    "the segment lies behind the reader",
		    (long long)segment);
	if (next) {
		wk_handle_hold(handle);
		if (reader->handle != NULL)
			wk_handle_drop(reader->handle);
		drop_ahead(reader);
		if (segment != reader->segment) {
			close_entry(reader);
			drop_chunk(reader);
			reader->chunk_end = -1;
		}
		reader->handle = handle;
		reader->segment = segment;
		reader->first_sequence_id = first_sequence_id;
		reader->last_entry = -1;
		if (reader->at.segment < segment)
			reader->at = (wk_dlsn){segment, 0, 0};
	}
	if (last_entry > reader->last_entry)
		reader->last_entry = last_entry;
	reader->completed = completed;
	return WK_OK;
}

wk_handle *wk_cluster_reader_handle(wk_cluster_reader *reader) {
	return reader->handle;
}

void wk_cluster_reader_state_get(wk_cluster_reader *reader, wk_cluster_reader_state *state) {
	*state = (wk_cluster_reader_state){.at = reader->at,
	                                   .segment = reader->segment,
	                                   .last_entry = reader->last_entry,
	                                   .next_sequence_id = reader->next_sequence_id,
	                                   .completed = reader->completed,
	                                   .ended = reader->ended,
	                                   .end_of_stream = reader->end_of_stream};
}

void wk_cluster_reader_position(wk_cluster_reader *reader, wk_dlsn *at) {
	*at = reader->at;
}

void wk_cluster_reader_seek(wk_cluster_reader *reader, const wk_dlsn *at, int64_t next_sequence_id) {
	close_entry(reader);
	drop_chunk(reader);
	reader->at = *at;
	reader->next_sequence_id = next_sequence_id;
}

/* ---- entries ---- */

static wk_status malformed(const wk_cluster_reader *reader, wk_error *error) {
	return wk_fail(error, WK_DAMAGED, "entry %lld of segment %lld is malformed: its digest is right",
	               (long long)reader->at.entry_id, (long long)reader->segment);
}

/* The payload of an entry, with the place of its header before it, as entry_records wants it. */
static wk_status open_records(const wk_read_entry *entry, wk_entry_records *records) {
	wk_buffer *buffer = wk_buffer_new(NULL, WK_ENTRY_HEADER_SIZE + entry->size);
	if (buffer == NULL)
		return WK_NO_MEMORY;
	memset(buffer->bytes, 0, WK_ENTRY_HEADER_SIZE);
	memcpy(buffer->bytes + WK_ENTRY_HEADER_SIZE, entry->payload, entry->size);
	wk_status status = wk_entry_records_open(records, buffer, buffer->bytes, WK_ENTRY_HEADER_SIZE + entry->size);
	wk_buffer_release(buffer); /* the records hold it */
	return status;
}

static bool read_ahead(wk_cluster_reader *reader, int64_t entry_id, uint64_t bytes) {
	reader->ahead_at = entry_id;
	reader->ahead = wk_read_begin(reader->handle, entry_id, reader->last_entry, bytes);
	return reader->ahead != NULL;
}

/*
 * Entries from reader->at on become the chunk. Where they follow the ones before, those behind them are asked for already,
 * so that bookies and reader work at once. A wait that is cut short leaves the read under way, for the next call.
 */
static wk_status read_chunk(wk_cluster_reader *reader, uint64_t bytes, uint64_t timeout_ns, wk_error *error) {
	int64_t entry_id = reader->at.entry_id;
	bool follows = entry_id == reader->chunk_end;
	drop_chunk(reader);
	if (reader->ahead != NULL && reader->ahead_at != entry_id)
		drop_ahead(reader);
	if (reader->ahead == NULL && !read_ahead(reader, entry_id, bytes))
		return wk_fail(error, WK_NO_MEMORY, "reading a log: no memory");
	wk_status status = wk_operation_wait(reader->ahead, timeout_ns);
	if (status == WK_TIMEOUT || status == WK_INTERRUPTED)
		return wk_client_fail(error, status, reader->handle->ledger_id, entry_id, false,
		                      "reading entry %lld of ledger %lld: %s", (long long)entry_id,
		                      (long long)reader->handle->ledger_id, wk_status_text(status));
	status = wk_read_finish(reader->ahead, status, &reader->chunk, error);
	reader->ahead = NULL;
	if (status != WK_OK)
		return status;
	size_t count;
	wk_entries_get(reader->chunk, &count);
	reader->chunk_end = entry_id + (int64_t)count;
	if (follows && reader->chunk_end <= reader->last_entry)
		read_ahead(reader, reader->chunk_end, bytes); /* no memory: the next call reads it, or says so */
	return WK_OK;
}

/* The entry at reader->at, of those that were read, or by another read. WK_END: it is not confirmed. */
static wk_status open_entry(wk_cluster_reader *reader, size_t max_bytes, uint64_t timeout_ns, wk_error *error) {
	if (reader->handle == NULL || reader->at.segment != reader->segment || reader->at.entry_id > reader->last_entry)
		return WK_END;
	size_t count = 0;
	const wk_read_entry *entries = NULL;
	if (reader->chunk != NULL) {
		entries = wk_entries_get(reader->chunk, &count);
		while (reader->chunk_at < count && entries[reader->chunk_at].entry_id < reader->at.entry_id)
			reader->chunk_at++;
	}
	if (reader->chunk == NULL || reader->chunk_at >= count ||
	    entries[reader->chunk_at].entry_id != reader->at.entry_id) {
		bool was_ahead = reader->ahead != NULL;
		uint64_t bytes = max_bytes < CHUNK_BYTES ? CHUNK_BYTES : max_bytes;
		wk_status status = read_chunk(reader, bytes, timeout_ns, error);
		if (was_ahead && reader->ahead == NULL && status != WK_OK) /* that was then: bookies may be others now */
			status = read_chunk(reader, bytes, timeout_ns, error);
		if (status != WK_OK)
			return status == WK_NOT_FOUND ? WK_DAMAGED : status; /* it was confirmed */
		entries = wk_entries_get(reader->chunk, &count);
	}
	wk_status status = open_records(&entries[reader->chunk_at], &reader->records);
	if (status == WK_CORRUPT)
		return malformed(reader, error);
	if (status != WK_OK)
		return wk_fail(error, status, "reading entry %lld of segment %lld: %s", (long long)reader->at.entry_id,
		               (long long)reader->segment, wk_status_text(status));
	reader->open = true;
	reader->chunk_at++;
	return WK_OK;
}

wk_status wk_cluster_reader_wait(wk_cluster_reader *reader, uint64_t timeout_ns, wk_error *error) {
	wk_error_clear(error);
	if (reader->handle == NULL || reader->completed)
		return WK_END;
	int64_t lac;
	wk_entries *entry;
	wk_status status = wk_handle_wait_lac(reader->handle, reader->last_entry, timeout_ns, &lac, &entry, error);
	if (status != WK_OK)
		return status;
	bool is_next = entry != NULL && reader->at.segment == reader->segment &&
	               reader->at.entry_id == wk_entries_get(entry, &(size_t){0})->entry_id && !reader->open;
	if (is_next) {
		drop_chunk(reader);
		drop_ahead(reader);
		reader->chunk = entry;
		reader->chunk_end = reader->at.entry_id + 1;
	} else if (entry != NULL) {
		wk_entries_release(entry);
	}
	if (lac <= reader->last_entry)
		return WK_END;
	reader->last_entry = lac;
	return WK_OK;
}

/* ---- records ---- */

static bool is_below(const wk_cluster_reader *reader, int64_t sequence_id, int64_t txid) {
	int64_t key = reader->options.from == WK_FROM_SEQUENCE_ID ? sequence_id : txid;
	return reader->skips && key < reader->options.value;
}

/* Adds the records of the open entry from reader->at on. */
static wk_status take_records(wk_cluster_reader *reader, wk_batch *batch, size_t max_records, size_t max_bytes,
                              wk_error *error) {
	while (batch->count < max_records && (batch->count == 0 || batch->bytes < max_bytes)) {
		int64_t slot = reader->records.slot;
		wk_dlsn here = {reader->segment, reader->at.entry_id, slot};
		if (reader->options.has_end && wk_dlsn_compare(&here, &reader->options.end) >= 0) {
			reader->ended = true;
			return WK_END;
		}
		wk_log_record record;
		const wk_entry_records before = reader->records;
		wk_status status = wk_entry_records_next(&reader->records, &record);
		if (status == WK_END) {
			close_entry(reader);
			reader->at = (wk_dlsn){reader->segment, reader->at.entry_id + 1, 0};
			return WK_OK;
		}
		if (status != WK_OK)
			return malformed(reader, error);
		if ((record.flags & WK_RECORD_END_OF_STREAM) != 0) {
			reader->end_of_stream = true;
			continue;
		}
		int64_t sequence_id = reader->first_sequence_id + record.position - 1;
		if ((record.flags & WK_RECORD_CONTROL) != 0 || slot < reader->at.slot || sequence_id < reader->next_sequence_id)
			continue;
		if (is_below(reader, sequence_id, record.txid)) { /* passed over: nobody misses it */
			reader->next_sequence_id = sequence_id + 1;
			continue;
		}
		reader->skips = false;
		status = wk_batch_reserve(batch, reader->records.buffer);
		if (status != WK_OK) {
			reader->records = before;
			return status == WK_FULL ? wk_fail(error, status,
			                                   "records that were read and are still held take read_bytes: let go of "
			                                   "some, copy what you keep, or open with a larger read_bytes")
			                         : wk_fail(error, status, "reading a log: no memory");
		}
		wk_record out = {
		    .payload = record.payload,
		    .size = record.payload_size,
		    .at = {here, sequence_id, record.txid},
		    .next = {here.segment, here.entry_id, slot + 1},
		};
		wk_batch_add(batch, &out);
		reader->at.slot = slot + 1;
		reader->next_sequence_id = sequence_id + 1;
	}
	return WK_OK;
}

wk_status wk_cluster_reader_next(wk_cluster_reader *reader, size_t max_records, size_t max_bytes, uint64_t timeout_ns,
                                 wk_batch **out, wk_error *error) {
	wk_error_clear(error);
	wk_batch *batch = wk_batch_new(reader->memory);
	if (batch == NULL)
		return wk_fail(error, WK_NO_MEMORY, "reading a log: no memory");
	wk_status status = WK_OK;
	max_records = max_records > 0 ? max_records : 1;
	while (status == WK_OK && batch->count < max_records && (batch->count == 0 || batch->bytes < max_bytes)) {
		if (reader->options.has_end && wk_dlsn_compare(&reader->at, &reader->options.end) >= 0) {
			reader->ended = true;
			status = WK_END;
			break;
		}
		if (!reader->open)
			status = open_entry(reader, max_bytes, timeout_ns, error);
		if (status == WK_OK)
			status = take_records(reader, batch, max_records, max_bytes, error);
	}
	if (batch->count > 0) { /* what is there comes first; a failure is met again */
		wk_error_clear(error);
		*out = batch;
		return WK_OK;
	}
	wk_batch_release(batch);
	return status;
}

wk_status wk_cluster_reader_next_arrow(wk_cluster_reader *reader, size_t max_records, size_t max_bytes,
                                       uint64_t timeout_ns, void *schema, void *array, wk_error *error) {
	wk_batch *batch;
	wk_dlsn before = reader->at;
	bool skips = reader->skips, ended = reader->ended;
	int64_t next_sequence_id = reader->next_sequence_id;
	wk_status status = wk_cluster_reader_next(reader, max_records, max_bytes, timeout_ns, &batch, error);
	if (status != WK_OK)
		return status;
	status = wk_batch_to_arrow(batch, schema, array);
	wk_batch_release(batch);
	if (status == WK_OK)
		return WK_OK;
	close_entry(reader); /* nobody was given them: they come the next time */
	drop_chunk(reader);
	reader->at = before;
	reader->skips = skips;
	reader->ended = ended;
	reader->next_sequence_id = next_sequence_id;
	return wk_fail(error, status, "building an Arrow batch: %s", wk_status_text(status));
}

/* ---- summaries ---- */

wk_status wk_entry_summarise(const wk_read_entry *entry, int64_t segment, int64_t first_sequence_id,
                             wk_entry_summary *summary) {
	wk_entry_records records;
	wk_status status = open_records(entry, &records);
	if (status != WK_OK)
		return status;
	*summary = (wk_entry_summary){.first = {.sequence_id = -1, .txid = -1}, .last = {.sequence_id = -1, .txid = -1}};
	for (;;) {
		wk_log_record record;
		int64_t slot = records.slot;
		status = wk_entry_records_next(&records, &record);
		if (status != WK_OK)
			break;
		if ((record.flags & WK_RECORD_END_OF_STREAM) != 0)
			summary->end_of_stream = true;
		if ((record.flags & (WK_RECORD_END_OF_STREAM | WK_RECORD_CONTROL)) != 0)
			continue;
		summary->last = (wk_position){
		    {segment, entry->entry_id, slot}, first_sequence_id + record.position - 1, record.txid};
		if (summary->records_count++ == 0)
			summary->first = summary->last;
	}
	wk_entry_records_close(&records);
	return status == WK_END ? WK_OK : status;
}
