/*
 * test_crash_states.c: a power cut at any moment, on a disk that keeps what it likes of what was not synced; storage
 * rules 9, 12, 13 and 21.
 *
 *	test_crash_states [STATES [SEED]]
 *
 * A workload runs on the faulty disk. For many moments of its trace the disk is rebuilt as a power cut would leave it:
 *of the writes since the last sync any subset, torn, in any order. Each image is opened, and
 *  - it opens, under on_damage=stop: a power cut is not damage;
 *  - what had been acknowledged is there, what was truncated is not, a cursor is where it was put;
 *  - nothing is there that was never appended, every record has its own bytes, an atomic batch is whole or absent;
 *  - it can be appended to, and closed, and opened again with the same content.
 *
 * A failure names the workload's seed: `test_crash_states 50 SEED` repeats it.
 */
/* ctest labels: one-thread simulated */
#include "sim/faulty.h"
#include "workload.h"
#include <time.h>

enum { STEPS = 60, STATES_A_WORKLOAD = 50, STATES_DEFAULT = 10000 };

int main(int argc, char **argv) {
	uint64_t states = argc > 1 ? strtoull(argv[1], NULL, 10) : STATES_DEFAULT / CHECK_PART;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : check_seed((uint64_t)time(NULL));
	static workload w;
	static char where[64];
	check_test_name = where;
	devices_are_two = true;
	for (uint64_t done = 0; done < states;) {
		uint64_t chance = seed;
		snprintf(where, sizeof where, "seed %llu", (unsigned long long)seed);
		make_disk(&w, seed++);
		if (!run_workload(&w, STEPS))
			check_failed(__FILE__, __LINE__, w.error.text);
		uint64_t length = wk_faulty_trace_length(w.disk);
		for (uint64_t i = 0; i < STATES_A_WORKLOAD && done < states; i++, done++)
			look_behind_power_cut(&w, check_random(&chance) % (length + 1), check_random(&chance));
		abandon(&w);
		w.io->operations->destroy(w.io);
	}
	printf("%llu states\n", (unsigned long long)states);
	check_test_name = "after a power cut";
	check_passed(check_checks_count);
	return check_done();
}
