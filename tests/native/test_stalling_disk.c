/*
 * test_stalling_disk.c: the disk stands still (storage rule 30). Who gave a time gets its answer then, what was accepted
 * is not shown before it is durable, and nobody is told that a log has ended while records before its end are under way.
 */
#include "change_on_its_way.h"
#include "stalling_disk.h"
#include <pthread.h>

typedef struct desk {
	wk_io *io;
	char path[64];
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
} desk;

static void open_desk(desk *d) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.sync_method = WK_SYNC_DSYNC;
	options.deferred_delay_ns = 60000000000u;
	wk_error error = {0};
	d->io = stalling_disk();
	strcpy(d->path, temporary());
	check_ok(wk_open_on(d->io, d->path, &options, &d->ns, &error), &error, "the directory opens");
	d->log = log_named(d->ns, "log");
	d->writer = writer_of(d->log);
	append_one(d->writer);
	nap_ms(300); /* the keeper has prepared its files, the last block is confirmed */
}

static wk_status submit(desk *d, uint32_t durability, uint64_t *ticket) {
	wk_append_options options;
	wk_append_options_init(&options);
	options.durability = durability;
	return wk_writer_submit(d->writer, "record", 6, &options, NULL, ticket, NULL);
}

/* The engine must stay, as its write may still land; so the desk is left as it is. */
static void close_in_vain(desk *d) {
	wk_error error = {0};
	uint64_t begin = now_ms();
	CHECK_EQ(wk_close(d->ns, 300000000, &error), WK_TIMEOUT);
	CHECK(now_ms() - begin >= 250);
	CHECK(now_ms() - begin < 5000);
	CHECK(strncmp(error.text, "closing ", 8) == 0);
	CHECK(strstr(error.text, "stays locked until this process ends") != NULL);
	CHECK_EQ(error.outcome_unknown, strstr(error.text, "everything appended is durable") == NULL);
	atomic_store(&stalled, false);
	nap_ms(200);
	remove_tree(d->path);
}

TEST(closing_answers_in_time_though_a_deferred_append_cannot_be_written) {
	static desk d;
	uint64_t ticket;
	open_desk(&d);
	CHECK_EQ(submit(&d, WK_DEFERRED, &ticket), WK_OK);
	atomic_store(&stalled, true);
	close_in_vain(&d);
}

TEST(closing_answers_in_time_though_background_work_stands_still) {
	static desk d;
	open_desk(&d);
	for (int i = 0; i < 30; i++) /* files are full: footers are to be written, files to be prepared */
		append_one(d.writer);
	atomic_store(&stalled, true);
	uint64_t ticket;
	CHECK_EQ(submit(&d, WK_SYNC, &ticket), WK_OK);
	close_in_vain(&d);
}

TEST(closing_answers_in_time_though_the_superblock_cannot_be_written) {
	static desk d;
	open_desk(&d);
	wk_log_release(d.log);
	CHECK_EQ(wk_writer_close(d.writer, UINT64_MAX, NULL), WK_OK);
	atomic_store(&only_superblock, true);
	atomic_store(&stalled, true);
	close_in_vain(&d);
}

TEST(waiting_for_a_ticket_answers_in_time) {
	static desk d;
	uint64_t ticket;
	wk_error error = {0};
	open_desk(&d);
	atomic_store(&stalled, true);
	CHECK_EQ(submit(&d, WK_SYNC, &ticket), WK_OK);
	CHECK_EQ(wk_namespace_wait(d.ns, ticket, 50000000, &error), WK_TIMEOUT);
	CHECK(error.outcome_unknown);
	atomic_store(&stalled, false);
	CHECK_EQ(wk_namespace_wait(d.ns, ticket, UINT64_MAX, &error), WK_OK);
	close_all(d.ns, d.log, d.writer);
	remove_tree(d.path);
}

static void *end_the_stream(void *context) {
	desk *d = context;
	CHECK_EQ(wk_writer_end_of_stream(d->writer, NULL), WK_OK);
	return NULL;
}

TEST(a_follower_is_not_told_of_the_end_before_it_got_the_last_record) {
	static desk d;
	uint64_t ticket;
	wk_error error = {0};
	wk_read_options options;
	wk_read_options_init(&options);
	options.follow = true;
	wk_reader *reader = NULL;
	wk_batch *batch;
	size_t count;
	pthread_t thread;
	open_desk(&d);
	check_ok(wk_reader_open(d.log, &options, &reader, &error), &error, "the reader opens");
	CHECK_EQ(wk_reader_next(reader, 10, 1 << 20, 0, &batch, &error), WK_OK);
	wk_batch_release(batch);
	atomic_store(&stalled, true);
	CHECK_EQ(submit(&d, WK_SYNC, &ticket), WK_OK);
	nap_ms(50); /* its block is on its way */
	CHECK_EQ(pthread_create(&thread, NULL, end_the_stream, &d), 0);
	nap_ms(50);
	CHECK_EQ(wk_reader_next(reader, 10, 1 << 20, 100000000, &batch, &error), WK_TIMEOUT);
	atomic_store(&stalled, false);
	CHECK_EQ(wk_reader_next(reader, 10, 1 << 20, UINT64_MAX, &batch, &error), WK_OK);
	wk_batch_records(batch, &count);
	CHECK_EQ(count, 1);
	wk_batch_release(batch);
	CHECK_EQ(wk_reader_next(reader, 10, 1 << 20, UINT64_MAX, &batch, &error), WK_END);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	wk_reader_release(reader);
	close_all(d.ns, d.log, d.writer);
	remove_tree(d.path);
}

