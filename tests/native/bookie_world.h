/*
 * bookie_world.h: a bookie and its clients as a simulation sees them: what was sent and what was acknowledged of each entry
 * and ledger, what is asked by chance, and what an answer may say then. The rules are in test_bookie_simulation.c.
 */
#ifndef BOOKIE_WORLD_H
#define BOOKIE_WORLD_H
#include "bookie_harness.h"

enum { LEDGERS_COUNT = 4, IDS = 24, ASKED_MAX = 4096, VERSIONS_MAX = 64 };

#define DAMAGED (1ULL << 62) /* in a version: its digest does not match */

typedef struct model_entry {
	uint64_t sent[VERSIONS_MAX]; /* versions, in the order they were sent */
	uint32_t sent_count;
	uint64_t acked;      /* the last version acknowledged as durable: index + 1 in sent, 0: none */
	uint64_t acked_soon; /* as deferred, in this life */
	uint64_t added;      /* the last version of an add that a fence would have refused, acknowledged as durable */
	uint64_t told;       /* what fences were answered, at the least: no such add is newer. UINT64_MAX: nothing */
} model_entry;

typedef struct model_ledger {
	bool known, fenced, limbo; /* fenced: an answer to a fencing read was seen; limbo: in this life */
	int64_t max_lac_sent, acked_lac;
	model_entry entries[IDS];
} model_ledger;

typedef struct asked {
	bool open;
	uint32_t peer;
	uint64_t txn_id;
	wk_wire_request request; /* with the model's ids */
	uint64_t version, index; /* of an add: which of the entry's */
	bool wrong_key;
	bool was_fenced; /* when it was asked */
	/* of a read: what was acknowledged when it was asked */
	uint64_t acked, acked_soon;
	int64_t acked_lac, highest_acked;
	int64_t highest_there; /* acknowledged, if only as deferred */
	uint64_t soon[IDS];    /* of a force: what was acknowledged as deferred */
	uint64_t all[IDS];     /* of a batch read: as `acked`, of each entry */
	bool there[IDS];       /* of a list: acknowledged, if only as deferred */
} asked;

typedef struct world {
	bookie b;
	uint64_t random, versions;
	model_ledger ledgers[LEDGERS_COUNT];
	asked *asked;
	uint32_t asked_count;
	peer *peers[4];
	bool faults, faulty; /* faulty: something of the disk was made to fail in this life */
	uint32_t large_left;
} world;

static uint64_t chance(world *w, uint64_t n) {
	return check_random(&w->random) % n;
}

/* The ids of the last ledger end where ids do: its entries are those up to 2^63 - 2. The model counts them from 0. */
static int64_t first_id(int64_t ledger_id) {
	return ledger_id == LEDGERS_COUNT - 1 ? INT64_MAX - IDS : 0;
}

static int64_t real(int64_t ledger_id, int64_t id) {
	return id < 0 ? id : id + first_id(ledger_id);
}

static int64_t modelled(int64_t ledger_id, int64_t id) {
	return id < 0 ? id : id - first_id(ledger_id);
}

/* All ledgers, or all but some, or some, or none. */
static void some_are_in_limbo(world *w, bool may) {
	bool all = may && chance(w, 4) == 0, some = may && chance(w, 3) == 0;
	int64_t *ids = some ? malloc(LEDGERS_COUNT * sizeof *ids) : NULL;
	size_t count = 0;
	for (int64_t id = 0; id < LEDGERS_COUNT; id++) {
		bool named = ids != NULL && chance(w, 2) == 0;
		if (named)
			ids[count++] = id;
		w->ledgers[id].limbo = all != named;
	}
	wk_service_set_limbo(w->b.service, all, ids, count);
}

static void connect_one(world *w, uint32_t at) {
	w->peers[at] = bookie_connect(&w->b);
	w->peers[at]->version = at % 2 == 0 ? WK_WIRE_V3 : WK_WIRE_V2;
	w->peers[at]->txn_id = ++w->versions * 1000; /* nobody takes an answer of an earlier life for its own */
}

static void connect_all(world *w) {
	for (uint32_t i = 0; i < 4; i++)
		connect_one(w, i);
}

/* Those that hung up, or were closed, come back; what they had asked is answered to nobody. */
static void connect_again(world *w) {
	for (uint32_t at = 0; at < 4; at++) {
		if (w->peers[at]->open)
			continue;
		for (uint32_t i = 0; i < w->asked_count; i++)
			w->asked[i].open &= w->asked[i].peer != at;
		connect_one(w, at);
	}
}

/* ---- asking ---- */

