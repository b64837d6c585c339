/*
 * ledger_workload.h: adds, fences, explicit LACs, deletes, background work, kills and reopenings of a ledger store on
 * the faulty disk, by a seed; the model beside it; and the look at a store afterwards that compares the two.
 *
 * All that is accepted goes into one journal, in order. So whatever a crash leaves is what the model was after some
 * prefix of the changes: one that has at least what was promised, and at most what was possible.
 */
#ifndef LEDGER_WORKLOAD_H
#define LEDGER_WORKLOAD_H
#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"
#include <assert.h>

enum { LEDGERS = 4, ENTRIES = 40, STATES_MAX = 1024, STEPS_MAX = 120, ADDS_MAX = 8 };

typedef struct model_ledger {
	uint64_t versions[ENTRIES]; /* 0: no such entry */
	uint64_t lac;               /* 0: none */
	bool fenced, has_key;
} model_ledger;

typedef struct model {
	model_ledger ledgers[LEDGERS];
} model;

/* One call of the workload: from event `begun` on its changes are possible, from `ended` on they are promised. */
typedef struct step {
	uint64_t begun, ended;
	size_t possible, promised; /* behind it: numbers of models */
} step;

typedef struct workload {
	wk_io *io;
	wk_faulty *disk;
	wk_namespace *ns;
	uint64_t seed, version;
	model models[STATES_MAX]; /* after each change */
	size_t possible, promised;
	step steps[STEPS_MAX];
	size_t steps_count;
	bool small_blocks, writes_then_syncs;
	bool sorts;           /* interleaved files, for the most part (test_ledger_sort_crashes.c) */
	bool pages_out;       /* what may be, at once */
	bool apart;           /* the journal is on the second device: of every other seed */
	uint64_t sort_memory; /* of interleaved files, so that the mover sorts them; UINT64_MAX: it does not */
	wk_error error;       /* why a call failed */
} workload;

/* ---- the model ---- */

static inline model *change(workload *w) {
	assert(w->possible + 1 < STATES_MAX);
	w->models[w->possible + 1] = w->models[w->possible];
	return &w->models[++w->possible];
}

static inline bool is_model_known(const model_ledger *ledger) {
	static const model_ledger nothing;
	return memcmp(ledger, &nothing, sizeof nothing) != 0;
}

static inline int64_t model_last(const model_ledger *ledger) {
	for (int64_t id = ENTRIES; id-- > 0;)
		if (ledger->versions[id] != 0)
			return id;
	return -1;
}

/* ---- what the store holds ---- */

/* false: the disk failed a read, as *error says. */
static inline bool look_at_ledger(wk_namespace *ns, int64_t ledger_id, model_ledger *into, wk_error *error) {
	model_ledger found = {0};
	*into = found;
	if (!is_known(ns, ledger_id))
		return true;
	wk_ledger_info info = info_of(ns, ledger_id);
	found.fenced = info.fenced;
	found.has_key = info.key_size > 0;
	if (found.has_key)
		CHECK(info.key_size == sizeof KEY - 1 && memcmp(info.key, KEY, sizeof KEY - 1) == 0);
	CHECK(info.lac_size == 0 || info.lac_size == 8);
	found.lac = info.lac_size > 0 ? wk_load_be64(info.lac) : 0;
	wk_entry_range ranges[ENTRIES];
	size_t count;
	uint64_t entries = 0;
	wk_status status = wk_ledger_entries(ns, ledger_id, 0, ranges, ENTRIES, &count, error);
	if (status == WK_IO || status == WK_NO_MEMORY)
		return false;
	check_ok(status, error, "the entries are listed");
	for (size_t i = 0; i < count; i++) {
		CHECK(i == 0 || ranges[i].first > ranges[i - 1].last + 1);
		CHECK(ranges[i].last < ENTRIES);
		for (int64_t id = ranges[i].first; id <= ranges[i].last; id++, entries++) {
			if (!read_version(ns, ledger_id, id, &found.versions[id], error))
				return false;
			CHECK(found.versions[id] != 0);
		}
	}
	CHECK(info.entries_count >= entries);
	CHECK_EQ(info.last_entry, model_last(&found));
	for (int64_t id = 0; id < ENTRIES; id++) {
		uint64_t version = 0;
		if (found.versions[id] == 0 && !read_version(ns, ledger_id, id, &version, error))
			return false;
		CHECK_EQ(version, 0);
	}
	*into = found;
	return true;
}

