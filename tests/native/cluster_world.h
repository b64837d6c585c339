/*
 * cluster_world.h: bookies and clients as a simulation runs them: real services over ledger stores on faulty disks, real
 * clients, a simulated network between them, one clock. The ledgers and who works on them: cluster_ledgers.h; the rules:
 * test_cluster_simulation.c.
 *
 * A process takes a turn where something tells it to, as its loop does, some microseconds later; time moves when nobody is
 * due. Whatever chance decides follows from the seed.
 */
#ifndef CLUSTER_WORLD_H
#define CLUSTER_WORLD_H
#include <errno.h>
#include <poll.h>

#include "client/driver.h"
#include "ledger_store.h"
#include "server/service.h"
#include "sim/network.h"
#include "walkeeper/client.h"

enum {
	BOOKIES_MAX = 5,
	CLIENTS_MAX = 2,
	EVENTS_MAX = 256,
	CUTS_MAX = 64,
	PORT = 3181,
	FIRST_CLIENT_HOST = 10,
	PAYLOAD_MAX = 60000,
	IDLE_STEPS_MAX = 20000
};

#define US 1000ull
#define MS 1000000ull
#define S 1000000000ull
#define NEVER UINT64_MAX

/* When a process takes its turn. */
typedef struct schedule {
	uint64_t turn_at_ns;      /* NEVER: it is not due */
	uint64_t stalls_until_ns; /* it stands still */
} schedule;

typedef struct node {
	uint32_t host;
	wk_io *io;
	wk_open_options store;
	wk_server_options options;
	bool commits; /* its loop writes the blocks; else the store does, at each step */
	/* while it runs */
	bool up;
	wk_namespace *ns;
	wk_net *net;
	wk_service *service;
	schedule schedule;
	uint64_t background_at_ns; /* when the store's own thread does something; NEVER: it has nothing to do */
	uint64_t disk_at_ns;       /* what is under way is not done before */
	uint64_t disk_latency_ns;  /* at the most */
	uint64_t up_at_ns;         /* while it is down */
} node;

typedef struct client_process {
	uint32_t host;
	bool up;
	wk_net *net;
	wk_client *client;
	schedule schedule;
	uint64_t deadline_ns;
	bool asked; /* something was asked of it behind its last turn */
	uint64_t up_at_ns;
} client_process;

/* A cut that is mended by itself. */
typedef struct short_cut {
	uint32_t from, to;
	uint64_t until_ns; /* 0: none */
} short_cut;

typedef struct ledger_model ledger_model;
typedef struct actor actor;

typedef struct world {
	uint64_t random;
	wk_network *network;
	node nodes[BOOKIES_MAX];
	client_process clients[CLIENTS_MAX];
	uint32_t nodes_count, clients_count;
	ledger_model *ledgers;
	uint32_t ledgers_count;
	actor *actors;
	uint32_t actors_count;
	short_cut cuts[CUTS_MAX];
	bool hurries; /* recoveries come early */
	bool calm;    /* nothing goes wrong any more */
	bool prints;
	uint64_t trouble_at_ns;
	uint32_t idle_steps;
	uint64_t turns;
} world;

static uint64_t chance(world *w, uint64_t n) {
	return check_random(&w->random) % n;
}

static uint64_t now_of(const world *w) {
	return wk_network_now(w->network);
}

static uint64_t sooner(uint64_t one_ns, uint64_t other_ns) {
	return one_ns < other_ns ? one_ns : other_ns;
}

#define SAY(w, ...)                                     \
	do {                                                \
		if ((w)->prints) {                              \
			printf("%12.6f ", (double)now_of(w) / 1e9); \
			printf(__VA_ARGS__);                        \
			printf("\n");                               \
		}                                               \
	} while (0)

/* ---- bookies ---- */

static void start_node(world *w, node *n) {
	wk_net_address bound;
	n->ns = open_store_with(n->io, &n->store);
	n->net = wk_network_endpoint(w->network, n->host);
	CHECK_EQ(wk_service_new(n->ns, n->net, &n->options, &n->service), WK_OK);
	if (n->commits)
		wk_service_commit(n->service);
	wk_service_begin(n->service, now_of(w), 0);
	CHECK_EQ(n->net->operations->listen(n->net, "", PORT, &bound), 0);
	n->schedule = (schedule){.turn_at_ns = NEVER};
	n->disk_at_ns = n->background_at_ns = now_of(w);
	n->up = true;
	SAY(w, "bookie %u is up", n->host);
}

static void make_node(world *w, uint32_t host) {
	node *n = &w->nodes[host];
	*n = (node){.host = host, .io = new_disk(check_random(&w->random)), .store = store_options()};
	wk_server_options_init(&n->options);
	n->options.reader_threads = 0;
	n->options.reads_max = 64;
	n->commits = chance(w, 3) != 0;
	n->disk_latency_ns = 300 * US;
	start_node(w, n);
}

