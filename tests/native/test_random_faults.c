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
#include "workload.h"

#include "random_faults.h"
#include <time.h>

enum { STEPS = 60, STATES_A_WORKLOAD = 10, STATES_DEFAULT = 3000 };

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
		codec = (uint32_t)(check_random(&chance) % 3);
		reads_fail = check_random(&chance) % 4 != 0;
		opens_with = reads_fail ? WK_ON_DAMAGE_STOP : WK_ON_DAMAGE_SKIP; /* the latter takes it for damage */
		run_through_faults(&w, STEPS, open_logs, goes_on);
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
