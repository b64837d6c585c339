#include "engine/catalogue/retention.h"

#include "engine/catalogue/catalogue.h"
#include "engine/directory.h"

enum { LOOK_NS = 1000 * 1000 * 1000, MS_IN_NS = 1000 * 1000 };

typedef struct moment {
	uint64_t now_ns;    /* by the monotonic clock */
	uint64_t passed_ms; /* since the first look */
	uint64_t first_ms;  /* the wall clock then */
	uint64_t wall_ms;   /* and now */
} moment;

/*
 * Who sets a wrong clock right, or a right one wrong, does not make old what was appended seconds ago: what this open began
 * ages by the monotonic clock. For what it found, no more of the wall clock counts than passed since it was first asked;
 * and where that was behind what it had said before, what passed is all that is known.
 */
static uint64_t age_ms(const wk_segment *segment, moment at) {
	if (segment->begun_ns != 0)
		return at.now_ns > segment->begun_ns ? (at.now_ns - segment->begun_ns) / MS_IN_NS : 0;
	if (segment->created_ms > at.first_ms)
		return at.passed_ms;
	uint64_t now_ms = at.first_ms + at.passed_ms;
	now_ms = at.wall_ms < now_ms ? at.wall_ms : now_ms;
	return now_ms > segment->created_ms ? now_ms - segment->created_ms : 0;
}

static bool is_older(const wk_segment *segment, uint64_t seconds, moment at) {
	return age_ms(segment, at) / 1000 >= seconds;
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

static moment moment_of(wk_engine *engine, uint64_t now_ns) {
	uint64_t wall_ms = engine->io->operations->wall(engine->io) / MS_IN_NS;
	if (engine->retention_from_ns == 0) {
		engine->retention_from_ns = now_ns;
		engine->retention_from_ms = wall_ms;
	}
	return (moment){.now_ns = now_ns,
	                .passed_ms = (now_ns - engine->retention_from_ns) / MS_IN_NS,
	                .first_ms = engine->retention_from_ms,
	                .wall_ms = wall_ms};
}

/*
 * (locked, dropped while it waits) What goes is looked for once more: cursors came meanwhile, segments began, or somebody
 * truncated.
 */
static bool truncate(wk_engine *engine, wk_log_state *log) {
	log->handles++;
	wk_status status = wk_catalogue_turn_for(engine, WK_ROOM_FREE, UINT64_MAX, NULL);
	moment now = moment_of(engine, wk_engine_now(engine));
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
			return truncate(engine, log);
		}
	}
	return false;
}
