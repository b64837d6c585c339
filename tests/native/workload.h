/*
 * workload.h: appends, truncations, cursors, background work, kills and reopenings on the faulty disk, by a seed; what
 * they promise; and the look at a directory afterwards that compares the two.
 *
 * A record's bytes follow from its log and sequence id. `promised` is what the calls that returned have promised,
 * `possible` what all calls together could have done: every look must find something between the two.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H
#include "check.h"
#include "engine/directory/directory.h"
#include "engine/manual.h"
#include "expected_records.h"
#include "io/io.h"
#include "sim/faulty.h"
#include "walkeeper/log.h"
#include <assert.h>

enum { LOGS = 2, STEPS_MAX = 80, PAYLOAD_MAX = 40 * 1024, BATCH_MAX = 12, BATCHES_MAX = 4096 };
static bool small_blocks;      /* deferred appends fill them, and they go out without sync */
static bool writes_then_syncs; /* as on a device where that is faster */
static bool devices_are_two;   /* sometimes: the journal is on the second one, of every other seed */
static bool apart;
static uint32_t opens_with = WK_ON_DAMAGE_STOP; /* on damage */
static uint32_t codec = WK_CODEC_NONE;          /* of the second log */
static const char *const names[LOGS] = {"first", "second"};

/* What is promised, or at most possible, of one log at one moment. */
typedef struct bounds {
	int64_t next;   /* sequence id behind the last record */
	int64_t first;  /* truncated before it */
	int64_t cursor; /* -1: none */
	bool exists;
} bounds;

/* One call of the workload: from event `begun` on its effect is possible, from `ended` on it is promised. */
typedef struct step {
	uint64_t begun, ended;
	bounds possible[LOGS], promised[LOGS];
} step;

/* An atomic one, from event `begun` on; from `lost` on other records have its ids. */
typedef struct atomic_batch {
	size_t log;
	int64_t first, next;
	uint64_t begun, lost;
} atomic_batch;

typedef struct workload {
	wk_io *io;
	wk_faulty *disk;
	wk_namespace *ns;
	wk_log *logs[LOGS];
	wk_writer *writers[LOGS];
	uint64_t seed;
	bounds possible[LOGS], promised[LOGS];
	step steps[STEPS_MAX];
	size_t steps_count;
	atomic_batch batches[BATCHES_MAX];
	size_t batches_count;
	wk_error error; /* why a call failed */
} workload;

static inline size_t size_of(size_t log, int64_t sequence_id) {
	uint64_t seed = (uint64_t)sequence_id * LOGS + log;
	uint64_t kind = check_random(&seed) % 100, size = check_random(&seed);
	return (size_t)(kind < 80 ? size % 300 : kind < 97 ? size % 6000 : size % PAYLOAD_MAX);
}

static inline void fill(size_t log, int64_t sequence_id, uint8_t *payload) {
	uint64_t seed = (uint64_t)sequence_id * LOGS + log + 77;
	size_t size = size_of(log, sequence_id);
	check_random_bytes(&seed, payload, size);
	for (size_t i = 0; i < size && log == 1; i++)
		payload[i] = payload[i / 8]; /* it can be compressed */
}

/* A record's bytes, kept once they were asked for. */
static inline const uint8_t *payload_of_record(size_t log, int64_t sequence_id) {
	enum { KEPT = 1024 };
	static uint8_t *kept[LOGS][KEPT], once[PAYLOAD_MAX];
	uint8_t **place = sequence_id < KEPT ? &kept[log][sequence_id] : NULL;
	if (place != NULL && *place != NULL)
		return *place;
	fill(log, sequence_id, once);
	if (place == NULL)
		return once;
	*place = check_exact_copy(once, size_of(log, sequence_id));
	return *place;
}

static inline payload_rule rule_of(size_t log) {
	return (payload_rule){log, size_of, payload_of_record};
}

static inline void check_records_of(size_t i, wk_log *log, const wk_log_info *info) {
	payload_rule rule = rule_of(i);
	check_records(log, info, &rule);
}

static inline wk_status open_on(wk_io *io, wk_namespace **ns, wk_error *error) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.file_size_min = 64 * 1024;
	options.file_size_max = 256 * 1024;
	options.sync_method = writes_then_syncs ? WK_SYNC_WRITE_THEN_SYNC : WK_SYNC_DSYNC;
	options.block_size_max = small_blocks ? 2 * WK_BLOCK_ALIGNMENT : 0;
	options.on_damage = opens_with;
	options.journal = apart ? "fast/journal" : NULL;
	*ns = NULL;
	return wk_open_on(io, "wal", &options, ns, error);
}

