/*
 * test_ledger_missing_files.c: a ledger store one of whose files is gone, by a seed: what it lost it never takes for what it
 * never had, as far as the index knows of the file; opened with skip it goes on.
 *
 *	test_ledger_missing_files [LIVES [SEED]]
 */
#include <errno.h>
#include <time.h>

#include "engine/base/file_name.h"
#include "engine/index/index_file.h"
#include "ledger_store.h"
#include "sim/faulty.h"

enum { LEDGERS = 4, IDS = 400, LIVES_DEFAULT = 300, FILES_MAX = 64, SECOND_NS = 1000000000 };

static bool written[LEDGERS][IDS]; /* acknowledged, and not deleted since */
static int64_t next_id[LEDGERS];
static bool again; /* entries are written twice, too: then it is less plain what is missing */

static wk_open_options options_of(uint32_t on_damage) {
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	options.minor_percent = 60;
	options.minor_interval_ns = SECOND_NS;
	options.on_damage = on_damage;
	return options;
}

static wk_status open_as(wk_io *io, uint32_t on_damage, wk_namespace **ns, wk_error *error) {
	wk_open_options options = options_of(on_damage);
	*ns = NULL;
	return wk_open_on(io, "store", &options, ns, error);
}

static wk_namespace *open_whole(wk_io *io, uint32_t on_damage) {
	wk_namespace *ns;
	wk_error error = {0};
	check_ok(open_as(io, on_damage, &ns, &error), &error, "the store opens");
	return ns;
}

/* ---- a life ---- */

static void write_one(wk_namespace *ns, uint64_t *seed) {
	int64_t ledger_id = (int64_t)(check_random(seed) % LEDGERS);
	int64_t *next = &next_id[ledger_id], entry_id = *next;
	if (again && *next > 0 && check_random(seed) % 8 == 0)
		entry_id = (int64_t)(check_random(seed) % (uint64_t)*next); /* again, or one that was left out */
	else
		*next += 1 + (check_random(seed) % 3 == 0);
	if (entry_id >= IDS)
		return;
	CHECK_EQ(add_version(ns, ledger_id, entry_id, 1 + check_random(seed) % 1000, 0, NULL), WK_OK);
	written[ledger_id][entry_id] = true;
}

static void delete_one(wk_namespace *ns, uint64_t *seed) {
	int64_t ledger_id = (int64_t)(check_random(seed) % LEDGERS);
	wk_status status = wk_ledger_delete(ns, ledger_id, UINT64_MAX, NULL, NULL);
	CHECK(status == WK_OK || status == WK_NO_LEDGER);
	memset(written[ledger_id], 0, sizeof written[ledger_id]);
	next_id[ledger_id] = 0;
}

static void write_index(wk_namespace *ns) {
	wk_engine_lock(ns->engine);
	(void)wk_index_write(ns->engine);
	wk_engine_unlock(ns->engine);
}

static void live(wk_namespace *ns, wk_io *io, uint64_t *seed) {
	uint64_t steps = 100 + check_random(seed) % 500;
	for (uint64_t step = 0; step < steps; step++) {
		uint64_t what = check_random(seed) % 200;
		if (what == 0)
			delete_one(ns, seed);
		else if (what == 1)
			write_index(ns);
		else if (what < 20)
			wk_faulty_advance(wk_faulty_of(io), 2 * (uint64_t)SECOND_NS);
		else
			write_one(ns, seed);
		if (what % 4 == 0)
			work(ns);
	}
}

/* ---- a file goes ---- */

typedef struct files {
	char paths[FILES_MAX][64];
	uint64_t ids[FILES_MAX];
	uint32_t kinds[FILES_MAX];
	uint32_t count;
	const char *folder;
} files;

static bool note_file(void *context, const char *name) {
	files *found = context;
	uint32_t at = found->count;
	if (at < FILES_MAX && wk_store_file_parse(name, &found->kinds[at], &found->ids[at]))
		snprintf(found->paths[found->count++], sizeof found->paths[0], "store/%s/%.30s", found->folder, name);
	return true;
}

static files files_of(wk_io *io) {
	files found = {.folder = "journal"};
	CHECK_EQ(io->operations->list(io, "store/journal", note_file, &found), 0);
	found.folder = "entries";
	int result = io->operations->list(io, "store/entries", note_file, &found);
	CHECK(result == 0 || result == -ENOENT);
	return found;
}

/* The last journal file with blocks: its loss looks like the end, unless something names a block of it. */
static uint64_t last_journal_file(const wk_engine *engine) {
	uint64_t last = 0;
	for (uint32_t i = 0; i < engine->files_count; i++)
		if (engine->files[i]->kind == WK_FILE_JOURNAL && engine->files[i]->end_offset > 0)
			last = engine->files[i]->id;
	return last;
}

/* How many entries that were acknowledged the store says it has not. */
static uint64_t denied(wk_namespace *ns) {
	uint64_t absent = 0;
	for (int64_t ledger_id = 0; ledger_id < LEDGERS; ledger_id++)
		for (int64_t id = 0; id < IDS; id++) {
			wk_entry_batch *batch = NULL;
			wk_error error = {0};
			wk_status status = wk_ledger_read(ns, ledger_id, id, 1, 1 << 20, &batch, &error);
			CHECK(status == WK_OK || status == WK_NOT_FOUND || status == WK_NO_LEDGER);
			wk_entry_batch_release(batch);
			absent += status != WK_OK && written[ledger_id][id];
		}
	return absent;
}

static struct { uint64_t noticed, harmless, unknown, missed; } tally;

