/*
 * test_group_commit.c: the open block waits for as many appends as became durable together last (storage rule 32, group_commit.h):
 * the arithmetic, and that nobody waits in vain.
 */
#include "engine/directory/handles.h"
#include "small_directory.h"
#include <pthread.h>

enum { MS = 1000 * 1000 };
static const uint64_t LONG_NS = 8000000000u;

/* ---- how many, how long ---- */

TEST(as_many_are_awaited_as_were_let_go) {
	wk_group_commit company = {0};
	CHECK(!wk_group_commit_waits(&company, 1, 0));
	wk_group_commit_released(&company, 5, 1, 100 * 1000, 1000);
	CHECK(wk_group_commit_waits(&company, 4, 1000));
	CHECK(!wk_group_commit_waits(&company, 5, 1000));
}

TEST(one_at_a_time_waits_for_nobody) {
	wk_group_commit company = {0};
	wk_group_commit_released(&company, 1, 1, 100 * 1000, 1000);
	CHECK(!wk_group_commit_waits(&company, 1, 1000));
}

TEST(a_wait_is_a_part_of_what_a_block_takes) {
	wk_group_commit company = {0};
	wk_group_commit_released(&company, 5, 1, 100 * 1000, 1000);
	CHECK_EQ(company.until_ns, 1000 + 25 * 1000);
	CHECK(wk_group_commit_waits(&company, 1, 1000 + 25 * 1000 - 1));
	CHECK(!wk_group_commit_waits(&company, 1, 1000 + 25 * 1000));
}

TEST(one_slow_block_changes_little_and_many_change_it) {
	wk_group_commit company = {0};
	wk_group_commit_released(&company, 5, 1, 80 * 1000, 0);
	wk_group_commit_released(&company, 5, 1, 160 * 1000, 0);
	CHECK_EQ(company.took_ns, 90 * 1000);
	for (int i = 0; i < 200; i++)
		wk_group_commit_released(&company, 5, 1, 40 * 1000, 0);
	CHECK(company.took_ns >= 40 * 1000 && company.took_ns < 41 * 1000);
}

TEST(on_a_slow_disk_too_nobody_waits_long) {
	wk_group_commit company = {0};
	wk_group_commit_released(&company, 5, 1, 10000u * MS, 7);
	CHECK_EQ(company.until_ns, 7 + WK_GROUP_COMMIT_WAIT_NS_MAX);
}

TEST(a_crowd_of_threads_is_not_awaited) {
	wk_group_commit company = {0};
	wk_group_commit_released(&company, 40, WK_GROUP_COMMIT_SLEEPERS_MAX, 1000, 0);
	CHECK_EQ(company.expected, 40);
	wk_group_commit_released(&company, 40, WK_GROUP_COMMIT_SLEEPERS_MAX + 1, 1000, 0);
	CHECK_EQ(company.expected, 0);
	wk_group_commit_released(&company, 5, 30, 1000, 0); /* few went, but others wait for the next block */
	CHECK_EQ(company.expected, 0);
}

TEST(more_than_can_be_back_in_time_are_not_awaited) {
	wk_group_commit company = {0};
	wk_group_commit_released(&company, WK_GROUP_COMMIT_MAX, 1, 1000, 0);
	CHECK_EQ(company.expected, WK_GROUP_COMMIT_MAX);
	wk_group_commit_released(&company, WK_GROUP_COMMIT_MAX + 1, 1, 1000, 0);
	CHECK_EQ(company.expected, 0);
}

/* ---- in an engine ---- */

typedef struct desk {
	char path[64];
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
	uint64_t blocks; /* when the company was expected */
} desk;

static uint64_t blocks_of(const desk *d) {
	wk_stats stats;
	wk_namespace_stats(d->ns, &stats);
	return stats.blocks_count;
}

static void open_desk(desk *d, uint64_t in_flight_bytes) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.blocks_in_flight = 2;
	options.in_flight_bytes = in_flight_bytes;
	options.confirm_delay_ns = 60000000000u; /* no block of its own meanwhile */
	wk_error error = {0};
	strcpy(d->path, temporary());
	check_ok(wk_open(d->path, &options, &d->ns, &error), &error, "the directory opens");
	d->log = log_named(d->ns, "log");
	d->writer = writer_of(d->log);
	append_one(d->writer);
}

static void close_desk(desk *d) {
	CHECK_EQ(wk_writer_close(d->writer, UINT64_MAX, NULL), WK_OK);
	wk_log_release(d->log);
	CHECK_EQ(wk_close(d->ns, UINT64_MAX, NULL), WK_OK);
	remove_tree(d->path);
}

/* As if so many had just become durable; they are waited for until then. */
static void expect(desk *d, uint32_t appends, uint64_t until_ns) {
	wk_engine *engine = d->ns->engine;
	wk_engine_lock(engine);
	engine->group_commit.expected = appends;
	engine->group_commit.until_ns = until_ns;
	wk_engine_unlock(engine);
	d->blocks = blocks_of(d);
}

