/*
 * cluster_ledgers.h: ledgers of a simulated cluster: their metadata, what was written and acknowledged, and who works on
 * them: a writer, recoveries, readers. What they find is looked at here; the rules are in test_cluster_simulation.c.
 */
#ifndef CLUSTER_LEDGERS_H
#define CLUSTER_LEDGERS_H
#include "cluster_world.h"

enum { LEDGERS_MAX = 2, ACTORS_MAX = 64, ENTRIES_MAX = 64, SEGMENTS_MAX = 8, READERS_MAX = 4 };

/* ---- ledgers ---- */

typedef enum ledger_state { LEDGER_OPEN, LEDGER_IN_RECOVERY, LEDGER_CLOSED } ledger_state;

/* As a metadata store keeps it; what is there is true, and every look is the latest. */
typedef struct metadata {
	uint64_t version;
	ledger_state state;
	int64_t last_entry;
	uint64_t length;
	uint32_t segments_count;
	int64_t first_entries[SEGMENTS_MAX];
	uint32_t bookies[SEGMENTS_MAX][BOOKIES_MAX];
} metadata;

struct ledger_model {
	int64_t id;
	uint32_t ensemble_size, write_quorum, ack_quorum, digest_type;
	metadata stored;
	bool moved; /* its ensemble was changed: copies of entries may be where the metadata do not look for them */
	/* what the one writer has done */
	uint32_t sizes[ENTRIES_MAX];
	int64_t lacs[ENTRIES_MAX]; /* that it knew when it sent the entry */
	int64_t last_submitted, last_acked;
};

static const uint8_t MASTER_KEY[20] = "a key of 20 bytes...";
static const uint8_t MAC_KEY[20] = "mac key of 20 bytes.";

static void fill_payload(const ledger_model *ledger, int64_t entry_id, uint8_t *payload) {
	uint64_t state = (uint64_t)ledger->id * 1000 + (uint64_t)entry_id;
	for (uint32_t i = 0; i < ledger->sizes[entry_id]; i++)
		payload[i] = (uint8_t)(i % 8 == 0 ? check_random(&state) : state >> i % 8 * 8);
}

static int64_t length_up_to(const ledger_model *ledger, int64_t last_entry) {
	int64_t length = 0;
	for (int64_t id = 0; id <= last_entry; id++)
		length += ledger->sizes[id];
	return length;
}

static void make_ledger(world *w, ledger_model *ledger, int64_t id) {
	*ledger = (ledger_model){.id = id, .last_submitted = -1, .last_acked = -1};
	ledger->stored = (metadata){.version = 1, .last_entry = -1, .segments_count = 1};
	ledger->ensemble_size = 1 + (uint32_t)chance(w, w->nodes_count);
	if (chance(w, 3) != 0) /* mostly as ledgers are */
		ledger->ensemble_size = 3;
	ledger->write_quorum = 1 + (uint32_t)chance(w, ledger->ensemble_size);
	ledger->ack_quorum = 1 + (uint32_t)chance(w, ledger->write_quorum);
	if (chance(w, 3) != 0) {
		ledger->write_quorum = ledger->ensemble_size < 3 ? ledger->ensemble_size : 3;
		ledger->ack_quorum = chance(w, 3) == 0 ? ledger->write_quorum : (ledger->write_quorum + 2) / 2;
	}
	ledger->digest_type = 1 + (uint32_t)chance(w, 4);
	uint32_t first = (uint32_t)chance(w, w->nodes_count);
	for (uint32_t i = 0; i < ledger->ensemble_size; i++)
		ledger->stored.bookies[0][i] = (first + i) % w->nodes_count;
	SAY(w, "ledger %lld: E %u, Qw %u, Qa %u, from bookie %u on, digest %u", (long long)id, ledger->ensemble_size,
	    ledger->write_quorum, ledger->ack_quorum, first, ledger->digest_type);
}

static const uint32_t *last_ensemble(const metadata *known) {
	return known->bookies[known->segments_count - 1];
}

