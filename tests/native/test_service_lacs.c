/* test_service_lacs.c: what a bookie says of LACs: of those that entries bring, explicit ones, and to who polls for them. */
/* ctest labels: one-thread simulated */
#include <errno.h>

#include "bookie_harness.h"
#include "sim/faulty.h"

static bookie b;

static peer *open_with_peer(uint32_t version) {
	bookie_open(&b, new_disk(7));
	peer *p = bookie_connect(&b);
	p->version = version;
	return p;
}

static uint64_t version_in(const wk_wire_reply *reply) {
	CHECK(reply->has_body && reply->body_size >= 44);
	return wk_load_be64(reply->body + 36);
}

TEST(an_explicit_lac_is_durable_before_it_is_acknowledged) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, of_ledger(WK_WIRE_READ_LAC, 5)).code, WK_WIRE_NO_ENTRY);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	CHECK_EQ(answer_to(p, an_entry(5, 1, -1, 2, 20, 0)).code, WK_WIRE_OK);
	CHECK_EQ(answer_to(p, a_lac(5, 1)).code, WK_WIRE_OK);
	for (int round = 0; round < 2; round++) {
		wk_wire_reply reply = answer_to(p, of_ledger(WK_WIRE_READ_LAC, 5));
		CHECK_EQ(reply.code, WK_WIRE_OK);
		CHECK_EQ(reply.lac_size, 20);
		CHECK_EQ(wk_load_be64(reply.lac + 8), 1);
		CHECK_EQ(version_in(&reply), 2); /* and the last entry */
		reply = answer_to(p, a_read(5, 0));
		CHECK_EQ(reply.max_lac, 1);
		bookie_restart(&b, true, 5);
		p = bookie_connect(&b);
	}
	bookie_close(&b);
}

/* Java's client makes the packet after the message, of a LAC that may have grown. */
TEST(of_an_explicit_lac_the_packets_counts) {
	peer *p = open_with_peer(WK_WIRE_V3), *poller = bookie_connect(&b);
	for (int64_t id = 0; id < 3; id++)
		CHECK_EQ(answer_to(p, an_entry(5, id, -1, 1, 20, 0)).code, WK_WIRE_OK);
	ask(poller, a_poll(5, 1, 1000));
	wk_wire_request request = a_lac(5, 2);
	request.lac = 0;
	CHECK_EQ(answer_to(p, request).code, WK_WIRE_OK);
	CHECK_EQ(take_reply(poller).max_lac, 2);
	request = a_lac(5, 1); /* it does not fall, whatever the message says */
	request.lac = 3;
	CHECK_EQ(answer_to(p, request).code, WK_WIRE_OK);
	CHECK_EQ(wk_load_be64(answer_to(p, of_ledger(WK_WIRE_READ_LAC, 5)).lac + 8), 2);
	CHECK_EQ(answer_to(p, a_read(5, 0)).max_lac, 2);
	bookie_close(&b);
}

TEST(a_lac_without_a_key_is_one_of_a_ledger_without_one) {
	peer *p = open_with_peer(WK_WIRE_V3);
	for (int64_t lac = 3; lac >= 1; lac--) {
		wk_wire_request request = a_lac(5, lac);
		request.key = NULL;
		request.key_size = 0;
		CHECK_EQ(answer_to(p, request).code, WK_WIRE_OK);
	}
	wk_wire_reply reply = answer_to(p, of_ledger(WK_WIRE_READ_LAC, 5));
	CHECK_EQ(wk_load_be64(reply.lac + 8), 3); /* it did not fall */
	bookie_close(&b);
}

TEST(a_lac_is_derived_from_what_is_stored_behind_a_restart) {
	peer *p = open_with_peer(WK_WIRE_V3);
	for (int64_t id = 0; id < 3; id++)
		CHECK_EQ(answer_to(p, an_entry(5, id, id - 1, 1, 20, 0)).code, WK_WIRE_OK);
	bookie_restart(&b, false, 1);
	p = bookie_connect(&b);
	CHECK_EQ(answer_to(p, a_read(5, 0)).max_lac, 1);
	bookie_close(&b);
}

