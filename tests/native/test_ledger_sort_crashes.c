/*
 * test_ledger_sort_crashes.c: power cuts and failing calls while the mover sorts interleaved files, against the model of
 * ledger_workload.h: whatever the moment, each entry is there, once, in its newest version.
 *
 *	test_ledger_sort_crashes [STATES [SEED]]
 */
#include "ledger_workload.h"
#include "sim/faulty.h"
#include <errno.h>
#include <time.h>

enum { STEPS = 70, FAILING_STEPS = 40, STATES_A_WORKLOAD = 40, STATES_DEFAULT = 3000, FAILING_SEEDS = 2 };

/* Adds to all ledgers in turn, and much background work: some of it ends in the middle of a pass. */
static bool do_some_sorting(workload *w) {
	uint64_t what = check_random(&w->seed) % 100;
	return what < 55   ? add_some(w, ADDS_MAX, false, false, true)
	       : what < 57 ? add_some(w, ADDS_MAX, true, false, true)
	       : what < 59 ? delete_one(w)
	       : what < 60 ? fence_one(w)
	       : what < 92 ? work_in_background(w)
	       : what < 96 ? close_and_open(w)
	                   : be_killed_and_open(w);
}

static void make_sorting_disk(workload *w, uint64_t seed) {
	make_disk(w, seed);
	w->sorts = true;
	w->sort_memory = seed % 2 == 0 ? 8 * 1024 : 1024 * 1024; /* in several slices, or one */
}

static bool run(workload *w, size_t steps) {
	bool well = take_step(w, open_first);
	while (well && w->steps_count < steps)
		well = take_step(w, do_some_sorting);
	return well;
}

static uint64_t sorted_bytes(workload *w) {
	wk_stats stats = {0};
	if (w->ns != NULL)
		wk_namespace_stats(w->ns, &stats);
	return stats.sorted_bytes;
}

static uint64_t power_cuts(workload *w, uint64_t seed) {
	uint64_t chance = seed, sorted = 0;
	make_sorting_disk(w, seed);
	bool well = take_step(w, open_first);
	while (well && w->steps_count < STEPS) {
		uint64_t before = sorted_bytes(w);
		well = take_step(w, do_some_sorting);
		uint64_t now = sorted_bytes(w);
		sorted += now > before ? now - before : 0;
	}
	if (!well)
		check_failed(__FILE__, __LINE__, w->error.text);
	must_be_one_of(w, w->ns, w->promised, w->possible);
	uint64_t length = wk_faulty_trace_length(w->disk);
	for (uint64_t i = 0; i < STATES_A_WORKLOAD; i++)
		look_behind_power_cut(w, check_random(&chance) % (length + 1), check_random(&chance));
	abandon(w);
	w->io->operations->destroy(w->io);
	return sorted;
}

static void the_call_fails(workload *w, uint64_t seed, uint64_t call, int error, bool sticky) {
	make_sorting_disk(w, seed);
	wk_faulty_fail(w->disk, WK_FAULT_ALL, call, error, sticky);
	run(w, FAILING_STEPS);
	wk_faulty_heal(w->disk);
	wk_stats stats = {0};
	if (w->ns != NULL)
		wk_namespace_stats(w->ns, &stats);
	if (stats.failed)
		must_be_one_of(w, w->ns, w->promised, w->possible); /* reading goes on */
	abandon(w);
	wk_faulty_crash(w->disk, seed + call);
	look_at_disk(w, w->io, w->promised, w->possible);
	w->io->operations->destroy(w->io);
}

static void every_call_fails(workload *w, uint64_t seed) {
	static char where[64];
	make_sorting_disk(w, seed);
	if (!run(w, FAILING_STEPS))
		check_failed(__FILE__, __LINE__, w->error.text);
	uint64_t calls = wk_faulty_calls(w->disk, WK_FAULT_ALL);
	abandon(w);
	w->io->operations->destroy(w->io);
	check_test_name = where;
	for (uint64_t call = 0; call < calls; call++) {
		snprintf(where, sizeof where, "seed %llu call %llu", (unsigned long long)seed, (unsigned long long)call);
		the_call_fails(w, seed, call, EIO, call % 2 == 0);
	}
}

int main(int argc, char **argv) {
	uint64_t states = argc > 1 ? strtoull(argv[1], NULL, 10) : STATES_DEFAULT / CHECK_PART;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : check_seed((uint64_t)time(NULL));
	static workload w;
	static char where[64];
	uint64_t sorted = 0, first = seed;
	for (uint64_t done = 0; done < states; done += STATES_A_WORKLOAD, seed++) {
		check_test_name = where;
		snprintf(where, sizeof where, "seed %llu", (unsigned long long)seed);
		sorted += power_cuts(&w, seed);
	}
	CHECK(argc > 1 || sorted > 0);
	for (uint64_t i = 0; argc == 1 && i < FAILING_SEEDS; i++)
		every_call_fails(&w, first + i);
	printf("%llu states, %llu bytes sorted\n", (unsigned long long)states, (unsigned long long)sorted);
	check_test_name = "while files are sorted";
	check_passed(check_checks_count);
	return check_done();
}
