/*
 * test_ledger_ranges.c: ledgers whose entries have any ids, in any order, some of them twice, beside an array that says
 * what there is: while files roll and are sealed, the mover copies, the directory is closed, killed and opened again.
 *
 * The ledgers are those of logs, so that the catalogue names them; behind their first records the entries are put into
 * blocks without a writer.
 */
#include "check.h"
#include "engine/directory.h"
#include "engine/handles.h"
#include "engine/index_file.h"
#include "engine/journal.h"
#include "engine/ledger.h"
#include "engine/lookup.h"
#include "engine/page_cache.h"
#include "engine/place_list.h"
#include "engine/range.h"
#include "engine/read.h"
#include "engine/settle.h"
#include "engine/store_file.h"
#include "io/io.h"
#include "walkeeper/log.h"

enum { LEDGERS = 4, IDS = 2000, FILE_BYTES = 64 * 1024, SIZE_MAX_ENTRY = 900, BATCH_MAX = 12 };
enum pattern { DENSE, STRIPED, SHUFFLED, ANYWHERE };

typedef struct model_ledger {
	int64_t ledger_id;
	enum pattern pattern;
	uint32_t versions[IDS]; /* how often the entry was sent; 0: never */
	int64_t first_live, next;
} model_ledger;

typedef struct directory {
	wk_io *io;
	wk_faulty *disk;
	wk_namespace *ns;
	uint64_t seed;
	model_ledger ledgers[LEDGERS];
} directory;

static wk_engine *engine_of(const directory *d) {
	return d->ns->engine;
}

static void check_ok(wk_status status, const wk_error *error, const char *what) {
	check_count();
	if (status != WK_OK) {
		printf("%s: status %d: %s\n", what, (int)status, error->text);
		check_failed(__FILE__, __LINE__, what);
	}
}

/* ---- the words ---- */

static void open_it(directory *d) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.manual = true;
	options.file_size_min = options.file_size_max = FILE_BYTES;
	options.sync_method = WK_SYNC_DSYNC;
	options.cache_bytes = 128 * 1024;
	options.memtable_bytes = 256 * 1024;
	options.minor_percent = options.major_percent = 60;
	options.minor_interval_ns = options.major_interval_ns = 1000000000;
	wk_error error = {0};
	check_ok(wk_open_on(d->io, "wal", &options, &d->ns, &error), &error, "the directory opens");
	for (int i = 0; i < LEDGERS; i++) { /* truncation is the catalogue's to remember; here it is ours */
		wk_ledger *ledger = wk_ledger_find(engine_of(d), d->ledgers[i].ledger_id);
		if (ledger != NULL)
			wk_ledger_trim(engine_of(d), ledger, d->ledgers[i].first_live);
	}
}

static directory new_directory(uint64_t seed) {
	static const char *const names[LEDGERS] = {"dense", "striped", "shuffled", "anywhere"};
	directory d = {.seed = seed};
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
		d.ledgers[i].pattern = (enum pattern)i;
		d.ledgers[i].first_live = d.ledgers[i].next = 1; /* of the record, which is not ours */
		wk_writer_close(writer, 0, NULL);
		wk_log_release(log);
		wk_ledger_trim(engine_of(&d), wk_ledger_find(engine_of(&d), d.ledgers[i].ledger_id), 1);
	}
	return d;
}

static void close_it(directory *d) {
	wk_error error = {0};
	check_ok(wk_close(d->ns, UINT64_MAX, &error), &error, "the directory closes");
}

static void destroy(directory *d) {
	close_it(d);
	d->io->operations->destroy(d->io);
}

static void reopen(directory *d, bool kill) {
	if (kill) {
		wk_abandon(d->ns);
		wk_faulty_kill(d->disk);
	} else {
		close_it(d);
	}
	open_it(d);
}

