/* test_service.c: what a bookie answers, request by request, and what it promised behind a crash. */
#include <errno.h>

#include "bookie_harness.h"

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

static void add_and_read(uint32_t version) {
	peer *p = open_with_peer(version);
	wk_wire_reply reply = answer_to(p, an_entry(5, 0, -1, 11, 100, 0));
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(reply.ledger_id, 5);
	CHECK_EQ(reply.entry_id, 0);
	reply = answer_to(p, an_entry(5, 1, 0, 12, 9000, 0));
	CHECK_EQ(reply.code, WK_WIRE_OK);
	reply = answer_to(p, a_read(5, 0));
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(version_in(&reply), 11);
	reply = answer_to(p, a_read(5, -1));
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(reply.entry_id, -1); /* as it was asked for */
	CHECK_EQ(version_in(&reply), 12);
	CHECK_EQ(reply.body_size, 9036);
	if (version == WK_WIRE_V3) {
		CHECK(reply.has_max_lac);
		CHECK_EQ(reply.max_lac, 0);
	}
	CHECK_EQ(answer_to(p, a_read(5, 2)).code, WK_WIRE_NO_ENTRY);
	CHECK_EQ(answer_to(p, a_read(6, 0)).code, WK_WIRE_NO_LEDGER);
	CHECK_EQ(answer_to(p, a_read(6, -1)).code, WK_WIRE_NO_LEDGER);
	bookie_close(&b);
}

TEST(an_entry_is_added_and_read) {
	add_and_read(WK_WIRE_V3);
	add_and_read(WK_WIRE_V2);
}

TEST(another_key_is_unauthorized) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	wk_wire_request stranger = an_entry(5, 1, 0, 1, 20, 0);
	stranger.key = ANOTHER_KEY;
	CHECK_EQ(answer_to(p, stranger).code, WK_WIRE_UNAUTHORIZED);
	stranger = a_fence(5, -1);
	stranger.key = ANOTHER_KEY;
	CHECK_EQ(answer_to(p, stranger).code, WK_WIRE_UNAUTHORIZED);
	CHECK_EQ(answer_to(p, an_entry(5, 1, 0, 1, 20, 0)).code, WK_WIRE_OK); /* it was not fenced */
	stranger = a_lac(5, 1);
	stranger.key = ANOTHER_KEY;
	CHECK_EQ(answer_to(p, stranger).code, WK_WIRE_UNAUTHORIZED);
	stranger = a_fence(5, -1);
	stranger.key = NULL;
	stranger.key_size = 0;
	CHECK_EQ(answer_to(p, stranger).code, WK_WIRE_UNAUTHORIZED);
	bookie_close(&b);
}

TEST(a_fenced_ledger_takes_recovery_adds_alone_for_ever) {
	peer *p = open_with_peer(WK_WIRE_V3), *other = bookie_connect(&b);
	other->version = WK_WIRE_V2;
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	wk_wire_reply reply = answer_to(other, a_fence(5, -1));
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(version_in(&reply), 1);
	CHECK(!reply.has_max_lac);
	CHECK_EQ(answer_to(p, an_entry(5, 1, 0, 1, 20, 0)).code, WK_WIRE_FENCED);
	CHECK_EQ(answer_to(p, an_entry(5, 1, 0, 2, 20, WK_WIRE_RECOVERY)).code, WK_WIRE_OK);
	CHECK_EQ(answer_to(p, a_fence(5, 7)).code, WK_WIRE_NO_ENTRY); /* again */
	bookie_restart(&b, true, 99);
	p = bookie_connect(&b);
	CHECK_EQ(answer_to(p, an_entry(5, 2, 1, 1, 20, 0)).code, WK_WIRE_FENCED);
	reply = answer_to(p, a_read(5, 1));
	CHECK_EQ(version_in(&reply), 2);
	bookie_close(&b);
}

/* reference: Java forgets such a fence at a restart. */
TEST(a_fence_of_an_unknown_ledger_is_remembered_behind_a_crash) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, a_fence(5, -1)).code, WK_WIRE_NO_ENTRY);
	bookie_restart(&b, true, 3);
	p = bookie_connect(&b);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 1, 20, 0)).code, WK_WIRE_FENCED);
	wk_wire_request stranger = an_entry(5, 0, -1, 1, 20, WK_WIRE_RECOVERY);
	stranger.key = ANOTHER_KEY;
	CHECK_EQ(answer_to(p, stranger).code, WK_WIRE_UNAUTHORIZED); /* its key is, too */
	bookie_close(&b);
}