static inline bool look(wk_namespace *ns, model *found, wk_error *error) {
	for (int64_t i = 0; i < LEDGERS; i++)
		if (!look_at_ledger(ns, i, &found->ledgers[i], error))
			return false;
	return true;
}

static inline void must_look(wk_namespace *ns, model *found) {
	wk_error error = {0};
	if (!look(ns, found, &error))
		check_ok(error.status, &error, "all of it can be read");
}

static inline bool same_ledger(const model_ledger *a, const model_ledger *b) {
	return memcmp(a->versions, b->versions, sizeof a->versions) == 0 && a->lac == b->lac && a->fenced == b->fenced &&
	       a->has_key == b->has_key;
}

static inline bool same(const model *a, const model *b) {
	for (size_t i = 0; i < LEDGERS; i++)
		if (!same_ledger(&a->ledgers[i], &b->ledgers[i]))
			return false;
	return true;
}

/* The first model from `low` to `high` that this is; there must be one. */
static inline size_t number_of(const workload *w, const model *found, size_t low, size_t high) {
	for (size_t i = low; i <= high; i++)
		if (same(&w->models[i], found)) {
			check_count();
			return i;
		}
	for (size_t l = 0; l < LEDGERS; l++)
		printf("ledger %zu: fenced %d key %d lac %llu last %lld; promised: fenced %d key %d lac %llu last %lld\n", l,
		       found->ledgers[l].fenced, found->ledgers[l].has_key, (unsigned long long)found->ledgers[l].lac,
		       (long long)model_last(&found->ledgers[l]), w->models[low].ledgers[l].fenced,
		       w->models[low].ledgers[l].has_key, (unsigned long long)w->models[low].ledgers[l].lac,
		       (long long)model_last(&w->models[low].ledgers[l]));
	for (size_t l = 0; l < LEDGERS; l++)
		for (size_t e = 0; e < ENTRIES; e++)
			if (found->ledgers[l].versions[e] != w->models[low].ledgers[l].versions[e])
				printf("entry %zu of ledger %zu: version %llu; promised %llu\n", e, l,
				       (unsigned long long)found->ledgers[l].versions[e],
				       (unsigned long long)w->models[low].ledgers[l].versions[e]);
	printf("models %zu to %zu\n", low, high);
	check_failed(__FILE__, __LINE__, "the store holds what was promised, and nothing that was not possible");
	return 0;
}

static inline size_t must_be_one_of(const workload *w, wk_namespace *ns, size_t low, size_t high) {
	static model found;
	must_look(ns, &found);
	return number_of(w, &found, low, high);
}

/* ---- what can be done; each returns whether it succeeded ---- */

static inline wk_status open_on(const workload *w, wk_io *io, wk_namespace **ns, wk_error *error) {
	wk_open_options options = store_options();
	options.journal = w->apart ? JOURNAL_DIRECTORY : NULL;
	options.sync_method = w->writes_then_syncs ? WK_SYNC_WRITE_THEN_SYNC : WK_SYNC_DSYNC;
	options.block_size_max = w->small_blocks ? 2 * WK_BLOCK_ALIGNMENT : 0;
	options.minor_percent = w->sorts ? 1 : 50; /* so that entries are moved, or files sorted before that */
	options.file_size_max = w->sorts ? options.file_size_min : options.file_size_max;
	options.minor_interval_ns = 300 * 1000 * 1000;
	options.range_bytes = w->pages_out ? 1 : 0;
	options.sort_memory = w->sort_memory;
	options.sort_wait_ns = 1;
	options.sort_gain = 1;
	*ns = NULL;
	return wk_open_on(io, "store", &options, ns, error);
}