/* Behind skip it is a store like any other, once it wrote something. */
static void goes_on(wk_io *io) {
	wk_recovery_report report;
	wk_namespace *ns = open_whole(io, WK_ON_DAMAGE_SKIP);
	wk_namespace_recovery(ns, &report);
	CHECK(report.damaged_blocks + report.unknown_blocks + report.lost_entries + report.lost_files > 0);
	uint64_t absent = denied(ns);
	add_entry(ns, LEDGERS + 1, 0);
	kill_store(ns, io);
	for (int round = 0; round < 2; round++) {
		ns = open_whole(io, WK_ON_DAMAGE_STOP);
		CHECK_EQ(denied(ns), absent);
		CHECK_EQ(version_of(ns, LEDGERS + 1, 0), 1);
		close_store(ns);
	}
}

static void one_life(uint64_t seed) {
	wk_io *io = new_disk(seed);
	wk_error error = {0};
	memset(written, 0, sizeof written);
	memset(next_id, 0, sizeof next_id);
	again = seed % 2 == 0;
	wk_namespace *ns = open_whole(io, WK_ON_DAMAGE_STOP);
	live(ns, io, &seed);
	if (check_random(&seed) % 2 == 0) {
		kill_store(ns, io);
		ns = open_whole(io, WK_ON_DAMAGE_STOP);
		live(ns, io, &seed);
	}
	kill_store(ns, io);
	ns = open_whole(io, WK_ON_DAMAGE_STOP); /* whole as it is, it opens */
	CHECK_EQ(denied(ns), 0);
	uint64_t mark = ns->engine->index.mark, last = last_journal_file(ns->engine);
	kill_store(ns, io);
	files found = files_of(io);
	uint32_t gone = (uint32_t)(check_random(&seed) % found.count);
	CHECK_EQ(io->operations->unlink(io, found.paths[gone]), 0);
	wk_status status = open_as(io, WK_ON_DAMAGE_STOP, &ns, &error);
	if (status != WK_OK && status != WK_DAMAGED)
		check_ok(status, &error, found.paths[gone]);
	if (status == WK_DAMAGED) {
		tally.noticed++;
		CHECK(strstr(error.text, "Restore the file") != NULL);
		goes_on(io);
	} else {
		uint64_t absent = denied(ns);
		tally.harmless += absent == 0;
		/* Of journal files that no index names the numbers of blocks tell. */
		CHECK(absent == 0 || found.ids[gone] == last || found.ids[gone] < mark ||
		      found.kinds[gone] == WK_FILE_ENTRY_LOG);
		tally.unknown += absent > 0 && found.ids[gone] >= mark;
		tally.missed += absent > 0 && found.ids[gone] < mark;
		close_store(ns);
	}
	io->operations->destroy(io);
}

/* Sealed files that the index names; the first one is gone, or an entry log is. */
static void lose_what_the_index_names(bool entry_log) {
	wk_io *io = new_disk(5);
	wk_open_options options = options_of(WK_ON_DAMAGE_STOP);
	wk_namespace *ns = open_store_with(io, &options);
	fill_ledger(ns, 1, 100);
	if (entry_log) {
		fill_ledger(ns, 2, 1);
		for (int64_t id = 0; id < 100; id++)
			add_entry(ns, 2 + id % 2, id);
		CHECK_EQ(wk_ledger_delete(ns, 2, UINT64_MAX, NULL, NULL), WK_OK);
		for (int i = 0; i < 20; i++) {
			wk_faulty_advance(wk_faulty_of(io), 2 * (uint64_t)SECOND_NS);
			work(ns);
		}
		fill_ledger(ns, 4, 60);
	}
	write_index(ns);
	kill_store(ns, io);
	files found = files_of(io);
	uint32_t gone = 0;
	while (entry_log && found.kinds[gone] != WK_FILE_ENTRY_LOG)
		CHECK(++gone < found.count);
	CHECK_EQ(io->operations->unlink(io, found.paths[gone]), 0);
	wk_error error = {0};
	CHECK_EQ(open_as(io, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
	CHECK(strstr(error.text, found.paths[gone] + strlen("store/")) != NULL);
	CHECK(strstr(error.text, "missing") != NULL);
	wk_recovery_report report;
	ns = open_whole(io, WK_ON_DAMAGE_SKIP);
	wk_namespace_recovery(ns, &report);
	CHECK(report.lost_entries > 0);
	kill_store(ns, io); /* it wrote nothing, and is whole all the same */
	ns = open_whole(io, WK_ON_DAMAGE_STOP);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_journal_file_that_the_index_names_is_missed) {
	lose_what_the_index_names(false);
}

TEST(an_entry_log_that_the_index_names_is_missed) {
	lose_what_the_index_names(true);
}

int main(int argc, char **argv) {
	uint64_t lives = argc > 1 ? strtoull(argv[1], NULL, 10) : LIVES_DEFAULT / CHECK_PART;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : check_seed((uint64_t)time(NULL));
	static char where[64];
	RUN(a_journal_file_that_the_index_names_is_missed);
	RUN(an_entry_log_that_the_index_names_is_missed);
	for (uint64_t i = 0; i < lives; i++, seed++) {
		check_test_name = where;
		snprintf(where, sizeof where, "seed %llu", (unsigned long long)seed);
		one_life(seed);
	}
	printf("%llu losses noticed, %llu harmless, %llu of files that no index named, %llu missed\n",
	       (unsigned long long)tally.noticed, (unsigned long long)tally.harmless, (unsigned long long)tally.unknown,
	       (unsigned long long)tally.missed);
	CHECK(tally.noticed > 0);
	check_test_name = "with a file less";
	check_passed(check_checks_count);
	return check_done();
}
