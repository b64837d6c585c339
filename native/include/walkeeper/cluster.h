/*
 * cluster.h: a log whose segments are ledgers: its writer packs records into entries and adds them to the ledger of the
 * open segment; its reader takes them apart again. The bytes of an entry are those of a log in a directory
 * (docs/formats/entry.md, record.md): the digest of the ledgers is CRC32C.
 *
 * The caller keeps the metadata of the log: which segments it has, in which ledgers, from which sequence id on. It makes the
 * ledger of a segment, hands over its handle, and is told when another segment is due (WK_NEEDS_SEGMENT).
 *
 * The calls of writing and reading have the arguments and statuses of those of log.h, whose structs they use. A ticket is
 * a number for wk_cluster_writer_wait; tickets rise in the order of acceptance.
 */
#ifndef WALKEEPER_CLUSTER_H
#define WALKEEPER_CLUSTER_H
#include "walkeeper/client.h"

/* ---- writing ---------------------------------------------------------------------------------------- */

typedef struct wk_cluster_writer wk_cluster_writer;

typedef struct wk_cluster_writer_options {
	const char *log;          /* its name, for errors; not used after the call */
	uint64_t segment_bytes;   /* as in wk_log_options */
	uint64_t segment_seconds; /* as in wk_log_options */
	uint32_t codec;           /* WK_CODEC_* */
	uint32_t txid_source;     /* enum wk_txid_source */
	bool end_of_stream;       /* the log was ended: every append is refused */
	wk_position last;         /* the last record of the log; sequence_id and txid -1: there is none */
} wk_cluster_writer_options;

/* A writer without a segment. WK_NO_MEMORY. */
WK_API wk_status wk_cluster_writer_open(const wk_cluster_writer_options *options, wk_cluster_writer **writer,
                                        wk_error *error);
/*
 * Appends go to this segment from now on; its first record gets the sequence id behind the last one. The handle
 * (WK_HANDLE_WRITE, digest CRC32C) stays the caller's, who closes it behind the end of the segment, and adds nothing to it.
 * WK_INVALID: a segment is open, or the handle is not of that kind.
 */
WK_API wk_status wk_cluster_writer_begin_segment(wk_cluster_writer *writer, wk_handle *handle, int64_t segment,
                                                 wk_error *error);
/* Who numbers the records, once the caller has stored it. */
WK_API void wk_cluster_writer_set_source(wk_cluster_writer *writer, uint32_t txid_source);

typedef struct wk_segment_end {
	int64_t last_entry; /* of its ledger: the metadata of the ledger are closed with it and with `length`. -1: none */
	uint64_t length;
	int64_t first_sequence_id;
	int64_t records_count; /* that are confirmed */
	uint64_t payload_bytes;
	wk_position last; /* the last record of the log that is confirmed; sequence_id -1: there is none */
	bool whole;       /* everything that was accepted is confirmed; else the writer has failed */
} wk_segment_end;
/*
 * Ends the open segment: appends wait for the next one meanwhile (WK_NEEDS_SEGMENT). Waits until everything that was
 * accepted is confirmed, the writer has failed, or timeout_ns have passed: then what is not confirmed is of unknown
 * outcome, and the writer fails. WK_NOT_FOUND: no segment is open. WK_INTERRUPTED: call again.
 */
WK_API wk_status wk_cluster_writer_end_segment(wk_cluster_writer *writer, uint64_t timeout_ns, wk_segment_end *end,
                                               wk_error *error);
/*
 * The open segment, and whether another one is due: by its size, or its age. segment: 0 where none is open.
 */
WK_API void wk_cluster_writer_segment(wk_cluster_writer *writer, int64_t *segment, bool *due);

/*
 * wk_writer_append, _submit, _append_many, _flush, _next, _end_of_stream of log.h, and WK_NEEDS_SEGMENT: there is no open
 * segment, another one is due, or the log does not know yet who numbers its records (error->txid: 0 the application, -1 the
 * clock). The caller sees to it, and calls again; nothing was written of what this call did not accept: of
 * wk_cluster_writer_append_many *ticket is 0 where it accepted nothing, else *first to *last were accepted.
 */
WK_API wk_status wk_cluster_writer_append(wk_cluster_writer *writer, const void *payload, size_t size,
                                          const wk_append_options *options, wk_position *at, wk_error *error);
WK_API wk_status wk_cluster_writer_submit(wk_cluster_writer *writer, const void *payload, size_t size,
                                          const wk_append_options *options, wk_position *at, uint64_t *ticket,
                                          wk_error *error);
WK_API wk_status wk_cluster_writer_append_many(wk_cluster_writer *writer, const void *bytes, const uint32_t *sizes,
                                               size_t count, const int64_t *txids, const wk_append_options *options,
                                               bool wait, wk_position *first, wk_position *last, uint64_t *ticket,
                                               wk_error *error);
WK_API wk_status wk_cluster_writer_flush(wk_cluster_writer *writer, uint64_t timeout_ns, wk_position *at,
                                         wk_error *error);
