/*
 * test_ledger_ranges.c: ledgers whose entries have any ids, in any order, some of them twice, beside an array that says
 * what there is: while files roll and are sealed, the mover copies, the directory is closed, killed and opened again.
 */
/* ctest labels: one-thread simulated */
#include "engine/index/index_file.h"
#include "engine/manual.h"
#include "ledger_model.h"
#include "sim/faulty.h"

/* ---- whatever happens ---- */

enum { BATCH_MAX = 12 };

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
	trim(d, model);
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
			holes += !wk_ranges_in_memory(ledger)[r].open && !wk_range_is_dense(&wk_ranges_in_memory(ledger)[r]);
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
	wk_engine_lock(engine_of(&d));
	while (engine_of(&d)->pager.orphans_count > 0) /* what was paged out is counted by and by */
		CHECK(wk_range_pager_step(engine_of(&d)));
	wk_engine_unlock(engine_of(&d));
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

/* ---- twice ---- */

/* Whole blocks of one entry, so that the file is full soon. */
static void roll(directory *d) {
	uint64_t active = engine_of(d)->active->id;
	for (int i = 0; engine_of(d)->active->id == active; i++)
		add(d, DENSE, d->ledgers[DENSE].next++);
	work(d);
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
	RUN(whatever_the_ids_the_index_says_what_an_array_would);
	RUN(an_entry_sent_again_counts_where_it_came_last);
	return check_done();
}
