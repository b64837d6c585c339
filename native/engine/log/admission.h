/*
 * admission.h: may this record be appended, and where does it go? Private; the engine's lock is held.
 */
#ifndef WK_ENGINE_ADMISSION_H
#define WK_ENGINE_ADMISSION_H
#include "engine/directory.h"

enum { WK_NEW_SEGMENT_ROOM = 3 * WK_CATALOGUE_RECORD_MAX }; /* what ending one segment and starting the next may take */

struct wk_writer {
	wk_namespace *ns;
	wk_log_state *state;
	wk_hold *hold;
	uint32_t generation;
	bool refusing; /* a conditional submit failed: all later ones do, until a flush */
	/*
	 * What the last append went through, to be fetched at the beginning of the next one: with thousands of logs all of
	 * it is far, and each part is known only from the one before. It may be gone since; nobody reads through these.
	 */
	const void *near[4];
};

/* One call's view: what it appends, and under which conditions. */
typedef struct wk_appending {
	wk_writer *writer;
	wk_engine *engine;
	wk_log_state *log;
	const wk_append_options *options;
	uint64_t deadline_ns; /* for room; 0: do not wait */
	uint64_t waits_ns;    /* for durability */
	const void *batch;    /* names the append_many that this is part of */
	uint64_t now_ms;      /* the clock, where it was asked; 0: it was not */
	bool submits;         /* the caller learns of a failure later than it goes on */
	wk_error *error;
} wk_appending;

/* (locked, dropped where it fails) The log is there, this writer is not fenced, the stream goes on. */
wk_status wk_append_check(const wk_appending *a);
/*
 * Room for `bytes`, and everything that could refuse the append; *txid is chosen. (dropped while it waits) On WK_OK
 * the segment is open and the lock was not dropped since.
 */
wk_status wk_append_admit(wk_appending *a, size_t bytes, int64_t *txid);
/*
 * A writer begins: has the clock that stamps this log's txids fallen far behind its last record? (locked; the tail is
 * there)
 */
void wk_clock_check(wk_engine *engine, const wk_log_state *log);
/* The open segment ends behind the last record. */
wk_status wk_segment_complete(const wk_appending *a, uint64_t *ticket);
#endif