TEST(a_long_poll_waits_for_the_lac_and_brings_the_entry_behind_it) {
	peer *writer = open_with_peer(WK_WIRE_V3), *reader = bookie_connect(&b);
	CHECK_EQ(answer_to(writer, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	ask(reader, a_poll(5, -1, 1000));
	bookie_run(&b);
	CHECK(!has_reply(reader));
	CHECK_EQ(answer_to(writer, an_entry(5, 1, 0, 11, 20, 0)).code, WK_WIRE_OK);
	wk_wire_reply reply = take_reply(reader);
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(reply.entry_id, 0);
	CHECK_EQ(reply.max_lac, 0);
	CHECK_EQ(version_in(&reply), 10);
	CHECK_EQ(reply.lac_update_ms, b.wall_ms);
	/* What it asks for is there already. */
	reply = answer_to(reader, a_poll(5, -1, 1000));
	CHECK_EQ(version_in(&reply), 10);
	/* Nothing comes: its time passes. */
	ask(reader, a_poll(5, 0, 50));
	bookie_run(&b);
	CHECK(!more_replies(reader));
	bookie_wait(&b, 51);
	bookie_run(&b);
	reply = take_reply(reader);
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(reply.entry_id, -1);
	CHECK(!reply.has_body);
	CHECK_EQ(reply.max_lac, 0);
	/* A fence ends the wait: the ledger is being recovered. */
	ask(reader, a_poll(5, 0, 1000));
	bookie_run(&b);
	CHECK(!more_replies(reader));
	CHECK_EQ(answer_to(writer, a_fence(5, -1)).code, WK_WIRE_OK);
	CHECK_EQ(take_reply(reader).entry_id, -1);
	CHECK_EQ(answer_to(reader, a_poll(99, -1, 1000)).code, WK_WIRE_NO_LEDGER);
	bookie_close(&b);
}

/* What the writer says is confirmed is so already: the reader need not wait until the disk has that entry, too. */
TEST(a_lac_counts_from_the_moment_the_add_that_says_it_is_accepted) {
	peer *writer = open_with_peer(WK_WIRE_V3), *reader = bookie_connect(&b);
	CHECK_EQ(answer_to(writer, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	ask(reader, a_poll(5, -1, 1000));
	bookie_run(&b);
	CHECK(!has_reply(reader));
	uint64_t durable = wk_namespace_durable(b.ns);
	ask(writer, an_entry(5, 1, 0, 11, 20, 0));
	for (int i = 0; i < 3 && !has_reply(reader); i++)
		bookie_turn(&b, SIZE_MAX); /* and nobody writes */
	CHECK_EQ(take_reply(reader).entry_id, 0);
	CHECK_EQ(wk_namespace_durable(b.ns), durable);
	CHECK(!more_replies(writer));
	bookie_run(&b);
	CHECK_EQ(take_reply(writer).code, WK_WIRE_OK);
	bookie_close(&b);
}

TEST(who_hangs_up_while_it_polls_is_forgotten) {
	peer *writer = open_with_peer(WK_WIRE_V3), *reader = bookie_connect(&b);
	CHECK_EQ(answer_to(writer, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	for (int i = 0; i < 10; i++)
		ask(reader, a_poll(5, 0, 100000));
	bookie_run(&b);
	CHECK_EQ(b.service->polls.count, 10);
	hang_up(reader);
	bookie_run(&b);
	CHECK_EQ(b.service->polls.count, 0);
	CHECK_EQ(b.service->owed_count, 0);
	bookie_close(&b);
}

/* A stored LAC that could not be read is not learned: it is looked for again. */
TEST(a_failed_look_at_the_lac_is_no_look) {
	peer *p = open_with_peer(WK_WIRE_V3);
	for (int64_t id = 0; id < 10; id++)
		CHECK_EQ(answer_to(p, an_entry(5, id, id - 1, 1, 20, 0)).code, WK_WIRE_OK);
	bookie_restart(&b, false, 0);
	p = bookie_connect(&b);
	wk_faulty_fail(wk_faulty_of(b.io), WK_FAULT_READ, 0, EIO, false);
	wk_wire_reply reply = answer_to(p, a_read(5, 100));
	CHECK_EQ(reply.code, WK_WIRE_NO_ENTRY);
	wk_faulty_heal(wk_faulty_of(b.io));
	reply = answer_to(p, a_read(5, 3));
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(reply.max_lac, 8);
	bookie_close(&b);
}

/* Nobody else writes it, and nothing else may come. */
TEST(what_goes_on_at_the_end_of_a_turn_is_written) {
	bookie_prepare(&b, new_disk(7));
	b.commits = true;
	bookie_serve(&b);
	peer *first = bookie_connect(&b), *second = bookie_connect(&b);
	ask(first, a_lac(5, 10));
	ask(second, a_lac(5, 20)); /* stalls until the first one is durable */
	bookie_turn(&b, SIZE_MAX);
	CHECK(second->paused);
	hang_up(first);
	for (int turns = 0; bookie_is_due(&b); turns++) {
		CHECK(turns < 1000);
		bookie_turn(&b, SIZE_MAX);
	}
	CHECK_EQ(take_reply(second).code, WK_WIRE_OK);
	bookie_close(&b);
}

int main(void) {
	RUN(an_explicit_lac_is_durable_before_it_is_acknowledged);
	RUN(of_an_explicit_lac_the_packets_counts);
	RUN(a_lac_without_a_key_is_one_of_a_ledger_without_one);
	RUN(a_lac_is_derived_from_what_is_stored_behind_a_restart);
	RUN(a_long_poll_waits_for_the_lac_and_brings_the_entry_behind_it);
	RUN(a_lac_counts_from_the_moment_the_add_that_says_it_is_accepted);
	RUN(who_hangs_up_while_it_polls_is_forgotten);
	RUN(a_failed_look_at_the_lac_is_no_look);
	RUN(what_goes_on_at_the_end_of_a_turn_is_written);
	return check_done();
}
