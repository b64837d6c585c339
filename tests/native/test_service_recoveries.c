/*
 * test_service_recoveries.c: where others fill all that there is, the fences, the recovery adds and the LACs that a ledger
 * without its writer needs go on (cluster rule 4).
 */
/* ctest labels: one-thread simulated */
#include "bookie_harness.h"
#include "engine/manual.h"

static bookie b;

/* Two connections have adds that the journal has no room for, and the disk writes nothing. */
static void fill_the_journal(peer *busy[2]) {
	bookie_prepare(&b, new_disk(7));
	b.store.in_flight_bytes = 16 * 1000;
	bookie_serve(&b);
	for (int i = 0; i < 2; i++) {
		busy[i] = bookie_connect(&b);
		for (int64_t id = 0; id < 60; id++)
			ask(busy[i], an_entry(i, id, id - 1, 1, 1000 - 36, 0));
	}
	for (int turns = 0; turns < 3; turns++)
		bookie_turn(&b, SIZE_MAX);
	CHECK(busy[0]->paused && busy[1]->paused);
}

static void all_is_answered(peer *p, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
	CHECK(!more_replies(p));
}

TEST(cluster_rule_4_a_recovery_goes_on_beside_writers_that_wait_for_the_journal) {
	peer *busy[2];
	fill_the_journal(busy);
	peer *recovers = bookie_connect(&b), *writes = bookie_connect(&b);
	ask(recovers, an_entry(8, 1, 0, 1, 300, WK_WIRE_RECOVERY));
	ask(recovers, a_fence(9, -1));
	ask(recovers, an_entry(8, 2, 1, 1, 300, WK_WIRE_RECOVERY));
	ask(writes, an_entry(7, 0, -1, 1, 300, 0));
	bookie_turn(&b, SIZE_MAX);
	bookie_turn(&b, SIZE_MAX);
	CHECK_EQ(b.service->stats.recovery_adds, 2);
	CHECK_EQ(b.service->stats.fences, 1);
	CHECK(!recovers->paused);
	CHECK(writes->paused && busy[0]->paused && busy[1]->paused);
	CHECK(!more_replies(recovers)); /* accepted is not durable */
	bookie_run(&b);
	for (int i = 0; i < 2; i++)
		all_is_answered(busy[i], 60);
	all_is_answered(writes, 1);
	CHECK_EQ(take_reply(recovers).operation, WK_WIRE_ADD);
	CHECK_EQ(b.service->load.spared, 0);
	bookie_close(&b);
}

/* In one turn: the writer's is the first that finds no room. */
TEST(cluster_rule_4_a_recovery_beside_the_first_add_without_room_is_accepted) {
	bookie_prepare(&b, new_disk(7));
	b.store.in_flight_bytes = 16 * 1000;
	bookie_serve(&b);
	peer *writes = bookie_connect(&b), *recovers = bookie_connect(&b);
	for (int64_t id = 0; id < 16; id++)
		ask(writes, an_entry(7, id, id - 1, 1, 1000 - 36, 0));
	bookie_turn(&b, SIZE_MAX);
	CHECK(!b.service->no_room);
	ask(writes, an_entry(7, 16, 15, 1, 300, 0));
	ask(recovers, an_entry(8, 1, 0, 1, 300, WK_WIRE_RECOVERY));
	bookie_turn(&b, SIZE_MAX);
	CHECK_EQ(b.service->stats.recovery_adds, 1);
	CHECK(writes->paused && !recovers->paused);
	bookie_run(&b);
	all_is_answered(writes, 17);
	all_is_answered(recovers, 1);
	bookie_close(&b);
}

/* What is left for recoveries has an end, too; and who sends more of it waits as a writer does, and loses nothing. */
TEST(cluster_rule_4_what_recoveries_add_beside_others_is_bounded) {
	peer *busy[2];
	fill_the_journal(busy);
	peer *recovers = bookie_connect(&b);
	for (int64_t id = 0; id < 40; id++)
		ask(recovers, an_entry(8, id, -1, 1, 300, WK_WIRE_RECOVERY));
	for (int turns = 0; turns < 3; turns++)
		bookie_turn(&b, SIZE_MAX);
	CHECK(b.service->stats.recovery_adds > 0 && b.service->stats.recovery_adds < 8);
	CHECK(recovers->paused);
	bookie_run(&b);
	for (int64_t id = 0; id < 40; id++)
		CHECK_EQ(take_reply(recovers).entry_id, id);
	CHECK(!recovers->paused);
	bookie_close(&b);
}

static void step(void) {
	uint64_t durable = wk_namespace_durable(b.ns);
	while (wk_namespace_durable(b.ns) == durable)
		CHECK_EQ(wk_namespace_step(b.ns, &(bool){false}, NULL), WK_OK);
	bookie_turn(&b, SIZE_MAX);
}

