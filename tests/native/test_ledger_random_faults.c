/*
 * test_ledger_random_faults.c: a ledger store that goes on while things are refused to it, as test_random_faults.c does
 * with logs: entries, keys, fences, LACs and deletes are those of one moment of the workload, not before the last
 * promise.
 *
 *	test_ledger_random_faults [STATES [SEED]]
 */
#include "ledger_workload.h"

#include "random_faults.h"
#include <time.h>

enum { STEPS = 60, STATES_A_WORKLOAD = 10, STATES_DEFAULT = 2000 };

/*
 * false: the journal has stopped, or the store is not open. Where it stopped for want of memory, part of a block may be
 * read already: durable, but not one moment of the workload.
 */
static bool goes_on(workload *w) {
	wk_stats stats = {0};
	if (w->ns == NULL)
		return false;
	wk_namespace_stats(w->ns, &stats);
	if (!stats.failed)
		must_be_one_of(w, w->ns, w->promised, w->possible);
	return !stats.failed;
}

int main(int argc, char **argv) {
	uint64_t states = argc > 1 ? strtoull(argv[1], NULL, 10) : STATES_DEFAULT;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : check_seed((uint64_t)time(NULL));
	static workload w;
	static char where[64];
	check_test_name = where;
	for (uint64_t done = 0; done < states;) {
		uint64_t chance = seed;
		snprintf(where, sizeof where, "seed %llu", (unsigned long long)seed);
		make_disk(&w, seed++);
		run_through_faults(&w, STEPS, open_first, goes_on);
		uint64_t length = wk_faulty_trace_length(w.disk);
		for (uint64_t i = 0; i < STATES_A_WORKLOAD && done < states; i++, done++)
			look_behind_power_cut(&w, check_random(&chance) % (length + 1), check_random(&chance));
		abandon(&w);
		w.io->operations->destroy(w.io);
	}
	printf("%llu states; %llu calls failed, %llu of them with the journal\n", (unsigned long long)states,
	       (unsigned long long)failures, (unsigned long long)reopenings);
	CHECK(failures > 0 && reopenings > 0 && reopenings < failures);
	check_test_name = "through faults and power cuts";
	check_passed(check_checks_count);
	return check_done();
}
