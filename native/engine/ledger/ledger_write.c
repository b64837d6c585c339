/* ledger_write.c: what changes a ledger store: add, fence, explicit LAC, force, delete. */
#include <string.h>

#include "core/bytes.h"
#include "engine/directory.h"
#include "engine/index.h"
#include "engine/journal.h"
#include "engine/ledger/ledger_block.h"
#include "engine/ledger/ledger_delete.h"
#include "engine/ledger/ledger_state.h"
#include "walkeeper/ledger.h"

static_assert((int)WK_LEDGER_KEY_MAX == (int)WK_STATE_DATA_SIZE && (int)WK_LEDGER_LAC_MAX == (int)WK_STATE_DATA_SIZE,
              "a state record holds the longest key and LAC");
static_assert((int)WK_LEDGER_ENTRY_MAX == (int)WK_ENTRY_SIZE_MAX, "one limit");

typedef struct wk_key {
	const void *bytes;
	uint32_t size;
} wk_key;

/* ---- may it be done? ---- */

enum { PREFETCH = 8 };
static const char *const NOTHING = "nothing was written";

/* (locked) */
static wk_status check(const wk_engine *engine, int64_t ledger_id, uint32_t change, const wk_key *key,
                       wk_error *error) {
	const wk_ledger_state *state = ledger_id >= 0 ? wk_ledger_state_get(engine, ledger_id) : NULL;
	wk_ledger_facts facts;
	if (state != NULL)
		facts = wk_ledger_state_facts(state);
	wk_status status = wk_ledger_judge(state != NULL ? &facts : NULL, ledger_id, change, key->bytes, key->size);
	long long id = ledger_id;
	switch (status) {
	case WK_OK:
		return WK_OK;
	case WK_DELETED:
		return wk_fail(error, status, "ledger %lld is being deleted; %s", id, NOTHING);
	case WK_WRONG_KEY:
		return wk_fail(
		    error, status,
		    "ledger %lld: the master key given is not the one it was made with; %s. Use the ledger's password", id,
		    NOTHING);
	case WK_FENCED:
		return wk_fail(error, status, "add: ledger %lld is fenced: another client recovers it; %s", id, NOTHING);
	default:
		if (ledger_id < 0)
			return wk_fail(error, status, "ledger %lld: ids are 0 or more; %s", id, NOTHING);
		return wk_fail(error, status, "ledger %lld: a master key has at most %d bytes, this one has %u; %s", id,
		               WK_LEDGER_KEY_MAX, key->size, NOTHING);
	}
}

static wk_status check_add(const wk_engine *engine, const wk_add *add, wk_error *error) {
	if (add->size < WK_LEDGER_ENTRY_MIN || (add->flags & ~(uint32_t)(WK_ADD_RECOVERY | WK_ADD_DEFERRED)) != 0)
		return wk_fail(error, WK_INVALID,
		               "add: an entry has %d bytes or more, its ids, and flags 1 and 2; this one has %llu bytes and "
		               "flags %u; %s",
		               WK_LEDGER_ENTRY_MIN, (unsigned long long)add->size, add->flags, NOTHING);
	if (add->size > WK_LEDGER_ENTRY_MAX)
		return wk_fail(error, WK_TOO_LARGE, "add: an entry may have %d bytes, this one has %llu; %s",
		               WK_LEDGER_ENTRY_MAX, (unsigned long long)add->size, NOTHING);
	const uint8_t *bytes = add->bytes;
	int64_t ledger_id = (int64_t)wk_load_be64(bytes), entry_id = (int64_t)wk_load_be64(bytes + 8);
	if (entry_id < 0 || entry_id == INT64_MAX)
		return wk_fail(error, WK_INVALID, "add: entry id %lld of ledger %lld: ids are 0 to 2^63 - 2; %s",
		               (long long)entry_id, (long long)ledger_id, NOTHING);
	uint32_t change = (add->flags & WK_ADD_RECOVERY) != 0 ? WK_CHANGE_RECOVERY_ADD : WK_CHANGE_ADD;
	return check(engine, ledger_id, change, &(wk_key){add->key, add->key_size}, error);
}