TEST(what_came_before_a_fence_on_a_connection_is_in_its_answer) {
	peer *p = open_with_peer(WK_WIRE_V2);
	for (int64_t id = 0; id < 50; id++)
		ask(p, an_entry(5, id, id - 1, 1, 20, 0));
	ask(p, a_fence(5, -1));
	ask(p, an_entry(5, 50, 49, 1, 20, 0));
	bookie_run(&b);
	bool fenced = false;
	uint32_t added = 0;
	while (more_replies(p)) {
		wk_wire_reply reply = take_reply(p);
		if (reply.operation == WK_WIRE_ADD && reply.entry_id == 50) {
			CHECK_EQ(reply.code, WK_WIRE_FENCED);
		} else if (reply.operation == WK_WIRE_ADD) {
			CHECK_EQ(reply.entry_id, added++); /* in the order they came */
			CHECK_EQ(reply.code, WK_WIRE_OK);
		} else {
			CHECK_EQ(wk_load_be64(reply.body + 8), 49);
			fenced = true;
		}
	}
	CHECK_EQ(added, 50);
	CHECK(fenced);
	bookie_close(&b);
}

TEST(a_batch_read_gives_consecutive_entries_within_its_limits) {
	peer *p = open_with_peer(WK_WIRE_V2);
	for (int64_t id = 0; id < 10; id++)
		CHECK_EQ(answer_to(p, an_entry(5, id, id - 1, (uint64_t)id, 964, 0)).code, WK_WIRE_OK); /* 1000 bytes */
	wk_wire_request batch = {.operation = WK_WIRE_BATCH_READ, .ledger_id = 5, .entry_id = 2, .txn_id = 77};
	batch.max_count = 3;
	batch.max_size = 1 << 20;
	wk_wire_reply reply = answer_to(p, batch);
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(reply.txn_id, 77);
	CHECK_EQ(reply.body_size, 3 * 1004);
	for (uint64_t i = 0; i < 3; i++) {
		CHECK_EQ(wk_load_be32(reply.body + i * 1004), 1000);
		CHECK_EQ(wk_load_be64(reply.body + i * 1004 + 4 + 8), 2 + i);
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
	bookie_close(&b);
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

TEST(a_deferred_add_is_answered_at_once_and_forced_later) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 10, 20, WK_WIRE_DEFERRED)).code, WK_WIRE_OK);
	CHECK_EQ(answer_to(p, of_ledger(WK_WIRE_FORCE, 5)).code, WK_WIRE_OK);
	bookie_restart(&b, true, 8);
	p = bookie_connect(&b);
	CHECK_EQ(answer_to(p, a_read(5, 0)).code, WK_WIRE_OK);
	CHECK_EQ(answer_to(p, of_ledger(WK_WIRE_FORCE, 77)).code,
	         WK_WIRE_OK); /* as Java: no question whether it is there */
	bookie_close(&b);
}

/* An entry that was acknowledged, if only as deferred, is never called absent. */
TEST(a_deferred_add_is_there_for_who_reads_it) {
	peer *p = open_with_peer(WK_WIRE_V3);
	ask(p, an_entry(5, 0, -1, 10, 20, WK_WIRE_DEFERRED));
	ask(p, a_read(5, 0));
	bookie_turn(&b, SIZE_MAX);
	bookie_turn(&b, SIZE_MAX);
	CHECK_EQ(take_reply(p).operation, WK_WIRE_ADD);
	bookie_run(&b);
	wk_wire_reply reply = take_reply(p);
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(version_in(&reply), 10);
	bookie_close(&b);
}