/* It ends as by SIGKILL, or by a power cut; what its disk had not made durable is gone then. */
static void stop_node(world *w, node *n, bool power) {
	SAY(w, "bookie %u %s", n->host, power ? "loses its power" : "is killed");
	wk_faulty *disk = wk_faulty_of(n->io);
	if (power)
		wk_network_power_cut(n->net);
	n->net->operations->destroy(n->net);
	if (power)
		wk_faulty_crash(disk, check_random(&w->random));
	else
		wk_faulty_kill(disk);
	wk_service_free(n->service);
	wk_abandon(n->ns);
	wk_faulty_heal(disk);
	n->up = false;
	n->up_at_ns = now_of(w) + (chance(w, 2) == 0 ? chance(w, 20 * MS) : chance(w, 3 * S));
}

static bool waits_for_disk(const node *n) {
	return n->service->commits || n->service->armed != 0;
}

static bool store_tells(node *n) {
	int store, pool;
	wk_service_descriptors(n->service, &store, &pool);
	struct pollfd told = {.fd = store, .events = POLLIN};
	return poll(&told, 1, 0) == 1;
}

static uint64_t disk_latency(world *w, const node *n) {
	return 10 * US + chance(w, n->disk_latency_ns);
}

/* What is under way may be done by now: whether the store tells so. */
static bool disk_is_done(world *w, node *n) {
	if (!waits_for_disk(n) || now_of(w) < n->disk_at_ns)
		return false;
	if (!n->commits)
		(void)wk_namespace_step(n->ns, &(bool){false}, NULL); /* a failing disk is the service's to notice */
	if (store_tells(n))
		return true;
	n->disk_at_ns = now_of(w) + disk_latency(w, n);
	return false;
}

static bool node_is_due(world *w, node *n) {
	return wk_network_tells(n->net) || n->service->load.running > 0 || wk_service_deadline(n->service) <= now_of(w) ||
	       disk_is_done(w, n);
}

static void node_turn(world *w, node *n) {
	wk_net_event events[EVENTS_MAX];
	int count = n->net->operations->wait(n->net, events, EVENTS_MAX, 0);
	wk_service_begin(n->service, now_of(w), (int64_t)(now_of(w) / MS));
	for (int i = 0; i < count; i++)
		wk_service_event(n->service, &events[i]);
	if (now_of(w) >= n->disk_at_ns && store_tells(n))
		wk_service_store_event(n->service);
	wk_service_turn(n->service);
	n->background_at_ns = sooner(n->background_at_ns, now_of(w) + chance(w, MS));
	if (waits_for_disk(n) && n->disk_at_ns <= now_of(w))
		n->disk_at_ns = now_of(w) + disk_latency(w, n);
}

static uint64_t node_next(const node *n, uint64_t now_ns) {
	if (n->schedule.stalls_until_ns > now_ns)
		return n->schedule.stalls_until_ns;
	if (n->schedule.turn_at_ns != NEVER)
		return sooner(n->schedule.turn_at_ns, n->background_at_ns);
	uint64_t next_ns = sooner(wk_service_deadline(n->service), n->background_at_ns);
	return waits_for_disk(n) ? sooner(next_ns, n->disk_at_ns) : next_ns;
}

/* It makes files ready, and moves entries. */
static void background_step(world *w, node *n) {
	bool idle = false;
	wk_status status = wk_namespace_step(n->ns, &idle, NULL);
	n->background_at_ns = idle || status != WK_OK ? NEVER : now_of(w) + 1 + chance(w, 200 * US);
}

/* ---- clients ---- */

/* The process has ended; what it was sending may go on for a while. */
static void release_client(client_process *c) {
	if (c->client != NULL)
		wk_client_release(c->client);
	c->client = NULL;
}

static uint64_t world_clock(void *context) {
	return wk_network_now(context);
}

static void start_client(world *w, client_process *c) {
	wk_client_options options;
	wk_client_options_init(&options);
	options.connect_timeout_ns = 500 * MS;
	options.add_timeout_ns = 1000 * MS;
	options.read_timeout_ns = 400 * MS;
	options.change_timeout_ns = 1500 * MS;
	if (chance(w, 4) == 0)
		options.link_bytes_max = 3 * PAYLOAD_MAX + chance(w, 1000000);
	release_client(c);
	c->net = wk_network_endpoint(w->network, c->host);
	CHECK_EQ(wk_client_new(c->net, &options, world_clock, w->network, &c->client), WK_OK);
	for (uint32_t i = 0; i < w->nodes_count; i++) {
		char id[32], host[64];
		uint32_t bookie;
		snprintf(id, sizeof id, "bookie-%u", i);
		wk_network_address(i, host);
		CHECK_EQ(wk_client_bookie(c->client, id, host, PORT, &bookie, NULL), WK_OK);
		CHECK_EQ(bookie, i);
	}
	c->schedule = (schedule){.turn_at_ns = NEVER};
	c->deadline_ns = NEVER;
	c->asked = false;
	c->up = true;
	SAY(w, "client %u is up", c->host);
}

