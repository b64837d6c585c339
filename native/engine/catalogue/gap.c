#include "engine/catalogue/gap.h"

#include <stdlib.h>
#include <string.h>

#include "engine/index.h"

wk_status wk_gap_add(wk_log_state *log, const wk_gap *gap) {
	uint32_t count = log->gaps != NULL ? log->gaps->count : 0, at = 0;
	for (; at < count && log->gaps->list[at].first_sequence_id <= gap->first_sequence_id; at++)
		if (log->gaps->list[at].first_sequence_id == gap->first_sequence_id && log->gaps->list[at].count >= gap->count)
			return WK_OK;
	struct wk_gaps *gaps = realloc(log->gaps, sizeof *gaps + (count + 1) * sizeof gaps->list[0]);
	if (gaps == NULL)
		return WK_NO_MEMORY;
	memmove(&gaps->list[at + 1], &gaps->list[at], (count - at) * sizeof gaps->list[0]);
	gaps->list[at] = *gap;
	gaps->count = count + 1;
	log->gaps = gaps;
	return WK_OK;
}

int64_t wk_gap_next_entry(const wk_log_state *log, int64_t segment, int64_t entry_id) {
	int64_t next = INT64_MAX;
	for (uint32_t i = 0; log->gaps != NULL && i < log->gaps->count; i++) {
		const wk_gap *gap = &log->gaps->list[i];
		if (gap->segment == segment && gap->entry_id >= entry_id && gap->entry_id < next)
			next = gap->entry_id;
	}
	return next;
}

/* The first entry behind the lost ones that is in a file, or where another gap begins. (locked, dropped meanwhile) */
static int64_t next_present(wk_engine *engine, const wk_log_state *log, int64_t ledger_id, const wk_gap *lost) {
	int64_t gap = wk_gap_next_entry(log, lost->segment, lost->entry_id + 1);
	int64_t next = (lost->last_entry_id > lost->entry_id ? lost->last_entry_id : lost->entry_id) + 1;
	if (gap <= next)
		return gap;
	wk_stretch stretch = {0};
	wk_engine_unlock(engine);
	wk_status status = wk_lookup(engine, ledger_id, next, next, WK_LOOKUP_ALL, NULL, 0, &stretch, NULL);
	bool nowhere = status == WK_NOT_FOUND || (status == WK_OK && stretch.file == NULL);
	wk_stretch_release(engine, &stretch);
	wk_engine_lock(engine);
	if (status == WK_OK && nowhere && stretch.last_entry < INT64_MAX)
		next = stretch.last_entry + 1;
	else if (nowhere && gap == INT64_MAX) {
		const wk_ledger *ledger = wk_ledger_find(engine, ledger_id);
		return ledger != NULL && ledger->last_entry >= next ? ledger->last_entry + 1 : next;
	} else if (nowhere)
		return gap;
	return next < gap ? next : gap; /* where an index is damaged, the next entry's reader says so */
}

static wk_dlsn end_of(wk_engine *engine, wk_log_state *log, const wk_gap *gap) {
	int64_t end = gap->first_sequence_id + gap->count;
	for (const wk_segment *segment = wk_log_segment_at(log, gap->segment); segment != NULL;
	     segment = wk_log_segment_at(log, segment->segment + 1)) {
		bool completed = segment->records_count >= 0;
		if (completed && segment->first_sequence_id + segment->records_count == end)
			return (wk_dlsn){segment->segment, segment->last_entry, segment->last_slot + 1};
		if (completed && segment->first_sequence_id + segment->records_count < end)
			continue;
		if (segment->segment == gap->segment)
			return (wk_dlsn){gap->segment, next_present(engine, log, segment->ledger_id, gap), 0};
		return (wk_dlsn){segment->segment, 0, 0};
	}
	return (wk_dlsn){gap->segment + 1, 0, 0};
}

const wk_gap *wk_gap_at(wk_engine *engine, wk_log_state *log, const wk_dlsn *at, wk_gap *found, wk_dlsn *end) {
	for (uint32_t i = 0; log->gaps != NULL && i < log->gaps->count; i++) {
		*found = log->gaps->list[i]; /* the list may change while the lock is away; a follower's may be another */
		wk_dlsn start = {found->segment, found->entry_id, 0};
		if (wk_dlsn_compare(&start, at) > 0)
			continue;
		*end = end_of(engine, log, found);
		if (wk_dlsn_compare(at, end) < 0)
			return found;
	}
	return NULL;
}

const wk_gap *wk_gap_of(const wk_log_state *log, int64_t sequence_id) {
	for (uint32_t i = 0; log->gaps != NULL && i < log->gaps->count; i++) {
		const wk_gap *gap = &log->gaps->list[i];
		if (gap->first_sequence_id <= sequence_id && sequence_id < gap->first_sequence_id + gap->count)
			return gap;
	}
	return NULL;
}

int64_t wk_gap_count(const wk_log_state *log, int64_t first, int64_t end) {
	int64_t lost = 0;
	for (uint32_t i = 0; log->gaps != NULL && i < log->gaps->count; i++) {
		const wk_gap *gap = &log->gaps->list[i];
		int64_t from = gap->first_sequence_id > first ? gap->first_sequence_id : first;
		int64_t to = gap->first_sequence_id + gap->count < end ? gap->first_sequence_id + gap->count : end;
		lost += to > from ? to - from : 0;
	}
	return lost;
}