/* A segment is completed when the record that says so is accepted; its last entries may still be on their way. */
TEST(finding_does_not_wait_for_the_disk) {
	static desk d;
	wk_error error = {0};
	wk_log_options options;
	wk_log_options_init(&options);
	options.segment_bytes = 12; /* two records */
	wk_position at;
	uint64_t ticket;
	open_desk(&d);
	wk_writer_close(d.writer, UINT64_MAX, NULL);
	wk_log_release(d.log);
	check_ok(wk_log_open(d.ns, "short-segments", 14, true, &options, &d.log, &error), &error, "the log opens");
	d.writer = writer_of(d.log);
	CHECK_EQ(submit(&d, WK_SYNC, &ticket), WK_OK);
	CHECK_EQ(wk_namespace_wait(d.ns, ticket, UINT64_MAX, &error), WK_OK);
	atomic_store(&stalled, true);
	CHECK_EQ(submit(&d, WK_SYNC, &ticket), WK_OK);
	nap_ms(50); /* its block is on its way */
	CHECK_EQ(submit(&d, WK_SYNC, &ticket), WK_OK);
	CHECK_EQ(wk_log_find(d.log, WK_FIND_SEQUENCE_ID, 1, NULL, &at, &error), WK_OK);
	CHECK_EQ(at.sequence_id, 1); /* where the log ends for readers */
	CHECK_EQ(at.txid, -1);
	atomic_store(&stalled, false);
	CHECK_EQ(wk_namespace_wait(d.ns, ticket, UINT64_MAX, &error), WK_OK);
	CHECK_EQ(wk_log_find(d.log, WK_FIND_SEQUENCE_ID, 2, NULL, &at, &error), WK_OK);
	CHECK_EQ(at.sequence_id, 2);
	close_all(d.ns, d.log, d.writer);
	remove_tree(d.path);
}

/* ---- what the catalogue says (a change is applied when it is accepted, and told when it is durable) ---- */

typedef struct asked {
	desk *d;
	const char *name; /* of a log */
	wk_log *log;      /* opened */
	wk_position at;   /* of a cursor */
	wk_status status;
	_Atomic bool answered;
} asked;

static void *create_log(void *context) {
	asked *a = context;
	a->status = wk_log_open(a->d->ns, a->name, strlen(a->name), true, NULL, &a->log, NULL);
	atomic_store(&a->answered, true);
	return NULL;
}

static void *open_log(void *context) {
	asked *a = context;
	a->status = wk_log_open(a->d->ns, a->name, strlen(a->name), false, NULL, &a->log, NULL);
	atomic_store(&a->answered, true);
	return NULL;
}

static void *delete_log(void *context) {
	asked *a = context;
	a->status = wk_log_delete(a->d->ns, a->name, strlen(a->name), NULL);
	atomic_store(&a->answered, true);
	return NULL;
}

static void *append_to_it(void *context) {
	asked *a = context;
	a->status = wk_writer_append(a->d->writer, "x", 1, NULL, NULL, NULL);
	atomic_store(&a->answered, true);
	return NULL;
}

static void *list_logs(void *context) {
	asked *a = context;
	char *names = NULL;
	size_t size;
	uint64_t count;
	a->status = wk_log_names(a->d->ns, "", 0, &names, &size, &count, NULL);
	a->at.sequence_id = (int64_t)count;
	wk_free(names);
	atomic_store(&a->answered, true);
	return NULL;
}

static void *set_cursor(void *context) {
	asked *a = context;
	a->status = wk_cursor_set(a->d->log, "here", 4, &a->at, NULL);
	atomic_store(&a->answered, true);
	return NULL;
}

static void *get_cursor(void *context) {
	asked *a = context;
	a->status = wk_cursor_get(a->d->log, "here", 4, &a->at, NULL);
	atomic_store(&a->answered, true);
	return NULL;
}

static void *delete_cursor(void *context) {
	asked *a = context;
	a->status = wk_cursor_delete(a->d->log, "here", 4, NULL);
	atomic_store(&a->answered, true);
	return NULL;
}

