/* test_service_reads.c: which reads the loop answers itself, and what batches hold. */
/* ctest labels: one-thread simulated */
#include "bookie_harness.h"
#include "engine/manual.h"

static bookie b;

static peer *open_with_peer(uint32_t version) {
	bookie_open(&b, new_disk(7));
	peer *p = bookie_connect(&b);
	p->version = version;
	return p;
}

/* No thread has to be woken for it; but adds do not wait for very many such reads. */
TEST(what_memory_has_is_answered_by_the_loop) {
	bookie_prepare(&b, new_disk(7));
	b.options.reads_max = 2000;
	bookie_serve(&b);
	peer *p = bookie_connect(&b);
	p->version = WK_WIRE_V2;
	for (int64_t id = 0; id < 10; id++)
		CHECK_EQ(answer_to(p, an_entry(5, id, id - 1, (uint64_t)id, 20, 0)).code, WK_WIRE_OK);
	ask(p, a_read(5, 3));
	bookie_turn(&b, SIZE_MAX);
	CHECK_EQ(b.service->served_count, 1);
	CHECK_EQ(take_reply(p).entry_id, 3);
	ask(p, a_read(5, 10)); /* what is not there is not the loop's to say */
	bookie_turn(&b, SIZE_MAX);
	CHECK_EQ(b.service->served_count, 0);
	bookie_run(&b);
	CHECK_EQ(take_reply(p).code, WK_WIRE_NO_ENTRY);
	for (int i = 0; i < 900; i++)
		ask(p, a_read(5, i % 10));
	for (uint32_t served = 0, turns = 0; served < 900; turns++) {
		CHECK(turns < 100);
		bookie_turn(&b, SIZE_MAX);
		CHECK(b.service->served_count <= 256);
		for (; more_replies(p); served++)
			CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
	}
	bookie_close(&b);
}

static void reads_batches_of_ten(peer *p) {
	wk_wire_request batch = {.operation = WK_WIRE_BATCH_READ, .ledger_id = 5, .entry_id = 2, .txn_id = 77};
	batch.max_count = 3;
	batch.max_size = 1 << 20;
	wk_wire_reply reply = answer_to(p, batch);
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(reply.txn_id, 77);
	CHECK_EQ(b.service->served_count, 0); /* there may be very many in it: not the loop's */
	CHECK_EQ(reply.body_size, 3 * 1004);
	for (uint64_t i = 0; i < 3; i++) {
		CHECK_EQ(wk_load_be32(reply.body + i * 1004), 1000);
		CHECK_EQ(wk_load_be64(reply.body + i * 1004 + 4 + 8), 2 + i);
		CHECK(wk_wire_digest_matches(reply.body + i * 1004 + 4, 1000, WK_DIGEST_CRC32C));
	}
	batch.txn_id = 78;
	batch.max_count = 0;
	batch.max_size = 36 + 2 * 1004;
	CHECK_EQ(answer_to(p, batch).body_size, 2 * 1004);
	batch.txn_id = 79;
	batch.max_size = 1; /* the first one always */
	CHECK_EQ(answer_to(p, batch).body_size, 1004);
	batch.txn_id = 80;
	batch.entry_id = 8;
	batch.max_size = 1 << 20;
	CHECK_EQ(answer_to(p, batch).body_size, 2 * 1004); /* there are no more */
	batch.txn_id = 81;
	batch.entry_id = 10;
	reply = answer_to(p, batch);
	CHECK_EQ(reply.code, WK_WIRE_NO_ENTRY);
	CHECK_EQ(reply.txn_id, 81);
}

/* From memory, and from the disk, by the pool. */
TEST(a_batch_read_gives_consecutive_entries_within_its_limits) {
	peer *p = open_with_peer(WK_WIRE_V2);
	for (int64_t id = 0; id < 10; id++)
		CHECK_EQ(answer_to(p, an_entry(5, id, id - 1, (uint64_t)id, 964, 0)).code, WK_WIRE_OK); /* 1000 bytes */
	reads_batches_of_ten(p);
	bookie_restart(&b, false, 0);
	p = bookie_connect(&b);
	p->version = WK_WIRE_V2;
	reads_batches_of_ten(p);
	bookie_close(&b);
}

static int64_t until_answered(peer *one, peer *crowd) {
	int64_t before = 0;
	for (int turns = 0; !more_replies(one); turns++) {
		CHECK(turns < 100);
		bookie_turn(&b, SIZE_MAX);
		for (; more_replies(crowd); before++)
			(void)take_reply(crowd);
	}
	return before;
}