WK_API void wk_cluster_writer_next(wk_cluster_writer *writer, wk_position *next);
WK_API wk_status wk_cluster_writer_end_of_stream(wk_cluster_writer *writer, wk_error *error);
/* WK_TIMEOUT, WK_INTERRUPTED; else why the writer failed before the ticket was confirmed. */
WK_API wk_status wk_cluster_writer_wait(wk_cluster_writer *writer, uint64_t ticket, uint64_t timeout_ns,
                                        wk_error *error);
/* Tickets up to it are confirmed. Cheap; never falls. */
WK_API uint64_t wk_cluster_writer_durable(wk_cluster_writer *writer);
/* WK_OK, or why it failed; WK_FENCED where another client recovers its segment. */
WK_API wk_status wk_cluster_writer_status(wk_cluster_writer *writer);
/* Frees it; the ledger of an open segment stays open. No other call may be under way. */
WK_API void wk_cluster_writer_close(wk_cluster_writer *writer);

/* ---- reading ---------------------------------------------------------------------------------------- */

/* What an entry of a segment holds. */
typedef struct wk_entry_summary {
	wk_position first, last; /* its first and last record; sequence_id -1: none */
	int64_t records_count;
	bool end_of_stream;
} wk_entry_summary;
/* Of a payload that wk_handle_read gave. WK_CORRUPT, WK_UNSUPPORTED, WK_NO_MEMORY. */
WK_API wk_status wk_entry_summarise(const wk_read_entry *entry, int64_t segment, int64_t first_sequence_id,
                                    wk_entry_summary *summary);

typedef struct wk_cluster_reader wk_cluster_reader;

/* Reads no record below `value` by WK_FROM_SEQUENCE_ID, WK_FROM_TXID or WK_FROM_TIME_MS; by others it begins at `at`. */
typedef struct wk_cluster_reader_options {
	uint32_t from; /* enum wk_read_from */
	int64_t value;
	wk_dlsn at;               /* the next record is at or behind it */
	int64_t next_sequence_id; /* and has this one at least; 0: not known */
	bool has_end;
	wk_dlsn end;         /* exclusive */
	uint64_t read_bytes; /* what batches that were not released may hold; 0: 64 MiB */
} wk_cluster_reader_options;
WK_API wk_status wk_cluster_reader_open(const wk_cluster_reader_options *options, wk_cluster_reader **reader,
                                        wk_error *error);
/*
 * The segment that the reader stands in, or is to read next. The handle (WK_HANDLE_READ) stays the caller's, who may close
 * it where no call of the reader is under way; NULL: the one that the reader has, of the same segment. `last_entry`:
 * entries up to it are confirmed (-1: none); `completed`: there will be no more.
 */
WK_API wk_status wk_cluster_reader_segment(wk_cluster_reader *reader, wk_handle *handle, int64_t segment,
                                           int64_t first_sequence_id, int64_t last_entry, bool completed,
                                           wk_error *error);
/* The handle of its segment, which stays the reader's; NULL: none. */
WK_API wk_handle *wk_cluster_reader_handle(wk_cluster_reader *reader);
/*
 * As wk_reader_next, of what is confirmed in the segment: timeout_ns is for bookies to answer. WK_END: nothing more is
 * confirmed there as far as the reader was told, or the end given, or the end of the stream: `reader_state` tells which.
 */
WK_API wk_status wk_cluster_reader_next(wk_cluster_reader *reader, size_t max_records, size_t max_bytes,
                                        uint64_t timeout_ns, wk_batch **batch, wk_error *error);
WK_API wk_status wk_cluster_reader_next_arrow(wk_cluster_reader *reader, size_t max_records, size_t max_bytes,
                                              uint64_t timeout_ns, void *schema, void *array, wk_error *error);
/*
 * Waits until more is confirmed in the segment than the reader was told, which then counts as told: wk_handle_wait_lac.
 * WK_END: nothing comes in this segment any more, as far as its metadata were told; or there is no segment.
 */
WK_API wk_status wk_cluster_reader_wait(wk_cluster_reader *reader, uint64_t timeout_ns, wk_error *error);
typedef struct wk_cluster_reader_state {
	wk_dlsn at; /* of the next record, or behind the last one */
	int64_t segment, last_entry, next_sequence_id;
	bool completed, ended, end_of_stream; /* ended: `end` was reached */
} wk_cluster_reader_state;
/* The next record is at or behind `at`, in the reader's segment or a later one, and has this sequence id at least. */
WK_API void wk_cluster_reader_seek(wk_cluster_reader *reader, const wk_dlsn *at, int64_t next_sequence_id);
WK_API void wk_cluster_reader_state_get(wk_cluster_reader *reader, wk_cluster_reader_state *state);
WK_API void wk_cluster_reader_position(wk_cluster_reader *reader, wk_dlsn *at);
WK_API void wk_cluster_reader_release(wk_cluster_reader *reader);
#endif