/* Adds that are larger than what is left in a block for them come first once there is another. */
TEST(cluster_rule_4_a_recovery_does_not_wait_for_all_that_writers_sent_before) {
	for (int fences = 0; fences < 2; fences++) {
		bookie_prepare(&b, new_disk(7));
		b.store.block_size_max = 32 * 1024;
		b.store.in_flight_bytes = 1 << 20;
		bookie_serve(&b);
		peer *busy = bookie_connect(&b);
		for (int64_t id = 0; id < 1000; id++)
			ask(busy, an_entry(1, id, id - 1, 1, 1000, fences ? WK_WIRE_RECOVERY : 0));
		for (int turns = 0; turns < 3; turns++)
			bookie_turn(&b, SIZE_MAX);
		CHECK(busy->paused);
		peer *recovers = bookie_connect(&b);
		ask(recovers, fences ? a_fence(9, -1) : an_entry(8, 1, 0, 1, 20000, WK_WIRE_RECOVERY));
		for (int blocks = 0; blocks < 3; blocks++)
			step();
		CHECK(more_replies(recovers));
		CHECK(busy->paused);
		bookie_run(&b);
		bookie_close(&b);
	}
}

/* Who adds small entries without end, as a recovery, beside one entry that is larger than a block: that one's turn comes. */
static int turns_beside_recoveries(uint32_t flags) {
	bookie_prepare(&b, new_disk(7));
	b.store.file_size_min = 4 << 20;
	b.store.file_size_max = 64 << 20;
	b.store.block_size_max = 32 * 1024;
	b.store.in_flight_bytes = 32 << 20;
	bookie_serve(&b);
	peer *recovers[4], *large;
	int64_t next[4] = {0};
	int turns = 0;
	for (int i = 0; i < 4; i++)
		recovers[i] = bookie_connect(&b);
	large = bookie_connect(&b); /* the others' come first in each turn */
	for (; !more_replies(large) && turns < 20000; turns++) {
		for (int i = 0; i < 4; i++) {
			if ((turns + i) % 2 == 0 && !recovers[i]->paused)
				ask(recovers[i], an_entry(i, next[i]++, -1, 1, 300, WK_WIRE_RECOVERY));
			while (more_replies(recovers[i]))
				CHECK_EQ(take_reply(recovers[i]).code, WK_WIRE_OK);
		}
		if (turns == 50)
			ask(large, an_entry(100, 0, -1, 1, 40000, flags));
		bookie_turn(&b, SIZE_MAX);
		CHECK_EQ(wk_namespace_step(b.ns, &(bool){false}, NULL), WK_OK);
	}
	bookie_close(&b);
	return turns;
}

TEST(a_large_entry_beside_recoveries_is_accepted_in_time) {
	int writer = turns_beside_recoveries(0), recovery = turns_beside_recoveries(WK_WIRE_RECOVERY);
	printf("a writer's after %d turns, a recovery's after %d\n", writer - 50, recovery - 50);
	CHECK(writer < 50 + WK_PASS_BYTES_MAX / 300); /* so many small ones may come before it */
	CHECK(recovery < 100);
}

/* In one batch, of several connections: each add is accepted once, in the order of its connection. */
TEST(adds_of_writers_and_of_recoveries_in_turn_are_answered_in_order) {
	bookie_prepare(&b, new_disk(7));
	b.store.in_flight_bytes = 16 * 1000;
	bookie_serve(&b);
	peer *p[4];
	int64_t answered[4] = {0};
	for (int i = 0; i < 4; i++) {
		p[i] = bookie_connect(&b);
		for (int64_t id = 0; id < 200; id++)
			ask(p[i], an_entry(i, id, -1, 1, 300, (id + i) % 3 == 0 ? WK_WIRE_RECOVERY : 0));
	}
	for (int turns = 0; answered[0] + answered[1] + answered[2] + answered[3] < 800; turns++) {
		CHECK(turns < 10000);
		bookie_turn(&b, 3000);
		CHECK_EQ(wk_namespace_step(b.ns, &(bool){false}, NULL), WK_OK);
		for (int i = 0; i < 4; i++)
			while (more_replies(p[i])) {
				wk_wire_reply reply = take_reply(p[i]);
				CHECK_EQ(reply.code, WK_WIRE_OK);
				CHECK_EQ(reply.entry_id, answered[i]++);
			}
	}
	bookie_close(&b);
}

enum { LEDGERS = 8, LISTS = 200 };