static inline wk_namespace *must_open_on(wk_io *io) {
	wk_namespace *ns;
	wk_error error = {0};
	if (open_on(io, &ns, &error) != WK_OK) {
		printf("%s\n", error.text);
		check_failed(__FILE__, __LINE__, "the directory opens");
	}
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	CHECK_EQ(report.catalogue_fallbacks, 0); /* the snapshot that the superblock names is there */
	return ns;
}

/* ---- what can be done; each returns whether it succeeded ---- */

static inline void promise_everything(workload *w) {
	memcpy(w->promised, w->possible, sizeof w->promised);
}

static inline bool open_logs(workload *w) {
	if (open_on(w->io, &w->ns, &w->error) != WK_OK)
		return false;
	wk_log_options options;
	wk_log_options_init(&options);
	for (size_t i = 0; i < LOGS; i++) {
		w->possible[i].exists = true;
		options.codec = i == 1 ? codec : WK_CODEC_NONE;
		if (wk_log_open(w->ns, names[i], strlen(names[i]), true, &options, &w->logs[i], &w->error) != WK_OK)
			return false;
		w->promised[i].exists = true;
		if (wk_writer_open(w->logs[i], &w->writers[i], &w->error) != WK_OK)
			return false;
	}
	return true;
}

static inline void release_logs(workload *w) {
	for (size_t i = 0; i < LOGS; i++) {
		if (w->writers[i] != NULL)
			wk_writer_close(w->writers[i], 0, NULL);
		if (w->logs[i] != NULL)
			wk_log_release(w->logs[i]);
		w->writers[i] = NULL;
		w->logs[i] = NULL;
	}
}

/* Without a word to the disk, as a kill would. */
static inline void abandon(workload *w) {
	if (w->ns != NULL)
		wk_abandon(w->ns);
	w->ns = NULL;
	release_logs(w);
}

static inline bool close_and_open(workload *w) {
	for (size_t i = 0; i < LOGS; i++) {
		wk_writer *writer = w->writers[i];
		w->writers[i] = NULL;
		if (wk_writer_close(writer, UINT64_MAX, &w->error) != WK_OK)
			return false;
	}
	release_logs(w);
	wk_namespace *ns = w->ns;
	w->ns = NULL;
	if (wk_close(ns, UINT64_MAX, &w->error) != WK_OK)
		return false;
	promise_everything(w);
	return open_logs(w);
}

static inline int64_t cursor_of(wk_log *log) {
	wk_position at;
	return wk_cursor_get(log, "here", 4, &at, NULL) == WK_OK ? at.sequence_id : -1;
}

/* What the next process finds after a kill it may show to readers: from then on it is promised. */
static inline bool be_killed_and_open(workload *w) {
	abandon(w);
	wk_faulty_kill(w->disk);
	if (!open_logs(w))
		return false;
	for (size_t i = 0; i < LOGS; i++) {
		wk_log_info info;
		if (wk_log_describe(w->logs[i], &info, &w->error) != WK_OK) {
			abandon(w); /* nobody knows what others were shown */
			return false;
		}
		CHECK(info.next.sequence_id >= w->promised[i].next);
		CHECK(info.next.sequence_id <= w->possible[i].next);
		w->possible[i].next = w->promised[i].next = info.next.sequence_id;
		w->possible[i].first = w->promised[i].first = info.first.sequence_id;
		w->possible[i].cursor = w->promised[i].cursor = cursor_of(w->logs[i]);
		for (size_t k = 0; k < w->batches_count; k++) {
			if (w->batches[k].log == i && w->batches[k].first >= info.next.sequence_id &&
			    w->batches[k].lost == UINT64_MAX)
				w->batches[k].lost = wk_faulty_trace_length(w->disk);
		}
	}
	return true;
}

static inline bool append(workload *w, size_t log, size_t count, bool atomic, bool deferred) {
	static uint8_t bytes[BATCH_MAX * PAYLOAD_MAX];
	uint32_t sizes[BATCH_MAX];
	size_t size = 0;
	bounds before = w->possible[log];
	for (size_t i = 0; i < count; i++) {
		int64_t sequence_id = before.next + (int64_t)i;
		sizes[i] = (uint32_t)size_of(log, sequence_id);
		fill(log, sequence_id, bytes + size);
		size += sizes[i];
	}
	w->possible[log].next = before.next + (int64_t)count;
	if (atomic) {
		assert(w->batches_count < BATCHES_MAX);
		w->batches[w->batches_count++] = (atomic_batch){
		    .log = log,
		    .first = before.next,
		    .next = before.next + (int64_t)count,
		    .begun = wk_faulty_trace_length(w->disk),
		    .lost = UINT64_MAX,
		};
	}
	wk_append_options options;
	wk_append_options_init(&options);
	options.atomic = atomic;
	options.durability = deferred ? WK_DEFERRED : WK_SYNC;
	wk_position first, last;
	uint64_t ticket;
	if (wk_writer_append_many(w->writers[log], bytes, sizes, count, NULL, &options, true, &first, &last, &ticket,
	                          &w->error) != WK_OK) {
		if (!w->error.outcome_unknown) { /* definitely not written */
			w->possible[log] = before;
			w->batches_count -= atomic;
		}
		return false;
	}
	CHECK_EQ(first.sequence_id, before.next);
	CHECK_EQ(last.sequence_id, w->possible[log].next - 1);
	if (!deferred) /* and with it every deferred append before it: one journal, one order */
		promise_everything(w);
	return true;
}

