/* test_committer.c: a thread that adds, must not wait, and writes the blocks itself. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

#include "engine/committer.h"
#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"
#include "small_directory.h"

enum { PATIENCE_MS = 60000, ADD_SIZE = 200, LARGE_SIZE = 32 * 1024 };

static wk_committer *committer;
static uint64_t wait_ns;
static size_t add_size = ADD_SIZE;

static void begin(wk_namespace *ns) {
	wk_error error = {0};
	check_ok(wk_committer_open(ns, NULL, &committer, &error), &error, "the committer opens");
}

/* So many of them, from the first on, were accepted. */
static int add_some(wk_namespace *ns, int64_t first, int count, uint64_t *last) {
	static uint8_t bytes[64][LARGE_SIZE];
	wk_add adds[64];
	for (int i = 0; i < count; i++) {
		wk_store_be64_signed(bytes[i], 5);
		wk_store_be64_signed(bytes[i] + 8, first + i);
		adds[i] = an_add(bytes[i], add_size, 0);
	}
	wk_error error = {0};
	wk_status status = wk_ledger_add(ns, adds, (size_t)count, 0, false, &error);
	int accepted = 0;
	for (; accepted < count && adds[accepted].status == WK_OK; accepted++)
		*last = adds[accepted].ticket;
	CHECK(accepted == count ? status == WK_OK : status == WK_WOULD_BLOCK);
	return accepted;
}

/* A turn, as the header says it. */
static void wait_until_told(wk_namespace *ns, bool told) {
	struct pollfd event = {.fd = wk_namespace_eventfd(ns), .events = POLLIN};
	uint64_t durable;
	if (told)
		CHECK_EQ(poll(&event, 1, PATIENCE_MS), 1);
	else
		poll(&event, 1, 1);
	wk_namespace_drain(ns, &durable);
}

/* All of them; where there is no room now, the rest come again. */
static void add_all(wk_namespace *ns, int64_t first, int count, uint64_t *last) {
	for (int added = 0; (added += add_some(ns, first + added, count - added, last)) < count;) {
		(void)wk_committer_push(committer, &wait_ns);
		wait_until_told(ns, false);
		CHECK_EQ(wk_committer_collect(committer), WK_OK);
	}
}

static void until_durable(wk_namespace *ns, uint64_t ticket) {
	while (wk_namespace_durable(ns) < ticket) {
		bool told = wk_committer_push(committer, &wait_ns);
		if (!told)
			wk_namespace_arm(ns, ticket);
		if (wait_ns == UINT64_MAX)
			wait_until_told(ns, true);
		CHECK_EQ(wk_committer_collect(committer), WK_OK);
	}
}

static void rest(void) {
	while (wk_committer_push(committer, &wait_ns))
		(void)wk_committer_collect(committer);
	wk_committer_close(committer);
}

static void with_files_of(uint64_t size, int backend, int rounds) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.kind = WK_KIND_LEDGERS;
	options.backend = (uint32_t)backend;
	options.file_size_min = options.file_size_max = size;
	options.confirm_delay_ns = (uint64_t)3600 * 1000 * 1000 * 1000; /* else it wakes a driver that sleeps for ever */
	wk_namespace *ns = NULL;
	wk_error error = {0};
	char path[64];
	strcpy(path, temporary());
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	begin(ns);
	int64_t next = 0;
	for (int round = 0; round < rounds; round++) {
		uint64_t ticket;
		int count = 1 + round % 60;
		add_all(ns, next, count, &ticket);
		next += count;
		if (round % 6 == 5)
			until_durable(ns, ticket);
	}
	uint64_t last;
	add_all(ns, next, 1, &last);
	until_durable(ns, last);
	rest();
	wk_ledger_info info;
	check_ok(wk_ledger_describe(ns, 5, &info, &error), &error, "the ledger is there");
	CHECK_EQ(info.last_entry, next);
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
	remove_tree(path);
}

TEST(what_is_pushed_becomes_durable) {
	with_files_of(16 << 20, WK_BACKEND_PSYNC, 500);
	with_files_of(16 << 20, WK_BACKEND_AUTO, 500);
}

/* Each block or two needs another file, which the driver makes, while the next is being sealed here. */
TEST(the_driver_has_what_needs_another_file) {
	with_files_of(64 << 10, WK_BACKEND_PSYNC, 300);
	with_files_of(64 << 10, WK_BACKEND_AUTO, 300);
}

/* All slots are taken by large blocks when the next one needs another file. */
TEST(the_driver_looks_again_once_there_is_a_slot) {
	add_size = LARGE_SIZE;
	with_files_of(2 << 20, WK_BACKEND_PSYNC, 200);
	with_files_of(2 << 20, WK_BACKEND_AUTO, 200);
	add_size = ADD_SIZE;
}

/* ---- others ---- */

typedef struct other {
	wk_namespace *ns;
	_Atomic bool done;
} other;

static void *adds_and_waits(void *context) {
	other *o = context;
	static uint8_t bytes[ADD_SIZE];
	wk_store_be64_signed(bytes, 6);
	for (int64_t id = 0; id < 100; id++) {
		wk_store_be64_signed(bytes + 8, id);
		wk_add add = an_add(bytes, ADD_SIZE, 0);
		wk_error error = {0};
		check_ok(wk_ledger_add(o->ns, &add, 1, 60000000000, true, &error), &error, "an add that is waited for");
	}
	atomic_store(&o->done, true);
	wk_namespace_arm(o->ns, 1);
	return NULL;
}

