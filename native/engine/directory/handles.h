/*
 * handles.h: what the public pointers point to, and the rules of entering a call. Private.
 */
#ifndef WK_ENGINE_HANDLES_H
#define WK_ENGINE_HANDLES_H
#include "engine/catalogue.h"
#include "engine/engine.h"
#include "engine/space.h"

/*
 * A handle's hold on a log's state. It belongs to the namespace: what is still held when that is closed, is let go of
 * then, as the engine may live on for another namespace, and the handle can no longer say so itself.
 */
typedef struct wk_hold {
	wk_log_state *log;
	struct wk_hold *next, **link;
} wk_hold;

struct wk_log {
	wk_namespace *ns;
	wk_log_state *state;
	wk_hold *hold;
};

/* (locked) Retains the namespace too; NULL: no memory. */
wk_hold *wk_hold_new(wk_namespace *ns, wk_log_state *log);
/* (locked) The log, but not the namespace, is let go of. */
void wk_hold_drop(wk_engine *engine, wk_hold *hold);
/* Both, whether the namespace is open or not; the handle goes. No lock held. */
void wk_hold_release(wk_namespace *ns, wk_hold *hold);

/* Every public call between these: no engine goes away under it. WK_CLOSED, WK_FORKED. */
wk_status wk_enter(wk_namespace *ns, wk_error *error);
void wk_leave(wk_namespace *ns);
/* The same of a directory of this kind. WK_INVALID: it is of the other. */
wk_status wk_enter_kind(wk_namespace *ns, uint32_t kind, wk_error *error);
/* The same for calls on logs, and for a follower: what the writer did since. */
wk_status wk_enter_fresh(wk_namespace *ns, wk_error *error);

/*
 * (locked, dropped while it reads) Where the log ends; log->tail is there on WK_OK. WK_DELETED, and what reading can
 * answer.
 */
wk_status wk_log_load_tail(wk_engine *engine, wk_log_state *log, wk_error *error);
/*
 * (locked) Its last segment, which is open, ends with this entry: before the one that the log was truncated at, which
 * was there then. It is lost.
 */
bool wk_log_ends_too_early(const wk_log_state *log, const wk_segment *segment, int64_t last_entry);
/* (locked, dropped where the delete is not durable yet: nobody is told before) Answers WK_DELETED for a deleted log. */
wk_status wk_log_check(wk_engine *engine, wk_log_state *log, wk_error *error);
/*
 * (locked, dropped while it waits) What committed changes of this log, or of any (NULL), say may be told: they are
 * durable. WK_FAILED: they may never be.
 */
wk_status wk_catalogue_wait_durable(wk_engine *engine, wk_log_state *log, wk_error *error);
/*
 * (locked, dropped while it waits) log->first may be told: it is durable. Where the journal failed at a truncation, that
 * is taken back. It may have moved again meanwhile.
 */
wk_status wk_log_wait_first_durable(wk_engine *engine, wk_log_state *log, wk_error *error);
/*
 * (locked, dropped while it waits) Nobody is writing a snapshot, and there is room for a record: the catalogue may
 * change. What is checked between this and the change still holds then, as the lock is not dropped in between.
 * deadline_ns as in wk_journal_room.
 */
wk_status wk_catalogue_turn(wk_engine *engine, uint64_t deadline_ns, wk_error *error);
/* The same for truncation and deletion, which the reserve has room for on a full disk (WK_ROOM_FREE). */
wk_status wk_catalogue_turn_for(wk_engine *engine, enum wk_room purpose, uint64_t deadline_ns, wk_error *error);
/*
 * (locked, dropped once the change is accepted) After wk_catalogue_turn: a change that frees space or names
 * something, durable when it returns.
 */
wk_status wk_catalogue_commit(wk_engine *engine, const wk_catalogue_record *record, wk_error *error);
/* The position just behind `last`, or the first one of an empty log. (locked) */
wk_position wk_log_next(const wk_log_state *log, const wk_position *last);
/* now + timeout; UINT64_MAX: for ever. */
uint64_t wk_deadline(wk_engine *engine, uint64_t timeout_ns);
#endif
