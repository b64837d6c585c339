/*
 * test_refused_opens.c: opening a directory of logs, and the first look into them, while the machine refuses something
 * (refused_opens.h).
 *
 *	test_refused_opens [SEED]
 */
/* ctest labels: one-thread simulated */
#include "workload.h"

#include "refused_opens.h"
#include "sim/faulty.h"
#include <time.h>

enum { STEPS = 60, SEEDS = 3 };

/* Where each log ends, and a record in its middle. */
static wk_status ask(wk_namespace *ns, wk_error *error) {
	wk_status status = WK_OK;
	for (size_t i = 0; i < LOGS && status == WK_OK; i++) {
		wk_log *log = NULL;
		wk_log_info info;
		status = wk_log_open(ns, names[i], strlen(names[i]), false, NULL, &log, error);
		if (status == WK_OK)
			status = wk_log_describe(log, &info, error);
		if (status == WK_OK) {
			wk_position at;
			int64_t middle = info.first.sequence_id + info.count / 2;
			status = wk_log_find(log, WK_FIND_SEQUENCE_ID, middle, NULL, &at, error);
			if (status == WK_OK)
				CHECK_EQ(at.sequence_id, middle);
		}
		if (log != NULL)
			wk_log_release(log);
	}
	return status;
}

static wk_status try_open(const workload *w, wk_io *io, wk_error *error) {
	wk_namespace *ns;
	wk_recovery_report report;
	wk_status status = open_on(io, &ns, error);
	(void)w;
	if (status != WK_OK)
		return status;
	wk_namespace_recovery(ns, &report);
	CHECK_EQ(report.damaged_blocks + report.lost_records + report.lost_entries + report.lost_files, 0);
	status = ask(ns, error);
	wk_abandon(ns);
	return status;
}

static void look_again(const workload *w, wk_io *io) {
	uint32_t before = opens_with;
	opens_with = WK_ON_DAMAGE_STOP;
	look_at(w, io, wk_faulty_trace_length(w->disk), w->promised, w->possible);
	opens_with = before;
}

int main(int argc, char **argv) {
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : check_seed((uint64_t)time(NULL));
	static workload w;
	static char where[64];
	check_test_name = where;
	devices_are_two = true;
	for (int i = 0; i < SEEDS; i++, seed++) {
		snprintf(where, sizeof where, "seed %llu", (unsigned long long)seed);
		make_disk(&w, seed);
		codec = i == 0 ? WK_CODEC_NONE : WK_CODEC_LZ4;
		if (!run_workload(&w, STEPS))
			check_failed(__FILE__, __LINE__, w.error.text);
		refuse_each(&w, REFUSED_KINDS);
		opens_with = WK_ON_DAMAGE_SKIP; /* what cannot be read is damaged to it, but nothing else is */
		refuse_each(&w, READS);
		opens_with = WK_ON_DAMAGE_STOP;
		abandon(&w);
		w.io->operations->destroy(w.io);
	}
	check_test_name = "an open to which something is refused";
	check_passed(check_checks_count);
	return check_done();
}
