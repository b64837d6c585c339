/*
 * random_faults.h: whatever the engine asks the machine for may be refused: by a seed, while a step of a workload runs,
 * once or a few times. Behind a workload's header (workload.h, ledger_workload.h), and for a faulty disk.
 */
#ifndef RANDOM_FAULTS_H
#define RANDOM_FAULTS_H
#include "sheltered_disk.h"
#include "sim/faulty.h"
#include <errno.h>
#include <time.h>

/* ---- what is refused ---- */

typedef struct refusal {
	uint32_t operation; /* of the disk; 0: memory */
	int error;
} refusal;

static const refusal refusals[] = {
    {WK_FAULT_READ, EIO},
    {WK_FAULT_WRITE, EIO},
    {WK_FAULT_WRITE, ENOSPC},
    {WK_FAULT_SYNC, EIO},
    {WK_FAULT_DIRECTORY, ENOSPC},
    {WK_FAULT_DIRECTORY, EIO},
    {WK_FAULT_DIRECTORY, EPERM},
    {WK_FAULT_DIRECTORY, EMFILE},
    {WK_FAULT_ALLOCATE, ENOSPC},
    {WK_FAULT_ALLOCATE, EIO},
    {WK_FAULT_OPEN, EMFILE},
    {WK_FAULT_OPEN, ENOMEM},
    {WK_FAULT_OPEN, EACCES},
    {WK_FAULT_OPEN, ENOSPC},
    {WK_FAULT_OPEN, EIO},
    {WK_FAULT_ALL, EIO},
    {0, ENOMEM},
    {0, ENOMEM},
    {0, ENOMEM},
    {0, ENOMEM},
};
enum { TIMES_MAX = 4, CALLS_MAX_LOG2 = 7 };
static bool reads_fail = true;

static const refusal *refuse_something(wk_faulty *disk, uint64_t *chance) {
	const refusal *what = &refusals[check_random(chance) % (sizeof refusals / sizeof *refusals)];
	if (!reads_fail && what->operation & WK_FAULT_READ)
		return NULL;
	uint64_t after = check_random(chance) % (1u << check_random(chance) % CALLS_MAX_LOG2);
	uint64_t times = check_random(chance) % 2 == 0 ? 1 : 1 + check_random(chance) % TIMES_MAX;
	if (what->operation == 0)
		let_memory_run_out((long)after, (long)times);
	for (uint64_t i = 0; i < times && what->operation != 0; i++)
		wk_faulty_fail(disk, what->operation, after + i, what->error, false);
	return what;
}

static void refuse_nothing(wk_faulty *disk) {
	memory_ran_out();
	wk_faulty_heal(disk);
}

/* ---- a workload that goes on ---- */

static uint64_t failures, reopenings; /* steps that failed; of these, those behind which it was opened again */

/*
 * During a third of its steps something is refused. Where a call fails, the next ones are made all the same; if the
 * journal has stopped, the process ends and the next one opens the directory. goes_on looks whether it has.
 */
static void run_through_faults(workload *w, size_t steps, bool (*open_it)(workload *), bool (*goes_on)(workload *)) {
	uint64_t chance = w->seed + 1;
	shelter(w->io);
	while (w->steps_count + 2 <= steps) {
		w->error = (wk_error){0};
		const refusal *what = check_random(&chance) % 3 == 0 ? refuse_something(w->disk, &chance) : NULL;
		bool well = take_step(w, w->steps_count == 0 ? open_it : do_something);
		refuse_nothing(w->disk);
		if (well)
			continue;
		failures++;
		if (w->error.status == WK_OK || w->error.text[0] == 0)
			printf("refused: operation %u, error %d\n", what != NULL ? what->operation : 0,
			       what != NULL ? what->error : 0);
		CHECK(w->error.status != WK_OK && w->error.text[0] != 0);
		CHECK(w->error.status != WK_DAMAGED && w->error.status != WK_CORRUPT); /* nothing is */
		if (goes_on(w))
			continue;
		reopenings++;
		w->error = (wk_error){0};
		if (!take_step(w, be_killed_and_open))
			check_failed(__FILE__, __LINE__, w->error.text);
	}
	w->io->operations = plain;
}

/* ---- the campaign ---- */

typedef struct campaign {
	uint64_t states;                /* power cuts, where the command line does not say */
	void (*vary)(uint64_t *chance); /* the settings of the next workload; may be NULL */
	bool (*open_it)(workload *);
	bool (*goes_on)(workload *);
} campaign;

/* Arguments: [STATES [SEED]]. Returns the exit status. */
static int run_campaign(const campaign *c, int argc, char **argv) {
	enum { STEPS = 60, STATES_A_WORKLOAD = 10 };
	uint64_t states = argc > 1 ? strtoull(argv[1], NULL, 10) : c->states / CHECK_PART;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : check_seed((uint64_t)time(NULL));
	static workload w;
	static char where[64];
	check_test_name = where;
	for (uint64_t done = 0; done < states;) {
		uint64_t chance = seed;
		snprintf(where, sizeof where, "seed %llu", (unsigned long long)seed);
		make_disk(&w, seed++);
		if (c->vary != NULL)
			c->vary(&chance);
		run_through_faults(&w, STEPS, c->open_it, c->goes_on);
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
#endif