TEST(limbo_never_says_no) {
	peer *p = open_with_peer(WK_WIRE_V3), *old = bookie_connect(&b);
	old->version = WK_WIRE_V2;
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	wk_service_set_limbo(b.service, true, NULL, 0);
	CHECK_EQ(answer_to(p, a_read(5, 0)).code, WK_WIRE_OK);
	CHECK_EQ(answer_to(p, a_read(5, 1)).code, WK_WIRE_UNKNOWN_STATE);
	CHECK_EQ(answer_to(p, a_read(6, 0)).code, WK_WIRE_UNKNOWN_STATE);
	CHECK_EQ(answer_to(p, a_fence(5, 1)).code, WK_WIRE_UNKNOWN_STATE);
	CHECK_EQ(answer_to(p, a_poll(6, 0, 10)).code, WK_WIRE_UNKNOWN_STATE);
	CHECK_EQ(answer_to(p, of_ledger(WK_WIRE_READ_LAC, 6)).code, WK_WIRE_UNKNOWN_STATE);
	CHECK_EQ(answer_to(p, of_ledger(WK_WIRE_LIST_ENTRIES, 6)).code, WK_WIRE_UNKNOWN_STATE);
	CHECK_EQ(answer_to(old, a_read(5, 1)).code, WK_WIRE_IO_ERROR);
	int64_t *ids = malloc(sizeof *ids);
	*ids = 6;
	wk_service_set_limbo(b.service, false, ids, 1);
	CHECK_EQ(answer_to(p, a_read(5, 1)).code, WK_WIRE_NO_ENTRY);
	CHECK_EQ(answer_to(p, a_read(6, 0)).code, WK_WIRE_UNKNOWN_STATE);
	bookie_close(&b);
}

TEST(a_deleted_ledger_stays_refused) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	int64_t *ids = malloc(2 * sizeof *ids);
	ids[0] = 9;
	ids[1] = 5;
	wk_service_set_deleted(b.service, ids, 2);
	CHECK_EQ(wk_ledger_delete(b.ns, 5, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(answer_to(p, an_entry(5, 1, 0, 10, 20, 0)).code, WK_WIRE_FENCED);
	CHECK_EQ(answer_to(p, an_entry(5, 1, 0, 10, 20, WK_WIRE_RECOVERY)).code, WK_WIRE_FENCED);
	CHECK_EQ(answer_to(p, a_read(5, 0)).code, WK_WIRE_NO_LEDGER);
	CHECK_EQ(answer_to(p, a_fence(5, 0)).code, WK_WIRE_NO_LEDGER);
	CHECK_EQ(answer_to(p, a_lac(5, 0)).code, WK_WIRE_NO_LEDGER);
	CHECK(!is_known(b.ns, 5)); /* nobody made it anew */
	bookie_close(&b);
}

TEST(read_only_refuses_adds_but_those_of_high_priority) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	b.service->read_only = true;
	b.service->high_priority = true;
	CHECK_EQ(answer_to(p, an_entry(5, 1, -1, 10, 20, 0)).code, WK_WIRE_READ_ONLY);
	CHECK_EQ(answer_to(p, a_lac(5, 0)).code, WK_WIRE_READ_ONLY);
	wk_wire_request urgent = an_entry(5, 1, -1, 10, 20, WK_WIRE_HIGH_PRIORITY | WK_WIRE_RECOVERY);
	urgent.priority = 100;
	CHECK_EQ(answer_to(p, urgent).code, WK_WIRE_OK);
	b.service->high_priority = false;
	urgent = an_entry(5, 2, -1, 10, 20, WK_WIRE_HIGH_PRIORITY);
	urgent.priority = 100;
	CHECK_EQ(answer_to(p, urgent).code, WK_WIRE_READ_ONLY);
	CHECK_EQ(answer_to(p, a_read(5, 0)).code, WK_WIRE_OK);
	CHECK_EQ(answer_to(p, a_fence(5, 0)).code, WK_WIRE_OK);
	bookie_close(&b);
}

TEST(a_digest_that_does_not_match_is_refused_once_it_was_learned) {
	peer *p = open_with_peer(WK_WIRE_V3);
	wk_wire_request damaged = an_entry(5, 0, -1, 10, 20, 0);
	uint8_t bytes[56];
	memcpy(bytes, damaged.body, sizeof bytes);
	bytes[50] ^= 1;
	damaged.body = bytes;
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	CHECK_EQ(answer_to(p, damaged).code, WK_WIRE_IO_ERROR);
	CHECK_EQ(b.service->stats.digest_mismatches, 1);
	CHECK_EQ(answer_to(p, an_entry(5, 1, 0, 10, 20, 0)).code, WK_WIRE_OK);
	bookie_close(&b);
}