/* Lists of entries fill what may wait until something is durable. */
static void fill_what_is_held(void) {
	bookie_open(&b, new_disk(7));
	for (int i = 0; i < LEDGERS; i++) {
		peer *p = bookie_connect(&b);
		CHECK_EQ(answer_to(p, an_entry(i, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
		ask(p, an_entry(i, 1, 0, 1, 20, WK_WIRE_DEFERRED));
		for (int k = 0; k < LISTS; k++)
			ask(p, of_ledger(WK_WIRE_LIST_ENTRIES, i));
	}
	bookie_turn(&b, SIZE_MAX);
	CHECK(b.service->load.held >= b.options.reads_max);
}

static uint32_t refused_of(peer *p, uint32_t count) {
	uint32_t refused = 0;
	for (uint32_t i = 0; i < count; i++)
		refused += take_reply(p).code == WK_WIRE_TOO_MANY_REQUESTS;
	CHECK(!more_replies(p));
	return refused;
}

static void eight_of(wk_wire_request (*request)(int64_t ledger_id), uint32_t least, uint32_t most) {
	fill_what_is_held();
	peer *recovers = bookie_connect(&b);
	for (int i = 0; i < LEDGERS; i++)
		ask(recovers, request(i));
	bookie_turn(&b, SIZE_MAX);
	bookie_run(&b);
	uint32_t refused = refused_of(recovers, LEDGERS);
	CHECK(refused >= least && refused <= most);
	CHECK_EQ(b.service->load.spared, 0);
	CHECK_EQ(b.service->load.held, 0);
	bookie_close(&b);
}

static wk_wire_request fences_it(int64_t ledger_id) {
	return a_fence(ledger_id, 0);
}

static wk_wire_request asks_for_its_lac(int64_t ledger_id) {
	return of_ledger(WK_WIRE_READ_LAC, ledger_id);
}

static wk_wire_request lists_it(int64_t ledger_id) {
	return of_ledger(WK_WIRE_LIST_ENTRIES, ledger_id);
}

TEST(cluster_rule_4_fences_and_lacs_are_not_refused_for_what_others_wait_for) {
	eight_of(fences_it, 0, 0);
	eight_of(asks_for_its_lac, 0, 2);             /* readers ask as well: they have half of it */
	eight_of(lists_it, LEDGERS - 2, LEDGERS - 1); /* of an ordinary request, the first of its connection alone */
}

/* Half of it is for nobody but them. */
TEST(cluster_rule_4_fences_are_not_refused_for_lacs_that_wait) {
	fill_what_is_held();
	peer *reads = bookie_connect(&b), *recovers = bookie_connect(&b);
	for (int i = 0; i < LISTS; i++)
		ask(reads, asks_for_its_lac(i % LEDGERS));
	for (int i = 0; i < 5; i++)
		ask(recovers, fences_it(i));
	bookie_turn(&b, SIZE_MAX);
	bookie_run(&b);
	CHECK(refused_of(reads, LISTS) > LISTS / 2);
	CHECK_EQ(refused_of(recovers, 5), 0);
	CHECK_EQ(b.service->load.spared, 0);
	bookie_close(&b);
}

TEST(cluster_rule_4_fences_and_lacs_beside_what_others_wait_for_are_bounded) {
	fill_what_is_held();
	peer *recovers = bookie_connect(&b);
	for (int i = 0; i < LISTS; i++)
		ask(recovers, i % 2 == 0 ? fences_it(i % LEDGERS) : asks_for_its_lac(i % LEDGERS));
	bookie_turn(&b, SIZE_MAX);
	CHECK(b.service->load.held <=
	      b.options.reads_max + 2 * (LEDGERS + 1) + wk_budget_for_recoveries(&b.service->limits));
	bookie_run(&b);
	CHECK(refused_of(recovers, LISTS) > LISTS / 2);
	CHECK_EQ(b.service->load.spared, 0);
	bookie_close(&b);
}

/* Who leaves takes along what waited. */
TEST(a_connection_that_ends_leaves_nothing_in_what_is_for_recoveries) {
	bookie_prepare(&b, new_disk(7));
	b.options.reply_bytes = 1 << 16;
	b.options.reads_max = 4;
	bookie_serve(&b);
	peer *writes = bookie_connect(&b), *p = bookie_connect(&b);
	CHECK_EQ(answer_to(writes, an_entry(5, 0, -1, 1, 30000, 0)).code, WK_WIRE_OK);
	p->deaf = true;
	for (int i = 0; i < 30; i++)
		ask(p, asks_for_its_lac(5));
	bookie_turn(&b, SIZE_MAX);
	bookie_turn(&b, SIZE_MAX);
	CHECK(b.service->load.spared > 0);
	hang_up(p);
	bookie_run(&b);
	CHECK_EQ(b.service->load.spared, 0);
	CHECK_EQ(b.service->load.waiting, 0);
	bookie_close(&b);
}

int main(void) {
	RUN(cluster_rule_4_a_recovery_goes_on_beside_writers_that_wait_for_the_journal);
	RUN(cluster_rule_4_a_recovery_beside_the_first_add_without_room_is_accepted);
	RUN(cluster_rule_4_what_recoveries_add_beside_others_is_bounded);
	RUN(cluster_rule_4_a_recovery_does_not_wait_for_all_that_writers_sent_before);
	RUN(a_large_entry_beside_recoveries_is_accepted_in_time);
	RUN(adds_of_writers_and_of_recoveries_in_turn_are_answered_in_order);
	RUN(cluster_rule_4_fences_and_lacs_are_not_refused_for_what_others_wait_for);
	RUN(cluster_rule_4_fences_are_not_refused_for_lacs_that_wait);
	RUN(cluster_rule_4_fences_and_lacs_beside_what_others_wait_for_are_bounded);
	RUN(a_connection_that_ends_leaves_nothing_in_what_is_for_recoveries);
	return check_done();
}
