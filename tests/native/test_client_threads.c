/*
 * test_client_threads.c: the client with its driver, on three servers of this process: many threads add, wait, read, fence and
 * close at once. The thread sanitizer and the address sanitizer look on.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check_status.h"
#include "small_directory.h"
#include "walkeeper/cluster.h"
#include "walkeeper/ledger.h"
#include "walkeeper/server.h"

enum { BOOKIES = 3, THREADS = 4, ROUNDS = 60, SIZE = 700 };
#define PATIENCE_NS 60000000000ull

typedef struct bookie {
	char path[64];
	wk_namespace *ns;
	wk_server *server;
} bookie;

static bookie bookies[BOOKIES];
static wk_client *client;
static uint32_t numbers[BOOKIES];

static void start(uint32_t backend) {
	wk_error error = {0};
	for (int i = 0; i < BOOKIES; i++) {
		bookie *b = &bookies[i];
		strcpy(b->path, temporary());
		wk_open_options store;
		wk_open_options_init(&store);
		store.kind = WK_KIND_LEDGERS;
		store.file_size_min = 1 << 20;
		check_ok(wk_open(b->path, &store, &b->ns, &error), &error, "the store opens");
		wk_server_options serve;
		wk_server_options_init(&serve);
		serve.backend = backend;
		wk_status status = wk_server_start(b->ns, &serve, &b->server, &error);
		if (status == WK_UNSUPPORTED)
			SKIP(error.text);
		check_ok(status, &error, "the server starts");
	}
	wk_client_options options;
	wk_client_options_init(&options);
	options.backend = backend;
	check_ok(wk_client_start(&options, &client, &error), &error, "the client starts");
	for (int i = 0; i < BOOKIES; i++) {
		char id[16];
		snprintf(id, sizeof id, "bookie-%d", i);
		check_ok(wk_client_bookie(client, id, "127.0.0.1", wk_server_port(bookies[i].server), &numbers[i], &error),
		         &error, "a bookie has a number");
	}
}

static void stop_bookie(int i) {
	wk_error error = {0};
	(void)wk_server_stop(bookies[i].server, 0, &error);
	bookies[i].server = NULL;
}

static void stop(void) {
	wk_error error = {0};
	wk_client_release(client);
	for (int i = 0; i < BOOKIES; i++) {
		if (bookies[i].server != NULL)
			stop_bookie(i);
		check_ok(wk_close(bookies[i].ns, UINT64_MAX, &error), &error, "the store closes");
		remove_tree(bookies[i].path);
	}
}

static wk_handle *opened(int64_t ledger_id, uint32_t mode) {
	wk_ledger_segment segment = {.bookies = numbers};
	wk_ledger_spec spec = {.ledger_id = ledger_id,
	                       .ensemble_size = BOOKIES,
	                       .write_quorum = BOOKIES,
	                       .ack_quorum = 2,
	                       .digest_type = WK_DIGEST_TYPE_CRC32C,
	                       .segments = &segment,
	                       .segments_count = 1,
	                       .last_entry = -1};
	wk_handle *handle;
	wk_error error = {0};
	check_ok(wk_handle_open(client, &spec, mode, &handle, &error), &error, "a handle opens");
	return handle;
}

/* ---- threads ---- */

typedef struct work {
	pthread_t thread;
	wk_handle *handle;
	wk_cluster_writer *log;
	uint32_t seed;
	_Atomic bool *over;
	int64_t done;
} work;

static void in_threads(void *(*run)(void *), work *works, int count) {
	for (int i = 0; i < count; i++) {
		works[i].seed = (uint32_t)i + 1;
		CHECK_EQ(pthread_create(&works[i].thread, NULL, run, &works[i]), 0);
	}
	for (int i = 0; i < count; i++)
		CHECK_EQ(pthread_join(works[i].thread, NULL), 0);
}

static void *add_and_read(void *context) {
	work *w = context;
	uint8_t payload[SIZE];
	memset(payload, (int)w->seed, sizeof payload);
	for (int round = 0; round < ROUNDS; round++) {
		wk_error error = {0};
		int64_t entry_id;
		wk_status status = round % 3 == 0 ? wk_handle_add(w->handle, payload, SIZE, PATIENCE_NS, &entry_id, &error)
		                                  : wk_handle_submit(w->handle, payload, SIZE, PATIENCE_NS, &entry_id, &error);
		check_ok(status, &error, "an entry is accepted");
		check_ok(wk_handle_wait(w->handle, entry_id, PATIENCE_NS, &error), &error, "it is confirmed");
		wk_entries *entries;
		check_ok(wk_handle_read(w->handle, entry_id, entry_id, 1, PATIENCE_NS, &entries, &error), &error, "it is read");
		size_t count;
		const wk_read_entry *entry = wk_entries_get(entries, &count);
		CHECK(count == 1 && entry->size == SIZE && entry->payload[0] == w->seed);
		wk_entries_release(entries);
		w->done++;
	}
	return NULL;
}

