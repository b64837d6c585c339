/*
 * test_bookie_simulation.c: one bookie, many clients, a disk that fails by a seed; what it answered must have been true.
 *
 *	test_bookie_simulation [SEEDS [SEED]]
 *
 * Each seed is a life of a few hundred requests, in v2 and v3, over several connections whose bytes come in pieces; the
 * bookie is killed, or loses its power, at any step, and starts again. The model keeps for each entry what was sent
 * and what was acknowledged, for each ledger its key, its fence and its LACs.
 *
 *  - what was acknowledged is there, with the bytes of an add that was sent, not older than the last acknowledged one
 *  - nothing is called absent that was acknowledged before the question (deferred adds too, in the same life)
 *  - once a fencing read was answered, whatever the answer, no add that is asked for is acknowledged but recovery adds,
 *    and those that were asked for earlier are acknowledged only where its answer includes them: its last entry is none
 *    before theirs, the entry that it tells is no older version, and what it called absent stays so
 *  - a LAC that is told was told by a client, and an acknowledged explicit LAC is never taken back
 *  - a ledger in limbo is never called absent, nor are its entries
 *  - an add that was refused by the wrong key is not there
 *  - answers of adds of a connection come in the order they were sent (of one ledger)
 *  - a list of entries has all that was acknowledged before the question, and the last entry, with which a LAC is told, is
 *    none before it
 *  - once nothing is held up any more, everything was answered, and nothing is counted that is not there
 *
 * Meanwhile connections hang up and do not read, calls of the disk fail, it is full, and memory for frames and answers is
 * short, or none is found. The service takes a turn only where something tells it to, as its loop does.
 */
/* ctest labels: one-thread simulated */
#include <errno.h>
#include <time.h>

#include "bookie_world.h"
#include "engine/manual.h"
#include "sheltered_disk.h"
#include "sim/faulty.h"

enum { SEEDS_DEFAULT = 300, STEPS = 250 };

/* ---- what goes wrong ---- */

static void heal(world *w) {
	memory_ran_out();
	w->b.service->rules.read_only = false;
	wk_faulty_heal(wk_faulty_of(w->b.io));
	wk_faulty_set_capacity(wk_faulty_of(w->b.io), UINT64_MAX);
	wk_faulty_set_mount_capacity(wk_faulty_of(w->b.io), UINT64_MAX);
}

static void something_goes_wrong(world *w) {
	uint32_t at = (uint32_t)chance(w, 4);
	wk_faulty *disk = wk_faulty_of(w->b.io);
	switch (chance(w, 40)) {
	case 0:
		hang_up(w->peers[at]);
		return;
	case 1:
	case 2:
		w->peers[at]->deaf = true;
		return;
	case 3:
	case 4:
	case 5:
		if (w->peers[at]->deaf)
			hear(w->peers[at]);
		return;
	case 6:
		w->faulty = true;
		wk_faulty_fail(disk, WK_FAULT_READ, chance(w, 5), EIO, false);
		return;
	case 7:
		if (chance(w, 8) != 0)
			return;
		w->faulty = true;
		wk_faulty_fail(disk, chance(w, 2) == 0 ? WK_FAULT_WRITE : WK_FAULT_SYNC, chance(w, 20), EIO, chance(w, 2) == 0);
		return;
	case 8:
		if (chance(w, 4) != 0)
			return;
		w->faulty = true;
		(w->b.store.journal != NULL && chance(w, 2) == 0 ? wk_faulty_set_mount_capacity
		                                                 : wk_faulty_set_capacity)(disk, 200000 + chance(w, 2000000));
		return;
	case 9:
	case 10:
		heal(w);
		return;
	case 11:
	case 12:
		w->faulty = true;
		let_memory_run_out((long)chance(w, 1 + chance(w, 200)), 1 + (long)chance(w, 3));
		return;
	case 13:
		if (chance(w, 4) != 0)
			return;
		w->faulty = true;
		wk_faulty_fail(disk, chance(w, 2) == 0 ? WK_FAULT_ALLOCATE : WK_FAULT_OPEN, chance(w, 5), EIO, false);
		return;
	case 14:
		w->b.service->rules.read_only = chance(w, 2) == 0;
		return;
	default:
		return;
	}
}

/* Nothing holds anybody up any more: all answers come, and all accounts are even. */
static void finish_all(world *w) {
	heal(w);
	for (uint32_t at = 0; at < 4; at++)
		if (w->peers[at]->deaf)
			hear(w->peers[at]);
	for (int i = 0; i < 200 && (i < 3 || w->b.service->owed_count > 0 || wk_peers_stall(w->b.service)); i++) {
		bookie_run(&w->b);
		bookie_wait(&w->b, 101);
	}
	take_answers(w);
	connect_again(w);
	bookie_run(&w->b);
	const wk_service *service = w->b.service;
	for (uint32_t i = 0; i < w->asked_count; i++)
		if (w->asked[i].open) {
			const asked *a = &w->asked[i];
			printf("not answered: connection %u, operation %u, flags %u, ledger %lld, entry %lld\n", a->peer,
			       a->request.operation, a->request.flags, (long long)a->request.ledger_id,
			       (long long)a->request.entry_id);
			check_failed(__FILE__, __LINE__, "everything is answered");
		}
	CHECK_EQ(service->owed_count, 0);
	CHECK_EQ(service->input_bytes, 0);
	CHECK_EQ(service->load.reply_bytes, 0);
	CHECK_EQ(service->sending_count, 0);
	CHECK_EQ(service->partial_count, 0);
	CHECK_EQ(service->load.running, 0);
	CHECK_EQ(service->load.waiting, 0);
	CHECK_EQ(service->waits.count, 0);
	CHECK_EQ(service->large_left, w->large_left);
	CHECK_EQ(service->stats.connections, 4);
	CHECK(!wk_peers_stall(service) && service->listed == NULL && service->adds.spent == NULL);
	for (const wk_peer *one = service->peers; one != NULL; one = one->next)
		CHECK(one->own.reads == 0 && one->references == 1 && one->stalls == 0 && !one->paused);
}