TEST(who_has_not_the_key_teaches_no_digest) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, a_fence(5, -1)).code, WK_WIRE_NO_ENTRY); /* the ledger has its key */
	wk_wire_request stranger = an_entry(5, 0, -1, 10, 20, WK_WIRE_RECOVERY);
	stranger.key = ANOTHER_KEY;
	CHECK_EQ(answer_to(p, stranger).code, WK_WIRE_UNAUTHORIZED);
	wk_hosted_ledger *ledger = wk_hosted_find(&b.service->hosted, 5);
	CHECK(ledger == NULL || ledger->digest == WK_DIGEST_UNKNOWN);
	bookie_close(&b);
}

TEST(the_entries_of_a_ledger_are_listed) {
	peer *p = open_with_peer(WK_WIRE_V3);
	static const int64_t ids[] = {0, 1, 2, 7, 8, 100};
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
		CHECK_EQ(answer_to(p, an_entry(5, ids[i], -1, 10, 20, 0)).code, WK_WIRE_OK);
	wk_wire_reply reply = answer_to(p, of_ledger(WK_WIRE_LIST_ENTRIES, 5));
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(reply.body_size, 64 + 3 * 24);
	CHECK_EQ(wk_load_be32(reply.body + 4), 3);
	CHECK_EQ(wk_load_be64(reply.body + 64 + 24), 7);
	CHECK_EQ(answer_to(p, of_ledger(WK_WIRE_LIST_ENTRIES, 6)).code, WK_WIRE_NO_LEDGER);
	bookie_close(&b);
}

TEST(what_is_not_for_a_bookie_is_refused_with_words_it_knows) {
	peer *p = open_with_peer(WK_WIRE_V3);
	wk_wire_reply reply = answer_to(p, (wk_wire_request){.operation = WK_WIRE_START_TLS});
	CHECK_EQ(reply.code, WK_WIRE_BAD_REQUEST);
	static const char plugin[] = "SomePlugin";
	reply = answer_to(p, (wk_wire_request){.operation = WK_WIRE_AUTH,
	                                       .auth_name = (const uint8_t *)plugin,
	                                       .auth_name_size = sizeof plugin - 1});
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(reply.auth_name_size, 18);
	CHECK(memcmp(reply.auth_name, "AuthDisabledPlugin", 18) == 0);
	b.service->total_space = 1000;
	b.service->free_space = 400;
	reply = answer_to(p, (wk_wire_request){.operation = WK_WIRE_BOOKIE_INFO, .wanted = 3});
	CHECK_EQ(reply.total_bytes, 1000);
	CHECK_EQ(reply.free_bytes, 400);
	bookie_close(&b);
}