/* ---- into the block ---- */

/*
 * (locked) Something of this ledger, an entry of `size` bytes or a state record, goes into the open block. A key that is
 * the first one goes before it.
 */
static wk_status begin_change(wk_engine *engine, int64_t ledger_id, const wk_key *key, size_t size,
                              wk_ledger_state **found) {
	wk_ledger_state *state = wk_ledger_state_make(engine, ledger_id);
	wk_status status = state != NULL ? WK_OK : WK_NO_MEMORY;
	if (status == WK_OK && !state->has_key && key->size > 0) {
		status = wk_ledger_block_reserve(engine, size) ? WK_OK : WK_NO_MEMORY;
		if (status == WK_OK && !wk_ledger_state_set_key(engine, state, key->bytes, key->size))
			status = WK_NO_MEMORY;
		if (status == WK_OK)
			status = wk_ledger_block_put_state(engine, ledger_id, WK_BLOCK_MASTER_KEY, key->bytes, key->size);
		state->has_key = status == WK_OK;
		if (status != WK_OK)
			return status;
		state->last_ticket = engine->open.sequence;
	}
	*found = state;
	return status;
}

static wk_status put_add(wk_engine *engine, wk_add *add) {
	const uint8_t *bytes = add->bytes;
	int64_t ledger_id = (int64_t)wk_load_be64(bytes);
	wk_ledger_state *state;
	wk_status status = begin_change(engine, ledger_id, &(wk_key){add->key, add->key_size}, (size_t)add->size, &state);
	if (status == WK_OK)
		status = wk_ledger_block_put_entry(engine, add);
	if (status != WK_OK)
		return status;
	state->last_ticket = add->ticket = engine->open.sequence;
	engine->counters.appended_records++;
	engine->counters.appended_bytes += add->size;
	if ((add->flags & WK_ADD_DEFERRED) != 0)
		wk_journal_want_later(engine);
	else
		wk_journal_want(engine, true, UINT64_MAX);
	return WK_OK;
}

/* ---- adds ---- */

/* (locked, dropped where it waits for room) */
static wk_status add_one(wk_engine *engine, wk_add *add, uint64_t deadline_ns, wk_error *error) {
	wk_status status = check_add(engine, add, error);
	if (status != WK_OK)
		return status;
	enum wk_room purpose = (add->flags & WK_ADD_RECOVERY) != 0 ? WK_ROOM_RECOVERY : WK_ROOM_APPEND;
	status = wk_journal_room(engine, (size_t)add->size, deadline_ns, purpose, error);
	if (status == WK_OK)
		status = check_add(engine, add, error); /* the wait may have let a fence or a delete in */
	if (status == WK_OK && (status = put_add(engine, add)) == WK_NO_MEMORY)
		wk_fail(error, status, "add: no memory; %s", NOTHING);
	return status;
}

/* Where the adds behind it would fare no better. */
static bool stops_all(wk_status status) {
	return status == WK_WOULD_BLOCK || status == WK_TIMEOUT || status == WK_INTERRUPTED || status == WK_FAILED ||
	       status == WK_CLOSED;
}

/* Others' adds may find the space or the memory that this one did not; of its ledger none passes it, and leaves a hole. */
static bool stops_its_ledger(wk_status status) {
	return status == WK_NO_SPACE || status == WK_NO_MEMORY || status == WK_IO;
}

static bool of_one_writer(const wk_add *one, const wk_add *other) {
	return ((one->flags | other->flags) & WK_ADD_RECOVERY) == 0 && one->size >= WK_LEDGER_ENTRY_MIN &&
	       other->size >= WK_LEDGER_ENTRY_MIN && wk_load_be64(one->bytes) == wk_load_be64(other->bytes);
}

