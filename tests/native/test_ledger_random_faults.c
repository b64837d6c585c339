/*
 * test_ledger_random_faults.c: a ledger store that goes on while things are refused to it, as test_random_faults.c does
 * with logs: entries, keys, fences, LACs and deletes are those of one moment of the workload, not before the last
 * promise.
 *
 *	test_ledger_random_faults [STATES [SEED]]
 */
/* ctest labels: one-thread simulated */
#include "ledger_workload.h"

#include "random_faults.h"

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

/* A third of them leaves files as they are until they can be sorted. */
static bool open_some_sorting(workload *w) {
	w->sorts = w->sort_memory == 8 * 1024;
	return open_first(w);
}

int main(int argc, char **argv) {
	const campaign c = {.states = 2000, .open_it = open_some_sorting, .goes_on = goes_on};
	return run_campaign(&c, argc, argv);
}
