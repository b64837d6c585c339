/*
 * ledger_model.h: a directory with four ledgers whose entries have any ids, in any order, some of them twice, beside
 * arrays that say what there is; the words to add to both, and what must be true of them.
 *
 * The ledgers are those of logs, so that the catalogue names them; behind their first records the entries are put into
 * blocks without a writer.
 */
#ifndef LEDGER_MODEL_H
#define LEDGER_MODEL_H
#include "check_status.h"
#include "engine/directory/directory.h"
#include "engine/directory/handles.h"
#include "engine/index/ledger.h"
#include "engine/index/lookup.h"
#include "engine/index/range.h"
#include "engine/index/range_pager.h"
#include "engine/index/read.h"
#include "engine/index/recount.h"
#include "engine/index/store_file.h"
#include "engine/journal/journal.h"
#include "engine/manual.h"
#include "io/io.h"
#include "manual_options.h"
#include "sim/faulty.h"

enum { LEDGERS = 4, IDS = 2000, FILE_BYTES = 64 * 1024, SIZE_MAX_ENTRY = 900 };
enum pattern { DENSE, STRIPED, SHUFFLED, ANYWHERE };

typedef struct model_ledger {
	int64_t ledger_id;
	uint64_t log_id;
	enum pattern pattern;
	uint32_t versions[IDS]; /* how often the entry was sent; 0: never */
	int64_t first_live, next;
} model_ledger;

typedef struct directory {
	wk_io *io;
	wk_faulty *disk;
	wk_namespace *ns;
	uint64_t seed;
	uint64_t range_bytes; /* 1: what may be is paged out at once */
	model_ledger ledgers[LEDGERS];
} directory;

static inline wk_engine *engine_of(const directory *d) {
	return d->ns->engine;
}

/* ---- the words ---- */

static inline void open_it(directory *d) {
	wk_open_options options = manual_options(FILE_BYTES);
	options.cache_bytes = 128 * 1024;
	options.range_bytes = d->range_bytes;
	options.memtable_bytes = 256 * 1024;
	options.minor_percent = options.major_percent = 60;
	options.minor_interval_ns = options.major_interval_ns = 1000000000;
	wk_error error = {0};
	check_ok(wk_open_on(d->io, "wal", &options, &d->ns, &error), &error, "the directory opens");
}

/* The catalogue remembers that its log begins with the first live entry. (locked, dropped) */
static inline void trim(directory *d, const model_ledger *model) {
	wk_engine *engine = engine_of(d);
	wk_error error = {0};
	check_ok(wk_catalogue_turn(engine, UINT64_MAX, &error), &error, "the catalogue's turn");
	check_ok(wk_catalogue_commit(engine,
	                             &(wk_catalogue_record){.type = WK_CATALOGUE_TRUNCATE,
	                                                    .log_id = model->log_id,
	                                                    .segment = 1,
	                                                    .entry_id = model->first_live,
	                                                    .sequence_id = model->first_live},
	                             &error),
	         &error, "the truncation");
	wk_catalogue_reclaim_before(engine, wk_catalogue_by_id(engine, model->log_id), &(wk_dlsn){1, model->first_live, 0});
}

static inline directory new_directory(uint64_t seed) {
	static const char *const names[LEDGERS] = {"dense", "striped", "shuffled", "anywhere"};
	directory d = {.seed = seed, .range_bytes = seed % 2};
	for (int i = 0; i < LEDGERS; i++)
		d.ledgers[i].ledger_id = -1;
	CHECK_EQ(wk_faulty_new(seed, &d.io), 0);
	d.disk = wk_faulty_of(d.io);
	open_it(&d);
	for (int i = 0; i < LEDGERS; i++) {
		wk_log *log = NULL;
		wk_writer *writer = NULL;
		wk_error error = {0};
		check_ok(wk_log_open(d.ns, names[i], strlen(names[i]), true, NULL, &log, &error), &error, "the log opens");
		check_ok(wk_writer_open(log, &writer, &error), &error, "the writer opens");
		check_ok(wk_writer_append(writer, "first", 5, NULL, NULL, &error), &error, "the first record");
		d.ledgers[i].ledger_id = log->state->segments[0].ledger_id;
		d.ledgers[i].log_id = log->state->id;
		d.ledgers[i].pattern = (enum pattern)i;
		d.ledgers[i].first_live = d.ledgers[i].next = 1; /* of the record, which is not ours */
		wk_writer_close(writer, 0, NULL);
		wk_log_release(log);
		wk_engine_lock(engine_of(&d));
		trim(&d, &d.ledgers[i]);
		wk_engine_unlock(engine_of(&d));
	}
	return d;
}