static void work(directory *d) {
	bool idle = false;
	wk_error error = {0};
	for (int i = 0; i < 500 && !idle; i++)
		check_ok(wk_namespace_step(d->ns, &idle, &error), &error, "background work");
}

static uint32_t entry_bytes(const model_ledger *ledger, int64_t entry_id, uint8_t bytes[SIZE_MAX_ENTRY]) {
	uint64_t seed = (uint64_t)ledger->ledger_id << 40 ^ (uint64_t)entry_id << 16 ^ ledger->versions[entry_id];
	uint32_t size = 20 + (uint32_t)(check_random(&seed) % (SIZE_MAX_ENTRY - 20));
	check_random_bytes(&seed, bytes, size);
	return size;
}

/* Into the open block. */
static void put(directory *d, model_ledger *ledger, int64_t entry_id) {
	wk_engine *engine = engine_of(d);
	uint8_t bytes[SIZE_MAX_ENTRY];
	ledger->versions[entry_id]++;
	uint32_t size = entry_bytes(ledger, entry_id, bytes);
	wk_error error = {0};
	check_ok(wk_journal_room(engine, size, UINT64_MAX, false, &error), &error, "room");
	wk_builder *builder = wk_journal_builder(engine, wk_ledger_get(engine, ledger->ledger_id), NULL, WK_CODEC_NONE);
	CHECK(builder != NULL);
	builder->entry_id = entry_id;
	memcpy(wk_journal_extend(engine, builder, size, size), bytes, size);
	builder->records++;
	builder->closed = true;
}