static inline bool promise(workload *w) {
	w->promised = w->possible;
	return true;
}

static inline bool close_and_open(workload *w) {
	wk_namespace *ns = w->ns;
	w->ns = NULL;
	if (wk_close(ns, UINT64_MAX, &w->error) != WK_OK)
		return false;
	promise(w);
	return open_on(w, w->io, &w->ns, &w->error) == WK_OK;
}

static inline void abandon(workload *w) {
	if (w->ns != NULL)
		wk_abandon(w->ns);
	w->ns = NULL;
}

/* What the next process finds after a kill it may show to others: from then on it is promised. */
static inline bool be_killed_and_open(workload *w) {
	abandon(w);
	wk_faulty_kill(w->disk);
	if (open_on(w, w->io, &w->ns, &w->error) != WK_OK)
		return false;
	static model seen;
	if (!look(w->ns, &seen, &w->error)) {
		abandon(w); /* nobody knows what it was shown */
		return false;
	}
	size_t found = number_of(w, &seen, w->promised, w->possible);
	model *now = change(w);
	*now = w->models[found];
	return promise(w);
}

/* Any id, in any order, also one that is there: then it is replaced. */
static inline int64_t choose_entry(workload *w) {
	return (int64_t)(check_random(&w->seed) % ENTRIES);
}

static inline bool add_some(workload *w, size_t count, bool deferred, bool recovery, bool waits) {
	static uint8_t bytes[ADDS_MAX][ENTRY_SIZE_MAX];
	wk_add adds[ADDS_MAX];
	bool refused[ADDS_MAX];
	int64_t ledgers[ADDS_MAX], entries[ADDS_MAX];
	size_t before = w->possible;
	int64_t one = (int64_t)(check_random(&w->seed) % LEDGERS);
	bool mixed = check_random(&w->seed) % 2 == 0;
	for (size_t i = 0; i < count; i++) {
		ledgers[i] = mixed ? (int64_t)(check_random(&w->seed) % LEDGERS) : one;
		entries[i] = choose_entry(w);
		refused[i] = w->models[before].ledgers[ledgers[i]].fenced && !recovery;
		adds[i] = an_add(bytes[i], fill_entry(ledgers[i], entries[i], w->version + 1 + i, bytes[i]),
		                 (deferred ? WK_ADD_DEFERRED : 0) | (recovery ? WK_ADD_RECOVERY : 0));
	}
	wk_status status = wk_ledger_add(w->ns, adds, count, UINT64_MAX, waits, &w->error);
	bool sound = status == WK_OK || status == WK_FENCED;
	/* A refusal may hide that the disk failed behind it: the first one is answered. */
	for (size_t i = 0; i < count; i++) {
		sound &= adds[i].status == WK_OK || adds[i].status == WK_FENCED;
		if (adds[i].ticket == 0)
			continue; /* definitely not written */
		model_ledger *ledger = &change(w)->ledgers[ledgers[i]];
		ledger->versions[entries[i]] = w->version + 1 + i;
		ledger->has_key = true;
	}
	w->version += count;
	for (size_t i = 0; i < count && sound; i++)
		CHECK_EQ(adds[i].status, refused[i] ? WK_FENCED : WK_OK);
	if (sound && waits && !deferred && w->possible > before) /* one journal, one order: all that came before as well */
		promise(w);
	return sound;
}

/* Whether a change of the last model succeeded; if it was definitely not made, the model goes. */
static inline bool is_made(workload *w, wk_status status) {
	w->possible -= status != WK_OK && !w->error.outcome_unknown;
	return status == WK_OK;
}