TEST(who_waits_in_another_thread_is_served_by_it) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.kind = WK_KIND_LEDGERS;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	char path[64];
	strcpy(path, temporary());
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	begin(ns);
	(void)wk_committer_push(committer, &wait_ns); /* it is this thread's now */
	other o = {.ns = ns};
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, adds_and_waits, &o), 0);
	while (!atomic_load(&o.done)) {
		wait_until_told(ns, true);
		CHECK_EQ(wk_committer_collect(committer), WK_OK);
		(void)wk_committer_push(committer, &wait_ns);
	}
	pthread_join(thread, NULL);
	rest();
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
	remove_tree(path);
}

TEST(what_is_open_when_it_ends_is_the_drivers) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.kind = WK_KIND_LEDGERS;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	char path[64];
	strcpy(path, temporary());
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	begin(ns);
	uint64_t ticket;
	add_all(ns, 0, 3, &ticket);
	wk_committer_close(committer);
	struct pollfd event = {.fd = wk_namespace_eventfd(ns), .events = POLLIN};
	wk_namespace_arm(ns, ticket);
	while (wk_namespace_durable(ns) < ticket)
		CHECK_EQ(poll(&event, 1, PATIENCE_MS), 1);
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
	remove_tree(path);
}

/* ---- by the step ---- */

TEST(a_write_that_fails_is_told_and_acknowledges_nothing) {
	wk_io *io = new_disk(3);
	wk_namespace *ns = open_store(io);
	begin(ns);
	uint64_t ticket;
	CHECK_EQ(add_some(ns, 0, 2, &ticket), 2);
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_WRITE, 0, EIO, false);
	while (wk_committer_push(committer, &wait_ns))
		(void)wk_committer_collect(committer);
	CHECK_EQ(wk_committer_collect(committer), WK_FAILED);
	CHECK(wk_namespace_durable(ns) < ticket);
	wk_committer_close(committer);
	wk_abandon(ns);
	io->operations->destroy(io);
}

/*
 * Two came back of three that were let go: the block waits for the third, but not for long. The driver has the same clock,
 * and each of its operations moves it: where they take the whole wait, the round is played again.
 */
TEST(a_block_waits_a_moment_for_those_that_were_let_go_with_the_others) {
	wk_io *io = new_disk(4);
	wk_open_options options = store_options();
	options.internal = 0;
	wk_namespace *ns = open_store_with(io, &options);
	begin(ns);
	uint64_t ticket;
	int64_t next = 0;
	bool waits = false;
	for (int round = 0; round < 50 && !waits; round++, next += 6) {
		add_all(ns, next, 3, &ticket);
		CHECK(wk_committer_push(committer, &wait_ns));
		wk_faulty_advance(wk_faulty_of(io), 1000000);    /* so long takes a write */
		CHECK_EQ(add_some(ns, next + 3, 1, &ticket), 1); /* who comes meanwhile is its company, too */
		while (wk_namespace_durable(ns) + 1 < ticket)
			CHECK_EQ(wk_committer_collect(committer), WK_OK);
		CHECK_EQ(add_some(ns, next + 4, 2, &ticket), 2);
		waits = !wk_committer_push(committer, &wait_ns);
		while (!waits && wk_namespace_durable(ns) < ticket) {
			CHECK_EQ(wk_committer_collect(committer), WK_OK);
			(void)wk_committer_push(committer, &wait_ns);
		}
	}
	CHECK(waits);
	CHECK(wait_ns > 0 && wait_ns < 1000000);
	wk_faulty_advance(wk_faulty_of(io), wait_ns);
	CHECK(wk_committer_push(committer, &wait_ns));
	CHECK_EQ(wait_ns, UINT64_MAX);
	rest();
	CHECK(wk_namespace_durable(ns) >= ticket);
	close_store(ns);
	io->operations->destroy(io);
}

/* The driver slept while there was nothing to confirm, and nobody waits in a thread of its own. */
TEST(rule_11_a_confirm_block_follows_what_it_wrote) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.kind = WK_KIND_LEDGERS;
	options.sync_method = WK_SYNC_DSYNC;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	char path[64];
	strcpy(path, temporary());
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	begin(ns);
	for (int64_t id = 0; id < 3; id++) {
		uint64_t ticket;
		add_all(ns, id, 1, &ticket);
		until_durable(ns, ticket);
		for (int i = 0; i < 200 && wk_namespace_durable(ns) == ticket; i++) {
			wait_until_told(ns, false);
			usleep(20000);
			CHECK_EQ(wk_committer_collect(committer), WK_OK);
		}
		CHECK_EQ(wk_namespace_durable(ns), ticket + 1);
		usleep(200000);
		CHECK_EQ(wk_namespace_durable(ns), ticket + 1); /* and none behind that */
	}
	rest();
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
	remove_tree(path);
}

TEST(a_store_has_one) {
	wk_io *io = new_disk(5);
	wk_namespace *ns = open_store(io);
	begin(ns);
	wk_committer *second;
	wk_error error = {0};
	CHECK_EQ(wk_committer_open(ns, NULL, &second, &error), WK_INVALID);
	CHECK(strstr(error.text, "it has one") != NULL);
	wk_committer_close(committer);
	check_ok(wk_committer_open(ns, NULL, &second, &error), &error, "another opens behind it");
	wk_committer_close(second);
	close_store(ns);
	io->operations->destroy(io);
}

int main(void) {
	RUN(what_is_pushed_becomes_durable);
	RUN(the_driver_has_what_needs_another_file);
	RUN(the_driver_looks_again_once_there_is_a_slot);
	RUN(who_waits_in_another_thread_is_served_by_it);
	RUN(what_is_open_when_it_ends_is_the_drivers);
	RUN(a_write_that_fails_is_told_and_acknowledges_nothing);
	RUN(a_block_waits_a_moment_for_those_that_were_let_go_with_the_others);
	RUN(rule_11_a_confirm_block_follows_what_it_wrote);
	RUN(a_store_has_one);
	return check_done();
}