static asked *note(world *w, uint32_t at, wk_wire_request request) {
	CHECK(w->asked_count < ASKED_MAX);
	asked *a = &w->asked[w->asked_count++];
	request.txn_id = ++w->peers[at]->txn_id;
	ask(w->peers[at], request);
	request.entry_id = modelled(request.ledger_id, request.entry_id);
	request.previous_lac = modelled(request.ledger_id, request.previous_lac);
	request.lac = modelled(request.ledger_id, request.lac);
	*a = (asked){.open = true, .peer = at, .txn_id = request.txn_id, .request = request};
	model_ledger *ledger = &w->ledgers[request.ledger_id];
	a->was_fenced = ledger->fenced;
	a->acked_lac = ledger->acked_lac;
	a->highest_acked = a->highest_there = -1;
	for (int64_t id = 0; id < IDS; id++) {
		if (ledger->entries[id].acked > 0)
			a->highest_acked = id;
		a->all[id] = ledger->entries[id].acked;
		a->there[id] = ledger->entries[id].acked > 0 || ledger->entries[id].acked_soon > 0;
		if (a->there[id])
			a->highest_there = id;
	}
	if (request.entry_id >= 0 && request.entry_id < IDS) {
		a->acked = ledger->entries[request.entry_id].acked;
		a->acked_soon = ledger->entries[request.entry_id].acked_soon;
	}
	return a;
}

/* v2 matches answers by ids: two of a kind under way would be taken for one another. */
static bool is_under_way(world *w, uint32_t at, const wk_wire_request *request) {
	for (uint32_t i = 0; i < w->asked_count; i++)
		if (w->asked[i].open && w->asked[i].peer == at && w->asked[i].request.operation == request->operation &&
		    w->asked[i].request.ledger_id == request->ledger_id &&
		    w->asked[i].request.entry_id == modelled(request->ledger_id, request->entry_id))
			return true;
	return false;
}

static void ask_add(world *w, uint32_t at) {
	/* An entry is one connection's: which of two adds came last is known then. */
	int64_t ledger_id = (int64_t)chance(w, LEDGERS_COUNT), entry_id = (int64_t)(chance(w, IDS / 4) * 4 + at);
	model_ledger *ledger = &w->ledgers[ledger_id];
	model_entry *entry = &ledger->entries[entry_id];
	if (entry->sent_count == VERSIONS_MAX)
		return;
	uint32_t flags = chance(w, 6) == 0 ? WK_WIRE_RECOVERY : 0;
	if (flags == 0 && at % 2 == 0 && chance(w, 5) == 0)
		flags = WK_WIRE_DEFERRED;
	int64_t lac = entry_id - 1 - (int64_t)chance(w, 3);
	lac = lac < -1 ? -1 : lac;
	uint64_t version = ++w->versions | (chance(w, 12) == 0 ? DAMAGED : 0);
	wk_wire_request request = an_entry(ledger_id, real(ledger_id, entry_id), real(ledger_id, lac), version,
	                                   8 + chance(w, chance(w, 8) == 0 ? 20000 : 300), flags);
	if ((version & DAMAGED) != 0)
		((uint8_t *)request.body)[35] ^= 1;
	if (at % 2 == 1 && is_under_way(w, at, &request))
		return;
	bool wrong_key = ledger->known && chance(w, 20) == 0;
	if (wrong_key)
		request.key = ANOTHER_KEY;
	asked *a = note(w, at, request);
	a->wrong_key = wrong_key;
	a->version = version;
	if (wrong_key)
		return;
	entry->sent[entry->sent_count++] = version;
	a->index = entry->sent_count;
	if (lac > ledger->max_lac_sent)
		ledger->max_lac_sent = lac;
}

/* Every other one of an add that is under way: that is when a recovery can be told too little. */
static wk_wire_request a_fence_of_something(world *w) {
	uint32_t seen = chance(w, 2) == 0 ? w->asked_count : 0;
	for (uint32_t i = seen; i > 0 && i + 8 > seen; i--) {
		const asked *a = &w->asked[i - 1];
		if (a->open && a->request.operation == WK_WIRE_ADD && !a->was_fenced)
			return a_fence(a->request.ledger_id,
			               chance(w, 2) == 0 ? -1 : real(a->request.ledger_id, a->request.entry_id));
	}
	int64_t ledger_id = (int64_t)chance(w, LEDGERS_COUNT);
	return a_fence(ledger_id, real(ledger_id, (int64_t)chance(w, IDS + 1) - 1));
}

