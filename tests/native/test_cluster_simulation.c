/*
 * test_cluster_simulation.c: bookies, clients, disks and a network that fail by a seed; what was acknowledged must be true.
 *
 *	test_cluster_simulation [SEEDS [SEED [print]]]
 *
 * Each seed is a cluster of three to five bookies (a service over a ledger store on a faulty disk), one or two clients and
 * one or two ledgers, of any quorum and digest. Writers add; they close their ledgers, leave, or fail. Meanwhile others open the
 * ledgers with recovery, twice at once perhaps, from the same client perhaps, and readers read. Bookies are killed, lose
 * their power, stand still, have slow disks and disks that fail; clients end and stand still; connections are cut in one
 * direction or both, reset, refused and half-open; a change of the metadata has an unknown outcome. Then everything is
 * healed.
 *
 *  - what was acknowledged to the writer is in the closed ledger, and nothing is acknowledged beyond its end
 *  - a ledger is closed with the length of its entries
 *  - a closed ledger is read whole, with the bytes that were written, whoever gives them
 *  - no entry that was acknowledged is called absent, while the ledger is open, in recovery or closed
 *  - a LAC is none below those that acknowledged entries told of, and none that no writer had
 *  - each entry of a closed ledger is on Qa bookies' disks, and none is on a bookie outside its write set
 *  - once everything is healed, every entry is confirmed, or its writer fails, and every ledger is closed and read within
 *    LIVENESS_NS
 */
/* ctest labels: one-thread simulated */
#include <time.h>

#include "cluster_ledgers.h"

enum { SEEDS_DEFAULT = 1000 };
#define LIVENESS_NS (60 * S)

/* ---- what goes wrong ---- */

static uint32_t count_of(const world *w, actor_kind kind) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < w->actors_count; i++)
		count += w->actors[i].kind == kind;
	return count;
}

static uint32_t some_host(world *w) {
	uint32_t at = (uint32_t)chance(w, w->nodes_count + w->clients_count);
	return at < w->nodes_count ? at : FIRST_CLIENT_HOST + at - w->nodes_count;
}

static void cut_something(world *w) {
	uint32_t one = (uint32_t)chance(w, w->nodes_count), other = some_host(w);
	uint64_t how = chance(w, 4);
	SAY(w, "hosts %u and %u: cut %s", one, other, how == 0 ? "to" : how == 1 ? "from" : "both ways");
	if (how != 1)
		wk_network_cut(w->network, one, other);
	if (how != 0)
		wk_network_cut(w->network, other, one);
}

static void trouble_a_node(world *w, node *n) {
	wk_faulty *disk = wk_faulty_of(n->io);
	switch (chance(w, 8)) {
	case 0:
	case 1:
		stop_node(w, n, chance(w, 2) == 0);
		return;
	case 2:
	case 3:
		n->schedule.stalls_until_ns = now_of(w) + chance(w, chance(w, 2) == 0 ? 30 * MS : 3 * S);
		SAY(w, "bookie %u stands still", n->host);
		return;
	case 4:
		n->disk_latency_ns = chance(w, 2) == 0 ? 300 * US : chance(w, 800 * MS) + 1;
		return;
	case 5:
		wk_faulty_fail(disk, chance(w, 2) == 0 ? WK_FAULT_WRITE : WK_FAULT_READ, chance(w, 5), EIO, chance(w, 2) == 0);
		return;
	case 6:
		n->service->rules.read_only = chance(w, 2) == 0;
		return;
	default:
		SAY(w, "bookie %u refuses connections", n->host);
		wk_network_refuse(w->network, n->host);
		return;
	}
}

static void trouble_a_client(world *w, client_process *c) {
	if (chance(w, 3) == 0)
		stop_client(w, c, chance(w, 2) == 0);
	else
		c->schedule.stalls_until_ns = now_of(w) + chance(w, chance(w, 2) == 0 ? 30 * MS : 2 * S);
}

