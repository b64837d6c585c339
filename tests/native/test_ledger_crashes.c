/*
 * test_ledger_crashes.c: a ledger store through power cuts and failing calls, against a model.
 *
 *	test_ledger_crashes [STATES [SEED [CALL]]]
 *
 * A workload runs on the faulty disk. For many moments of its trace the disk is rebuilt as a power cut would leave it,
 * and opened: entries, keys, fences, LACs and deletes are those of one moment of the workload, not before the last
 * promise. Then the same workloads run again, and the k-th call of the disk fails, for every k, once and for ever.
 *
 * A failure names the workload's seed: `test_ledger_crashes 50 SEED`, or `test_ledger_crashes 0 SEED CALL`, repeats it.
 */
/* ctest labels: one-thread simulated */
#include "ledger_workload.h"
#include "sim/faulty.h"
#include <errno.h>
#include <time.h>

enum { STEPS = 60, FAILING_STEPS = 30, STATES_A_WORKLOAD = 40, STATES_DEFAULT = 3000, FAILING_SEEDS = 2 };

static void power_cuts(workload *w, uint64_t seed, uint64_t states) {
	uint64_t chance = seed;
	make_disk(w, seed);
	if (!run_workload(w, STEPS))
		check_failed(__FILE__, __LINE__, w->error.text);
	must_be_one_of(w, w->ns, w->promised, w->possible);
	uint64_t length = wk_faulty_trace_length(w->disk);
	for (uint64_t i = 0; i < states; i++)
		look_behind_power_cut(w, check_random(&chance) % (length + 1), check_random(&chance));
	abandon(w);
	w->io->operations->destroy(w->io);
}

/* Returns false where the workload was done before the call came. */
static bool the_call_fails(workload *w, uint64_t seed, uint64_t call, bool sticky) {
	make_disk(w, seed);
	wk_faulty_fail(w->disk, WK_FAULT_ALL, call, EIO, sticky);
	bool met = !run_workload(w, FAILING_STEPS);
	wk_faulty_heal(w->disk);
	wk_stats stats = {0};
	if (w->ns != NULL)
		wk_namespace_stats(w->ns, &stats);
	if (stats.failed) {
		CHECK_EQ(add_version(w->ns, LEDGERS, 0, 1, 0, NULL), WK_FAILED);
		CHECK_EQ(fence(w->ns, LEDGERS), WK_FAILED);
		must_be_one_of(w, w->ns, w->promised, w->possible); /* reading goes on */
	}
	abandon(w);
	wk_faulty_crash(w->disk, seed + call);
	look_at_disk(w, w->io, w->promised, w->possible);
	w->io->operations->destroy(w->io);
	return met;
}

static void every_call_fails(workload *w, uint64_t seed, uint64_t first, uint64_t last) {
	make_disk(w, seed);
	if (!run_workload(w, FAILING_STEPS))
		check_failed(__FILE__, __LINE__, w->error.text);
	uint64_t calls = wk_faulty_calls(w->disk, WK_FAULT_ALL), met = 0;
	abandon(w);
	w->io->operations->destroy(w->io);
	static char where[64];
	check_test_name = where;
	for (uint64_t call = first; call < calls && call <= last; call++) {
		snprintf(where, sizeof where, "seed %llu call %llu", (unsigned long long)seed, (unsigned long long)call);
		met += the_call_fails(w, seed, call, false);
		met += the_call_fails(w, seed, call, true);
	}
	CHECK(met > 0);
}

int main(int argc, char **argv) {
	uint64_t states = argc > 1 ? strtoull(argv[1], NULL, 10) : STATES_DEFAULT / CHECK_PART;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : check_seed((uint64_t)time(NULL));
	static workload w;
	static char where[64];
	for (uint64_t done = 0; done < states; done += STATES_A_WORKLOAD, seed++) {
		check_test_name = where;
		snprintf(where, sizeof where, "seed %llu", (unsigned long long)seed);
		power_cuts(&w, seed, STATES_A_WORKLOAD);
	}
	for (uint64_t i = 0; argc == 1 && i < FAILING_SEEDS; i++)
		every_call_fails(&w, seed + i, 0, UINT64_MAX);
	if (argc > 3)
		every_call_fails(&w, seed, strtoull(argv[3], NULL, 10), strtoull(argv[3], NULL, 10));
	printf("%llu states\n", (unsigned long long)states);
	check_test_name = "after crashes";
	check_passed(check_checks_count);
	return check_done();
}