/* What an add before this one, of the same writer, was refused for; WK_OK: nothing. */
static wk_status refused_before(const wk_add *adds, size_t at) {
	for (size_t i = at; i-- > 0;)
		if (stops_its_ledger(adds[i].status) && of_one_writer(&adds[i], &adds[at]))
			return adds[i].status;
	return WK_OK;
}

/* With thousands of ledgers all of one is far away: what some of those need that come is on its way at once. */
static void look_ahead(const wk_engine *engine, const wk_add *adds, size_t count, size_t at) {
	for (size_t step = 1; step <= 2 && at + step * PREFETCH < count; step++) {
		const wk_add *add = &adds[at + step * PREFETCH];
		if (add->size < WK_LEDGER_ENTRY_MIN || of_one_writer(add, add - 1))
			continue;
		if (step == 2)
			wk_ledger_state_prefetch_slot(engine, (int64_t)wk_load_be64(add->bytes));
		else
			wk_ledger_state_prefetch(engine, (int64_t)wk_load_be64(add->bytes));
	}
}

/* (locked, dropped) The last one that is to be waited for; 0: none. */
static uint64_t add_all(wk_engine *engine, wk_add *adds, size_t count, uint64_t deadline_ns, wk_status *first_failure,
                        wk_error *error) {
	uint64_t last = 0;
	wk_status stopped = WK_OK;
	bool some_stopped = false;
	for (size_t i = 0; i < count; i++) {
		look_ahead(engine, adds, count, i);
		adds[i].ticket = 0;
		adds[i].status = stopped != WK_OK || !some_stopped ? stopped : refused_before(adds, i);
		if (adds[i].status == WK_OK)
			adds[i].status = add_one(engine, &adds[i], deadline_ns, *first_failure == WK_OK ? error : NULL);
		if (adds[i].status == WK_OK) {
			last = (adds[i].flags & WK_ADD_DEFERRED) == 0 ? adds[i].ticket : last;
			continue;
		}
		*first_failure = *first_failure == WK_OK ? adds[i].status : *first_failure;
		stopped = stops_all(adds[i].status) ? adds[i].status : stopped;
		some_stopped |= stops_its_ledger(adds[i].status);
	}
	return last;
}

/* (locked, dropped) */
static wk_status wait_for(wk_engine *engine, uint64_t ticket, uint64_t deadline_ns, wk_error *error) {
	bool may_drive = deadline_ns == UINT64_MAX && engine->options.commit_wait_ns == 0;
	return wk_journal_wait(engine, ticket, deadline_ns == 0 ? UINT64_MAX : deadline_ns, may_drive, error);
}

static void mark_unknown(const wk_engine *engine, wk_add *adds, size_t count, wk_status status) {
	for (size_t i = 0; i < count; i++)
		if (adds[i].status == WK_OK && adds[i].ticket > engine->durable)
			adds[i].status = status;
}

wk_status wk_ledger_add(wk_namespace *ns, wk_add *adds, size_t count, uint64_t timeout_ns, bool wait, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter_kind(ns, WK_KIND_LEDGERS, error);
	for (size_t i = 0; i < count && status != WK_OK; i++) {
		adds[i].ticket = 0;
		adds[i].status = status;
	}
	if (status != WK_OK)
		return status;
	wk_engine *engine = ns->engine;
	uint64_t deadline_ns = wk_deadline(engine, timeout_ns);
	wk_engine_lock(engine);
	uint64_t last = add_all(engine, adds, count, deadline_ns, &status, error);
	if (last > 0 && wait) {
		wk_error failure;
		wk_error_clear(&failure);
		wk_status waited = wait_for(engine, last, deadline_ns, &failure);
		if (waited != WK_OK) {
			mark_unknown(engine, adds, count, waited);
			status = waited; /* graver than a refusal */
			if (error != NULL)
				*error = failure;
		}
	} else if (last > 0 || engine->open.estimate >= engine->options.block_size_max) {
		wk_journal_kick(engine);
	}
	wk_engine_unlock(engine);
	wk_leave(ns);
	return status;
}

/* ---- states ---- */