/* Each bookie of the ledger hears each client late, or not at all for a while, or its answers are not heard. */
static void all_are_late(world *w, const ledger_model *ledger, uint64_t longest_ns) {
	for (uint32_t slot = 0; slot < ledger->ensemble_size; slot++) {
		uint32_t host = last_ensemble(&ledger->stored)[slot];
		if (chance(w, 6) == 0)
			w->nodes[host].schedule.stalls_until_ns = now_of(w) + chance(w, longest_ns);
		for (uint32_t i = 0; i < w->clients_count; i++) {
			uint64_t what = chance(w, 8);
			if (what == 0 || what == 1)
				cut_for(w, host, w->clients[i].host, chance(w, longest_ns));
			if (what == 1 || what == 2 || what == 3)
				cut_for(w, w->clients[i].host, host, chance(w, longest_ns));
			if (what == 4 || what == 1)
				wk_network_reset(w->network, host, w->clients[i].host);
		}
	}
}

static actor *writer_of(world *w, const ledger_model *ledger) {
	for (uint32_t i = 0; i < w->actors_count; i++) {
		actor *a = &w->actors[i];
		if (a->kind == ACTOR_WRITER && a->ledger == ledger && a->step == STEP_WRITE)
			return a;
	}
	return NULL;
}

/*
 * What the writer has sent to a bookie arrives late, and another client has just lost its connection to it: a recovery
 * there begins without this bookie, and finds it again behind the fences, before the adds have arrived. The writer pauses,
 * so that it does not hear of the fences.
 */
static void one_is_late(world *w, const ledger_model *ledger, uint64_t longest_ns) {
	const uint32_t *ensemble = last_ensemble(&ledger->stored);
	uint32_t late = ensemble[chance(w, ledger->ensemble_size)];
	actor *writer = writer_of(w, ledger);
	for (uint32_t i = 0; i < w->clients_count; i++) {
		uint32_t host = w->clients[i].host;
		if (writer != NULL && writer->client == &w->clients[i]) {
			cut_for(w, host, late, 100 * MS + chance(w, 600 * MS));
			continue;
		}
		wk_network_reset(w->network, host, late);
		for (uint32_t slot = 0; slot < ledger->ensemble_size; slot++)
			if (ensemble[slot] != late && chance(w, 6) == 0)
				cut_for(w, ensemble[slot], host, chance(w, longest_ns));
	}
	if (writer == NULL)
		return;
	for (uint64_t count = 1 + chance(w, 8); count > 0; count--)
		submit(w, writer);
	act_again(w, writer, 2 * S);
}

static void recovery_in_a_storm(world *w) {
	ledger_model *ledger = &w->ledgers[chance(w, w->ledgers_count)];
	uint64_t longest_ns = chance(w, 3) == 0 ? 600 * MS : chance(w, 2) == 0 ? 150 * MS : 5 * MS;
	SAY(w, "ledger %lld: a recovery begins in a storm", (long long)ledger->id);
	wk_network_set_delay(w->network, 10 * US, chance(w, 3) == 0 ? 200 * US : 1 * MS + chance(w, 60 * MS));
	if (chance(w, 3) == 0)
		all_are_late(w, ledger, longest_ns);
	else
		one_is_late(w, ledger, longest_ns);
	if (count_of(w, ACTOR_RECOVERY) < 4 * w->ledgers_count)
		add_actor(w, ACTOR_RECOVERY, ledger, now_of(w) + chance(w, 60 * MS));
}

