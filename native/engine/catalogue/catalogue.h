/*
 * catalogue.h: the logs of a directory: names, segments, truncation points, cursors. Private; under the engine's
 * lock.
 *
 * What is in memory is what the records of ledger 0 say (catalogue_record.h). A change is applied when its record is
 * accepted into the open block: a failed journal is final, so nobody can have seen a change that did not come true
 * after the next start, but in this process; calls that report a change wait for its durability.
 */
#ifndef WK_ENGINE_CATALOGUE_H
#define WK_ENGINE_CATALOGUE_H
#include "engine/engine.h"

typedef struct wk_segment {
	int64_t segment;
	int64_t ledger_id;
	int64_t first_sequence_id;
	int64_t first_txid;    /* -1: unknown until its first entry is read */
	int64_t last_txid;     /* of a completed segment */
	int64_t records_count; /* -1: not completed */
	int64_t last_entry;
	int64_t last_slot;
	int64_t payload_bytes; /* of a completed segment */
	uint64_t created_ms;
	uint64_t begun_ns; /* by the monotonic clock, where this open began it; 0: an earlier one did */
} wk_segment;

/*
 * A place has several DLSNs where no record stands between them, as behind a segment's last record; its sequence id is
 * one.
 */
static inline bool wk_position_is_before(const wk_position *a, const wk_position *b) {
	return a->sequence_id < b->sequence_id && wk_dlsn_compare(&a->dlsn, &b->dlsn) < 0;
}
/* It began at least so many seconds ago. UINT64_MAX is for ever, and nothing a log may hold is too large to be asked. */
static inline bool wk_segment_is_older(const wk_segment *segment, uint64_t seconds, uint64_t now_ms) {
	return now_ms >= segment->created_ms && (now_ms - segment->created_ms) / 1000 >= seconds;
}

typedef struct wk_cursor_state {
	char *name;
	size_t name_size;
	wk_position at;
} wk_cursor_state;

/* What only a log in use has: where it ends. */
typedef struct wk_log_tail {
	wk_position last;           /* the last accepted record; sequence_id -1: none */
	wk_position durable;        /* the last durable record */
	int64_t durable_segment;    /* the last segment that is durably there */
	int64_t next_entry;         /* of the open segment's ledger */
	int64_t segment_bytes;      /* payload accepted in the open segment ... */
	int64_t durable_bytes;      /* ... and durable in the segment of `durable` */
	uint64_t builder_block;     /* its builder is in the open block of this sequence ... */
	uint32_t builder;           /* ... at this index */
	uint32_t writer_generation; /* of the writer that may append */
	uint64_t last_ticket;
	const void *batch; /* the append_many under way: its records stay together */
} wk_log_tail;

struct wk_log_state {
	uint64_t id;
	char *name; /* also once deleted: who holds the log is told which one it was */
	uint32_t name_size;
	uint32_t handles;     /* open wk_log handles, writers and readers */
	wk_segment *segments; /* those not truncated, oldest first */
	uint32_t segments_count, segments_capacity;
	int64_t next_segment;
	const wk_position *first;      /* truncation point: the first record not truncated; dlsn.segment 0: none yet */
	const wk_log_options *options; /* shared with logs that have the same */
	wk_log_tail *tail;             /* NULL while nobody uses the log */
	wk_cursor_state *cursors;
	struct wk_gaps *gaps; /* accepted losses (gap.h); NULL: none */
	uint32_t cursors_count;
	uint8_t txid_source; /* enum wk_txid_source */
	bool end_of_stream;
	bool deleted;
	bool not_durable; /* a change of it may not be durable yet (wk_catalogue_wait_durable) */
};

wk_log_state *wk_catalogue_find(wk_engine *engine, const char *name, size_t name_size);
wk_log_state *wk_catalogue_by_id(wk_engine *engine, uint64_t log_id);
/* The segment of that number, or the first one after it; NULL behind the last. */
wk_segment *wk_log_segment_at(wk_log_state *log, int64_t segment);
wk_segment *wk_log_last_segment(wk_log_state *log); /* NULL: none */
/* The one that is being written; NULL: none. */
wk_segment *wk_log_open_segment(wk_log_state *log);
/* One that needs records before `at`; NULL: there is none. */
const wk_cursor_state *wk_log_cursor_before(const wk_log_state *log, const wk_position *at);
wk_cursor_state *wk_log_cursor(wk_log_state *log, const char *name, size_t name_size);
/* The truncation that was applied last is durable with this block. */
void wk_log_truncated(wk_log_state *log, uint64_t ticket);
/* Durable is this one, whatever becomes of one behind it that is on its way. */
void wk_log_truncation_durable(wk_log_state *log, const wk_catalogue_record *record);
/* The journal has failed. A truncation that it did not make durable was none: the log begins where it did before. */
void wk_log_take_back_truncation(const wk_engine *engine, wk_log_state *log);

/* Changes the memory as the record says. WK_CORRUPT where it does not fit what is there; WK_NO_MEMORY. */
wk_status wk_catalogue_apply(wk_engine *engine, const wk_catalogue_record *record);
/* Memory for one more segment; false: there is none. */
bool wk_log_reserve_segment(wk_log_state *log);
/*
 * Memory for changes of `size` bytes together, in the open block behind `ahead` builders that are made before; false:
 * there is none. *builders that are made for them: 0 or 1.
 */
bool wk_catalogue_reserve(wk_engine *engine, size_t size, uint32_t ahead, uint32_t *builders);
/*
 * Applies the record and puts it into the open block. Nothing is durable yet: *ticket. WK_NO_MEMORY: neither was done,
 * and where wk_catalogue_reserve has the memory it is what the record itself takes (a name, a segment).
 */
wk_status wk_catalogue_change(wk_engine *engine, const wk_catalogue_record *record, uint64_t *ticket);
/* Puts encoded records into the open block as they are. */
wk_status wk_catalogue_append(wk_engine *engine, const uint8_t *bytes, size_t size, uint64_t *ticket);
/* All records of a payload of ledger 0, applied. */
wk_status wk_catalogue_replay(wk_engine *engine, const uint8_t *payload, size_t size);
/* Is this payload of ledger 0 a part of a snapshot, rather than changes? */
bool wk_catalogue_is_snapshot(const uint8_t *payload, size_t size);
/* The whole catalogue as records; the caller frees *bytes. */
wk_status wk_catalogue_snapshot(wk_engine *engine, uint8_t **bytes, size_t *size);
/* Space of ledgers that the catalogue no longer names, after the change is durable. */
void wk_catalogue_reclaim(wk_engine *engine, wk_log_state *log);
/* The same for what lies before `first`, a truncation point that is durable although log->first may not be yet. */
void wk_catalogue_reclaim_before(wk_engine *engine, wk_log_state *log, const wk_dlsn *first);
/* A handle less; the last one of a deleted log frees it. */
void wk_log_state_release(wk_engine *engine, wk_log_state *log);
/*
 * Block `sequence` is durable, and nobody holds the log: with its last builder there, number `builder`, its tail goes,
 * and a deleted log altogether.
 */
void wk_log_state_on_durable(wk_engine *engine, wk_log_state *log, uint64_t sequence, uint32_t builder);
/* Frees deleted logs that nobody holds. */
void wk_catalogue_bury(wk_engine *engine);
void wk_catalogue_free(wk_engine *engine);
uint64_t wk_catalogue_memory(wk_engine *engine);
#endif