static inline bool fence_one(workload *w) {
	int64_t ledger_id = (int64_t)(check_random(&w->seed) % LEDGERS);
	model_ledger *ledger = &change(w)->ledgers[ledger_id];
	ledger->fenced = ledger->has_key = true;
	if (!is_made(w, wk_ledger_fence(w->ns, ledger_id, KEY, sizeof KEY - 1, UINT64_MAX, NULL, &w->error)))
		return false;
	/* Idempotent: then it speaks for this ledger alone, and promises nothing of others. */
	size_t at = w->possible;
	while (at > w->promised && same_ledger(&w->models[at - 1].ledgers[ledger_id], &w->models[at].ledgers[ledger_id]))
		at--;
	w->promised = at > w->promised ? at : w->promised;
	return true;
}

static inline bool set_lac(workload *w) {
	int64_t ledger_id = (int64_t)(check_random(&w->seed) % LEDGERS);
	uint8_t packet[8];
	model_ledger *ledger = &change(w)->ledgers[ledger_id];
	ledger->has_key = true;
	ledger->lac = ++w->version;
	wk_store_be64(packet, ledger->lac);
	wk_status status = wk_ledger_set_lac(w->ns, ledger_id, KEY, sizeof KEY - 1, packet, sizeof packet, UINT64_MAX, NULL,
	                                     &w->error);
	return is_made(w, status) && promise(w);
}

static inline bool delete_one(workload *w) {
	int64_t ledger_id = (int64_t)(check_random(&w->seed) % LEDGERS);
	model_ledger *ledger = &change(w)->ledgers[ledger_id];
	bool known = is_model_known(ledger);
	memset(ledger, 0, sizeof *ledger);
	wk_status status = wk_ledger_delete(w->ns, ledger_id, UINT64_MAX, NULL, &w->error);
	if (!known) {
		w->possible--;
		CHECK(status == WK_NO_LEDGER || status == WK_FAILED);
		return status == WK_NO_LEDGER;
	}
	return is_made(w, status) && promise(w);
}

static inline bool force_one(workload *w) {
	int64_t ledger_id = (int64_t)(check_random(&w->seed) % LEDGERS);
	bool known = is_model_known(&w->models[w->possible].ledgers[ledger_id]);
	wk_status status = wk_ledger_force(w->ns, ledger_id, UINT64_MAX, NULL, &w->error);
	if (!known)
		CHECK(status == WK_NO_LEDGER || status == WK_FAILED);
	if (status == WK_OK)
		for (size_t at = w->possible; at > w->promised; at--)
			if (!same_ledger(&w->models[at - 1].ledgers[ledger_id], &w->models[at].ledgers[ledger_id]))
				w->promised = at;
	return status == WK_OK || status == WK_NO_LEDGER;
}

static inline bool refuse_a_wrong_key(workload *w) {
	int64_t ledger_id = (int64_t)(check_random(&w->seed) % LEDGERS);
	if (!w->models[w->possible].ledgers[ledger_id].has_key)
		return true;
	wk_error error;
	wk_status status = wk_ledger_fence(w->ns, ledger_id, OTHER_KEY, sizeof OTHER_KEY - 1, UINT64_MAX, NULL, &error);
	CHECK_EQ(status, WK_WRONG_KEY);
	return true;
}

static inline bool work_in_background(workload *w) {
	bool idle = false;
	wk_faulty_advance(w->disk, check_random(&w->seed) % 500000000);
	for (int i = 0; i < 40 && !idle; i++)
		if (wk_namespace_step(w->ns, &idle, &w->error) != WK_OK)
			return false;
	no_range_outlives_its_file(w->ns);
	wk_stats stats;
	wk_namespace_stats(w->ns, &stats);
	if (stats.failed)
		w->error = w->ns->engine->failure;
	return !stats.failed;
}