static uint64_t client_next(const client_process *c) {
	return c->schedule.turn_at_ns != NEVER ? c->schedule.turn_at_ns : c->deadline_ns;
}

static bool client_is_due(const world *w, const client_process *c) {
	return c->asked || c->deadline_ns <= now_of(w) || wk_network_tells(c->net);
}

static void client_turned(world *w, client_process *c);

static void client_turn(world *w, client_process *c) {
	wk_net_event events[EVENTS_MAX];
	int count = c->net->operations->wait(c->net, events, EVENTS_MAX, 0);
	c->asked = false;
	c->deadline_ns = wk_client_turn(c->client, events, count);
	client_turned(w, c);
}

/* ---- cuts ---- */

static void cut_for(world *w, uint32_t from, uint32_t to, uint64_t ns) {
	uint32_t i = 0;
	while (i < CUTS_MAX && w->cuts[i].until_ns != 0)
		i++;
	if (i == CUTS_MAX)
		return;
	w->cuts[i] = (short_cut){from, to, now_of(w) + ns};
	wk_network_cut(w->network, from, to);
}

static void mend_cuts(world *w) {
	for (uint32_t i = 0; i < CUTS_MAX; i++)
		if (w->cuts[i].until_ns != 0 && w->cuts[i].until_ns <= now_of(w)) {
			wk_network_mend(w->network, w->cuts[i].from, w->cuts[i].to);
			w->cuts[i].until_ns = 0;
		}
}

static uint64_t cuts_next(const world *w) {
	uint64_t next_ns = NEVER;
	for (uint32_t i = 0; i < CUTS_MAX; i++)
		if (w->cuts[i].until_ns != 0)
			next_ns = sooner(next_ns, w->cuts[i].until_ns);
	return next_ns;
}

/* ---- time ---- */

/* Whether the process takes its turn now; one that has become due takes it a moment later. */
static bool takes_turn(world *w, schedule *s, bool due) {
	if (s->turn_at_ns == NEVER && due)
		s->turn_at_ns = now_of(w) + (chance(w, 2) == 0 ? 0 : chance(w, 30 * US));
	if (s->turn_at_ns < s->stalls_until_ns)
		s->turn_at_ns = s->stalls_until_ns;
	if (s->turn_at_ns > now_of(w))
		return false;
	s->turn_at_ns = NEVER;
	return true;
}

static void advance(world *w, uint64_t to_ns) {
	uint64_t passed_ns = to_ns - now_of(w);
	for (uint32_t i = 0; i < w->nodes_count; i++)
		wk_faulty_advance(wk_faulty_of(w->nodes[i].io), passed_ns);
	wk_network_advance(w->network, to_ns);
}

static uint64_t actors_next(const world *w);
static void actors_act(world *w);

static uint64_t next_time(const world *w) {
	uint64_t next_ns = sooner(sooner(wk_network_next(w->network), actors_next(w)), cuts_next(w));
	for (uint32_t i = 0; i < w->nodes_count; i++)
		next_ns = sooner(next_ns, w->nodes[i].up ? node_next(&w->nodes[i], now_of(w)) : w->nodes[i].up_at_ns);
	for (uint32_t i = 0; i < w->clients_count; i++) {
		const client_process *c = &w->clients[i];
		next_ns = sooner(next_ns, c->up ? client_next(c) : c->up_at_ns);
	}
	return sooner(next_ns, w->trouble_at_ns);
}

/* Everybody who is due takes a turn; where nobody was, the time moves. */
static void world_step(world *w) {
	uint32_t first = (uint32_t)chance(w, w->nodes_count);
	uint64_t turns = w->turns;
	mend_cuts(w);
	actors_act(w);
	for (uint32_t i = 0; i < w->nodes_count; i++) {
		node *n = &w->nodes[(first + i) % w->nodes_count];
		if (!n->up && n->up_at_ns <= now_of(w))
			start_node(w, n);
		if (n->up && n->background_at_ns <= now_of(w) && n->schedule.stalls_until_ns <= now_of(w))
			background_step(w, n);
		if (!n->up || !takes_turn(w, &n->schedule, n->schedule.turn_at_ns == NEVER && node_is_due(w, n)))
			continue;
		node_turn(w, n);
		w->turns++;
	}
	for (uint32_t i = 0; i < w->clients_count; i++) {
		client_process *c = &w->clients[i];
		if (!c->up && c->up_at_ns <= now_of(w))
			start_client(w, c);
		if (!c->up || !takes_turn(w, &c->schedule, client_is_due(w, c)))
			continue;
		client_turn(w, c);
		w->turns++;
	}
	uint64_t next_ns = next_time(w);
	bool moves = next_ns > now_of(w) && next_ns != NEVER;
	w->idle_steps = moves || w->turns > turns ? 0 : w->idle_steps + 1;
	CHECK(w->idle_steps < IDLE_STEPS_MAX); /* else the world stands still */
	advance(w, moves ? next_ns : now_of(w));
}
#endif