static void threads_share_a_handle(uint32_t backend) {
	start(backend);
	work works[THREADS] = {0};
	wk_handle *handle = opened(1, WK_HANDLE_WRITE);
	for (int i = 0; i < THREADS; i++)
		works[i].handle = handle;
	in_threads(add_and_read, works, THREADS);
	int64_t last;
	uint64_t length;
	wk_error error = {0};
	check_ok(wk_handle_seal(handle, PATIENCE_NS, &last, &length, &error), &error, "the handle is sealed");
	CHECK_EQ(last, THREADS * ROUNDS - 1);
	CHECK_EQ(length, (uint64_t)THREADS * ROUNDS * SIZE);
	wk_handle_close(handle);
	stop();
}

TEST(threads_share_a_handle_over_io_uring) {
	threads_share_a_handle(WK_BACKEND_URING);
}

TEST(threads_share_a_handle_over_epoll) {
	threads_share_a_handle(WK_BACKEND_PSYNC);
}

/* Handles come and go, with entries on their way, while others are written. */
static void *open_and_close(void *context) {
	work *w = context;
	for (int round = 0; round < ROUNDS; round++) {
		wk_error error = {0};
		int64_t entry_id;
		wk_handle *handle = opened(1000 * (int64_t)w->seed + round, WK_HANDLE_WRITE);
		for (int i = 0; i < 5; i++)
			check_ok(wk_handle_submit(handle, "x", 1, PATIENCE_NS, &entry_id, &error), &error, "an entry is accepted");
		if (round % 2 == 0)
			check_ok(wk_handle_wait(handle, 4, PATIENCE_NS, &error), &error, "it is confirmed");
		wk_handle_close(handle);
	}
	return NULL;
}

TEST(handles_come_and_go) {
	start(WK_BACKEND_AUTO);
	work works[THREADS] = {0};
	in_threads(open_and_close, works, THREADS);
	stop();
}

/* ---- fencing ---- */

static void *add_until_fenced(void *context) {
	work *w = context;
	for (;;) {
		int64_t entry_id;
		wk_status status = wk_handle_add(w->handle, "x", 1, PATIENCE_NS, &entry_id, NULL);
		if (status != WK_OK) {
			CHECK_EQ(status, WK_FENCED);
			return NULL;
		}
		w->done = entry_id > w->done ? entry_id : w->done;
		atomic_store(w->over, true);
	}
}

static void *recover(void *context) {
	work *w = context;
	while (!atomic_load(w->over))
		usleep(1000);
	wk_handle *reader = opened(7, WK_HANDLE_READ);
	uint64_t length;
	wk_error error = {0};
	check_ok(wk_handle_recover(reader, PATIENCE_NS, &w->done, &length, &error), &error, "the ledger is recovered");
	CHECK_EQ(length, (uint64_t)w->done + 1);
	wk_handle_close(reader);
	return NULL;
}

static void *of_two_kinds(void *context) {
	work *w = context;
	return w->seed <= 2 ? add_until_fenced(w) : recover(w);
}

TEST(two_who_recover_a_ledger_that_is_written_agree) {
	start(WK_BACKEND_AUTO);
	_Atomic bool written = false;
	wk_handle *writer = opened(7, WK_HANDLE_WRITE);
	work works[THREADS] = {0};
	for (int i = 0; i < THREADS; i++)
		works[i] = (work){.handle = writer, .over = &written, .done = -1};
	in_threads(of_two_kinds, works, THREADS);
	CHECK_EQ(works[2].done, works[3].done);
	CHECK(works[0].done <= works[2].done && works[1].done <= works[2].done);
	wk_handle_close(writer);
	stop();
}

/* ---- a bookie goes ---- */

static void *stop_one(void *context) {
	(void)context;
	usleep(5000);
	stop_bookie(1);
	return NULL;
}

static void *one_stops(void *context) {
	work *w = context;
	return w->seed == 1 ? stop_one(w) : add_and_read(w);
}