static const uint32_t *ensemble_of(const metadata *known, int64_t entry_id) {
	uint32_t s = known->segments_count - 1;
	while (s > 0 && known->first_entries[s] > entry_id)
		s--;
	return known->bookies[s];
}

static wk_handle *open_handle(client_process *c, const ledger_model *ledger, const metadata *known, uint32_t mode) {
	wk_ledger_segment segments[SEGMENTS_MAX];
	for (uint32_t i = 0; i < known->segments_count; i++)
		segments[i] = (wk_ledger_segment){.first_entry = known->first_entries[i], .bookies = known->bookies[i]};
	wk_ledger_spec spec = {.ledger_id = ledger->id,
	                       .ensemble_size = ledger->ensemble_size,
	                       .write_quorum = ledger->write_quorum,
	                       .ack_quorum = ledger->ack_quorum,
	                       .digest_type = ledger->digest_type,
	                       .segments = segments,
	                       .segments_count = known->segments_count,
	                       .closed = known->state == LEDGER_CLOSED,
	                       .last_entry = known->last_entry};
	memcpy(spec.master_key, MASTER_KEY, sizeof spec.master_key);
	memcpy(spec.mac_key, MAC_KEY, sizeof spec.mac_key);
	wk_handle *handle;
	CHECK_EQ(wk_handle_open(c->client, &spec, mode, &handle, NULL), WK_OK);
	return handle;
}

/* ---- metadata ---- */

typedef enum change_result { CHANGE_DONE, CHANGE_CONFLICT, CHANGE_UNKNOWN } change_result;

static void look_at_closed(const ledger_model *ledger) {
	const metadata *stored = &ledger->stored;
	CHECK(stored->last_entry >= ledger->last_acked);
	CHECK(stored->last_entry <= ledger->last_submitted);
	CHECK_EQ(stored->length, length_up_to(ledger, stored->last_entry));
}

/* By compare and set. Where the outcome is unknown it was done, or not. */
static change_result change_metadata(world *w, ledger_model *ledger, uint64_t expected, metadata wanted) {
	bool unknown = !w->calm && chance(w, 6) == 0;
	if (unknown && chance(w, 2) == 0)
		return CHANGE_UNKNOWN;
	if (ledger->stored.version == expected) {
		CHECK(ledger->stored.state != LEDGER_CLOSED);
		wanted.version = expected + 1;
		ledger->stored = wanted;
		if (wanted.state == LEDGER_CLOSED)
			look_at_closed(ledger);
		SAY(w, "ledger %lld: %s, last entry %lld, %u segments", (long long)ledger->id,
		    wanted.state == LEDGER_CLOSED ? "closed"
		    : wanted.state == LEDGER_OPEN ? "open"
		                                  : "in recovery",
		    (long long)wanted.last_entry, wanted.segments_count);
		return unknown ? CHANGE_UNKNOWN : CHANGE_DONE;
	}
	return unknown ? CHANGE_UNKNOWN : CHANGE_CONFLICT;
}

/* ---- who works on them ---- */

typedef enum actor_kind { ACTOR_NONE, ACTOR_WRITER, ACTOR_RECOVERY, ACTOR_READER } actor_kind;
typedef enum actor_step {
	STEP_BEGIN,
	STEP_WRITE,
	STEP_CHANGE, /* the ensemble */
	STEP_CLOSE,  /* the metadata, with what the writer or the recovery has found */
	STEP_WAIT,   /* for the operation */
	STEP_VERIFY,
	STEP_DONE,
} actor_step;
typedef enum operation_kind { OPERATION_READ, OPERATION_LAC, OPERATION_WAIT, OPERATION_RECOVER } operation_kind;

struct actor {
	actor_kind kind;
	actor_step step;
	ledger_model *ledger;
	client_process *client; /* while it has a handle */
	wk_handle *handle;
	wk_operation *operation;
	operation_kind asks;
	uint64_t at_ns, leaves_at_ns; /* when it acts; when it leaves its operation */
	metadata known;
	metadata wanted; /* by a change of the ensemble */
	uint64_t new_slots;
	bool java;          /* a writer that closes a ledger in recovery too, as Java's does */
	int64_t last_entry; /* that the ledger is to be closed with */
	uint64_t length;
	int64_t first, last; /* of a read */
	int64_t acked;       /* when it was asked */
	int64_t lac_at_least;
	uint64_t pace_ns; /* of a writer */
};