static void ask_read(world *w, uint32_t at) {
	int64_t ledger_id = (int64_t)chance(w, LEDGERS_COUNT), entry_id = (int64_t)chance(w, IDS + 3) - 2;
	wk_wire_request request = a_read(ledger_id, real(ledger_id, entry_id < -1 ? -1 : entry_id));
	if (chance(w, 40) == 0)
		request = a_fence_of_something(w);
	if (at % 2 == 1 && chance(w, 4) == 0)
		request = (wk_wire_request){.operation = WK_WIRE_BATCH_READ,
		                            .ledger_id = ledger_id,
		                            .entry_id = real(ledger_id, (int64_t)chance(w, IDS)),
		                            .max_count = (int32_t)chance(w, 10),
		                            .max_size = (int64_t)chance(w, 20000)};
	if (at % 2 == 1 && is_under_way(w, at, &request))
		return;
	note(w, at, request);
}

static void ask_something(world *w) {
	uint32_t at = (uint32_t)chance(w, 4);
	uint64_t what = chance(w, 100);
	int64_t ledger_id = (int64_t)chance(w, LEDGERS_COUNT);
	if (what < 55) {
		ask_add(w, at);
	} else if (what < 85) {
		ask_read(w, at);
	} else if (what < 89 && at % 2 == 0) {
		note(w, at, a_poll(ledger_id, real(ledger_id, (int64_t)chance(w, IDS) - 1), (int64_t)chance(w, 30)));
	} else if (what < 91 && at % 2 == 0) {
		note(w, at, of_ledger(WK_WIRE_READ_LAC, ledger_id));
	} else if (what < 93 && at % 2 == 0) {
		note(w, at, of_ledger(WK_WIRE_LIST_ENTRIES, ledger_id));
	} else if (what < 96 && at % 2 == 0) {
		int64_t lac = (int64_t)chance(w, IDS);
		note(w, at, a_lac(ledger_id, real(ledger_id, lac)));
		if (lac > w->ledgers[ledger_id].max_lac_sent)
			w->ledgers[ledger_id].max_lac_sent = lac;
	} else if (at % 2 == 0) {
		asked *a = note(w, at, of_ledger(WK_WIRE_FORCE, ledger_id));
		for (int64_t id = 0; id < IDS; id++)
			a->soon[id] = w->ledgers[ledger_id].entries[id].acked_soon;
	}
}

/* ---- what an answer may say ---- */

static void must_be_sent(const model_entry *entry, uint64_t version, uint64_t not_before, const char *what) {
	for (uint32_t i = 0; i < entry->sent_count; i++)
		if (entry->sent[i] == version) {
			if (i + 1 < not_before) {
				printf("%s: version %llu, sent as number %u, but number %llu was acknowledged\n", what,
				       (unsigned long long)version, i + 1, (unsigned long long)not_before);
				check_failed(__FILE__, __LINE__, what);
			}
			return;
		}
	printf("%s: version %llu was never sent\n", what, (unsigned long long)version);
	check_failed(__FILE__, __LINE__, what);
}

static void look_at_add(world *w, const asked *a, const wk_wire_reply *reply) {
	model_ledger *ledger = &w->ledgers[a->request.ledger_id];
	model_entry *entry = &ledger->entries[a->request.entry_id];
	if (a->wrong_key) {
		CHECK(reply->code == WK_WIRE_UNAUTHORIZED || reply->code == WK_WIRE_IO_ERROR ||
		      reply->code == WK_WIRE_READ_ONLY); /* the disk was full before the key was looked at */
		return;
	}
	if (reply->code == WK_WIRE_FENCED)
		CHECK((a->request.flags & WK_WIRE_RECOVERY) == 0);
	if (reply->code != WK_WIRE_OK)
		return;
	if ((a->request.flags & WK_WIRE_RECOVERY) == 0) {
		CHECK(!a->was_fenced && !ledger->limbo);
		CHECK(a->index <= entry->told);
	}
	if ((a->request.flags & WK_WIRE_DEFERRED) != 0) {
		if (a->index > entry->acked_soon)
			entry->acked_soon = a->index;
		return;
	}
	ledger->known = true; /* durably: its key, too */
	if (a->index > entry->acked)
		entry->acked = a->index;
	if ((a->request.flags & WK_WIRE_RECOVERY) == 0 && a->index > entry->added)
		entry->added = a->index;
}

static void look_at_lac(const model_ledger *ledger, const asked *a, const wk_wire_reply *reply) {
	if (!reply->has_max_lac)
		return;
	int64_t lac = modelled(a->request.ledger_id, reply->max_lac);
	CHECK(lac <= ledger->max_lac_sent);
	CHECK(lac >= a->acked_lac);
}

