/* test_ledger_fence.c: fences of a ledger store: durable when they are answered, and no add passes one. */
#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"
#include "small_directory.h"
#include <errno.h>
#include <pthread.h>

/*
 * The driver has marked the open block as a confirm block, which waits for a footer, as its lock is free for others
 * then: what joins it must be found again. A confirm block that holds anything would be refused.
 */
TEST(what_joins_a_confirm_block_that_waits_is_found_again) {
	for (int joins = 0; joins < 2; joins++) {
		wk_io *io = new_disk(27);
		wk_namespace *ns = open_store(io);
		add_entry(ns, 1, 0);
		wk_engine_lock(ns->engine);
		CHECK(wk_block_is_empty(&ns->engine->open) && ns->engine->confirm_pending);
		ns->engine->open.confirm = true;
		wk_engine_unlock(ns->engine);
		if (joins == 0)
			add_entry(ns, 1, 1);
		else
			CHECK_EQ(fence(ns, 1), WK_OK);
		kill_store(ns, io);
		ns = open_store(io);
		CHECK_EQ(info_of(ns, 1).last_entry, joins == 0);
		CHECK_EQ(info_of(ns, 1).fenced, joins == 1);
		close_store(ns);
		io->operations->destroy(io);
	}
}

TEST(a_fence_is_durable_when_it_is_answered) {
	wk_io *io = new_disk(12);
	wk_namespace *ns = open_store(io);
	add_entry(ns, 1, 0);
	CHECK_EQ(fence(ns, 1), WK_OK);
	CHECK_EQ(fence(ns, 77), WK_OK); /* nothing is known of it: all the same */
	wk_abandon(ns);
	wk_faulty_crash(wk_faulty_of(io), 12);
	for (int round = 0; round < 2; round++) {
		ns = open_store(io);
		CHECK(info_of(ns, 1).fenced && info_of(ns, 77).fenced);
		CHECK_EQ(info_of(ns, 77).last_entry, -1);
		CHECK_EQ(info_of(ns, 77).key_size, sizeof KEY - 1);
		CHECK_EQ(add_version(ns, 1, 1, 5, 0, NULL), WK_FENCED);
		CHECK_EQ(add_version(ns, 77, 0, 5, WK_ADD_DEFERRED, NULL), WK_FENCED);
		uint64_t blocks = stats_of(ns).blocks_count;
		CHECK_EQ(fence(ns, 1), WK_OK); /* again: nothing more to write */
		CHECK_EQ(stats_of(ns).blocks_count, blocks);
		CHECK_EQ(add_version(ns, 1, 1 + round, 6, WK_ADD_RECOVERY, NULL), WK_OK);
		CHECK_EQ(info_of(ns, 1).last_entry, 1 + round);
		close_store(ns);
	}
	io->operations->destroy(io);
}

TEST(adds_in_flight_are_resolved_when_a_fence_is_answered) {
	wk_io *io = new_disk(13);
	wk_namespace *ns = open_store(io);
	uint64_t ticket;
	CHECK_EQ(add_version(ns, 1, 0, 1, 0, &ticket), WK_OK);
	CHECK_EQ(add_version(ns, 1, 1, 2, WK_ADD_DEFERRED, &ticket), WK_OK);
	CHECK(!is_known(ns, 1)); /* neither is durable */
	CHECK_EQ(fence(ns, 1), WK_OK);
	CHECK_EQ(info_of(ns, 1).last_entry, 1);
	CHECK_EQ(version_of(ns, 1, 0), 1);
	CHECK_EQ(version_of(ns, 1, 1), 2);
	/* The same with a ticket: refused from the moment of the call on. */
	CHECK_EQ(add_version(ns, 2, 0, 1, 0, &ticket), WK_OK);
	uint64_t fenced;
	CHECK_EQ(wk_ledger_fence(ns, 2, KEY, sizeof KEY - 1, 0, &fenced, NULL), WK_OK);
	CHECK(fenced >= ticket);
	CHECK_EQ(add_version(ns, 2, 1, 1, 0, &ticket), WK_FENCED);
	CHECK_EQ(add_version(ns, 2, 1, 3, WK_ADD_RECOVERY, &ticket), WK_OK);
	CHECK_EQ(fence(ns, 2), WK_OK); /* the second client hears of what the first one writes back */
	CHECK_EQ(version_of(ns, 2, 1), 3);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_fence_whose_sync_fails_is_not_answered) {
	wk_io *io = new_disk(14);
	wk_namespace *ns = open_store(io);
	add_entry(ns, 1, 0);
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_WRITE, 0, EIO, false);
	wk_error error;
	CHECK_EQ(wk_ledger_fence(ns, 1, KEY, sizeof KEY - 1, UINT64_MAX, NULL, &error), WK_FAILED);
	CHECK(error.outcome_unknown);
	wk_faulty_heal(wk_faulty_of(io));
	CHECK_EQ(fence(ns, 1), WK_FAILED);
	CHECK(add_version(ns, 1, 1, 2, 0, NULL) != WK_OK);
	CHECK_EQ(version_of(ns, 1, 0), 1); /* reading goes on */
	kill_store(ns, io);
	io->operations->destroy(io);
}

