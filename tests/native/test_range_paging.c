/*
 * test_range_paging.c: thousands of ledgers whose ranges take many times what may be in memory, beside an array that
 * says what there is: entries of long ago are read, written again and out of order; ledgers and logs go, and are made
 * anew; the mover copies; the directory is closed, and the power goes. Storage rule 23.
 */
/* ctest labels: one-thread */
#include <errno.h>

#include "engine/index/index_file.h"
#include "engine/index/lookup.h"
#include "engine/index/page_cache.h"
#include "engine/index/range_pager.h"
#include "engine/index/recount.h"
#include "ledger_store.h"
#include "sim/faulty.h"

enum {
	LEDGERS = 1500,
	ENTRIES = 64,
	ROUNDS = 24,
	LIMIT = 256 * 1024,
	SMALL_MAX = 96,
	BATCH = 250,
	LOGS = 60,
	LOG_ROUNDS = 100,
	RECORD_BYTES = 300
};

static wk_open_options small_memory(uint32_t kind) {
	wk_open_options options = store_options();
	options.kind = kind;
	options.file_size_max = options.file_size_min;
	options.range_bytes = LIMIT;
	options.cache_bytes = 64 * 1024;
	options.memtable_bytes = 64 * 1024;
	options.minor_percent = options.major_percent = 60;
	options.minor_interval_ns = options.major_interval_ns = 1000000000;
	return options;
}

static uint64_t memory_of(const wk_ledger *ledger) {
	return !ledger->listed
	           ? 0
	           : ledger->ranges_capacity * sizeof(wk_range) + 2 * (uint64_t)ledger->ranges.reach_size * sizeof(int64_t);
}

/* No index file names what was made since the file under way began: an entry log, perhaps, that holds nearly all. */
static bool cannot_go_yet(const wk_engine *engine, const wk_ledger *ledger) {
	bool found = ledger->id == WK_CATALOGUE_LEDGER && !wk_engine_holds_ledgers(engine);
	for (uint32_t i = 0; i < ledger->ranges_count; i++) {
		const wk_range *range = &wk_ranges_in_memory(ledger)[i];
		found |= !range->open && range->file->id >= engine->active->id;
	}
	return found;
}

/* Time passes, so that ranges are settled: those with holes, and those of entries that were sent again. */
static void work_on(wk_namespace *ns, wk_io *io) {
	wk_faulty_advance(wk_faulty_of(io), 1500000000);
	for (int i = 0; i < 200 && (i == 0 || ns->engine->recounts_count > 0); i++) {
		work(ns);
		wk_faulty_advance(wk_faulty_of(io), 20000000);
	}
	work(ns);
}

/* Behind the keeper's work. */
static uint64_t most, times;
static void keeps_the_limit(wk_namespace *ns, uint64_t limit) {
	wk_engine *engine = ns->engine;
	uint64_t bytes = stats_of(ns).memory_ranges, stays = 0;
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++)
		if (engine->ledgers[i] != NULL && cannot_go_yet(engine, engine->ledgers[i]))
			stays += memory_of(engine->ledgers[i]);
	most = bytes > most ? bytes : most;
	times += bytes > limit / 2; /* there is something to be kept below it */
	CHECK(bytes - stays <= limit + limit / 10);
}

/* What the counter says is what there is. */
static void counts_its_memory(wk_namespace *ns) {
	wk_engine *engine = ns->engine;
	uint64_t bytes = 0, paged = 0;
	wk_engine_lock(engine);
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++) {
		const wk_ledger *ledger = engine->ledgers[i];
		if (ledger == NULL || !ledger->listed)
			continue;
		bytes += memory_of(ledger);
		paged += ledger->paged;
	}
	CHECK_EQ(engine->pager.bytes, bytes);
	CHECK_EQ(engine->pager.paged, paged);
	wk_engine_unlock(engine);
}

