/*
 * test_service_stalls.c: who stalls, for whatever reason, goes on; what waits and what is not read stays within the memory
 * for it; and the loop never sleeps while something is due.
 */
/* ctest labels: one-thread simulated */
#include "bookie_harness.h"
#include "engine/manual.h"
#include "sim/faulty.h"

static bookie b;

static peer *open_with_peer(uint32_t version) {
	bookie_open(&b, new_disk(7));
	peer *p = bookie_connect(&b);
	p->version = version;
	return p;
}

TEST(polls_that_end_let_the_connection_go_on) {
	bookie_prepare(&b, new_disk(7));
	b.options.reads_max = 4096;
	bookie_serve(&b);
	peer *p = bookie_connect(&b);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	for (int i = 0; i < 3000; i++)
		ask(p, a_poll(5, 0, 50));
	bookie_run(&b);
	CHECK_EQ(answer_to(p, a_read(5, 0)).code, WK_WIRE_OK); /* polls that wait do not hold up what is behind them */
	bookie_wait(&b, 51);
	bookie_run(&b);
	uint32_t replies = 0;
	for (; more_replies(p); replies++)
		CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
	CHECK_EQ(replies, 3000);
	CHECK_EQ(p->tag != 0 ? ((wk_peer *)(uintptr_t)p->tag)->own.reads : 1, 0);
	CHECK(!p->paused);
	CHECK_EQ(answer_to(p, a_read(5, 0)).code, WK_WIRE_OK);
	bookie_close(&b);
}

TEST(fences_that_a_journal_failed_leave_nothing_behind) {
	bookie_prepare(&b, new_disk(7));
	b.options.reads_max = 2000; /* as many may wait */
	bookie_serve(&b);
	peer *p = bookie_connect(&b);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	wk_faulty_fail(wk_faulty_of(b.io), WK_FAULT_WRITE | WK_FAULT_SYNC, 0, EIO, true);
	for (int i = 0; i < 2000; i++)
		ask(p, a_fence(5, 0));
	bookie_run(&b);
	uint32_t replies = 0;
	for (; more_replies(p); replies++)
		CHECK_EQ(take_reply(p).code, WK_WIRE_IO_ERROR);
	CHECK_EQ(replies, 2000);
	CHECK_EQ(answer_to(p, a_read(5, 0)).code, WK_WIRE_OK);
	bookie_abandon(&b);
}