static uint64_t index_of(const model_entry *entry, uint64_t version) {
	uint32_t i = 0;
	while (i < entry->sent_count && entry->sent[i] != version)
		i++;
	return i + 1;
}

static void told_by_fence(model_entry *entry, uint64_t index) {
	CHECK(index >= entry->added);
	entry->told = index < entry->told ? index : entry->told;
}

static int64_t id_of(const asked *a, const uint8_t *entry) {
	return modelled(a->request.ledger_id, wk_load_be64_signed(entry + 8));
}

/* A recovery goes by it: what it does not tell of was not accepted, and is never acknowledged. */
static void look_at_fence(world *w, const asked *a, const wk_wire_reply *reply) {
	model_ledger *ledger = &w->ledgers[a->request.ledger_id];
	if (reply->code == WK_WIRE_IO_ERROR || reply->code == WK_WIRE_UNAUTHORIZED ||
	    reply->code == WK_WIRE_TOO_MANY_REQUESTS)
		return;
	ledger->fenced = ledger->known = true;
	if (reply->code == WK_WIRE_UNKNOWN_STATE)
		return;
	bool found = reply->code == WK_WIRE_OK;
	int64_t id = found ? id_of(a, reply->body) : a->request.entry_id;
	if (id >= 0 && id < IDS)
		told_by_fence(&ledger->entries[id], found ? index_of(&ledger->entries[id], wk_load_be64(reply->body + 36)) : 0);
	for (id++; a->request.entry_id == -1 && id < IDS; id++)
		told_by_fence(&ledger->entries[id], 0);
}

static void look_at_read(world *w, const asked *a, const wk_wire_reply *reply) {
	model_ledger *ledger = &w->ledgers[a->request.ledger_id];
	bool negative = reply->code == WK_WIRE_NO_LEDGER || reply->code == WK_WIRE_NO_ENTRY;
	bool last = a->request.entry_id == -1, polls = (a->request.flags & WK_WIRE_LONG_POLL) != 0;
	if (negative) {
		CHECK(!ledger->limbo);
		CHECK(a->acked == 0 && a->acked_soon == 0);
		if (last || reply->code == WK_WIRE_NO_LEDGER)
			CHECK_EQ(a->highest_acked, -1);
		return;
	}
	if (reply->code != WK_WIRE_OK)
		return;
	look_at_lac(ledger, a, reply);
	CHECK(!ledger->limbo || !last || polls);
	if (!reply->has_body) {
		CHECK(polls);
		return;
	}
	CHECK(reply->body_size >= 44);
	CHECK(wk_wire_digest_matches(reply->body, reply->body_size, WK_DIGEST_CRC32C) ==
	      ((wk_load_be64(reply->body + 36) & DAMAGED) == 0));
	int64_t entry_id = id_of(a, reply->body);
	CHECK_EQ(wk_load_be64_signed(reply->body), a->request.ledger_id);
	CHECK(entry_id >= 0 && entry_id < IDS);
	if (last && !polls)
		CHECK(entry_id >= a->highest_there);
	else if (polls)
		CHECK_EQ(entry_id, a->request.previous_lac + 1);
	else
		CHECK_EQ(entry_id, a->request.entry_id);
	must_be_sent(&ledger->entries[entry_id], wk_load_be64(reply->body + 36), last || polls ? 0 : a->acked,
	             "a read gives an older entry than was acknowledged");
}

static void look_at_batch(world *w, const asked *a, const wk_wire_reply *reply) {
	const model_ledger *ledger = &w->ledgers[a->request.ledger_id];
	if (reply->code == WK_WIRE_NO_LEDGER || reply->code == WK_WIRE_NO_ENTRY) {
		CHECK(!ledger->limbo && !a->there[a->request.entry_id]);
		return;
	}
	if (reply->code != WK_WIRE_OK)
		return;
	int64_t id = a->request.entry_id;
	for (uint64_t at = 0; at < reply->body_size; id++) {
		CHECK(at + 4 <= reply->body_size && id < IDS);
		const uint8_t *entry = reply->body + at + 4;
		at += 4 + wk_load_be32(reply->body + at);
		CHECK(at <= reply->body_size);
		CHECK_EQ(id_of(a, entry), id);
		must_be_sent(&ledger->entries[id], wk_load_be64(entry + 36), a->all[id], "an older entry in a batch read");
	}
	CHECK(id > a->request.entry_id);
	if (a->request.max_count > 0)
		CHECK(id - a->request.entry_id <= a->request.max_count);
}