static void act_again(world *w, actor *a, uint64_t most_ns) {
	a->at_ns = now_of(w) + 1 + chance(w, most_ns);
}

static void end_actor(actor *a) {
	if (a->handle != NULL)
		wk_handle_close(a->handle);
	a->handle = NULL;
	a->client = NULL;
	a->step = STEP_DONE;
	a->at_ns = NEVER;
	if (a->kind == ACTOR_READER)
		a->kind = ACTOR_NONE;
}

static void begin_again(world *w, actor *a) {
	if (a->handle != NULL)
		wk_handle_close(a->handle);
	a->handle = NULL;
	a->client = NULL;
	a->step = STEP_BEGIN;
	act_again(w, a, 100 * MS);
}

static client_process *some_client(world *w) {
	client_process *c = &w->clients[chance(w, w->clients_count)];
	return c->up ? c : NULL;
}

static actor *add_actor(world *w, actor_kind kind, ledger_model *ledger, uint64_t at_ns) {
	uint32_t i = 0;
	while (i < w->actors_count && w->actors[i].kind != ACTOR_NONE)
		i++;
	CHECK(i < ACTORS_MAX);
	if (i == w->actors_count)
		w->actors_count++;
	w->actors[i] = (actor){.kind = kind, .ledger = ledger, .at_ns = at_ns};
	return &w->actors[i];
}

/* ---- what was read ---- */

static void look_at_entry(const ledger_model *ledger, const wk_read_entry *entry) {
	static uint8_t payload[PAYLOAD_MAX];
	CHECK(entry->entry_id >= 0 && entry->entry_id <= ledger->last_submitted);
	CHECK_EQ(entry->size, ledger->sizes[entry->entry_id]);
	fill_payload(ledger, entry->entry_id, payload);
	CHECK(entry->size == 0 || memcmp(entry->payload, payload, entry->size) == 0);
	CHECK_EQ(entry->length, length_up_to(ledger, entry->entry_id));
	CHECK(entry->lac < entry->entry_id && entry->lac >= -1);
}

static void begin_read(world *w, actor *a, operation_kind asks, int64_t first, int64_t last) {
	const ledger_model *ledger = a->ledger;
	a->asks = asks;
	a->first = first;
	a->last = last;
	a->acked = a->known.state == LEDGER_CLOSED ? a->known.last_entry : ledger->last_acked;
	a->lac_at_least = ledger->last_acked >= 0 ? ledger->lacs[ledger->last_acked] : -1;
	a->operation = asks == OPERATION_LAC       ? wk_read_lac_begin(a->handle)
	               : asks == OPERATION_WAIT    ? wk_wait_lac_begin(a->handle, first - 1, 1 + chance(w, 300 * MS))
	               : asks == OPERATION_RECOVER ? wk_recover_begin(a->handle)
	                                           : wk_read_begin(a->handle, first, last, 1 + chance(w, 100000));
	CHECK(a->operation != NULL);
	a->client->asked = true;
	a->step = STEP_WAIT;
	a->leaves_at_ns = a->at_ns = w->calm || chance(w, 12) != 0 ? NEVER : now_of(w) + chance(w, 300 * MS);
}

/* What came of it; -1: nothing, else the entries that were read. */
static int64_t finish_read(actor *a, wk_status waited) {
	const ledger_model *ledger = a->ledger;
	wk_entries *entries;
	size_t count;
	wk_status status = wk_read_finish(a->operation, waited, &entries, NULL);
	a->operation = NULL;
	if (status == WK_NOT_FOUND)
		CHECK(a->first > a->acked);
	if (status != WK_OK) {
		CHECK(status == WK_UNAVAILABLE || status == WK_NOT_FOUND || status == WK_TIMEOUT || status == WK_CLOSED);
		return -1;
	}
	const wk_read_entry *read = wk_entries_get(entries, &count);
	CHECK(count > 0 && (int64_t)count <= a->last - a->first + 1);
	for (size_t i = 0; i < count; i++) {
		CHECK_EQ(read[i].entry_id, a->first + (int64_t)i);
		look_at_entry(ledger, &read[i]);
	}
	wk_entries_release(entries);
	return (int64_t)count;
}