/* Fences, lists and what seems to be absent wait for the journal: so many of all connections. */
static void held_are_bounded(wk_wire_request (*request)(int64_t ledger_id), uint32_t flags) {
	bookie_prepare(&b, new_disk(7));
	bookie_serve(&b);
	peer *p[8], *quiet = bookie_connect(&b);
	for (int i = 0; i < 8; i++) {
		p[i] = bookie_connect(&b);
		CHECK_EQ(answer_to(p[i], an_entry(i, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	}
	for (int i = 0; i < 8; i++) {
		ask(p[i], an_entry(i, 1, 0, 1, 20, flags));
		for (int k = 0; k < 200; k++)
			ask(p[i], request(i));
	}
	ask(quiet, request(0));
	uint64_t most = 0;
	for (int i = 0; i < 5; i++) { /* the disk writes nothing meanwhile */
		bookie_turn(&b, SIZE_MAX);
		most = b.service->load.held > most ? b.service->load.held : most;
	}
	CHECK(most > 0 && most <= b.options.reads_max + wk_budget_for_recoveries(&b.service->limits) + 2 * 9);
	bookie_run(&b);
	uint32_t refused = 0;
	for (int i = 0; i < 8; i++)
		while (more_replies(p[i]))
			refused += take_reply(p[i]).code == WK_WIRE_TOO_MANY_REQUESTS;
	CHECK(refused > 8 * 200 - b.options.reads_max - 110);
	CHECK(take_reply(quiet).code != WK_WIRE_TOO_MANY_REQUESTS);
	CHECK_EQ(b.service->load.held, 0);
	CHECK_EQ(b.service->stats.too_many_requests, refused);
	bookie_close(&b);
}

static wk_wire_request fences_it(int64_t ledger_id) {
	return a_fence(ledger_id, 0);
}

static wk_wire_request lists_it(int64_t ledger_id) {
	return of_ledger(WK_WIRE_LIST_ENTRIES, ledger_id);
}

TEST(cluster_rule_4_what_waits_for_the_journal_is_bounded_for_all_connections) {
	held_are_bounded(fences_it, 0);
	held_are_bounded(lists_it, 0);
}

/* Answers of a batch may let a connection go on, whose adds are the next batch's. */
TEST(adds_that_go_on_while_a_batch_is_answered_do_not_mix_with_it) {
	bookie_prepare(&b, new_disk(7));
	b.options.reads_max = 2000;
	bookie_serve(&b);
	peer *writer = bookie_connect(&b), *reader = bookie_connect(&b);
	CHECK_EQ(answer_to(writer, an_entry(5, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	for (int i = 0; i < WK_PEER_READS_MAX; i++)
		ask(reader, a_poll(5, 0, 100000));
	bookie_run(&b);
	for (int64_t id = 0; id < 40; id++)
		ask(reader, an_entry(6, id, -1, 9, 300, 0));
	bookie_turn(&b, SIZE_MAX);
	b.service->limits.reads_max = 0; /* the polls' reads find too many before them */
	for (int64_t id = 1; id < 30; id++)
		ask(writer, an_entry(5, id, id - 1, 1, 300, WK_WIRE_DEFERRED));
	bookie_run(&b);
	for (int64_t id = 1; id < 30; id++) {
		wk_wire_reply reply = take_reply(writer);
		CHECK_EQ(reply.code, WK_WIRE_OK);
		CHECK_EQ(reply.entry_id, id);
		CHECK_EQ(reply.ledger_id, 5);
	}
	CHECK(!more_replies(writer));
	uint32_t added = 0, refused = 0;
	while (more_replies(reader)) {
		wk_wire_reply reply = take_reply(reader);
		if (reply.operation == WK_WIRE_ADD)
			CHECK_EQ(reply.entry_id, added++);
		else
			refused += reply.code == WK_WIRE_TOO_MANY_REQUESTS;
	}
	CHECK_EQ(added, 40);
	CHECK(refused > WK_PEER_READS_MAX / 2); /* many answers in the middle of the batch */
	bookie_close(&b);
}

TEST(what_waits_for_the_journal_stays_within_the_memory_for_it) {
	bookie_prepare(&b, new_disk(7));
	b.store.in_flight_bytes = 16 * 1024;
	b.options.frame_size_max = 128 * 1024;
	b.options.receive_bytes = 256 * 1024;
	bookie_serve(&b);
	for (int i = 0; i < PEERS_MAX; i++) {
		peer *p = bookie_connect(&b);
		for (int64_t id = 0; id < 100; id++)
			ask(p, an_entry(i, id, id - 1, 1, 1000, 0));
	}
	for (int i = 0; i < 3; i++) {
		bookie_turn(&b, SIZE_MAX);
		CHECK(b.service->input_bytes <= 256 * 1024 + 16 * 1024 + 128 * 1024);
	}
	CHECK(b.service->stats.connections < PEERS_MAX); /* those that no memory was left for */
	CHECK(b.service->stats.connections > 0);
	bookie_close(&b);
}

TEST(who_waits_for_memory_goes_on_once_there_is_some) {
	bookie_prepare(&b, new_disk(7));
	b.store.in_flight_bytes = 16 * 1024;
	b.options.receive_bytes = 20000;
	bookie_serve(&b);
	peer *busy = bookie_connect(&b), *other = bookie_connect(&b);
	for (int64_t id = 0; id < 60; id++)
		ask(busy, an_entry(5, id, id - 1, 1, 1000, 0));
	bookie_turn(&b, SIZE_MAX);
	bookie_turn(&b, SIZE_MAX);
	CHECK(busy->paused && b.service->input_bytes > 20000);
	ask(other, an_entry(6, 0, -1, 1, 1000, 0));
	size_t rest = other->out.size - 500;
	other->out.size = 500;
	bookie_turn(&b, SIZE_MAX);
	CHECK(other->paused);
	for (int i = 0; i < 100; i++) {
		bookie_run(&b);
		bookie_wait(&b, 101);
	}
	CHECK(!busy->paused);
	CHECK(!other->paused);
	other->out.size = rest;
	memmove(other->out.bytes, other->out.bytes + 500, rest);
	for (int i = 0; i < 10; i++) {
		bookie_run(&b);
		bookie_wait(&b, 101);
	}
	CHECK_EQ(take_reply(other).code, WK_WIRE_OK);
	bookie_close(&b);
}

/* A force of what an earlier life stored waits for nothing, and nothing would end its wait. */
TEST(what_is_durable_already_is_answered_without_another_event) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, an_entry(9, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	bookie_restart(&b, false, 1);
	p = bookie_connect(&b);
	p->deaf = true; /* no answer that is sent starts another turn */
	ask(p, a_lac(5, 5));
	ask(p, a_lac(5, 3)); /* stalls, until the first one is durable */
	ask(p, of_ledger(WK_WIRE_FORCE, 9));
	bookie_run(&b);
	CHECK_EQ(b.service->owed_count, 0);
	hear(p);
	bookie_run(&b);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
	bookie_close(&b);
}

/* Those that stall are looked at in the order in which they came: nobody waits for ever. */
TEST(who_stalls_first_goes_on_first) {
	bookie_prepare(&b, new_disk(7));
	b.store.in_flight_bytes = 16 * 1024;
	bookie_serve(&b);
	peer *p[8];
	uint32_t answered[8] = {0};
	for (int i = 0; i < 8; i++)
		p[i] = bookie_connect(&b);
	int64_t id = 0;
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 8; i++)
			while (p[i]->out.size < 20000)
				ask(p[i], an_entry(i, ++id, -1, 1, 1000, 0));
		bookie_turn(&b, 10000);
		CHECK_EQ(wk_namespace_step(b.ns, &(bool){false}, NULL), WK_OK);
		for (int i = 0; i < 8; i++)
			for (; more_replies(p[i]); answered[i]++)
				(void)take_reply(p[i]);
	}
	uint32_t least = UINT32_MAX, most = 0;
	for (int i = 0; i < 8; i++) {
		least = answered[i] < least ? answered[i] : least;
		most = answered[i] > most ? answered[i] : most;
	}
	printf("adds answered of eight: %u to %u\n", least, most);
	CHECK(least > 10 && most < 4 * least);
	bookie_close(&b);
}

/* The pool's threads: what they had done and nobody took is freed once. */
TEST(a_service_ends_while_reads_are_done) {
	bookie_prepare(&b, new_disk(7));
	b.options.reader_threads = 2;
	bookie_serve(&b);
	peer *p = bookie_connect(&b);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	for (int i = 0; i < 30; i++)
		ask(p, a_read(5, 0));
	bookie_turn(&b, SIZE_MAX);
	struct pollfd told = {.fd = wk_read_pool_descriptor(b.service->pool), .events = POLLIN};
	CHECK_EQ(poll(&told, 1, 60000), 1);
	bookie_close(&b);
}

/* The LAC that it carries is what a reader learns. */
TEST(an_entry_acknowledged_as_deferred_is_the_last_one) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	for (int64_t id = 1; id < 3; id++) {
		ask(p, an_entry(5, id, id - 1, 10, 20, WK_WIRE_DEFERRED));
		bookie_turn(&b, SIZE_MAX);
		bookie_turn(&b, SIZE_MAX);
		CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
		wk_wire_reply reply = answer_to(p, id == 1 ? of_ledger(WK_WIRE_READ_LAC, 5) : a_read(5, -1));
		CHECK_EQ(reply.code, WK_WIRE_OK);
		CHECK_EQ(wk_load_be64_signed(reply.body + 8), id);
	}
	bookie_close(&b);
}

TEST(small_answers_that_nobody_reads_stay_within_the_memory_for_them) {
	bookie_prepare(&b, new_disk(7));
	b.options.reply_bytes = 1 << 20;
	bookie_serve(&b);
	peer *healthy = bookie_connect(&b);
	CHECK_EQ(answer_to(healthy, an_entry(5, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	for (int i = 1; i < PEERS_MAX; i++) {
		peer *p = bookie_connect(&b);
		p->deaf = true;
		for (int k = 0; k < 8000; k++)
			ask(p, of_ledger(WK_WIRE_AUTH, 0));
	}
	uint64_t most = 0;
	for (int i = 0; i < 100; i++) {
		bookie_turn(&b, 65536);
		most = b.service->load.reply_bytes > most ? b.service->load.reply_bytes : most;
	}
	CHECK(most <= (1 << 20) + (1 << 20) / 10);
	for (int64_t id = 1; id < 100; id++)
		CHECK_EQ(answer_to(healthy, an_entry(5, id, -1, 1, 20, 0)).code, WK_WIRE_OK);
	bookie_wait(&b, 31000);
	bookie_run(&b);
	CHECK_EQ(b.service->stats.connections, 1); /* who is deaf and holds so much is closed */
	CHECK_EQ(b.service->load.reply_bytes, 0);
	bookie_close(&b);
}

TEST(idle_connections_keep_little) {
	bookie_prepare(&b, new_disk(7));
	b.options.reply_bytes = 1 << 20;
	bookie_serve(&b);
	peer *p[PEERS_MAX];
	for (int i = 0; i < PEERS_MAX; i++) {
		p[i] = bookie_connect(&b);
		CHECK_EQ(answer_to(p[i], an_entry(5, i, -1, 1, 5000, 0)).code, WK_WIRE_OK);
	}
	for (int i = 0; i < PEERS_MAX; i++) {
		for (int k = 0; k < 900; k++)
			ask(p[i], k % 2 == 0 ? a_read(5, i) : of_ledger(WK_WIRE_AUTH, 0));
		bookie_run(&b);
		p[i]->in.size = 0;
	}
	uint64_t kept = 0;
	for (const wk_peer *one = b.service->peers; one != NULL; one = one->next)
		kept += one->filling.capacity + one->sent.capacity +
		        (one->filling.parts_capacity + one->sent.parts_capacity) * sizeof *one->sent.parts;
	CHECK(kept <= b.options.reply_bytes / 10);
	bookie_close(&b);
}

TEST(who_comes_while_it_drains_is_not_served) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	peer *late = bookie_connect(&b);
	wk_service_drain(b.service);
	ask(late, an_entry(5, 1, -1, 1, 20, 0));
	bookie_run(&b);
	CHECK(!has_reply(late));
	CHECK(wk_service_is_idle(b.service));
	bookie_close(&b);
}

/* As it comes, once more where it waits, and once for the beginning of a frame: not for each time that it stalls. */
static uint64_t most_copied(uint64_t received) {
	return 3 * received + 65536;
}

TEST(who_stalls_again_and_again_is_not_copied_each_time) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	for (int64_t lac = 0; lac < 3000; lac++)
		ask(p, a_lac(5, lac)); /* each waits until the one before is durable */
	uint64_t received = p->out.size;
	for (int64_t lac = 0; lac < 3000;) {
		bookie_turn(&b, SIZE_MAX);
		CHECK_EQ(wk_namespace_step(b.ns, &(bool){false}, NULL), WK_OK);
		for (; more_replies(p); lac++)
			CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
	}
	CHECK(b.service->copied_bytes <= most_copied(received));
	CHECK(b.service->copied_bytes > received / 2); /* it did wait */
	CHECK_EQ(b.service->input_bytes, 0);
	bookie_close(&b);
}

TEST(what_stalls_has_taken_as_long_as_it_stalled) {
	bookie_prepare(&b, new_disk(7));
	b.store.in_flight_bytes = 16 * 1024;
	bookie_serve(&b);
	peer *p = bookie_connect(&b);
	for (int64_t id = 0; id < 30; id++)
		ask(p, an_entry(5, id, id - 1, 1, 1000, 0));
	bookie_turn(&b, SIZE_MAX);
	CHECK(p->paused);
	CHECK_EQ(p->out.size, 0);
	uint64_t least_ns = 1ULL << 30;
	for (int i = 0; i < 12; i++) { /* the disk writes nothing meanwhile, and the connection is looked at each time */
		bookie_wait(&b, 100);
		bookie_turn(&b, SIZE_MAX);
	}
	for (int64_t id = 30; id < 40; id++) /* a piece that was under way */
		ask(p, an_entry(5, id, id - 1, 1, 1000, 0));
	p->comes_late = true;
	bookie_turn(&b, SIZE_MAX);
	CHECK_EQ(p->out.size, 0);
	for (int i = 0; i < 1000 && b.service->stats.add_ns.count < 40; i++) {
		bookie_run(&b);
		bookie_wait(&b, 1);
	}
	CHECK_EQ(b.service->stats.add_ns.count, 40);
	for (int i = 0; i < WK_HISTOGRAM_BUCKETS && 1ULL << i <= least_ns; i++)
		CHECK_EQ(b.service->stats.add_ns.buckets[i], 0);
	ask(p, an_entry(5, 40, 39, 1, 1000, 0)); /* and no longer than that */
	bookie_run(&b);
	CHECK_EQ(b.service->stats.add_ns.count, 41);
	uint64_t quick = 0;
	for (int i = 0; i < WK_HISTOGRAM_BUCKETS && 1ULL << i <= least_ns; i++)
		quick += b.service->stats.add_ns.buckets[i];
	CHECK_EQ(quick, 1);
	bookie_close(&b);
}

/* What the journal has no room for comes back from a batch, in small pieces that end in the middle of a frame. */
TEST(adds_that_come_back_are_not_copied_each_time) {
	bookie_prepare(&b, new_disk(7));
	b.store.in_flight_bytes = 16 * 1024;
	bookie_serve(&b);
	peer *p[4];
	int64_t answered[4] = {0};
	uint64_t received = 0;
	for (int i = 0; i < 4; i++) {
		p[i] = bookie_connect(&b);
		for (int64_t id = 0; id < 1500; id++)
			ask(p[i], an_entry(i, id, id - 1, 1, (size_t)(id * 17 % 600) + 20, 0));
		received += p[i]->out.size;
	}
	for (int turns = 0; answered[0] + answered[1] + answered[2] + answered[3] < 6000; turns++) {
		CHECK(turns < 100000);
		bookie_turn(&b, turns % 7 == 0 ? 65536 : 1777);
		CHECK_EQ(wk_namespace_step(b.ns, &(bool){false}, NULL), WK_OK);
		for (int i = 0; i < 4; i++)
			while (more_replies(p[i])) {
				wk_wire_reply reply = take_reply(p[i]);
				CHECK_EQ(reply.code, WK_WIRE_OK);
				CHECK_EQ(reply.entry_id, answered[i]++);
			}
	}
	printf("copied %.2f times\n", (double)b.service->copied_bytes / (double)received);
	CHECK(b.service->copied_bytes <= most_copied(received));
	CHECK_EQ(b.service->input_bytes, 0);
	CHECK_EQ(b.service->partial_count, 0);
	bookie_close(&b);
}

enum { REFUSALS = 100 };

/* The adds before it come back from the batch, and it with them: a read made them wait, and all behind it as it came. */
static void every_third_is_refused_once(bool damaged, uint32_t flags, uint32_t code) {
	bookie_prepare(&b, new_disk(7));
	b.store.in_flight_bytes = 16 * 1024;
	bookie_serve(&b);
	int64_t *limbo = malloc(sizeof *limbo);
	CHECK(limbo != NULL);
	*limbo = 6;
	wk_service_set_limbo(b.service, false, limbo, 1);
	peer *p = bookie_connect(&b);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 1, 1000, flags)).code, WK_WIRE_OK);
	bool paused = false;
	for (int64_t id = 1; id < REFUSALS; id++) {
		bool refused = id % 3 == 0;
		wk_wire_request request = an_entry(refused && !damaged ? 6 : 5, id, id - 1, 1, 1000, refused ? 0 : flags);
		((uint8_t *)request.body)[35] ^= damaged && refused; /* the harness's own bytes */
		ask(p, request);
		if (id == REFUSALS / 4)
			ask(p, of_ledger(WK_WIRE_READ_LAC, 5));
	}
	uint32_t answers[REFUSALS] = {0};
	uint64_t accepted = 1;
	for (int turns = 0; turns < 1000; turns++) {
		bookie_turn(&b, SIZE_MAX);
		paused |= p->paused;
		CHECK_EQ(wk_namespace_step(b.ns, &(bool){false}, NULL), WK_OK);
		while (more_replies(p)) {
			wk_wire_reply reply = take_reply(p);
			if (reply.operation != WK_WIRE_ADD)
				continue;
			answers[reply.entry_id]++;
			accepted += reply.code == WK_WIRE_OK;
			CHECK_EQ(reply.code, reply.entry_id % 3 == 0 ? code : WK_WIRE_OK);
		}
	}
	CHECK(paused);
	wk_stats stats;
	wk_namespace_stats(b.ns, &stats);
	CHECK_EQ(stats.appended_records, accepted); /* each once, however often it came back */
	CHECK_EQ(b.service->stats.recovery_adds, flags == WK_WIRE_RECOVERY ? accepted : 0);
	for (int64_t id = 1; id < REFUSALS; id++)
		CHECK_EQ(answers[id], 1);
	bookie_close(&b);
}

TEST(what_limbo_refuses_behind_an_add_without_room_is_answered_once) {
	every_third_is_refused_once(false, 0, WK_WIRE_READ_ONLY);
	every_third_is_refused_once(false, WK_WIRE_RECOVERY, WK_WIRE_READ_ONLY);
}

TEST(a_damaged_add_behind_one_without_room_is_answered_once) {
	every_third_is_refused_once(true, 0, WK_WIRE_IO_ERROR);
	every_third_is_refused_once(true, WK_WIRE_RECOVERY, WK_WIRE_IO_ERROR);
}

/* They stand in one batch with others', and are not refused with them. */
TEST(cluster_rule_5_a_recovery_add_beside_one_that_finds_the_disk_full_is_accepted) {
	bookie_prepare(&b, new_disk(7));
	b.store.file_size_min = b.store.file_size_max = 256 * 1024;
	bookie_serve(&b);
	wk_faulty_set_capacity(wk_faulty_of(b.io), 3 * 1024 * 1024);
	peer *writer = bookie_connect(&b), *recovery = bookie_connect(&b);
	uint32_t code = WK_WIRE_OK;
	int64_t id = 0;
	for (; code == WK_WIRE_OK; id++) {
		CHECK(id < 2000);
		code = answer_to(writer, an_entry(7, id, -1, 1, 8000, 0)).code;
	}
	CHECK_EQ(code, WK_WIRE_READ_ONLY);
	for (int64_t i = 0; i < 3; i++) {
		ask(writer, an_entry(7, id, -1, 1, 8000, 0));
		ask(recovery, an_entry(8, i, -1, 1, 8000, WK_WIRE_RECOVERY));
		bookie_run(&b);
		CHECK_EQ(take_reply(writer).code, WK_WIRE_READ_ONLY);
		CHECK_EQ(take_reply(recovery).code, WK_WIRE_OK);
	}
	bookie_close(&b);
}

static uint32_t force_pipelined(peer **peers, uint32_t count, uint32_t each) {
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = 0; k < each; k++)
			ask(peers[i], of_ledger(WK_WIRE_FORCE, 5));
	for (int i = 0; i < 200; i++) /* the disk stands still: nobody steps the store */
		bookie_turn(&b, 65536);
	return b.service->waits.count;
}

