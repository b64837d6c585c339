/*
 * reader.h: where a reader of a log stands, and the entry that it has open. Private.
 *
 * reader.c gives out records; reader_entries.c finds and reads the entries that they stand in.
 */
#ifndef WK_ENGINE_READER_H
#define WK_ENGINE_READER_H
#include "engine/catalogue.h"
#include "engine/directory.h"
#include "engine/index.h"
#include "records/entry_records.h"
#include "records/read_memory.h"

struct wk_reader {
	wk_namespace *ns;
	wk_log_state *state;
	wk_hold *hold;
	wk_read_memory *memory;
	wk_dlsn at; /* the next record is the first one at or after it */
	wk_dlsn end;
	bool has_end, follow, ended;
	bool fresh; /* at the start: what was truncated since is not missed */
	/* Behind what it gave out or passed over, or where it began; a gap does not begin before that. 0: from the start. */
	int64_t next_sequence_id;
	bool skips; /* it started beyond the end: what is below `wanted` is passed over until that is reached */
	uint32_t wanted_by;
	int64_t wanted;
	wk_span span; /* entries read ahead */
	uint32_t span_next;
	int64_t span_segment;
	int64_t first_sequence_id; /* of that segment */
	wk_entry_records records;  /* of the entry at->entry_id, once opened */
	bool open;
	bool in_gap;       /* it stands before accepted loss: ... */
	bool records_only; /* an Arrow batch has no place for a gap */
	wk_gap gap;        /* ... this, */
	wk_dlsn gap_end;   /* and goes on here */
};

void wk_reader_drop_span(wk_reader *reader);
/*
 * Opens the entry that holds reader->at, reading more where the span is used up; or reader->in_gap. WK_END: nothing more
 * now. No lock held.
 */
wk_status wk_reader_open_entry(wk_engine *engine, wk_reader *reader, wk_error *error);
/* Behind its last record. */
void wk_reader_close_entry(wk_reader *reader);
/* (locked) What it stands before was truncated or deleted. */
bool wk_reader_is_gone(const wk_reader *reader);
#endif
