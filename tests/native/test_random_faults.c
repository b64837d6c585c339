/*
 * test_random_faults.c: whatever a process asks the machine for is refused at some moment, reads, writes, syncs, names,
 * descriptors, space, memory; and the power fails at another.
 *
 *	test_random_faults [STATES [SEED]]
 *
 * A workload runs on the faulty disk, and goes on behind every failure: in the same process where the journal goes on,
 * else in the next one. A call that says "definitely not written" is believed. For many moments of the trace the disk
 * is rebuilt as a power cut would leave it, and looked at as test_crash_states.c does.
 *
 * A failure names the workload's seed: `test_random_faults 50 SEED` repeats it.
 */
/* ctest labels: one-thread simulated */
#include "workload.h"

#include "random_faults.h"

/* Accepted is what the writers say; false: the journal has stopped, or there is no writer. */
static bool goes_on(workload *w) {
	wk_stats stats = {0};
	if (w->ns != NULL)
		wk_namespace_stats(w->ns, &stats);
	bool has_all = w->ns != NULL && !stats.failed;
	for (size_t i = 0; i < LOGS; i++)
		has_all &= w->logs[i] != NULL && w->writers[i] != NULL;
	for (size_t i = 0; i < LOGS && has_all; i++) {
		wk_position next;
		wk_writer_next(w->writers[i], &next);
		CHECK(next.sequence_id >= w->promised[i].next);
		CHECK(next.sequence_id <= w->possible[i].next);
		w->possible[i].next = next.sequence_id;
	}
	return has_all;
}

static void vary(uint64_t *chance) {
	codec = (uint32_t)(check_random(chance) % 3);
	reads_fail = check_random(chance) % 4 != 0;
	opens_with = reads_fail ? WK_ON_DAMAGE_STOP : WK_ON_DAMAGE_SKIP; /* the latter takes it for damage */
}

int main(int argc, char **argv) {
	const campaign c = {.states = 3000, .vary = vary, .open_it = open_logs, .goes_on = goes_on};
	devices_are_two = true;
	return run_campaign(&c, argc, argv);
}