static void something_goes_wrong(world *w) {
	node *n = &w->nodes[chance(w, w->nodes_count)];
	client_process *c = &w->clients[chance(w, w->clients_count)];
	switch (chance(w, 10)) {
	case 0:
	case 1:
	case 2:
		if (n->up)
			trouble_a_node(w, n);
		return;
	case 3:
		if (c->up)
			trouble_a_client(w, c);
		return;
	case 4:
	case 5:
		cut_something(w);
		return;
	case 6:
		wk_network_reset(w->network, n->host, c->host);
		return;
	case 7:
		wk_network_set_delay(w->network, 10 * US, chance(w, 3) == 0 ? 100 * MS : 200 * US);
		return;
	case 8:
		recovery_in_a_storm(w);
		return;
	default:
		SAY(w, "the network is healed");
		wk_network_heal(w->network);
		return;
	}
}

/* ---- who comes ---- */

static void somebody_comes(world *w) {
	ledger_model *ledger = &w->ledgers[chance(w, w->ledgers_count)];
	if (chance(w, w->hurries ? 8 : 60) == 0 && count_of(w, ACTOR_RECOVERY) < 3 * w->ledgers_count)
		add_actor(w, ACTOR_RECOVERY, ledger, now_of(w));
	else if (count_of(w, ACTOR_READER) < READERS_MAX)
		add_actor(w, ACTOR_READER, ledger, now_of(w));
}

/* ---- a life ---- */

static void make_world(world *w, uint64_t seed) {
	uint64_t random = seed;
	ledger_model *ledgers = w->ledgers;
	actor *actors = w->actors;
	*w = (world){.ledgers = ledgers, .actors = actors, .prints = w->prints};
	w->random = check_random(&random);
	w->network = wk_network_new(check_random(&random));
	wk_network_set_peer_timeout(w->network, 10 * S);
	if (chance(w, 4) == 0)
		wk_network_set_window(w->network, 2000 + chance(w, 60000));
	w->nodes_count = chance(w, 4) == 0 ? 3 : 4 + (uint32_t)chance(w, 2);
	w->hurries = chance(w, 2) == 0;
	for (uint32_t i = 0; i < w->nodes_count; i++)
		make_node(w, i);
	w->clients_count = chance(w, 3) == 0 ? 1 : CLIENTS_MAX;
	for (uint32_t i = 0; i < w->clients_count; i++) {
		w->clients[i].host = FIRST_CLIENT_HOST + i;
		start_client(w, &w->clients[i]);
	}
	w->ledgers_count = 1 + (uint32_t)chance(w, LEDGERS_MAX);
	for (uint32_t i = 0; i < w->ledgers_count; i++) {
		make_ledger(w, &w->ledgers[i], 7 + i);
		add_actor(w, ACTOR_WRITER, &w->ledgers[i], chance(w, 10 * MS));
	}
}

static void live(world *w) {
	uint64_t until_ns = 20 * MS + chance(w, chance(w, 4) == 0 ? 10 * S : 2 * S), rarely = 1 + chance(w, 12);
	uint64_t storm_at_ns = w->hurries || chance(w, 2) == 0
	                           ? chance(w, w->hurries ? sooner(until_ns, 400 * MS) : until_ns)
	                           : NEVER;
	while (now_of(w) < until_ns) {
		if (storm_at_ns <= now_of(w)) {
			recovery_in_a_storm(w);
			storm_at_ns = chance(w, 2) == 0 ? now_of(w) + chance(w, 300 * MS) : NEVER;
		}
		if (w->trouble_at_ns <= now_of(w)) {
			if (chance(w, rarely) == 0)
				something_goes_wrong(w);
			else
				somebody_comes(w);
			w->trouble_at_ns = now_of(w) + 1 + chance(w, until_ns / 40);
		}
		world_step(w);
	}
}

