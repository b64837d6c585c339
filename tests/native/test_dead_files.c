/*
 * test_dead_files.c: space that nobody needs is given back as fast as the journal takes it. Threads write the entries of a
 * few ledgers again and again, and delete them: a few MiB are live, the journal goes on, and files in which nothing is live must not pile
 * up behind the keeper (each of its steps may take long: it reads to count what is dead, seals, prepares, syncs).
 */
#include "core/bytes.h"
#include "engine/engine.h"
#include "small_directory.h"
#include "walkeeper/ledger.h"
#include <pthread.h>
#include <stdatomic.h>

enum { LEDGERS = 40, ENTRIES = 60, THREADS = 4, BATCH = 8, SECONDS = 6 };

typedef struct worker {
	wk_namespace *ns;
	uint64_t seed, number;
	pthread_t thread;
} worker;

static _Atomic bool stop;

/* Each thread has ledgers of its own; one change in eleven is the delete of one. */
static void *add_again(void *context) {
	worker *w = context;
	static _Thread_local uint8_t bytes[BATCH][3024];
	while (!atomic_load(&stop)) {
		wk_add adds[BATCH];
		uint64_t ledger = check_random(&w->seed) % (LEDGERS / THREADS) * THREADS + w->number;
		if (check_random(&w->seed) % 11 == 0) {
			wk_status status = wk_ledger_delete(w->ns, (int64_t)ledger, UINT64_MAX, NULL, NULL);
			CHECK(status == WK_OK || status == WK_NO_LEDGER);
			continue;
		}
		for (int i = 0; i < BATCH; i++) {
			wk_store_be64(bytes[i], ledger);
			wk_store_be64(bytes[i] + 8, check_random(&w->seed) % ENTRIES * 3);
			adds[i] = (wk_add){.bytes = bytes[i], .size = sizeof bytes[i]};
		}
		CHECK_EQ(wk_ledger_add(w->ns, adds, BATCH, UINT64_MAX, true, NULL), WK_OK);
	}
	return NULL;
}

static uint32_t dead_files(wk_engine *engine) {
	uint32_t count = 0;
	wk_engine_lock(engine);
	for (uint32_t i = 0; i < engine->files_count; i++)
		count += engine->files[i]->state == WK_FILE_SEALED && engine->files[i]->live_entries == 0;
	wk_engine_unlock(engine);
	return count;
}

TEST(files_without_anything_live_do_not_pile_up_while_the_journal_goes_on) {
	const char *path = temporary();
	wk_open_options options;
	wk_open_options_init(&options);
	options.kind = WK_KIND_LEDGERS;
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.sync_method = WK_SYNC_DSYNC;
	options.cache_bytes = options.memtable_bytes = 64 * 1024;
	options.range_bytes = 1024;
	options.minor_interval_ns = 50000000;
	options.major_interval_ns = 100000000;
	options.minor_percent = 50;
	options.major_percent = 90;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	worker workers[THREADS];
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (worker){.ns = ns, .seed = (uint64_t)i + 1, .number = (uint64_t)i};
		CHECK_EQ(pthread_create(&workers[i].thread, NULL, add_again, &workers[i]), 0);
	}
	wk_stats stats;
	for (int i = 0; i < SECONDS; i++) {
		nap_ms(1000);
		wk_namespace_stats(ns, &stats);
		printf("%d s: %u dead files of %llu, %llu MiB on the disk, %llu live, %llu given back\n", i + 1,
		       dead_files(ns->engine), (unsigned long long)stats.journal_files,
		       (unsigned long long)stats.disk_bytes >> 20, (unsigned long long)stats.live_bytes >> 20,
		       (unsigned long long)stats.recycled_files);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
	/* A tenth of what there is is live: the rest must be on its way out. */
	CHECK(stats.recycled_files * 4 >= stats.journal_files);
	close_all(ns, NULL, NULL);
	remove_tree(path);
}

int main(void) {
	RUN(files_without_anything_live_do_not_pile_up_while_the_journal_goes_on);
	return check_done();
}