static uint64_t submit(desk *d, uint32_t count) {
	uint64_t ticket = 0;
	while (count-- > 0)
		CHECK_EQ(wk_writer_submit(d->writer, "record", 6, NULL, NULL, &ticket, NULL), WK_OK);
	return ticket;
}

TEST(a_block_stays_open_until_the_last_of_its_company_has_come) {
	desk d;
	open_desk(&d, 0);
	expect(&d, 8, UINT64_MAX);
	uint64_t ticket = submit(&d, 7);
	CHECK_EQ(wk_namespace_wait(d.ns, ticket, 50 * MS, NULL), WK_TIMEOUT);
	CHECK_EQ(submit(&d, 1), ticket);
	CHECK_EQ(wk_namespace_wait(d.ns, ticket, LONG_NS, NULL), WK_OK);
	CHECK_EQ(blocks_of(&d), d.blocks + 1);
	CHECK_EQ(d.ns->engine->group_commit.expected, 8); /* and they are expected again */
	close_desk(&d);
}

TEST(a_block_goes_without_them_when_their_time_is_over) {
	desk d;
	open_desk(&d, 0);
	expect(&d, 8, wk_engine_now(d.ns->engine) + 20 * MS);
	uint64_t ticket = submit(&d, 7);
	CHECK_EQ(wk_namespace_wait(d.ns, ticket, LONG_NS, NULL), WK_OK);
	CHECK_EQ(blocks_of(&d), d.blocks + 1);
	close_desk(&d);
}

static void *append_in_thread(void *context) {
	CHECK_EQ(wk_writer_append(context, "record", 6, NULL, NULL, NULL), WK_OK);
	return NULL;
}

TEST(threads_that_wait_go_together_and_the_last_one_writes) {
	desk d;
	pthread_t threads[4];
	open_desk(&d, 0);
	expect(&d, 4, UINT64_MAX);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, append_in_thread, d.writer), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(blocks_of(&d), d.blocks + 1);
	close_desk(&d);
}

TEST(no_more_threads_than_slots_write_side_by_side) {
	desk d;
	open_desk(&d, 0);
	expect(&d, 2, UINT64_MAX);
	append_one(d.writer); /* returns */
	CHECK_EQ(blocks_of(&d), d.blocks + 1);
	close_desk(&d);
}

TEST(a_block_does_not_wait_for_those_who_have_no_room) {
	desk d;
	open_desk(&d, 64 * 1024);
	expect(&d, 100, UINT64_MAX);
	static char payload[16 * 1024];
	wk_append_options options;
	wk_append_options_init(&options);
	options.timeout_ns = LONG_NS;
	uint64_t ticket = 0;
	for (int i = 0; i < 10; i++)
		CHECK_EQ(wk_writer_submit(d.writer, payload, sizeof payload, &options, NULL, &ticket, NULL), WK_OK);
	expect(&d, 0, 0);
	CHECK_EQ(wk_writer_flush(d.writer, UINT64_MAX, NULL, NULL), WK_OK);
	close_desk(&d);
}

/* The time may pass between any two looks at the clock; on a disk in memory it passes all the time. */
TEST(no_window_stands_still) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.unsafe_fs = true;
	wk_error error = {0};
	desk d;
	strcpy(d.path, access("/dev/shm", W_OK) == 0 ? "/dev/shm/walkeeper-test-XXXXXX" : "/tmp/walkeeper-test-XXXXXX");
	CHECK(mkdtemp(d.path) != NULL);
	check_ok(wk_open(d.path, &options, &d.ns, &error), &error, "the directory opens");
	d.log = log_named(d.ns, "log");
	d.writer = writer_of(d.log);
	uint64_t seed = check_seed(1), begin = wk_engine_now(d.ns->engine), rounds = 0;
	for (; wk_engine_now(d.ns->engine) - begin < 1500u * MS; rounds++) {
		uint64_t ticket = submit(&d, 1 + (uint32_t)(check_random(&seed) % 12));
		CHECK_EQ(wk_namespace_wait(d.ns, ticket, 2000u * MS, NULL),
		         WK_OK); /* after some seconds the keeper wakes all */
	}
	printf("%llu windows\n", (unsigned long long)rounds);
	close_desk(&d);
}

int main(void) {
	RUN(as_many_are_awaited_as_were_let_go);
	RUN(one_at_a_time_waits_for_nobody);
	RUN(a_wait_is_a_part_of_what_a_block_takes);
	RUN(one_slow_block_changes_little_and_many_change_it);
	RUN(on_a_slow_disk_too_nobody_waits_long);
	RUN(a_crowd_of_threads_is_not_awaited);
	RUN(more_than_can_be_back_in_time_are_not_awaited);
	RUN(a_block_stays_open_until_the_last_of_its_company_has_come);
	RUN(a_block_goes_without_them_when_their_time_is_over);
	RUN(threads_that_wait_go_together_and_the_last_one_writes);
	RUN(no_more_threads_than_slots_write_side_by_side);
	RUN(a_block_does_not_wait_for_those_who_have_no_room);
	RUN(no_window_stands_still);
	return check_done();
}