static void heal(world *w) {
	SAY(w, "everything is healed");
	w->calm = true;
	w->trouble_at_ns = NEVER;
	memset(w->cuts, 0, sizeof w->cuts);
	wk_network_heal(w->network);
	wk_network_set_delay(w->network, 20 * US, 200 * US);
	for (uint32_t i = 0; i < w->nodes_count; i++) {
		node *n = &w->nodes[i];
		n->disk_latency_ns = 300 * US;
		n->schedule.stalls_until_ns = 0;
		if (n->schedule.turn_at_ns != NEVER)
			n->schedule.turn_at_ns = now_of(w);
		wk_faulty_heal(wk_faulty_of(n->io));
		if (!n->up)
			continue;
		n->service->rules.read_only = false;
		stop_node(w, n, chance(w, 2) == 0); /* its journal may have failed */
	}
	for (uint32_t i = 0; i < w->clients_count; i++) {
		schedule *s = &w->clients[i].schedule;
		s->stalls_until_ns = 0;
		if (s->turn_at_ns != NEVER)
			s->turn_at_ns = now_of(w);
	}
	for (uint32_t i = 0; i < w->ledgers_count; i++)
		add_actor(w, ACTOR_RECOVERY, &w->ledgers[i], now_of(w) + chance(w, chance(w, 2) == 0 ? 10 * MS : 6 * S));
}

static bool all_is_done(const world *w) {
	for (uint32_t i = 0; i < w->actors_count; i++)
		if (w->actors[i].kind != ACTOR_NONE && w->actors[i].step != STEP_DONE)
			return false;
	for (uint32_t i = 0; i < w->nodes_count; i++)
		if (!w->nodes[i].up)
			return false;
	return true;
}

static void end_world(world *w) {
	for (uint32_t i = 0; i < w->clients_count; i++) {
		if (w->clients[i].up)
			stop_client(w, &w->clients[i], false);
		release_client(&w->clients[i]);
	}
	for (uint32_t i = 0; i < w->nodes_count; i++) {
		node *n = &w->nodes[i];
		n->net->operations->destroy(n->net);
		wk_service_free(n->service);
		close_store(n->ns);
		n->io->operations->destroy(n->io);
	}
	wk_network_free(w->network);
}

static void a_life_of(world *w, uint64_t seed) {
	make_world(w, seed);
	live(w);
	heal(w);
	uint64_t until_ns = now_of(w) + LIVENESS_NS;
	while (!all_is_done(w)) {
		CHECK(now_of(w) < until_ns);
		world_step(w);
	}
	for (uint32_t i = 0; i < w->ledgers_count; i++) {
		CHECK_EQ(w->ledgers[i].stored.state, LEDGER_CLOSED);
		look_at_closed(&w->ledgers[i]);
		look_at_disks(w, &w->ledgers[i]);
	}
	end_world(w);
}

int main(int argc, char **argv) {
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : SEEDS_DEFAULT;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : check_seed((uint64_t)time(NULL) * 1000);
	static char name[96];
	check_test_name = name;
	world w = {.ledgers = calloc(LEDGERS_MAX, sizeof(ledger_model)),
	           .actors = calloc(ACTORS_MAX, sizeof(actor)),
	           .prints = argc > 3};
	uint64_t turns = 0, acked = 0, moved = 0;
	clock_t began = clock();
	for (uint64_t i = 0; i < seeds; i++) {
		snprintf(name, sizeof name, "make cluster-simulation N=1 SEED=%llu repeats it",
		         (unsigned long long)(first + i));
		a_life_of(&w, first + i);
		turns += w.turns;
		for (uint32_t l = 0; l < w.ledgers_count; l++) {
			acked += (uint64_t)(w.ledgers[l].last_acked + 1);
			moved += w.ledgers[l].moved;
		}
	}
	double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
	printf(
	    "%llu clusters from seed %llu on, %lu checks, %llu turns, %llu entries acknowledged, %llu ledgers with other "
	    "bookies, %.0f seeds/s\n",
	    (unsigned long long)seeds, (unsigned long long)first, check_checks_count, (unsigned long long)turns,
	    (unsigned long long)acked, (unsigned long long)moved, (double)seeds / (seconds > 0 ? seconds : 1));
	free(w.ledgers);
	free(w.actors);
	return 0;
}
