/*
 * test_failing_disk.c: the k-th call of the disk fails, for every k.
 *
 *	test_failing_disk [SEED [CALL]]
 *
 * A failure names its seed and call, which repeat it. The failed write may have landed wholly, partly or not at all;
 * the failure comes once, or stays. Then
 *  - no call of the workload crashes; the first that fails says why;
 *  - if the journal failed, appends are refused from then on, also when the disk is well again, and reading goes on;
 *  - after a power cut and with a disk that is well, the directory opens, and what was promised is there.
 */
/* ctest labels: one-thread simulated */
#include "sim/faulty.h"
#include "workload.h"
#include <errno.h>
#include <time.h>

enum { STEPS = 30, SEEDS_DEFAULT = 10 };

static void appends_are_refused_and_reading_goes_on(workload *w) {
	wk_stats stats;
	wk_namespace_stats(w->ns, &stats);
	if (!stats.failed)
		return;
	for (size_t i = 0; i < LOGS; i++) {
		wk_error error;
		if (w->writers[i] != NULL)
			CHECK_EQ(wk_writer_append(w->writers[i], "x", 1, NULL, NULL, &error), WK_FAILED);
		if (w->logs[i] == NULL)
			continue;
		wk_log_info info;
		CHECK_EQ(wk_log_describe(w->logs[i], &info, NULL), WK_OK);
		CHECK(info.next.sequence_id >= w->promised[i].next);
		check_records_of(i, w->logs[i], &info);
	}
}

/* Returns false where the workload was done before the call came. */
static bool the_call_fails(workload *w, uint64_t seed, uint64_t call, bool sticky) {
	make_disk(w, seed);
	wk_faulty_fail(w->disk, WK_FAULT_ALL, call, EIO, sticky);
	bool met = !run_workload(w, STEPS);
	wk_faulty_heal(w->disk);
	if (met)
		CHECK(w->error.status != WK_OK && w->error.text[0] != 0);
	if (w->ns != NULL)
		appends_are_refused_and_reading_goes_on(w);
	abandon(w);
	wk_faulty_crash(w->disk, seed + call);
	look_at(w, w->io, wk_faulty_trace_length(w->disk), w->promised, w->possible);
	w->io->operations->destroy(w->io);
	return met;
}

static void every_call_fails_once(uint64_t seed, uint64_t first, uint64_t last) {
	static workload w;
	static char where[64];
	snprintf(where, sizeof where, "seed %llu", (unsigned long long)seed);
	check_test_name = where;
	make_disk(&w, seed);
	if (!run_workload(&w, STEPS))
		check_failed(__FILE__, __LINE__, w.error.text);
	uint64_t calls = wk_faulty_calls(w.disk, WK_FAULT_ALL), met = 0;
	abandon(&w);
	w.io->operations->destroy(w.io);
	for (uint64_t call = first; call < calls && call <= last; call++) {
		snprintf(where, sizeof where, "seed %llu call %llu", (unsigned long long)seed, (unsigned long long)call);
		met += the_call_fails(&w, seed, call, false);
		met += the_call_fails(&w, seed, call, true);
	}
	CHECK(met > 0);
}

int main(int argc, char **argv) {
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : check_seed((uint64_t)time(NULL));
	uint64_t call = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	devices_are_two = true;
	if (argc == 1) /* a sync fails, the process ends, the next one accepts the blocks: they are not durable yet */
		every_call_fails_once(1795264519, 201, 201);
	for (uint64_t i = 0; i < (argc > 1 ? 1 : SEEDS_DEFAULT / CHECK_PART); i++)
		every_call_fails_once(seed + i, call, argc > 2 ? call : UINT64_MAX);
	check_test_name = "every call fails once";
	check_passed(check_checks_count);
	return check_done();
}
