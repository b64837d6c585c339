#include "engine/retention.h"

#include "engine/catalogue.h"
#include "engine/handles.h"
#include "engine/keeper.h"

enum { LOOK_NS = 1000 * 1000 * 1000, MS_IN_NS = 1000 * 1000 };

typedef struct moment {
	uint64_t wall_ms;
	uint64_t passed_ms; /* the wall clock of the first look, and what passed since */
} moment;

/* What was begun later than that clock can be was begun by one that was set since: by that it ages. */
static bool is_older(const wk_segment *segment, uint64_t seconds, moment now) {
	bool set_since = segment->created_ms > now.passed_ms;
	return wk_segment_is_older(segment, seconds,
	                           set_since || now.wall_ms < now.passed_ms ? now.wall_ms : now.passed_ms);
}

/*
 * The first segment that stays: a segment is as old as its youngest record, that is, as the start of the one behind
 * it. The open one always stays, and no cursor is passed.
 */
static const wk_segment *first_that_stays(const wk_log_state *log, moment now) {
	const wk_segment *stays = NULL;
	for (uint32_t i = 0; i + 1 < log->segments_count; i++) {
		const wk_segment *next = &log->segments[i + 1];
		if (log->segments[i].records_count < 0 || !is_older(next, log->options->retention_seconds, now))
			break;
		if (wk_log_cursor_before(log, &(wk_position){{next->segment, 0, 0}, next->first_sequence_id, -1}) != NULL)
			return stays;
		stays = next;
	}
	return stays;
}

static bool is_due(const wk_log_state *log, const wk_segment *stays) {
	return stays != NULL && wk_dlsn_compare(&(wk_dlsn){stays->segment, 0, 0}, &log->first->dlsn) > 0;
}

/* (locked, dropped while it waits) What goes is looked for once more: cursors came meanwhile, or somebody truncated. */
static bool truncate(wk_engine *engine, wk_log_state *log, moment now) {
	log->handles++;
	wk_status status = wk_catalogue_turn_for(engine, WK_ROOM_FREE, UINT64_MAX, NULL);
	const wk_segment *stays = status == WK_OK && !log->deleted ? first_that_stays(log, now) : NULL;
	if (!is_due(log, stays)) {
		wk_log_state_release(engine, log);
		return false;
	}
	wk_dlsn first = {stays->segment, 0, 0};
	status = wk_catalogue_commit(engine,
	                             &(wk_catalogue_record){.type = WK_CATALOGUE_TRUNCATE,
	                                                    .log_id = log->id,
	                                                    .segment = stays->segment,
	                                                    .sequence_id = stays->first_sequence_id,
	                                                    .txid = stays->first_txid},
	                             NULL);
	if (status == WK_OK && !log->deleted) {
		wk_catalogue_reclaim_before(engine, log, &first);
		wk_keeper_wake(engine);
	}
	wk_log_state_release(engine, log);
	return status == WK_OK;
}

/*
 * For what was there, no more of the wall clock counts than passed since this was first asked: who sets a wrong clock
 * right, or a right one wrong, does not make seconds old what was appended before.
 */
static moment moment_of(wk_engine *engine, uint64_t now_ns) {
	uint64_t wall_ms = engine->io->operations->wall(engine->io) / MS_IN_NS;
	if (engine->retention_from_ns == 0) {
		engine->retention_from_ns = now_ns;
		engine->retention_from_ms = wall_ms;
	}
	uint64_t passed_ms = engine->retention_from_ms + (now_ns - engine->retention_from_ns) / MS_IN_NS;
	return (moment){wall_ms, passed_ms};
}

bool wk_retention_step(wk_engine *engine) {
	uint64_t now = wk_engine_now(engine);
	if (engine->failed || engine->closing || engine->read_only || now < engine->retention_due_ns)
		return false;
	bool any = false;
	for (uint32_t i = 0; i < engine->log_options_count; i++)
		any |= engine->log_options[i]->retention_seconds != 0;
	engine->retention_due_ns = now + LOOK_NS;
	moment at = moment_of(engine, now);
	for (uint32_t i = 0; any && i < engine->by_id_capacity; i++) {
		wk_log_state *log = engine->logs_by_id[i];
		if (log == NULL || log->deleted || log->options->retention_seconds == 0)
			continue;
		if (is_due(log, first_that_stays(log, at))) {
			engine->retention_due_ns = now; /* there may be more */
			return truncate(engine, log, at);
		}
	}
	return false;
}