static void make_durable(directory *d) {
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

static void add(directory *d, int ledger, int64_t entry_id) {
	wk_engine_lock(engine_of(d));
	put(d, &d->ledgers[ledger], entry_id);
	make_durable(d);
	wk_engine_unlock(engine_of(d));
}

/* Whole blocks of one entry, so that the file is full soon. */
static void roll(directory *d) {
	uint64_t active = engine_of(d)->active->id;
	for (int i = 0; engine_of(d)->active->id == active; i++)
		add(d, DENSE, d->ledgers[DENSE].next++);
	work(d);
}

/* ---- what must be true ---- */

static bool is_there(const directory *d, const model_ledger *ledger, int64_t entry_id, wk_store_file **file) {
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

static void reads_last_version(const directory *d, const model_ledger *ledger, int64_t entry_id) {
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
static void has_what_the_model_has(const directory *d) {
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
static void count_live(const directory *d, uint64_t *live) {
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

static bool has_unsettled_range(const wk_engine *engine, const wk_store_file *file) {
	for (uint32_t l = 0; l < engine->ledgers_capacity; l++)
		for (uint32_t r = 0; engine->ledgers[l] != NULL && r < engine->ledgers[l]->ranges_count; r++)
			if (wk_ranges(engine->ledgers[l])[r].file == file && wk_ranges(engine->ledgers[l])[r].unsettled)
				return true;
	return false;
}

static void counts_live_entries(const directory *d) {
	static uint64_t live[10000];
	wk_engine *engine = engine_of(d);
	CHECK(engine->files_count < 10000);
	count_live(d, live);
	for (uint32_t f = 0; f < engine->files_count; f++) {
		const wk_store_file *file = engine->files[f];
		CHECK(file->live_entries >= live[f]); /* else it might be recycled under them */
		if (!has_unsettled_range(engine, file))
			CHECK_EQ(file->live_entries, live[f]);
	}
	for (int i = 0; i < 10000 && engine->unsettled_count > 0; i++) {
		wk_faulty_advance(d->disk, 20000000);
		wk_engine_lock(engine);
		wk_settle_step(engine);
		wk_engine_unlock(engine);
	}
	CHECK_EQ(engine->unsettled_count, 0);
	for (uint32_t f = 0; f < engine->files_count; f++)
		if (engine->files[f]->state == WK_FILE_SEALED)
			CHECK_EQ(engine->files[f]->live_entries, live[f]);
}

static void one_range_for_each_file(const directory *d) {
	const wk_engine *engine = engine_of(d);
	for (uint32_t l = 0; l < engine->ledgers_capacity; l++) {
		const wk_ledger *ledger = engine->ledgers[l];
		for (uint32_t a = 0; ledger != NULL && a < ledger->ranges_count; a++) {
			const wk_range *range = &wk_ranges(ledger)[a];
			CHECK(range->count > 0 && range->dead <= range->count && range->first_entry <= range->last_entry);
			CHECK(range->open || range->dead < range->count); /* else it would outlive its file */
			CHECK(a == 0 || range[-1].first_entry <= range->first_entry);
			for (uint32_t b = 0; b < a; b++)
				CHECK(wk_ranges(ledger)[b].file != range->file);
		}
	}
}

static void is_right(const directory *d) {
	one_range_for_each_file(d);
	has_what_the_model_has(d);
	counts_live_entries(d);
	one_range_for_each_file(d);
}

/* ---- against the model ---- */

static int64_t next_id(directory *d, model_ledger *ledger) {
	uint64_t random = check_random(&d->seed);
	switch (ledger->pattern) {
	case DENSE:
		return ledger->next++;
	case STRIPED: /* two of five, as with E = 5, Qw = 2 */
		ledger->next += ledger->next % 5 == 1 ? 4 : 1;
		return ledger->next;
	case SHUFFLED: /* nearly in order, with holes */
		ledger->next += (int64_t)(random % 3);
		return ledger->next > 20 ? ledger->next - (int64_t)(random / 3 % 20) : ledger->next;
	default:
		return ledger->first_live + (int64_t)(random % (uint64_t)(IDS - ledger->first_live));
	}
}

static void add_some(directory *d) {
	wk_engine_lock(engine_of(d));
	model_ledger *ledger = &d->ledgers[check_random(&d->seed) % LEDGERS];
	for (uint64_t i = check_random(&d->seed) % BATCH_MAX + 1; i > 0; i--) {
		int64_t id = next_id(d, ledger);
		bool again = ledger->pattern == STRIPED && check_random(&d->seed) % 16 == 0;
		if (id >= IDS || id < ledger->first_live)
			continue;
		put(d, ledger, id);
		if (again) /* the answer was lost */
			put(d, ledger, id);
		if (i % 4 == 0)
			ledger = &d->ledgers[check_random(&d->seed) % LEDGERS];
	}
	if (engine_of(d)->open.builders_count > 0)
		make_durable(d);
	wk_engine_unlock(engine_of(d));
}

static void trim_some(directory *d) {
	model_ledger *model = &d->ledgers[check_random(&d->seed) % LEDGERS];
	if (model->first_live > IDS / 2)
		return;
	model->first_live += (int64_t)(check_random(&d->seed) % 40);
	if (model->next < model->first_live)
		model->next = model->first_live;
	wk_engine_lock(engine_of(d));
	wk_ledger *ledger = wk_ledger_find(engine_of(d), model->ledger_id);
	if (ledger != NULL)
		wk_ledger_trim(engine_of(d), ledger, model->first_live);
	wk_engine_unlock(engine_of(d));
}

static uint64_t moved, holes, overlaps;

static void note_what_was_reached(const directory *d) {
	const wk_engine *engine = engine_of(d);
	moved += engine->counters.compacted_bytes > 0;
	for (uint32_t l = 0; l < engine->ledgers_capacity; l++) {
		const wk_ledger *ledger = engine->ledgers[l];
		overlaps += ledger != NULL && ledger->overlap;
		for (uint32_t r = 0; ledger != NULL && r < ledger->ranges_count; r++)
			holes += !wk_ranges(ledger)[r].open && !wk_range_is_dense(&wk_ranges(ledger)[r]);
	}
}

static void one_history(uint64_t seed, int steps) {
	directory d = new_directory(seed);
	for (int step = 0; step < steps; step++) {
		uint64_t what = check_random(&d.seed) % 100;
		if (what < 80) {
			add_some(&d);
		} else if (what < 88) {
			work(&d);
		} else if (what < 92) {
			wk_faulty_advance(d.disk, 1500000000);
			work(&d);
		} else if (what < 95) {
			trim_some(&d);
		} else if (what < 96) {
			wk_engine_lock(engine_of(&d));
			wk_index_write(engine_of(&d));
			wk_engine_unlock(engine_of(&d));
		} else if (what < 97) {
			note_what_was_reached(&d);
			reopen(&d, check_random(&d.seed) % 2 == 0);
		} else {
			wk_namespace_step(d.ns, &(bool){false}, NULL);
		}
		if (step % 40 == 39)
			is_right(&d);
	}
	is_right(&d);
	note_what_was_reached(&d);
	reopen(&d, false);
	is_right(&d);
	for (int i = 0; i < LEDGERS; i++) {
		wk_ledger *ledger = wk_ledger_find(engine_of(&d), d.ledgers[i].ledger_id);
		if (ledger != NULL)
			wk_ledger_drop(engine_of(&d), ledger);
	}
	const wk_ledger *catalogue = wk_ledger_find(engine_of(&d), WK_CATALOGUE_LEDGER);
	uint64_t live = 0, of_catalogue = 0;
	for (uint32_t f = 0; f < engine_of(&d)->files_count; f++)
		live += engine_of(&d)->files[f]->live_entries;
	for (uint32_t r = 0; r < catalogue->ranges_count; r++)
		of_catalogue += wk_ranges(catalogue)[r].count - wk_ranges(catalogue)[r].dead;
	CHECK_EQ(live, of_catalogue);
	destroy(&d);
}

TEST(whatever_the_ids_the_index_says_what_an_array_would) {
	const char *one = getenv("WK_SEED");
	for (uint64_t seed = one != NULL ? strtoull(one, NULL, 10) : 1, end = one != NULL ? seed + 1 : 25; seed < end;
	     seed++) {
		printf("seed %llu\n", (unsigned long long)seed);
		fflush(stdout);
		one_history(seed, 400);
	}
	CHECK(moved > 0 && holes > 0 && overlaps > 0);
}

/* ---- the parts, without a directory ---- */

TEST(a_place_list_is_what_an_array_would_be) {
	enum { MANY = 6000 };
	static wk_footer_item expected[MANY];
	for (uint64_t seed = 1; seed <= 6; seed++) {
		uint64_t random = seed;
		memset(expected, 0, sizeof expected);
		wk_place_list *list = wk_place_list_new();
		uint32_t count = 0, runs = 0, bytes = 0;
		for (int i = 0; i < 5000; i++) {
			int64_t ascending = i + (int64_t)(check_random(&random) % 40),
			        anywhere = (int64_t)(check_random(&random) % MANY);
			int64_t id = seed == 1 ? i : seed == 2 ? 5000 - i : seed == 3 ? ascending : anywhere;
			wk_footer_item item = {(uint32_t)check_random(&random), 1 + (uint32_t)(check_random(&random) % 1000)},
			               earlier;
			CHECK(wk_place_list_put(list, id, item, &earlier));
			CHECK(earlier.size == expected[id].size && earlier.offset == expected[id].offset);
			expected[id] = item;
		}
		wk_place_cursor cursor;
		const wk_place *place = wk_place_list_seek(list, 0, &cursor);
		for (int64_t id = 0; id < MANY; id++) {
			wk_place_cursor at;
			CHECK_EQ(wk_place_list_before(list, id), count);
			CHECK(wk_place_list_seek(list, id, &at) == place);
			if (expected[id].size == 0)
				continue;
			CHECK(place != NULL);
			CHECK_EQ(place->entry_id, id);
			CHECK(place->item.offset == expected[id].offset && place->item.size == expected[id].size);
			runs += id == 0 || expected[id - 1].size == 0;
			count++;
			bytes += expected[id].size;
			place = wk_place_list_next(list, &cursor);
		}
		CHECK(place == NULL);
		CHECK_EQ(list->count, count);
		CHECK_EQ(list->runs_count, runs);
		CHECK_EQ(list->bytes, bytes);
		CHECK(list->chunks_count >= count / WK_PLACE_CHUNK);
		wk_place_list_free(list);
	}
}

enum { SPAN = 120, SEALED = 40 };

/* Sealed files with random runs of one ledger, in an order of newness that is not that of their coming. */
typedef struct footers {
	wk_engine engine;
	wk_store_file files[SEALED];
	bool has[SEALED][SPAN];
	uint32_t count;
} footers;

static bool is_newest(const footers *all, uint32_t file, int64_t id) {
	for (uint32_t f = 0; f < all->count; f++)
		if (f != file && all->has[f][id] && wk_rank_is_lower(wk_rank_of(&all->files[file]), wk_rank_of(&all->files[f])))
			return false;
	return all->has[file][id];
}

static void add_footer(footers *all, uint64_t *random) {
	wk_footer_run runs[SPAN];
	wk_store_file *file = &all->files[all->count];
	bool *has = all->has[all->count];
	*file = (wk_store_file){.id = all->count + 1,
	                        .kind = WK_FILE_JOURNAL,
	                        .last_sequence = check_random(random) % 1000 + 1,
	                        .state = WK_FILE_SEALED};
	uint64_t kind = check_random(random) % 3;
	uint32_t first = (uint32_t)(check_random(random) % (SPAN - 1)), items = 0, count = 0;
	uint32_t last = first + (uint32_t)(check_random(random) % (kind == 0 ? SPAN - first : SPAN / 8));
	for (uint32_t id = first; id <= last && id < SPAN; id++)
		has[id] = kind != 0 || check_random(random) % 3 > 0 || id == first;
	for (uint32_t id = 0; id < SPAN; id++) {
		if (!has[id])
			continue;
		if (id == 0 || !has[id - 1])
			runs[count++] = (wk_footer_run){.ledger_id = 7, .first_entry = id, .first_item = items};
		runs[count - 1].count++;
		runs[count - 1].bytes += 10;
		items++;
	}
	all->count++;
	CHECK_EQ(wk_ledger_add_runs(&all->engine, file, runs, count, false), WK_OK);
	CHECK_EQ(file->entries_count, items);
}

static void live_counts_are_safe(const footers *all, const wk_ledger *ledger) {
	for (uint32_t f = 0; f < all->count; f++) {
		uint64_t live = 0;
		bool unsettled = false;
		for (int64_t id = ledger->first_live; id < SPAN; id++)
			live += is_newest(all, f, id);
		for (uint32_t r = 0; r < ledger->ranges_count; r++) {
			unsettled |= wk_ranges(ledger)[r].file == &all->files[f] && wk_ranges(ledger)[r].unsettled;
			CHECK(wk_ranges(ledger)[r].dead < wk_ranges(ledger)[r].count); /* else it would outlive its file */
		}
		CHECK(all->files[f].live_entries >= live);
		CHECK(unsettled || all->files[f].live_entries == live);
		CHECK(all->files[f].live_bytes == 10 * all->files[f].live_entries);
	}
}

/* As the keeper does, once it has looked. */
static void settle_some(const footers *all, wk_ledger *ledger, uint64_t *random) {
	for (uint32_t r = 0; r < ledger->ranges_count; r++) {
		wk_range *range = &wk_ranges(ledger)[r];
		if (!range->unsettled || check_random(random) % 2 == 0)
			continue;
		uint32_t dead = 0, file = (uint32_t)(range->file - all->files);
		for (int64_t id = range->first_entry; id <= range->last_entry; id++)
			dead += all->has[file][id] && (id < ledger->first_live || !is_newest(all, file, id));
		range->unsettled = false;
		wk_ledger_settled(ledger, range, dead);
		r = UINT32_MAX; /* ranges may have moved: from the start */
	}
}

static void finds_what_spans(const footers *all, const wk_ledger *ledger) {
	for (int64_t id = ledger->first_live; id < SPAN; id++) {
		wk_range *over[WK_OVER_MAX];
		wk_rank below = wk_rank_highest;
		uint32_t found = 0, expected = 0, count;
		for (uint32_t r = 0; r < ledger->ranges_count; r++)
			expected += wk_ranges(ledger)[r].first_entry <= id && wk_ranges(ledger)[r].last_entry >= id;
		do {
			count = wk_ranges_over(ledger, id, below, over);
			for (uint32_t i = 0; i < count; i++) {
				CHECK(over[i]->first_entry <= id && over[i]->last_entry >= id);
				CHECK(wk_rank_is_lower(wk_rank_of(over[i]->file), below));
				below = wk_rank_of(over[i]->file);
			}
			found += count;
		} while (count == WK_OVER_MAX);
		CHECK_EQ(found, expected);
		for (uint32_t f = 0; f < all->count; f++) { /* the newest place is in one of them */
			bool spanned = false;
			for (uint32_t r = 0; r < ledger->ranges_count; r++)
				spanned |= wk_ranges(ledger)[r].file == &all->files[f] && wk_ranges(ledger)[r].first_entry <= id &&
				           wk_ranges(ledger)[r].last_entry >= id;
			CHECK(spanned || !is_newest(all, f, id));
		}
	}
}

TEST(footers_in_any_order_leave_live_counts_that_are_never_too_low) {
	static footers all;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		uint64_t random = seed;
		memset(&all, 0, sizeof all);
		while (all.count < SEALED) {
			add_footer(&all, &random);
			wk_ledger *ledger = wk_ledger_find(&all.engine, 7);
			if (check_random(&random) % 4 == 0)
				wk_ledger_trim(&all.engine, ledger, ledger->first_live + (int64_t)(check_random(&random) % 6));
			live_counts_are_safe(&all, ledger);
			settle_some(&all, ledger, &random);
			live_counts_are_safe(&all, ledger);
			finds_what_spans(&all, ledger);
		}
		wk_ledger_drop(&all.engine, wk_ledger_find(&all.engine, 7));
		for (uint32_t f = 0; f < all.count; f++)
			CHECK_EQ(all.files[f].live_entries, 0);
		wk_ledgers_free(&all.engine);
	}
}

TEST(an_entry_sent_again_counts_where_it_came_last) {
	directory d = new_directory(100);
	for (int64_t id = 1; id < 10; id++)
		add(&d, ANYWHERE, id);
	add(&d, ANYWHERE, 5);
	roll(&d);
	wk_store_file *first, *second;
	CHECK(is_there(&d, &d.ledgers[ANYWHERE], 5, &first));
	add(&d, ANYWHERE, 5);
	CHECK(is_there(&d, &d.ledgers[ANYWHERE], 5, &second));
	CHECK(first != second && first->state == WK_FILE_SEALED);
	is_right(&d);
	roll(&d);
	add(&d, ANYWHERE, 9);
	add(&d, ANYWHERE, 1);
	is_right(&d);
	for (int kill = 0; kill < 2; kill++) {
		reopen(&d, kill != 0);
		is_right(&d);
	}
	destroy(&d);
}

int main(void) {
	RUN(a_place_list_is_what_an_array_would_be);
	RUN(footers_in_any_order_leave_live_counts_that_are_never_too_low);
	RUN(whatever_the_ids_the_index_says_what_an_array_would);
	RUN(an_entry_sent_again_counts_where_it_came_last);
	return check_done();
}