static inline void close_it(directory *d) {
	wk_error error = {0};
	check_ok(wk_close(d->ns, UINT64_MAX, &error), &error, "the directory closes");
}

static inline void destroy(directory *d) {
	close_it(d);
	d->io->operations->destroy(d->io);
}

static inline void reopen(directory *d, bool kill) {
	if (kill) {
		wk_abandon(d->ns);
		wk_faulty_kill(d->disk);
	} else {
		close_it(d);
	}
	open_it(d);
}

static inline void work(directory *d) {
	bool idle = false;
	wk_error error = {0};
	for (int i = 0; i < 500 && !idle; i++)
		check_ok(wk_namespace_step(d->ns, &idle, &error), &error, "background work");
}

static inline uint32_t entry_bytes(const model_ledger *ledger, int64_t entry_id, uint8_t bytes[SIZE_MAX_ENTRY]) {
	uint64_t seed = (uint64_t)ledger->ledger_id << 40 ^ (uint64_t)entry_id << 16 ^ ledger->versions[entry_id];
	uint32_t size = 20 + (uint32_t)(check_random(&seed) % (SIZE_MAX_ENTRY - 20));
	check_random_bytes(&seed, bytes, size);
	return size;
}

/* Into the open block. */
static inline void put(directory *d, model_ledger *ledger, int64_t entry_id) {
	wk_engine *engine = engine_of(d);
	uint8_t bytes[SIZE_MAX_ENTRY];
	ledger->versions[entry_id]++;
	uint32_t size = entry_bytes(ledger, entry_id, bytes);
	wk_error error = {0};
	check_ok(wk_journal_room(engine, size, UINT64_MAX, false, &error), &error, "room");
	wk_builder *builder = wk_journal_builder(engine, wk_ledger_get(engine, ledger->ledger_id), NULL, WK_CODEC_NONE,
	                                         size);
	CHECK(builder != NULL);
	builder->entry_id = entry_id;
	memcpy(wk_journal_extend(engine, builder, size, size), bytes, size);
	builder->records++;
	builder->closed = true;
}

static inline void make_durable(directory *d) {
	wk_engine *engine = engine_of(d);
	wk_error error = {0};
	for (int i = 0; i < LEDGERS; i++) /* the entries' LAC is taken from it, and is below their ids */
		wk_ledger_get(engine, d->ledgers[i].ledger_id)->durable_entry = -1;
	wk_journal_want(engine, true, UINT64_MAX);
	check_ok(wk_journal_wait(engine, engine->open.sequence, UINT64_MAX, true, &error), &error, "durable");
	for (int i = 0; i < LEDGERS; i++) {
		wk_ledger *ledger = wk_ledger_get(engine, d->ledgers[i].ledger_id);
		ledger->durable_entry = ledger->last_entry;
	}
}

static inline void add(directory *d, int ledger, int64_t entry_id) {
	wk_engine_lock(engine_of(d));
	put(d, &d->ledgers[ledger], entry_id);
	make_durable(d);
	wk_engine_unlock(engine_of(d));
}

/* ---- what must be true ---- */

static inline bool is_there(const directory *d, const model_ledger *ledger, int64_t entry_id, wk_store_file **file) {
	wk_stretch stretch;
	wk_error error = {0};
	wk_status status = wk_lookup(engine_of(d), ledger->ledger_id, entry_id, entry_id, WK_LOOKUP_ALL, NULL, 0, &stretch,
	                             &error);
	if (status != WK_NOT_FOUND) /* that: no such ledger */
		check_ok(status, &error, "the lookup");
	if (file != NULL)
		*file = stretch.file;
	bool there = stretch.file != NULL;
	wk_stretch_release(engine_of(d), &stretch);
	return there;
}

static inline void reads_last_version(const directory *d, const model_ledger *ledger, int64_t entry_id) {
	static wk_span span;
	uint8_t bytes[SIZE_MAX_ENTRY];
	wk_error error = {0};
	check_ok(wk_read_entries(engine_of(d), ledger->ledger_id, entry_id, entry_id, 1 << 16, &span, &error), &error,
	         "the entry is read");
	uint32_t size = entry_bytes(ledger, entry_id, bytes);
	CHECK_EQ(span.count, 1);
	CHECK_EQ(span.entries[0].size, size + WK_ENTRY_HEADER_SIZE);
	CHECK(memcmp(span.buffer->bytes + span.entries[0].offset + WK_ENTRY_HEADER_SIZE, bytes, size) == 0);
	wk_buffer_release(span.buffer);
}