/* (locked, dropped) Accepted in block `accepted`: durable when this returns, or the caller is told the ticket. */
static wk_status wait_durable(wk_engine *engine, uint64_t accepted, uint64_t deadline_ns, uint64_t *ticket,
                              wk_error *error) {
	wk_journal_want_block(engine, accepted);
	if (ticket == NULL)
		return wait_for(engine, accepted, deadline_ns, error);
	*ticket = accepted;
	if (accepted > engine->durable)
		wk_journal_kick(engine);
	return WK_OK;
}

typedef struct state_change {
	wk_namespace *ns;
	wk_engine *engine;
	int64_t ledger_id;
	wk_key key;
	uint64_t deadline_ns;
	wk_error *error;
} state_change;

/* Enters and locks. */
static wk_status begin(state_change *c, uint64_t timeout_ns) {
	wk_error_clear(c->error);
	wk_status status = wk_enter_kind(c->ns, WK_KIND_LEDGERS, c->error);
	if (status != WK_OK)
		return status;
	c->engine = c->ns->engine;
	c->deadline_ns = wk_deadline(c->engine, timeout_ns);
	wk_engine_lock(c->engine);
	return WK_OK;
}

static void end(state_change *c) {
	wk_engine_unlock(c->engine);
	wk_leave(c->ns);
}

/* (locked, dropped where it waits) Room for a state record, from the reserve if it must be. */
static wk_status admit(state_change *c, uint32_t change) {
	wk_status status = check(c->engine, c->ledger_id, change, &c->key, c->error);
	if (status == WK_OK)
		status = wk_journal_room(c->engine, WK_STATES_ROOM, c->deadline_ns,
		                         change == WK_CHANGE_FENCE ? WK_ROOM_RECOVERY : WK_ROOM_CHANGE, c->error);
	return status == WK_OK ? check(c->engine, c->ledger_id, change, &c->key, c->error) : status;
}

/* (locked) */
static wk_status put_state(state_change *c, uint32_t type, const void *data, size_t size, wk_ledger_state **state) {
	wk_status status = begin_change(c->engine, c->ledger_id, &c->key, 0, state);
	if (status == WK_OK)
		status = wk_ledger_block_put_state(c->engine, c->ledger_id, type, data, size);
	if (status != WK_OK)
		return wk_fail(c->error, status, "ledger %lld: no memory; %s", (long long)c->ledger_id, NOTHING);
	(*state)->last_ticket = c->engine->open.sequence;
	wk_journal_want(c->engine, true, UINT64_MAX);
	return WK_OK;
}

static bool is_fenced(const wk_ledger_state *state) {
	return state != NULL && wk_ledger_state_facts(state).fenced;
}

wk_status wk_ledger_fence(wk_namespace *ns, int64_t ledger_id, const void *key, uint32_t key_size, uint64_t timeout_ns,
                          uint64_t *ticket, wk_error *error) {
	state_change c = {.ns = ns, .ledger_id = ledger_id, .key = {key, key_size}, .error = error};
	wk_status status = begin(&c, timeout_ns);
	if (status != WK_OK)
		return status;
	wk_engine *engine = c.engine;
	status = check(engine, ledger_id, WK_CHANGE_FENCE, &c.key, error);
	if (status == WK_OK && !is_fenced(wk_ledger_state_get(engine, ledger_id))) {
		status = admit(&c, WK_CHANGE_FENCE);
		/* Another thread may have fenced it during the wait for room: then that one's record counts. */
		if (status == WK_OK && !is_fenced(wk_ledger_state_get(engine, ledger_id))) {
			wk_ledger_state *state;
			status = put_state(&c, WK_BLOCK_FENCE, NULL, 0, &state);
			if (status == WK_OK)
				state->fencing = true;
		}
	}
	/* What was accepted before the fence stands in its block or an earlier one; recovery adds may have come since. */
	if (status == WK_OK)
		status = wait_durable(engine, wk_ledger_state_get(engine, ledger_id)->last_ticket, c.deadline_ns, ticket,
		                      error);
	end(&c);
	return status;
}