TEST(garbage_ends_its_connection_and_no_other) {
	peer *p = open_with_peer(WK_WIRE_V3), *other = bookie_connect(&b);
	CHECK_EQ(answer_to(other, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	queue_put(&p->out, "\x00\x00\x00\x05garbage and more of it", 26);
	bookie_run(&b);
	CHECK(!p->open);
	CHECK_EQ(b.service->stats.protocol_errors, 1);
	p = bookie_connect(&b);
	queue_put(&p->out, "\xff\xff\xff\xff", 4);
	bookie_run(&b);
	CHECK(!p->open);
	CHECK_EQ(answer_to(other, a_read(5, 0)).code, WK_WIRE_OK);
	bookie_close(&b);
}

TEST(frames_arrive_in_any_pieces) {
	for (size_t piece = 1; piece < 200; piece += piece < 20 ? 1 : 37) {
		peer *p = open_with_peer(piece % 2 == 0 ? WK_WIRE_V2 : WK_WIRE_V3);
		for (int64_t id = 0; id < 8; id++)
			ask(p, an_entry(5, id, id - 1, 1, 60, 0));
		while (p->out.size > 0)
			bookie_turn(&b, piece);
		bookie_run(&b);
		for (int64_t id = 0; id < 8; id++)
			CHECK_EQ(take_reply(p).entry_id, id);
		CHECK_EQ(b.service->input_bytes, 0);
		bookie_close(&b);
	}
}

TEST(a_frame_that_is_never_finished_ends_its_connection) {
	peer *p = open_with_peer(WK_WIRE_V3), *idle = bookie_connect(&b);
	queue_put(&p->out, "\x00\x00\x10\x00...", 7);
	bookie_run(&b);
	bookie_wait(&b, 29000);
	bookie_run(&b);
	CHECK(p->open);
	bookie_wait(&b, 2000);
	bookie_run(&b);
	CHECK(!p->open);
	CHECK(idle->open); /* idle ones live for ever */
	CHECK_EQ(b.service->stats.frame_timeouts, 1);
	bookie_close(&b);
}

TEST(where_the_journal_has_no_room_the_connection_waits_and_loses_nothing) {
	bookie_prepare(&b, new_disk(7));
	b.store.in_flight_bytes = 16 * 1024;
	bookie_serve(&b);
	peer *p = bookie_connect(&b);
	p->version = WK_WIRE_V2;
	b.service->slow_rounds = 1000; /* the store's own thread writes: here, wk_namespace_step */
	for (int64_t id = 0; id < 200; id++)
		ask(p, an_entry(5, id, id - 1, 1, 1000, 0));
	bool stalled = false;
	for (int i = 0; i < 3; i++) {
		bookie_turn(&b, 20000);
		stalled |= p->paused;
	}
	CHECK(stalled);
	for (int i = 0; i < 1000 && (p->out.size > 0 || b.service->owed_count > 0 || p->paused); i++) {
		bookie_run(&b);
		bookie_wait(&b, 101);
	}
	for (int64_t id = 0; id < 200; id++) {
		wk_wire_reply reply = take_reply(p);
		CHECK_EQ(reply.entry_id, id);
		CHECK_EQ(reply.code, WK_WIRE_OK);
	}
	bookie_close(&b);
}

TEST(who_does_not_read_its_answers_is_not_read_itself) {
	bookie_prepare(&b, new_disk(7));
	b.options.reads_max = 4096;
	bookie_serve(&b);
	peer *p = bookie_connect(&b), *other = bookie_connect(&b);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 1, 60000, 0)).code, WK_WIRE_OK);
	p->deaf = true;
	for (int i = 0; i < 2000; i++)
		ask(p, a_read(5, 0));
	for (int i = 0; i < 200; i++)
		bookie_turn(&b, SIZE_MAX);
	CHECK(p->paused);
	CHECK(b.service->reply_bytes < 100u << 20);
	CHECK_EQ(answer_to(other, a_read(5, 0)).code, WK_WIRE_OK);
	hear(p);
	uint32_t replies = 0;
	for (int i = 0; i < 4000 && replies < 2000; i++) {
		bookie_run(&b);
		while (more_replies(p)) {
			CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
			replies++;
		}
	}
	CHECK_EQ(replies, 2000);
	CHECK_EQ(b.service->reply_bytes, 0);
	bookie_close(&b);
}

TEST(a_failed_journal_refuses_and_still_reads) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	wk_faulty_fail(wk_faulty_of(b.io), WK_FAULT_WRITE | WK_FAULT_SYNC, 0, EIO, true);
	CHECK_EQ(answer_to(p, an_entry(5, 1, 0, 10, 20, 0)).code, WK_WIRE_IO_ERROR);
	wk_faulty_heal(wk_faulty_of(b.io));
	CHECK_EQ(answer_to(p, an_entry(5, 1, 0, 10, 20, 0)).code, WK_WIRE_IO_ERROR);
	CHECK_EQ(answer_to(p, a_fence(5, -1)).code, WK_WIRE_IO_ERROR);
	CHECK_EQ(answer_to(p, a_read(5, 0)).code, WK_WIRE_OK);
	CHECK_EQ(answer_to(p, a_read(5, 1)).code, WK_WIRE_IO_ERROR); /* nobody can tell: it was accepted */
	CHECK(b.service->stats.failed);
	bookie_abandon(&b);
}

/* ---- who stalls goes on ---- */

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
	CHECK_EQ(p->tag != 0 ? ((wk_peer *)(uintptr_t)p->tag)->reads : 1, 0);
	CHECK(!p->paused);
	CHECK_EQ(answer_to(p, a_read(5, 0)).code, WK_WIRE_OK);
	bookie_close(&b);
}