/* Each sealed file counts as live just the entries whose newest place it has. */
static void counts_live_entries(wk_namespace *ns, wk_io *io) {
	wk_engine *engine = ns->engine;
	for (int i = 0; i < 200000; i++) {
		wk_faulty_advance(wk_faulty_of(io), 20000000);
		wk_engine_lock(engine);
		if (engine->recounts_count > 0)
			wk_recount_step(engine);
		else if (!wk_range_pager_step(engine))
			i = 200000;
		wk_engine_unlock(engine);
	}
	uint64_t *live = calloc(engine->files_count, sizeof *live);
	for (uint32_t l = 0; l < engine->ledgers_capacity; l++) {
		const wk_ledger *ledger = engine->ledgers[l];
		for (int64_t id = ledger != NULL ? ledger->first_live : 0; ledger != NULL && id <= ledger->last_entry;) {
			wk_stretch stretch;
			CHECK_EQ(wk_lookup(engine, ledger->id, id, ledger->last_entry, WK_LOOKUP_ALL, NULL, 0, &stretch, NULL),
			         WK_OK);
			for (uint32_t f = 0; f < engine->files_count; f++)
				live[f] += engine->files[f] == stretch.file ? (uint64_t)(stretch.last_entry - id + 1) : 0;
			bool more = stretch.last_entry < INT64_MAX;
			id = more ? stretch.last_entry + 1 : INT64_MAX;
			wk_stretch_release(engine, &stretch);
			if (!more)
				break;
		}
	}
	bool settled = engine->recounts_count == 0; /* ranges that came in may have found something to be settled */
	for (uint32_t f = 0; f < engine->files_count; f++) {
		const wk_store_file *file = engine->files[f];
		CHECK(file->live_entries >= live[f]); /* else it would be recycled under them */
		if (file->state == WK_FILE_SEALED && settled)
			CHECK_EQ(file->live_entries, live[f]);
	}
	free(live);
}

/* ---- a ledger store ---- */

typedef struct model {
	uint8_t versions[LEDGERS][ENTRIES]; /* 0: no such entry */
} model;

static size_t fill_small(int64_t ledger_id, int64_t entry_id, uint64_t version, uint8_t *bytes) {
	size_t size = ENTRY_HEAD + (size_t)((uint64_t)ledger_id * 7 + version * 13) % (SMALL_MAX - ENTRY_HEAD);
	memset(bytes, (int)version, size);
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_store_be64(bytes + 8, (uint64_t)entry_id);
	wk_store_be64(bytes + 16, version);
	return size;
}

/* Entry `entry_id` of `count` ledgers from the first one on, every `step`th, durable. */
static void add_to_many(wk_namespace *ns, model *m, int64_t first, int64_t step, int64_t count, int64_t entry_id) {
	static uint8_t bytes[BATCH][SMALL_MAX];
	wk_add adds[BATCH];
	for (int64_t done = 0; done < count;) {
		size_t n = 0;
		for (; n < BATCH && done < count; n++, done++) {
			int64_t ledger_id = (first + done * step) % LEDGERS;
			uint64_t version = ++m->versions[ledger_id][entry_id];
			adds[n] = an_add(bytes[n], fill_small(ledger_id, entry_id, version, bytes[n]), 0);
		}
		wk_error error = {0};
		check_ok(wk_ledger_add(ns, adds, n, UINT64_MAX, true, &error), &error, "the adds");
	}
}

static void entry_is(wk_namespace *ns, const model *m, int64_t ledger_id, int64_t entry_id) {
	uint8_t expected[SMALL_MAX];
	wk_entry_batch *batch = NULL;
	wk_error error = {0};
	wk_status status = wk_ledger_read(ns, ledger_id, entry_id, 1, 1 << 20, &batch, &error);
	uint64_t version = m->versions[ledger_id][entry_id];
	if (version == 0) {
		CHECK(status == WK_NOT_FOUND || status == WK_NO_LEDGER);
		return;
	}
	check_ok(status, &error, "the entry is read");
	size_t count, size = fill_small(ledger_id, entry_id, version, expected);
	const wk_stored_entry *entries = wk_entry_batch_entries(batch, &count);
	CHECK_EQ(count, 1);
	CHECK_EQ(entries[0].size, size);
	CHECK(memcmp(entries[0].bytes, expected, size) == 0);
	wk_entry_batch_release(batch);
}