static inline bool flush(workload *w, size_t log) {
	if (wk_writer_flush(w->writers[log], UINT64_MAX, NULL, &w->error) != WK_OK)
		return false;
	w->promised[log].next = w->possible[log].next;
	return true;
}

static inline int64_t between(workload *w, int64_t low, int64_t high) {
	return low + (int64_t)(check_random(&w->seed) % (uint64_t)(high - low + 1));
}

static inline bool truncate_somewhere(workload *w, size_t log) {
	int64_t before = between(w, w->possible[log].first, w->promised[log].next);
	wk_position at;
	if (wk_log_find(w->logs[log], WK_FIND_SEQUENCE_ID, before, NULL, &at, &w->error) != WK_OK)
		return false;
	w->possible[log].first = before;
	if (wk_log_truncate(w->logs[log], &at.dlsn, true, &w->error) != WK_OK) {
		if (!w->error.outcome_unknown)
			w->possible[log].first = w->promised[log].first;
		return false;
	}
	w->promised[log].first = before;
	return true;
}

static inline bool move_cursor(workload *w, size_t log) {
	bounds *promised = &w->promised[log];
	const bounds *possible = &w->possible[log];
	int64_t low = possible->cursor > possible->first ? possible->cursor : possible->first;
	if (low > promised->next)
		return true;
	int64_t to = between(w, low, promised->next);
	wk_position at;
	if (wk_log_find(w->logs[log], WK_FIND_SEQUENCE_ID, to, NULL, &at, &w->error) != WK_OK)
		return false;
	w->possible[log].cursor = to;
	if (wk_cursor_set(w->logs[log], "here", 4, &at, &w->error) != WK_OK) {
		if (!w->error.outcome_unknown)
			w->possible[log].cursor = promised->cursor;
		return false;
	}
	promised->cursor = to;
	return true;
}

static inline bool work_in_background(workload *w) {
	bool idle = false;
	wk_faulty_advance(w->disk, check_random(&w->seed) % 200000000);
	for (int i = 0; i < 20 && !idle; i++) {
		if (wk_namespace_step(w->ns, &idle, &w->error) != WK_OK)
			return false;
	}
	return true;
}

static inline bool do_something(workload *w) {
	size_t log = check_random(&w->seed) % LOGS;
	uint64_t what = check_random(&w->seed) % 100;
	size_t count = 1 + check_random(&w->seed) % BATCH_MAX;
	return what < 30   ? append(w, log, 1, false, false)
	       : what < 42 ? append(w, log, count, false, false)
	       : what < 52 ? append(w, log, count, true, false)
	       : what < 60 ? append(w, log, 1, false, true)
	       : what < 65 ? append(w, log, count, false, true)
	       : what < 70 ? flush(w, log)
	       : what < 77 ? truncate_somewhere(w, log)
	       : what < 82 ? move_cursor(w, log)
	       : what < 92 ? work_in_background(w)
	       : what < 96 ? close_and_open(w)
	                   : be_killed_and_open(w);
}

static inline void make_disk(workload *w, uint64_t seed) {
	memset(w, 0, sizeof *w);
	w->seed = seed;
	CHECK_EQ(wk_faulty_new(seed, &w->io), 0);
	w->disk = wk_faulty_of(w->io);
	wk_faulty_set_flush_on_dsync(w->disk, check_random(&w->seed) % 2 == 0);
	small_blocks = check_random(&w->seed) % 2 == 0;
	writes_then_syncs = check_random(&w->seed) % 2 == 0;
	apart = devices_are_two && seed % 2 == 0;
	if (apart)
		wk_faulty_mount(w->disk, "fast");
	for (size_t i = 0; i < LOGS; i++)
		w->possible[i].cursor = w->promised[i].cursor = -1;
}

/* One step of it. False: a call failed, and w->error says why. */
static inline bool take_step(workload *w, bool (*act)(workload *)) {
	assert(w->steps_count < STEPS_MAX);
	step *s = &w->steps[w->steps_count++];
	s->begun = wk_faulty_trace_length(w->disk);
	bool well = act(w);
	s->ended = well ? wk_faulty_trace_length(w->disk) : UINT64_MAX;
	memcpy(s->possible, w->possible, sizeof s->possible);
	memcpy(s->promised, w->promised, sizeof s->promised);
	return well;
}