static void finish_lac(actor *a, wk_status waited) {
	const ledger_model *ledger = a->ledger;
	int64_t lac;
	wk_status status = wk_read_lac_finish(a->operation, waited, &lac, NULL);
	a->operation = NULL;
	if (status != WK_OK) {
		CHECK(status == WK_UNAVAILABLE || status == WK_TIMEOUT || status == WK_CLOSED);
		return;
	}
	CHECK(lac >= a->lac_at_least);
	CHECK(lac <= ledger->last_submitted);
	if (a->known.state == LEDGER_CLOSED)
		CHECK_EQ(lac, a->known.last_entry);
}

/* A LAC that a bookie tells was confirmed: nothing above what its writer had confirmed, or a recovery found, is told. */
static void finish_wait(actor *a, wk_status waited) {
	const ledger_model *ledger = a->ledger;
	int64_t lac;
	wk_entries *entry;
	wk_status status = wk_wait_lac_finish(a->operation, waited, &lac, &entry, NULL);
	a->operation = NULL;
	if (status != WK_OK) {
		CHECK(status == WK_UNAVAILABLE || status == WK_TIMEOUT || status == WK_CLOSED);
		return;
	}
	if (a->known.state == LEDGER_CLOSED)
		CHECK_EQ(lac, a->known.last_entry);
	else
		CHECK(lac >= a->first);
	CHECK(lac <= ledger->last_acked || (ledger->stored.state != LEDGER_OPEN && lac <= ledger->last_submitted));
	if (entry == NULL)
		return;
	size_t count;
	const wk_read_entry *read = wk_entries_get(entry, &count);
	CHECK_EQ(count, 1);
	CHECK_EQ(read->entry_id, a->first);
	CHECK(lac >= a->first);
	look_at_entry(ledger, read);
	wk_entries_release(entry);
}

/* ---- a writer ---- */

/* What its handle says now; an entry is acknowledged when its writer can know. */
static void look_at_writer(actor *a) {
	ledger_model *ledger = a->ledger;
	wk_handle_state state;
	wk_handle_state_get(a->handle, &state);
	CHECK(state.lac >= ledger->last_acked);
	CHECK(state.lac <= ledger->last_submitted);
	CHECK_EQ(state.length, length_up_to(ledger, state.lac));
	if (ledger->stored.state == LEDGER_CLOSED)
		CHECK(state.lac <= ledger->stored.last_entry);
	ledger->last_acked = state.lac;
}

static void submit(world *w, actor *a) {
	static uint8_t payload[PAYLOAD_MAX];
	ledger_model *ledger = a->ledger;
	if (ledger->last_submitted + 1 == ENTRIES_MAX)
		return;
	int64_t entry_id = ledger->last_submitted + 1, found;
	ledger->sizes[entry_id] = (uint32_t)(chance(w, 12) == 0 ? chance(w, PAYLOAD_MAX) : chance(w, 300));
	ledger->lacs[entry_id] = ledger->last_acked;
	fill_payload(ledger, entry_id, payload);
	wk_status status = wk_handle_submit(a->handle, payload, ledger->sizes[entry_id], 0, &found, NULL);
	a->client->asked = true;
	if (status != WK_OK)
		return;
	CHECK_EQ(found, entry_id);
	ledger->last_submitted = entry_id;
}