/* Every id, one by one, and as stretches. */
static inline void has_what_the_model_has(const directory *d) {
	for (int i = 0; i < LEDGERS; i++) {
		const model_ledger *ledger = &d->ledgers[i];
		for (int64_t id = ledger->first_live; id < IDS; id++) {
			CHECK_EQ(is_there(d, ledger, id, NULL), ledger->versions[id] > 0);
			if (ledger->versions[id] > 0)
				reads_last_version(d, ledger, id);
		}
		bool known = wk_ledger_find(engine_of(d), ledger->ledger_id) != NULL;
		for (int64_t id = ledger->first_live; known && id < IDS;) {
			wk_stretch stretch;
			CHECK_EQ(wk_lookup(engine_of(d), ledger->ledger_id, id, IDS - 1, WK_LOOKUP_ALL, NULL, 0, &stretch, NULL),
			         WK_OK);
			bool there = stretch.file != NULL;
			wk_stretch_release(engine_of(d), &stretch);
			for (; id <= stretch.last_entry && id < IDS; id++)
				CHECK_EQ(ledger->versions[id] > 0, there);
			if (stretch.last_entry == INT64_MAX)
				break;
		}
	}
}

/* How many entries have their newest place in each file, by asking for all of them. */
static inline void count_live(const directory *d, uint64_t *live) {
	const wk_engine *engine = engine_of(d);
	memset(live, 0, engine->files_count * sizeof *live);
	for (uint32_t l = 0; l < engine->ledgers_capacity; l++) {
		const wk_ledger *ledger = engine->ledgers[l];
		for (int64_t id = ledger != NULL ? ledger->first_live : 0; ledger != NULL && id <= ledger->last_entry;) {
			wk_stretch stretch;
			CHECK_EQ(
			    wk_lookup(engine_of(d), ledger->id, id, ledger->last_entry, WK_LOOKUP_ALL, NULL, 0, &stretch, NULL),
			    WK_OK);
			for (uint32_t f = 0; f < engine->files_count; f++)
				if (engine->files[f] == stretch.file)
					live[f] += (uint64_t)(stretch.last_entry - id + 1);
			id = stretch.last_entry == INT64_MAX ? INT64_MAX : stretch.last_entry + 1;
			wk_stretch_release(engine_of(d), &stretch);
			if (id == INT64_MAX)
				break;
		}
	}
}

static inline bool has_uncounted_range(const wk_engine *engine, const wk_store_file *file) {
	for (uint32_t l = 0; l < engine->ledgers_capacity; l++)
		for (uint32_t r = 0; engine->ledgers[l] != NULL && r < engine->ledgers[l]->ranges_count; r++)
			if (wk_ranges_in_memory(engine->ledgers[l])[r].file == file &&
			    wk_ranges_in_memory(engine->ledgers[l])[r].uncounted)
				return true;
	return false;
}

static inline void counts_live_entries(const directory *d) {
	static uint64_t live[10000];
	wk_engine *engine = engine_of(d);
	CHECK(engine->files_count < 10000);
	count_live(d, live);
	for (uint32_t f = 0; f < engine->files_count; f++) {
		const wk_store_file *file = engine->files[f];
		CHECK(file->live_entries >= live[f]); /* else it might be recycled under them */
		if (!has_uncounted_range(engine, file))
			CHECK_EQ(file->live_entries, live[f]);
	}
	for (int i = 0; i < 10000 && (engine->recounts_count > 0 || engine->pager.behind_count > 0); i++) {
		wk_faulty_advance(d->disk, 20000000);
		wk_engine_lock(engine);
		wk_range_pager_step(engine);
		wk_recount_step(engine);
		wk_engine_unlock(engine);
	}
	CHECK_EQ(engine->recounts_count + engine->pager.behind_count, 0);
	for (uint32_t f = 0; f < engine->files_count; f++)
		if (engine->files[f]->state == WK_FILE_SEALED)
			CHECK_EQ(engine->files[f]->live_entries, live[f]);
}

static inline void one_range_for_each_file(const directory *d) {
	const wk_engine *engine = engine_of(d);
	for (uint32_t l = 0; l < engine->ledgers_capacity; l++) {
		const wk_ledger *ledger = engine->ledgers[l];
		for (uint32_t a = 0; ledger != NULL && a < ledger->ranges_count; a++) {
			const wk_range *range = &wk_ranges_in_memory(ledger)[a];
			CHECK(range->count > 0 && range->dead <= range->count && range->first_entry <= range->last_entry);
			CHECK(range->open || range->dead < range->count); /* else it would outlive its file */
			CHECK(a == 0 || range[-1].first_entry <= range->first_entry);
			for (uint32_t b = 0; b < a; b++)
				CHECK(wk_ranges_in_memory(ledger)[b].file != range->file);
		}
	}
}

static inline void is_right(const directory *d) {
	one_range_for_each_file(d);
	has_what_the_model_has(d);
	counts_live_entries(d);
	one_range_for_each_file(d);
}
#endif