/* Runs until it is done or a call fails: false. */
static inline bool run_workload(workload *w, size_t steps) {
	bool well = take_step(w, open_logs);
	while (well && w->steps_count < steps)
		well = take_step(w, do_something);
	return well;
}

/* ---- the look afterwards ---- */

/* All of a batch or nothing, as the disk was behind event `at`. */
static inline void check_batches(const workload *w, size_t i, int64_t next, uint64_t at) {
	for (size_t k = 0; k < w->batches_count; k++) {
		const atomic_batch *b = &w->batches[k];
		if (b->log == i && b->begun <= at && at < b->lost)
			CHECK(next <= b->first || next >= b->next);
	}
}

static inline void check_cursor(wk_log *log, int64_t promised, int64_t possible) {
	wk_position at;
	wk_status status = wk_cursor_get(log, "here", 4, &at, NULL);
	if (status == WK_NOT_FOUND) {
		CHECK_EQ(promised, -1);
		return;
	}
	CHECK_EQ(status, WK_OK);
	CHECK(at.sequence_id >= promised);
	CHECK(at.sequence_id <= possible);
}

/* Returns the sequence id behind the last record; -1 where the log is not there. */
static inline int64_t check_log(size_t i, wk_namespace *ns, const bounds *promised, const bounds *possible) {
	wk_log *log = NULL;
	wk_status status = wk_log_open(ns, names[i], strlen(names[i]), false, NULL, &log, NULL);
	if (status == WK_NOT_FOUND) {
		CHECK(!promised->exists);
		return -1;
	}
	CHECK_EQ(status, WK_OK);
	wk_log_info info;
	CHECK_EQ(wk_log_describe(log, &info, NULL), WK_OK);
	CHECK(info.next.sequence_id >= promised->next);
	CHECK(info.next.sequence_id <= possible->next);
	CHECK(info.first.sequence_id >= promised->first);
	CHECK(info.first.sequence_id <= possible->first);
	check_records_of(i, log, &info);
	check_cursor(log, promised->cursor, possible->cursor);
	wk_log_release(log);
	return info.next.sequence_id;
}

static inline void append_one(wk_namespace *ns, size_t i, int64_t next) {
	static uint8_t payload[PAYLOAD_MAX];
	wk_log *log = NULL;
	wk_writer *writer = NULL;
	wk_position at;
	CHECK_EQ(wk_log_open(ns, names[i], strlen(names[i]), false, NULL, &log, NULL), WK_OK);
	CHECK_EQ(wk_writer_open(log, &writer, NULL), WK_OK);
	fill(i, next, payload);
	CHECK_EQ(wk_writer_append(writer, payload, size_of(i, next), NULL, &at, NULL), WK_OK);
	CHECK_EQ(at.sequence_id, next);
	CHECK_EQ(wk_writer_close(writer, UINT64_MAX, NULL), WK_OK);
	wk_log_release(log);
}

/* The disk as it was left behind event `at`: everything promised is there, nothing impossible is; it can be appended
 * to, closed, and opened with the same content.
 */
static inline void look_at(const workload *w, wk_io *io, uint64_t at, const bounds promised[LOGS],
                           const bounds possible[LOGS]) {
	wk_namespace *ns = must_open_on(io);
	int64_t next[LOGS];
	for (size_t i = 0; i < LOGS; i++) {
		next[i] = check_log(i, ns, &promised[i], &possible[i]);
		check_batches(w, i, next[i], at);
		if (next[i] >= 0)
			append_one(ns, i, next[i]++);
	}
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	ns = must_open_on(io);
	for (size_t i = 0; i < LOGS; i++) {
		if (next[i] < 0)
			continue;
		bounds low = promised[i], high = possible[i];
		low.next = high.next = next[i];
		CHECK_EQ(check_log(i, ns, &low, &high), next[i]);
	}
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
}

/* The same, on the disk as a power cut behind event `at` would leave it, by the seed. */
static inline void look_behind_power_cut(const workload *w, uint64_t at, uint64_t seed) {
	bounds promised[LOGS], possible[LOGS];
	for (size_t i = 0; i < LOGS; i++)
		promised[i] = possible[i] = (bounds){.cursor = -1};
	for (size_t i = 0; i < w->steps_count; i++) {
		if (w->steps[i].ended <= at)
			memcpy(promised, w->steps[i].promised, sizeof promised);
		if (w->steps[i].begun <= at)
			memcpy(possible, w->steps[i].possible, sizeof possible);
	}
	wk_io *image;
	CHECK_EQ(wk_faulty_image(w->disk, at, seed, &image), 0);
	look_at(w, image, at, promised, possible);
	image->operations->destroy(image);
}
#endif