/* While the change is not durable the question is not answered. Both answers are there when this returns. */
static void ask_during(void *(*change)(void *), asked *changed, void *(*question)(void *), asked *told) {
	pthread_t changing, asking;
	atomic_store(&stalled, true);
	CHECK_EQ(pthread_create(&changing, NULL, change, changed), 0);
	until_a_change_is_on_its_way(changed->d->ns);
	CHECK_EQ(pthread_create(&asking, NULL, question, told), 0);
	nap_ms(50);
	CHECK(!atomic_load(&changed->answered));
	CHECK(!atomic_load(&told->answered));
	atomic_store(&stalled, false);
	CHECK_EQ(pthread_join(changing, NULL), 0);
	CHECK_EQ(pthread_join(asking, NULL), 0);
	CHECK_EQ(changed->status, WK_OK);
}

TEST(nobody_is_told_of_a_log_or_of_its_end_before_that_is_durable) {
	static desk d;
	open_desk(&d);
	asked made = {.d = &d, .name = "new"}, found = {.d = &d, .name = "new"};
	ask_during(create_log, &made, open_log, &found);
	CHECK_EQ(found.status, WK_OK);
	asked other = {.d = &d, .name = "other"}, listed = {.d = &d};
	ask_during(create_log, &other, list_logs, &listed);
	CHECK_EQ(listed.status, WK_OK);
	CHECK_EQ(listed.at.sequence_id, 3);
	asked gone = {.d = &d, .name = "new"}, missing = {.d = &d, .name = "new"};
	ask_during(delete_log, &gone, open_log, &missing);
	CHECK_EQ(missing.status, WK_NOT_FOUND);
	asked gone_too = {.d = &d, .name = "other"}, not_twice = {.d = &d, .name = "other"};
	ask_during(delete_log, &gone_too, delete_log, &not_twice);
	CHECK_EQ(not_twice.status, WK_NOT_FOUND);
	asked last = {.d = &d, .name = "log"}, refused = {.d = &d};
	ask_during(delete_log, &last, append_to_it, &refused);
	CHECK_EQ(refused.status, WK_DELETED);
	wk_log_release(made.log);
	wk_log_release(found.log);
	wk_log_release(other.log);
	close_all(d.ns, d.log, d.writer);
	remove_tree(d.path);
}

TEST(nobody_is_told_of_a_cursor_or_of_its_end_before_that_is_durable) {
	static desk d;
	open_desk(&d);
	asked set = {.d = &d, .at = {{1, 0, 0}, 0, -1}}, got = {.d = &d};
	ask_during(set_cursor, &set, get_cursor, &got);
	CHECK_EQ(got.status, WK_OK);
	CHECK_EQ(got.at.sequence_id, 0);
	asked moved = {.d = &d, .at = {{1, 0, 1}, 1, -1}}, back = {.d = &d, .at = {{1, 0, 0}, 0, -1}};
	ask_during(set_cursor, &moved, set_cursor, &back);
	CHECK_EQ(back.status, WK_INVALID);
	asked gone = {.d = &d}, missing = {.d = &d};
	ask_during(delete_cursor, &gone, get_cursor, &missing);
	CHECK_EQ(missing.status, WK_NOT_FOUND);
	close_all(d.ns, d.log, d.writer);
	remove_tree(d.path);
}

static void *truncate_log(void *context) {
	asked *a = context;
	a->status = wk_log_truncate(a->d->log, &a->at.dlsn, false, NULL);
	atomic_store(&a->answered, true);
	return NULL;
}

/* A truncation that a cursor holds back names it. */
TEST(a_truncation_tells_of_no_cursor_before_that_is_durable) {
	static desk d;
	open_desk(&d);
	uint64_t ticket;
	wk_error error;
	CHECK_EQ(submit(&d, WK_SYNC, &ticket), WK_OK);
	CHECK_EQ(wk_namespace_wait(d.ns, ticket, UINT64_MAX, &error), WK_OK);
	asked set = {.d = &d, .at = {{1, 0, 0}, 0, -1}}, held = {.d = &d};
	CHECK_EQ(wk_log_find(d.log, WK_FIND_SEQUENCE_ID, 1, NULL, &held.at, NULL), WK_OK);
	ask_during(set_cursor, &set, truncate_log, &held);
	CHECK_EQ(held.status, WK_EXISTS);
	close_all(d.ns, d.log, d.writer);
	remove_tree(d.path);
}

/* Closing in vain leaves the threads that wait for the disk: that is what is tested, and no leak. */
const char *__tsan_default_options(void) __attribute__((visibility("default")));
const char *__tsan_default_options(void) {
	return "report_thread_leaks=0";
}

int main(void) {
	RUN(nobody_is_told_of_a_log_or_of_its_end_before_that_is_durable);
	RUN(nobody_is_told_of_a_cursor_or_of_its_end_before_that_is_durable);
	RUN(a_truncation_tells_of_no_cursor_before_that_is_durable);
	RUN(closing_answers_in_time_though_a_deferred_append_cannot_be_written);
	RUN(closing_answers_in_time_though_background_work_stands_still);
	RUN(closing_answers_in_time_though_the_superblock_cannot_be_written);
	RUN(waiting_for_a_ticket_answers_in_time);
	RUN(finding_does_not_wait_for_the_disk);
	RUN(a_follower_is_not_told_of_the_end_before_it_got_the_last_record);
	return check_done();
}