static void seal(world *w, actor *a) {
	wk_status status = wk_handle_seal(a->handle, 0, &a->last_entry, &a->length, NULL);
	CHECK_EQ(status, WK_OK);
	CHECK_EQ(a->last_entry, a->ledger->last_acked);
	CHECK_EQ(a->length, length_up_to(a->ledger, a->last_entry));
	SAY(w, "ledger %lld: its writer seals it at %lld", (long long)a->ledger->id, (long long)a->last_entry);
	a->client->asked = true;
	a->step = STEP_CLOSE;
	act_again(w, a, 5 * MS);
}

static bool is_among(uint32_t bookie, const uint32_t *ensemble, uint32_t size) {
	for (uint32_t i = 0; i < size; i++)
		if (ensemble[i] == bookie)
			return true;
	return false;
}

/* Other bookies for some of those that failed, where there are others. Whether the writer is frozen now. */
static bool begin_change(world *w, actor *a, uint64_t failed_slots) {
	const ledger_model *ledger = a->ledger;
	metadata wanted = a->known;
	int64_t first_entry;
	uint32_t s = wanted.segments_count, size = ledger->ensemble_size;
	uint32_t ensemble[BOOKIES_MAX];
	memcpy(ensemble, last_ensemble(&wanted), sizeof ensemble);
	a->new_slots = 0;
	for (uint32_t slot = 0; slot < size; slot++) {
		uint32_t first = (uint32_t)chance(w, w->nodes_count);
		for (uint32_t i = 0; i < w->nodes_count && (failed_slots >> slot & 1) != 0; i++) {
			uint32_t bookie = (first + i) % w->nodes_count;
			if (is_among(bookie, ensemble, size) || is_among(bookie, last_ensemble(&wanted), size))
				continue;
			ensemble[slot] = bookie;
			a->new_slots |= UINT64_C(1) << slot;
			break;
		}
	}
	if (a->new_slots == 0 || s == SEGMENTS_MAX)
		return false;
	if (wk_handle_change_begin(a->handle, &first_entry, NULL) != WK_OK) { /* it has failed, which is not told yet */
		a->client->asked = true;
		return false;
	}
	CHECK(first_entry > ledger->last_acked); /* what an end of a change confirms is told a moment later */
	if (wanted.first_entries[s - 1] == first_entry)
		s--;
	wanted.first_entries[s] = first_entry;
	memcpy(wanted.bookies[s], ensemble, sizeof ensemble);
	wanted.segments_count = s + 1;
	a->wanted = wanted;
	a->step = STEP_CHANGE;
	return true;
}

/* The metadata have the new segment, or will never have it. */
static void end_change(world *w, actor *a, bool written, wk_status otherwise) {
	if (written) {
		a->known = a->ledger->stored;
		a->ledger->moved = true;
		wk_status status = wk_handle_change_commit(a->handle, a->new_slots, last_ensemble(&a->known), NULL);
		CHECK(status == WK_OK || status == WK_UNAVAILABLE || status == WK_FENCED);
	} else
		wk_handle_change_abort(a->handle, otherwise);
	a->client->asked = true;
	a->step = STEP_WRITE;
	act_again(w, a, 2 * MS);
}

static void change_on(world *w, actor *a) {
	const metadata *stored = &a->ledger->stored;
	if (stored->version == a->known.version + 1 && stored->state == LEDGER_OPEN) { /* nobody else writes that */
		end_change(w, a, true, WK_OK);
		return;
	}
	if (stored->version != a->known.version) {
		end_change(w, a, false, WK_FENCED);
		return;
	}
	if (!w->calm && chance(w, 20) == 0) {
		end_change(w, a, false, WK_OK);
		return;
	}
	for (uint64_t count = chance(w, 3); count > 0; count--)
		submit(w, a);
	(void)change_metadata(w, a->ledger, a->known.version, a->wanted); /* it looks for the outcome */
	act_again(w, a, chance(w, 10) == 0 ? 2 * S : 5 * MS);
}