/* ---- threads ---- */

enum { ADDERS = 4, THREADED_LEDGERS = 3, ADDS_EACH = 400 };

typedef struct adder {
	wk_namespace *ns;
	int64_t first_id; /* its ids go up from here */
	int64_t acknowledged[THREADED_LEDGERS], refused;
} adder;

/* Adds to each ledger in turn, until it is refused. */
static void *add_until_fenced(void *context) {
	adder *a = context;
	bool fenced[THREADED_LEDGERS] = {false};
	for (int64_t i = 0; i < ADDS_EACH; i++) {
		int64_t ledger_id = i % THREADED_LEDGERS;
		if (fenced[ledger_id])
			continue;
		wk_status status = add_version(a->ns, ledger_id, a->first_id + i, (uint64_t)(a->first_id + i) + 1, 0, NULL);
		CHECK(status == WK_OK || status == WK_FENCED);
		fenced[ledger_id] = status == WK_FENCED;
		a->acknowledged[ledger_id] += status == WK_OK;
		a->refused += status == WK_FENCED;
	}
	return NULL;
}

typedef struct fencer {
	wk_namespace *ns;
	int64_t ledger_id;
	uint64_t entries; /* that were there when the fence was answered */
} fencer;

static void *fence_in_the_middle(void *context) {
	fencer *f = context;
	while (!is_known(f->ns, f->ledger_id) || entries_of(f->ns, f->ledger_id) < 40)
		usleep(100);
	CHECK_EQ(fence(f->ns, f->ledger_id), WK_OK);
	f->entries = entries_of(f->ns, f->ledger_id);
	return NULL;
}

TEST(no_add_is_acknowledged_that_is_not_there_when_the_fence_is_answered) {
	char path[64];
	strcpy(path, temporary());
	wk_open_options options = store_options();
	options.internal = 0;
	options.in_flight_bytes = 4096; /* adds wait for room, and the fence comes meanwhile */
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	pthread_t threads[ADDERS], fencers[THREADED_LEDGERS];
	adder adders[ADDERS];
	fencer fences[THREADED_LEDGERS];
	for (int i = 0; i < ADDERS; i++) {
		adders[i] = (adder){.ns = ns, .first_id = (int64_t)i * ADDS_EACH};
		CHECK_EQ(pthread_create(&threads[i], NULL, add_until_fenced, &adders[i]), 0);
	}
	for (int i = 0; i < THREADED_LEDGERS; i++) {
		fences[i] = (fencer){.ns = ns, .ledger_id = i};
		CHECK_EQ(pthread_create(&fencers[i], NULL, fence_in_the_middle, &fences[i]), 0);
	}
	for (int i = 0; i < ADDERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADED_LEDGERS; i++)
		pthread_join(fencers[i], NULL);
	for (int l = 0; l < THREADED_LEDGERS; l++) {
		int64_t acknowledged = 0;
		for (int i = 0; i < ADDERS; i++)
			acknowledged += adders[i].acknowledged[l];
		CHECK_EQ(fences[l].entries, acknowledged); /* neither more nor fewer */
		CHECK_EQ(entries_of(ns, l), acknowledged);
	}
	close_store(ns);
	remove_tree(path);
}

int main(void) {
	RUN(what_joins_a_confirm_block_that_waits_is_found_again);
	RUN(a_fence_is_durable_when_it_is_answered);
	RUN(adds_in_flight_are_resolved_when_a_fence_is_answered);
	RUN(a_fence_whose_sync_fails_is_not_answered);
	RUN(no_add_is_acknowledged_that_is_not_there_when_the_fence_is_answered);
	return check_done();
}