/* Not behind all that others asked for: the pool has few reads at a time, and a place for who has none there. */
TEST(a_read_from_the_disk_does_not_wait_for_a_queue_of_others) {
	peer *p = open_with_peer(WK_WIRE_V2);
	for (int64_t id = 0; id < 50; id++)
		CHECK_EQ(answer_to(p, an_entry(5, id, id - 1, (uint64_t)id, 964, 0)).code, WK_WIRE_OK);
	CHECK_EQ(answer_to(p, an_entry(6, 0, -1, 0, 964, 0)).code, WK_WIRE_OK);
	bookie_restart(&b, false, 0); /* memory has nothing */
	peer *crowd = bookie_connect(&b), *one = bookie_connect(&b);
	crowd->version = one->version = WK_WIRE_V2;
	for (int64_t id = 0; id < 50; id++)
		ask(crowd, a_read(5, id));
	bookie_turn(&b, SIZE_MAX);
	CHECK_EQ(b.service->pool_count, 2); /* a thread's worth, and one place is left */
	ask(one, a_read(6, 0));
	CHECK(until_answered(one, crowd) <= 4);
	CHECK_EQ(take_reply(one).code, WK_WIRE_OK);
	bookie_run(&b); /* and all of the others' are answered */
	int64_t left = 0;
	for (; more_replies(crowd); left++)
		CHECK_EQ(take_reply(crowd).code, WK_WIRE_OK);
	CHECK(left >= 40);
	bookie_close(&b);
}

static void arrives(peer *p) {
	wk_net_event event = {.kind = WK_NET_RECEIVED, .connection = p->id, .bytes = p->out.bytes, .size = p->out.size};
	deliver_event(&b, event);
	queue_drop(&p->out, p->out.size);
}

/* What memory has is answered while the pool is full. */
TEST(what_memory_has_does_not_wait_for_the_pool) {
	peer *p = open_with_peer(WK_WIRE_V2);
	for (int64_t id = 0; id < 20; id++)
		CHECK_EQ(answer_to(p, an_entry(5, id, id - 1, (uint64_t)id, 964, 0)).code, WK_WIRE_OK);
	bookie_restart(&b, false, 0);
	peer *crowd[2], *one = bookie_connect(&b);
	one->version = WK_WIRE_V2;
	CHECK_EQ(answer_to(one, an_entry(6, 0, -1, 0, 964, 0)).code, WK_WIRE_OK);
	for (int i = 0; i < 2; i++) {
		crowd[i] = bookie_connect(&b);
		crowd[i]->version = WK_WIRE_V2;
	}
	bookie_run(&b);
	wk_service_begin(b.service, b.now_ns, b.wall_ms);
	for (int i = 0; i < 2; i++) {
		for (int64_t id = 0; id < 10; id++)
			ask(crowd[i], a_read(5, i * 10 + id));
		arrives(crowd[i]);
	}
	CHECK_EQ(b.service->pool_count, 3);
	ask(one, a_read(6, 0));
	arrives(one);
	CHECK_EQ(b.service->served_count, 1);
	CHECK_EQ(b.service->pool_count, 3);
	bookie_run(&b);
	CHECK_EQ(take_reply(one).code, WK_WIRE_OK);
	for (int i = 0; i < 2; i++)
		for (int64_t id = 0; id < 10; id++)
			CHECK_EQ(take_reply(crowd[i]).entry_id, i * 10 + id);
	bookie_close(&b);
}

/* Who follows a ledger asks for an entry before it is durable. */
TEST(what_became_durable_does_not_wait_for_the_pool_either) {
	peer *p = open_with_peer(WK_WIRE_V2);
	for (int64_t id = 0; id < 20; id++)
		CHECK_EQ(answer_to(p, an_entry(5, id, id - 1, (uint64_t)id, 964, 0)).code, WK_WIRE_OK);
	bookie_restart(&b, false, 0);
	peer *crowd[2], *writer = bookie_connect(&b), *follower = bookie_connect(&b);
	writer->version = follower->version = WK_WIRE_V2;
	CHECK_EQ(answer_to(writer, an_entry(6, 0, -1, 0, 964, 0)).code, WK_WIRE_OK);
	for (int i = 0; i < 2; i++) {
		crowd[i] = bookie_connect(&b);
		crowd[i]->version = WK_WIRE_V2;
	}
	bookie_run(&b);
	ask(writer, an_entry(6, 1, 0, 1, 964, 0));
	ask(follower, a_read(6, 1));
	bookie_turn(&b, SIZE_MAX);
	CHECK_EQ(b.service->load.held, 1);
	bool idle;
	CHECK_EQ(wk_namespace_step(b.ns, &idle, NULL), WK_OK);
	wk_service_begin(b.service, b.now_ns, b.wall_ms);
	for (int i = 0; i < 2; i++) {
		for (int64_t id = 0; id < 10; id++)
			ask(crowd[i], a_read(5, i * 10 + id));
		arrives(crowd[i]);
	}
	CHECK_EQ(b.service->pool_count, 3);
	wk_waits_answer(b.service);
	CHECK_EQ(b.service->load.held, 0);
	CHECK_EQ(b.service->served_count, 1);
	bookie_run(&b);
	CHECK_EQ(take_reply(follower).code, WK_WIRE_OK);
	bookie_close(&b);
}

int main(void) {
	RUN(what_memory_has_is_answered_by_the_loop);
	RUN(a_batch_read_gives_consecutive_entries_within_its_limits);
	RUN(a_read_from_the_disk_does_not_wait_for_a_queue_of_others);
	RUN(what_memory_has_does_not_wait_for_the_pool);
	RUN(what_became_durable_does_not_wait_for_the_pool_either);
	return check_done();
}