static void write_on(world *w, actor *a) {
	wk_handle_state state;
	wk_handle_state_get(a->handle, &state);
	bool all = state.lac == state.last_add_pushed;
	if (state.status != WK_OK)
		SAY(w, "ledger %lld: its writer has failed: %s", (long long)a->ledger->id, wk_status_text(state.status));
	if (state.status != WK_OK || (w->calm && all)) {
		seal(w, a);
		return;
	}
	if (w->calm) { /* all is confirmed, or the writer fails */
		act_again(w, a, 50 * MS);
		return;
	}
	if (state.failed_slots != 0 && chance(w, 8) != 0 && begin_change(w, a, state.failed_slots)) {
		act_again(w, a, 20 * MS);
		return;
	}
	switch (chance(w, 200)) {
	case 0: /* with adds on their way, perhaps */
		SAY(w, "ledger %lld: its writer leaves", (long long)a->ledger->id);
		end_actor(a);
		return;
	case 1:
		seal(w, a);
		return;
	default:
		break;
	}
	if (a->ledger->last_submitted + 1 == ENTRIES_MAX && (all || chance(w, 40) == 0)) {
		seal(w, a);
		return;
	}
	for (uint64_t count = chance(w, 4); count > 0; count--)
		submit(w, a);
	act_again(w, a, chance(w, 10) == 0 ? 200 * MS : a->pace_ns);
}

static void close_as_writer(world *w, actor *a) {
	metadata wanted = a->known;
	wanted.state = LEDGER_CLOSED;
	wanted.last_entry = a->last_entry;
	wanted.length = a->length;
	change_result result = change_metadata(w, a->ledger, a->known.version, wanted);
	a->known = a->ledger->stored;
	bool again = a->known.state == LEDGER_OPEN || (a->java && a->known.state == LEDGER_IN_RECOVERY);
	if (result == CHANGE_DONE || !again)
		end_actor(a);
	else
		act_again(w, a, 20 * MS);
}

static void act_as_writer(world *w, actor *a) {
	if (a->step == STEP_BEGIN) {
		a->client = some_client(w);
		if (a->client == NULL) {
			act_again(w, a, 100 * MS);
			return;
		}
		a->known = a->ledger->stored;
		if (a->known.state != LEDGER_OPEN) { /* a recovery came first */
			end_actor(a);
			return;
		}
		a->java = chance(w, 2) == 0;
		a->pace_ns = 1 * MS + chance(w, 40 * MS);
		a->handle = open_handle(a->client, a->ledger, &a->known, WK_HANDLE_WRITE);
		a->step = STEP_WRITE;
	}
	if (a->step == STEP_WRITE)
		write_on(w, a);
	else if (a->step == STEP_CHANGE)
		change_on(w, a);
	else
		close_as_writer(w, a);
}

/* ---- a recovery, which reads what it has closed ---- */

static void begin_recovery(world *w, actor *a) {
	a->known = a->ledger->stored;
	if (a->known.state == LEDGER_CLOSED) {
		a->step = STEP_VERIFY;
		a->first = 0;
		act_again(w, a, MS);
		return;
	}
	client_process *c = some_client(w);
	if (c == NULL) {
		act_again(w, a, 100 * MS);
		return;
	}
	if (a->known.state == LEDGER_OPEN) {
		metadata wanted = a->known;
		wanted.state = LEDGER_IN_RECOVERY;
		if (change_metadata(w, a->ledger, a->known.version, wanted) != CHANGE_DONE) {
			act_again(w, a, 20 * MS);
			return;
		}
		a->known = a->ledger->stored;
	}
	a->client = c;
	a->handle = open_handle(c, a->ledger, &a->known, WK_HANDLE_READ);
	begin_read(w, a, OPERATION_RECOVER, -1, -1);
}

static void finish_recovery(world *w, actor *a, wk_status waited) {
	wk_error error = {0};
	wk_status status = wk_recover_finish(a->operation, waited, &a->last_entry, &a->length, &error);
	a->operation = NULL;
	if (status == WK_OK)
		SAY(w, "ledger %lld: a recovery ends, last entry %lld", (long long)a->ledger->id, (long long)a->last_entry);
	else
		SAY(w, "ledger %lld: a recovery fails: %s", (long long)a->ledger->id, error.text);
	if (status != WK_OK) {
		CHECK(status == WK_UNAVAILABLE || status == WK_TIMEOUT || status == WK_CLOSED);
		begin_again(w, a);
		return;
	}
	/* What was acknowledged by now stays so, even if somebody else closes the ledger. */
	CHECK(a->last_entry >= a->ledger->last_acked && a->last_entry <= a->ledger->last_submitted);
	CHECK_EQ(a->length, length_up_to(a->ledger, a->last_entry));
	a->step = STEP_CLOSE;
	act_again(w, a, 20 * MS);
}