static uint64_t entries_in(const model *m, int64_t ledger_id) {
	uint64_t count = 0;
	for (int64_t e = 0; e < ENTRIES; e++)
		count += m->versions[ledger_id][e] > 0;
	return count;
}

static void reads_some(wk_namespace *ns, const model *m, uint64_t *random, int count) {
	for (int i = 0; i < count; i++)
		entry_is(ns, m, (int64_t)(check_random(random) % LEDGERS), (int64_t)(check_random(random) % ENTRIES));
}

static void reads_all(wk_namespace *ns, const model *m) {
	for (int64_t l = 0; l < LEDGERS; l++) {
		CHECK_EQ(is_known(ns, l), entries_in(m, l) > 0);
		if (entries_in(m, l) > 0)
			CHECK_EQ(entries_of(ns, l), entries_in(m, l));
		for (int64_t e = 0; e < ENTRIES; e += 7)
			entry_is(ns, m, l, e);
	}
}

static void delete_some(wk_namespace *ns, model *m, uint64_t *random, int count) {
	for (int i = 0; i < count; i++) {
		int64_t ledger_id = (int64_t)(check_random(random) % LEDGERS);
		wk_error error = {0};
		if (entries_in(m, ledger_id) > 0)
			check_ok(wk_ledger_delete(ns, ledger_id, UINT64_MAX, NULL, &error), &error, "the delete");
		memset(m->versions[ledger_id], 0, sizeof m->versions[ledger_id]);
	}
}

TEST(thousands_of_ledgers_fit_into_a_limit) {
	static model m;
	uint64_t random = 5, page_ins = 0, moved = 0, recycled = 0;
	most = times = 0;
	wk_io *io = new_disk(5);
	wk_open_options options = small_memory(WK_KIND_LEDGERS);
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t round = 0; round < ROUNDS; round++) {
		add_to_many(ns, &m, 0, 1, LEDGERS, round);
		work_on(ns, io);
		keeps_the_limit(ns, LIMIT);
		reads_some(ns, &m, &random, 60);
		if (round % 4 == 3) /* of long ago again, and ids out of order */
			add_to_many(ns, &m, (int64_t)(check_random(&random) % LEDGERS), 11, 100,
			            (int64_t)(check_random(&random) % ENTRIES));
		if (round % 3 == 2)
			delete_some(ns, &m, &random, 25);
		if (round == ROUNDS / 2)
			delete_some(ns, &m, &random, LEDGERS);
		counts_its_memory(ns);
		if (round % 8 == 7) {
			counts_live_entries(ns, io);
			page_ins += stats_of(ns).range_reads;
			moved += stats_of(ns).compacted_bytes;
			recycled += stats_of(ns).recycled_files;
			if (round % 16 == 7) {
				close_store(ns);
			} else {
				wk_abandon(ns);
				wk_faulty_crash(wk_faulty_of(io), (uint64_t)round);
			}
			ns = open_store_with(io, &options);
			work(ns);
			keeps_the_limit(ns, LIMIT);
		}
	}
	reads_all(ns, &m);
	work(ns);
	keeps_the_limit(ns, LIMIT);
	CHECK(times > ROUNDS / 3);
	CHECK(page_ins > 500);
	CHECK(moved > 0 && recycled > 0);
	printf("%llu KiB at most, %llu ledgers read again, %llu KiB moved, %llu files recycled\n",
	       (unsigned long long)most / 1024, (unsigned long long)page_ins, (unsigned long long)moved / 1024,
	       (unsigned long long)recycled);
	close_store(ns);
	io->operations->destroy(io);
}

/* ---- a page that cannot be read ---- */

/* A ledger whose ranges are out. */
static wk_ledger *paged_ledger(wk_namespace *ns) {
	for (uint32_t i = 0; i < ns->engine->ledgers_capacity; i++)
		if (ns->engine->ledgers[i] != NULL && ns->engine->ledgers[i]->paged)
			return ns->engine->ledgers[i];
	check_failed(__FILE__, __LINE__, "a ledger is paged");
	return NULL;
}

static wk_status read_status(wk_namespace *ns, int64_t ledger_id, int64_t entry_id, wk_error *error) {
	wk_entry_batch *batch = NULL;
	wk_status status = wk_ledger_read(ns, ledger_id, entry_id, 1, 1 << 20, &batch, error);
	wk_entry_batch_release(batch);
	return status;
}