TEST(fences_that_a_journal_failed_leave_nothing_behind) {
	peer *p = open_with_peer(WK_WIRE_V3);
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
	b.service->options.reads_max = 0; /* the polls' reads find too many before them */
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

/* A frame of so many bytes that nobody will ever ask for: a LAC would be refused, an add is taken. */
static void ask_large(peer *p, int64_t entry_id, size_t size) {
	static uint8_t bytes[1 << 20];
	wk_wire_request request = an_entry(5, entry_id, -1, 1, 20, 0);
	memset(bytes, 0, size);
	memcpy(bytes, request.body, request.body_size);
	wk_store_be64(bytes + 24, size - 36);
	wk_wire_digest_put(bytes, size, WK_DIGEST_CRC32C);
	request.body = bytes;
	request.body_size = size;
	ask(p, request);
}

TEST(large_frames_of_many_stay_within_the_memory_for_them) {
	bookie_prepare(&b, new_disk(7));
	b.options.frame_size_max = 512 * 1024;
	b.options.receive_bytes = 8 << 20;
	b.store.in_flight_bytes = 64 << 20;
	b.store.file_size_max = b.store.file_size_min = 8 << 20;
	bookie_serve(&b);
	peer *p[PEERS_MAX];
	for (int i = 0; i < PEERS_MAX; i++) {
		p[i] = bookie_connect(&b);
		ask_large(p[i], i, 400 * 1024);
		ask_large(p[i], 100 + i, 300 * 1024);
	}
	uint64_t most = 0;
	for (int i = 0; i < 3000; i++) {
		bookie_turn(&b, 30000);
		wk_status status = wk_namespace_step(b.ns, &(bool){false}, NULL);
		CHECK_EQ(status, WK_OK);
		most = b.service->input_bytes > most ? b.service->input_bytes : most;
	}
	CHECK(most <= b.options.receive_bytes + b.options.receive_bytes / 16 + b.options.frame_size_max);
	for (int i = 0; i < PEERS_MAX; i++) {
		CHECK(p[i]->open && !p[i]->paused);
		CHECK_EQ(take_reply(p[i]).code, WK_WIRE_OK);
		CHECK_EQ(take_reply(p[i]).code, WK_WIRE_OK);
	}
	CHECK_EQ(b.service->input_bytes, 0);
	CHECK_EQ(b.service->partial_count, 0);
	CHECK_EQ(b.service->large_left, 8);
	bookie_close(&b);
}

TEST(beginnings_of_frames_stay_within_the_memory_for_them) {
	bookie_prepare(&b, new_disk(7));
	b.options.frame_size_max = 128 * 1024;
	b.options.receive_bytes = 256 * 1024;
	bookie_serve(&b);
	for (int i = 0; i < PEERS_MAX; i++) {
		peer *p = bookie_connect(&b);
		ask_large(p, i, 100 * 1024);
		bookie_turn(&b, 60000);
		p->out.size = 0; /* no more comes */
	}
	CHECK(b.service->input_bytes <= 256 * 1024 + 16 * 1024 + 128 * 1024);
	for (int i = 0; i < 3; i++) {
		bookie_wait(&b, 31000);
		bookie_run(&b);
	}
	CHECK_EQ(b.service->input_bytes, 0); /* all of them were closed by then */
	CHECK_EQ(b.service->stats.connections, 0);
	bookie_close(&b);
}

TEST(who_waits_for_memory_goes_on_once_there_is_some) {
	bookie_prepare(&b, new_disk(7));
	b.store.in_flight_bytes = 16 * 1024;
	b.options.receive_bytes = 20000;
	bookie_serve(&b);
	b.service->slow_rounds = 100000;
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
	b.service->slow_rounds = UINT32_MAX;
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

static uint64_t fake_now;

static uint64_t fake_clock(void) {
	return fake_now += 5000000;
}

TEST(an_add_that_the_loop_writes_takes_as_long_as_the_disk) {
	peer *p = open_with_peer(WK_WIRE_V3);
	fake_now = b.now_ns;
	b.service->clock = fake_clock;
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 1, 20, 0)).code, WK_WIRE_OK);
	CHECK_EQ(b.service->stats.add_ns.count, 1);
	CHECK(b.service->stats.add_ns.sum >= 5000000);
	bookie_close(&b);
}