static void close_as_recovery(world *w, actor *a) {
	metadata wanted = a->known;
	wanted.state = LEDGER_CLOSED;
	wanted.last_entry = a->last_entry;
	wanted.length = a->length;
	(void)change_metadata(w, a->ledger, a->known.version, wanted);
	begin_again(w, a); /* whoever has closed it */
}

static void verify(world *w, actor *a) {
	const metadata *stored = &a->ledger->stored;
	CHECK(stored->state == LEDGER_CLOSED && a->known.version == stored->version);
	if (a->first > stored->last_entry) {
		end_actor(a);
		return;
	}
	if (a->handle == NULL) {
		a->client = some_client(w);
		if (a->client == NULL) {
			act_again(w, a, 100 * MS);
			return;
		}
		a->handle = open_handle(a->client, a->ledger, &a->known, WK_HANDLE_READ);
	}
	begin_read(w, a, OPERATION_READ, a->first, stored->last_entry);
}

static void act_as_recovery(world *w, actor *a) {
	switch (a->step) {
	case STEP_BEGIN:
		begin_recovery(w, a);
		return;
	case STEP_CLOSE:
		close_as_recovery(w, a);
		return;
	case STEP_VERIFY:
		verify(w, a);
		return;
	default:
		check_failed(__FILE__, __LINE__, "a recovery does one of these");
	}
}

/* ---- a reader ---- */

static void act_as_reader(world *w, actor *a) {
	client_process *c = some_client(w);
	if (c == NULL) {
		end_actor(a);
		return;
	}
	a->known = a->ledger->stored;
	a->client = c;
	a->handle = open_handle(c, a->ledger, &a->known, WK_HANDLE_READ);
	if (chance(w, 3) == 0) {
		begin_read(w, a, OPERATION_LAC, -1, -1);
		return;
	}
	int64_t first = (int64_t)chance(w, (uint64_t)a->ledger->last_submitted + 2);
	if (chance(w, 3) == 0) {
		begin_read(w, a, OPERATION_WAIT, first, first);
		return;
	}
	begin_read(w, a, OPERATION_READ, first, first + (int64_t)chance(w, 10));
}

/* ---- all of them ---- */

static void operation_ends(world *w, actor *a, wk_status waited) {
	if (a->asks == OPERATION_RECOVER) {
		finish_recovery(w, a, waited);
		return;
	}
	if (a->asks == OPERATION_LAC) {
		finish_lac(a, waited);
		end_actor(a);
		return;
	}
	if (a->asks == OPERATION_WAIT) {
		finish_wait(a, waited);
		end_actor(a);
		return;
	}
	int64_t count = finish_read(a, waited);
	if (a->kind == ACTOR_READER) {
		end_actor(a);
		return;
	}
	a->first += count > 0 ? count : 0;
	a->step = STEP_VERIFY;
	act_again(w, a, count > 0 ? MS : 100 * MS);
}

static void act(world *w, actor *a) {
	a->at_ns = NEVER;
	if (a->operation != NULL)
		operation_ends(w, a, a->operation->done != 0 ? a->operation->status : WK_TIMEOUT);
	else if (a->kind == ACTOR_WRITER)
		act_as_writer(w, a);
	else if (a->kind == ACTOR_RECOVERY)
		act_as_recovery(w, a);
	else
		act_as_reader(w, a);
}

static void actors_act(world *w) {
	for (uint32_t i = 0; i < w->actors_count; i++)
		if (w->actors[i].kind != ACTOR_NONE && w->actors[i].at_ns <= now_of(w))
			act(w, &w->actors[i]);
}