/* They take no room in a journal that stands still. */
TEST(cluster_rule_4_who_forces_without_end_is_not_read) {
	bookie_open(&b, new_disk(7));
	peer *p[PEERS_MAX];
	for (int i = 0; i < PEERS_MAX; i++)
		p[i] = bookie_connect(&b);
	bookie_run(&b);
	ask(p[0], an_entry(5, 0, -1, 1, 20, 0));
	CHECK_EQ(force_pipelined(p, 1, 20000), 1 + 1024);
	CHECK(p[0]->paused);
	bookie_run(&b);
	for (int k = 0; k < 20001; k++) {
		wk_wire_reply reply = take_reply(p[0]);
		CHECK_EQ(reply.code, WK_WIRE_OK);
		CHECK_EQ(reply.txn_id, (uint64_t)k + 1);
	}
	b.service->load.forces = WK_FORCES_MAX - 100; /* of others */
	ask(p[0], an_entry(5, 1, 0, 1, 20, 0));
	CHECK_EQ(force_pipelined(p, PEERS_MAX, 1000),
	         1 + 100 + PEERS_MAX - 1); /* one more of each that waited for nothing */
	b.service->load.forces -= WK_FORCES_MAX - 100;
	bookie_run(&b);
	for (int i = 0; i < PEERS_MAX; i++)
		for (int k = 0; k < 1000 + (i == 0); k++)
			CHECK_EQ(take_reply(p[i]).code, WK_WIRE_OK);
	CHECK_EQ(b.service->load.forces, 0);
	bookie_close(&b);
}