wk_status wk_ledger_set_lac(wk_namespace *ns, int64_t ledger_id, const void *key, uint32_t key_size, const void *lac,
                            uint32_t lac_size, uint64_t timeout_ns, uint64_t *ticket, wk_error *error) {
	if (lac_size == 0 || lac_size > WK_LEDGER_LAC_MAX)
		return wk_fail(error, WK_INVALID, "ledger %lld: an explicit LAC packet has 1 to %d bytes, this one has %u; %s",
		               (long long)ledger_id, WK_LEDGER_LAC_MAX, lac_size, NOTHING);
	state_change c = {.ns = ns, .ledger_id = ledger_id, .key = {key, key_size}, .error = error};
	wk_status status = begin(&c, timeout_ns);
	if (status != WK_OK)
		return status;
	wk_ledger_state *state;
	status = admit(&c, WK_CHANGE_LAC);
	if (status == WK_OK)
		status = put_state(&c, WK_BLOCK_LAC, lac, lac_size, &state);
	if (status == WK_OK)
		status = wait_durable(c.engine, c.engine->open.sequence, c.deadline_ns, ticket, error);
	end(&c);
	return status;
}

/* (locked) Something of the ledger was accepted, or is stored. */
static wk_status known(const state_change *c) {
	const wk_ledger_state *state = wk_ledger_state_get(c->engine, c->ledger_id);
	if ((state != NULL && (state->last_ticket != 0 || state->bits != 0)) ||
	    wk_ledger_find(c->engine, c->ledger_id) != NULL)
		return WK_OK;
	return wk_fail(c->error, WK_NO_LEDGER, "ledger %lld: nothing is stored of it in %s", (long long)c->ledger_id,
	               c->engine->path);
}

wk_status wk_ledger_force(wk_namespace *ns, int64_t ledger_id, uint64_t timeout_ns, uint64_t *ticket, wk_error *error) {
	state_change c = {.ns = ns, .ledger_id = ledger_id, .error = error};
	wk_status status = begin(&c, timeout_ns);
	if (status != WK_OK)
		return status;
	status = known(&c);
	if (status == WK_OK) {
		const wk_ledger_state *state = wk_ledger_state_get(c.engine, ledger_id);
		status = wait_durable(c.engine, state != NULL ? state->last_ticket : 0, c.deadline_ns, ticket, error);
	}
	end(&c);
	return status;
}

/* (locked, dropped where it waits) *accepted: the block that says it. */
static wk_status accept_delete(state_change *c, uint64_t *accepted) {
	for (bool room = false;; room = true) {
		wk_status status = known(c);
		const wk_ledger_state *before = wk_ledger_state_get(c->engine, c->ledger_id);
		*accepted = before != NULL && before->deleting ? before->last_ticket : 0;
		if (status != WK_OK || *accepted != 0)
			return status;
		if (room)
			break;
		status = wk_journal_room(c->engine, WK_STATES_ROOM, c->deadline_ns, WK_ROOM_FREE, c->error);
		if (status != WK_OK)
			return status;
	}
	uint8_t data[WK_DELETE_DATA_SIZE];
	wk_store_le64(data, c->engine->open.sequence);
	wk_ledger_state *state;
	wk_status status = put_state(c, WK_BLOCK_DELETE, data, sizeof data, &state);
	if (status == WK_OK) {
		state->deleting = true;
		*accepted = state->last_ticket;
	}
	return status;
}

wk_status wk_ledger_delete(wk_namespace *ns, int64_t ledger_id, uint64_t timeout_ns, uint64_t *ticket,
                           wk_error *error) {
	state_change c = {.ns = ns, .ledger_id = ledger_id, .error = error};
	wk_status status = begin(&c, timeout_ns);
	if (status != WK_OK)
		return status;
	uint64_t accepted;
	status = accept_delete(&c, &accepted);
	if (status == WK_OK)
		status = wait_durable(c.engine, accepted, c.deadline_ns, ticket, error);
	end(&c);
	return status;
}