static uint64_t actors_next(const world *w) {
	uint64_t next_ns = NEVER;
	for (uint32_t i = 0; i < w->actors_count; i++)
		if (w->actors[i].kind != ACTOR_NONE)
			next_ns = sooner(next_ns, w->actors[i].at_ns);
	return next_ns;
}

/* What a turn of the client has brought. */
static void client_turned(world *w, client_process *c) {
	for (uint32_t i = 0; i < w->actors_count; i++) {
		actor *a = &w->actors[i];
		if (a->kind == ACTOR_NONE || a->client != c)
			continue;
		if (a->kind == ACTOR_WRITER)
			look_at_writer(a);
		if (a->operation != NULL && a->operation->done != 0)
			a->at_ns = now_of(w);
	}
}

/* The process ends, in order or not: whoever worked in it is gone, or begins again in another one. */
static void stop_client(world *w, client_process *c, bool power) {
	SAY(w, "client %u %s", c->host, power ? "loses its power" : "ends");
	if (power)
		wk_network_power_cut(c->net);
	wk_client_stop(c->client);
	for (uint32_t i = 0; i < w->actors_count; i++) {
		actor *a = &w->actors[i];
		if (a->kind == ACTOR_NONE || a->client != c)
			continue;
		if (a->operation != NULL)
			operation_ends(w, a, a->operation->done != 0 ? a->operation->status : WK_TIMEOUT);
		if (a->kind == ACTOR_RECOVERY)
			begin_again(w, a);
		else if (a->kind == ACTOR_WRITER)
			end_actor(a);
	}
	c->up = false;
	c->up_at_ns = now_of(w) + chance(w, 500 * MS);
}

/* ---- what is on the disks in the end ---- */

static wk_digest digest_of(const ledger_model *ledger) {
	wk_digest digest = {.type = ledger->digest_type};
	memcpy(digest.mac_key, MAC_KEY, sizeof digest.mac_key);
	return digest;
}

/* Whether the bookie has the entry; its bytes are those that were written. */
static bool node_has(const node *n, const ledger_model *ledger, int64_t entry_id) {
	wk_entry_batch *batch;
	wk_status status = wk_ledger_read(n->ns, ledger->id, entry_id, 1, SIZE_MAX, &batch, NULL);
	if (status == WK_NO_LEDGER || status == WK_NOT_FOUND)
		return false;
	CHECK_EQ(status, WK_OK);
	size_t count;
	const wk_stored_entry *stored = wk_entry_batch_entries(batch, &count);
	CHECK_EQ(count, 1);
	wk_digest digest = digest_of(ledger);
	wk_wire_entry header;
	wk_read_entry entry = {.entry_id = entry_id};
	size_t size;
	CHECK_EQ(wk_digest_open(&digest, stored->bytes, stored->size, ledger->id, entry_id, &header, &entry.payload, &size),
	         WK_OK);
	entry.size = size;
	entry.lac = header.lac;
	entry.length = header.length;
	look_at_entry(ledger, &entry);
	wk_entry_batch_release(batch);
	return true;
}

static void look_at_disks(const world *w, const ledger_model *ledger) {
	const wk_quorum quorum = {ledger->ensemble_size, ledger->write_quorum, ledger->ack_quorum};
	for (int64_t entry_id = 0; entry_id <= ledger->last_submitted; entry_id++) {
		const uint32_t *ensemble = ensemble_of(&ledger->stored, entry_id);
		uint32_t copies = 0;
		for (uint32_t slot = 0; slot < ledger->ensemble_size; slot++) {
			bool has = node_has(&w->nodes[ensemble[slot]], ledger, entry_id);
			bool belongs = wk_quorum_index(&quorum, entry_id, slot) != WK_NO_INDEX;
			CHECK(!has || belongs || ledger->moved);
			copies += has && belongs;
		}
		if (entry_id <= ledger->stored.last_entry)
			CHECK(copies >= ledger->ack_quorum);
	}
}
#endif