int main(void) {
	RUN(polls_that_end_let_the_connection_go_on);
	RUN(fences_that_a_journal_failed_leave_nothing_behind);
	RUN(cluster_rule_4_what_waits_for_the_journal_is_bounded_for_all_connections);
	RUN(adds_that_go_on_while_a_batch_is_answered_do_not_mix_with_it);
	RUN(what_waits_for_the_journal_stays_within_the_memory_for_it);
	RUN(who_waits_for_memory_goes_on_once_there_is_some);
	RUN(what_is_durable_already_is_answered_without_another_event);
	RUN(who_stalls_first_goes_on_first);
	RUN(a_service_ends_while_reads_are_done);
	RUN(an_entry_acknowledged_as_deferred_is_the_last_one);
	RUN(small_answers_that_nobody_reads_stay_within_the_memory_for_them);
	RUN(idle_connections_keep_little);
	RUN(who_comes_while_it_drains_is_not_served);
	RUN(who_stalls_again_and_again_is_not_copied_each_time);
	RUN(what_limbo_refuses_behind_an_add_without_room_is_answered_once);
	RUN(a_damaged_add_behind_one_without_room_is_answered_once);
	RUN(what_stalls_has_taken_as_long_as_it_stalled);
	RUN(adds_that_come_back_are_not_copied_each_time);
	RUN(cluster_rule_5_a_recovery_add_beside_one_that_finds_the_disk_full_is_accepted);
	RUN(cluster_rule_4_who_forces_without_end_is_not_read);
	return check_done();
}