static inline bool do_something(workload *w) {
	uint64_t what = check_random(&w->seed) % 100;
	size_t count = 1 + check_random(&w->seed) % ADDS_MAX;
	return what < 25   ? add_some(w, 1, false, false, true)
	       : what < 42 ? add_some(w, count, false, false, true)
	       : what < 47 ? add_some(w, count, false, false, false)
	       : what < 52 ? add_some(w, count, false, true, true)
	       : what < 57 ? add_some(w, count, true, false, true)
	       : what < 60 ? fence_one(w)
	       : what < 64 ? set_lac(w)
	       : what < 70 ? delete_one(w)
	       : what < 74 ? force_one(w)
	       : what < 76 ? refuse_a_wrong_key(w)
	       : what < 90 ? work_in_background(w)
	       : what < 95 ? close_and_open(w)
	                   : be_killed_and_open(w);
}

static inline void make_disk(workload *w, uint64_t seed) {
	memset(w, 0, sizeof *w);
	w->seed = seed;
	w->sort_memory = seed % 3 == 0 ? UINT64_MAX : seed % 3 == 1 ? 8 * 1024 : 1024 * 1024; /* 8: in several slices */
	w->io = new_disk(seed);
	w->disk = wk_faulty_of(w->io);
	wk_faulty_set_flush_on_dsync(w->disk, check_random(&w->seed) % 2 == 0);
	w->small_blocks = check_random(&w->seed) % 2 == 0;
	w->pages_out = check_random(&w->seed) % 2 == 0;
	w->writes_then_syncs = check_random(&w->seed) % 2 == 0;
	w->apart = seed % 2 == 0;
	if (w->apart)
		wk_faulty_mount(w->disk, "fast");
}

static inline bool open_first(workload *w) {
	return open_on(w, w->io, &w->ns, &w->error) == WK_OK;
}

/* One step of it. False: a call failed, and w->error says why. */
static inline bool take_step(workload *w, bool (*act)(workload *)) {
	assert(w->steps_count < STEPS_MAX);
	step *s = &w->steps[w->steps_count++];
	s->begun = wk_faulty_trace_length(w->disk);
	bool well = act(w);
	s->ended = well ? wk_faulty_trace_length(w->disk) : UINT64_MAX;
	s->possible = w->possible;
	s->promised = w->promised;
	return well;
}

/* Runs until it is done or a call fails: false. */
static inline bool run_workload(workload *w, size_t steps) {
	bool well = take_step(w, open_first);
	while (well && w->steps_count < steps)
		well = take_step(w, do_something);
	return well;
}

/* ---- the look afterwards ---- */

/* The disk as it was left: what is there lies between the two; it can be written to, closed, and opened again. */
static inline void look_at_disk(const workload *w, wk_io *io, size_t low, size_t high) {
	wk_namespace *ns;
	wk_error error = {0};
	check_ok(open_on(w, io, &ns, &error), &error, "the store opens");
	size_t found = must_be_one_of(w, ns, low, high);
	static model before, after;
	must_look(ns, &before);
	CHECK(same(&before, &w->models[found]));
	CHECK_EQ(add_version(ns, LEDGERS, 0, 12345, 0, NULL), WK_OK);
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
	check_ok(open_on(w, io, &ns, &error), &error, "the store opens again");
	must_look(ns, &after);
	CHECK(same(&before, &after));
	CHECK_EQ(version_of(ns, LEDGERS, 0), 12345);
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes again");
}

/* The same, on the disk as a power cut behind event `at` would leave it, by the seed. */
static inline void look_behind_power_cut(const workload *w, uint64_t at, uint64_t seed) {
	size_t promised = 0, possible = 0;
	for (size_t i = 0; i < w->steps_count; i++) {
		if (w->steps[i].ended <= at)
			promised = w->steps[i].promised;
		if (w->steps[i].begun <= at)
			possible = w->steps[i].possible;
	}
	wk_io *image;
	CHECK_EQ(wk_faulty_image(w->disk, at, seed, &image), 0);
	look_at_disk(w, image, promised, possible);
	image->operations->destroy(image);
}
#endif