static wk_namespace *open_with_paged(wk_io *io, model *m) {
	wk_open_options options = small_memory(WK_KIND_LEDGERS);
	options.range_bytes = 4096;
	options.cache_bytes = 4096;
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t round = 0; round < 12; round++)
		add_to_many(ns, m, 0, 1, LEDGERS, round);
	work(ns);
	return ns;
}

TEST(a_page_that_cannot_be_read_is_told_and_nothing_is_lost) {
	static model m;
	wk_io *io = new_disk(6);
	wk_faulty *disk = wk_faulty_of(io);
	wk_namespace *ns = open_with_paged(io, &m);
	int64_t ledger_id = paged_ledger(ns)->id;
	for (uint64_t call = 0;; call++) { /* the index page, the entry's block */
		wk_error error = {0};
		wk_faulty_fail(disk, WK_FAULT_READ, call, EIO, false);
		wk_status status = read_status(ns, ledger_id, 0, &error);
		wk_faulty_heal(disk);
		if (status == WK_OK) {
			CHECK(call > 0);
			break;
		}
		CHECK_EQ(status, WK_IO);
		CHECK_EQ(error.system_error, EIO);
		CHECK(call > 0 || strstr(error.text, "index file") != NULL);
	}
	entry_is(ns, &m, ledger_id, 0);
	/* What ledgers are asked without an entry. */
	int64_t other = paged_ledger(ns)->id;
	wk_ledger_info info;
	wk_error error = {0};
	wk_faulty_fail(disk, WK_FAULT_READ, 0, EIO, false);
	CHECK_EQ(wk_ledger_describe(ns, other, &info, &error), WK_IO);
	wk_faulty_heal(disk);
	CHECK_EQ(info_of(ns, other).entries_count, entries_in(&m, other));
	reads_all(ns, &m);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_damaged_page_is_damage_and_never_absence) {
	static model m;
	wk_io *io = new_disk(7);
	wk_namespace *ns = open_with_paged(io, &m);
	wk_ledger *ledger = paged_ledger(ns);
	int64_t ledger_id = ledger->id;
	const wk_index_header *header = &ns->engine->pager.source->header;
	uint64_t page = wk_index_range_page(header, ledger->ranges.index_first);
	char path[64];
	snprintf(path, sizeof path, "store/index/%016llx.wki", (unsigned long long)header->generation);
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), path, page + 40, 1), 0);
	wk_page_cache_drop_file(ns->engine->pages, (uint64_t)1 << 63 | header->generation);
	wk_error error = {0};
	CHECK_EQ(read_status(ns, ledger_id, 0, &error), WK_DAMAGED);
	CHECK(strstr(error.text, "index file") != NULL);
	/* Adds and deletes go on, another index file cannot be made; what could be read before still can. */
	add_to_many(ns, &m, ledger_id, 1, 3, 30);
	entry_is(ns, &m, ledger_id, 30);
	uint64_t generation = header->generation;
	wk_engine_lock(ns->engine);
	CHECK(!wk_index_write(ns->engine));
	wk_engine_unlock(ns->engine);
	CHECK_EQ(ns->engine->index.generation, generation);
	CHECK(!stats_of(ns).failed);
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), path, page + 40, 1), 0); /* a disk that reads it again */
	reads_all(ns, &m);
	close_store(ns);
	ns = open_store(io);
	reads_all(ns, &m);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(an_index_that_cannot_be_written_leaves_ranges_where_they_are) {
	static model m;
	wk_io *io = new_disk(8);
	wk_faulty *disk = wk_faulty_of(io);
	wk_namespace *ns = open_with_paged(io, &m);
	wk_engine *engine = ns->engine;
	for (uint64_t call = 0; call < 40; call++) {
		add_to_many(ns, &m, (int64_t)call, 3, 50, 20 + (int64_t)call % 8);
		wk_faulty_fail(disk, WK_FAULT_WRITE, call, ENOSPC, false);
		wk_engine_lock(engine);
		wk_index_write(engine);
		wk_engine_unlock(engine);
		wk_faulty_heal(disk);
		CHECK(!stats_of(ns).failed);
		wk_faulty_advance(disk, 1500000000);
		work(ns);
		counts_its_memory(ns);
		entry_is(ns, &m, (int64_t)call * 3, 0);
	}
	reads_all(ns, &m);
	counts_live_entries(ns, io);
	close_store(ns);
	io->operations->destroy(io);
}