static void look_at_list(world *w, const asked *a, const wk_wire_reply *reply) {
	const model_ledger *ledger = &w->ledgers[a->request.ledger_id];
	bool found[IDS] = {false};
	if (reply->code == WK_WIRE_NO_LEDGER)
		CHECK(!ledger->limbo);
	else if (reply->code != WK_WIRE_OK)
		return;
	for (uint64_t at = 64; reply->code == WK_WIRE_OK && at < reply->body_size; at += 24) {
		int64_t start = modelled(a->request.ledger_id, wk_load_be64_signed(reply->body + at));
		int64_t last = modelled(a->request.ledger_id, wk_load_be64_signed(reply->body + at + 8));
		uint32_t period = wk_load_be32(reply->body + at + 20);
		for (bool more = true; more; start += period) {
			for (int64_t id = start; id < start + wk_load_be32(reply->body + at + 16); id++) {
				CHECK(id >= 0 && id < IDS);
				CHECK(ledger->entries[id].sent_count > 0);
				found[id] = true;
			}
			more = start < last;
			CHECK(!more || period > 0);
		}
	}
	for (int64_t id = 0; id < IDS; id++)
		CHECK(found[id] || !a->there[id]);
}

static void look_at(world *w, const asked *a, const wk_wire_reply *reply) {
	model_ledger *ledger = &w->ledgers[a->request.ledger_id];
	switch (a->request.operation) {
	case WK_WIRE_ADD:
		look_at_add(w, a, reply);
		return;
	case WK_WIRE_READ:
		look_at_read(w, a, reply);
		if ((a->request.flags & WK_WIRE_FENCE) != 0)
			look_at_fence(w, a, reply);
		return;
	case WK_WIRE_BATCH_READ:
		look_at_batch(w, a, reply);
		return;
	case WK_WIRE_LIST_ENTRIES:
		look_at_list(w, a, reply);
		return;
	case WK_WIRE_WRITE_LAC:
		if (reply->code == WK_WIRE_OK) {
			ledger->known = true;
			if (a->request.lac > ledger->acked_lac)
				ledger->acked_lac = a->request.lac;
		}
		return;
	case WK_WIRE_READ_LAC:
		if (reply->code == WK_WIRE_NO_ENTRY)
			CHECK(!ledger->limbo && a->highest_there == -1 && a->acked_lac == -1);
		CHECK(reply->code != WK_WIRE_OK || !ledger->limbo);
		if (reply->code == WK_WIRE_OK && a->highest_there >= 0)
			CHECK(reply->has_body && id_of(a, reply->body) >= a->highest_there);
		return;
	case WK_WIRE_FORCE:
		if (reply->code == WK_WIRE_OK)
			for (int64_t id = 0; id < IDS; id++)
				if (a->soon[id] > ledger->entries[id].acked)
					ledger->entries[id].acked = a->soon[id];
		return;
	default:
		check_failed(__FILE__, __LINE__, "an answer nobody asked for");
	}
}

static asked *find_asked(world *w, uint32_t at, const wk_wire_reply *reply) {
	for (uint32_t i = 0; i < w->asked_count; i++) {
		asked *a = &w->asked[i];
		if (!a->open || a->peer != at)
			continue;
		if (at % 2 == 0 ? a->txn_id == reply->txn_id
		    : a->request.operation == WK_WIRE_BATCH_READ
		        ? a->txn_id == reply->txn_id && reply->operation == WK_WIRE_BATCH_READ
		        : a->request.operation == reply->operation && a->request.ledger_id == reply->ledger_id &&
		              a->request.entry_id == modelled(a->request.ledger_id, reply->entry_id))
			return a;
	}
	return NULL;
}

static void take_answers(world *w) {
	for (uint32_t at = 0; at < 4; at++) {
		int64_t last_add[LEDGERS_COUNT];
		memset(last_add, -1, sizeof last_add);
		while (more_replies(w->peers[at])) {
			wk_wire_reply reply = take_reply(w->peers[at]);
			asked *a = find_asked(w, at, &reply);
			CHECK(a != NULL);
			/* Adds that were accepted are answered in their order. */
			if (a->request.operation == WK_WIRE_ADD && reply.code == WK_WIRE_OK &&
			    (a->request.flags & WK_WIRE_DEFERRED) == 0) {
				CHECK(last_add[a->request.ledger_id] < a - w->asked);
				last_add[a->request.ledger_id] = a - w->asked;
			}
			look_at(w, a, &reply);
			a->open = false;
		}
	}
}
#endif