TEST(a_bookie_that_stops_fails_no_add) {
	start(WK_BACKEND_AUTO);
	work works[THREADS] = {0};
	wk_handle *handle = opened(9, WK_HANDLE_WRITE);
	for (int i = 0; i < THREADS; i++)
		works[i].handle = handle;
	in_threads(one_stops, works, THREADS);
	wk_handle_state state;
	wk_handle_state_get(handle, &state);
	CHECK_EQ(state.lac, (THREADS - 1) * ROUNDS - 1);
	wk_handle_close(handle);
	stop();
}

/* ---- logs ---- */

static void *append(void *context) {
	work *w = context;
	for (int round = 0; round < ROUNDS; round++) {
		wk_error error = {0};
		wk_position at;
		wk_status status = wk_cluster_writer_append(w->log, "record", 6, NULL, &at, &error);
		if (status == WK_NEEDS_SEGMENT) { /* another thread ends it just now */
			usleep(1000);
			round--;
			continue;
		}
		check_ok(status, &error, "a record is appended");
	}
	return NULL;
}

static void *roll(void *context) {
	work *w = context;
	for (int64_t segment = 2; segment < 8; segment++) {
		usleep(5000);
		wk_segment_end end;
		wk_error error = {0};
		wk_handle *before = w->handle;
		check_ok(wk_cluster_writer_end_segment(w->log, PATIENCE_NS, &end, &error), &error, "a segment ends");
		CHECK(end.whole);
		wk_handle_close(before);
		w->handle = opened(100 + segment, WK_HANDLE_WRITE);
		check_ok(wk_cluster_writer_begin_segment(w->log, w->handle, segment, &error), &error, "another one begins");
	}
	return NULL;
}

static void *append_or_roll(void *context) {
	work *w = context;
	return w->seed == 1 ? roll(w) : append(w);
}

TEST(a_log_rolls_while_threads_append) {
	start(WK_BACKEND_AUTO);
	wk_error error = {0};
	wk_cluster_writer_options options = {.log = "orders",
	                                     .segment_bytes = UINT64_MAX,
	                                     .txid_source = WK_TXID_CLOCK,
	                                     .last = {.sequence_id = -1, .txid = -1}};
	wk_cluster_writer *log;
	check_ok(wk_cluster_writer_open(&options, &log, &error), &error, "a writer opens");
	work works[THREADS] = {0};
	works[0].handle = opened(101, WK_HANDLE_WRITE);
	check_ok(wk_cluster_writer_begin_segment(log, works[0].handle, 1, &error), &error, "a segment begins");
	for (int i = 0; i < THREADS; i++)
		works[i].log = log;
	in_threads(append_or_roll, works, THREADS);
	wk_position next;
	check_ok(wk_cluster_writer_flush(log, PATIENCE_NS, &next, &error), &error, "all of it is confirmed");
	CHECK_EQ(next.sequence_id, (THREADS - 1) * ROUNDS);
	wk_cluster_writer_close(log);
	wk_handle_close(works[0].handle);
	stop();
}

/* ---- the end ---- */

static void *wait_for_the_end(void *context) {
	work *w = context;
	int64_t entry_id;
	for (;;)
		if (wk_handle_add(w->handle, "x", 1, PATIENCE_NS, &entry_id, NULL) != WK_OK)
			return NULL;
}

static void *end_the_client(void *context) {
	(void)context;
	usleep(10000);
	wk_client_stop(client);
	return NULL;
}

static void *wait_or_end(void *context) {
	work *w = context;
	return w->seed == 1 ? end_the_client(w) : wait_for_the_end(w);
}

TEST(a_client_that_is_stopped_ends_all_who_wait) {
	start(WK_BACKEND_AUTO);
	wk_handle *handle = opened(11, WK_HANDLE_WRITE);
	work works[THREADS] = {0};
	for (int i = 0; i < THREADS; i++)
		works[i].handle = handle;
	in_threads(wait_or_end, works, THREADS);
	wk_handle_close(handle);
	stop();
}

int main(void) {
	RUN(threads_share_a_handle_over_io_uring);
	RUN(threads_share_a_handle_over_epoll);
	RUN(handles_come_and_go);
	RUN(two_who_recover_a_ledger_that_is_written_agree);
	RUN(a_bookie_that_stops_fails_no_add);
	RUN(a_log_rolls_while_threads_append);
	RUN(a_client_that_is_stopped_ends_all_who_wait);
	return check_done();
}
