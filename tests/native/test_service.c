/* test_service.c: what a bookie answers, request by request, and what it promised behind a crash. */
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

TEST(cluster_rule_6_what_came_before_a_fence_on_a_connection_is_in_its_answer) {
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

/* The ledger has an entry already: an answer that is looked up too early finds that one. */
TEST(cluster_rule_6_what_others_added_before_a_fence_is_in_its_answer) {
	for (int64_t asked_for = -1; asked_for < 2; asked_for++) {
		peer *writer = open_with_peer(WK_WIRE_V3), *recovery = bookie_connect(&b);
		CHECK_EQ(answer_to(writer, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
		ask(writer, an_entry(5, 0, -1, 11, 20, 0)); /* again, and another */
		ask(writer, an_entry(5, 1, 0, 12, 20, 0));
		bookie_turn(&b, SIZE_MAX);
		ask(recovery, a_fence(5, asked_for));
		for (int i = 0; i < 5; i++)
			bookie_turn(&b, SIZE_MAX); /* and nobody writes */
		CHECK(!more_replies(writer) && !more_replies(recovery));
		bookie_run(&b);
		CHECK_EQ(take_reply(writer).code, WK_WIRE_OK);
		CHECK_EQ(take_reply(writer).code, WK_WIRE_OK);
		wk_wire_reply reply = take_reply(recovery);
		CHECK_EQ(reply.code, WK_WIRE_OK);
		CHECK_EQ(version_in(&reply), asked_for == 0 ? 11 : 12);
		bookie_close(&b);
	}
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
	/* Which entry is the last is not known either: a recovery would count it as an answer. */
	CHECK_EQ(answer_to(p, a_read(5, -1)).code, WK_WIRE_UNKNOWN_STATE);
	CHECK_EQ(answer_to(p, a_fence(5, -1)).code, WK_WIRE_UNKNOWN_STATE);
	CHECK_EQ(answer_to(old, a_read(5, -1)).code, WK_WIRE_IO_ERROR);
	CHECK_EQ(answer_to(p, a_lac(5, 1)).code, WK_WIRE_OK);
	wk_wire_reply reply = answer_to(p, of_ledger(WK_WIRE_READ_LAC, 5));
	CHECK_EQ(reply.code, WK_WIRE_UNKNOWN_STATE);
	CHECK(reply.lac_size == 0 && !reply.has_body);
	CHECK_EQ(answer_to(p, a_poll(5, 0, 10)).code, WK_WIRE_UNKNOWN_STATE);
	int64_t *ids = malloc(sizeof *ids);
	*ids = 6;
	wk_service_set_limbo(b.service, true, ids, 1); /* all but one */
	CHECK_EQ(answer_to(p, a_read(5, 1)).code, WK_WIRE_UNKNOWN_STATE);
	CHECK_EQ(answer_to(p, a_read(6, 0)).code, WK_WIRE_NO_LEDGER);
	ids = malloc(sizeof *ids);
	*ids = 6;
	wk_service_set_limbo(b.service, false, ids, 1);
	CHECK_EQ(answer_to(p, a_read(5, 1)).code, WK_WIRE_NO_ENTRY);
	CHECK_EQ(answer_to(p, a_read(6, 0)).code, WK_WIRE_UNKNOWN_STATE);
	bookie_close(&b);
}

/* The fence may be what was lost: whoever was fenced must not go on. */
TEST(a_ledger_in_limbo_takes_only_what_a_recovery_writes) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, an_entry(5, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	int64_t *ids = malloc(sizeof *ids);
	*ids = 5;
	wk_service_set_limbo(b.service, false, ids, 1);
	CHECK_EQ(answer_to(p, an_entry(5, 1, 0, 10, 20, 0)).code, WK_WIRE_READ_ONLY);
	CHECK_EQ(answer_to(p, an_entry(5, 1, 0, 10, 20, WK_WIRE_DEFERRED)).code, WK_WIRE_READ_ONLY);
	CHECK_EQ(answer_to(p, an_entry(5, 1, 0, 10, 20, WK_WIRE_RECOVERY)).code, WK_WIRE_OK);
	CHECK_EQ(answer_to(p, an_entry(6, 0, -1, 10, 20, 0)).code, WK_WIRE_OK);
	wk_service_set_limbo(b.service, true, NULL, 0);
	CHECK_EQ(answer_to(p, an_entry(6, 1, 0, 10, 20, 0)).code, WK_WIRE_READ_ONLY);
	CHECK_EQ(answer_to(p, an_entry(7, 0, -1, 10, 20, 0)).code, WK_WIRE_READ_ONLY);
	wk_service_set_limbo(b.service, false, NULL, 0);
	CHECK_EQ(answer_to(p, an_entry(6, 1, 0, 10, 20, 0)).code, WK_WIRE_OK);
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
	b.service->rules.read_only = true;
	b.service->rules.high_priority = true;
	CHECK_EQ(answer_to(p, an_entry(5, 1, -1, 10, 20, 0)).code, WK_WIRE_READ_ONLY);
	CHECK_EQ(answer_to(p, a_lac(5, 0)).code, WK_WIRE_READ_ONLY);
	wk_wire_request urgent = an_entry(5, 1, -1, 10, 20, WK_WIRE_HIGH_PRIORITY | WK_WIRE_RECOVERY);
	urgent.priority = 100;
	CHECK_EQ(answer_to(p, urgent).code, WK_WIRE_OK);
	b.service->rules.high_priority = false;
	urgent = an_entry(5, 2, -1, 10, 20, WK_WIRE_HIGH_PRIORITY);
	urgent.priority = 100;
	CHECK_EQ(answer_to(p, urgent).code, WK_WIRE_READ_ONLY);
	CHECK_EQ(answer_to(p, a_read(5, 0)).code, WK_WIRE_OK);
	CHECK_EQ(answer_to(p, a_fence(5, 0)).code, WK_WIRE_OK);
	bookie_close(&b);
}

TEST(cluster_rule_3_a_digest_that_does_not_match_is_refused_once_it_was_learned) {
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

TEST(cluster_rule_3_who_has_not_the_key_teaches_no_digest) {
	peer *p = open_with_peer(WK_WIRE_V3);
	CHECK_EQ(answer_to(p, a_fence(5, -1)).code, WK_WIRE_NO_ENTRY); /* the ledger has its key */
	wk_wire_request stranger = an_entry(5, 0, -1, 10, 20, WK_WIRE_RECOVERY);
	stranger.key = ANOTHER_KEY;
	CHECK_EQ(answer_to(p, stranger).code, WK_WIRE_UNAUTHORIZED);
	wk_hosted_ledger *ledger = wk_hosted_find(&b.service->hosted, 5);
	CHECK(ledger == NULL || ledger->digest == WK_DIGEST_UNKNOWN);
	bookie_close(&b);
}

TEST(cluster_rule_9_what_is_not_for_a_bookie_is_refused_with_words_it_knows) {
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

TEST(cluster_rule_9_a_frame_that_is_never_finished_ends_its_connection) {
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

TEST(cluster_rule_4_where_the_journal_has_no_room_the_connection_waits_and_loses_nothing) {
	bookie_prepare(&b, new_disk(7));
	b.store.in_flight_bytes = 16 * 1024;
	bookie_serve(&b);
	peer *p = bookie_connect(&b);
	p->version = WK_WIRE_V2;
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

TEST(cluster_rule_4_who_does_not_read_its_answers_is_not_read_itself) {
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
	CHECK(b.service->load.reply_bytes < 100u << 20);
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
	CHECK_EQ(b.service->load.reply_bytes, 0);
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

int main(void) {
	RUN(an_entry_is_added_and_read);
	RUN(another_key_is_unauthorized);
	RUN(a_fenced_ledger_takes_recovery_adds_alone_for_ever);
	RUN(a_fence_of_an_unknown_ledger_is_remembered_behind_a_crash);
	RUN(cluster_rule_6_what_came_before_a_fence_on_a_connection_is_in_its_answer);
	RUN(cluster_rule_6_what_others_added_before_a_fence_is_in_its_answer);
	RUN(a_deferred_add_is_answered_at_once_and_forced_later);
	RUN(a_deferred_add_is_there_for_who_reads_it);
	RUN(limbo_never_says_no);
	RUN(a_ledger_in_limbo_takes_only_what_a_recovery_writes);
	RUN(a_deleted_ledger_stays_refused);
	RUN(read_only_refuses_adds_but_those_of_high_priority);
	RUN(cluster_rule_3_a_digest_that_does_not_match_is_refused_once_it_was_learned);
	RUN(cluster_rule_3_who_has_not_the_key_teaches_no_digest);
	RUN(cluster_rule_9_what_is_not_for_a_bookie_is_refused_with_words_it_knows);
	RUN(garbage_ends_its_connection_and_no_other);
	RUN(frames_arrive_in_any_pieces);
	RUN(cluster_rule_9_a_frame_that_is_never_finished_ends_its_connection);
	RUN(cluster_rule_4_where_the_journal_has_no_room_the_connection_waits_and_loses_nothing);
	RUN(cluster_rule_4_who_does_not_read_its_answers_is_not_read_itself);
	RUN(a_failed_journal_refuses_and_still_reads);
	return check_done();
}