static void trim(wk_engine *engine, int64_t ledger_id, int64_t first_live) {
	wk_engine_lock(engine);
	wk_ledger_trim(engine, wk_ledger_find(engine, ledger_id), first_live);
	wk_engine_unlock(engine);
}

/* As the keeper does where there is too much, and no other index file yet. */
static void page_out(wk_engine *engine) {
	wk_engine_lock(engine);
	for (int i = 0; i < 3; i++) {
		engine->pager.above = 0;
		engine->pager.index_wanted = false;
		wk_range_pager_step(engine);
	}
	wk_engine_unlock(engine);
}

/* Ranges of many entries, some of which die: while the range is out, and just before it might go. */
TEST(what_dies_is_counted_once_whether_its_range_is_out_or_not) {
	static model m;
	enum { FEW = 20, FIRST = 5, SECOND = 9 };
	wk_io *io = new_disk(10);
	wk_open_options options = small_memory(WK_KIND_LEDGERS);
	options.range_bytes = 1;
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t entry_id = 0; entry_id < ENTRIES; entry_id++)
		add_to_many(ns, &m, 0, 1, FEW, entry_id);
	work(ns);
	counts_live_entries(ns, io);
	page_out(ns->engine);
	for (int64_t l = 0; l < FEW; l++) {
		CHECK(wk_ledger_find(ns->engine, l)->paged);
		if (l % 2 == 0)
			entry_is(ns, &m, l, 0);
		CHECK_EQ(wk_ledger_find(ns->engine, l)->paged, l % 2 != 0);
		trim(ns->engine, l, FIRST);
	}
	page_out(ns->engine);
	counts_live_entries(ns, io);
	for (int64_t l = 0; l < FEW; l++)
		trim(ns->engine, l, SECOND);
	counts_live_entries(ns, io);
	work_on(ns, io);
	counts_live_entries(ns, io);
	for (int64_t l = 0; l < FEW; l++)
		for (int64_t entry_id = SECOND; entry_id < ENTRIES; entry_id++)
			entry_is(ns, &m, l, entry_id);
	close_store(ns);
	io->operations->destroy(io);
}

/* ---- logs ---- */

typedef struct model_log {
	wk_log *log;
	wk_writer *writer;
	int64_t first, next; /* sequence ids; -1: nothing was written yet */
} model_log;

static const uint64_t LOGS_LIMIT = 6 * 1024;

static void name_of(int number, char name[16]) {
	snprintf(name, 16, "log%d", number);
}

static void open_log(wk_namespace *ns, model_log *m, int number) {
	char name[16];
	name_of(number, name);
	wk_error error = {0};
	check_ok(wk_log_open(ns, name, strlen(name), true, NULL, &m->log, &error), &error, "the log opens");
	check_ok(wk_writer_open(m->log, &m->writer, &error), &error, "the writer opens");
}

static void let_go(model_log *m) {
	wk_writer_close(m->writer, UINT64_MAX, NULL);
	wk_log_release(m->log);
}

static void append_record(model_log *m) {
	uint8_t record[RECORD_BYTES] = {0};
	wk_position at;
	wk_error error = {0};
	check_ok(wk_writer_append(m->writer, record, sizeof record, NULL, &at, &error), &error, "the append");
	m->first = m->first < 0 ? at.sequence_id : m->first;
	CHECK(m->next < 0 || at.sequence_id == m->next);
	m->next = at.sequence_id + 1;
}

