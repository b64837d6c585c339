/*
 * test_ledger_refused_opens.c: opening a ledger store while the machine refuses something (refused_opens.h).
 *
 *	test_ledger_refused_opens [SEED]
 */
/* ctest labels: one-thread simulated */
#include "ledger_workload.h"

#include "refused_opens.h"
#include <time.h>

enum { STEPS = 60, SEEDS = 10 };

static wk_status try_open(const workload *w, wk_io *io, wk_error *error) {
	wk_namespace *ns;
	wk_status status = open_on(w, io, &ns, error);
	if (status == WK_OK)
		wk_abandon(ns);
	return status;
}

static void look_again(const workload *w, wk_io *io) {
	look_at_disk(w, io, w->promised, w->possible);
}

int main(int argc, char **argv) {
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : check_seed((uint64_t)time(NULL));
	static workload w;
	static char where[64];
	check_test_name = where;
	for (int i = 0; i < SEEDS; i++, seed++) {
		snprintf(where, sizeof where, "seed %llu", (unsigned long long)seed);
		make_disk(&w, seed);
		if (!run_workload(&w, STEPS))
			check_failed(__FILE__, __LINE__, w.error.text);
		refuse_each(&w, REFUSED_KINDS);
		abandon(&w);
		w.io->operations->destroy(w.io);
	}
	check_test_name = "an open to which something is refused";
	check_passed(check_checks_count);
	return check_done();
}