TEST(a_list_has_what_was_acknowledged_as_deferred) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	b.service->slow_rounds = UINT32_MAX;
	ask(p, an_entry(5, 1, -1, 10, 20, WK_WIRE_DEFERRED));
	bookie_turn(&b, SIZE_MAX);
	bookie_turn(&b, SIZE_MAX);
	CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
	wk_wire_reply reply = answer_to(p, of_ledger(WK_WIRE_LIST_ENTRIES, 5));
	CHECK_EQ(reply.code, WK_WIRE_OK);
	CHECK_EQ(wk_load_be32(reply.body + 64 + 16), 2); /* a run of two */
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
		most = b.service->reply_bytes > most ? b.service->reply_bytes : most;
	}
	CHECK(most <= (1 << 20) + (1 << 20) / 10);
	for (int64_t id = 1; id < 100; id++)
		CHECK_EQ(answer_to(healthy, an_entry(5, id, -1, 1, 20, 0)).code, WK_WIRE_OK);
	bookie_wait(&b, 31000);
	bookie_run(&b);
	CHECK_EQ(b.service->stats.connections, 1); /* who is deaf and holds so much is closed */
	CHECK_EQ(b.service->reply_bytes, 0);
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

int main(void) {
	RUN(an_entry_is_added_and_read);
	RUN(another_key_is_unauthorized);
	RUN(a_fenced_ledger_takes_recovery_adds_alone_for_ever);
	RUN(a_fence_of_an_unknown_ledger_is_remembered_behind_a_crash);
	RUN(what_came_before_a_fence_on_a_connection_is_in_its_answer);
	RUN(a_batch_read_gives_consecutive_entries_within_its_limits);
	RUN(an_explicit_lac_is_durable_before_it_is_acknowledged);
	RUN(a_lac_without_a_key_is_one_of_a_ledger_without_one);
	RUN(a_lac_is_derived_from_what_is_stored_behind_a_restart);
	RUN(a_long_poll_waits_for_the_lac_and_brings_the_entry_behind_it);
	RUN(who_hangs_up_while_it_polls_is_forgotten);
	RUN(a_deferred_add_is_answered_at_once_and_forced_later);
	RUN(a_deferred_add_is_there_for_who_reads_it);
	RUN(limbo_never_says_no);
	RUN(a_deleted_ledger_stays_refused);
	RUN(read_only_refuses_adds_but_those_of_high_priority);
	RUN(a_digest_that_does_not_match_is_refused_once_it_was_learned);
	RUN(who_has_not_the_key_teaches_no_digest);
	RUN(the_entries_of_a_ledger_are_listed);
	RUN(what_is_not_for_a_bookie_is_refused_with_words_it_knows);
	RUN(garbage_ends_its_connection_and_no_other);
	RUN(frames_arrive_in_any_pieces);
	RUN(a_frame_that_is_never_finished_ends_its_connection);
	RUN(where_the_journal_has_no_room_the_connection_waits_and_loses_nothing);
	RUN(who_does_not_read_its_answers_is_not_read_itself);
	RUN(a_failed_journal_refuses_and_still_reads);
	RUN(polls_that_end_let_the_connection_go_on);
	RUN(fences_that_a_journal_failed_leave_nothing_behind);
	RUN(adds_that_go_on_while_a_batch_is_answered_do_not_mix_with_it);
	RUN(large_frames_of_many_stay_within_the_memory_for_them);
	RUN(beginnings_of_frames_stay_within_the_memory_for_them);
	RUN(who_waits_for_memory_goes_on_once_there_is_some);
	RUN(what_is_durable_already_is_answered_without_another_event);
	RUN(who_stalls_first_goes_on_first);
	RUN(a_service_ends_while_reads_are_done);
	RUN(an_add_that_the_loop_writes_takes_as_long_as_the_disk);
	RUN(a_list_has_what_was_acknowledged_as_deferred);
	RUN(small_answers_that_nobody_reads_stay_within_the_memory_for_them);
	RUN(idle_connections_keep_little);
	RUN(who_comes_while_it_drains_is_not_served);
	return check_done();
}