static void truncate_log(model_log *m, uint64_t *random) {
	if (m->next - m->first < 2)
		return;
	/* Often to the last record, which is in memory: the others are not looked at. */
	uint64_t records = (uint64_t)(m->next - m->first), some = check_random(random) % records;
	int64_t to = check_random(random) % 3 == 0 ? m->next - 1 : m->first + (int64_t)(some / 3);
	wk_position at;
	wk_error error = {0};
	check_ok(wk_log_find(m->log, WK_FIND_SEQUENCE_ID, to, NULL, &at, &error), &error, "the record is found");
	check_ok(wk_log_truncate(m->log, &at.dlsn, true, &error), &error, "the log is truncated");
	m->first = to;
}

static void log_is_right(const model_log *m) {
	wk_reader *reader = NULL;
	wk_error error = {0};
	check_ok(wk_reader_open(m->log, NULL, &reader, &error), &error, "the reader opens");
	for (int64_t next = m->first; next < m->next;) {
		wk_batch *batch = NULL;
		check_ok(wk_reader_next(reader, 100, 1 << 20, 0, &batch, &error), &error, "records are read");
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		CHECK(count > 0);
		for (size_t i = 0; i < count; i++, next++)
			CHECK_EQ(records[i].at.sequence_id, next);
		wk_batch_release(batch);
	}
	wk_reader_release(reader);
}

static void reopen_logs(wk_namespace **ns, wk_io *io, model_log *logs, bool cut, uint64_t seed) {
	wk_open_options options = small_memory(WK_KIND_LOGS);
	options.range_bytes = LOGS_LIMIT;
	if (*ns != NULL && cut)
		wk_abandon(*ns);
	for (int i = 0; i < LOGS && *ns != NULL; i++)
		let_go(&logs[i]);
	if (*ns != NULL && cut)
		wk_faulty_crash(wk_faulty_of(io), seed);
	else if (*ns != NULL)
		close_store(*ns);
	*ns = open_store_with(io, &options);
	for (int i = 0; i < LOGS; i++)
		open_log(*ns, &logs[i], i);
}

TEST(logs_are_truncated_deleted_and_compacted_while_their_ranges_are_out) {
	static model_log logs[LOGS];
	uint64_t random = 9, page_ins = 0;
	most = times = 0;
	wk_io *io = new_disk(9);
	wk_namespace *ns = NULL;
	for (int i = 0; i < LOGS; i++)
		logs[i].first = logs[i].next = -1;
	reopen_logs(&ns, io, logs, false, 0);
	for (uint64_t round = 1; round <= LOG_ROUNDS; round++) {
		for (int i = 0; i < LOGS; i++)
			append_record(&logs[i]);
		work_on(ns, io);
		keeps_the_limit(ns, LOGS_LIMIT);
		log_is_right(&logs[check_random(&random) % LOGS]);
		for (int i = 0; i < 4; i++)
			truncate_log(&logs[check_random(&random) % LOGS], &random);
		if (round % 8 == 0) {
			int number = (int)(check_random(&random) % LOGS);
			char name[16];
			name_of(number, name);
			let_go(&logs[number]);
			CHECK_EQ(wk_log_delete(ns, name, strlen(name), NULL), WK_OK);
			logs[number].first = logs[number].next = -1;
			open_log(ns, &logs[number], number);
		}
		counts_its_memory(ns);
		if (round % 25 != 0)
			continue;
		work(ns);
		counts_live_entries(ns, io);
		page_ins += stats_of(ns).range_reads;
		reopen_logs(&ns, io, logs, round % 50 == 0, round);
	}
	for (int i = 0; i < LOGS; i++)
		log_is_right(&logs[i]);
	CHECK(times > LOG_ROUNDS / 3);
	CHECK(page_ins > 100);
	for (int i = 0; i < LOGS; i++)
		let_go(&logs[i]);
	close_store(ns);
	io->operations->destroy(io);
}

int main(void) {
	RUN(thousands_of_ledgers_fit_into_a_limit);
	RUN(a_page_that_cannot_be_read_is_told_and_nothing_is_lost);
	RUN(a_damaged_page_is_damage_and_never_absence);
	RUN(an_index_that_cannot_be_written_leaves_ranges_where_they_are);
	RUN(what_dies_is_counted_once_whether_its_range_is_out_or_not);
	RUN(logs_are_truncated_deleted_and_compacted_while_their_ranges_are_out);
	return check_done();
}