/* ---- lives ---- */

static void end_life(world *w, bool power) {
	heal(w);
	w->faulty = false;
	for (uint32_t i = 0; i < w->asked_count; i++)
		w->asked[i].open = false;
	w->asked_count = 0;
	for (int l = 0; l < LEDGERS_COUNT; l++)
		for (int64_t id = 0; id < IDS; id++)
			w->ledgers[l].entries[id].acked_soon = 0;
	w->versions++;
	bookie_restart(&w->b, power, check_random(&w->random));
	some_are_in_limbo(w, true);
	w->large_left = w->b.service->large_left;
	connect_all(w);
}

/* All that was acknowledged, read at leisure. */
static void read_all(world *w) {
	finish_all(w);
	if (w->faulty) /* the journal may have failed */
		end_life(w, false);
	some_are_in_limbo(w, false);
	peer *p = bookie_connect(&w->b);
	for (int64_t l = 0; l < LEDGERS_COUNT; l++) {
		model_ledger *ledger = &w->ledgers[l];
		for (int64_t id = 0; id < IDS; id++) {
			wk_wire_reply reply = answer_to(p, a_read(l, real(l, id)));
			if (reply.code == WK_WIRE_OK)
				must_be_sent(&ledger->entries[id], wk_load_be64(reply.body + 36), ledger->entries[id].acked,
				             "an acknowledged entry was replaced by an older one");
			else
				CHECK_EQ(ledger->entries[id].acked, 0);
		}
		if (ledger->fenced)
			CHECK_EQ(answer_to(p, an_entry(l, real(l, 0), -1, 1, 20, 0)).code, WK_WIRE_FENCED);
	}
}

static void a_life_of(world *w, uint64_t seed) {
	uint64_t random = seed;
	asked *room = w->asked;
	memset(w, 0, sizeof *w);
	w->asked = room;
	w->random = check_random(&random);
	for (int l = 0; l < LEDGERS_COUNT; l++) {
		w->ledgers[l].max_lac_sent = w->ledgers[l].acked_lac = -1;
		for (int id = 0; id < IDS; id++)
			w->ledgers[l].entries[id].told = UINT64_MAX;
	}
	bookie_prepare(&w->b, new_disk(seed));
	if (seed % 2 == 0) { /* every other one with its journal on a device of its own */
		wk_faulty_mount(wk_faulty_of(w->b.io), "fast");
		w->b.store.journal = JOURNAL_DIRECTORY;
	}
	shelter(w->b.io);
	if (chance(w, 3) == 0)
		w->b.store.in_flight_bytes = chance(w, 2) == 0 ? 4096 : 32 * 1024;
	w->faults = chance(w, 2) == 0;
	if (w->faults && chance(w, 3) == 0)
		w->b.options.receive_bytes = 10000 + chance(w, 100000);
	if (w->faults && chance(w, 3) == 0)
		w->b.options.frame_size_max = 30000 + chance(w, 100000);
	if (w->faults && chance(w, 3) == 0)
		w->b.options.reply_bytes = 20000 + chance(w, 1000000);
	if (w->faults && chance(w, 3) == 0)
		w->b.options.reads_max = 1 + chance(w, 64);
	w->b.options.verify_digest = chance(w, 2) == 0 ? WK_VERIFY_DIGEST_LEARNED : WK_VERIFY_DIGEST_OFF;
	w->b.commits = chance(w, 3) != 0;
	w->b.late_pieces = chance(w, 2) == 0;
	bookie_serve(&w->b);
	w->large_left = w->b.service->large_left;
	connect_all(w);
	for (int step = 0; step < STEPS; step++) {
		for (uint64_t asks = chance(w, 6); asks > 0; asks--)
			ask_something(w);
		if (w->faults)
			something_goes_wrong(w);
		if (bookie_is_due(&w->b) || chance(w, 20) == 0)
			bookie_turn(&w->b, chance(w, 4) == 0 ? 1 + chance(w, 100) : SIZE_MAX);
		bool idle = false;
		if (chance(w, 2) == 0) {
			wk_status stepped = wk_namespace_step(w->b.ns, &idle, NULL);
			CHECK(w->faulty || stepped == WK_OK);
		}
		if (chance(w, 5) == 0)
			bookie_wait(&w->b, chance(w, 60));
		take_answers(w);
		connect_again(w);
		if (w->asked_count > ASKED_MAX - 64 || chance(w, 120) == 0)
			end_life(w, chance(w, 2) == 0);
	}
	some_are_in_limbo(w, false);
	read_all(w);
	end_life(w, true);
	some_are_in_limbo(w, false);
	read_all(w);
	bookie_close(&w->b);
}

int main(int argc, char **argv) {
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : SEEDS_DEFAULT;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : check_seed((uint64_t)time(NULL) * 1000);
	world w = {0};
	w.asked = calloc(ASKED_MAX, sizeof *w.asked);
	static char name[64];
	check_test_name = name;
	for (uint64_t i = 0; i < seeds; i++) {
		snprintf(name, sizeof name, "seed %llu", (unsigned long long)(first + i));
		a_life_of(&w, first + i);
	}
	printf("%llu lives from seed %llu on, %lu checks\n", (unsigned long long)seeds, (unsigned long long)first,
	       check_checks_count);
	free(w.asked);
	return 0;
}
