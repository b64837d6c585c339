/*
 * test_ledger_delete.c: deleting ledgers: unknown from then on, also after a kill; their space comes back; and ledgers
 * that several threads make and delete.
 */
#include "engine/manual.h"
#include "ledger_store.h"
#include "small_directory.h"
#include <pthread.h>
#include <stdatomic.h>

TEST(a_deleted_ledger_is_unknown_and_stays_so) {
	wk_io *io = new_disk(19);
	wk_namespace *ns = open_store(io);
	for (int64_t id = 0; id < 10; id++)
		add_entry(ns, 1, id);
	CHECK_EQ(fence(ns, 1), WK_OK);
	uint64_t ticket;
	CHECK_EQ(wk_ledger_delete(ns, 1, 0, &ticket, NULL), WK_OK);
	CHECK_EQ(version_of(ns, 1, 3), 4); /* not durable yet */
	CHECK_EQ(add_version(ns, 1, 10, 1, WK_ADD_RECOVERY, NULL), WK_DELETED);
	CHECK_EQ(fence(ns, 1), WK_DELETED);
	uint64_t again;
	CHECK_EQ(wk_ledger_delete(ns, 1, 0, &again, NULL), WK_OK);
	CHECK_EQ(again, ticket);
	CHECK_EQ(wk_namespace_wait(ns, ticket, UINT64_MAX, NULL), WK_OK);
	for (int round = 0; round < 3; round++) {
		CHECK(!is_known(ns, 1));
		wk_entry_batch *batch;
		CHECK_EQ(wk_ledger_read(ns, 1, 3, 1, 100, &batch, NULL), WK_NO_LEDGER);
		CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_NO_LEDGER);
		round == 0 ? kill_store(ns, io) : close_store(ns);
		ns = open_store(io);
	}
	/* A new one of that id has nothing of the old one: neither key nor fence nor entries. */
	uint8_t bytes[32] = {0};
	wk_store_be64(bytes, 1);
	wk_add add = {.bytes = bytes, .size = sizeof bytes, .key = OTHER_KEY, .key_size = sizeof OTHER_KEY - 1};
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
	for (int round = 0; round < 2; round++) {
		CHECK_EQ(entries_of(ns, 1), 1);
		CHECK(!info_of(ns, 1).fenced);
		CHECK_EQ(info_of(ns, 1).key_size, sizeof OTHER_KEY - 1);
		round == 0 ? kill_store(ns, io) : close_store(ns);
		ns = open_store(io);
	}
	close_store(ns);
	io->operations->destroy(io);
}

TEST(what_is_deleted_gives_its_space_back) {
	wk_io *io = new_disk(20);
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	wk_namespace *ns = open_store_with(io, &options);
	uint64_t most = 0;
	for (int64_t ledger_id = 0; ledger_id < 40; ledger_id++) {
		fill_ledger(ns, ledger_id, 40);
		if (ledger_id >= 2)
			CHECK_EQ(wk_ledger_delete(ns, ledger_id - 2, UINT64_MAX, NULL, NULL), WK_OK);
		work(ns);
		uint64_t files = stats_of(ns).journal_files;
		most = files > most ? files : most;
	}
	CHECK(most < 20); /* of 200 that were filled */
	CHECK(stats_of(ns).recycled_files > 100);
	kill_store(ns, io);
	ns = open_store_with(io, &options);
	int64_t ids[8];
	size_t count;
	CHECK_EQ(wk_ledger_list(ns, 0, ids, 8, &count, NULL), WK_OK);
	CHECK_EQ(count, 2);
	CHECK_EQ(ids[0], 38);
	close_store(ns);
	io->operations->destroy(io);
}

/* ---- threads ---- */

enum { CHURNERS = 4 };

typedef struct churner {
	wk_namespace *ns;
	int64_t ledger_id;
} churner;

/* Makes a ledger, reads it back, deletes it, again and again. */
static void *churn(void *context) {
	churner *c = context;
	for (uint64_t round = 1; round <= 30; round++) {
		for (int64_t id = 0; id < 10; id++)
			CHECK_EQ(add_version(c->ns, c->ledger_id, id, round * 100 + (uint64_t)id, id % 3 == 0 ? WK_ADD_DEFERRED : 0,
			                     NULL),
			         WK_OK);
		CHECK_EQ(wk_ledger_force(c->ns, c->ledger_id, UINT64_MAX, NULL, NULL), WK_OK);
		for (int64_t id = 0; id < 10; id++)
			CHECK_EQ(version_of(c->ns, c->ledger_id, id), round * 100 + (uint64_t)id);
		CHECK_EQ(
		    wk_ledger_set_lac(c->ns, c->ledger_id, KEY, sizeof KEY - 1, &round, sizeof round, UINT64_MAX, NULL, NULL),
		    WK_OK);
		int64_t ids[8];
		size_t count;
		CHECK_EQ(wk_ledger_list(c->ns, 0, ids, 8, &count, NULL), WK_OK);
		CHECK(count >= 1);
		CHECK_EQ(wk_ledger_delete(c->ns, c->ledger_id, UINT64_MAX, NULL, NULL), WK_OK);
		CHECK(!is_known(c->ns, c->ledger_id));
	}
	return NULL;
}

static _Atomic bool churned;

/* A ledger that is known has entries here, or is gone by the time it is read: never is it there without its last entry. */
static void *ask_for_the_last(void *context) {
	wk_namespace *ns = context;
	uint64_t read = 0;
	for (int64_t ledger_id = 0; !atomic_load(&churned); ledger_id = (ledger_id + 1) % CHURNERS) {
		wk_entry_batch *batch;
		wk_error error;
		wk_status status = wk_ledger_read(ns, ledger_id, WK_LAST_ENTRY, 1, 100, &batch, &error);
		if (status == WK_OK) {
			read++;
			wk_entry_batch_release(batch);
		} else {
			if (status != WK_NO_LEDGER)
				printf("%s\n", error.text);
			CHECK_EQ(status, WK_NO_LEDGER);
		}
	}
	CHECK(read > 0);
	return NULL;
}

TEST(ledgers_come_and_go_in_several_threads) {
	char path[64];
	strcpy(path, temporary());
	wk_open_options options = store_options();
	options.internal = 0;
	options.file_size_max = options.file_size_min;
	options.minor_interval_ns = 1000 * 1000;
	options.minor_percent = 80;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	pthread_t threads[CHURNERS], reader;
	churner churners[CHURNERS];
	add_entry(ns, 99, 0);
	for (int i = 0; i < CHURNERS; i++) {
		churners[i] = (churner){ns, i};
		CHECK_EQ(pthread_create(&threads[i], NULL, churn, &churners[i]), 0);
	}
	CHECK_EQ(pthread_create(&reader, NULL, ask_for_the_last, ns), 0);
	for (int i = 0; i < CHURNERS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&churned, true);
	pthread_join(reader, NULL);
	close_store(ns);
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	int64_t ids[8];
	size_t count;
	CHECK_EQ(wk_ledger_list(ns, 0, ids, 8, &count, NULL), WK_OK);
	CHECK_EQ(count, 1);
	CHECK_EQ(ids[0], 99);
	close_store(ns);
	remove_tree(path);
}

int main(void) {
	RUN(a_deleted_ledger_is_unknown_and_stays_so);
	RUN(what_is_deleted_gives_its_space_back);
	RUN(ledgers_come_and_go_in_several_threads);
	return check_done();
}
